"""Potts: labels that are decided for good, by one binary cut for each label.

Let S_a be the smallest minimizer of the binary energy

    sum_i u_i(a) y_i + sum_pairs w_ij |y_i - y_j|,      u_i(a) = c_i(a) - min over b != a of c_i(b),      w_ij >= 0

Some labels of least energy have x_i = a in all of S_a (Kovtun 2003). S_a and S_b have no site in common: as
u(a) + u(b) >= 0, S_a - S_b and S_b - S_a would together cost no more than S_a and S_b, and be smaller minimizers. Costs
of all labels are counted in one scale, so all this is true of one energy in integers: c_i(b) - min c_i is rounded, and
u(a) follows from that.

Sites are left open where costs tie, too. The largest minimizer T_a tells as much of its label: some labels of least
energy have x_i = a in all of T_a. But T_a and T_b may overlap, so this is for one label, and the others are looked at
once its sites are fixed (`settle`).

A site with u_i(a) >= sum_j w_ij is in no S_a: leaving it out costs no more. So a cut needs only the box that holds the
others, and their neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dope.arrays import Box, Index, Labels, Mask
from dope.energy import Energy
from dope.errors import DopeError
from dope.fixed_point import Costs, FixedPoint
from dope.label_energy import LabelEnergy
from dope.live import LiveLabels
from dope.methods.exact import Exact
from dope.methods.margins import Margins
from dope.methods.tiling import bounding_box
from dope.pairs import GraphPairs, GridPairs, TablePairs
from dope.partition import Partition
from dope.protocols import Problem, require_flow_solver

# Of a graph, part of the sites is cut out where it is less than this fraction.
WORTH_CUTTING_OUT = 0.5


class LabelProof:
    """The labels that are proved so far, where they are, and the best label of each site alone elsewhere."""

    def __init__(self, energy: LabelEnergy, problem: Problem) -> None:
        """`problem` says which solver and executor to use, and how a grid is cut into blocks."""
        assert not isinstance(energy.pairs, TablePairs)
        self._problem, self._pairs = problem, energy.pairs
        inside = self._pairs.inside if isinstance(self._pairs, GridPairs) else None
        self._margins = Margins.of(energy)
        self._solver = require_flow_solver(problem.solver, "open_flow", method="a proof of labels")
        self._labels_there = energy.label_count
        margins, sites = self._margins, self._pairs.sites
        of_pairs = self._pairs.binary_places()
        places = None if of_pairs is None or margins.places is None else max(of_pairs, margins.places)
        costs = Costs(self._pairs, sites, places, margins.largest, margins.total)
        self.fixed = FixedPoint.for_costs(costs, self._solver.bits)
        self.labels: Labels = margins.labels.copy()
        self.open: Mask = np.ones(energy.shape, dtype=np.bool_)
        self._inside = inside
        if inside is not None:
            self.open[~inside] = False
            self.labels[~inside] = 0

    @property
    def rounding_error(self) -> float:
        return self.fixed.error

    def prove(self, label: int) -> int:
        """Decide sites for a label; how many."""
        return self._claim(label, self._smallest)

    def settle(self) -> int:
        """Of a graph: decide sites for the first label whose largest minimizer holds any; how many."""
        claims = (self._claim(label, self._largest) for label in range(self._labels_there))
        return next(filter(None, claims), 0)

    def _claim(self, label: int, minimizer: Callable[[int, Index], Mask]) -> int:
        where = self._candidates(label)
        if where is None:
            return 0
        claimed = minimizer(label, where)
        if not self.open[where][claimed].all():
            raise DopeError("a site is proved for two labels; this is a fault of dope, please report it.")
        _put(self.open, where, claimed, False)
        _put(self.labels, where, claimed, label)
        return int(np.count_nonzero(claimed))

    def _candidates(self, label: int) -> Index | None:
        """A place outside which no site takes this label, with the neighbours of all that may; None for no site."""
        everything: Index = tuple(slice(0, n) for n in self._pairs.shape)
        unary = self._margins.unary(label, everything)
        if self._inside is not None:
            unary[~self._inside] = np.inf
        if not (unary <= 0.0).any():
            return None
        # In integers, weights and prices are up to half a unit from what they are.
        most = self._pairs.strength + (self._pairs.degree + 2) / self.fixed.scale
        near = unary < most
        if isinstance(self._pairs, GraphPairs):
            sites = np.flatnonzero(near)
            return self._pairs.around(sites) if len(sites) < WORTH_CUTTING_OUT * near.size else everything
        box = bounding_box(near)
        assert box is not None
        return self._pairs.around(box)

    def _largest(self, label: int, where: Index) -> Mask:
        """The largest minimizer, as a mask of the place, of a graph."""
        pairs = self._pairs
        assert isinstance(pairs, GraphPairs)
        flow = self._solver.open_flow(pairs if isinstance(where, tuple) else pairs.crop(where), self.fixed)
        flow.minimize(np.ascontiguousarray(self._margins.unary(label, where)))
        return flow.labels(True)

    def _smallest(self, label: int, where: Index) -> Mask:
        """The smallest minimizer, as a mask of the place."""
        unary, problem, pairs = self._margins.unary(label, where), self._problem, self._pairs
        if isinstance(pairs, GridPairs):
            assert isinstance(where, tuple)
            partition = _within(problem.partition, where)
            pairs = pairs.crop(where)
            if pairs.inside is not None:
                unary[~pairs.inside] = self._margins.largest or 1.0
            if len(partition.blocks) > 1 and not getattr(problem.executor, "elsewhere", False):
                return _cut_in_blocks(Energy(unary, pairs), partition, problem, self.fixed)
        elif not isinstance(where, tuple):
            pairs = pairs.crop(where)
        flow = self._solver.open_flow(pairs, self.fixed)
        flow.minimize(np.ascontiguousarray(unary))
        return flow.labels()


def _cut_in_blocks(energy: Energy, partition: Partition, problem: Problem, fixed: FixedPoint) -> Mask:
    binary = replace(
        problem, energy=energy, partition=partition, fixed=fixed, start=None, live=LiveLabels(), certificate=None
    )
    *_, last = Exact().steps(binary)
    assert last.labels is not None
    return last.labels.astype(np.bool_, copy=False)


def _within(partition: Partition, box: Box) -> Partition:
    """The blocks of a grid as far as they lie in a box."""
    assert partition.cuts is not None
    shape = tuple(s.stop - s.start for s in box)
    cuts = [[c - s.start for c in axis if s.start < c < s.stop] for axis, s in zip(partition.cuts, box, strict=True)]
    return Partition.at(shape, cuts)


def _put(values: Labels | Mask, where: Index, chosen: Mask, value: int) -> None:
    part = values[where]  # a view of a box, a copy of a list of sites
    part[chosen] = value
    values[where] = part
