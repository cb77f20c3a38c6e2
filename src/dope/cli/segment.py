"""`dope segment`: an image or volume in, a mask out, and whatever else is asked for."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from dope.cli.exits import CANCELLED, STOPPED_EARLY, Cancel, Watch, exit_codes
from dope.cli.job import Inputs, Job
from dope.cli.methods import MethodName, ModelName
from dope.cli.progress import Counted, at_work
from dope.cli.record import command, summary_of, trace_of, versions, write_record
from dope.cli.tables import bound_in_words, duration, print_rows
from dope.errors import InputError
from dope.executors import Threads
from dope.io import check_writable, describe, save_labels, write_image, write_text
from dope.memory import as_bytes, as_text, peak_bytes
from dope.planning import Plan
from dope.report import Run, overlay, page, slices
from dope.result import Result
from dope.segmentation import segment as segmented


def segment(
    image: Annotated[str, typer.Argument(help="PNG, JPEG, TIFF, NPY, NPZ, NIfTI, Zarr or OME-Zarr.")],
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Where the mask goes; its suffix says the format.")
    ] = None,
    scribbles: Annotated[
        str | None, typer.Option(help="Strokes: JSON, or a label image of 0 none, 1 foreground, 2 background.")
    ] = None,
    probability: Annotated[str | None, typer.Option(help="Map of the probability of foreground, 0 to 1.")] = None,
    mask: Annotated[str | None, typer.Option(help="Region of interest: sites that are 0 in it are left out.")] = None,
    rectangle: Annotated[
        str | None, typer.Option(help="Box around the object, start:stop of rows and columns: 10:200,30:400.")
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="Look only at the strokes' bounding box, larger by this fraction.")
    ] = None,
    lam: Annotated[float | None, typer.Option(help="Smoothing; by default it follows from the kernel.")] = None,
    kernel: Annotated[int, typer.Option(help="Side of the neighbourhood, odd: 3, 5, 7, 9, ...")] = 3,
    beta: Annotated[float | None, typer.Option(help="Sharpness of edges; by default from the mean contrast.")] = None,
    spacing: Annotated[
        str | None, typer.Option(help="Size of a site along each axis, such as 3,1,1; by default the file's.")
    ] = None,
    model: Annotated[ModelName | None, typer.Option(help="How colours become costs.", show_default=False)] = None,
    rounds: Annotated[
        int | None, typer.Option(help="How often colours are estimated again; by default 5 with --rectangle, else 0.")
    ] = None,
    connected: Annotated[
        bool, typer.Option("--connected", help="Keep only what hangs together with a stroke.")
    ] = False,
    blocks: Annotated[int | None, typer.Option(help="Number of blocks; by default it follows from the size.")] = None,
    overlap: Annotated[float, typer.Option(help="How much each block's side grows, as a fraction.")] = 0.0,
    method: Annotated[
        MethodName | None,
        typer.Option(help="How blocks agree; by default exact, or admm where blocks overlap.", show_default=False),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(help="Be content when the energy is proved to be so close to the minimum: 1e-5.")
    ] = 0.0,
    workers: Annotated[int | None, typer.Option(help="Threads; by default one per core.")] = None,
    memory: Annotated[
        str | None, typer.Option(help="Refuse what takes more, such as 16GB; by default what is available.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Stop after the round in which so much time has passed: exit code 3.")
    ] = None,
    json_: Annotated[str | None, typer.Option("--json", help="Write settings, results and trace here.")] = None,
    report: Annotated[str | None, typer.Option(help="Write an HTML page about the run here.")] = None,
    overlay_: Annotated[str | None, typer.Option("--overlay", help="Write a picture of the result here (PNG).")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")] = False,
    save_on_cancel: Annotated[
        bool, typer.Option("--save-on-cancel", help="On Ctrl-C, write the best mask so far.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would take, and compute nothing.")] = False,
) -> None:
    """Segment an image or volume from strokes, a probability map or a rectangle.

    Examples: dope segment photo.jpg --scribbles strokes.json -o mask.png --overlay overlay.png

    dope segment t1.nii.gz --probability wm.nii.gz -o seg.nii.gz --kernel 5
    """
    with exit_codes():
        job = Job(
            image=image, scribbles=scribbles, probability=probability, mask=mask, rectangle=rectangle, margin=margin,
            lam=lam, kernel=kernel, beta=beta, spacing=_numbers(spacing), model=model, rounds=rounds,
            connected=connected, blocks=blocks, overlap=overlap, method=method, tolerance=tolerance, workers=workers,
            memory=memory,
        )  # fmt: skip
        if seconds is not None and not seconds > 0:
            raise InputError(f"--seconds is {seconds}; expected a number above 0.")
        outputs = Outputs(output, json_, report, overlay_, overwrite, save_on_cancel)
        if dry_run:
            _print_plan(job)
        else:
            outputs.check(job)
            raise typer.Exit(_run(job, outputs, seconds))


@dataclass(frozen=True)
class Outputs:
    """Files to write."""

    mask: str | None
    json: str | None
    report: str | None
    overlay: str | None
    overwrite: bool
    save_on_cancel: bool

    def check(self, job: Job) -> None:
        """Everything that can be known before there is something to write."""
        if self.mask is None:
            raise InputError("no output is named; say where the mask goes, such as -o mask.png")
        check_writable(self.mask, overwrite=self.overwrite)
        if self.overlay is not None and Path(self.overlay).suffix.lower() not in (".png", ".jpg", ".jpeg"):
            raise InputError(f"--overlay is {self.overlay}; expected a picture, ending in .png or .jpg")
        named = [name for name in (self.mask, self.json, self.report, self.overlay) if name is not None]
        if len(set(named)) < len(named):
            raise InputError(f"the same file is named for two outputs: {' '.join(named)}")
        for path in map(Path, named):
            for read in map(Path, job.files):
                if path.exists() and read.exists() and path.samefile(read):
                    raise InputError(f"{path} is read; expected another name for what is written.")
        for other in (self.json, self.report, self.overlay):
            if other is not None:
                check_writable(other, overwrite=self.overwrite, any_suffix=True)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """What can be known when the image has been opened."""
        assert self.mask is not None
        check_writable(self.mask, overwrite=self.overwrite, shape=shape)
        if self.overlay is not None and len(shape) not in (2, 3):
            raise InputError(f"--overlay of {len(shape)} dimensions; expected an image or a volume. Leave it out.")


@dataclass(frozen=True, eq=False)
class _Outcome:
    job: Job
    inputs: Inputs
    result: Result
    seconds: float
    late: bool

    @property
    def stopped(self) -> str:
        return "time limit" if self.late and self.result.stopped == "cancelled" else self.result.stopped

    @property
    def summary(self) -> dict[str, Any]:
        return summary_of(self.result, self.stopped, self.seconds)

    @property
    def settings(self) -> dict[str, Any]:
        """With what was chosen in place of what was left open."""
        energy, result = self.result.problem, self.result
        assert energy is not None
        pairs: Any = energy.pairs
        spacing = self.inputs.spacing
        size = np.ones(len(energy.shape)) if spacing is None else np.array(spacing)
        chosen = {
            "lam": self.job.lam
            if self.job.lam is not None
            else pairs.factors[0] * np.linalg.norm(pairs.offsets[0] * size),
            "beta": pairs.beta,
            "blocks": len(result.partition.blocks),
            "spacing": spacing,
            "workers": Threads(self.job.workers).workers,
        }
        return {**self.job.to_json(), **chosen}


def _run(job: Job, outputs: Outputs, seconds: float | None) -> int:
    begun = time.perf_counter()
    console = Console(stderr=True)
    budget = None if job.memory is None else as_bytes(job.memory)
    with Cancel() as cancel:
        with at_work(console, f"reading {job.image}"):
            inputs = Inputs.of(job, budget)
            outputs.check_shape(inputs.image.shape)
        with at_work(console, "minimizing") as show:
            watch = Watch(cancel, show, None if seconds is None else begun + seconds)
            result = segmented(
                inputs.pixels,
                **inputs.arrays,
                **job.model_settings,
                blocks=job.blocks,
                overlap=job.overlap,
                method=job.chosen_method(),
                executor=Counted(Threads(job.workers), show.done),
                watch=watch,
            )
        outcome = _Outcome(job, inputs, result, time.perf_counter() - begun, watch.late)
        if cancel.asked and not outputs.save_on_cancel:
            print("dope: cancelled, nothing was written; --save-on-cancel writes the best mask so far", file=sys.stderr)
            return CANCELLED
        with at_work(console, "writing"):
            _write(outcome, outputs)
    print_rows(_rows(outcome, outputs))
    if cancel.asked:
        return CANCELLED
    return STOPPED_EARLY if watch.late and result.stopped == "cancelled" else 0


def _write(outcome: _Outcome, outputs: Outputs) -> None:
    """The mask last: who sees it has everything."""
    inputs, labels = outcome.inputs, np.asarray(outcome.result.labels)
    if outputs.overlay is not None:
        write_image(outputs.overlay, _picture(inputs, labels))
    if outputs.report is not None:
        write_text(outputs.report, page(_page(outcome)))
    if outputs.json is not None:
        write_record(outputs.json, _record(outcome))
    assert outputs.mask is not None
    save_labels(outputs.mask, labels, like=inputs.image, overwrite=outputs.overwrite)


def _picture(inputs: Inputs, labels: Any) -> Any:
    if labels.ndim == 3:
        channels = len(inputs.pixels.shape) > 3
        return slices(inputs.pixels, labels, inputs.seeds, spacing=inputs.spacing, channels=channels)
    return overlay(inputs.pixels, labels, inputs.seeds)


def _page(outcome: _Outcome) -> Run:
    inputs, result = outcome.inputs, outcome.result
    assert result.where is not None
    places = [block.where for block in result.partition.blocks if isinstance(block.where, tuple)]
    moved = [
        tuple(slice(s.start + w.start, s.stop + w.start) for s, w in zip(place, result.where, strict=True))
        for place in places
    ]
    labels = np.asarray(result.labels)
    return Run(
        title=Path(outcome.job.image).name,
        image=np.asarray(inputs.pixels),
        channels=len(inputs.pixels.shape) > labels.ndim,
        labels=labels,
        seeds=inputs.seeds,
        mask=inputs.mask,
        blocks=moved,
        trace=result.trace,
        summary=outcome.summary,
        settings=outcome.settings,
        versions=versions(),
        command=command(),
        spacing=inputs.spacing,
    )


def _record(outcome: _Outcome) -> dict[str, Any]:
    return {
        "job": outcome.job.to_json(),
        "settings": outcome.settings,
        "result": outcome.summary,
        "trace": trace_of(outcome.result),
        "versions": versions(),
        "command": command(),
    }


def _rows(outcome: _Outcome, outputs: Outputs) -> dict[str, str]:
    result, peak = outcome.result, peak_bytes()
    labels = np.asarray(result.labels)
    rows = {
        "sites": f"{labels.size:,} ({' x '.join(map(str, labels.shape))})",
        "blocks": str(len(result.partition.blocks)),
        "rounds": f"{len(result.trace)}, stopped: {outcome.stopped}",
        "energy": f"{result.energy:,.1f}",
        "lower bound": bound_in_words(result),
        "foreground": f"{labels.mean():.2%}",
        "seconds": f"{outcome.seconds:.1f}",
        "peak memory": "-" if peak is None else as_text(peak),
    }
    written = [name for name in (outputs.mask, outputs.overlay, outputs.report, outputs.json) if name is not None]
    return {**rows, "written": ", ".join(written)}


def _numbers(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--spacing is {text!r}; expected numbers with commas between them, such as 3,1,1.") from None


def _print_plan(job: Job) -> None:
    found = describe(job.image)
    itemsize = np.dtype(found.dtype).itemsize
    pixel_bytes = max(1, found.channels) * itemsize
    workers = Threads(job.workers).workers
    plan = Plan.of(found.shape, kernel=job.kernel, pixel_bytes=pixel_bytes, blocks=job.blocks, workers=workers)
    print_rows(plan_rows(plan))
    print("\nnothing was computed (--dry-run)")


def plan_rows(plan: Plan) -> dict[str, str]:
    return {
        "sites": f"{plan.sites:,} ({' x '.join(map(str, plan.shape))})",
        "pairs": f"{plan.pairs:,} ({plan.neighbors} neighbours)",
        "blocks": f"{plan.blocks:,} ({' x '.join(map(str, plan.layout))}), each up to "
        f"{' x '.join(map(str, plan.block_shape))}",
        "memory, all in one process": as_text(plan.bytes),
        "memory of a block at work": as_text(plan.block_bytes),
        "bytes per round": f"{as_text(plan.round_bytes)} ({plan.coupled_sites:,} sites near seams)",
        "time, estimated": f"about {duration(plan.seconds())} with {plan.workers} workers",
    }
