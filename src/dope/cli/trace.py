"""`--trace FILE.jsonl`: a line per round as it ends, for those who look at how a run went."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from dope.errors import InputError
from dope.protocols import Step, Tasks

_COUNTED = ("tasks", "bytes_sent", "bytes_received", "cache_hits", "opened", "resubmitted")


class TraceFile:
    """A file that grows by a line per step."""

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else Path(path)
        self._before = 0.0
        if self._path is not None:
            try:
                self._path.write_text("")
            except OSError as error:
                raise InputError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from error

    def __call__(self, step: Step) -> None:
        if self._path is None:
            return
        record = line_of(step, step.seconds - self._before)
        self._before = step.seconds
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")


def line_of(step: Step, lasted: float) -> dict[str, Any]:
    """What a line says; `lasted` are the seconds of the round alone."""
    record: dict[str, Any] = {
        "round": step.round,
        "sweep": step.sweep,
        "seconds": round(step.seconds, 4),
        "energy": step.energy if math.isfinite(step.energy) else None,
        "lower_bound": step.lower_bound,
        "proved": step.proved,
        "disagreeing": step.disagreeing,
        "stopped": step.stopped,
    }
    return record if step.tasks is None else {**record, **_work(step.tasks, lasted)}


def _work(tasks: Tasks, lasted: float) -> dict[str, Any]:
    workers: dict[str, dict[str, float]] = {}
    for _, worker, _, _, read, solve, write in tasks.done:
        spent = workers.setdefault(worker, {"read": 0.0, "solve": 0.0, "write": 0.0})
        for name, seconds in (("read", read), ("solve", solve), ("write", write)):
            spent[name] += seconds
    for spent in workers.values():
        spent["wait"] = max(0.0, lasted - sum(spent.values()))
    record = {
        "tasks": len(tasks.done),
        "bytes_sent": tasks.bytes_sent,
        "bytes_received": tasks.bytes_received,
        "workers": {name: {k: round(v, 4) for k, v in spent.items()} for name, spent in workers.items()},
        "timeline": [
            {"block": k, "worker": worker, "begun": round(begun, 4), "ended": round(ended, 4)}
            for k, worker, begun, ended, *_ in tasks.done
        ],
    }
    counted = {name: getattr(tasks.statistics, name) for name in _COUNTED if hasattr(tasks.statistics, name)}
    return {**record, **({"sent_by_executor": counted} if counted else {})}
