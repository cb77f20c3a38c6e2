"""Several labels at the size that users have: what is proved, how long it takes, and the most memory that was held.

    DOPE_DATA=... python benchmarks/labels_large.py mni brain crop potts opengm tiled
    DOPE_DATA=... python benchmarks/labels_large.py brain --kernels 6 --blocks 1 8 64 --by grid

mni      grey and white matter, and the rest (197 x 233 x 189), of the MNI152 maps that nilearn brings, contrast of
         its T1; the same problems of two labels, one for each label, are timed in the same run
brain    a network's softmax of 18 classes (256^3, uint8, classes last), contrast of the T1; by `minimize` and `segment`
crop     the box of it that holds the brain, in whole numbers: dope beside gco-wrapper, which has expansions on a graph
tiled    the same mirrored to any side, four classes that hold the 18, from Zarr into Zarr
opengm   triplepoint4-plain-ring, a model of OpenGM's benchmark, by moves and by message passing
potts    2048^2 pixels, 8 labels: each pixel's logits are those of the truth, `signal` above the rest, under noise of 1

Costs are -log p, p between 0.001 and 0.999. Each run is a process of its own, watched from outside as in large.py.
Lines go to results/labels_large.jsonl, for label_tables.py; labels are kept in build/labels, so that runs can be
compared.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lines
import numpy as np
import numpy.typing as npt
from large import measured, mirrored

RESULTS = lines.RESULTS / "labels_large.jsonl"
FOLDER = Path("build/labels")
# The nearest 6 and 26 voxels, and all within two.
KERNELS: dict[str, Any] = {
    "6": 3,
    "26": [[*o] for o in np.ndindex(3, 3, 3) if o > (1, 1, 1)],
    "32": 5,
}
for _offset in KERNELS["26"]:
    _offset[:] = [i - 1 for i in _offset]
# Of 18 classes: background; white matter; grey matter, deep grey matter included; and what else there is in a head.
MERGED = np.array([0, 1, 2, 3, 3, 1, 2, 2, 2, 2, 2, 3, 3, 1, 2, 2, 2, 2])
SIGNALS = {"easy": 4.0, "hard": 1.5}
TILES = (77, 101, 53)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", help="mni, brain, crop, tiled, potts or opengm")
    parser.add_argument(
        "--kernels", nargs="+", default=list(KERNELS), choices=KERNELS, help="of brain and crop: neighbours"
    )
    parser.add_argument("--blocks", nargs="+", type=int, default=[1, 8, 64], help="of brain")
    parser.add_argument("--by", nargs="+", default=["grid", "segment"], help="of brain")
    parser.add_argument("--lams", nargs="+", type=float, default=[1.0])
    parser.add_argument("--sides", nargs="+", type=int, default=[512], help="of tiled")
    parser.add_argument("--memory", help="what dope is allowed; of tiled 8GB, unless said")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        settings = json.loads(options.run)
        print(json.dumps(RUNS[settings.pop("case")](**settings)))
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    for settings in wanted(options):
        commit = lines.commit()  # sources may change while this runs
        record = {**settings, **measured(settings, program=__file__), "commit": commit}
        record["command"] = " ".join(["python", "benchmarks/labels_large.py", *sys.argv[1:]])
        lines.append(options.results, [record])
        print(json.dumps(record), flush=True)


def wanted(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The settings of each run."""
    kernels, memory = options.kernels, options.memory
    runs = {
        "mni": [{"neighbors": "6", "lam": lam} for lam in options.lams],
        "brain": [
            {"neighbors": kernel, "by": by, "blocks": blocks, "memory": memory}
            for kernel, by, blocks in itertools.product(kernels, options.by, options.blocks)
        ],
        "crop": [{"neighbors": k, "solver": s} for k, s in itertools.product(kernels, CROP_SOLVERS)],
        "tiled": [{"neighbors": "6", "side": side, "memory": memory or "8GB"} for side in options.sides],
        "potts": [{"noise": noise} for noise in SIGNALS],
        "opengm": [{"solver": solver, "neighbors": "4"} for solver in ("Moves", "Messages")],
    }
    for case in options.cases:
        if case not in runs:
            raise SystemExit(f"{case} is no case; expected one of {', '.join(runs)}")
        for settings in runs[case]:
            yield {"case": case, **settings}


