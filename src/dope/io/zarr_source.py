"""Boxes of a Zarr array, read chunk by chunk.

A chunk that is not there reads as the fill value, because writers leave out empty ones. That must not hide a store that
has gone away, or has been copied without its chunks: an array without any is refused, and one whose metadata vanish.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dope.errors import DopeError, InputError
from dope.io.content import Shape
from dope.io.files import in_one_line, reading, unseen
from dope.io.lazy import Parts, box_text
from dope.io.zarr_nodes import METADATA, ArrayLayout, Node, array_layout, find_node, store_of


@dataclass(frozen=True, eq=False)
class ZarrSource:
    """An array in a folder. A copy elsewhere opens it again, and expects the layout that it had."""

    path: Path
    layout: ArrayLayout

    @classmethod
    def of(cls, node: Node, layout: ArrayLayout) -> Self:
        """With metadata that Zarr itself agrees with."""
        source = cls(node.folder.absolute(), layout)
        source._array  # noqa: B018  opens it
        return source

    def __reduce__(self) -> tuple[Any, ...]:
        """Without what is open."""
        return type(self), (self.path, self.layout)

    @property
    def shape(self) -> Shape:
        return self.layout.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.layout.dtype

    @property
    def chunks(self) -> Shape | None:
        """Those within shards, where there are such."""
        return tuple(int(length) for length in self._array.chunks)

    def read(self, parts: Parts) -> npt.NDArray[Any]:
        """What lies in a box."""
        array = self._array
        self._check_there()
        if not self._has_chunks:
            raise InputError(
                f"{self.path}: holds no chunk at all, so that it would read as {array.fill_value} everywhere; "
                "get a whole copy"
            )
        with reading(self.path):
            try:
                found = np.asarray(array[parts])
            except (DopeError, MemoryError, PermissionError):
                raise
            except Exception as error:  # as `reading` says, there is nothing that decoders do not raise
                raise InputError(
                    f"{self.path}: damaged or cut short in {self._damaged(parts)} ({in_one_line(error)}); "
                    "get a whole copy"
                ) from error
        self._check_there()  # if not, chunks may have been missing that are not empty
        return found

    def _check_there(self) -> None:
        if not any((self.path / name).is_file() for name in METADATA):
            raise unseen(self.path)

    @cached_property
    def _array(self) -> Any:
        import zarr

        from dope.io.zarr_store import ConfinedStore

        node = find_node(self.path)
        if node is None:
            raise unseen(self.path)
        if array_layout(node) != self.layout:
            raise InputError(f"{self.path}: has changed since it was opened; load it again, and leave it alone then")
        store = store_of(self.path)
        inner = self.path.relative_to(store).as_posix()
        with reading(self.path):
            confined = ConfinedStore(
                store, read_only=True, codec=self.layout.packer, chunk_bytes=self.layout.chunk_bytes
            )
            return zarr.open_array(confined, path="" if inner == "." else inner, mode="r", zarr_format=node.zarr_format)

    @cached_property
    def _has_chunks(self) -> bool:
        with reading(self.path):
            return holds_chunks(self.path)

    def _damaged(self, parts: Parts) -> str:
        """The first chunk of a box that cannot be read, in words."""
        for place, box in _chunks_of(parts, self.layout):
            try:
                self._array[box]
            except Exception:  # whatever it was before
                return f"chunk {'.'.join(map(str, place))}, the sites {box_text(box)} of the array"
        return f"the sites {box_text(parts)} of the array"


def holds_chunks(folder: Path | str) -> bool:
    """Whether there is a file of numbers in an array's folder; the first one is enough."""
    with os.scandir(folder) as entries:
        return any(
            holds_chunks(entry.path) if entry.is_dir(follow_symlinks=False) else _is_chunk(entry.name)
            for entry in entries
        )


def _is_chunk(name: str) -> bool:
    # Hidden files, such as systems leave, are none, and files that a writer was about to rename.
    return name not in METADATA and not name.startswith(".") and not name.endswith(".partial")


def _chunks_of(parts: Parts, layout: ArrayLayout) -> Iterator[tuple[tuple[int, ...], Parts]]:
    """The chunks that a box meets, each with its sites."""
    ranges = [
        range(part.start // length, (part.stop - 1) // length + 1)
        for part, length in zip(parts, layout.chunks, strict=True)
    ]
    for place in itertools.product(*ranges):
        yield (
            place,
            tuple(
                slice(at * length, min((at + 1) * length, whole), 1)
                for at, length, whole in zip(place, layout.chunks, layout.shape, strict=True)
            ),
        )
