"""Arrays that stay where they are: a box of them is read when it is asked for, where the work is.

A `Stored` array is read as it is indexed, with a slice per axis of sites, and so is a `StoredUnary`: to an energy they
are what arrays in memory are. `confined_to(box)` is what somebody in another process needs to read places in the box:
the paths of arrays that lie in files, and of arrays in memory no more than the box.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, Reals, as_array, as_numbers, as_reals, known_shape
from dope.errors import DopeError, InputError


class Readable(Protocol):
    """Numbers on a grid, read box by box."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def site_bytes(self) -> int:
        """What a site takes when it is read."""
        ...

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """The sides of the pieces that it is stored in, where it is stored in pieces."""
        ...

    def at(self, box: Box) -> npt.NDArray[Any]:
        """The numbers of a box, channels last where there are some."""
        ...

    def excerpt(self, box: Box) -> Self:
        """The same, for someone who will only ask for places in the box."""
        ...


def is_readable(array: Any) -> bool:
    """Whether it is read box by box, by its own `at`."""
    return hasattr(array, "at") and hasattr(array, "excerpt")


def place_in_whole(array: Any, box: Box) -> Box:
    """Where a box of an array lies for whoever gave it: a window of an array knows its place."""
    corner = getattr(array, "corner", None)
    if corner is None:
        return box
    return tuple(slice(s.start + c, s.stop + c) for s, c in zip(box, corner, strict=True))


def lies_elsewhere(array: Any) -> bool:
    """Whether an array is better left where it is until a box of it is wanted: mapped, Zarr, dask, HDF5, a file."""
    if isinstance(array, np.ndarray):
        return isinstance(array, np.memmap)
    if is_readable(array):
        return True
    if not all(hasattr(array, name) for name in ("shape", "dtype", "__getitem__")):
        return False
    if not hasattr(array, "chunks"):
        return not hasattr(array, "__array__")  # nothing but indexing reads it
    return not isinstance(getattr(array, "data", None), np.ndarray)  # xarray around an array in memory


@dataclass(frozen=True, eq=False)
class Stored:
    """An array that is read as it is indexed: in memory, mapped, Zarr, dask, xarray, or a file of `dope.io.load`.

    `channels` says which axis is none of sites; `origin` is the place of the first site, where it is only a part. Of a
    `window`, `sides` is the shape, and `corner` the place of its first site in the whole.
    """

    name: str
    array: Any
    channels: int | None = None
    origin: tuple[int, ...] | None = None
    sides: tuple[int, ...] | None = None
    corner: tuple[int, ...] | None = None

    @classmethod
    def of(cls, name: str, array: Any, *, channels: int | None = None) -> Stored:
        found = array if hasattr(array, "shape") and hasattr(array, "dtype") else as_array(name, array)
        known_shape(name, found)
        # A map pickles as what it maps: whoever gets it opens the file instead. Parts of maps do not know their place,
        # and what was written to a private one ("c") is in no file.
        shown = isinstance(found, np.memmap) and found.filename is not None and found.mode != "c"
        if shown and isinstance(found.base, mmap.mmap):
            order = "C" if found.flags.c_contiguous else "F"
            found = _Mapped(str(found.filename), found.dtype, found.offset, found.shape, order)
        return cls(name, found, channels)

    def window(self, where: Box) -> Stored:
        """A box of it, as if that were all."""
        before = self.origin or (0,) * len(where)
        origin = tuple(o - s.start for o, s in zip(before, where, strict=True))
        sides, corner = zip(*((s.stop - s.start, s.start) for s in where), strict=True)
        return replace(self, origin=origin, sides=sides, corner=corner)

    @property
    def shape(self) -> tuple[int, ...]:
        if self.sides is not None:
            return self.sides
        sides = tuple(int(n) for n in self.array.shape)
        return sides if self.channels is None else sides[: self.channels] + sides[self.channels + 1 :]

    @property
    def site_bytes(self) -> int:
        number = 1 if self.channels is None else int(self.array.shape[self.channels])
        return number * int(np.dtype(self.array.dtype).itemsize)

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = np.dtype(self.array.dtype)
        return found

    @property
    def chunks(self) -> tuple[int, ...] | None:
        found = getattr(self.array, "chunks", None)
        if not found:
            return None
        # dask lists the length of every chunk, all but the last of which are alike as a rule.
        sides = tuple(int(c[0]) if isinstance(c, tuple) else int(c) for c in found)
        return sides if self.channels is None else sides[: self.channels] + sides[self.channels + 1 :]

    def at(self, box: Box) -> npt.NDArray[Any]:
        if self.origin is not None:
            box = tuple(slice(s.start - o, s.stop - o) for s, o in zip(box, self.origin, strict=True))
        index = list(box)
        if self.channels is not None:
            index.insert(self.channels, slice(None))
        try:
            part = self.array[tuple(index)]
            if hasattr(part, "compute"):
                # In this thread: who asks is one of many who work side by side, perhaps of the same cluster.
                part = part.compute(scheduler="synchronous")
            values = as_numbers(self.name, part)
        except DopeError:
            raise
        except FileNotFoundError as error:
            raise InputError(
                f"{self.name}: {error}; this worker cannot see it. Put it on a file system that all workers share."
            ) from error
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            where = ", ".join(f"{s.start}:{s.stop}" for s in box)
            raise InputError(
                f"{self.name} cannot be read at [{where}]: {' '.join(str(error).split()) or type(error).__name__}; "
                f"is a chunk damaged, or the file cut short? Get a whole copy."
            ) from error
        return values if self.channels is None else np.moveaxis(values, self.channels, -1)

    def excerpt(self, box: Box) -> Stored:
        if not isinstance(self.array, np.ndarray):
            return self
        held = self.at(box)
        if self.channels is not None:
            held = np.moveaxis(held, -1, self.channels)
        return replace(self, array=held, origin=tuple(s.start for s in box))


