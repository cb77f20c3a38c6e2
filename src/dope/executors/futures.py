"""Blocks on any executor of `concurrent.futures`: process pools, MPI, batch systems.

Such an executor takes a call and gives a future, and that is all. It cannot say which process gets the call, who is
there, or whose heart beats. Yet `RemoteCrew` does all that has to be done (order, batches, what was lost, patience,
errors), so this is a `Transport` for it, and no crew of its own: the workers that it tells of are places, as many as
tasks may be under way at once. A task that hangs takes its place along, and the others go on. What is different:

- A block may find itself in a process that has it not open. It says so, and the recipe is sent; in time all processes
  have it open, as many as their memory holds (`remote_worker`).
- Nobody can call a process that is at work. Which runs have ended is written to a file, which every process that sees
  it follows, and goes along with the next tasks for those that do not.
- A pool of the standard library is dead when one of its processes is: whoever gave a function gets a new one.

Threads of this process share its memory: their blocks are not pickled, and asked as those of `Threads` are.
"""

from __future__ import annotations

import atexit
import os
import pickle
import shutil
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent import futures
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from dope.cancellation import SECONDS_BETWEEN_LOOKS
from dope.errors import DopeError, InputError
from dope.executors.deadlines import check_patience
from dope.executors.remote_crew import RELEASE_SECONDS, RemoteCrew
from dope.executors.remote_worker import forget, text_of
from dope.executors.threads import ThreadCrew, cores
from dope.executors.transport import Member, Sent, Unreadable
from dope.protocols import Recipe

T = TypeVar("T")

# So many executors in a row may break without an answer in between: of a kind that has never answered, and of one that
# has, whose workers can start and were killed since.
MOST_BREAKS, MOST_BREAKS_LATER = 3, 10
# A task tells of so many runs that ended last, for workers that do not see the file.
ENDED_RUNS = 8
EXAMPLE = "dope.Futures(lambda: ProcessPoolExecutor(4))"


