"""The pairs of a grid from what each offset weighs: a number, or a number times a field of them.

Near the border of an image a pair takes part in fewer cliques or windows than inside it. That makes a field, an array
of the image's shape per offset. In float32 it takes half the memory, which is right only where nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dope.arrays import Reals
from dope.pairs import GridPairs, ends

Offset = tuple[int, ...]
Weight = tuple[float, Reals | None]
"""A factor, and what it is multiplied by where that differs from pair to pair."""


def weighted_pairs(shape: tuple[int, ...], weights: Mapping[Offset, Weight]) -> GridPairs:
    """The pairs (p, p + offset) of these weights; an offset that leads nowhere in this shape is left out."""
    kept = {
        offset: weight
        for offset, weight in weights.items()
        if all(abs(o) < n for o, n in zip(offset, shape, strict=True))
    }
    factors = np.array([factor for factor, _ in kept.values()], dtype=np.float64)
    offsets = np.array(list(kept), dtype=np.int64).reshape(len(kept), len(shape))
    bounds = np.array([_range(offset, *weight) for offset, weight in kept.items()]).reshape(len(kept), 2)
    if all(field is None for _, field in kept.values()):
        return GridPairs(shape, offsets, factors, bounds)
    one = np.broadcast_to(np.float32(1), shape)  # takes no memory
    return GridPairs(shape, offsets, factors, bounds, fields=tuple(one if f is None else f for _, f in kept.values()))


def narrowed(field: NDArray[np.float64]) -> Reals:
    """The field in float32 if that holds every number of it, else as it is."""
    narrow = field.astype(np.float32)
    return narrow if np.array_equal(narrow, field) else field


def _range(offset: Offset, factor: float, field: NDArray[Any] | None) -> list[float]:
    """The least and the largest weight of the pairs of one offset."""
    if field is None:
        return [factor, factor]
    inside = field[ends(offset)[0]]
    return sorted([factor * float(inside.min()), factor * float(inside.max())])
