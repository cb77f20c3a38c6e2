"""Which planes of the sites are shown, and how large: an image is one plane, a volume three that meet in the object."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dope.errors import InputError
from dope.report.canvas import (
    Canvas,
    Picture,
    beside,
    checked_longest,
    levels,
    picture,
    resized,
    shrunk,
    stretched,
    three_channels,
    whole_step,
)

_PLAIN = 200  # the grey of a picture without an image
# Planes whose cross-section is within this share of the largest are as good; the one nearest the middle is taken.
_AS_GOOD = 0.97
_STROKES_COUNT = 0.5  # a plane with all the strokes is worth one with so much more of the object


@dataclass(frozen=True)
class View:
    """A plane: its place among the sites, its two axes, and its size in sites and in pixels.

    `steps` are the sites that are averaged before anything else is done; the rest of the way is resizing.
    """

    where: tuple[int | slice, ...]
    axes: tuple[int, int]
    sites: tuple[int, int]
    steps: tuple[int, int]
    pixels: tuple[int, int]

    def layer(self, array: NDArray[Any], of: Callable[[NDArray[Any]], NDArray[Any]] | None = None) -> Canvas:
        """The plane of an array over the sites, as large as the picture."""
        return resized(shrunk(array[self.where], self.steps, of), self.pixels)

    def nearest(self, array: NDArray[Any]) -> NDArray[Any]:
        """What is at the middle of every pixel."""
        rows, columns = (
            ((np.arange(number) + 0.5) * (side / number)).astype(np.intp)
            for side, number in zip(self.sites, self.pixels, strict=True)
        )
        return array[self.where][np.ix_(rows, columns)]

    def part(self, place: Sequence[slice]) -> tuple[slice, slice] | None:
        """The pixels of a box of sites, None where the plane does not meet it."""
        for index, along in zip(self.where, place, strict=True):
            if isinstance(index, int) and not _holds(along, index):
                return None
        rows, columns = (
            _pixels_of(place[axis], side, number)
            for axis, side, number in zip(self.axes, self.sites, self.pixels, strict=True)
        )
        return rows, columns


@dataclass(frozen=True)
class Scene:
    """The planes of one picture."""

    views: tuple[View, ...]
    gap: int

    @classmethod
    def of(
        cls,
        shape: Sequence[int],
        *,
        spacing: Sequence[float] | None = None,
        at: Sequence[int] | None = None,
        longest: int = 1920,
        zoom: int = 1,
    ) -> Scene:
        """The planes of sites of this shape, through `at` or the middle, no longer than `longest` together.

        `spacing` are the lengths of a site along the axes. Small ones are enlarged, by `zoom` at most.
        """
        if len(shape) not in (2, 3) or 0 in shape:
            raise InputError(f"sites shaped {tuple(shape)}; expected an image (2 axes) or a volume (3), not empty")
        lengths = checked_spacing(spacing, len(shape))
        middle = [side // 2 for side in shape] if at is None else at
        everything = slice(None)
        planes: list[tuple[int | slice, ...]] = [(everything, everything)]
        if len(shape) == 3:
            planes = [tuple(int(middle[a]) if a == axis else everything for a in range(3)) for axis in range(3)]
        gap = 0 if len(planes) == 1 else round(checked_longest(longest) / 110)
        scale = _scale(shape, lengths, longest=longest, gap=gap, zoom=zoom)
        return cls(tuple(_view(where, shape, lengths, scale) for where in planes), gap)

    def layers(self, array: NDArray[Any], of: Callable[[NDArray[Any]], NDArray[Any]] | None = None) -> list[Canvas]:
        """An array over the sites, plane by plane."""
        return [view.layer(array, of) for view in self.views]

    def shown(self, image: NDArray[Any] | None, mask: NDArray[Any] | None = None) -> list[Canvas]:
        """The image, plane by plane: uint8 as it is, anything else stretched (by its values in the mask)."""
        if image is None:
            return [np.full((*view.pixels, 3), _PLAIN, dtype=np.float32) for view in self.views]
        axes = len(self.views[0].where)
        channels = image[..., None] if image.ndim == axes else image[..., :3]
        small = [shrunk(channels[view.where], view.steps) for view in self.views]
        if image.dtype != np.uint8:
            inside = [None if mask is None else shrunk(mask[view.where], view.steps) for view in self.views]
            low, high = levels(small, inside)
            small = [stretched(part, low, high) for part in small]
        return [resized(three_channels(part), view.pixels) for part, view in zip(small, self.views, strict=True)]

    def joined(self, canvases: Sequence[Canvas]) -> Picture:
        """The planes in a row."""
        return picture(beside(canvases, self.gap))


def checked_spacing(spacing: Sequence[float] | None, axes: int) -> tuple[float, ...]:
    """The length of a site along every axis, 1 where nothing is said."""
    lengths = (1.0,) * axes if spacing is None else tuple(float(length) for length in spacing)
    if len(lengths) != axes or not all(0 < length < math.inf for length in lengths):
        raise InputError(f"spacing is {spacing!r}; expected {axes} positive lengths, one per axis of the sites")
    return lengths


def through_object(labels: NDArray[Any], seeds: NDArray[Any] | None = None) -> tuple[int, ...]:
    """For every axis the plane that shows most of the object, and of the strokes; the middle where there is none.

    Every plane meets the object. Of planes that are as good, it is the one nearest its centre of mass.
    """
    areas = _profiles(labels)
    strokes = _profiles(seeds) if seeds is not None and seeds.any() else [np.zeros_like(area) for area in areas]
    return tuple(_best(area, stroke) for area, stroke in zip(areas, strokes, strict=True))


def _best(area: NDArray[np.float64], strokes: NDArray[np.float64]) -> int:
    if not area.any():
        return len(area) // 2
    worth = area / area.max() + _STROKES_COUNT * (area > 0) * strokes / (strokes.max() or 1)
    good = np.flatnonzero(worth >= _AS_GOOD * worth.max())
    center = float(np.average(np.arange(len(area)), weights=area))
    return int(good[np.argmin(np.abs(good - center))])


def _profiles(array: NDArray[Any]) -> list[NDArray[np.float64]]:
    """For every axis of a volume, how many sites of each plane across it are not 0; in one pass, a plane at a time."""
    along_first = np.zeros(array.shape[0])
    onto_rest = np.zeros(array.shape[1:], dtype=np.int32)
    for k, plane in enumerate(array):
        marked = plane != 0
        along_first[k] = np.count_nonzero(marked)
        onto_rest += marked
    return [along_first, onto_rest.sum(axis=1, dtype=np.float64), onto_rest.sum(axis=0, dtype=np.float64)]


def _scale(shape: Sequence[int], lengths: tuple[float, ...], *, longest: int, gap: int, zoom: int) -> float:
    """Pixels per unit of length. Sites as long as wide grow by whole numbers, and those of an image shrink so too."""
    extent = [side * length for side, length in zip(shape, lengths, strict=True)]
    largest = zoom / min(lengths)
    if len(shape) == 3:
        width = 2 * extent[2] + extent[1]
        scale = min(max(1, longest - 2 * gap) / width, longest / max(extent[0], extent[1]), largest)
    elif len(set(lengths)) == 1 and max(shape) > longest:
        return 1 / (whole_step(shape, longest) * lengths[0])
    else:
        scale = min(checked_longest(longest) / max(extent), largest)
    if len(set(lengths)) == 1 and scale * lengths[0] >= 1:
        return math.floor(scale * lengths[0]) / lengths[0]
    return scale


def _view(where: tuple[int | slice, ...], shape: Sequence[int], lengths: tuple[float, ...], scale: float) -> View:
    rows, columns = (axis for axis, index in enumerate(where) if isinstance(index, slice))
    sizes = [_size(shape[axis], lengths[axis] * scale, whole=len(shape) == 2) for axis in (rows, columns)]
    (row_step, height), (column_step, width) = sizes
    return View(where, (rows, columns), (shape[rows], shape[columns]), (row_step, column_step), (height, width))


def _size(side: int, scale: float, *, whole: bool) -> tuple[int, int]:
    """The sites averaged at first, and the pixels, of an axis."""
    step = max(1, math.floor(1 / scale + 1e-9))
    if whole and abs(1 / scale - step) < 1e-9:
        return step, math.ceil(side / step)
    return min(step, side), max(1, math.floor(side * scale + 1e-9))


def _holds(along: slice, index: int) -> bool:
    return (along.start or 0) <= index and (along.stop is None or index < along.stop)


def _pixels_of(along: slice, side: int, pixels: int) -> slice:
    start, stop, _ = along.indices(side)
    return slice(start * pixels // side, -(-stop * pixels // side))
