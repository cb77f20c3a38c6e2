"""How many sites have which label, and how many of them two labellings have in common."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dope.arrays import MOST_LABELS, Labels, Sites

# Sites looked at in one go: counting takes 8 bytes for each.
_PIECE = 1 << 20


def count_labels(labels: Labels, label_count: int = 2) -> Sites:
    """The number of sites of every label: entry l is that of label l. As many entries as labels are known to be.

    >>> count_labels(np.array([0, 2, 2], dtype=np.uint8)).tolist(), count_labels(np.array([True, False])).tolist()
    ([1, 0, 2], [1, 1])
    """
    counts = np.zeros(max(2, label_count), dtype=np.int64)
    if labels.dtype == np.bool_:
        ones = int(np.count_nonzero(labels))
        counts[:2] = labels.size - ones, ones
        return counts
    for piece in _pieces(labels):
        counts = _sum(counts, np.bincount(piece))
    return counts


def label_numbers(labels: Labels) -> list[int]:
    """The labels that occur.

    >>> label_numbers(np.array([[5, 0], [5, 5]], dtype=np.uint8))
    [0, 5]
    """
    return [int(label) for label in np.flatnonzero(count_labels(labels))]


def several_labels(labels: NDArray[Any]) -> list[int]:
    """The labels other than 0, where there are several; none where what is not 0 is one object, whatever its number.

    >>> several_labels(np.array([0, 1, 2])), several_labels(np.array([0, 255])), several_labels(np.array([True, False]))
    ([1, 2], [], [])
    """
    if labels.dtype.kind not in "iu" or not labels.size or not 0 <= labels.min() <= labels.max() < MOST_LABELS:
        return []
    numbers = [label for label in label_numbers(labels) if label]
    return numbers if len(numbers) > 1 else []


@dataclass(frozen=True, eq=False)
class Overlap:
    """Two labellings of the same sites: for every label the sites of the first, of the second, and of both."""

    first: Sites
    second: Sites
    common: Sites

    @classmethod
    def of(cls, first: Labels, second: Labels) -> Overlap:
        """Count them, a piece at a time.

        >>> both = Overlap.of(np.array([1, 1, 2], dtype=np.uint8), np.array([1, 2, 2], dtype=np.uint8))
        >>> both.differing, both.dice(1)
        (1, 0.6666666666666666)
        """
        counts = [count_labels(first), count_labels(second)]
        common = np.zeros(2, dtype=np.int64)
        for one, other in zip(_pieces(first), _pieces(second), strict=True):
            common = _sum(common, count_labels(one[one == other]))
        length = max(map(len, counts))
        return cls(*(_sum(np.zeros(length, dtype=np.int64), part) for part in (*counts, common)))

    @property
    def differing(self) -> int:
        """Sites whose labels differ."""
        return int(self.first.sum() - self.common.sum())

    @property
    def labels(self) -> list[int]:
        """Those that occur in either."""
        return [int(label) for label in np.flatnonzero(self.first + self.second)]

    def dice(self, label: int) -> float:
        """2 |A and B| / (|A| + |B|), of the sites A and B that have this label; 1 where none has."""
        total = int(self.first[label]) + int(self.second[label])
        return 2 * int(self.common[label]) / total if total else 1.0


def _sum(one: Sites, other: NDArray[Any]) -> Sites:
    """Counts of which some go on further than others."""
    length = max(len(one), len(other))
    total: Sites = np.zeros(length, dtype=np.int64)
    total[: len(one)] += one
    total[: len(other)] += other
    return total


def _pieces(labels: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """All sites, some at a time, one after another in the same order for arrays of the same shape."""
    if labels.ndim == 0:
        labels = labels.reshape(1)
    rows = max(1, _PIECE // max(1, math.prod(labels.shape[1:])))
    for low in range(0, len(labels), rows):
        yield labels[low : low + rows].reshape(-1)
