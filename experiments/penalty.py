"""Whether another first penalty would bring the paper's ADMM nearer to the minimum, after 1, 3 and 10 rounds.

The paper's mu0 = 100 is an absolute number, and the scale of its costs is not known. So the runs of `dope paper 2d`
with 128 blocks are made once more with other penalties; all else stays as it is there.

    DOPE_DATA=folder python experiments/penalty.py                     # all; those already there are skipped
    DOPE_DATA=folder python experiments/penalty.py --photos osprey --kernels 3
    python experiments/penalty.py --docs                               # the table into docs/paper.md

Results are added to benchmarks/results/penalty.jsonl, one JSON line per run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import dope
from dope.paper.study import Study, delta_percent, dice, plane

sys.path.append(str(Path(__file__).resolve().parent.parent / "benchmarks"))  # where results are read and written

import lines
from tables import between

RESULTS = lines.RESULTS / "penalty.jsonl"
PAGE = lines.PROJECT / "docs" / "paper.md"
BLOCKS, ROUNDS = 128, 10
SHOWN_ROUNDS = (1, 3, 10)
PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
# Near to the minimum and far from it, by `dope paper 2d`.
PHOTOS = ("extreme-desert-hike", "perched-osprey")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--photos", nargs="+", default=PHOTOS, help="words in the names of photographs")
    parser.add_argument("--kernels", nargs="+", type=int, default=(3,))
    parser.add_argument(
        "--sizes", nargs="+", type=int, default=(0, 25), help="by how many percent sides of blocks grow"
    )
    parser.add_argument("--penalties", nargs="+", type=float, default=PENALTIES)
    parser.add_argument("--quick", action="store_true", help="small photographs, to see that it works")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE", help="where the lines are added")
    parser.add_argument("--docs", action="store_true", help="put the table into docs/paper.md, and run nothing")
    arguments = parser.parse_args()
    if arguments.quick and arguments.results == RESULTS:
        parser.error("--quick needs a file for its lines: --results FILE")
    if arguments.docs:
        PAGE.write_text(between(PAGE.read_text(), "penalty", table(lines.read(arguments.results))))
        return
    study = plane(quick=arguments.quick)
    for photo in [case for case in study.cases if any(word in case for word in arguments.photos)]:
        for kernel in arguments.kernels:
            there = {(r["photo"], r["kernel"], r["size"], r["mu0"]) for r in lines.read(arguments.results)}
            wanted = [(size, mu0) for size in arguments.sizes for mu0 in arguments.penalties]
            left = [(size, mu0) for size, mu0 in wanted if (photo, kernel, size, mu0) not in there]
            for record in _runs(study, photo, kernel, left) if left else ():
                lines.append(arguments.results, [record])
                print(f"{photo}, kernel {kernel}, Size_{record['size']:02}, mu0 {record['mu0']:g}: {record['delta']}")


def _runs(study: Study, photo: str, kernel: int, wanted: list[tuple[int, float]]) -> Iterator[lines.Record]:
    stated = study.state(photo, kernel, study.quick)
    energy = stated.energy()
    judged = dope.Energy(stated.judged, energy.pairs)
    exact = dope.minimize(energy).labels
    least = judged(exact)
    for size, mu0 in wanted:
        found: list[tuple[float, float]] = []

        def look(step: dope.Step, found: list[tuple[float, float]] = found) -> None:
            if step.labels is not None:
                found.append((delta_percent(judged(step.labels), least), dice(step.labels, exact)))

        method = dope.Admm.paper(mu0=mu0, rounds=ROUNDS)
        result = dope.minimize(energy, blocks=BLOCKS, overlap=size / 100, method=method, watch=look)
        best = {str(n): min(found[:n]) for n in SHOWN_ROUNDS}
        yield {
            "photo": photo,
            "kernel": kernel,
            "blocks": BLOCKS,
            "size": size,
            "mu0": mu0,
            "delta": {n: delta for n, (delta, _) in best.items()},
            "dice": {n: value for n, (_, value) in best.items()},
            "rounds": len(found),
            "stopped": result.stopped,
            "command": f"python experiments/penalty.py --photos {photo} --kernels {kernel} --sizes {size} "
            f"--penalties {mu0:g}",
            "commit": lines.commit(),
            "date": lines.now(),
        }


def table(records: list[lines.Record]) -> str:
    """Delta E of the best labels after 1, 3 and 10 rounds; a row for each photograph, kernel and size."""
    penalties = sorted({r["mu0"] for r in records})
    rows: dict[tuple[str, int, int], dict[float, str]] = {}
    for r in records:
        cell = " / ".join(f"{r['delta'][str(n)]:.2g}" for n in SHOWN_ROUNDS)
        rows.setdefault((Path(r["photo"]).stem, r["kernel"], r["size"]), {})[r["mu0"]] = cell
    head = ["photograph", "kernel", "size", *(f"mu0 = {mu0:g}" for mu0 in penalties)]
    body = [
        [photo, str(kernel), f"Size_{size:02}", *(cells.get(mu0, "-") for mu0 in penalties)]
        for (photo, kernel, size), cells in sorted(rows.items())
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *body))


if __name__ == "__main__":
    main()
