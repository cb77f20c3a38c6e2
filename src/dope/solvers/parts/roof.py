"""The flow of the roof dual: F of `roof_dual`, minimized again and again, some sites forced to have a label."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dope.arrays import Labels, Sites
from dope.energy import Energy
from dope.roof_dual import double_pairs, twice_repulsion
from dope.solvers.max_flow import MaxFlow
from dope.sums import exact_sum

Values = npt.NDArray[np.float64]

# Up to so many pairs, capacities are so wide that rounding does not show.
SMALL_PAIRS = 1 << 22


class Roof:
    """The flow of F, kept from call to call. Sites are flat positions; some can be forced to have a label.

    A site is forced by a unary that outweighs its pairs. One whose own price does so counts as forced from the
    beginning and is given no more than that, so that it can be forced the other way as well.
    """

    def __init__(self, energy: Energy) -> None:
        pairs = double_pairs(energy.pairs)
        self._shape = pairs.shape
        self._flow = MaxFlow(64 if pairs.number <= SMALL_PAIRS else None).prepare(
            Energy(self._mirrored(energy.unary.ravel().astype(np.float64)), pairs)
        )
        # At least twice what the pairs of any site weigh together, so that rounding does not matter.
        self.force_price = math.ldexp(1.0, math.frexp(energy.pairs.strength)[1] + 1)
        self._repulsion = twice_repulsion(pairs)
        self._prices = self._given = np.zeros(energy.unary.size)
        self._forced = np.zeros(energy.unary.size, dtype=np.int8)  # +1 to label 1, -1 to label 0
        self._total = Fraction(0)

    @property
    def scale(self) -> float:
        """Costs are counted in units of 1 / scale."""
        return self._flow.scale

    @property
    def rounding_error(self) -> float:
        """How far counting in whole units can put `bound` from the roof dual."""
        return self._flow.rounding_error / 2

    def solve(self, prices: Values) -> None:
        """Minimize F for another unary, no site forced but those whose price does it."""
        self._prices = prices
        self._given = np.clip(prices, -self.force_price, self.force_price)
        self._forced = self._of_their_own(prices)
        self._total = exact_sum(prices)
        self._flow.minimize(self._mirrored(self._given))

    def force(self, sites: Sites, labels: Labels, *, release: Sites | None = None) -> None:
        """Minimize F where these sites have these labels, and those to release may again have any."""
        free = np.zeros(0, dtype=np.int64) if release is None else release
        self._forced[free] = self._of_their_own(self._prices[free])
        self._forced[sites] = np.where(labels, 1, -1)
        held = np.where(labels, -self.force_price, self.force_price)
        places, prices = np.concatenate([free, sites]), np.concatenate([self._given[free], held])
        self._flow.change(np.concatenate([places, places + len(self._prices)]), np.concatenate([prices, -prices]))

    def labels(self) -> tuple[Labels, Labels]:
        """Where all minimizers of F agree on y = 1 - y', and the labels y there."""
        one, other = self._flow.labels().reshape(2, -1)
        return one | other, one

    def bound(self) -> Fraction:
        """The roof dual: no labels that agree with the forced ones have less energy, the constant excluded."""
        ones, zeros = self._forced > 0, self._forced < 0
        # In the flow a forced site adds -force, in F it adds u with label 1 and -u with label 0.
        beyond = Fraction(self.force_price) * int(np.count_nonzero(ones | zeros))
        beyond += exact_sum(self._prices, ones) - exact_sum(self._prices, zeros)
        return (self._flow.minimum() + beyond + self._total - self._repulsion) / 2

    def _of_their_own(self, prices: Values) -> npt.NDArray[np.int8]:
        return np.where(np.abs(prices) >= self.force_price, -np.sign(prices), 0).astype(np.int8)

    def _mirrored(self, prices: Values) -> Values:
        return np.stack([prices, -prices]).reshape(self._shape)
