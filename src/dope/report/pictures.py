"""Pictures of a segmentation, as uint8 arrays (height, width, 3) for two-dimensional problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.arrays import BACKGROUND, FOREGROUND
from dope.errors import InputError

Canvas = NDArray[np.float32]  # (height, width, 3), 0 to 255

_OUTLINE = (255, 214, 10)
_GREEN = (48, 209, 88)
_RED = (255, 69, 58)
_SHADE = (24, 32, 58)
_BLOCK_TINTS = ((86, 180, 233), (230, 159, 0), (0, 158, 115), (204, 121, 167))  # Okabe and Ito
_DOUBLY_HELD = (255, 255, 255)
_EDGE = (20, 20, 20)


def overlay(
    image: ArrayLike, labels: ArrayLike, seeds: ArrayLike | None = None, *, longest: int = 1920
) -> NDArray[np.uint8]:
    """The image with its background shaded, the object outlined, and the strokes on top.

    Parameters
    ----------
    image : array (height, width) or (height, width, channels)
        uint8 is shown as it is, anything else stretched from its smallest to its largest value.
    labels : bool array (height, width)
        True is the object.
    seeds : integer array (height, width), optional
        1 foreground strokes, drawn green; 2 background strokes, drawn red.
    longest : int
        The picture is shrunk by a whole number until no side is longer.
    """
    shown = _shown(image)
    labels = _checked("labels", labels, shown.shape[:2])
    step = _step(shown.shape, longest)
    canvas = _shrunk(shown, step)
    inside = _shrunk(labels != 0, step)
    shaded = 0.30 * canvas.mean(axis=2, keepdims=True) + 0.70 * np.array(_SHADE, np.float32)
    canvas = shaded + inside[..., None] * (canvas - shaded)
    _paint(canvas, _thickened(_edges(inside > 0.5), 1 + _stroke(canvas)), _OUTLINE)
    if seeds is not None:
        seeds = _checked("seeds", seeds, shown.shape[:2])
        for label, color in ((FOREGROUND, _GREEN), (BACKGROUND, _RED)):
            _paint(canvas, _shrunk(seeds == label, step) * 0.85, color)
    return _picture(canvas)


def block_map(
    shape: Sequence[int],
    blocks: Sequence[tuple[slice, ...]],
    *,
    image: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    longest: int = 1920,
) -> NDArray[np.uint8]:
    """How the sites are cut into blocks: neighbours in different tints, borders dark, overlaps bright.

    Parameters
    ----------
    shape : (height, width)
        Of the sites.
    blocks : sequence of (rows, columns)
        Slices of each block.
    image, labels : arrays, optional
        Shown underneath, in grey; the outline of the object.
    longest : int
        The picture is shrunk by a whole number until no side is longer.
    """
    if len(shape) != 2 or any(len(where) != 2 for where in blocks):
        raise InputError(f"a block map of sites shaped {tuple(shape)}; expected two dimensions")
    height, width = shape
    shown = np.full((height, width, 3), 200, np.uint8) if image is None else _shown(image)
    if shown.shape[:2] != (height, width):
        raise InputError(f"the image is shaped {shown.shape} and the sites {tuple(shape)}; expected the same")
    step = _step(shown.shape, longest)
    canvas = _shrunk(shown, step)
    canvas = np.repeat(80 + 0.6 * canvas.mean(axis=2, keepdims=True), 3, axis=2)
    held = np.zeros(canvas.shape[:2], dtype=np.int32)
    borders = np.zeros(canvas.shape[:2], dtype=np.bool_)
    thick = _stroke(canvas)
    for where, tint in zip(blocks, _tints(blocks), strict=True):
        small = tuple(_shrunk_slice(part, size, step) for part, size in zip(where, shape, strict=True))
        # Where blocks overlap the first one tints: mixed tints would look like further blocks.
        fresh = held[small] == 0
        _paint(canvas[small], fresh * 0.35, tint)
        held[small] += 1
        _frame(borders[small], thick)
    _paint(canvas, (held > 1) * 0.45, _DOUBLY_HELD)
    _paint(canvas, borders * 0.75, _EDGE)
    if labels is not None:
        inside = _shrunk(_checked("labels", labels, (height, width)) != 0, step)
        _paint(canvas, _thickened(_edges(inside > 0.5), 1 + thick), _OUTLINE)
    return _picture(canvas)


def _shown(image: ArrayLike) -> NDArray[np.uint8]:
    """Any image of two dimensions as three uint8 channels: grey is repeated, what goes beyond is dropped."""
    image = np.asarray(image)
    if image.ndim not in (2, 3) or image.size == 0:
        raise InputError(f"an image shaped {image.shape}; expected (height, width) or (height, width, channels)")
    if image.ndim == 2 or image.shape[2] < 3:
        image = np.repeat(image.reshape(*image.shape[:2], -1)[..., :1], 3, axis=2)
    image = image[..., :3]
    if image.dtype == np.uint8:
        return image
    low, high = float(image.min()), float(image.max())
    stretched: NDArray[np.uint8] = ((image - low) * (255 / ((high - low) or 1))).astype(np.uint8)
    return stretched


def _checked(name: str, values: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    array = np.asarray(values)
    if array.shape != shape:
        raise InputError(f"{name} are shaped {array.shape} and the image {shape}; expected the same")
    return array


def _step(shape: tuple[int, ...], longest: int) -> int:
    if longest < 1:
        raise InputError(f"longest is {longest}; expected a number of pixels, at least 1")
    return max(1, -(-max(shape[:2]) // longest))


def _shrunk(array: NDArray[Any], step: int) -> NDArray[np.float32]:
    """Means over squares of step x step sites; a last row or column repeats where a square is cut off."""
    if step == 1:
        return array.astype(np.float32)
    height, width = (-(-side // step) for side in array.shape[:2])
    total = np.zeros((height, width, *array.shape[2:]), dtype=np.float32)
    for row in range(step):
        rows = array[np.minimum(np.arange(height) * step + row, array.shape[0] - 1)]
        for column in range(step):
            total += rows[:, np.minimum(np.arange(width) * step + column, array.shape[1] - 1)]
    total /= step * step
    return total


def _shrunk_slice(part: slice, size: int, step: int) -> slice:
    start, stop, _ = part.indices(size)
    return slice(start // step, -(-stop // step))


def _tints(blocks: Sequence[tuple[slice, ...]]) -> list[tuple[int, int, int]]:
    """A tint per block, different from the four beside it: rows and columns take turns."""
    ranks = []
    for axis in range(2):
        starts = sorted({where[axis].start or 0 for where in blocks})
        ranks.append([starts.index(where[axis].start or 0) for where in blocks])
    return [_BLOCK_TINTS[2 * (row % 2) + column % 2] for row, column in zip(*ranks, strict=True)]


def _stroke(canvas: Canvas) -> int:
    """A line's width that is seen at a glance at any size: one pixel per 900."""
    longest: int = max(canvas.shape[:2])
    return max(1, round(longest / 900))


