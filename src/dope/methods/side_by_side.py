"""Moves side by side, by as many threads as there are: what they find does not depend on who works on which.

    boxes      a cycle of moves in each box of a grid; sites between boxes keep their labels, so that no pair joins two
    together   several moves of everything from the same labels; what one changes is taken over where no pair joins it
               to what another did

Either way gains add up. Cycles in boxes, and in such as lie across their seams, do most of what moves can; what takes
more room is left to moves of everything, which know where labels changed and which sites were not free
(`Mover.adopt`). There few labels change, and moves seldom meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from dope.arrays import Box, Mask
from dope.methods.label_moves import Kind, Move, Mover, Solve, Together, solving
from dope.methods.tiling import seen_from, sides
from dope.pairs import GridPairs
from dope.partition import Partition
from dope.protocols import BlockSolver, Problem, Recipe

# Sites of a box, at most. The tsukuba pair in two of them is at 370,687 after two cycles, in four at 371,946.
BOX_SITES = 1 << 16


def partitions(mover: Mover) -> list[Partition]:
    """The boxes of the first cycles; none where there is a box only, or a graph."""
    number = 1 << ((mover.labels.size - 1) // BOX_SITES).bit_length()  # a power of two has layouts of small seams
    if number == 1 or not isinstance(mover.energy.pairs, GridPairs):
        return []
    first = Partition.grid(mover.labels.shape, number)
    return [first, first.shifted(), first]


def cycle_in_boxes(mover: Mover, kind: Kind, partition: Partition, problem: Problem) -> int:
    """One cycle in each box; how many sites were changed."""
    recipes = [_recipe(mover, cast("Box", block.where), problem.solver) for block in partition.blocks]
    before = mover.labels.copy()
    parts = _asked(recipes, [kind] * len(recipes), problem)
    mover.adopt([(recipe.region, part) for recipe, part in zip(recipes, parts, strict=True)])
    return int(np.count_nonzero(mover.labels != before))


def trying(problem: Problem) -> Together:
    """How moves of everything are tried together."""
    solve = solving(problem.solver)

    def together(mover: Mover, moves: Sequence[Move]) -> list[Mover]:
        return _asked([MoveRecipe(mover, solve)] * len(moves), moves, problem)

    return together


def _asked(recipes: Sequence[Recipe], messages: Sequence[Any], problem: Problem) -> list[Mover]:
    """The movers that answer; in this process, whose memory they share."""
    if getattr(problem.executor, "elsewhere", False):
        return [recipe.open()(message) for recipe, message in zip(recipes, messages, strict=True)]
    with problem.executor.gather(recipes) as crew:
        return crew.ask(messages)


@dataclass(frozen=True, eq=False)
class CycleRecipe:
    """A cycle of moves in a region around a box, of sites that are free, from labels as they are."""

    mover: Mover
    where: Box
    region: Box
    free: Mask
    solver: BlockSolver

    def open(self) -> Callable[[Kind], Mover]:
        return self._cycle

    def _cycle(self, kind: Kind) -> Mover:
        part = self.mover.confined(self.region, self.free, solving(self.solver))
        for _ in part.cycle(kind):
            pass
        return part


def _recipe(mover: Mover, box: Box, solver: BlockSolver) -> CycleRecipe:
    """A box without the sites where it begins: they lie between it and the box before."""
    pairs = mover.energy.pairs
    assert isinstance(pairs, GridPairs)
    inner = tuple(
        slice(min(s.start + r * (s.start > 0), s.stop), s.stop) for s, r in zip(box, pairs.reach, strict=True)
    )
    region = pairs.around(inner)
    free = np.zeros(sides(region), dtype=np.bool_)
    free[seen_from(inner, region)] = mover.free[inner]
    return CycleRecipe(mover, box, region, free, solver)


@dataclass(frozen=True, eq=False)
class MoveRecipe:
    """One move of everything, from labels as they are."""

    mover: Mover
    solve: Solve

    def open(self) -> Callable[[Move], Mover]:
        return self._move

    def _move(self, move: Move) -> Mover:
        part = self.mover.confined(self.mover.energy.whole, self.mover.free, self.solve)
        part.attempt(move)
        return part
