"""What of an image is read box by box, where blocks run, and the energies that are made of it.

    seeds → sample of pixels → colours → unary → facts (lam, beta) → seeds in it → Energy

Each step is one look at all boxes, through the executor of the plan. It is what `Subject` is in memory, to the bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dope.arrays import Box, binary_places, most_places
from dope.energy import Energy, Facts
from dope.errors import InputError
from dope.facts import measure_facts
from dope.models import LearningModel, automatic_model, kernel_lam
from dope.models.smoothing import mean_lam_total
from dope.pairs import GridPairs
from dope.partition import Partition
from dope.planning import Plan
from dope.protocols import Executor
from dope.result import Result
from dope.rounding import nearest
from dope.run import Conductor
from dope.scribbles import BACKGROUND, FOREGROUND, UNLABELED
from dope.segmentation.boxes import whole_of
from dope.segmentation.connecting import keep_connected_in_boxes
from dope.segmentation.evidence import Evidence
from dope.segmentation.frame import Frame, FramedTarget
from dope.segmentation.kept_labels import KeptLabels
from dope.segmentation.readings import ColorUnary, SeededUnary, SoftUnary
from dope.segmentation.sampling import Census, Scene, sample_in_boxes
from dope.segmentation.seed_map import SeedMap
from dope.segmentation.subject import Learnt, Settings, in_place, seed_strength
from dope.stored import Readable, Stored, StoredPixels, StoredUnary
from dope.sums import exact_sum


@dataclass(frozen=True, eq=False)
class BoxSubject:
    """The pixels and seeds of a frame, wherever they lie. `kept` says that labels are looked at again when found."""

    evidence: Evidence
    frame: Frame
    settings: Settings
    partition: Partition
    executor: Executor
    kept: bool

    # Unaries.

    def unary_after(self, start: Result | None) -> Readable:
        """As `unary`, with the colours that were learnt for an earlier result, if they were of the same pixels."""
        learnt = getattr(start, "_learnt", None)
        if isinstance(learnt, Learnt) and learnt.of(self.evidence, self.settings.model, self.pixels, self.mask):
            return learnt.unary
        return self.unary()

    def remember(self, unary: Readable) -> Learnt | None:
        """What a later subject needs to go on with these colours."""
        if not self.evidence.learnt or self.evidence.outlined:
            return None
        return Learnt(unary, self.pixels, self.mask, self.settings.model)

    def unary(self) -> Readable:
        if not self.evidence.learnt:
            return given_unary(self.evidence, self.frame)
        self.evidence.check_kinds(self.mask is not None, lambda label: self.census.number(label) > 0)
        # A rectangle: for a start, all that may be foreground is.
        return self._learnt(replace(self.scene, filled=self.census.number(FOREGROUND) == 0))

    def reestimate(self, labels: KeptLabels) -> Readable:
        return self._learnt(replace(self.scene, labels=labels))

    def _learnt(self, scene: Scene) -> ColorUnary:
        shown: Any = StoredPixels(self.pixels)
        model = learning_model(self.settings.model or automatic_model(shown, self.frame.sides))
        sample = sample_in_boxes(scene, self.partition, self.executor, looks_around=model.looks_around)
        return ColorUnary(self.pixels, model.learn(sample), self.mask)

    @cached_property
    def pixels(self) -> Stored:
        return self.frame.stored_pixels

    @cached_property
    def mask(self) -> Stored | None:
        return self.frame.stored_mask

    @cached_property
    def seeds(self) -> SeedMap | None:
        return self.evidence.seed_map(self.frame.shape, self.frame.where, self.frame.mask)

    @cached_property
    def scene(self) -> Scene:
        assert self.seeds is not None
        return Scene(self.pixels, self.seeds)

    @cached_property
    def census(self) -> Census:
        """How many seeds there are, and where."""
        return Census.taken(self.scene, self.partition, self.executor, (FOREGROUND, BACKGROUND))

    # Energies.

    def energy(self, unary: Readable) -> Energy:
        measured = measure_facts(self._grid(unary, 1.0, self.settings.beta), self.partition, self.executor)
        assert measured.facts is not None and isinstance(measured.pairs, GridPairs)
        plain = self._grid(unary, self._lam(measured.facts), measured.pairs.beta)
        return self._seeded(replace(plain, facts=measured.facts), unary)

    def _grid(self, unary: Readable, lam: float, beta: float | None) -> Energy:
        settings = self.settings
        return Energy.grid(
            unary,
            lam=lam,
            kernel=settings.kernel,
            features=self.pixels,
            beta=beta,
            spacing=settings.spacing,
            mask=self.mask,
        )

    def _lam(self, facts: Facts) -> float:
        """As `Subject.lam`, by what one look at all sites found."""
        settings = self.settings
        if settings.lam is not None:
            return settings.lam
        soft = self.evidence.probability is not None
        total = 2.0 * facts.largest if soft else mean_lam_total(facts.total, facts.inside)
        return kernel_lam(settings.kernel, len(self.frame.sides), total=total, spacing=settings.spacing)

    def _seeded(self, plain: Energy, unary: Readable) -> Energy:
        """As `Subject.energy` puts seeds in; facts are those of the unary that has them."""
        facts = plain.facts
        assert facts is not None
        if self.seeds is None or not (number := sum(map(self.census.number, (FOREGROUND, BACKGROUND)))):
            return plain
        largest = facts.largest or float(facts.inside < facts.sites)  # what `Energy.grid` puts outside of a mask
        strength = seed_strength(plain.pairs.strength, largest)
        seeded = SeededUnary(unary, self.seeds, strength)
        sizes = self._weigh_seeds(seeded)
        # As it will be in the unary, which may be float32.
        price = max(one.price for one in sizes)
        total = Fraction(facts.total) - sum((one.replaced for one in sizes), Fraction(0)) + number * Fraction(price)
        more = replace(
            facts,
            largest=max(price, facts.largest),
            total=nearest(total),
            places=most_places([facts.places, binary_places([np.array([price])])]),
            digest=f"{facts.digest}-{self.census.digest}",
        )
        source: Any = StoredUnary(seeded)
        constant = strength * self.census.number(FOREGROUND)
        return replace(plain, unary=source, constant=constant, facts=more)

    def _weigh_seeds(self, unary: SeededUnary) -> list[Weighed]:
        recipes = [SeedRecipe(unary, _box(block.where)) for block in self.partition.blocks]
        some = [self.census.holds(k, FOREGROUND, BACKGROUND) for k in range(len(recipes))]
        with self.executor.gather(recipes) as crew:
            replies: list[Weighed | None] = crew.ask([Weigh() if here else None for here in some])
        return [reply for reply in replies if reply is not None]

    # Labels.

    def solve(
        self, plan: Plan, energy: Energy, conductor: Conductor, *, estimate: int, start: Result | None
    ) -> tuple[Result, KeptLabels | None]:
        """What the plan finds, and its labels, or what of them is connected to a stroke, if that is asked for."""
        del start  # labels proved in boxes follow from the energy alone
        assert self.partition.cuts is not None
        labels = KeptLabels(energy.shape, self.partition.cuts) if self.kept else None
        here = replace(plan, energy=energy, out=plan.out if labels is None else labels)
        if plan.checkpoint is not None and estimate > 1:  # what each estimate finds has a folder of its own
            folder = Path(plan.checkpoint) / f"estimate-{estimate:02}"
            here = replace(here, checkpoint=str(folder), resume=folder.is_dir() and any(folder.iterdir()))
        result = here.conducted_by(conductor, estimate=estimate)
        if labels is not None and self.settings.connected and self.seeds is not None and not conductor.cancelled:
            kinds = [label for label in (FOREGROUND, BACKGROUND) if self.census.number(label)]
            labels = keep_connected_in_boxes(labels, self.seeds, kinds, self.partition, self.executor)
        return result, labels

    @staticmethod
    def same(labels: KeptLabels, others: KeptLabels) -> bool:
        return labels.same_as(others)

    def finished(self, result: Result, energy: Energy, labels: KeptLabels | None, out: Any) -> Result:
        """The result with these labels, which are not what was minimized any more as far as they differ, in place."""
        if labels is not None:
            found = result.out
            if isinstance(found, KeptLabels) and not labels.same_as(found):
                result = replace(result, energy=self._energy_of(energy, labels), exact=False, proved=None)
            if out is None:
                result = replace(result, _labels=labels.at(whole_of(labels.shape)))
            else:
                target = self.frame.target(out)
                for block in self.partition.blocks:
                    target[_box(block.where)] = labels.at(_box(block.where))
            result = replace(result, _counts=(0, labels.ones))
        if out is not None and not self.frame.is_whole:
            FramedTarget(out, self.frame.where).clear_around(self.frame.shape)
        sites, counts = math.prod(self.frame.shape), result._counts
        if result._labels is not None:
            result = replace(result, _labels=in_place(result._labels, self.frame))
        return replace(result, out=out, _counts=None if counts is None else (sites - counts[1], counts[1]))

    def _energy_of(self, energy: Energy, labels: KeptLabels) -> float:
        recipes = [PriceRecipe(energy, labels, _box(block.where)) for block in self.partition.blocks]
        with self.executor.gather(recipes) as crew:
            parts: list[Fraction] = crew.ask([Price()] * len(recipes))
        return nearest(sum(parts, Fraction(energy.constant)))


def given_unary(evidence: Evidence, frame: Frame) -> Readable:
    """What the caller knows beside colours."""
    if evidence.unary is not None:
        return frame.of(Stored.of("unary", evidence.unary))
    return SoftUnary(frame.of(Stored.of("probability", evidence.probability)), frame.stored_mask)


def learning_model(model: object) -> LearningModel:
    """The model, if it can learn from a sample."""
    if not isinstance(model, LearningModel):
        raise InputError(
            f"model is {model!r}, which sees all of an image at once, and this one is read box by box; expected one "
            f"with learn(sample) and looks_around, such as dope.models.ColorClusters(). Or allow more memory, and "
            f"leave out checkpoint, resume, Bracketing() and Dask."
        )
    return model


@dataclass(frozen=True)
class Weigh:
    """Asks what seeds replace in a unary, and with what."""

    doing: ClassVar[str] = "measure"


@dataclass(frozen=True)
class Weighed:
    """The sum of the sizes of unaries under seeds, and the size that seeds put there."""

    replaced: Fraction
    price: float


@dataclass(frozen=True, eq=False)
class SeedRecipe:
    """A block with seeds, told by its place."""

    unary: SeededUnary
    where: Box

    def open(self) -> SeedWorker:
        return SeedWorker(self.unary, self.where)

    def __reduce__(self) -> tuple[type[SeedRecipe], tuple[SeededUnary, Box]]:
        return SeedRecipe, (self.unary.excerpt(self.where), self.where)


class SeedWorker:
    """Reads its box, and keeps nothing."""

    def __init__(self, unary: SeededUnary, box: Box) -> None:
        self._unary, self._box = unary, box

    def __call__(self, ask: Weigh) -> Weighed:
        del ask
        plain = StoredUnary(self._unary.unary)[self._box]
        under = self._unary.seeds.at(self._box) != UNLABELED
        return Weighed(exact_sum(np.abs(plain[under])), float(plain.dtype.type(self._unary.strength)))


@dataclass(frozen=True)
class Price:
    """Asks for a block's part of the energy of labels."""

    doing: ClassVar[str] = "finish"


@dataclass(frozen=True, eq=False)
class PriceRecipe:
    """A block and its labels, told by its place; sent elsewhere it takes along what it needs of both."""

    energy: Energy
    labels: Readable
    where: Box

    def open(self) -> PriceWorker:
        return PriceWorker(self.energy, self.labels, self.where)

    def __reduce__(self) -> tuple[type[PriceRecipe], tuple[Energy, Readable, Box]]:
        region = _around(self.energy, self.where)
        return PriceRecipe, (self.energy.confined_to(region), self.labels.excerpt(region), self.where)


class PriceWorker:
    """Reads its box, and keeps nothing."""

    def __init__(self, energy: Energy, labels: Readable, box: Box) -> None:
        self._energy, self._labels, self._box = energy, labels, box

    def __call__(self, ask: Price) -> Fraction:
        del ask
        return self._energy.exactly_at(self._box, self._labels.at(_around(self._energy, self._box)))


def _around(energy: Energy, box: Box) -> Box:
    assert isinstance(energy.pairs, GridPairs)
    return energy.pairs.around(box)


def _box(where: Any) -> Box:
    assert isinstance(where, tuple)
    return where
