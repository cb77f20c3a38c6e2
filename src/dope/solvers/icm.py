"""Iterated conditional modes: flip what pays until nothing does.

With labels y, site i pays f_i = u_i + sum_j w_ij (1 - 2 y_j) for label 1 over label 0, so flipping it gains f_i where
y_i = 1 and -f_i where y_i = 0. In each turn the sites flip whose gain is positive and the largest among their
neighbours' (ties: the lower index). No two of them are neighbours, so the gains add up and the energy falls. Any
signs of the weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dope.arrays import Labels, Reals
from dope.energy import Energy
from dope.protocols import Answer


@dataclass(frozen=True)
class Icm:
    """A local minimum of any energy: no single flip improves it. Pure NumPy."""

    turns: int = 10_000

    def prepare(self, energy: Energy) -> IcmMinimizer:
        return IcmMinimizer(energy, self.turns)


class IcmMinimizer:
    """The pairs as a list, first ends below second ends."""

    def __init__(self, energy: Energy, turns: int) -> None:
        self._shape = energy.shape
        one, other, self._weights = energy.pairs.edges()
        self._first, self._second = np.minimum(one, other), np.maximum(one, other)
        self._turns = turns

    def minimize(self, unary: Reals, *, start: Labels | None = None) -> Answer:
        prices = unary.ravel().astype(np.float64)
        labels = (prices < 0) if start is None else start.ravel().copy()
        # A gain within the rounding of the field's own sum is no gain: without this, float noise could flip for ever.
        noise = 1e-12 * (np.abs(prices) + self._sum_over_pairs(np.abs(self._weights), np.abs(self._weights)))
        for _ in range(self._turns):
            sign = 1.0 - 2.0 * labels
            field = prices + self._sum_over_pairs(self._weights * sign[self._second], self._weights * sign[self._first])
            gain = -sign * field
            gain[gain <= noise] = 0.0
            flips = self._highest(gain)
            if not flips.any():
                break
            labels ^= flips
        return Answer(labels.reshape(self._shape))

    def _sum_over_pairs(
        self, to_first: npt.NDArray[np.float64], to_second: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        size = int(np.prod(self._shape))
        sums = np.bincount(self._first, to_first, size) + np.bincount(self._second, to_second, size)
        return sums.astype(np.float64, copy=False)

    def _highest(self, gain: npt.NDArray[np.float64]) -> Labels:
        """Sites with a positive gain that no neighbour exceeds; of equals, the lower index."""
        highest = gain > 0
        first_wins = gain[self._first] >= gain[self._second]
        highest[self._second[first_wins]] = False
        highest[self._first[~first_wins]] = False
        return highest