def _frame(inside: NDArray[np.bool_], thick: int) -> None:
    inside[:thick] = True
    inside[-thick:] = True
    inside[:, :thick] = True
    inside[:, -thick:] = True


def _edges(inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Pixels of the object that touch the background."""
    edges = np.zeros_like(inside)
    edges[1:] |= inside[1:] & ~inside[:-1]
    edges[:-1] |= inside[:-1] & ~inside[1:]
    edges[:, 1:] |= inside[:, 1:] & ~inside[:, :-1]
    edges[:, :-1] |= inside[:, :-1] & ~inside[:, 1:]
    return edges


def _thickened(lines: NDArray[np.bool_], thick: int) -> NDArray[np.bool_]:
    for _ in range(thick - 1):
        wider = lines.copy()
        wider[1:] |= lines[:-1]
        wider[:, 1:] |= lines[:, :-1]
        lines = wider
    return lines


def _paint(canvas: Canvas, opacity: NDArray[Any], color: tuple[int, int, int]) -> None:
    """Lay a colour over the canvas, which is changed, where the opacity is not 0."""
    where = np.nonzero(opacity)
    strength = opacity[where].astype(np.float32)[:, None]
    canvas[where] += strength * (np.array(color, np.float32) - canvas[where])


def _picture(canvas: Canvas) -> NDArray[np.uint8]:
    return np.clip(np.rint(canvas), 0, 255).astype(np.uint8)
