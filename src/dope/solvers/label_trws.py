"""Sequential tree-reweighted message passing with several labels: a lower bound of any energy, and labels by the way.

Kolmogorov, Convergent tree-reweighted message passing for energy minimization, 2006; cpp/label_trws.h has the
equations. Each round passes over all sites up and down, in the order of their index. The bound that either pass ends
with is a true one whatever the messages were before, and the best of all is kept; so are the best labels. The bound
rises towards one of the local polytope relaxation, where it may stop short of the best one; on trees that is the
minimum, and nearly so where two labels are at stake at most sites.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.arrays import binary_places, core_reads, most_places
from dope.errors import InputError
from dope.label_energy import LabelEnergy, LabelNumbers
from dope.pairs import GridPairs, TablePairs
from dope.rounding import rounded_down
from dope.solvers.parts.settings import require_count
from dope.solvers.parts.standpoint import neighbors
from dope.solvers.trws import MOST_UNITS

# Rounds from one look at the gap to the next.
ROUNDS_BETWEEN_LOOKS = 10
# How the core reads costs in place; others become float64.
COST_TYPES = (np.uint8, np.uint16, np.int16, np.int32, np.float32, np.float64)


@dataclass(frozen=True)
class LabelBound:
    """Where message passing is after some rounds.

    Attributes
    ----------
    rounds : how many there were.
    energy : of the best labels so far, but for the rounding of a sum.
    bound : no labels have less energy than this; rounding is taken off.
    rounding_error : how much was taken off.
    """

    rounds: int
    energy: float
    bound: float
    rounding_error: float


@dataclass(frozen=True, eq=False)
class LabelAnswer:
    """Labels of several, their energy, and a bound: no labels have less. `exact` says that these are a minimum."""

    labels: LabelNumbers
    energy: float
    bound: float
    rounding_error: float
    rounds: int

    @property
    def exact(self) -> bool:
        return self.bound >= self.energy


@dataclass(frozen=True)
class LabelTrwS:
    """A lower bound of any energy of several labels, and labels.

    Attributes
    ----------
    rounds : at most so many.
    tolerance : stop where ten rounds close no more than this fraction of the gap between bound and labels.

    Examples
    --------
    >>> energy = LabelEnergy.graph([[0, 2, 2], [1, 0, 3], [3, 0, 1]], [[0, 1], [1, 2]], [1, 1])
    >>> answer = LabelTrwS().minimize(energy)
    >>> answer.labels.tolist(), answer.bound, answer.exact
    ([0, 1, 1], 1.0, True)
    """

    takes_labels: ClassVar[bool] = True

    rounds: int = 1000
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        require_count("LabelTrwS: rounds", self.rounds, 1)
        tolerance: object = self.tolerance
        if not isinstance(tolerance, (int, float)) or not 0.0 <= tolerance < 1.0:
            raise InputError(f"LabelTrwS: tolerance is {self.tolerance!r}; expected a fraction from 0 to below 1.")

    def prepare(self, energy: LabelEnergy, *, threads: int = 1) -> LabelMessages:
        """The energy with messages of 0. `threads` change nothing but the time it takes; graphs use one."""
        return LabelMessages(energy, self, threads)

    def minimize(self, energy: LabelEnergy, *, start: npt.ArrayLike | None = None, threads: int = 1) -> LabelAnswer:
        """All rounds; the labels are no worse than those of the start."""
        messages = self.prepare(energy, threads=threads)
        for _ in messages.steps():
            pass
        return messages.answer(start=start)


class LabelMessages:
    """One energy and the messages between its sites, which take a number per pair and label."""

    def __init__(self, energy: LabelEnergy, solver: LabelTrwS, threads: int = 1) -> None:
        require_count("LabelTrwS: threads", threads, 1)
        if not energy.in_memory:
            raise InputError(
                "LabelTrwS is asked for an energy that is not in memory; call at(box) or read() first, or solve it in "
                "blocks."
            )
        self._energy, self._solver, self._threads = energy, solver, threads
        self._core = _native(energy)
        self._unit = _unit(energy)

    def steps(self) -> Iterator[LabelBound]:
        """Rounds by tens, until one of the solver's limits is reached or nothing is left to gain."""
        left, before = self._solver.rounds, -math.inf
        while left > 0:
            asked = min(left, ROUNDS_BETWEEN_LOOKS)
            done = self._core.rounds
            self._core.run(asked, self._unit, self._threads)
            left -= asked
            yield self.now()
            gap = self._core.energy - self._core.bound
            ended = self._core.rounds - done < asked  # the core saw that the gap is closed
            if ended or not gap > 0.0 or self._core.bound - before <= self._solver.tolerance * gap:
                return
            before = self._core.bound

    def now(self) -> LabelBound:
        """What is known so far."""
        energy = self._core.energy + self._energy.constant
        return LabelBound(self._core.rounds, energy, self._bound(), self._core.rounding_error)

    def labels(self) -> LabelNumbers:
        """The best labels so far."""
        found = self._core.labels().reshape(self._energy.shape)
        return found.astype(self._energy.label_type)

    def answer(self, *, start: npt.ArrayLike | None = None) -> LabelAnswer:
        """The best labels so far, or the start where that is better, and the bound."""
        energy = self._energy
        labels = self.labels()
        height = energy.exactly(labels)
        if start is not None and (given := energy.exactly(start)) < height:
            labels, height = energy.as_labels(start), given
        bound = min(self._bound(), rounded_down(height))
        return LabelAnswer(labels, energy(labels), bound, self._core.rounding_error, self._core.rounds)

    def _bound(self) -> float:
        """The bound without its rounding, and the constant."""
        bound, error = self._core.bound, self._core.rounding_error
        if not math.isfinite(bound - error):
            return -math.inf
        lower = Fraction(bound) - Fraction(error)
        if self._unit:  # no energy lies between multiples of the unit
            unit = Fraction(self._unit)
            lower = math.ceil(lower / unit) * unit
        return rounded_down(lower + Fraction(self._energy.constant))


