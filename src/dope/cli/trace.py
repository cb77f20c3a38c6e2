"""`--trace FILE.jsonl`: a line per round as it ends, for those who look at how a run went."""

from __future__ import annotations

import io
import json
import math
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dope.durable import writing
from dope.io import write_text
from dope.protocols import Step, Tasks

_COUNTED = ("tasks", "bytes_sent", "bytes_received", "cache_hits", "opened", "resubmitted")


class TraceFile:
    """A file that grows by a line per step; without a path, none.

    A line that cannot be written does not stop the run: it is the last one that is tried, and `finish` says why.
    """

    def __init__(self, path: str | None, *, overwrite: bool) -> None:
        self._path = None if path is None else Path(path)
        self._before = 0.0
        self._length = 0
        self._error: OSError | None = None
        self._stream: io.FileIO | None = None
        if self._path is not None:
            write_text(self._path, "", overwrite=overwrite)  # a new file, so that no other name of an old one sees it
            with writing(self._path):
                self._stream = io.FileIO(self._path, "r+")

    def __call__(self, step: Step) -> None:
        if self._stream is None or self._error is not None:
            return
        line = json.dumps(line_of(step, step.seconds - self._before)).encode() + b"\n"
        self._before = step.seconds
        try:
            _write_all(self._stream, line)
            self._length += len(line)
        except OSError as error:
            self._error = error
            with suppress(OSError):
                self._stream.truncate(self._length)  # lines are whole or not there

    def finish(self) -> None:
        """To be called when there are no more lines.

        Raises
        ------
        InputError
            Not all of them are in the file, or that is not there any more.
        """
        if self._path is None or self._stream is None:
            return
        with writing(self._path):
            if self._error is not None:
                raise self._error
            if not os.path.samestat(os.fstat(self._stream.fileno()), self._path.stat()):
                raise OSError(0, "replaced by another file meanwhile")
            self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            with suppress(OSError):
                self._stream.close()


def _write_all(stream: io.FileIO, content: bytes) -> None:
    """On a disk that is nearly full a part may be written, and only then comes the error."""
    while content:
        content = content[stream.write(content) :]


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
