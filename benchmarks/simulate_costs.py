"""Costs that a simulation begins with: by the site and by the task, measured here and kept as lines."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from lines import Record

from dope.forecast import Costs


def measure(kernels: Iterable[int], repeat: int) -> Iterator[Record]:
    """Costs by the site; of several measurements the one whose pass 1 was in the middle."""
    for kernel in kernels:
        found = sorted((Costs.measured(kernel) for _ in range(repeat)), key=_pace)
        yield {"what": "costs", "kernel": kernel, "repeat": repeat, "costs": asdict(found[len(found) // 2])}


def _pace(costs: Costs) -> float:
    first = next(one for one in costs.rounds if one.name == "pass 1")
    return first.read + first.solve + first.write


def costs_from(found: Record) -> Costs:
    return Costs.from_plain(found)


def overhead(repeat: int) -> Record:
    """Seconds and bytes that `Dask` takes for a task beside its work: of blocks so small that they have none."""
    import dope
    from dope.facts import Measure, MeasureRecipe
    from dope.partition import Partition

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "unary.npy"
        np.save(file, np.zeros((16, 16, 16), dtype=np.float32))
        energy = dope.Energy.grid(np.load(file, mmap_mode="r"))
        boxes: list[Any] = [block.where for block in Partition.grid((16, 16, 16), 8).blocks]
        recipes = [MeasureRecipe(energy, box) for box in boxes]
        measure = Measure(unary=True, places=False, unit=None)
        with dope.Dask("local:1") as executor, executor.gather(recipes) as crew:
            crew.ask([measure] * 8)
            many = [_timed(lambda: crew.ask([measure] * 8)) / 8 for _ in range(repeat)]
            one = [_timed(lambda: crew.ask([measure, *[None] * 7])) for _ in range(repeat)]
            told = crew.statistics
        sent = told.bytes_sent / told.tasks
    return {"what": "overhead", "task_seconds": median(many), "latency": median(one), "task_bytes": sent}


def _timed(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def newest(found: list[Record], what: str, **fields: Any) -> Record:
    fitting = [r for r in found if r["what"] == what and all(r.get(k) == v for k, v in fields.items())]
    if not fitting:
        raise SystemExit(f"no line says {what} {fields}; measure first: --measure, --overhead, --check")
    return fitting[-1]


def cluster_costs(found: list[Record], kernel: int) -> Costs:
    """Costs by the site of this machine, and by the task of Dask."""
    told = newest(found, "overhead")
    costs = costs_from(newest(found, "costs", kernel=kernel)["costs"])
    return replace(costs, task=told["task_seconds"], task_bytes=told["task_bytes"])
