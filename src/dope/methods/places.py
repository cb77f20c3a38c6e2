"""Where blocks lie, and which of them meet a place: found from the partition alone, without a look at all of them.

A place is a box on a grid, an array of sites, in order, on a graph.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, Protocol

import numpy as np

from dope.arrays import Box, Index, Sites
from dope.pairs import GraphPairs, GridPairs, Pairs
from dope.partition import Partition

Kind = Literal["where", "owned", "region"]
"""Of a block: all its sites, those that it owns, or all with their neighbours."""


class Places(Protocol):
    """A place for each block."""

    def __len__(self) -> int: ...

    def __getitem__(self, k: int, /) -> Index: ...

    def meeting(self, place: Index) -> list[int]:
        """The blocks whose place has something in common with this one, in order."""
        ...


def places_of(pairs: Pairs, partition: Partition, kind: Kind) -> Places:
    """The places of all blocks."""
    if isinstance(pairs, GridPairs):
        assert partition.cuts is not None
        return GridPlaces(_axes(pairs, partition, kind))
    return GraphPlaces([_sites(pairs, partition, k, kind) for k in range(len(partition.blocks))])


def common(one: Index, other: Index) -> Index:
    """What two places have in common, perhaps nothing."""
    if isinstance(one, tuple):
        assert isinstance(other, tuple)
        sides = zip(one, other, strict=True)
        return tuple([slice(low := max(a.start, b.start), max(low, min(a.stop, b.stop))) for a, b in sides])
    assert not isinstance(other, tuple)
    return np.intersect1d(one, other, assume_unique=True)


def seen_from(place: Index, outer: Index) -> Index:
    """A place as one in arrays over an outer place that holds it."""
    if isinstance(place, tuple):
        assert isinstance(outer, tuple)
        return tuple([slice(p.start - o.start, p.stop - o.start) for p, o in zip(place, outer, strict=True)])
    assert not isinstance(outer, tuple)
    return np.searchsorted(outer, place)


def size_of(place: Index) -> int:
    """How many sites there are."""
    return math.prod(s.stop - s.start for s in place) if isinstance(place, tuple) else len(place)


@dataclass(frozen=True)
class GridPlaces:
    """Boxes that are products of intervals, along each axis in order."""

    axes: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def layout(self) -> tuple[int, ...]:
        return tuple(len(axis) for axis in self.axes)

    def __len__(self) -> int:
        return math.prod(self.layout)

    def __getitem__(self, k: int) -> Box:
        box = []
        for axis in reversed(self.axes):
            k, i = divmod(k, len(axis))
            box.append(slice(*axis[i]))
        return tuple(reversed(box))

    def meeting(self, place: Index) -> list[int]:
        assert isinstance(place, tuple)
        ranges = []
        for axis, s in zip(self.axes, place, strict=True):
            first = bisect_right(axis, s.start, key=lambda piece: piece[1])
            last = bisect_left(axis, s.stop, key=lambda piece: piece[0])
            ranges.append(range(first, last) if s.start < s.stop else range(0))
        strides = [math.prod(self.layout[a + 1 :]) for a in range(len(self.axes))]
        return [sum(i * stride for i, stride in zip(at, strides, strict=True)) for at in product(*ranges)]


def count_coupled(pairs: Pairs, partition: Partition) -> int:
    """How many sites of blocks are coupled, each counted in every block that holds it.

    Those in several blocks, and those with neighbours there or in other blocks, were all corners of boxes neighbours. 0
    on a graph, where that takes a look at all pairs.
    """
    if not isinstance(pairs, GridPairs):
        return 0
    held, alone = 1, 1
    for axis, reach in zip(_axes(pairs, partition, "where"), pairs.reach, strict=True):
        before, after = [None, *axis[:-1]], [*axis[1:], None]
        lows = [low if one is None else max(low, one[1]) + reach for (low, _), one in zip(axis, before, strict=True)]
        highs = [high if one is None else min(high, one[0]) - reach for (_, high), one in zip(axis, after, strict=True)]
        held *= sum(high - low for low, high in axis)
        alone *= sum(max(0, high - low) for low, high in zip(lows, highs, strict=True))
    return held - alone


class GraphPlaces:
    """Sites in any number of blocks."""

    def __init__(self, places: Sequence[Sites]) -> None:
        self._places = places
        blocks = np.repeat(np.arange(len(places)), [len(place) for place in places])
        sites = np.concatenate([*places, np.zeros(0, dtype=np.int64)]).astype(np.int64)
        order = np.argsort(sites, kind="stable")
        self._sites, self._blocks = sites[order], blocks[order]

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, k: int) -> Sites:
        return self._places[k]

    def meeting(self, place: Index) -> list[int]:
        assert not isinstance(place, tuple)
        first, last = (np.searchsorted(self._sites, place, side=side) for side in ("left", "right"))
        found = np.zeros(len(self._places), dtype=np.bool_)
        while (left := first < last).any():
            first, last = first[left], last[left]
            found[self._blocks[first]] = True
            first = first + 1
        return [int(k) for k in np.flatnonzero(found)]


def _axes(pairs: GridPairs, partition: Partition, kind: Kind) -> tuple[tuple[tuple[int, int], ...], ...]:
    assert partition.cuts is not None
    layout = [len(cuts) + 1 for cuts in partition.cuts]
    axes = []
    for axis, (number, reach, length) in enumerate(zip(layout, pairs.reach, partition.shape, strict=True)):
        stride = math.prod(layout[axis + 1 :])
        pieces = []
        for i in range(number):
            block = partition.blocks[i * stride]
            where, owned = block.where[axis], block.owned[axis]
            assert isinstance(where, slice) and isinstance(owned, slice)
            low, high = where.start, where.stop
            if kind == "owned":
                low, high = low + owned.start, low + owned.stop
            elif kind == "region":
                low, high = max(0, low - reach), min(length, high + reach)
            pieces.append((low, high))
        axes.append(tuple(pieces))
    return tuple(axes)


def _sites(pairs: GraphPairs, partition: Partition, k: int, kind: Kind) -> Sites:
    block = partition.blocks[k]
    assert not isinstance(block.where, tuple) and not isinstance(block.owned, tuple)
    if kind == "owned":
        return block.where[block.owned]
    return pairs.around(block.where) if kind == "region" else block.where