def message_bytes(energy: LabelEnergy) -> int:
    """What the messages of an energy take."""
    pairs = energy.pairs
    slots = pairs.sites * len(pairs.offsets) if isinstance(pairs, GridPairs) else pairs.number
    return slots * energy.label_count * 8


def _native(energy: LabelEnergy) -> _core.LabelTrws:
    costs = energy.costs.reshape(-1, energy.label_count)
    if not core_reads(costs, COST_TYPES) or not costs.flags.c_contiguous:
        costs = np.ascontiguousarray(costs, dtype=None if core_reads(costs, COST_TYPES) else np.float64)
    pairs = energy.pairs
    if isinstance(pairs, TablePairs):
        ends = np.stack([pairs.first, pairs.second], axis=1)
        around = _core.Neighbors.graph(pairs.sites, ends, np.ones(pairs.number))
        tables = np.ascontiguousarray(pairs.tables)
        return _core.LabelTrws(around, costs, None, "potts", math.inf, None, tables, False)
    metric = energy.metric
    assert metric is not None
    inside = pairs.inside if isinstance(pairs, GridPairs) else None
    mask = None if inside is None else np.ascontiguousarray(inside).ravel()
    return _core.LabelTrws(neighbors(pairs), costs, mask, metric.kind, metric.limit, metric.table, None, False)


def _unit(energy: LabelEnergy) -> float:
    """A power of two of which all energies are multiples; 0 where there is none, or where they are too many."""
    if isinstance(energy.pairs, TablePairs):
        places = binary_places([energy.pairs.tables])
        paid = float(np.abs(energy.pairs.tables).max(axis=(1, 2), initial=0.0).sum())
    else:
        assert energy.metric is not None
        table = energy.metric.matrix(energy.label_count)
        of_weights, of_table = energy.pairs.binary_places(), binary_places([table])
        places = None if of_weights is None or of_table is None else of_weights + of_table
        paid = energy.pairs.largest * energy.pairs.number * float(np.abs(table).max())
    inside = energy.pairs.inside if isinstance(energy.pairs, GridPairs) else None
    costs = energy.costs if inside is None else energy.costs[np.asarray(inside)]
    if costs.dtype.kind == "f":
        places = most_places([places, binary_places([costs])])
    if places is None:
        return 0.0
    largest = max(abs(float(costs.min(initial=0))), abs(float(costs.max(initial=0))))
    unit = 2.0**-places
    return unit if largest * len(costs.reshape(-1, energy.label_count)) + paid < MOST_UNITS * unit else 0.0
