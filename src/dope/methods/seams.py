"""The seams of a block: its pairs with other blocks, in an order that both ends find by themselves.

So what a block says of a seam is a column of numbers, without saying of which sites: the flow over every pair, the
distance of every site with pairs there. All seams of a block lie one after the other in its columns, and a `Cut` says
where one of them begins and ends.

    pairs     by offset of the kernel, as the block with the lower number sees them; then row by row
    sites     row by row, of the smallest box that holds those of one block with pairs to the other
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, Mask, Sites
from dope.boards.post import Arrays
from dope.methods.tiling import box_of, common, hull, moved, plain, sides

Cut = dict[int, slice]
"""The part of a column that is of the seam with a block, by that block."""


@dataclass(frozen=True, eq=False)
class Seams:
    """What a block shares with its neighbours; sites are those of a region that holds all of them.

    Attributes
    ----------
    first, second : the ends of every pair over a seam, here and there; `pairs` says which are whose.
    here, there : sites of the block with pairs over a seam, and those of others; `mine` and `theirs` say which are
        whose. One with several seams is listed for each of them.
    """

    first: Sites
    second: Sites
    here: Sites
    there: Sites
    pairs: Cut
    mine: Cut
    theirs: Cut

    @classmethod
    def of(cls, block: int, box: Box, near: Mapping[int, Box], region: Box, offsets: npt.NDArray[np.int64]) -> Seams:
        """Those of a box of a block with boxes of other blocks, by their numbers. They may have none."""
        found = {n: _seam(box, other, region, offsets, forth=block < n) for n, other in near.items()}
        found = {n: seam for n, seam in found.items() if len(seam[0])}
        none = np.zeros(0, dtype=np.int64)
        first, second, here, there = (np.concatenate([none, *(one[i] for one in found.values())]) for i in range(4))
        pairs, mine, theirs = (_cut({n: len(one[i]) for n, one in found.items()}) for i in (0, 2, 3))
        return cls(first, second, here, there, pairs, mine, theirs)

    @property
    def columns(self) -> tuple[Sites, Sites, Sites, Sites]:
        return self.first, self.second, self.here, self.there


def boxes_told(block: int, box: Box, near: Mapping[int, Box]) -> Arrays:
    """For a post: all that its seams follow from, but for the kernel."""
    boxes = {block: box} | dict(near)
    return {"blocks": np.array(list(boxes), dtype=np.int64), "boxes": np.array([plain(one) for one in boxes.values()])}


def seams_told(arrays: Arrays, region: Box, offsets: npt.NDArray[np.int64]) -> Seams:
    """The seams that a post with `boxes_told` is of."""
    (block, *near), (box, *others) = arrays["blocks"].tolist(), map(box_of, arrays["boxes"].tolist())
    return Seams.of(block, box, dict(zip(near, others, strict=True)), region, offsets)


def blocks_with(some: Mask, cut: Cut) -> list[int]:
    """The blocks for which a column says True somewhere."""
    return [n for n, part in cut.items() if some[part].any()]


def parted(cut: Cut, column: npt.NDArray[Any]) -> dict[int, npt.NDArray[Any]]:
    """A column by the blocks that its parts are of."""
    return {n: column[part] for n, part in cut.items()}


def narrowed(column: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The same numbers in half the bytes, where these hold them."""
    least, most = int(column.min(initial=0)), int(column.max(initial=0))
    return column.astype(np.int32) if least >= -(1 << 31) and most < 1 << 31 else column


def _cut(lengths: Mapping[int, int]) -> Cut:
    ends = accumulate(lengths.values())
    return {n: slice(end - length, end) for (n, length), end in zip(lengths.items(), ends, strict=True)}


def _seam(
    box: Box, other: Box, region: Box, offsets: npt.NDArray[np.int64], *, forth: bool
) -> tuple[Sites, Sites, Sites, Sites]:
    """The ends of the pairs of two boxes, in the first and in the other, and the sites of both; `forth` as listed."""
    sign = 1 if forth else -1
    both_ways = [tuple(one * step for step in row) for row in offsets.tolist() for one in (sign, -sign)]
    begins = [(common(box, moved(other, offset, -1)), offset) for offset in both_ways]
    ends = [(begin, moved(begin, offset)) for begin, offset in begins if begin is not None]
    mine, theirs = [begin for begin, _ in ends], [end for _, end in ends]
    slabs = [hull(boxes) for boxes in (mine, theirs)]
    here, there = (_sites_of([] if slab is None else [slab], region) for slab in slabs)
    return _sites_of(mine, region), _sites_of(theirs, region), here, there


def _sites_of(boxes: Sequence[Box], region: Box) -> Sites:
    """The sites of boxes as those of a region, each box row by row."""
    shape, found = sides(region), [np.zeros(0, dtype=np.int64)]
    for box in boxes:
        axes = [np.arange(s.start - r.start, s.stop - r.start) for s, r in zip(box, region, strict=True)]
        found.append(np.ravel_multi_index(np.ix_(*axes), shape).ravel())
    return np.concatenate(found)
