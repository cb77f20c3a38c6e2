"""What is chosen where the caller chose nothing: solver, method and number of blocks, from the energy alone.

None of it depends on the machine, but for what fits into memory: results must not.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from dope.energy import Energy
from dope.footprint import MOST_CROSSING
from dope.label_energy import LabelEnergy
from dope.layers import LayerSizes
from dope.pairs import GraphPairs, GridPairs, Pairs, TablePairs
from dope.partition import Partition, layout_of
from dope.protocols import BlockSolver, Executor, Method
from dope.solvers import Brute, MaxFlow, Portfolio, Qpbo

# What a block should weigh (8 units a pair, 32 a site), and what is best left in one block. Where blocks share a flow
# they are work for threads: with 2 of them, 32 blocks were best in 2D with few neighbours, 16 with many, and 4 of a
# million sites in 3D, as seams cost more there (benchmarks/exact.py); other methods lose quality at every seam.
PAIR_UNITS, SITE_UNITS = 8, 32
BLOCK_UNITS, WHOLE_UNITS = 64 << 20, 512 << 20
FLOW_BLOCK_UNITS, FLOW_WHOLE_UNITS = 1 << 30, 16 << 20
FLOW_BLOCKS, FLOW_BLOCKS_DENSE = 32, 16
FLOW_BLOCKS_3D, FLOW_SITES_3D = 4, 1 << 20
FEW_NEIGHBORS = 8
SMALL_PAIRS = 1 << 20
BRUTE_SITES = 16
# What a search may take: so many visits of sites in all, half a second to two, but no fewer sweeps than gain something.
SEARCH_VISITS, MOST_SWEEPS, LEAST_SWEEPS = 300_000_000, 100_000, 1_000


def automatic_solver(energy: Energy | LabelEnergy) -> tuple[BlockSolver, str]:
    """Max-flow where it applies; and why."""
    if isinstance(energy, LabelEnergy):
        return _label_solver(energy)
    if energy.submodular:
        return automatic_flow_solver(energy.pairs), "no weight is negative, so a minimum cut is the minimum"
    if energy.pairs.sites <= BRUTE_SITES:
        return Brute(), "so few sites that all labels can be tried"
    sweeps = min(MOST_SWEEPS, max(LEAST_SWEEPS, SEARCH_VISITS // energy.pairs.sites))
    return Portfolio(sweeps=sweeps), "some weights are negative, for which it ends lowest of those that take any sign"


def _label_solver(energy: LabelEnergy) -> tuple[BlockSolver, str]:
    """Of the binary problems of proofs and moves."""
    if not energy.is_metric or isinstance(energy.pairs, TablePairs):
        return Qpbo(), "moves whose pairs may repel, and minimum cuts where they do not"
    costs: Any = energy.costs  # in memory, or read box by box
    dtype = costs.dtype if isinstance(costs, np.ndarray) else getattr(costs.source, "dtype", None)
    if dtype is not None and np.dtype(dtype).kind in "iub":
        return MaxFlow(), "every move is a minimum cut"
    return automatic_flow_solver(energy.pairs), "every move is a minimum cut"


def automatic_flow_solver(pairs: Pairs) -> MaxFlow:
    """A small problem can afford capacities so wide that rounding does not show."""
    return MaxFlow(bits=64) if pairs.number <= SMALL_PAIRS else MaxFlow()


def automatic_blocks(pairs: Pairs, method: Method, layers: LayerSizes | None = None) -> int:
    """1 for a small problem, else a power of two, as far as the grid's sides allow; of columns of layers, if so."""
    work = pairs if layers is None else layers
    units = PAIR_UNITS * work.number + SITE_UNITS * work.sites
    shared = getattr(method, "shares_a_flow", False)
    if shared and not isinstance(pairs, GraphPairs):  # whose seams take time to find
        fewest = _blocks_for_threads(pairs if layers is None else layers.grid())
        whole, most = FLOW_WHOLE_UNITS, FLOW_BLOCK_UNITS
    else:
        whole, most, fewest = WHOLE_UNITS, BLOCK_UNITS, 1
    if units <= whole:
        return 1
    number = min(max(fewest, _power_of_two(units / most)), 1 << (max(pairs.shape).bit_length() - 1))
    if shared and isinstance(pairs, GridPairs):
        while number > 1 and pairs.crossing(layout_of(pairs.shape, number)) > MOST_CROSSING * pairs.number:
            number //= 2
    return number


def _blocks_for_threads(pairs: Pairs) -> int:
    if len(pairs.shape) <= 2:
        return FLOW_BLOCKS if pairs.degree <= FEW_NEIGHBORS else FLOW_BLOCKS_DENSE
    return min(FLOW_BLOCKS_DENSE, max(FLOW_BLOCKS_3D, _power_of_two(pairs.sites / FLOW_SITES_3D)))


def _power_of_two(number: float) -> int:
    """The smallest one, from 1 on, that is no less."""
    return 1 << max(0, math.ceil(math.log2(number)))


def sharing_the_budget(solver: BlockSolver, method: Method, layout: tuple[int, ...], executor: Executor) -> BlockSolver:
    """A search whose seconds are those of all its calls, and which has the threads that would be idle."""
    if not isinstance(solver, Portfolio):
        return solver
    blocks, workers = math.prod(layout), max(1, executor.workers)
    threads = 1 if blocks > 1 or getattr(executor, "elsewhere", False) else workers
    if solver.seconds is None or blocks == 1:
        return replace(solver, threads=threads)
    shifted = math.prod(number + (number > 1) for number in layout)  # every other sweep cuts there
    rounds, sweeps = getattr(method, "rounds", 1), getattr(method, "sweeps", 0)
    plain = math.ceil(blocks / workers) * (rounds + sweeps // 2)
    turns = plain + math.ceil(shifted / workers) * (sweeps - sweeps // 2)
    return replace(solver, threads=threads, seconds=solver.seconds / turns)


def sharing_the_reach(partition: Partition, pairs: GridPairs) -> Partition:
    """Blocks that share as many sites as pairs reach, or as their sides allow.

    With negative weights, labels near a border are worth little to a block that does not see what lies beyond it: over
    8 blocks without overlap a deconvolution ended 3.3 % above the whole, with it 0.1 % (experiments/curvature.py).
    """
    cuts = partition.cuts
    assert cuts is not None
    sides = [b - a for n, where in zip(pairs.shape, cuts, strict=True) for a, b in pairwise([0, *where, n]) if where]
    return Partition.at(partition.shape, cuts, overlap=min([max(pairs.reach), *(side - 1 for side in sides)]))
