"""A crew on other machines: which worker is asked for which block, and what is done when it does not answer.

The crew says to which worker a task goes: so a block goes where it is open, nobody is given more than he can begin, and
whoever comes late gets his part. What was sent to a worker that died may never be answered; the crew therefore looks
twice a second who is there, and sends what was lost again, under a new name. How tasks get there is the transport's
matter (`transport`), how long to wait that of `deadlines`.
"""

from __future__ import annotations

import itertools
import math
import pickle
import queue
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import dope
from dope.cancellation import SECONDS_BETWEEN_LOOKS, Cancelled, check_cancelled, waking
from dope.errors import DopeError
from dope.executors.attempts import Attempt, Attempts
from dope.executors.deadlines import Deadlines
from dope.executors.heartbeat import Heartbeat
from dope.executors.remote_worker import Task, Wanted, not_readable, pickled, raised_there
from dope.executors.round import Round
from dope.executors.transport import Transport, Unreadable
from dope.protocols import Recipe

# A recipe of fewer bytes travels with every task: to ask first whether it is wanted takes longer.
SMALL_RECIPE = 64 * 1024
# Dask needs 4 ms per task (local:2, distributed 2026.8): with more blocks than this per thread, tasks hold several.
TASKS_PER_THREAD = 8
# A task that holds so many bytes already takes no further block, for it passes through the memory of the scheduler; and
# with so many under way to a worker, no task is sent there to wait.
MOST_BYTES, MOST_BYTES_AHEAD = 64_000_000, 1_000_000
# How often a block may be lost before the fault is taken to be its own.
MOST_LOSSES = 10
# For workers to be told that a crew has left them. Who does not hear it forgets in his own time.
RELEASE_SECONDS = 2.0
# The same where somebody cancelled, and waits for it: as a rule workers hear it in a few milliseconds.
CANCEL_SECONDS = 0.05


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


