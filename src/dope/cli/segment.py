"""`dope segment`: an image or volume in, a mask out, and whatever else is asked for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dope.cli.exits import CANCELLED, Cancel, Watch, exit_code
from dope.cli.job import Inputs, Job
from dope.cli.methods import MethodName, ModelName
from dope.cli.outputs import SideOutputs
from dope.cli.progress import Counted, at_work
from dope.cli.record import command, summary_of, trace_of, versions, write_record
from dope.cli.screen import complain, progress_console, say
from dope.cli.tables import bound_in_words, duration, print_rows
from dope.cli.trace import TraceFile
from dope.durable import scratch_folder
from dope.errors import InputError
from dope.executors import Threads
from dope.io import (
    Description,
    LabelTarget,
    check_writable,
    describe,
    open_labels,
    save_labels,
    stored,
    write_image,
    write_text,
)
from dope.io.images.formats import input_place, labels_place
from dope.io.places import Place, check_apart
from dope.lazy import LazyEnergy
from dope.memory import as_text, available_bytes, budget_of, peak_bytes
from dope.planning import Plan
from dope.protocols import Step
from dope.report import Run, overlay, page, slices
from dope.result import Result
from dope.segmentation import segment as segmented
from dope.segmentation.budget import require_box, require_strokes, segmentation_bytes

# Sites of a volume that pictures are drawn of, where it is read box by box.
MOST_SEEN = 1 << 26


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
        str | None,
        typer.Option(
            help="What it may take, such as 16GB; by default what is available. More is read box by box, with "
            "--probability, or refused."
        ),
    ] = None,
    dask: Annotated[
        str | None, typer.Option(help="Run blocks on a Dask cluster: its address, or local:4 for 4 processes here.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Keep what blocks find in this new or empty folder, for --resume.")
    ] = None,
    resume: Annotated[str | None, typer.Option(help="Go on from the --checkpoint folder of a broken run.")] = None,
    trace: Annotated[str | None, typer.Option(help="Write a line of JSON per round here, as it ends.")] = None,
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
    job = Job(
        image=image, scribbles=scribbles, probability=probability, mask=mask, rectangle=rectangle, margin=margin,
        lam=lam, kernel=kernel, beta=beta, spacing=_numbers(spacing), model=model, rounds=rounds,
        connected=connected, blocks=blocks, overlap=overlap, method=method, tolerance=tolerance, workers=workers,
        memory=memory, dask=dask,
    )  # fmt: skip
    if seconds is not None and not seconds > 0:
        raise InputError(f"--seconds is {seconds}; expected a number above 0.")
    outputs = Outputs(output, json_, report, overlay_, overwrite, save_on_cancel, checkpoint, resume, trace)
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
    checkpoint: str | None = None
    resume: str | None = None
    trace: str | None = None

    @property
    def kept(self) -> dict[str, str | None]:
        return {"checkpoint": self.checkpoint, "resume": self.resume}

    @property
    def side(self) -> dict[str, str]:
        """Files beside the mask, by their options."""
        named = {"--overlay": self.overlay, "--report": self.report, "--json": self.json, "--trace": self.trace}
        return {option: name for option, name in named.items() if name is not None}

    @property
    def places(self) -> dict[str, Place]:
        """Everything that is written to, by its option."""
        assert self.mask is not None
        folder = {"--checkpoint": self.checkpoint} if self.resume is None else {"--resume": self.resume}
        others = {**self.side, **{option: name for option, name in folder.items() if name is not None}}
        return {"--output": labels_place(self.mask), **{option: Place.of(name) for option, name in others.items()}}

    def check(self, job: Job) -> None:
        """Everything that can be known before there is something to write."""
        if self.mask is None:
            raise InputError("no output is named; say where the mask goes, such as -o mask.png")
        if self.overlay is not None and Path(self.overlay).suffix.lower() not in (".png", ".jpg", ".jpeg"):
            raise InputError(f"--overlay is {self.overlay}; expected a picture, ending in .png or .jpg")
        check_apart(map(input_place, job.files), self.places)
        check_writable(self.mask, overwrite=self.overwrite)
        for name in self.side.values():
            check_writable(name, overwrite=self.overwrite, any_suffix=True)

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
            "beta": energy.beta if isinstance(energy, LazyEnergy) else pairs.beta,
            "blocks": len(result.partition.blocks),
            "spacing": spacing,
            "workers": Threads(self.job.workers).workers if self.job.dask is None else None,
        }
        return {**self.job.to_json(), **chosen}


def _run(job: Job, outputs: Outputs, seconds: float | None) -> int:
    begun = time.perf_counter()
    console = progress_console()
    budget = budget_of(job.memory)
    found = describe(job.image)
    boxes = _in_boxes(job, outputs, found, budget)
    _require_memory(job, found, budget, boxes=boxes)
    assert outputs.mask is not None
    with ExitStack() as stack:
        cancel = stack.enter_context(Cancel())
        with at_work(console, f"reading {job.image}"):
            scratch = None if not boxes else stack.enter_context(_scratch(outputs.mask))
            inputs = Inputs.of(job, budget, scratch)
            outputs.check_shape(inputs.image.shape)
        target: LabelTarget | None = None
        kept: dict[str, Any] = {}
        if boxes:
            target = open_labels(outputs.mask, inputs.image.shape, like=inputs.image, overwrite=outputs.overwrite)
            kept = {**outputs.kept, "out": stack.enter_context(target)}
        executor = stack.enter_context(_closing(job.executor()))
        trace = stack.enter_context(TraceFile(outputs.trace, overwrite=outputs.overwrite))
        with at_work(console, "minimizing") as show:
            watch = Watch(cancel, _Both(trace, show), None if seconds is None else begun + seconds)
            result = segmented(
                inputs.pixels,
                **inputs.arrays,
                **job.model_settings,
                blocks=job.blocks,
                overlap=job.overlap,
                method=job.chosen_method(),
                executor=Counted(executor, show.done),
                watch=watch,
                **kept,
            )
        outcome = _Outcome(job, inputs, result, time.perf_counter() - begun, watch.late)
        if cancel.asked and not outputs.save_on_cancel:
            if target is not None:
                target.abandon()
            complain("cancelled, nothing was written; --save-on-cancel writes the best mask so far")
            return CANCELLED
        with at_work(console, "writing"):
            # The mask first: whatever becomes of the others, it is there.
            _write_mask(outcome, outputs)
            side = _write_others(outcome, outputs, trace, scratch)
        print_rows(_rows(outcome, [outputs.mask, *side.written]))
    early = result.stopped == "undecided" or (watch.late and result.stopped == "cancelled")
    return exit_code(cancelled=cancel.asked, incomplete=side.failed, early=early)


@dataclass(frozen=True, eq=False)
class _Both:
    """Two who look at the steps."""

    first: Callable[[Step], object]
    second: Callable[[Step], object]

    def __call__(self, step: Step) -> None:
        self.first(step)
        self.second(step)


def _in_boxes(job: Job, outputs: Outputs, found: Description, budget: int | None) -> bool:
    """Whether arrays are to stay in their files: where that is asked for, or a map is too large for memory."""
    if job.dask is not None or outputs.checkpoint is not None or outputs.resume is not None:
        return True
    if job.probability is None:
        return False
    limit = available_bytes() if budget is None else budget
    needed = segmentation_bytes(found.shape, kernel=job.kernel, pixel_bytes=_pixel_bytes(found))
    return limit is not None and needed > limit


def _require_memory(job: Job, found: Description, budget: int | None, *, boxes: bool) -> None:
    """Refuse what does not fit before strokes are drawn and pixels read; `segmented` looks at the box that is left."""
    if job.scribbles is not None or job.rectangle is not None or job.mask is not None:
        require_strokes(found.shape, budget)
    if not boxes and job.mask is None and job.margin is None:
        require_box(
            found.shape,
            budget,
            kernel=job.kernel,
            pixel_bytes=_pixel_bytes(found),
            blocks=job.blocks,
            reestimated=job.reestimated,
        )


def _pixel_bytes(found: Description) -> int:
    return max(1, found.channels) * np.dtype(found.dtype).itemsize


def _scratch(mask: str) -> AbstractContextManager[Path]:
    """A folder beside the output, which workers of a cluster see if they see that. Its name is nobody else's."""
    parents = Path(mask).resolve().parents
    nearest = next(parent for parent in parents if parent.is_dir())
    return scratch_folder(nearest)


