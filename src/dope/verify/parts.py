"""An energy in parts, straight from its definition: the sites of a block, its pairs, and those to its neighbours.

A part of a grid is numbered within the box of the block and its neighbours, which is all that is read of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, Mask, Sites
from dope.energy import Energy
from dope.errors import InputError
from dope.pairs import GraphPairs, GridPairs
from dope.verify.units import FaultError, Reals

# Sites of a strip, where blocks do not matter.
STRIP_SITES = 1 << 18
# Pairs are numbered by both ends together.
MOST_SITES = math.isqrt(2**63 - 1)

Cuts = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class PairList:
    """Pairs by the numbers of their ends."""

    first: Sites
    second: Sites
    weights: Reals

    def where(self, some: Mask) -> PairList:
        return PairList(self.first[some], self.second[some], self.weights[some])


@dataclass(frozen=True, eq=False)
class Part:
    """A block. Numbers are those of a box around it, or of all sites of a graph.

    Attributes
    ----------
    box : what is numbered, for a grid; None for a graph.
    shape : of all sites.
    sites : the block's, in rising order, and `unary` is theirs.
    inner : the pairs between them; these are told by places among `sites`.
    crossing : the pairs with one end in the block.
    begins : whether that is the first one.
    """

    box: Box | None
    shape: tuple[int, ...]
    sites: Sites
    unary: Reals
    inner: PairList
    crossing: PairList
    begins: Mask

    def numbers(self, sites: Sites) -> Sites:
        """Numbers of sites that are told by their places among all; -1 outside of the box."""
        if self.box is None:
            return sites
        places = np.unravel_index(sites, self.shape)
        inside = np.logical_and.reduce([(p >= s.start) & (p < s.stop) for p, s in zip(places, self.box, strict=True)])
        local = tuple(np.where(inside, p - s.start, 0) for p, s in zip(places, self.box, strict=True))
        sides = tuple(s.stop - s.start for s in self.box)
        return np.where(inside, np.ravel_multi_index(local, sides), -1).astype(np.int64)

    def weights(self, own: Sites, other: Sites) -> Reals:
        """Of pairs that leave the block, NaN where there is none; parallel ones add up."""
        most = 1 + max(int(ends.max(initial=0)) for ends in (self.crossing.first, self.crossing.second, own, other))
        keys, place = np.unique(pair_keys(self.crossing.first, self.crossing.second, most), return_inverse=True)
        weights = np.append(np.bincount(place, self.crossing.weights, minlength=len(keys)), np.nan)
        asked = pair_keys(own, other, most)
        found = np.searchsorted(keys, asked)
        known = (np.append(keys, -1)[found] == asked) & (other >= 0)
        return weights[np.where(known, found, len(keys))]

    @property
    def reach(self) -> Reals:
        """What the pairs of each site weigh together."""
        own = np.where(self.begins, self.crossing.first, self.crossing.second)
        places = np.concatenate([self.inner.first, self.inner.second, np.searchsorted(self.sites, own)])
        weights = np.concatenate([self.inner.weights, self.inner.weights, self.crossing.weights])
        return np.bincount(places, weights, len(self.sites)).astype(np.float64)


def pair_keys(first: Sites, second: Sites, sites: int) -> Sites:
    """A number for each pair, the same whichever end comes first."""
    if sites > MOST_SITES:
        raise InputError(f"the energy has {sites} sites; verify can number the pairs of {MOST_SITES} at most.")
    return np.minimum(first, second) * sites + np.maximum(first, second)


@dataclass(frozen=True, eq=False)
class GridParts:
    """Blocks between the cuts of a grid's axes, numbered in row-major order."""

    energy: Energy
    cuts: Cuts

    @property
    def layout(self) -> tuple[int, ...]:
        return tuple(len(places) + 1 for places in self.cuts)

    @property
    def number(self) -> int:
        return math.prod(self.layout)

    def box(self, k: int) -> Box:
        edges = [[0, *places, n] for places, n in zip(self.cuts, self.energy.shape, strict=True)]
        index = [int(i) for i in np.unravel_index(k, self.layout)]
        return tuple(slice(e[i], e[i + 1]) for e, i in zip(edges, index, strict=True))

    def part(self, k: int) -> Part:
        box = self.box(k)
        around = _grid(self.energy).around(box)
        energy = self.energy.at(around)
        sides = energy.shape
        mine = np.zeros(sides, dtype=np.bool_)
        mine[tuple(slice(s.start - r.start, s.stop - r.start) for s, r in zip(box, around, strict=True))] = True
        unary = energy.unary[mine].astype(np.float64)
        return _part(around, self.energy.shape, mine.reshape(-1), unary, _all_pairs(_grid(energy)))

    def holding(self, sites: Sites) -> Sites:
        """The number of the block that holds each site."""
        places = np.unravel_index(sites, self.energy.shape)
        pieces = (np.searchsorted(cuts, x, side="right") for cuts, x in zip(self.cuts, places, strict=True))
        return np.asarray(np.ravel_multi_index(tuple(pieces), self.layout), dtype=np.int64)

    def near(self, k: int) -> list[int]:
        """The blocks that a block may have pairs with, itself included."""
        around = _grid(self.energy).around(self.box(k))
        spans = [
            range(
                int(np.searchsorted(cuts, s.start, side="right")), int(np.searchsorted(cuts, s.stop - 1, "right")) + 1
            )
            for cuts, s in zip(self.cuts, around, strict=True)
        ]
        return sorted(np.ravel_multi_index(np.ix_(*map(list, spans)), self.layout).reshape(-1).tolist())


