"""The median of numbers that lie in many blocks, to the bit, without having them in one place.

    sketch     of each block's numbers, in order, some at known ranks: between two of them lie known numbers of others
    bracket    from all sketches: two numbers with the median's ranks for certain between them
    count      each block's numbers between these two, each different one once, with how often it occurs

What is counted is few where numbers differ: of n of them in each block, about 2 n / SKETCH.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dope.arrays import Sites

Numbers = npt.NDArray[np.float64]

# Numbers of a block that its sketch has: 8 kB of them.
SKETCH = 1024


@dataclass(frozen=True, eq=False)
class Sketch:
    """Some of a block's numbers, in order, and their ranks, the first and the last among them; `number` are there."""

    values: Numbers
    ranks: Sites
    number: int

    @classmethod
    def of(cls, numbers: Numbers) -> Sketch:
        """Of numbers that are in order."""
        ranks = np.unique(np.linspace(0, len(numbers) - 1, SKETCH).astype(np.int64)) if len(numbers) else _NONE
        return cls(numbers[ranks], ranks, len(numbers))


@dataclass(frozen=True, eq=False)
class Count:
    """How many of a block's numbers are below a range, and the different ones in it, with how often they occur."""

    below: int
    values: Numbers
    times: Sites

    @classmethod
    def of(cls, numbers: Numbers, low: float, high: float) -> Count:
        """Of numbers that are in order."""
        first, last = np.searchsorted(numbers, low, side="left"), np.searchsorted(numbers, high, side="right")
        values, times = np.unique(numbers[first:last], return_counts=True)
        return cls(int(first), values, times.astype(np.int64))


_NONE = np.zeros(0, dtype=np.int64)


def middle_ranks(number: int) -> tuple[int, int]:
    """The ranks, from 0, whose mean is the median."""
    return (number - 1) // 2, number // 2


def bracket(sketches: Sequence[Sketch]) -> tuple[float, float]:
    """Two numbers such that those of the middle ranks, of all blocks together, are neither below nor above them."""
    low_rank, high_rank = middle_ranks(sum(one.number for one in sketches))
    some = [one for one in sketches if one.number]
    values = np.concatenate([one.values for one in some])
    # Below a number x are at most those before the first of the sketch that is not below x; and up to x are at least
    # those up to the last of the sketch that is not above it.
    at_most = np.concatenate([np.diff(one.ranks, append=one.number) for one in some])
    at_least = np.concatenate([np.diff(one.ranks, prepend=-1) for one in some])
    order = np.argsort(values, kind="stable")
    values, at_most, at_least = values[order], np.cumsum(at_most[order]), np.cumsum(at_least[order])
    distinct, first = np.unique(values, return_index=True)
    below = np.where(first > 0, at_most[first - 1], 0)
    last = np.append(first[1:], len(values)) - 1
    low = distinct[np.searchsorted(below, low_rank, side="right") - 1]
    high = distinct[np.searchsorted(at_least[last], high_rank + 1, side="left")]
    return float(low), float(high)


def median(counts: Sequence[Count], number: int, *, kind: str = "<f8") -> float:
    """The mean of the numbers of the middle ranks, as `numpy.median` has it of numbers of this kind."""
    values = np.concatenate([one.values for one in counts])
    order = np.argsort(values, kind="stable")
    upto = sum(one.below for one in counts) + np.cumsum(np.concatenate([one.times for one in counts])[order])
    places = np.searchsorted(upto, np.array(middle_ranks(number)), side="right")
    return float(values[order][places].astype(kind).mean())
