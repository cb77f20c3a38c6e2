"""Runs of `dope.Bracketing` on clusters that are not here, simulated from costs that were measured here.

    python benchmarks/simulate.py --measure                               # costs by the site, for kernels 3 to 9
    python benchmarks/simulate.py --overhead                              # what Dask takes for a block
    DOPE_DATA=... python benchmarks/simulate.py --check --folder /tmp/large  # real runs beside simulated ones
    python benchmarks/simulate.py --curves                                # the lines of all figures
    python benchmarks/simulate.py --sites 1e12 --workers 1000 --memory 16GB --kernel 3 --mtbf 1000
    python benchmarks/simulate.py --docs                                  # tables and figures into docs/scaling.md

The rounds, their blocks, bytes and seconds by the site are those of `dope.planning.LazyPlan`. What a formula cannot say
is replayed event by event: who waits for whom, for storage that all share, for the coordinator, for the slowest block,
and for blocks that were lost with their worker.

    coordinator   one server. As the method is now, it packs all messages before the first is sent, and stores replies
                  as they come; `streamed` is the method as it could be, which packs a message when a worker is free,
                  and does all of it in so many `lanes`
    workers       each at one task at a time: its box from storage, then seconds drawn from those of real blocks
    storage       a bandwidth, shared alike by all who read or write
    failures      of each worker, as a Poisson process; its task is lost, noticed, and handed out again
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import lines
import numpy as np
import psutil
from lines import PROJECT, Record
from tables import BLUE, GREY, ORANGE, between, markdown

from dope.executors.dask_crew import MOST_LOSSES, SHORT_SECONDS, TASKS_PER_THREAD
from dope.memory import as_bytes
from dope.planning import Costs, Forecast, LazyPlan, Recorder, Round

RESULTS = lines.RESULTS / "simulate.jsonl"
PAGE, IMAGES = PROJECT / "docs" / "scaling.md", PROJECT / "docs" / "images"
HOUR = 3600.0
# Others may take so much of the machine during a run that is compared.
QUIET = 0.08
MEMORY = "16GB"
KERNELS = (3, 5, 7, 9)
SIZES = (1e9, 1e10, 1e11, 1e12, 1e13)
WORKERS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)


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
    streamed, lanes : whether the coordinator packs while others work, and on how many cores it does all.
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
    streamed: bool = False
    lanes: int = 1
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
    """A round, as it went: seconds in all, of messages being packed while workers wait, and of workers."""

    name: str
    tasks: int
    seconds: float = 0.0
    packing: float = 0.0
    work: float = 0.0
    sent: float = 0.0
    received: float = 0.0
    read_bytes: float = 0.0
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
        played.sent, played.received, played.read_bytes = forecast.sent, forecast.received, forecast.read_bytes
        packing, storing = forecast.packing / cluster.lanes, forecast.storing / cluster.lanes
        tasks = Tasks.of(forecast, self.costs, cluster, self._rng)
        played.work = sum(tasks.seconds)
        if not cluster.streamed:
            self._pass_time(packing)
            played.packing, packing = packing, 0.0
        self._work(tasks, played, packing / len(tasks.seconds), storing / len(tasks.seconds))
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

    def _work(self, tasks: Tasks, played: Played, packing: float, storing: float) -> None:
        """Until the last task of a round is done, and its reply taken."""
        cluster, number = self.cluster, len(tasks.seconds)
        handing = packing + self.costs.task + played.sent / number / cluster.network
        taking = storing + played.received / number / cluster.network
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


def simulated(plan: LazyPlan, costs: Costs, cluster: Cluster, seed: int = 0) -> Record:
    """A whole run, and where its time goes."""
    simulation = Simulation(costs, cluster, seed)
    played = [simulation.play(forecast) for forecast in plan.rounds(costs)]
    seconds, work = simulation.now, sum(one.work for one in played)
    alone = sum(one.packing for one in played)
    ideal = work / cluster.workers
    return {
        "sites": plan.sites,
        "shape": list(plan.shape),
        "kernel": plan.kernel,
        "neighbors": plan.grid.degree,
        "blocks": plan.blocks,
        "block_shape": list(plan.block_shape),
        "worker_bytes": plan.worker_bytes,
        "cluster": {name: value for name, value in asdict(cluster).items() if value not in (math.inf, None)},
        "seconds": seconds,
        "work_seconds": work,
        "coordinator_seconds": sum(one.coordinator for one in plan.rounds(costs)) / cluster.lanes,
        "efficiency": ideal / seconds,
        "shares": {
            "work": ideal / seconds,
            "packing": alone / seconds,
            "waiting": max(0.0, 1.0 - (ideal + alone) / seconds),
        },
        "sent": sum(one.sent for one in played),
        "received": sum(one.received for one in played),
        "read_bytes": sum(one.read_bytes for one in played),
        "lost": sum(one.lost for one in played),
        "wasted_seconds": sum(one.wasted for one in played),
        "given_up": simulation.given_up,
        "rounds": [{k: v for k, v in asdict(one).items() if v or k == "name"} for one in played],
    }


# What is measured here.


def measure(kernels: Iterable[int], repeat: int) -> Iterator[Record]:
    """Costs by the site; of several measurements the one whose pass 1 was in the middle."""
    for kernel in kernels:
        found = sorted((Costs.measured(kernel) for _ in range(repeat)), key=_pace)
        yield {"what": "costs", "kernel": kernel, "repeat": repeat, "costs": asdict(found[len(found) // 2])}


def _pace(costs: Costs) -> float:
    first = next(one for one in costs.rounds if one.name == "pass 1")
    return first.read + first.solve + first.write


def costs_from(found: Record) -> Costs:
    rounds = tuple(Round(**one) for one in found["rounds"])
    return Costs(**{**found, "rounds": rounds, "spread": tuple(found["spread"])})


def overhead(repeat: int) -> Record:
    """Seconds and bytes that `Dask` takes for a task beside its work: of blocks so small that they have none."""
    import dope
    from dope.methods.bracket_block import BoxRecipe, Look
    from dope.partition import Partition

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "unary.npy"
        np.save(file, np.zeros((16, 16, 16), dtype=np.float32))
        energy = dope.LazyEnergy.grid(np.load(file, mmap_mode="r"))
        boxes: list[Any] = [block.where for block in Partition.grid((16, 16, 16), 8).blocks]
        recipes = [BoxRecipe(energy, box) for box in boxes]
        look = Look(prices=True, places=False, unit=None)
        with dope.Dask("local:1") as executor, executor.gather(recipes) as crew:
            crew.ask([look] * 8)
            many = [_timed(lambda: crew.ask([look] * 8)) / 8 for _ in range(repeat)]
            one = [_timed(lambda: crew.ask([look, *[None] * 7])) for _ in range(repeat)]
            told = crew.statistics
        sent = told.bytes_sent / told.tasks
    return {"what": "overhead", "task_seconds": median(many), "latency": median(one), "task_bytes": sent}


def _timed(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


# Real runs, to check against.


def _busy_seconds() -> float:
    """Of all cores, by anybody."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def _own_seconds(family: list[psutil.Process]) -> float:
    return float(sum(times.user + times.system for times in (one.cpu_times() for one in family)))


