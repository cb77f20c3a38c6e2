"""Opened blocks that stay in the process that opened them, so that their next visit is cheap.

They only save time: who finds none on the shelf opens a block again, and answers with the same labels. The shelf is the
process's own. It holds up to so many bytes, what each task allows (`room`). The longest unused go first, as bytes, into
a file without a name on the process's own disk, which vanishes with the process. On a full disk they are forgotten.
"""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Protocol

Folded = tuple[list[bytes], Callable[[list[bytes]], Any]]
"""All of something as bytes, and what makes it of these again."""


class Keepable(Protocol):
    """What can be put on the shelf."""

    @property
    def bytes(self) -> int:
        """What it takes in memory."""
        ...

    def folded(self) -> Folded:
        """All of it as bytes, and what makes it of these again."""
        ...


class _SpillFile:
    """Pieces of bytes in one file without a name; a piece that is written again takes its old place, if it fits."""

    def __init__(self) -> None:
        self._file: Any = None
        self._places: dict[Hashable, tuple[int, int]] = {}
        self._end = 0
        self._lock = Lock()

    def write(self, key: Hashable, pieces: list[bytes]) -> None:
        size = sum(map(len, pieces))
        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
            at, room = self._places.get(key, (0, -1))
            if room < size:
                at, self._end = self._end, self._end + size
                self._places[key] = at, size
        for piece in pieces:
            view = memoryview(piece)
            while view:
                written = os.pwrite(self._file.fileno(), view, at)
                at, view = at + written, view[written:]

    def read(self, key: Hashable, lengths: list[int]) -> list[bytes]:
        at, _ = self._places[key]
        pieces = []
        for length in lengths:
            pieces.append(os.pread(self._file.fileno(), length, at))
            at += length
        return pieces


_lock = Lock()
_open: OrderedDict[Hashable, Keepable] = OrderedDict()
_folded: dict[Hashable, tuple[list[int], Callable[[list[bytes]], Any]]] = {}
_spill = _SpillFile()


def take(key: Hashable) -> Any | None:
    """What was put there under this key, which is the caller's alone now; None where it is gone, or somebody has it."""
    with _lock:
        found = _open.pop(key, None)
        if found is not None:
            return found
        lengths, restore = _folded.pop(key, ([], None))
    return None if restore is None else restore(_spill.read(key, lengths))


def put(key: Hashable, what: Keepable, *, room: int) -> None:
    """Leave something there; what has been unused for longest makes room for it."""
    with _lock:
        _folded.pop(key, None)
        _open[key] = what
        _open.move_to_end(key)
        held, leaving = sum(one.bytes for one in _open.values()), []
        while _open and held > room:
            one = _open.popitem(last=False)
            held -= one[1].bytes
            leaving.append(one)
    for name, gone in leaving:
        _fold(name, gone)


def _fold(key: Hashable, what: Keepable) -> None:
    pieces, restore = what.folded()
    try:
        _spill.write(key, pieces)
    except OSError:  # such as a full disk: it will be opened again
        return
    with _lock:
        if key not in _open:
            _folded[key] = [len(piece) for piece in pieces], restore


def discard(key: Hashable) -> None:
    """Forget what is under a key."""
    with _lock:
        _open.pop(key, None)
        _folded.pop(key, None)
