"""What a crew has under way: tasks that were sent to workers and are not answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from dope.executors.round import Round
from dope.executors.transport import Sent


@dataclass(eq=False)
class Attempt:
    """A task that was sent; `overdue` when it was sent elsewhere too: its worker is not trusted until it answers."""

    round: Round
    worker: str
    blocks: tuple[int, ...]
    bytes: int
    sent: float
    task: Sent | None = None
    overdue: bool = False

    def blocks_of(self, round_: Round) -> list[int]:
        """Which blocks of this ask are still waited for; none, where the attempt is of an earlier one."""
        return [k for k in self.blocks if k in round_.open] if round_ is self.round else []


class Attempts:
    """What is under way, and how much of it to each worker."""

    def __init__(self) -> None:
        self.load: Counter[str] = Counter()  # attempts by worker
        self.bytes: Counter[str] = Counter()  # and what they hold
        self._under_way: set[Attempt] = set()

    def add(self, attempt: Attempt) -> None:
        self._under_way.add(attempt)
        self.load[attempt.worker] += 1
        self.bytes[attempt.worker] += attempt.bytes

    def discard(self, attempt: Attempt) -> None:
        self._under_way.discard(attempt)
        self.load[attempt.worker] -= 1
        self.bytes[attempt.worker] -= attempt.bytes

    @property
    def workers(self) -> set[str]:
        """All that were ever sent something."""
        return set(self.load)

    @property
    def hanging(self) -> set[str]:
        """Those that have not answered in time."""
        return {attempt.worker for attempt in self._under_way if attempt.overdue}

    def __contains__(self, attempt: Attempt) -> bool:
        return attempt in self._under_way

    def __iter__(self) -> Iterator[Attempt]:
        return iter(list(self._under_way))
