"""dope and the solvers it is compared with, each as the stages of one solve.

What a solver reads is put into its own form before the clock starts, and PyMaxflow and the others are given ready-made
integer weights, which costs them nothing. dope is given the picture: computing the weights is part of its time.
"""

from __future__ import annotations

import math
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

from dope import _core
from dope.fixed_point import LARGEST, ROOM

# Beyond this many pairs a solver that is fed pair by pair from Python, or that takes a sparse matrix, is measured by
# how it is fed.
FEW_PAIRS = 4_000_000


@dataclass(frozen=True)
class Stages:
    """One solve in calls that are timed one by one; `value` is asked for afterwards, and not timed.

    `solve` is given what `build` returned, `read` too; `value` gets that and what `solve` returned, and says what the
    solver holds the minimum to be, or None.
    """

    build: Callable[[], Any]
    solve: Callable[[Any], Any]
    read: Callable[[Any], Labels]
    value: Callable[[Any, Any], int | None]
    bits: int
    held_bytes: Callable[[Any], int | None] = lambda _: None


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
        build_seconds=None if graph is None else t1 - t0,
        solve_seconds=t2 - t1,
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
    if installed(solver) is None:
        return f"{solver.package} is not installed"
    needed, available = solver.bytes_needed(instance), available_bytes()
    if available is not None and needed > available:
        return f"needs {needed / 1e9:.1f} GB, {available / 1e9:.1f} GB are available"
    return solver.refusal(instance)


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

        to_source, to_sink = _terminals(unary)
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
            value=lambda _, flow: int(flow) + _negative(unary),
            bits=64,
        )

    def restart(self, change: Ints, there: Labels) -> Callable[[Any], Any]:
        """A second solve, with `change` added to the unary at the sites `there`: flow and search trees are kept."""
        nodes = np.flatnonzero(there)
        to_source, to_sink = _terminals(change[there])

        def solve(built: Any) -> Any:
            graph = built[0]
            graph.add_grid_tedges(nodes, to_source, to_sink)
            graph.mark_grid_nodes(nodes)
            return graph.maxflow(reuse_trees=True)

        return solve


class ThinMaxflow:
    """thinmaxflow's GraphInt: the same algorithm with 32-bit capacities, fed pair by pair."""

    name = "thinmaxflow"
    package = "thinmaxflow"
    exact = True

    def refusal(self, instance: Instance) -> str | None:
        return _too_many_pairs(instance)

    def bytes_needed(self, instance: Instance) -> int:
        del instance
        return 0

    def stages(self, instance: Instance, unary: Ints) -> Stages:
        import thinmaxflow  # type: ignore[import-untyped]

        tails, heads, weights = (ends.tolist() for ends in _edge_list(instance))
        to_source, to_sink = (terminal.ravel().tolist() for terminal in _terminals(unary))

        def build() -> Any:
            graph = thinmaxflow.GraphInt(instance.sites, instance.pairs)
            graph.add_node(instance.sites)
            for site, (source, sink) in enumerate(zip(to_source, to_sink, strict=True)):
                graph.add_tweights(site, source, sink)
            for tail, head, weight in zip(tails, heads, weights, strict=True):
                graph.add_edge(tail, head, weight, weight)
            return graph

        def read(graph: Any) -> Labels:
            in_sink = np.fromiter(map(graph.what_segment, range(instance.sites)), np.bool_, instance.sites)
            return ~in_sink.reshape(instance.shape)

        return Stages(
            build=build,
            solve=lambda graph: graph.maxflow(),
            read=read,
            value=lambda _, flow: int(flow) + _negative(unary),
            bits=32,
        )


