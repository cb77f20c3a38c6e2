"""How time and memory grow: with sites, with the kernel, with blocks, with threads.

    python benchmarks/growth.py                                 # all curves: some minutes
    python benchmarks/growth.py --curves sites-3x3 kernel-3d    # some of them
    python benchmarks/growth.py --peers PyMaxflow --limit 120   # fewer peers, or more patience
    python benchmarks/growth.py --table                         # the results as tables
    python benchmarks/overview.py                               # figures and tables into docs/benchmarks.md

The pictures are the easy ones of `cases.py`, blobs under noise, of other sizes; of blocks and threads also hard ones.

    sites-3x3, sites-7x7        0.25 to 32 and to 8 megapixels
    sites-6, sites-32           volumes of 64^3 to 256^3 and to 160^3 voxels, 6 and 32 neighbours
    kernel-2d                   700x700, 3x3 to 15x15 (8 to 224 neighbours)
    kernel-3d                   64^3, balls of radius 1 to 4 (6 to 256 neighbours)
    blocks-3x3, -7x7, -hard     `dope.Exact` with 1 to 512 blocks and two threads; hard: 4 neighbours, weak unaries
    threads                     `dope.Exact` with one thread and with two, of the same

Sites and kernels: every solve has a process and one thread of its own, in turn, as in `flow.py`. A solver that passes
the limit, or does not fit into memory, is left out of the rest of its curve. Blocks and threads: the public call, as in
`exact.py`. All energies of a point have to be the same integer.

A run takes up where another one of the same commit ended; --again measures anew. Results are added to
benchmarks/results/growth.jsonl, one JSON line per solve.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import cases
import exact
import exact_cases
import flow
import growth_tables
import lines
from cases import Noisy
from lines import Record
from peers import PEERS
from solvers import OURS

from dope.pairs import half_offsets

RESULTS = lines.RESULTS / "growth.jsonl"
LIMIT_SECONDS = 15.0
# Short solves are repeated; a peer that has taken two seconds is not.
REPEAT, ENOUGH_SECONDS = 3, 2.0
BLOCKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
QUICK_BLOCKS = (1, 4)
THREADS = (1, 2)
# Sides of the small variants.
QUICK_SIDES = {2: (24, 40), 3: (8, 12)}


@dataclass(frozen=True)
class Point:
    """A picture, and where it stands on its curve."""

    x: float
    recipe: Noisy


def _easy(side: int, offsets: cases.Ints) -> Noisy:
    """Blobs as in A1e and C1e."""
    shape = (side,) * offsets.shape[1]
    return Noisy(shape, shape, offsets, lam=300, grain=20 if len(shape) == 2 else 8)


def _hard(side: int) -> Noisy:
    shape = (side, side)
    return Noisy(shape, shape, cases.RECIPES["A1h"].offsets, lam=3000, grain=60, hard=True)


def _by_side(kernel: int, dimensions: int, sides: tuple[int, ...]) -> list[Point]:
    return [Point(float(side**dimensions), _easy(side, half_offsets(kernel, dimensions))) for side in sides]


def _by_kernel(side: int, dimensions: int, kernels: tuple[int, ...]) -> list[Point]:
    offsets = [half_offsets(kernel, dimensions) for kernel in kernels]
    return [Point(2.0 * len(those), _easy(side, those)) for those in offsets]


PEER_CURVES: dict[str, list[Point]] = {
    "sites-3x3": _by_side(3, 2, (500, 1000, 2000, 4000, 5657)),
    "sites-7x7": _by_side(7, 2, (500, 1000, 2000, 2828)),
    "sites-6": _by_side(3, 3, (64, 100, 160, 256)),
    "sites-32": _by_side(5, 3, (64, 100, 160)),
    "kernel-2d": _by_kernel(700, 2, (3, 5, 7, 9, 11, 13, 15)),
    "kernel-3d": _by_kernel(64, 3, (3, 5, 7, 9)),
}
# What is cut into blocks; threads share all of them.
CUT = {"3x3": _easy(2000, half_offsets(3, 2)), "7x7": _easy(1000, half_offsets(7, 2)), "hard": _hard(1000)}
BLOCK_CURVES = {f"blocks-{name}": recipe for name, recipe in CUT.items()}
CURVES = [*PEER_CURVES, *BLOCK_CURVES, "threads"]


def main() -> None:
    arguments = _arguments()
    if arguments.child:
        print(json.dumps(_make(json.loads(arguments.child))))
    elif arguments.table:
        print("\n\n".join(growth_tables.sections(lines.read(arguments.results)).values()))
    else:
        for curve in arguments.curves:
            _run_curve(curve, arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    flow.add_common_arguments(parser, RESULTS)
    parser.set_defaults(repeat=REPEAT)
    parser.add_argument("--curves", nargs="+", choices=CURVES, default=CURVES)
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS, help="by default all of them")
    parser.add_argument("--limit", type=float, default=LIMIT_SECONDS, metavar="SECONDS", help="for a solve")
    parser.add_argument("--most", type=float, default=float("inf"), metavar="X", help="leave out points beyond this")
    parser.add_argument("--again", action="store_true", help="measure also what is there already for this commit")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return flow.parsed(parser)


def _run_curve(curve: str, arguments: argparse.Namespace) -> None:
    commit = lines.commit()
    there = [
        r for r in lines.read(arguments.results) if (r["curve"], r["commit"]) == (_shown(curve, arguments), commit)
    ]
    there = [] if arguments.again else there
    command = f"python benchmarks/growth.py --curves {curve} --repeat {arguments.repeat} --limit {arguments.limit:g}"
    command += f" --peers {' '.join(arguments.peers)}" * (curve in PEER_CURVES) + " --quick" * arguments.quick
    command += f" --most {arguments.most:g}" * (arguments.most < float("inf"))
    shared = {"curve": _shown(curve, arguments), "commit": commit, "command": command, "machine": lines.machine()}
    shared["load"] = lines.load()  # before it begins
    measured = _with_peers if curve in PEER_CURVES else _threads if curve == "threads" else _blocks
    for record in measured(curve, there, arguments):
        lines.append(arguments.results, [record | shared])
        about = record["skipped"] or f"{record['seconds']:.3f} s"
        print(f"{curve} {record['x']:,g} {record['solver']}: {about}", flush=True)


def _shown(curve: str, arguments: argparse.Namespace) -> str:
    return curve + cases.QUICK * arguments.quick


def _with_peers(curve: str, there: list[Record], arguments: argparse.Namespace) -> Iterator[Record]:
    """All points of a curve, the smallest first."""
    given_up = {r["solver"]: r["skipped"] for r in there if r["skipped"]}
    for number, point in enumerate(_points(curve, arguments)):
        done = {r["solver"] for r in there if r["x"] == point.x}
        asked = [name for name in (OURS.name, *arguments.peers) if name not in done]
        if not asked or point.x > arguments.most:
            continue
        with tempfile.TemporaryDirectory(prefix="dope-growth-") as folder:
            file = str(Path(folder) / "instance.npz")
            request = {"stage": "make", "curve": curve, "number": number, "quick": arguments.quick, "file": file}
            made = flow.run_child(__file__, request | {"solvers": asked})
            if made is None:
                raise SystemExit(f"{curve}: no picture for {point.x:g}")
            abouts = {
                name: known | {"skipped": known["skipped"] or given_up.get(name)}
                for name, known in made["abouts"].items()
            }
            patience = flow.Patience(arguments.repeat, arguments.repeat, arguments.limit, enough=ENOUGH_SECONDS)
            for record in flow.in_turn(file, abouts, patience):
                if record["skipped"]:
                    given_up[record["solver"]] = record["skipped"]
                yield record | {"x": point.x, "date": lines.now(), "seconds": growth_tables.seconds(record)}


def _points(curve: str, arguments: argparse.Namespace) -> list[Point]:
    """The curve's points, or two small ones."""
    points = PEER_CURVES[curve]
    if not arguments.quick:
        return points
    if curve.startswith("kernel"):
        side = QUICK_SIDES[len(points[0].recipe.shape)][0]
        return [replace(point, recipe=_easy(side, point.recipe.offsets)) for point in points[:2]]
    offsets = points[0].recipe.offsets
    sides = QUICK_SIDES[offsets.shape[1]]
    return [Point(float(side ** offsets.shape[1]), _easy(side, offsets)) for side in sides]


