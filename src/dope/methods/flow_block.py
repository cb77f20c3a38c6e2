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

import builtins
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Box, Sites
from dope.boards.post import Arrays, Post
from dope.energy import Energy
from dope.fixed_point import FixedPoint
from dope.flows import SurroundedFlow
from dope.methods import shelf
from dope.methods.codes import LABEL, OPEN, arrays_in, labels_part, overlaid
from dope.methods.held_part import HeldPart
from dope.methods.rounds import Content
from dope.methods.shelf import Folded
from dope.methods.tiling import Tiling, global_sites, local_sites, seen_from, sides, size
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
    seams: tuple[int, ...]
    reached: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Arcs:
    """Flows over arcs from sites of a block to sites of others, both as sites of a region; sorted by their keys."""

    first: Sites
    second: Sites
    amount: npt.NDArray[np.int64]
    sites: int

    @classmethod
    def of(cls, first: Sites, second: Sites, amount: npt.NDArray[np.int64], sites: int) -> Arcs:
        """The arcs in order, parallel ones added up, those without flow left out."""
        keys = first * sites + second
        found, place = np.unique(keys, return_inverse=True)
        total = np.zeros(len(found), dtype=np.int64)
        np.add.at(total, place, amount)
        some = total != 0
        return cls(found[some] // sites, found[some] % sites, total[some], sites)

    def plus(self, other: Arcs, sign: int = 1) -> Arcs:
        return Arcs.of(
            np.concatenate([self.first, other.first]),
            np.concatenate([self.second, other.second]),
            np.concatenate([self.amount, sign * other.amount]),
            self.sites,
        )

    def where(self, some: npt.NDArray[np.bool_]) -> Arcs:
        return Arcs(self.first[some], self.second[some], self.amount[some], self.sites)


@dataclass(frozen=True, eq=False)
class FlowRecipe:
    """A block, told by its place; sent elsewhere it takes along arrays in memory as far as it needs them.

    `run` names the run, and `room` says how many bytes of opened blocks a process may keep.
    """

    energy: Energy
    tiling: Tiling
    where: Box
    run: str
    room: int

    def open(self) -> FlowWorker:
        return FlowWorker(self)

    def __reduce__(self) -> tuple[Any, ...]:
        pairs: Any = self.energy.pairs
        confined = self.energy.confined_to(pairs.around(self.where))
        return FlowRecipe, (confined, self.tiling, self.where, self.run, self.room)


@dataclass(frozen=True, eq=False)
class _Cast:
    """What a block's flow is opened by: no arrays."""

    solver: FlowSolver
    fixed: FixedPoint
    partition: Partition
    center: int

    @classmethod
    def of(cls, ask: Message, mine: Box) -> _Cast:
        region = sides(ask.region)
        cuts = [sorted({p for p in (s.start, s.stop) if 0 < p < n}) for s, n in zip(mine, region, strict=True)]
        return cls(ask.solver, ask.fixed, Partition.at(region, cuts), Tiling(region, cuts).within(mine)[0])

    def flow(self, pairs: GridPairs) -> SurroundedFlow:
        """To be filled."""
        return cast(SurroundedFlow, self.solver.open_blocks(pairs, self.partition, self.fixed))


class _Opened:
    """A block, its flow, and what flows over its seams there.

    `near` are, by neighbour, the places among the border's sites of those that have pairs with it; None until they were
    looked for.
    """

    def __init__(self, form: _Cast, flow: SurroundedFlow, held: npt.NDArray[np.uint8], bare: GridPairs) -> None:
        self._cast, self._bare = form, bare
        self.flow, self.center, self.held, self.sites = flow, form.center, held, held.size
        self.arcs, self.solved = self.nothing, False
        self.near: dict[int, Sites] | None = None

    @classmethod
    def of(cls, ask: Message, part: HeldPart) -> _Opened:
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
        return cls(form, flow, held, bare)

    @property
    def bytes(self) -> int:
        return self.flow.bytes + self.held.nbytes

    def folded(self) -> Folded:
        form, bare, arcs, near = self._cast, self._bare, self.arcs, self.near

        def restored(pieces: Sequence[builtins.bytes]) -> _Opened:
            flow = form.flow(bare)
            flow.finish()
            flow.load(form.center, pieces[0])
            again = _Opened(form, flow, np.frombuffer(pieces[1], dtype=np.uint8), bare)
            again.arcs, again.near, again.solved = arcs, near, True
            return again

        return [self.flow.save(self.center), self.held.tobytes()], restored

    @property
    def nothing(self) -> Arcs:
        none = np.zeros(0, dtype=np.int64)
        return Arcs(none, none, none, self.sites)

    def bring_to(self, arcs: Arcs) -> None:
        """Let these flows run over the seams, whatever ran there before, and solve."""
        change = arcs.plus(self.arcs, -1)
        if self.solved and not len(change.amount):
            return
        self.flow.carry(self.center, change.first, change.second, change.amount)
        self.arcs, self.solved = arcs, True
        self.flow.solve(self.center)

    def discharge(self) -> Arcs:
        """Send what can leave; what was sent."""
        self.flow.discharge(self.center)
        first, second, amount = self.flow.wall_flows(self.center)
        seam = (self.held[first] == 0) & (self.held[second] == 0)
        now = Arcs.of(first[seam], second[seam], amount[seam], self.sites)
        sent = now.plus(self.arcs, -1)
        self.arcs = now
        return sent

    def border(self, ceiling: int) -> tuple[Sites, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The open sites with pairs over the seams, their distances and sides."""
        sites, walls, side = self.flow.border(self.center)
        seam = self.held[sites] == 0
        return sites[seam], np.where(walls >= ceiling, np.int32(-1), walls)[seam], side[seam]

    def reach(self, marks: Sites) -> Sites:
        """Sources elsewhere reach these sites; the open sites of others that are reached then."""
        found = self.flow.reach(self.center, marks)
        some: Sites = found[self.held[found] == 0]
        return some

    def labels(self, *, of_all: bool = False) -> BinaryLabels:
        return self.flow.labels(self.center, of_all)


Message = Discharge | Measure | Reach


class FlowWorker:
    """Answers messages. What it keeps, on the shelf of its process, saves time alone."""

    def __init__(self, recipe: FlowRecipe) -> None:
        self._recipe, self._energy, self._tiling = recipe, recipe.energy, recipe.tiling
        self._key = recipe.run, tuple((s.start, s.stop) for s in recipe.where)
        weakref.finalize(self, shelf.discard, self._key)

    def __call__(self, message: Message, posts: Sequence[Content], work: Work) -> Post:
        match message:
            case Discharge():
                return self._round(message, posts, work)
            case Measure():
                return self._measure(message, posts, work)
            case Reach():
                return self._reach(message, posts, work)

    # A round of flows.

    def _round(self, ask: Discharge, posts: Sequence[Content], work: Work) -> Post:
        with work.timed("read"):
            own, around, codes = self._seams(ask, posts)
            block = self._block(ask, codes)
        with work.timed("solve"):
            block.bring_to(_flows(own, around, block.sites))
            block.flow.surround(*_distances(around, ask, block.held))
            sent = block.discharge() if ask.send else block.nothing
            block.flow.measure_from(block.center, ask.ceiling)
            total = sent if own is None else own.sent.plus(sent)
            post = self._flow_post(ask, block, sent, total)
        with work.timed("write"):
            shelf.put(self._key, block, size=block.bytes, room=self._recipe.room)
        return post

    def _flow_post(self, ask: Discharge, block: _Opened, sent: Arcs, total: Arcs) -> Post:
        sites, walls, side = block.border(ask.ceiling)
        reached = self._global(ask, block.reach(np.zeros(0, dtype=np.int64)))
        receivers, reached_blocks = self._tiling.at(self._global(ask, total.second)), self._tiling.at(reached)
        near = self._near(ask, block, sites)
        summary = {
            "sent": len(sent.first),
            "active": _active(walls, side),
            "receivers": np.unique(self._tiling.at(self._global(ask, sent.second))).tolist(),
            "sinks": [n for n, places in near.items() if (side[places] < 0).any()],
            "walls": np.unique(walls[walls > 0]).tolist(),
            "reached": np.unique(reached_blocks).tolist(),
        }
        arcs: Arrays = {
            "sender": self._global(ask, total.first),
            "receiver": self._global(ask, total.second),
            "sent": total.amount,
        }
        places_of = self._global(ask, sites)
        border: Arrays = {"sites": places_of, "walls": walls.astype(np.int32), "side": side.astype(np.int32)}
        parts: dict[str, Arrays] = {"labels": labels_part(ask.mine, block.labels())}
        for n, places in near.items():
            there = receivers == n
            parts[str(n)] = {
                **{name: column[there] for name, column in arcs.items()},
                **{name: column[places] for name, column in border.items()},
                "reached": reached[reached_blocks == n],
            }
        return Post(summary, {**arcs, **border, "reached": reached}, parts)

    # Distances, measured anew from the sinks on.

    def _measure(self, ask: Measure, posts: Sequence[Content], work: Work) -> Post:
        with work.timed("read"):
            own, around, codes = self._seams(ask, posts)
            assert own is not None
            block = self._block(ask, codes)
        with work.timed("solve"):
            block.bring_to(_flows(own, around, block.sites))  # nothing moves, unless the block was opened again
            block.flow.surround(*_distances(around, ask, block.held))
            block.flow.measure_from(block.center, FAR)
            sites, walls, side = block.border(FAR)
            moved = np.where(walls < 0, FAR, walls.astype(np.int64)) != own.walls
            near = self._near(ask, block, sites)
            summary = {
                "active": _active(walls, side),
                "moved": [n for n, places in near.items() if moved[places].any()],
                "walls": np.unique(walls[walls > 0]).tolist(),
            }
            border: Arrays = {"sites": self._global(ask, sites), "walls": walls.astype(np.int32)}
        with work.timed("write"):
            shelf.put(self._key, block, size=block.bytes, room=self._recipe.room)
        parts = {str(n): {name: column[places] for name, column in border.items()} for n, places in near.items()}
        return Post(summary, border, parts)

    # Labels, at the end.

    def _reach(self, ask: Reach, posts: Sequence[Content], work: Work) -> Post:
        with work.timed("read"):
            flows = {k: arrays_in(posts[i], self._most_sites) for i, k in enumerate(ask.seams)}
            read = [arrays_in(posts[len(flows) + i], self._most_sites) for i in range(len(ask.reached))]
            latest = flows | dict(zip(ask.reached, read, strict=True))
            own, before = flows[ask.block], latest[ask.block]
            told = [arrays["reached"] for k, arrays in latest.items() if k != ask.block]
            free = own["sites"][own["side"] == 0]
            marks = np.intersect1d(np.concatenate([np.zeros(0, np.int64), *told]), free)
            rest = posts[len(flows) + len(read) :]
        known, reached = before.get("marks", np.zeros(0, np.int64)), before["reached"]
        new = reached[:0]
        if len(np.setdiff1d(marks, known)):
            with work.timed("read"):
                block = self._block(ask, rest[1:])
            with work.timed("solve"):
                known = np.union1d(marks, known)
                seen = [_Seen.of(arrays, self, ask) for arrays in flows.values()]
                block.bring_to(_flows(seen[0], seen[1:], block.sites))
                reached = self._global(ask, block.reach(local_sites(known, self._energy.shape, ask.region)[0]))
                new = np.setdiff1d(reached, before["reached"])
                labels = labels_part(ask.mine, block.labels(of_all=True))
            with work.timed("write"):
                shelf.put(self._key, block, size=block.bytes, room=self._recipe.room)
        else:
            labels = arrays_in(rest[0], self._most_sites)
        blocks = self._tiling.at(reached)
        parts: dict[str, Arrays] = {"labels": labels}
        for n in ask.seams:
            if n != ask.block:
                parts[str(n)] = {"reached": reached[blocks == n]}
        summary = {"reached": np.unique(self._tiling.at(new)).tolist()}
        return Post(summary, {"marks": known, "reached": reached}, parts)

    # What all share.

    def _seams(
        self, ask: Discharge | Measure, posts: Sequence[Content]
    ) -> tuple[_Seen | None, list[_Seen], Sequence[Content]]:
        """What the block itself left last, if anything, what its neighbours did, and the posts of codes."""
        seen = {}
        for i, (k, counts) in enumerate(ask.seams):
            seen[k] = _Seen.of(arrays_in(posts[i], self._most_sites), self, ask, counts)
        for i, k in enumerate(ask.walls, start=len(ask.seams)):
            seen[k] = seen[k].measured(arrays_in(posts[i], self._most_sites), self, ask)
        own = seen.pop(ask.block, None)
        return own, list(seen.values()), posts[len(ask.seams) + len(ask.walls) :]

    def _block(self, ask: Message, codes: Sequence[Content]) -> _Opened:
        found = shelf.take(self._key)
        if found is not None:
            return cast(_Opened, found)
        known = overlaid(ask.region, codes, sites=self._most_sites)
        part = HeldPart.read(self._energy, ask.mine, ask.region, codes=known, fixed=ask.fixed)
        assert part is not None  # nothing is open outside the mask
        return _Opened.of(ask, part)

    def _global(self, ask: Message, sites: Sites) -> Sites:
        return global_sites(sites, self._energy.shape, ask.region)

    def _near(self, ask: Message, block: _Opened, sites: Sites) -> dict[int, Sites]:
        """By neighbour, which of the border's sites have pairs with it."""
        if block.near is None:
            shape, places = self._energy.shape, np.unravel_index(self._global(ask, sites), self._energy.shape)
            found: dict[int, list[Sites]] = {}
            pairs: Any = self._energy.pairs
            for offset in [sign * row for row in pairs.offsets for sign in (1, -1)]:
                moved = [place + o for place, o in zip(places, offset, strict=True)]
                inside = np.logical_and.reduce([(p >= 0) & (p < n) for p, n in zip(moved, shape, strict=True)])
                where = np.flatnonzero(inside)
                blocks = self._tiling.at(np.ravel_multi_index(tuple(p[where] for p in moved), shape))
                for n in np.unique(blocks).tolist():
                    found.setdefault(n, []).append(where[blocks == n])
            found.pop(ask.block, None)
            block.near = {n: np.unique(np.concatenate(found[n])) for n in sorted(found)}
        return block.near

    @property
    def _most_sites(self) -> int:
        return int(2 ** len(self._energy.shape)) * size(self._recipe.where)


def _active(walls: npt.NDArray[np.int32], side: npt.NDArray[np.int32]) -> bool:
    """Whether sources of a block lead to a sink elsewhere."""
    return bool(((side > 0) & (walls > 0)).any())


@dataclass(frozen=True, eq=False)
class _Seen:
    """What a block left last, as sites of a region: all that it ever sent over its seams, and distances."""

    sent: Arcs
    sites: Sites
    walls: npt.NDArray[np.int64]

    @classmethod
    def of(cls, arrays: Arrays, worker: FlowWorker, ask: Message, counts: bool = True) -> _Seen:
        """With `counts`, the distances of the post count; otherwise only which sites reach sinks inside their block."""
        shape, region = worker._energy.shape, ask.region
        first, second = (local_sites(arrays[ends], shape, region)[0] for ends in ("sender", "receiver"))
        sent = Arcs(first, second, arrays["sent"], size(region))
        walls = arrays["walls"] if counts else np.where(arrays["side"] < 0, np.int32(0), np.int32(-1))
        return cls(sent, *_near_sites(arrays["sites"], walls, shape, ask))

    def measured(self, arrays: Arrays, worker: FlowWorker, ask: Message) -> _Seen:
        """The same with newer distances."""
        places = _near_sites(arrays["sites"], arrays["walls"], worker._energy.shape, ask)
        return _Seen(self.sent, *places)


def _near_sites(
    sites: Sites, walls: npt.NDArray[np.int32], shape: tuple[int, ...], ask: Message
) -> tuple[Sites, npt.NDArray[np.int64]]:
    """Sites as those of the region, as far as they lie there, and their distances."""
    places, inside = local_sites(sites, shape, ask.region)
    known = walls[inside].astype(np.int64)
    far = (known < 0) | (known >= getattr(ask, "ceiling", FAR))
    return places[inside], np.where(far, FAR, known)


def _flows(own: _Seen | None, around: Sequence[_Seen], sites: int) -> Arcs:
    """What flows over the seams of a block: all that it ever sent, less what came back or was sent to it."""
    none = np.zeros(0, dtype=np.int64)
    sent = Arcs(none, none, none, sites) if own is None else own.sent
    return Arcs.of(
        np.concatenate([sent.first, *(one.sent.second for one in around)]),
        np.concatenate([sent.second, *(one.sent.first for one in around)]),
        np.concatenate([sent.amount, *(-one.sent.amount for one in around)]),
        sites,
    )


def _distances(
    around: Sequence[_Seen], ask: Discharge | Measure, held: npt.NDArray[np.uint8]
) -> tuple[Sites, npt.NDArray[np.int32]]:
    """How far the open sites of others around the block are from a sink, as these said last; 0 if they have not."""
    walls = np.full(sides(ask.region), FAR, dtype=np.int64)
    others = (held == 0).reshape(walls.shape)
    others[seen_from(ask.mine, ask.region)] = False
    walls[others] = 0
    for one in around:
        walls.flat[one.sites] = one.walls
    near = np.flatnonzero(walls < FAR)
    return near, walls.flat[near].astype(np.int32)
