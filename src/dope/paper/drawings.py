"""What the third experiment is run on: ink drawings under noise, to be denoised by squared curvature.

The paper's drawing, Picasso's, is not free, nor are its noise, window and price known; these are others. DOPE_DATA
holds them in ink/, and in nonsubmodular/ smaller energies for which numbers of another implementation are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dope import samples
from dope.arrays import Labels
from dope.energy import Energy
from dope.io import read_image
from dope.io.files import reading
from dope.models import curvature, deconvolution
from dope.models.curvature import Triples
from dope.paper.cases import MissingDataError, folder

DRAWINGS = ("dancer_ink", "team_ink", "bull")
SMALL = ("A1", "A2", "A3", "A4", "A5")
# Chosen by looking at pictures of A1 and A2, for lam from 1 to 20.
LAMS: dict[Triples, float] = {"all": 2.0, "perimeter": 4.0}
WINDOW, NOISE = 7, 0.4
# Short and long side to which drawings are padded.
ROOM = (600, 800)
_PACKAGED = DRAWINGS[0]


@dataclass(frozen=True, eq=False)
class Instance:
    """An energy, the picture it is made of, and the labels it should lead to."""

    name: str
    mode: str
    lam: float | None
    energy: Energy
    picture: NDArray[np.float64]
    clean: Labels


def drawing_names() -> list[str]:
    """The drawings of DOPE_DATA, or the one that comes with dope."""
    return [name for name in DRAWINGS if _ink_file(name) is not None] or [_PACKAGED]


def small_names() -> list[str]:
    """The smaller energies of DOPE_DATA."""
    return [name for name in SMALL if _small_file(name) is not None]


def modes_of(name: str) -> list[str]:
    """Which triples there are energies of."""
    file = _small_file(name) if name in SMALL else None
    if file is None:
        return list(LAMS)
    with reading(file), np.load(file, allow_pickle=False) as stored:
        return [str(stored["mode"])]


def state_drawing(name: str, mode: str, *, step: int = 1) -> Instance:
    """An energy by its name; `step` shrinks a drawing and the room around it."""
    small = _small_file(name) if name in SMALL else None
    if small is not None:
        return stored_instance(name, small)
    with _opened(name) as file:
        return noisy_drawing(name, shrunken(ink_of(file), step), mode, room=(ROOM[0] // step, ROOM[1] // step))


@contextmanager
def _opened(name: str) -> Iterator[Path]:
    file = _ink_file(name)
    if file is not None:
        yield file
    elif name == _PACKAGED:
        with samples.dancer() as packaged:
            yield packaged
    else:
        raise MissingDataError(f"no drawing {name}: DOPE_DATA names no folder that holds ink/{name}.png")


def ink_of(file: Path) -> NDArray[np.float64]:
    """Dark ink on white paper as foreground, 1 where it is black."""
    ink: NDArray[np.float64] = 1.0 - read_image(file) / 255.0
    return ink


def shrunken(picture: NDArray[np.float64], step: int) -> NDArray[np.float64]:
    """The mean of squares of step x step pixels.

    >>> shrunken(np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 5.0]]), 2)
    array([[0.5]])
    """
    rows, columns = (n // step for n in picture.shape)
    squares = picture[: rows * step, : columns * step].reshape(rows, step, columns, step)
    mean: NDArray[np.float64] = squares.mean(axis=(1, 3))
    return mean


def noisy_drawing(
    name: str, ink: NDArray[np.float64], mode: str, *, room: tuple[int, int] = ROOM, seed: int = 0
) -> Instance:
    """Ink, padded with paper to the room it should have, under noise."""
    triples: Triples = next(known for known in LAMS if known == mode)
    short, long = room
    least = (short, long) if ink.shape[0] < ink.shape[1] else (long, short)
    missing = [max(0, n - side) for n, side in zip(least, ink.shape, strict=True)]
    ink = np.pad(ink, [(m // 2, m - m // 2) for m in missing])
    noisy = ink + np.random.default_rng(seed).normal(0.0, NOISE, ink.shape)
    energy = curvature(noisy, lam=LAMS[triples], window=WINDOW, mode=triples)
    return Instance(name, mode, LAMS[triples], energy, noisy, ink > 0.5)


def stored_instance(name: str, file: Path) -> Instance:
    """An energy by a picture, its clean labels and its settings in a file: curvature, or deconvolution of a blur."""
    with reading(file), np.load(file, allow_pickle=False) as stored:
        picture, clean = stored["image"], stored["clean"]
        if "blur" in stored:
            return Instance(name, "deconvolution", None, deconvolution(picture, int(stored["blur"])), picture, clean)
        mode, lam, unknown = str(stored["mode"]), float(stored["lam"]), stored.get("unknown")
        triples: Triples = next(known for known in LAMS if known == mode)
        energy = curvature(picture, lam=lam, window=int(stored["window"]), mode=triples, unknown=unknown)
    return Instance(name, mode, lam, energy, picture if unknown is None else np.where(unknown, 0.5, picture), clean)


def _ink_file(name: str) -> Path | None:
    return _there(Path("ink") / f"{name}.png")


def _small_file(name: str) -> Path | None:
    return _there(Path("nonsubmodular") / f"curvature_{name}.npz")


def _there(path: Path) -> Path | None:
    data = folder()
    return data / path if data is not None and (data / path).is_file() else None
