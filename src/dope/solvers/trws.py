"""Sequential tree-reweighted message passing: a lower bound of any energy, and labels by the way.

Kolmogorov, Convergent tree-reweighted message passing for energy minimization, 2006, for two labels; cpp/trws.h has
the equations. Each round passes over all sites up and down, in the order of their index. The bound that either pass
ends with is a true one whatever the messages were before, and the best of all is kept. It rises towards that of the
linear program

    min sum_i u_i y_i + sum w_ij d_ij,    0 <= y <= 1,    |y_i - y_j| <= d_ij <= min(y_i + y_j, 2 - y_i - y_j)

(Kolmogorov and Wainwright, 2005: with two labels nothing stops it before), which is the roof dual of QPBO. On trees
that is the minimum, and where no weight is negative too; where strong pairs repel each other it can be far below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dope import _core
from dope.arrays import Labels, Reals, binary_places
from dope.energy import Energy
from dope.errors import InputError
from dope.protocols import Answer
from dope.solvers.max_flow import MaxFlow
from dope.solvers.parts.settings import require_count
from dope.solvers.parts.standpoint import lowest, neighbors, polished

# Sums of so many units are exact in float64, also while they are added up.
MOST_UNITS = 2.0**52


@dataclass(frozen=True)
class TrwS:
    """A lower bound of any energy, and labels that no single flip improves: what the messages say, or Icm() if better.

    Attributes
    ----------
    rounds : at most so many.
    tolerance : stop where ten rounds close no more than this fraction of the gap between bound and labels.

    Examples
    --------
    >>> energy = Energy.graph([-3, 1, 1, 1], [[0, 1], [1, 2], [2, 3]], [2, -2, 1])
    >>> answer = TrwS().prepare(energy).minimize(energy.unary)
    >>> answer.labels.tolist(), answer.bound, answer.exact
    ([True, True, False, False], -4.0, True)
    """

    rounds: int = 1000
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        require_count("TrwS: rounds", self.rounds, 1)
        tolerance: object = self.tolerance
        if not isinstance(tolerance, (int, float)) or not 0.0 <= tolerance < 1.0:
            raise InputError(f"TrwS: tolerance is {self.tolerance!r}; expected a fraction from 0 to below 1.")

    def prepare(self, energy: Energy) -> TrwSMinimizer:
        return TrwSMinimizer(energy, self)

    @property
    def flow_solver(self) -> MaxFlow:
        """What finds the roof dual over many blocks."""
        return MaxFlow()


class TrwSMinimizer:
    """The pairs ready for messages, which begin at 0 in every call."""

    def __init__(self, energy: Energy, solver: TrwS) -> None:
        self._pairs, self._places = energy.pairs, energy.pairs.binary_places()
        around = neighbors(energy.pairs)
        self._core, self._here, self._solver = _core.Trws(around), _core.Standpoint(around), solver

    def minimize(self, unary: Reals, *, start: Labels | None = None) -> Answer:
        prices = np.ascontiguousarray(unary, dtype=np.float64)
        unit = self._unit(prices)
        found, bound, error, _ = self._core.run(prices.ravel(), self._solver.rounds, self._solver.tolerance, unit)
        starts = [found.reshape(prices.shape), prices < 0 if start is None else start]
        labels = lowest(self._here, prices, [polished(self._here, prices, y) for y in starts])
        energy = Energy(prices, self._pairs)
        if not math.isfinite(bound - error):
            return Answer(labels)
        if not unit:
            return Answer(labels, bound, rounding_error=error)
        # No energy lies between multiples of the unit.
        whole = min(math.ceil((bound - error) / unit) * unit, energy(labels))
        return Answer(labels, whole, exact=whole == energy(labels))

    def _unit(self, unary: Reals) -> float:
        """A power of two of which all energies are multiples; 0 where there is none, or where they are too many."""
        places = None if self._places is None else binary_places([unary])
        if places is None or self._places is None:
            return 0.0
        unit = 2.0 ** -max(places, self._places)
        with np.errstate(over="ignore"):
            total = float(np.abs(unary).sum()) + self._pairs.largest * self._pairs.number
        return unit if total < MOST_UNITS * unit else 0.0
