"""The roof dual of a whole energy (`roof_dual`), found by flows between its blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dope.arrays import BinaryLabels
from dope.methods.exact import Exact
from dope.partition import Block, Partition
from dope.protocols import FlowSolver, Problem
from dope.roof_dual import double_energy


@dataclass(frozen=True, eq=False)
class RoofBound:
    """No labels have less energy than `lower_bound`; at the `decided` sites these labels are best, all at once."""

    lower_bound: float
    decided: BinaryLabels
    labels: BinaryLabels


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
