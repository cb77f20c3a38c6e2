"""How a block is coupled to the rest: A_k = C_k + R_k S_k in its local form.

    (A_k y)_i = (1/q_i) sum_{j ~ i} w_ij c_ijk (y_i - y_j),     c_ijk = 1 if j is not in block k, else 1 - 1/q_j

for the sites i of block k, with lam inside w. It is zero wherever all neighbours lie in this block and in no other:
only *coupled* sites, those near a seam or in several blocks, take part. A coupling reads y on its `region`, the block
and every neighbour of it.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.arrays import BinaryLabels, Box, Index, Mask, Sites
from dope.pairs import GraphPairs, GridPairs
from dope.partition import Partition

Values = npt.NDArray[np.float64]


class Coupling(Protocol):
    """A_k of one block."""

    @property
    def region(self) -> Index:
        """The block and its neighbours, as a place in the whole."""
        ...

    @property
    def inside(self) -> Index:
        """The block, as a place in the region."""
        ...

    def apply(self, y: Values) -> Values:
        """A_k y on the block, from y on the region."""
        ...

    def transpose(self, labels: BinaryLabels) -> Values:
        """A_k' labels on the region, from labels on the block."""
        ...

    def strength(self) -> Values:
        """The sum over j of |w_ij| c_ijk / q_i, for every site of the block."""
        ...

    def coupled(self) -> Mask:
        """Which sites of the block are coupled."""
        ...


class GridCoupling:
    """A_k on a grid: weights are computed from the region's pixels each time, never stored."""

    def __init__(self, pairs: GridPairs, partition: Partition, where: Box) -> None:
        region = pairs.around(where)
        start = [s.start - r.start for s, r in zip(where, region, strict=True)]
        stop = [s.stop - r.start for s, r in zip(where, region, strict=True)]
        self.region: Index = region
        self.inside: Index = tuple(slice(a, b) for a, b in zip(start, stop, strict=True))
        counts = partition.counts_at(region)
        assert isinstance(counts, tuple)
        contiguous = [np.ascontiguousarray(c) for c in counts]
        self._core = _core.GridCoupling(pairs.crop(region).native(), start, stop, contiguous)

    def apply(self, y: Values) -> Values:
        return self._core.apply(y)

    def transpose(self, labels: BinaryLabels) -> Values:
        return self._core.transpose(labels)

    def strength(self) -> Values:
        return self._core.strength()

    def coupled(self) -> Mask:
        return self._core.coupled()


@dataclass(frozen=True, eq=False)
class GraphCoupling:
    """A_k on a graph: one entry w_ij c_ijk / q_i for each arc i -> j that leaves the block or meets an overlap."""

    region: Sites
    inside: Sites
    multiplicity: Values
    tails: Sites
    heads: Sites
    values: Values

    @classmethod
    def of(cls, pairs: GraphPairs, partition: Partition, where: Sites) -> "GraphCoupling":
        tails = np.concatenate([pairs.first, pairs.second])
        heads = np.concatenate([pairs.second, pairs.first])
        member = np.zeros(pairs.sites, dtype=np.bool_)
        member[where] = True
        count = partition.multiplicity(np.arange(pairs.sites))
        share = np.where(member[heads], 1.0 - 1.0 / count[heads], 1.0)
        arcs = np.flatnonzero(member[tails] & (share > 0.0))
        tails, heads = tails[arcs], heads[arcs]
        values = np.tile(pairs.weights, 2)[arcs] * share[arcs] / count[tails]
        region = pairs.around(where)
        place = np.zeros(pairs.sites, dtype=np.int64)
        place[region] = np.arange(len(region))
        return cls(region, place[where], count[where], place[tails], place[heads], values)

    def apply(self, y: Values) -> Values:
        flow = self.values * (y[self.tails] - y[self.heads])
        return _sums(self.tails, flow, len(self.region))[self.inside]

    def transpose(self, labels: BinaryLabels) -> Values:
        on_region = np.zeros(len(self.region))
        on_region[self.inside] = labels
        flow = self.values * on_region[self.tails]
        size = len(self.region)
        return _sums(self.tails, flow, size) - _sums(self.heads, flow, size)

    def strength(self) -> Values:
        return _sums(self.tails, np.abs(self.values), len(self.region))[self.inside]

    def coupled(self) -> Mask:
        touched = np.zeros(len(self.region), dtype=np.bool_)
        touched[self.tails] = True
        return touched[self.inside] | (self.multiplicity > 1)


def _sums(places: Sites, values: Values, size: int) -> Values:
    """The sum of the values that fall on each place."""
    return np.bincount(places, values, minlength=size).astype(np.float64, copy=False)