@dataclass(frozen=True)
class _Mapped:
    """A file that is mapped for as long as it takes to read a box, so that it does not count as memory held."""

    path: str
    dtype: np.dtype[Any]
    offset: int
    shape: tuple[int, ...]
    order: Any

    def __getitem__(self, index: Any) -> npt.NDArray[Any]:
        mapped = np.memmap(
            self.path, dtype=self.dtype, mode="r", offset=self.offset, shape=self.shape, order=self.order
        )
        return np.array(mapped[index])


@dataclass(frozen=True)
class MappedTarget:
    """A mapped array that blocks write to, in whatever process they run."""

    anywhere = True
    path: str
    dtype: np.dtype[Any]
    offset: int
    shape: tuple[int, ...]
    order: Any

    @classmethod
    def of(cls, array: np.memmap[Any, Any]) -> MappedTarget:
        if not isinstance(array.base, mmap.mmap) or array.filename is None or array.mode not in ("r+", "w+"):
            raise InputError("out is a part of a mapped array, or not writable; expected a whole one, opened as 'r+'.")
        order = "C" if array.flags.c_contiguous else "F"
        return cls(str(array.filename), array.dtype, array.offset, array.shape, order)

    def __setitem__(self, box: Box, labels: npt.NDArray[np.bool_]) -> None:
        mapped = np.memmap(
            self.path, dtype=self.dtype, mode="r+", offset=self.offset, shape=self.shape, order=self.order
        )
        mapped[box] = labels
        mapped.flush()


def check_apart(out: Any, inputs: Mapping[str, Any]) -> None:
    """Refuse to write where an input, an array or the path of a file, is read from."""
    for name, given in inputs.items():
        if out is not None and _overlap(out, given):
            raise InputError(
                f"out lies in the memory or file of {name}, which is read; expected a place of its own. Pass another "
                f"array, or None for a new one."
            )


def _overlap(out: Any, given: Any) -> bool:
    source = getattr(given, "source", given)
    array = source.array if isinstance(source, Stored) else source
    if isinstance(out, np.ndarray) and not isinstance(array, np.ndarray):
        array = getattr(array, "data", array)  # of xarray
    if isinstance(out, np.ndarray) and isinstance(array, np.ndarray) and np.shares_memory(out, array):
        return True
    first, second = _file_of(out), _file_of(array)
    if first is None or second is None:
        return out is array
    try:
        return first == second or Path(first).samefile(second)
    except OSError:  # one of them is not there any more, or in no file system
        return False


def _file_of(array: Any) -> str | None:
    """Where an array, or what it is a view of, is stored: the path of a mapped file, the address of a Zarr array."""
    if isinstance(array, (str, os.PathLike)):
        return os.fspath(array)
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap) and array.filename is not None:
            return str(array.filename)
        array = array.base
    if isinstance(array, _Mapped):
        return array.path
    return str(array.store_path) if hasattr(array, "store_path") else None