@contextmanager
def _closing(executor: Any) -> Iterator[Any]:
    """Ends a cluster that was started for this run."""
    try:
        yield executor
    finally:
        if hasattr(executor, "close"):
            executor.close()


def _write_mask(outcome: _Outcome, outputs: Outputs) -> None:
    labels: Any = outcome.result.labels
    assert outputs.mask is not None
    if isinstance(labels, LabelTarget):  # where labels are already
        labels.commit()
    else:
        save_labels(outputs.mask, np.asarray(labels), like=outcome.inputs.image, overwrite=outputs.overwrite)


def _write_others(outcome: _Outcome, outputs: Outputs, trace: TraceFile, scratch: Path | None) -> SideOutputs:
    """What is asked for beside the mask, which is in its file by now."""
    side, overwrite = SideOutputs(), outputs.overwrite
    seen = cache(lambda: _Seen.of(outcome, _written_labels(outcome, outputs, scratch)))
    if outputs.trace is not None:
        with side.alone(outputs.trace):
            trace.finish()
    if outputs.json is not None:
        with side.alone(outputs.json):
            write_record(outputs.json, _record(outcome), overwrite=overwrite)
    if outputs.overlay is not None:
        with side.alone(outputs.overlay):
            write_image(outputs.overlay, _picture(seen()), overwrite=overwrite)
    if outputs.report is not None:
        with side.alone(outputs.report):
            write_text(outputs.report, page(_page(outcome, seen())), overwrite=overwrite)
    return side


