"""What is connected to the strokes.

A stroke says "this thing", and a thing is in one piece. Foreground that touches no foreground stroke is therefore
background that happens to have the thing's colours, and background shut in without a stroke of its own is part of the
thing.

Sites are joined in runs along the last axis, as there are far fewer runs than sites. Runs u, v that lie beside each
other are joined by giving every root the smallest root it is beside, then every run the root of its root:

    parent[max(root_u, root_v)] = min(root_u, root_v, ...),   parent = parent[parent] until it stays

and again with the pairs whose roots still differ; about log(runs) times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dope.arrays import BinaryLabels, Mask, Sites, as_labels
from dope.errors import InputError
from dope.scribbles import BACKGROUND, FOREGROUND, Seeds, as_seeds


def connected_to_seeds(labels: ArrayLike, seeds: ArrayLike) -> BinaryLabels:
    """Labels without foreground that touches no foreground seed, and without background that touches none of its own.

    Sites are connected when they share a face: 4 neighbours in 2D, 6 in 3D. A kind that has no seeds is left alone, so
    that a rectangle or lasso only fills holes. What a seed that disagrees with its label touches does not count.

    The answer need not be a minimum of the energy the labels minimized.

    Examples
    --------
    >>> labels = [[1, 1, 1, 0, 1], [1, 0, 1, 0, 0], [1, 1, 1, 0, 1]]
    >>> seeds = [[1, 0, 0, 0, 0], [0, 0, 0, 2, 0], [0, 0, 0, 0, 0]]
    >>> connected_to_seeds(labels, seeds).astype(int)
    array([[1, 1, 1, 0, 0],
           [1, 1, 1, 0, 0],
           [1, 1, 1, 0, 0]])
    """
    fixed = as_seeds("seeds", seeds)
    if fixed.ndim == 0:
        raise InputError("seeds are a single number; expected an array of at least one axis")
    return keep_connected(as_labels(labels, fixed.shape), fixed)


def keep_connected(labels: BinaryLabels, seeds: Seeds) -> BinaryLabels:
    """As `connected_to_seeds`, of label numbers."""
    kept = labels
    for label, wanted in ((FOREGROUND, True), (BACKGROUND, False)):
        marks = seeds == label
        if marks.any():
            kept = _touching(kept == wanted, marks) == wanted
    return kept.copy() if kept is labels else kept


def _touching(mask: Mask, marks: Mask) -> Mask:
    """The sites of `mask` whose connected part holds a mark."""
    parts = Parts.of(mask)
    return parts.painted(parts.holding(marks & mask))


@dataclass(frozen=True, eq=False)
class Parts:
    """The connected parts of a mask: its runs, and the first run of each run's part."""

    shape: tuple[int, ...]
    starts: Sites
    ends: Sites
    roots: Sites

    @classmethod
    def of(cls, mask: Mask) -> Parts:
        starts, ends = _runs(mask)
        return cls(mask.shape, starts, ends, joined(len(starts), *_beside(starts, ends, mask.shape)))

    def holding(self, marks: Mask) -> Mask:
        """By the number of a part's first run, whether it holds one of these marks, which must lie in parts."""
        held = np.zeros(len(self.starts), dtype=np.bool_)
        held[self._part_at(np.flatnonzero(marks))] = True
        return held

    def face(self, axis: int, mask: Mask, *, last: bool) -> Sites:
        """The parts of the first or last sites along an axis, one after another, by their first runs; -1 for none."""
        place = self.shape[axis] - 1 if last else 0
        where = tuple(slice(place, place + 1) if a == axis else slice(None) for a in range(len(self.shape)))
        flat = _flat_positions(self.shape, axis, place)
        found = np.full(flat.size, -1, dtype=np.int64)
        here = mask[where].reshape(-1)
        found[here] = self._part_at(flat[here])
        return found

    def painted(self, kept: Mask) -> Mask:
        """True on the parts whose first runs are kept, False elsewhere."""
        which = kept[self.roots]
        return _painted(self.starts[which], self.ends[which], self.shape)

    def _part_at(self, sites: Sites) -> Sites:
        """Of flat positions; runs are counted with one more site after each row."""
        at = sites + sites // self.shape[-1]
        return self.roots[np.searchsorted(self.starts, at, side="right") - 1]


def _flat_positions(shape: tuple[int, ...], axis: int, place: int) -> Sites:
    """Of all sites at a place along an axis, in row-major order."""
    below = math.prod(shape[axis + 1 :])
    above = np.arange(math.prod(shape[:axis]), dtype=np.int64) * (shape[axis] * below)
    return (above[:, None] + (place * below + np.arange(below, dtype=np.int64))).reshape(-1)


def _runs(mask: Mask) -> tuple[Sites, Sites]:
    """First sites of runs of True along the last axis, and the sites after their last; rows have a site more here."""
    rows, length = math.prod(mask.shape[:-1]), mask.shape[-1]
    padded = np.zeros(rows * (length + 1) + 1, dtype=np.bool_)
    padded[1:].reshape(rows, length + 1)[:, :length] = mask.reshape(rows, length)
    changes = np.flatnonzero(padded[1:] != padded[:-1])
    return changes[0::2], changes[1::2]


def _painted(starts: Sites, ends: Sites, shape: tuple[int, ...]) -> Mask:
    """True on the runs, False elsewhere."""
    rows, length = math.prod(shape[:-1]), shape[-1]
    flips = np.zeros(rows * (length + 1), dtype=np.bool_)
    flips[starts] = True
    flips[ends] = True
    painted = np.logical_xor.accumulate(flips).reshape(rows, length + 1)
    return painted[:, :length].reshape(shape)


def _beside(starts: Sites, ends: Sites, shape: tuple[int, ...]) -> tuple[Sites, Sites]:
    """Pairs of runs that share a face across any axis but the last, along which runs never touch."""
    wide = shape[-1] + 1
    tails, heads = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for axis in range(len(shape) - 1):
        step = math.prod(shape[axis + 1 : -1])
        inner = np.flatnonzero(starts // (wide * step) % shape[axis] < shape[axis] - 1)
        first = np.searchsorted(ends, starts[inner] + step * wide, side="right")
        number = np.searchsorted(starts, ends[inner] + step * wide, side="left") - first
        before = np.cumsum(number) - number
        tails.append(np.repeat(inner, number))
        heads.append(np.arange(number.sum()) + np.repeat(first - before, number))
    return np.concatenate(tails), np.concatenate(heads)


def joined(number: int, tails: Sites, heads: Sites) -> Sites:
    """The smallest of each one's connected part, where tails and heads are joined."""
    parent = np.arange(number)
    while tails.size:
        tails, heads = parent[tails], parent[heads]
        apart = tails != heads
        tails, heads = tails[apart], heads[apart]
        np.minimum.at(parent, np.maximum(tails, heads), np.minimum(tails, heads))
        while not np.array_equal(parent, above := parent[parent]):
            parent = above
    return parent
