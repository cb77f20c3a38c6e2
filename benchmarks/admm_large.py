"""ADMM on volumes that stay in Zarr, against the same run in memory: the same trace, to the bit.

    DOPE_DATA=... python benchmarks/admm_large.py --side 256 --kernel 5 --blocks 64 --overlap 0.1 --where memory zarr
    DOPE_DATA=... python benchmarks/admm_large.py --side 512 --blocks 512 --where zarr --board folder --rounds 3
    DOPE_DATA=... python benchmarks/admm_large.py --side 64 --signed --blocks 64 --methods admm --dask local:2 \\
        --where memory zarr whole

The volume is that of large.py, with costs from the soft map as log-odds in float32, in Zarr arrays of 64^3 chunks. With
`--signed`, pairs at distance 1 attract, those further away repel, and LSA-TR solves the blocks; "whole" is then LSA-TR
of everything at once, whose energy that of the blocks is compared with. Each run is a process of its own, watched from
outside. Its rounds are lines of `rounds-*.jsonl` beside the results as soon as they are over, so that one that is cut
off is not lost; with `--board folder --keep` it goes on from there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
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
    parser.add_argument("--sweeps", type=int, help="so many sweeps, of `admm`")
    parser.add_argument("--bound", type=int, default=0, help="so many rounds of flows for a bound, of `admm`")
    parser.add_argument("--seconds", type=float, help="leave after the first round that ends later than this")
    parser.add_argument("--where", nargs="+", default=["memory", "zarr"], choices=["memory", "zarr", "whole"])
    parser.add_argument("--memory", default="4GB", help="what dope is allowed with arrays in Zarr")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--dask", help="an address, or local:2, instead of threads, with arrays in Zarr")
    parser.add_argument("--board", default="memory", choices=["memory", "folder"])
    parser.add_argument("--keep", action="store_true", help="keep the folder of the board, and go on from it")
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
        found: dict[str, dict[str, Any]] = {}
        for where in options.where:
            if where == "whole" and not options.signed:
                raise SystemExit("--where whole is for --signed: other energies have exact.py.")
            settings = {
                "files": files, "where": where, "method": method, "kernel": options.kernel, "blocks": options.blocks,
                "overlap": options.overlap, "rounds": options.rounds, "memory": options.memory,
                "workers": options.workers, "dask": options.dask, "board": options.board, "signed": options.signed,
                "sweeps": options.sweeps, "bound": options.bound, "leave_after": options.seconds,
                "kept": str(kept_in(options, method)) if options.keep else None,
                "rounds_file": str(options.results.with_name(f"rounds-{options.results.name}").resolve()),
                "case": f"brain-{options.side}",
            }  # fmt: skip
            record = {"case": f"brain-{options.side}", "side": options.side, **measured(settings)}
            found[where] = record
            record["command"] = " ".join(["python", *sys.argv])
            lines.append(options.results, [record])
            print(json.dumps(record), flush=True)
        compare(method, found)


def kept_in(options: argparse.Namespace, method: str) -> Path:
    """A folder for the board of these settings."""
    words = [method, options.side, options.kernel, options.blocks, options.overlap, options.rounds]
    words += [options.sweeps, options.bound] if method == "admm" else []
    return (options.folder / ("board-" + "-".join(map(str, words)) + ("-signed" if options.signed else ""))).resolve()


def compare(method: str, found: dict[str, dict[str, Any]]) -> None:
    """Say whether runs ended with the same trace and labels, and how far they are from the whole."""
    blocks = [one for where, one in found.items() if where != "whole"]
    if len(blocks) > 1:
        same = len({one["trace_sha256"] for one in blocks}) == 1
        print(f"{method}: {'the same trace and labels' if same else 'TRACES DIFFER'}", flush=True)
    if "whole" in found and blocks:
        whole, energy = (float.fromhex(one["energy"]) for one in (found["whole"], blocks[-1]))
        print(f"{method}: {100 * (energy - whole) / abs(whole):+.4f} % of the energy of the whole", flush=True)


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
    more: dict[str, Any] = {name: settings[name] for name in ("rounds", "sweeps") if settings[name] is not None}
    if settings["method"] == "paper":
        more.pop("sweeps", None)
        method = dope.Admm.paper(mu0=500.0, **more)
    else:
        method = dope.Admm(bound=settings["bound"], **more)
    executor: Any = dope.Dask(settings["dask"]) if stored and settings["dask"] else dope.Threads(settings["workers"])
    blocks, overlap = settings["blocks"], settings["overlap"]
    if settings["where"] == "whole":
        method, executor, blocks, overlap = dope.Admm(rounds=1, sweeps=0, bound=0), dope.Serial(), 1, 0
    with tempfile.TemporaryDirectory(dir=Path(settings["files"]["t1"]).parent) as scratch:
        more = {}
        if stored:
            out = Path(scratch) / "labels.npy"
            more["out"] = np.lib.format.open_memmap(out, mode="w+", dtype=np.bool_, shape=energy.shape)
            more["memory"] = settings["memory"]
        if stored and settings["board"] == "folder":
            kept = Path(settings["kept"] or Path(scratch) / "board")
            more["resume" if kept.exists() else "checkpoint"] = kept
        begun = time.perf_counter()
        result = dope.minimize(
            energy,
            method=method,
            blocks=blocks,
            overlap=overlap,
            executor=executor,
            watch=lambda step: told_round(step, settings),
            **more,
        )
        seconds = time.perf_counter() - begun
        labels = hashlib.sha256(np.packbits(np.asarray(result.labels)).tobytes()).hexdigest()
    trace = [told(step) for step in result.trace]
    names = ("where", "method", "signed", "kernel", "overlap", "memory", "workers", "dask", "board", "bound")
    print(
        json.dumps(
            {
                **{name: settings[name] for name in names},
                "blocks": len(result.partition.blocks),
                "solver": repr(result.plan.solver),
                "in_boxes": result.plan.in_boxes,
                "planned_bytes": result.plan.bytes,
                "seconds": round(seconds, 2),
                "cpu_seconds": round(cpu_seconds(), 1),
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


def told_round(step: Any, settings: dict[str, Any]) -> bool:
    """Write down a round that is over; whether it is time to leave."""
    from dope.steps import plain

    names = ("case", "where", "method", "signed", "kernel", "blocks", "overlap", "memory", "workers", "dask", "board")
    line = {
        **{name: settings[name] for name in names},
        **{name: told(step)[name] for name in ("round", "sweep", "energy", "disagreeing", "stopped")},
        "seconds": round(step.seconds, 1),
        "cpu_seconds": round(cpu_seconds(), 1),
        "tasks": plain(step)["tasks"],
        "measured": lines.now(),
        "commit": lines.commit(),
    }
    lines.append(Path(settings["rounds_file"]), [line])
    print(json.dumps(line), file=sys.stderr, flush=True)
    return settings["leave_after"] is not None and step.seconds > settings["leave_after"]


def cpu_seconds() -> float:
    """Of this process and of those that it has started and that are over."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def told(step: Any) -> dict[str, Any]:
    """All that a step says but for the clock and who worked, floats to the bit."""
    left_out = {"seconds", "tasks"}
    names = [one.name for one in fields(step) if "large" not in one.metadata and one.name not in left_out]
    values = {name: getattr(step, name) for name in names}
    return {name: value.hex() if isinstance(value, float) else value for name, value in values.items()}


if __name__ == "__main__":
    main()
