"""Costs that a simulation begins with: by the site and by the task, measured here and kept as lines."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from lines import Record

from dope.forecast import Costs


def measure(kernels: Iterable[int], repeat: int) -> Iterator[Record]:
    """Costs by the site; of several measurements the one with the fastest pass 1, which others disturbed least."""
    for kernel in kernels:
        found = [Costs.measured(kernel) for _ in range(repeat)]
        fastest = replace(min(found, key=_pace), count=min(one.count for one in found))
        yield {"what": "costs", "kernel": kernel, "repeat": repeat, "costs": asdict(fastest)}


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
            sent, received = _bytes_of_blocks(executor, Path(folder))
    taken = {"task_seconds": min(many), "latency": min(one)}  # those that others disturbed least
    return {"what": "overhead", **taken, "task_bytes": sent, "summary_bytes": received}


def _bytes_of_blocks(executor: Any, folder: Path) -> tuple[float, float]:
    """Of messages and of replies, by the block, in a run over a folder; the most of any round."""
    import dope

    file = folder / "noise.npy"
    np.save(file, np.random.default_rng(0).normal(0, 1, (24, 24, 24)).astype(np.float32))
    energy = dope.Energy.grid(np.load(file, mmap_mode="r"), lam=0.02)
    method, board = dope.Bracketing(), str(folder / "board")
    result = dope.minimize(energy, blocks=(6, 6, 6), method=method, executor=executor, checkpoint=board, memory="4GB")
    told = [(step.tasks.statistics, len(step.tasks.done)) for step in result.trace if step.tasks.statistics]
    sent, received = (
        max(getattr(one, f"bytes_{what}") / number for one, number in told if number) for what in ("sent", "received")
    )
    return sent, received


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
    by_task = {"task": told["task_seconds"], "task_bytes": told["task_bytes"], "summary_bytes": told["summary_bytes"]}
    return replace(costs, **by_task)