@dataclass(frozen=True, eq=False)
class StoredUnary:
    """A unary that is read as it is indexed."""

    source: Readable

    @property
    def corner(self) -> tuple[int, ...] | None:
        return getattr(self.source, "corner", None)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.source.shape

    @property
    def site_bytes(self) -> int:
        return self.source.site_bytes

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return self.source.chunks

    def __getitem__(self, box: Box) -> Reals:
        return as_reals(getattr(self.source, "name", "unary"), self.source.at(box))

    def excerpt(self, box: Box) -> StoredUnary:
        return StoredUnary(self.source.excerpt(box))


@dataclass(frozen=True, eq=False)
class StoredCosts:
    """The costs of labels, the last axis, that are read as they are indexed by a box of sites."""

    source: Readable
    label_count: int

    @property
    def name(self) -> str:
        return str(getattr(self.source, "name", "costs"))

    @property
    def corner(self) -> tuple[int, ...] | None:
        return getattr(self.source, "corner", None)

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.source.shape, self.label_count)

    @property
    def site_bytes(self) -> int:
        return self.source.site_bytes

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return self.source.chunks

    def __getitem__(self, box: Box) -> npt.NDArray[Any]:
        costs = as_numbers(self.name, self.source.at(box))
        found = tuple(s.stop - s.start for s in box)
        if costs.shape != (*found, self.label_count):
            raise InputError(
                f"{self.name} have shape {costs.shape} in a box of {found}; expected {(*found, self.label_count)}."
            )
        return costs

    def excerpt(self, box: Box) -> StoredCosts:
        return StoredCosts(self.source.excerpt(box), self.label_count)


@dataclass(frozen=True, eq=False)
class StoredPixels:
    """Features that are read as they are indexed by a box of sites: channels last, one where there were none."""

    source: Stored

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def corner(self) -> tuple[int, ...] | None:
        return self.source.corner

    @property
    def shape(self) -> tuple[int, ...]:
        axis = self.source.channels
        return (*self.source.shape, 1 if axis is None else int(self.source.array.shape[axis]))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype

    @property
    def site_bytes(self) -> int:
        return self.source.site_bytes

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return self.source.chunks

    def __getitem__(self, box: Box) -> npt.NDArray[Any]:
        pixels = self.source.at(box)
        return pixels if self.source.channels is not None else pixels[..., None]

    def excerpt(self, box: Box) -> StoredPixels:
        return StoredPixels(self.source.excerpt(box))


@dataclass(frozen=True, eq=False)
class StoredMask:
    """Sites that take part, which are not 0, read as they are indexed."""

    source: Stored

    @property
    def site_bytes(self) -> int:
        return self.source.site_bytes

    def __getitem__(self, box: Box) -> npt.NDArray[np.bool_]:
        values = self.source.at(box)
        return np.ascontiguousarray(values if values.dtype == np.bool_ else values != 0)

    def excerpt(self, box: Box) -> StoredMask:
        return StoredMask(self.source.excerpt(box))


@dataclass(frozen=True, eq=False)
class StoredField:
    """A number per site, read as it is indexed: the weights of the pairs that begin there."""

    source: Stored

    @property
    def site_bytes(self) -> int:
        return self.source.site_bytes

    def __getitem__(self, box: Box) -> Reals:
        return as_reals(self.source.name, self.source.at(box))

    def excerpt(self, box: Box) -> StoredField:
        return StoredField(self.source.excerpt(box))


@dataclass(frozen=True)
class Absent:
    """Numbers of which only the size is known."""

    shape: tuple[int, ...]
    site_bytes: int
    chunks: None = None

    def at(self, box: Box) -> npt.NDArray[Any]:
        raise DopeError(f"the numbers of {box} are asked for, of an array of which only the shape is known.")

    def excerpt(self, box: Box) -> Self:
        del box
        return self


@dataclass(frozen=True)
class AbsentCosts:
    """Costs of several labels of which only the size is known."""

    shape: tuple[int, ...]
    label_count: int
    site_bytes: int
    chunks: None = None

    def at(self, box: Box) -> npt.NDArray[Any]:
        raise DopeError(f"the costs of {box} are asked for, of which only the size is known.")

    def excerpt(self, box: Box) -> Self:
        del box
        return self


@dataclass(frozen=True)
class AbsentPixels:
    """An image of which only the shape is known; channels of a byte are the last axis."""

    shape: tuple[int, ...]
    dtype: type[np.uint8] = np.uint8
    chunks: None = None
