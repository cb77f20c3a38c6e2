"""Upper bounds of repulsive pairs that are tight at the labels so far, each minimized by one cut.

A repulsive pair is w|x - z| = -|w| x - |w| z + 2|w| xz, and its product has linear upper bounds that are tight at
labels y. With all products replaced by such, a minimum cut cannot raise the energy. Two of them:

    averaged  half of 2|w| to either end where both labels are equal, else all of it to the end with label 0
    chained   all of it to the end that comes later in an order with the sites of label 1 first, drawn anew each time

The first is the mean of the second over all orders. It stalls after a few cuts; chains go on finding their way, also
from labels where trust regions and single flips are stuck.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.cancellation import check_cancelled
from dope.protocols import Minimizer

Values = npt.NDArray[np.float64]

# A fall below this fraction of all unaries together is rounding.
NOISE = 1e-9


def least_fall(unary: Values) -> float:
    """What a fall of the energy must exceed to be one."""
    return NOISE * (1.0 + float(np.abs(unary).sum()))


@dataclass(frozen=True, eq=False)
class Chains:
    """Bounds about where `here` stands; `flow` minimizes the attractive pairs, `shape` is that of its unaries."""

    here: _core.Standpoint
    flow: Minimizer
    shape: tuple[int, ...]

    @cached_property
    def repulsion(self) -> Values:
        """The sum of |w| over each site's repulsive pairs."""
        return self.here.repulsion()

    def descend_averaged(self, unary: Values) -> None:
        """Minimize averaged bounds while the energy falls; unaries are flat here."""
        least = least_fall(unary)
        while self._moved(self._averaged(unary), least):
            check_cancelled()

    def descend(self, unary: Values, *, patience: int, seed: int) -> bool:
        """Minimize chained bounds until so many in a row gained nothing; whether any did."""
        draw, least = np.random.default_rng(seed), least_fall(unary)
        failures, gained = 0, False
        while failures < patience:
            check_cancelled()
            moved = self._moved(self._chained(unary, draw.permutation(unary.size)), least)
            failures, gained = (0, True) if moved else (failures + 1, gained)
        return gained

    def _moved(self, bound: Values, least: float) -> bool:
        """Minimize the bound and go there, if the energy falls."""
        labels = self.flow.minimize(bound.reshape(self.shape)).labels.ravel()
        if self.here.falls(labels)[0] <= least:
            return False
        self.here.move(labels)
        return True

    def _averaged(self, unary: Values) -> Values:
        """unary_i + sum over repulsive pairs of |w_ij| (y_j - y_i)."""
        of_neighbors = (self.here.tangents() - unary + self.repulsion) / 2.0
        return unary + of_neighbors - np.where(self.here.labels(), self.repulsion, 0.0)

    def _chained(self, unary: Values, order: npt.NDArray[np.int64]) -> Values:
        """unary_i + sum over repulsive pairs of |w_ij| where j comes before i, and of -|w_ij| where it comes later."""
        ones_first = np.argsort(~self.here.labels()[order], kind="stable")
        rank = np.empty(len(order), dtype=np.int64)
        rank[order[ones_first]] = np.arange(len(order))
        return unary - self.repulsion + self.here.repelled_before(rank)
