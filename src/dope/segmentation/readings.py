"""Unaries that are read box by box: of a probability map, of colours, and with seeds that decide where they are."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, Reals, check_finite
from dope.models import Colors
from dope.models.probability import probability_unary_at
from dope.models.seeds import fix_seeds
from dope.segmentation.boxes import sides_of
from dope.stored import Readable, Stored, place_in_whole


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
        return probability_unary_at(place_in_whole(self.probability, box), soft)

    def excerpt(self, box: Box) -> SoftUnary:
        return SoftUnary(self.probability.excerpt(box), self.mask and self.mask.excerpt(box))


@dataclass(frozen=True, eq=False)
class ColorUnary:
    """Unaries of colours that were learnt, 0 outside the mask."""

    pixels: Stored
    colors: Colors
    mask: Stored | None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.pixels.shape

    @property
    def site_bytes(self) -> int:
        return 4 + self.pixels.site_bytes

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return self.pixels.chunks

    def at(self, box: Box) -> Reals:
        pixels, sides = self.pixels.at(box), sides_of(box)
        inside = None if self.mask is None else self.mask.at(box) != 0
        check_finite("image", pixels, box=place_in_whole(self.pixels, box), inside=inside)
        rows = pixels.reshape(math.prod(sides), -1)
        if inside is None:
            return self.colors.unary(rows).reshape(sides)
        unary = np.zeros(sides, dtype=np.float32)
        unary[inside] = self.colors.unary(rows[inside.reshape(-1)])
        return unary

    def excerpt(self, box: Box) -> ColorUnary:
        return replace(self, pixels=self.pixels.excerpt(box), mask=self.mask and self.mask.excerpt(box))


@dataclass(frozen=True, eq=False)
class SeededUnary:
    """A unary with seeds that decide where they are."""

    unary: Readable
    seeds: Readable
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
