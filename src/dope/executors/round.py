"""One ask of a crew: which blocks are open, which of them wait to be sent, and to whom they should go."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dope.executors.remote_worker import pickled

# A task takes 15 ms to its worker and back (local:2, distributed 2026.8), so short ones are sent so many at a time. Of
# longer ones none waits at its worker: whoever is free first takes the next.
SHORT_SECONDS, SHORT_TASKS_AHEAD = 0.05, 8


class Round:
    """What is still open of one ask, and who should be given it.

    `owner` says who has a block open, and `pace` how many seconds a block takes, by the type of its message.
    """

    def __init__(
        self,
        messages: Sequence[Any],
        owner: Mapping[int, str],
        pace: dict[type, float],
        begun: Callable[[int], object] | None,
    ) -> None:
        self._messages, self._pace, self._since = messages, pace, time.monotonic()
        self._tell_begun, self._begun = begun, set[int]()
        self.asked = [k for k, message in enumerate(messages) if message is not None]
        self.open = set(self.asked)
        self.waiting: set[int] = set()
        self.losses: Counter[int] = Counter()
        self.replies: list[Any] = [None] * len(messages)
        self._queues: dict[str | None, deque[int]] = {}  # who waits, by the worker that has them open
        self._kind = type(messages[self.asked[0]]) if self.asked else type(None)
        self.put(self.asked, owner)

    def pickled(self, k: int) -> bytes:
        return pickled(self._messages[k], f"the message to block {k}")

    def begin(self, blocks: Sequence[int]) -> None:
        """Tell that these were handed to a worker, each of them once."""
        for k in blocks:
            if self._tell_begun is not None and k not in self._begun:
                self._begun.add(k)
                self._tell_begun(k)

    def reply(self, k: int, reply: Any) -> None:
        self.replies[k] = reply
        self.open.discard(k)
        self.waiting.discard(k)

    def note_pace(self, seconds: float) -> None:
        """Note how long a block took: those of the next ask will be much the same."""
        self._pace[self._kind] = (self._pace.get(self._kind, seconds) + seconds) / 2

    def tasks_ahead(self, size: int) -> int:
        """How many tasks of so many blocks a thread is sent at once."""
        short = size * self._pace.get(self._kind, math.inf) < SHORT_SECONDS
        return SHORT_TASKS_AHEAD if short else 1

    def put(self, blocks: Sequence[int], owner: Mapping[int, str]) -> None:
        """In the queue of the worker that has them open."""
        for k in blocks:
            self._queues.setdefault(owner.get(k), deque()).append(k)
            self.waiting.add(k)

    def owned(self, worker: str, size: int) -> list[int]:
        """Take up to so many blocks that a worker has open."""
        return self._taken(worker, size)

    def unassigned(self, trusted: Mapping[str, int], size: int) -> list[int]:
        """Take up to so many blocks that nobody who is there has open."""
        owners = [owner for owner in self._queues if owner not in trusted]
        return next((taken for owner in owners if (taken := self._taken(owner, size))), [])

    def others(self, size: int, opening: float) -> list[int]:
        """Take blocks out of the longest queue, if to wait there may take longer than to open one elsewhere."""
        if not self._queues:
            return []
        owner, waiting = max(self._queues.items(), key=lambda item: len(item[1]))
        each = self._pace.get(self._kind, time.monotonic() - self._since)
        return self._taken(owner, size) if len(waiting) * each >= opening else []

    def _taken(self, owner: str | None, size: int) -> list[int]:
        """Some of a queue; what was answered meanwhile, by somebody late, is passed over."""
        waiting, taken = self._queues.get(owner, deque()), list[int]()
        while waiting and len(taken) < size:
            if (k := waiting.popleft()) in self.waiting:
                self.waiting.discard(k)
                taken.append(k)
        if not waiting:
            self._queues.pop(owner, None)
        return taken
