"""The other solvers: the same integers, in bulk where a solver takes arrays, pair by pair where it does not.

Undirected pairs are two arcs, and a site hangs on the source or on the sink, whichever its unary asks for. A solver
that builds its graph while it solves (`apart=False`) has one time for both. How many bytes each needs, what it is fed
included, was measured on A1e, C1e and C2e.

    thinmaxflow    GPL           the same algorithm as PyMaxflow, 32 bits, fed pair by pair
    scipy          BSD           Dinic's algorithm, 32 bits
    OR-tools       Apache        push-relabel, 64 bits
    igraph         GPL           push-relabel, doubles
    HPF            non-profit    pseudoflow, doubles; the package is called pseudoflow
    gco            research      Boykov and Kolmogorov's algorithm, as one expansion; the package is called gco-wrapper
    numpymaxflow   BSD           4 or 6 neighbours; needs NumPy 1
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from cases import Instance, Ints, Labels
from solvers import OURS, YARDSTICK, Solver, Stages, negative, terminals

# Beyond this many pairs a solver that is fed pair by pair from Python, or from Python's lists, is measured by how it is
# fed.
FEW_PAIRS = 4_000_000


@dataclass(frozen=True, eq=False)
class Arcs:
    """The network as arrays: both directions of all pairs, and the arcs of source and sink."""

    tails: npt.NDArray[np.int32]
    heads: npt.NDArray[np.int32]
    capacities: npt.NDArray[np.int32]
    source: int
    sink: int

    @classmethod
    def of(cls, instance: Instance, unary: Ints) -> Arcs:
        first, second, weights = instance.edges()
        source, sink = instance.sites, instance.sites + 1
        gives, takes = (terminal.ravel() for terminal in terminals(unary))
        given, taken = np.flatnonzero(gives), np.flatnonzero(takes)
        parts = (
            (first, second, np.full(given.size, source), taken),
            (second, first, given, np.full(taken.size, sink)),
            (weights, weights, gives[given], takes[taken]),
        )
        tails, heads, capacities = (np.concatenate([p.astype(np.int32) for p in part]) for part in parts)
        return cls(tails, heads, capacities, source, sink)

    def labels(self, reached: Any, shape: tuple[int, ...]) -> Labels:
        """Labels, where these nodes are the source's side of a cut."""
        side = np.zeros(self.sink + 1, dtype=np.bool_)
        side[reached] = True
        return side[: self.source].reshape(shape)


class ThinMaxflow:
    """thinmaxflow's GraphInt: the same algorithm with 32-bit capacities, fed pair by pair."""

    name = "thinmaxflow"
    package = "thinmaxflow"
    exact = True

    def refusal(self, instance: Instance) -> str | None:
        return _too_many_pairs(instance)

    def bytes_needed(self, instance: Instance) -> int:
        return 160 * instance.pairs + 120 * instance.sites

    def stages(self, instance: Instance, unary: Ints) -> Stages:
        import thinmaxflow  # type: ignore[import-untyped]

        tails, heads, weights = (ends.tolist() for ends in instance.edges())
        to_source, to_sink = (terminal.ravel().tolist() for terminal in terminals(unary))

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
            value=lambda _, flow: int(flow) + negative(unary),
            bits=32,
        )


class Scipy:
    """scipy's maximum_flow (Dinic's algorithm) on a sparse matrix with 32-bit capacities."""

    name = "scipy"
    package = "scipy"
    exact = True

    def refusal(self, instance: Instance) -> str | None:
        del instance
        return None

    def bytes_needed(self, instance: Instance) -> int:
        return 95 * instance.pairs + 60 * instance.sites

    def stages(self, instance: Instance, unary: Ints) -> Stages:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow

        arcs = Arcs.of(instance, unary)
        nodes = arcs.sink + 1
        results: list[Any] = []

        def solve(graph: Any) -> int:
            results.append(maximum_flow(graph, arcs.source, arcs.sink))
            return int(results[-1].flow_value)

        def read(graph: Any) -> Labels:
            left = graph - results.pop().flow
            left.eliminate_zeros()
            return arcs.labels(breadth_first_order(left, arcs.source, return_predecessors=False), instance.shape)

        return Stages(
            build=lambda: csr_array((arcs.capacities, (arcs.tails, arcs.heads)), shape=(nodes, nodes)),
            solve=solve,
            read=read,
            value=lambda _, flow: flow + negative(unary),
            bits=32,
        )


class OrTools:
    """OR-tools' SimpleMaxFlow (push-relabel), which builds its graph when told to solve."""

    name = "OR-tools"
    package = "ortools"
    exact = True

    def refusal(self, instance: Instance) -> str | None:
        del instance
        return None

    def bytes_needed(self, instance: Instance) -> int:
        return 170 * instance.pairs + 90 * instance.sites

    def stages(self, instance: Instance, unary: Ints) -> Stages:
        from ortools.graph.python.max_flow import SimpleMaxFlow

        arcs = Arcs.of(instance, unary)
        capacities = arcs.capacities.astype(np.int64)

        def build() -> Any:
            flow = SimpleMaxFlow()
            flow.add_arcs_with_capacity(arcs.tails, arcs.heads, capacities)
            return flow

        def solve(flow: Any) -> int:
            status = flow.solve(arcs.source, arcs.sink)
            if status != flow.OPTIMAL:
                raise SystemExit(f"OR-tools ended with {status}")
            return int(flow.optimal_flow())

        return Stages(
            build=build,
            solve=solve,
            read=lambda flow: arcs.labels(flow.get_source_side_min_cut(), instance.shape),
            value=lambda _, flow: flow + negative(unary),
            bits=64,
            apart=False,
        )