def wait_for_quiet(seconds: float, idle: float = 0.9) -> None:
    """Until nobody else is at work for three seconds, or for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = _busy_seconds()
        time.sleep(3.0)
        if (_busy_seconds() - before) / 3.0 / (os.cpu_count() or 1) < 1.0 - idle:
            return


EXECUTORS = ("Threads(1)", "Threads(2)", "Dask(local:1)", "Dask(local:2)", "Dask(local:4)")


def check(options: argparse.Namespace) -> Iterator[Record]:
    """Runs of all volumes on all executors, in turn, each in a process of its own."""
    from large import volume

    for _ in range(options.repeat):
        for name in EXECUTORS:
            for length in options.sides:
                settings = {"files": volume(options.folder, length), "executor": name, "blocks": options.blocks}
                yield {"what": "real", "side": length, **_least_disturbed_run(settings, options)}


def _least_disturbed_run(settings: Record, options: argparse.Namespace) -> Record:
    """Again, a few times, while others take more than a little of the machine."""
    tried: list[Record] = []
    while len(tried) < options.tries and not any(one["others"] <= options.others for one in tried):
        wait_for_quiet(options.wait)
        command = [sys.executable, __file__, "--run", json.dumps(settings)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        tried.append(json.loads(done.stdout.splitlines()[-1]))
    return min(tried, key=lambda one: float(one["others"]))


def run(settings: Record) -> Record:
    """One run of `dope.segment`, as the coordinator saw it."""
    import dope

    kind, _, number = settings["executor"].rstrip(")").partition("(")
    executor: Any = dope.Threads(int(number)) if kind == "Threads" else dope.Dask(number)
    image, soft = (np.load(settings["files"][name], mmap_mode="r") for name in ("t1", "wm"))
    recorder = Recorder(executor)
    with tempfile.TemporaryDirectory() as folder:
        out = np.lib.format.open_memmap(Path(folder) / "labels.npy", mode="w+", dtype=np.bool_, shape=image.shape)
        tiny = tuple(slice(0, 24) for _ in image.shape)
        known: dict[str, Any] = {"kernel": 3, "blocks": (2, 2, 2), "memory": "8GB"}
        dope.segment(image[tiny].copy(), probability=soft[tiny].copy(), executor=executor, **known)  # wakes them up
        blocks = (settings["blocks"],) * 3
        here = [psutil.Process(), *psutil.Process().children(recursive=True)]
        all_before, ours_before = _busy_seconds(), _own_seconds(here)
        begun = time.perf_counter()
        result = dope.segment(image, probability=soft, executor=recorder, out=out, **{**known, "blocks": blocks})
        ended = time.perf_counter()
        ours = _own_seconds(here) - ours_before
        others = _busy_seconds() - all_before - ours
        energy = result.problem
        assert isinstance(energy, dope.LazyEnergy)
        costs = Costs.of(recorder.asked, energy, result.partition, out)
    if kind == "Dask":
        executor.close()
    rounds, last = [], begun
    for asked in recorder.asked:
        rounds.append(
            {
                "kind": asked.kind,
                "tasks": len(asked.tasks),
                "before": asked.begun - last,
                "seconds": asked.ended - asked.begun,
                "work": sum(task.seconds for task in asked.tasks),
            }
        )
        last = asked.ended
    # What others took of the machine meanwhile is told, too: 0.05 is a twentieth of all cores.
    told = [step.tasks.statistics for step in result.trace]
    return {
        "executor": settings["executor"],
        "workers": executor.workers,
        "blocks": list(blocks),
        "seconds": ended - begun,
        "cpu_seconds": ours,
        "others": max(0.0, others / (ended - begun) / (os.cpu_count() or 1)),
        "sent": sum(task.sent for asked in recorder.asked for task in asked.tasks),
        "received": sum(task.received for asked in recorder.asked for task in asked.tasks),
        "dask_sent": sum(one.bytes_sent for one in told if one is not None) or None,
        "rounds": rounds,
        "costs": asdict(costs),
    }


def local_costs(found: list[Record], kind: str, side: int) -> list[Costs]:
    """Of runs of one worker alone, with what tasks take beside their work; codes alone are counted as bytes."""
    costs = []
    for one in quiet_runs(found, "Dask(local:1)" if kind == "Dask" else "Threads(1)", side):
        rounds = [r for r in one["rounds"] if r["kind"] in ("Look", "Finish")]  # in which nothing is stored
        task = max(0.0, sum(r["seconds"] - r["work"] for r in rounds) / sum(r["tasks"] for r in rounds))
        if kind == "Dask":
            task = newest(found, "overhead")["task_seconds"]
        costs.append(replace(costs_from(one["costs"]), task=task, task_bytes=0.0))
    return costs


def quiet_runs(found: list[Record], executor: str, side: int) -> list[Record]:
    """Those in which others hardly disturbed, or else the one in which they did least."""
    runs = [r for r in found if r["what"] == "real" and r["executor"] == executor and r["side"] == side]
    if not runs:
        raise SystemExit(f"no run of {side}^3 by {executor}; measure first: --check")
    return [r for r in runs if r["others"] <= QUIET] or [min(runs, key=lambda r: float(r["others"]))]


def contention(found: list[Record], kind: str, side: int) -> float:
    """How many times as long blocks of pass 1 take beside another one."""
    names = ("Threads(1)", "Threads(2)") if kind == "Threads" else ("Dask(local:1)", "Dask(local:2)")
    one, two = (
        median(
            next(float(r["work"]) for r in run["rounds"] if r["kind"] == "Prove")
            for run in quiet_runs(found, name, side)
        )
        for name in names
    )
    return max(1.0, two / one)


def compared(found: list[Record], executor: str, side: int, small: int) -> Record:
    """What was measured of a volume, beside what is simulated with the costs of a smaller one, and with its own."""
    runs = quiet_runs(found, executor, side)
    kind, workers, blocks = executor.partition("(")[0], runs[0]["workers"], runs[0]["blocks"]
    away: dict[str, Any] = {"latency": 0.0, "handed_out": False}
    if kind == "Dask":
        away = {"latency": newest(found, "overhead")["latency"]}
    cluster = Cluster(workers, cores=os.cpu_count(), storage=1e12, stream=1e12, network=1e12, **away)
    plan = LazyPlan.of((side,) * 3, memory=1 << 60, blocks=blocks, workers=workers)
    seconds = [r["seconds"] for r in runs]
    record = {"executor": executor, "side": side, "all": seconds, "measured": median(seconds)}
    record["bytes"] = median(r["sent"] + r["received"] for r in runs)
    for name, source in (("small", small), ("own", side)):
        cluster = replace(cluster, contention=contention(found, kind, source) if workers > 1 else 1.0)
        told = [simulated(plan, costs, cluster) for costs in local_costs(found, kind, source)]
        record[name] = median(one["seconds"] for one in told)
        record[f"{name}_bytes"] = median(one["sent"] + one["received"] for one in told)
    return record


# What is simulated.


def cube(sites: float) -> tuple[int, int, int]:
    side = round(sites ** (1 / 3))
    return side, side, side


def newest(found: list[Record], what: str, **fields: Any) -> Record:
    fitting = [r for r in found if r["what"] == what and all(r.get(k) == v for k, v in fields.items())]
    if not fitting:
        raise SystemExit(f"no line says {what} {fields}; measure first: --measure, --overhead, --check")
    return fitting[-1]


def cluster_costs(found: list[Record], kernel: int) -> Costs:
    """Costs by the site of this machine, and by the task of Dask."""
    told = newest(found, "overhead")
    costs = costs_from(newest(found, "costs", kernel=kernel)["costs"])
    return replace(costs, task=told["task_seconds"], task_bytes=told["task_bytes"])


CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "streamed": {"streamed": True},
    "streamed, 16 cores": {"streamed": True, "lanes": 16},
}


def curves(found: list[Record]) -> Iterator[Record]:
    """All points of all figures; each says with which command it is made alone."""
    latency = newest(found, "overhead")["latency"]
    for sites in SIZES:
        for workers in WORKERS:
            for name in ("as it is", "streamed, 16 cores"):
                yield point(found, "workers", sites, workers, change=name, latency=latency)
    for kernel in KERNELS:
        for workers in WORKERS:
            for name in CHANGES:
                yield point(found, "kernels", 1e12, workers, kernel=kernel, change=name, latency=latency)
    for memory in ("1GB", "2GB", "4GB", "8GB", "16GB", "32GB", "64GB", "128GB"):
        for name in ("as it is", "streamed, 16 cores"):
            yield point(found, "blocks", 1e12, 100, memory=memory, change=name, latency=latency)
    for hours in (0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1000.0):
        for kernel in (3, 9):
            change = "streamed, 16 cores"
            yield point(found, "failures", 1e12, 1000, kernel=kernel, change=change, latency=latency, mtbf=hours * HOUR)
    for slow in (0.0, 0.01, 0.1):
        change = "streamed, 16 cores"
        yield point(found, "stragglers", 1e12, 1000, kernel=9, change=change, latency=latency, slow=slow, slowness=3.0)


def point(
    found: list[Record],
    curve: str,
    sites: float,
    workers: int,
    *,
    kernel: int = 3,
    memory: str = MEMORY,
    change: str = "as it is",
    **cluster: Any,
) -> Record:
    costs = cluster_costs(found, kernel)
    plan = LazyPlan.of(cube(sites), memory=as_bytes(memory), kernel=kernel, workers=workers)
    told = simulated(plan, costs, Cluster(workers, **CHANGES[change], **cluster))
    return {"what": "simulated", "curve": curve, "about": sites, "memory": memory, "change": change, **told}


# What the page shows.


def write_docs(found: list[Record]) -> None:
    """Put tables and figures into the page."""
    figures(found)
    text = PAGE.read_text(encoding="utf-8")
    for mark, content in sections(found).items():
        text = between(text, mark, content)
    PAGE.write_text(text, encoding="utf-8")


def sections(found: list[Record]) -> dict[str, str]:
    """All tables, by the marks between which they stand."""
    return {
        "measured": _measured(found),
        "costs": _costs_table(found),
        "checked": _check_table(found),
        "coordinator": _coordinator_table(found),
        "sizes": _sizes_table(found),
        "failures": _failures_table(found),
    }


def _measured(found: list[Record]) -> str:
    real = [r for r in found if r["what"] != "simulated"]
    machines = sorted({f"{r['machine']['cpu']}, {r['machine']['cores']} cores" for r in real})
    days = sorted({r["date"][:10] for r in real})
    told = newest(found, "overhead")
    return (
        f"Measured on {'; '.join(machines)}, {' and '.join(days)}. Dask took {1000 * told['task_seconds']:.1f} ms and "
        f"{told['task_bytes']:,.0f} bytes for a task beside its work, {1000 * told['latency']:.0f} ms there and back."
    )


def _costs_table(found: list[Record]) -> str:
    rows = []
    for kernel in KERNELS:
        costs = costs_from(newest(found, "costs", kernel=kernel)["costs"])
        by_name = {one.name: one for one in costs.rounds}
        each = [1e9 * (by_name[n].read + by_name[n].solve + by_name[n].write) for n in ("look", "pass 1", "finish")]
        own = [1e9 * value for value in (costs.store, costs.fetch, costs.pack)]
        codes = [by_name["pass 1"].received, by_name["finish"].sent]
        rows.append(
            [f"{kernel}, {costs.neighbors}", *(f"{v:,.0f}" for v in each), *(f"{v:.1f}" for v in own)]
            + [f"{1000 * v:.1f}" for v in codes]
        )
    head = ["kernel, neighbours", "look, ns per site", "pass 1", "finish", "coordinator: store", "fetch", "pack"]
    return markdown([*head, "bytes back per 1000 sites", "bytes out, finish"], rows)


def _check_table(found: list[Record]) -> str:
    """Each volume, by the costs of the next smaller one and by its own."""
    sides = sorted({r["side"] for r in found if r["what"] == "real"})
    if len(sides) < 2:
        raise SystemExit("no real runs of two volumes; measure first: --check")
    rows = [_check_row(compared(found, e, side, small)) for small, side in pairwise(sides) for e in EXECUTORS]
    head = ["volume", "executor", "measured s", "all runs", "simulated by the smaller", "error", "by its own", "error"]
    return markdown([*head, "bytes", "simulated by the smaller", "error", "by its own", "error"], rows, left=2)


def _check_row(one: Record) -> list[str]:
    some = sorted(one["all"])
    row = [f"{one['side']}^3", f"`{one['executor']}`", f"{one['measured']:.2f}", f"{some[0]:.2f} to {some[-1]:.2f}"]
    for name in ("small", "own"):
        row += [f"{one[name]:.2f}", f"**{_error(one[name], one['measured'])}**"]
    row.append(f"{one['bytes']:,.0f}")
    for name in ("small_bytes", "own_bytes"):
        row += [f"{one[name]:,.0f}", _error(one[name], one["bytes"])]
    return row


def _error(told: float, real: float) -> str:
    return f"{100 * (told / real - 1):+.0f} %"


def _points(found: list[Record], curve: str, **fields: Any) -> list[Record]:
    """The newest of each point, in the order of workers, memory and failures."""
    chosen: dict[str, Record] = {}
    for record in found:
        if all(record.get(name) == value for name, value in {"curve": curve, **fields}.items()):
            key = (record["about"], record["kernel"], record["memory"], record["change"], record["cluster"])
            chosen[json.dumps(key)] = record
    return sorted(chosen.values(), key=lambda r: (r["about"], r["cluster"]["workers"], r["worker_bytes"]))


def _coordinator_table(found: list[Record]) -> str:
    rows = []
    for kernel in KERNELS:
        cells = []
        for change in CHANGES:
            points = _points(found, "kernels", kernel=kernel, change=change)
            half = [r["cluster"]["workers"] for r in points if r["efficiency"] >= 0.5]
            cells += [f"{max(half, default=0):,}", f"{min(r['seconds'] for r in points) / HOUR:.2g}"]
        one = _points(found, "kernels", kernel=kernel, change="as it is")[0]
        limit = one["work_seconds"] / one["coordinator_seconds"]
        rows.append([str(kernel), f"{one['work_seconds'] / HOUR:,.0f}", f"{one['coordinator_seconds'] / HOUR:.1f}"])
        rows[-1] += [f"**{limit:,.0f}**", *cells]
    head = ["kernel", "hours of one worker", "hours of the coordinator", "workers that take as long"]
    for change in CHANGES:
        head += [f"{change}: most workers at work half of the time", "least hours"]
    return markdown(head, rows)


def _sizes_table(found: list[Record]) -> str:
    rows = []
    for sites in SIZES:
        for change in ("as it is", "streamed, 16 cores"):
            points = {r["cluster"]["workers"]: r for r in _points(found, "workers", about=sites, change=change)}
            some = [points[w] for w in (1, 10, 100, 1000, 10_000, 100_000)]
            rows.append([f"10^{round(math.log10(sites))}", change, *(_time(r["seconds"]) for r in some)])
            rows[-1].append(f"{some[-1]['sent'] + some[-1]['received']:.1e}")
    head = ["sites", "coordinator", "1 worker", *(f"{w:,} workers" for w in (10, 100, 1000, 10_000, 100_000))]
    return markdown([*head, "bytes of messages"], rows, left=2)


def _failures_table(found: list[Record]) -> str:
    rows = []
    for kernel in (3, 9):
        points = _points(found, "failures", kernel=kernel)
        points.sort(key=lambda r: r["cluster"]["mtbf"])
        best = points[-1]["seconds"]
        for r in points:
            lost = 100 * r["wasted_seconds"] / r["work_seconds"]
            ended = "gives up" if r["given_up"] else f"{r['seconds'] / best:.2f}"
            rows.append([str(kernel), f"{r['cluster']['mtbf'] / HOUR:g}", f"{r['lost']:,}", f"{lost:.2f}", ended])
    head = ["kernel", "hours between failures of a worker", "blocks lost", "work lost, %", "times as long"]
    return markdown(head, rows)


def _time(seconds: float) -> str:
    for size, unit in ((86400.0 * 365, "years"), (86400.0 * 2, "days"), (HOUR, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / (86400.0 if unit == 'days' else size):.2g} {unit}"
    return f"{seconds:.0f} s"


def figures(found: list[Record]) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # A figure of its own, never pyplot: no window system. Without date and random names the same lines draw the same.
    with mpl.rc_context({"svg.hashsalt": "dope", "svg.fonttype": "path", "font.size": 9}):
        for name, draw, columns in (
            ("scaling_workers", _draw_workers, 2),
            ("scaling_coordinator", _draw_kernels, 2),
            ("scaling_blocks", _draw_blocks, 1),
            ("scaling_failures", _draw_failures, 1),
        ):
            drawn = Figure(figsize=(5.0 * columns, 3.6), layout="constrained")
            draw(drawn.subplots(1, columns, squeeze=False)[0], found)
            IMAGES.mkdir(parents=True, exist_ok=True)
            drawn.savefig(IMAGES / f"{name}.svg", metadata={"Date": None})


# From light to dark, told apart in grey too.
SHADES = ("#a6cee3", "#56b4e9", "#0072b2", "#004c77", "#001f33")


def _draw_workers(panels: Any, found: list[Record]) -> None:
    for sites, color in zip(SIZES, SHADES, strict=True):
        for change, style in (("as it is", "-"), ("streamed, 16 cores", ":")):
            points = _points(found, "workers", about=sites, change=change)
            workers = [r["cluster"]["workers"] for r in points]
            label = f"10^{round(math.log10(sites))} sites" if style == "-" else None
            panels[0].loglog(workers, [r["seconds"] / HOUR for r in points], style, color=color, label=label)
            panels[1].semilogx(workers, [100 * r["efficiency"] for r in points], style, color=color)
    panels[0].set_ylabel("hours")
    panels[1].set_ylabel("of the workers' time at work, %")
    panels[0].set_ylim(top=1e5)
    panels[0].legend(frameon=False, ncols=3, loc="upper center", fontsize=8)
    panels[1].plot([], [], "-", color=GREY, label="as it is")
    panels[1].plot([], [], ":", color=GREY, label="streamed, 16 cores")
    panels[1].legend(frameon=False)
    for axes in panels:
        axes.set_xlabel("workers, kernel 3")
        axes.grid(alpha=0.3)


def _draw_kernels(panels: Any, found: list[Record]) -> None:
    for axes, change in zip(panels, ("as it is", "streamed, 16 cores"), strict=True):
        for kernel, color in zip(KERNELS, SHADES[1:], strict=True):
            points = _points(found, "kernels", kernel=kernel, change=change)
            workers = [r["cluster"]["workers"] for r in points]
            axes.semilogx(workers, [100 * r["efficiency"] for r in points], "o-", ms=3, color=color, label=str(kernel))
        axes.set_title(f"coordinator {change}, 10^12 sites", fontsize=10)
        axes.set_xlabel("workers")
        axes.set_ylabel("of the workers' time at work, %")
        axes.grid(alpha=0.3)
    panels[0].legend(frameon=False, title="kernel")


def _draw_blocks(panels: Any, found: list[Record]) -> None:
    axes = panels[0]
    for change, color in (("as it is", BLUE), ("streamed, 16 cores", ORANGE)):
        points = _points(found, "blocks", change=change)
        sides = [math.prod(r["block_shape"]) ** (1 / 3) for r in points]
        axes.semilogx(sides, [r["seconds"] / HOUR for r in points], "o-", ms=3, color=color, label=change)
        for r, side in zip(points, sides, strict=True):
            place = (side, r["seconds"] / HOUR)
            axes.annotate(r["memory"], place, textcoords="offset points", xytext=(0, 5), fontsize=7, ha="center")
    axes.set_xlabel("side of a block, and memory of a worker; 100 workers")
    axes.set_xticks([200, 300, 400, 600, 800, 1100], ["200", "300", "400", "600", "800", "1100"])
    axes.minorticks_off()
    axes.set_ylabel("hours")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)


def _draw_failures(panels: Any, found: list[Record]) -> None:
    axes = panels[0]
    for kernel, color in ((3, BLUE), (9, ORANGE)):
        points = sorted(_points(found, "failures", kernel=kernel), key=lambda r: r["cluster"]["mtbf"])
        hours = [r["cluster"]["mtbf"] / HOUR for r in points]
        axes.loglog(hours, [r["seconds"] / points[-1]["seconds"] for r in points], "o-", ms=3, color=color)
        given_up = [
            (h, r["seconds"] / points[-1]["seconds"]) for h, r in zip(hours, points, strict=True) if r["given_up"]
        ]
        axes.plot(*zip(*given_up, strict=True), "x", color="black") if given_up else None
        axes.plot([], [], color=color, label=f"kernel {kernel}")
    axes.set_xlabel("hours between failures of a worker; 1000 workers")
    axes.plot([], [], "x", color="black", label="a block is lost ten times")
    axes.set_ylabel("times as long as with one in 1000 hours")
    axes.grid(alpha=0.3, which="both")
    axes.legend(frameon=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--measure", action="store_true", help="costs by the site, by a small problem")
    parser.add_argument("--overhead", action="store_true", help="what Dask takes for a task")
    parser.add_argument("--check", action="store_true", help="run real volumes, to compare with simulated ones")
    parser.add_argument("--curves", action="store_true", help="simulate all points of the figures")
    parser.add_argument("--docs", action="store_true", help="write tables and figures into docs, and run nothing")
    parser.add_argument("--kernels", nargs="+", type=int, default=list(KERNELS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--sides", nargs="+", type=int, default=[256, 384, 512], help="of volumes to check with")
    parser.add_argument("--blocks", type=int, default=4, help="along each axis, of all of them")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds to wait for a quiet machine before each run")
    parser.add_argument(
        "--others", type=float, default=QUIET, help="share of the machine that others may take in a run"
    )
    parser.add_argument("--tries", type=int, default=1, help="to have a run without them")
    parser.add_argument("--folder", type=Path, default=Path("build/large"), help="where volumes are kept")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--sites", type=float, help="of one run to simulate")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--kernel", type=int, default=3)
    parser.add_argument("--memory", default=MEMORY, help="of each worker")
    parser.add_argument("--change", choices=list(CHANGES), default="as it is", help="of the coordinator")
    for name in ("storage", "stream", "network", "mtbf", "repair", "slow", "slowness", "join"):
        parser.add_argument(f"--{name}", type=float, default=getattr(Cluster(1), name))
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run(json.loads(options.run))))
        return
    where = {"commit": lines.commit(), "machine": lines.machine(), "command": " ".join(["python", *sys.argv])}
    for record in _asked_for(options):
        told = {**shortened(record), "date": lines.now(), **where}
        lines.append(options.results, [told])
        short = {k: v for k, v in told.items() if k not in ("rounds", "costs", "machine", "cluster")}
        print(json.dumps(short), flush=True)
    if options.docs:
        write_docs(lines.read(options.results))


def shortened(thing: Any) -> Any:
    """With numbers of five digits, which is more than is known of any of them."""
    if isinstance(thing, dict):
        return {name: shortened(value) for name, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [shortened(value) for value in thing]
    return float(f"{thing:.5g}") if isinstance(thing, float) else thing


def _asked_for(options: argparse.Namespace) -> Iterator[Record]:
    if options.measure:
        yield from measure(options.kernels, options.repeat)
    if options.overhead:
        yield overhead(max(5, options.repeat))
    if options.check:
        yield from check(options)
    found = lines.read(options.results)
    if options.curves:
        yield from curves(found)
    if options.sites:
        names = ("storage", "stream", "network", "mtbf", "repair", "slow", "slowness", "join")
        cluster = {name: getattr(options, name) for name in names}
        cluster["latency"] = newest(found, "overhead")["latency"]
        settings = {"kernel": options.kernel, "memory": options.memory, "change": options.change}
        yield point(found, "alone", options.sites, options.workers, **settings, **cluster)


if __name__ == "__main__":
    main()
