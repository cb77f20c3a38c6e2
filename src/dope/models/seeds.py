"""Seeds: sites whose label a user has said.

What users hand over, and get, is as it is drawn: 0 nothing, 1 foreground, 2 background. Past the door it is label
numbers (`dope.scribbles`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.arrays import Box, Mask, Reals, as_labels, as_reals
from dope.errors import InputError
from dope.scribbles import BACKGROUND, DRAWN, FOREGROUND, Seeds, as_seeds

_DRAWN_FOREGROUND, _DRAWN_BACKGROUND = np.uint8(DRAWN[FOREGROUND]), np.uint8(DRAWN[BACKGROUND])


def seed_unary(unary: ArrayLike, seeds: ArrayLike, strength: float) -> Reals:
    """A copy of `unary` in which strokes decide: -strength under foreground, +strength under background.

    A seed is a hard constraint when `strength` exceeds the sum of the weights of the pairs of its site.

    Examples
    --------
    >>> seed_unary([0.5, 0.25, -2.0], [1, 0, 2], strength=100)
    array([-100.  ,    0.25,  100.  ])
    """
    found = as_reals("unary", unary)
    fixed = as_seeds("seeds", seeds)
    if fixed.shape != found.shape:
        raise InputError(f"seeds are shaped {fixed.shape} and the unary {found.shape}; expected the same shape")
    if not (np.isfinite(strength) and strength > 0):
        raise InputError(f"strength is {strength}; expected a positive finite number")
    return fix_seeds(found, fixed, strength)


def fix_seeds(unary: Reals, seeds: Seeds, strength: float) -> Reals:
    """As `seed_unary`, of label numbers."""
    out = unary.copy()
    out[seeds == FOREGROUND] = -strength
    out[seeds == BACKGROUND] = strength
    return out


def seeds_from_labels(labels: ArrayLike, seeds: ArrayLike) -> NDArray[np.uint8]:
    """Every site a seed of its label, except that seeds keep what the user said.

    Examples
    --------
    >>> seeds_from_labels([True, True, False], [0, 2, 0])
    array([1, 2, 2], dtype=uint8)
    """
    fixed = as_seeds("seeds", seeds)
    out = np.where(as_labels(labels, fixed.shape), _DRAWN_FOREGROUND, _DRAWN_BACKGROUND)
    for label, drawn in DRAWN.items():
        out[fixed == label] = drawn
    return out


def seeds_from_rectangle(shape: Sequence[int], rectangle: ArrayLike) -> NDArray[np.uint8]:
    """Seeds as in GrabCut: background outside of a rectangle or box, nothing known inside.

    Parameters
    ----------
    shape : sequence of int
        Of the sites, without channels.
    rectangle : (start, stop) per axis
        In the order of the axes, rows before columns; like a slice, `stop` is the first site outside again.

    Examples
    --------
    >>> seeds_from_rectangle((3, 5), [(1, 3), (1, 4)])
    array([[2, 2, 2, 2, 2],
           [2, 0, 0, 0, 2],
           [2, 0, 0, 0, 2]], dtype=uint8)
    """
    inside = Rectangle.of(shape, rectangle).inside_at(tuple(slice(0, n) for n in shape))
    return _with_background(np.where(inside, np.uint8(0), _DRAWN_BACKGROUND), "rectangle")


def seeds_from_lasso(shape: Sequence[int], polygon: ArrayLike) -> NDArray[np.uint8]:
    """Seeds of a 2D image: background outside of a closed polygon, nothing known inside.

    Parameters
    ----------
    shape : sequence of int
        Of the sites, (rows, columns).
    polygon : array of (row, column)
        The corners in order; the last is joined to the first. Site (r, c) has its middle at (r, c). Where the
        polygon crosses itself, a site is inside if a line from it to the far outside crosses an odd number of sides.

    Examples
    --------
    >>> seeds_from_lasso((4, 5), [(0.5, 0.5), (0.5, 3.5), (3.5, 2.0)])
    array([[2, 2, 2, 2, 2],
           [2, 0, 0, 0, 2],
           [2, 2, 0, 2, 2],
           [2, 2, 0, 2, 2]], dtype=uint8)
    """
    inside = Lasso.of(shape, polygon).inside_at(tuple(slice(0, n) for n in shape))
    if not inside.any():
        raise holds_none(shape)
    return _with_background(np.where(inside, np.uint8(0), _DRAWN_BACKGROUND), "polygon")


@dataclass(frozen=True)
class Rectangle:
    """A box around an object."""

    name: ClassVar[str] = "rectangle"
    sides: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, shape: Sequence[int], rectangle: ArrayLike) -> Rectangle:
        sides = np.asarray(rectangle)
        if sides.shape != (len(shape), 2) or sides.dtype.kind not in "iu":
            raise InputError(
                f"the rectangle is shaped {sides.shape} of type {sides.dtype}; expected whole numbers, a start and a "
                f"stop for each of {len(shape)} axes"
            )
        for (start, stop), size in zip(sides.tolist(), shape, strict=True):
            if not 0 <= start < stop <= size:
                raise InputError(
                    f"the rectangle goes from {start} to {stop} along an axis of {size}; "
                    f"expected 0 <= start < stop <= {size}"
                )
        return cls(tuple((start, stop) for start, stop in sides.tolist()))

    def inside_at(self, box: Box) -> Mask:
        """Which sites of a box of the image lie inside."""
        inside = np.zeros(tuple(s.stop - s.start for s in box), dtype=np.bool_)
        within = [
            (max(0, low - s.start), max(0, high - s.start)) for (low, high), s in zip(self.sides, box, strict=True)
        ]
        inside[tuple(slice(low, high) for low, high in within)] = True
        return inside


@dataclass(frozen=True)
class Lasso:
    """A closed polygon around an object."""

    name: ClassVar[str] = "polygon"
    corners: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, shape: Sequence[int], polygon: ArrayLike) -> Lasso:
        corners = as_reals("polygon", polygon).astype(np.float64)
        if len(shape) != 2 or corners.ndim != 2 or corners.shape[1] != 2 or len(corners) < 3:
            raise InputError(
                f"the polygon is shaped {corners.shape} and the sites {tuple(shape)}; expected at least three corners "
                "(row, column) and a 2D image"
            )
        if not np.isfinite(corners).all():
            raise InputError("the polygon holds NaN or infinite corners; expected finite numbers")
        return cls(tuple((row, column) for row, column in corners.tolist()))

    def inside_at(self, box: Box) -> Mask:
        """Sites of a box inside by the odd-even rule: each side flips all sites of its rows that lie right of it."""
        rows, columns = box
        flips = np.zeros((rows.stop - rows.start, columns.stop - columns.start + 1), dtype=np.bool_)
        for (row, column), (end_row, end_column) in pairwise([*self.corners, self.corners[0]]):
            # Half open, so that a corner between two sides is crossed once.
            low, high = np.clip(np.ceil(sorted((row, end_row))), rows.start, rows.stop).astype(np.int64)
            met = np.arange(low, high)
            if met.size:
                crossing = column + (met - row) * ((end_column - column) / (end_row - row))
                first = np.clip(np.ceil(crossing), columns.start, columns.stop).astype(np.int64)
                flips[met - rows.start, first - columns.start] ^= True
        return np.logical_xor.accumulate(flips, axis=1)[:, :-1]


def covers_all(name: str) -> InputError:
    """What to say of an outline with nothing outside."""
    return InputError(f"the {name} covers the whole image; leave some background outside of it")


def holds_none(shape: Sequence[int]) -> InputError:
    """What to say of a polygon with nothing inside."""
    return InputError(f"the polygon holds no site of an image of shape {tuple(shape)}; draw it larger")


def _with_background(seeds: NDArray[np.uint8], name: str) -> NDArray[np.uint8]:
    if not seeds.any():
        raise covers_all(name)
    return seeds
