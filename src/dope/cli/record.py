"""What a report (`--json`) says of any run: how it ended, its rounds, the versions and the command."""

from __future__ import annotations

import json
import math
import platform
import shlex
import sys
from typing import Any

import numpy as np

from dope import __version__
from dope.io import write_text
from dope.memory import peak_bytes
from dope.result import Result

_OF_A_STEP = ("round", "sweep", "energy", "lower_bound", "residual", "disagreeing", "proved", "groups", "seconds")


def summary_of(result: Result, stopped: str, seconds: float) -> dict[str, Any]:
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
        "foreground": result.foreground,
        "seconds": seconds,
        "peak_bytes": peak_bytes(),
    }


def trace_of(result: Result) -> list[dict[str, Any]]:
    return [{name: _finite(getattr(step, name)) for name in _OF_A_STEP} for step in result.trace]


def _finite(value: object) -> object:
    """What JSON can say: nothing of a number that nobody computed."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
