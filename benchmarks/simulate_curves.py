"""All points of the figures, simulated one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lines import Record
from simulate_costs import cluster_costs, newest
from simulation import Cluster, simulated

from dope.forecast import outline_energy, plan_for_workers
from dope.memory import as_bytes

HOUR = 3600.0
MEMORY = "16GB"
# With kernels of 7 and 9, blocks whose integers have 64 bits are cut as if these had 32, and do not fit: they come back
# when plans count with the same bits everywhere.
KERNELS = (3, 5)
SIZES = (1e9, 1e10, 1e11, 1e12, 1e13)
WORKERS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)


def curves(found: list[Record]) -> Iterator[Record]:
    """All points of all figures; each says with which command it is made alone."""
    latency = newest(found, "overhead")["latency"]
    for sites in SIZES:
        for workers in WORKERS:
            yield point(found, "workers", sites, workers, latency=latency)
    for kernel in KERNELS:
        for workers in WORKERS:
            yield point(found, "kernels", 1e12, workers, kernel=kernel, latency=latency)
    for memory in ("1GB", "2GB", "4GB", "8GB", "16GB", "32GB", "64GB", "128GB"):
        yield point(found, "blocks", 1e12, 100, memory=memory, latency=latency)
    for hours in (0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1000.0):
        for kernel in KERNELS:
            yield point(found, "failures", 1e12, 1000, kernel=kernel, latency=latency, mtbf=hours * HOUR)
    for slow in (0.0, 0.01, 0.1):
        yield point(found, "stragglers", 1e12, 1000, kernel=5, latency=latency, slow=slow, slowness=3.0)


def point(
    found: list[Record],
    curve: str,
    sites: float,
    workers: int,
    *,
    kernel: int = 3,
    memory: str = MEMORY,
    **cluster: Any,
) -> Record:
    costs = cluster_costs(found, kernel)
    plan = plan_for_workers(outline_energy(cube(sites), kernel=kernel), memory=as_bytes(memory), workers=workers)
    told = simulated(plan, costs, Cluster(workers, **cluster))
    named = {"what": "simulated", "curve": curve, "about": sites, "kernel": kernel, "memory": memory}
    return {**named, **told}


def cube(sites: float) -> tuple[int, int, int]:
    side = round(sites ** (1 / 3))
    return side, side, side


def newest_points(found: list[Record], curve: str, **fields: Any) -> list[Record]:
    """The newest of each point, in the order of workers, memory and failures."""
    chosen: dict[str, Record] = {}
    for record in found:
        if all(record.get(name) == value for name, value in {"curve": curve, **fields}.items()):
            key = (record["about"], record["kernel"], record["memory"], record["cluster"])
            chosen[json.dumps(key)] = record
    return sorted(chosen.values(), key=lambda r: (r["about"], r["cluster"]["workers"], r["worker_bytes"]))
