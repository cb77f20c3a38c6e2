"""`dope paper`: the paper's experiments, run anew, and a page that shows them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Protocol, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from dope.cli.screen import printable, progress_console, tell
from dope.errors import InputError
from dope.executors import Threads
from dope.io.places import Place, check_apart
from dope.paper.cases import NO_SCAN, MissingDataError, folder
from dope.paper.ink import InkBench, ink
from dope.paper.ink import told as ink_told
from dope.paper.ledger import Ledger, Record
from dope.paper.page import write_page
from dope.paper.serial import SerialPeer
from dope.paper.study import METHODS, SERIAL, Bench, Study, plane, volume
from dope.report.curves import new_figure

CellT = TypeVar("CellT")


class Named(Protocol):
    """An experiment, so far as a line about its progress needs it."""

    @property
    def name(self) -> str: ...


class Workbench(Protocol[CellT]):
    """Where runs of an experiment are made, whatever a run is, and where their lines are kept."""

    @property
    def study(self) -> Named: ...

    @property
    def ledger(self) -> Ledger: ...

    def left(self, cells: Sequence[CellT]) -> list[CellT]: ...

    def run(self, cell: CellT) -> Record: ...


class Experiment(StrEnum):
    """What the paper reports on."""

    PLANE = "2d"
    VOLUME = "3d"
    CURVATURE = "curvature"
    ALL = "all"


def paper(
    experiment: Annotated[Experiment, typer.Argument(help="2d, 3d, curvature, or all of them.", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for lines, tables, figures and the page.")
    ] = Path("paper"),
    quick: Annotated[bool, typer.Option("--quick", help="Small pictures and few kernels: minutes, not hours.")] = False,
    serial: Annotated[
        Path | None,
        typer.Option(
            help="Script that runs a serial graph cut to compare with: benchmarks/serial_cut.py of dope's sources. "
            "Without it the columns of relative time stay blank.",
            show_default=False,
        ),
    ] = None,
    cases: Annotated[
        str | None,
        typer.Option(help="Only photographs, structures or drawings whose name holds one of these, by commas."),
    ] = None,
    kernels: Annotated[str | None, typer.Option(help="Only these kernels, by commas; of 2d and 3d.")] = None,
    methods: Annotated[
        str | None, typer.Option(help=f"Only these of {','.join(METHODS)}; exact is always run.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Threads; by default one per core.")] = None,
    draw: Annotated[
        bool, typer.Option("--draw", help="Draw what is there, and run nothing but what pictures lack labels of.")
    ] = False,
) -> None:
    """Run the paper's experiments anew, and put tables, figures and a page into a folder.

    Data come from the folder that DOPE_DATA names, or from what is packaged. Every run is a line in the folder; a
    command that was broken off goes on where it was.
    """
    peer = None if serial is None else SerialPeer(serial)
    threads = Threads(workers)
    console = progress_console()
    say = partial(tell, console)
    chosen = _chosen_methods(methods, peer)
    if experiment is Experiment.CURVATURE and (kernels or methods or serial):
        raise InputError("--kernels, --methods and --serial are for 2d and 3d; curvature has one window and LSA-TR")

    def cut(make: Callable[..., Study]) -> None:
        study = make(quick=quick)
        if not study.cases:
            raise MissingDataError(NO_SCAN)
        study = _restricted(study, cases, kernels)
        if (data := folder()) is not None and study.name == "2d" and not (data / "photos").is_dir():
            say(f"2d: {data} holds no photos, the packaged photograph is taken")
        bench = Bench.at(study, output, threads, serial=peer)
        _run(bench, list(study.cells(chosen)), _told, console)

    def drawn() -> None:
        study = ink(quick=quick)
        study = replace(study, cases=_chosen(study.cases, cases))
        _run(InkBench.at(study, output, threads), list(study.cells()), ink_told, console)

    runs: dict[Experiment, Callable[[], None]] = {
        Experiment.PLANE: lambda: cut(plane),
        Experiment.VOLUME: lambda: cut(volume),
        Experiment.CURVATURE: drawn,
    }
    if serial is not None:
        names = [f"{name}{'-quick' * quick}" for name in (*runs, "page")]
        check_apart([Place.of(serial)], {f"--output {name}": Place.of(output / name) for name in names})
    _ready(output, draw=draw)
    failed: InputError | None = None
    for name in [] if draw else runs if experiment is Experiment.ALL else [experiment]:
        try:
            runs[name]()
        except InputError as error:
            if experiment is not Experiment.ALL:
                raise
            say(f"{name}: left out, {error}")
            failed = failed if isinstance(error, MissingDataError) else error
        except KeyboardInterrupt:
            say(f"{output} keeps what was run; the same command goes on from there")
            raise
    say(f"page: {write_page(output, quick=quick, say=say)}")
    if failed is not None:
        raise failed


def _chosen_methods(text: str | None, peer: SerialPeer | None) -> tuple[str, ...]:
    """The methods to run; without a peer nobody runs the serial one."""
    named = _named(text, METHODS, "methods")
    if SERIAL in named and peer is None:
        raise InputError("--methods serial: expected --serial too, the script that runs a serial graph cut")
    return tuple(method for method in named or METHODS if method != SERIAL or peer is not None)


def _ready(output: Path, *, draw: bool) -> None:
    """Refuse now what would fail after hours: a folder that cannot be written to, no matplotlib for the figures."""
    if draw and not output.is_dir():
        raise InputError(f"{output}: no such folder; expected one in which runs were kept")
    try:
        output.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=output):
            pass
    except OSError as error:
        raise InputError(f"cannot write to {output}: {(error.strerror or str(error)).lower()}") from error
    new_figure((1, 1))


def _restricted(study: Study, cases: str | None, kernels: str | None) -> Study:
    """The part of a study that was asked for."""
    if kernels is not None:
        asked = _named(kernels, [str(kernel) for kernel in (3, 5, 7, 9)], "kernels")
        study = replace(study, kernels=tuple(int(word) for word in asked))
    return replace(study, cases=_chosen(study.cases, cases))


def _chosen(known: tuple[str, ...], cases: str | None) -> tuple[str, ...]:
    """Those whose name holds a word that was asked for."""
    if cases is None:
        return known
    words = [word.strip() for word in cases.split(",") if word.strip()]
    found = tuple(case for case in known if any(word in case for word in words))
    if not found:
        raise MissingDataError(f"--cases {cases}: no such case; there are {', '.join(known)}")
    return found


def _named(text: str | None, known: Iterable[str], option: str) -> list[str]:
    words = [] if text is None else [word.strip() for word in text.split(",") if word.strip()]
    unknown = [word for word in words if word not in known]
    if unknown or (text is not None and not words):
        raise InputError(f"--{option}: {', '.join(unknown) or 'nothing'}; expected some of {', '.join(known)}")
    return words


def _run(bench: Workbench[CellT], cells: Sequence[CellT], told: Callable[[Record], str], console: Console) -> None:
    left = bench.left(cells)
    tell(console, f"{bench.study.name}: {len(cells) - len(left)} of {len(cells)} runs are there, {len(left)} to go")
    with bench.ledger.alone(), _progress(console) as progress:
        task = progress.add_task(bench.study.name, total=len(left))
        for cell in left:
            progress.update(task, description=printable(str(cell)))
            begun = time.perf_counter()
            record = bench.run(cell)
            tell(console, f"{cell}: {told(record)} ({time.perf_counter() - begun:.0f} s)")
            progress.advance(task)


def _progress(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _told(record: Record) -> str:
    """A run in one line."""
    if record.get("skipped"):
        return f"left out: {record['skipped']}"
    if record["method"] in ("exact", "serial"):
        return f"{record['seconds']:.2f} s"
    first = record["rounds"][0]
    return (
        f"dE {first['delta_percent']:.4f} % after a round, {record['delta_percent']:.4f} % after "
        f"{len(record['rounds'])}, Dice {record['dice']:.4f}, {record['seconds']:.2f} s"
    )
