"""Boxes between the cuts of a grid: which one is where, found without looking through a list of them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise, product

import numpy as np

from dope.arrays import Box, Mask, Sites
from dope.pairs import GridPairs


class Tiling:
    """The boxes of a grid between cuts, numbered as the blocks of a partition are: the last axis runs fastest."""

    def __init__(self, shape: Sequence[int], cuts: Sequence[Sequence[int]]) -> None:
        self.shape = tuple(shape)
        self.edges = [sorted({0, n, *places}) for n, places in zip(shape, cuts, strict=True)]
        self.layout = tuple(len(edges) - 1 for edges in self.edges)

    def __len__(self) -> int:
        return math.prod(self.layout)

    @cached_property
    def boxes(self) -> list[Box]:
        return [tuple(slice(*ends) for ends in one) for one in product(*map(pairwise, self.edges))]

    def __getstate__(self) -> dict[str, object]:
        """Without the list of boxes: tilings travel with every block, and must not grow with their number."""
        return {name: value for name, value in vars(self).items() if name != "boxes"}

    def box(self, number: int) -> Box:
        """One of the boxes, without a list of all of them."""
        index = []
        for n in reversed(self.layout):
            number, i = divmod(number, n)
            index.append(i)
        return tuple(slice(edges[i], edges[i + 1]) for edges, i in zip(self.edges, reversed(index), strict=True))

    def within(self, box: Box) -> list[int]:
        """The numbers of the boxes that have sites in a box, rising."""
        ranges = [
            range(bisect_right(edges, s.start) - 1, bisect_right(edges, s.stop - 1))
            for edges, s in zip(self.edges, box, strict=True)
        ]
        return [self._number(index) for index in product(*ranges)]

    def near(self, box: Box, pairs: GridPairs) -> list[int]:
        """Those with sites in a box, or with neighbours of such: where pairs lie along axes, none across a corner."""
        if pairs.along_axes:
            around = pairs.around(box)
            arms = [(*box[:axis], around[axis], *box[axis + 1 :]) for axis in range(len(box))]
            return sorted({k for arm in arms for k in self.within(arm)})
        return self.within(pairs.around(box))

    def _number(self, index: Sequence[int]) -> int:
        number = 0
        for i, n in zip(index, self.layout, strict=True):
            number = number * n + i
        return number


def sides(box: Box) -> tuple[int, ...]:
    """How many sites a box has along each axis."""
    return tuple(s.stop - s.start for s in box)


def size(box: Box) -> int:
    """How many sites a box has."""
    return math.prod(sides(box))


def moved(box: Box, by: Sequence[int], sign: int = 1) -> Box:
    """The box so many sites further along each axis, or, with -1, as seen from there."""
    return tuple(slice(s.start + sign * o, s.stop + sign * o) for s, o in zip(box, by, strict=True))


def seen_from(box: Box, region: Box) -> Box:
    """A box of the whole as one of a region that holds it."""
    return moved(box, [s.start for s in region], -1)


def common(one: Box, other: Box) -> Box | None:
    """What is in both, None where nothing is."""
    both = tuple(slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(one, other, strict=True))
    return both if all(s.start < s.stop for s in both) else None


def hull(boxes: Sequence[Box]) -> Box | None:
    """The smallest box around all of them, None where there are none."""
    if not boxes:
        return None
    return tuple(slice(min(s.start for s in axis), max(s.stop for s in axis)) for axis in zip(*boxes, strict=True))


def bounding_box(where: Mask) -> Box | None:
    """The smallest box that holds all that is True, None where nothing is."""
    box = []
    for axis in range(where.ndim):
        places = np.flatnonzero(where.any(axis=tuple(a for a in range(where.ndim) if a != axis)))
        if not len(places):
            return None
        box.append(slice(int(places[0]), int(places[-1]) + 1))
    return tuple(box)


def plain(box: Box) -> list[list[int]]:
    """A box in what JSON knows."""
    return [[s.start, s.stop] for s in box]


def box_of(plain_box: Sequence[Sequence[int]]) -> Box:
    """What `plain` was given."""
    return tuple(slice(int(low), int(high)) for low, high in plain_box)


def global_sites(sites: Sites, shape: tuple[int, ...], region: Box) -> Sites:
    """Sites of a region as those of the whole."""
    places = np.unravel_index(sites, sides(region))
    whole = tuple(place + s.start for place, s in zip(places, region, strict=True))
    found: Sites = np.ravel_multi_index(whole, shape).astype(np.int64)
    return found
