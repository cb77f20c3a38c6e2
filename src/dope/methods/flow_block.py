"""A block of one residual graph whose other blocks live elsewhere: region discharge over a board.

With flows f over the seams, block k's problem is its own pairs with the unary u + div f. A pair that crosses a seam,
i in block k and j in block n, holds |f_ij| <= w_ij. d(i), for i near a seam, is the number of seams between i and a
sink: 0 where i reaches one inside its block, infinite where it reaches none. When block k is visited,

    f_ij    = all that k ever sent from i to j, less all that n sent from j to i: both ends compute it, alike
    solve     its problem
    send      from the sites that sources still reach, all that fits over the seams, to the nearest sinks first
    d(i)   <- min over the open arcs out of what i reaches in k, to j elsewhere, of d(j) + 1

(Shekhovtsov & Hlavac, IJCV 2013.) Blocks that are visited at once have no pairs with each other: nothing has to be
taken back. When no excess has a way to a sink, the flow is maximal. Labels are read off by reachability then: `Reach`
takes in the free sites that sources of other blocks reach.

The minimum, the sides and the distances do not depend on which maximal flow inside the block was found. What is sent
does; so the first post of a visit counts, and everybody, the block itself too, goes on from that.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, cast

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Box, Mask
from dope.boards.post import Arrays, Post
from dope.energy import Energy
from dope.fixed_point import FixedPoint
from dope.flows import SurroundedFlow
from dope.methods import shelf
from dope.methods.codes import LABEL, OPEN, arrays_in, labels_part, overlaid
from dope.methods.held_part import HeldPart
from dope.methods.rounds import Content, Posts
from dope.methods.seams import Seams, blocks_with, boxes_told, narrowed, parted
from dope.methods.shelf import Folded, Pieces
from dope.methods.tiling import Tiling, global_sites, sides, size
from dope.pairs import GridPairs
from dope.partition import Partition
from dope.protocols import FlowSolver
from dope.work import Work

# More walls than there can be.
FAR = 1 << 30


@dataclass(frozen=True)
class Discharge:
    """Asks a block for its part of a round.

    Attributes
    ----------
    mine, region : the box of its open sites, and that with all their neighbours.
    near : the boxes of open sites of the blocks that it may have pairs with.
    seams : the blocks whose posts of flows it reads, its own first if it has one, each with whether the distances in
        it count, or only which sites reach a sink inside their block.
    walls : those whose posts of distances it reads, which are newer than those of flows. Posts of codes follow.
    ceiling : sites so many walls from a sink, or more, reach none.
    send : whether it sends, or only measures distances.
    """

    kind: ClassVar[str] = "flow"
    solver: FlowSolver
    fixed: FixedPoint
    block: int
    mine: Box
    region: Box
    near: tuple[tuple[int, Box], ...]
    seams: tuple[tuple[int, bool], ...]
    walls: tuple[int, ...]
    ceiling: int
    send: bool


@dataclass(frozen=True)
class Measure:
    """Asks a block how far its sites are from a sink now, by what its neighbours say; fields as in `Discharge`."""

    kind: ClassVar[str] = "walls"
    solver: FlowSolver
    fixed: FixedPoint
    block: int
    mine: Box
    region: Box
    near: tuple[tuple[int, Box], ...]
    seams: tuple[tuple[int, bool], ...]
    walls: tuple[int, ...]


@dataclass(frozen=True)
class Reach:
    """Asks a block which of its free sites are reached by sources elsewhere, as its neighbours say.

    `seams` are the blocks of the posts of flows that it reads, its own first, and `reached` those of posts of this
    kind, which follow; then come its labels so far, and posts of codes.
    """

    kind: ClassVar[str] = "reach"
    solver: FlowSolver
    fixed: FixedPoint
    block: int
    mine: Box
    region: Box
    near: tuple[tuple[int, Box], ...]
    seams: tuple[int, ...]
    reached: tuple[int, ...]


@dataclass(frozen=True)
class Certify:
    """Asks a block for its minimum with the flows as they are, and for those to later blocks; fields as in `Reach`."""

    kind: ClassVar[str] = "certify"
    solver: FlowSolver
    fixed: FixedPoint
    block: int
    mine: Box
    region: Box
    near: tuple[tuple[int, Box], ...]
    seams: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FlowRecipe:
    """A block, told by its place; sent elsewhere it takes along arrays in memory as far as it needs them.

    `run` names the run, and `room` says how many bytes of opened blocks a process may keep.
    """

    energy: Energy
    where: Box
    run: str
    room: int

    def open(self) -> FlowWorker:
        return FlowWorker(self)

    def __reduce__(self) -> tuple[Any, ...]:
        pairs: Any = self.energy.pairs
        confined = self.energy.confined_to(pairs.around(self.where))
        return FlowRecipe, (confined, self.where, self.run, self.room)


class Place(Protocol):
    """What every message says of its block: who opens its flow, how that counts costs, and where it lies."""

    @property
    def solver(self) -> FlowSolver: ...

    @property
    def fixed(self) -> FixedPoint: ...

    @property
    def region(self) -> Box: ...


@dataclass(frozen=True, eq=False)
class _Cast:
    """What a block's flow is opened by: no arrays."""

    solver: FlowSolver
    fixed: FixedPoint
    partition: Partition
    center: int

    @classmethod
    def of(cls, ask: Place, mine: Box) -> _Cast:
        region = sides(ask.region)
        cuts = [sorted({p for p in (s.start, s.stop) if 0 < p < n}) for s, n in zip(mine, region, strict=True)]
        return cls(ask.solver, ask.fixed, Partition.at(region, cuts), Tiling(region, cuts).within(mine)[0])

    def flow(self, pairs: GridPairs) -> SurroundedFlow:
        """To be filled."""
        return cast(SurroundedFlow, self.solver.open_blocks(pairs, self.partition, self.fixed))


