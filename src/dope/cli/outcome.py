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
        found = summary_of(self.result, self.stopped, self.clock)
        return found if self.result.classes is None else {**found, "classes": self.classes, "unit": self._unit or None}

    @property
    def classes(self) -> list[dict[str, Any]]:
        """Of each class its number, name, sites and, where the size of a site is known, volume."""
        result, spacing = self.result, self.opened.said.spacing
        site = None if spacing is None else math.prod(spacing)
        counts = result.counts
        return [
            {
                "number": number,
                "name": name,
                "sites": int(counts[number]),
                "volume": None if site is None else counts[number] * site,
            }
            for number, name in (result.classes or {}).items()
        ]

    @property
    def _unit(self) -> str:
        """What volumes are counted in, such as mm^3; empty where the file does not say."""
        unit = getattr(getattr(self.opened.image, "header", None), "unit", "")
        axes = len(self.result.shape)
        return f"{unit}^{axes}" if unit else ""

    def _labels_in_words(self) -> dict[str, str]:
        """How many sites have which label; nothing where a run of several classes ended before there was one."""
        if self.result.classes is None:
            return {"foreground": f"{self.result.foreground:.2%}"} if self.result.label_count == 2 else {}
        total = math.prod(self.result.shape)
        rows = {}
        for one in self.classes:
            named = "" if one["name"] == str(one["number"]) else f" {one['name']}"
            size = "" if one["volume"] is None else f", {one['volume']:,.6g}{' ' if self._unit else ''}{self._unit}"
            rows[f"class {one['number']}{named}"] = f"{one['sites']:,} sites ({one['sites'] / total:.2%}){size}"
        proved = self.result.proved
        return {"sites proved": "-" if proved is None else f"{proved:.2%}", **rows}

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
            **self._labels_in_words(),
            "seconds": self.clock.in_words(),
            "peak memory": "-" if peak is None else as_text(peak),
            "written": ", ".join(written),
        }
