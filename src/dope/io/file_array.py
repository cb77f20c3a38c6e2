"""Boxes of an array that lies in a file, read and written in place.

The file is not mapped. Pages of a map count as the process's memory, around each short row of a box a few dozen of
them, and a map of a file that is cut short, or on a disk that is full, ends the process instead of raising an error.
"""

from __future__ import annotations

import errno
import io
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt

from dope.bounded import open_regular
from dope.cancellation import check_cancelled
from dope.durable import writing
from dope.errors import InputError
from dope.io.content import Shape, bytes_of
from dope.io.files import reading, unseen
from dope.io.lazy import Parts

# Bytes between two rows up to which they are read in one go: as many are copied in the time of some calls, and what
# has to come from a disk or another machine comes in pieces of that size anyway.
_GAP = 1 << 15
# Bytes that are read in one go, when all of them are wanted and when some are not.
_STRETCH = 1 << 24


@dataclass(frozen=True)
class Stamp:
    """By what a file is known to be the same one, unaltered."""

    size: int
    nanoseconds: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """To be taken before anything is read, so that a change from then on shows."""
        with reading(path):
            status = path.stat()
        return cls(status.st_size, status.st_mtime_ns)


@dataclass(frozen=True)
class FileArray:
    """An array in row-major order that begins at a byte of a file.

    A `stamp` is what the file must still have to be read; one that is being written has none.
    """

    path: Path
    offset: int
    shape: Shape
    dtype: np.dtype[Any]
    stamp: Stamp | None = None

    @property
    def chunks(self) -> Shape | None:
        return None

    def read(self, parts: Parts) -> npt.NDArray[Any]:
        """What lies in a box."""
        rows = _Rows.of(parts, self.shape, self.dtype.itemsize, most_gap=_GAP)
        found = np.empty((len(rows.places), math.prod(rows.lengths)), self.dtype)
        around = np.empty(0 if rows.whole else rows.extent, np.uint8)
        wanted = None if rows.whole else np.ndarray(rows.lengths, self.dtype, around.data, 0, rows.strides)
        with reading(self.path), self._opened() as stream:
            for place, target in zip(rows.places, found, strict=True):
                if wanted is None:
                    _fill(stream, self.offset + place, target.view(np.uint8))
                else:
                    _fill(stream, self.offset + place, around)
                    target[...] = wanted.reshape(-1)
        return found.reshape([len(range(part.start, part.stop, part.step)) for part in parts])

    def write(self, parts: Parts, values: npt.NDArray[Any]) -> None:
        """Put values into a box; not a byte outside it is touched, so that others may write there meanwhile."""
        rows = _Rows.of(parts, self.shape, self.dtype.itemsize, most_gap=0)
        flat = np.ascontiguousarray(values, self.dtype).reshape(-1)
        pieces = flat.view(np.uint8).reshape(len(rows.places), rows.extent)
        with writing(self.path):
            try:
                stream = io.FileIO(self.path, "r+b")
            except FileNotFoundError:
                raise unwritten(self.path) from None
            with stream, alone(stream):
                for place, piece in zip(rows.places, pieces, strict=True):
                    _put(stream, self.offset + place, piece)

    @contextmanager
    def _opened(self) -> Iterator[io.FileIO]:
        try:
            stream = cast(io.FileIO, open_regular(self.path, "NPY or other array", buffering=0))
        except (FileNotFoundError, NotADirectoryError):
            raise (unseen(self.path) if self.stamp else unwritten(self.path)) from None
        with stream:
            status = os.fstat(stream.fileno())
            if self.stamp not in (None, Stamp(status.st_size, status.st_mtime_ns)):
                raise InputError(
                    f"{self.path}: has changed since it was opened; load it again, and leave it alone then"
                )
            yield stream


@dataclass(frozen=True)
class _Rows:
    """A box as stretches of a file, each from the first byte that is wanted of it to the last.

    `whole` says that all bytes of a stretch are wanted; if not, `lengths` and `strides` say which.
    """

    places: list[int]
    extent: int
    whole: bool
    lengths: Shape
    strides: Shape

    @classmethod
    def of(cls, parts: Parts, shape: Shape, item: int, *, most_gap: int) -> Self:
        """As few as there can be without a gap that is wider than `most_gap`."""
        ranges = [range(part.start, part.stop, part.step) for part in parts]
        strides = [bytes_of(shape[axis + 1 :], np.uint8) * item for axis in range(len(shape))]
        first, extent, whole = len(shape), item, True
        while first:
            along, stride = ranges[first - 1], strides[first - 1]
            gap = stride * along.step - extent if len(along) > 1 else 0
            wider = stride * (along[-1] - along[0]) + extent
            if gap > most_gap or (wider > _STRETCH and not (whole and gap == 0)):
                break
            first, extent, whole = first - 1, wider, whole and gap == 0
        places = np.array([sum(along[0] * stride for along, stride in zip(ranges, strides, strict=True))])
        for along, stride in zip(ranges[:first], strides[:first], strict=True):
            steps = (np.arange(len(along)) * (along.step * stride)).astype(np.int64)
            places = np.add.outer(places, steps).reshape(-1)
        return cls(
            places=places.tolist(),
            extent=extent,
            whole=whole,
            lengths=tuple(len(along) for along in ranges[first:]),
            strides=tuple(stride * along.step for along, stride in zip(ranges[first:], strides[first:], strict=True)),
        )


@contextmanager
def alone(stream: io.FileIO) -> Iterator[None]:
    """While no other thread, process or machine is in such a block with the same file.

    On one machine boxes that lie apart do not need that. Of a network file system, though, every machine has a copy,
    and sends pages of it as a whole; a lock is what makes it fetch and send them at the right time.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with suppress(OSError):  # a file system without locks
        fcntl.flock(stream.fileno(), fcntl.LOCK_EX)
    yield
    with suppress(OSError):
        fcntl.flock(stream.fileno(), fcntl.LOCK_UN)


def create(path: Path, head: bytes, length: int) -> None:
    """A file of these bytes and so many zeros. Their place on the disk is taken now: later would be too late."""
    with path.open("wb") as stream:
        stream.write(head)
        stream.flush()
        try:
            os.posix_fallocate(stream.fileno(), len(head), length)
        except AttributeError:  # macOS, Windows
            stream.truncate(len(head) + length)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                raise
            stream.truncate(len(head) + length)


def unwritten(path: Path) -> InputError:
    """That labels cannot be written any more, or not from here."""
    return InputError(
        f"{path}: no longer open for labels (committed or abandoned), or not to be seen from this machine; "
        "put it on a file system that all workers see"
    )


def _fill(stream: io.FileIO, place: int, target: npt.NDArray[np.uint8]) -> None:
    stream.seek(place)
    done = 0
    while done < len(target):
        check_cancelled()
        count = stream.readinto(target[done : done + _STRETCH].data)
        if not count:
            raise EOFError(f"ends {len(target) - done:,} bytes early")
        done += count


def _put(stream: io.FileIO, place: int, piece: npt.NDArray[np.uint8]) -> None:
    stream.seek(place)
    done = 0
    while done < len(piece):
        done += stream.write(piece[done:].data)
