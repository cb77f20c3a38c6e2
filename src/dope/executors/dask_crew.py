"""A crew on a Dask cluster: which worker is asked for which block, and what is done when it does not answer.

The crew pins each task to a worker: so a block goes where it is open, nobody is given more than he can begin, and
whoever comes late gets his part. A pinned task whose worker died waits for ever, and so does a result that died with
its worker (https://github.com/dask/distributed/issues/7346); the crew therefore looks twice a second who is there, and
sends what was lost again, under a new name. No wait is without a limit.
"""

from __future__ import annotations

import itertools
import math
import pickle
import queue
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import dope
from dope.cancellation import Cancelled, check_cancelled, waking
from dope.errors import DopeError
from dope.executors.dask_worker import Task, Wanted, not_readable, pickled, raised_there
from dope.protocols import Recipe

if TYPE_CHECKING:
    from dope.executors.dask import Link

# A recipe of fewer bytes travels with every task: to ask first whether it is wanted takes longer.
SMALL_RECIPE = 64 * 1024
# Dask needs 4 ms per task (local:2, distributed 2026.8): with more blocks than this per thread, tasks hold several.
TASKS_PER_THREAD = 8
# A task that holds so many bytes already takes no further block, for it passes through the memory of the scheduler; and
# with so many under way to a worker, no task is sent there to wait.
MOST_BYTES, MOST_BYTES_AHEAD = 64_000_000, 1_000_000
# A task takes 15 ms to its worker and back, so short ones are sent so many at a time. Of longer ones none waits at its
# worker: whoever is free first takes the next.
SHORT_SECONDS, SHORT_TASKS_AHEAD = 0.05, 8
# How often a block may be lost before the fault is taken to be its own.
MOST_LOSSES = 10
# Patience where none was asked for: a worker that is silent for so long, and for so many times the slowest task.
PATIENCE_SECONDS, PATIENCE_TASKS = 300.0, 10.0
# A worker that lives but does not answer may take so many times the patience.
MOST_PATIENCE = 10.0
# A living worker's heart beats every 0.5 s, among a thousand workers every 6 s: if not for so long, it hangs.
HEARTBEAT_SECONDS = 15.0
SECONDS_BETWEEN_LOOKS = 0.5
# For workers to be told that a crew has left them. Who does not hear it forgets in his own time.
GOODBYE_SECONDS = 2.0
# The same where somebody cancelled, and waits for it: as a rule workers hear it in a few milliseconds.
CANCEL_SECONDS = 0.05
# How long the main thread waits before it looks up: on Windows nothing else lets Ctrl-C through.
SECONDS_BETWEEN_GLANCES = 0.05


@dataclass
class Statistics:
    """What a crew has cost so far.

    Attributes
    ----------
    tasks : how many were sent.
    bytes_sent, bytes_received : recipes and messages, and replies, as pickled.
    cache_hits, opened : blocks that were found open where they were asked, and that had to be opened.
    resubmitted : blocks sent again because a worker, or the scheduler, was lost or silent for too long.
    seconds_by_worker : at work, by the worker's address.
    """

    tasks: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    cache_hits: int = 0
    opened: int = 0
    resubmitted: int = 0
    seconds_by_worker: dict[str, float] = field(default_factory=dict)


