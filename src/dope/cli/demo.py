"""`dope demo`: the packaged photo, segmented from its packaged strokes."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dope import samples
from dope.cli.clock import Clock
from dope.cli.exits import Cancel, exit_code
from dope.cli.methods import MethodName
from dope.cli.outputs import SideOutputs
from dope.cli.progress import at_work
from dope.cli.screen import progress_console, say
from dope.cli.tables import bound_in_words, print_rows
from dope.cli.watch import Watch
from dope.durable import replacing
from dope.errors import InputError, MissingExtraError
from dope.executors import Threads
from dope.io import read_image, read_scribbles, write_image
from dope.io.images.pictures import Picture
from dope.io.images.scribbles import Scribbles
from dope.io.places import Place, check_apart
from dope.memory import peak_bytes
from dope.models import kernel_lam
from dope.names import METHODS
from dope.partition import Partition
from dope.report import block_map, convergence, overlay
from dope.result import Result
from dope.segmentation import Segmentation

MASK, OVERLAY, BLOCKS, PLOT = "mask.png", "overlay.png", "blocks.png", "convergence.png"


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the pictures.")] = Path("demo"),
    kernel: Annotated[int, typer.Option(help="Side of the square of neighbours, odd.")] = 7,
    blocks: Annotated[int | None, typer.Option(help="Number of blocks; by default it follows from the size.")] = None,
    overlap: Annotated[float, typer.Option(help="How much each block's side grows, as a fraction.")] = 0.0,
    workers: Annotated[int | None, typer.Option(help="Threads; by default one per core.")] = None,
    method: Annotated[
        MethodName | None,
        typer.Option(help="How blocks agree; by default exact, or admm where blocks overlap.", show_default=False),
    ] = None,
) -> None:
    """Segment a packaged 8-megapixel photo from packaged strokes, and write pictures of it."""
    threads = Threads(workers)
    lam = kernel_lam(kernel)
    _make_folder(output)
    clock, console = Clock(), progress_console()
    with samples.canyon_wren() as sample, Cancel() as cancel:
        given = (sample.photo, sample.scribbles)
        names = (MASK, OVERLAY, BLOCKS, PLOT, *(file.name for file in given))
        check_apart(map(Place.of, given), {name: Place.of(output / name) for name in names})
        with clock.counting("reading"), at_work(console, f"reading {sample.photo.name}"):
            image = read_image(sample.photo)
            scribbles = read_scribbles(sample.scribbles, image.shape)
            # Says what is wrong with blocks or overlap before anything is computed.
            Partition.grid(scribbles.shape, blocks if blocks is not None else 1, overlap=overlap)
        with at_work(console, "learning colours, minimizing") as show:
            way = None if method is None else METHODS[method]()
            said = Segmentation(
                image=image, scribbles=scribbles, kernel=kernel, lam=lam, blocks=blocks, overlap=overlap, method=way,
                executor=threads,
            )  # fmt: skip
            watch = Watch(cancel, show)
            result = said.run(watch=watch, tell=watch.tell)
        clock.spent["minimizing"] = result.seconds
        with clock.counting("writing"), at_work(console, "drawing"):
            run = _Run(image, scribbles, result, kernel, overlap)
            write_image(output / MASK, result.labels)  # first: whatever becomes of the others, it is there
            side = SideOutputs()
            for file in given:  # to try `dope segment` on
                with side.alone(file.name), replacing(output / file.name) as temporary:
                    shutil.copyfile(file, temporary)
            missing = _write_pictures(run, output, side)
    _print_table(run, clock)
    say()
    say(f"{', '.join([MASK, *side.written])} are in {output}")
    if missing:
        say(f"{PLOT} was not drawn: {missing}")
    raise typer.Exit(exit_code(cancelled=result.stopped == "cancelled", incomplete=side.failed, early=False))


@dataclass(frozen=True, eq=False)
class _Run:
    """What was segmented and what came out."""

    image: Picture
    scribbles: Scribbles
    result: Result
    kernel: int
    overlap: float


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {(error.strerror or str(error)).lower()}") from error


def _write_pictures(run: _Run, folder: Path, side: SideOutputs) -> str:
    """Write the pictures; what is needed for the plot when it could not be drawn."""
    labels, partition = run.result.labels, run.result.partition
    with side.alone(OVERLAY):
        write_image(folder / OVERLAY, overlay(run.image, labels, run.scribbles))
    places = [block.where for block in partition.blocks if isinstance(block.where, tuple)]
    with side.alone(BLOCKS):
        write_image(folder / BLOCKS, block_map(labels.shape, places, image=run.image, labels=labels))
    try:
        plot = convergence(run.result.trace)
    except MissingExtraError as error:
        return str(error)
    with side.alone(PLOT):
        write_image(folder / PLOT, plot)
    return ""


def _print_table(run: _Run, clock: Clock) -> None:
    result, peak = run.result, peak_bytes()
    assert result.problem is not None
    height, width = result.labels.shape
    rows = {
        "sites": f"{result.labels.size:,} ({height} x {width})",
        "pairs": f"{result.problem.pairs.number:,} ({run.kernel} x {run.kernel} kernel)",
        "blocks": f"{len(result.partition.blocks)}, overlap {run.overlap:.0%}",
        "rounds": f"{len(result.trace)}, stopped: {result.stopped}",
        "energy": f"{result.energy:,.1f}",
        "lower bound": bound_in_words(result),
        "sites proved": "-" if result.proved is None else f"{result.proved:.2%}",
        "foreground": f"{result.labels.mean():.2%}",
        "seconds": clock.in_words(),
        "peak memory": "-" if peak is None else f"{peak / 1e9:.2f} GB",
    }
    print_rows(rows)
