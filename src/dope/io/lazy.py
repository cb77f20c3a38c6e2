"""Pixels that stay in their file: read as they are indexed, and sent elsewhere as some bytes that say where they lie.

A `Lazy` array is what users see, with sites first and channels last; a `Source` is what a format has to offer for it.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dope.io.content import Shape

Parts = tuple[slice, ...]
"""A box: for every axis a slice whose ends are counted from the front and lie within it, and whose step is positive."""


class Source(Protocol):
    """An array in a file or folder, with the axes that it has there.

    Pickled it is some hundred bytes, in which the path is absolute; a copy in another process opens the file again, and
    refuses with an `InputError` what is not there, or no longer what it was.
    """

    @property
    def path(self) -> Path: ...

    @property
    def shape(self) -> Shape: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def chunks(self) -> Shape | None:
        """Shape of what is read in one piece; None where any box is as good as another."""
        ...

    def read(self, parts: Parts) -> npt.NDArray[Any]:
        """A fresh array of what lies in a box that is not empty. Any number of threads may call."""
        ...


@dataclass(frozen=True, eq=False)
class Lazy:
    """An array in a file, seen with sites first and channels last, read as it is indexed by whole numbers and slices.

    What is read is the caller's own. Nothing is kept, so that memory holds what callers hold and no more.
    """

    source: Source
    axes: tuple[int, ...]  # the stored axis of each axis here; the others have one entry

    @property
    def shape(self) -> Shape:
        return tuple(self.source.shape[axis] for axis in self.axes)

    @property
    def ndim(self) -> int:
        return len(self.axes)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def chunks(self) -> Shape | None:
        """Of the file, where it has such: reading along them is quickest."""
        chunks = self.source.chunks
        return None if chunks is None else tuple(chunks[axis] for axis in self.axes)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype.newbyteorder("=")

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        wanted = whole_key(key, self.shape)
        parts = [slice(0, 1, 1)] * len(self.source.shape)
        for axis, part in zip(self.axes, wanted, strict=True):
            parts[axis] = part if isinstance(part, slice) else slice(part, part + 1, 1)
        others = [axis for axis in range(len(parts)) if axis not in self.axes]
        values = self._read(tuple(parts)).transpose(*self.axes, *others)
        kept = (slice(None) if isinstance(part, slice) else 0 for part in wanted)
        return values[(*kept, *[0] * len(others))]

    def _read(self, parts: Parts) -> npt.NDArray[Any]:
        lengths = [len(range(part.start, part.stop, part.step)) for part in parts]
        if 0 in lengths:
            return np.empty(lengths, self.dtype)
        return self.source.read(parts).astype(self.dtype, copy=False)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError(f"{self.source.path}: pixels are read from a file; they cannot be had without a copy")
        return np.asarray(self[...], dtype)


def whole_key(key: Any, shape: Shape) -> tuple[int | slice, ...]:
    """An index with one part for every axis, all of them counted from the front."""
    parts = list(key) if isinstance(key, tuple) else [key]
    gaps = [place for place, part in enumerate(parts) if part is Ellipsis]
    if not gaps:
        gaps = [len(parts)]
        parts.append(Ellipsis)
    missing = len(shape) - (len(parts) - 1)
    if len(gaps) > 1 or missing < 0:
        raise IndexError(f"the index {key} does not fit an array of {len(shape)} axes")
    parts[gaps[0] : gaps[0] + 1] = [slice(None)] * missing
    return tuple(_part(part, length) for part, length in zip(parts, shape, strict=True))


def box_of(key: Any, shape: Shape) -> Parts:
    """An index that is a box: a slice of step 1 for every axis."""
    parts = []
    for part in whole_key(key, shape):
        if not isinstance(part, slice) or part.step != 1:
            raise IndexError(f"labels are read and written by boxes, slices of step 1; {key!r} is none")
        parts.append(part)
    return tuple(parts)


def _part(part: Any, length: int) -> int | slice:
    if isinstance(part, slice):
        start, stop, step = part.indices(length)
        if step < 0:
            raise IndexError("pixels in a file are read forwards; turn them round after reading")
        return slice(start, max(start, stop), step)
    try:
        place = operator.index(part)
    except TypeError:
        raise IndexError(
            f"pixels in a file are indexed by whole numbers and slices, not by a {type(part).__name__}; "
            "np.asarray reads them whole"
        ) from None
    if not -length <= place < length:
        raise IndexError(f"index {place} is beyond an axis of {length} sites")
    return place % length


def box_text(parts: Parts) -> str:
    """A box for people.

    >>> box_text((slice(0, 4, 1), slice(10, 15, 1)))
    '0:4, 10:15'
    """
    return ", ".join(f"{part.start}:{part.stop}" for part in parts)


Piece = tuple[tuple[int, ...], Parts, Parts]
"""The place of a chunk, what of it is wanted, and where that goes."""


def pieces(box: Parts, chunks: Shape) -> Iterator[Piece]:
    """The chunks that a box meets: the place of each, what of it is wanted, and where in the box that goes.

    >>> list(pieces((slice(1, 8, 2),), (4,)))
    [((0,), (slice(1, 4, 2),), (slice(0, 2, 1),)), ((1,), (slice(1, 4, 2),), (slice(2, 4, 1),))]
    """
    along = [list(_pieces_along(part, length)) for part, length in zip(box, chunks, strict=True)]
    for choice in itertools.product(*along):
        places, within, targets = zip(*choice, strict=True)
        yield places, within, targets


def _pieces_along(part: slice, length: int) -> Iterator[tuple[int, slice, slice]]:
    sites = range(part.start, part.stop, part.step)
    for place in range(sites[0] // length, sites[-1] // length + 1):
        begin, end = place * length, (place + 1) * length
        # The first of the sites in the chunk and the first behind it: part.start + k part.step >= begin, end.
        low, high = (min(len(sites), max(0, -((part.start - edge) // part.step))) for edge in (begin, end))
        if low < high:
            yield place, slice(sites[low] - begin, sites[high - 1] - begin + 1, part.step), slice(low, high, 1)
