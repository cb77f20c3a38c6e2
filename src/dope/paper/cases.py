"""What the paper's experiments are run on: photographs with strokes, a brain scan with soft maps, ink drawings.

DOPE_DATA names a folder with all of them. Without it there is the photograph and the drawing that come with dope, and,
where nilearn is installed, the average brain that comes with that.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dope import samples
from dope.arrays import Box, Mask, Reals
from dope.energy import Energy
from dope.errors import InputError
from dope.io import load, read_image, read_scribbles
from dope.io.files import reading
from dope.models import color_unary, kernel_lam, seed_unary

# More than the pairs of any site weigh together, which is at most _WEIGHT.
_SEED_STRENGTH, _WEIGHT, _CLIP = 100.0, 20.0, 10.0
_WEIGHT_3D, _CLIP_3D = 12.0, 6.0
_QUICK_PIXELS, _QUICK_VOXELS = 600_000, 260_000

PACKAGED_PHOTO = "canyon-wren.jpg"
AVERAGE_BRAIN = "white matter of MNI152"
STRUCTURES = {"white matter": "prob_wm_u8", "putamen": "prob_putamen_u8"}
_SCAN = Path("mri") / "brain_200x200x100.npz"
_AVERAGE = "mni_icbm152_{}_tal_nlin_sym_09a_converted.nii.gz"


NO_SCAN = (
    f"no brain scan: DOPE_DATA names no folder that holds {_SCAN.as_posix()}, and nilearn, which brings one, is not "
    "installed; set DOPE_DATA, or run: pip install nilearn"
)


class MissingDataError(InputError):
    """What an experiment is run on is not here."""


@dataclass(frozen=True, eq=False)
class Stated:
    """An energy as it is stated: what every method is given, and what a peer makes integers of.

    `judged` is the unary by which energies are compared: that of `unary` without the strokes, which all labels obey.
    """

    unary: Reals
    features: NDArray[Any]
    lam: float
    kernel: int
    judged: Reals

    def energy(self) -> Energy:
        return Energy.grid(self.unary, lam=self.lam, kernel=self.kernel, features=self.features)


@dataclass(frozen=True, eq=False)
class Pictured:
    """What a case looks like: an image, or a volume, and the strokes on it."""

    image: NDArray[Any]
    scribbles: NDArray[np.int8] | None


def folder() -> Path | None:
    """What DOPE_DATA names."""
    named = os.environ.get("DOPE_DATA")
    if not named:
        return None
    if not Path(named).is_dir():
        raise InputError(f"DOPE_DATA is {named!r}, which is no folder; name one, or unset it for the packaged samples")
    return Path(named)


def photo_names() -> list[str]:
    """The photographs of DOPE_DATA, or the one that comes with dope."""
    data = folder()
    if data is None or not (data / "photos" / "scribbles.json").is_file():
        return [PACKAGED_PHOTO]
    file = data / "photos" / "scribbles.json"
    with reading(file):
        names = list(json.loads(file.read_text(encoding="utf-8")))
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"{file}: names no photographs; expected an object with each one's strokes by its name")
    return names


def state_photo(name: str, kernel: int, quick: bool) -> Stated:
    """A photograph's energy: 5 + 5 colours from its strokes, clipped; the strokes themselves are settled."""
    photo, unary = _learnt(name, quick)
    assert photo.scribbles is not None
    lam = kernel_lam(kernel, total=_WEIGHT)
    judged: Reals = np.where(photo.scribbles == 0, unary, np.float32(0))
    return Stated(seed_unary(unary, photo.scribbles, _SEED_STRENGTH), photo.image, lam, kernel, judged)


@lru_cache(maxsize=1)
def _learnt(name: str, quick: bool) -> tuple[Pictured, Reals]:
    photo = picture_photo(name, quick)
    assert photo.scribbles is not None
    return photo, color_unary(photo.image, photo.scribbles, clip=_CLIP)


