"""Moves: every open site keeps its label x_i or takes p_i, and the best of all these choices is one binary problem.

    expansion to a    p = a everywhere
    swap of a and b   where x is a or b: take one of them, whatever it was
    fusion            p is any labelling

`LabelEnergy.fusion(x, p)` is that problem; of a swap x is a, and p is b, where x is either. Where no weight of it is
negative a minimum cut solves it: always for expansions of a metric, V(b,c) <= V(b,a) + V(a,c), and for swaps of a
semi-metric (Boykov, Veksler, Zabih 2001). Else QPBO labels some sites such that taking over these alone never costs
more (Boros and Hammer), and goes on from there.
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
Solve = Callable[[Energy, BinaryLabels], Answer]
"""What minimizes the binary problem of a move, or finds labels that are no worse than those it begins with."""


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
        labels, kind = self.labels, self.labels.dtype.type
        if len(move) == 1:
            changed = self._choose(labels, np.where(self.free, kind(move[0]), labels))
        else:
            a, b = move
            either = self.free & ((labels == a) | (labels == b))
            changed = self._choose(np.where(either, kind(a), labels), np.where(either, kind(b), labels))
        self._version += changed > 0
        self._tried[move] = self._version
        return changed

    def fuse(self, proposal: Labels) -> int:
        """Take over what lowers the energy of another labelling; at how many sites."""
        return self._choose(self.labels, proposal)

    def _choose(self, one: Labels, other: Labels) -> int:
        """Between two labellings, which differ at free sites only: the best choice, if it is better than the labels."""
        differ = one != other
        if not differ.any():
            return 0
        where, energy = self._window(differ)
        before, zero, unit = (np.ascontiguousarray(image[where]) for image in (self.labels, one, other))
        choice = energy.fusion(zero, unit, before=0.0)  # what others are above that is all that counts
        chosen = (before == unit) & (zero != unit)
        answer = self.solve(choice, chosen)
        taken = answer.labels & (zero != unit)
        after = np.where(taken, unit, zero)
        changed = int(np.count_nonzero(after != before))
        if not changed or not _lowers(answer, choice, chosen, taken, energy, before, after):
            return 0
        self.labels[where] = after
        return changed

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

    def solve(choice: Energy, start: BinaryLabels) -> Answer:
        with minimizers.lent(choice) as minimizer:
            return minimizer.minimize(choice.unary, start=start)

    return solve


def _lowers(
    answer: Answer, choice: Energy, chosen: BinaryLabels, taken: BinaryLabels, energy: LabelEnergy,
    before: Labels, after: Labels,
) -> bool:  # fmt: skip
    """Whether a choice that was found is better than the one that was, not by rounding alone."""
    if answer.exact and answer.rounding_error == 0.0:
        if not chosen.any():  # and the smallest minimizer is another
            return True
        return choice.exactly(taken) < choice.exactly(chosen)
    return energy.exactly(after) < energy.exactly(before)
