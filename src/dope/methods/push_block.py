"""A block that pushes flow over its seams for a better lower bound, though its neighbours live elsewhere.

With flows f over the seams, block k's problem is its own pairs with the unary u + div f, and for any |f_ij| <= w_ij the
minima of all blocks add up to a lower bound (`exact` has the equation). After a block is solved, each of its sites is
on a side: sources inside the block reach it (1), or it reaches sinks inside (-1), or neither (0). Over a pair i, j that
joins a source's side to a sink's, the bound grows with f_ij:

    round 1    f = 0
    round t    f_ij <- f_ij + min( w_ij - f_ij, s_ij w_ij )    where i was on a source's side and j on a sink's
               s_ij = 1/2 at first, x 1.3 while the direction stays, x 1/2 where it turns round

These are the pushes of cpp/blocks.h. A maximal flow inside a block has the same sides whichever it is, so f follows
from the sides of the rounds before, a few bits for each site at a seam, and nothing else: both ends of a pair go over
them and find the same f, and so does whoever opens a block again.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, Mask
from dope.boards import Post
from dope.boards.post import Arrays
from dope.energy import Energy
from dope.fixed_point import FixedPoint
from dope.footprint import ENDLESS
from dope.methods import shelf
from dope.methods.codes import arrays_in, overlaid
from dope.methods.flow_block import FAR, OpenedFlow
from dope.methods.held_part import HeldPart
from dope.methods.rounds import Content
from dope.methods.seams import Seams, parted
from dope.methods.tiling import global_sites, sides, size
from dope.pairs import GridPairs
from dope.protocols import FlowSolver
from dope.work import Work

# The part of a post that says which labels are proved.
PROOF = "proof"
# What of a pair's weight is pushed over it first, and how that changes: as in cpp/blocks.h.
FIRST_STEP, FASTER, SLOWER = np.float32(0.5), np.float32(1.3), np.float32(0.5)
NO_SITES = np.zeros(0, dtype=np.int64)

Side = npt.NDArray[np.int8]
"""Of sites: 1 where sources reach them, -1 where they reach sinks, 0 otherwise."""


@dataclass(frozen=True)
class Push:
    """Asks a block for its minimum, with the flow that was pushed over its seams so far.

    Attributes
    ----------
    mine, region : the block, and that with all its neighbours.
    near : the blocks that it may have pairs with, and where these are.
    rounds : how many rounds there were; the posts tell the sides in one after the other.
    seams : the blocks whose sides the posts of a round tell, the block itself first.
    """

    kind: ClassVar[str] = "bound"
    solver: FlowSolver
    fixed: FixedPoint
    block: int
    mine: Box
    region: Box
    near: tuple[tuple[int, Box], ...]
    rounds: int
    seams: tuple[int, ...]


@dataclass(frozen=True)
class Certify(Push):
    """Asks it for that flow itself, to later blocks: for a certificate."""


@dataclass(frozen=True, eq=False)
class PushRecipe:
    """A block, told by its place. `room` are the bytes of blocks that stay open in a process, None for all."""

    energy: Energy
    where: Box
    run: str
    room: int | None

    def open(self) -> PushWorker:
        return PushWorker(self)

    def __reduce__(self) -> tuple[Any, ...]:
        confined = self.energy.confined_to(_grid(self.energy).around(self.where))
        return PushRecipe, (confined, self.where, self.run, self.room)


@dataclass(frozen=True, eq=False)
class _Opened:
    """A block's flow, and what the pairs of its seams hold."""

    flow: OpenedFlow
    capacities: npt.NDArray[np.int64]

    @property
    def bytes(self) -> int:
        return self.flow.bytes + self.capacities.nbytes


class PushWorker:
    """Answers for a block, which stays open if there is room for it: that saves time alone."""

    def __init__(self, recipe: PushRecipe) -> None:
        self._recipe, self._energy = recipe, recipe.energy
        self._key = recipe.run, tuple((s.start, s.stop) for s in recipe.where)
        weakref.finalize(self, shelf.discard, self._key)

    def __call__(self, ask: Push, posts: Sequence[Content], work: Work) -> Post:
        with work.timed("read"):
            seams = Seams.of(ask.block, ask.mine, dict(ask.near), ask.region, _grid(self._energy).offsets)
            rounds = _sides_told(ask, posts, seams)
            if rounds and not isinstance(ask, Certify) and not _direction(seams, rounds[-1]).any():
                return _unmoved(ask, posts[-len(ask.seams)], seams)
            opened = self._block(ask, seams)
        with work.timed("solve"):
            none = np.zeros(len(seams.first), dtype=np.int64)
            flows = none if opened is None else _flows(seams, opened.capacities, rounds)
            if isinstance(ask, Certify):
                post = Post({}, _to_later_blocks(ask, seams, flows, self._energy.shape))
            else:
                post = _solved(ask, opened, seams, flows)
        if opened is not None:
            room = ENDLESS if self._recipe.room is None else self._recipe.room
            shelf.put(self._key, opened, size=opened.bytes, room=room, in_turn=True)
        return post

    def _block(self, ask: Push, seams: Seams) -> _Opened | None:
        """None where no site of it takes part."""
        found: _Opened | None = shelf.take(self._key)
        if found is not None:
            return found
        everything = overlaid(ask.region, (), sites=0)
        part = HeldPart.read(self._energy, ask.mine, ask.region, codes=everything, fixed=ask.fixed)
        if part is None:
            return None
        flow = OpenedFlow.of(ask, part, seams)
        flow.surround(np.full(len(seams.there), -1, dtype=np.int32), FAR)  # distances are not asked for
        return _Opened(flow, _capacities(part.pairs, seams, sides(ask.region), ask.fixed.scale))


