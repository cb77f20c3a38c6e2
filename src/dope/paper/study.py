"""The paper's two experiments with minimum cuts, in 2D and in 3D: every kernel, cut in every way, by every method.

A *cell* is one run. Each case (a photograph, a structure of the brain) and kernel has an exact minimum, with which all
others are compared, and a serial graph cut by a peer, where one is at hand; then for each way to cut it into blocks the
paper's ADMM and ours. Energies of labels are computed from the labels alone, without the sites under strokes:

    delta E = 100 (E(labels) - E(exact)) / |E(exact)|,    Dice = 2 |A and B| / (|A| + |B|)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dope.api import minimize
from dope.arrays import Labels
from dope.durable import replacing
from dope.energy import Energy
from dope.errors import DopeError
from dope.label_counts import Overlap
from dope.memory import as_text, available_bytes
from dope.methods import Admm
from dope.paper.cases import (
    Pictured,
    Stated,
    photo_names,
    picture_photo,
    picture_structure,
    state_photo,
    state_structure,
    structure_names,
)
from dope.paper.ledger import Ledger, Record, Say, check_again, keep_labels, kept_labels, silent
from dope.paper.serial import SerialPeer
from dope.protocols import Executor
from dope.solvers import MaxFlow
from dope.steps import AdmmStep, Step

EXACT, SERIAL, PAPER, OURS = METHODS = ("exact", "serial", "paper", "ours")
KEY = ("case", "kernel", "method", "blocks", "size")
# Rounds whose relaxed y is kept; and the last one.
SHOWN_ROUNDS = (1, 2, 3, 4, 5)
Plane = NDArray[np.float16]


@dataclass(frozen=True)
class Cell:
    """One run. `size` is by how many percent a block's side grows: Size_10 of the paper is 10."""

    case: str
    kernel: int
    method: str
    blocks: int = 1
    size: int = 0

    def __str__(self) -> str:
        cut = f", {self.blocks} blocks, Size_{self.size:02}" if self.method in (PAPER, OURS) else ""
        return f"{Path(self.case).stem}, kernel {self.kernel}, {self.method}{cut}"

    @property
    def file(self) -> str:
        """The name of its labels."""
        return f"{Path(self.case).stem}-{self.kernel}-{self.method}-{self.blocks}-{self.size:02}.npz".replace(" ", "_")


@dataclass(frozen=True)
class Study:
    """One of the two experiments. `relaxed` keeps the relaxed y of the shown rounds, in one plane."""

    name: str
    cases: tuple[str, ...]
    kernels: tuple[int, ...]
    cuts: tuple[tuple[int, int], ...]
    paper: Admm
    state: Callable[[str, int, bool], Stated] = field(repr=False)
    picture: Callable[[str, bool], Pictured] = field(repr=False)
    quick: bool = False
    relaxed: bool = False

    def cells(self, methods: Sequence[str] = METHODS) -> Iterator[Cell]:
        """All runs, a case and kernel after the other, with the exact minimum first."""
        for case in self.cases:
            for kernel in self.kernels:
                for method in (EXACT, SERIAL):
                    if method in methods or method == EXACT:
                        yield Cell(case, kernel, method)
                for method in (PAPER, OURS):
                    if method in methods:
                        yield from (Cell(case, kernel, method, blocks, size) for blocks, size in self.cuts)


def plane(*, quick: bool) -> Study:
    """2D: photographs, 128 blocks of three sizes, and Size_25 in three numbers of blocks; 1 and 3 rounds, mu0 = 100."""
    names = photo_names()
    return Study(
        "2d",
        tuple(names[:3] if quick else names),
        (3, 7) if quick else (3, 5, 7, 9),
        ((128, 0), (128, 10), (128, 25), (64, 25), (32, 25)),
        Admm.paper(mu0=100.0, rounds=3),
        state_photo,
        picture_photo,
        quick,
    )


def volume(*, quick: bool) -> Study:
    """3D: structures of the brain, 64 and 128 blocks of three sizes; up to 10 rounds, mu0 = 500."""
    return Study(
        "3d",
        tuple(structure_names()),
        (3, 5) if quick else (3, 5, 7, 9),
        tuple((blocks, size) for blocks in (64, 128) for size in (0, 10, 20)),
        Admm.paper(mu0=500.0, rounds=10),
        state_structure,
        picture_structure,
        quick,
        relaxed=True,
    )


