"""Pictures of a segmentation, as uint8 arrays (height, width, 3): of an image its own, of a volume three planes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.arrays import Box, Mask
from dope.errors import InputError
from dope.label_counts import several_labels
from dope.palette import label_colors
from dope.report.canvas import Canvas, Color, Picture, borders, edges, paint, stroke, thickened
from dope.report.scene import Scene, View, through_object
from dope.scribbles import BACKGROUND, DRAWN, FOREGROUND

Sites = NDArray[Any]
"""Something at every site of an image or a volume."""

OUTLINE = (255, 214, 10)
GREEN = (48, 209, 88)
RED = (255, 69, 58)
_SHADE = (24, 32, 58)
_OUTSIDE = (128, 128, 134)  # of a mask: neither object nor background, so neither bright nor dark
_BLOCK_TINTS = ((86, 180, 233), (230, 159, 0), (0, 158, 115), (204, 121, 167))  # Okabe and Ito
_ONLY_FIRST, _ONLY_SECOND, _IN_BOTH = (255, 140, 26), (64, 170, 255), (204, 121, 167)
_DOUBLY_HELD = (255, 255, 255)
_EDGE = (20, 20, 20)
_LARGEST_ZOOM = 8
_TINT = 0.45  # of a label's colour on the image, where there are several labels


def overlay(
    image: ArrayLike | None,
    labels: ArrayLike,
    seeds: ArrayLike | None = None,
    *,
    mask: ArrayLike | None = None,
    spacing: Sequence[float] | None = None,
    longest: int = 1920,
    zoom: int = 1,
) -> Picture:
    """The image with its background shaded, the object outlined, and the strokes on top.

    Parameters
    ----------
    image : array shaped like the labels, or with channels as a last axis; None for the labels alone
        uint8 is shown as it is; of anything else all but the outermost half percent of the values at either end is
        stretched from black to white. NaN is black.
    labels : bool or integer array, of an image or of a volume
        True is the object. Of several labels each is tinted and outlined in its own colour, but for 0, which is drawn
        as the background is. Of a volume three planes are shown, side by side.
    seeds : integer array like the labels, optional
        1 foreground strokes, drawn green; 2 background strokes, drawn red.
    mask : bool array like the labels, optional
        The region that was looked at; what lies outside is greyed.
    spacing : a length per axis, optional
        Of a site, to draw true proportions.
    longest : int
        No side of the picture is longer; images are shrunk by a whole number for it.
    zoom : int
        A small picture may grow by so much.

    Examples
    --------
    >>> import numpy as np
    >>> overlay(np.zeros((30, 40)), np.ones((30, 40), bool), longest=20).shape
    (15, 20, 3)
    """
    found = _checked_labels(labels)
    pixels, strokes, region = _checked_beside(found.shape, image, seeds, mask)
    at = through_object(found, strokes) if found.ndim == 3 else None
    scene = Scene.of(found.shape, spacing=spacing, at=at, longest=longest, zoom=zoom)
    return drawn_object(scene, pixels, found, seeds=strokes, mask=region)


def slices(
    image: ArrayLike | None,
    labels: ArrayLike,
    seeds: ArrayLike | None = None,
    *,
    mask: ArrayLike | None = None,
    spacing: Sequence[float] | None = None,
    channels: bool = False,
    longest: int = 640,
) -> Picture:
    """Three planes of a volume that meet in the object, one across each axis, drawn as `overlay` draws them.

    Each is the one with the largest cross-section of the object, or one with a little less and more strokes. The rows
    and columns of a plane are the other two axes, in their order. All planes have one scale, small ones are enlarged.

    Parameters
    ----------
    image, labels, seeds, mask, spacing, longest
        As for `overlay`, of three axes.
    channels : bool
        Whether the image has channels as its last axis.

    Examples
    --------
    >>> import numpy as np
    >>> ball = np.linalg.norm(np.indices((9, 9, 9)) - 4, axis=0) < 3
    >>> slices(ball.astype(float), ball, longest=100).shape
    (27, 83, 3)
    """
    found = _checked_labels(labels)
    if found.ndim != 3:
        raise InputError(f"labels of shape {found.shape}; expected a volume, three axes. Draw an image with overlay.")
    if image is not None and np.ndim(image) != 3 + channels:
        raise InputError(
            f"an image of shape {np.shape(image)} with channels={channels}; expected {3 + channels} axes. "
            f"channels says whether the last axis holds channels."
        )
    return overlay(image, found, seeds, mask=mask, spacing=spacing, longest=longest, zoom=_LARGEST_ZOOM)


def difference(
    image: ArrayLike | None,
    labels: ArrayLike,
    other: ArrayLike,
    *,
    spacing: Sequence[float] | None = None,
    longest: int = 1920,
    zoom: int = 1,
) -> Picture:
    """Where two labelings differ, on the image in grey: orange what only the first calls the object, blue the second.

    Purple is what both call an object, but not the same one. A single site is drawn large enough to be seen at any
    size.

    Parameters
    ----------
    image, labels, spacing, longest, zoom
        As for `overlay`. The planes of a volume are those that show most of the differences.
    other : bool or integer array like the labels

    Examples
    --------
    >>> import numpy as np
    >>> difference(None, np.eye(4, dtype=bool), np.zeros((4, 4), bool)).shape
    (4, 4, 3)
    """
    found, second = _checked_labels(labels), np.asarray(other)
    if second.shape != found.shape:
        raise InputError(f"labels shaped {found.shape} and {second.shape}; expected the same shape")
    pixels, *_ = _checked_beside(found.shape, image, None, None)
    apart = found != second
    both = apart & (found != 0) & (second != 0)
    parts = (apart & (found != 0) & ~both, apart & (second != 0) & ~both, both)
    at = through_object(apart if apart.any() else found) if found.ndim == 3 else None
    scene = Scene.of(found.shape, spacing=spacing, at=at, longest=longest, zoom=zoom)
    canvases = [np.repeat(0.55 * canvas.mean(axis=2, keepdims=True), 3, axis=2) for canvas in scene.shown(pixels)]
    for canvas, view in zip(canvases, scene.views, strict=True):
        for only, color in zip(parts, (_ONLY_FIRST, _ONLY_SECOND, _IN_BOTH), strict=True):
            paint(canvas, thickened(view.layer(only, _marked) > 0, 1 + stroke(canvas)), color)
    return scene.joined(canvases)


def block_map(
    shape: Sequence[int],
    blocks: Sequence[Box],
    *,
    image: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    spacing: Sequence[float] | None = None,
    longest: int = 1920,
    zoom: int = 1,
) -> Picture:
    """How the sites are cut into blocks: neighbours in different tints, borders dark, overlaps bright.

    Parameters
    ----------
    shape : (height, width), or the three sides of a volume
        Of the sites. Of a volume the planes through the object are shown, or through the middle without labels.
    blocks : sequence of tuples of slices, one per axis
        Of each block.
    image, labels : arrays, optional
        Shown underneath, in grey; the outline of the object.
    spacing, longest, zoom
        As for `overlay`.
    """
    if len(shape) not in (2, 3) or any(len(where) != len(shape) for where in blocks):
        raise InputError(
            f"a block map of sites shaped {tuple(shape)}; expected two or three dimensions, and a slice per axis and "
            f"block"
        )
    pixels, _, found = _checked_beside(tuple(shape), image, None, labels)
    at = through_object(found) if found is not None and len(shape) == 3 else None
    scene = Scene.of(shape, spacing=spacing, at=at, longest=longest, zoom=zoom)
    return drawn_blocks(scene, blocks, image=pixels, labels=found)


def drawn_input(scene: Scene, image: Sites, *, seeds: Sites | None, mask: Sites | None) -> Picture:
    """What went in: the image with its strokes."""
    canvases = scene.shown(image, mask)
    for canvas, view in zip(canvases, scene.views, strict=True):
        _mark_outside(canvas, view, mask)
        _mark_strokes(canvas, view, seeds)
    return scene.joined(canvases)


def drawn_object(
    scene: Scene, image: Sites | None, labels: Sites, *, seeds: Sites | None, mask: Sites | None
) -> Picture:
    """What was found, as `overlay` shows it."""
    canvases = scene.shown(image, mask)
    colors = colors_of(labels)
    for canvas, view in zip(canvases, scene.views, strict=True):
        if colors is None:
            _mark_object(canvas, view.layer(labels, _marked))
        else:
            _mark_labels(canvas, view, labels, colors)
        _mark_outside(canvas, view, mask)
        _mark_strokes(canvas, view, seeds)
    return scene.joined(canvases)


def drawn_blocks(scene: Scene, blocks: Sequence[Box], *, image: Sites | None, labels: Sites | None) -> Picture:
    """How the sites are cut up, as `block_map` shows it."""
    several = labels is not None and bool(several_labels(labels))
    canvases = [np.repeat(80 + 0.6 * canvas.mean(axis=2, keepdims=True), 3, axis=2) for canvas in scene.shown(image)]
    for canvas, view in zip(canvases, scene.views, strict=True):
        _mark_blocks(canvas, view, blocks)
        if labels is not None and not several:
            _outline(canvas, view.layer(labels, _marked))
        elif labels is not None:
            paint(canvas, thickened(borders(view.nearest(labels)), stroke(canvas)), OUTLINE)
    return scene.joined(canvases)


def colors_of(labels: Sites) -> NDArray[np.float32] | None:
    """The colour of every label, 0 to the largest, where there are several; None where there is one object."""
    several = several_labels(labels)
    return label_colors(several[-1] + 1).astype(np.float32) if several else None


def tinted(view: View, labels: Sites, colors: NDArray[np.float32]) -> Canvas:
    """The mean of the labels' colours at every pixel."""
    layers = [view.layer(labels, lambda slab, column=column: column[slab]) for column in colors.T]  # type: ignore[misc]
    return np.stack(layers, axis=-1)


