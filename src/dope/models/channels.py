"""An image as a row of channels per site, looked at a strip at a time, and the sample of it that models learn from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.arrays import as_array
from dope.errors import InputError
from dope.scribbles import BACKGROUND, FOREGROUND, Seeds

# Numbers looked at in one go: temporaries stay in the second-level cache.
_STRIP_NUMBERS = 3 * 4096
# Sites whose labels are looked at in one go.
_SEED_STRIP = 1 << 20
# Enough for stable clusters: between 5 000 and 50 000 errors on the odd GrabCut images differ by less than 0.1 %
# (rounds of k-means cut from 100 to 20 at the same time), and the time goes into k-means.
_FITTED_SITES = 10_000
# Sites looked at for the range of an image: enough that a thousandth of them is a hundred.
_RANGED_SITES = 100_000


def channel_count(image: ArrayLike, shape: tuple[int, ...]) -> int:
    """How many numbers a site of the given shape has in this image."""
    found = np.shape(image)
    if found == shape:
        return 1
    if found[:-1] != shape:
        raise InputError(
            f"the image is shaped {found} and the seeds {shape}; expected seeds of the image's shape, "
            "without its channels"
        )
    if found[-1] == 0:
        raise InputError(f"the image is shaped {found}, with no channels; expected at least one")
    return int(found[-1])


def as_channels(image: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """The image as a row of channels per site; a view wherever the memory allows it."""
    image = as_array("image", image)
    channels = channel_count(image, shape)
    if image.dtype.kind not in "fiub":
        raise InputError(f"the image is of type {image.dtype}; expected real numbers")
    return image.reshape(-1, channels)


def strips(rows: NDArray[Any]) -> Iterator[slice]:
    """All rows, as many at a time as fit the cache."""
    sites, channels = rows.shape
    step = max(64, _STRIP_NUMBERS // channels)
    for start in range(0, sites, step):
        yield slice(start, min(start + step, sites))


def in_strips(rows: NDArray[Any], clip: float, log_odds: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[np.float32]:
    """log_odds of all rows, clipped. They must be of each row by itself: then strips do not show, to the bit."""
    if not clip > 0:
        raise InputError(f"clip is {clip}; expected a positive number, such as 10")
    unary = np.empty(len(rows), dtype=np.float32)
    for strip in strips(rows):
        here = rows[strip]
        check_rows(here, "")
        unary[strip] = log_odds(here)
    return np.clip(unary, -clip, clip, out=unary)


def costs_in_strips(
    rows: NDArray[Any], clip: float, label_count: int, log_densities: Callable[[NDArray[Any]], NDArray[Any]]
) -> NDArray[np.float32]:
    """What each label costs over the most likely one at each row, no more than `clip`; of a row for each label.

    The difference of two labels is what `in_strips` gives of them, to the bit.
    """
    if not clip > 0:
        raise InputError(f"clip is {clip}; expected a positive number, such as 10")
    costs = np.empty((len(rows), label_count), dtype=np.float32)
    for strip in strips(rows):
        here = rows[strip]
        check_rows(here, "")
        likely = log_densities(here)
        costs[strip] = (likely.max(axis=0) - likely).T
    return np.minimum(costs, np.float32(clip), out=costs)


def check_rows(rows: NDArray[Any], where: str) -> None:
    """Refuse NaN and infinity."""
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        raise InputError(f"the image holds NaN or infinite values{where}; expected finite numbers")


@dataclass(frozen=True, eq=False)
class Sample:
    """What a model learns from: rows of channels in the order of their sites, evenly thinned where there are many.

    `foreground` and `background` lie under seeds; `around` are of everywhere, for models that look around.
    """

    foreground: NDArray[np.float64]
    background: NDArray[np.float64]
    around: NDArray[np.float64]

    def __post_init__(self) -> None:
        for part, where in ((self.foreground, " under the strokes"), (self.background, " under the strokes")):
            check_rows(part, where)
        check_rows(self.around, "")

    @classmethod
    def of(cls, rows: NDArray[Any], seeds: Seeds, *, looks_around: bool) -> Sample:
        """Of an image in memory."""
        foreground, background = (rows[_sample(seeds.reshape(-1), label)] for label in (FOREGROUND, BACKGROUND))
        around = rows[:: ranged_every(len(rows))] if looks_around else rows[:0]
        return cls(*(part.astype(np.float64) for part in (foreground, background, around)))


@dataclass(frozen=True, eq=False)
class ClassSample:
    """The same for several labels: `strokes` has the rows under the seeds of each."""

    strokes: tuple[NDArray[np.float64], ...]
    around: NDArray[np.float64]

    def __post_init__(self) -> None:
        for part in self.strokes:
            check_rows(part, " under the strokes")
        check_rows(self.around, "")

    @classmethod
    def of(cls, rows: NDArray[Any], seeds: NDArray[Any], labels: Sequence[int], *, looks_around: bool) -> ClassSample:
        """Of an image in memory, whose seeds are label numbers."""
        flat = seeds.reshape(-1)
        around = rows[:: ranged_every(len(rows))] if looks_around else rows[:0]
        return cls(tuple(rows[_sample(flat, label)].astype(np.float64) for label in labels), around.astype(np.float64))


def fitted_every(number: int) -> int:
    """Of so many sites under seeds of a label, every how many-th a model is fitted to."""
    return max(1, math.ceil(number / _FITTED_SITES))


def ranged_every(number: int) -> int:
    """Of so many sites of an image, every how many-th a model that looks around sees."""
    return max(1, number // _RANGED_SITES)


def _sample(seeds: NDArray[Any], label: int) -> NDArray[np.intp]:
    """Sites of one label, every so many. In strips: re-estimation makes every site of a large image a seed."""
    every = fitted_every(sum(int(np.count_nonzero(seeds[part] == label)) for part in _seed_strips(seeds.size)))
    chosen, seen = [], 0
    for part in _seed_strips(seeds.size):
        sites = np.flatnonzero(seeds[part] == label)
        chosen.append(sites[-seen % every :: every] + part.start)
        seen += sites.size
    return np.concatenate(chosen)


def _seed_strips(sites: int) -> Iterator[slice]:
    for start in range(0, sites, _SEED_STRIP):
        yield slice(start, min(start + _SEED_STRIP, sites))