class RemoteCrew:
    """Workers opened wherever there is room for them, and again elsewhere where that was lost."""

    def __init__(self, transport: Transport, recipes: Sequence[Recipe], patience: float | None) -> None:
        self.statistics = Statistics()
        self._transport, self._recipes = transport, recipes
        self._deadlines = Deadlines(transport, patience)
        self._run = _new_run()
        self._small: dict[int, bytes] = {}  # recipes, pickled
        self._owner: dict[int, str] = {}  # who answered last for a block, and so has it open
        self._attempts = Attempts()
        self._answered: dict[str, float] = {}  # when a worker did last
        self._pace: dict[type, float] = {}  # seconds of a block, by the type of its message
        self._opening = 0.0  # seconds it takes to open a block somewhere, as a rule
        self._arrivals: queue.SimpleQueue[tuple[Attempt, Any] | None] = queue.SimpleQueue()
        self._heartbeat = Heartbeat(transport, self._wake)
        self._numbers = itertools.count()

    def ask(
        self,
        messages: Sequence[Any],
        *,
        begun: Callable[[int], object] | None = None,
        done: Callable[[int, Any], object] | None = None,
    ) -> list[Any]:
        """As every crew; `begun(k)` is called once, when a task with block k is handed to a worker for the first time.

        The worker has begun by then, or begins when it has done the few short tasks that it was handed before. Where
        this is cancelled, workers are told to stop, and are not waited for: the core's work there, and what calls
        `check_cancelled`, ends soon after, other work in its own time.
        """
        self._deadlines.extend()
        round_ = Round(messages, self._owner, self._pace, begun)
        try:
            self._transport.open()
            with waking(self._wake):
                while round_.open:
                    check_cancelled()
                    if self._connected(round_):
                        self._look_after(round_)
                        self._hand_out(round_)
                    for attempt, answer in self._arrived():
                        for k in self._taken_in(round_, attempt, answer):
                            if done is not None:
                                done(k, round_.replies[k])
                        self._deadlines.extend()  # however long that took
            return round_.replies
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

    def _abandon(self, *, seconds: float = RELEASE_SECONDS) -> None:
        """Give up what is under way, and have the workers stop and forget this run; wait so long until they have."""
        known = self._attempts.workers - self._attempts.hanging
        for attempt in self._attempts:
            self._close(attempt)
        if known:
            with suppress(Exception):  # also where they have not heard of it in time
                self._transport.release(self._run, known).result(seconds)
        self._run = _new_run()  # workers keep nothing more of the old one
        self._owner.clear()
        self._attempts = Attempts()

    def _wake(self) -> None:
        self._arrivals.put(None)

    # Who is there.

    def _connected(self, round_: Round) -> bool:
        """Whether the cluster is there. Where it was lost, all that was with it is to be sent again."""
        if self._transport.connected:
            self._deadlines.note_connected()
            return True
        if self._deadlines.check_connection(time.monotonic()):
            self._heartbeat = Heartbeat(self._transport, self._wake)
            for attempt in self._attempts:
                self._lose(round_, attempt)
        self._transport.reconnect()
        self._deadlines.extend()
        return False

    def _look_after(self, round_: Round) -> None:
        """Find out what will not be answered, and give up where nothing will."""
        now = time.monotonic()
        self._heartbeat.update(now)
        self._deadlines.check_cluster(self._heartbeat, now)
        for attempt in self._attempts:
            if self._heartbeat.gone(attempt.worker):
                self._lose(round_, attempt)
            elif not attempt.overdue and now - self._begun(attempt) > self._deadlines.patience:
                attempt.overdue = True
                self._send_again(round_, attempt.blocks_of(round_))
        in_time = any(not attempt.overdue for attempt in self._attempts)
        if in_time or self._trusted() or self._alive_though_late(round_, now):
            self._deadlines.extend()
        else:
            self._deadlines.check_workers(self._heartbeat, now)

    def _begun(self, attempt: Attempt) -> float:
        """When the worker could begin: what it answered since then came before."""
        return max(attempt.sent, self._answered.get(attempt.worker, 0.0))

    def _alive_though_late(self, round_: Round, now: float) -> bool:
        """Whether a worker that is late lives, and may be waited for a while longer."""
        late = [attempt for attempt in self._attempts if attempt.blocks_of(round_)]
        for attempt in late:
            self._deadlines.check_block(attempt.blocks_of(round_)[0], attempt.worker, now - attempt.sent)
        return any(self._heartbeat.alive(attempt.worker, now) for attempt in late)

    def _trusted(self) -> dict[str, int]:
        """Threads by worker, of those that are not known to hang."""
        hanging = self._attempts.hanging
        return {worker: threads for worker, threads in self._heartbeat.threads.items() if worker not in hanging}

    # What is sent.

    def _hand_out(self, round_: Round) -> None:
        """Give every free thread a block that it has open, or else one that nobody has; of short tasks a few more."""
        trusted = self._trusted()
        if not trusted or not round_.waiting:
            return
        size = math.ceil(len(round_.asked) / (TASKS_PER_THREAD * sum(trusted.values())))
        ahead = round_.tasks_ahead(size)
        self._fill(round_, trusted, 1, lambda worker: round_.owned(worker, size))
        self._fill(
            round_, trusted, ahead, lambda worker: round_.owned(worker, size) or round_.unassigned(trusted, size)
        )
        self._fill(round_, trusted, 1, lambda _: round_.others(size, self._opening))

    def _fill(self, round_: Round, trusted: Mapping[str, int], most: int, take: Callable[[str], list[int]]) -> None:
        """Send what can be taken, up to so many tasks per thread; nobody has a second one before all have a first."""
        for each, (worker, threads) in itertools.product(range(1, most + 1), trusted.items()):
            while self._attempts.load[worker] < each * threads and (
                each == 1 or self._attempts.bytes[worker] < MOST_BYTES_AHEAD
            ):
                if not (blocks := take(worker)):
                    break
                if not self._send(round_, worker, blocks):
                    return

    def _send(self, round_: Round, worker: str, blocks: Sequence[int]) -> bool:
        """Whether these are on their way, or the connection was lost just now."""
        wanted, size = self._wanted(round_, worker, blocks)
        attempt = Attempt(round_, worker, tuple(k for k, *_ in wanted), size, time.monotonic())
        kind = type(self._recipes[blocks[0]]).__name__.lstrip("_")
        attempt.task = self._transport.submit(
            pickle.dumps(Task(dope.__version__, self._run, wanted), protocol=5),
            name=f"dope-{kind}-{blocks[0]}-{self._run}-{next(self._numbers)}",
            worker=worker,
            deliver=lambda answer: self._arrivals.put((attempt, answer)),
        )
        if attempt.task is None:
            round_.put(blocks, self._owner)
            return False
        round_.put(blocks[len(wanted) :], self._owner)
        self._attempts.add(attempt)
        self.statistics.tasks += 1
        self.statistics.bytes_sent += size
        round_.begin(attempt.blocks)
        return True

    def _wanted(self, round_: Round, worker: str, blocks: Sequence[int]) -> tuple[tuple[Wanted, ...], int]:
        """What a task holds, of the first of these blocks or of them all, and its size in bytes."""
        wanted: list[Wanted] = []
        size = 0
        for k in blocks:
            recipe, message = self._recipe_for(k, worker), round_.pickled(k)
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

    def _arrived(self) -> Iterator[tuple[Attempt, Any]]:
        """What has arrived, after a short wait if there is nothing."""
        with suppress(queue.Empty):
            arrival = self._arrivals.get(timeout=SECONDS_BETWEEN_LOOKS)
            while True:
                if arrival is not None and arrival[0] in self._attempts:
                    yield arrival
                arrival = self._arrivals.get_nowait()

    def _taken_in(self, round_: Round, attempt: Attempt, answer: Any) -> Iterator[int]:
        """Note the replies, and tell for which blocks they are the first."""
        if isinstance(answer, Unreadable):
            raise not_readable(attempt.worker, answer.error) from answer.error
        if isinstance(answer, Exception):
            self._lose(round_, attempt, answer)
            return
        self._close(attempt)
        version, seconds, results = answer
        if version != dope.__version__:
            raise DopeError(
                f"the worker {attempt.worker} has dope {version}, and this process has dope {dope.__version__}; "
                "install the same version on every worker."
            )
        self._note_time(attempt, seconds, len(results))
        for k, outcome, content, opening in results:
            self.statistics.bytes_received += len(content)
            wanted = k in attempt.blocks_of(round_)
            if outcome == "missing":
                self._owner.pop(k, None)
            elif outcome == "failed":
                if wanted:
                    raise raised_there(content, attempt.worker, k)
            else:
                self._note_place(k, attempt.worker, outcome, opening)
                if wanted:
                    round_.reply(k, pickle.loads(content))
                    yield k
        round_.put(self._not_under_way(round_, attempt.blocks_of(round_)), self._owner)

    def _note_time(self, attempt: Attempt, seconds: float, answers: int) -> None:
        now = time.monotonic()
        if answers:
            attempt.round.note_pace(seconds / answers)
        self._deadlines.note_task(now - self._begun(attempt))
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

    def _lose(self, round_: Round, attempt: Attempt, why: Exception | None = None) -> None:
        self._close(attempt)
        if not attempt.overdue:  # else it was sent again already
            self._send_again(round_, attempt.blocks_of(round_), why)

    def _send_again(self, round_: Round, blocks: Sequence[int], why: Exception | None = None) -> None:
        again = self._not_under_way(round_, blocks)
        for k in again:
            round_.losses[k] += 1
            if round_.losses[k] >= MOST_LOSSES:
                raise DopeError(
                    f"block {k} was lost {MOST_LOSSES} times: workers died while they were at work on it, most likely "
                    "for lack of memory, or did not answer. Take smaller blocks, give workers more memory, and see "
                    "what they have written to their logs."
                ) from why
        self.statistics.resubmitted += len(again)
        round_.put(again, self._owner)

    def _not_under_way(self, round_: Round, blocks: Sequence[int]) -> list[int]:
        """Those of the blocks that are open, and that nobody but who is late is at work on."""
        busy = {k for attempt in self._attempts if not attempt.overdue for k in attempt.blocks_of(round_)}
        return [k for k in blocks if k in round_.open and k not in busy and k not in round_.waiting]

    def _close(self, attempt: Attempt) -> None:
        self._attempts.discard(attempt)
        if attempt.task is not None:
            with suppress(Exception):  # the connection may be gone
                attempt.task.release()


def _new_run() -> str:
    return uuid.uuid4().hex[:12]
