"""Unaries that are read box by box: from a probability map, and with scribbles that decide where they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, Reals
from dope.models.probability import probability_unary_at
from dope.models.seeds import fix_seeds
from dope.stored import Readable, Stored


@dataclass(frozen=True, eq=False)
class SoftUnary:
    """Unaries from a probability map, which may hold anything outside the mask."""

    probability: Stored
    mask: Stored | None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.probability.shape

    @property
    def site_bytes(self) -> int:
        return 4 + self.probability.site_bytes

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return self.probability.chunks

    def at(self, box: Box) -> Reals:
        soft = self.probability.at(box)
        if self.mask is not None:
            soft = np.where(self.mask.at(box) != 0, soft, soft.dtype.type(0))
        return probability_unary_at(box, soft)

    def excerpt(self, box: Box) -> SoftUnary:
        return SoftUnary(self.probability.excerpt(box), self.mask and self.mask.excerpt(box))


@dataclass(frozen=True, eq=False)
class SeededUnary:
    """A unary with seeds that decide where they are."""

    unary: Readable
    seeds: Stored
    strength: float

    @property
    def shape(self) -> tuple[int, ...]:
        return self.unary.shape

    @property
    def site_bytes(self) -> int:
        return self.unary.site_bytes + self.seeds.site_bytes

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return self.unary.chunks

    def at(self, box: Box) -> npt.NDArray[Any]:
        return fix_seeds(self.unary.at(box), self.seeds.at(box), self.strength)

    def excerpt(self, box: Box) -> SeededUnary:
        return replace(self, unary=self.unary.excerpt(box), seeds=self.seeds.excerpt(box))
