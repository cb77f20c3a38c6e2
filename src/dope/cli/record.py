"""What a report (`--json`) says of any run: how it ended, its rounds, the versions and the command."""

from __future__ import annotations

import json
import platform
import shlex
import sys
from typing import Any

import numpy as np

from dope import __version__
from dope.cli.clock import Clock
from dope.io import write_text
from dope.memory import peak_bytes
from dope.result import Result
from dope.steps import Step, plain

# Names that files have of every method, also of one whose steps have no such number.
_OF_EVERY_STEP = {"sweep": 0, "residual": None, "groups": None}


def summary_of(result: Result, stopped: str, clock: Clock) -> dict[str, Any]:
    """`seconds` are the run's own, as in its trace; what was read before it began has its own."""
    return {
        "energy": result.energy,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "exact": result.exact,
        "rounding_error": result.rounding_error,
        "proved": result.proved,
        "stopped": stopped,
        "rounds": len(result.trace),
        "blocks": len(result.partition.blocks),
        "foreground": result.foreground if result.classes is None and result.label_count == 2 else None,
        "seconds": result.seconds,
        "reading_seconds": clock.spent.get("reading", 0.0),
        "peak_bytes": peak_bytes(),
    }


def trace_of(result: Result) -> list[dict[str, Any]]:
    return [record_of(step) for step in result.trace]


def record_of(step: Step, *, full: bool = False) -> dict[str, Any]:
    """What files say of a step; `full` tells every task of its blocks."""
    return {**_OF_EVERY_STEP, **plain(step, full=full)}


def versions() -> dict[str, str]:
    return {
        "dope": __version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "platform": platform.platform(),
    }


def command() -> str:
    return shlex.join(["dope", *sys.argv[1:]])


def write_record(path: str, record: dict[str, Any], *, overwrite: bool) -> None:
    write_text(path, json.dumps(record, indent=1, default=_plain) + "\n", overwrite=overwrite)


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    return str(value)