def _sides_told(ask: Push, posts: Sequence[Content], seams: Seams) -> list[Side]:
    """By round, the sides of all sites at seams, as sites of the region."""
    found, number = [], len(ask.seams)
    for t in range(ask.rounds):
        side = np.zeros(size(ask.region), dtype=np.int8)
        for i, n in enumerate(ask.seams):
            told = arrays_in(posts[t * number + i], size(ask.region))["side"].astype(np.int8) - np.int8(1)
            side[seams.here if n == ask.block else seams.there[seams.theirs[n]]] = told
        found.append(side)
    return found


def _direction(seams: Seams, side: Side) -> Side:
    """Of every pair: 1 where flow from here to there raises the bound, -1 where flow from there does, 0 otherwise."""
    here, there = side[seams.first], side[seams.second]
    direction: Side = ((here > 0) & (there < 0)).astype(np.int8) - ((here < 0) & (there > 0)).astype(np.int8)
    return direction


def _flows(seams: Seams, capacities: npt.NDArray[np.int64], rounds: Sequence[Side]) -> npt.NDArray[np.int64]:
    """f from here to there, after pushes by the sides of these rounds."""
    flows = np.zeros_like(capacities)
    step, before = np.full(len(flows), FIRST_STEP), np.zeros(len(flows), dtype=np.int8)
    for side in rounds:
        direction = _direction(seams, side)
        some = np.flatnonzero(direction)
        way, last = direction[some], before[some]
        step[some] *= np.where(last == 0, np.float32(1.0), np.where(last == way, FASTER, SLOWER))
        before[some] = way
        residual = capacities[some] - way * flows[some]
        wish = step[some].astype(np.float64) * capacities[some]
        flows[some] += way * np.minimum(residual, np.maximum(1, wish.astype(np.int64)))
    return flows


def _capacities(pairs: GridPairs, seams: Seams, shape: tuple[int, ...], scale: float) -> npt.NDArray[np.int64]:
    """What the pairs of the seams hold, as the core counts them: by the weights that it computes itself."""
    first, second = (np.array(np.unravel_index(sites, shape)) for sites in (seams.first, seams.second))
    change, capacities = second - first, np.zeros(len(seams.first), dtype=np.int64)
    native = pairs.native()
    for m, offset in enumerate(pairs.offsets[pairs.fits]):
        weights: npt.NDArray[np.float64] | None = None
        for tails, sign in ((seams.first, 1), (seams.second, -1)):
            some = np.flatnonzero((change == sign * offset[:, None]).all(axis=0))
            if len(some):
                weights = native.weights(m) if weights is None else weights
                capacities[some] = np.rint(weights.ravel()[tails[some]] * scale).astype(np.int64)
    return capacities


def _solved(ask: Push, opened: _Opened | None, seams: Seams, flows: npt.NDArray[np.int64]) -> Post:
    """The block's minimum and sides; of the first round also the labels that are the same whatever is outside."""
    side, bound = np.zeros(len(seams.here), dtype=np.int8), 0
    low = high = np.zeros(sides(ask.mine), dtype=np.bool_)
    if opened is not None:
        block = opened.flow
        block.bring_to(flows)
        if not ask.rounds:
            low, high = (block.flow.bracket(block.center, outside=one).reshape(low.shape) for one in (False, True))
        side, bound = block.border(FAR)[1].astype(np.int8), block.flow.bound(block.center)
    parts = _side_parts(seams, side)
    if not ask.rounds:
        parts[PROOF] = {"decided": low == high, "labels": low}
    return Post({"bound": str(bound), "moved": True}, {"side": (side + 1).astype(np.uint8)}, parts)


def _unmoved(ask: Push, before: Content, seams: Seams) -> Post:
    """What the block said in the round before, as nothing came to it since."""
    told = Post.unpacked(before, most=size(ask.region) + (1 << 16))
    side = told.arrays["side"].astype(np.int8) - np.int8(1)
    summary = {"bound": told.summary["bound"], "moved": False}
    return Post(summary, {"side": told.arrays["side"]}, _side_parts(seams, side))


def _side_parts(seams: Seams, side: Side) -> dict[str, Arrays]:
    return {str(n): {"side": (column + 1).astype(np.uint8)} for n, column in parted(seams.mine, side).items()}


def _to_later_blocks(ask: Push, seams: Seams, flows: npt.NDArray[np.int64], shape: tuple[int, ...]) -> Arrays:
    later: Mask = np.zeros(len(flows), dtype=np.bool_)
    for n, places in seams.pairs.items():
        later[places] = n > ask.block
    some = later & (flows != 0)
    first, second = (global_sites(sites[some], shape, ask.region) for sites in (seams.first, seams.second))
    return {"first": first, "second": second, "flow": flows[some]}


def _grid(energy: Energy) -> GridPairs:
    assert isinstance(energy.pairs, GridPairs)
    return energy.pairs
