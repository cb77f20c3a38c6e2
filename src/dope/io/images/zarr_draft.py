"""A Zarr array of labels that is written box by box, by any number of processes."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dope.arrays import Labels
from dope.durable import writing
from dope.io.content import Shape
from dope.io.file_array import alone, unwritten
from dope.io.files import reading
from dope.io.images.zarr_source import holds_chunks
from dope.io.lazy import Parts

# Bytes of a chunk, in any number of dimensions: 128 x 128 x 128 of uint8, which unpacks in some milliseconds.
_CHUNK_BYTES = 1 << 21
_TWO_LABELS = np.dtype(np.uint8)
_METADATA: dict[int, str] = {2: ".zarray", 3: "zarr.json"}


@dataclass(frozen=True, eq=False)
class ZarrDraft:
    """Labels as uint8 or uint16 in an array that may have further axes of one entry.

    A chunk is written as a whole. Boxes that share one are written one after the other, as a lock sees to.
    """

    folder: Path
    zarr_format: Literal[2, 3]
    axes: tuple[int, ...]  # of the array's, those of the sites; the others have one entry
    label_type: np.dtype[Any]  # in which labels are read

    def __reduce__(self) -> tuple[Any, ...]:
        """Without what is open."""
        return type(self), (self.folder, self.zarr_format, self.axes, self.label_type)

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = np.dtype(self._array.dtype)
        return found

    @property
    def chunks(self) -> Shape:
        return tuple(int(self._array.chunks[axis]) for axis in self.axes)

    @property
    def shape(self) -> Shape:
        return tuple(int(self._array.shape[axis]) for axis in self.axes)

    def write(self, box: Parts, labels: Labels) -> None:
        with writing(self.folder), self._exclusively(aligned=self._is_aligned(box)):
            first, *others = box
            rows = max(1, self.chunks[0])
            # Slabs of one chunk's height each: what is packed at a time does not grow with the box.
            for low in range(first.start // rows * rows, first.stop, rows):
                part = slice(max(low, first.start), min(low + rows, first.stop))
                slab = labels[part.start - first.start : part.stop - first.start]
                where = self._stored((part, *others))
                lengths = [1] * self._array.ndim
                for axis, length in zip(self.axes, slab.shape, strict=True):
                    lengths[axis] = length
                self._array[where] = slab.reshape(lengths).astype(self.dtype, copy=False)

    def read(self, box: Parts) -> Labels:
        self._check_there()
        with reading(self.folder):
            found = np.asarray(self._array[self._stored(box)])
        return found.reshape([part.stop - part.start for part in box]).astype(self.label_type, copy=False)

    def resampled(self, folder: Path, names: list[str] | None, shape: Shape) -> None:
        """An array of the same labels on a coarser grid: of each site the label at its centre."""
        coarse = create(folder, shape, self.zarr_format, names, None, self.dtype)
        picks = [
            ((np.arange(n) + 0.5) * (length / n)).astype(np.intp)
            for n, length in zip(shape, self._array.shape, strict=True)
        ]
        starts = (range(0, n, chunk) for n, chunk in zip(shape, coarse.chunks, strict=True))
        for corner in itertools.product(*starts):
            box = tuple(slice(low, low + chunk) for low, chunk in zip(corner, coarse.chunks, strict=True))
            sites = tuple(pick[part] for pick, part in zip(picks, box, strict=True))
            coarse[box] = self._array.get_orthogonal_selection(sites)
        mark_written(folder, self.zarr_format)

    def finish(self) -> None:
        """To be called when everything is written: remove what writers left who were stopped, and mark the array."""
        for left in self.folder.rglob("*.partial"):
            left.unlink()
        mark_written(self.folder, self.zarr_format)

    @cached_property
    def _array(self) -> Any:
        import zarr
        from zarr.storage import LocalStore

        self._check_there()
        return zarr.open_array(LocalStore(self.folder), mode="r+", zarr_format=self.zarr_format)

    @property
    def _metadata(self) -> Path:
        return self.folder / _METADATA[self.zarr_format]

    def _check_there(self) -> None:
        # Zarr would make the folder again, and leave in it what nobody is going to look at.
        if not self._metadata.is_file():
            raise unwritten(self.folder)

    def _stored(self, box: Parts) -> Parts:
        parts = [slice(0, 1)] * self._array.ndim
        for axis, part in zip(self.axes, box, strict=True):
            parts[axis] = part
        return tuple(parts)

    def _is_aligned(self, box: Parts) -> bool:
        return all(
            part.start % chunk == 0 and (part.stop % chunk == 0 or part.stop == length)
            for part, chunk, length in zip(box, self.chunks, self.shape, strict=True)
        )

    @contextmanager
    def _exclusively(self, *, aligned: bool) -> Iterator[None]:
        self._check_there()
        if aligned:
            yield
            return
        with io.FileIO(self._metadata, "r+b") as stream, alone(stream):
            yield


def create(
    folder: Path,
    shape: Shape,
    zarr_format: Literal[2, 3],
    names: list[str] | None,
    chunks: Shape | None,
    dtype: np.dtype[Any],
) -> Any:
    """A new array of labels, all of them 0."""
    import zarr
    from zarr.storage import LocalStore

    wanted = usual_chunks(shape, dtype) if chunks is None else chunks
    return zarr.create_array(
        LocalStore(folder),
        shape=shape,
        chunks=tuple(min(pair) for pair in zip(wanted, shape, strict=True)),
        dtype=dtype,
        fill_value=0,
        zarr_format=zarr_format,
        dimension_names=names if zarr_format == 3 else None,
        chunk_key_encoding={"name": "v2" if zarr_format == 2 else "default", "separator": "/"},
    )


def usual_chunks(shape: Shape, dtype: np.dtype[Any] = _TWO_LABELS) -> Shape:
    """Of labels, where nobody chose others."""
    side = round((_CHUNK_BYTES // dtype.itemsize) ** (1 / max(1, len(shape))))
    return tuple(min(side, length) for length in shape)


def mark_written(folder: Path, zarr_format: Literal[2, 3]) -> None:
    """Give an array of nothing but 0 a chunk: without any, it could as well be a bad copy."""
    import zarr
    from zarr.storage import LocalStore

    if holds_chunks(folder):
        return
    # Not `open_array`, which does not look at the settings of an array that is there (zarr 3.1.6).
    settings = {"write_empty_chunks": True}
    array: Any = zarr.open(LocalStore(folder), mode="r+", zarr_format=zarr_format, config=settings)
    array[tuple(slice(0, length) for length in array.chunks)] = np.zeros((), array.dtype)