def _make(request: Record) -> Record:
    """Write the picture of a point, in a process of its own."""
    point = _points(request["curve"], argparse.Namespace(quick=request["quick"]))[request["number"]]
    instance = point.recipe.make(f"{request['curve']} {point.x:g}", quick=False)
    instance.save(Path(request["file"]))
    return {"abouts": flow.about(instance, request["solvers"])}


def _blocks(curve: str, there: list[Record], arguments: argparse.Namespace) -> Iterator[Record]:
    numbers = [n for n in (QUICK_BLOCKS if arguments.quick else BLOCKS) if n <= arguments.most]
    runs = [exact.Run(curve, None, blocks=number) for number in numbers]
    for record in _by_exact(BLOCK_CURVES[curve], runs, there, arguments):
        yield record | {"x": float(record["blocks_asked"])}


def _threads(curve: str, there: list[Record], arguments: argparse.Namespace) -> Iterator[Record]:
    for name, recipe in CUT.items():
        case = f"{curve}-{name}"
        runs = [exact.Run(case, None, threads=t, repetition=k) for k in range(arguments.repeat) for t in THREADS]
        for record in _by_exact(recipe, runs, [r for r in there if r["case"] == case], arguments):
            yield record | {"x": float(record["threads"])}


def _by_exact(
    recipe: Noisy, runs: list[exact.Run], there: list[Record], arguments: argparse.Namespace
) -> Iterator[Record]:
    """The runs that are not there yet, each in a process of its own."""
    done = [exact.Run.of(record) for record in there]
    runs = [run for run in runs if run not in done]
    if not runs:
        return
    if arguments.quick:
        recipe = replace(recipe, shape=(32, 32), quick_shape=(32, 32), grain=2)
    with tempfile.TemporaryDirectory(prefix="dope-growth-") as folder:
        exact_cases.stated(recipe.make(runs[0].case, quick=False), unit=1000.0).save(Path(folder), None)
        try:
            for record in exact.solved(runs, Path(folder), there):
                record.pop("points", None)
                yield record
        except exact.WrongAnswerError as error:
            print(f"{runs[0].case}: {error}", file=sys.stderr)
            raise SystemExit(1) from None


if __name__ == "__main__":
    main()
