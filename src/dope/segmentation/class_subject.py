"""What of an image of several classes is looked at, in memory or box by box, and the energies that are made of it.

    scribbles → sample of pixels → colours of each class → costs ┐
    probability of each class              → c(l) = -log p(l)    ┴→ lam → seeds in them → LabelEnergy (Potts)

Of two classes costs differ as the unary of two labels does, lam is the same, and so are the labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, Mask, check_finite
from dope.cancellation import check_cancelled
from dope.errors import InputError
from dope.label_energy import LabelEnergy
from dope.models import ClassColors, ClassModel, ClassSample, automatic_model, kernel_lam
from dope.models.channels import as_channels
from dope.models.model import Model
from dope.models.smoothing import cost_margins, mean_lam_total
from dope.pairs import GridPairs, strips
from dope.partition import Partition
from dope.planning import Plan
from dope.protocols import Executor
from dope.result import Result
from dope.rounding import nearest
from dope.run import Conductor
from dope.scribbles import UNLABELED
from dope.segmentation.boxes import corner_of, moved, same_numbers, whole_of
from dope.segmentation.class_readings import ColorCosts, SeededCosts, SoftCosts, fix_classes, read_costs
from dope.segmentation.classes import Classes, ClassEvidence
from dope.segmentation.frame import Frame, FramedTarget
from dope.segmentation.sampling import Census, Scene, class_sample_in_boxes
from dope.segmentation.seed_map import SeedMap
from dope.segmentation.subject import Settings, in_place, same_sites, seed_strength
from dope.stored import Stored, StoredPixels
from dope.sums import exact_sum

# Costs that are looked at, or made, in one go.
_STRIP_COSTS = 1 << 22


@dataclass(frozen=True, eq=False)
class ClassSubject:
    """The pixels and seeds of a frame. With `in_boxes` they stay where they lie, and are read where blocks run."""

    evidence: ClassEvidence
    frame: Frame
    settings: Settings
    pixels: Stored
    mask: Stored | None
    partition: Partition
    executor: Executor
    in_boxes: bool

    @classmethod
    def of(
        cls,
        evidence: ClassEvidence,
        frame: Frame,
        settings: Settings,
        partition: Partition,
        executor: Executor,
        *,
        in_boxes: bool,
    ) -> ClassSubject:
        pixels, mask = frame.stored_pixels, frame.stored_mask
        if not in_boxes:
            features, inside = frame.features(), frame.inside()
            axes, corner = len(frame.sides), corner_of(frame.where)
            channels = axes if features.ndim > axes else None
            pixels = Stored("image", features, channels=channels, corner=corner)
            mask = None if inside is None else Stored("mask", inside)
            check_finite("image", features, box=frame.where, inside=inside)
        return cls(evidence, frame, settings, pixels, mask, partition, executor, in_boxes)

    @property
    def classes(self) -> Classes:
        return self.evidence.classes

    @cached_property
    def seeds(self) -> SeedMap | None:
        return self.evidence.seed_map(self.frame.shape, self.frame.where, self.frame.mask)

    @cached_property
    def _seeds_here(self) -> npt.NDArray[Any] | None:
        """In memory."""
        return None if self.seeds is None else self.seeds.at(whole_of(self.frame.sides))

    @cached_property
    def _census(self) -> Census:
        assert self.seeds is not None
        kinds = tuple(range(self.classes.count))
        return Census.taken(Scene(self.pixels, self.seeds), self.partition, self.executor, kinds)

    # Costs.

    def unary_after(self, start: Result | None) -> SoftCosts | ColorCosts:
        """As `unary`, with the colours that were learnt for an earlier result, if they were of the same pixels."""
        learnt = getattr(start, "_learnt", None)
        if isinstance(learnt, LearntClasses) and self.evidence.learnt and learnt.of(self):
            return ColorCosts(self.pixels, learnt.colors, self.mask, self.classes.count)
        return self.unary()

    def remember(self, unary: SoftCosts | ColorCosts) -> LearntClasses | None:
        """What a later subject needs to go on with these colours."""
        if not isinstance(unary, ColorCosts):
            return None
        return LearntClasses(unary.colors, self.classes.numbers, self.pixels, self.mask, self.settings.model)

    def unary(self) -> SoftCosts | ColorCosts:
        """The costs, which are read box by box."""
        if not self.evidence.learnt:
            return SoftCosts(self.frame.of(self.evidence.stored_probability), self.mask)
        model = class_model(self._model)
        sample = self._sample(model.looks_around)
        return ColorCosts(self.pixels, model.learn_classes(sample), self.mask, self.classes.count)

    @property
    def _model(self) -> Model:
        shown: Any = StoredPixels(self.pixels)
        return self.settings.model or automatic_model(shown, self.frame.sides)

    def _sample(self, looks_around: bool) -> ClassSample:
        assert self.seeds is not None
        labels = range(self.classes.count)
        if self.in_boxes:
            self._check_strokes(lambda label: self._census.number(label) > 0)
            scene = Scene(self.pixels, self.seeds)
            return class_sample_in_boxes(scene, self.partition, self.executor, labels, looks_around=looks_around)
        seeds, features = self._seeds_here, self.pixels.at(whole_of(self.frame.sides))
        assert seeds is not None
        self._check_strokes(lambda label: bool((seeds == label).any()))
        rows = as_channels(features, seeds.shape)
        if self.mask is not None:
            inside = self.mask.array.reshape(-1)
            rows, seeds = rows[inside], seeds.reshape(-1)[inside]
        return ClassSample.of(rows, seeds, labels, looks_around=looks_around)

    def _check_strokes(self, there: Any) -> None:
        """Inside a mask there may be fewer classes than were drawn."""
        for label, number in enumerate(self.classes.numbers):
            if not there(label):
                named = self.classes.by_number[number]
                name = f"class {number}" + (f" ({named})" if named != str(number) else "")
                raise InputError(
                    f"no stroke of {name} lies inside the mask; expected at least one of each class there."
                )

    # Energies.

    def energy(self, unary: SoftCosts | ColorCosts) -> LabelEnergy:
        return self._energy_in_boxes(unary) if self.in_boxes else self._energy_in_memory(unary)

    def _energy_in_memory(self, unary: SoftCosts | ColorCosts) -> LabelEnergy:
        costs = read_costs(unary, self._strips)
        inside: Mask | None = None if self.mask is None else self.mask.array
        parts = ((costs[box], None if inside is None else inside[box]) for box in self._strips)
        weighed = Weighed.together(Weighed.of(*part, margins=self._by_margins) for part in parts)
        plain = self._grid(costs, self._lam(weighed), self.pixels.array, inside)
        seeds = self._seeds_here
        if seeds is None or not (seeds != UNLABELED).any():
            return plain
        fix_classes(costs, seeds, self._strength(plain, weighed))
        return plain

    def _energy_in_boxes(self, unary: SoftCosts | ColorCosts) -> LabelEnergy:
        recipes = [WeighRecipe(unary, self.mask, _box(block.where)) for block in self.partition.blocks]
        with self.executor.gather(recipes) as crew:
            weighed = Weighed.together(crew.ask([Weigh(self._by_margins)] * len(recipes)))
        plain = self._grid(unary, self._lam(weighed), self.pixels, self.mask)
        if self.seeds is None:
            return plain
        seeded = SeededCosts(unary, self.seeds, self._strength(plain, weighed))
        return self._grid(seeded, self._lam(weighed), self.pixels, self.mask)

    def _strength(self, plain: LabelEnergy, weighed: Weighed) -> float:
        assert isinstance(plain.pairs, GridPairs)
        return seed_strength(plain.pairs.strength, weighed.largest)

    def _grid(self, costs: Any, lam: float, features: Any, mask: Any) -> LabelEnergy:
        settings = self.settings
        return LabelEnergy.grid(
            costs,
            lam=lam,
            kernel=settings.kernel,
            features=features,
            beta=settings.beta,
            spacing=settings.spacing,
            mask=mask,
        )

    @property
    def _by_margins(self) -> bool:
        return self.settings.lam is None and self.evidence.learnt

    def _lam(self, weighed: Weighed) -> float:
        """As for two labels: by the mean margin of colours, or by the largest difference of a probability map."""
        settings = self.settings
        if settings.lam is not None:
            return settings.lam
        total = mean_lam_total(nearest(weighed.margins), weighed.sites) if self._by_margins else 2.0 * weighed.widest
        return kernel_lam(settings.kernel, len(self.frame.sides), total=total, spacing=settings.spacing)

    @property
    def _strips(self) -> list[Box]:
        return list(strips(self.frame.sides, max(1, _STRIP_COSTS // self.classes.count)))

    # Labels.

    def solve(
        self, plan: Plan, energy: LabelEnergy, conductor: Conductor, *, estimate: int, start: Result | None
    ) -> tuple[Result, Any]:
        """What the plan finds, and its labels, which are places of classes; None where they were written box by box."""
        begin = None if start is None else self.classes.places(np.asarray(start.labels))
        here = plan
        if plan.in_boxes and plan.out is not None:
            here = replace(plan, out=NumberedTarget(plan.out, self.classes, self.mask))
        result = here.on(energy, start=begin).conducted_by(conductor, estimate=estimate)
        return result, result._labels

    def finished(self, result: Result, energy: LabelEnergy, labels: Any, out: Any) -> Result:
        """The result with the numbers of classes, in place; 0 where a site takes no part."""
        del energy
        classes, counts = self.classes, result._counts
        result = replace(
            result, label_count=classes.label_count, label_type=classes.label_type, classes=classes.by_number
        )
        if labels is not None:
            numbers = classes.numbered(labels)
            if self.mask is not None:
                numbers[self.mask.at(whole_of(self.frame.sides)) == 0] = 0
            whole = in_place(numbers, self.frame)
            if out is None:
                return replace(result, _labels=whole, out=None, _counts=None)
            out[whole_of(self.frame.shape)] = whole
            return replace(result, _labels=None, out=out, _counts=None)
        if out is not None and not self.frame.is_whole:
            FramedTarget(out, self.frame.where).clear_around(self.frame.shape)
        return replace(result, out=out, _counts=None if counts is None else self._counts_of_image(counts))

    def _counts_of_image(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """Sites that take no part have the first place while it runs, and no number in the end."""
        left_out = 0
        if self.mask is not None:
            left_out = sum(int(np.count_nonzero(self.mask.at(box) == 0)) for box in strips(self.frame.sides))
        found = [0] * self.classes.label_count
        for place, number in enumerate(self.classes.numbers):
            found[number] += counts[place] - (left_out if place == 0 else 0)
        found[0] += math.prod(self.frame.shape) - sum(counts) + left_out
        return tuple(found)

    @staticmethod
    def same(labels: Any, others: Any) -> bool:
        return np.array_equal(labels, others)

    def reestimate(self, labels: Any) -> Any:
        del labels
        raise InputError("rounds are for foreground and background; expected rounds=0 of several classes.")


@dataclass(frozen=True, eq=False)
class NumberedTarget:
    """A place for the numbers of classes, as whoever knows only their places sees it."""

    target: Any
    classes: Classes
    mask: Stored | None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.target.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.classes.label_type

    @property
    def anywhere(self) -> bool:
        return bool(getattr(self.target, "anywhere", False))

    def __setitem__(self, box: Box, labels: npt.NDArray[Any]) -> None:
        numbers = self.classes.numbered(labels)
        if self.mask is not None:
            numbers[self.mask.at(box) == 0] = 0
        self.target[box] = numbers


@dataclass(frozen=True, eq=False)
class LearntClasses:
    """Colours that were learnt, and the classes and pixels that they are of."""

    colors: ClassColors
    numbers: tuple[int, ...]
    pixels: Stored
    mask: Stored | None
    model: Model | None

    def of(self, subject: ClassSubject) -> bool:
        """Whether they are of the same pixels and classes, by the same model."""
        return (
            self.numbers == subject.classes.numbers
            and self.model == subject.settings.model
            and same_sites(self.mask, subject.mask)
            and same_numbers(self.pixels, subject.pixels)
        )


def class_model(model: object) -> ClassModel:
    """The model, if it can learn several classes."""
    if not isinstance(model, ClassModel):
        raise InputError(
            f"model is {model!r}, which knows foreground and background; expected one with learn_classes(sample) and "
            f"looks_around for several classes, such as dope.models.ColorClusters()."
        )
    return model


@dataclass(frozen=True)
class Weigh:
    """Asks how large the costs of a block are, with or without margins between the best two classes."""

    doing: ClassVar[str] = "measure"
    margins: bool


@dataclass(frozen=True)
class Weighed:
    """Of the sites that take part: the largest cost, the widest range of a site's costs, and the sum of margins."""

    sites: int
    largest: float
    widest: float
    margins: Fraction

    @classmethod
    def of(cls, costs: npt.NDArray[Any], inside: Mask | None, *, margins: bool) -> Weighed:
        check_cancelled()
        rows = costs.reshape(-1, costs.shape[-1]) if inside is None else costs[inside]
        if not len(rows):
            return cls(0, 0.0, 0.0, Fraction(0))
        high = rows.max(axis=1)
        widest = float((high - rows.min(axis=1)).max())
        total = exact_sum(np.ascontiguousarray(cost_margins(rows))) if margins else Fraction(0)
        return cls(len(rows), float(high.max()), widest, total)

    @classmethod
    def together(cls, parts: Iterable[Weighed]) -> Weighed:
        found = list(parts)
        return cls(
            sum(one.sites for one in found),
            max(one.largest for one in found),
            max(one.widest for one in found),
            sum((one.margins for one in found), Fraction(0)),
        )


