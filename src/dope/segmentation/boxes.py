"""Boxes of a grid as they are read one after another, and what of a grid lies in the smallest one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, Mask
from dope.cancellation import check_cancelled
from dope.pairs import strips
from dope.stored import Readable

# Sites that are looked at in one go by whoever reads everything here, one box after another.
READ_SITES = 1 << 22


def whole_of(shape: Sequence[int]) -> Box:
    """All of it."""
    return tuple(slice(0, n) for n in shape)


def sides_of(box: Box) -> tuple[int, ...]:
    """The shape of a box."""
    return tuple(s.stop - s.start for s in box)


def corner_of(box: Box) -> tuple[int, ...]:
    """Its first site."""
    return tuple(s.start for s in box)


def moved(box: Box, by: Sequence[int], sign: int = 1) -> Box:
    """The box so many sites further along each axis, or, with -1, as seen from there."""
    return tuple(slice(s.start + sign * o, s.stop + sign * o) for s, o in zip(box, by, strict=True))


def read_boxes(source: Readable) -> Iterator[tuple[Box, npt.NDArray[Any]]]:
    """All of it, a few whole chunks at a time."""
    for box in _pieces(source.shape, source.chunks):
        check_cancelled()
        yield box, source.at(box)


def _pieces(shape: tuple[int, ...], chunks: Sequence[int] | None) -> Iterator[Box]:
    if chunks is None:
        yield from strips(shape, READ_SITES)
        return
    sides = [min(n, c) for n, c in zip(shape, chunks, strict=True)]
    for axis in reversed(range(len(sides))):  # as they follow one another in files
        more = max(1, READ_SITES // math.prod(sides))
        sides[axis] = min(shape[axis], more * sides[axis])
    ranges = [range(0, n, side) for n, side in zip(shape, sides, strict=True)]
    for corner in product(*ranges):
        yield tuple(slice(c, min(c + side, n)) for c, side, n in zip(corner, sides, shape, strict=True))


def bounding_box(source: Readable, chosen: Callable[[npt.NDArray[Any]], Mask]) -> Box | None:
    """The smallest box that holds all sites which are chosen, None where none is."""
    low, high = list(source.shape), [0] * len(source.shape)
    for box, values in read_boxes(source):
        here = chosen(values)
        if not here.any():
            continue
        for axis, side in enumerate(box):
            places = np.flatnonzero(here.any(axis=tuple(a for a in range(here.ndim) if a != axis)))
            low[axis] = min(low[axis], side.start + int(places[0]))
            high[axis] = max(high[axis], side.start + int(places[-1]) + 1)
    return None if low[0] >= high[0] else tuple(slice(a, b) for a, b in zip(low, high, strict=True))


def same_numbers(one: Readable, other: Readable) -> bool:
    """Whether two arrays hold the same, which is read box by box."""
    if one is other:
        return True
    if one.shape != other.shape or one.site_bytes != other.site_bytes:
        return False
    return all(np.array_equal(values, other.at(box)) for box, values in read_boxes(one))
