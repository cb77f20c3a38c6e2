"""A fraction as a float: an energy becomes the nearest one, a lower bound the one below."""

from __future__ import annotations

import math
import sys
from fractions import Fraction


def nearest(number: Fraction) -> float:
    """The float nearest to a number, infinite where it is beyond all of them."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def rounded_down(number: Fraction) -> float:
    """The largest float that is not above a number.

    >>> rounded_down(Fraction(1, 2)), rounded_down(Fraction(2**60 - 1)) == 2.0**60 - 128
    (0.5, True)
    """
    close = nearest(number)
    if close == math.inf:
        return sys.float_info.max
    return close if close == -math.inf or Fraction(close) <= number else math.nextafter(close, -math.inf)
