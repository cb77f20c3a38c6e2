"""Iterated conditional modes: flip what pays until nothing does.

With labels y, site i pays f_i = u_i + sum_j w_ij (1 - 2 y_j) for label 1 over label 0, so flipping it gains f_i where
y_i = 1 and -f_i where y_i = 0. The site that gains most flips first (of equals the lower index), then the one that
gains most after that, and so on. Any signs of the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

import numpy as np

from dope.arrays import BinaryLabels, Reals
from dope.energy import Energy
from dope.errors import InputError
from dope.protocols import Answer
from dope.solvers.parts.standpoint import UNLIMITED, standpoint


@dataclass(frozen=True)
class Icm:
    """A local minimum of any energy: no single flip improves it, unless so many `flips` were not enough.

    Begins at the start, or at the sign of the unary. A gain within the rounding of its own sum is none.

    Examples
    --------
    >>> energy = Energy.graph([-3.0, 1.0, 1.0], [[0, 1], [1, 2]], [2.0, 2.0])
    >>> Icm().prepare(energy).minimize(energy.unary).labels.tolist()
    [True, False, False]
    """

    flips: int | None = None

    def __post_init__(self) -> None:
        whole = isinstance(self.flips, int) and not isinstance(self.flips, bool)
        if self.flips is not None and not (whole and self.flips >= 0):
            raise InputError(
                f"Icm: flips is {self.flips!r}; expected a whole number of 0 or more, or None for no limit."
            )

    def prepare(self, energy: Energy) -> IcmMinimizer:
        return IcmMinimizer(energy, self)


class IcmMinimizer:
    """The energy seen from labels that move. Threads may share it: one after the other takes its turn."""

    def __init__(self, energy: Energy, solver: Icm) -> None:
        self._shape = energy.shape
        self._here = standpoint(energy.pairs)
        self._most = UNLIMITED if solver.flips is None else min(solver.flips, UNLIMITED)
        self._turn = Lock()

    def minimize(self, unary: Reals, *, start: BinaryLabels | None = None) -> Answer:
        prices = np.ascontiguousarray(unary, dtype=np.float64).ravel()
        with self._turn:
            self._here.stand(prices, prices < 0 if start is None else start.ravel())
            self._here.descend(self._most)
            return Answer(self._here.labels().reshape(self._shape))