@dataclass(frozen=True, eq=False)
class WeighRecipe:
    """A block of costs, told by its place."""

    costs: SoftCosts | ColorCosts
    mask: Stored | None
    where: Box

    def open(self) -> WeighWorker:
        return WeighWorker(self.costs, self.mask, self.where)

    def __reduce__(self) -> tuple[type[WeighRecipe], tuple[Any, ...]]:
        mask = self.mask and self.mask.excerpt(self.where)
        return WeighRecipe, (self.costs.excerpt(self.where), mask, self.where)


class WeighWorker:
    """Reads its box, and keeps nothing."""

    def __init__(self, costs: SoftCosts | ColorCosts, mask: Stored | None, box: Box) -> None:
        self._costs, self._mask, self._box = costs, mask, box

    def __call__(self, ask: Weigh) -> Weighed:
        sides = tuple(s.stop - s.start for s in self._box)
        found = []
        for part in strips(sides, max(1, _STRIP_COSTS // self._costs.label_count)):
            box = moved(part, corner_of(self._box))
            inside = None if self._mask is None else self._mask.at(box) != 0
            found.append(Weighed.of(self._costs.at(box), inside, margins=ask.margins))
        return Weighed.together(found)


def _box(where: Any) -> Box:
    assert isinstance(where, tuple)
    return where
