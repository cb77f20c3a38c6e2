"""Labels between two looks at them: a compressed bit per site, in the memory of whoever coordinates the work."""

from __future__ import annotations

import math
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from dope.arrays import BinaryLabels, Box
from dope.segmentation.boxes import corner_of, moved, sides_of


class KeptLabels:
    """Labels of a grid in cells between some cuts: written by boxes, as a target of labels is, and read by boxes.

    What nobody has written is background.
    """

    anywhere = False  # written where it is, from what blocks reply
    chunks: tuple[int, ...] | None = None
    site_bytes = 1

    def __init__(self, shape: tuple[int, ...], cuts: Sequence[Sequence[int]]) -> None:
        self.shape = shape
        self._edges = [[0, *where, n] for where, n in zip(cuts, shape, strict=True)]
        self._cells: dict[tuple[int, ...], tuple[bytes, int]] = {}

    @property
    def ones(self) -> int:
        """How many labels are 1."""
        return sum(ones for _, ones in self._cells.values())

    def any(self) -> bool:
        """Whether some label is 1."""
        return self.ones > 0

    def all(self) -> bool:
        """Whether no label is 0."""
        return self.ones == math.prod(self.shape)

    def same_as(self, other: KeptLabels) -> bool:
        """Whether they are the same as others with the same cells."""
        return all(self._bits(index) == other._bits(index) for index in product(*self._numbers()))

    def __setitem__(self, box: Box, labels: BinaryLabels) -> None:
        for index, cell, part in self._within(box):
            new = labels[moved(part, corner_of(box), -1)]
            if part != cell:
                whole = self._read(index)
                whole[moved(part, corner_of(cell), -1)] = new
                new = whole
            self._cells[index] = zlib.compress(np.packbits(new).tobytes(), 1), int(np.count_nonzero(new))

    def at(self, box: Box) -> BinaryLabels:
        labels = np.zeros(sides_of(box), dtype=np.bool_)
        for index, cell, part in self._within(box):
            if index in self._cells:
                labels[moved(part, corner_of(box), -1)] = self._read(index)[moved(part, corner_of(cell), -1)]
        return labels

    def excerpt(self, box: Box) -> KeptLabels:
        part = KeptLabels(self.shape, [edges[1:-1] for edges in self._edges])
        part._cells = {index: self._cells[index] for index, _, _ in self._within(box) if index in self._cells}
        return part

    def _bits(self, index: tuple[int, ...]) -> bytes:
        blob, ones = self._cells.get(index, (b"", 0))
        return zlib.decompress(blob) if ones else b""

    def _read(self, index: tuple[int, ...]) -> BinaryLabels:
        sides = [edges[i + 1] - edges[i] for edges, i in zip(self._edges, index, strict=True)]
        if index not in self._cells:
            return np.zeros(sides, dtype=np.bool_)
        bits = np.frombuffer(zlib.decompress(self._cells[index][0]), dtype=np.uint8)
        return np.unpackbits(bits, count=math.prod(sides)).view(np.bool_).reshape(sides)

    def _numbers(self) -> list[range]:
        return [range(len(edges) - 1) for edges in self._edges]

    def _within(self, box: Box) -> Iterator[tuple[tuple[int, ...], Box, Box]]:
        """The cells that have sites in a box: their number, where they lie, and what of that is in the box."""
        ranges = []
        for edges, s in zip(self._edges, box, strict=True):
            ranges.append(range(bisect_right(edges, s.start) - 1, bisect_right(edges, s.stop - 1)))
        for index in product(*ranges):
            cell = tuple(slice(edges[i], edges[i + 1]) for edges, i in zip(self._edges, index, strict=True))
            part = tuple(slice(max(c.start, s.start), min(c.stop, s.stop)) for c, s in zip(cell, box, strict=True))
            yield index, cell, part