def _mark_object(canvas: Canvas, inside: Canvas) -> None:
    _shade(canvas, inside)
    _outline(canvas, inside)


def _mark_labels(canvas: Canvas, view: View, labels: Sites, colors: NDArray[np.float32]) -> None:
    inside, nearest = view.layer(labels, _marked), view.nearest(labels)
    _shade(canvas, inside)
    # The colour of label 0 is black, so that what is mixed is already in proportion to what is inside.
    canvas += _TINT * (tinted(view, labels, colors) - inside[..., None] * canvas)
    lines = thickened(borders(nearest), stroke(canvas)) & (nearest != 0)
    canvas[lines] = colors[nearest[lines]]


def _shade(canvas: Canvas, inside: Canvas) -> None:
    shaded = 0.30 * canvas.mean(axis=2, keepdims=True) + 0.70 * np.array(_SHADE, np.float32)
    canvas[:] = shaded + inside[..., None] * (canvas - shaded)


def _outline(canvas: Canvas, inside: Canvas) -> None:
    paint(canvas, thickened(edges(inside > 0.5), 1 + stroke(canvas)), OUTLINE)


def _mark_outside(canvas: Canvas, view: View, mask: Sites | None) -> None:
    if mask is not None:
        paint(canvas, (1 - view.layer(mask, _marked)) * 0.8, _OUTSIDE)


