"""Blocks side by side in threads of this process: the core releases the GIL, and memory is shared.

A round ends early when a block fails, is cancelled, or on Ctrl-C: then the other blocks are cancelled, and none is left
at work. The core stops by itself, and so does what calls `check_cancelled`; other work runs to its end.
"""

from __future__ import annotations

import itertools
import os
import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Self

from dope.cancellation import SECONDS_BETWEEN_LOOKS, Cancellation, check_cancelled, entered, entering, waking
from dope.errors import InputError
from dope.executors.serial import SerialCrew
from dope.protocols import Recipe


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
        pool = ThreadPoolExecutor(min(self.workers, max(1, len(recipes))), thread_name_prefix="dope")
        return ThreadCrew(recipes, pool.submit, end=lambda: pool.shutdown(cancel_futures=True))


class ThreadCrew:
    """Threads of a pool ask the workers of a serial crew, each of them by one thread at a time.

    `submit` is that of the pool, which is given up to `most` blocks at a time, None for all; `end` is called when the
    crew leaves.
    """

    def __init__(
        self,
        recipes: Sequence[Recipe],
        submit: Callable[..., Future[Any]],
        *,
        most: int | None = None,
        end: Callable[[], object] | None = None,
    ) -> None:
        self._crew, self._submit, self._most, self._end = SerialCrew(recipes), submit, most, end

    def ask(
        self,
        messages: Sequence[Any],
        *,
        begun: Callable[[int], object] | None = None,
        done: Callable[[int, Any], object] | None = None,
    ) -> list[Any]:
        round_ = Cancellation()
        cancellations = (*entered(), round_)
        arrivals: queue.SimpleQueue[Future[Any] | None] = queue.SimpleQueue()  # None: somebody cancelled
        asked: dict[Future[Any], int] = {}
        todo = [(k, message) for k, message in enumerate(messages) if message is not None]
        waiting = iter(todo)
        replies: list[Any] = [None] * len(messages)

        def ask_one(k: int, message: Any) -> Any:
            with entering(cancellations):
                check_cancelled()
                if begun is not None:
                    begun(k)
                return self._crew.ask_one(k, message)

        def submit(most: int | None) -> None:
            for k, message in itertools.islice(waiting, most):
                future = self._submit(ask_one, k, message)
                asked[future] = k
                future.add_done_callback(arrivals.put)

        try:
            with waking(lambda: arrivals.put(None)):
                submit(self._most)
                for future in _arriving(arrivals, len(todo)):
                    submit(1)
                    replies[asked[future]] = future.result()  # raises what went wrong in a block
                    if done is not None:
                        done(asked[future], replies[asked[future]])
            return replies
        except BaseException:  # also Ctrl-C
            round_.cancel()
            wait([future for future in asked if not future.cancel()])
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._end is not None:
            self._end()
        self._crew.__exit__(*error)


def _arriving(arrivals: queue.SimpleQueue[Future[Any] | None], number: int) -> Iterator[Future[Any]]:
    """So many futures, each as soon as it is done; raises Cancelled as soon as somebody cancels."""
    while number:
        check_cancelled()
        try:
            future = arrivals.get(timeout=SECONDS_BETWEEN_LOOKS)
        except queue.Empty:
            continue
        if future is not None:
            number -= 1
            yield future
