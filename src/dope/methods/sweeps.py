"""Sweeps: re-solve block after block with the surroundings fixed, on blocks whose seams lie elsewhere.

With the labels y outside block k fixed, the energy as a function of y_k is, up to a constant,

    ( u_k + b_k )' y_k + y_k' L_k y_k,      b_ki = sum over j outside k of w_ij (1 - 2 y_j)

A block adopts new labels only where they lower that, and blocks of one class share no pair, so the energy never rises.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dope.arrays import BinaryLabels, Index
from dope.energy import Energy, Share
from dope.pairs import GraphPairs
from dope.partition import Partition
from dope.protocols import BlockSolver, FlowMinimizer, Minimizer, Problem, checked_answer

# On a graph no cut can be shifted: blocks that hold half as many sites again reach beyond the seams instead.
GRAPH_GROWTH = 0.5


def sweep(
    problem: Problem, labels: BinaryLabels, number: int, live: BinaryLabels | None = None
) -> Iterator[BinaryLabels]:
    """The labels after each of `number` sweeps, over shifted blocks and over the blocks themselves by turns.

    `live`, if there is one, follows them as they change.
    """
    minimizers = _Minimizers(problem.solver)
    for turn in range(number):
        labels = _sweep_once(problem, _blocks(problem, shifted=turn % 2 == 0).alone(), labels, minimizers, live)
        yield labels


def _blocks(problem: Problem, *, shifted: bool) -> Partition:
    pairs, partition = problem.energy.pairs, problem.partition
    if isinstance(pairs, GraphPairs):
        return Partition.graph(pairs, len(partition.blocks), overlap=GRAPH_GROWTH) if shifted else partition
    return partition.shifted() if shifted else partition.even()


def _sweep_once(
    problem: Problem, partition: Partition, labels: BinaryLabels, minimizers: _Minimizers, live: BinaryLabels | None
) -> BinaryLabels:
    pairs, labels = problem.energy.pairs, labels.copy()
    for members in partition.apart(pairs):
        places = [partition.blocks[k].where for k in members]
        recipes = [_FixedRecipe(problem.energy, partition, k, minimizers) for k in members]
        with problem.executor.gather(recipes) as crew:
            solved = crew.ask([Around(labels[pairs.around(where)]) for where in places])  # type: ignore[arg-type]
        for where, block_labels in zip(places, solved, strict=True):
            labels[where] = block_labels
            if live is not None:
                live[where] = block_labels
    return labels


class _Minimizers:
    """A solver's minimizers, each lent to one block after the other: no more are open than blocks are at work.

    Those at leisure are memory for the next block, which only saves time: they do not travel with a recipe.
    """

    def __init__(self, solver: BlockSolver) -> None:
        self._solver = solver
        self._idle: list[FlowMinimizer] = []

    @contextmanager
    def lent(self, energy: Energy) -> Iterator[Minimizer]:
        """A minimizer for this energy; lost, should its work fail."""
        minimizer: Minimizer
        try:
            idle = self._idle.pop()
        except IndexError:
            minimizer = self._solver.prepare(energy)
        else:
            idle.reopen(energy)
            minimizer = idle
        yield minimizer
        if isinstance(minimizer, FlowMinimizer):
            self._idle.append(minimizer)

    def __reduce__(self) -> tuple[type[_Minimizers], tuple[BlockSolver]]:
        return _Minimizers, (self._solver,)


@dataclass(frozen=True, eq=False)
class Around:
    """The labels around a block, and its own so far."""

    doing: ClassVar[str] = "sweep"
    labels: BinaryLabels


@dataclass(frozen=True, eq=False)
class _FixedRecipe:
    """How to open a block whose surroundings are fixed."""

    energy: Energy
    partition: Partition
    k: int
    minimizers: _Minimizers

    @property
    def where(self) -> Index:
        return self.partition.blocks[self.k].where

    def open(self) -> _FixedBlock:
        return _FixedBlock(self.energy.share(self.partition, self.k), self.minimizers)

    def __reduce__(self) -> tuple[type[_FixedRecipe], tuple[Energy, Partition, int, _Minimizers]]:
        """Sent elsewhere, it takes along its own data only."""
        excerpt = self.energy.excerpt(self.partition, self.k)
        return _FixedRecipe, (excerpt.energy, excerpt.partition, 0, self.minimizers)


class _FixedBlock:
    """Answers the labels around it, and its own so far, with labels of its own that are no worse."""

    def __init__(self, share: Share, minimizers: _Minimizers) -> None:
        self._share = share
        self._minimizers = minimizers

    def __call__(self, message: Around) -> BinaryLabels:
        around = message.labels
        y = around.astype(np.float64)
        old = around[self._share.coupling.inside]
        # With 1/2 inside, A_k y is the sum over j outside of w_ij (1/2 - y_j): half of b_k.
        y[self._share.coupling.inside] = 0.5
        fixed = Energy(self._share.energy.unary + 2.0 * self._share.coupling.apply(y), self._share.energy.pairs)
        with self._minimizers.lent(self._share.energy) as minimizer:
            new = checked_answer(minimizer.minimize(fixed.unary, start=old), old.shape).labels
        return new if fixed(new) < fixed(old) else old
