"""A solve as stages that are timed; dope, and PyMaxflow, which it is measured by. `peers.py` has the others.

What a solver reads is put into its own form before the clock starts, and PyMaxflow and the others are given ready-made
integer weights, which costs them nothing. dope is given the picture: computing the weights is part of its time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from cases import Instance, Ints, Labels

import dope
from dope import _core
from dope.fixed_point import LARGEST, ROOM


@dataclass(frozen=True)
class Stages:
    """One solve in calls that are timed one by one; `value` is asked for afterwards, and not timed.

    `solve` is given what `build` returned, `read` too; `value` gets that and what `solve` returned, and says what the
    solver holds the minimum to be, or None. `apart` is False where a solver builds its graph while it solves.
    """

    build: Callable[[], Any]
    solve: Callable[[Any], Any]
    read: Callable[[Any], Labels]
    value: Callable[[Any, Any], int | None]
    bits: int
    held_bytes: Callable[[Any], int | None] = lambda _: None
    apart: bool = True


@dataclass(frozen=True, eq=False)
class Run:
    """What one solve took and gave. `build_seconds` is None where building cannot be told from solving.

    The stages are by the clock on the wall. Processor time is split: `user_seconds` are the solver's own work,
    `system_seconds` mostly page faults.
    """

    build_seconds: float | None
    solve_seconds: float
    read_seconds: float
    user_seconds: float
    system_seconds: float
    labels: Labels
    value: int | None
    bits: int
    held_bytes: int | None


class Solver(Protocol):
    """A solver of integer energies on grids; `package` is what it is installed as."""

    name: str
    package: str
    exact: bool

    def refusal(self, instance: Instance) -> str | None:
        """Why this instance is not for this solver, if so."""

    def bytes_needed(self, instance: Instance) -> int:
        """About how much memory it will take; 0 where that is not known, and not much."""

    def stages(self, instance: Instance, unary: Ints) -> Stages: ...


def timed(stages: Stages) -> Run:
    """Go through the stages, from the first clock to the last without anything else."""
    user, system = _processor_seconds()
    t0 = time.perf_counter()
    graph = stages.build()
    t1 = time.perf_counter()
    outcome = stages.solve(graph)
    t2 = time.perf_counter()
    labels = stages.read(graph)
    t3 = time.perf_counter()
    user_end, system_end = _processor_seconds()
    return Run(
        build_seconds=t1 - t0 if stages.apart else None,
        solve_seconds=t2 - (t1 if stages.apart else t0),
        read_seconds=t3 - t2,
        user_seconds=user_end - user,
        system_seconds=system_end - system,
        labels=labels,
        value=stages.value(graph, outcome),
        bits=stages.bits,
        held_bytes=stages.held_bytes(graph),
    )


def _processor_seconds() -> tuple[float, float]:
    """User and system time of this process so far."""
    try:
        import resource
    except ImportError:  # Windows, where the clock is coarser
        times = os.times()
        return times.user, times.system
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime, usage.ru_stime


def installed(solver: Solver) -> str | None:
    """The version of a solver's package, None where it is missing."""
    if solver.package == "dope":
        return dope.__version__  # whichever is imported: it need not be installed
    try:
        return version(solver.package)
    except PackageNotFoundError:
        return None


