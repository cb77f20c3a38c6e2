"""What `dope.Exact` is measured on: photographs with strokes, a brain scan, and a hard synthetic picture.

    <photo>-3, <photo>-7      ten photographs of 6 to 20 megapixels, 8 and 48 neighbours; energies as in
                              experiments/photos.py: unaries from the colours under strokes, clipped to +-10, strokes
                              as hard constraints, lam = 20 / (sum over all the kernel's offsets of 1 / |offset|).
                              Those over 12 megapixels are cut to their middle 12: PyMaxflow then fits into 24 GB
    <photo>-3-whole, ...      those photos as they are, for dope alone
    brain-3 to brain-9        the scan and soft map of M5 and M7 in cases.py, balls of radius 1 to 4 (6, 32, 122 and 256
                              neighbours), in nats: log odds clipped to +-6, a site's weights add up to at most 12
    A2h                       of cases.py: 2000x3000, 4 neighbours, weak unaries and a few seeds

The canyon wren comes with dope; the other photos, and the scan, need DOPE_DATA.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import cases
import numpy as np
import numpy.typing as npt
from energies import Model

from dope import samples
from dope.arrays import Box
from dope.io import read_image, read_scribbles
from dope.models import color_unary, kernel_lam, seed_unary

PACKAGED = "canyon-wren"
PHOTOS = (
    "oakland-zoo-otters",
    "perched-osprey",
    PACKAGED,
    "extreme-desert-hike",
    "roman-colosseum",
    "pondering-heron",
    "seeding_by_Clements_Engelhardt",
    "friends_by_Aitzol_Berasategi",
    "free_by_Peter_Nerlich",
    "Kleiber_by_Lukas_Baubkus",
)
LARGE_PHOTOS = ("seeding_by_Clements_Engelhardt", "Kleiber_by_Lukas_Baubkus")
MOST_PIXELS = 12_000_000
WHOLE = "-whole"
# More than the pairs of any site weigh together, which is 20 at most.
SEED_STRENGTH = 100.0
# Of a small variant, for seeing that everything works.
QUICK_PIXELS = 6000
HARD = "A2h"


def photo(name: str, kernel: int, *, quick: bool, most: int | None = MOST_PIXELS) -> Model:
    """A photograph's energy; its colours are learnt before it is cut."""
    image, seeds = _strokes(name)
    if quick:
        step = math.ceil(math.sqrt(seeds.size / QUICK_PIXELS))
        image, seeds = image[::step, ::step], seeds[::step, ::step]
    unary = seed_unary(color_unary(image, seeds, clip=10.0), seeds, SEED_STRENGTH)
    box = middle(seeds.shape, most or seeds.size)
    return Model(
        np.ascontiguousarray(unary[box], dtype=np.float32),
        np.ascontiguousarray(image[box]),
        lam=kernel_lam(kernel, total=20.0),
        kernel=kernel,
    )


def _strokes(name: str) -> tuple[npt.NDArray[np.uint8 | np.uint16], npt.NDArray[np.int8]]:
    """A photograph, and 1 and 2 at the sites under strokes."""
    if name == PACKAGED:
        with samples.canyon_wren() as sample:
            image = read_image(sample.photo)
            return image, read_scribbles(sample.scribbles, image.shape)
    file = Path("photos") / f"{name}.jpg"
    image = read_image(cases.data_file(file))
    scribbles = cases.data_file(Path("photos") / "scribbles.json")
    return image, read_scribbles(scribbles, image.shape, photo=file.name)


def middle(shape: tuple[int, ...], most: int) -> Box:
    """The largest box of whole pixels in the middle that has the shape's proportions and at most so many pixels."""
    share = min(1.0, math.sqrt(most / math.prod(shape)))
    sides = [math.floor(n * share) for n in shape]
    return tuple(slice((n - side) // 2, (n - side) // 2 + side) for n, side in zip(shape, sides, strict=True))


def brain(kernel: int, *, quick: bool) -> Model:
    """White matter in a brain scan."""
    scan, odds = cases.white_matter(quick=quick)
    lam = kernel_lam(kernel, 3, total=12.0)
    return Model((-odds).astype(np.float32), scan[..., None], lam=lam, kernel=kernel)


def hard(*, quick: bool) -> Model:
    """A2h as a user would state it."""
    return stated(cases.make(HARD, quick=quick), unit=1000.0)


def stated(instance: cases.Instance, *, unit: float) -> Model:
    """An instance as a user would state it: the same unaries and factors, the weights not rounded."""
    offsets: list[list[int]] = instance.offsets.tolist()
    return Model(
        instance.unary.astype(np.float32),
        instance.features,
        lam=float(instance.factors[0]) * math.hypot(*offsets[0]),
        kernel=offsets,
        beta=instance.beta,
        unit=unit,
    )


def _recipes() -> dict[str, dict[str, Callable[..., Model]]]:
    groups: dict[str, dict[str, Callable[..., Model]]] = {}
    for kernel in (3, 7):
        groups[f"photos-{kernel}"] = {f"{name}-{kernel}": partial(photo, name, kernel) for name in PHOTOS}
    for kernel in (3, 5, 7, 9):
        groups[f"brain-{kernel}"] = {f"brain-{kernel}": partial(brain, kernel)}
    groups["hard"] = {HARD: hard}
    for kernel in (3, 7):
        groups[f"whole-{kernel}"] = {
            f"{name}-{kernel}{WHOLE}": partial(photo, name, kernel, most=None) for name in LARGE_PHOTOS
        }
    return groups


# A row of the table of bars, and the cases that it stands for.
RECIPES = _recipes()
GROUPS: dict[str, list[str]] = {group: list(recipes) for group, recipes in RECIPES.items()}
CASES = [name for names in GROUPS.values() for name in names]


def make(name: str, *, quick: bool = False) -> Model:
    """The model of that name, or a small one of its kind; cases.MissingDataError where its data is not there."""
    return next(recipes[name] for recipes in RECIPES.values() if name in recipes)(quick=quick)


def named(words: list[str]) -> list[str]:
    """Cases by their own names or those of their groups, each once."""
    return list(dict.fromkeys(name for word in words for name in GROUPS.get(word, [word])))
