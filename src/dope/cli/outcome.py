"""What came of `dope segment`: in a table, and for the record of `--json`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dope.cli.clock import Clock
from dope.cli.record import command, summary_of, trace_of, versions
from dope.cli.tables import bound_in_words
from dope.memory import as_text, peak_bytes
from dope.result import Result
from dope.segmentation import Segmentation
from dope.segmentation.files import Opened


@dataclass(frozen=True, eq=False)
class Outcome:
    """A segmentation as it was said, its files, what was found, and how long it took."""

    said: Segmentation
    opened: Opened
    result: Result
    clock: Clock
    late: bool

    @property
    def stopped_early(self) -> bool:
        """By the clock."""
        return self.late and self.result.stopped == "cancelled"

    @property
    def stopped(self) -> str:
        return "time limit" if self.stopped_early else self.result.stopped

    @property
    def summary(self) -> dict[str, Any]:
        return summary_of(self.result, self.stopped, self.clock)

    @property
    def settings(self) -> dict[str, Any]:
        """With what was chosen in place of what was left open."""
        energy, result, plan = self.result.problem, self.result, self.result.plan
        assert energy is not None and plan is not None
        pairs: Any = energy.pairs
        spacing = self.opened.said.spacing
        size = np.ones(len(energy.shape)) if spacing is None else np.array(spacing)
        lam = self.said.lam
        chosen = {
            "lam": pairs.factors[0] * np.linalg.norm(pairs.offsets[0] * size) if lam == "auto" else lam,
            "beta": pairs.beta,
            "blocks": len(result.partition.blocks),
            "spacing": spacing,
            "workers": None if plan.executor.elsewhere else plan.executor.workers,
        }
        return {**self.said.to_json(), **chosen}

    def record(self) -> dict[str, Any]:
        return {
            "job": self.said.to_json(),
            "settings": self.settings,
            "result": self.summary,
            "trace": trace_of(self.result),
            "versions": versions(),
            "command": command(),
        }

    def rows(self, written: Sequence[str]) -> dict[str, str]:
        result, peak = self.result, peak_bytes()
        return {
            "sites": f"{math.prod(result.shape):,} ({' x '.join(map(str, result.shape))})",
            "blocks": str(len(result.partition.blocks)),
            "rounds": f"{len(result.trace)}, stopped: {self.stopped}",
            "energy": f"{result.energy:,.1f}",
            "lower bound": bound_in_words(result),
            "foreground": f"{result.foreground:.2%}",
            "seconds": self.clock.in_words(),
            "peak memory": "-" if peak is None else as_text(peak),
            "written": ", ".join(written),
        }