def mni(neighbors: str, lam: float) -> dict[str, Any]:
    import nibabel
    import nilearn.datasets

    import dope

    folder = Path(nilearn.datasets.__file__).parent / "data"
    scan, grey, white = (
        np.asarray(nibabel.load(folder / f"mni_icbm152_{name}_tal_nlin_sym_09a_converted.nii.gz").dataobj)
        for name in ("t1", "gm", "wm")
    )
    grey, white = grey / 255.0, white / 255.0
    soft = np.stack([grey, white, np.clip(1.0 - grey - white, 0.0, 1.0)], axis=-1)
    soft /= soft.sum(axis=-1, keepdims=True)
    costs = dope.models.probability_costs(soft)
    del soft
    energy = dope.LabelEnergy.grid(costs, lam=lam, kernel=KERNELS[neighbors], features=scan.astype(np.float32))
    seconds_of_cuts = []
    for label in range(3):
        # What a user does who has two labels: the unary and its energy are made, and minimized.
        begun = time.perf_counter()
        others = np.delete(costs, label, axis=-1).min(axis=-1)
        binary = dope.Energy.grid(
            costs[..., label] - others, lam=lam, kernel=KERNELS[neighbors], features=scan.astype(np.float32)
        )
        dope.minimize(binary)
        seconds_of_cuts.append(time.perf_counter() - begun)
    begun = time.perf_counter()
    result = dope.minimize(energy)
    seconds = time.perf_counter() - begun
    return {
        **told(result, seconds),
        "seconds_of_cuts": [round(s, 2) for s in seconds_of_cuts],
        "times_the_cuts": round(seconds / sum(seconds_of_cuts), 2),
        "differs_from_argmax": float((result.labels != costs.argmin(axis=-1)).mean()),
    }


def brain(neighbors: str, by: str, blocks: int, memory: str | None) -> dict[str, Any]:
    import dope

    scan, soft = scan_and_softmax()
    side = round(blocks ** (1 / 3))
    how: dict[str, Any] = {"blocks": (side,) * 3, "memory": memory}
    begun = time.perf_counter()
    if by == "grid":
        costs = dope.models.probability_costs(soft)
        energy = dope.LabelEnergy.grid(costs, lam=1.0, kernel=KERNELS[neighbors], features=scan)
        result = dope.minimize(energy, **how)
    else:
        result = dope.segment(scan, probability=soft, kernel=KERNELS[neighbors], **how)
    seconds = time.perf_counter() - begun
    labels = result.labels
    np.save(FOLDER / f"brain-{neighbors}-{by}-{blocks}.npy", labels)
    argmax = soft.argmax(axis=-1)
    head = (argmax != 0) | (labels != 0)
    return {
        **told(result, seconds),
        "differs_from_argmax": float((labels != argmax).mean()),
        "differs_in_the_head": float((labels != argmax)[head].mean()),
    }


def crop(neighbors: str, solver: str) -> dict[str, Any]:
    from dope.models import probability_costs

    scan, soft = scan_and_softmax()
    box = tuple(slice(there.min(), there.max() + 1) for there in np.nonzero(soft.argmax(axis=-1)))
    costs = np.rint(50 * probability_costs(soft[box])).astype(np.int32)
    steps = np.array(KERNELS[neighbors] if neighbors == "26" else [[0, 0, 1], [0, 1, 0], [1, 0, 0]])
    weights = [_contrast(scan[box].astype(float), step) for step in steps]
    begun, busy = time.perf_counter(), time.process_time()
    labels, found = CROP_SOLVERS[solver](costs, steps, weights)
    seconds, used = time.perf_counter() - begun, time.process_time() - busy
    energy = int(np.take_along_axis(costs, labels[..., None].astype(np.intp), -1).sum(dtype=np.int64))
    for step, weight in zip(steps, weights, strict=True):
        begin, end = _ends(step)
        energy += int(weight[begin][labels[begin] != labels[end]].sum(dtype=np.int64))
    return {
        "sites": labels.size,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(used, 2),
        "energy": energy,
        **found,
    }


