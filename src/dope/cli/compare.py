"""`dope compare`: how much two masks or labellings have in common, and what the difference costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dope.arrays import Labels, Mask
from dope.cli.tables import print_rows
from dope.energy import Energy
from dope.errors import InputError
from dope.io import load, load_labels
from dope.label_counts import Overlap, label_numbers
from dope.label_energy import LabelEnergy
from dope.pairs import GridPairs
from dope.segmentation import Segmentation
from dope.segmentation.classes import Classes


def compare(
    a: Annotated[str, typer.Argument(help="A mask, of which sites that are not 0 are foreground, or labels.")],
    b: Annotated[str, typer.Argument(help="Another one, of the same shape; the reference for Delta E.")],
    run: Annotated[Path | None, typer.Option(help="Report of dope segment --json: its energy gives Delta E.")] = None,
    image: Annotated[str | None, typer.Option(help="Instead: the image ...")] = None,
    scribbles: Annotated[str | None, typer.Option(help="... and its strokes ...")] = None,
    probability: Annotated[str | None, typer.Option(help="... or its probability map.")] = None,
    kernel: Annotated[int, typer.Option(help="As in dope segment.")] = 3,
    lam: Annotated[float | None, typer.Option(help="As in dope segment.")] = None,
    foreground: Annotated[bool, typer.Option("--foreground", help="All that is not 0 counts as one label.")] = False,
) -> None:
    """Compare two masks: Dice, differing sites and, with an energy, Delta E = 100 (E(A) - E(B)) / |E(B)| %.

    Of files with more than two labels there is a Dice for each.
    """
    said = None
    if run is not None and image is not None:
        raise InputError("both --run and --image are given; expected one of them.")
    if run is not None:
        said = Segmentation.from_json(run)
    elif image is not None:
        weight: Any = "auto" if lam is None else lam
        said = Segmentation(image=image, scribbles=scribbles, probability=probability, kernel=kernel, lam=weight)
    classes = None if said is None else said.found_classes()
    if classes is not None and foreground:
        raise InputError(f"--foreground, and a run of {classes.count} classes; leave --foreground out.")
    if classes is None:
        ours, theirs = _inside(a, b) if foreground else _labels(a, b, two=said is not None)
    else:
        ours, theirs = load_labels(a), load_labels(b)
    if ours.shape != theirs.shape:
        raise InputError(f"{a} is shaped {ours.shape} and {b} {theirs.shape}; expected the same shape.")
    found = Overlap.of(ours, theirs)
    several = classes is not None or not ours.dtype == theirs.dtype == np.bool_
    differing = {"differing": f"{found.differing:,} ({found.differing / ours.size:.4%})"}
    rows = {"sites": f"{ours.size:,}"}
    if several:
        rows |= {"labels": " and ".join(f"{np.count_nonzero(part):,}" for part in (found.first, found.second))}
        names = {} if classes is None else classes.by_number
        rows |= differing | {_dice_of(label, names): _dice_in_words(found, label) for label in found.labels}
    else:
        rows |= {"foreground": f"{found.first[1]:,} and {found.second[1]:,}"}
        rows |= differing | {"Dice": f"{found.dice(1):.6f}"}
    if said is not None:
        rows |= _energies(said, classes, ours, theirs)
    print_rows(rows)


def _dice_of(label: int, names: Mapping[int, str]) -> str:
    name = names.get(label, str(label))
    return f"Dice of {label}" + ("" if name == str(label) else f" {name}")


def _dice_in_words(found: Overlap, label: int) -> str:
    return f"{found.dice(label):.6f} ({found.first[label]:,} and {found.second[label]:,} sites)"


def _labels(*paths: str, two: bool) -> list[Labels]:
    """The labels of files: bool, what is not 0, if there are to be `two` or no file holds more."""
    try:
        numbers = [load_labels(path) for path in paths]
    except InputError as error:
        _inside(*paths)  # refuses what cannot be read at all
        words = str(error).removesuffix(".")
        raise InputError(f"{words}. With --foreground all that is not 0 is one label, whatever it is.") from None
    if two or all(len(label_numbers(some)) <= 2 for some in numbers):
        return [some != 0 for some in numbers]
    return numbers


def _inside(*paths: str) -> list[Mask]:
    """What is not 0, in any channel."""
    found = [load(path) for path in paths]
    inside = [np.asarray(one.pixels) != 0 for one in found]
    return [part.any(axis=-1) if one.channels else part for one, part in zip(found, inside, strict=True)]


def _energies(said: Segmentation, classes: Classes | None, ours: Labels, theirs: Labels) -> dict[str, str]:
    # How it was minimized does not matter here, and a cluster need not be there any more.
    said = replace(said, blocks=None, overlap=None, method=None, solver=None, executor=None)
    if said.shape != ours.shape:
        raise InputError(f"the masks are shaped {ours.shape} and {said.image} {said.shape}; expected the same.")
    energy, where = said.energy()
    one, other = (_energy(energy, classes, labels[where], name) for labels, name in ((ours, "A"), (theirs, "B")))
    change = 100 * (one - other) / (abs(other) or 1.0)
    return {"E(A)": f"{one:,.10g}", "E(B)": f"{other:,.10g}", "Delta E": f"{change:+.6g} %"}


def _energy(energy: Energy | LabelEnergy, classes: Classes | None, labels: Labels, name: str) -> float:
    if classes is None:
        return energy(np.ascontiguousarray(labels != 0))
    inside = energy.pairs.inside if isinstance(energy.pairs, GridPairs) else None
    strange = ~np.isin(labels, classes.numbers)
    if inside is not None:
        strange &= inside
    if strange.any():
        known = ", ".join(map(str, classes.numbers))
        raise InputError(
            f"there is label {labels[strange][0]} in {name}; the run has the classes {known}. "
            f"Compare without --run, or with the run that these labels are of."
        )
    return energy(np.ascontiguousarray(classes.places(labels)))
