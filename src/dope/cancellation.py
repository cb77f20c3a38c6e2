"""Stopping work from another thread: the core, loops in Python and crews of workers alike.

Work is done `with cancellation:`, and `cancellation.cancel()` ends it by `Cancelled`. The core looks by itself. A loop
in Python calls `check_cancelled()` between its iterations. A pool enters `entered()` of the calling thread in its own
threads, and who waits for them is woken (`waking`).
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Self, TypeVar

from dope import _core

Cancelled = _core.Cancelled
T = TypeVar("T")

# How long a thread waits before it looks up: on Windows nothing else lets Ctrl-C through.
SECONDS_BETWEEN_LOOKS = 0.05


class Cancellation:
    """Whether some work is to stop. Cancelled once, it stays so.

    Entered by any number of threads, each of which leaves what it entered. In one thread several may be entered, one
    inside the other: any of them stops the work.

    >>> cancellation = Cancellation()
    >>> with cancellation:
    ...     check_cancelled()
    ...     cancellation.cancel()
    ...     check_cancelled()
    Traceback (most recent call last):
    dope._core.Cancelled: cancelled
    """

    def __init__(self) -> None:
        self._flag = _core.Cancel()
        self._callbacks: dict[int, Callable[[], object]] = {}
        self._numbers = itertools.count()
        self._lock = threading.RLock()  # which a signal handler that cancels may hold already

    def cancel(self) -> None:
        """Stop the work, from whichever thread, also from a signal handler; does not wait until it has stopped."""
        with self._lock:
            self._flag.cancel()
            callbacks = list(self._callbacks.values())
        for callback in callbacks:
            callback()

    @property
    def cancelled(self) -> bool:
        return self._flag.cancelled

    @contextmanager
    def calling(self, callback: Callable[[], object]) -> Iterator[None]:
        """In here `cancel()` calls back, in its thread; at once if it was called before.

        May call back twice, or just after the end: a callback should only wake somebody up.
        """
        number = next(self._numbers)
        with self._lock:
            self._callbacks[number] = callback
        try:
            if self.cancelled:
                callback()
            yield
        finally:
            with self._lock:
                del self._callbacks[number]

    def __enter__(self) -> Self:
        self._flag.__enter__()
        _HERE.entered = (*entered(), self)
        return self

    def __exit__(self, *error: object) -> None:
        self._flag.__exit__(*error)  # raises where this thread has not entered it
        here = list(entered())
        del here[len(here) - 1 - here[::-1].index(self)]
        _HERE.entered = tuple(here)


_HERE = threading.local()


def entered() -> tuple[Cancellation, ...]:
    """What the calling thread has entered, the outermost first."""
    here: tuple[Cancellation, ...] = getattr(_HERE, "entered", ())
    return here


def is_cancelled() -> bool:
    """Whether something that the calling thread entered is cancelled."""
    return any(cancellation.cancelled for cancellation in entered())


def check_cancelled() -> None:
    """Raise `Cancelled` where something that the calling thread entered is cancelled. Takes about a microsecond."""
    if is_cancelled():
        raise Cancelled("cancelled")


@contextmanager
def entering(cancellations: Iterable[Cancellation]) -> Iterator[None]:
    """Enter what another thread has entered."""
    with ExitStack() as stack:
        for cancellation in cancellations:
            stack.enter_context(cancellation)
        yield


@contextmanager
def finishing() -> Iterator[None]:
    """What was cancelled before stops nothing in here: for the last step of work that answered all the same."""
    here = entered() if is_cancelled() else ()
    for cancellation in reversed(here):
        cancellation.__exit__()
    try:
        yield
    finally:
        for cancellation in here:
            cancellation.__enter__()


@contextmanager
def waking(wake: Callable[[], object]) -> Iterator[None]:
    """In here `wake` is called when something that the calling thread has entered is cancelled."""
    with ExitStack() as stack:
        for cancellation in entered():
            stack.enter_context(cancellation.calling(wake))
        yield


def run_aside(work: Callable[[], T]) -> T:
    """What `work()` returns; for calls of other libraries, which nobody can stop.

    It runs in a thread of its own, which has entered what the calling thread has. Where that is cancelled, the calling
    thread is told at once, and the work is left to end in its own time.
    """
    cancellations = entered()
    if not cancellations:
        return work()
    arrivals: queue.SimpleQueue[None] = queue.SimpleQueue()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with entering(cancellations):
                results.append(work())
        except BaseException as error:
            errors.append(error)
        arrivals.put(None)

    check_cancelled()
    with waking(lambda: arrivals.put(None)):
        threading.Thread(target=run, name="aside", daemon=True).start()
        while not results and not errors:
            check_cancelled()
            try:
                arrivals.get(timeout=SECONDS_BETWEEN_LOOKS)
            except queue.Empty:
                continue
    if errors:
        raise errors[0]
    return results[0]
