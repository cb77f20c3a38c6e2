"""What pictures are made with: arrays of any size made small, values made visible, colours laid over each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dope.arrays import Mask
from dope.errors import InputError

Canvas = NDArray[np.float32]
"""(height, width, 3), 0 to 255."""
Picture = NDArray[np.uint8]
"""(height, width, 3)."""
Color = tuple[int, int, int]

GAP = (16, 18, 26)
"""Between panels, and around what floats."""
# Shares of the values left out at either end when a range is stretched: a few hot pixels must not darken the rest.
_TAIL = 0.005


def checked_longest(longest: int) -> int:
    """The longest side of a picture, if it can have one."""
    if longest < 1:
        raise InputError(f"longest is {longest}; expected a number of pixels, at least 1")
    return longest


def shrunk(
    array: NDArray[Any], steps: Sequence[int], of: Callable[[NDArray[Any]], NDArray[Any]] | None = None
) -> NDArray[np.float32]:
    """Means over boxes of `steps` sites, smaller at the far ends; of NaN and infinity only where a box has no other.

    `of` is applied on the way, a slab at a time: at no time is there a second array as large as the first.
    """
    starts = [np.arange(0, side, step) for side, step in zip(array.shape, steps, strict=False)]
    answer = np.empty((*(len(start) for start in starts), *array.shape[len(starts) :]), dtype=np.float32)
    for k, first in enumerate(starts[0]):
        slab = array[first : first + steps[0]]
        answer[k] = _mean_of_boxes(slab if of is None else of(slab), starts[1:])
    return answer


def _mean_of_boxes(slab: NDArray[Any], starts: Sequence[NDArray[np.int64]]) -> NDArray[np.float32]:
    """One row of boxes: the mean over the slab's first axis, and over the pieces that begin at `starts` of the next."""
    known = np.isfinite(slab) if slab.dtype.kind == "f" else None
    if known is None or known.all():
        sizes = [np.diff(start, append=side) for start, side in zip(starts, slab.shape[1:], strict=False)]
        return _sum_of_boxes(slab, starts) / (_outer(sizes, slab.ndim - 1) * np.float32(len(slab)))
    number = _sum_of_boxes(known, starts)
    total = _sum_of_boxes(np.where(known, slab, 0), starts)
    return np.divide(total, number, out=np.full_like(total, np.nan), where=number > 0)


def _sum_of_boxes(slab: NDArray[Any], starts: Sequence[NDArray[np.int64]]) -> NDArray[np.float32]:
    total: NDArray[np.float32] = slab.sum(axis=0, dtype=np.float32)
    for axis, start in enumerate(starts):
        if len(start) < total.shape[axis]:
            total = np.add.reduceat(total, start, axis=axis)
    return total


def _outer(sizes: Sequence[NDArray[np.int64]], axes: int) -> NDArray[np.float32]:
    """The product of a vector per axis, with axes of length 1 after them."""
    product = np.ones((1,) * axes, dtype=np.float32)
    for axis, size in enumerate(sizes):
        product = product * size.astype(np.float32).reshape([-1 if k == axis else 1 for k in range(axes)])
    return product


