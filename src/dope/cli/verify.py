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
from dope.cli.certified import noted_energy, segmented_energy
from dope.cli.clock import Clock
from dope.cli.exits import UNPROVED
from dope.cli.progress import at_work
from dope.cli.screen import progress_console
from dope.cli.tables import print_rows
from dope.errors import InputError
from dope.io import stored
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
) -> None:
    """Check labels and the certificate of their bound, block by block, without the solver.

    Example: dope verify mask.zarr --certificate proof
    """
    clock, console = Clock(), progress_console()
    proof = open_certificate(certificate)
    with tempfile.TemporaryDirectory() as scratch:
        with clock.counting("reading"), at_work(console, "reading"):
            energy, where, shape = noted_energy(certificate) if from_ is None else segmented_energy(from_, from_)
            found = _of_text(labels, shape) if labels.endswith(".txt") else _Labels.of(labels, scratch, where, shape)
        with clock.counting("verifying"), at_work(console, f"verifying {len(proof.bounds):,} blocks"):
            verdict = confirm(energy, found, proof)
    print_rows({**_rows(verdict), "blocks": f"{len(proof.bounds):,}", "seconds": clock.in_words()})
    raise typer.Exit(0 if verdict.valid else UNPROVED)


def _rows(verdict: Verdict) -> dict[str, str]:
    rows = {
        "certificate": "valid" if verdict.valid else f"refused: {verdict.reason}",
        "energy": f"{verdict.energy:,.12g}",
    }
    if verdict.lower_bound is not None:
        rows["lower bound"] = f"{verdict.lower_bound:,.12g}"
        rows["labels"] = "a global minimum" if verdict.exact else f"within {verdict.gap:.6g} of the minimum"
    return rows


@dataclass(frozen=True, eq=False)
class _Labels:
    """Labels in a file, of which the energy covers a box; 1 or, in pictures, 255 is foreground."""

    pixels: Any
    where: Box

    @classmethod
    def of(cls, path: str, scratch: str, where: Box, shape: tuple[int, ...]) -> Any:
        image = stored(path, scratch)
        if tuple(image.pixels.shape) != shape:
            raise InputError(
                f"{path} is shaped {tuple(image.pixels.shape)}, and the energy {shape}; expected the same."
            )
        return cls(image.pixels, where)

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
