"""What runs in boxes take beside what their plan says.

    DOPE_DATA=... python benchmarks/box_memory.py --side 160 --kernels 3 5 7 9 --boxes 2 3

The volumes are those of large.py: a scan and its soft map ("brain"). Or they are noise with weak unaries ("weak"), of
which flows solve nearly everything. Each run is a process of its own. What it holds before it begins, imports and all,
is taken off its peak, and the model's share for a process off the plan.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import lines
import numpy as np
from large import NEIGHBORS, measured, volume

RESULTS = lines.RESULTS / "box_memory.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--side", type=int, default=160)
    parser.add_argument("--kernels", nargs="+", type=int, default=[3, 5, 7, 9])
    parser.add_argument("--boxes", nargs="+", type=int, default=[2, 3], help="along each axis")
    parser.add_argument("--cases", nargs="+", default=["brain", "weak"], choices=["brain", "weak"])
    parser.add_argument("--bits", type=int, help="of capacities; by default as many as the plan expects")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("build/large"), help="where the volumes are kept")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(json.loads(options.run))
        return
    for case in options.cases:
        files = volume(options.folder, options.side) if case == "brain" else noise(options.folder, options.side)
        for kernel in options.kernels:
            for boxes in options.boxes:
                settings = {"case": case, "files": files, "kernel": kernel, "boxes": boxes, "workers": options.workers}
                settings["bits"] = options.bits or (32 if kernel < 7 else 64)
                record = {**measured(settings, program=__file__), "load": lines.load()}
                record["command"] = " ".join(["python", *sys.argv])
                lines.append(options.results, [record])
                planned, taken = (f"{record[name] / 1e6:,.0f} MB" for name in ("planned_bytes", "taken_bytes"))
                what = f"{case} {NEIGHBORS[kernel]:3} neighbours, {boxes}^3 boxes of {record['bits']} bits"
                print(f"{what}: planned {planned}, taken {taken}, ratio {record['ratio']:.2f}", flush=True)


def noise(folder: Path, side: int) -> dict[str, str]:
    """A unary in a file, made when it is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"weak-{side}.npy"
    if not path.exists():
        np.save(path, np.random.default_rng(0).normal(0, 1, (side,) * 3).astype(np.float32))
    return {"unary": str(path.resolve())}


def run(settings: dict[str, Any]) -> None:
    import dope
    from dope.footprint import BOX_PROCESS_BYTES
    from dope.memory import peak_bytes

    kernel, boxes = settings["kernel"], (settings["boxes"],) * 3
    arrays = {name: np.load(file, mmap_mode="r") for name, file in settings["files"].items()}
    out = np.zeros(next(iter(arrays.values())).shape, dtype=np.bool_)
    how = {"method": dope.Bracketing(), "solver": dope.MaxFlow(settings["bits"]), "blocks": boxes}
    how["executor"] = dope.Threads(settings["workers"])
    begun = dope.minimize(dope.Energy.grid(np.ones((16, 16, 16))), method=dope.Bracketing(), blocks=8)  # imports all
    if settings["case"] == "brain":
        said = dope.Segmentation(image=arrays["t1"], probability=arrays["wm"], kernel=kernel, **how)
        plan, work = said.plan(out=out), lambda: said.run(out=out)
    else:
        # Pairs weigh so much together that boxes prove little by themselves.
        energy = dope.Energy.grid(arrays["unary"], kernel=kernel, lam=8.0 / NEIGHBORS[kernel])
        plan = dope.plan(energy, out=out, **how)
        plan = dope.plan(energy, out=out, memory=plan.bytes, **how)
        work = plan.run
    out.fill(True)  # so that its pages count as there before
    before = peak_bytes() or 0
    result = work()
    taken, planned = (peak_bytes() or 0) - before, plan.bytes - BOX_PROCESS_BYTES
    print(
        json.dumps(
            {
                **{name: settings[name] for name in ("case", "kernel", "workers")},
                "sites": plan.sites,
                "blocks": list(plan.layout),
                "bits": plan.bits,
                "planned_bytes": planned,
                "taken_bytes": taken,
                "before_bytes": before,
                "ratio": round(planned / taken, 3),
                "exact": begun.exact and result.exact,
                "seconds": round(result.seconds, 1),
                "proved_by_pass": [round(step.proved or 0.0, 6) for step in result.trace][:9],
            }
        )
    )


if __name__ == "__main__":
    main()
