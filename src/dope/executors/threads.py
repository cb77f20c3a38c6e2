"""Blocks side by side in threads of this process: the core releases the GIL, and memory is shared.

A round ends early when a block fails, is cancelled, or on Ctrl-C: then the other blocks are cancelled, and none is left
at work. The core stops by itself, and so does what calls `check_cancelled`; other work runs to its end.
"""

from __future__ import annotations

import itertools
import os
import queue
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
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
        pool = _Pool(min(self.workers, max(1, len(recipes))))
        return ThreadCrew(recipes, pool.submit, end=pool.end)


class _Pool:
    """Threads that call what they are given.

    Not a `ThreadPoolExecutor`: its semaphore, as the condition of a future, is entered by Python code. Ctrl-C in the
    middle of that would leave it locked, and the threads could never end. Nothing interrupts a queue half way.
    """

    def __init__(self, most: int) -> None:
        self._calls: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._most = most
        self._threads: list[threading.Thread] = []
        # Threads end also where Ctrl-C came as `end` was about to begin. The callback is no Python code, in which a
        # Ctrl-C that came while arrays were let go would be raised, and lost.
        self._gone = weakref.ref(self, self._calls.put)

    def submit(self, function: Callable[..., object], *arguments: Any) -> None:
        self._calls.put(partial(function, *arguments))
        if len(self._threads) < self._most:
            name = f"dope_{len(self._threads)}"
            thread = threading.Thread(target=_call_each, args=(self._calls, self._gone), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def end(self) -> None:
        """Wait until all threads have ended."""
        self._calls.put(None)
        for thread in self._threads:
            thread.join()


def _call_each(calls: queue.SimpleQueue[object], _gone: weakref.ref[_Pool]) -> None:
    """Call what comes, until something else does. The reference outlives the pool here: only then does it tell."""
    while isinstance(call := calls.get(), partial):
        call()
        del call  # and what it refers to, while there is nothing to do
    calls.put(None)  # for the next thread


class ThreadCrew:
    """Threads of a pool ask the workers of a serial crew, each of them by one thread at a time.

    `submit` is that of the pool, which is given up to `most` blocks at a time, None for all; it gives a future where
    somebody else may break the pool, or shut it down. `end` is called when the crew leaves.
    """

    def __init__(
        self,
        recipes: Sequence[Recipe],
        submit: Callable[..., Future[Any] | None],
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
        round_ = _Round(self._crew, messages, begun)
        replies: list[Any] = [None] * len(messages)
        try:
            with waking(round_.wake):
                round_.submit(self._submit, self._most)
                left = sum(message is not None for message in messages)
                while left:
                    check_cancelled()
                    reply = round_.next()
                    if reply is None:
                        continue
                    left -= 1
                    round_.submit(self._submit, 1)
                    if reply.error is not None:
                        raise reply.error
                    replies[reply.k] = reply.content
                    if done is not None:
                        done(reply.k, reply.content)
            return replies
        except BaseException:  # also Ctrl-C
            round_.end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._end is not None:
            self._end()
        self._crew.__exit__(*error)


@dataclass
class _Reply:
    """What a block answered, or what went wrong there."""

    k: int
    content: Any = None
    error: BaseException | None = None


class _Round:
    """The blocks that are asked something, and their replies as they come."""

    def __init__(self, crew: SerialCrew, messages: Sequence[Any], begun: Callable[[int], object] | None) -> None:
        self._crew, self._begun = crew, begun
        self._cancellation = Cancellation()
        self._entered = (*entered(), self._cancellation)
        self._waiting = ((k, message) for k, message in enumerate(messages) if message is not None)
        self._arrivals: queue.SimpleQueue[_Reply | None] = queue.SimpleQueue()  # None: somebody cancelled
        self._futures: list[Future[Any]] = []
        self._submitted, self._ended = 0, list[int]()

    def submit(self, submit: Callable[..., Future[Any] | None], most: int | None) -> None:
        """Hand out so many of the blocks that wait."""
        for k, message in itertools.islice(self._waiting, most):
            future = submit(self._ask_one, k, message)
            if future is not None:
                self._futures.append(future)
                future.add_done_callback(partial(self._tell_if_never_called, k))
            self._submitted += 1

    def next(self) -> _Reply | None:
        """The next reply; None after a moment without one, or as soon as somebody cancels."""
        try:
            return self._arrivals.get(timeout=SECONDS_BETWEEN_LOOKS)
        except queue.Empty:
            return None

    def wake(self) -> None:
        self._arrivals.put(None)

    def end(self) -> None:
        """Cancel what is at work, and wait until it has stopped."""
        self._cancellation.cancel()
        for future in self._futures:
            future.cancel()
        while len(self._ended) < self._submitted:  # replies may be lost: Ctrl-C comes when one was just taken
            self.next()

    def _ask_one(self, k: int, message: Any) -> None:
        reply = _Reply(k)
        try:
            with entering(self._entered):
                check_cancelled()
                if self._begun is not None:
                    self._begun(k)
                reply.content = self._crew.ask_one(k, message)
        except BaseException as error:
            reply.error = error
        self._tell(reply)

    def _tell_if_never_called(self, k: int, future: Future[Any]) -> None:
        try:
            future.result()
        except BaseException as error:
            self._tell(_Reply(k, error=error))

    def _tell(self, reply: _Reply) -> None:
        self._ended.append(reply.k)
        self._arrivals.put(reply)
