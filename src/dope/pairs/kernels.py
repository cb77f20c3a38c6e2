"""Kernels: which offsets lead from a site to its neighbours, and how long they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import Sites, as_reals
from dope.errors import InputError

Kernel = int | Sequence[Any] | npt.NDArray[np.integer[Any]]
"""An odd size, or the half-offsets themselves: (h, dimensions) integers."""

# Further than any image goes, and far from where int64 ends.
MOST_REACH = 1 << 31

# As far as all of NumPy goes: `flat` ends there.
MOST_AXES = 32

# Half-offsets of a kernel: eight times as many as a network of the core can have arcs for, as those that lead out of a
# small image need none. In two dimensions a size of 511, in three one of 79.
MOST_HALF_OFFSETS = 1 << 17


def half_offsets(kernel: Kernel, dimensions: int) -> Sites:
    """One offset of each opposite pair of a kernel's offsets, in lexicographic order.

    An odd size is a square (2r+1)^2 in one and two dimensions and the ball |offset| <= r, in voxels, from three on.
    Explicit half-offsets are kept in the order given.

    >>> half_offsets(3, 2).tolist()
    [[0, 1], [1, -1], [1, 0], [1, 1]]
    """
    if not 1 <= dimensions <= MOST_AXES:
        raise InputError(f"a kernel in {dimensions} dimensions is asked for; expected 1 to {MOST_AXES}, as of arrays.")
    if isinstance(kernel, (int, np.integer)) and not isinstance(kernel, bool):
        return _sized_offsets(int(kernel), dimensions)
    return _listed_offsets(kernel, dimensions)


def _sized_offsets(size: int, dimensions: int) -> Sites:
    if size < 1 or size % 2 == 0:
        raise InputError(f"kernel is {size}; expected an odd size (3, 5, 7, ...) or a list of half-offsets.")
    radius = min(size // 2, MOST_HALF_OFFSETS + 1)  # any larger one has too many along a single axis
    # Axis by axis: how an offset can begin, and which squared length is left for its other axes.
    begun, left = np.zeros((1, 0), dtype=np.int64), np.array([radius * radius])
    for _ in range(dimensions):
        reach = _roots(left) if dimensions >= 3 else np.full(len(left), radius)
        steps = 2 * reach + 1
        # Every beginning goes on to one offset at least, with 0 along the other axes: there are no fewer offsets.
        if int(steps.sum()) // 2 > MOST_HALF_OFFSETS:
            raise InputError(
                f"kernel is {size}, which has more than {MOST_HALF_OFFSETS:,} pairs of opposite neighbours in "
                f"{dimensions} dimensions; expected at most so many. Use a smaller size, or list half-offsets."
            )
        which = np.repeat(np.arange(len(steps)), steps)
        step = np.arange(len(which)) - (np.cumsum(steps) - steps + reach)[which]
        begun, left = np.column_stack([begun[which], step]), left[which] - step * step
    return begun[len(begun) // 2 + 1 :]  # in lexicographic order the offset 0 lies in the middle


def _roots(squares: Sites) -> Sites:
    """The largest whole numbers whose squares are no larger."""
    roots = np.sqrt(squares.astype(np.float64)).astype(np.int64)
    roots -= roots * roots > squares
    return roots + ((roots + 1) * (roots + 1) <= squares)


def offset_lengths(offsets: Sites, spacing: Sequence[float] | None) -> npt.NDArray[np.float64]:
    """How long offsets are, in units of the spacing."""
    dimensions = offsets.shape[1]
    size = np.ones(dimensions) if spacing is None else as_reals("spacing", spacing).astype(np.float64)
    if size.shape != (dimensions,) or not (np.isfinite(size) & (size > 0)).all():
        raise InputError(f"spacing is {spacing}; expected {dimensions} positive numbers, one per axis.")
    with np.errstate(over="ignore", under="ignore"):
        lengths = np.asarray(np.linalg.norm(offsets * size, axis=1))
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        raise InputError(f"spacing is {spacing}; expected sizes whose squares float64 holds. Choose another unit.")
    return lengths


def _listed_offsets(kernel: Any, dimensions: int) -> Sites:
    found = np.asarray(kernel)
    if found.ndim == 0:
        raise InputError(f"kernel is {kernel!r}; expected an odd size (3, 5, 7, ...) or a list of half-offsets.")
    if found.size == 0:
        return np.zeros((0, dimensions), dtype=np.int64)
    if found.ndim == 1 and dimensions == 1:
        found = found[:, None]
    if found.dtype.kind not in "iu" or found.ndim != 2 or found.shape[1] != dimensions:
        raise InputError(
            f"kernel has shape {found.shape} and dtype {found.dtype}; expected an odd size, or half-offsets as "
            f"integers of shape (number, {dimensions})."
        )
    if len(found) > MOST_HALF_OFFSETS:
        raise InputError(f"kernel lists {len(found):,} half-offsets; expected at most {MOST_HALF_OFFSETS:,}.")
    if found.max() > MOST_REACH or found.min() < -MOST_REACH:
        raise InputError(f"kernel reaches {found.min()} to {found.max()} sites; expected at most {MOST_REACH}.")
    offsets = found.astype(np.int64)
    seen: set[tuple[int, ...]] = set()
    for offset in map(tuple, offsets.tolist()):
        if not any(offset):
            raise InputError("kernel lists the offset 0; a site is not its own neighbour. Leave it out.")
        if offset in seen or tuple(-x for x in offset) in seen:
            raise InputError(f"kernel lists {offset} twice or with its opposite; give each direction once.")
        seen.add(offset)
    return offsets