def available_bytes() -> int | None:
    """Memory that a new process can have without swapping; None where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)


def refusal(solver: Solver, instance: Instance) -> str | None:
    """Why a solver cannot run here, if so."""
    reason = solver.refusal(instance)
    if reason is not None:
        return reason
    if installed(solver) is None:
        return f"{solver.package} is not installed"
    needed, available = solver.bytes_needed(instance), available_bytes()
    if available is not None and needed > available:
        return f"needs {needed / 1e9:.1f} GB, {available / 1e9:.1f} GB are available"
    return None


def touch_memory(solver: Solver, instance: Instance) -> None:
    """Use the memory that a solve will need for a moment, so that the system has it at hand.

    A virtual machine may give memory that has been free for seconds back to its host. Fetching a page again takes four
    times as long as a page fault otherwise does (measured: 8 against 1.8 s for 4 GB), which has nothing to do with the
    solver that happens to run into it. Builds of many seconds run into it all the same.
    """
    np.ones(solver.bytes_needed(instance) // 8)


def narrowest_bits(instance: Instance) -> int:
    """The narrowest capacities that hold these weights as they are."""
    strength = 2 * float(np.ceil(instance.factors).sum())
    fitting = (b for b in LARGEST if np.ceil(instance.factors).max() <= LARGEST[b] and strength <= ROOM[b])
    return next(fitting)


class Dope:
    """The core, through the door that `dope.MaxFlow` uses."""

    name = "dope"
    package = "dope"
    exact = True

    def refusal(self, instance: Instance) -> str | None:
        del instance
        return None

    def bytes_needed(self, instance: Instance) -> int:
        return _core.GridFlow.bytes_needed(instance.shape, instance.offsets, narrowest_bits(instance))

    def stages(self, instance: Instance, unary: Ints) -> Stages:
        prices = unary.astype(np.float64)
        bits = narrowest_bits(instance)

        def build() -> _core.GridFlow:
            weights = _core.GridWeights(
                instance.shape, instance.offsets, instance.factors, instance.features, instance.beta
            )
            return _core.GridFlow(weights, 1.0, bits)

        return Stages(
            build=build,
            solve=lambda flow: flow.minimize(prices),
            read=lambda flow: flow.labels(),
            value=lambda flow, _: int(flow.value()),
            bits=bits,
            held_bytes=lambda flow: int(flow.bytes),
        )

    def restart(self, unary: Ints, there: Labels) -> Callable[[_core.GridFlow], Any]:
        """A second solve, with another unary that differs at the sites `there`."""
        del there  # finding them is part of the work
        prices = unary.astype(np.float64)
        return lambda flow: flow.minimize(prices)


class PyMaxflow:
    """PyMaxflow's GraphInt: Boykov and Kolmogorov's algorithm with 64-bit capacities. True segments are the sink's."""

    name = "PyMaxflow"
    package = "PyMaxflow"
    exact = True

    def refusal(self, instance: Instance) -> str | None:
        del instance
        return None

    def bytes_needed(self, instance: Instance) -> int:
        # Two arcs of 32 bytes for a pair, 65 for a site: within 2 % of what version 1.3.2 took of A1e, C1e and M5.
        return 64 * instance.pairs + 65 * instance.sites

    def stages(self, instance: Instance, unary: Ints) -> Stages:
        import maxflow

        to_source, to_sink = terminals(unary)
        reach = int(np.abs(instance.offsets).max())

        def build() -> Any:
            graph = maxflow.GraphInt(instance.sites, instance.pairs)
            nodes = graph.add_grid_nodes(instance.shape)
            for weights, offset in zip(instance.weights, instance.offsets, strict=True):
                structure = np.zeros((2 * reach + 1,) * len(offset))
                structure[tuple(offset + reach)] = 1
                graph.add_grid_edges(nodes, weights, structure, symmetric=True)
            graph.add_grid_tedges(nodes, to_source, to_sink)
            return graph, nodes

        return Stages(
            build=build,
            solve=lambda built: built[0].maxflow(),
            read=lambda built: ~built[0].get_grid_segments(built[1]),
            value=lambda _, flow: int(flow) + negative(unary),
            bits=64,
        )

    def restart(self, change: Ints, there: Labels) -> Callable[[Any], Any]:
        """A second solve, with `change` added to the unary at the sites `there`: flow and search trees are kept."""
        nodes = np.flatnonzero(there)
        to_source, to_sink = terminals(change[there])

        def solve(built: Any) -> Any:
            graph = built[0]
            graph.add_grid_tedges(nodes, to_source, to_sink)
            graph.mark_grid_nodes(nodes)
            return graph.maxflow(reuse_trees=True)

        return solve


def terminals(unary: Ints) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Capacities from the source and to the sink, such that label 1 is the source's side."""
    prices = unary.astype(np.int64)
    return np.maximum(-prices, 0), np.maximum(prices, 0)


def negative(unary: Ints) -> int:
    """What to add to a flow value for the energy: a site with u < 0 cuts nothing for label 1, which saves -u."""
    return int(np.minimum(unary, 0).sum(dtype=np.int64))


OURS = Dope()
YARDSTICK = PyMaxflow()
