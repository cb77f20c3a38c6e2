"""A picture of an object's surface: rays, parallel and oblique, shaded where they first meet it. NumPy alone.

The labels, cropped and shrunk, are blurred into a smooth field, whose level set is the surface. A coarse volume knows
how far away the nearest cube is that holds some of it: rays leap that far, and take small steps only where they are
near. The place between the last two steps is interpolated and normals are the field's gradients, so there are no
stairs. Folds are dark where much of the object lies ahead of a normal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.arrays import Box, Mask
from dope.errors import InputError
from dope.report.canvas import GAP, Picture, checked_longest, picture, shrunk
from dope.report.pictures import colors_of
from dope.report.scene import checked_spacing

Reals = NDArray[np.float32]
Pixels = NDArray[np.intp]
"""Flat positions in the picture."""

_CELLS = 6_000_000  # of the field: 180^3, where a picture of 640 pixels gains nothing more and takes a second
_CUBE = 4  # cells along a cube of the coarse volume
_FARTHEST_LEAP = 8  # in cubes
_STEP = 0.7  # of a cell, where a ray is near
_LEVEL = np.float32(0.35)
_THIN = 0.55  # what a site of the object counts at least: blurring alone would make thin threads vanish
_MARGIN = 3
_AIR = 0.04  # around the object, as a share of the picture
# Looking down at the object from the front right, a little: where axes lie is in _camera.
_TURN, _TILT = math.radians(-32), math.radians(24)

_GLOW = (18, 20, 28)
_BONE = np.array((236, 222, 202), np.float32)
_KEY_LIGHT = np.array((0.5, 0.6, 0.62), np.float32)  # right, down and ahead: it comes from the upper left
_FILL_LIGHT = np.array((-0.85, 0.1, 0.5), np.float32)
_GAMMA = 0.9  # lifts what is dim
_HAZE = 0.3  # how much darker the farthest place is than the nearest
_INWARDS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)  # cells from the surface, where a label is looked for
_LOOK_AHEAD = ((3.0, 0.5), (7.0, 0.55), (14.0, 0.4))  # cells along the normal, and what counts the object there


def surface(labels: ArrayLike, *, spacing: Sequence[float] | None = None, longest: int = 640, up: int = 2) -> Picture:
    """The object's surface, lit and shaded, seen obliquely from above.

    Parameters
    ----------
    labels : bool or integer array of three axes
        True is the object. Of several labels all but 0 are, each in its own colour. What it is cut off by, the
        volume's faces, is shown as a surface too.
    spacing : a length per axis, optional
        Of a site, to draw true proportions.
    longest : int
        The longer side of the picture.
    up : 0, 1 or 2
        The axis that points up: 2 for arrays in the order x, y, z, 0 for z, y, x.

    Returns
    -------
    uint8 array (height, width, 3)

    Examples
    --------
    >>> import numpy as np
    >>> ball = np.linalg.norm(np.indices((20, 20, 20)) - 9.5, axis=0) < 8
    >>> height, width, channels = surface(ball, longest=100).shape
    >>> max(height, width), channels
    (100, 3)
    """
    found = np.asarray(labels)
    if found.ndim != 3 or 0 in found.shape:
        raise InputError(f"labels of shape {found.shape}; expected a volume, three axes, not empty")
    if up not in (0, 1, 2):
        raise InputError(f"up is {up!r}; expected the number of an axis, 0, 1 or 2")
    # Rolled, not swapped, which would show the mirror image.
    order = [(up + 1) % 3, (up + 2) % 3, up]
    found = found.transpose(order)
    lengths = tuple(checked_spacing(spacing, 3)[axis] for axis in order)
    box = _bounding_box(found)
    if box is None:
        side = checked_longest(longest)
        return np.broadcast_to(np.array(GAP, np.uint8), (side, side, 3)).copy()
    steps = _steps(found[box], lengths)
    field, cell = _field(found[box], lengths, steps)
    rays = _Rays.towards(field, cell, checked_longest(longest))
    colors = colors_of(found[box])
    return _shaded(rays, field, None if colors is None else _Paint(found[box], steps, colors))


def _bounding_box(found: NDArray[Any]) -> Box | None:
    """The smallest box that holds the object, in one pass."""
    first = np.zeros(found.shape[0], dtype=np.bool_)
    rest = np.zeros(found.shape[1:], dtype=np.bool_)
    for k, plane in enumerate(found):
        marked = plane != 0
        first[k] = marked.any()
        rest |= marked
    sides = [np.flatnonzero(any_) for any_ in (first, rest.any(axis=1), rest.any(axis=0))]
    if not sides[0].size:
        return None
    return tuple(slice(int(side[0]), int(side[-1]) + 1) for side in sides)


def _steps(found: NDArray[Any], lengths: tuple[float, ...]) -> list[int]:
    """How many sites along each axis are a cell, such that cells are about as long as wide."""
    extent = [side * length for side, length in zip(found.shape, lengths, strict=True)]
    size = max(min(lengths), (math.prod(extent) / _CELLS) ** (1 / 3))
    return [max(1, round(size / length)) for length in lengths]


def _field(found: NDArray[Any], lengths: tuple[float, ...], steps: list[int]) -> tuple[Reals, Reals]:
    """The blurred object with air around it, and the sides of its cells."""
    occupied = np.pad(shrunk(found, steps, lambda slab: slab != 0), _MARGIN)
    blurred = occupied
    for axis in range(3):
        blurred = _blurred(_blurred(blurred, axis), axis)
    field = np.maximum(blurred, _THIN * occupied)
    if field.max() < _LEVEL:  # specks so small beside the distances between them that none fills a cell
        field = np.where(occupied > 0, np.float32(_THIN), blurred)
    return field, np.array(lengths, np.float32) * np.array(steps, np.float32)


def _blurred(array: Reals, axis: int) -> Reals:
    """Weights 1, 2, 1 along an axis; the ends are kept."""
    lines = np.moveaxis(array, axis, 0)
    answer = lines.copy()
    answer[1:-1] *= 2
    answer[1:-1] += lines[:-2]
    answer[1:-1] += lines[2:]
    answer[1:-1] *= 0.25
    return np.moveaxis(answer, 0, axis)


@dataclass(frozen=True)
class _Rays:
    """Parallel rays, one per pixel, in the coordinates of the field's cells.

    A point is `corner + row * down + column * right + depth * ahead`, with depth in lengths of the finest cell.
    """

    corner: Reals
    down: Reals
    right: Reals
    ahead: Reals
    frame: Reals  # the unit vectors right, down and ahead, in lengths
    cell: Reals
    pixels: tuple[int, int]
    depth: float

    @classmethod
    def towards(cls, field: Reals, cell: Reals, longest: int) -> _Rays:
        """Rays that cover what is in the field, seen obliquely."""
        frame = _camera()
        low, high = _extent(field, cell, frame)
        pixel = float(max(high[0] - low[0], high[1] - low[1]) / longest)
        width, height = (max(1, math.floor(float(side) / pixel + 1e-3)) for side in (high - low)[:2])
        right, down, ahead = frame[0] * pixel / cell, frame[1] * pixel / cell, frame[2] * cell.min() / cell
        corner = (low + np.array((0.5, 0.5, 0), np.float32) * pixel) @ frame / cell - np.float32(0.5)
        depth = float((high[2] - low[2]) / cell.min())
        return cls(corner, down, right, ahead, frame, cell, (height, width), depth)

    def inside(self, shape: tuple[int, ...]) -> tuple[Pixels, Reals, Reals]:
        """The pixels whose rays meet a box of cells, and the depths at which they enter and leave it."""
        pixels = np.arange(math.prod(self.pixels))
        start = self.points(pixels, np.zeros(1, np.float32))
        enter = np.zeros(len(pixels), dtype=np.float32)
        leave = np.full(len(pixels), self.depth, dtype=np.float32)
        for axis, side in enumerate(shape):
            # No component is 0: the view is oblique.
            one, other = -start[axis] / self.ahead[axis], (side - 1 - start[axis]) / self.ahead[axis]
            enter = np.maximum(enter, np.minimum(one, other))
            leave = np.minimum(leave, np.maximum(one, other))
        meet = enter < leave
        return pixels[meet], enter[meet], leave[meet]

    def points(self, pixels: Pixels, depth: Reals) -> Reals:
        """(3, number): where these pixels' rays are at these depths."""
        row, column = np.divmod(pixels, self.pixels[1])
        return np.stack(
            [self.corner[a] + row * self.down[a] + column * self.right[a] + depth * self.ahead[a] for a in range(3)]
        ).astype(np.float32)


