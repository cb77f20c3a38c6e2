"""`dope minimize`: the energy in a file in, its best labels out, and what is known about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dope.certificate import require_free
from dope.cli.certified import note_file
from dope.cli.clock import Clock
from dope.cli.exits import CANCELLED, Cancel, exit_code
from dope.cli.methods import MethodName, solver_of
from dope.cli.outputs import SideOutputs
from dope.cli.progress import at_work
from dope.cli.record import command, summary_of, trace_of, versions, write_record
from dope.cli.screen import complain, progress_console
from dope.cli.tables import labels_in_words, print_rows
from dope.cli.watch import Watch
from dope.energy import Energy
from dope.errors import InputError
from dope.executors import Threads
from dope.io import ENERGY_FORMATS, Instance, check_writable, read_instance, save_labels, write_text
from dope.io.images.formats import input_place, labels_place
from dope.io.places import Place, check_apart
from dope.names import METHODS, SOLVERS
from dope.planning import plan_searching
from dope.result import Result

_TEXT = ".txt"


def minimize(
    file: Annotated[str, typer.Argument(help="G-set, QUBO, UAI, OpenGM, DIMACS max-flow, NPZ or NPY.")],
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Where the labels go: .npy, .npz, or .txt with one per line.")
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help=f"What the file is: {', '.join(ENERGY_FORMATS)}; by default as its first words say.",
            show_default=False,
        ),
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option(
            help=f"What minimizes a block: {', '.join(SOLVERS)}; by default it follows from the weights.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        MethodName | None,
        typer.Option(
            help="How blocks of two labels agree; by default exact where it applies, else admm.", show_default=False
        ),
    ] = None,
    blocks: Annotated[int | None, typer.Option(help="Number of blocks; by default it follows from the size.")] = None,
    overlap: Annotated[float | None, typer.Option(help="How much each block grows, as a fraction.")] = None,
    workers: Annotated[int | None, typer.Option(help="Threads; by default one per core.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of a --solver that draws at random.")] = None,
    sweeps: Annotated[int | None, typer.Option(help="Of --solver portfolio or anneal: how long it goes on.")] = None,
    reads: Annotated[int | None, typer.Option(help="Of --solver anneal: how often it begins anew.")] = None,
    restarts: Annotated[int | None, typer.Option(help="Of --solver tabu: how often it begins anew.")] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            help="With negative weights, search for so long. Other solvers: stop after the round in which so much time "
            "has passed, exit code 3."
        ),
    ] = None,
    certificate: Annotated[
        str | None,
        typer.Option(help="Put what proves the bound into this new or empty folder, for dope verify."),
    ] = None,
    json_: Annotated[str | None, typer.Option("--json", help="Write settings, results and trace here.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")] = False,
    save_on_cancel: Annotated[
        bool, typer.Option("--save-on-cancel", help="On Ctrl-C, write the best labels so far.")
    ] = False,
) -> None:
    """Minimize the energy in a file: a maximum cut, a QUBO, a Markov network of any labels, a minimum cut.

    Examples: dope minimize G1.txt -o side.txt

    dope minimize network.max --json report.json
    """
    task = Task(
        file=file, format=format_, solver=solver, method=method, blocks=blocks, overlap=overlap, workers=workers,
        seed=seed, sweeps=sweeps, reads=reads, restarts=restarts, seconds=seconds,
    )  # fmt: skip
    outputs = Outputs(output, json_, overwrite, save_on_cancel, certificate)
    outputs.check(task)
    raise typer.Exit(_run(task, outputs))


@dataclass(frozen=True)
class Task:
    """What to minimize, and how. Paths are as the user gave them."""

    file: str
    format: str | None
    solver: str | None
    method: MethodName | None
    blocks: int | None
    overlap: float | None
    workers: int | None
    seed: int | None
    sweeps: int | None
    reads: int | None
    restarts: int | None
    seconds: float | None

    def __post_init__(self) -> None:
        if self.seconds is not None and not (math.isfinite(self.seconds) and self.seconds > 0):
            raise InputError(f"--seconds is {self.seconds}; expected a number above 0.")
        for name, value in self._of_the_solver.items():
            if value is not None and self.solver is None:
                raise InputError(f"{name} is {value} without --solver; name the solver that it is for.")

    @property
    def _of_the_solver(self) -> dict[str, int | None]:
        return {"seed": self.seed, "sweeps": self.sweeps, "reads": self.reads, "restarts": self.restarts}

    @property
    def settings(self) -> dict[str, Any]:
        """What `dope.minimize` is told, apart from the energy and where to run."""
        return {
            "blocks": self.blocks,
            "overlap": self.overlap,
            "method": None if self.method is None else METHODS[self.method](),
            "solver": None if self.solver is None else solver_of(self.solver, **self._of_the_solver),
        }


@dataclass(frozen=True)
class Outputs:
    """Files to write."""

    labels: str | None
    json: str | None
    overwrite: bool
    save_on_cancel: bool
    certificate: str | None = None

    @property
    def as_text(self) -> bool:
        return self.labels is not None and Path(self.labels).suffix.lower() == _TEXT

    @property
    def places(self) -> dict[str, Place]:
        """Everything that is written to, by its option."""
        side = {"--json": self.json, "--certificate": self.certificate}
        places = {option: Place.of(name) for option, name in side.items() if name is not None}
        if self.labels is not None:
            places["--output"] = Place.of(self.labels) if self.as_text else labels_place(self.labels)
        return places

    def check(self, task: Task) -> None:
        """Everything that can be known before there is something to write."""
        check_apart([input_place(task.file)], self.places)
        if self.labels is not None:
            check_writable(self.labels, overwrite=self.overwrite, any_suffix=self.as_text)
        if self.certificate is not None:
            require_free(Path(self.certificate))
        if self.json is not None:
            check_writable(self.json, overwrite=self.overwrite, any_suffix=True)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """What can be known when the file has been read."""
        if self.labels is not None and not self.as_text:
            try:
                check_writable(self.labels, overwrite=self.overwrite, shape=shape)
            except InputError as error:
                raise InputError(f"{error}; or {_TEXT}, a number per line") from None


@dataclass(frozen=True, eq=False)
class _Outcome:
    task: Task
    instance: Instance
    result: Result
    clock: Clock
    late: bool

    @property
    def stopped(self) -> str:
        return "time limit" if self.stopped_early else self.result.stopped

    @property
    def stopped_early(self) -> bool:
        return self.late and self.result.stopped == "cancelled"

    @property
    def objective(self) -> dict[str, Any] | None:
        """What the file is about, in its own words: the value of the labels, and how good it can be at best."""
        objective, result = self.instance.objective, self.result
        if objective is None:
            return None
        return {
            "name": objective.optimum if result.exact else objective.name,
            "value": objective.of(result.energy),
            "bound": None if result.lower_bound is None else objective.of(result.lower_bound),
        }


def _run(task: Task, outputs: Outputs) -> int:
    clock, console = Clock(), progress_console()
    settings = task.settings
    with Cancel() as cancel:
        with clock.counting("reading"), at_work(console, f"reading {task.file}"):
            instance = read_instance(task.file, format=task.format)
            outputs.check_shape(instance.energy.shape)
        with at_work(console, "minimizing") as show:
            executor = Threads(task.workers)
            decided = plan_searching(
                instance.energy, task.seconds, **settings, executor=executor, certificate=outputs.certificate
            )
            limited = task.seconds is not None and not decided.searches
            watch = Watch(cancel, show, clock.begun + (task.seconds or 0.0) if limited else None)
            result = decided.run(watch=watch, tell=watch.tell)
        clock.spent["minimizing"] = result.seconds
        outcome = _Outcome(task, instance, result, clock, watch.late)
        if cancel.asked and not outputs.save_on_cancel:
            complain("cancelled, nothing was written; --save-on-cancel writes the best labels so far")
            return CANCELLED
        side = SideOutputs()
        with clock.counting("writing"):
            # The labels first: whatever becomes of the record, they are there.
            if outputs.labels is not None:
                _write_labels(outputs.labels, outcome.result, outputs)
            if outputs.certificate is not None:
                with side.alone(outputs.certificate):
                    note_file(outputs.certificate, task.file, task.format, outcome.result)
            if outputs.json is not None:
                with side.alone(outputs.json):
                    write_record(outputs.json, _record(outcome), overwrite=outputs.overwrite)
    written = [*([] if outputs.labels is None else [outputs.labels]), *side.written]
    print_rows(_rows(outcome, written))
    return exit_code(cancelled=cancel.asked, incomplete=side.failed, early=outcome.stopped_early)


def _write_labels(name: str, result: Result, outputs: Outputs) -> None:
    if outputs.as_text:
        text = "\n".join(map(str, np.asarray(result.labels).ravel().astype(np.uint16).tolist())) + "\n"
        write_text(name, text, overwrite=outputs.overwrite)
    else:
        save_labels(name, result.labels, overwrite=outputs.overwrite)


def _record(outcome: _Outcome) -> dict[str, Any]:
    energy = outcome.instance.energy
    return {
        "job": asdict(outcome.task),
        "problem": {
            "format": outcome.instance.format,
            "sites": math.prod(energy.shape),
            "labels": energy.label_count,
            "pairs": energy.pairs.number,
            "submodular": energy.submodular,
        },
        "result": {
            **summary_of(outcome.result, outcome.stopped, outcome.clock),
            "counts": [int(number) for number in outcome.result.counts],
        },
        "objective": outcome.objective,
        "trace": trace_of(outcome.result),
        "versions": versions(),
        "command": command(),
    }


def _rows(outcome: _Outcome, written: Sequence[str]) -> dict[str, str]:
    result, energy = outcome.result, outcome.instance.energy
    rows = {
        "file": f"{outcome.task.file} ({outcome.instance.format})",
        "sites": f"{math.prod(energy.shape):,}, {energy.pairs.number:,} pairs",
        **({} if isinstance(energy, Energy) else {"labels": labels_in_words(result.counts)}),
        "blocks": str(len(result.partition.blocks)),
        "rounds": f"{len(result.trace)}, stopped: {outcome.stopped}",
        "energy": _number(result.energy),
        "lower bound": "not known" if result.lower_bound is None else _number(result.lower_bound),
        "gap": _gap_in_words(result),
        "proved": "not known" if result.proved is None else f"{result.proved:.2%} of sites",
    }
    if outcome.objective is not None:
        rows[outcome.objective["name"]] = _value_in_words(outcome.objective, result)
    rows["seconds"] = outcome.clock.in_words()
    return {**rows, "written": ", ".join(written)} if written else rows


def _gap_in_words(result: Result) -> str:
    if result.gap is None:
        return "not known"
    if result.exact:
        return f"{_number(result.gap)}, from rounding costs" if result.gap else "none"
    return f"{_number(result.gap)}, {100 * result.gap / (abs(result.energy) or 1.0):.2g} % of the energy"


def _value_in_words(objective: dict[str, Any], result: Result) -> str:
    value = _number(objective["value"])
    if result.exact or objective["bound"] is None:
        return value
    return f"{value}, at best {_number(objective['bound'])}"


def _number(value: float) -> str:
    """Whole numbers in full, others to ten places.

    >>> _number(11624.0), _number(-0.125), _number(1234567890123.0)
    ('11,624', '-0.125', '1,234,567,890,123')
    """
    return f"{value:,.0f}" if value == int(value) and abs(value) < 2**53 else f"{value:,.10g}"
