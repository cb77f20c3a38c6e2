"""`dope segment`: an image or volume in, a mask out, and whatever else is asked for."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dope.cli.mask_outputs import Outputs
from dope.cli.methods import MethodName, ModelName
from dope.cli.segmenting import print_plan, run
from dope.errors import InputError
from dope.segmentation import Segmentation

# Settings whose options have other names.
_OPTIONS = {"classes": "class_names"}
# What an option of a new run replaces in the run that it repeats, beside what has its own name.
_REPLACED = {
    "method": ["tolerance"],
    "workers": ["dask", "executor"],
    "dask": ["workers", "executor"],
    "probability": ["unary", "rectangle", "lasso", "model"],
    "rectangle": ["probability", "unary", "lasso"],
}


def segment(
    context: typer.Context,
    image: Annotated[
        str | None,
        typer.Argument(
            help="PNG, JPEG, TIFF, NPY, NPZ, NIfTI, Zarr or OME-Zarr; with --from, by default that of the report."
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Where the mask goes; its suffix says the format.")
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", help="Repeat the run of this report (--json); options replace what it says."),
    ] = None,
    scribbles: Annotated[
        str | None,
        typer.Option(
            help="Strokes: JSON, or a label image of 0 none, 1 foreground, 2 background; of several classes, their "
            "numbers, and negative ones where sites take no part."
        ),
    ] = None,
    probability: Annotated[
        str | None,
        typer.Option(help="Map of the probability of foreground, 0 to 1; or of several classes, on an axis more."),
    ] = None,
    class_names: Annotated[
        str | None,
        typer.Option(help="Several classes by name, a,b,c: 1, 2, 3 in scribbles, 0, 1, 2 in a probability map."),
    ] = None,
    label_axis: Annotated[
        int | None, typer.Option(help="Which axis of the probability map is classes, where its shape does not say.")
    ] = None,
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
    connected: Annotated[bool, typer.Option("--connected", help="Keep only what is connected to a stroke.")] = False,
    blocks: Annotated[int | None, typer.Option(help="Number of blocks; by default it follows from the size.")] = None,
    overlap: Annotated[float, typer.Option(help="How much each block's side grows, as a fraction.")] = 0.0,
    method: Annotated[
        MethodName | None,
        typer.Option(help="How blocks agree; by default exact, or admm where blocks overlap.", show_default=False),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(help="Stop when the energy is proved to be so close to the minimum: 1e-5.")
    ] = 0.0,
    workers: Annotated[int | None, typer.Option(help="Threads; by default one per core.")] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="What it may take, such as 16GB; by default what is available. An image that takes more is read and "
            "solved box by box."
        ),
    ] = None,
    dask: Annotated[
        str | None, typer.Option(help="Run blocks on a Dask cluster: its address, or local:4 for 4 processes here.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Keep what blocks find in this new or empty folder, for --resume.")
    ] = None,
    resume: Annotated[str | None, typer.Option(help="Go on from the --checkpoint folder of a broken run.")] = None,
    certificate: Annotated[
        str | None, typer.Option(help="Put what proves the bound into this new or empty folder, for dope verify.")
    ] = None,
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

    The labels are foreground and background, or several classes.

    Examples: dope segment photo.jpg --scribbles strokes.json -o mask.png --overlay overlay.png

    dope segment t1.nii.gz --probability wm.nii.gz -o seg.nii.gz --kernel 5

    dope segment ct.nii.gz --scribbles organs.nii.gz --class-names liver,spleen,rest -o labels.nii.gz
    """
    options = {
        "image": image, "scribbles": scribbles, "probability": probability, "mask": mask, "rectangle": rectangle,
        "margin": margin, "lam": lam, "kernel": kernel, "beta": beta, "spacing": _numbers(spacing), "model": model,
        "rounds": rounds, "connected": connected, "blocks": blocks, "overlap": overlap, "method": method,
        "tolerance": tolerance, "workers": workers, "memory": memory, "dask": dask,
        "classes": None if class_names is None else [name.strip() for name in class_names.split(",")],
        "label_axis": label_axis,
    }  # fmt: skip
    if from_ is not None:
        given = {name: value for name, value in options.items() if _is_given(context, _OPTIONS.get(name, name))}
        options = _repeated(from_, given)
    elif image is None:
        raise InputError("no image is named; give its path, or the report of a run to repeat (--from).")
    said = Segmentation.from_json(options)
    if seconds is not None and not seconds > 0:
        raise InputError(f"--seconds is {seconds}; expected a number above 0.")
    outputs = Outputs(
        output, json_, report, overlay_, overwrite, save_on_cancel, checkpoint, resume, trace, certificate
    )
    if dry_run:
        print_plan(said, outputs)
    else:
        outputs.check(said.paths)
        raise typer.Exit(run(said, outputs, seconds))


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _repeated(report: str, given: dict[str, Any]) -> dict[str, Any]:
    """What a report says, but for what is given."""
    replaced = {*given, *(name for one in given for name in _REPLACED.get(one, ()))}
    before = Segmentation.from_json(report).to_json()
    return {**{name: value for name, value in before.items() if name not in replaced}, **given}


def _numbers(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"spacing is {text!r}; expected numbers with commas between them, such as 3,1,1.") from None
