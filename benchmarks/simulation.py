"""A run of `dope.Bracketing` on a cluster that is not here, event by event.

The rounds, their blocks, bytes and seconds by the site are those of `dope.forecast`. What a formula cannot say
is replayed event by event: who waits for whom, for storage that all share, for the coordinator, for the slowest block,
and for blocks that were lost with their worker.

    coordinator   one server. It makes all tasks of a round before the first is sent, so much time for each, and hands
                  them out one by one
    workers       each at one task at a time: its box from storage, then seconds drawn from those of real blocks
    storage       a bandwidth, shared alike by all who read or write: arrays, labels, and posts for each other
    failures      of each worker, as a Poisson process; its task is lost, noticed, and handed out again
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from lines import Record

from dope.executors.remote_crew import MOST_LOSSES, TASKS_PER_THREAD
from dope.executors.round import SHORT_SECONDS
from dope.forecast import Costs, Forecast, forecast_rounds
from dope.planning import Plan


@dataclass(frozen=True)
class Cluster:
    """Where a run takes place.

    Attributes
    ----------
    workers : how many there are.
    cores : that they share, on one machine; None where each has its own.
    contention : how many times as long a block takes beside another one on the same machine.
    storage, stream : bytes per second of all together, and of one.
    network : bytes per second in and out of the coordinator.
    handed_out : whether tasks are, by the coordinator, several blocks at a time where there are many; else workers
        take them from a queue.
    latency : seconds from the coordinator to a worker and back.
    mtbf : seconds between two failures of a worker; notice and repair : until the coordinator knows, and until the
        worker is back.
    slow, slowness : the share of workers that are slow, and how many times as long they take.
    join : seconds within which workers come, one after the other.
    """

    workers: int
    cores: int | None = None
    contention: float = 1.0
    storage: float = 100e9
    stream: float = 1e9
    network: float = 1.25e9
    latency: float = 0.015
    handed_out: bool = True
    mtbf: float = math.inf
    notice: float = 1.0
    repair: float = 300.0
    slow: float = 0.0
    slowness: float = 2.0
    join: float = 0.0


class Shared:
    """Something of which everybody at it gets the same part.

    `rate(n)` is what each of n gets in a second. Work is counted in what one who was there all along would have got,
    so that a change of n moves no one's end: each event takes the time of a heap, also among 100,000. `end` is when the
    next one has got all he came for.
    """

    def __init__(self, rate: Callable[[int], float]) -> None:
        self.end = math.inf
        self._rate, self._given, self._at = rate, 0.0, 0.0
        self._ends: list[tuple[float, int, int]] = []
        self._there: dict[int, int] = {}
        self._number = 0

    def enter(self, now: float, who: int, amount: float) -> None:
        self._advance(now)
        self._number += 1
        self._there[who] = self._number
        heapq.heappush(self._ends, (self._given + amount, self._number, who))
        self._note()

    def leave(self, now: float, who: int) -> None:
        """Before the end, if it is there at all."""
        if who in self._there:
            self._advance(now)
            del self._there[who]
            self._note()

    def pop(self, now: float) -> int:
        """Who has ended."""
        self._advance(now)
        _, _, who = heapq.heappop(self._ends)
        del self._there[who]
        self._note()
        return who

    def _advance(self, now: float) -> None:
        if self._there:
            self._given += self._rate(len(self._there)) * (now - self._at)
        self._at = now

    def _note(self) -> None:
        ends, there = self._ends, self._there
        while ends and there.get(ends[0][2]) != ends[0][1]:
            heapq.heappop(ends)  # who left
        self.end = self._at + max(0.0, ends[0][0] - self._given) / self._rate(len(there)) if ends else math.inf


@dataclass
class Played:
    """A round, as it went: seconds in all, of tasks being made while workers wait, and of workers."""

    name: str
    tasks: int
    seconds: float = 0.0
    making: float = 0.0
    work: float = 0.0
    sent: float = 0.0
    received: float = 0.0
    read_bytes: float = 0.0
    left: float = 0.0
    lost: int = 0
    wasted: float = 0.0


@dataclass(frozen=True)
class Tasks:
    """What is handed out in a round: where there are many blocks, several at a time, as `Dask` does."""

    size: int
    seconds: list[float]
    bytes: float

    @classmethod
    def of(cls, forecast: Forecast, costs: Costs, cluster: Cluster, rng: np.random.Generator) -> Tasks:
        blocks = forecast.tasks
        size = math.ceil(blocks / (TASKS_PER_THREAD * cluster.workers)) if cluster.handed_out else 1
        drawn = rng.choice(np.asarray(costs.spread), blocks) * (forecast.work / blocks)
        seconds = np.add.reduceat(drawn, np.arange(0, blocks, size))
        return cls(size, seconds.tolist(), (forecast.read_bytes + forecast.written_bytes) / len(seconds))


class Simulation:
    """The clock, the workers and their failures; rounds are played one after the other."""

    def __init__(self, costs: Costs, cluster: Cluster, seed: int = 0) -> None:
        self.costs, self.cluster = costs, cluster
        self.now, self.given_up = 0.0, False
        self._rng = np.random.default_rng(seed)
        self._events: list[tuple[float, int, str, int, int]] = []  # when, a number, what, who, and its attempt
        self._number = 0
        slow = self._rng.random(cluster.workers) < cluster.slow
        self._slowness = np.where(slow, cluster.slowness, 1.0).tolist()
        self._idle: deque[int] = deque()
        self._busy: dict[int, int] = {}
        self._down = set(range(cluster.workers))
        self._attempts = [0] * cluster.workers
        for worker, when in enumerate((np.arange(cluster.workers) * cluster.join / cluster.workers).tolist()):
            if when == 0:
                self._join(worker)
            else:
                self._push(when, "join", worker)

    def _push(self, when: float, kind: str, who: int) -> None:
        self._number += 1
        attempt = self._attempts[who] if kind in ("begin", "done") else 0
        heapq.heappush(self._events, (when, self._number, kind, who, attempt))

    def _join(self, worker: int) -> None:
        self._down.discard(worker)
        self._idle.append(worker)
        if self.cluster.mtbf < math.inf:
            self._push(self.now + float(self._rng.exponential(self.cluster.mtbf)), "fail", worker)

    def _fail(self, worker: int) -> None:
        self._down.add(worker)
        self._attempts[worker] += 1
        if worker in self._busy:
            del self._busy[worker]
        else:
            self._idle.remove(worker)
        self._push(self.now + self.cluster.repair, "join", worker)

    def play(self, forecast: Forecast) -> Played:
        """One round: messages, tasks, replies."""
        cluster, begun = self.cluster, self.now
        played = Played(forecast.name, forecast.tasks)
        played.sent, played.received = forecast.sent, forecast.received
        played.read_bytes, played.left = forecast.read_bytes, forecast.left
        tasks = Tasks.of(forecast, self.costs, cluster, self._rng)
        played.work, played.making = sum(tasks.seconds), forecast.tasks * self.costs.count
        self._pass_time(played.making)
        self._work(tasks, played)
        played.seconds = self.now - begun
        return played

    def _pass_time(self, seconds: float) -> None:
        """The coordinator is busy; workers fail and come meanwhile."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            when, _, kind, worker, _ = heapq.heappop(self._events)
            self.now = max(self.now, when)
            if kind == "join":
                self._join(worker)
            elif kind == "fail":
                self._fail(worker)
        self.now = end

    def _work(self, tasks: Tasks, played: Played) -> None:
        """Until the last task of a round is done, and its reply taken."""
        cluster, number = self.cluster, len(tasks.seconds)
        handing = self.costs.task + played.sent / number / cluster.network
        taking = played.received / number / cluster.network
        latency = 0.0 if played.work / number < SHORT_SECONDS else cluster.latency
        storage = Shared(lambda n: min(cluster.stream, cluster.storage / n))
        cores = cluster.cores or math.inf
        machine = Shared(lambda n: min(1.0, cores / n) / (cluster.contention if n > 1 else 1.0))
        waiting, left, losses = deque(range(number)), number, [0] * number
        begun: dict[int, float] = {}
        free, noted = self.now, -1.0  # when the coordinator is, and when that is an event already
        while left:
            while waiting and self._idle and (free <= self.now or not cluster.handed_out):
                worker = self._idle.popleft()
                self._busy[worker] = waiting.popleft()
                self._attempts[worker] += 1
                free = self.now + handing if cluster.handed_out else free
                self._push(self.now + handing + latency, "begin", worker)
            if waiting and self._idle and noted != free:
                self._push(free, "free", -1)
                noted = free
            kind, worker = self._next(storage, machine)
            if kind == "begin":
                begun[worker] = self.now
                storage.enter(self.now, worker, tasks.bytes)
            elif kind == "read":
                seconds = tasks.seconds[self._busy[worker]] * self._slowness[worker]
                if cluster.cores is None:
                    self._push(self.now + seconds, "done", worker)
                else:
                    machine.enter(self.now, worker, seconds)
            elif kind == "done":
                del self._busy[worker]
                self._idle.append(worker)
                left -= 1
                free = max(free, self.now) + taking
            elif kind == "again":
                waiting.append(worker)  # the number of a task
            elif kind == "join":
                self._join(worker)
            elif kind == "fail":
                task = self._busy.get(worker)
                self._fail(worker)
                storage.leave(self.now, worker)
                machine.leave(self.now, worker)
                if task is not None:
                    losses[task] += 1
                    self._lose(task, losses[task])
                    played.lost += tasks.size
                    played.wasted += self.now - begun.pop(worker, self.now)
        self.now = max(self.now, free)

    def _lose(self, task: int, times: int) -> None:
        self.given_up |= times >= MOST_LOSSES
        self._push(self.now + self.cluster.notice, "again", task)

    def _next(self, storage: Shared, machine: Shared) -> tuple[str, int]:
        """What happens next, and to whom; somebody who failed always comes back, so that something does."""
        while True:
            first = self._events[0][0] if self._events else math.inf
            if storage.end <= first and storage.end <= machine.end:
                self.now = max(self.now, storage.end)
                return "read", storage.pop(self.now)
            if machine.end <= first:
                self.now = max(self.now, machine.end)
                return "done", machine.pop(self.now)
            when, _, kind, who, attempt = heapq.heappop(self._events)
            self.now = max(self.now, when)
            if kind not in ("begin", "done") or attempt == self._attempts[who]:
                return kind, who


