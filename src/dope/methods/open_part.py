"""The sites that are open, as an energy of a graph of their own, with all others at labels that they keep.

    E(x) = rest + sum over open i of ( c_i(x_i) + sum over fixed j of w_ij V(x_i, x_j) ) + pairs between open sites

Where few sites are open this is far smaller than the grid, and has no boxes to care for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import MOST_PLACES, Box, Labels, Mask, Reals, Sites, binary_places, measure_span
from dope.label_energy import LabelEnergy
from dope.methods.tiling import global_sites, seen_from, sides
from dope.metric import Metric
from dope.pairs import GraphPairs, GridPairs, TablePairs, sorted_graph

# Sites of a grid that are open become a graph of their own where they are less than this fraction of all.
WORTH_A_GRAPH = 0.75
# Of what may be used, the part that an open part may take while it is gathered and solved, and that where nobody said.
PART_SHARE = 2
MEMORY = 4 << 30
# Of an open site, for each label: its cost where it was gathered, put together, and as float64 messages or prices.
LABEL_BYTES = 32
# Of a pair between open sites: ends and weight, several times while they are sorted, and two arcs.
PAIR_BYTES = 120
# Sums of so many units are exact in float64, also while they are added up.
MOST_UNITS = 2.0**52
ENDS = ("first", "second")


def fits(energy: LabelEnergy, left: int, memory: int | None) -> bool:
    """Whether so many open sites can be a graph of their own."""
    if energy.metric is None:
        return False
    pairs = energy.pairs
    degree = len(pairs.offsets) if isinstance(pairs, GridPairs) else pairs.number / pairs.sites
    return left * (LABEL_BYTES * energy.label_count + PAIR_BYTES * degree) * PART_SHARE <= (memory or MEMORY)


def message_bytes(energy: LabelEnergy) -> int:
    """What messages between all sites take: a number for each pair and label."""
    pairs = energy.pairs
    slots = pairs.sites * len(pairs.offsets) if isinstance(pairs, GridPairs) else pairs.number
    return slots * energy.label_count * 8


@dataclass(frozen=True, eq=False)
class OpenPart:
    """Open sites (flat, rising), and what they pay, others fixed; `slack` is how far sums can be from their terms."""

    sites: Sites
    energy: LabelEnergy
    slack: float

    @classmethod
    def of(cls, energy: LabelEnergy, labels: Labels, open_sites: Mask) -> OpenPart:
        """Of an energy in memory whose pairs have one metric."""
        assert energy.metric is not None
        if isinstance(energy.pairs, GridPairs):
            whole = tuple(slice(0, n) for n in energy.shape)
            return joined([Piece.of(energy, labels, open_sites, whole, whole, energy.shape)], energy.metric)
        return joined([Piece.of_graph(energy, labels, open_sites)], energy.metric)

    def cheapest(self) -> Labels:
        """The label that costs least at each site by itself."""
        found: Labels = np.argmin(self.energy.costs, axis=-1).astype(self.energy.label_type)
        return found

    def rest(self, labels: Labels, open_sites: Mask) -> OpenPart:
        """What is still open of it."""
        part = OpenPart.of(self.energy, labels, open_sites)
        return OpenPart(self.sites[part.sites], part.energy, self.slack + part.slack)


@dataclass(frozen=True, eq=False)
class Piece:
    """What a box has of an open part: its open sites, their costs, and the pairs that begin there; sites of the whole.

    `slack` is how far these costs, all together, can be from what they are the sums of.
    """

    sites: Sites
    costs: Reals
    first: Sites
    second: Sites
    weights: npt.NDArray[np.float64]
    slack: float

    @classmethod
    def of(
        cls, energy: LabelEnergy, labels: Labels, open_sites: Mask, box: Box, region: Box, shape: tuple[int, ...]
    ) -> Piece:
        """Of a box of a grid: energy, labels and open sites are those of its region, which holds all neighbours."""
        pairs = energy.pairs
        assert isinstance(pairs, GridPairs) and energy.metric is not None
        mine = np.zeros(sides(region), dtype=np.bool_)
        own = seen_from(box, region)
        mine[own] = open_sites[own]
        at = np.nonzero(mine)
        flat = np.ravel_multi_index(at, mine.shape)
        costs = energy.costs[at].astype(np.float64)
        matrix = energy.metric.matrix(energy.label_count)
        ends: list[tuple[Sites, Sites, npt.NDArray[np.float64]]] = []
        for m, offset in enumerate(pairs.offsets.tolist()):
            for sign in (1, -1):
                other = tuple(a + sign * o for a, o in zip(at, offset, strict=True))
                there = np.logical_and.reduce([(o >= 0) & (o < n) for o, n in zip(other, mine.shape, strict=True)])
                rows = np.flatnonzero(there)
                heads = tuple(o[rows] for o in other)
                tails = tuple(a[rows] for a in at)
                weights = pairs.weights_at(m, tails if sign == 1 else heads)
                free = open_sites[heads]
                kept = ~free & (weights != 0.0)
                costs[rows[kept]] += weights[kept, None] * matrix[labels[tuple(h[kept] for h in heads)]]
                if sign == 1:
                    joins = free & (weights != 0.0)
                    second = np.ravel_multi_index(tuple(h[joins] for h in heads), mine.shape)
                    ends.append((flat[rows[joins]], second, weights[joins]))
        first, second, weights = (np.concatenate(one) for one in zip(*ends, strict=True)) if ends else _no_pairs()
        numbered = (global_sites(sites, shape, region) for sites in (flat, first, second))
        sites, first, second = numbered
        return cls(sites, costs, first, second, weights, _slack(energy, energy.costs[at]))

    @classmethod
    def of_graph(cls, energy: LabelEnergy, labels: Labels, open_sites: Mask) -> Piece:
        """Of all of a graph."""
        assert isinstance(energy.pairs, GraphPairs) and energy.metric is not None
        first, second, weights = energy.pairs.edges()
        sites = np.flatnonzero(open_sites)
        costs = np.asarray(energy.costs, dtype=np.float64).copy()
        matrix = energy.metric.matrix(energy.label_count)
        for tail, head in ((first, second), (second, first)):
            kept = open_sites[tail] & ~open_sites[head]
            np.add.at(costs, tail[kept], weights[kept, None] * matrix[labels[head[kept]]])
        joins = open_sites[first] & open_sites[second]
        slack = _slack(energy, energy.costs)
        return cls(sites, costs[sites], first[joins], second[joins], weights[joins], slack)


def joined(pieces: list[Piece], metric: Metric) -> OpenPart:
    """All pieces of an open part as one."""
    sites = np.concatenate([one.sites for one in pieces])
    order = np.argsort(sites)
    sites, costs = sites[order], np.concatenate([one.costs for one in pieces])[order]
    first, second = (np.searchsorted(sites, np.concatenate([getattr(one, end) for one in pieces])) for end in ENDS)
    weights = np.concatenate([one.weights for one in pieces])
    pairs = sorted_graph(len(sites), first.astype(np.int64), second.astype(np.int64), weights)
    return OpenPart(sites, LabelEnergy(costs, pairs, metric), sum(one.slack for one in pieces))


def _slack(energy: LabelEnergy, costs: npt.NDArray[Any]) -> float:
    """What rounding sums of costs and products of weights can come to; nothing where all are binary fractions."""
    pairs, metric = energy.pairs, energy.metric
    assert not isinstance(pairs, TablePairs) and metric is not None
    matrix = metric.matrix(energy.label_count)
    span, of_pairs = measure_span(costs, most=MOST_PLACES), pairs.binary_places()
    largest = span.largest + pairs.strength * float(np.abs(matrix).max(initial=0.0))
    of_metric = binary_places([matrix])
    if span.places is not None and of_pairs is not None and of_metric is not None:
        places = max(span.places, of_pairs + of_metric)
        if largest * 2.0**places <= MOST_UNITS:
            return 0.0
    return 4.0 * len(costs) * (pairs.degree + 1) * largest * float(np.finfo(np.float64).eps)


def _no_pairs() -> tuple[Sites, Sites, npt.NDArray[np.float64]]:
    return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
