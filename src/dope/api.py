"""The front door: defaults, and the straight line from an energy to a result."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np

from dope.arrays import as_labels
from dope.energy import Energy
from dope.errors import DopeError, InputError
from dope.executors import Threads
from dope.lazy import LazyEnergy, MappedTarget
from dope.memory import available_bytes, budget_of
from dope.methods import Admm, Bracketing, Exact
from dope.methods.box_size import fitting_partition
from dope.methods.checkpoint import cuts_of
from dope.pairs import GraphPairs, GridPairs, Pairs
from dope.partition import Partition, layout_of
from dope.protocols import BlockSolver, Executor, FlowSolver, LazyProblem, Leave, Method, Problem, Start
from dope.result import Result
from dope.rounding import nearest, rounded_down
from dope.solvers import Brute, LsaTr, MaxFlow
from dope.steps import BracketingStep, Step, slim

# What a block should take in memory, and what is best left in one block. For Exact() blocks are work for threads: with
# 2 of them, 32 blocks were best in 2D with few neighbours, 16 with many, and 4 of a million sites in 3D, as seams cost
# more there (benchmarks/exact.py); other methods lose quality at every seam. None of it depends on the machine: results
# must not.
BLOCK_BYTES = 64 << 20
WHOLE_BYTES = 512 << 20
EXACT_BLOCK_BYTES = 1 << 30
EXACT_WHOLE_BYTES = 16 << 20
EXACT_BLOCKS, EXACT_BLOCKS_DENSE = 32, 16
EXACT_BLOCKS_3D, EXACT_SITES_3D = 4, 1 << 20
FEW_NEIGHBORS = 8
# Of all pairs, the share that may cross seams. With kernels of 9 to 51 on images of 64 to 512 pixels, one block was
# quicker than any blocks of which more did, up to 100 times, and took a tenth of the memory.
MOST_CROSSING = 1 / 32
SMALL_PAIRS = 1 << 20
BRUTE_SITES = 16
# Where the system does not say what is available.
DEFAULT_MEMORY = 4 << 30


def minimize(
    energy: Energy | LazyEnergy,
    *,
    blocks: int | Sequence[int] | Partition | None = None,
    overlap: float | int | None = None,
    method: Method | None = None,
    solver: BlockSolver | None = None,
    executor: Executor | None = None,
    start: Result | None = None,
    watch: Callable[[Step], object] | None = None,
    memory: int | str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    out: Any = None,
) -> Result:
    """Labels of low energy, found block by block.

    Parameters
    ----------
    energy : Energy or LazyEnergy
        With a `LazyEnergy`, whose arrays need not fit into memory, blocks are read, solved and forgotten:
        `Bracketing()`.
    blocks : int, tuple or Partition, optional
        A number of blocks, a number per axis, or the blocks themselves. By default it follows from the number of
        sites and of neighbours: one block for a small problem, else a number that threads can share.
    overlap : float or int, optional
        A float makes each block's side grow by that fraction, an int by that many sites. By default blocks do not
        overlap; on a grid where pairs repel, they share as many sites as pairs reach.
    method : optional
        How blocks agree. Default `Exact()`, the global minimum, where no weight is negative and blocks do not overlap;
        else `Admm()`, with one round and two sweeps where weights are negative.
    solver : optional
        What minimises a block: anything with `prepare`. Default `MaxFlow()` where no weight is negative, else
        `LsaTr()`, or `Brute()` for a handful of sites.
    executor : optional
        Where blocks run. Default `Threads()`, one per core.
    start : Result, optional
        An earlier result for sites of the same shape, to go on from after unaries, strokes or lam have changed. It
        saves time, most where only unaries moved, and does not change what `Exact()` finds.
    watch : callable, optional
        Called with every Step; return True to stop there: with the labels of the last round of `Exact()`, and the best
        so far of other methods.
    memory : int or str, optional
        What blocks at work may take together, such as "8GB", where they are read, solved and forgotten: blocks are as
        large as that allows. By default half of what is available.
    checkpoint : path, optional
        A new or empty folder in which replies of blocks are kept, for a later `resume`. The method is `Bracketing()`
        then.
    resume : path, optional
        The folder of a run that was broken off: goes on from there, with the same energy and settings. What is in it
        is taken as proved: trust it as you trust the program.
    out : array, optional
        Where labels go instead of a new array: anything with `out[box] = labels`, such as a Zarr array, a mapped one,
        or `dope.io.open_labels(path, shape)`. The last two are written by blocks where they run, others from here.

    Returns
    -------
    Result

    Examples
    --------
    >>> import numpy as np
    >>> unary = np.array([[-3.0, 1.0, 2.0], [-2.0, -1.0, 2.0]])
    >>> result = minimize(Energy.grid(unary, lam=0.5))
    >>> result.labels.astype(int).tolist(), result.energy, result.exact
    ([[1, 0, 0], [1, 1, 0]], -3.5, True)
    """
    if not isinstance(energy, (Energy, LazyEnergy)):
        raise InputError(f"energy is a {type(energy).__name__}; expected an Energy. Make one with Energy.grid(...).")
    for name, plug_in, ability in (
        ("method", method, "steps"),
        ("solver", solver, "prepare"),
        ("executor", executor, "gather"),
        ("watch", watch, "__call__"),
    ):
        if plug_in is not None and (isinstance(plug_in, type) or not hasattr(plug_in, ability)):
            raise InputError(f"{name} is {plug_in!r}; expected an object with {ability}, or None.")
    kept = memory is not None or checkpoint is not None or resume is not None or out is not None
    if isinstance(energy, LazyEnergy) or kept or (method is None and _goes_far(energy, executor)):
        if overlap or start is not None:
            raise InputError(
                "overlap and start are for energies in memory; leave them out, or memory, checkpoint and out."
            )
        method = _bracketing(method, memory, checkpoint, resume)
        lazy = energy if isinstance(energy, LazyEnergy) else LazyEnergy.of(energy)
        return _minimize_lazily(lazy, blocks, method, solver, executor or Threads(), watch, memory, out)
    solver = solver or _automatic_solver(energy)
    overlaps = blocks.overlaps if isinstance(blocks, Partition) else bool(overlap)
    method = method or _automatic_method(energy, solver, overlaps=overlaps)
    number = automatic_blocks(energy.pairs, method) if blocks is None else blocks
    problem = Problem(
        energy=energy,
        partition=_partition(energy, number, overlap),
        solver=solver,
        executor=executor or Threads(),
        start=_start(energy, start),
    )
    return _result(problem, method.steps(problem), watch)


def _goes_far(energy: Energy, executor: Executor | None) -> bool:
    """Whether blocks run in other processes, to which one residual graph cannot be shown."""
    return getattr(executor, "elsewhere", False) and energy.submodular and isinstance(energy.pairs, GridPairs)


def _bracketing(method: Method | None, memory: int | str | None, checkpoint: Any, resume: Any) -> Bracketing:
    if method is not None and not isinstance(method, Bracketing):
        raise InputError(
            f"method is {method!r}; arrays that are read box by box, memory, checkpoint, resume and out need "
            f"Bracketing(), which is exact, or None."
        )
    if checkpoint is not None and resume is not None:
        raise InputError("checkpoint and resume are both given; a run that is resumed goes on in its own folder.")
    chosen = method or Bracketing()
    budget = _budget(memory)
    if checkpoint is not None or resume is not None:
        folder = os.fspath(checkpoint if resume is None else resume)
        chosen = replace(chosen, checkpoint=folder, resume=resume is not None)
    return chosen if chosen.memory is not None else replace(chosen, memory=budget // 2)


def _budget(memory: int | str | None) -> int:
    allowed = budget_of(memory)
    if allowed is not None:
        return allowed
    available = available_bytes()
    return (DEFAULT_MEMORY if available is None else available) // 2


def _minimize_lazily(
    energy: LazyEnergy,
    blocks: int | Sequence[int] | Partition | None,
    method: Bracketing,
    solver: BlockSolver | None,
    executor: Executor,
    watch: Callable[[Step], object] | None,
    memory: int | str | None,
    out: Any,
) -> Result:
    """Read, solve and forget: the straight line for arrays that stay where they are."""
    solver = solver or automatic_flow_solver(energy.pairs)
    resume = method.checkpoint if method.resume else None
    partition = lazy_partition(energy, blocks, solver=solver, executor=executor, memory=memory, out=out, resume=resume)
    target = None if out is None else checked_target(out, energy.shape)
    problem = LazyProblem(energy, partition, solver, executor, target)
    trace: list[Step] = []
    last: Step | None = None
    for step in _read(method.steps(problem), watch):
        trace.append(slim(step))
        last = step
    assert last is not None and last.energy is not None and last.lower_bound is not None
    return Result(
        labels=last.labels if out is None else out,  # type: ignore[arg-type]
        energy=last.energy,
        lower_bound=min(last.lower_bound, last.energy),
        exact=last.exact,
        rounding_error=last.rounding_error,
        stopped=last.stopped or "no round",
        trace=tuple(trace),
        partition=partition,
        proved=last.proved,
        _counts=last.counts if isinstance(last, BracketingStep) else None,
    )


def lazy_partition(
    energy: LazyEnergy,
    blocks: int | Sequence[int] | Partition | None,
    *,
    solver: BlockSolver,
    executor: Executor,
    memory: int | str | None,
    out: Any = None,
    resume: str | os.PathLike[str] | None = None,
) -> Partition:
    """The blocks given, or those of the run that is resumed, or such that as many as work at once fit into memory."""
    if isinstance(blocks, Partition):
        if blocks.shape != energy.shape:
            raise InputError(f"the partition is for shape {blocks.shape}; expected the energy's {energy.shape}.")
        return blocks
    if blocks is not None:
        return Partition.grid(energy.shape, blocks)
    if resume is not None:
        return Partition.at(energy.shape, cuts_of(Path(resume), energy.shape))
    read = [energy.features and energy.features.chunks, energy.unary.chunks]
    return fitting_partition(
        energy,
        memory=_budget(memory),
        workers=getattr(executor, "workers", 1),
        bits=getattr(solver, "bits", None),
        chunks=next((chunks for chunks in read if chunks), None),
        written=getattr(out, "chunks", None),
    )


def checked_target(out: Any, shape: tuple[int, ...]) -> Any:
    """Where labels are to be written; a mapped array in a form that any process can write to."""
    if not hasattr(out, "__setitem__") or tuple(getattr(out, "shape", ())) != shape:
        raise InputError(f"out is {type(out).__name__} of shape {getattr(out, 'shape', None)}; expected {shape}.")
    if isinstance(out, np.memmap) and out.mode != "c":
        return MappedTarget.of(out)
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise InputError("out is an array that cannot be written to; expected one that can, or None for a new one.")
    return out


def _start(energy: Energy, previous: Result | None) -> Start | None:
    if previous is None:
        return None
    if not isinstance(previous, Result):
        raise InputError(f"start is a {type(previous).__name__}; expected the Result of an earlier minimize, or None.")
    if previous.labels.shape != energy.shape:
        raise InputError(f"start is a result of shape {previous.labels.shape}; expected the energy's {energy.shape}.")
    return Start(previous.labels, previous.certificate, previous._kept)


def _automatic_method(energy: Energy, solver: BlockSolver, *, overlaps: bool) -> Method:
    """The global minimum where flows can find it.

    Where pairs repel, blocks solved once and swept twice end as low as after ten rounds, within 0.5 % of the whole on
    all instances of experiments/curvature.py, in half the time.
    """
    if not energy.submodular:
        return Admm(rounds=1)
    return Exact() if isinstance(solver, FlowSolver) and not overlaps else Admm()


def _result(problem: Problem, steps: Generator[Step, None, None], watch: Callable[[Step], object] | None) -> Result:
    """Read the steps, keep the best labels, and say what is known about them."""
    best: Step | None = None
    bounded: Step | None = None
    trace: list[Step] = []
    stopped = "no round"
    for step in _read(steps, watch):
        if step.stopped != "cancelled":
            trace.append(slim(step))
        if step.labels is not None and (best is None or step.exact or _preferred(step, best)):
            best = step
        if step.lower_bound is not None and (bounded is None or step.lower_bound >= _bound(bounded)):
            bounded = step
        stopped = step.stopped or stopped
    if best is None or best.labels is None:
        raise DopeError("the method ended without labels; it must yield at least one Step that has them.")
    labels = as_labels(best.labels, problem.energy.shape).copy()
    energy = problem.energy.exactly(labels)
    bound = None if bounded is None else bounded.lower_bound
    exact = best.exact or (bound is not None and energy <= Fraction(bound))
    return Result(
        labels=labels,
        energy=nearest(energy),
        lower_bound=_lower_bound(energy, bound, best.rounding_error if exact else None),
        exact=exact,
        rounding_error=best.rounding_error,
        stopped=stopped,
        trace=tuple(trace),
        partition=problem.partition,
        proved=1.0 if exact else best.proved,
        certificate=None if bounded is None else bounded.certificate,
        _kept=None if bounded is None else bounded.kept,
    )


def _read(steps: Generator[Step, None, None], watch: Callable[[Step], object] | None) -> Generator[Step, None, None]:
    """The steps, shown to the watcher one by one; when it wants to leave, one more that says so."""
    with closing(steps):
        for step in steps:
            if step.labels is not None:
                step.labels.flags.writeable = False  # a watcher may look, and keep them, but not change them
            yield step
            if watch is not None and _is_true(watch(step)) and step.stopped is None:
                try:
                    yield steps.throw(Leave())
                except (Leave, StopIteration):
                    yield replace(step, stopped="cancelled")
                return


def _preferred(step: Step, best: Step) -> bool:
    """Lower or, at the same height, with labels of which something is proved; the later one of unknown height."""
    if step.energy is None or best.energy is None:
        return best.energy is None
    return step.energy < best.energy or (step.energy == best.energy and step.proved is not None)


def _bound(step: Step) -> float:
    assert step.lower_bound is not None
    return step.lower_bound


def _lower_bound(energy: Fraction, bound: float | None, rounding_error: float | None) -> float | None:
    """The best bound known: the method's or, of a minimum but for this rounding error, its energy less that."""
    known = [] if bound is None else [bound]
    if rounding_error is not None:
        known.append(rounded_down(energy - Fraction(rounding_error)))
    # A bound that is above the float nearest to the energy is so by the rounding of that one alone.
    return min(max(known), nearest(energy)) if known else None


