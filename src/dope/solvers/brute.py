"""Every labelling there is: the minimum of a tiny energy, whatever its weights.

The energies of the first k sites stand in a list in which the labels of these sites are the bits of the position. One
more site, in front of them, doubles the list: with label 0 it adds sum_j w_j y_j to each, with label 1
u + sum_j w_j (1 - y_j). Sums over pairs double in the same way, so that no labelling is ever looked at alone.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Reals, binary_places
from dope.cancellation import check_cancelled
from dope.energy import Energy
from dope.errors import InputError
from dope.protocols import Answer

# 2^24 energies take 128 MB, their making as much again, and less than a second.
MOST_SITES = 24

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Brute:
    """The exact minimum of up to 24 sites by looking at every labelling, for tests and tiny problems.

    Of labels with equal energy it takes those that are the smallest binary number, the first site's label being the
    first digit; where no weight is negative, these are the minimizer with the fewest sites True. Costs that are no
    binary fractions are added up in float64, and `rounding_error` bounds what that can cost.

    Examples
    --------
    >>> energy = Energy.graph([1.0, 1.0, -1.0], [[0, 1], [1, 2]], [-3.0, 0.5])
    >>> answer = Brute().prepare(energy).minimize(energy.unary)
    >>> answer.labels.astype(int).tolist(), answer.bound
    ([0, 1, 1], -3.0)
    """

    def prepare(self, energy: Energy) -> BruteMinimizer:
        if energy.unary.size > MOST_SITES:
            raise InputError(
                f"Brute looks at every labelling, and the energy has {energy.unary.size} sites; expected at most "
                f"{MOST_SITES}. Use MaxFlow() where no weight is negative, else Portfolio(), or Qpbo() for a bound; "
                f"in blocks, overlap counts too."
            )
        return BruteMinimizer(energy)


class BruteMinimizer:
    """The weights of all pairs as a matrix."""

    def __init__(self, energy: Energy) -> None:
        self._shape = energy.shape
        first, second, weights = energy.pairs.edges()
        self._weights = np.zeros((energy.unary.size,) * 2)
        np.add.at(self._weights, (first, second), weights)
        self._weights += self._weights.T

    def minimize(self, unary: Reals, *, start: BinaryLabels | None = None) -> Answer:
        del start  # all labels are looked at
        prices = unary.ravel().astype(np.float64)
        energies = np.zeros(1 << len(prices))
        for known, site in enumerate(reversed(range(len(prices)))):
            check_cancelled()
            to_others = self._weights[site, site + 1 :]
            lower, upper = energies[: 1 << known], energies[1 << known : 2 << known]
            apart = _sums(to_others)  # what the pairs of label 0 cost
            np.subtract(prices[site] + to_others.sum(), apart, out=upper)
            upper += lower
            lower += apart
        best = int(energies.argmin())
        digits = np.array([best >> place & 1 for place in reversed(range(len(prices)))], dtype=np.bool_)
        labels = digits.reshape(self._shape)
        return Answer(
            labels,
            float(energies[best]),
            proved=np.ones(self._shape, dtype=np.bool_),
            exact=True,
            rounding_error=self._rounding_error(prices),
        )

    def _rounding_error(self, prices: Values) -> float:
        """How far float64 can put any of the energies from what it is: 0 while all sums are whole in one unit."""
        most = float(np.abs(prices).sum() + np.abs(self._weights).sum() / 2)
        places = binary_places([prices, self._weights])
        if places is not None and most * 2.0**places < 2**53:
            return 0.0
        # An energy is the sum of at most so many numbers, each step rounding by half of the last place.
        terms = len(prices) * (len(prices) + 3)
        return most * terms * sys.float_info.epsilon


def _sums(weights: Values) -> Values:
    """The sum of w_j y_j for all labels y, read as binary numbers."""
    sums = np.zeros(1 << len(weights))
    for known, weight in enumerate(weights[::-1]):
        np.add(sums[: 1 << known], weight, out=sums[1 << known : 2 << known])
    return sums
