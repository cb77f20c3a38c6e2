"""How close blocks come to the exact minimum on photographs: ADMM with our defaults, and as in the paper.

For every photo, kernel and overlap the energy of the colour model from strokes is minimized exactly (one block), by
`Admm()` and by `Admm.paper()` (three rounds), both over 128 blocks. lam = 20 / (sum over all the kernel's offsets of
1 / |offset|), unaries are clipped to +-10, strokes are hard constraints, and sites under strokes are left out of the
energies that are compared. Each case runs in a process of its own, so that its peak memory is its own.

    DOPE_DATA=folder python experiments/photos.py                 # all cases; those already there are skipped
    DOPE_DATA=folder python experiments/photos.py --photos canyon-wren.jpg --kernels 3 --overlaps 0 0.1
    python experiments/photos.py --table                          # the results as a table

DOPE_DATA/photos holds the photos and scribbles.json. Results are added to benchmarks/results/photos.jsonl, one JSON
line per case.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dope
from dope.io import read_image, read_scribbles
from dope.memory import peak_bytes
from dope.models import color_unary, kernel_lam, seed_unary

sys.path.append(str(Path(__file__).resolve().parent.parent / "benchmarks"))  # where results are read and written

import lines

RESULTS = lines.RESULTS / "photos.jsonl"
METHODS = {"admm": dope.Admm, "paper": dope.Admm.paper}
EXACT = "exact"
# More than the pairs of any site weigh together, which is 20 at most.
SEED_STRENGTH = 100.0

Record = lines.Record


@dataclass(frozen=True)
class Case:
    """One run; the exact one has a single block and no overlap."""

    photo: str
    kernel: int
    blocks: int
    overlap: float
    method: str
    workers: int | None


def main() -> None:
    arguments = _arguments()
    if arguments.table:
        print(table(lines.read(arguments.results)))
    elif arguments.case:
        print(json.dumps(run(Case(**json.loads(arguments.case)), Path(arguments.exact))))
    else:
        _run_all(arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--photos", nargs="+", metavar="NAME", help="file names; by default all of scribbles.json")
    parser.add_argument("--kernels", nargs="+", type=int, default=[7, 3])
    parser.add_argument("--overlaps", nargs="+", type=float, default=[0.0, 0.1, 0.25])
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--blocks", type=int, default=128)
    parser.add_argument("--workers", type=int, help="threads; by default one per core")
    parser.add_argument("--again", action="store_true", help="run also what is there already for this commit")
    parser.add_argument("--table", action="store_true", help="print the results as a table and run nothing")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE", help="where the lines are added")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--exact", help=argparse.SUPPRESS)
    return parser.parse_args()


def _run_all(arguments: argparse.Namespace) -> None:
    commit = lines.commit()
    there = [] if arguments.again else lines.read(arguments.results)
    done = {_key(record) for record in there if record["commit"] == commit}
    for photo in arguments.photos or json.loads((_photos() / "scribbles.json").read_text()):
        for kernel in arguments.kernels:
            exact = Case(photo, kernel, 1, 0.0, EXACT, arguments.workers)
            if _key(asdict(exact)) not in done or not _exact_labels(exact, commit).exists():
                _run_apart(exact, commit, arguments.results)
            for overlap in arguments.overlaps:
                for method in arguments.methods:
                    case = Case(photo, kernel, arguments.blocks, overlap, method, arguments.workers)
                    if _key(asdict(case)) not in done:
                        _run_apart(case, commit, arguments.results)


def _key(record: Record) -> tuple[Any, ...]:
    return tuple(record[name] for name in ("photo", "kernel", "blocks", "overlap", "method", "workers"))


def _run_apart(case: Case, commit: str, results: Path) -> None:
    """Run a case in a fresh process and add its line to the results."""
    print(f"{case.photo}, kernel {case.kernel}, overlap {case.overlap}, {case.method} ... ", end="", flush=True)
    exact = str(_exact_labels(case, commit))
    command = [sys.executable, __file__, "--case", json.dumps(asdict(case)), "--exact", exact]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(f"failed, exit code {done.returncode}")
        return
    measured = json.loads(done.stdout.splitlines()[-1])
    again = f"python experiments/photos.py --photos {case.photo} --kernels {case.kernel}"
    if case.method != EXACT:
        again += f" --blocks {case.blocks} --overlaps {case.overlap:g} --methods {case.method}"
    record = {"command": again, "date": lines.now(), "commit": commit, **asdict(case), **measured}
    lines.append(results, [record])
    gap = "" if case.method == EXACT else f"gap {record['gap_percent']:.4f} %, Dice {record['dice']:.4f}, "
    print(f"{gap}{record['seconds']:.1f} s, {(record['peak_bytes'] or 0) / 1e9:.2f} GB")


def run(case: Case, exact: Path) -> Record:
    """Minimize one energy and compare with the exact labels, which the exact case leaves in the file `exact`."""
    image = read_image(_photos() / case.photo)
    seeds = read_scribbles(_photos() / "scribbles.json", image.shape, photo=case.photo)
    unary = color_unary(image, seeds, clip=10.0)
    lam = kernel_lam(case.kernel, total=20.0)
    seeded = seed_unary(unary, seeds, SEED_STRENGTH)
    energy = dope.Energy.grid(seeded, lam=lam, kernel=case.kernel, features=image)
    compared = dope.Energy(np.where(seeds == 0, unary, np.float32(0)), energy.pairs)
    method = METHODS["admm" if case.method == EXACT else case.method]()
    begun = time.perf_counter()
    result = dope.minimize(
        energy, blocks=case.blocks, overlap=case.overlap, method=method, executor=dope.Threads(case.workers)
    )
    seconds = time.perf_counter() - begun
    value = compared(result.labels)
    if case.method == EXACT:
        if not result.exact:
            raise SystemExit(f"one block was not solved exactly: {result!r}")
        exact.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(exact, labels=np.packbits(result.labels), energy=value)
        best, truth = value, result.labels
    else:
        with np.load(exact) as stored:
            best = float(stored["energy"])
            truth = np.unpackbits(stored["labels"], count=result.labels.size).astype(bool).reshape(result.labels.shape)
    return {
        "sites": result.labels.size,
        "energy": value,
        "exact_energy": best,
        "gap_percent": 100 * (value - best) / abs(best),
        "dice": dice(result.labels, truth),
        "rounds": len(result.trace),
        "stopped": result.stopped,
        "disagreeing": result.trace[-1].disagreeing,
        "seeds_kept": bool(((result.labels == (seeds == 1)) | (seeds == 0)).all()),
        "rounding_error": result.rounding_error,
        "seconds": round(seconds, 3),
        "peak_bytes": peak_bytes(),
    }


def dice(labels: NDArray[np.bool_], truth: NDArray[np.bool_]) -> float:
    """2 |A and B| / (|A| + |B|); 1 where both are empty."""
    sizes = int(labels.sum()) + int(truth.sum())
    return 2 * int((labels & truth).sum()) / sizes if sizes else 1.0


def _photos() -> Path:
    folder = os.environ.get("DOPE_DATA")
    if not folder:
        raise SystemExit("DOPE_DATA is not set; it names the folder that holds photos/scribbles.json")
    return Path(folder) / "photos"


def _exact_labels(case: Case, commit: str) -> Path:
    folder = Path(tempfile.gettempdir()) / "dope-photos" / commit
    return folder / f"{Path(case.photo).stem}-{case.kernel}.npz"


def table(records: list[Record]) -> str:
    """A markdown table of the newest line of each case, and the worst of each method."""
    newest = {_key(record): record for record in records}
    exact = {(r["photo"], r["kernel"]): r for r in newest.values() if r["method"] == EXACT}
    rows: dict[tuple[Any, ...], dict[str, Record]] = {}
    for record in newest.values():
        if record["method"] != EXACT:
            place = (record["photo"], record["kernel"], record["blocks"], record["overlap"])
            rows.setdefault(place, {})[record["method"]] = record
    ours_head, paper_head = ("gap %", "Dice", "rounds", "stopped", "s", "GB"), ("gap %", "Dice", "rounds", "s", "GB")
    head = ["photo", "MP", "kernel", "blocks", "overlap", "exact energy", "exact s"]
    head += [f"`Admm()` {name}" for name in ours_head] + [f"`paper()` {name}" for name in paper_head]
    text = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for (photo, kernel, blocks, overlap), found in sorted(rows.items()):
        truth = exact.get((photo, kernel))
        ours, paper = found.get("admm"), found.get("paper")
        sites = next(iter(found.values()))["sites"]
        best = next(iter(found.values()))["exact_energy"]
        cells = [
            Path(photo).stem,
            f"{sites / 1e6:.1f}",
            f"{kernel}x{kernel}",
            str(blocks),
            f"{overlap:g}",
            f"{best:.1f}",
            f"{truth['seconds']:.1f}" if truth else "-",
            *(_cells(ours, "gap dice rounds stopped seconds peak")),
            *(_cells(paper, "gap dice rounds seconds peak")),
        ]
        text.append("| " + " | ".join(cells) + " |")
    return "\n".join([*text, "", *_summary(list(newest.values()))])


def _summary(records: list[Record]) -> list[str]:
    """The same over all photos: a row per method, kernel and overlap."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        if record["method"] != EXACT:
            groups.setdefault((record["method"], record["kernel"], record["overlap"]), []).append(record)
    rows = [
        "| method | kernel | overlap | photos | gap %, mean | median | worst | worst Dice | s per MP | bytes/site |",
        "|---|" + "---:|" * 9,
    ]
    for (method, kernel, overlap), those in sorted(groups.items()):
        gaps = [r["gap_percent"] for r in those]
        sites = sum(r["sites"] for r in those)
        cells = [
            f"`{'Admm()' if method == 'admm' else 'Admm.paper()'}`",
            f"{kernel}x{kernel}",
            f"{overlap:g}",
            str(len(those)),
            f"{np.mean(gaps):.4f}",
            f"{np.median(gaps):.4f}",
            f"{max(gaps):.4f}",
            f"{min(r['dice'] for r in those):.4f}",
            f"{1e6 * sum(r['seconds'] for r in those) / sites:.2f}",
            f"{sum(r['peak_bytes'] or 0 for r in those) / sites:.0f}",
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def _cells(record: Record | None, names: str) -> list[str]:
    if record is None:
        return ["-"] * len(names.split())
    shown = {
        "gap": f"{record['gap_percent']:.4f}",
        "dice": f"{record['dice']:.4f}",
        "rounds": str(record["rounds"]),
        "stopped": record["stopped"],
        "seconds": f"{record['seconds']:.1f}",
        "peak": f"{(record['peak_bytes'] or 0) / 1e9:.2f}",
    }
    return [shown[name] for name in names.split()]


if __name__ == "__main__":
    main()
