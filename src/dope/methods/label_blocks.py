"""What blocks do for several labels: weigh their labels, hand over what is open, and move it with all around fixed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dope.arrays import Box, Labels, Mask
from dope.cancellation import check_cancelled
from dope.label_energy import LabelEnergy, LabelNumbers
from dope.methods.label_moves import Kind, Mover, solving
from dope.methods.open_part import WORTH_A_GRAPH, Piece, joined, message_bytes
from dope.methods.tiling import seen_from, sides
from dope.pairs import GridPairs
from dope.protocols import BlockSolver, LabelSolver
from dope.sums import exact_sum


@dataclass(frozen=True, eq=False)
class Around:
    """Labels of a box and all its neighbours, and which of these sites are open."""

    labels: LabelNumbers
    open: Mask


@dataclass(frozen=True, eq=False)
class Weigh:
    """Asks for the energy of the sites of a box, and of the pairs that begin there."""

    doing: ClassVar[str] = "weigh"
    around: Around

    def of(self, block: Block) -> Fraction:
        return block.energy.exactly_at(block.box, self.around.labels)


@dataclass(frozen=True, eq=False)
class Gather:
    """Asks for the part of the open sites that a box has."""

    doing: ClassVar[str] = "gather"
    around: Around

    def of(self, block: Block) -> Piece:
        return block.piece(self.around.labels, self.around.open)


@dataclass(frozen=True, eq=False)
class Begin:
    """Asks for the label of every open site that costs least beside those that are fixed, and 0 elsewhere."""

    doing: ClassVar[str] = "begin"
    around: Around

    def of(self, block: Block) -> Labels:
        piece = block.piece(self.around.labels, self.around.open)
        own = seen_from(block.box, block.region)
        labels = np.zeros(sides(block.box), dtype=self.around.labels.dtype)
        labels[self.around.open[own]] = np.argmin(piece.costs, axis=1)  # in the same order, row by row
        return labels


@dataclass(frozen=True, eq=False)
class Joins:
    """Asks what the pairs between open sites pay that begin in a box."""

    doing: ClassVar[str] = "weigh"
    around: Around

    def of(self, block: Block) -> Fraction:
        piece, metric = block.piece(self.around.labels, self.around.open), block.energy.metric
        assert metric is not None
        inner = (np.unravel_index(ends, block.energy.shape) for ends in (piece.first, piece.second))
        first, second = (
            self.around.labels[tuple(i - s.start for i, s in zip(places, block.region, strict=True))]
            for places in inner
        )
        return exact_sum(piece.weights * metric.matrix(block.energy.label_count)[first, second])


@dataclass(frozen=True, eq=False)
class Bound:
    """Asks how far above their least costs the open sites of a box are at least, with the pairs that begin there.

    Where no pair can pay less than 0 it is what messages find; those that leave the box are left out. What rounding
    sums of costs comes to is taken off.
    """

    doing: ClassVar[str] = "bound"
    around: Around
    solver: LabelSolver | None
    rounds: int
    room: int

    def of(self, block: Block) -> Fraction:
        piece, metric = block.piece(self.around.labels, self.around.open), block.energy.metric
        assert metric is not None
        inner = np.isin(piece.second, piece.sites)
        first, second, weights = piece.first[inner], piece.second[inner], piece.weights[inner]
        part = joined([replace(piece, first=first, second=second, weights=weights)], metric)
        slack = 2 * Fraction(part.slack)
        prices = metric.matrix(block.energy.label_count)
        least_paid = np.minimum(piece.weights * prices.min(), piece.weights * prices.max())  # V(a, a) is 0
        if least_paid.min(initial=0.0) < 0.0:
            return exact_sum(least_paid) - slack
        if self.solver is None or message_bytes(part.energy) > self.room:
            return -slack
        least = bound = exact_sum(part.energy.costs.min(axis=-1))
        for now in self.solver.prepare(part.energy).steps():
            check_cancelled()
            bound = max(bound, Fraction(now.bound)) if math.isfinite(now.bound) else bound
            if now.rounds >= self.rounds:
                break
        return bound - least - slack


@dataclass(frozen=True, eq=False)
class Improve:
    """Asks for labels of less energy for the open sites of a box, everything around it fixed; None where are none."""

    doing: ClassVar[str] = "move"
    around: Around
    kind: Kind

    def of(self, block: Block) -> Labels | None:
        own = seen_from(block.box, block.region)
        free = np.zeros_like(self.around.open)
        free[own] = self.around.open[own]
        labels = self.around.labels.copy()
        number = int(np.count_nonzero(free))
        if number < WORTH_A_GRAPH * free.size and block.energy.metric is not None:
            part = joined([block.piece(labels, free)], block.energy.metric)
            everywhere, cut = np.ones(number, dtype=np.bool_), self.kind == "jump"
            moved = Mover(part.energy, labels[free], everywhere, solving(block.solver), cut)
            changed = moved.settle(self.kind)
            labels[free] = moved.labels
        else:
            within = Mover(block.energy.at(block.region), labels, free, solving(block.solver), self.kind == "jump")
            changed = within.settle(self.kind)
        return labels[own].copy() if changed else None


Ask = Weigh | Gather | Begin | Joins | Bound | Improve


@dataclass(frozen=True, eq=False)
class BlockRecipe:
    """How to open a block, told by its place; sent elsewhere it takes along of arrays in memory what it needs."""

    energy: LabelEnergy
    where: Box
    solver: BlockSolver

    def open(self) -> Block:
        return Block(self.energy, self.where, self.solver)

    def __reduce__(self) -> Any:
        assert isinstance(self.energy.pairs, GridPairs)
        return BlockRecipe, (self.energy.confined_to(self.energy.pairs.around(self.where)), self.where, self.solver)


class Block:
    """Reads its box when it is asked something, and keeps nothing."""

    def __init__(self, energy: LabelEnergy, box: Box, solver: BlockSolver) -> None:
        assert isinstance(energy.pairs, GridPairs)
        self.energy, self.box, self.solver = energy, box, solver
        self.region = energy.pairs.around(box)

    def __call__(self, ask: Ask) -> Any:
        return ask.of(self)

    def piece(self, labels: Labels, open_sites: Mask) -> Piece:
        """The open sites of the box, with what they pay beside those that are not."""
        part = self.energy.at(self.region)
        return Piece.of(part, labels, open_sites, self.box, self.region, self.energy.shape)
