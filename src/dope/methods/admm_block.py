"""A block as ADMM uses it: what it is asked, what it leaves on the board, and how it is opened where its data is.

    solve t      reads its own y, a_k and labels of round t - 1; leaves its labels y_k, and for every neighbour what the
                 two share: labels, a_k and A_k' y_k there
    measure t    reads what its neighbours left for it; leaves y near it, the new a_k, and both roundings; and tells its
                 parts of residuals and energies

So y on a coupled site is computed by every block that sees it, from the same numbers added up in the same order, that
of the blocks. Nothing that a block remembers changes what it leaves.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Index, Sites
from dope.boards import Post
from dope.energy import Excerpt, UnreadExcerpt
from dope.footprint import OTHER_BITS, network_bytes
from dope.methods import shelf
from dope.methods.pieces import piece
from dope.methods.places import common, seen_from
from dope.methods.rounds import Content
from dope.methods.selection import Count, Sketch
from dope.protocols import Answer, BlockSolver, FlowMinimizer, Minimizer, checked_answer
from dope.work import Work

Values = npt.NDArray[np.float64]
Some = Literal["strength", "unary"]
"""Numbers of which somebody wants the median: coupling strengths of coupled sites, or |unary| of own sites."""

# The part of a post that a block leaves for itself.
OWN = "own"
# Of a block that is open, for every site of its region: places, masks, and what was asked and answered last. Counted
# from these arrays, not measured.
OPEN_SITE_BYTES = 80


@dataclass(frozen=True)
class SketchOf:
    """Asks for a sketch of some numbers."""

    kind: ClassVar[str] = "survey"
    some: Some


@dataclass(frozen=True)
class CountOf:
    """Asks how many of them lie in a range."""

    kind: ClassVar[str] = "survey"
    some: Some
    low: float
    high: float


@dataclass(frozen=True)
class Solve:
    """Asks a block for its labels, given the consensus nearby.

    Reads nothing in the first round, or labels to begin with; afterwards what it left when it was measured, and its
    labels of the round before.
    """

    kind: ClassVar[str] = "solve"
    mu: float
    freeze: bool
    first: bool


@dataclass(frozen=True)
class Measure:
    """Asks a block for the new consensus nearby, and for its part of all that is told of the round.

    Reads its own labels, what it left for itself, and what its neighbours left for it, in their order. `relaxed` says
    whether somebody wants to see y, and, after the `first` round, at which sites it is.
    """

    kind: ClassVar[str] = "measure"
    mu: float
    relaxed: bool
    first: bool


@dataclass(frozen=True)
class Repulsion:
    """Asks a block what the repulsive pairs that begin at its own sites weigh, less those of its share.

    Summed over blocks: how far the energy can be below the shares, by pairs that no block holds, or only in part.
    """

    kind: ClassVar[str] = "repulsion"


Message = SketchOf | CountOf | Solve | Measure | Repulsion


@dataclass(frozen=True, eq=False)
class Neighbor:
    """Another block that sees some of the sites that this one sees: all its sites, and these with their neighbours."""

    block: int
    where: Index
    region: Index


@dataclass(frozen=True, eq=False)
class BlockRecipe:
    """How to open a block where its data is. `room` are the bytes of blocks that stay open there, None for all."""

    excerpt: UnreadExcerpt | Excerpt
    number: int
    neighbors: tuple[Neighbor, ...]
    solver: BlockSolver
    room: int | None
    run: str

    @property
    def where(self) -> Index:
        return _where(self.excerpt)

    def open(self) -> BlockWorker:
        return BlockWorker(self)


class BlockWorker:
    """Answers for a block, which stays open if there is room for it."""

    def __init__(self, recipe: BlockRecipe) -> None:
        self._recipe, self._key = recipe, (recipe.run, recipe.number)
        self._open: OpenedBlock | None = None
        weakref.finalize(self, shelf.discard, self._key)

    def __call__(self, message: Message, posts: Sequence[Content], work: Work) -> Post:
        kept = self._recipe.room is None
        block: OpenedBlock | None = self._open if kept else shelf.take(self._key)
        self._open = None  # what fails half-way is not kept
        if block is None:
            with work.timed("read"):
                block = OpenedBlock(self._recipe)
        with work.timed("solve"):
            post = block.answer(message, posts)
        if self._recipe.room is None:
            self._open = block
        else:
            shelf.put(self._key, block, size=block.bytes, room=self._recipe.room, in_turn=True)
        return post


@dataclass(frozen=True, eq=False)
class Near:
    """Values on a block's coupled sites and on the shell around it."""

    coupled: npt.NDArray[Any]
    shell: npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Question:
    """What a block minimizes: y and a_k near it, the penalty, and the labels that it had."""

    y: Near
    a: Values
    mu: float
    previous: BinaryLabels | None
    freeze: bool


