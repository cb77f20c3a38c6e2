"""A block of `Bracketing`: reads its part of the arrays where it runs, does what the message says, and keeps nothing.

Outline   which sites take part: with nothing proved, what a certificate is about
Prove     which labels are certain whatever the open sites outside are
Finish    the energy of labels, and the labels written to their place
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dope.arrays import BinaryLabels, Box, Mask
from dope.boards import Post
from dope.energy import Energy
from dope.fixed_point import FixedPoint
from dope.methods.codes import OPEN, Codes, arrays_in, codes_post, labels_in, overlaid
from dope.methods.held_part import HeldPart
from dope.methods.rounds import Content
from dope.methods.seams import seams_told
from dope.methods.tiling import Tiling, bounding_box, common, moved, plain, seen_from, sides, size
from dope.pairs import GridPairs
from dope.protocols import FlowSolver
from dope.sums import exact_sum
from dope.work import Work


@dataclass(frozen=True)
class Outline:
    """Asks which sites of the block `mine` take part: these are open."""

    kind: ClassVar[str] = "outline"
    mine: Box
    region: Box


@dataclass(frozen=True)
class Prove:
    """`region` holds the open sites `mine` of the block and all their neighbours; the posts tell of their codes.

    `solver` opens flows, and `fixed` says how these count costs.
    """

    kind: ClassVar[str] = "prove"
    solver: FlowSolver
    fixed: FixedPoint
    mine: Box
    region: Box


@dataclass(frozen=True)
class Finish:
    """Asks for a block's part of the energy; the posts tell of the labels of `region`, the block and what is around it.

    Attributes
    ----------
    mine : the block.
    told : how many of the posts tell of labels; one that follows tells what the block sent over its seams.
    scale : what flows are counted in.
    target : where labels go, if there is such a place.
    """

    kind: ClassVar[str] = "finish"
    mine: Box
    region: Box
    told: int
    scale: float
    target: Any = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class BoxRecipe:
    """A block, told by its place; sent elsewhere it takes along arrays in memory as far as it needs them.

    `cells` are the boxes between the cuts of all partitions in use, and `most` is the number of sites of the largest
    block.
    """

    energy: Energy
    where: Box
    cells: Tiling
    most: int

    def open(self) -> BoxWorker:
        return BoxWorker(self.energy, self.cells, self.most)

    def __reduce__(self) -> tuple[type[BoxRecipe], tuple[Energy, Box, Tiling, int]]:
        confined = self.energy.confined_to(grid_of(self.energy).around(self.where))
        return BoxRecipe, (confined, self.where, self.cells, self.most)


def grid_of(energy: Energy) -> GridPairs:
    """The pairs of an energy on a grid."""
    assert isinstance(energy.pairs, GridPairs)
    return energy.pairs


class BoxWorker:
    """Answers messages; nothing stays from one to the next."""

    def __init__(self, energy: Energy, cells: Tiling, most: int) -> None:
        self._energy, self._cells, self._most = energy, cells, most

    def __call__(self, message: Outline | Prove | Finish, posts: Sequence[Content], work: Work) -> Post:
        match message:
            case Outline():
                return self._outline(message, work)
            case Prove():
                return self._prove(message, posts, work)
            case Finish():
                return self._finish(message, posts, work)

    def _outline(self, ask: Outline, work: Work) -> Post:
        with work.timed("read"):
            inside = self._energy.inside_at(ask.mine)
        everything = np.full(sides(ask.mine), OPEN, dtype=np.uint8)
        return self._post(ask, everything if inside is None else np.where(inside, everything, np.uint8(0)))

    def _prove(self, ask: Prove, posts: Sequence[Content], work: Work) -> Post:
        with work.timed("read"):
            codes = overlaid(ask.region, posts, sites=self._most)
            part = HeldPart.read(self._energy, ask.mine, ask.region, codes=codes, fixed=ask.fixed)
        if part is None:
            return self._post(ask, np.zeros(sides(ask.mine), dtype=np.uint8))
        with work.timed("solve"):
            flow = ask.solver.open_flow(part.pairs, ask.fixed)
            flow.minimize(part.unary)
            low = flow.labels()
            high = low
            elsewhere = np.flatnonzero(part.elsewhere & part.near)
            if len(elsewhere):
                flow.change(elsewhere, np.full(len(elsewhere), -part.price))
                high = flow.labels()
            del flow
            certain = part.target & (low == high)
            return self._post(ask, np.where(certain, low.astype(np.uint8), part.codes)[part.mine])

    def _post(self, ask: Outline | Prove, codes: Codes) -> Post:
        """The codes, and for the cells that they are in how many sites are open, and in which box."""
        cells = []
        for number in self._cells.within(ask.mine):
            both = common(self._cells.box(number), ask.mine)
            assert both is not None
            unproved = (codes[seen_from(both, ask.mine)] & OPEN) != 0
            inside = bounding_box(unproved)
            box = None if inside is None else plain(moved(inside, [s.start for s in both]))
            cells.append([number, int(np.count_nonzero(unproved)), box])
        return codes_post(ask.mine, codes, cells=cells)

    def _finish(self, ask: Finish, posts: Sequence[Content], work: Work) -> Post:
        energy = self._energy
        with work.timed("read"):
            codes = overlaid(ask.region, posts[: ask.told], sites=self._most)
            mine = seen_from(ask.mine, ask.region)
            labels, undecided = labels_in(codes), (codes & OPEN) != 0
        value = left_out = Fraction(0)
        if labels.any():
            with work.timed("read"):
                whole = energy.at(ask.region)
            with work.timed("solve"):
                value = exact_sum(whole.unary[mine], labels[mine])
                value += whole.pairs.exact_roughness(labels, mine)  # type: ignore[arg-type]
                if undecided[mine].any():
                    left_out = _between_blocks(whole, labels, undecided, mine) - self._gained(ask, posts, labels)
        if ask.target is not None:
            with work.timed("write"):
                ask.target[ask.mine] = labels[mine]
        summary = {
            "energy": str(value),
            "left_out": str(left_out),
            "ones": int(np.count_nonzero(labels[mine])),
            "open": int(np.count_nonzero(undecided[mine])),
        }
        return Post(summary, {})

    def _gained(self, ask: Finish, posts: Sequence[Content], labels: BinaryLabels) -> Fraction:
        """sum of f_ij (y_i - y_j) over pairs between blocks, as far as f_ij was sent from here."""
        y, total = labels.ravel().astype(np.int64), 0
        for post in posts[ask.told :]:
            arrays = arrays_in(post, self._most)
            seams = seams_told(arrays, ask.region, grid_of(self._energy).offsets)
            total += int((arrays["sent"] * (y[seams.first] - y[seams.second])).sum())
        return Fraction(total) / Fraction(ask.scale)


def _between_blocks(energy: Energy, labels: BinaryLabels, undecided: Mask, mine: Box) -> Fraction:
    """What pairs of open sites of this block and of others cost, as far as they begin here and differ."""
    pairs = grid_of(energy)
    inside = undecided if pairs.inside is None else undecided & pairs.inside
    some = replace(pairs, inside=np.ascontiguousarray(inside))
    left_out: Fraction = some.exact_roughness(labels, mine) - some.crop(mine).exact_roughness(labels[mine])
    return left_out


def sites_of(boxes: Sequence[Box]) -> int:
    """The sites of the largest of these boxes."""
    return max(map(size, boxes), default=0)
