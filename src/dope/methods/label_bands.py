"""Cycles of moves in boxes of one grid side by side: sites between them keep their labels, so that no pair joins two.

What boxes gain adds up then, and does not depend on who works on which. Two cycles, in boxes and in such as lie across
their seams, do most of what moves can; what takes more room is left to moves of everything, which know where labels
changed and which sites were not free (`Mover.adopt`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np

from dope.arrays import Box, Mask
from dope.methods.label_moves import Kind, Mover, solving
from dope.methods.tiling import seen_from, sides
from dope.pairs import GridPairs
from dope.partition import Partition
from dope.protocols import BlockSolver, Problem

# Sites of a box. The tsukuba pair in two of them is at 370,516 after two cycles, in four at 371,946.
BOX_SITES = 1 << 16


def partitions(mover: Mover) -> list[Partition]:
    """The boxes of the first cycles; none where there is a box only, or a graph."""
    number = -(-mover.labels.size // BOX_SITES)
    if number < 2 or not isinstance(mover.energy.pairs, GridPairs):
        return []
    first = Partition.grid(mover.labels.shape, number)
    return [first, first.shifted()]


def cycle_in_boxes(mover: Mover, kind: Kind, partition: Partition, problem: Problem) -> int:
    """One cycle in each box; how many sites were changed."""
    recipes = [_recipe(mover, cast("Box", block.where), problem.solver) for block in partition.blocks]
    if problem.executor.elsewhere:
        parts = [recipe.open()(kind) for recipe in recipes]
    else:
        with problem.executor.gather(recipes) as crew:
            parts = crew.ask([kind] * len(recipes))
    before = mover.labels.copy()
    mover.adopt([(recipe.region, part) for recipe, part in zip(recipes, parts, strict=True)])
    return int(np.count_nonzero(mover.labels != before))


@dataclass(frozen=True, eq=False)
class CycleRecipe:
    """Moves in a region around a box, of sites that are free, from labels as they are."""

    mover: Mover
    where: Box
    region: Box
    free: Mask
    solver: BlockSolver

    def open(self) -> Callable[[Kind], Mover]:
        def cycle(kind: Kind) -> Mover:
            part = self.mover.confined(self.region, self.free, solving(self.solver))
            for _ in part.cycle(kind):
                pass
            return part

        return cycle


def _recipe(mover: Mover, box: Box, solver: BlockSolver) -> CycleRecipe:
    """A box without the sites where it begins: they lie between it and the box before."""
    pairs = mover.energy.pairs
    assert isinstance(pairs, GridPairs)
    inner = tuple(slice(s.start + r * (s.start > 0), s.stop) for s, r in zip(box, pairs.reach, strict=True))
    region = pairs.around(inner)
    free = np.zeros(sides(region), dtype=np.bool_)
    own = seen_from(inner, region)
    free[own] = mover.free[inner]
    return CycleRecipe(mover, box, region, free, solver)
