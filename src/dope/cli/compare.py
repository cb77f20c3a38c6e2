"""`dope compare`: how much two masks have in common, and what the difference costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from dope.cli.tables import print_rows
from dope.energy import Energy
from dope.errors import InputError
from dope.io import load
from dope.segmentation import Segmentation


def compare(
    a: Annotated[str, typer.Argument(help="A mask: sites that are not 0 are foreground.")],
    b: Annotated[str, typer.Argument(help="Another one, of the same shape; the reference for Delta E.")],
    run: Annotated[Path | None, typer.Option(help="Report of dope segment --json: its energy gives Delta E.")] = None,
    image: Annotated[str | None, typer.Option(help="Instead: the image ...")] = None,
    scribbles: Annotated[str | None, typer.Option(help="... and its strokes ...")] = None,
    probability: Annotated[str | None, typer.Option(help="... or its probability map.")] = None,
    kernel: Annotated[int, typer.Option(help="As in dope segment.")] = 3,
    lam: Annotated[float | None, typer.Option(help="As in dope segment.")] = None,
) -> None:
    """Compare two masks: Dice, differing sites and, with an energy, Delta E = 100 (E(A) - E(B)) / |E(B)| %."""
    said = None
    if run is not None and image is not None:
        raise InputError("both --run and --image are given; expected one of them.")
    if run is not None:
        said = Segmentation.from_json(run)
    elif image is not None:
        weight: Any = "auto" if lam is None else lam
        said = Segmentation(image=image, scribbles=scribbles, probability=probability, kernel=kernel, lam=weight)
    ours, theirs = _labels(a), _labels(b)
    if ours.shape != theirs.shape:
        raise InputError(f"{a} is shaped {ours.shape} and {b} {theirs.shape}; expected the same shape.")
    differing = int((ours != theirs).sum())
    rows = {
        "sites": f"{ours.size:,}",
        "foreground": f"{int(ours.sum()):,} and {int(theirs.sum()):,}",
        "differing": f"{differing:,} ({differing / ours.size:.4%})",
        "Dice": f"{_dice(ours, theirs):.6f}",
    }
    if said is not None:
        rows |= _energies(said, ours, theirs)
    print_rows(rows)


def _labels(path: str) -> npt.NDArray[np.bool_]:
    found = load(path)
    inside = np.asarray(found.pixels) != 0
    return np.asarray(inside.any(axis=-1) if found.channels else inside)


def _dice(one: npt.NDArray[np.bool_], other: npt.NDArray[np.bool_]) -> float:
    total = int(one.sum()) + int(other.sum())
    return 2 * int((one & other).sum()) / total if total else 1.0


def _energies(said: Segmentation, ours: npt.NDArray[np.bool_], theirs: npt.NDArray[np.bool_]) -> dict[str, str]:
    # How it was minimized does not matter here, and a cluster need not be there any more.
    said = replace(said, blocks=None, overlap=None, method=None, solver=None, executor=None)
    if said.shape != ours.shape:
        raise InputError(f"the masks are shaped {ours.shape} and {said.image} {said.shape}; expected the same.")
    energy, where = said.energy()
    one, other = (_energy(energy, labels[where]) for labels in (ours, theirs))
    change = 100 * (one - other) / (abs(other) or 1.0)
    return {"E(A)": f"{one:,.10g}", "E(B)": f"{other:,.10g}", "Delta E": f"{change:+.6g} %"}


def _energy(energy: Energy, labels: npt.NDArray[np.bool_]) -> float:
    return energy(np.ascontiguousarray(labels))
