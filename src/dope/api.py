"""The front door: defaults, and the straight line from an energy to a result."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from dope import report
from dope.arrays import Labels, as_labels
from dope.certificate import Certificate
from dope.energy import Energy
from dope.errors import DopeError, InputError
from dope.executors import Threads
from dope.methods import Admm, Exact
from dope.pairs import GraphPairs, GridPairs, Pairs
from dope.partition import Partition
from dope.protocols import BlockSolver, Executor, FlowSolver, Leave, Method, Problem, Start, Step
from dope.solvers import Brute, LsaTr, MaxFlow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
SMALL_PAIRS = 1 << 20
BRUTE_SITES = 16


@dataclass(frozen=True, eq=False)
class Result:
    """What was found, and what is known about it.

    Attributes
    ----------
    labels : bool array shaped like the unary, True = foreground.
    energy : their energy, recomputed from the labels; constant included.
    lower_bound : no labels have less energy than this; None where no bound is known.
    exact : whether the labels are a minimum of the integer energy that was solved.
    rounding_error : how far rounding costs to integers can put that minimum above the energy's own; 0 for integers.
    stopped : why it stopped: "exact", "tolerance", "agreed", "stalled", "round limit" or "cancelled".
    proved : the fraction of sites whose labels are known to be those of a minimum; None where nothing is known.
    certificate : what proves the lower bound, for `dope.verify`; None where there is none.
    trace : a Step for every round, without labels.
    partition : the blocks.
    problem : after `segment`: the energy that was minimized.
    where : after `segment`: the box of the image that the energy, and the blocks, cover.
    """

    labels: Labels
    energy: float
    lower_bound: float | None
    exact: bool
    rounding_error: float
    stopped: str
    trace: tuple[Step, ...]
    partition: Partition
    proved: float | None = None
    certificate: Certificate | None = field(default=None, repr=False)
    problem: Energy | None = field(default=None, repr=False)
    where: tuple[slice, ...] | None = None
    _kept: object | None = field(default=None, repr=False)

    @property
    def gap(self) -> float | None:
        """energy - lower_bound, None where no bound is known."""
        return None if self.lower_bound is None else self.energy - self.lower_bound

    def __repr__(self) -> str:
        bound = "no bound known" if self.gap is None else f"gap {self.gap:.6g}"
        if self.exact:
            # The minimum in integers: with costs of very different sizes, rounding may leave little of the small ones.
            negligible = self.rounding_error <= 1e-6 * abs(self.energy)
            bound = "exact" if negligible else f"exact but for rounding by up to {self.rounding_error:.3g}"
        return (
            f"Result(energy {self.energy:.10g}, {bound}, {self.stopped} after "
            f"{len(self.trace)} rounds, {len(self.partition.blocks)} blocks, {self.labels.mean():.1%} foreground)"
        )

    def _repr_html_(self) -> str:
        rows = {
            "energy": f"{self.energy:.10g}",
            "lower bound": "not known" if self.lower_bound is None else f"{self.lower_bound:.10g}",
            "exact": "yes" if self.exact else "no",
            "sites proved": "not known" if self.proved is None else f"{self.proved:.2%}",
            "rounding error": f"at most {self.rounding_error:.3g}",
            "stopped": f"{self.stopped} after {len(self.trace)} rounds",
            "sites": " x ".join(str(n) for n in self.labels.shape),
            "foreground": f"{self.labels.mean():.2%}",
            "blocks": str(len(self.partition.blocks)),
        }
        cells = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in rows.items())
        labels = np.asarray(self.labels)
        if labels.ndim not in (2, 3):
            return f"<table>{cells}</table>"
        encoded = base64.b64encode(report.thumbnail(labels)).decode()
        picture = f'<img src="data:image/png;base64,{encoded}" alt="labels, foreground bright" style="max-width: 16em">'
        return f'<div style="display: flex; gap: 1em; align-items: center"><table>{cells}</table>{picture}</div>'

    def plot(self, image: npt.ArrayLike | None = None, *, channel_axis: int | None = None) -> Figure:
        """A matplotlib figure: the labels, on the image where it is given, and how the run converged.

        Needs matplotlib (`pip install 'dope[report]'`).
        """
        labels = np.asarray(self.labels)
        if image is None:
            return report.plot(self.trace, labels)
        pixels = np.asarray(image)
        if channel_axis is not None:
            pixels = np.moveaxis(pixels, channel_axis, -1)
        return report.plot(self.trace, labels, image=pixels, channels=pixels.ndim > labels.ndim)


def minimize(
    energy: Energy,
    *,
    blocks: int | Sequence[int] | Partition | None = None,
    overlap: float | int | None = None,
    method: Method | None = None,
    solver: BlockSolver | None = None,
    executor: Executor | None = None,
    start: Result | None = None,
    watch: Callable[[Step], object] | None = None,
) -> Result:
    """Labels of low energy, found block by block.

    Parameters
    ----------
    energy : Energy
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
    if not isinstance(energy, Energy):
        raise InputError(f"energy is a {type(energy).__name__}; expected an Energy. Make one with Energy.grid(...).")
    for name, plug_in, ability in (
        ("method", method, "steps"),
        ("solver", solver, "prepare"),
        ("executor", executor, "gather"),
        ("watch", watch, "__call__"),
    ):
        if plug_in is not None and (isinstance(plug_in, type) or not hasattr(plug_in, ability)):
            raise InputError(f"{name} is {plug_in!r}; expected an object with {ability}, or None.")
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
            trace.append(replace(step, labels=None, certificate=None, kept=None))
        if step.labels is not None and (best is None or step.energy < best.energy or step.exact):
            best = step
        if step.lower_bound is not None and (bounded is None or step.lower_bound >= _bound(bounded)):
            bounded = step
        stopped = step.stopped or stopped
    if best is None or best.labels is None:
        raise DopeError("the method ended without labels; it must yield at least one Step that has them.")
    labels = as_labels(best.labels, problem.energy.shape).copy()
    energy = problem.energy(labels)
    bound = None if bounded is None else bounded.lower_bound
    exact = best.exact or (bound is not None and best.rounding_error == 0.0 and energy <= bound)
    return Result(
        labels=labels,
        energy=energy,
        lower_bound=_lower_bound(energy, energy if exact else bound, best.rounding_error),
        exact=exact,
        rounding_error=best.rounding_error,
        stopped=stopped,
        trace=tuple(trace),
        partition=problem.partition,
        proved=1.0 if exact else max((step.proved for step in trace if step.proved is not None), default=None),
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


def _bound(step: Step) -> float:
    assert step.lower_bound is not None
    return step.lower_bound


def _lower_bound(energy: float, bound: float | None, rounding_error: float) -> float | None:
    """A bound of the energy itself: that of the integer energy, less what rounding can make of it."""
    return None if bound is None else min(energy, bound - rounding_error)


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
    """Max-flow where it applies; a small problem can afford capacities so wide that rounding does not show."""
    if not energy.submodular:
        return Brute() if energy.unary.size <= BRUTE_SITES else LsaTr()
    return MaxFlow(bits=64) if energy.pairs.number <= SMALL_PAIRS else MaxFlow()


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
    number = max(fewest, _power_of_two(needed / most))
    return min(number, 1 << (max(pairs.shape).bit_length() - 1))


def _blocks_for_threads(pairs: Pairs) -> int:
    if len(pairs.shape) <= 2:
        return EXACT_BLOCKS if pairs.degree <= FEW_NEIGHBORS else EXACT_BLOCKS_DENSE
    return min(EXACT_BLOCKS_DENSE, max(EXACT_BLOCKS_3D, _power_of_two(pairs.sites / EXACT_SITES_3D)))


def _power_of_two(number: float) -> int:
    """The smallest one, from 1 on, that is no less."""
    return 1 << max(0, math.ceil(math.log2(number)))
