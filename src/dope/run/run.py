"""Run: work in the background that can be watched, read from and cancelled at any moment.

A *job* is what a run does: a function of its `Conductor` that gives a Result. It may read the steps of one method, or
of several one after the other (colours that are estimated again): they have one trace, one clock and one cancel.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from dope.arrays import Box, Labels, checked_box
from dope.cancellation import Cancellation, Cancelled
from dope.errors import DopeError
from dope.live import LiveLabels
from dope.plug_ins import check_plug_in
from dope.protocols import Executor, Leave, Method, Problem
from dope.result import Result
from dope.run.events import BlockBegun, BlockDone, Event, Finished, Stepped
from dope.run.observed import ObservedExecutor
from dope.steps import Step, preferred, slim

# Events that a reader who comes late, or is slow, still finds.
MOST_EVENTS = 1 << 16

Watch = Callable[[Step], object]
Listener = Callable[[Event], object]
Job = Callable[["Conductor"], Result]


@dataclass(frozen=True)
class BlockState:
    """What a block is at. `seconds` are those since it began, or that it took."""

    block: int
    where: Box | None
    state: Literal["idle", "waiting", "working", "done"] = "idle"
    doing: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What the steps of a method came to.

    `best` has the labels to return, or is None where the run was cancelled before there were some; `bounded` the best
    lower bound; `last` is the method's last word.
    """

    best: Step | None
    bounded: Step | None
    stopped: str
    last: Step | None = None


@dataclass
class _Board:
    """The blocks of the crew at work, as an observer of its executor sees them."""

    states: list[BlockState] = field(default_factory=list)
    begun: dict[int, float] = field(default_factory=dict)
    asked: int = 0
    done: int = 0