def _is_true(answer: object) -> bool:
    """True itself: a watcher that happens to return something else does not mean to cancel."""
    return isinstance(answer, bool | np.bool_) and bool(answer)


def _partition(energy: Energy, blocks: int | Sequence[int] | Partition, overlap: float | int | None) -> Partition:
    if isinstance(blocks, Partition):
        if blocks.shape != energy.shape:
            raise InputError(f"the partition is for shape {blocks.shape}; expected the energy's {energy.shape}.")
        if (blocks.cuts is None) != isinstance(energy.pairs, GraphPairs):
            raise InputError("the partition is of a graph and the energy of a grid, or the other way round.")
        if overlap:
            raise InputError(f"overlap is {overlap!r} beside a Partition, which has its own; leave overlap out.")
        return blocks
    if isinstance(energy.pairs, GraphPairs):
        return Partition.graph(energy.pairs, cast("int", blocks), overlap=overlap or 0)
    partition = Partition.grid(energy.shape, blocks, overlap=overlap or 0)
    return _sharing_the_reach(partition, energy.pairs) if overlap is None and not energy.submodular else partition


def _sharing_the_reach(partition: Partition, pairs: GridPairs) -> Partition:
    """Blocks that share as many sites as pairs reach, or as their sides allow.

    Where pairs repel, labels near a border are worth little to a block that does not see what lies beyond it: over 8
    blocks without overlap a deconvolution ended 3.3 % above the whole, with it 0.1 % (experiments/curvature.py).
    """
    cuts = partition.cuts
    assert cuts is not None
    sides = [b - a for n, where in zip(pairs.shape, cuts, strict=True) for a, b in pairwise([0, *where, n]) if where]
    return Partition.at(partition.shape, cuts, overlap=min([max(pairs.reach), *(side - 1 for side in sides)]))