class DaskCrew:
    """Workers opened wherever there is room for them, and again elsewhere where that was lost."""

    def __init__(self, link: Link, recipes: Sequence[Recipe], patience: float | None) -> None:
        self.statistics = Statistics()
        self._link, self._recipes, self._given_patience = link, recipes, patience
        self._run = _new_run()
        self._small: dict[int, bytes] = {}  # recipes, pickled
        self._owner: dict[int, str] = {}  # who answered last for a block, and so has it open
        self._attempts: set[_Attempt] = set()
        self._load: Counter[str] = Counter()  # attempts by worker
        self._bytes: Counter[str] = Counter()  # and what they hold
        self._answered: dict[str, float] = {}  # when a worker did last
        self._slowest = 0.0  # seconds of a task
        self._pace: dict[type, float] = {}  # seconds of a block, by the type of its message
        self._opening = 0.0  # seconds it takes to open a block somewhere, as a rule
        self._arrivals: queue.SimpleQueue[tuple[_Attempt, Any] | None] = queue.SimpleQueue()
        self._lookout = _Lookout(self._wake)
        self._numbers = itertools.count()
        self._lost_since: float | None = None  # when the scheduler went
        self._hope = 0.0  # when there was last somebody who could answer

    def ask(
        self,
        messages: Sequence[Any],
        *,
        begun: Callable[[int], object] | None = None,
        done: Callable[[int, Any], object] | None = None,
    ) -> list[Any]:
        """As every crew; `begun(k)` is called once, when a task with block k is handed to a worker for the first time.

        The worker has begun by then, or begins when it has done the few short tasks that it was handed before.
        """
        self._hope = time.monotonic()
        asked = _Ask(messages, self._owner, self._pace, begun)
        try:
            self._link.open()
            with waking(self._wake):
                while asked.open:
                    check_cancelled()
                    if self._connected(asked):
                        self._look_after(asked)
                        self._hand_out(asked)
                    for attempt, answer in self._arrived():
                        for k in self._taken_in(asked, attempt, answer):
                            if done is not None:
                                done(k, asked.replies[k])
                        self._hope = time.monotonic()  # however long that took
            return asked.replies
        except Cancelled:
            self._abandon(seconds=CANCEL_SECONDS)
            raise
        except BaseException:  # also Ctrl-C
            self._abandon()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._abandon()

    def _abandon(self, *, seconds: float = GOODBYE_SECONDS) -> None:
        """Cancel what is under way, and have the workers stop and forget this run; wait so long for them to hear it."""
        known = self._load.keys() - {attempt.worker for attempt in self._attempts if attempt.overdue}
        for attempt in list(self._attempts):
            self._close(attempt)
        if known:
            self._link.say_goodbye(self._run, known, seconds)
        self._run = _new_run()  # workers keep nothing more of the old one
        self._owner.clear()
        self._load.clear()
        self._bytes.clear()

    def _wake(self) -> None:
        self._arrivals.put(None)

    @property
    def _patience(self) -> float:
        return self._given_patience or max(PATIENCE_SECONDS, PATIENCE_TASKS * self._slowest)

    # Who is there.

    def _connected(self, asked: _Ask) -> bool:
        """Whether the scheduler is there. Where it was lost, all that was with it is to be sent again."""
        if self._link.connected:
            self._lost_since = None
            return True
        now = time.monotonic()
        if self._lost_since is None:
            self._lost_since = now
            self._lookout = _Lookout(self._wake)
            for attempt in list(self._attempts):
                self._lose(asked, attempt)
        if now - self._lost_since > self._patience:
            raise DopeError(
                f"the connection to the Dask scheduler at {self._link.address} was lost, and it has not come back for "
                f"{self._patience:.0f} s. Start it again at the same address; a larger `patience` waits longer."
            )
        self._link.reconnect()
        self._hope = now
        return False

    def _look_after(self, asked: _Ask) -> None:
        """Find out what will not be answered, and give up where nothing will."""
        now, patience = time.monotonic(), self._patience
        self._lookout.update(self._link, now)
        if now - self._lookout.silent_since > patience:
            raise DopeError(
                f"the Dask scheduler at {self._link.address} has not answered for {patience:.0f} s. "
                "Restart it; a larger `patience` waits longer."
            )
        for attempt in list(self._attempts):
            if self._lookout.gone(attempt.worker):
                self._lose(asked, attempt)
            elif not attempt.overdue and now - self._begun(attempt) > patience:
                attempt.overdue = True
                self._send_again(asked, attempt.blocks_of(asked))
        in_time = any(not attempt.overdue for attempt in self._attempts)
        if in_time or self._trusted() or self._alive_though_late(asked, now):
            self._hope = now
        elif now - self._hope > patience:
            raise DopeError(
                f"no worker of the Dask scheduler at {self._link.address} has been fit for work for {patience:.0f} s "
                f"(there: {self._lookout.summary()}). Start workers: dask worker {self._link.address}"
            )

    def _begun(self, attempt: _Attempt) -> float:
        """When the worker could begin: what it answered since then came before."""
        return max(attempt.sent, self._answered.get(attempt.worker, 0.0))

    def _alive_though_late(self, asked: _Ask, now: float) -> bool:
        """Whether a worker that is late lives, and may be waited for a while longer."""
        late = [attempt for attempt in self._attempts if attempt.blocks_of(asked)]
        for attempt in late:
            if now - attempt.sent > MOST_PATIENCE * self._patience:
                raise DopeError(
                    f"block {attempt.blocks_of(asked)[0]} has not been answered for {now - attempt.sent:.0f} s, by "
                    f"{attempt.worker} nor anybody else. Take smaller blocks, or a larger `patience`."
                )
        return any(self._lookout.alive(attempt.worker, since=now - HEARTBEAT_SECONDS) for attempt in late)

    def _trusted(self) -> dict[str, int]:
        """Threads by worker, of those that are not known to hang."""
        hanging = {attempt.worker for attempt in self._attempts if attempt.overdue}
        return {worker: threads for worker, threads in self._lookout.threads.items() if worker not in hanging}

    # What is sent.

    def _hand_out(self, asked: _Ask) -> None:
        """Give every free thread a block that it has open, or else one that nobody has; of short tasks a few more."""
        trusted = self._trusted()
        if not trusted or not asked.waiting:
            return
        size = math.ceil(len(asked.asked) / (TASKS_PER_THREAD * sum(trusted.values())))
        ahead = SHORT_TASKS_AHEAD if asked.is_short(size) else 1
        self._fill(asked, trusted, 1, lambda worker: asked.own(worker, size))
        self._fill(asked, trusted, ahead, lambda worker: asked.own(worker, size) or asked.stray(trusted, size))
        self._fill(asked, trusted, 1, lambda _: asked.others(size, self._opening))

    def _fill(self, asked: _Ask, trusted: Mapping[str, int], most: int, take: Callable[[str], list[int]]) -> None:
        """Send what can be taken, up to so many tasks per thread; nobody has a second one before all have a first."""
        for each, (worker, threads) in itertools.product(range(1, most + 1), trusted.items()):
            while self._load[worker] < each * threads and (each == 1 or self._bytes[worker] < MOST_BYTES_AHEAD):
                if not (blocks := take(worker)):
                    break
                self._send(asked, worker, blocks)

    def _send(self, asked: _Ask, worker: str, blocks: Sequence[int]) -> None:
        wanted, size = self._wanted(asked, worker, blocks)
        attempt = _Attempt(asked, worker, tuple(k for k, *_ in wanted), size, time.monotonic())
        kind = type(self._recipes[blocks[0]]).__name__.lstrip("_")
        attempt.future = self._link.submit(
            pickle.dumps(Task(dope.__version__, self._run, wanted), protocol=5),
            name=f"dope-{kind}-{blocks[0]}-{self._run}-{next(self._numbers)}",
            worker=worker,
            deliver=lambda answer: self._arrivals.put((attempt, answer)),
        )
        if attempt.future is None:  # the connection was lost just now
            asked.put(blocks, self._owner)
            return
        asked.put(blocks[len(wanted) :], self._owner)
        self._attempts.add(attempt)
        self._load[worker] += 1
        self._bytes[worker] += size
        asked.begin(attempt.blocks)
        self.statistics.tasks += 1
        self.statistics.bytes_sent += size

    def _wanted(self, asked: _Ask, worker: str, blocks: Sequence[int]) -> tuple[tuple[Wanted, ...], int]:
        """What a task holds, of the first of these blocks or of them all, and its size in bytes."""
        wanted: list[Wanted] = []
        size = 0
        for k in blocks:
            recipe, message = self._recipe_for(k, worker), asked.pickled(k)
            wanted.append((k, recipe, message))
            size += len(recipe or b"") + len(message)
            if size > MOST_BYTES:
                break
        return tuple(wanted), size

    def _recipe_for(self, k: int, worker: str) -> bytes | None:
        """The recipe, if it has to travel."""
        if k in self._small:
            return self._small[k]
        if self._owner.get(k) == worker:
            return None
        recipe = pickled(self._recipes[k], f"block {k}")
        if len(recipe) < SMALL_RECIPE:
            self._small[k] = recipe
        return recipe

    # What comes back.

    def _arrived(self) -> Iterator[tuple[_Attempt, Any]]:
        """What has arrived, after a short wait if there is nothing."""
        with suppress(queue.Empty):
            arrival = self._arrivals.get(timeout=SECONDS_BETWEEN_GLANCES)
            while True:
                if arrival is not None and arrival[0] in self._attempts:
                    yield arrival
                arrival = self._arrivals.get_nowait()

    def _taken_in(self, asked: _Ask, attempt: _Attempt, answer: Any) -> Iterator[int]:
        """Note the replies, and tell for which blocks they are the first."""
        if isinstance(answer, Exception):
            if isinstance(answer, (ImportError, AttributeError)) and attempt.future.status == "error":
                raise not_readable(attempt.worker, answer) from answer
            self._lose(asked, attempt, answer)
            return
        self._close(attempt)
        version, seconds, results = answer
        if version != dope.__version__:
            raise DopeError(
                f"the Dask worker {attempt.worker} has dope {version}, and this process has dope {dope.__version__}; "
                "install the same version on every worker."
            )
        self._note_time(attempt, seconds, len(results))
        for k, outcome, content, opening in results:
            self.statistics.bytes_received += len(content)
            wanted = k in attempt.blocks_of(asked)
            if outcome == "missing":
                self._owner.pop(k, None)
            elif outcome == "failed":
                if wanted:
                    raise raised_there(content, attempt.worker, k)
            else:
                self._note_place(k, attempt.worker, outcome, opening)
                if wanted:
                    asked.reply(k, pickle.loads(content))
                    yield k
        asked.put(self._not_under_way(asked, attempt.blocks_of(asked)), self._owner)

    def _note_time(self, attempt: _Attempt, seconds: float, answers: int) -> None:
        now = time.monotonic()
        if answers:
            attempt.asked.note_pace(seconds / answers)
        self._slowest = max(self._slowest, now - self._begun(attempt))
        self._answered[attempt.worker] = now
        by_worker = self.statistics.seconds_by_worker
        by_worker[attempt.worker] = by_worker.get(attempt.worker, 0.0) + seconds

    def _note_place(self, k: int, worker: str, outcome: str, opening: float) -> None:
        self._owner[k] = worker
        if outcome == "opened":
            self.statistics.opened += 1
            self._opening = (self._opening + opening) / 2
        else:
            self.statistics.cache_hits += 1

    # What was lost.

    def _lose(self, asked: _Ask, attempt: _Attempt, why: Exception | None = None) -> None:
        self._close(attempt)
        if not attempt.overdue:  # else it was sent again already
            self._send_again(asked, attempt.blocks_of(asked), why)

    def _send_again(self, asked: _Ask, blocks: Sequence[int], why: Exception | None = None) -> None:
        again = self._not_under_way(asked, blocks)
        for k in again:
            asked.losses[k] += 1
            if asked.losses[k] >= MOST_LOSSES:
                raise DopeError(
                    f"block {k} was lost {MOST_LOSSES} times: workers died while they were at work on it, most likely "
                    "for lack of memory, or did not answer. Take smaller blocks, give workers more memory, and see "
                    "what they have written to their logs."
                ) from why
        self.statistics.resubmitted += len(again)
        asked.put(again, self._owner)

    def _not_under_way(self, asked: _Ask, blocks: Sequence[int]) -> list[int]:
        """Those of the blocks that are open, and that nobody but who is late is at work on."""
        busy = {k for attempt in self._attempts if not attempt.overdue for k in attempt.blocks_of(asked)}
        return [k for k in blocks if k in asked.open and k not in busy and k not in asked.waiting]

    def _close(self, attempt: _Attempt) -> None:
        self._attempts.discard(attempt)
        self._load[attempt.worker] -= 1
        self._bytes[attempt.worker] -= attempt.bytes
        with suppress(Exception):  # the client may be gone
            attempt.future.release()