class OpenedFlow:
    """A block, its flow, and what flows over the pairs of its seams there: a column, as all that is said of them."""

    def __init__(
        self, form: _Cast, flow: SurroundedFlow, bare: GridPairs, *, held: npt.NDArray[np.uint8], seams: Seams
    ) -> None:
        self._cast, self._bare = form, bare
        self.flow, self.center, self.held, self.seams = flow, form.center, held, seams
        self.flows = np.zeros(len(seams.first), dtype=np.int64)
        self.solved = False
        self.moved = True  # since it was last taken from a shelf

    @classmethod
    def of(cls, ask: Place, part: HeldPart, seams: Seams) -> OpenedFlow:
        form = _Cast.of(ask, part.mine)
        flow = form.flow(part.pairs)
        for one in range(flow.parts):
            flow.fill(one)
        flow.finish()
        for k in range(flow.blocks):
            flow.wall_in(k)
        flow.price(form.center, part.unary[part.mine].ravel())
        held = np.where(part.codes & OPEN, np.uint8(0), (part.codes & LABEL) + np.uint8(1)).astype(np.uint8).ravel()
        flow.hold(form.center, held)
        # Weights are not asked for again: those of a folded block are 1.
        bare = replace(part.pairs, features=None, fields=None, counts=None, inside=None, beta=0.0)
        return cls(form, flow, bare, held=held, seams=seams)

    @property
    def bytes(self) -> int:
        return self.flow.bytes + self.held.nbytes + sum(column.nbytes for column in (self.flows, *self.seams.columns))

    def folded(self) -> Folded:
        form, bare, cuts = self._cast, self._bare, (self.seams.pairs, self.seams.mine, self.seams.theirs)

        def restored(pieces: Pieces) -> OpenedFlow:
            flow = form.flow(bare)
            flow.finish()
            stores = flow.stores()
            for i, store in enumerate(stores):
                pieces.read_into(i, store)
            standing, *columns = (pieces[i] for i in range(len(stores), len(pieces)))
            flow.load(form.center, standing)
            held = np.frombuffer(columns[0], dtype=np.uint8)
            flows, first, second, here, there = (np.frombuffer(column, dtype=np.int64) for column in columns[1:])
            again = OpenedFlow(form, flow, bare, held=held, seams=Seams(first, second, here, there, *cuts))
            again.flows, again.solved, again.moved = flows, True, False
            return again

        columns = (self.held, self.flows, *self.seams.columns)
        return [*self.flow.stores(), self.flow.save(self.center), *columns], restored

    def bring_to(self, flows: npt.NDArray[np.int64]) -> None:
        """Let these flows run over the seams, whatever ran there before, and solve."""
        change = flows - self.flows
        some = np.flatnonzero(change)
        if self.solved and not len(some):
            return
        self.flow.carry(self.center, self.seams.first[some], self.seams.second[some], change[some])
        self.flow.solve(self.center)
        self.flows, self.solved, self.moved = flows, True, True

    def discharge(self) -> npt.NDArray[np.int64]:
        """Send what can leave; what was sent."""
        self.flow.discharge(self.center)
        now = self._flows_now()
        sent = now - self.flows
        self.flows, self.moved = now, True
        return sent

    def _flows_now(self) -> npt.NDArray[np.int64]:
        """What flows over the pairs of the seams; over others, to sites with a label for good, it stays the same."""
        seams, sites = self.seams, self.held.size
        first, second, amount = self.flow.wall_flows(self.center)
        seam = (self.held[first] == 0) & (self.held[second] == 0)
        keys = seams.first * sites + seams.second
        order = np.argsort(keys)
        places = order[np.searchsorted(keys, first[seam] * sites + second[seam], sorter=order)]
        now = np.zeros(len(keys), dtype=np.int64)
        now[places] = amount[seam]
        return now

    def surround(self, walls: npt.NDArray[np.int32], ceiling: int) -> None:
        """How far the sites there are from a sink, as far as one is in reach."""
        near = (walls >= 0) & (walls < ceiling)
        self.flow.surround(self.seams.there[near], walls[near])

    def silent(self) -> npt.NDArray[np.int32]:
        """The distances of the sites there while nobody has said any."""
        return np.where(self.held[self.seams.there] == 0, np.int32(0), np.int32(-1))

    def border(self, ceiling: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The distances of the sites here, -1 where they reach no sink or have their label for good; and the sides."""
        sites, found, found_side = self.flow.border(self.center)
        walls, side = np.full(self.held.size, -1, dtype=np.int32), np.zeros(self.held.size, dtype=np.int32)
        walls[sites], side[sites] = found, found_side
        walls[(walls >= ceiling) | (self.held != 0)] = -1
        side[self.held != 0] = 0
        return walls[self.seams.here], side[self.seams.here]

    def reach(self, marks: Mask) -> Mask:
        """Sources elsewhere reach these sites here; the open sites there that are reached then."""
        found = np.zeros(self.held.size, dtype=np.bool_)
        found[self.flow.reach(self.center, np.unique(self.seams.here[marks]))] = True
        found[self.held != 0] = False
        reached: Mask = found[self.seams.there]
        return reached

    def labels(self, *, of_all: bool = False) -> BinaryLabels:
        return self.flow.labels(self.center, of_all)


Message = Discharge | Measure | Reach | Certify


@dataclass(frozen=True, eq=False)
class _Told:
    """What a block reads: columns of its own last post, if it has one, and what its neighbours said.

    `received` is all that was ever sent to it over each pair, and `walls` how far the sites there are from a sink.
    """

    own: Arrays | None
    received: npt.NDArray[np.int64]
    walls: npt.NDArray[np.int32]

    @property
    def sent(self) -> npt.NDArray[np.int64]:
        """All that the block ever sent over each pair."""
        return np.zeros_like(self.received) if self.own is None else self.own["sent"].astype(np.int64)

    @property
    def flows(self) -> npt.NDArray[np.int64]:
        """What flows over the seams."""
        return self.sent - self.received


class FlowWorker:
    """Answers messages. What it keeps saves time alone: a block, on the shelf of its process, and posts just read."""

    def __init__(self, recipe: FlowRecipe) -> None:
        self._recipe, self._energy = recipe, recipe.energy
        self._key = recipe.run, tuple((s.start, s.stop) for s in recipe.where)
        self._read: dict[str, Arrays] = {}  # by their hashes: distances are measured with few posts that are new
        weakref.finalize(self, shelf.discard, self._key)

    def __call__(self, message: Message, posts: Sequence[Content], work: Work) -> Post:
        with work.timed("read"):
            block, arrays = self._block(message, posts), self._arrays(message, posts)
        with work.timed("solve"):
            post = self._answer(message, block, arrays)
        with work.timed("write"):
            shelf.put(self._key, block, size=block.bytes, room=self._recipe.room, same=not block.moved)
        return post

    def _answer(self, message: Message, block: OpenedFlow, arrays: Sequence[Arrays]) -> Post:
        match message:
            case Discharge():
                return self._round(message, block, arrays)
            case Measure():
                return self._measure(message, block, arrays)
            case Reach():
                return self._reach(message, block, arrays)
            case Certify():
                return self._certify(message, block, arrays)

    # A round of flows.

    def _round(self, ask: Discharge, block: OpenedFlow, arrays: Sequence[Arrays]) -> Post:
        told = _told(ask, block.seams, arrays, silent=block.silent())
        block.bring_to(told.flows)
        block.surround(told.walls, ask.ceiling)
        sent = block.discharge() if ask.send else np.zeros_like(told.received)
        block.flow.measure_from(block.center, ask.ceiling)
        return _flow_post(ask, block, sent, told.sent + sent)

    # Distances, measured anew from the sinks on.

    def _measure(self, ask: Measure, block: OpenedFlow, arrays: Sequence[Arrays]) -> Post:
        told = _told(ask, block.seams, arrays, silent=block.silent())
        assert told.own is not None
        block.bring_to(told.flows)  # nothing moves, unless the block was opened again
        block.surround(told.walls, FAR)
        block.flow.measure_from(block.center, FAR)
        walls, side = block.border(FAR)
        summary = {
            "active": _active(walls, side),
            "moved": blocks_with(walls != told.own["walls"], block.seams.mine),
            "walls": np.unique(walls[walls > 0]).tolist(),
        }
        parts = {str(n): {"walls": column} for n, column in parted(block.seams.mine, walls).items()}
        return Post(summary, {"walls": walls}, parts)

    # Labels, at the end.

    def _reach(self, ask: Reach, block: OpenedFlow, arrays: Sequence[Arrays]) -> Post:
        seams, flows = block.seams, dict(zip(ask.seams, arrays, strict=False))
        latest = flows | dict(zip(ask.reached, arrays[len(flows) :], strict=True))
        marks = np.zeros(len(seams.here), dtype=np.bool_)
        received = np.zeros(len(seams.first), dtype=np.int64)
        for n in flows.keys() - {ask.block}:
            marks[seams.mine[n]] = latest[n]["reached"]
            received[seams.pairs[n]] = flows[n]["sent"]
        block.bring_to(flows[ask.block]["sent"] - received)
        reached = block.reach(marks)
        new = reached & ~latest[ask.block]["reached"]
        parts: dict[str, Arrays] = {"labels": labels_part(ask.mine, block.labels(of_all=True))}
        parts |= {str(n): {"reached": column} for n, column in parted(seams.theirs, reached).items()}
        return Post({"reached": blocks_with(new, seams.theirs)}, {"reached": reached}, parts)

    # What proves the bound.

    def _certify(self, ask: Certify, block: OpenedFlow, arrays: Sequence[Arrays]) -> Post:
        told, seams = dict(zip(ask.seams, arrays, strict=True)), block.seams
        flows = told[ask.block]["sent"].astype(np.int64)
        for n in told.keys() - {ask.block}:
            flows[seams.pairs[n]] -= told[n]["sent"]
        block.bring_to(flows)
        later = np.zeros(len(flows), dtype=np.bool_)
        for n, places in seams.pairs.items():
            later[places] = n > ask.block
        some = later & (flows != 0)
        ends = (global_sites(sites[some], self._energy.shape, ask.region) for sites in (seams.first, seams.second))
        bound = block.flow.bound(block.center)
        return Post({"bound": str(bound)}, dict(zip(("first", "second", "flow"), (*ends, flows[some]), strict=True)))

    # What all share.

    def _arrays(self, ask: Message, posts: Sequence[Content]) -> list[Arrays]:
        """What is in the posts of flows, distances and reached sites."""
        before, self._read = self._read, {}
        found: list[Arrays] = []
        for i in range(_told_in(ask)):
            known_by = posts.known_by(i) if isinstance(posts, Posts) else ""
            arrays = before.get(known_by) if known_by else None
            found.append(arrays_in(posts[i], self._most_sites) if arrays is None else arrays)
            self._read[known_by] = found[-1]
        return found

    def _block(self, ask: Message, posts: Sequence[Content]) -> OpenedFlow:
        found = shelf.take(self._key, to_be_put=True)
        if found is not None:
            return cast(OpenedFlow, found)
        known = overlaid(ask.region, posts[_told_in(ask) :], sites=self._most_sites)
        part = HeldPart.read(self._energy, ask.mine, ask.region, codes=known, fixed=ask.fixed)
        assert part is not None  # nothing is open outside the mask
        return OpenedFlow.of(ask, part, Seams.of(ask.block, ask.mine, dict(ask.near), ask.region, part.pairs.offsets))

    @property
    def _most_sites(self) -> int:
        return int(2 ** len(self._energy.shape)) * size(self._recipe.where)


def _told_in(ask: Message) -> int:
    """How many of the posts come before those of codes."""
    newer = () if isinstance(ask, Certify) else ask.reached if isinstance(ask, Reach) else ask.walls
    return len(ask.seams) + len(newer)


def _told(ask: Discharge | Measure, seams: Seams, arrays: Sequence[Arrays], *, silent: npt.NDArray[np.int32]) -> _Told:
    """What the posts of flows say, those of distances over it, and nobody else."""
    own: dict[str, npt.NDArray[Any]] = {}
    received, walls = np.zeros(len(seams.first), dtype=np.int64), silent
    newer = zip(ask.walls, arrays[len(ask.seams) :], strict=True)
    for (n, counts), column in zip(ask.seams, arrays, strict=False):
        # Of a post whose distances do not count: which sites reach a sink inside their block.
        known = column["walls"] if counts else np.where(column["walls"] == 0, np.int32(0), np.int32(-1))
        if n == ask.block:
            own = {"sent": column["sent"], "walls": known}
        else:
            received[seams.pairs[n]], walls[seams.theirs[n]] = column["sent"], known
    for n, column in newer:
        if n == ask.block:
            own["walls"] = column["walls"]
        else:
            walls[seams.theirs[n]] = column["walls"]
    return _Told(own or None, received, walls)


def _flow_post(ask: Discharge, block: OpenedFlow, sent: npt.NDArray[np.int64], total: npt.NDArray[np.int64]) -> Post:
    """What a block found, and for each neighbour what is over their seam."""
    seams, (walls, side) = block.seams, block.border(ask.ceiling)
    reached = block.reach(np.zeros(len(seams.here), dtype=np.bool_))
    summary = {
        "sent": int(np.count_nonzero(sent)),
        "active": _active(walls, side),
        "receivers": blocks_with(sent != 0, seams.pairs),
        "sinks": blocks_with(side < 0, seams.mine),
        "walls": np.unique(walls[walls > 0]).tolist(),
        "reached": blocks_with(reached, seams.theirs),
    }
    parts: dict[str, Arrays] = {"labels": labels_part(ask.mine, block.labels())}
    for n in seams.pairs:
        parts[str(n)] = {
            "sent": narrowed(total[seams.pairs[n]]),
            "walls": walls[seams.mine[n]],
            "reached": reached[seams.theirs[n]],
        }
    own: Arrays = {
        **boxes_told(ask.block, ask.mine, dict(ask.near)),
        "sent": narrowed(total),
        "walls": walls,
        "reached": reached,
    }
    return Post(summary, own, parts)


def _active(walls: npt.NDArray[np.int32], side: npt.NDArray[np.int32]) -> bool:
    """Whether sources of a block lead to a sink elsewhere."""
    return bool(((side > 0) & (walls > 0)).any())
