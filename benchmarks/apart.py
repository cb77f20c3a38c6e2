"""Hard problems over blocks that live apart: the global minimum, without a residual graph in one memory.

    python benchmarks/apart.py                                 the three hard cases beside Exact()
    python benchmarks/apart.py --dask local:2                  the same on Dask
    python benchmarks/apart.py --cases 512^3-6 --memory 3GB    from Zarr

The cases are those of `cases.Noisy` with hard unaries, at other sizes: 5 or 10 % of the log-likelihood ratio, and seed
dots as dense as 40 in the small ones. Each run is a process of its own, watched from outside. The small cases lie in
NPY files, which either method reads in its own time, and are cut into 64 blocks; the board is a folder, and no opened
block stays in memory from one visit to the next. The large ones lie in Zarr.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import lines
import numpy as np
from cases import _seed
from large import measured

RESULTS = lines.RESULTS / "apart.jsonl"

# shape, neighbours on one side of a site, lam, grain, seed dots
CASES: dict[str, tuple[tuple[int, ...], int, float, float, int]] = {
    "1500^2-4": ((1500, 1500), 4, 3000.0, 60.0, 40),
    "120^3-6": ((120, 120, 120), 6, 2000.0, 16.0, 40),
    "800^2-24": ((800, 800), 24, 1400.0, 60.0, 40),
    "256^3-6": ((256, 256, 256), 6, 2000.0, 16.0, 400),
    "512^3-6": ((512, 512, 512), 6, 2000.0, 16.0, 3100),
}
THREE = ("1500^2-4", "120^3-6", "800^2-24")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="+", default=list(THREE), choices=list(CASES))
    parser.add_argument("--blocks", type=int, default=None, help="64 for the small cases; by default as memory allows")
    parser.add_argument("--memory", default=None, help="what dope is allowed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--dask", help="an address, or local:2, instead of threads")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("build/apart"), help="where the arrays are kept")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(json.loads(options.run))
        return
    for case in options.cases:
        small = case in THREE
        files = arrays(options.folder, case)
        for turn in range(options.repeat if small else 1):
            for how in ("exact", "apart") if small else ("apart",):
                settings = {
                    "case": case,
                    "how": how,
                    "files": files,
                    "blocks": options.blocks or (64 if small else None),
                    "memory": options.memory,
                    "shelf": 0 if small else None,
                    "workers": options.workers,
                    "dask": options.dask if how == "apart" else None,
                }
                record = {**measured(settings, program=__file__), "turn": turn, "load": lines.load()}
                record["command"] = " ".join(["python", *sys.argv])
                lines.append(options.results, [record])
                print(json.dumps(record), flush=True)


def arrays(folder: Path, case: str) -> dict[str, str]:
    """The unary and the picture in files, made when they are not there yet."""
    import zarr
    from scipy.ndimage import gaussian_filter

    shape, _, _, grain, dots = CASES[case]
    suffix = "npy" if case in THREE else "zarr"
    names = {name: folder / f"{case}-{name}.{suffix}" for name in ("unary", "picture")}
    if not all(path.exists() for path in names.values()):
        folder.mkdir(parents=True, exist_ok=True)
        draw = np.random.default_rng(0)
        level = gaussian_filter(draw.standard_normal(shape, dtype=np.float32), grain)
        truth = level > np.quantile(level.ravel()[:: max(1, level.size // 10**7)], 0.65)
        del level
        picture = np.where(truth, np.float32(0.65), np.float32(0.35))
        picture += np.float32(0.3) * draw.standard_normal(shape, dtype=np.float32)
        ratio = ((picture - 0.35) ** 2 - (picture - 0.65) ** 2) / np.float32(2 * 0.3**2)
        unary = -np.rint((50 if len(shape) == 2 else 100) * ratio)
        del ratio
        _seed(unary, truth, dots=dots, draw=draw)
        chunks = tuple(min(n, 64 if len(shape) == 3 else 256) for n in shape)
        for name, array in (("unary", unary), ("picture", picture)):
            if case in THREE:
                np.save(names[name], array.astype(np.float32))
                continue
            zarr.create_array(names[name], data=array.astype(np.float32), chunks=chunks, overwrite=True)
    return {name: str(path.resolve()) for name, path in names.items()}


def posed(case: str, files: dict[str, str]) -> Any:
    """The energy of a case, whose arrays stay in their files."""
    import zarr

    import dope

    _, neighbors, lam, _, _ = CASES[case]
    kernel = {4: [[0, 1], [1, 0]], 6: 3, 24: 5}[neighbors]
    unary, picture = (
        np.load(files[name], mmap_mode="r") if case in THREE else zarr.open_array(files[name], mode="r")
        for name in ("unary", "picture")
    )
    # As in cases.py: what a site's pairs weigh together does not depend on the kernel.
    total = {4: 2.0, 6: 3.0, 24: 8.44}[neighbors]
    return dope.Energy.grid(unary, features=picture, beta=2.0, lam=lam / total, kernel=kernel)


def run(settings: dict[str, Any]) -> None:
    import dope

    exact = settings["how"] == "exact"
    energy = posed(settings["case"], settings["files"])
    executor: Any = dope.Threads(settings["workers"])
    if settings["dask"]:
        executor = dope.Dask(settings["dask"])
        dope.minimize(dope.Energy.grid(np.zeros((32, 32))), blocks=4, executor=executor)  # starts processes
    scratch = Path(tempfile.mkdtemp(prefix="board-", dir=Path(settings["files"]["unary"]).parent))
    target = scratch / "labels.npy"
    out = np.lib.format.open_memmap(target, mode="w+", dtype=np.bool_, shape=energy.shape)
    more: dict[str, Any] = {"blocks": settings["blocks"], "executor": executor, "memory": settings["memory"]}
    steps: list[Any] = []
    begun, cpu = time.perf_counter(), time.process_time()
    try:
        if exact:
            result = dope.minimize(energy, method=dope.Exact(), **more)
            out[...] = result.labels
        else:
            method = dope.Bracketing(memory=settings["shelf"])
            watch = lambda step: print(step, file=sys.stderr, flush=True) or steps.append(step)  # noqa: E731
            result = dope.minimize(energy, method=method, out=out, checkpoint=scratch / "board", watch=watch, **more)
        seconds, coordinator = time.perf_counter() - begun, time.process_time() - cpu
        import hashlib

        digest = hashlib.sha256(np.packbits(np.asarray(out)).tobytes()).hexdigest()[:16]
        board = sum(file.stat().st_size for file in (scratch / "board").rglob("*") if file.is_file())
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(
        json.dumps(
            {
                **{name: settings[name] for name in ("case", "how", "workers", "dask", "memory", "shelf")},
                "blocks": len(result.partition.blocks),
                "seconds": round(seconds, 2),
                "cpu_seconds_here": round(coordinator, 2),
                "exact": bool(result.exact),
                "energy": result.energy,
                "lower_bound": result.lower_bound,
                "labels": digest,
                "foreground": round(result.foreground, 6),
                "rounds": len(result.trace),
                "visits": sum(len(step.tasks.done) for step in steps),
                "board_bytes": board,
                "processes": os.cpu_count(),
            }
        )
    )


if __name__ == "__main__":
    main()
