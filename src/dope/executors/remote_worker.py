"""What travels to a worker in another process, what it does with it, and what it keeps.

Replies depend on recipe and message alone. The blocks that a worker keeps open are here, in the process that has them,
and only save time: who finds one missing says so, and is sent the recipe.
"""

from __future__ import annotations

import pickle
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import dope
from dope.cancellation import Cancellation, check_cancelled
from dope.errors import DopeError, InputError
from dope.memory import available_bytes, peak_bytes
from dope.protocols import Recipe, Worker

# A worker keeps so many blocks open, while it holds no more than so much of its memory: at 80 % Dask gives no work.
MOST_OPEN_BLOCKS, MOST_MEMORY_HELD = 1024, 0.6
# What a recipe takes to travel, in proportion: Dask's own guess.
BYTES_PER_SECOND = 100e6

# A block's number, its recipe if that is sent, and its message.
Wanted = tuple[int, bytes | None, bytes]
# A block's number, what became of it, its reply or error, and the seconds it took to open it.
Result = tuple[int, Literal["kept", "opened", "missing", "failed"], bytes, float]


@dataclass(frozen=True)
class Task:
    """Some blocks of a run, to be asked where it is read.

    Pickled, it is a call of `work`, so that `pickle.loads` runs it: the scheduler, which unpickles tasks on their way,
    needs no dope, and a worker without it says so in plain words.
    """

    version: str
    run: str
    wanted: tuple[Wanted, ...]

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return work, (self.version, self.run, self.wanted)


def work(version: str, run: str, wanted: Sequence[Wanted]) -> tuple[str, float, list[Result]]:
    """The version here, seconds at work, and the results, up to the first that failed."""
    if version != dope.__version__:
        return dope.__version__, 0.0, []
    begun = time.perf_counter()
    results: list[Result] = []
    with OPEN.at_work(run):
        for k, recipe, message in wanted:
            results.append(_result(run, k, recipe, message))
            if results[-1][1] == "failed":
                break
    return version, time.perf_counter() - begun, results


def _result(run: str, k: int, recipe: bytes | None, message: bytes) -> Result:
    worker, opening = OPEN.take(run, k), 0.0
    if worker is None and recipe is None:
        return k, "missing", b"", 0.0
    begun = time.perf_counter()
    try:
        question = pickle.loads(message)
        how: Recipe | None = pickle.loads(recipe) if worker is None and recipe is not None else None
    except Exception as error:
        return k, "failed", Failure.of(error, unreadable=True), 0.0
    try:
        check_cancelled()
        if how is not None:
            worker = how.open()
            opening = time.perf_counter() - begun + len(recipe or b"") / BYTES_PER_SECOND
        assert worker is not None
        reply = pickled(worker(question), f"the reply of block {k}")
    except Exception as error:  # what failed may be half done, and is not kept
        return k, "failed", Failure.of(error), 0.0
    OPEN.keep(run, k, worker)
    return k, "kept" if how is None else "opened", reply, opening


def forget(run: str) -> None:
    """Stop work for a run that has ended, and close its blocks."""
    OPEN.forget(run)


