"""Volumes larger than memory: `dope.Bracketing` on a brain scan that is tiled to any size.

    DOPE_DATA=... python benchmarks/large.py --sides 256 512 1024 --kernel 3 --memory 7GB
    python benchmarks/large.py --docs

The scan and the network's soft map of its white matter (256^3, uint8) are mirror-tiled, cropped to begin at (77, 101,
53) so that tiles and blocks do not align, and noise of +-12 grey levels, seeded, is added to both. They lie in two NPY
files. Each run is a process of its own, watched from outside: the peak is the most that it and its children held
together.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import lines
import numpy as np
import psutil

RESULTS = lines.RESULTS / "large.jsonl"
CORNER = (77, 101, 53)
NOISE = 12
NEIGHBORS = {3: 6, 5: 32, 7: 122, 9: 256}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sides", nargs="+", type=int, default=[256, 512, 1024])
    parser.add_argument("--kernel", type=int, default=3)
    parser.add_argument("--memory", default="7GB", help="what dope is allowed")
    parser.add_argument("--blocks", type=int, nargs="+", help="blocks per axis; by default as memory allows")
    parser.add_argument("--block", type=int, help="a fixed side of blocks instead")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--dask", help="an address, or local:2, instead of threads")
    parser.add_argument("--board", action="store_true", help="what blocks leave for each other lies in a folder")
    parser.add_argument("--folder", type=Path, default=Path("build/large"), help="where the volumes are kept")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print the results, and run nothing")
    parser.add_argument("--docs", action="store_true", help="write the results into docs, and run nothing")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(json.loads(options.run))
        return
    if options.table:
        print(table(lines.read(options.results)))
        return
    if options.docs:
        write_docs(table(lines.read(options.results)))
        return
    for side in options.sides:
        files = volume(options.folder, side)
        settings = {
            "files": files,
            "kernel": options.kernel,
            "memory": options.memory,
            "blocks": [-(-side // options.block)] * 3 if options.block else options.blocks,
            "workers": options.workers,
            "dask": options.dask,
            "board": options.board,
        }
        record = measured(settings)
        record = {"case": f"brain-{side}", "side": side, **record, "command": " ".join(["python", *sys.argv])}
        lines.append(options.results, [record])
        print(json.dumps(record), flush=True)


def volume(folder: Path, side: int) -> dict[str, str]:
    """The scan and the map of this side, made when they are not there yet."""
    import nibabel

    folder.mkdir(parents=True, exist_ok=True)
    data = Path(os.environ["DOPE_DATA"]) / "mri"
    names = {"t1": "brainchop_t1_t1.nii.gz", "wm": "brainchop_t1_prob_wm_u8.nii.gz"}
    files = {}
    for number, (name, file) in enumerate(names.items()):
        path = folder / f"{name}-{side}.npy"
        files[name] = str(path.resolve())
        if path.exists():
            continue
        tile = np.asarray(nibabel.load(data / file).dataobj)
        places = [mirrored(np.arange(start, start + side), n) for start, n in zip(CORNER, tile.shape, strict=True)]
        temporary = path.with_suffix(".part.npy")
        whole = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=(side,) * 3)
        for z in range(side):
            plane = tile[places[0][z]][np.ix_(places[1], places[2])].astype(np.int16)
            rng = np.random.default_rng([number, z])
            plane += rng.integers(-NOISE, NOISE + 1, plane.shape, dtype=np.int16)
            whole[z] = np.clip(plane, 0, 255)
        whole.flush()
        del whole
        temporary.rename(path)
    return files


def mirrored(places: np.ndarray, length: int) -> np.ndarray:
    """Places in a tile that is repeated, every second time the other way round."""
    around = places % (2 * length)
    return np.where(around < length, around, 2 * length - 1 - around)


def measured(settings: dict[str, Any], *, program: str = __file__) -> dict[str, Any]:
    """What a process of its own says of its run, and the most memory that was seen from outside."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, program, "--run", json.dumps(settings)], stdout=subprocess.PIPE, text=True
    )
    watch = Watch(process.pid)
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
    }


