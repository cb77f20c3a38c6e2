"""The roof dual of a whole energy (`roof_dual`), found by flows between its blocks.

Of a grid it is the exact minimum of F by `Bracketing`, wherever the arrays lie: F is read as E is, block by block, with
both labels of its sites. With F0 = F without its constant,

    F = F0 + 2 E(0) - F0(y = 0, y' = 1) = F0 + 2 constant + sum_i u_i - 2 R,      R the sum of |w| over repulsive pairs

as F = 2 E where y' = 1 - y; blocks add up their parts of the last two terms, from which nothing is lost. Sites outside
a mask have y = y' = 0 there, and count for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Box
from dope.boards import Board, MemoryBoard, Post
from dope.energy import Energy
from dope.facts import measure_facts
from dope.methods.bracketing import Bracketing
from dope.methods.exact import Exact
from dope.methods.rounds import Content, Reference, Rounds, Task, leave
from dope.methods.task_log import TaskLog
from dope.methods.tiling import seen_from
from dope.pairs import GridPairs
from dope.partition import Block, Partition
from dope.protocols import FlowSolver, Problem
from dope.roof_dual import double_energy, double_pairs
from dope.rounding import rounded_down
from dope.stored import StoredUnary
from dope.sums import exact_sum
from dope.work import Work


@dataclass(frozen=True, eq=False)
class RoofBound:
    """No labels have less energy than `lower_bound`; at the `decided` sites these labels are best, all at once."""

    lower_bound: float
    decided: BinaryLabels
    labels: BinaryLabels


@dataclass(frozen=True, eq=False)
class RoofProofs:
    """The same of blocks of a grid, which say on the board what is decided."""

    lower_bound: float
    proofs: Sequence[Reference]


def find_roof_bound(problem: Problem, flow_solver: FlowSolver, *, rounds: int) -> RoofBound:
    """Half the minimum of F is the bound, and where y' = 1 - y, y are the labels. Blocks must not overlap."""
    *_, minimum = Exact(rounds=rounds).steps(double_problem(problem, flow_solver))
    assert minimum.lower_bound is not None and minimum.labels is not None
    one, other = minimum.labels.reshape(2, *problem.energy.shape)
    return RoofBound(minimum.lower_bound / 2, one | other, one)


def double_problem(problem: Problem, flow_solver: FlowSolver) -> Problem:
    """F in place of the energy, and each block with both labels of its sites."""
    energy = double_energy(problem.energy)
    blocks = _double_partition(problem.partition, energy.shape)
    return replace(problem, energy=energy, partition=blocks, solver=flow_solver, start=None)


def _double_partition(partition: Partition, shape: tuple[int, ...]) -> Partition:
    if partition.cuts is not None:
        return Partition.at(shape, ((), *partition.cuts))
    n = partition.shape[0]
    twice = [
        np.concatenate([block.where, block.where + n])
        for block in partition.blocks
        if not isinstance(block.where, tuple)
    ]
    return Partition(shape, tuple(Block(sites, np.arange(len(sites))) for sites in twice), np.ones(shape))


# Of a grid.


def find_roof_proofs(problem: Problem, flow_solver: FlowSolver, log: TaskLog, *, packed: bool) -> RoofProofs:
    """As `find_roof_bound`, for blocks of a grid that read their arrays where they are."""
    energy = measure_facts(
        problem.energy, problem.partition, problem.executor, done=log.measured(problem, kind="facts")
    )
    problem = replace(problem, energy=energy)
    constant = 2 * Fraction(energy.constant) + _added(problem, log, packed=packed)
    doubled = _doubled(energy)
    partition = _double_partition(problem.partition, doubled.shape)
    target = _ProofTarget(problem.board, [block.where for block in partition.blocks], energy)
    # What is read of F is told on a board of its own: the problem's is about E.
    twice = replace(
        problem, energy=doubled, partition=partition, solver=flow_solver, target=target, board=MemoryBoard(), start=None
    )
    *_, minimum = Bracketing().steps(twice)
    assert minimum.lower_bound is not None
    return RoofProofs(rounded_down((Fraction(minimum.lower_bound) + constant) / 2), target.proofs)


def _doubled(energy: Energy) -> Energy:
    """F0, read as the energy is."""
    pairs = energy.pairs
    assert isinstance(pairs, GridPairs)
    # Pixels and masks that are elsewhere are put in later: doubling must not read them.
    arrays: dict[str, Any] = {"features": pairs.features, "inside": pairs.inside}
    far = {name: Twice(one) for name, one in arrays.items() if one is not None and not isinstance(one, np.ndarray)}
    none: dict[str, Any] = dict.fromkeys(far)
    doubled = double_pairs(replace(pairs, **none))
    assert isinstance(doubled, GridPairs)
    unary: Any = StoredUnary(TwicePrices(energy.unary, energy.shape))
    put: dict[str, Any] = dict(far)
    return Energy(unary, replace(doubled, **put))


