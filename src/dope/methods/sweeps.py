"""Sweeps: re-solve block after block with the surroundings fixed, on blocks whose seams lie elsewhere.

With the labels y outside block k fixed, the energy as a function of y_k is, up to a constant,

    ( u_k + b_k )' y_k + y_k' L_k y_k,      b_ki = sum over j outside k of w_ij (1 - 2 y_j)

A block adopts new labels only where they lower that, and blocks of one class share no pair, so the energy never rises.
A block reads the labels around it from the pieces that others left on the board, and leaves its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dope.arrays import BinaryLabels, Index
from dope.boards import Post
from dope.energy import Energy, Excerpt, UnreadExcerpt
from dope.methods.lending import Minimizers
from dope.methods.pieces import Labelling, Layer, LivePieces, piece, put_together
from dope.methods.places import Places, places_of, size_of
from dope.methods.rounds import Content, Left, Reference, Rounds, Task, content_of
from dope.methods.task_log import TaskLog
from dope.pairs import GraphPairs
from dope.partition import Partition
from dope.protocols import Problem, checked_answer
from dope.sums import exact_sum
from dope.work import Work

# On a graph no cut can be shifted: blocks that hold half as many sites again reach beyond the seams instead.
GRAPH_GROWTH = 0.5


@dataclass(frozen=True, eq=False)
class Sweeper:
    """Has blocks of other partitions work on labels that lie on the board. `packed` as `Rounds` has it."""

    problem: Problem
    packed: bool
    most: int  # bytes of a piece
    live: LivePieces
    log: TaskLog

    def sweep(self, labelling: Labelling, number: int) -> Iterator[Labelling]:
        """The labels after each of `number` sweeps, over shifted blocks and over the blocks themselves by turns."""
        minimizers = Minimizers(self.problem.solver)
        for turn in range(number):
            partition = swept_blocks(self.problem, shifted=turn % 2 == 0)
            labelling = self._swept(partition, labelling, minimizers, f"sweep-{turn + 1:02}")
            yield labelling

    def weigh(self, labelling: Labelling, name: str) -> tuple[Fraction, int]:
        """The energy of labels, exactly, and how many of them are 1.

        Each block has the sites that it owns, and the pairs that begin there.
        """
        partition = without_overlap(self.problem.partition)
        regions = places_of(self.problem.energy.pairs, partition, "region")
        recipes = [self._recipe(partition, regions, k, None) for k in range(len(regions))]
        tasks = [
            Task(Weigh(labelling.background), labelling.at(regions[k]), f"{name}/{k:05}") for k in range(len(regions))
        ]
        left = self._played(recipes, tasks)
        parts = [Fraction(*one.summary["energy"]) for one in left]
        return sum(parts, Fraction(self.problem.energy.constant)), sum(one.summary["ones"] for one in left)

    def adopt(self, labelling: Labelling, places: Places, proofs: Sequence[Reference]) -> Adopted:
        """Labels with those over them that blocks have proved, each for its place."""
        recipes = [AdoptingRecipe(places[k], self.most) for k in range(len(places))]
        tasks = [
            Task(Adopt(labelling.background), (proofs[k], *labelling.at(places[k])), f"adopt/{k:05}")
            for k in range(len(places))
        ]
        left = self._played(recipes, tasks)
        decided, agreeing = (sum(one.summary[name] for one in left) for name in ("decided", "agreeing"))
        return Adopted(Labelling(layers=(Layer(places, [one.post for one in left]),)), decided, agreeing)

    def write(self, labelling: Labelling, places: Places, *, name: str) -> None:
        """Have blocks write labels to the target, each to its place."""
        recipes = [WritingRecipe(places[k], self.problem.target, self.most) for k in range(len(places))]
        tasks = [
            Task(Write(labelling.background), labelling.at(places[k]), f"{name}/{k:05}") for k in range(len(places))
        ]
        self._played(recipes, tasks)
        self.problem.board.drop([task.leaves for task in tasks])

    def _played(
        self,
        recipes: Sequence[FixedRecipe | AdoptingRecipe | WritingRecipe],
        tasks: Sequence[Task],
        members: Sequence[int] = (),
    ) -> list[Left]:
        """What blocks left, all or those of these numbers, whose labels are shown as soon as they are there."""

        def done(i: int, one: Left) -> None:
            block, sizes = members[i] if members else i, [size_of(place) for place in recipes[i].places]
            self.log.add(block, tasks[i].message.kind, one, sites=sizes[0], region=sizes[1])
            if members:
                self.live.show(block, one.post)

        with Rounds(self.problem.executor, self.problem.board, recipes, packed=self.packed) as rounds:
            return [one for one in rounds.play(tasks, done=done) if one is not None]

    def _recipe(self, partition: Partition, regions: Places, k: int, minimizers: Minimizers | None) -> FixedRecipe:
        excerpt = self.problem.energy.unread_excerpt(partition, k, regions[k])
        return FixedRecipe(excerpt, partition.blocks[k].where, minimizers, self.most)

    def _swept(self, partition: Partition, labelling: Labelling, minimizers: Minimizers, name: str) -> Labelling:
        pairs = self.problem.energy.pairs
        regions, places = places_of(pairs, partition, "region"), places_of(pairs, partition, "where")
        posts: list[Reference | None] = [None] * len(places)
        order: list[int] = []
        layer = Layer(places, posts, None if partition.cuts is not None else order)
        now = labelling.over(layer)
        for members in partition.apart(pairs):
            tasks = [Task(Fix(now.background), now.at(regions[k]), f"{name}/{k:05}") for k in members]
            recipes = [self._recipe(partition, regions, k, minimizers) for k in members]
            if not order:
                self.live.begin(places, self._read)
            for k, one in zip(members, self._played(recipes, tasks, members), strict=True):
                posts[k] = one.post
                self.live.show(k, one.post)
            order += members
        return Labelling(labelling.background, (layer,))

    def _read(self, post: Reference) -> BinaryLabels:
        labels: BinaryLabels = Post.unpacked(content_of(self.problem.board, post), most=self.most).arrays["labels"]
        return labels


@dataclass(frozen=True, eq=False)
class Adopted:
    """Labels with those that are proved: at how many sites they are, and at how many of them they were so before."""

    labelling: Labelling
    decided: int
    agreeing: int


@dataclass(frozen=True)
class Fix:
    """Asks for labels that are no worse, with all around the block fixed; reads the pieces that lie there."""

    kind: ClassVar[str] = "sweep"
    background: bool


@dataclass(frozen=True)
class Weigh:
    """Asks for the energy of the sites that a block owns, and of the pairs that begin there."""

    kind: ClassVar[str] = "weigh"
    background: bool


@dataclass(frozen=True)
class Adopt:
    """Asks for the labels of a place with those over them that are proved; these are in the first of the posts."""

    kind: ClassVar[str] = "adopt"
    background: bool


@dataclass(frozen=True)
class Write:
    """Asks to write the labels of a place where they belong."""

    kind: ClassVar[str] = "write"
    background: bool


@dataclass(frozen=True, eq=False)
class FixedRecipe:
    """How to open a block whose surroundings are fixed."""

    excerpt: UnreadExcerpt | Excerpt
    where: Index
    minimizers: Minimizers | None
    most: int

    @property
    def places(self) -> tuple[Index, Index]:
        """The block, and what it looks at."""
        return self.where, self.excerpt.place

    def open(self) -> FixedBlock:
        return FixedBlock(self)


class FixedBlock:
    """Answers the labels around it, and its own so far; reads its arrays each time, and keeps nothing."""

    def __init__(self, recipe: FixedRecipe) -> None:
        self._recipe = recipe

    def __call__(self, message: Fix | Weigh, posts: Sequence[Content], work: Work) -> Post:
        recipe = self._recipe
        with work.timed("read"):
            excerpt = recipe.excerpt.read()
        around = put_together(excerpt.place, message.background, posts, most=recipe.most)
        with work.timed("solve"):
            if isinstance(message, Fix):
                return Post({}, piece(recipe.where, self._fixed(excerpt, around)))
            return _weighed(excerpt, around)

    def _fixed(self, excerpt: Excerpt, around: BinaryLabels) -> BinaryLabels:
        share = excerpt.share()
        y = around.astype(np.float64)
        old = around[share.coupling.inside]
        # With 1/2 inside, A_k y is the sum over j outside of w_ij (1/2 - y_j): half of b_k.
        y[share.coupling.inside] = 0.5
        fixed = Energy(share.energy.unary + 2.0 * share.coupling.apply(y), share.energy.pairs)
        assert self._recipe.minimizers is not None
        with self._recipe.minimizers.lent(share.energy) as minimizer:
            new = checked_answer(minimizer.minimize(fixed.unary, start=old), old.shape).labels
        return new if fixed(new) < fixed(old) else old


def _weighed(excerpt: Excerpt, labels: BinaryLabels) -> Post:
    block, energy = excerpt.partition.blocks[0], excerpt.energy
    if isinstance(block.where, tuple):
        assert isinstance(block.owned, tuple)
        mine: Index = tuple(
            slice(w.start + o.start, w.start + o.stop) for w, o in zip(block.where, block.owned, strict=True)
        )
    else:
        mine = block.where[block.owned]
    own = np.ascontiguousarray(labels[mine])
    rough = energy.pairs.exact_roughness(labels, mine)  # type: ignore[arg-type]
    value = exact_sum(energy.unary[mine], own) + rough
    return Post({"energy": list(value.as_integer_ratio()), "ones": int(np.count_nonzero(own))}, {})


@dataclass(frozen=True, eq=False)
class AdoptingRecipe:
    """How to put labels that are proved over others."""

    where: Index
    most: int

    @property
    def places(self) -> tuple[Index, Index]:
        return self.where, self.where

    def open(self) -> AdoptingRecipe:
        return self

    def __call__(self, message: Adopt, posts: Sequence[Content], work: Work) -> Post:
        with work.timed("solve"):
            proof = Post.unpacked(posts[0], most=self.most).arrays
            before = put_together(self.where, message.background, posts[1:], most=self.most)
            decided, labels = proof["decided"], np.where(proof["decided"], proof["labels"], before)
            agreeing = np.count_nonzero(decided & (labels == before))
            summary = {"decided": int(np.count_nonzero(decided)), "agreeing": int(agreeing)}
            return Post(summary, piece(self.where, labels))


@dataclass(frozen=True, eq=False)
class WritingRecipe:
    """How to write labels to a place."""

    where: Index
    target: Any
    most: int

    @property
    def places(self) -> tuple[Index, Index]:
        return self.where, self.where

    def open(self) -> WritingRecipe:
        return self

    def __call__(self, message: Write, posts: Sequence[Content], work: Work) -> Post:
        labels = put_together(self.where, message.background, posts, most=self.most)
        with work.timed("write"):
            self.target[self.where] = labels
        return Post({}, {})


def swept_blocks(problem: Problem, *, shifted: bool) -> Partition:
    """The blocks of a sweep, each with the full costs of its sites: those of the problem, or with seams elsewhere."""
    pairs, partition = problem.energy.pairs, problem.partition
    if isinstance(pairs, GraphPairs):
        found = Partition.graph(pairs, len(partition.blocks), overlap=GRAPH_GROWTH) if shifted else partition
    else:
        found = partition.shifted() if shifted else partition.even()
    return found.alone()


def without_overlap(partition: Partition) -> Partition:
    """Blocks with the sites that they own, on a grid; on a graph they are as they were."""
    return partition if partition.cuts is None else partition.even()
