"""Opened blocks that stay for a while in the process that opened them, so that their next visit is cheap.

They only save time: who finds none on the shelf opens a block again, and answers with the same labels. The shelf is the
process's own. It holds up to so many bytes, what each task allows (`room`); the longest unused go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Any

_lock = Lock()
_shelf: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()


def take(key: Hashable) -> Any | None:
    """What was put there under this key, which is the caller's alone now; None where it is gone, or somebody has it."""
    with _lock:
        return _shelf.pop(key, (None, 0))[0]


def put(key: Hashable, what: Any, *, size: int, room: int, in_turn: bool = False) -> None:
    """Leave something of so many bytes there, if it fits; the longest unused make room.

    Where all of a run are asked `in_turn`, those make no room for each other: each would be gone just before it is
    wanted again.
    """
    with _lock:
        _shelf.pop(key, None)
        held = sum(one for _, one in _shelf.values())
        while held + size > room:
            oldest = next((one for one in _shelf if not (in_turn and _run(one) == _run(key))), None)
            if oldest is None:
                break
            held -= _shelf.pop(oldest)[1]
        if held + size <= room:
            _shelf[key] = what, size


def clear(run: Hashable) -> None:
    """Take away all that is of a run: keys are pairs of the run's name and something of its own."""
    with _lock:
        for key in [key for key in _shelf if _run(key) == run]:
            del _shelf[key]


def _run(key: Hashable) -> Hashable:
    return key[0] if isinstance(key, tuple) else key
