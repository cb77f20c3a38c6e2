"""Real runs of volumes on this machine, beside simulated ones."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
from lines import Record
from simulate_costs import costs_from, newest
from simulation import Cluster, simulated

from dope.forecast import Costs, outline_energy, plan_for_workers

# Others may take so much of the machine during a run that is compared.
QUIET = 0.08
EXECUTORS = ("Threads(1)", "Threads(2)", "Dask(local:1)", "Dask(local:2)", "Dask(local:4)")


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
        command = [sys.executable, str(Path(__file__).with_name("simulate.py")), "--run", json.dumps(settings)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        tried.append(json.loads(done.stdout.splitlines()[-1]))
    return min(tried, key=lambda one: float(one["others"]))


def run(settings: Record) -> Record:
    """One run of `dope.segment`, as the coordinator saw it."""
    import dope

    kind, _, number = settings["executor"].rstrip(")").partition("(")
    executor: Any = dope.Threads(int(number)) if kind == "Threads" else dope.Dask(number)
    image, soft = (np.load(settings["files"][name], mmap_mode="r") for name in ("t1", "wm"))
    with tempfile.TemporaryDirectory() as folder:
        out = np.lib.format.open_memmap(Path(folder) / "labels.npy", mode="w+", dtype=np.bool_, shape=image.shape)
        tiny = tuple(slice(0, 24) for _ in image.shape)
        known: dict[str, Any] = {"kernel": 3, "blocks": (2, 2, 2), "memory": "8GB"}
        dope.segment(image[tiny].copy(), probability=soft[tiny].copy(), executor=executor, **known)  # wakes them up
        blocks = (settings["blocks"],) * 3
        here = [psutil.Process(), *psutil.Process().children(recursive=True)]
        all_before, ours_before = _busy_seconds(), _own_seconds(here)
        begun = time.perf_counter()
        result = dope.segment(
            image, probability=soft, executor=executor, out=out, method=dope.Bracketing(), **{**known, "blocks": blocks}
        )
        ended = time.perf_counter()
        ours = _own_seconds(here) - ours_before
        others = _busy_seconds() - all_before - ours
        assert result.problem is not None
        costs = Costs.of(result, result.problem)
    if kind == "Dask":
        executor.close()
    rounds, last = [], None
    asked = [[task for task in step.tasks.done if task.kind == kind] for step in result.trace
             for kind in dict.fromkeys(task.kind for task in step.tasks.done)]  # fmt: skip
    for tasks in asked:
        first, end = min(task.begun for task in tasks), max(task.ended for task in tasks)
        rounds.append(
            {
                "kind": tasks[0].kind,
                "tasks": len(tasks),
                "before": 0.0 if last is None else first - last,
                "seconds": end - first,
                "work": sum(task.seconds for task in tasks),
            }
        )
        last = end
    # What others took of the machine meanwhile is told, too: 0.05 is a twentieth of all cores.
    told = [step.tasks.statistics for step in result.trace]
    return {
        "executor": settings["executor"],
        "workers": executor.workers,
        "blocks": list(blocks),
        "seconds": ended - begun,
        "cpu_seconds": ours,
        "others": max(0.0, others / (ended - begun) / (os.cpu_count() or 1)),
        "left": sum(step.tasks.bytes_received for step in result.trace),
        "dask_sent": sum(one.bytes_sent for one in told if one is not None) or None,
        "rounds": rounds,
        "costs": asdict(costs),
    }


def local_costs(found: list[Record], kind: str, side: int) -> list[Costs]:
    """Of runs of one worker alone, with what tasks take beside their work."""
    costs = []
    for one in quiet_runs(found, "Dask(local:1)" if kind == "Dask" else "Threads(1)", side):
        rounds = [r for r in one["rounds"] if r["kind"] in ("measure", "finish")]
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
            next(float(r["work"]) for r in run["rounds"] if r["kind"] == "prove")
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
    plan = plan_for_workers(outline_energy((side,) * 3), memory=1 << 50, blocks=blocks, workers=workers)
    seconds = [r["seconds"] for r in runs]
    record = {"executor": executor, "side": side, "all": seconds, "measured": median(seconds)}
    record["bytes"] = median(r["left"] for r in runs)
    for name, source in (("small", small), ("own", side)):
        cluster = replace(cluster, contention=contention(found, kind, source) if workers > 1 else 1.0)
        told = [simulated(plan, costs, cluster) for costs in local_costs(found, kind, source)]
        record[name] = median(one["seconds"] for one in told)
        record[f"{name}_bytes"] = median(one["left_bytes"] for one in told)
    return record
