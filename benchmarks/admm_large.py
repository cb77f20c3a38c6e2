"""ADMM on volumes that stay in Zarr, against the same run in memory: the same trace, to the bit.

    DOPE_DATA=... python benchmarks/admm_large.py --side 256 --kernel 5 --blocks 64 --overlap 0.1 --where memory zarr
    DOPE_DATA=... python benchmarks/admm_large.py --side 128 --signed --blocks 64 --methods admm --dask local:2

The volume is that of large.py, with costs from the soft map as log-odds in float32, in Zarr arrays of 64^3 chunks. With
`--signed`, pairs at distance 1 attract, those further away repel, and LSA-TR solves the blocks. Each run is a
process of its own, watched from outside.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import large
import lines
import numpy as np

RESULTS = lines.RESULTS / "admm_large.jsonl"
CHUNK = 64
# Log-odds of the soft map are cut off there.
MOST_ODDS = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--kernel", type=int, default=5)
    parser.add_argument("--blocks", type=int, default=64)
    parser.add_argument("--overlap", type=float, default=0.1)
    parser.add_argument("--methods", nargs="+", default=["paper", "admm"], choices=["paper", "admm"])
    parser.add_argument("--rounds", type=int, help="at most so many rounds")
    parser.add_argument("--where", nargs="+", default=["memory", "zarr"], choices=["memory", "zarr"])
    parser.add_argument("--memory", default="4GB", help="what dope is allowed with arrays in Zarr")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--dask", help="an address, or local:2, instead of threads, with arrays in Zarr")
    parser.add_argument("--board", default="memory", choices=["memory", "folder"])
    parser.add_argument("--signed", action="store_true", help="repulsion beside attraction, solved by LSA-TR")
    parser.add_argument("--folder", type=Path, default=Path("build/large"), help="where the volumes are kept")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(json.loads(options.run))
        return
    files = in_zarr(options.folder, options.side)
    for method in options.methods:
        digests = {}
        for where in options.where:
            settings = {
                "files": files, "where": where, "method": method, "kernel": options.kernel, "blocks": options.blocks,
                "overlap": options.overlap, "rounds": options.rounds, "memory": options.memory,
                "workers": options.workers, "dask": options.dask, "board": options.board, "signed": options.signed,
            }  # fmt: skip
            record = {"case": f"brain-{options.side}", "side": options.side, **measured(settings)}
            digests[where] = record["trace_sha256"]
            record["command"] = " ".join(["python", *sys.argv])
            lines.append(options.results, [record])
            print(json.dumps(record), flush=True)
        if len(digests) > 1:
            print(f"{method}: {'the same trace' if len(set(digests.values())) == 1 else 'TRACES DIFFER'}", flush=True)


def in_zarr(folder: Path, side: int) -> dict[str, str]:
    """The arrays of the energy, made when they are not there yet."""
    import zarr

    plain = large.volume(folder, side)
    files = {name: str((folder / f"{name}-{side}.zarr").resolve()) for name in ("t1", "odds")}
    for name, dtype in (("t1", np.uint8), ("odds", np.float32)):
        if Path(files[name]).exists():
            continue
        source = np.load(plain["t1" if name == "t1" else "wm"], mmap_mode="r")
        temporary = f"{files[name]}.part"
        array = zarr.create_array(temporary, shape=source.shape, chunks=(CHUNK,) * 3, dtype=dtype, overwrite=True)
        for z in range(0, side, CHUNK):
            slab = np.asarray(source[z : z + CHUNK])
            array[z : z + CHUNK] = slab if name == "t1" else odds(slab)
        Path(temporary).rename(files[name])
    return files


def odds(soft: np.ndarray) -> np.ndarray:
    """What foreground costs over background where the map says so much of 255."""
    p = (soft.astype(np.float64) + 0.5) / 256.0
    return np.clip(np.log1p(-p) - np.log(p), -MOST_ODDS, MOST_ODDS).astype(np.float32)


def measured(settings: dict[str, Any]) -> dict[str, Any]:
    """What a process of its own says of its run, and the most memory that was seen from outside."""
    begun = time.perf_counter()
    command = [sys.executable, __file__, "--run", json.dumps(settings)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    watch = large.Watch(process.pid)
    watch.start()
    said, _ = process.communicate()
    watch.over.set()
    watch.join()
    if process.returncode:
        raise SystemExit(f"the run failed with exit code {process.returncode}")
    return {
        **json.loads(said.splitlines()[-1]),
        "wall_seconds": round(time.perf_counter() - begun, 1),
        "peak_bytes": watch.peak,
        "measured": lines.now(),
        "commit": lines.commit(),
        "machine": lines.machine(),
        "load": os.getloadavg()[0],
    }


def run(settings: dict[str, Any]) -> None:
    import zarr

    import dope

    stored = settings["where"] == "zarr"
    arrays = {name: zarr.open_array(path, mode="r") for name, path in settings["files"].items()}
    if not stored:
        arrays = {name: array[...] for name, array in arrays.items()}
    if settings["signed"]:
        offsets = dope.Energy.grid(np.zeros((9, 9, 9)), kernel=settings["kernel"]).pairs.offsets
        weights = np.where(np.abs(offsets).sum(axis=1) == 1, 1.0, -0.1)
        energy = dope.Energy.grid(arrays["odds"], kernel=settings["kernel"], weights=weights)
    else:
        energy = dope.Energy.grid(arrays["odds"], kernel=settings["kernel"], features=arrays["t1"], lam=1.0)
    rounds = {} if settings["rounds"] is None else {"rounds": settings["rounds"]}
    method = dope.Admm.paper(mu0=500.0, **rounds) if settings["method"] == "paper" else dope.Admm(bound=0, **rounds)
    executor: Any = dope.Dask(settings["dask"]) if stored and settings["dask"] else dope.Threads(settings["workers"])
    with tempfile.TemporaryDirectory(dir=Path(settings["files"]["t1"]).parent) as scratch:
        more: dict[str, Any] = {}
        if stored:
            out = Path(scratch) / "labels.npy"
            more["out"] = np.lib.format.open_memmap(out, mode="w+", dtype=np.bool_, shape=energy.shape)
            more["memory"] = settings["memory"]
        if stored and settings["board"] == "folder":
            more["checkpoint"] = Path(scratch) / "board"
        begun = time.perf_counter()
        result = dope.minimize(
            energy,
            method=method,
            blocks=settings["blocks"],
            overlap=settings["overlap"],
            executor=executor,
            watch=lambda step: print(step, file=sys.stderr, flush=True),
            **more,
        )
        seconds = time.perf_counter() - begun
        labels = hashlib.sha256(np.packbits(np.asarray(result.labels)).tobytes()).hexdigest()
    trace = [told(step) for step in result.trace]
    names = ("where", "method", "signed", "kernel", "overlap", "memory", "workers", "dask", "board")
    print(
        json.dumps(
            {
                **{name: settings[name] for name in names},
                "blocks": len(result.partition.blocks),
                "solver": repr(result.plan.solver),
                "in_boxes": result.plan.in_boxes,
                "planned_bytes": result.plan.bytes,
                "seconds": round(seconds, 2),
                "energy": result.energy.hex(),
                "lower_bound": None if result.lower_bound is None else result.lower_bound.hex(),
                "stopped": result.stopped,
                "energies": [step.energy.hex() for step in result.trace],
                "seconds_by_round": [round(step.seconds, 1) for step in result.trace],
                "labels_sha256": labels,
                "trace_sha256": hashlib.sha256(json.dumps([trace, labels]).encode()).hexdigest(),
            }
        )
    )


def told(step: Any) -> dict[str, Any]:
    """All that a step says but for the clock, floats to the bit."""
    names = [one.name for one in fields(step) if "large" not in one.metadata and one.name != "seconds"]
    values = {name: getattr(step, name) for name in names}
    return {name: value.hex() if isinstance(value, float) else value for name, value in values.items()}


if __name__ == "__main__":
    main()