def _extent(field: Reals, cell: Reals, frame: Reals) -> tuple[Reals, Reals]:
    """How far the object reaches to the right, down and ahead: from and to, with some air around it."""
    cubes = np.argwhere(_highest(field) >= _LEVEL).astype(np.float32)
    centers = (cubes + np.float32(0.5)) * _CUBE * cell @ frame.T
    around = np.abs(frame) @ cell * np.float32(0.5 * _CUBE)
    low, high = centers.min(axis=0) - around, centers.max(axis=0) + around
    air = np.float32(_AIR) * (high - low).max() * np.array((1, 1, 0), np.float32)
    return low - air, high + air


def _camera() -> Reals:
    """Unit vectors to the right, down and ahead, along the axes: the last axis is up, the first two lie flat."""
    ahead = np.array((math.sin(_TURN) * math.cos(_TILT), math.cos(_TURN) * math.cos(_TILT), -math.sin(_TILT)))
    right = np.array((math.cos(_TURN), -math.sin(_TURN), 0.0))
    down = np.cross(ahead, right)
    return np.stack([right, down, ahead]).astype(np.float32)


def _first_hits(rays: _Rays, field: Reals) -> tuple[Pixels, Reals]:
    """The pixels whose rays meet the surface, and at what depth."""
    far = _leaps(field)
    pixels, depth, leave = rays.inside(field.shape)
    hits, depths = [pixels[:0]], [depth[:0]]
    while pixels.size:
        points = rays.points(pixels, depth)
        leap = far[tuple(_cubes(points, far.shape))]
        near = np.flatnonzero(leap == 0)
        met = near[_sampled(field, points[:, near]) >= _LEVEL]
        hits.append(pixels[met])
        depths.append(_interpolated(rays, field, pixels[met], depth[met]))
        depth += np.where(leap == 0, np.float32(_STEP), leap)
        going = depth < leave
        going[met] = False
        pixels, depth, leave = pixels[going], depth[going], leave[going]
    return np.concatenate(hits), np.concatenate(depths)


