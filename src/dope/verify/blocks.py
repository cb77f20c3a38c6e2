"""Pairs with their weights, straight from the definition, for all of an energy or for a block of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dope.arrays import Box, Sites
from dope.certificate import Certificate
from dope.errors import InputError
from dope.pairs import GraphPairs, GridPairs, Pairs
from dope.verify.units import FaultError, Reals

# Sites whose pairs are looked at together where blocks do not matter.
STRIP_SITES = 1 << 18
# Pairs are numbered by both ends together.
MOST_SITES = math.isqrt(2**63 - 1)


@dataclass(frozen=True, eq=False)
class PairList:
    """Pairs by the numbers of their ends among the sites of a block, or among all."""

    first: Sites
    second: Sites
    weights: Reals


@dataclass(frozen=True, eq=False)
class Block:
    """The sites of a block in rising order, and its inner pairs."""

    sites: Sites
    pairs: PairList


def all_pairs(pairs: Pairs) -> Iterator[PairList]:
    """All pairs, some at a time."""
    if isinstance(pairs, GraphPairs):
        yield PairList(pairs.first, pairs.second, pairs.weights)
        return
    whole = tuple(slice(0, n) for n in pairs.shape)
    rows = max(1, STRIP_SITES // math.prod(pairs.shape[1:]))
    for low in range(0, pairs.shape[0], rows):
        strip = slice(low, min(low + rows, pairs.shape[0]))
        yield from _grid_pairs(pairs, (strip, *whole[1:]), whole)


def _grid_pairs(pairs: GridPairs, box: Box, within: Box) -> Iterator[PairList]:
    """The pairs from a site p in one box to a site p + offset in another, whose sites the numbers count."""
    shape = tuple(s.stop - s.start for s in within)
    for m, offset in enumerate(pairs.offsets.tolist()):
        ranges = [
            np.arange(max(b.start, w.start - o), min(b.stop, w.stop - o))
            for b, w, o in zip(box, within, offset, strict=True)
        ]
        if all(len(places) for places in ranges):
            inner = np.ix_(*(places - w.start for places, w in zip(ranges, within, strict=True)))
            first = np.ravel_multi_index(inner, shape).reshape(-1)
            step = sum(o * math.prod(shape[axis + 1 :]) for axis, o in enumerate(offset))
            yield PairList(first, first + step, _weights(pairs, m, np.ix_(*ranges)).reshape(-1))


def _weights(pairs: GridPairs, m: int, tail: tuple[Sites, ...]) -> Reals:
    """factor exp(-beta |x_p - x_q|^2) field(p) / (q_p q_q), q = p + offset, at coordinates p that broadcast."""
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
    if pairs.inside is not None:
        weights[~(pairs.inside[tail] & pairs.inside[head])] = 0.0
    return weights


@dataclass(frozen=True, eq=False)
class GridBlocks:
    """Blocks between the cuts of a grid's axes, numbered in row-major order."""

    pairs: GridPairs
    cuts: tuple[tuple[int, ...], ...]

    @property
    def layout(self) -> tuple[int, ...]:
        return tuple(len(places) + 1 for places in self.cuts)

    @property
    def number(self) -> int:
        return math.prod(self.layout)

    def block(self, k: int) -> Block:
        edges = [[0, *places, n] for places, n in zip(self.cuts, self.pairs.shape, strict=True)]
        index = [int(i) for i in np.unravel_index(k, self.layout)]
        box = tuple(slice(e[i], e[i + 1]) for e, i in zip(edges, index, strict=True))
        inside = np.ix_(*(np.arange(s.start, s.stop) for s in box))
        sites = np.ravel_multi_index(inside, self.pairs.shape).reshape(-1)
        lists = list(_grid_pairs(self.pairs, box, box))
        none = np.zeros(0, dtype=np.int64)
        first = np.concatenate([none, *(some.first for some in lists)])
        second = np.concatenate([none, *(some.second for some in lists)])
        return Block(sites, PairList(first, second, np.concatenate([np.zeros(0), *(some.weights for some in lists)])))

    def holding(self, sites: Sites) -> Sites:
        """The number of the block that holds each site."""
        places = np.unravel_index(sites, self.pairs.shape)
        pieces = (np.searchsorted(cuts, x, side="right") for cuts, x in zip(self.cuts, places, strict=True))
        return np.asarray(np.ravel_multi_index(tuple(pieces), self.layout), dtype=np.int64)

    def weights(self, first: Sites, second: Sites) -> Reals:
        """The weight of each pair, NaN where there is none."""
        ends = [np.stack(np.unravel_index(sites, self.pairs.shape), axis=1) for sites in (first, second)]
        weights = np.full(len(first), np.nan)
        for m, offset in enumerate(self.pairs.offsets):
            for tail, head in (ends, ends[::-1]):
                here = np.all(head - tail == offset, axis=1)
                weights[here] = _weights(self.pairs, m, tuple(tail[here].T))
        return weights


