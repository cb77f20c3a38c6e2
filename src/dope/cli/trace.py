"""`--trace FILE.jsonl`: a line per round as it ends, for those who look at how a run went."""

from __future__ import annotations

import io
import json
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dope.cli.record import record_of
from dope.durable import writing
from dope.io import write_text
from dope.steps import Step

_SPENT = ("read", "solve", "write")


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
    record = record_of(step, full=True)
    tasks = record.pop("tasks", None)
    return record if tasks is None else {**record, **_work(tasks, lasted)}


def _work(tasks: dict[str, Any], lasted: float) -> dict[str, Any]:
    """What blocks did, and for how long each worker read, solved, wrote and waited."""
    workers: dict[str, dict[str, float]] = {}
    for task in tasks["done"]:
        spent = workers.setdefault(task["worker"], dict.fromkeys(_SPENT, 0.0))
        for name in _SPENT:
            spent[name] += task[name] or 0.0
    for spent in workers.values():
        spent["wait"] = max(0.0, lasted - sum(spent.values()))
    record = {
        "tasks": tasks["tasks"],
        "bytes_sent": tasks["bytes_sent"],
        "bytes_received": tasks["bytes_received"],
        "workers": {name: {k: round(v, 4) for k, v in spent.items()} for name, spent in workers.items()},
        "timeline": tasks["done"],
    }
    counted = tasks["statistics"]
    return {**record, **({"sent_by_executor": counted} if counted else {})}