def _new_run() -> str:
    return uuid.uuid4().hex[:12]


@dataclass(eq=False)
class _Attempt:
    """A task that was sent; `overdue` when it was sent elsewhere too: its worker is not trusted until it answers."""

    asked: _Ask
    worker: str
    blocks: tuple[int, ...]
    bytes: int
    sent: float
    future: Any = None
    overdue: bool = False

    def blocks_of(self, asked: _Ask) -> list[int]:
        """Which blocks of this ask are still waited for; none, where the attempt is of an earlier one."""
        return [k for k in self.blocks if k in asked.open] if asked is self.asked else []


class _Ask:
    """What is still open of one ask, and who should be given it."""

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
        self._lines: dict[str | None, deque[int]] = {}  # who waits, by the worker that has them open
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

    def is_short(self, size: int) -> bool:
        """Whether tasks of so many blocks are over soon, as far as is known."""
        return size * self._pace.get(self._kind, math.inf) < SHORT_SECONDS

    def put(self, blocks: Sequence[int], owner: Mapping[int, str]) -> None:
        """In line, with the worker that has them open."""
        for k in blocks:
            self._lines.setdefault(owner.get(k), deque()).append(k)
            self.waiting.add(k)

    def own(self, worker: str, size: int) -> list[int]:
        """Up to so many blocks that a worker has open."""
        return self._taken(worker, size)

    def stray(self, trusted: Mapping[str, int], size: int) -> list[int]:
        """Up to so many blocks that nobody who is there has open."""
        owners = [owner for owner in self._lines if owner not in trusted]
        return next((taken for owner in owners if (taken := self._taken(owner, size))), [])

    def others(self, size: int, opening: float) -> list[int]:
        """Blocks out of the longest line, if to wait there may take longer than to open one elsewhere."""
        if not self._lines:
            return []
        owner, line = max(self._lines.items(), key=lambda item: len(item[1]))
        each = self._pace.get(self._kind, time.monotonic() - self._since)
        return self._taken(owner, size) if len(line) * each >= opening else []

    def _taken(self, owner: str | None, size: int) -> list[int]:
        """Some of a line; what was answered meanwhile, by somebody late, is passed over."""
        line, taken = self._lines.get(owner, deque()), list[int]()
        while line and len(taken) < size:
            if (k := line.popleft()) in self.waiting:
                self.waiting.discard(k)
                taken.append(k)
        if not line:
            self._lines.pop(owner, None)
        return taken