def _mark_strokes(canvas: Canvas, view: View, seeds: Sites | None) -> None:
    if seeds is None:
        return
    # A line one site wide covers one part in `steps` of the squares it crosses, and should be seen all the same.
    strength = 0.85 * max(view.steps)
    for label, color in ((FOREGROUND, GREEN), (BACKGROUND, RED)):
        share = view.layer(seeds, lambda slab, drawn=DRAWN[label]: slab == drawn)  # type: ignore[misc]
        paint(canvas, np.minimum(share * strength, 0.85), color)


def _mark_blocks(canvas: Canvas, view: View, blocks: Sequence[Box]) -> None:
    held = np.zeros(canvas.shape[:2], dtype=np.int32)
    borders = np.zeros(canvas.shape[:2], dtype=np.bool_)
    thick = stroke(canvas)
    for where, tint in zip(blocks, _tints(blocks, view.axes), strict=True):
        part = view.part(where)
        if part is None:
            continue
        # Where blocks overlap the first one tints: mixed tints would look like further blocks.
        fresh = held[part] == 0
        paint(canvas[part], fresh * 0.35, tint)
        held[part] += 1
        _frame(borders[part], thick)
    paint(canvas, (held > 1) * 0.45, _DOUBLY_HELD)
    paint(canvas, borders * 0.75, _EDGE)


def _tints(blocks: Sequence[Box], axes: tuple[int, int]) -> list[Color]:
    """A tint per block, different from the four beside it: rows and columns take turns."""
    ranks = []
    for axis in axes:
        rank = {start: k for k, start in enumerate(sorted({where[axis].start or 0 for where in blocks}))}
        ranks.append([rank[where[axis].start or 0] for where in blocks])
    return [_BLOCK_TINTS[2 * (row % 2) + column % 2] for row, column in zip(*ranks, strict=True)]


def _frame(inside: Mask, thick: int) -> None:
    inside[:thick] = True
    inside[-thick:] = True
    inside[:, :thick] = True
    inside[:, -thick:] = True


def _marked(slab: NDArray[Any]) -> Mask:
    marked: Mask = slab != 0
    return marked


def _checked_labels(labels: ArrayLike) -> NDArray[Any]:
    array = np.asarray(labels)
    if array.ndim not in (2, 3) or array.size == 0:
        raise InputError(f"labels shaped {array.shape}; expected those of an image (2 axes) or a volume (3), not empty")
    return array


def _checked_beside(
    shape: tuple[int, ...], image: ArrayLike | None, seeds: ArrayLike | None, mask: ArrayLike | None
) -> tuple[Sites | None, Sites | None, Sites | None]:
    """What is drawn with labels of this shape, if it fits them."""
    pixels = None if image is None else np.asarray(image)
    if pixels is not None and (pixels.ndim not in (len(shape), len(shape) + 1) or pixels.shape[: len(shape)] != shape):
        raise InputError(
            f"an image shaped {pixels.shape} and sites shaped {shape}; expected the same, or channels last"
        )
    if pixels is not None and pixels.size == 0:
        raise InputError(f"an image shaped {pixels.shape}; expected one that is not empty")
    marks = []
    for name, values in (("strokes", seeds), ("labels or a mask", mask)):
        array = None if values is None else np.asarray(values)
        if array is not None and array.shape != shape:
            raise InputError(f"{name} shaped {array.shape} and sites shaped {shape}; expected the same")
        marks.append(array)
    return pixels, marks[0], marks[1]
