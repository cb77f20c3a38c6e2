"""How many sites are wrong on the GrabCut images, whose truth is known, with strokes and our defaults.

Of every image the labels from its strokes are compared with the truth, without sites under strokes and without those
the truth leaves open (128). Four ways, each adding one thing to the one before:

    strokes       the automatic model of the strokes, automatic lam, one minimum
    connected     ... and only what is connected to a stroke (`connected_to_seeds`)
    again         ... and the model fitted again to those labels, `--rounds` times
    paper         for comparison: the paper's colour model, total 20, one minimum

Constants were chosen on the odd images in the order of their names (1st, 3rd, ...). The even ones were measured twice:
when the constants were fixed, and again after covariances were no longer shrunk towards balls, which was decided on odd
images with few sites under strokes.

    python experiments/grabcut.py --images DOPE_DATA/gt_grabcut                      # all images
    python experiments/grabcut.py --images DOPE_DATA/gt_grabcut --half odd --kernel 7
    python experiments/grabcut.py --table                                            # the results as a table

The folder holds images/, gt/ and scribbles1/. Results are added to benchmarks/results/grabcut.jsonl, one JSON line
per image.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dope
from dope.io import read_image
from dope.models import ColorClusters, kernel_lam

sys.path.append(str(Path(__file__).resolve().parent.parent / "benchmarks"))  # where results are read and written

import lines

RESULTS = lines.RESULTS / "grabcut.jsonl"
WAYS = ("paper", "strokes", "connected", "again")
OPEN = 128  # what the truth does not decide

Record = lines.Record
Labels = NDArray[np.bool_]


@dataclass(frozen=True)
class Settings:
    """One set for all images."""

    kernel: int
    rounds: int


@dataclass(frozen=True)
class Example:
    """An image, its strokes and its truth."""

    image: NDArray[Any]
    seeds: NDArray[Any]
    truth: NDArray[Any]


def main() -> None:
    arguments = _arguments()
    if arguments.table:
        print(table(lines.read(arguments.results)))
        return
    if arguments.images is None:
        raise SystemExit("--images is missing; it names the folder that holds images/, gt/ and scribbles1/")
    settings = Settings(arguments.kernel, arguments.rounds)
    commit = lines.commit()
    done = []
    for name, half in _names(arguments.images):
        if arguments.half in (half, "all"):
            record = {"commit": commit, "image": name, "half": half, **vars(settings)}
            record |= measured(_example(arguments.images, name), settings)
            lines.append(arguments.results, [{"date": lines.now(), **record}])
            done.append(record)
    print(table(done))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--images", type=Path, metavar="FOLDER", help="holds images/, gt/ and scribbles1/")
    parser.add_argument("--half", choices=["odd", "even", "all"], default="all", help="in the order of names")
    parser.add_argument("--kernel", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2, help="of re-estimation, at most")
    parser.add_argument("--table", action="store_true", help="print the results as a table and run nothing")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE", help="where the lines are added")
    return parser.parse_args()


def measured(example: Example, settings: Settings) -> Record:
    """The error rate of each way, and how long the last of them took."""
    errors = {}
    seconds = 0.0
    for way, arguments in ways(settings).items():
        begun = time.perf_counter()
        result = dope.segment(example.image, scribbles=example.seeds, kernel=settings.kernel, **arguments)
        seconds = time.perf_counter() - begun
        errors[way] = error_rate(result.labels, example)
    return {"sites": example.seeds.size, "errors": errors, "seconds": round(seconds, 3)}


def ways(settings: Settings) -> dict[str, dict[str, Any]]:
    """What `dope.segment` is told, each way's."""
    return {
        "paper": {"model": ColorClusters(), "lam": kernel_lam(settings.kernel, total=20.0)},
        "strokes": {},
        "connected": {"connected": True},
        "again": {"connected": True, "rounds": settings.rounds},
    }


def error_rate(labels: Labels, example: Example) -> float:
    """Wrong sites among those without a stroke that the truth decides."""
    asked = (example.seeds == 0) & (example.truth != OPEN)
    wrong = labels != (example.truth > OPEN)
    return float((wrong & asked).sum() / max(1, asked.sum()))


def _names(folder: Path) -> list[tuple[str, str]]:
    names = sorted(path.stem for path in (folder / "images").glob("*"))
    if not names:
        raise SystemExit(f"{folder}/images holds no images; expected the GrabCut set in images/, gt/ and scribbles1/")
    return [(name, "even" if k % 2 else "odd") for k, name in enumerate(names)]


def _example(folder: Path, name: str) -> Example:
    image, truth, seeds = (
        read_image(next((folder / part).glob(f"{name}.*"))) for part in ("images", "gt", "scribbles1")
    )
    return Example(image, seeds, truth)


def table(records: list[Record]) -> str:
    """A markdown table of the newest line of each image and settings, and the means of each half."""
    keys = ("image", "kernel", "rounds")
    newest = {tuple(record[key] for key in keys): record for record in records}
    rows = [
        "| image | half | kernel | " + " | ".join(f"{way} %" for way in WAYS) + " | s |",
        "|---|---|" + "---:|" * 6,
    ]
    rows += [_row(record["image"], record["half"], [record]) for record in newest.values()]
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in newest.values():
        groups.setdefault((record["half"], *(record[key] for key in keys[1:])), []).append(record)
    for (half, _, rounds), those in sorted(groups.items()):
        rows.append(_row(f"mean of {len(those)}, rounds {rounds}", half, those))
    return "\n".join(rows)


def _row(name: str, half: str, records: list[Record]) -> str:
    errors = [f"{100 * np.mean([r['errors'][way] for r in records]):.2f}" for way in WAYS]
    seconds = f"{np.mean([r['seconds'] for r in records]):.2f}"
    return "| " + " | ".join([name, half, str(records[0]["kernel"]), *errors, seconds]) + " |"


if __name__ == "__main__":
    main()