class Igraph:
    """igraph's mincut (push-relabel in doubles); fed from lists."""

    name = "igraph"
    package = "igraph"
    exact = True

    def refusal(self, instance: Instance) -> str | None:
        return _too_many_pairs(instance)

    def bytes_needed(self, instance: Instance) -> int:
        return 650 * instance.pairs + 350 * instance.sites

    def stages(self, instance: Instance, unary: Ints) -> Stages:
        import igraph

        arcs = Arcs.of(instance, unary)
        # A list of pairs takes a tenth of the time that an array does.
        ends, capacities = list(zip(arcs.tails.tolist(), arcs.heads.tolist(), strict=True)), arcs.capacities.tolist()
        found: list[Any] = []

        def solve(graph: Any) -> int:
            found.append(graph.mincut(arcs.source, arcs.sink, capacities))
            return int(found[-1].value)

        return Stages(
            build=lambda: igraph.Graph(arcs.sink + 1, ends, directed=True),
            solve=solve,
            read=lambda _: arcs.labels(found.pop().partition[0], instance.shape),
            value=lambda _, flow: flow + negative(unary),
            bits=64,
        )


class Hpf:
    """Hochbaum's pseudoflow, through the library inside the package pseudoflow.

    The package's own function goes through a graph of networkx or igraph, arc by arc; its library takes an array.
    """

    name = "HPF"
    package = "pseudoflow"
    exact = True

    def refusal(self, instance: Instance) -> str | None:
        del instance
        return None

    def bytes_needed(self, instance: Instance) -> int:
        return 350 * instance.pairs + 330 * instance.sites

    def stages(self, instance: Instance, unary: Ints) -> Stages:
        from pseudoflow.python.hpf import libhpf

        arcs = Arcs.of(instance, unary)
        matrix = np.zeros((len(arcs.tails), 4))  # from, to, capacity, and what lambda adds to it
        matrix[:, 0], matrix[:, 1], matrix[:, 2] = arcs.tails, arcs.heads, arcs.capacities
        pointer = ctypes.POINTER(ctypes.c_double)
        sides, breaks = ctypes.POINTER(ctypes.c_int)(), pointer()
        number, statistics, seconds = ctypes.c_int(), (ctypes.c_int * 5)(), (ctypes.c_double * 3)()

        def solve(_: Any) -> None:
            libhpf.hpf_solve(
                *map(ctypes.c_int, (arcs.sink + 1, len(matrix), arcs.source, arcs.sink)),
                matrix.ctypes.data_as(pointer),
                (ctypes.c_double * 2)(),
                ctypes.c_int(0),
                ctypes.byref(number),
                ctypes.byref(sides),
                ctypes.byref(breaks),
                statistics,
                seconds,
            )

        def read(_: Any) -> Labels:
            labels = np.ctypeslib.as_array(sides, (instance.sites,)) > 0
            for block in (sides, breaks):
                libhpf.libfree(block)
            return labels.reshape(instance.shape)

        return Stages(lambda: None, solve, read, value=lambda *_: None, bits=64, apart=False)


class Gco:
    """gco's expansion move: from all 0, one move to label 1 is the minimum cut. It builds its graph while it moves."""

    name = "gco"
    package = "gco-wrapper"
    exact = True

    def refusal(self, instance: Instance) -> str | None:
        del instance
        return None

    def bytes_needed(self, instance: Instance) -> int:
        return 200 * instance.pairs + 60 * instance.sites

    def stages(self, instance: Instance, unary: Ints) -> Stages:
        from gco import GCO

        first, second, weights = instance.edges()
        low, high = np.minimum(first, second), np.maximum(first, second)
        weights = weights.astype(np.int32)
        to_source, to_sink = terminals(unary)
        prices = np.stack([to_source.ravel(), to_sink.ravel()], axis=1).astype(np.int32)
        apart = np.array([[0, 1], [1, 0]], dtype=np.int32)

        def build() -> Any:
            graph = GCO()
            graph.create_general_graph(instance.sites, 2)
            graph.set_data_cost(prices)
            graph.set_all_neighbors(low, high, weights)
            graph.set_smooth_cost(apart)
            return graph

        return Stages(
            build=build,
            solve=lambda graph: graph.expansion_on_alpha(1),
            read=lambda graph: graph.get_labels().reshape(instance.shape) > 0,
            value=lambda graph, _: int(graph.compute_energy()) + negative(unary),
            bits=32,
            apart=False,
        )


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
            apart=False,
        )


def _too_many_pairs(instance: Instance) -> str | None:
    return f"{instance.pairs:,} pairs; run up to {FEW_PAIRS:,}" if instance.pairs > FEW_PAIRS else None


_ALL = (OURS, YARDSTICK, ThinMaxflow(), Scipy(), OrTools(), Igraph(), Hpf(), Gco(), NumpyMaxflow())
SOLVERS: dict[str, Solver] = {solver.name: solver for solver in _ALL}
PEERS = [name for name in SOLVERS if name != OURS.name]
