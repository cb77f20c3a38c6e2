"""Runs averaged over cases, as the paper's figures have them: by kernel, in two groupings."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from dope.paper.ledger import Record
from dope.paper.study import OURS, PAPER, SERIAL

Key = tuple[str, int, str, int, int]
Measure = Callable[["Runs", Record], float | None]
"""What is measured of a run; None where it cannot be."""
Average = Callable[[Sequence[float]], float | None]


class Runs:
    """The lines of one experiment, by what tells them apart. Runs that were left out count as not there."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.all = list(records)
        self._by_key: dict[Key, Record] = {
            (r["case"], r["kernel"], r["method"], r["blocks"], r["size"]): r for r in self.all if not r.get("skipped")
        }

    @property
    def cases(self) -> list[str]:
        return list(dict.fromkeys(record["case"] for record in self.all))

    @property
    def kernels(self) -> list[int]:
        return sorted({record["kernel"] for record in self.all})

    @property
    def cuts(self) -> list[tuple[int, int]]:
        """Ways to cut into blocks, in the order of the paper."""
        return sorted({(r["blocks"], r["size"]) for r in self.all if r["method"] in (PAPER, OURS)})

    def get(self, case: str, kernel: int, method: str, blocks: int = 1, size: int = 0) -> Record | None:
        return self._by_key.get((case, kernel, method, blocks, size))

    def serial_beside(self, record: Record) -> Record | None:
        """The serial graph cut of the same case and kernel; times of another processor are not compared with."""
        serial = self.get(record["case"], record["kernel"], SERIAL)
        return serial if serial is not None and processor(serial) == processor(record) else None

    @property
    def processors(self) -> dict[str, int]:
        """What the runs were made on, and how many of them."""
        return dict(Counter(processor(record) for record in self._by_key.values()))

    def over_cases(self, measure: Measure, kernel: int, method: str, blocks: int, size: int) -> list[float]:
        """What is measured of the runs of one column of a table, a value per case."""
        found = [self.get(case, kernel, method, blocks, size) for case in self.cases]
        values = [measure(self, record) for record in found if record is not None]
        return [value for value in values if value is not None]

    def left_out(self, method: str) -> dict[tuple[str, int], str]:
        """Why some runs of a method are not there, by case and kernel."""
        return {
            (record["case"], record["kernel"]): record["skipped"]
            for record in self.all
            if record["method"] == method and record.get("skipped")
        }


def processor(record: Record) -> str:
    """What a run was made on, so far as its line tells."""
    return str(record.get("machine", {}).get("cpu", "an unknown processor"))


def delta_after(rounds: int | None) -> Measure:
    """Delta E of the best labels of so many rounds, or of all."""

    def measure(runs: Runs, record: Record) -> float | None:
        del runs
        if rounds is None:
            return float(record["delta_percent"])
        return min(float(r["delta_percent"]) for r in record["rounds"] if r["round"] <= rounds)

    return measure


def dice_after(rounds: int | None) -> Measure:
    """Dice of the same labels."""

    def measure(runs: Runs, record: Record) -> float | None:
        del runs
        if rounds is None:
            return float(record["dice"])
        looked_at = [r for r in record["rounds"] if r["round"] <= rounds]
        return float(min(looked_at, key=lambda r: r["delta_percent"])["dice"])

    return measure


def faster_after(rounds: int | None) -> Measure:
    """How many times faster than serial, by the clock; None where that did not run there.

    A round's own time begins after the energy is stated and ends before labels are handed over: what all rounds
    together leave of the whole time is added.
    """

    def measure(runs: Runs, record: Record) -> float | None:
        serial = runs.serial_beside(record)
        if serial is None:
            return None
        seconds, stamps = float(record["seconds"]), [float(r["seconds"]) for r in record["rounds"]]
        if rounds is not None:
            early = [float(r["seconds"]) for r in record["rounds"] if r["round"] <= rounds]
            seconds += max(early) - max(stamps)
        return float(serial["seconds"]) / seconds

    return measure


def mean(values: Sequence[float]) -> float | None:
    """The mean; None of nothing."""
    return statistics.fmean(values) if values else None


def median(values: Sequence[float]) -> float | None:
    """The value in the middle; None of nothing."""
    return statistics.median(values) if values else None
