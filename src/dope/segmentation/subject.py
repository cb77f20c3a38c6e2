"""What of an image is in memory, and the energies that are made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dope.arrays import Labels, Mask, Reals, check_finite
from dope.energy import Energy
from dope.errors import InputError
from dope.models import (
    Model,
    automatic_lam,
    automatic_model,
    kernel_lam,
    reestimated,
)
from dope.models.connectivity import keep_connected
from dope.models.seeds import fix_seeds
from dope.pairs import Kernel
from dope.planning import Plan
from dope.result import Result
from dope.run import Conductor
from dope.scribbles import BACKGROUND, FOREGROUND, UNLABELED, Scribbles, Seeds, as_scribbles
from dope.segmentation.boxes import read_boxes, same_numbers, whole_of
from dope.segmentation.evidence import Evidence
from dope.segmentation.frame import Frame
from dope.stored import Readable, Stored

# What a stroke may cost: float32 holds it, and float64 the sum of all.
MOST_STRENGTH = 1e30


@dataclass(frozen=True, eq=False)
class Settings:
    """What a caller says about the energy of a segmentation; None where it follows from the image."""

    lam: float | None
    kernel: Kernel
    beta: float | None
    spacing: Sequence[float] | None
    model: Model | None
    connected: bool


class AnySubject(Protocol):
    """What a segmentation asks of its subject, in memory or in boxes; unaries and labels are of its own kind."""

    def unary(self) -> Any: ...

    def unary_after(self, start: Result | None) -> Any: ...

    def reestimate(self, labels: Any) -> Any: ...

    def remember(self, unary: Any) -> object | None: ...

    def energy(self, unary: Any) -> Any: ...

    def solve(
        self, plan: Plan, energy: Any, conductor: Conductor, *, estimate: int, start: Result | None
    ) -> tuple[Result, Any]: ...

    def same(self, labels: Any, others: Any) -> bool: ...

    def finished(self, result: Result, energy: Any, labels: Any, out: Any) -> Result: ...


def seed_strength(pairs_strength: float, largest: float) -> float:
    """More than a site can gain by any label: its own price, and all its pairs."""
    strength = 1.0 + pairs_strength + largest
    if strength > MOST_STRENGTH:
        raise InputError(f"lam or the unaries add up to {strength:.3g}; strokes take up to {MOST_STRENGTH:g}.")
    return strength


@dataclass(frozen=True, eq=False)
class Subject:
    """The pixels and seeds of a frame, in memory: unaries and energies are made of them."""

    evidence: Evidence
    frame: Frame
    features: npt.NDArray[Any]
    inside: Mask | None
    seeds: Seeds | None
    settings: Settings

    @classmethod
    def of(cls, evidence: Evidence, frame: Frame, settings: Settings) -> Subject:
        seeds = evidence.seed_map(frame.shape, frame.where, frame.mask)
        drawn: Any = None if seeds is None else seeds.at(whole_of(frame.sides))
        return cls(evidence, frame, frame.features(), frame.inside(), drawn, settings)

    def __post_init__(self) -> None:
        check_finite("image", self.features, box=self.frame.where, inside=self.inside)
        seeds = self.seeds
        if seeds is not None:
            self.evidence.check_kinds(self.frame.mask is not None, lambda label: bool((seeds == label).any()))

    # Unaries.

    def unary_after(self, start: Result | None) -> Reals:
        """As `unary`, with the colours that were learnt for an earlier result, if they were of the same pixels."""
        learnt = getattr(start, "_learnt", None)
        if isinstance(learnt, Learnt) and learnt.of(self.evidence, self.settings.model, *self._stored):
            return np.asarray(learnt.unary.at(whole_of(self.frame.sides)))
        return self.unary()

    def remember(self, unary: Reals) -> Learnt | None:
        """What a later subject needs to go on with these colours."""
        if not self.evidence.learnt or self.evidence.outlined:
            return None
        return Learnt(Stored("unary", unary), *self._stored, self.settings.model)

    @property
    def _stored(self) -> tuple[Stored, Stored | None]:
        axes = len(self.frame.sides)
        pixels = Stored("image", self.features, channels=axes if self.features.ndim > axes else None)
        return pixels, None if self.inside is None else Stored("mask", self.inside)

    def unary(self) -> Reals:
        if not self.evidence.learnt:
            return self.evidence.unary_at(self.frame.where, self.inside)
        assert self.seeds is not None
        if not (self.seeds == FOREGROUND).any():  # a rectangle: for a start, all that may be foreground is
            return self.reestimate(self.seeds != BACKGROUND)
        return self._spread(self.model.unary(self._part(self.features), self._scribbles()))

    @property
    def model(self) -> Model:
        assert self.seeds is not None
        return self.settings.model or automatic_model(self.features, self.seeds.shape)

    def reestimate(self, labels: Labels) -> Reals:
        assert self.seeds is not None
        pixels, seeds = self._part(self.features), self._scribbles()
        return self._spread(reestimated(self.model, pixels, seeds=seeds, labels=self._part(labels)))

    def _scribbles(self) -> Scribbles:
        """What models see of the seeds: as a user draws them."""
        assert self.seeds is not None
        return as_scribbles(self._part(self.seeds))

    def _part(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What models see: the sites of the region, one after another; where there is none, all as they lie."""
        return array if self.inside is None else array[self.inside]

    def _spread(self, unary: Reals) -> Reals:
        """What models found, at its sites."""
        if self.inside is None:
            return unary
        whole = np.zeros(self.inside.shape, dtype=unary.dtype)
        whole[self.inside] = unary
        return whole

    # Energies.

    def lam(self, unary: Reals) -> float:
        settings = self.settings
        if settings.lam is not None:
            return settings.lam
        if self.evidence.probability is not None:
            # Most sites of such a map are sure, so that their mean says little: by the largest, as in the paper.
            largest = float(np.abs(self._part(unary)).max())
            return kernel_lam(settings.kernel, unary.ndim, total=2.0 * largest, spacing=settings.spacing)
        return automatic_lam(self._part(unary), settings.kernel, dimensions=unary.ndim, spacing=settings.spacing)

    def energy(self, unary: Reals) -> Energy:
        plain = Energy.grid(
            unary,
            lam=self.lam(unary),
            kernel=self.settings.kernel,
            features=self.features,
            beta=self.settings.beta,
            spacing=self.settings.spacing,
            mask=self.inside,
        )
        if self.seeds is None or not (self.seeds != UNLABELED).any():
            return plain
        strength = seed_strength(plain.pairs.strength, float(np.abs(plain.unary).max()))
        # Strokes that are kept, as all are, cost nothing: energies and gaps are those of the other sites.
        constant = strength * int(np.count_nonzero(self.seeds == FOREGROUND))
        return replace(plain, unary=fix_seeds(plain.unary, self.seeds, strength), constant=constant)

    # Labels.

    def solve(
        self, plan: Plan, energy: Energy, conductor: Conductor, *, estimate: int, start: Result | None
    ) -> tuple[Result, Labels]:
        """What the plan finds, and its labels, or what of them is connected to a stroke, if that is asked for."""
        result = plan.on(energy, start=start).conducted_by(conductor, estimate=estimate)
        labels = result.labels
        if self.settings.connected and self.seeds is not None:
            labels = keep_connected(labels.astype(np.bool_, copy=False), self.seeds)
            if self.inside is not None:
                labels &= self.inside  # what is shut in out there is no foreground
        return result, labels

    @staticmethod
    def same(labels: Labels, others: Labels) -> bool:
        return np.array_equal(labels, others)

    def finished(self, result: Result, energy: Energy, labels: Labels, out: Any) -> Result:
        """The result with these labels, which are not what was minimized any more as far as they differ, in place."""
        if not np.array_equal(labels, result.labels):
            result = replace(result, energy=energy(labels), exact=False, proved=None)
        whole = in_place(labels, self.frame)
        if out is None:
            return replace(result, _labels=whole)
        out[whole_of(self.frame.shape)] = np.asarray(whole)
        return replace(result, _labels=None, out=out)


def in_place(labels: Labels, frame: Frame) -> Labels:
    """The labels of a frame in an array of the image's shape."""
    if frame.is_whole:
        return labels
    whole = np.zeros(frame.shape, dtype=labels.dtype)
    whole[frame.where] = labels
    return whole


@dataclass(frozen=True, eq=False)
class Learnt:
    """Unaries from colours that were learnt, and the pixels that they are of."""

    unary: Readable
    pixels: Stored
    mask: Stored | None
    model: Model | None

    def of(self, evidence: Evidence, model: Model | None, pixels: Stored, mask: Stored | None) -> bool:
        """Whether they are of the same pixels, by the same model."""
        return (
            evidence.learnt
            and not evidence.outlined
            and self.model == model
            and same_sites(self.mask, mask)
            and same_numbers(self.pixels, pixels)
        )


def same_sites(one: Stored | None, other: Stored | None) -> bool:
    """Whether the same sites take part; without a mask all do."""
    if one is None or other is None:
        only = other if one is None else one
        return only is None or all(bool((values != 0).all()) for _, values in read_boxes(only))
    return one.shape == other.shape and all(
        np.array_equal(values != 0, other.at(box) != 0) for box, values in read_boxes(one)
    )