class _OpenBlocks:
    """Blocks that this process keeps open, by run and number. Who takes one has it alone until it is kept again."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[str, int], Worker] = {}
        self._at_work: set[tuple[str, Cancellation]] = set()
        self._ended: deque[str] = deque(maxlen=1024)
        self._lock = threading.Lock()

    @contextmanager
    def at_work(self, run: str) -> Iterator[None]:
        """Work in here is cancelled when the run is forgotten, or was before it began."""
        cancellation = Cancellation()
        with self._lock:
            self._at_work.add((run, cancellation))
            if run in self._ended:
                cancellation.cancel()
        try:
            with cancellation:
                yield
        finally:
            with self._lock:
                self._at_work.discard((run, cancellation))

    def take(self, run: str, k: int) -> Worker | None:
        with self._lock:
            return self._blocks.pop((run, k), None)

    def keep(self, run: str, k: int, block: Worker) -> None:
        with self._lock:
            if run in self._ended:
                return
            self._blocks[run, k] = block
            if len(self._blocks) > MOST_OPEN_BLOCKS or _memory_is_short():
                # Not the oldest of this run: asked in turn, each would be closed just before it is wanted again.
                others = (key for key in self._blocks if key[0] != run)
                del self._blocks[next(others, (run, k))]

    def forget(self, run: str) -> None:
        with self._lock:
            if run in self._ended:  # it was told before
                return
            self._ended.append(run)
            for key in [key for key in self._blocks if key[0] == run]:
                del self._blocks[key]
            for whose, cancellation in self._at_work:
                if whose == run:
                    cancellation.cancel()

    def __len__(self) -> int:
        return len(self._blocks)


OPEN = _OpenBlocks()


def _memory_is_short() -> bool:
    """Whether this worker holds so much that there may soon be no room for another block."""
    try:
        worker = sys.modules["distributed"].get_worker()  # whose process this is
        limit = worker.memory_manager.memory_limit
        return bool(limit) and worker.monitor.get_process_memory() > MOST_MEMORY_HELD * limit
    except (KeyError, AttributeError, ValueError):  # no worker, or none of Dask's
        return _holds_much(int(2 * time.monotonic()))


@lru_cache(maxsize=1)
def _holds_much(_: int) -> bool:
    """The same of a process without a limit of its own; asked again every half second, as it takes a millisecond."""
    held, left = peak_bytes(), available_bytes()
    return held is not None and left is not None and held > MOST_MEMORY_HELD * (held + left)


def pickled(thing: object, what: str) -> bytes:
    """The bytes of something, also of classes that only this process knows: those of a script or a notebook."""
    content: bytes | None = None
    with suppress(Exception):
        content = pickle.dumps(thing, protocol=5)
        if b"__main__" not in content:
            return content
    try:
        import cloudpickle  # type: ignore[import-untyped]  # comes with Dask

        by_value: bytes = cloudpickle.dumps(thing, protocol=5)
    except ImportError as error:
        if content is not None:  # a process that multiprocessing started knows the classes of a script
            return content
        raise InputError(
            f"{what} ({type(thing).__name__}) cannot be pickled. Install cloudpickle, which may do, or use Threads()."
        ) from error
    except Exception as error:
        raise InputError(
            f"{what} ({type(thing).__name__}) cannot be sent to another process ({text_of(error)}). Let it hold "
            "what can be pickled only, or use Threads()."
        ) from error
    return by_value


@dataclass(frozen=True)
class Failure:
    """An error of a worker on its way back: pickled, where it can be read again, and in words."""

    error: bytes | None
    words: str
    unreadable: bool

    @classmethod
    def of(cls, error: Exception, *, unreadable: bool = False) -> bytes:
        """It as bytes; `unreadable` where the worker could not read what it was sent."""
        try:
            content: bytes | None = pickled(error, "an error")
            pickle.loads(content or b"")
        except Exception:
            content = None
        return pickle.dumps(cls(content, "".join(traceback.format_exception(error)), unreadable))


def raised_there(content: bytes, worker: str, k: int) -> Exception:
    """What a worker's own code raised, with a note where that was."""
    failure: Failure = pickle.loads(content)
    error: Exception | None = None
    if failure.error is not None:
        with suppress(Exception):
            error = pickle.loads(failure.error)
    if failure.unreadable and isinstance(error, (ImportError, AttributeError)):
        return not_readable(worker, error)
    if error is None:
        return DopeError(f"block {k} failed on {worker}, by an error that cannot be sent on:\n{failure.words}")
    error.add_note(f"In block {k}, on the worker {worker}:\n{failure.words}")
    return error


def not_readable(worker: str, error: Exception) -> DopeError:
    """What to say of a worker that lacks something, or has it otherwise."""
    return DopeError(
        f"the worker {worker} cannot read what was sent to it ({type(error).__name__}: {text_of(error)}). "
        f"Install dope {dope.__version__} there, and what else your solver needs, as in this process."
    )


def text_of(error: BaseException) -> str:
    """What an error says, and if it says nothing its kind."""
    return str(error) or type(error).__name__
