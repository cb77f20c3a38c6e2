"""A block as ADMM of several labels uses it: its share of the energy, where it meets others, and what solves it.

A pair costs w V(x_i, x_j) = w (y_i - y_j)' (-V/2) (y_i - y_j), as y_i is one-hot and V(a, a) = 0. So what two labels
have of a block (`coupling`) is used once for every label, and then -V/2 mixes the labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dope.arrays import Index, Mask, Sites
from dope.cancellation import check_cancelled
from dope.coupling import Coupling, GraphCoupling, GridCoupling
from dope.label_energy import LabelEnergy, LabelNumbers
from dope.methods.label_arrays import cheapest
from dope.methods.label_moves import Kind, Mover, solving
from dope.methods.label_proof import LabelProof
from dope.methods.open_part import WORTH_A_GRAPH, OpenPart
from dope.methods.places import size_of
from dope.pairs import GraphPairs, GridPairs
from dope.partition import Partition
from dope.protocols import FlowSolver, LabelSolver, Problem

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BlockSolving:
    """What minimizes a block: messages of a label solver, or moves, each by a solver of two labels.

    Of Potts energies labels are proved first (`label_proof`), where the solver shows its flows, and moves do the rest.
    """

    problem: Problem
    kind: Kind
    by_moves: bool

    def lowered(self, energy: LabelEnergy, start: LabelNumbers) -> LabelNumbers:
        """Labels that are no worse than those it begins with."""
        found = self._moved(energy, start) if self.by_moves else self._told(energy)
        return found if energy.exactly(found) < energy.exactly(start) else start

    def _told(self, energy: LabelEnergy) -> LabelNumbers:
        solver = self.problem.label_solver
        assert solver is not None
        messages = solver.prepare(energy)
        for _ in messages.steps():
            check_cancelled()
        return energy.as_labels(messages.labels())

    def _moved(self, energy: LabelEnergy, start: LabelNumbers) -> LabelNumbers:
        labels, free = start.copy(), taking_part(energy).copy()
        if energy.metric is not None and energy.metric.kind == "potts" and self._proves and energy.is_metric:
            proof = LabelProof(energy, replace(self.problem, partition=in_one_block(energy)))
            for label in range(energy.label_count):
                check_cancelled()
                proof.prove(label)
            labels, free = np.where(free & ~proof.open, proof.labels, labels), free & proof.open
        if np.count_nonzero(free) < WORTH_A_GRAPH * free.size:
            part = OpenPart.of(energy, labels, free)
            labels[free] = self._settled(part.energy, labels[free], np.ones(len(part.sites), dtype=np.bool_))
            return labels
        return self._settled(energy, labels, free)

    @property
    def _proves(self) -> bool:
        return isinstance(self.problem.solver, FlowSolver)

    def _settled(self, energy: LabelEnergy, labels: LabelNumbers, free: Mask) -> LabelNumbers:
        Mover(energy, labels, free, solving(self.problem.solver), self.kind == "jump").settle(self.kind)
        return labels


def in_one_block(energy: LabelEnergy) -> Partition:
    """All sites as one block."""
    pairs = energy.pairs
    if isinstance(pairs, GridPairs):
        return Partition.grid(energy.shape, 1)
    assert isinstance(pairs, GraphPairs)
    return Partition.graph(pairs, 1)


@dataclass(frozen=True, eq=False)
class Meeting:
    """Where a block meets others: its coupled sites, and places in its region with a y, `own` of which are those."""

    coupled: Sites
    places: Sites
    own: Mask


@dataclass(frozen=True, eq=False)
class Solve:
    """Asks for labels of the share, given y near the block and a_k; those of `frozen` pull at all other sites."""

    doing: ClassVar[str] = "solve"
    meeting: Meeting
    y: Values
    a: Values
    mu: float
    start: LabelNumbers | None
    frozen: bool


@dataclass(frozen=True, eq=False)
class Solved:
    """A block's labels, and A_k' y_k (but for the labels' mixing) near it."""

    labels: LabelNumbers
    pull: Values


@dataclass(frozen=True, eq=False)
class Fix:
    """Asks for labels that are no worse than those around and in the block, all around it fixed."""

    doing: ClassVar[str] = "sweep"
    around: LabelNumbers


@dataclass(frozen=True, eq=False)
class Bound:
    """Asks what no labels of the share are below, by so many rounds of messages."""

    doing: ClassVar[str] = "bound"
    solver: LabelSolver
    rounds: int
    threads: int


@dataclass(frozen=True, eq=False)
class BlockRecipe:
    """How to open a block of an energy in memory."""

    energy: LabelEnergy
    partition: Partition
    number: int
    solving: BlockSolving

    @property
    def where(self) -> Index:
        return self.partition.blocks[self.number].where

    @cached_property
    def coupling(self) -> Coupling:
        pairs, where = self.energy.pairs, self.where
        if isinstance(pairs, GridPairs):
            assert isinstance(where, tuple)
            return GridCoupling(pairs, self.partition, where)
        assert isinstance(pairs, GraphPairs) and not isinstance(where, tuple)
        return GraphCoupling.of(pairs, self.partition, where)

    def open(self) -> Block:
        return Block(self)


class Block:
    """Answers for a block; a reply depends on the recipe and the message alone."""

    def __init__(self, recipe: BlockRecipe) -> None:
        energy, where = recipe.energy, recipe.where
        assert energy.metric is not None
        counts: Any = recipe.partition.counts_at(where)
        pairs = energy.pairs.crop(where)  # type: ignore[union-attr, arg-type]
        costs = energy.costs[where] / recipe.partition.multiplicity(where)[..., None]
        self.share = LabelEnergy(np.ascontiguousarray(costs, dtype=np.float64), pairs.divided(counts), energy.metric)
        self._matrix = energy.metric.matrix(energy.label_count)
        self._solving, self._coupling = recipe.solving, recipe.coupling
        region = self._coupling.region
        self._sides = tuple(s.stop - s.start for s in region) if isinstance(region, tuple) else (size_of(region),)

    def __call__(self, message: Solve | Fix | Bound) -> Solved | LabelNumbers | Fraction | None:
        match message:
            case Solve():
                return self._solve(message)
            case Fix():
                return self._fix(message.around)
            case Bound():
                return self._bound(message)

    def _solve(self, ask: Solve) -> Solved:
        """The minimum of (c_k + A_k y + mu (a_k - S_k y))' y_k and the pairs of the share."""
        meeting, near = ask.meeting, ask.y[ask.meeting.own]
        more = self.felt(ask.y, meeting.places, meeting.coupled) + ask.mu * (ask.a - near)
        costs = self.share.costs.copy()
        flat = costs.reshape(-1, costs.shape[-1])
        if ask.frozen and ask.start is not None:
            pulled = np.ones(len(flat), dtype=np.bool_)
            pulled[meeting.coupled] = False
            flat[pulled, ask.start.ravel()[pulled]] -= ask.mu
        flat[meeting.coupled] += more
        energy = replace(self.share, costs=costs)
        labels = self._solving.lowered(energy, first_labels(energy) if ask.start is None else ask.start)
        pull = np.zeros((len(meeting.places), energy.label_count))
        for label in np.unique(labels):
            pull[:, label] = self._coupling.transpose(labels == label).ravel()[meeting.places]
        return Solved(labels, pull)

    def _fix(self, around: LabelNumbers) -> LabelNumbers:
        """Labels of the block that are no worse beside those around it."""
        outside = np.ones(self._sides, dtype=np.bool_)
        outside[self._coupling.inside] = False
        shell = np.flatnonzero(outside)
        coupled = np.flatnonzero(self._coupling.coupled())
        costs = self.share.costs.copy()
        # With y = 0 inside, 2 A_k y is the sum over j outside of w_ij V y_j.
        y = one_hot(around.ravel()[shell], costs.shape[-1])
        costs.reshape(-1, costs.shape[-1])[coupled] += 2.0 * self.felt(y, shell, coupled)
        energy, before = replace(self.share, costs=costs), np.ascontiguousarray(around[self._coupling.inside])
        return self._solving.lowered(energy, before)

    def _bound(self, ask: Bound) -> Fraction | None:
        bound = None
        for now in ask.solver.prepare(self.share, threads=ask.threads).steps():
            check_cancelled()
            bound = Fraction(now.bound) if np.isfinite(now.bound) else bound
            if now.rounds >= ask.rounds:
                break
        return bound

    def felt(self, y: Values, places: Sites, coupled: Sites) -> Values:
        """A_k y on coupled sites, from y at places of the region."""
        image, felt = np.zeros(self._sides), np.empty((len(coupled), y.shape[1]))
        for label in range(y.shape[1]):
            image.reshape(-1)[places] = y[:, label]
            felt[:, label] = self._coupling.apply(image).ravel()[coupled]
        return mixed(felt, -0.5 * self._matrix)


def first_labels(energy: LabelEnergy) -> LabelNumbers:
    """Each site's best label, or the one that is best for all, whichever costs less."""
    inside = taking_part(energy)
    alone = np.where(inside, cheapest(energy.costs, inside), 0).astype(energy.label_type)
    sums = energy.costs[inside].astype(np.float64).sum(axis=0)
    uniform = np.where(inside, np.argmin(sums), 0).astype(energy.label_type)
    return uniform if energy.exactly(uniform) < energy.exactly(alone) else alone


def taking_part(energy: LabelEnergy) -> Mask:
    """The sites of the mask, or all."""
    inside = energy.pairs.inside if isinstance(energy.pairs, GridPairs) else None
    return np.ones(energy.shape, dtype=np.bool_) if inside is None else np.asarray(inside)


def one_hot(labels: LabelNumbers, label_count: int) -> Values:
    """y, a row for each site."""
    return np.equal(labels[:, None], np.arange(label_count)).astype(np.float64)


def mixed(y: Values, table: Values) -> Values:
    """Rows times a table; a sum and no BLAS product, whose last bits depend on the number of threads."""
    found: Values = np.einsum("il,lm->im", y, table, optimize=False)
    return found
