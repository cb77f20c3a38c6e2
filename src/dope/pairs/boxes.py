"""Boxes of a grid: the two ends of all pairs of one offset, and strips that fit into a cache."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dope.arrays import Box

# Sites per strip when an energy is evaluated with NumPy: temporaries then stay in the second-level cache.
STRIP_SITES = 1 << 17


def ends(offset: Sequence[int]) -> tuple[Box, Box]:
    """Aligned views of p and of p + offset, in any number of dimensions."""
    tail = tuple(slice(max(0, -s), -s if s > 0 else None) for s in offset)
    head = tuple(slice(max(0, s), s if s < 0 else None) for s in offset)
    return tail, head


def strips(shape: tuple[int, ...], sites: int = STRIP_SITES) -> Iterator[Box]:
    """The whole of `shape`, cut along its first axis into boxes of about so many sites."""
    rows = max(1, sites // max(1, math.prod(shape[1:])))
    rest = tuple(slice(0, n) for n in shape[1:])
    for low in range(0, shape[0], rows):
        yield (slice(low, min(low + rows, shape[0])), *rest)