def _leaps(field: Reals) -> Reals:
    """Per cube of cells, how far a ray may go from anywhere in it without a look at the field; 0 for: look."""
    # Interpolation looks one cell ahead, which may be the next cube's.
    near = _grown(_highest(field) >= _LEVEL)
    leaps = np.zeros(near.shape, dtype=np.float32)
    for _ in range(_FARTHEST_LEAP):
        leaps += np.where(near, 0, np.float32(_CUBE))
        near = _grown(near)
    # Beside a cube to look at, a ray is there as soon as it leaves its own.
    return np.where(leaps > 0, np.maximum(leaps - _CUBE, _STEP), 0).astype(np.float32)


def _highest(field: Reals) -> Reals:
    """The field's largest value in every cube of cells."""
    padded = np.pad(field, [(0, -side % _CUBE) for side in field.shape])
    for axis in range(3):
        sides = [*padded.shape[:axis], -1, _CUBE, *padded.shape[axis + 1 :]]
        padded = padded.reshape(sides).max(axis=axis + 1)
    return padded


def _grown(marked: Mask) -> Mask:
    """With the neighbours of what is marked, along edges and corners too."""
    for axis in range(3):
        lines = np.moveaxis(marked, axis, 0)
        wider = lines.copy()
        wider[1:] |= lines[:-1]
        wider[:-1] |= lines[1:]
        marked = np.moveaxis(wider, 0, axis)
    return marked


def _cubes(points: Reals, shape: tuple[int, ...]) -> list[Pixels]:
    """The cubes that hold these points, as an index."""
    places = (points * np.float32(1 / _CUBE)).astype(np.intp)
    return [np.clip(line, 0, side - 1) for line, side in zip(places, shape, strict=True)]


def _interpolated(rays: _Rays, field: Reals, pixels: Pixels, depth: Reals) -> Reals:
    """The depth of the level itself, between this step and the one before."""
    after = _sampled(field, rays.points(pixels, depth))
    before = np.minimum(_sampled(field, rays.points(pixels, depth - np.float32(_STEP))), _LEVEL)
    rise: Reals = np.maximum(after - before, np.float32(1e-6))
    back = (after - _LEVEL) / rise * np.float32(_STEP)
    return depth - back


def _sampled(field: Reals, points: Reals) -> Reals:
    """The field at points between its cells, linearly along each axis; outside as at the border."""
    flat = field.reshape(-1)
    corner = np.zeros(points.shape[1], dtype=np.intp)
    parts = []
    for line, side in zip(points, field.shape, strict=True):
        inside = np.clip(line, 0, np.float32(side - 1.001))
        cell = inside.astype(np.intp)
        parts.append(inside - cell)
        corner = corner * side + cell
    _, rows, columns = field.shape
    x, y, z = parts
    lines = []
    for offset in (0, columns, rows * columns, rows * columns + columns):
        low = flat[corner + offset]
        lines.append(low + z * (flat[corner + (offset + 1)] - low))
    near = lines[0] + y * (lines[1] - lines[0])
    answer: Reals = near + x * (lines[2] + y * (lines[3] - lines[2]) - near)
    return answer


