"""Moves: every open site keeps its label x_i or takes p_i, and the best of all these choices is one binary problem.

    expansion to a    p = a everywhere
    swap of a and b   p = b where x = a, a where x = b
    fusion            p is any labelling

`LabelEnergy.fusion(x, p)` is that problem. Where no weight of it is negative a minimum cut solves it: always for
expansions of a metric, V(b,c) <= V(b,a) + V(a,c), and for swaps of a semi-metric (Boykov, Veksler, Zabih 2001). Else
QPBO labels some sites such that taking over these alone never costs more (Boros and Hammer), and goes on from there.
A move changes labels only where that lowers the energy, so it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

import numpy as np

from dope.arrays import BinaryLabels, Box, Labels, Mask
from dope.cancellation import check_cancelled
from dope.energy import Energy
from dope.label_energy import LabelEnergy
from dope.methods.lending import Minimizers
from dope.methods.tiling import bounding_box
from dope.pairs import GridPairs
from dope.protocols import Answer, BlockSolver

Kind = Literal["expansion", "swap", "fusion"]
Solve = Callable[[Energy], Answer]
"""What minimizes the binary problem of a move, or finds labels of less energy than all 0 have."""


@dataclass(eq=False)
class Mover:
    """Labels that moves lower the energy of; sites that are not `free` keep theirs."""

    energy: LabelEnergy
    labels: Labels
    free: Mask
    solve: Solve
    _version: int = field(default=0, init=False)
    _tried: dict[tuple[int, ...], int] = field(default_factory=dict, init=False)

    def cycle(self, kind: Kind) -> Iterator[int]:
        """Every move of a kind that may still gain, once; how many sites each changed."""
        number = self.energy.label_count
        moves = combinations(range(number), 2) if kind == "swap" else ((a,) for a in range(number))
        for move in moves:
            if self._tried.get(move) != self._version:
                check_cancelled()
                yield self._try(move)

    def settle(self, kind: Kind) -> int:
        """Cycles until no move of a kind lowers the energy; how many sites were changed, all times counted."""
        total = 0
        while changed := sum(self.cycle(kind)):
            total += changed
        return total

    def _try(self, move: tuple[int, ...]) -> int:
        changed = self.fuse(self._proposal(move))
        self._version += changed > 0
        self._tried[move] = self._version
        return changed

    def _proposal(self, move: tuple[int, ...]) -> Labels:
        labels = self.labels
        if len(move) == 1:
            return np.where(self.free, labels.dtype.type(move[0]), labels)
        a, b = (labels.dtype.type(label) for label in move)
        proposal = labels.copy()
        proposal[self.free & (labels == a)] = b
        proposal[self.free & (labels == b)] = a
        return proposal

    def fuse(self, proposal: Labels) -> int:
        """Take over what lowers the energy; at how many sites."""
        differ = proposal != self.labels
        if not differ.any():
            return 0
        where, energy = self._window(differ)
        before, after = np.ascontiguousarray(self.labels[where]), np.ascontiguousarray(proposal[where])
        choice = energy.fusion(before, after, before=0.0)  # what they are above that is all that counts
        taken = _taken(self.solve(choice), choice, before != after)
        if taken is None:
            return 0
        self.labels[where] = np.where(taken, after, before)
        return int(np.count_nonzero(taken))

    def _window(self, differ: Mask) -> tuple[Box, LabelEnergy]:
        """The box in which labels may change, with its neighbours, and its energy; of a graph all of it."""
        pairs, energy = self.energy.pairs, self.energy
        if not isinstance(pairs, GridPairs):
            return energy.whole, energy
        box = bounding_box(differ)
        assert box is not None
        where = pairs.around(box)
        return where, energy if where == energy.whole else energy.at(where)


def solving(solver: BlockSolver) -> Solve:
    """Each move as one problem, in memory that was lent to the one before."""
    minimizers = Minimizers(solver)

    def solve(choice: Energy) -> Answer:
        with minimizers.lent(choice) as minimizer:
            return minimizer.minimize(choice.unary, start=np.zeros(choice.shape, dtype=np.bool_))

    return solve


def _taken(answer: Answer, choice: Energy, differ: Mask) -> BinaryLabels | None:
    """Where the proposal is taken over; None where that gains nothing."""
    taken = answer.labels & differ
    if not taken.any():
        return None
    if answer.exact and answer.rounding_error == 0.0:  # and of all minimizers the smallest
        return taken
    nothing = np.zeros(taken.shape, dtype=np.bool_)
    return taken if choice.exactly(taken) < choice.exactly(nothing) else None