def picture_photo(name: str, quick: bool) -> Pictured:
    """A photograph and its strokes; for a quick run, every few pixel."""
    data = folder()
    there = data is not None and (data / "photos" / name).is_file()
    if not there and name == PACKAGED_PHOTO:
        with samples.canyon_wren() as sample:
            image = read_image(sample.photo)
            scribbles = read_scribbles(sample.scribbles, image.shape)
    elif data is None or not there:
        raise MissingDataError(f"no photograph {name}: DOPE_DATA names no folder that holds photos/{name}")
    else:
        image = read_image(data / "photos" / name)
        scribbles = read_scribbles(data / "photos" / "scribbles.json", image.shape, photo=name)
    step = math.ceil(math.sqrt(scribbles.size / _QUICK_PIXELS)) if quick else 1
    return Pictured(np.ascontiguousarray(image[::step, ::step]), np.ascontiguousarray(scribbles[::step, ::step]))


def structure_names() -> list[str]:
    """What the scan of DOPE_DATA has soft maps of; of the average brain, white matter alone; of none, nothing."""
    data = folder()
    if data is not None and (data / _SCAN).is_file():
        return list(STRUCTURES)
    if find_spec("nilearn") is not None:
        return [AVERAGE_BRAIN]
    return []


def state_structure(name: str, kernel: int, quick: bool) -> Stated:
    """A structure of the brain: log odds of its soft map, clipped, and contrast of the scan."""
    scan, probability = _scan(name)
    if quick:
        box = _around(probability > 0.5, _QUICK_VOXELS)
        scan, probability = scan[box], probability[box]
    with np.errstate(divide="ignore"):  # what is certain has infinite odds, which the clip cuts off
        odds = np.log(probability) - np.log1p(-probability)
    unary = np.clip(-odds, -_CLIP_3D, _CLIP_3D).astype(np.float32)
    lam = kernel_lam(kernel, 3, total=_WEIGHT_3D)
    return Stated(unary, np.ascontiguousarray(scan), lam, kernel, unary)


def picture_structure(name: str, quick: bool) -> Pictured:
    """The scan, or for a quick run the part of it around a structure."""
    scan, probability = _scan(name)
    if quick:
        scan = scan[_around(probability > 0.5, _QUICK_VOXELS)]
    return Pictured(scan, None)


@lru_cache(maxsize=1)
def _scan(name: str) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """The scan, and what its soft map says about each voxel, from 0 to 1."""
    data = folder()
    if name in STRUCTURES:
        if data is None or not (data / _SCAN).is_file():
            raise MissingDataError(f"no {name}: DOPE_DATA names no folder that holds {_SCAN.as_posix()}")
        file = data / _SCAN
        with reading(file), file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            return stored["t1"], stored[STRUCTURES[name]] / 255.0
    spec = find_spec("nilearn") if name == AVERAGE_BRAIN else None
    if spec is None or spec.origin is None:
        raise MissingDataError(f"no {name}: it comes with nilearn, which is not installed; run: pip install nilearn")
    brain = Path(spec.origin).parent / "datasets" / "data"
    t1, wm = (np.asarray(load(brain / _AVERAGE.format(kind)).pixels, dtype=np.float64) for kind in ("t1", "wm"))
    middle = tuple(
        slice(max(0, (n - most) // 2), max(0, (n - most) // 2) + most)
        for n, most in zip(t1.shape, (200, 200, 100), strict=True)
    )
    t1, wm = t1[middle], wm[middle]
    return np.rint(255 * t1 / t1.max()).astype(np.uint8), np.rint(255 * wm / wm.max()) / 255.0


def _around(inside: Mask, most: int) -> Box:
    """A box of about so many voxels, with the proportions of the whole, around the middle of an object."""
    share = min(1.0, (most / inside.size) ** (1 / 3))
    sides = [max(1, round(n * share)) for n in inside.shape]
    middle = [int(np.median(places)) for places in np.nonzero(inside)]
    lows = [min(max(0, at - side // 2), n - side) for at, side, n in zip(middle, sides, inside.shape, strict=True)]
    return tuple(slice(low, low + side) for low, side in zip(lows, sides, strict=True))