class Run:
    """A job under way.

    Iterate over it for events: `BlockBegun`, `BlockDone`, `Stepped` for every round, and `Finished` at the end. All
    methods may be called from any thread. `watch` is called with every Step, and ends the run where it returns True;
    `tell` with every event as it happens, by the thread in which it does, one at a time.

    Examples
    --------
    >>> import dope
    >>> run = dope.start(dope.Energy.grid(np.array([[-3.0, 1.0], [1.0, 2.0]]), lam=0.5))
    >>> [event.step.stopped for event in run if isinstance(event, dope.Stepped)]
    ['exact']
    >>> run.result().energy
    -1.5
    """

    def __init__(self, job: Job, *, watch: Watch | None = None, tell: Listener | None = None) -> None:
        check_plug_in("watch", watch, "__call__", such_as="a function of a Step")
        check_plug_in("tell", tell, "__call__", such_as="a function of an event")
        self._job, self._watch, self._listener = job, watch, tell
        self._cancellation = Cancellation()
        # Entered as the lock itself, never as the condition: a Ctrl-C inside `Condition.__enter__` or `__exit__`, which
        # are Python, would leave it locked, and blocks in other threads could never tell that they began.
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._told = 0  # events ever
        self._board = _Board()
        self._live = LiveLabels()
        self._shape: tuple[int, ...] = ()
        self._where: Box | None = None
        self._numbers: Labels | None = None  # of labels that are told by their places among these
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._begun = time.perf_counter()

    def __repr__(self) -> str:
        if self._error is not None:
            return f"Run(ended with {type(self._error).__name__})"
        if self._result is not None:
            return f"Run(done in {self._result.seconds:.3g} s: {self._result.stopped})"
        return f"Run(at work for {self.seconds:.3g} s)"

    def start(self) -> Run:
        """Begin, in a thread of its own."""
        self._begun = time.perf_counter()
        self._thread = threading.Thread(target=self._work_in_background, name="dope-run", daemon=True)
        self._thread.start()
        return self

    def work(self) -> Result:
        """Do it here and now, in the calling thread."""
        self._begun = time.perf_counter()
        try:
            with _no_interrupt_lost(self._cancellation):
                result = self._job(Conductor(self))
        except BaseException as error:
            self._end(error=error)
            raise
        self._end(result)
        return result

    def cancel(self) -> None:
        """End it, within a tenth of a second: with the best labels so far and what is known about them."""
        self._cancellation.cancel()

    @property
    def cancelled(self) -> bool:
        return self._cancellation.cancelled

    @property
    def done(self) -> bool:
        """Whether it is over."""
        return self._over.is_set()

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.perf_counter() - self._begun

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the end; what came of it, or the error that it ended with. TimeoutError after so many seconds."""
        if not self._over.wait(timeout):
            raise TimeoutError(f"the run has not ended within {timeout} s; wait longer, or cancel it.")
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def labels(self, box: Box | None = None) -> Labels:
        """A copy of the labels as they are now, of everything or of a box: a tuple with a slice per axis.

        Before a block was solved for the first time, they are what its unaries alone would choose, or 0.
        """
        if self._result is not None:
            found = self._result.labels
            return np.array(found if box is None else found[checked_box(box, found.shape)])
        live, where, numbers = self._live, self._where, self._numbers
        if not live.shown:
            raise DopeError("there are no labels yet: the arrays are still being read. Ask again in a moment.")
        box = None if box is None else checked_box(box, self._shape)
        if where is None:
            return live.read(box)
        part = live.read()
        if numbers is not None:
            part = numbers[part]
        whole = np.zeros(self._shape, dtype=part.dtype)
        whole[where] = part
        return whole if box is None else whole[box]

    def block_states(self) -> tuple[BlockState, ...]:
        """What every block is at."""
        with self._lock:
            now, board = time.perf_counter(), self._board
            return tuple(
                replace(one, seconds=now - board.begun[one.block]) if one.state == "working" else one
                for one in board.states
            )

    def __iter__(self) -> Iterator[Event]:
        """Events as they come, from the beginning, until it is over; an error that it ended with is raised then."""
        read = 0
        while True:
            with self._lock:
                self._news.wait_for(lambda read=read: self._told > read or self._over.is_set())  # type: ignore[misc]
                fresh = self._told - read
                news = list(self._events)[-fresh:] if fresh else []
                read = self._told
                over = self._over.is_set()
            yield from news
            if over and read == self._told:
                if self._error is not None:
                    raise self._error
                return

    def _work_in_background(self) -> None:
        try:
            self._end(self._job(Conductor(self)))
        except BaseException as error:  # told to whoever asks for the result
            self._end(error=error)

    def _end(self, result: Result | None = None, *, error: BaseException | None = None) -> None:
        self._result, self._error = result, error
        if result is not None:
            self._tell(Finished(result, self.seconds))
        with self._lock:
            self._live, self._board = LiveLabels(), _Board(self._board.states)
            self._over.set()
            self._news.notify_all()

    def _tell(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)
            self._told += 1
            self._news.notify_all()
            if self._listener is not None:
                self._listener(event)


class Conductor:
    """A run as its job sees it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.trace: list[Step] = []
        self._left = False

    @property
    def cancelled(self) -> bool:
        """Whether somebody wants it to end: no further method is to begin."""
        return self._left or self._run.cancelled

    @property
    def cancellation(self) -> Cancellation:
        """To be entered by whoever works for long outside a method's steps."""
        return self._run._cancellation

    @property
    def seconds(self) -> float:
        return self._run.seconds

    def observed(self, executor: Executor) -> Executor:
        """The executor, each block of which the run sees begin and end."""
        return ObservedExecutor(executor, _Observer(self._run))

    def place(self, shape: Sequence[int], where: Box, numbers: Labels | None = None) -> None:
        """Labels from now on are those of a box in something larger, or the places of what they mean in `numbers`."""
        self._run._shape, self._run._where, self._run._numbers = tuple(shape), where, numbers

    def conduct(self, method: Method, problem: Problem, *, estimate: int = 0) -> Outcome:
        """Read the steps of a method to their end, or until somebody wants no more."""
        if self._run._where is None:
            self._run._shape = problem.energy.shape
        self._run._live = problem.live
        best: Step | None = None
        bounded: Step | None = None
        last: Step | None = None
        stopped = "no round"
        try:
            with self.cancellation:
                for step in self._steps(method.steps(problem), estimate):
                    if step.labels is not None and (best is None or preferred(step, best)):
                        best = step
                    if step.lower_bound is not None and (bounded is None or step.lower_bound >= _bound(bounded)):
                        bounded = step
                    stopped, last = step.stopped or "ended", step
        except Cancelled:
            if not self._run.cancelled:
                raise
            stopped = "cancelled"
        return Outcome(best, bounded, stopped, last)

    def _steps(self, steps: Generator[Step, None, None], estimate: int) -> Iterator[Step]:
        """The steps, shown one by one; when somebody wants to leave, one more that says so."""
        if not isinstance(steps, Generator):
            raise DopeError(f"the steps of a method are a {type(steps).__name__}; expected a generator of Steps.")
        with closing(steps):
            for found in steps:
                step = self._stamped(_checked_step(found), estimate)
                if step.labels is not None:
                    step.labels.flags.writeable = False  # a watcher may look, and keep them, but not change them
                if step.stopped != "cancelled":
                    self._show(step)
                yield step
                if self._wants_to_leave(step) and step.stopped is None:
                    self._left = True
                    try:
                        yield self._stamped(steps.throw(Leave()), estimate)
                    except (Leave, StopIteration):
                        yield replace(step, stopped="cancelled")
                    return

    def _stamped(self, step: Step, estimate: int) -> Step:
        """By the one clock of the run."""
        return replace(step, seconds=self._run.seconds, estimate=estimate)

    def _show(self, step: Step) -> None:
        short = slim(step)
        self.trace.append(short)
        self._run._tell(Stepped(short))

    def _wants_to_leave(self, step: Step) -> bool:
        watch = self._run._watch
        return watch is not None and _is_true(watch(step))


