"""Costs in whole units of 1 / scale, and sums from which nothing is lost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]
Units = npt.NDArray[np.int64]

# Up to here a float64 holds every whole number.
MOST_UNITS = 2**53
# What the costs of a site may add up to: while excess is pushed it reaches a few times that, which int64 still holds.
MOST_AT_A_SITE = 2**59
# A unary beyond its pairs' reach may be far larger, if it is a number at all: one of 1e30 says "certainly".
MOST_UNARY = 2**1000


class FaultError(Exception):
    """What is wrong with a certificate."""


@dataclass(frozen=True)
class Unit:
    """Counts costs in units of 1 / scale."""

    scale: float

    def __post_init__(self) -> None:
        if math.frexp(self.scale)[0] != 0.5:
            raise FaultError(f"the scale is {self.scale!r}; expected a power of two, which scales costs without loss")

    def weights(self, weights: Reals) -> tuple[Units, Reals]:
        """Weights in units, and by how much each changed by that, in its own measure."""
        units, lost = self._counted("a weight", weights, MOST_UNITS)
        return units.astype(np.int64), lost

    def unary(self, unary: npt.NDArray[Any]) -> tuple[Reals, Reals]:
        """Unaries in units, as whole floats, and by how much each changed by that, in its own measure."""
        return self._counted("a unary", unary.astype(np.float64), MOST_UNARY)

    def _counted(self, name: str, costs: Reals, most: int) -> tuple[Reals, Reals]:
        with np.errstate(over="ignore", under="ignore"):
            units = np.rint(costs * self.scale)
            if not np.all(np.abs(units) <= most):
                raise FaultError(
                    f"the scale is {self.scale:g}, at which {name} is more than {float(most):.4g} units; expected a "
                    f"coarser one"
                )
            # Not |costs x scale - units|: a product too small for a float is 0, and would seem whole. The difference is
            # no more than half a unit and a multiple of the last bit of either, so that no bit of it is lost.
            return units, np.abs(costs - units / self.scale)

    def check_site_sums(self, sites: npt.NDArray[np.int64], units: Units) -> None:
        """Refuse costs, given with their sites, that add up beyond what int64 is safe with; floats are close enough."""
        most = np.bincount(sites, np.abs(units), minlength=1).max()
        if most > MOST_AT_A_SITE:
            raise FaultError(
                f"the scale is {self.scale:g}, at which the costs of a site add up to {most:.4g} units; expected a "
                f"coarser one"
            )


def real_sum(values: Reals) -> Fraction:
    """The sum of finite floats: of those with the same exponent, the sum of their mantissas.

    >>> real_sum(np.array([1e30, 0.5, -1e30]))
    Fraction(1, 2)
    """
    fraction, exponent = np.frexp(values.reshape(-1))
    order = np.argsort(exponent, kind="stable")
    mantissa, exponent = (fraction[order] * 2.0**53).astype(np.int64), exponent[order]
    powers, starts = np.unique(exponent, return_index=True)
    if not len(powers):
        return Fraction(0)
    high, low = np.add.reduceat(mantissa >> 26, starts), np.add.reduceat(mantissa & (1 << 26) - 1, starts)
    terms = zip(powers.tolist(), high.tolist(), low.tolist(), strict=True)
    return sum((Fraction(2) ** (power - 53) * ((above << 26) + below) for power, above, below in terms), Fraction(0))


def exact_sum(values: Reals | Units) -> int:
    """The sum of int64, or of whole floats, however large it is."""
    large = 0
    if values.dtype.kind == "f":
        beyond = np.abs(values) > MOST_UNITS
        large, values = sum(int(value) for value in values[beyond].tolist()), values[~beyond]
    units = values.astype(np.int64)
    return large + (int((units >> 32).sum()) << 32) + int((units & 0xFFFFFFFF).sum())