class Submits(Protocol):
    """What is asked of an executor."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> futures.Future[Any]: ...


@dataclass(frozen=True, repr=False)
class Futures:
    """Runs blocks on an executor of `concurrent.futures`; replies are, bit for bit, those of `Serial`.

    Attributes
    ----------
    executor : anything with `submit`, such as a `ProcessPoolExecutor`, a `ThreadPoolExecutor`, mpi4py's
        `MPIPoolExecutor`; or a function without arguments that makes one. What is given is used, and never shut down.
        What the function made is ours: it is made again where it broke, and shut down by `close()`, at the end of the
        `with` block, or at the end of this process.
    workers : how many blocks are worked on at once; by default as many as the executor has workers, or else one per
        core that this process may use.
    patience : seconds. A task that is not answered for so long is taken to hang, and its blocks are sent again; after
        ten times as long an error says so. By default 300, or 10 times the slowest task where that is more. Threads
        of this process are waited for, as those of `Threads`.

    A process of a `ProcessPoolExecutor` that is killed breaks all of it: give a function then. Blocks of `Exact()`
    share memory and run in threads only; `Bracketing()`, the default elsewhere, finds the same labels.

    >>> import numpy as np, dope
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> energy = dope.Energy.grid(np.random.default_rng(0).normal(size=(32, 32)), lam=1.0)
    >>> with ThreadPoolExecutor(2) as pool:
    ...     result = dope.minimize(energy, blocks=4, executor=dope.Futures(pool))
    >>> result.exact
    True
    """

    executor: Submits | Callable[[], Submits]
    workers: int = field(default=None)  # type: ignore[assignment]  # None is replaced by what the executor has
    patience: float | None = field(default=None, kw_only=True)
    _link: Link = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        workers: object = self.workers
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
            raise InputError(f"Futures: workers is {workers!r}; expected one or more, or None for all there are.")
        check_patience("Futures", self.patience)
        object.__setattr__(self, "_link", Link(self.executor, workers))
        object.__setattr__(self, "workers", self._link.places)

    @property
    def elsewhere(self) -> bool:
        return not self._link.in_threads

    def gather(self, recipes: Sequence[Recipe]) -> RemoteCrew | ThreadCrew:
        if self._link.in_threads:
            return ThreadCrew(recipes, self._link.call, most=self.workers)
        return RemoteCrew(self._link, recipes, self.patience)

    def close(self) -> None:
        """Shut down what the function made; a process that has not stopped in 2 s is killed. It is made again if asked.

        An executor that was given stays as it is.
        """
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Futures], tuple[object, ...]]:
        return partial(Futures, patience=self.patience), (self.executor, self.workers)

    def __repr__(self) -> str:
        patience = "" if self.patience is None else f", patience={self.patience}"
        return f"Futures({_name_of(self.executor)}, {self.workers}{patience})"


def _name_of(executor: object) -> str:
    """What an executor, or the function that makes it, is called."""
    return str(getattr(executor, "__qualname__", type(executor).__name__))


def _checked(executor: Any, words: str) -> Submits:
    """An executor, if it is one."""
    if hasattr(executor, "get_executor"):
        raise InputError(
            f"Futures: {words} a {_name_of(executor)} of Dask; expected an executor. Use dope.Dask(client)."
        )
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise InputError(
            f"Futures: {words} {_name_of(executor)}, which has no submit(function, ...); expected an executor of "
            f"concurrent.futures, or a function that makes one: {EXAMPLE}."
        )
    checked: Submits = executor
    return checked


class Link:
    """The transport to an executor, which is made again where it broke, if it can be. No call waits for long."""

    def __init__(self, executor: Any, places: int | None) -> None:
        makes = callable(executor) and (isinstance(executor, type) or not hasattr(executor, "submit"))
        self._make: Callable[[], object] | None = executor if makes else None
        self._executor: Submits | None = None if makes else _checked(executor, "got")
        self._broken: BaseException | None = None
        self._breaks = 0  # since it was opened, or something was answered
        self._answered = False
        self._opened: list[Submits] = []  # what is ours to shut down
        self._lock = threading.Lock()
        weakref.finalize(self, _let_go, self._opened).atexit = False  # `_end_all` comes earlier
        self.open()  # now, so that what is wrong with it is told at once
        self.in_threads = _shares_memory(self._executor)
        self._name = type(self._executor).__name__
        self.places = places or _size_of(self._executor)

    @property
    def title(self) -> str:
        return f"the executor {self._name}"

    @property
    def advice(self) -> str:
        return "Give it more workers, or wait longer: `patience`."

    @property
    def connected(self) -> bool:
        return self._executor is not None and self._broken is None

    def open(self) -> None:
        self._breaks = 0
        self.reconnect()

    def reconnect(self) -> None:
        with self._lock:
            if self._broken is not None:
                self._drop(self._broken)
            if self._executor is None:
                self._executor = self._made()

    def _drop(self, error: BaseException) -> None:
        """Part with an executor that broke; DopeError where no other follows."""
        if self._make is None:
            raise DopeError(
                f"{self.title} takes no more work ({text_of(error)}). It was given, so it is not replaced: keep it "
                f"open while blocks are at work, or, where workers may die, give a function that makes it: {EXAMPLE}."
            ) from error
        self._executor = self._broken = None
        _shut_down_each(self._opened)
        self._breaks += 1
        if self._breaks < (MOST_BREAKS_LATER if self._answered else MOST_BREAKS):
            return
        if self._answered:
            raise DopeError(
                f"{self.title} broke {self._breaks} times in a row, with no answer in between ({text_of(error)}): its "
                "workers die, most likely for lack of memory. Take smaller blocks, or give workers more memory."
            ) from error
        raise DopeError(
            f"{self.title} broke {MOST_BREAKS} times before it had answered anything ({text_of(error)}): its workers "
            "died, most likely for lack of memory, or could not start. Take smaller blocks, give workers more memory, "
            "and in a script put what it does under: if __name__ == '__main__':"
        ) from error

    def _made(self) -> Submits:
        assert self._make is not None
        try:
            executor = _checked(self._make(), "the function gave")
        except DopeError:
            raise
        except Exception as error:
            raise DopeError(f"Futures: {_name_of(self._make)} has made no executor ({text_of(error)}).") from error
        self._opened.append(executor)
        _LINKS.add(self)
        _end_all_at_exit()
        return executor

    def look(self) -> futures.Future[Mapping[str, Member]]:
        """One member per place. Nobody knows whether it lives, so that is assumed."""
        now = time.monotonic()
        return _done({f"{self._name}-{k}": Member(1, True, "running", now) for k in range(1, self.places + 1)})

    def submit(self, task: bytes, *, name: str, worker: str, deliver: Callable[[Any], object]) -> Sent | None:
        del name, worker  # an executor takes neither
        executor = self._executor
        if executor is None:
            return None
        parcel = pickle.dumps(Parcel(task, ended_file(), tuple(_RECENTLY_ENDED)), protocol=5)
        try:
            future = executor.submit(pickle.loads, parcel)
        except (RuntimeError, OSError) as error:  # shut down, broken, or out of processes
            self._broken = error
            return None
        future.add_done_callback(partial(self._deliver, executor, deliver))
        return SentFuture(future)

    def _deliver(self, executor: Submits, deliver: Callable[[Any], object], future: futures.Future[Any]) -> None:
        answer: Any
        try:
            answer = future.result()
            self._breaks, self._answered = 0, True
        except (ImportError, AttributeError) as error:
            answer = Unreadable(error)
        except futures.BrokenExecutor as error:
            if self._executor is executor:
                self._broken = error
            answer = error
        except Exception as error:
            answer = error
        except BaseException as error:  # Ctrl-C at the terminal reaches workers too
            answer = DopeError(f"a worker was interrupted ({text_of(error)}).")
        deliver(answer)

    def call(self, function: Callable[..., Any], *arguments: Any) -> futures.Future[Any]:
        """Have a thread call a function of this process."""
        while True:
            self.reconnect()
            assert self._executor is not None
            try:
                return self._executor.submit(function, *arguments)
            except (RuntimeError, OSError) as error:
                self._broken = error

    def release(self, run: str, workers: Collection[str]) -> futures.Future[None]:
        del workers  # all of them read the same file
        note_ended(run)
        return _done(None)

    def close(self) -> None:
        with self._lock:
            if self._make is not None:
                self._executor = self._broken = None
                _shut_down_each(self._opened)


@dataclass(frozen=True)
class SentFuture:
    """A task under way."""

    future: futures.Future[Any]

    def release(self) -> None:
        self.future.cancel()


def _done(result: T) -> futures.Future[T]:
    done: futures.Future[T] = futures.Future()
    done.set_result(result)
    return done


def _size_of(executor: object) -> int:
    """How many workers an executor says it has, by the names that the standard library and mpi4py have for it."""
    for name in ("_max_workers", "num_workers"):
        found = getattr(executor, name, None)
        if isinstance(found, int) and found > 0:
            return found
    return cores()


def _shares_memory(executor: object) -> bool:
    """Whether it runs things in threads of this process, and of this interpreter."""
    interpreters = getattr(futures, "InterpreterPoolExecutor", ())  # Python 3.14: threads, but apart
    return isinstance(executor, futures.ThreadPoolExecutor) and not isinstance(executor, interpreters)


# What is ended at exit: links with executors of their own, and processes of executors that nobody refers to any more.
_LINKS: weakref.WeakSet[Link] = weakref.WeakSet()
_LEFT: weakref.WeakSet[Any] = weakref.WeakSet()


def _let_go(opened: list[Submits]) -> None:
    """Have executors end, and do not wait: the garbage collector may call this anywhere, whatever locks are held."""
    while opened:
        executor: Any = opened.pop()
        for process in _processes_of(executor):
            _LEFT.add(process)
        with suppress(Exception):
            executor.shutdown(wait=False, cancel_futures=True)


@cache
def _end_all_at_exit() -> None:
    """Register `_end_all`.

    At exit the standard library waits for its workers, also for one that hangs, before `atexit` is asked. Only this
    comes earlier, if it is registered later, and it has no public name.
    """
    getattr(threading, "_register_atexit", atexit.register)(_end_all)


def _end_all() -> None:
    for link in list(_LINKS):
        link.close()
    end = time.monotonic() + RELEASE_SECONDS
    for process in list(_LEFT):
        with suppress(Exception):
            process.join(max(0.0, end - time.monotonic()))
            process.kill()


def _processes_of(executor: object) -> list[Any]:
    """The processes of a pool: before Python 3.14 nothing public kills one that hangs."""
    return list((getattr(executor, "_processes", None) or {}).values())


def _shut_down_each(opened: list[Submits]) -> None:
    while opened:
        _shut_down(opened.pop())


def _shut_down(executor: Any) -> None:
    """Shut down an executor; processes of a pool that take too long for that are killed, else it waits for them."""
    processes = _processes_of(executor)

    def shut_down() -> None:
        with suppress(Exception):
            executor.shutdown(wait=True, cancel_futures=True)

    ending = threading.Thread(target=shut_down, name="dope-shutdown", daemon=True)
    ending.start()
    ending.join(RELEASE_SECONDS)
    if ending.is_alive():
        for process in processes:
            with suppress(Exception):
                process.kill()
        ending.join(RELEASE_SECONDS)


# How workers hear that a run has ended.

_RECENTLY_ENDED: deque[str] = deque(maxlen=ENDED_RUNS)
_FOLLOWED: set[tuple[int, str]] = set()  # files, with the process that follows them: a forked one begins anew


@cache
def ended_file() -> str:
    """The file to which this process writes the runs that have ended, a line each; it goes when the process ends."""
    folder = tempfile.mkdtemp(prefix="dope-")  # which others cannot read
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = Path(folder) / "ended"
    file.touch()
    _FOLLOWED.add((os.getpid(), str(file)))  # who writes it knows what is in it
    return str(file)


def note_ended(run: str) -> None:
    """Tell all workers that they are to stop and forget a run; those in this process, of whatever executor, too."""
    forget(run)
    _RECENTLY_ENDED.append(run)
    with Path(ended_file()).open("ab") as file:
        file.write(f"{run}\n".encode())


@dataclass(frozen=True)
class Parcel:
    """A task, and what else its worker has to know. Pickled it is a call of `unpack`, as the task is one of `work`."""

    task: bytes
    ended_file: str
    recently_ended: tuple[str, ...]

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return unpack, (self.task, self.ended_file, self.recently_ended)


def unpack(task: bytes, file: str, recently_ended: Sequence[str]) -> Any:
    """Do a task, in the process of a worker."""
    for run in recently_ended:
        forget(run)
    if (os.getpid(), file) not in _FOLLOWED:
        _FOLLOWED.add((os.getpid(), file))
        threading.Thread(target=_follow, args=(Path(file),), name="dope-ended", daemon=True).start()
    return pickle.loads(task)


def _follow(file: Path) -> None:
    """Stop and forget the runs that a file names, until it is gone; or not at all where it cannot be seen."""
    read = 0
    with suppress(OSError):
        while True:
            with file.open("rb") as lines:
                lines.seek(read)
                new = lines.read()
            whole = new[: new.rfind(b"\n") + 1]
            for run in whole.split():
                forget(run.decode())
            read += len(whole)
            time.sleep(SECONDS_BETWEEN_LOOKS)
