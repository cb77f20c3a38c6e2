"""Opened blocks that stay in the process that opened them, so that their next visit is cheap.

They only save time: who finds none on the shelf opens a block again, and answers with the same bits. The shelf is the
process's own. It holds up to so many bytes, what each task allows (`room`). The longest unused go first: those that can
be folded into bytes go into a file without a name on the process's own disk, which vanishes with the process; others,
and on a full disk all, are forgotten.
"""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from threading import Lock, RLock
from typing import Any

Folded = tuple[Sequence[Any], Callable[["Pieces"], Any]]
"""All of something as buffers, and what makes it of these again: what `folded()` gives of things that have it."""


class _SpillFile:
    """Bytes in one file without a name. A place is one record's from `write` until `free`, and then another's."""

    def __init__(self) -> None:
        self._file: Any = None
        self._free: list[tuple[int, int]] = []  # (size, where) of places that nobody uses
        self._used, self._end = 0, 0
        self._lock = RLock()  # a finalizer may free a place in the middle of anything

    def write(self, pieces: list[memoryview]) -> tuple[int, int]:
        """The place that they are in now: its size, and where it begins."""
        place = self._taken(sum(piece.nbytes for piece in pieces))
        at = place[1]
        try:
            for piece in pieces:
                view = piece
                while view:
                    written = os.pwrite(self._file.fileno(), view, at)
                    at, view = at + written, view[written:]
        except BaseException:
            self.free(place)
            raise
        return place

    def read_into(self, at: int, view: memoryview) -> None:
        while view:  # a system reads no more than 2 GiB at once
            number = os.preadv(self._file.fileno(), [view], at)
            if not number:
                raise OSError("the file ends before its pieces do")
            at, view = at + number, view[number:]

    def free(self, place: tuple[int, int]) -> None:
        with self._lock:
            self._used -= 1
            self._free.append(place)
            if not self._used:
                self._free, self._end = [], 0
                self._file.truncate(0)

    def _taken(self, size: int) -> tuple[int, int]:
        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
            self._used += 1
            fitting = [place for place in self._free if place[0] >= size]
            if fitting:
                self._free.remove(min(fitting))
                return min(fitting)
            self._end += size
            return size, self._end - size


def _flat(buffer: Any) -> memoryview:
    """The bytes of a buffer where they lie."""
    view = memoryview(buffer)
    return view.cast("B") if view.nbytes else memoryview(b"")  # which cannot be cast


class Pieces(Sequence[bytes]):
    """What something was folded into, each piece read when it is asked for; OSError where that fails."""

    def __init__(self, spill: _SpillFile, begin: int, lengths: Sequence[int]) -> None:
        self._spill, self._lengths = spill, lengths
        self._begins = list(accumulate(lengths, initial=begin))

    def __len__(self) -> int:
        return len(self._lengths)

    def __getitem__(self, i: Any) -> Any:
        content = bytearray(self._lengths[i])
        self.read_into(i, content)
        return bytes(content)

    def read_into(self, i: int, buffer: Any) -> None:
        """Fill a buffer that is as long as the piece."""
        view = _flat(buffer)
        if view.nbytes != self._lengths[i]:
            raise OSError(f"a piece has {self._lengths[i]} bytes instead of {view.nbytes}")
        self._spill.read_into(self._begins[i], view)


@dataclass(frozen=True, eq=False)
class _Folded:
    """What was put on the shelf, as bytes: where they are, and what makes it of them again."""

    place: tuple[int, int]
    lengths: list[int]
    restored: Callable[[Pieces], Any]


_lock = Lock()
_open: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
_folded: dict[Hashable, _Folded] = {}
_lent: dict[Hashable, _Folded] = {}  # what was taken, and still lies in the file as it was then
_gone: deque[Hashable] = deque()  # keys to be forgotten by whoever has the lock next
_spill = _SpillFile()


def take(key: Hashable, *, to_be_put: bool = False) -> Any | None:
    """What was put there under this key, which is the caller's alone now; None where it is gone, or somebody has it.

    What is `to_be_put` there again stays in the file meanwhile: it may come back as it was.
    """
    with _lock:
        _forget_gone()
        found = _open.pop(key, None)
        if found is not None:
            return found[0]
        folded = _folded.pop(key, None)
    if folded is None:
        return None
    freed: _Folded | None = folded
    try:
        restored = folded.restored(Pieces(_spill, folded.place[1], folded.lengths))
        if to_be_put:
            with _lock:
                freed = _lent.pop(key, None)
                _lent[key] = folded
    except OSError:  # such as a disk that fails: it will be opened again
        return None
    finally:
        if freed is not None:
            _spill.free(freed.place)
    return restored


def put(key: Hashable, what: Any, *, size: int, room: int, in_turn: bool = False, same: bool = False) -> bool:
    """Leave something of so many bytes there; the longest unused make room. Whether it stays open.

    Where all of a run are asked `in_turn`, those make no room for each other: each would be gone just before it is
    wanted again. `same`: it is as it was when it was taken `to_be_put`.
    """
    leaving: list[tuple[Hashable, Any]] = []
    with _lock:
        _forget_gone()
        older = _folded.pop(key, None)
        _open.pop(key, None)
        lent = _lent.pop(key, None)
        held = sum(one for _, one in _open.values())
        while held + size > room:
            oldest = next((one for one in _open if not (in_turn and _run(one) == _run(key))), None)
            if oldest is None:
                break
            gone, its_size = _open.pop(oldest)
            held -= its_size
            leaving.append((oldest, gone))
        stays = held + size <= room
        if stays:
            _open[key] = what, size
        elif same and lent is not None:
            _folded[key], lent = lent, None
        else:
            leaving.append((key, what))
    for record in (older, lent):
        if record is not None:
            _spill.free(record.place)
    for name, gone in leaving:
        _fold(name, gone)
    return stays


def _run(key: Hashable) -> Hashable:
    """Keys are pairs of a run's name and something of its own."""
    return key[0] if isinstance(key, tuple) else key


def _fold(key: Hashable, what: Any) -> None:
    if not hasattr(what, "folded"):
        return
    buffers, restored = what.folded()
    pieces = [_flat(buffer) for buffer in buffers]
    try:
        place = _spill.write(pieces)
    except OSError:  # such as a full disk: it will be opened again
        return
    folded = _Folded(place, [piece.nbytes for piece in pieces], restored)
    with _lock:
        older = folded if key in _open else _folded.get(key)
        if key not in _open:
            _folded[key] = folded
    if older is not None:
        _spill.free(older.place)


def discard(key: Hashable) -> None:
    """Forget what is under a key. Finalizers call this, also in a thread that has the lock: it waits for nobody."""
    _gone.append(key)
    if _lock.acquire(blocking=False):
        try:
            _forget_gone()
        finally:
            _lock.release()


def _forget_gone() -> None:
    while _gone:
        key = _gone.popleft()
        _open.pop(key, None)
        for records in (_folded, _lent):
            record = records.pop(key, None)
            if record is not None:
                _spill.free(record.place)