def _automatic_solver(energy: Energy) -> BlockSolver:
    """Max-flow where it applies."""
    if not energy.submodular:
        return Brute() if energy.unary.size <= BRUTE_SITES else LsaTr()
    return automatic_flow_solver(energy.pairs)


def automatic_flow_solver(pairs: Pairs) -> MaxFlow:
    """A small problem can afford capacities so wide that rounding does not show."""
    return MaxFlow(bits=64) if pairs.number <= SMALL_PAIRS else MaxFlow()


def automatic_blocks(pairs: Pairs, method: Method) -> int:
    """1 for a small problem, else a power of two, as far as the grid's sides allow."""
    needed = 8 * pairs.number + 32 * pairs.sites
    if isinstance(method, Exact) and not isinstance(pairs, GraphPairs):  # whose seams take time to find
        fewest = _blocks_for_threads(pairs)
        whole, most = EXACT_WHOLE_BYTES, EXACT_BLOCK_BYTES
    else:
        whole, most, fewest = WHOLE_BYTES, BLOCK_BYTES, 1
    if needed <= whole:
        return 1
    number = min(max(fewest, _power_of_two(needed / most)), 1 << (max(pairs.shape).bit_length() - 1))
    if isinstance(method, Exact) and isinstance(pairs, GridPairs):
        while number > 1 and pairs.crossing(layout_of(pairs.shape, number)) > MOST_CROSSING * pairs.number:
            number //= 2
    return number


def _blocks_for_threads(pairs: Pairs) -> int:
    if len(pairs.shape) <= 2:
        return EXACT_BLOCKS if pairs.degree <= FEW_NEIGHBORS else EXACT_BLOCKS_DENSE
    return min(EXACT_BLOCKS_DENSE, max(EXACT_BLOCKS_3D, _power_of_two(pairs.sites / EXACT_SITES_3D)))


def _power_of_two(number: float) -> int:
    """The smallest one, from 1 on, that is no less."""
    return 1 << max(0, math.ceil(math.log2(number)))
