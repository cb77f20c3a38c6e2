"""Costs of classes that are read box by box: of a network's softmax, of colours, and with seeds that decide."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, check_finite
from dope.models import ClassColors
from dope.models.probability import probability_costs_at
from dope.scribbles import UNLABELED
from dope.segmentation.boxes import sides_of
from dope.segmentation.seed_map import SeedMap
from dope.stored import Readable, Stored, place_in_whole

COST_BYTES = 4
"""Of a class at a site."""


@dataclass(frozen=True, eq=False)
class SoftCosts:
    """Costs from a softmax, which may hold anything outside the mask, where all classes cost nothing."""

    probability: Stored
    mask: Stored | None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.probability.shape

    @property
    def label_count(self) -> int:
        assert self.probability.channels is not None
        return int(self.probability.array.shape[self.probability.channels])

    @property
    def site_bytes(self) -> int:
        return COST_BYTES * self.label_count + self.probability.site_bytes

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return self.probability.chunks

    def at(self, box: Box) -> npt.NDArray[np.float32]:
        inside = None if self.mask is None else self.mask.at(box) != 0
        place = place_in_whole(self.probability, box)
        return probability_costs_at(place, self.probability.at(box), inside=inside)

    def excerpt(self, box: Box) -> SoftCosts:
        return SoftCosts(self.probability.excerpt(box), self.mask and self.mask.excerpt(box))


@dataclass(frozen=True, eq=False)
class ColorCosts:
    """Costs of colours that were learnt, 0 outside the mask."""

    pixels: Stored
    colors: ClassColors
    mask: Stored | None
    label_count: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.pixels.shape

    @property
    def site_bytes(self) -> int:
        return COST_BYTES * self.label_count + self.pixels.site_bytes

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return self.pixels.chunks

    def at(self, box: Box) -> npt.NDArray[np.float32]:
        pixels, sides = self.pixels.at(box), sides_of(box)
        inside = None if self.mask is None else self.mask.at(box) != 0
        check_finite("image", pixels, box=place_in_whole(self.pixels, box), inside=inside)
        rows = pixels.reshape(math.prod(sides), -1)
        if inside is None:
            return self.colors.costs(rows).reshape(*sides, self.label_count)
        costs = np.zeros((*sides, self.label_count), dtype=np.float32)
        costs[inside] = self.colors.costs(rows[inside.reshape(-1)])
        return costs

    def excerpt(self, box: Box) -> ColorCosts:
        return replace(self, pixels=self.pixels.excerpt(box), mask=self.mask and self.mask.excerpt(box))


@dataclass(frozen=True, eq=False)
class SeededCosts:
    """Costs with seeds that decide where they are: their own class costs nothing there, any other `strength`."""

    costs: Any
    seeds: SeedMap
    strength: float

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.costs.shape)

    @property
    def label_count(self) -> int:
        return int(self.costs.label_count)

    @property
    def site_bytes(self) -> int:
        return int(self.costs.site_bytes) + self.seeds.site_bytes

    @property
    def chunks(self) -> tuple[int, ...] | None:
        found: tuple[int, ...] | None = self.costs.chunks
        return found

    def at(self, box: Box) -> npt.NDArray[Any]:
        return fix_classes(self.costs.at(box), self.seeds.at(box), self.strength)

    def excerpt(self, box: Box) -> SeededCosts:
        return replace(self, costs=self.costs.excerpt(box), seeds=self.seeds.excerpt(box))


def fix_classes(costs: npt.NDArray[Any], seeds: npt.NDArray[Any], strength: float) -> npt.NDArray[Any]:
    """The costs, in place, with seeds that decide where they are."""
    under = np.nonzero(seeds != UNLABELED)
    costs[under] = strength
    costs[(*under, seeds[under])] = 0.0
    return costs


def read_costs(source: Readable, boxes: Any) -> npt.NDArray[np.float32]:
    """All of them in memory, read a box at a time."""
    held: npt.NDArray[np.float32] | None = None
    for box in boxes:
        part = source.at(box)
        if held is None:
            held = np.empty((*source.shape, part.shape[-1]), dtype=np.float32)
        held[box] = part
    assert held is not None
    return held