def _contrast(scan: npt.NDArray[np.float64], step: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
    """Of each site and the one a step further, in fiftieths; 0 where there is none."""
    begin, end = _ends(step)
    squared = (scan[begin] - scan[end]) ** 2
    weights = np.zeros(scan.shape, dtype=np.int32)
    weights[begin] = np.rint(50 * np.exp(-squared / (2 * squared.mean())) / np.linalg.norm(step))
    return weights


def _ends(step: npt.NDArray[np.intp]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """The sites that have one a step further, and those."""
    begin = tuple(slice(max(0, -n), -n if n > 0 else None) for n in step)
    return begin, tuple(slice(max(0, n), n if n < 0 else None) for n in step)


def _crop_by_dope(costs: Any, steps: Any, weights: Any) -> tuple[Any, dict[str, Any]]:
    import dope

    result = dope.minimize(dope.LabelEnergy.grid(costs, kernel=steps, weights=weights))
    return result.labels, {
        key: told(result, 0.0)[key] for key in ("lower_bound", "gap_percent", "exact", "proved", "phases")
    }


def _crop_by_gco(costs: Any, steps: Any, weights: Any) -> tuple[Any, dict[str, Any]]:
    import gco

    number = np.arange(costs[..., 0].size, dtype=np.int32).reshape(costs.shape[:-1])
    ends = [_ends(step) for step in steps]
    edges = np.concatenate([np.stack([number[b].ravel(), number[e].ravel()], axis=1) for b, e in ends])
    weight = np.concatenate([w[b].ravel() for w, (b, _) in zip(weights, ends, strict=True)])
    table = 1 - np.eye(costs.shape[-1], dtype=np.int32)
    # Unless it is told 1, it divides whole numbers by the largest, and cuts off what is behind the point.
    costs_of = costs.reshape(-1, costs.shape[-1])
    labels = gco.cut_general_graph(edges, weight, costs_of, table, n_iter=-1, down_weight_factor=1)
    return np.asarray(labels).reshape(costs.shape[:-1]), {}


CROP_SOLVERS = {"dope": _crop_by_dope, "gco": _crop_by_gco}


def tiled(neighbors: str, side: int, memory: str) -> dict[str, Any]:
    import zarr

    import dope

    files = volumes(side)
    scan, soft = (zarr.open_array(files[name], mode="r") for name in ("t1", "softmax"))
    out = zarr.create_array(
        str(FOLDER / f"labels-{side}.zarr"), shape=scan.shape, chunks=(64,) * 3, dtype=np.uint8, overwrite=True
    )
    begun = time.perf_counter()
    result = dope.segment(
        scan, probability=soft, kernel=KERNELS[neighbors], memory=memory, out=out,
        watch=lambda step: print(f"{time.perf_counter() - begun:.0f} s: {step}", file=sys.stderr, flush=True),
    )  # fmt: skip
    return told(result, time.perf_counter() - begun)


def potts(noise: str, side: int = 2048, label_count: int = 8) -> dict[str, Any]:
    import dope

    rng = np.random.default_rng(0)
    truth = patches(side, label_count, rng)
    logits = rng.normal(0.0, 1.0, (side, side, label_count)).astype(np.float32)
    logits += np.float32(SIGNALS[noise]) * (truth[..., None] == np.arange(label_count))
    logits -= logits.max(axis=-1, keepdims=True)
    costs = np.log(np.exp(logits).sum(axis=-1, keepdims=True)) - logits
    del logits
    begun = time.perf_counter()
    result = dope.minimize(dope.LabelEnergy.grid(costs, lam=0.5))
    seconds = time.perf_counter() - begun
    return {
        **told(result, seconds),
        "argmax_wrong": float((costs.argmin(axis=-1) != truth).mean()),
        "wrong": float((result.labels != truth).mean()),
    }


def opengm(solver: str, neighbors: str) -> dict[str, Any]:
    import dope
    from dope import io

    assert neighbors == "4"
    energy = io.read_energy(Path(os.environ["DOPE_DATA"]) / "mrf" / "opengm" / "triplepoint4-plain-ring.h5")
    begun = time.perf_counter()
    result = dope.minimize(energy, method={"Moves": dope.Moves(), "Messages": dope.Messages()}[solver])
    return told(result, time.perf_counter() - begun)


RUNS = {"mni": mni, "brain": brain, "crop": crop, "tiled": tiled, "potts": potts, "opengm": opengm}


def told(result: Any, seconds: float) -> dict[str, Any]:
    labels = np.asarray(result.labels) if result.out is None else None
    bound = result.lower_bound
    phases: dict[str, float] = {}
    before = 0.0
    for step in result.trace:
        phases[step.doing] = round(phases.get(step.doing, 0.0) + step.seconds - before, 2)
        before = step.seconds
    return {
        "sites": int(np.prod(result.partition.shape)),
        "layout": [len(cuts) + 1 for cuts in result.partition.cuts or [()]],
        "in_boxes": bool(result.plan.in_boxes),
        "seconds": round(seconds, 2),
        "seconds_of_the_run": round(result.seconds, 2),
        "phases": phases,
        "energy": result.energy,
        "lower_bound": bound,
        "gap_percent": None if bound is None else 100 * (result.energy - bound) / abs(result.energy),
        "rounding_error": result.rounding_error,
        "exact": result.exact,
        "proved": result.proved,
        "open_after_cuts": next((s.open for s in reversed(result.trace) if s.doing == "prove"), None),
        "stopped": result.stopped,
        "labels_digest": None if labels is None else hashlib.sha256(np.ascontiguousarray(labels)).hexdigest()[:16],
    }


def scan_and_softmax() -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    import nibabel

    data = Path(os.environ["DOPE_DATA"]) / "mri"
    scan = np.asarray(nibabel.load(data / "brainchop_t1_t1.nii.gz").dataobj)
    soft = np.asarray(nibabel.load(data / "brainchop_t1_softmax18_u8.nii.gz").dataobj)
    return np.ascontiguousarray(scan), np.ascontiguousarray(soft)


def patches(side: int, label_count: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Labels of smooth pieces: the largest of as many random waves."""
    y, x = np.mgrid[:side, :side].astype(np.float32) / side
    best = np.full((side, side), -np.inf, dtype=np.float32)
    labels = np.zeros((side, side), dtype=np.intp)
    for label in range(label_count):
        field = np.zeros_like(best)
        for _ in range(12):
            ky, kx = rng.normal(0, 20, 2)
            field += np.cos(np.float32(ky) * y * 3 + np.float32(kx) * x * 3 + np.float32(rng.uniform(0, 7)))
        labels[field > best] = label
        np.maximum(best, field, out=best)
    return labels


def volumes(side: int) -> dict[str, str]:
    """The scan, and the four classes, of this side in Zarr, made when they are not there yet."""
    import zarr

    files = {name: str(FOLDER / f"{name}-{side}.zarr") for name in ("t1", "softmax")}
    if all(Path(name).with_suffix(".done").exists() for name in files.values()):
        return files
    scan, soft = scan_and_softmax()
    merged = np.zeros((*scan.shape, 4), dtype=np.uint16)
    for label, into in enumerate(MERGED):
        merged[..., into] += soft[..., label]
    merged = np.minimum(merged, 255).astype(np.uint8)
    del soft
    places = [mirrored(np.arange(start, start + side), n) for start, n in zip(TILES, scan.shape, strict=True)]
    for name, tile in {"t1": scan, "softmax": merged}.items():
        shape, chunks = (side,) * 3 + tile.shape[3:], (64,) * 3 + tile.shape[3:]
        whole = zarr.create_array(files[name], shape=shape, chunks=chunks, dtype=np.uint8, overwrite=True)
        for z in range(0, side, 64):
            whole[z : z + 64] = tile[np.ix_(places[0][z : z + 64], places[1], places[2])]
        Path(files[name]).with_suffix(".done").touch()
    return files


if __name__ == "__main__":
    main()
