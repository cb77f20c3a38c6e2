"""What is known of every site, small enough to be held for a thousand million of them, and to be kept in files.

A code per site: bit 0 is the label, bit 1 says that it is not proved. Codes are packed to two bits, compressed, and
held in cells, boxes between the cuts of all partitions in use; a cell that nobody has looked at yet is absent.
"""

from __future__ import annotations

import math
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Box, Mask
from dope.errors import DopeError

Codes = npt.NDArray[np.uint8]

LABEL, OPEN = 1, 2
# Cells unpacked at hand: neighbouring blocks share some.
CELLS_AT_HAND = 32


def packed(codes: Codes) -> bytes:
    """Codes in few bytes."""
    planes = [np.packbits(codes & LABEL), np.packbits(codes >> 1)]
    return zlib.compress(np.concatenate(planes).tobytes(), 1)


def unpacked(blob: bytes, shape: Sequence[int]) -> Codes:
    """The codes of a box of this shape; never more memory than that, whatever the bytes say."""
    label, unproved = (np.unpackbits(plane, count=math.prod(shape)) for plane in _planes(blob, math.prod(shape)))
    return (label | (unproved << np.uint8(1))).reshape(tuple(shape))


def unpacked_labels(blob: bytes, shape: Sequence[int]) -> BinaryLabels:
    """The labels in the codes of a box of this shape."""
    sites = math.prod(shape)
    return np.unpackbits(_planes(blob, sites)[0], count=sites).view(np.bool_).reshape(tuple(shape))


def _planes(blob: bytes, sites: int) -> tuple[Codes, Codes]:
    """The bits of so many labels, and whether they are not proved."""
    length = -(-sites // 8)
    unpacker = zlib.decompressobj()
    try:
        planes = np.frombuffer(unpacker.decompress(blob, 2 * length + 1), dtype=np.uint8)
    except zlib.error as error:
        raise DopeError(f"codes of {sites} sites are damaged: {error}") from error
    if len(planes) != 2 * length:
        raise DopeError(f"codes of {sites} sites are damaged: {len(planes)} bytes instead of {2 * length}.")
    return planes[:length], planes[length:]


def bounding_box(where: Mask) -> Box | None:
    """The smallest box that holds all that is True, None where nothing is."""
    box = []
    for axis in range(where.ndim):
        places = np.flatnonzero(where.any(axis=tuple(a for a in range(where.ndim) if a != axis)))
        if not len(places):
            return None
        box.append(slice(int(places[0]), int(places[-1]) + 1))
    return tuple(box)


def moved(box: Box, by: Sequence[int], sign: int = 1) -> Box:
    """The box so many sites further along each axis, or, with -1, as seen from there."""
    return tuple(slice(s.start + sign * o, s.stop + sign * o) for s, o in zip(box, by, strict=True))


def common(one: Box, other: Box) -> Box:
    """What is in both."""
    return tuple(slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(one, other, strict=True))


def hull(boxes: Sequence[Box]) -> Box:
    """The smallest box around all of them."""
    return tuple(slice(min(s.start for s in axis), max(s.stop for s in axis)) for axis in zip(*boxes, strict=True))


@dataclass(frozen=True)
class Cell:
    """The codes of a cell, and what they say in short; `open_box` lies in the whole."""

    blob: bytes
    open: int
    ones: int
    open_box: Box | None


class Known:
    """A code for every site of a grid."""

    def __init__(self, shape: tuple[int, ...], cuts: Sequence[Sequence[Sequence[int]]]) -> None:
        """`cuts` are those of some partitions, for each the places along each axis."""
        self.shape = shape
        self._edges = [sorted({0, n, *(c for one in cuts for c in one[axis])}) for axis, n in enumerate(shape)]
        self._cells: dict[tuple[int, ...], Cell] = {}
        self._codes = lru_cache(CELLS_AT_HAND)(self._unpacked)

    @property
    def open(self) -> int:
        """How many sites are not proved."""
        looked_at: int = sum(math.prod(s.stop - s.start for s in self._box(index)) for index in self._cells)
        return math.prod(self.shape) - looked_at + sum(cell.open for cell in self._cells.values())

    @property
    def ones(self) -> int:
        """How many labels are 1."""
        return sum(cell.ones for cell in self._cells.values())

    def read(self, box: Box) -> Codes:
        codes = np.full(tuple(s.stop - s.start for s in box), OPEN, dtype=np.uint8)
        corner = [s.start for s in box]
        for index in self._within(box):
            if index not in self._cells:
                continue
            cell = self._box(index)
            part = common(cell, box)
            codes[moved(part, corner, -1)] = self._codes(index)[moved(part, [s.start for s in cell], -1)]
        return codes

    def labels(self, box: Box) -> BinaryLabels:
        """Those that are known, proved or not; 0 where none is."""
        labels = np.zeros(tuple(s.stop - s.start for s in box), dtype=np.bool_)
        corner = [s.start for s in box]
        for index in self._within(box):
            if index in self._cells:
                cell = self._box(index)
                part = common(cell, box)
                found = unpacked_labels(self._cells[index].blob, [s.stop - s.start for s in cell])
                labels[moved(part, corner, -1)] = found[moved(part, [s.start for s in cell], -1)]
        return labels

    def write(self, box: Box, codes: Codes) -> None:
        corner = [s.start for s in box]
        for index in self._within(box):
            cell = self._box(index)
            part = common(cell, box)
            new = codes[moved(part, corner, -1)]
            if part != cell:
                whole = self.read(cell)
                whole[moved(part, [s.start for s in cell], -1)] = new
                new = whole
            inside = bounding_box((new & OPEN) != 0)
            self._cells[index] = Cell(
                packed(new),
                int(np.count_nonzero(new & OPEN)),
                int(np.count_nonzero(new & LABEL)),
                None if inside is None else moved(inside, [s.start for s in cell]),
            )
        self._codes.cache_clear()

    def open_box(self, box: Box) -> Box | None:
        """The smallest box in `box`, which must consist of whole cells, that holds all its open sites."""
        found = []
        for index in self._within(box):
            cell = self._cells.get(index)
            inside = self._box(index) if cell is None else cell.open_box
            if inside is not None:
                found.append(inside)
        return hull(found) if found else None

    def _within(self, box: Box) -> Iterator[tuple[int, ...]]:
        """The cells that have sites in a box."""
        ranges = []
        for edges, s in zip(self._edges, box, strict=True):
            first, last = bisect_right(edges, s.start) - 1, bisect_right(edges, s.stop - 1) - 1
            ranges.append(range(first, last + 1))
        return product(*ranges)

    def _box(self, index: tuple[int, ...]) -> Box:
        return tuple(slice(edges[i], edges[i + 1]) for edges, i in zip(self._edges, index, strict=True))

    def _unpacked(self, index: tuple[int, ...]) -> Codes:
        return unpacked(self._cells[index].blob, [s.stop - s.start for s in self._box(index)])
