"""One solve in a process of its own: from arrays in memory to labels, which it leaves in a file.

    python benchmarks/alone.py '{"folder": ..., "labels": ..., "solver": "dope", ...}'

`exact.py` calls it. dope is given picture and unaries, and its time begins before the energy is stated: contrast,
scale and weights are part of it. PyMaxflow is given its integers ready-made, in the type that it takes as it is (int64;
anything else it copies), each array freed after use: computing them is not part of its time. Nothing is taken off the
peak of memory.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from energies import Integers, Labels, Model

if TYPE_CHECKING:
    import dope
    from dope.protocols import Method

Answer = dict[str, Any]

# Points of a curve that are kept: enough for a figure.
MOST_POINTS = 80


class Clock:
    """Adds up the time of its stages, by the wall, and the processor time of all of them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.user_seconds = 0.0
        self.system_seconds = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        before, begun = os.times(), time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begun
        after = os.times()
        self.user_seconds += after.user - before.user
        self.system_seconds += after.system - before.system

    def answer(self) -> Answer:
        stages = {f"{stage}_seconds": round(seconds, 6) for stage, seconds in self.seconds.items()}
        return {
            "seconds": round(sum(self.seconds.values()), 6),
            **stages,
            "user_seconds": round(self.user_seconds, 3),
            "system_seconds": round(self.system_seconds, 3),
        }


def main() -> None:
    request = json.loads(sys.argv[1])
    if "touched_bytes" in request:
        np.ones(request["touched_bytes"] // 8)
        return
    solve = {"dope": with_dope, "PyMaxflow": with_pymaxflow}[request["solver"]]
    labels, answer = solve(request)
    # Only now, as importing it takes memory too.
    from dope.memory import peak_bytes

    np.save(request["labels"], labels)
    print(json.dumps(answer | {"peak_bytes": peak_bytes()}))


def with_dope(request: Answer) -> tuple[Labels, Answer]:
    model = Model.load(Path(request["folder"]))
    import dope

    assert callable(dope.minimize)  # asked for, its modules are imported: before the clock starts, as a peer's are
    clock = Clock()
    with clock.stage("energy"):
        energy = model.energy()
    with clock.stage("minimize"):
        result = minimized(energy, request, unit=model.unit)
    last = result.trace[-1]
    answer = clock.answer() | {
        "version": dope.__version__,
        "blocks": len(result.partition.blocks),
        "rounds": last.round,
        "stopped": result.stopped,
        "exact": result.exact,
        "stated_energy": result.energy,
        "lower_bound": result.lower_bound,
        "proved": last.proved,
        "disagreeing": last.disagreeing,
        "split": _split(clock, result),
        "points": points(result.trace, later=clock.seconds["energy"]),
    }
    return result.labels, answer


def minimized(energy: dope.Energy, request: Answer, *, unit: float) -> dope.Result:
    """The public call that is measured."""
    import dope

    method = _method(request["method"], dimensions=len(energy.shape), unit=unit)
    return dope.minimize(
        energy,
        # Without a method of its own, the exact minimum is that of one block.
        blocks=1 if method is None else request["blocks"],
        method=method,
        solver=dope.MaxFlow(request["width"]),
        executor=dope.Threads(request["threads"]),
    )


def _method(name: str, *, dimensions: int, unit: float) -> Method | None:
    import dope

    if name == "exact":
        exact = getattr(dope, "Exact", None)
        return None if exact is None else exact()
    if name == "admm":
        return dope.Admm()
    # As the paper has it in 2D and 3D, for costs in nats.
    return dope.Admm.paper(mu0=100 * unit) if dimensions == 2 else dope.Admm.paper(mu0=500 * unit, rounds=10)


def _split(clock: Clock, result: dope.Result) -> dict[str, float]:
    """Where the time went: stating the energy, the first round, the others, what came after; and what a step tells."""
    first, last = result.trace[0], result.trace[-1]
    parts = {
        "energy": clock.seconds["energy"],
        "first round": first.seconds,
        "further rounds": last.seconds - first.seconds,
        "afterwards": clock.seconds["minimize"] - last.seconds,
    }
    told = getattr(last, "split", None) or {}
    return {name: round(float(seconds), 4) for name, seconds in (parts | dict(told)).items()}


def points(trace: tuple[dope.Step, ...], *, later: float = 0.0) -> list[Answer]:
    """Some of the rounds, the first and the last among them; seconds are counted from `later` on."""
    chosen = np.unique(np.linspace(0, len(trace) - 1, MOST_POINTS).round().astype(int))
    names = ("round", "energy", "lower_bound", "proved", "disagreeing")
    return [
        {"seconds": round(trace[k].seconds + later, 4)} | {name: getattr(trace[k], name) for name in names}
        for k in chosen
    ]


def with_pymaxflow(request: Answer) -> tuple[Labels, Answer]:
    import maxflow

    integers = Integers.load(Path(request["folder"]))
    clock = Clock()
    prices = integers.prices()
    to_source, to_sink = np.maximum(-prices, 0), np.maximum(prices, 0)
    del prices
    with clock.stage("build"):
        graph = maxflow.GraphInt(integers.sites, integers.pairs)
        nodes = graph.add_grid_nodes(integers.shape)
        graph.add_grid_tedges(nodes, to_source, to_sink)
    del to_source, to_sink
    reach = int(np.abs(integers.offsets).max())
    for m, offset in enumerate(integers.offsets):
        structure = np.zeros((2 * reach + 1,) * len(offset))
        structure[tuple(o + reach for o in offset)] = 1
        weights = integers.weights(m)
        with clock.stage("build"):
            graph.add_grid_edges(nodes, weights, structure, symmetric=True)
        del weights
    with clock.stage("solve"):
        graph.maxflow()
    with clock.stage("read"):
        labels = ~graph.get_grid_segments(nodes)
    del graph, nodes
    return labels, clock.answer() | {"version": maxflow.__version__}


if __name__ == "__main__":
    main()
