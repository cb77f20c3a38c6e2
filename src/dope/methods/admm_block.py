"""A block as ADMM uses it: what it leaves on the board, and how it is opened where its data is.

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
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Index
from dope.boards import Post
from dope.cancellation import finishing
from dope.energy import Excerpt, UnreadExcerpt
from dope.footprint import OTHER_BITS, network_bytes
from dope.methods import shelf
from dope.methods.admm_messages import OWN, CountOf, Measure, Message, Repulsion, SketchOf, Solve, Some
from dope.methods.admm_near import Near, Neighbor, Surroundings, Values, where_of, within
from dope.methods.lending import Minimizers
from dope.methods.pieces import piece
from dope.methods.rounds import Content
from dope.methods.selection import Count, Sketch
from dope.protocols import Answer, FlowMinimizer, Minimizer, checked_answer
from dope.work import Work

# Of a block that is open, for every site of its region: places, masks, and what was asked and answered last. Counted
# from these arrays, not measured.
OPEN_SITE_BYTES = 80


@dataclass(frozen=True, eq=False)
class Room:
    """Bytes that a process may hold between two tasks: of blocks that stay open, and together with arrays of others."""

    opened: int
    total: int

    @classmethod
    def of(cls, total: int, *, blocks: int, opened: int, arrays: int) -> Room:
        """For so many blocks, of which one that is open takes `opened` bytes and its arrays alone `arrays`.

        A block whose arrays are at hand is opened again in about half the time, for a fiftieth of the memory: arrays
        of all blocks come first. Measured on 74^3 sites in Zarr chunks of 64^3, of which 27 are read for one block.
        """
        if blocks * opened <= total:
            return cls(total, total)
        left = max(0, total - blocks * arrays) // max(1, opened - arrays)
        return cls(left * opened, total)


@dataclass(frozen=True, eq=False)
class BlockRecipe:
    """How to open a block where its data is. `room` says what stays in memory there, None for everything."""

    excerpt: UnreadExcerpt | Excerpt
    number: int
    neighbors: tuple[Neighbor, ...]
    minimizers: Minimizers
    room: Room | None
    run: str

    @property
    def where(self) -> Index:
        return where_of(self.excerpt)

    def open(self) -> BlockWorker:
        return BlockWorker(self)


class BlockWorker:
    """Answers for a block, which stays open if there is room for it, or at least its arrays in memory."""

    def __init__(self, recipe: BlockRecipe) -> None:
        self._recipe = recipe
        self._key, self._arrays_key = (recipe.run, recipe.number), (recipe.run, (recipe.number, "arrays"))
        self._open: OpenedBlock | None = None
        for key in (self._key, self._arrays_key):
            weakref.finalize(self, shelf.discard, key)

    def __call__(self, message: Message, posts: Sequence[Content], work: Work) -> Post:
        room = self._recipe.room
        block: OpenedBlock | None = self._open if room is None else shelf.take(self._key)
        self._open = None  # what fails half-way is not kept
        if block is None:
            with work.timed("read"):
                block = OpenedBlock(self._recipe, shelf.take(self._arrays_key) or self._recipe.excerpt.read())
        with work.timed("solve"):
            post = block.answer(message, posts)
        if room is None:
            self._open = block
        elif not shelf.put(self._key, block, size=block.bytes, room=room.opened, in_turn=True):
            block.close()
            shelf.put(self._arrays_key, block.excerpt, size=block.array_bytes, room=room.total, in_turn=True)
        return post


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


class OpenedBlock:
    """An opened block: its share of the energy, a minimizer for it, and where it meets others."""

    def __init__(self, recipe: BlockRecipe, excerpt: Excerpt) -> None:
        share = excerpt.share()
        self._recipe, self.excerpt = recipe, excerpt
        self._energy, self._coupling, self._owned = share.energy, share.coupling, share.owned
        self._region_unary, self._region_pairs = excerpt.energy.unary, excerpt.energy.pairs
        self._around = Surroundings(excerpt, share, recipe.number, recipe.neighbors)
        self._coupled = self._around.coupled
        self._owned_in_region = within(share.coupling.inside, share.owned)
        self._owned_in_whole = within(recipe.where, share.owned)
        self._sorted: dict[Some, Values] = {}
        # The last questions and answers: from some round on most blocks keep their labels, and what follows from them.
        self._asked: Question | None = None
        self._last: Solved | None = None
        self._measured: tuple[BinaryLabels, list[Near], list[float]] | None = None

    @property
    def bytes(self) -> int:
        """What it holds, about."""
        minimizer = self.__dict__.get("_minimizer")
        if minimizer is None:
            network = 0
        elif isinstance(minimizer, FlowMinimizer):
            network = minimizer.bytes
        else:
            network = network_bytes(self._energy.pairs, OTHER_BITS)
        return self.array_bytes + network + self._region_unary.size * OPEN_SITE_BYTES

    @property
    def array_bytes(self) -> int:
        """What was read of it."""
        return sum(array.nbytes for array in self.excerpt.energy.arrays.values() if isinstance(array, np.ndarray))

    def close(self) -> None:
        """Leave its minimizer to another block."""
        minimizer = self.__dict__.pop("_minimizer", None)
        if minimizer is not None:
            self._recipe.minimizers.give_back(minimizer)

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
        return self._recipe.minimizers.take(self._energy)

    @cached_property
    def _shows_its_flow(self) -> bool:
        return isinstance(self._minimizer, FlowMinimizer)

    @property
    def _steady(self) -> bool:
        """Whether costs are counted in one unit for good, as rounded ones are; whole ones may get another."""
        return self._shows_its_flow and self._minimizer.rounding_error > 0.0  # type: ignore[attr-defined]

    # A round's first half.

    def _question(self, ask: Solve, posts: Sequence[Content]) -> Question:
        if ask.first:
            y = Near(np.full(len(self._coupled), 0.5), np.full(len(self._around.shell_in_region), 0.5))
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
                "pull": pull[self._around.coupled_in_region],
                "pull_shell": pull[self._around.shell_in_region],
            }
        }
        for seam in self._around.shared:
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
        if ask.mu < before.mu or ask.freeze != before.freeze or not ask.y.same_as(before.y):
            return False
        if ask.freeze and not (ask.previous is not None and np.array_equal(ask.previous, last.answer.labels)):
            return False
        pull = ask.a - ask.y.coupled + 0.5
        return np.array_equal(ask.a, before.a) and bool((np.where(last.coupled, -pull, pull) >= 0.0).all())

    def _solved(self, ask: Question) -> Solved:
        coupling = self._coupling.apply(self._around.spread(ask.y, np.zeros(())))
        unary = np.add(self._energy.unary, coupling, order="C")
        if ask.freeze and ask.previous is not None:
            frozen = np.multiply(ask.mu, 0.5 - ask.previous, order="C")
            frozen.reshape(-1)[self._coupled] = 0.0
            unary += frozen
        unary.reshape(-1)[self._coupled] += ask.mu * (ask.a - ask.y.coupled + 0.5)
        answer = checked_answer(self._minimizer.minimize(unary, start=ask.previous), unary.shape)
        if self._last is not None and np.array_equal(self._last.answer.labels, answer.labels):
            return Solved(answer, self._last.coupled, self._last.pull, self._last.value)
        with finishing():  # a search that was cancelled answers with the best so far, which is to be shown
            pull = self._coupling.transpose(answer.labels)
            return Solved(answer, answer.labels.ravel()[self._coupled], pull, self._energy(answer.labels))

    # A round's second half.

    def _leave_measured(self, ask: Measure, posts: Sequence[Content]) -> Post:
        around, labels, own = self._around, self._labels(posts[0]), self._unpacked(posts[1])
        coupled, number = labels.ravel()[self._coupled], len(self._coupled)
        sent = [None if k is None else self._unpacked(posts[2 + k]) for k in around.senders]
        both = np.concatenate([own["pull"], own["pull_shell"]])
        votes, multipliers = (
            around.add_own([mine if one is None else one[name] for one in sent])
            for name, mine in (("labels", coupled), ("a", own["a"]))
        )
        pulls = around.add_pulls([both if one is None else one["pull"] for one in sent])
        y = (votes + multipliers - pulls / ask.mu) / around.counts
        # Where blocks agree y is 0 or 1 but for the last bits; without those, no weight need be computed there.
        whole = np.rint(y)
        y = np.where(np.abs(y - whole) < 1e-12, whole, y)
        rounded, majority = y > 0.5, votes > around.counts / 2
        difference = coupled - y[:number]
        mine = around.owned
        apart = np.where(rounded, votes != around.counts, votes != 0.0)[:number] & mine
        alike = np.array_equal(rounded, majority)
        candidates = [around.near(values) for values in ([y, rounded] if alike else [y, rounded, majority])]
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
            parts["sites"] = {"sites": around.in_whole(around.coupled_in_region[mine])}
        return Post(summary, arrays, parts)

    def _rounding(self, labels: BinaryLabels, coupled: BinaryLabels) -> dict[str, npt.NDArray[Any]]:
        """The labels of a rounding on the sites that this block owns."""
        whole = labels.copy()
        whole.reshape(-1)[self._coupled] = coupled
        return piece(self._owned_in_whole, whole[self._owned])

    def _energies(self, labels: BinaryLabels, candidates: list[Near]) -> list[float]:
        known: dict[int, float] = {}
        if self._measured is not None and np.array_equal(labels, self._measured[0]):
            before = zip(candidates, self._measured[1], self._measured[2], strict=False)
            known = {i: value for i, (one, other, value) in enumerate(before) if one.same_as(other)}
        values = [known[i] if i in known else self._part(labels, one) for i, one in enumerate(candidates)]
        self._measured = labels, candidates, values
        return values

    def _part(self, labels: BinaryLabels, candidate: Near) -> float:
        """The energy of this block's own sites, and of the pairs that begin there."""
        y = self._around.spread(candidate, labels)
        owned = self._owned_in_region
        linear = float((self._region_unary[owned] * y[owned]).sum(dtype=np.float64))
        return linear + self._region_pairs.roughness(y, owned)  # type: ignore[arg-type]


def weight_of(summary: Any) -> Fraction:
    """What a block answered to `Repulsion`."""
    return Fraction(*summary["weight"])