@dataclass(frozen=True, eq=False)
class _Paint:
    """The colours of labels, at points of the field."""

    labels: NDArray[Any]
    steps: list[int]
    colors: Reals

    def at(self, points: Reals, inwards: Reals) -> Reals:
        """(number, 3): the colour of the first label that is met from each point, which may lie in the blurred rim."""
        answer = np.broadcast_to(_BONE, (points.shape[1], 3)).copy()
        left = np.arange(points.shape[1])
        for far in _INWARDS:
            met = self._labels(points[:, left] + np.float32(far) * inwards[:, left])
            answer[left[met != 0]] = self.colors[met[met != 0]]
            left = left[met == 0]
        return answer

    def _labels(self, points: Reals) -> NDArray[Any]:
        places = [
            np.clip(((line - _MARGIN + 0.5) * step).astype(np.intp), 0, side - 1)
            for line, step, side in zip(points, self.steps, self.labels.shape, strict=True)
        ]
        found: NDArray[Any] = self.labels[tuple(places)]
        return found


def _shaded(rays: _Rays, field: Reals, colors: _Paint | None) -> Picture:
    canvas = _backdrop(rays.pixels)
    pixels, depth = _first_hits(rays, field)
    if not pixels.size:
        return picture(canvas)
    points = rays.points(pixels, depth)
    normals = _normals(field, points, rays.cell)
    openness = _openness(field, points, normals, rays.cell)
    seen = rays.frame @ normals
    key = np.clip(-_unit(_KEY_LIGHT) @ seen, 0, None)
    fill = np.clip(-_unit(_FILL_LIGHT) @ seen, 0, None)
    haze = 1 - _HAZE * (depth - depth.min()) / max(float(np.ptp(depth)), 1.0)
    light = (0.33 * openness + 0.88 * key * (0.2 + 0.8 * openness) + 0.18 * fill * openness) * haze
    inwards = -normals * (rays.cell.min() / rays.cell)[:, None]
    color = _BONE if colors is None else colors.at(points, inwards)
    hit = np.zeros(rays.pixels, dtype=np.float32)
    hit.reshape(-1)[pixels] = 1
    canvas.reshape(-1, 3)[pixels] = np.clip(light, 0, 1.05)[:, None] ** np.float32(_GAMMA) * color
    return picture(_smooth_rim(canvas, hit))


def _normals(field: Reals, points: Reals, cell: Reals) -> Reals:
    """(3, number), outwards: against the field's gradient, in lengths."""
    gradient = np.empty_like(points)
    for axis in range(3):
        ahead, behind = points.copy(), points.copy()
        ahead[axis] += 1
        behind[axis] -= 1
        gradient[axis] = (_sampled(field, ahead) - _sampled(field, behind)) / cell[axis]
    return -_unit(gradient)


def _unit(vectors: Reals) -> Reals:
    answer: Reals = vectors / np.maximum(np.linalg.norm(vectors, axis=0), np.float32(1e-6))
    return answer


def _openness(field: Reals, points: Reals, normals: Reals, cell: Reals) -> Reals:
    """How little of the object lies ahead of the surface, 0 to 1."""
    coarse = shrunk(field, (_CUBE,) * 3)
    for axis in range(3):
        coarse = _blurred(coarse, axis)
    open_ = np.ones(points.shape[1], dtype=np.float32)
    steps = normals * (cell.min() / cell)[:, None]
    for distance, weight in _LOOK_AHEAD:
        places = (points + steps * np.float32(distance) + np.float32(0.5)) / _CUBE - np.float32(0.5)
        open_ -= weight * _sampled(coarse, places)
    return np.clip(open_, 0, 1)


def _backdrop(pixels: tuple[int, int]) -> Reals:
    """The colour between panels, a little lighter towards the middle."""
    rows = np.linspace(-1, 1, pixels[0], dtype=np.float32)[:, None]
    columns = np.linspace(-1, 1, pixels[1], dtype=np.float32)
    glow: Reals = np.exp(-1.5 * (rows**2 + columns**2))
    return np.array(GAP, np.float32) + glow[..., None] * np.array(_GLOW, np.float32)


def _smooth_rim(canvas: Reals, hit: Reals) -> Reals:
    """The canvas, blurred where the object ends."""
    rim = _blurred(_blurred(hit, 0), 1)
    soft = _blurred(_blurred(canvas, 0), 1)
    return np.where(((rim > 0) & (rim < 1))[..., None], soft, canvas)