@dataclass(frozen=True, eq=False)
class Bench:
    """Where cells are run and what is kept of them."""

    study: Study
    folder: Path
    ledger: Ledger
    executor: Executor
    serial: SerialPeer | None
    say: Say

    @classmethod
    def at(
        cls,
        study: Study,
        folder: Path,
        executor: Executor,
        *,
        serial: SerialPeer | None,
        say: Say = silent,
    ) -> Bench:
        """A bench whose lines and labels are in a folder, from which it goes on."""
        own = folder / (study.name + "-quick" * study.quick)
        own.mkdir(parents=True, exist_ok=True)
        return cls(study, own, Ledger(own / "runs.jsonl", KEY), executor, serial, say)

    def left(self, cells: Sequence[Cell]) -> list[Cell]:
        """Those that are still to be run; without a peer nobody runs the serial ones."""
        return [
            cell
            for cell in cells
            if not self.ledger.holds(asdict(cell)) and (cell.method != SERIAL or self.serial is not None)
        ]

    def labels(self, cell: Cell) -> Labels:
        """The labels of a run; found once more where only its line is there."""
        self._keep(self._labels_file(cell), cell)
        return kept_labels(self._labels_file(cell))

    def relaxed(self, cell: Cell) -> dict[int, Plane]:
        """The relaxed y of a run in one plane, by round; found once more where only its line is there."""
        self._keep(self._planes_file(cell), cell)
        with np.load(self._planes_file(cell), allow_pickle=False) as stored:
            return {int(number): stored[number] for number in sorted(stored.files, key=int)}

    def _keep(self, file: Path, cell: Cell) -> None:
        if not file.is_file():
            self.say(f"{cell}: its labels were not kept, they are found once more")
            made = (self._labels_file(cell), self._planes_file(cell))
            check_again(self.ledger.find(**asdict(cell)), self._minimized(cell), made)

    def _labels_file(self, cell: Cell) -> Path:
        return self.folder / "labels" / cell.file

    def _planes_file(self, cell: Cell) -> Path:
        return self.folder / "relaxed" / cell.file

    def run(self, cell: Cell) -> Record:
        """Run a cell and add its line."""
        head = {
            "experiment": self.study.name,
            **asdict(cell),
            "quick": self.study.quick,
        }
        exact = self.ledger.find(case=cell.case, kernel=cell.kernel, method=EXACT)
        if cell.method != EXACT and exact is None:
            measured: Record = {"skipped": "there is no exact minimum to compare with"}
        else:
            measured = self._serial(cell, exact) if cell.method == SERIAL else self._minimized(cell)
        record = {**head, **measured}
        self.ledger.add(record)
        return record

    def _serial(self, cell: Cell, exact: Record | None) -> Record:
        assert self.serial is not None and exact is not None
        _posed.cache_clear()  # the peer needs the memory
        return self.serial.measure(self.study.name, cell.case, cell.kernel, self.study.quick, exact)

    def _minimized(self, cell: Cell) -> Record:
        posed = _posed(self.study, cell.case, cell.kernel)
        needed = MaxFlow().bytes_needed(posed.energy) * (1 + cell.size / 100) ** posed.energy.unary.ndim
        available = available_bytes()
        if available is not None and needed > available:
            return {"skipped": f"needs {as_text(needed)}, {as_text(available)} are available"}
        exact = None if cell.method == EXACT else self.labels(replace(cell, method=EXACT, blocks=1, size=0))
        method = {EXACT: None, PAPER: self.study.paper, OURS: Admm(bound=0)}[cell.method]
        reference = None if exact is None else Reference(exact, posed.judged(exact))
        rounds = _Rounds(posed, reference, planes=self.study.relaxed and cell.method == PAPER)
        # A virtual machine may have given free memory back to its host: fetch it before the clock runs.
        np.ones(int(needed) // 8)
        begun, worked = time.perf_counter(), time.process_time()
        energy = posed.stated.energy()  # contrast, scale and weights are part of the time
        result = minimize(
            energy,
            blocks=None if method is None else cell.blocks,
            overlap=cell.size / 100,
            method=method,
            executor=self.executor,
            watch=rounds,
        )
        # What looking at rounds took is not the method's time.
        seconds, cpu_seconds = rounds.own(time.perf_counter() - begun, time.process_time() - worked)
        if method is None and not result.exact:
            raise DopeError(f"{cell}: no exact minimum, but {result.stopped}")
        keep_labels(self._labels_file(cell), result.labels)
        if rounds.planes:
            self._keep_planes(cell, rounds)
        value = posed.judged(result.labels)
        least = value if reference is None else reference.energy
        return {
            "sites": result.labels.size,
            "shape": list(result.labels.shape),
            "pairs": energy.pairs.number,
            "ran_blocks": len(result.partition.blocks),
            "energy": value,
            "whole_energy": result.energy,
            "exact_energy": least,
            "delta_percent": delta_percent(value, least),
            "dice": 1.0 if exact is None else dice(result.labels, exact),
            "foreground": float(result.labels.mean()),
            "exact": result.exact,
            "rounding_error": result.rounding_error,
            "stopped": result.stopped,
            "rounds": rounds.records,
            "seconds": round(seconds, 4),
            "cpu_seconds": round(cpu_seconds, 3),
            "workers": self.executor.workers,
        }

    def _keep_planes(self, cell: Cell, rounds: _Rounds) -> None:
        file = self._planes_file(cell)
        file.parent.mkdir(parents=True, exist_ok=True)
        planes: dict[str, Any] = {str(number): plane for number, plane in rounds.planes.items()}
        with replacing(file) as temporary, temporary.open("wb") as stream:
            np.savez_compressed(stream, **planes)


@dataclass(frozen=True, eq=False)
class _Posed:
    """A case and kernel, ready to be minimized and judged."""

    stated: Stated
    energy: Energy
    judged: Energy


@lru_cache(maxsize=1)
def _posed(study: Study, case: str, kernel: int) -> _Posed:
    stated = study.state(case, kernel, study.quick)
    energy = stated.energy()
    return _Posed(stated, energy, Energy(stated.judged, energy.pairs))


@dataclass(frozen=True, eq=False)
class Reference:
    """The exact labels, and what they cost."""

    labels: Labels
    energy: float


class _Rounds:
    """Looks at every round of a run: its energy, its distance from the exact labels, its Lagrangian."""

    def __init__(self, posed: _Posed, exact: Reference | None, *, planes: bool) -> None:
        self._posed, self._exact = posed, exact
        self._plane = fullest(exact.labels) if planes and exact is not None else None
        # What strokes add to the energy of labels; the rest of it is what is judged.
        self._strokes = posed.energy.unary - posed.judged.unary
        self.records: list[Record] = []
        self.planes: dict[int, Plane] = {}
        self._looking = self._looking_cpu = 0.0
        self._begun_cpu = time.process_time()

    def own(self, seconds: float, cpu_seconds: float) -> tuple[float, float]:
        """What a time would be without looking: by the clock, and of the processor."""
        return seconds - self._looking, cpu_seconds - self._looking_cpu

    def __call__(self, step: Step) -> bool:
        begun, worked = time.perf_counter(), time.process_time()
        seconds, cpu_seconds = self.own(step.seconds, worked - self._begun_cpu)
        admm = step if isinstance(step, AdmmStep) else None
        record: Record = {"round": step.round, "sweep": 0 if admm is None else admm.sweep}
        record |= {"seconds": round(seconds, 4), "cpu_seconds": round(cpu_seconds, 3)}
        record |= {"lagrangian": admm and admm.lagrangian, "relaxed_energy": admm and admm.relaxed_energy}
        record |= {"disagreeing": step.disagreeing, "lower_bound": step.lower_bound}
        if step.labels is not None and self._exact is not None:
            # The first round is a row of the tables: its energy is computed anew, that of the others is the method's.
            if step.round == 1 or step.energy is None:
                value = self._posed.judged(step.labels)
            else:
                value = step.energy - self._of_strokes(step.labels)
            record |= {"energy": value, "delta_percent": delta_percent(value, self._exact.energy)}
            record |= {"dice": dice(step.labels, self._exact.labels)}
            if self._plane is not None and admm is not None:
                self._keep_plane(admm)
        self.records.append(record)
        self._looking += time.perf_counter() - begun
        self._looking_cpu += time.process_time() - worked
        return False

    def _of_strokes(self, labels: Labels) -> float:
        return float(self._strokes[labels].sum(dtype=np.float64))

    def _keep_plane(self, step: AdmmStep) -> None:
        """The relaxed y in the plane where most of the object is; the last one replaces those in between."""
        assert step.labels is not None and step.relaxed is not None
        for number in [number for number in self.planes if number not in SHOWN_ROUNDS]:
            del self.planes[number]
        y = step.labels.astype(np.float32)
        sites, values = step.relaxed
        y.flat[sites] = values
        self.planes[step.round] = y[..., self._plane].astype(np.float16)


def fullest(labels: Labels) -> int:
    """The plane of the last axis that holds most of the object."""
    return int(labels.sum(axis=tuple(range(labels.ndim - 1))).argmax())


def delta_percent(energy: float, least: float) -> float:
    """How far an energy lies above the least, in percent of that."""
    return 100.0 * (energy - least) / (abs(least) or 1.0)


def dice(labels: Labels, other: Labels) -> float:
    """How much two objects have in common, 1 where both are empty.

    >>> dice(np.array([True, True, False]), np.array([True, False, False]))
    0.6666666666666666
    """
    return Overlap.of(labels, other).dice(1)