@dataclass(frozen=True, eq=False)
class Twice:
    """An array of sites as both layers of F have it: the same."""

    array: Any

    @property
    def name(self) -> str:
        return str(getattr(self.array, "name", "features"))

    @property
    def shape(self) -> tuple[int, ...]:
        return (2, *self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = self.array.dtype
        return found

    @property
    def site_bytes(self) -> int:
        return int(self.array.site_bytes)

    def __getitem__(self, box: Box) -> npt.NDArray[Any]:
        part = self.array[box[1:]]
        return np.ascontiguousarray(np.broadcast_to(part, (box[0].stop - box[0].start, *part.shape)))

    def excerpt(self, box: Box) -> Twice:
        return Twice(self.array.excerpt(box[1:]))


@dataclass(frozen=True, eq=False)
class TwicePrices:
    """The unary of F: u for y, -u for y'."""

    unary: Any
    sides: tuple[int, ...]
    origin: tuple[int, ...] | None = None
    chunks: None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return (2, *self.sides)

    @property
    def site_bytes(self) -> int:
        return 8

    def at(self, box: Box) -> npt.NDArray[np.float64]:
        place = box[1:]
        if self.origin is not None:
            place = tuple(slice(s.start - o, s.stop - o) for s, o in zip(place, self.origin, strict=True))
        u = self.unary[place].astype(np.float64)
        return np.stack([u, -u])[box[0]]

    def excerpt(self, box: Box) -> TwicePrices:
        place = box[1:]
        if isinstance(self.unary, np.ndarray):
            return replace(self, unary=self.unary[place].copy(), origin=tuple(s.start for s in place))
        return replace(self, unary=self.unary.excerpt(place))


class _ProofTarget:
    """Where labels of F go, block by block: to the board, as what they prove of E."""

    anywhere = False

    def __init__(self, board: Board, boxes: Sequence[Any], energy: Energy) -> None:
        self._board, self._energy = board, energy
        self._numbers = {_key(box): k for k, box in enumerate(boxes)}
        self._proofs: dict[int, Reference] = {}

    @property
    def proofs(self) -> list[Reference]:
        return [self._proofs[k] for k in range(len(self._numbers))]

    def __setitem__(self, box: Box, labels: BinaryLabels) -> None:
        one, other = labels
        inside = self._energy.inside_at(box[1:])
        decided = one | other if inside is None else one | other | ~inside
        k = self._numbers[_key(box)]
        self._proofs[k] = leave(self._board, f"roof/{k:06}", Post({}, {"decided": decided, "labels": one}))


def _key(box: Box) -> tuple[tuple[int, int], ...]:
    return tuple((s.start, s.stop) for s in box)


def _added(problem: Problem, log: TaskLog, *, packed: bool) -> Fraction:
    """sum_i u_i - 2 R."""
    energy = problem.energy
    assert isinstance(energy.pairs, GridPairs)
    recipes = [_AddRecipe(energy, block.where) for block in problem.partition.blocks if isinstance(block.where, tuple)]
    tasks = [Task(Add(one.where, energy.pairs.around(one.where)), (), f"add/{k:06}") for k, one in enumerate(recipes)]
    with Rounds(problem.executor, problem.board, recipes, packed=packed) as rounds:
        left = rounds.play(tasks, done=log.done(tasks))
    return sum((Fraction(*one.summary["sum"]) for one in left if one is not None), Fraction(0))


@dataclass(frozen=True)
class Add:
    """Asks a block for its part of sum_i u_i - 2 R."""

    kind: ClassVar[str] = "repulsion"
    mine: Box
    region: Box


@dataclass(frozen=True, eq=False)
class _AddRecipe:
    energy: Energy
    where: Box

    def open(self) -> _AddRecipe:
        return self

    def __call__(self, ask: Add, posts: Sequence[Content], work: Work) -> Post:
        del posts
        with work.timed("read"):
            part = self.energy.at(ask.region)
        with work.timed("solve"):
            mine, pairs = seen_from(ask.mine, ask.region), part.pairs
            assert isinstance(pairs, GridPairs)
            unary = part.unary[mine]
            if pairs.inside is not None:
                unary = unary[pairs.inside[mine]]
            found = exact_sum(unary) - 2 * pairs.repulsive.total(mine)
        return Post({"sum": list(found.as_integer_ratio())}, {})

    def __reduce__(self) -> tuple[Any, ...]:
        pairs = self.energy.pairs
        assert isinstance(pairs, GridPairs)
        return _AddRecipe, (self.energy.confined_to(pairs.around(self.where)), self.where)
