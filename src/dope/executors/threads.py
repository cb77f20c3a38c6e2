"""Blocks side by side in threads of this process: the core releases the GIL, and memory is shared.

A round ends early when a block fails or on Ctrl-C: then the core stops in the other blocks, and none is left at work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Self

from dope import _core
from dope.errors import InputError
from dope.executors.serial import SerialCrew
from dope.protocols import Recipe

# How long the main thread waits before it looks up: on Windows nothing else lets Ctrl-C through.
SECONDS_BETWEEN_LOOKS = 0.05


def cores() -> int:
    """The cores that this process may use: a batch system or `taskset` may leave it fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Threads:
    """Runs blocks in `number` threads; None means one per core that this process may use."""

    number: int | None = None

    def __post_init__(self) -> None:
        if self.number is not None and (isinstance(self.number, bool) or self.number < 1):
            raise InputError(f"Threads({self.number!r}): expected one thread or more, or None for one per core.")

    @property
    def workers(self) -> int:
        return self.number or cores()

    @property
    def elsewhere(self) -> bool:
        return False

    def gather(self, recipes: Sequence[Recipe]) -> SerialCrew | ThreadCrew:
        if len(recipes) == 1:
            return SerialCrew(recipes)  # in the calling thread, where Ctrl-C is noticed
        return ThreadCrew(recipes, self.workers)


class ThreadCrew:
    """A pool that asks the workers of a serial crew, each of them by one thread at a time."""

    def __init__(self, recipes: Sequence[Recipe], number: int) -> None:
        self._crew = SerialCrew(recipes)
        self._pool = ThreadPoolExecutor(min(number, max(1, len(recipes))), thread_name_prefix="dope")

    def ask(self, messages: Sequence[Any], *, each: Callable[[int, Any], object] | None = None) -> list[Any]:
        cancel = _core.Cancel()
        asked: dict[Future[Any], int] = {}
        replies: list[Any] = [None] * len(messages)
        try:
            for k, message in enumerate(messages):
                if message is not None:
                    asked[self._pool.submit(self._ask_one, cancel, k, message)] = k
            open_ = set(asked)
            while open_:
                done, open_ = wait(open_, SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED)
                for future in sorted(done, key=asked.__getitem__):
                    replies[asked[future]] = future.result()  # raises what went wrong in a block
                    if each is not None:
                        each(asked[future], replies[asked[future]])
            return replies
        except BaseException:  # also Ctrl-C
            cancel.cancel()
            wait(asked)
            raise

    def _ask_one(self, cancel: _core.Cancel, k: int, message: Any) -> Any:
        if cancel.cancelled:
            raise _core.Cancelled("cancelled before it began")
        with cancel:
            return self._crew.ask_one(k, message)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._crew.__exit__(*error)