@dataclass(frozen=True, eq=False)
class Solved:
    """A block's labels y_k, the same on its coupled sites, A_k' y_k on its region, and u_k'y_k + y_k'L_k y_k."""

    answer: Answer
    coupled: BinaryLabels
    pull: Values
    value: float


@dataclass(frozen=True, eq=False)
class _Seam:
    """What a block and a neighbour have in common, as places in this block's arrays.

    `mine` are its own sites that the neighbour sees, `seen` all sites that both see.
    """

    block: int
    mine: Index
    seen: Index


@dataclass(frozen=True, eq=False)
class _Slots:
    """Where numbers that blocks sent, one after the other, are added up: at a coupled site, in the shell, or nowhere.

    `own` is for those of the sites that each sender holds. Of `pulls`, which are those of all sites that both see, sums
    at sites that the sender holds come first, then those at the others.
    """

    own: Sites
    pulls: Sites


class OpenedBlock:
    """An opened block: its share of the energy, a minimizer for it, and where it meets others."""

    def __init__(self, recipe: BlockRecipe) -> None:
        excerpt = recipe.excerpt.read()
        share = excerpt.share()
        self._recipe, self._excerpt = recipe, excerpt
        self._energy, self._coupling = share.energy, share.coupling
        self._coupled = np.flatnonzero(share.coupling.coupled())
        self._region_unary, self._region_pairs = excerpt.energy.unary, excerpt.energy.pairs
        inside = np.zeros(self._region_unary.shape, dtype=np.bool_)
        inside[share.coupling.inside] = True
        numbers = np.arange(inside.size).reshape(inside.shape)[share.coupling.inside].ravel()
        self._coupled_in_region = numbers[self._coupled]
        self._shell_in_region = np.flatnonzero(~inside)
        self._owned = share.owned
        self._owned_in_region = _within(share.coupling.inside, share.owned)
        self._owned_in_whole = _within(recipe.where, share.owned)
        self._sorted: dict[Some, Values] = {}
        # The last questions and answers: from some round on most blocks keep their labels, and what follows from them.
        self._asked: Question | None = None
        self._last: Solved | None = None
        self._measured: tuple[BinaryLabels, list[Near], list[float]] | None = None

    @property
    def bytes(self) -> int:
        """What it holds, about."""
        region = sum(array.nbytes for array in self._excerpt.energy.arrays.values() if isinstance(array, np.ndarray))
        minimizer = self.__dict__.get("_minimizer")
        if minimizer is None:
            network = 0
        elif isinstance(minimizer, FlowMinimizer):
            network = minimizer.bytes
        else:
            network = network_bytes(self._energy.pairs, OTHER_BITS)
        return region + network + self._region_unary.size * OPEN_SITE_BYTES

    def answer(self, message: Message, posts: Sequence[Content]) -> Post:
        match message:
            case Solve():
                return self._leave_solved(self._question(message, posts), first=message.first)
            case Measure():
                return self._leave_measured(message, posts)
            case Repulsion():
                own = self._region_pairs.repulsive.total(self._owned_in_region)  # type: ignore[arg-type]
                weight = own - self._energy.pairs.repulsive.total()
                return Post({"weight": list(weight.as_integer_ratio())}, {})
            case SketchOf():
                numbers = self._numbers(message.some)
                self._sorted = {message.some: numbers}  # until they are counted
                sketch = Sketch.of(numbers)
                kind = "<f8" if message.some == "strength" else self._region_unary.dtype.str
                summary = {"number": sketch.number, "type": kind}
                return Post(summary, {"values": sketch.values, "ranks": sketch.ranks})
            case CountOf():
                found = self._sorted.pop(message.some, None)
                numbers = self._numbers(message.some) if found is None else found
                count = Count.of(numbers, message.low, message.high)
                return Post({"below": count.below}, {"values": count.values, "times": count.times})

    def _numbers(self, some: Some) -> Values:
        """In order."""
        if some == "strength":
            return np.sort(self._coupling.strength().ravel()[self._coupled])
        return np.sort(np.abs(self._region_unary[self._owned_in_region]).ravel().astype(np.float64))

    # What is near.

    @cached_property
    def _minimizer(self) -> Minimizer:
        return self._recipe.solver.prepare(self._energy)

    @cached_property
    def _shows_its_flow(self) -> bool:
        return isinstance(self._minimizer, FlowMinimizer)

    @property
    def _steady(self) -> bool:
        """Whether costs are counted in one unit for good, as rounded ones are; whole ones may get another."""
        return self._shows_its_flow and self._minimizer.rounding_error > 0.0  # type: ignore[attr-defined]

    @cached_property
    def _seams(self) -> list[_Seam]:
        where, region = self._recipe.where, self._excerpt.place
        return [
            _Seam(
                one.block,
                mine=seen_from(common(where, one.region), where),
                seen=seen_from(common(region, one.region), region),
            )
            for one in self._recipe.neighbors
        ]

    @cached_property
    def _slots(self) -> _Slots:
        region, number, nowhere = self._excerpt.place, len(self._coupled), self._near
        slots = np.full(self._region_unary.shape, nowhere)
        slots.reshape(-1)[self._coupled_in_region] = np.arange(number)
        slots.reshape(-1)[self._shell_in_region] = np.arange(number, nowhere)
        own, pulls = [], []
        for k in self._senders:
            if k is None:
                own.append(np.arange(number))
                pulls.append(np.concatenate([np.arange(number), np.arange(number, nowhere) + nowhere + 1]))
                continue
            one = self._recipe.neighbors[k]
            theirs, both = common(one.where, region), common(one.region, region)
            seen = slots[seen_from(both, region)] + (nowhere + 1)
            seen[seen_from(theirs, both)] -= nowhere + 1
            own.append(slots[seen_from(theirs, region)].ravel())
            pulls.append(seen.ravel())
        return _Slots(np.concatenate(own), np.concatenate(pulls))

    @cached_property
    def _senders(self) -> list[int | None]:
        """The neighbours, and None for this block itself, in the order of the blocks."""
        numbers = [one.block for one in self._recipe.neighbors]
        before = sum(number < self._recipe.number for number in numbers)
        return [*range(before), None, *range(before, len(numbers))]

    @property
    def _near(self) -> int:
        """How many sites are coupled, or in the shell."""
        return len(self._coupled) + len(self._shell_in_region)

    @cached_property
    def _counts(self) -> Values:
        """q on the coupled sites, and in the shell."""
        region = self._excerpt.partition
        everywhere: Index = tuple(slice(0, n) for n in region.shape)
        counts = region.multiplicity(everywhere if isinstance(region.counts, tuple) else np.arange(region.shape[0]))
        places = np.concatenate([self._coupled_in_region, self._shell_in_region])
        found: Values = np.broadcast_to(counts, self._region_unary.shape).ravel()[places]
        return found

    @cached_property
    def _owned_coupled(self) -> npt.NDArray[np.bool_]:
        """Which of the coupled sites it owns."""
        owned = np.zeros(self._energy.shape, dtype=np.bool_)
        owned[self._owned] = True
        return owned.ravel()[self._coupled]

    # A round's first half.

    def _question(self, ask: Solve, posts: Sequence[Content]) -> Question:
        if ask.first:
            y = Near(np.full(len(self._coupled), 0.5), np.full(len(self._shell_in_region), 0.5))
            start = self._labels(posts[0]) if posts else None
            return Question(y, np.zeros(len(self._coupled)), ask.mu, start, ask.freeze)
        measured = self._unpacked(posts[0])
        y = Near(measured["y"], measured["y_shell"])
        return Question(y, measured["a"], ask.mu, self._labels(posts[1]), ask.freeze)

    def _labels(self, post: Content) -> BinaryLabels:
        labels: BinaryLabels = self._unpacked(post)["labels"]
        return labels

    def _unpacked(self, post: Content) -> Any:
        """The arrays of a post of this block, or of one that sees no more than it does."""
        return Post.unpacked(post, most=64 * self._region_unary.size + 1024).arrays

    def _leave_solved(self, ask: Question, *, first: bool) -> Post:
        if self._last is None or not self._settled(ask, self._last):
            self._last = self._solved(ask)
        self._asked = ask
        solved, answer = self._last, self._last.answer
        a = np.zeros(self._energy.shape)
        a.reshape(-1)[self._coupled] = ask.a
        pull = solved.pull.ravel()
        parts: dict[str, dict[str, npt.NDArray[Any]]] = {
            OWN: {
                "a": ask.a,
                "pull": pull[self._coupled_in_region],
                "pull_shell": pull[self._shell_in_region],
            }
        }
        for seam in self._seams:
            parts[str(seam.block)] = {
                "labels": answer.labels[seam.mine],
                "a": a[seam.mine],
                "pull": solved.pull[seam.seen],
            }
        summary: dict[str, Any] = {
            "value": solved.value,
            "bound": None if answer.bound is None else float(answer.bound),
            "rounding_error": float(answer.rounding_error),
            "exact": bool(answer.exact),
        }
        if first:
            own = self._region_unary[self._owned_in_region]
            summary["price"] = float(own.sum(dtype=np.float64))
            summary["size"] = float(np.abs(own).sum(dtype=np.float64))
            summary["type"] = own.dtype.str
            summary["proved"] = None if answer.proved is None else float(answer.proved.mean())
        return Post(summary, {"labels": answer.labels}, parts)

    def _settled(self, ask: Question, last: Solved) -> bool:
        """Whether the last labels x are the answer once more: of all that was asked, mu alone has grown.

        The unary then moves by d with d_i <= 0 where x_i = 1 and d_i >= 0 where x_i = 0, on the coupled sites and, if
        the others freeze at x, on those. No labels gain more by that than x, so x remains a minimizer; any other is one
        of the last unary too, so x remains the smallest. That is so in integers as well, as rounding keeps the order,
        if they are of one scale. Solvers that find something else are asked again.
        """
        before = self._asked
        if before is None or not self._steady:
            return False
        if ask.mu < before.mu or ask.freeze != before.freeze or not _same(ask.y, before.y):
            return False
        if ask.freeze and not (ask.previous is not None and np.array_equal(ask.previous, last.answer.labels)):
            return False
        pull = ask.a - ask.y.coupled + 0.5
        return np.array_equal(ask.a, before.a) and bool((np.where(last.coupled, -pull, pull) >= 0.0).all())

    def _solved(self, ask: Question) -> Solved:
        coupling = self._coupling.apply(self._spread(ask.y, np.zeros(())))
        unary = np.add(self._energy.unary, coupling, order="C")
        if ask.freeze and ask.previous is not None:
            frozen = np.multiply(ask.mu, 0.5 - ask.previous, order="C")
            frozen.reshape(-1)[self._coupled] = 0.0
            unary += frozen
        unary.reshape(-1)[self._coupled] += ask.mu * (ask.a - ask.y.coupled + 0.5)
        answer = checked_answer(self._minimizer.minimize(unary, start=ask.previous), unary.shape)
        if self._last is not None and np.array_equal(self._last.answer.labels, answer.labels):
            return Solved(answer, self._last.coupled, self._last.pull, self._last.value)
        pull = self._coupling.transpose(answer.labels)
        return Solved(answer, answer.labels.ravel()[self._coupled], pull, self._energy(answer.labels))

    # A round's second half.

    def _leave_measured(self, ask: Measure, posts: Sequence[Content]) -> Post:
        labels, own = self._labels(posts[0]), self._unpacked(posts[1])
        coupled, number = labels.ravel()[self._coupled], len(self._coupled)
        sent = [None if k is None else self._unpacked(posts[2 + k]) for k in self._senders]
        both = np.concatenate([own["pull"], own["pull_shell"]])
        votes, multipliers = (
            self._added(self._slots.own, [mine if one is None else one[name] for one in sent])[0]
            for name, mine in (("labels", coupled), ("a", own["a"]))
        )
        pulls = np.add(*self._added(self._slots.pulls, [both if one is None else one["pull"] for one in sent], rows=2))
        y = (votes + multipliers - pulls / ask.mu) / self._counts
        # Where blocks agree y is 0 or 1 but for the last bits; without those, no weight need be computed there.
        whole = np.rint(y)
        y = np.where(np.abs(y - whole) < 1e-12, whole, y)
        rounded, majority = y > 0.5, votes > self._counts / 2
        difference = coupled - y[:number]
        mine = self._owned_coupled
        apart = np.where(rounded, votes != self._counts, votes != 0.0)[:number] & mine
        alike = np.array_equal(rounded, majority)
        candidates = [self._near_values(values) for values in ([y, rounded] if alike else [y, rounded, majority])]
        energies = self._energies(labels, candidates)
        # Sums and not BLAS products, whose last bits depend on the number of threads.
        summary = {
            "square": float((difference * difference).sum()),
            "product": float((own["a"] * difference).sum()),
            "apart": int(apart.sum()),
            "pulled": float((y[:number] * pulls[:number])[mine].sum()),
            "energies": energies if not alike else [*energies, energies[-1]],
            "sites": self._energy.unary.size,
        }
        arrays = {"y": y[:number], "y_shell": y[number:], "a": own["a"] + difference}
        parts = {"rounded": self._rounding(labels, rounded[:number])}
        if not alike:
            parts["majority"] = self._rounding(labels, majority[:number])
        if ask.relaxed:
            parts["relaxed"] = {"y": y[:number][mine]}
        if ask.relaxed and ask.first:
            parts["sites"] = {"sites": self._flat(self._coupled_in_region[mine])}
        return Post(summary, arrays, parts)

    def _added(self, slots: Sites, values: Sequence[npt.NDArray[Any]], *, rows: int = 1) -> Values:
        """What all blocks sent, added up in their order; so many sums for each site nearby."""
        flat, at = np.empty(len(slots)), 0
        for one in values:  # each copied once, from wherever it lies
            flat[at : at + one.size].reshape(one.shape)[...] = one
            at += one.size
        sums = np.bincount(slots, flat, minlength=rows * (self._near + 1)).astype(np.float64, copy=False)
        return sums.reshape(rows, -1)[:, :-1]

    def _near_values(self, values: npt.NDArray[Any]) -> Near:
        return Near(values[: len(self._coupled)], values[len(self._coupled) :])

    def _rounding(self, labels: BinaryLabels, coupled: BinaryLabels) -> dict[str, npt.NDArray[Any]]:
        """The labels of a rounding on the sites that this block owns."""
        whole = labels.copy()
        whole.reshape(-1)[self._coupled] = coupled
        return piece(self._owned_in_whole, whole[self._owned])

    def _energies(self, labels: BinaryLabels, candidates: list[Near]) -> list[float]:
        known: dict[int, float] = {}
        if self._measured is not None and np.array_equal(labels, self._measured[0]):
            before = zip(candidates, self._measured[1], self._measured[2], strict=False)
            known = {i: value for i, (one, other, value) in enumerate(before) if _same(one, other)}
        values = [known[i] if i in known else self._part(labels, one) for i, one in enumerate(candidates)]
        self._measured = labels, candidates, values
        return values

    def _part(self, labels: BinaryLabels, candidate: Near) -> float:
        """The energy of this block's own sites, and of the pairs that begin there."""
        y = self._spread(candidate, labels)
        owned = self._owned_in_region
        linear = float((self._region_unary[owned] * y[owned]).sum(dtype=np.float64))
        return linear + self._region_pairs.roughness(y, owned)  # type: ignore[arg-type]

    def _spread(self, near: Near, interior: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """An array over the region: `interior` in the block, overwritten by the values nearby."""
        y = np.zeros(self._region_unary.shape, dtype=near.coupled.dtype)
        y[self._coupling.inside] = interior
        flat = y.reshape(-1)  # which, unlike y.flat, is as quick as an array
        flat[self._coupled_in_region] = near.coupled
        flat[self._shell_in_region] = near.shell
        return y

    def _flat(self, places: Sites) -> Sites:
        """Places in the region as sites of the whole."""
        region = self._excerpt.place
        if not isinstance(region, tuple):
            return region[places]
        at = np.unravel_index(places, self._region_unary.shape)
        moved = tuple(p + s.start for p, s in zip(at, region, strict=True))
        flat: Sites = np.ravel_multi_index(moved, self._excerpt.shape).astype(np.int64)
        return flat


def weight_of(summary: Any) -> Fraction:
    """What a block answered to `Repulsion`."""
    return Fraction(*summary["weight"])


def _same(one: Near, other: Near) -> bool:
    return np.array_equal(one.coupled, other.coupled) and np.array_equal(one.shell, other.shell)


def _where(excerpt: UnreadExcerpt | Excerpt) -> Index:
    """Where a block is in the whole."""
    return _within(excerpt.place, excerpt.partition.blocks[0].where)


def _within(inside: Index, owned: Index) -> Index:
    """A place in the block as a place in the region that holds the block."""
    if isinstance(inside, tuple):
        assert isinstance(owned, tuple)
        return tuple(slice(i.start + o.start, i.start + o.stop) for i, o in zip(inside, owned, strict=True))
    return inside[owned]