class _Lookout:
    """Who is there, as the scheduler says; asked now and again, and never waited for."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self.threads: dict[str, int] = {}  # of workers that take work
        self.silent_since = math.inf  # when the scheduler was asked what it has not answered
        self._wake = wake
        self._statuses: dict[str, str] = {}
        self._beats: dict[str, tuple[float, float]] = {}  # a worker's last heartbeat there, and when it was news here
        self._look: futures.Future[dict[str, Any]] | None = None
        self._looked = -math.inf

    def update(self, link: Link, now: float) -> None:
        if self._look is not None and self._look.done():
            with suppress(Exception):  # a scheduler that is lost is somebody else's matter
                self._note(self._look.result(), now)
            self._look = None
        if self._look is None and now - self._looked >= SECONDS_BETWEEN_LOOKS:
            self._looked = now
            self.silent_since = min(self.silent_since, now)
            self._look = link.look()
            self._look.add_done_callback(lambda _: self._wake())

    def _note(self, workers: dict[str, Any], now: float) -> None:
        self.silent_since = math.inf
        self._statuses = {worker: known["status"] for worker, known in workers.items()}
        # A worker that others have outlived by so much gets no work, until its heart beats again.
        beating = max((known["last_seen"] for known in workers.values()), default=0.0) - HEARTBEAT_SECONDS
        self.threads = {
            worker: known["nthreads"]
            for worker, known in workers.items()
            if known["status"] == "running" and known["last_seen"] >= beating
        }
        before, self._beats = self._beats, {}
        for worker, known in workers.items():
            beat = known["last_seen"]
            same = worker in before and before[worker][0] == beat
            self._beats[worker] = before[worker] if same else (beat, now)

    def gone(self, worker: str) -> bool:
        """Whether a worker that was there is so no more."""
        return worker not in self._statuses

    def alive(self, worker: str, *, since: float) -> bool:
        """Whether the worker's heart has beaten since then."""
        return worker in self._beats and self._beats[worker][1] >= since

    def summary(self) -> str:
        return ", ".join(f"{number} {status}" for status, number in Counter(self._statuses.values()).items()) or "none"
