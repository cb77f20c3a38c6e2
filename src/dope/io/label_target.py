"""Labels that are written box by box, by whoever has some, and are there as a whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np

from dope.arrays import Labels, as_numbered_labels, label_type
from dope.durable import hidden_file
from dope.errors import InputError
from dope.io.content import NewLabels, Shape
from dope.io.file_array import FileArray
from dope.io.lazy import Parts, box_of, box_text

Save = Callable[[NewLabels, Labels], None]


class Draft(Protocol):
    """Labels under a hidden name. Small when pickled; copies in any number of processes write to the same place."""

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def chunks(self) -> Shape | None: ...

    def write(self, box: Parts, labels: Labels) -> None:
        """Boxes that lie apart may be written at the same time."""
        ...

    def read(self, box: Parts) -> Labels: ...


@dataclass(frozen=True)
class FileDraft:
    """Labels in a file that has its full length from the beginning, background where nothing was written."""

    file: FileArray  # whose axes are turned round where `fortran_order` is
    label_type: np.dtype[Any]  # in which labels are read; in the file they may be other integers
    fortran_order: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.file.dtype

    @property
    def chunks(self) -> Shape | None:
        return None

    def write(self, box: Parts, labels: Labels) -> None:
        if self.fortran_order:
            box, labels = box[::-1], labels.T
        self.file.write(box, labels)

    def read(self, box: Parts) -> Labels:
        values = self.file.read(box[::-1]).T if self.fortran_order else self.file.read(box)
        return values.astype(self.label_type, copy=False)


class LabelTarget:
    """Labels that are to become a file: `target[box] = labels` from anywhere, then `commit()` where it was opened.

    It can be pickled and sent to other processes and machines, where boxes are written and read; `commit` and `abandon`
    are for the one who opened it. In a `with` statement the end of the block commits, and an exception abandons.

    Boxes that lie apart may be written at the same time. What nobody writes is background.

    Attributes
    ----------
    path : Path
        What the file is going to be called; absolute.
    shape : tuple of int
        Of the sites.
    dtype : dtype
        In which labels are kept until then, bool, uint8 or uint16. Two labels are read and written as bool.
    label_count : int
        How many labels there are: two are bool, more are their numbers.
    chunks : tuple of int, optional
        What boxes should be aligned to. Others are written as well, but slower and one after another; without locks
        (Windows, some file systems) they must not be written by several processes at once. None: anything goes.
    """

    anywhere = True  # boxes may be written in any process, several at once

    def __init__(self, path: Path, shape: Shape, draft: Draft, label_count: int = 2) -> None:
        self.path = path
        self.shape = shape
        self.label_count = label_count
        self._draft = draft
        self._check: Callable[[], None] | None = None
        self._drafting: AbstractContextManager[Draft] | None = None

    @classmethod
    def opened(cls, new: NewLabels, drafting: AbstractContextManager[Draft], check: Callable[[], None]) -> Self:
        """With the block in which a draft exists: what follows its end puts it into its place."""
        target = cls(new.path, new.shape, drafting.__enter__(), new.label_count)
        target._drafting, target._check = drafting, check
        return target

    def __reduce__(self) -> tuple[Any, ...]:
        """As a copy that writes and reads, but does not decide."""
        return type(self), (self.path, self.shape, self._draft, self.label_count)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._draft.dtype

    @property
    def chunks(self) -> Shape | None:
        return self._draft.chunks

    def __setitem__(self, key: Any, labels: Any) -> None:
        box = box_of(key, self.shape)
        sides = tuple(part.stop - part.start for part in box)
        if np.shape(labels) != sides:
            raise InputError(
                f"{self.path}: labels shaped {np.shape(labels)} for the box {box_text(box)}; expected {sides}"
            )
        if 0 not in sides:
            self._draft.write(box, as_numbered_labels(labels, self.label_count))

    def __getitem__(self, key: Any) -> Labels:
        box = box_of(key, self.shape)
        sides = [part.stop - part.start for part in box]
        return np.empty(sides, label_type(self.label_count)) if 0 in sides else self._draft.read(box)

    def commit(self) -> None:
        """Put the labels into their place, all at once, when they are on the disk.

        Nobody may be writing any more. If that fails, nothing is left but what was there before.
        """
        if self._drafting is None or self._check is None:
            raise self._not_open("commit")
        self._check()
        drafting, self._drafting = self._drafting, None
        drafting.__exit__(None, None, None)

    def abandon(self) -> None:
        """Leave nothing."""
        if self._drafting is None:
            raise self._not_open("abandon")
        drafting, self._drafting = self._drafting, None
        error = _AbandonedError()
        drafting.__exit__(_AbandonedError, error, None)

    def __enter__(self) -> Self:
        if self._drafting is None:
            raise self._not_open("commit")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drafting is None:  # as the block has said already
            return
        try:
            if kind is None:
                self.commit()
        finally:
            if self._drafting is not None:
                self.abandon()

    def _not_open(self, what: str) -> InputError:
        return InputError(
            f"{self.path}: cannot {what}; it was committed or abandoned before, or this is a copy in another process. "
            f"The one that open_labels gave decides, once"
        )


class _AbandonedError(Exception):
    """How the block of a draft is told that it ends without labels."""


@contextmanager
def converting(new: NewLabels, draft: Callable[[Path], FileDraft], save: Save) -> Iterator[FileDraft]:
    """A draft beside a file that can only be written as a whole, by `save`, which is what follows."""
    with hidden_file(new.path.with_suffix(".npy")) as temporary:
        yield draft(temporary)
        save(new, np.load(temporary, mmap_mode="r"))