@dataclass(frozen=True, eq=False)
class GraphParts:
    """Blocks of a graph by the number of every site's block."""

    energy: Energy
    members: Sites
    number: int

    def part(self, k: int) -> Part:
        pairs = self.energy.pairs
        assert isinstance(pairs, GraphPairs)
        mine = self.members == k
        unary = self.energy.unary[mine].astype(np.float64)
        everything = PairList(pairs.first, pairs.second, pairs.weights)
        return _part(None, self.energy.shape, mine, unary, everything)

    def holding(self, sites: Sites) -> Sites:
        """The number of the block that holds each site."""
        return self.members[sites]

    def near(self, k: int) -> list[int]:
        """The blocks that a block may have pairs with, itself included."""
        del k
        return list(range(self.number))


Parts = GridParts | GraphParts


def strips_of(energy: Energy) -> Parts:
    """All of an energy, some sites at a time."""
    if isinstance(energy.pairs, GraphPairs):
        return GraphParts(energy, np.zeros(energy.pairs.sites, dtype=np.int64), 1)
    shape = energy.shape
    rows = max(1, STRIP_SITES // math.prod(shape[1:]))
    return GridParts(energy, (tuple(range(rows, shape[0], rows)), *((),) * (len(shape) - 1)))


def parts_of(energy: Energy, cuts: Cuts | None, members: npt.NDArray[np.integer] | None, bounds: int) -> Parts:
    """The blocks of a certificate with so many bounds, if they are blocks of this energy."""
    parts: Parts
    if isinstance(energy.pairs, GridPairs):
        parts = GridParts(energy, _checked_cuts(energy.shape, cuts))
    else:
        parts = GraphParts(energy, _checked_members(energy.pairs.sites, members, bounds), bounds)
    if parts.number != bounds:
        raise FaultError(f"there are {bounds} bounds for {parts.number} blocks; expected one for each")
    return parts


def _grid(energy: Energy) -> GridPairs:
    assert isinstance(energy.pairs, GridPairs)
    return energy.pairs


def _part(box: Box | None, shape: tuple[int, ...], mine: Mask, unary: Reals, pairs: PairList) -> Part:
    sites = np.flatnonzero(mine)
    place = np.cumsum(mine) - 1
    first, second = mine[pairs.first], mine[pairs.second]
    both, one = pairs.where(first & second), pairs.where(first != second)
    inner = PairList(place[both.first], place[both.second], both.weights)
    return Part(box, shape, sites, unary, inner, one, mine[one.first])


def _all_pairs(pairs: GridPairs) -> PairList:
    """The pairs from every site p to p + offset."""
    none = np.zeros(0, dtype=np.int64)
    firsts, seconds, weights = [none], [none], [np.zeros(0)]
    for m, offset in enumerate(pairs.offsets.tolist()):
        ranges = [np.arange(max(0, -o), min(n, n - o)) for n, o in zip(pairs.shape, offset, strict=True)]
        if all(len(places) for places in ranges):
            first = np.ravel_multi_index(np.ix_(*ranges), pairs.shape).reshape(-1)
            step = sum(o * math.prod(pairs.shape[axis + 1 :]) for axis, o in enumerate(offset))
            firsts.append(first)
            seconds.append(first + step)
            weights.append(_weights(pairs, m, np.ix_(*ranges)).reshape(-1))
    return PairList(np.concatenate(firsts), np.concatenate(seconds), np.concatenate(weights))


def _weights(pairs: GridPairs, m: int, tail: tuple[Sites, ...]) -> Reals:
    """factor exp(-beta |x_p - x_q|^2) field(p) / (q_p q_q), q = p + offset, at coordinates p that broadcast.

    In a move of several labels that is multiplied by what is fused; of some offsets only one sign counts.
    """
    head = tuple(t + int(o) for t, o in zip(tail, pairs.offsets[m], strict=True))
    weights = np.full(np.broadcast_shapes(*(t.shape for t in tail)), pairs.factors[m], dtype=np.float64)
    if pairs.features is not None and pairs.beta:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # outside a mask pixels may be anything
            change = pairs.features[tail].astype(np.float64) - pairs.features[head].astype(np.float64)
            weights *= np.exp(-pairs.beta * (change * change).sum(axis=-1))
    if pairs.fields is not None:
        weights *= pairs.fields[m][tail]
    for axis, count in enumerate(pairs.counts or ()):
        weights /= count[tail[axis]] * count[head[axis]]
    if pairs.fused is not None:
        weights *= pairs.fused.factors(tail, head)
    if pairs.signs is not None and pairs.signs[m]:
        weights = np.maximum(pairs.signs[m] * weights, 0.0)
    if pairs.inside is not None:
        weights[~(pairs.inside[tail] & pairs.inside[head])] = 0.0
    return weights


def _checked_cuts(shape: tuple[int, ...], cuts: Sequence[Sequence[int]] | None) -> Cuts:
    if cuts is None:
        raise FaultError("the certificate is of a graph, the energy of a grid")
    if len(cuts) != len(shape):
        raise FaultError(f"the certificate cuts {len(cuts)} axes, the energy has {len(shape)}")
    for axis, (places, n) in enumerate(zip(cuts, shape, strict=True)):
        if any(low >= high for low, high in pairwise([0, *places, n])):
            raise FaultError(
                f"axis {axis} of {n} sites is cut at {str(list(places))[:80]}; expected rising places in it"
            )
    return tuple(map(tuple, cuts))


def _checked_members(sites: int, given: npt.NDArray[np.integer] | None, number: int) -> Sites:
    if given is None:
        raise FaultError("the certificate is of a grid, the energy of a graph")
    members = given.astype(np.int64)
    if len(members) != sites:
        raise FaultError(f"the certificate is of {len(members)} sites, the energy of {sites}")
    outside = (members < 0) | (members >= number)
    if outside.any():
        site = int(np.argmax(outside))
        raise FaultError(f"site {site} is in block {members[site]}, but there are bounds of {number} blocks")
    return members