class Scipy:
    """scipy's maximum_flow (Dinic's algorithm) on a sparse matrix with 32-bit capacities."""

    name = "scipy"
    package = "scipy"
    exact = True

    def refusal(self, instance: Instance) -> str | None:
        return _too_many_pairs(instance)

    def bytes_needed(self, instance: Instance) -> int:
        del instance
        return 0

    def stages(self, instance: Instance, unary: Ints) -> Stages:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow

        tails, heads, weights = _edge_list(instance)
        to_source, to_sink = (terminal.ravel() for terminal in _terminals(unary))
        source, sink = instance.sites, instance.sites + 1
        near_source, near_sink = np.flatnonzero(to_source), np.flatnonzero(to_sink)
        results: list[Any] = []

        def build() -> Any:
            ends = np.full(len(near_source), source), np.full(len(near_sink), sink)
            rows = np.concatenate([tails, heads, ends[0], near_sink])
            columns = np.concatenate([heads, tails, near_source, ends[1]])
            capacities = np.concatenate([weights, weights, to_source[near_source], to_sink[near_sink]])
            return csr_array((capacities.astype(np.int32), (rows, columns)), shape=(sink + 1, sink + 1))

        def solve(graph: Any) -> int:
            results.append(maximum_flow(graph, source, sink))
            return int(results[-1].flow_value)

        def read(graph: Any) -> Labels:
            left = graph - results.pop().flow
            left.eliminate_zeros()
            reached = breadth_first_order(left, source, return_predecessors=False)
            labels = np.zeros(sink + 1, dtype=np.bool_)
            labels[reached] = True
            return labels[: instance.sites].reshape(instance.shape)

        return Stages(build, solve, read, value=lambda _, flow: flow + _negative(unary), bits=32)


class NumpyMaxflow:
    """numpymaxflow: computes the weights itself, in float32, so that its energy comes close but is not the same."""

    name = "numpymaxflow"
    package = "numpymaxflow"
    exact = False

    def refusal(self, instance: Instance) -> str | None:
        if len(instance.offsets) != len(instance.shape) or np.ptp(instance.factors):
            return "takes 4 or 6 neighbours of one strength"
        return None

    def bytes_needed(self, instance: Instance) -> int:
        del instance
        return 0

    def stages(self, instance: Instance, unary: Ints) -> Stages:
        import numpymaxflow  # type: ignore[import-untyped]

        # Probabilities down to exp(-12) pass through float32; it cuts off below 1e-7.
        unit = max(1.0, float(np.abs(unary).max()) / 12)
        foreground = 1 / (1 + np.exp(unary / unit))
        probability = np.stack([1 - foreground, foreground]).astype(np.float32)
        picture = np.ascontiguousarray(np.moveaxis(instance.features, -1, 0))
        strength, sigma = float(instance.factors[0]) / unit, math.sqrt(1 / (2 * instance.beta))
        found: list[npt.NDArray[Any]] = []

        def solve(_: Any) -> None:
            found.append(numpymaxflow.maxflow(picture, probability, strength, sigma, instance.neighbours))

        return Stages(
            build=lambda: None,  # one call does it all
            solve=solve,
            read=lambda _: found.pop().reshape(instance.shape) > 0.5,
            value=lambda *_: None,
            bits=32,
        )


def _too_many_pairs(instance: Instance) -> str | None:
    return f"{instance.pairs} pairs; run up to {FEW_PAIRS}" if instance.pairs > FEW_PAIRS else None


def _terminals(unary: Ints) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Capacities from the source and to the sink, such that label 1 is the source's side."""
    prices = unary.astype(np.int64)
    return np.maximum(-prices, 0), np.maximum(prices, 0)


def _negative(unary: Ints) -> int:
    """What to add to a flow value for the energy: a site with u < 0 cuts nothing for label 1, which saves -u."""
    return int(np.minimum(unary, 0).sum(dtype=np.int64))


def _edge_list(instance: Instance) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Ints]:
    """All pairs: first ends, second ends, weights."""
    numbers = np.arange(instance.sites).reshape(instance.shape)
    tails, heads, weights = [], [], []
    for strengths, offset in zip(instance.weights, instance.offsets.tolist(), strict=True):
        tail = tuple(slice(max(0, -s), -s if s > 0 else None) for s in offset)
        head = tuple(slice(max(0, s), s if s < 0 else None) for s in offset)
        tails.append(numbers[tail].ravel())
        heads.append(numbers[head].ravel())
        weights.append(strengths[tail].ravel())
    return np.concatenate(tails), np.concatenate(heads), np.concatenate(weights)


OURS = Dope()
YARDSTICK = PyMaxflow()
SOLVERS: dict[str, Solver] = {s.name: s for s in (OURS, YARDSTICK, ThinMaxflow(), Scipy(), NumpyMaxflow())}
PEERS = [name for name in SOLVERS if name != OURS.name]
