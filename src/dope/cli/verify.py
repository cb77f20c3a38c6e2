"""`dope verify`: labels and a certificate in, what they prove out."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from dope.arrays import Box
from dope.bounded import read_regular
from dope.certificate import open_certificate
from dope.cli.certified import Noted, noted_energy, segmented_energy
from dope.cli.clock import Clock
from dope.cli.exits import UNPROVED
from dope.cli.progress import at_work
from dope.cli.screen import progress_console
from dope.cli.tables import print_rows
from dope.errors import InputError
from dope.io import stored
from dope.result import counted
from dope.verify import Verdict
from dope.verify import verify as confirm

_MOST_BYTES = 1 << 30


def verify(
    labels: Annotated[str, typer.Argument(help="The labels that dope segment or dope minimize wrote.")],
    certificate: Annotated[str, typer.Option(help="The folder of --certificate, or a file of Certificate.save.")],
    from_: Annotated[
        str | None,
        typer.Option("--from", help="Report of dope segment --json: its energy, instead of the one that DIR names."),
    ] = None,
    gap: Annotated[
        float,
        typer.Option(
            help="Accept labels whose energy is up to so many percent above the bound, as of a run that stopped early."
        ),
    ] = 0.0,
) -> None:
    """Check labels and the certificate of their bound, block by block, without the solver.

    Exit code 0 says that the labels are proved to be a global minimum, or within --gap of it; 5 that they are not: the
    certificate is refused, or a gap is left. Costs that are no binary fractions are rounded to units; the verdict says
    how much that can change.

    Example: dope verify mask.zarr --certificate proof
    """
    if not 0.0 <= gap < math.inf:
        raise InputError(f"gap is {gap}; expected percent of the energy, 0 or more.")
    clock, console = Clock(), progress_console()
    proof = open_certificate(certificate)
    with tempfile.TemporaryDirectory() as scratch:
        with clock.counting("reading"), at_work(console, "reading"):
            noted = noted_energy(certificate) if from_ is None else segmented_energy(from_, from_)
            found = _of_text(labels, noted.shape) if labels.endswith(".txt") else _Labels.of(labels, scratch, noted)
        with clock.counting("verifying"), at_work(console, f"verifying {len(proof.bounds):,} blocks"):
            verdict = confirm(noted.energy, found, proof)
    accepted = verdict.exact or (verdict.valid and _percent(verdict) <= gap)
    numbers = {"energy": verdict.energy, "lower bound": verdict.lower_bound}
    print_rows(
        {
            "labels": labels,
            "certificate": f"{certificate}, {counted(len(proof.bounds), 'block')}",
            **noted.told,
            **{name: f"{number:,.12g}" for name, number in numbers.items() if number is not None},
            "verdict": _in_words(verdict, proof.scale, accepted=accepted),
            "seconds": clock.in_words(),
        }
    )
    raise typer.Exit(0 if accepted else UNPROVED)


def _percent(verdict: Verdict) -> float:
    """The gap, of the energy."""
    assert verdict.gap is not None
    return 100 * verdict.gap / (abs(verdict.energy) or 1.0)


def _in_words(verdict: Verdict, scale: float, *, accepted: bool) -> str:
    if not verdict.valid:
        return f"not proved, the certificate is refused: {verdict.reason}"
    if verdict.exact and verdict.rounding_error:
        rounding = f"up to {verdict.rounding_error:.2g} from rounding costs to units of {1 / scale:.2g}"
        return f"proved: the labels are a global minimum, {rounding}"
    if verdict.exact:
        return "proved: the labels are a global minimum"
    gap = f"within {verdict.gap:.6g} of the minimum, {_percent(verdict):.2g} % of the energy"
    return f"proved: the labels are {gap}" if accepted else f"not proved to be a minimum: the labels are {gap}"


@dataclass(frozen=True, eq=False)
class _Labels:
    """Labels in a file, of which the energy covers a box; 1 or, in pictures, 255 is foreground."""

    pixels: Any
    where: Box

    @classmethod
    def of(cls, path: str, scratch: str, noted: Noted) -> Any:
        image = stored(path, scratch)
        if tuple(image.pixels.shape) != noted.shape:
            raise InputError(
                f"{path} is shaped {tuple(image.pixels.shape)}, and the energy {noted.shape}; expected the same."
            )
        return cls(image.pixels, noted.where)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(s.stop - s.start for s in self.where)

    def __getitem__(self, box: Box) -> npt.NDArray[np.bool_]:
        place = tuple(slice(s.start + b.start, s.start + b.stop) for s, b in zip(self.where, box, strict=True))
        pixels = np.asarray(self.pixels[place])
        found = pixels != 0
        if not np.all((pixels[found] == 1) | (pixels[found] == 255)):
            raise InputError("the labels hold other numbers than 0 and 1, or 0 and 255; expected two labels.")
        return np.asarray(found, dtype=np.bool_)


def _of_text(path: str, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Labels with one per line."""
    words = read_regular(Path(path), "text", most=_MOST_BYTES).split()
    if len(words) != math.prod(shape) or not all(word in (b"0", b"1") for word in words):
        raise InputError(f"{path} holds {len(words)} words; expected {math.prod(shape)} labels, 0 or 1.")
    return np.array([word == b"1" for word in words]).reshape(shape)
