"""Mean field that cools down: every site by itself in the field of the others, first blurred, then sharp.

Among distributions in which sites are independent, label 1 having probability q_i, the free energy E(q) - T entropy(q)
is least where

    q_i = 1 / (1 + exp(f_i / T)),      f_i = u_i + sum_j w_ij (1 - 2 q_j)

A sweep sets one q_i after the other so, up and down the sites by turns, from q = 1/2. With s_i = sum_j |w_ij|,

    T = hot max(s) / 2,  cooling T,  cooling^2 T,  ...,  cold mean(s) / 2        one sweep at each

From hot = 1 on there is but one solution at first, found from anywhere; at the end nearly all q are 0 or 1. They are
rounded, and single flips finish. Where all labels could be swapped for nothing, q = 1/2 would stay for ever: a field
of a hundredth of the last T, different at every site, decides.

Tuned on the curvature and deconvolution instances of `experiments/curvature.py`, and with little to tune: hot from 1/2
to 2, cold from 0.005 to 0.05 and cooling from 0.9 to 0.99 all end within 0.2% of one another on each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.arrays import BinaryLabels, Reals
from dope.energy import Energy
from dope.errors import InputError
from dope.protocols import Answer
from dope.solvers.parts.standpoint import lowest, neighbors, polished


@dataclass(frozen=True)
class MeanField:
    """A low minimum of any energy by slow cooling, or that of Icm() if it is lower. No single flip improves it.

    Attributes
    ----------
    hot : the first temperature, in units of half the largest sum of |weight| around a site.
    cold : the last one, in units of half the average sum.
    cooling : the temperature of a sweep over that of the one before.

    Examples
    --------
    >>> energy = Energy.graph([-3.0, 1.0, 1.0, 1.0], [[0, 1], [1, 2], [2, 3]], [2.0, -2.0, 1.0])
    >>> MeanField().prepare(energy).minimize(energy.unary).labels.tolist()
    [True, True, False, False]
    """

    hot: float = 1.0
    cold: float = 0.01
    cooling: float = 0.95

    def __post_init__(self) -> None:
        if not 0.0 < self.cold <= self.hot < np.inf:
            raise InputError(
                f"MeanField: hot is {self.hot!r} and cold {self.cold!r}; expected numbers above 0, hot not below cold."
            )
        if not 0.0 < self.cooling < 1.0:
            raise InputError(f"MeanField: cooling is {self.cooling!r}; expected a factor between 0 and 1.")

    def prepare(self, energy: Energy) -> MeanFieldMinimizer:
        return MeanFieldMinimizer(energy, self)


class MeanFieldMinimizer:
    """The pairs, ready for probabilities, which begin at 1/2 in every call."""

    def __init__(self, energy: Energy, solver: MeanField) -> None:
        around = neighbors(energy.pairs)
        self._cooling, self._here = Cooling(around, solver), _core.Standpoint(around)

    def minimize(self, unary: Reals, *, start: BinaryLabels | None = None) -> Answer:
        prices = np.ascontiguousarray(unary, dtype=np.float64)
        starts = [self._cooling.labels(prices), prices < 0 if start is None else start]
        return Answer(lowest(self._here, prices, [polished(self._here, prices, labels) for labels in starts]))


class Cooling:
    """Labels by slow cooling, before single flips."""

    def __init__(self, around: _core.Neighbors, solver: MeanField) -> None:
        self._core, self._solver = _core.MeanField(around), solver

    def labels(self, unary: npt.NDArray[np.float64]) -> BinaryLabels:
        hot, cold = self._solver.hot * self._core.strength / 2, self._solver.cold * self._core.mean_strength / 2
        if cold == 0.0:  # no pairs
            return np.asarray(unary < 0)
        return (self._core.run(unary.ravel(), hot, cold, self._solver.cooling) > 0.5).reshape(unary.shape)