def resized(array: NDArray[np.float32], pixels: Sequence[int]) -> NDArray[np.float32]:
    """The first two axes brought to a number of pixels: means where they shrink, repeated sites where they grow."""
    for axis, number in enumerate(pixels):
        side = array.shape[axis]
        if number % side == 0:
            array = np.repeat(array, number // side, axis=axis)
        else:
            array = np.moveaxis(np.tensordot(_shares(side, number), array, axes=(1, axis)), 0, axis)
    return array


def _shares(side: int, pixels: int) -> NDArray[np.float32]:
    """(pixels, side): the share of each site in each pixel, by the length they have in common."""
    edges = np.arange(pixels + 1) * (side / pixels)
    sites = np.arange(side)
    common = np.minimum(edges[1:, None], sites + 1) - np.maximum(edges[:-1, None], sites)
    shares: NDArray[np.float32] = (np.maximum(common, 0) * (pixels / side)).astype(np.float32)
    return shares


def levels(values: Sequence[NDArray[np.float32]], inside: Sequence[NDArray[Any] | None]) -> tuple[float, float]:
    """The range to show, black to white: all but the outermost half percent of the values, where there are such."""
    parts = [
        part[np.isfinite(part) if where is None else np.isfinite(part) & (where[..., None] > 0)]
        for part, where in zip(values, inside, strict=True)
    ]
    known = np.concatenate(parts)
    if not known.size:
        return 0.0, 1.0
    low, high = (float(level) for level in np.quantile(known, (_TAIL, 1 - _TAIL)))
    return (low, high) if low < high else (float(known.min()), float(known.max()))


def stretched(values: NDArray[np.float32], low: float, high: float) -> NDArray[np.float32]:
    """0 to 255 from `low` to `high`; what is not a number is black."""
    scaled = (values - np.float32(low)) * np.float32(255 / ((high - low) or 1))
    shown: NDArray[np.float32] = np.clip(np.nan_to_num(scaled, nan=0.0, posinf=255.0, neginf=0.0), 0, 255)
    return shown


def three_channels(values: NDArray[np.float32]) -> Canvas:
    """A canvas of one channel or more: fewer than three are shown grey, by the first; those beyond three not at all."""
    if values.shape[2] < 3:
        return np.repeat(values[..., :1], 3, axis=2)
    return values[..., :3].copy()


def paint(canvas: Canvas, opacity: NDArray[Any], color: Color) -> None:
    """Lay a colour over the canvas, which is changed, where the opacity is not 0."""
    where = np.nonzero(opacity)
    strength = opacity[where].astype(np.float32)[:, None]
    canvas[where] += strength * (np.array(color, np.float32) - canvas[where])


def stroke(canvas: Canvas) -> int:
    """A line's width that is seen at a glance at any size: one pixel per 900."""
    longest: int = max(canvas.shape[:2])
    return max(1, round(longest / 900))


def edges(inside: Mask) -> Mask:
    """Pixels of the object that touch the background."""
    found = np.zeros_like(inside)
    found[1:] |= inside[1:] & ~inside[:-1]
    found[:-1] |= inside[:-1] & ~inside[1:]
    found[:, 1:] |= inside[:, 1:] & ~inside[:, :-1]
    found[:, :-1] |= inside[:, :-1] & ~inside[:, 1:]
    return found


def borders(labels: NDArray[Any]) -> Mask:
    """Pixels that touch one of another label."""
    found = np.zeros(labels.shape, dtype=np.bool_)
    for here, there in (
        ((slice(1, None),), (slice(None, -1),)),
        ((slice(None), slice(1, None)), (slice(None), slice(-1))),
    ):
        differ = labels[here] != labels[there]
        found[here] |= differ
        found[there] |= differ
    return found


def thickened(lines: Mask, thick: int) -> Mask:
    """Lines of one pixel made `thick` pixels wide."""
    for _ in range(thick - 1):
        wider = lines.copy()
        wider[1:] |= lines[:-1]
        wider[:, 1:] |= lines[:, :-1]
        lines = wider
    return lines


def beside(canvases: Sequence[Canvas], gap: int) -> Canvas:
    """Panels in a row, centred, with a gap between them."""
    if len(canvases) == 1:
        return canvases[0]
    height = max(canvas.shape[0] for canvas in canvases)
    width = sum(canvas.shape[1] for canvas in canvases) + gap * (len(canvases) - 1)
    row = np.empty((height, width, 3), dtype=np.float32)
    row[:] = GAP
    left = 0
    for canvas in canvases:
        top = (height - canvas.shape[0]) // 2
        row[top : top + canvas.shape[0], left : left + canvas.shape[1]] = canvas
        left += canvas.shape[1] + gap
    return row


def picture(canvas: Canvas) -> Picture:
    """The canvas in whole numbers."""
    return np.clip(np.rint(canvas), 0, 255).astype(np.uint8)


def whole_step(shape: Sequence[int], longest: int) -> int:
    """The smallest whole number by which no side of a picture, shrunk, is longer than `longest`."""
    return max(1, math.ceil(max(shape) / checked_longest(longest)))