def simulated(plan: Plan, costs: Costs, cluster: Cluster, seed: int = 0) -> Record:
    """A whole run, and where its time goes."""
    simulation = Simulation(costs, cluster, seed)
    played = [simulation.play(forecast) for forecast in forecast_rounds(plan, costs)]
    seconds, work = simulation.now, sum(one.work for one in played)
    alone = sum(one.making for one in played)
    ideal = work / cluster.workers
    return {
        "sites": plan.sites,
        "shape": list(plan.energy.shape),
        "neighbors": plan.neighbors,
        "blocks": plan.blocks,
        "block_shape": list(plan.block_shape),
        "worker_bytes": plan.worker_bytes,
        "cluster": {name: value for name, value in asdict(cluster).items() if value not in (math.inf, None)},
        "seconds": seconds,
        "work_seconds": work,
        "coordinator_seconds": alone,
        "efficiency": ideal / seconds,
        "shares": {
            "work": ideal / seconds,
            "making": alone / seconds,
            "waiting": max(0.0, 1.0 - (ideal + alone) / seconds),
        },
        "sent": sum(one.sent for one in played),
        "received": sum(one.received for one in played),
        "read_bytes": sum(one.read_bytes for one in played),
        "left_bytes": sum(one.left for one in played),
        "lost": sum(one.lost for one in played),
        "wasted_seconds": sum(one.wasted for one in played),
        "given_up": simulation.given_up,
        "rounds": [{k: v for k, v in asdict(one).items() if v or k == "name"} for one in played],
    }
