"""The paper's third experiment: an energy that no minimum cut minimizes, by LSA-TR on the whole and over 8 blocks.

A *cell* is one run. Each drawing and way to choose triples is minimized

    alone      by LSA-TR on the whole
    blocks     over 8 blocks, one after the other and each timed: `critical_path` says what 8 workers would take
    threads    the same with threads, by the clock; labels are those of `blocks`, bit for bit

    gap % = 100 (E(labels) - E(alone)) / |E(alone)|
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from dope.arrays import Labels
from dope.energy import Energy
from dope.executors import Serial
from dope.paper.critical_path import Times
from dope.paper.drawings import Instance, drawing_names, modes_of, small_names, state_drawing
from dope.paper.ledger import Ledger, Record, Say, check_again, keep_labels, kept_labels, silent
from dope.paper.study import delta_percent
from dope.planning import plan
from dope.protocols import BlockSolver, Executor
from dope.solvers import LsaTr

ALONE, BLOCKS, THREADS = ("alone", "blocks", "threads")
KEY = ("case", "mode", "way", "blocks")
# As many as in the paper's Table 1.
NUMBER = 8
# By how much a quick run shrinks a drawing.
QUICK_STEP = 2


@dataclass(frozen=True, eq=False)
class Run:
    """Labels, and the seconds they took: of the clock, of the processor, and on the critical path where it is known."""

    labels: Labels
    rounds: int
    stopped: str
    seconds: float
    cpu_seconds: float
    critical_seconds: float | None = None
    critical_cpu_seconds: float | None = None

    def figures(self) -> Record:
        """All but the labels, to the millisecond."""
        seconds = {name: value for name, value in vars(self).items() if name.endswith("seconds")}
        rounded = {name: None if value is None else round(value, 3) for name, value in seconds.items()}
        return {"rounds": self.rounds, "stopped": self.stopped, **rounded}


def run_alone(energy: Energy, solver: BlockSolver) -> Run:
    """The solver on the whole, which is its own critical path."""
    begun, worked = time.perf_counter(), time.process_time()
    labels = solver.prepare(energy).minimize(energy.unary).labels
    seconds, cpu_seconds = time.perf_counter() - begun, time.process_time() - worked
    return Run(labels, 1, "whole", seconds, cpu_seconds, seconds, cpu_seconds)


def run_in_turn(energy: Energy, solver: BlockSolver, blocks: int, overlap: int | None = None) -> Run:
    """Over blocks, one after the other, each timed."""
    times = Times()
    run = run_with(Serial(), energy, solver, blocks, overlap, tell=times)
    critical = times.critical(run.seconds), times.critical(run.cpu_seconds, cpu=True)
    return Run(run.labels, run.rounds, run.stopped, run.seconds, run.cpu_seconds, *critical)


def run_with(
    executor: Executor,
    energy: Energy,
    solver: BlockSolver,
    blocks: int,
    overlap: int | None = None,
    *,
    tell: Times | None = None,
) -> Run:
    """Over blocks, by the clock; `tell` is told of every event."""
    begun, worked = time.perf_counter(), time.process_time()
    decided = plan(energy, blocks=blocks, overlap=overlap, solver=solver, executor=executor)
    result = decided.run(tell=tell)
    seconds, cpu_seconds = time.perf_counter() - begun, time.process_time() - worked
    return Run(result.labels, len(result.trace), result.stopped, seconds, cpu_seconds)


@dataclass(frozen=True)
class InkCell:
    """One run. `mode` says which triples there are."""

    case: str
    mode: str
    way: str
    blocks: int = 1

    def __str__(self) -> str:
        how = {ALONE: "alone", BLOCKS: f"{self.blocks} blocks in turn", THREADS: f"{self.blocks} blocks in threads"}
        return f"{self.case}, {self.mode}, {how[self.way]}"

    @property
    def file(self) -> str:
        """The name of its labels."""
        return f"{self.case}-{self.mode}-{self.way}-{self.blocks}.npz"


@dataclass(frozen=True)
class InkStudy:
    """The drawings of the experiment, and in how many blocks they are cut."""

    cases: tuple[str, ...]
    blocks: int = NUMBER
    quick: bool = False
    name: str = "curvature"

    def cells(self) -> Iterator[InkCell]:
        """All runs, an energy after the other, with the whole first."""
        for case in self.cases:
            for mode in modes_of(case):
                yield InkCell(case, mode, ALONE)
                yield InkCell(case, mode, BLOCKS, self.blocks)
                yield InkCell(case, mode, THREADS, self.blocks)

    def instance(self, case: str, mode: str) -> Instance:
        return state_drawing(case, mode, step=QUICK_STEP if self.quick else 1)


def ink(*, quick: bool) -> InkStudy:
    """The drawings that there are, and the smaller energies; quickly, one drawing at half its size."""
    names = drawing_names()
    return InkStudy(tuple(names[:1] if quick else [*names, *small_names()]), quick=quick)


@dataclass(frozen=True, eq=False)
class InkBench:
    """Where cells are run and what is kept of them."""

    study: InkStudy
    folder: Path
    ledger: Ledger
    executor: Executor
    say: Say = silent

    @classmethod
    def at(cls, study: InkStudy, folder: Path, executor: Executor, *, say: Say = silent) -> InkBench:
        """A bench whose lines and labels are in a folder, from which it goes on."""
        own = folder / (study.name + "-quick" * study.quick)
        own.mkdir(parents=True, exist_ok=True)
        return cls(study, own, Ledger(own / "runs.jsonl", KEY), executor, say)

    def left(self, cells: Sequence[InkCell]) -> list[InkCell]:
        """Those that are still to be run."""
        return [cell for cell in cells if not self.ledger.holds(asdict(cell))]

    def labels(self, cell: InkCell) -> Labels:
        """The labels of a run; found once more where only its line is there."""
        file = self.folder / "labels" / cell.file
        if not file.is_file():
            self.say(f"{cell}: its labels were not kept, they are found once more")
            check_again(self.ledger.find(**asdict(cell)), self._minimized(cell), [file])
        return kept_labels(file)

    def run(self, cell: InkCell) -> Record:
        """Run a cell and add its line."""
        record = self._minimized(cell)
        self.ledger.add(record)
        return record

    def _minimized(self, cell: InkCell) -> Record:
        instance = self.study.instance(cell.case, cell.mode)
        energy, solver = instance.energy, LsaTr()
        ways: dict[str, Callable[[], Run]] = {
            ALONE: lambda: run_alone(energy, solver),
            BLOCKS: lambda: run_in_turn(energy, solver, cell.blocks),
            THREADS: lambda: run_with(self.executor, energy, solver, cell.blocks),
        }
        run = ways[cell.way]()
        value = energy(run.labels)
        alone = self.ledger.find(case=cell.case, mode=cell.mode, way=ALONE)
        keep_labels(self.folder / "labels" / cell.file, run.labels)
        return {
            "experiment": self.study.name,
            **asdict(cell),
            "quick": self.study.quick,
            "lam": instance.lam,
            "sites": run.labels.size,
            "shape": list(run.labels.shape),
            "solver": repr(solver),
            "energy": value,
            "gap_percent": delta_percent(value, value if alone is None else alone["energy"]),
            "energy_of_signs": energy(energy.unary < 0),
            "energy_of_clean": energy(instance.clean),
            "wrong_percent": 100.0 * float(np.mean(run.labels != instance.clean)),
            **run.figures(),
            "workers": self.executor.workers if cell.way == THREADS else 1,
        }


def told(record: Record) -> str:
    """A run in one line."""
    text = f"energy {record['energy']:.2f}, {record['seconds']:.2f} s"
    if record["way"] != ALONE:
        text += f", gap {record['gap_percent']:+.3f} %"
    if record["way"] == BLOCKS:
        text += f", critical path {record['critical_seconds']:.2f} s"
    return text
