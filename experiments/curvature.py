"""The paper's third experiment: an energy that no minimum cut minimizes, whole and over blocks.

Ink drawings under noise, denoised by squared curvature (`dope.models.curvature`), and smaller instances that others'
numbers are known for. Each energy is minimized by one solver on the whole, and by `dope.minimize` over blocks with the
same solver in each; single flips (`Icm`) polish both. Gaps are in percent of the energy of the whole, negative where
blocks found less. In the paper (Picasso's drawing) LSA-TR took 174 s for 10906, and 8 blocks 53 s for 11115, +1.9 %.

Blocks run one after the other, each timed alone. The *critical path* is what as many workers as blocks would take: the
slowest block of every round, and what the coordinator does in between. Seconds of the processor are beside those of the
clock because they do not count what else the machine does. Then the same once more with two threads, by the clock.

    DOPE_DATA=folder python experiments/curvature.py -o pictures          # all; instances already there are skipped
    DOPE_DATA=folder python experiments/curvature.py --instances dancer_ink A1 s05 --modes all --overlaps auto 0
    python experiments/curvature.py --table                               # the results as a table
    python experiments/curvature.py --docs                                # the same, into docs/signed.md

DOPE_DATA holds ink/ and nonsubmodular/. Results are added to benchmarks/results/curvature.jsonl, one JSON line per run;
pictures show what is given, the labels of the whole and those over blocks.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import dope
from dope.io import write_image
from dope.paper.cases import folder
from dope.paper.drawings import DRAWINGS, LAMS, ROOM, SMALL, Instance, ink_of, noisy_drawing, stored_instance
from dope.paper.ink import Run, run_alone, run_in_turn, run_with

sys.path.append(str(Path(__file__).resolve().parent.parent / "benchmarks"))  # where results are read and written

import lines
from tables import between

RESULTS = lines.RESULTS / "curvature.jsonl"
PAGE = lines.PROJECT / "docs" / "signed.md"
STORED = {name: f"curvature_{name}.npz" for name in SMALL} | {
    name: f"deconvolution_{name}.npz" for name in ("s05", "s10", "s20")
}
SOLVERS = ("LsaTr", "Icm")

Record = lines.Record
Labels = NDArray[np.bool_]


@dataclass(frozen=True)
class Settings:
    """How every instance is run."""

    solver: str
    blocks: int
    overlaps: tuple[int | None, ...]
    room: tuple[int, int]
    seed: int


def main() -> None:
    arguments = _arguments()
    if arguments.docs:
        PAGE.write_text(between(PAGE.read_text(), "curvature", table(lines.read(arguments.results))))
        return
    if arguments.table:
        print(table(lines.read(arguments.results)))
        return
    settings = Settings(
        arguments.solver, arguments.blocks, tuple(arguments.overlaps), tuple(arguments.room), arguments.seed
    )
    commit = lines.commit()
    there = [] if arguments.again else [r for r in lines.read(arguments.results) if r["commit"] == commit]
    for name in arguments.instances:
        for mode in arguments.modes if name not in STORED else [None]:
            if _missing(name, mode, settings, there):
                _run_one(_instance(name, mode, settings), settings, commit, arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    known = [*DRAWINGS, *STORED]
    parser.add_argument(
        "--instances", nargs="+", default=known, metavar="NAME", help=f"{', '.join(known)}, or a PNG of ink/"
    )
    parser.add_argument("--modes", nargs="+", choices=list(LAMS), default=list(LAMS), help="triples, for drawings")
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument(
        "--overlaps",
        nargs="+",
        type=lambda word: None if word == "auto" else int(word),
        default=[None],
        help="sites by which a block's side grows; auto: as dope chooses",
    )
    parser.add_argument("--solver", choices=SOLVERS, default=SOLVERS[0])
    parser.add_argument("--seed", type=int, default=0, help="of the noise on drawings")
    parser.add_argument(
        "--room", nargs=2, type=int, default=ROOM, help="short and long side to which drawings are padded"
    )
    parser.add_argument("--again", action="store_true", help="run also what is there already for this commit")
    parser.add_argument("--table", action="store_true", help="print the results as a table and run nothing")
    parser.add_argument("--docs", action="store_true", help="put the table into docs/signed.md and run nothing")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE", help="where the lines are added")
    parser.add_argument("-o", "--pictures", type=Path, metavar="FOLDER", help="where pictures are written")
    return parser.parse_args()


def _missing(name: str, mode: str | None, settings: Settings, there: list[Record]) -> bool:
    """Whether some line of this instance is not there yet."""
    places = {(1, 0)} | {(settings.blocks, overlap) for overlap in settings.overlaps}
    for record in there:
        same = record["instance"] == name and mode in (None, record["mode"])
        if same and (record["solver"], record["seed"]) == (settings.solver, settings.seed):
            places.discard((record["blocks"], record["overlap"]))
    return bool(places)


def _instance(name: str, mode: str | None, settings: Settings) -> Instance:
    if mode is None:
        return stored_instance(name, _data() / "nonsubmodular" / STORED[name])
    ink = ink_of(_data() / "ink" / f"{name}.png")
    return noisy_drawing(name, ink, mode, room=settings.room, seed=settings.seed)


def _data() -> Path:
    data = folder()
    if data is None:
        raise SystemExit("DOPE_DATA is not set; it names the folder that holds ink/ and nonsubmodular/")
    return data


def _run_one(instance: Instance, settings: Settings, commit: str, arguments: argparse.Namespace) -> None:
    """Run an instance on the whole and over blocks, add a line for each, and draw them side by side."""
    shown = [instance.picture]
    for labels, record in runs(instance, settings):
        again = f"python experiments/curvature.py --instances {instance.name} --solver {settings.solver}"
        overlaps = " ".join("auto" if overlap is None else str(overlap) for overlap in settings.overlaps)
        again += f" --blocks {settings.blocks} --overlaps {overlaps} --seed {settings.seed}"
        if instance.name not in STORED:
            again += f" --modes {instance.mode} --room {settings.room[0]} {settings.room[1]}"
        head = {"command": again, "date": lines.now(), "commit": commit, "machine": lines.machine()}
        lines.append(arguments.results, [head | record])
        print(
            f"{instance.name} {instance.mode}, {record['blocks']} blocks, overlap {record['overlap']}: energy "
            f"{record['energy']:.2f}, gap {record['gap_percent']:+.3f} % ({record['gap_of_fall_percent']:+.2f} % of "
            f"the fall), {record['seconds']:.2f} s, critical path {record['critical_seconds']:.2f} s, "
            f"2 threads {record['threads_seconds']:.2f} s",
            flush=True,
        )
        shown.append(labels.astype(np.float64))
    if arguments.pictures is not None:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
        write_image(arguments.pictures / f"{instance.name}-{instance.mode}.png", side_by_side(shown))


def runs(instance: Instance, settings: Settings) -> Iterator[tuple[Labels, Record]]:
    """Labels and measurements: first of the whole, then over blocks for every overlap."""
    solver = getattr(dope, settings.solver)()
    whole: Record = {}
    for blocks, overlap in [(1, 0), *((settings.blocks, overlap) for overlap in settings.overlaps)]:
        run, threads_seconds = _solved(instance.energy, solver, blocks, overlap)
        begun = time.perf_counter()
        polished = dope.Icm().prepare(instance.energy).minimize(instance.energy.unary, start=run.labels).labels
        record: Record = {
            "instance": instance.name,
            "mode": instance.mode,
            "lam": instance.lam,
            "seed": settings.seed,
            "solver": settings.solver,
            "settings": repr(solver),
            "blocks": blocks,
            "overlap": overlap,
            "sites": int(np.prod(instance.energy.shape)),
            "energy_before_polish": instance.energy(run.labels),
            "energy": instance.energy(polished),
            "energy_of_signs": instance.energy(instance.energy.unary < 0),
            "energy_of_clean": instance.energy(instance.clean),
            "wrong_percent": 100.0 * float((polished != instance.clean).mean()),
            **run.figures(),
            "threads_seconds": round(threads_seconds, 3),
            "polish_seconds": round(time.perf_counter() - begun, 3),
        }
        whole = whole or record
        gap, fall = record["energy"] - whole["energy"], record["energy_of_signs"] - whole["energy"]
        record["gap_percent"] = 100.0 * gap / abs(whole["energy"])
        record["gap_of_fall_percent"] = 100.0 * gap / fall
        before = whole["energy_before_polish"]
        record["gap_before_polish_percent"] = 100.0 * (record["energy_before_polish"] - before) / abs(before)
        yield polished, record


def _solved(energy: dope.Energy, solver: dope.BlockSolver, blocks: int, overlap: int | None) -> tuple[Run, float]:
    """By the solver itself, or by blocks of it; and seconds of the clock with two threads.

    The whole has but one thing to do at a time.
    """
    if blocks == 1:
        run = run_alone(energy, solver)
        return run, run.seconds
    run = run_in_turn(energy, solver, blocks, overlap)
    return run, run_with(dope.Threads(2), energy, solver, blocks, overlap).seconds


def side_by_side(pictures: Sequence[NDArray[np.float64]]) -> NDArray[np.uint8]:
    """Ink dark on white, a grey line between pictures; those that a blur made smaller stand in the middle."""
    rows, columns = (max(picture.shape[axis] for picture in pictures) for axis in (0, 1))
    out = np.full((rows, len(pictures) * (columns + 4) - 4), 0.5)
    for k, picture in enumerate(pictures):
        top, left = (rows - picture.shape[0]) // 2, k * (columns + 4) + (columns - picture.shape[1]) // 2
        out[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    return np.round(255.0 * (1.0 - np.clip(out, 0.0, 1.0))).astype(np.uint8)


def table(records: list[Record]) -> str:
    """A markdown table of the newest line of each run: the whole, and a row for blocks."""
    newest = {tuple(r[k] for k in ("instance", "mode", "solver", "seed", "blocks", "overlap")): r for r in records}
    head = ["instance", "triples", "sites", "solver", "whole", "s", "blocks", "overlap", "gap %", "% of the fall"]
    head += ["2 threads s", "critical path s", "shorter", "wrong %, whole", "wrong %, blocks"]
    text = ["| " + " | ".join(head) + " |", "|---|---|---:|---|" + "---:|" * (len(head) - 4)]
    for (name, mode, solver, seed, blocks, overlap), record in newest.items():
        whole = newest.get((name, mode, solver, seed, 1, 0))
        if blocks == 1 or whole is None:
            continue
        cells = [
            name,
            mode,
            str(record["sites"]),
            f"`{solver}()`",
            f"{whole['energy']:.2f}",
            f"{whole['seconds']:.2f}",
            str(blocks),
            "auto" if overlap is None else str(overlap),
            f"{record['gap_percent']:+.3f}",
            f"{record['gap_of_fall_percent']:+.2f}",
            f"{record['threads_seconds']:.2f}",
            f"{record['critical_seconds']:.2f}",
            f"{whole['seconds'] / record['critical_seconds']:.1f}x",
            f"{whole['wrong_percent']:.2f}",
            f"{record['wrong_percent']:.2f}",
        ]
        text.append("| " + " | ".join(cells) + " |")
    return "\n".join(text)


if __name__ == "__main__":
    main()
