"""The bits of every site that are known so far: in memory, or in a file where they do not fit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import Box
from dope.durable import hidden_file
from dope.io.file_array import FileArray, create
from dope.stored import Stored

NAME = "known bits"


@dataclass(frozen=True)
class FileLevels:
    """An array in a file, read and written box by box from any process that sees it."""

    file: FileArray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.file.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.file.dtype

    def __getitem__(self, box: Box) -> npt.NDArray[Any]:
        return self.file.read(_stepped(box))

    def __setitem__(self, box: Box, levels: npt.NDArray[Any]) -> None:
        self.file.write(_stepped(box), levels)


@dataclass(frozen=True)
class NextBit:
    """Where blocks write the labels of a cut: what was known becomes twice that and the label, in another file.

    What was known stays as it is, so a block that is done twice, or again elsewhere, writes the same.
    """

    anywhere = True
    known: FileLevels | None
    following: FileLevels

    @property
    def shape(self) -> tuple[int, ...]:
        return self.following.shape

    def __setitem__(self, box: Box, labels: npt.NDArray[np.bool_]) -> None:
        self.following[box] = with_bit(None if self.known is None else self.known[box], labels, self.following.dtype)


def with_bit(
    known: npt.NDArray[Any] | None, labels: npt.NDArray[np.bool_], level_type: np.dtype[Any]
) -> npt.NDArray[Any]:
    """The known bits and one more."""
    return labels.astype(level_type) if known is None else (known << known.dtype.type(1)) | labels


@contextmanager
def level_files(shape: tuple[int, ...], level_type: np.dtype[Any], beside: Path | None) -> Iterator[list[FileLevels]]:
    """Two files for as long as the block lasts, beside a file if one is given, else where temporary files go."""
    path = Path(tempfile.gettempdir()) / "levels" if beside is None else beside
    length = int(np.prod(shape, dtype=object)) * level_type.itemsize
    with hidden_file(path) as first, hidden_file(path) as second:
        files = []
        for file in (first, second):
            create(file, b"", length)
            files.append(FileLevels(FileArray(file, 0, shape, level_type)))
        yield files


def stored_levels(levels: npt.NDArray[Any] | FileLevels) -> Stored:
    """As an energy reads them."""
    return Stored.of(NAME, levels)


def folder_of(out: Any) -> Path | None:
    """The file that an array is mapped from, beside which temporary files have room."""
    name = getattr(out, "filename", None)
    with suppress(TypeError):
        return None if name is None else Path(name)
    return None


def _stepped(box: Box) -> Box:
    return tuple(slice(s.start, s.stop, 1) for s in box)