class _Observer:
    """Tells the run what an executor's blocks are at."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def gathered(self, places: Sequence[Any]) -> None:
        with self._run._lock:
            states = [BlockState(k, where if isinstance(where, tuple) else None) for k, where in enumerate(places)]
            self._run._board = _Board(states)

    def asked(self, doing: dict[int, str]) -> None:
        with self._run._lock:
            board = self._run._board
            board.asked, board.done = len(doing), 0
            # Not `replace`: this is done for every block in every round.
            board.states = [
                BlockState(k, one.where, "waiting", doing[k])
                if k in doing
                else BlockState(k, one.where, "idle", one.doing, one.seconds)
                for k, one in enumerate(board.states)
            ]

    def begun(self, block: int) -> None:
        run, now = self._run, time.perf_counter()
        with run._lock:
            one = replace(run._board.states[block], state="working")
            run._board.states[block] = one
            run._board.begun[block] = now
            run._tell(BlockBegun(block, one.where, one.doing, now - run._begun))

    def done(self, block: int) -> None:
        run, now = self._run, time.perf_counter()
        with run._lock:
            board = run._board
            board.done += 1
            lasted = now - board.begun.get(block, now)
            one = replace(board.states[block], state="done", seconds=lasted)
            board.states[block] = one
            run._tell(BlockDone(block, one.where, one.doing, board.done, board.asked, now - run._begun))


@contextmanager
def _no_interrupt_lost(cancellation: Cancellation) -> Iterator[None]:
    """In here Ctrl-C is raised, if a moment later, also where Python only writes that it was ignored.

    That is so in finalizers and callbacks of weak references, such as those of threads and of blocks that are closed.
    They run just after the memory of arrays was freed, which takes long enough for a Ctrl-C to come meanwhile.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # no other thread is interrupted
        return
    before, lost = sys.unraisablehook, list[KeyboardInterrupt]()

    def hook(unraisable: Any) -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            lost.append(unraisable.exc_value)
            cancellation.cancel()
        else:
            before(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
        if lost:
            raise KeyboardInterrupt


def _checked_step(step: Step) -> Step:
    """What a method yielded, if it is what it must be."""
    if not isinstance(step, Step):
        raise DopeError(f"a method yielded {step!r:.80}; expected a Step for every round.")
    if step.labels is not None and not isinstance(step.labels, np.ndarray):
        raise DopeError(f"a method yielded a Step with labels in a {type(step.labels).__name__}; expected an array.")
    return step


def _bound(step: Step) -> float:
    assert step.lower_bound is not None
    return step.lower_bound


def _is_true(answer: object) -> bool:
    """True itself: a watcher that happens to return something else does not mean to cancel."""
    return isinstance(answer, bool | np.bool_) and bool(answer)
