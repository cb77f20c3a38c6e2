"""A block as ADMM uses it: what is asked of it, what it answers, and how it is opened where its data is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Index, Sites
from dope.energy import Energy, Excerpt
from dope.partition import Partition
from dope.protocols import Answer, BlockSolver, FlowMinimizer, checked_answer

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Survey:
    """Asks a block where it meets others, and, which takes longer, how strongly."""

    strength: bool


@dataclass(frozen=True, eq=False)
class Seams:
    """Where a block meets others: flat indices, in the whole, of its coupled sites and of the shell around it.

    `strength` is empty if it was not asked for.
    """

    coupled: Sites
    shell: Sites
    strength: Values
    size: int


@dataclass(frozen=True, eq=False)
class Near:
    """Values on a block's coupled sites and on the shell around it."""

    coupled: npt.NDArray[Any]
    shell: npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Solve:
    """Asks a block for its labels, given the consensus nearby."""

    y: Near
    a: Values
    mu: float
    previous: BinaryLabels | None
    freeze: bool


@dataclass(frozen=True, eq=False)
class Solved:
    """A block's labels y_k, the same on its coupled sites, A_k' y_k nearby, and the value u_k'y_k + y_k'L_k y_k."""

    answer: Answer
    coupled: BinaryLabels
    pull: Near
    value: float


@dataclass(frozen=True, eq=False)
class Measure:
    """Asks a block for its part of the energy of some candidates that share its interior labels."""

    labels: BinaryLabels
    candidates: tuple[Near, ...]


@dataclass(frozen=True)
class Repulsion:
    """Asks a block what the repulsive pairs that begin at its own sites weigh, less those of its share.

    Summed over blocks: how far the energy can be below the shares, by pairs that no block holds, or only in part.
    """


@dataclass(frozen=True, eq=False)
class BlockRecipe:
    """How to open a block where its data is; sent elsewhere, it takes along its own data only."""

    energy: Energy
    partition: Partition
    k: int
    solver: BlockSolver

    @property
    def where(self) -> Index:
        return self.partition.blocks[self.k].where

    def open(self) -> OpenedBlock:
        return OpenedBlock(self._excerpt(), self.solver)

    def _excerpt(self) -> Excerpt:
        return self.energy.excerpt(self.partition, self.k)

    def __reduce__(self) -> tuple[type[ExcerptRecipe], tuple[Excerpt, BlockSolver]]:
        return ExcerptRecipe, (self._excerpt(), self.solver)


@dataclass(frozen=True, eq=False)
class ExcerptRecipe:
    """How to open a block from what was sent."""

    excerpt: Excerpt
    solver: BlockSolver

    def open(self) -> OpenedBlock:
        return OpenedBlock(self.excerpt, self.solver)


class OpenedBlock:
    """An opened block: its share of the energy and a minimizer for it."""

    def __init__(self, excerpt: Excerpt, solver: BlockSolver) -> None:
        share, self._place = excerpt.share(), excerpt.place
        self._energy = share.energy
        self._coupling = share.coupling
        self._minimizer = solver.prepare(share.energy)
        # Costs that are rounded are counted in one unit for good; whole ones may get another with another unary.
        self._steady = isinstance(self._minimizer, FlowMinimizer) and self._minimizer.rounding_error > 0.0
        self._coupled = np.flatnonzero(share.coupling.coupled())
        self._region_unary, self._region_pairs = excerpt.energy.unary, excerpt.energy.pairs
        inside = np.zeros(self._region_unary.shape, dtype=np.bool_)
        inside[share.coupling.inside] = True
        numbers = np.arange(inside.size).reshape(inside.shape)[share.coupling.inside].ravel()
        self._coupled_in_region = numbers[self._coupled]
        self._shell_in_region = np.flatnonzero(~inside)
        self._owned_in_region = _within(share.coupling.inside, share.owned)
        self._whole_shape = excerpt.shape
        # The last questions and answers: from some round on most blocks keep their labels, and what follows from them.
        self._asked: Solve | None = None
        self._last: Solved | None = None
        self._measured: tuple[Measure, list[float]] | None = None

    def __call__(self, message: Survey | Solve | Measure | Repulsion) -> Any:
        match message:
            case Solve():
                return self._solve(message)
            case Measure():
                return self._measure(message)
            case Repulsion():
                own = self._region_pairs.repulsive.total(self._owned_in_region)  # type: ignore[arg-type]
                return own - self._energy.pairs.repulsive.total()
            case _:
                return self._survey(message)

    def _survey(self, ask: Survey) -> Seams:
        region = self._place
        if isinstance(region, tuple):
            corner = tuple(s.start for s in region)
            places = np.unravel_index(
                np.concatenate([self._coupled_in_region, self._shell_in_region]), self._region_unary.shape
            )
            flat = np.ravel_multi_index(
                tuple(p + c for p, c in zip(places, corner, strict=True)), self._whole_shape
            ).astype(np.int64)
        else:
            flat = region[np.concatenate([self._coupled_in_region, self._shell_in_region])]
        number = len(self._coupled)
        strength = self._coupling.strength().ravel()[self._coupled] if ask.strength else np.zeros(0)
        return Seams(flat[:number], flat[number:], strength, self._energy.unary.size)

    def _solve(self, ask: Solve) -> Solved:
        if self._last is None or not self._settled(ask, self._last):
            self._last = self._solved(ask)
        self._asked = ask
        return self._last

    def _settled(self, ask: Solve, last: Solved) -> bool:
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

    def _solved(self, ask: Solve) -> Solved:
        unary = self._energy.unary + self._coupling.apply(self._spread(ask.y, np.zeros(())))
        if ask.freeze and ask.previous is not None:
            frozen = ask.mu * (0.5 - ask.previous)
            frozen.flat[self._coupled] = 0.0
            unary += frozen
        unary.flat[self._coupled] += ask.mu * (ask.a - ask.y.coupled + 0.5)
        answer = checked_answer(self._minimizer.minimize(unary, start=ask.previous), unary.shape)
        if self._last is not None and np.array_equal(self._last.answer.labels, answer.labels):
            return replace(self._last, answer=answer)
        pull = self._coupling.transpose(answer.labels).ravel()
        near = Near(pull[self._coupled_in_region], pull[self._shell_in_region])
        own = answer.labels.ravel()[self._coupled]
        return Solved(answer, own, near, self._energy(answer.labels))

    def _measure(self, ask: Measure) -> list[float]:
        known: dict[int, float] = {}
        if self._measured is not None and np.array_equal(ask.labels, self._measured[0].labels):
            before = zip(ask.candidates, self._measured[0].candidates, self._measured[1], strict=False)
            known = {i: value for i, (one, other, value) in enumerate(before) if _same(one, other)}
        values = [
            known[i] if i in known else self._part(ask.labels, candidate) for i, candidate in enumerate(ask.candidates)
        ]
        self._measured = ask, values
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
        y.flat[self._coupled_in_region] = near.coupled
        y.flat[self._shell_in_region] = near.shell
        return y


def _same(one: Near, other: Near) -> bool:
    return np.array_equal(one.coupled, other.coupled) and np.array_equal(one.shell, other.shell)


def _within(inside: Index, owned: Index) -> Index:
    """A place in the block as a place in the region that holds the block."""
    if isinstance(inside, tuple):
        assert isinstance(owned, tuple)
        return tuple(slice(i.start + o.start, i.start + o.stop) for i, o in zip(inside, owned, strict=True))
    return inside[owned]
