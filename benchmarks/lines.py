"""Results as JSON lines: what was measured, on what, by which command."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dope.paper.ledger import machine

PROJECT = Path(__file__).resolve().parent.parent
RESULTS = PROJECT / "benchmarks" / "results"

Record = dict[str, Any]

__all__ = ["PROJECT", "RESULTS", "Record", "append", "commit", "load", "machine", "now", "read"]


def read(file: Path) -> list[Record]:
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def append(file: Path, records: Iterable[Record]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.writelines(json.dumps(record) + "\n" for record in records)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def commit() -> str:
    """The commit, marked when the sources differ from it; results, and the pages made of them, are no sources."""
    head = _git("rev-parse", "--short=12", "HEAD")
    changed = _git(
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        ":/",
        ":(top,exclude)benchmarks/results",
        ":(top,exclude)docs",
    )
    return f"{head}-dirty" if head and changed else head or "unknown"


def _git(*arguments: str) -> str:
    """What git answers; nothing where it cannot, as outside a checkout."""
    done = subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def load() -> float | None:
    """How many processes wanted a core during the last minute: what else the machine did."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):  # Windows; or the system does not tell
        return None
