"""Boxes of a Zarr array, read chunk by chunk.

A chunk that is not there reads as the fill value, because writers leave out empty ones. That must not hide a store that
has gone away, or has been copied without its chunks: an array without any is refused, and one whose metadata vanish.

Chunks are read and decoded here, not by zarr, whose decoders unpack whatever a chunk holds.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from dope.bounded import open_regular
from dope.cancellation import Cancelled, check_cancelled, entered, entering
from dope.errors import DopeError, InputError
from dope.io.content import Shape
from dope.io.files import in_one_line, reading, unseen
from dope.io.images.zarr_nodes import METADATA, ArrayLayout, Node, array_layout, find_node, store_of
from dope.io.lazy import Parts, Piece, box_text, pieces
from dope.io.spans import OpenFile

# Bytes that chunks which are decoded at the same time may take together; one alone may take more.
_AT_ONCE = 1 << 26
_MOST_THREADS = 8
_BATCH = 256  # chunks that are handed to the threads in one go


@dataclass(frozen=True, eq=False)
class ZarrSource:
    """An array in a folder. A copy elsewhere opens it again, and expects the layout that it had."""

    path: Path
    layout: ArrayLayout

    @classmethod
    def of(cls, node: Node, layout: ArrayLayout) -> Self:
        return cls(node.folder.absolute(), layout)

    def __reduce__(self) -> tuple[Any, ...]:
        """Without what was found out about the folder here."""
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
        return self.layout.inner_chunks

    def read(self, parts: Parts) -> npt.NDArray[Any]:
        """What lies in a box."""
        self._check_there()
        store = self._store
        if not self._has_chunks:
            raise InputError(
                f"{self.path}: holds no chunk at all, so that it would read as {self.layout.fill} everywhere; "
                "get a whole copy"
            )
        with reading(self.path):
            found = np.empty([len(range(part.start, part.stop, part.step)) for part in parts], self.dtype)
            work = partial(self._fill, found, store)
            _at_the_same_time(work, self._slabs(parts), self.layout.coding.held_bytes)
        self._check_there()  # if not, chunks may have been missing that are not empty
        return found

    def _slabs(self, parts: Parts) -> Iterator[Piece]:
        """The chunks that a box meets, and of shards slabs of the chunks within: work for several threads."""
        rows = self.layout.inner_chunks[0]
        slabs = self.layout.chunks[0] // rows
        for place, within, target in pieces(parts, (rows, *self.layout.chunks[1:])):
            first, above = within[0], place[0] % slabs * rows
            moved = slice(first.start + above, first.stop + above, first.step)
            yield (place[0] // slabs, *place[1:]), (moved, *within[1:]), target

    def _fill(self, found: npt.NDArray[Any], store: Path, piece: Piece) -> None:
        """One chunk's part of a box."""
        place, within, target = piece
        path = self.path / self.layout.key.of(place)
        with self._damage(place), _open_chunk(path, store) as stream:
            if stream is None:
                found[target] = self.layout.fill
            else:
                found[target] = self.layout.coding.read(OpenFile.of(stream), within)

    @contextmanager
    def _damage(self, place: tuple[int, ...]) -> Iterator[None]:
        try:
            yield
        except (Cancelled, DopeError, MemoryError, PermissionError):
            raise
        except Exception as error:  # as `reading` says, there is nothing that decoders do not raise
            sites = zip(place, self.layout.chunks, self.shape, strict=True)
            box = tuple(slice(at * length, min((at + 1) * length, whole)) for at, length, whole in sites)
            raise InputError(
                f"{self.path}: damaged or cut short in chunk {'.'.join(map(str, place))}, the sites {box_text(box)} "
                f"of the array ({in_one_line(error)}); get a whole copy"
            ) from error

    def _check_there(self) -> None:
        if not any((self.path / name).is_file() for name in METADATA):
            raise unseen(self.path)

    @cached_property
    def _store(self) -> Path:
        """With links followed; the array in it must still be the one that was opened."""
        node = find_node(self.path)
        if node is None:
            raise unseen(self.path)
        if array_layout(node) != self.layout:
            raise InputError(f"{self.path}: has changed since it was opened; load it again, and leave it alone then")
        return store_of(self.path).resolve()

    @cached_property
    def _has_chunks(self) -> bool:
        with reading(self.path):
            return holds_chunks(self.path)


def holds_chunks(folder: Path | str) -> bool:
    """Whether there is a file of numbers in an array's folder; the first one is enough."""
    with os.scandir(folder) as entries:
        return any(
            holds_chunks(entry.path) if entry.is_dir(follow_symlinks=False) else _is_chunk(entry.name)
            for entry in entries
        )


@contextmanager
def _open_chunk(path: Path, store: Path) -> Iterator[BinaryIO | None]:
    """The file of a chunk; None where there is none."""
    try:
        stream = open_regular(path, "chunk", buffering=0)
    except (FileNotFoundError, NotADirectoryError):
        yield None
        return
    with stream:
        if not path.resolve().is_relative_to(store):
            raise InputError(f"{path}: a link that leads out of the store; only what lies in a store is read")
        yield stream


def _is_chunk(name: str) -> bool:
    # Hidden files, such as systems leave, are none, and files that a writer was about to rename.
    return name not in METADATA and not name.startswith(".") and not name.endswith(".partial")


def _at_the_same_time(work: Callable[[Any], None], items: Iterator[Any], held_bytes: int) -> None:
    """Do some work for each item, in as many threads as there is memory for what each holds."""
    threads = min(_MOST_THREADS, os.cpu_count() or 1, _AT_ONCE // max(1, held_bytes))
    batch = list(itertools.islice(items, _BATCH))
    if threads < 2 or len(batch) < 2:
        for item in itertools.chain(batch, items):
            check_cancelled()
            work(item)
        return
    cancellations = entered()

    def do(item: Any) -> None:
        with entering(cancellations):
            check_cancelled()
            work(item)

    with ThreadPoolExecutor(threads) as pool:
        while batch:
            for _ in pool.map(do, batch):
                pass
            batch = list(itertools.islice(items, _BATCH))
