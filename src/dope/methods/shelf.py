"""Opened blocks that stay in the process that opened them, so that their next visit is cheap.

They only save time: who finds none on the shelf opens a block again, and answers with the same bits. The shelf is the
process's own. It holds up to so many bytes, what each task allows (`room`). The longest unused go first: those that can
be folded into bytes go into a file without a name on the process's own disk, which vanishes with the process; others,
and on a full disk all, are forgotten.
"""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any

Folded = tuple[list[bytes], Callable[[list[bytes]], Any]]
"""All of something as bytes, and what makes it of these again: what `folded()` gives of things that have it."""


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
_open: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
_folded: dict[Hashable, tuple[list[int], Callable[[list[bytes]], Any]]] = {}
_spill = _SpillFile()


def take(key: Hashable) -> Any | None:
    """What was put there under this key, which is the caller's alone now; None where it is gone, or somebody has it."""
    with _lock:
        found = _open.pop(key, None)
        if found is not None:
            return found[0]
        lengths, restore = _folded.pop(key, ([], None))
    return None if restore is None else restore(_spill.read(key, lengths))


def put(key: Hashable, what: Any, *, size: int, room: int, in_turn: bool = False) -> None:
    """Leave something of so many bytes there; the longest unused make room.

    Where all of a run are asked `in_turn`, those make no room for each other: each would be gone just before it is
    wanted again.
    """
    leaving: list[tuple[Hashable, Any]] = []
    with _lock:
        _folded.pop(key, None)
        _open.pop(key, None)
        held = sum(one for _, one in _open.values())
        while held + size > room:
            oldest = next((one for one in _open if not (in_turn and _run(one) == _run(key))), None)
            if oldest is None:
                break
            gone, its_size = _open.pop(oldest)
            held -= its_size
            leaving.append((oldest, gone))
        if held + size <= room:
            _open[key] = what, size
        else:
            leaving.append((key, what))
    for name, gone in leaving:
        _fold(name, gone)


def clear(run: Hashable) -> None:
    """Take away all that is of a run: keys are pairs of the run's name and something of its own."""
    with _lock:
        for held in (_open, _folded):
            for key in [key for key in held if _run(key) == run]:
                del held[key]


def discard(key: Hashable) -> None:
    """Forget what is under a key."""
    with _lock:
        _open.pop(key, None)
        _folded.pop(key, None)


def _fold(key: Hashable, what: Any) -> None:
    if not hasattr(what, "folded"):
        return
    pieces, restore = what.folded()
    try:
        _spill.write(key, pieces)
    except OSError:  # such as a full disk: it will be opened again
        return
    with _lock:
        if key not in _open:
            _folded[key] = [len(piece) for piece in pieces], restore


def _run(key: Hashable) -> Hashable:
    return key[0] if isinstance(key, tuple) else key