def _written_labels(outcome: _Outcome, outputs: Outputs, scratch: Path | None) -> Any:
    """Labels to draw; of those that were written box by box, what is in the file."""
    if scratch is None:
        return outcome.result.labels
    assert outputs.mask is not None
    return stored(outputs.mask, scratch).pixels


@dataclass(frozen=True, eq=False)
class _Seen:
    """What pictures are drawn of: of a volume that does not fit, every n-th site along each axis."""

    pixels: Any
    labels: Any
    seeds: Any
    mask: Any
    spacing: tuple[float, ...] | None
    every: int

    @classmethod
    def of(cls, outcome: _Outcome, labels: Any) -> _Seen:
        inputs = outcome.inputs
        every = math.ceil((math.prod(labels.shape) / MOST_SEEN) ** (1 / len(labels.shape)))
        if isinstance(labels, np.ndarray):
            every = 1
        mask = inputs.mask
        seen = None if mask is None else np.asarray(every_nth(mask, every, len(labels.shape))) != 0
        return cls(
            pixels=every_nth(inputs.pixels, every, len(labels.shape)),
            labels=every_nth(labels, every, len(labels.shape)) != 0,
            seeds=None if inputs.seeds is None else every_nth(inputs.seeds, every, len(labels.shape)),
            mask=seen,
            spacing=inputs.spacing,
            every=every,
        )


def every_nth(array: Any, every: int, dimensions: int) -> Any:
    """Every n-th site along each axis of sites, read plane by plane."""
    if every == 1:
        return np.asarray(array[...])
    rest = (slice(None, None, every),) * (dimensions - 1)
    planes = [np.asarray(array[z : z + 1])[(slice(None), *rest)] for z in range(0, array.shape[0], every)]
    return np.concatenate(planes)


def _picture(seen: _Seen) -> Any:
    if seen.labels.ndim == 3:
        channels = len(seen.pixels.shape) > 3
        return slices(seen.pixels, seen.labels, seen.seeds, spacing=seen.spacing, channels=channels)
    return overlay(seen.pixels, seen.labels, seen.seeds)


def _page(outcome: _Outcome, seen: _Seen) -> Run:
    result = outcome.result
    assert result.where is not None
    places = [block.where for block in result.partition.blocks if isinstance(block.where, tuple)]
    moved = [
        tuple(
            slice((s.start + w.start) // seen.every, -(-(s.stop + w.start) // seen.every))
            for s, w in zip(place, result.where, strict=True)
        )
        for place in places
    ]
    settings = outcome.settings
    return Run(
        title=Path(outcome.job.image).name,
        image=seen.pixels,
        channels=len(seen.pixels.shape) > seen.labels.ndim,
        labels=seen.labels,
        seeds=seen.seeds,
        mask=seen.mask,
        blocks=moved,
        trace=result.trace,
        summary=outcome.summary,
        settings=settings if seen.every == 1 else {**settings, "pictures show every n-th site": seen.every},
        versions=versions(),
        command=command(),
        spacing=seen.spacing,
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


def _rows(outcome: _Outcome, written: Sequence[str]) -> dict[str, str]:
    result, peak = outcome.result, peak_bytes()
    shape = result.labels.shape
    rows = {
        "sites": f"{math.prod(shape):,} ({' x '.join(map(str, shape))})",
        "blocks": str(len(result.partition.blocks)),
        "rounds": f"{len(result.trace)}, stopped: {outcome.stopped}",
        "energy": f"{result.energy:,.1f}",
        "lower bound": bound_in_words(result),
        "foreground": f"{result.foreground:.2%}",
        "seconds": f"{outcome.seconds:.1f}",
        "peak memory": "-" if peak is None else as_text(peak),
    }
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
    workers = Threads(job.workers).workers
    plan = Plan.of(found.shape, kernel=job.kernel, pixel_bytes=_pixel_bytes(found), blocks=job.blocks, workers=workers)
    print_rows(plan_rows(plan))
    say()
    say("nothing was computed (--dry-run)")


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