class Watch(threading.Thread):
    """Looks ten times a second what a process and its children hold."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.peak, self.over = pid, 0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.1):
            try:
                family = [psutil.Process(self.pid), *psutil.Process(self.pid).children(recursive=True)]
            except psutil.Error:
                continue
            self.peak = max(self.peak, sum(map(_held, family)))


def _held(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def processor_seconds() -> dict[str, float]:
    """Of this process, which coordinates, of a scheduler, and of workers in processes of their own."""
    here = time.process_time()
    spent = {"coordinator": here}
    for child in psutil.Process().children(recursive=True):
        try:
            who, times = " ".join(child.cmdline()), child.cpu_times()
        except psutil.Error:
            continue
        name = "scheduler" if "scheduler" in who else "workers"
        spent[name] = spent.get(name, 0.0) + times.user + times.system
    return spent


def run(settings: dict[str, Any]) -> None:
    import dope

    files = settings["files"]
    image, soft = (np.load(files[name], mmap_mode="r") for name in ("t1", "wm"))
    target = Path(files["t1"]).with_name(f"labels-{os.getpid()}.npy")
    out = np.lib.format.open_memmap(target, mode="w+", dtype=np.bool_, shape=image.shape)
    executor = dope.Dask(settings["dask"]) if settings["dask"] else dope.Threads(settings["workers"])
    begun = time.perf_counter()
    # Processes are started, and import dope, when they are first needed.
    corner = (slice(0, 32),) * 3
    dope.segment(image[corner], probability=soft[corner], blocks=(2, 2, 2), executor=executor)
    started = time.perf_counter() - begun
    begun = time.perf_counter()
    steps: list[Any] = []
    scratch = tempfile.TemporaryDirectory(prefix="board-", dir=target.parent) if settings["board"] else None
    spent = processor_seconds()
    try:
        result = dope.segment(
            image,
            probability=soft,
            kernel=settings["kernel"],
            memory=settings["memory"],
            blocks=settings["blocks"],
            executor=executor,
            out=out,
            checkpoint=None if scratch is None else scratch.name,
            watch=lambda step: print(step, file=sys.stderr, flush=True) or steps.append(step),
        )
    finally:
        target.unlink()
    seconds = time.perf_counter() - begun
    spent = {who: round(value - spent.get(who, 0.0), 2) for who, value in processor_seconds().items()}
    if scratch is not None:
        scratch.cleanup()
    work = {"read": 0.0, "solve": 0.0, "write": 0.0}
    for step in steps:
        for task in step.tasks.done:
            work["read"] += task.read
            work["solve"] += task.solve
            work["write"] += task.write
    print(
        json.dumps(
            {
                "kernel": settings["kernel"],
                "sites": int(np.prod(image.shape)),
                "blocks": [len(cuts) + 1 for cuts in result.partition.cuts or ()],
                "memory": settings["memory"],
                "workers": settings["workers"],
                "dask": settings["dask"],
                "board": settings["board"],
                "processor_seconds": spent,
                "seconds": round(seconds, 2),
                "seconds_to_start": round(started, 2),
                "energy": result.energy,
                "lower_bound": result.lower_bound,
                "gap_percent": 100 * (result.energy - (result.lower_bound or 0)) / abs(result.energy),
                "exact": result.exact,
                "rounding_error": result.rounding_error,
                "foreground": round(result.foreground, 6),
                "stopped": result.stopped,
                "proved_by_pass": [round(step.proved, 8) for step in steps],
                "seconds_by_pass": [round(step.seconds, 2) for step in steps],
                "task_seconds": {name: round(value, 2) for name, value in work.items()},
                "bytes_sent": [step.tasks.bytes_sent for step in steps],
                "bytes_received": [step.tasks.bytes_received for step in steps],
            }
        )
    )


def table(records: list[dict[str, Any]]) -> str:
    """Of each case the newest line; of clusters at an address, whose memory was not seen, none."""
    seen = [r for r in records if r["dask"] is None or "://" not in r["dask"]]
    newest = {(r["side"], r["kernel"], r["dask"], r["workers"], tuple(r["blocks"])): r for r in seen}
    head = "| volume | neighbours | where | boxes | seconds | peak memory | open after each pass | ends |"
    rows = [_row(r) for _, r in sorted(newest.items(), key=lambda item: repr(item[0][1:3]) + f"{item[0][0]:6}")]
    return "\n".join([head, "|---|---:|---|---|---:|---:|---|---|", *rows])


def _row(r: dict[str, Any]) -> str:
    passes = r["proved_by_pass"][:-1]
    where = f"{r['workers']} threads" if r["dask"] is None else f"Dask, {r['dask']}"
    open_sites = ", ".join(f"{round((1 - p) * r['sites']):,}" for p in passes)
    end = "exact" if r["exact"] else f"gap {r['gap_percent']:.2g} %"
    boxes = " x ".join(map(str, r["blocks"]))
    memory = f"{r['peak_bytes'] / 1e9:.2f} GB"
    return (
        f"| {r['side']}^3 | {NEIGHBORS[r['kernel']]} | {where} | {boxes} | {r['seconds']:.0f} | {memory} | "
        f"{open_sites} | {end} |"
    )


def write_docs(text: str) -> None:
    page = lines.PROJECT / "docs" / "large.md"
    before, rest = page.read_text(encoding="utf-8").split("<!-- large -->\n")
    _, after = rest.split("<!-- end of large -->")
    page.write_text(f"{before}<!-- large -->\n\n{text}\n\n<!-- end of large -->{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
