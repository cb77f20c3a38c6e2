"""Sums from which nothing is lost, whatever the sizes and the order: a float is a fraction, and so is a sum of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dope import _core
from dope.arrays import Mask, Reals, core_reads
from dope.errors import InputError

_UNIT = 1 << _core.EXACT_PLACES


def exact_sum(values: Reals, where: Mask | None = None) -> Fraction:
    """The sum of an array, of those that `where` names if it is given.

    >>> import numpy as np
    >>> exact_sum(np.array([1e30, 0.5, -1e30]))
    Fraction(1, 2)
    """
    numbers = values if core_reads(values) else np.ascontiguousarray(values)
    try:
        return in_units(_core.exact_sum(numbers, where))
    except OverflowError as error:
        raise InputError(f"{error}; scale the costs down first.") from error


def in_units(number: int) -> Fraction:
    """What the core counted in units of 2^-EXACT_PLACES."""
    return Fraction(number, _UNIT)
