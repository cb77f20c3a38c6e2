"""The front door: minimize now, or start and hold the run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

from dope.energy import Energy
from dope.label_energy import LabelEnergy
from dope.partition import Partition
from dope.planning import plan
from dope.protocols import BlockSolver, Executor, LabelSolver, Method
from dope.result import Result
from dope.run import Run
from dope.steps import Step


def minimize(
    energy: Energy | LabelEnergy,
    *,
    blocks: int | Sequence[int] | Partition | None = None,
    overlap: float | int | None = None,
    method: Method | None = None,
    solver: BlockSolver | LabelSolver | None = None,
    executor: Executor | None = None,
    start: Result | npt.ArrayLike | None = None,
    watch: Callable[[Step], object] | None = None,
    memory: int | str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    certificate: str | os.PathLike[str] | None = None,
    out: Any = None,
) -> Result:
    """Labels of low energy, found block by block: `plan(...).run()`.

    Parameters
    ----------
    energy : Energy or LabelEnergy
        Its arrays may lie anywhere, see `Energy.grid`. Labels of a `LabelEnergy` are numbers, in uint8 or uint16.
    blocks : int, tuple or Partition, optional
        A number of blocks, a number per axis, or the blocks themselves. By default it follows from the number of
        sites and of neighbours: one block for a small problem, else a number that threads can share, or as few as fit
        into memory where they are read box by box.
    overlap : float or int, optional
        A float makes each block's side grow by that fraction, an int by that many sites. By default blocks do not
        overlap; on a grid with negative weights, they share as many sites as pairs reach.
    method : optional
        How blocks agree. Default `Exact()`, the global minimum, where no weight is negative and blocks do not overlap;
        `Bracketing()`, which finds the same labels box by box, where that does not fit into memory or blocks run in
        other processes; else `Admm()`, with one round and two sweeps where weights are negative. Of a `LabelEnergy`
        `Moves()`, which proves what it can and lowers the rest, or `Layers()`, the global minimum, where the metric is
        linear or quadratic without a limit, or another convex one, and layers fit into memory.
    solver : optional
        What minimizes a block: anything with `prepare`. Default `MaxFlow()` where no weight is negative, else
        `Portfolio()`, which searches longer with `seconds`, or `Brute()` for a handful of sites. Of a `LabelEnergy`,
        `LabelTrwS()` is solved with alone.
    executor : optional
        Where blocks run. Default `Threads()`, one per core.
    start : Result, optional
        An earlier result for sites of the same shape, to go on from after unaries, strokes or lam have changed. It
        saves time, most where only unaries moved, and does not change what `Exact()` finds. Of a `LabelEnergy` also
        labels, which moves begin with.
    watch : callable, optional
        Called with every Step; return True to stop there: with the labels of the last round of `Exact()`, and the best
        so far of other methods.
    memory : int or str, optional
        What it may take, such as "8GB"; by default what is available. It decides whether arrays are held in memory or
        read box by box, and how large boxes are.
    checkpoint : path, optional
        A new or empty folder in which what blocks find is kept, for a later `resume`. By default the method is
        `Bracketing()` then, or `Admm()` where that does not apply; of several labels on a grid `Moves()`, box by box.
    resume : path, optional
        The folder of a run that was broken off: goes on from there, with the same energy and settings. What is in it
        is taken as proved: trust it as you trust the program.
    certificate : path, optional
        A new or empty folder for what proves the bound, for `dope.verify`. What `Exact()` finds has one anyway, in
        `result.certificate`; `Bracketing()` makes one only if asked, as flows then have to go over all seams.
    out : array, optional
        Where labels go instead of a new array: anything with `out[box] = labels`, such as a Zarr array, a mapped one,
        or `dope.io.open_labels(path, shape)`. Where boxes are read, the last two are written by blocks where they run.
        It must not lie where an input does.

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
    decided = plan(
        energy, method=method, blocks=blocks, overlap=overlap, solver=solver, executor=executor, start=start,
        memory=memory, checkpoint=checkpoint, resume=resume, certificate=certificate, out=out,
    )  # fmt: skip
    return decided.run(watch=watch)


def start(energy: Energy | LabelEnergy, **arguments: Any) -> Run:
    """Begin to minimize in the background, and hold the run: `plan(...).begin()`.

    Takes the arguments of `minimize`, and gives a `Run` at once: iterate over it for events, `run.labels()` for labels
    as they are now, `run.cancel()` to end it, `run.result()` to wait for what it finds.

    Examples
    --------
    >>> import numpy as np
    >>> run = start(Energy.grid(np.array([[-3.0, 1.0], [-2.0, 2.0]]), lam=0.5))
    >>> run.result().labels.astype(int).tolist()
    [[1, 0], [1, 0]]
    """
    watch = arguments.pop("watch", None)
    return plan(energy, **arguments).begin(watch=watch)
