"""The flow of the roof dual: F of `roof_dual`, minimized again and again, some sites forced to have a label."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.arrays import BinaryLabels, Mask, Sites
from dope.energy import Energy
from dope.fixed_point import FixedPoint
from dope.pairs import GridPairs, Pairs, ends
from dope.solvers.parts.core_flows import input_errors
from dope.sums import exact_sum

Values = npt.NDArray[np.float64]
Edges = tuple[Sites, Sites, Values]

# Up to so many pairs, capacities are so wide that rounding does not show.
SMALL_PAIRS = 1 << 22


def listed(pairs: Pairs) -> Edges:
    """First ends, second ends and weights of all pairs, as the core computes them; of a grid those that weigh."""
    if not isinstance(pairs, GridPairs):
        return pairs.edges()
    numbers, native = np.arange(pairs.sites, dtype=np.int64).reshape(pairs.shape), pairs.native()
    columns: list[Edges] = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
    for m, offset in enumerate(pairs.offsets[pairs.fits].tolist()):
        tail, head = ends(offset)
        weights = native.weights(m)[tail].ravel()
        column = (numbers[tail].ravel(), numbers[head].ravel(), weights)
        weighing = weights != 0.0
        columns.append(column if weighing.all() else tuple(values[weighing] for values in column))
    first, second, weights = (np.concatenate(column) for column in zip(*columns, strict=True))
    return first, second, weights


class Roof:
    """The flow of F, kept from call to call. Sites are flat positions; some can be forced to have a label.

    The core doubles the pairs while it stores them (cpp/roof_flow.h). A site is forced by a unary that outweighs its
    pairs. One whose own price does so counts as forced from the beginning and is given no more than that, so that it
    can be forced the other way as well.
    """

    def __init__(self, energy: Energy, edges: Edges) -> None:
        self._energy, self._edges = energy, edges
        self._fixed = self._first
        self._flow = self._opened()
        # At least twice what the pairs of any site weigh together, so that rounding does not matter.
        self.force_price = math.ldexp(1.0, math.frexp(energy.pairs.strength)[1] + 1)
        weights = edges[2]
        self._repulsion = -2 * exact_sum(weights, weights < 0.0)
        self._prices = self._given = np.zeros(energy.unary.size)
        self._forced = np.zeros(energy.unary.size, dtype=np.int8)  # +1 to label 1, -1 to label 0
        self._total = Fraction(0)

    @property
    def rounding_error(self) -> float:
        """How far counting in whole units can put `bound` from the roof dual."""
        return self._fixed.error

    def solve(self, prices: Values) -> None:
        """Minimize F for another unary, no site forced but those whose price does it."""
        self._prices = prices
        self._given = np.clip(prices, -self.force_price, self.force_price)
        self._forced = self._of_their_own(prices)
        self._total = exact_sum(prices)
        fixed = self._first if self._first.holds(self._given) else self._fine
        if fixed != self._fixed:
            self._fixed = fixed
            self._flow = self._opened()
        with input_errors():
            self._flow.minimize(self._given)

    def force(self, sites: Sites, labels: BinaryLabels, *, release: Sites | None = None) -> None:
        """Minimize F where these sites have these labels, and those to release may again have any."""
        free = np.zeros(0, dtype=np.int64) if release is None else release
        self._forced[free] = self._of_their_own(self._prices[free])
        self._forced[sites] = np.where(labels, 1, -1)
        held = np.where(labels, -self.force_price, self.force_price)
        self._flow.change(np.concatenate([free, sites]), np.concatenate([self._given[free], held]))

    def labels(self, *, of_some: bool = False) -> tuple[Mask, BinaryLabels]:
        """Where all minimizers of F agree on y = 1 - y', and the labels y there.

        Or the labels `of_some` minimizer that has y = 1 - y' at as many sites as any.
        """
        return self._flow.labels(of_some)

    def bound(self) -> Fraction:
        """The roof dual: no labels that agree with the forced ones have less energy, the constant excluded."""
        minimum = Fraction(self._flow.minimum()) / Fraction(self._fixed.scale)
        return (minimum + self._beyond() + self._total - self._repulsion) / 2

    def _beyond(self) -> Fraction:
        """In the flow a forced site adds -force, in F it adds u with label 1 and -u with label 0."""
        number = int(np.count_nonzero(self._forced))
        if not number:
            return Fraction(0)
        own = exact_sum(self._prices, self._forced > 0) - exact_sum(self._prices, self._forced < 0)
        return Fraction(self.force_price) * number + own

    @cached_property
    def _first(self) -> FixedPoint:
        """Whole costs as narrow as they fit; the sums of a site of F are those of the energy."""
        fixed = FixedPoint.of(self._energy)
        return fixed if fixed.error == 0.0 else self._wide(whole=True)

    @cached_property
    def _fine(self) -> FixedPoint:
        """For a unary that needs finer units."""
        return self._wide(whole=False)

    def _wide(self, *, whole: bool) -> FixedPoint:
        bits = 64 if self._energy.pairs.number <= SMALL_PAIRS // 2 else None
        return FixedPoint.of(self._energy, bits, whole=whole)

    def _opened(self) -> _core.RoofFlow:
        first, second, weights = self._edges
        with input_errors():
            sites = self._energy.unary.size
            return _core.RoofFlow(sites, (first, second), weights, self._fixed.scale, self._fixed.bits)

    def _of_their_own(self, prices: Values) -> npt.NDArray[np.int8]:
        return np.where(np.abs(prices) >= self.force_price, -np.sign(prices), 0).astype(np.int8)
