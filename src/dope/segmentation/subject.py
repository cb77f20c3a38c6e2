"""What of an image is in memory, and the energies that are made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

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
from dope.scribbles import BACKGROUND, FOREGROUND, NAMES, UNLABELED, Scribbles, Seeds, as_scribbles
from dope.segmentation.evidence import Evidence
from dope.segmentation.frame import Frame

# What a stroke may cost: float32 holds it, and float64 the sum of all.
MOST_STRENGTH = 1e30


@dataclass(frozen=True, eq=False)
class Subject:
    """The pixels and seeds of a frame, in memory: unaries and energies are made of them."""

    evidence: Evidence
    frame: Frame
    features: npt.NDArray[Any]
    inside: Mask | None
    seeds: Seeds | None
    given_lam: float | None
    kernel: Kernel
    beta: float | None
    spacing: Sequence[float] | None
    given_model: Model | None
    connected: bool

    def __post_init__(self) -> None:
        check_finite("image", self.features, box=self.frame.where, inside=self.inside)
        if self.seeds is not None and self.evidence.learnt and not self.evidence.outlined:
            for label, name in NAMES.items():
                if not (self.seeds == label).any():
                    raise InputError(
                        f"no {name} stroke lies inside the mask; expected at least one of each kind there."
                    )

    def unary_after(self, start: object) -> Reals:
        """As `unary`, with the colours that were learnt for an earlier result, if they were of the same pixels."""
        learnt = getattr(start, "_learnt", None)
        return learnt.unary if isinstance(learnt, Learnt) and learnt.of(self) else self.unary()

    def remember(self, unary: Reals) -> Learnt | None:
        """What a later subject needs to go on with these colours."""
        if not self.evidence.learnt or self.evidence.outlined:
            return None
        return Learnt(unary, self.features, self.inside, self.given_model)

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
        return self.given_model or automatic_model(self.features, self.seeds.shape)

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

    def connect(self, labels: Labels) -> Labels:
        """The labels, or what of them is connected to a stroke, if that is asked for."""
        if not self.connected or self.seeds is None:
            return labels
        return keep_connected(labels.astype(np.bool_, copy=False), self.seeds)

    def lam(self, unary: Reals) -> float:
        if self.given_lam is not None:
            return self.given_lam
        if self.evidence.probability is not None:
            # Most sites of such a map are sure, so that their mean says little: by the largest, as in the paper.
            largest = float(np.abs(self._part(unary)).max())
            return kernel_lam(self.kernel, unary.ndim, total=2.0 * largest, spacing=self.spacing)
        return automatic_lam(self._part(unary), self.kernel, dimensions=unary.ndim, spacing=self.spacing)

    def energy(self, unary: Reals) -> Energy:
        plain = Energy.grid(
            unary,
            lam=self.lam(unary),
            kernel=self.kernel,
            features=self.features,
            beta=self.beta,
            spacing=self.spacing,
            mask=self.inside,
        )
        if self.seeds is None or not (self.seeds != UNLABELED).any():
            return plain
        # More than a site can gain by any label: its own price, and all its pairs.
        strength = 1.0 + plain.pairs.strength + float(np.abs(plain.unary).max())
        if strength > MOST_STRENGTH:
            raise InputError(f"lam or the unaries add up to {strength:.3g}; strokes take up to {MOST_STRENGTH:g}.")
        # Strokes that are kept, as all are, cost nothing: energies and gaps are those of the other sites.
        constant = strength * np.count_nonzero(self.seeds == FOREGROUND)
        return replace(plain, unary=fix_seeds(plain.unary, self.seeds, strength), constant=constant)


@dataclass(frozen=True, eq=False)
class Learnt:
    """Unaries from colours that were learnt, and the pixels that they are of."""

    unary: Reals
    features: npt.NDArray[Any]
    inside: Mask | None
    model: Model | None

    def of(self, subject: Subject) -> bool:
        """Whether they are of the same pixels, by the same model."""
        return (
            subject.evidence.learnt
            and not subject.evidence.outlined
            and self.model == subject.given_model
            and _same(self.inside, subject.inside)
            and _same(self.features, subject.features)
        )


def _same(one: npt.NDArray[Any] | None, other: npt.NDArray[Any] | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))