@dataclass(frozen=True, eq=False)
class GraphBlocks:
    """Blocks of a graph by the number of every site's block."""

    pairs: GraphPairs
    members: Sites
    number: int

    def block(self, k: int) -> Block:
        sites = np.flatnonzero(self.members == k)
        first, second = self.pairs.first, self.pairs.second
        inside = (self.members[first] == k) & (self.members[second] == k)
        local = PairList(
            np.searchsorted(sites, first[inside]), np.searchsorted(sites, second[inside]), self.pairs.weights[inside]
        )
        return Block(sites, local)

    def holding(self, sites: Sites) -> Sites:
        """The number of the block that holds each site."""
        return self.members[sites]

    def weights(self, first: Sites, second: Sites) -> Reals:
        """The weight of each pair, NaN where there is none."""
        keys, place = np.unique(pair_keys(self.pairs.first, self.pairs.second, self.pairs.sites), return_inverse=True)
        weights = np.append(np.bincount(place, self.pairs.weights, minlength=len(keys)), np.nan)
        asked = pair_keys(first, second, self.pairs.sites)
        found = np.searchsorted(keys, asked)
        known = np.append(keys, -1)[found] == asked
        return weights[np.where(known, found, len(keys))]


Blocks = GridBlocks | GraphBlocks


def pair_keys(first: Sites, second: Sites, sites: int) -> Sites:
    """A number for each pair, the same whichever end comes first."""
    if sites > MOST_SITES:
        raise InputError(f"the energy has {sites} sites; verify can number the pairs of {MOST_SITES} at most.")
    return np.minimum(first, second) * sites + np.maximum(first, second)


def blocks_of(pairs: Pairs, certificate: Certificate) -> Blocks:
    """The certificate's blocks, if they are blocks of these pairs and have a bound each."""
    blocks: Blocks
    if isinstance(pairs, GridPairs):
        blocks = GridBlocks(pairs, _checked_cuts(pairs.shape, certificate))
    else:
        blocks = GraphBlocks(pairs, _checked_members(pairs.sites, certificate), len(certificate.bounds))
    if blocks.number != len(certificate.bounds):
        raise FaultError(
            f"there are {len(certificate.bounds)} bounds for {blocks.number} blocks; expected one for each"
        )
    return blocks


def _checked_cuts(shape: tuple[int, ...], certificate: Certificate) -> tuple[tuple[int, ...], ...]:
    if certificate.cuts is None:
        raise FaultError("the certificate is of a graph, the energy of a grid")
    if len(certificate.cuts) != len(shape):
        raise FaultError(f"the certificate cuts {len(certificate.cuts)} axes, the energy has {len(shape)}")
    for axis, (places, n) in enumerate(zip(certificate.cuts, shape, strict=True)):
        if any(low >= high for low, high in pairwise([0, *places, n])):
            raise FaultError(
                f"axis {axis} of {n} sites is cut at {str(list(places))[:80]}; expected rising places in it"
            )
    return certificate.cuts


def _checked_members(sites: int, certificate: Certificate) -> Sites:
    if certificate.members is None:
        raise FaultError("the certificate is of a grid, the energy of a graph")
    members, number = certificate.members.astype(np.int64), len(certificate.bounds)
    if len(members) != sites:
        raise FaultError(f"the certificate is of {len(members)} sites, the energy of {sites}")
    outside = (members < 0) | (members >= number)
    if outside.any():
        site = int(np.argmax(outside))
        raise FaultError(f"site {site} is in block {members[site]}, but there are bounds of {number} blocks")
    return members
