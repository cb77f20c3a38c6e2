"""How fast `dope.Exact` finds the global minimum, next to PyMaxflow, on the same integers.

    python benchmarks/exact.py                                    # all cases: about an hour
    python benchmarks/exact.py --cases photos-7 brain-5 A2h       # groups of cases, or cases
    python benchmarks/exact.py --width 16                         # capacities of 16 bits instead of what dope chooses
    python benchmarks/exact.py --cases photos-3 --no-peer         # dope alone
    python benchmarks/exact.py --curves                           # energy and bound against time, beside ADMM
    python benchmarks/exact.py --table                            # the results as tables
    python benchmarks/exact.py --docs                             # tables and figures into docs/exact_speed.md

A case is solved by dope with two threads and by PyMaxflow in turn; then by dope with one thread (7x7 photos), and cut
into 1, 2, 8, 32, 128 and 512 blocks (some cases). Every solve has a process of its own (`alone.py`), whose peak memory
is its own. The energy of all labels is computed from them in integers, and has to be the same, or the run fails.

A run takes up where another one of the same commit ended; --again measures anew. Results are added to
benchmarks/results/exact.jsonl and curves.jsonl, one JSON line per solve. `exact_cases.py` says what the cases are.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import cases
import exact_cases
import exact_tables
import lines
import numpy as np
from energies import Integers
from flow import parsed
from lines import Record
from solvers import available_bytes

RESULTS = lines.RESULTS / "exact.jsonl"
OURS, YARDSTICK = "dope", "PyMaxflow"
THREADS = 2
BLOCKS = (1, 2, 8, 32, 128, 512)
BLOCK_CASES = ("canyon-wren-3", "canyon-wren-7", "brain-5", exact_cases.HARD)
# What ADMM is cut into for the curves: the most that the paper has in 2D, and what it has for a volume in 3D.
ADMM_BLOCKS = {2: 128, 3: 64}
METHODS = ("exact", "admm", "paper")
# A small variant takes a fraction of a second: by then something hangs.
QUICK_SECONDS = 60.0
# Less than this is at hand anyway.
WORTH_TOUCHING = 1 << 28


class WrongAnswerError(Exception):
    """A solver failed, or missed the minimum."""


@dataclass(frozen=True)
class Run:
    """One solve; `width` and `blocks` as asked for, None where dope chooses."""

    case: str
    width: int | None
    solver: str = OURS
    method: str = "exact"
    threads: int = THREADS
    blocks: int | None = None
    repetition: int = 0

    @classmethod
    def of(cls, record: Record) -> Run:
        names = ("case", "width", "solver", "method", "threads", "repetition")
        return cls(**{name: record[name] for name in names}, blocks=record["blocks_asked"])


def main() -> None:
    arguments = _arguments()
    if arguments.prepare:
        print(json.dumps(_prepare(json.loads(arguments.prepare))))
    elif arguments.table or arguments.docs:
        _show(arguments)
    else:
        failed = [name for name in exact_cases.named(arguments.cases) if not _run_case(name, arguments)]
        if failed:
            raise SystemExit(f"failed: {' '.join(failed)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    names = [*exact_cases.GROUPS, *exact_cases.CASES]
    parser.add_argument("--cases", nargs="+", choices=names, default=list(exact_cases.GROUPS), metavar="NAME")
    parser.add_argument("--width", type=int, choices=(16, 32), help="bits of a capacity; by default dope chooses")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="how often dope solves; by default 3 times")
    parser.add_argument("--peer-repeat", type=int, default=1, metavar="N", help="how often PyMaxflow does; once")
    parser.add_argument("--peer", action=argparse.BooleanOptionalAction, default=True, help="PyMaxflow too")
    parser.add_argument("--blocks", nargs="*", type=int, default=list(BLOCKS), help="numbers of blocks to compare")
    parser.add_argument("--curves", action="store_true", help="record traces of Exact, Admm and Admm.paper instead")
    parser.add_argument("--again", action="store_true", help="measure also what is there already for this commit")
    parser.add_argument("--quick", action="store_true", help="small variants, to see that everything works")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE", help="where the lines are added")
    parser.add_argument("--table", action="store_true", help="print the results as tables, and run nothing")
    parser.add_argument("--docs", action="store_true", help="write tables and figures into docs, and run nothing")
    parser.add_argument("--prepare", help=argparse.SUPPRESS)
    return parsed(parser)


def _show(arguments: argparse.Namespace) -> None:
    found = lines.read(arguments.results)
    if arguments.table:
        print("\n\n".join(exact_tables.sections(found).values()))
    if arguments.docs:
        exact_tables.write_docs(found, lines.read(_curves(arguments.results)))


def _curves(results: Path) -> Path:
    return results.with_name("curves.jsonl")


def _run_case(name: str, arguments: argparse.Namespace) -> bool:
    """Measure one case and add its lines; False if something went wrong."""
    file = _curves(arguments.results) if arguments.curves else arguments.results
    commit, shown = lines.commit(), name + cases.QUICK * arguments.quick
    there = [r for r in lines.read(file) if (r["case"], r["width"], r["commit"]) == (shown, arguments.width, commit)]
    done = [] if arguments.again else [Run.of(record) for record in there]
    runs = [run for run in _plan(name, shown, arguments) if run not in done]
    if not runs:
        print(f"{shown}: all there for commit {commit}")
        return True
    with tempfile.TemporaryDirectory(prefix="dope-exact-") as folder:
        try:
            request = {"case": name, "quick": arguments.quick, "width": arguments.width, "folder": folder}
            _call(__file__, "--prepare", request)
            shared = {"commit": commit, "command": _command(name, arguments), "machine": lines.machine()}
            for record in solved(runs, Path(folder), there):
                if not arguments.curves:
                    record.pop("points", None)
                lines.append(file, [record | shared])
                there.append(record | shared)
        except cases.MissingDataError as error:
            print(f"{shown} left out: {error}", file=sys.stderr)
            return True
        except WrongAnswerError as error:
            print(f"{shown}: {error}", file=sys.stderr)
            return False
    if not arguments.curves:
        print(exact_tables.summary(there), flush=True)
    return True


def _plan(name: str, shown: str, arguments: argparse.Namespace) -> Iterator[Run]:
    """All solves of a case, dope and PyMaxflow in turn."""
    width = arguments.width
    if arguments.curves:
        blocks = ADMM_BLOCKS[3 if name.startswith("brain") else 2]
        for method in METHODS:
            yield Run(shown, width, method=method, blocks=None if method == "exact" else blocks)
        return
    for repetition in range(max(arguments.repeat, arguments.peer_repeat)):
        if repetition < arguments.repeat:
            yield Run(shown, width, repetition=repetition)
        if arguments.peer and repetition < arguments.peer_repeat and not name.endswith(exact_cases.WHOLE):
            yield Run(shown, width, YARDSTICK, threads=1, repetition=repetition)
        if repetition < arguments.repeat and name in exact_cases.GROUPS["photos-7"]:
            yield Run(shown, width, threads=1, repetition=repetition)
    if name in BLOCK_CASES:
        for number in arguments.blocks:
            yield Run(shown, width, blocks=number)


def _command(name: str, arguments: argparse.Namespace) -> str:
    words = ["python benchmarks/exact.py --cases", name]
    words += [] if arguments.width is None else ["--width", str(arguments.width)]
    words += ["--curves"] * arguments.curves + ["--quick"] * arguments.quick
    return " ".join(words)


def _prepare(request: Record) -> Record:
    """Write the model of a case, in a process of its own: learning colours takes more memory than judging labels."""
    try:
        model = exact_cases.make(request["case"], quick=request["quick"])
    except cases.MissingDataError as error:
        return {"missing": str(error)}
    model.save(Path(request["folder"]), request["width"])
    return {}


def _call(script: str, *arguments: str | Record, limit: float | None = None) -> Record:
    """What a script answers, in a process of its own, within so many seconds."""
    words = [word if isinstance(word, str) else json.dumps(word) for word in arguments]
    command = [sys.executable, script, *words]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired as error:
        raise WrongAnswerError(f"{Path(script).name} {' '.join(words)}: no answer after {limit:g} s") from error
    if done.returncode:
        raise WrongAnswerError(f"{Path(script).name} {' '.join(words)}: exit code {done.returncode}")
    answer: Record = json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else {}
    if "missing" in answer:
        raise cases.MissingDataError(answer["missing"])
    return answer


def solved(runs: Iterable[Run], folder: Path, there: list[Record]) -> Iterator[Record]:
    """A line for each run, after its labels were judged."""
    integers = Integers.load(folder, mapped=True)
    known = [r["energy"] for r in there if r["exact"]]
    for run in runs:
        reason = _refusal(run, integers)
        if reason:
            print(f"{run.case}: {run.solver} left out: {reason}", file=sys.stderr)
            yield _described(run, integers) | {"skipped": reason}
            continue
        record = _described(run, integers) | _solve(run, folder, integers)
        check(record, known, rounding_error=integers.rounding_error)
        known += [record["energy"]] * record["exact"]
        yield record


def _refusal(run: Run, integers: Integers) -> str | None:
    if run.solver == YARDSTICK and find_spec("maxflow") is None:
        return "is not installed"
    needed, available = _needed_bytes(run, integers), available_bytes()
    if available is not None and needed > available:
        return f"needs {needed / 1e9:.1f} GB, {available / 1e9:.1f} GB are available"
    return None


def _needed_bytes(run: Run, integers: Integers) -> int:
    if run.solver == YARDSTICK:
        # Two arcs of 32 bytes for a pair, a record of 48 and a number for a site, and a weight at a time.
        return 64 * integers.pairs + 64 * integers.sites
    return integers.flow_bytes


def _described(run: Run, integers: Integers) -> Record:
    """A line with what is known before the solve; what the solver answers fills in the rest."""
    of_run = asdict(run)
    of_run["blocks_asked"] = of_run.pop("blocks")
    return of_run | {
        "skipped": None,
        "shape": list(integers.shape),
        "sites": integers.sites,
        "kernel": integers.kernel,
        "neighbours": 2 * len(integers.offsets),
        "pairs": integers.pairs,
        "scale": integers.scale,
        "bits": integers.bits if run.solver == OURS else 64,
        "date": lines.now(),
        **dict.fromkeys(("version", "blocks", "seconds", "user_seconds", "system_seconds", "peak_bytes")),
        **dict.fromkeys(("energy", "foreground", "rounds", "stopped", "exact", "split")),
    }


def _solve(run: Run, folder: Path, integers: Integers) -> Record:
    """What a process of its own took and found, its energy in integers."""
    here, labels = Path(__file__).parent / "alone.py", folder / "labels.npy"
    touched = _needed_bytes(run, integers)
    if touched > WORTH_TOUCHING:
        # A virtual machine may have given free memory back to its host: fetch it before the clock runs.
        _call(str(here), {"touched_bytes": touched})
    request = asdict(run) | {"folder": str(folder), "labels": str(labels)}
    answer = _call(str(here), request, limit=QUICK_SECONDS if run.case.endswith(cases.QUICK) else None)
    found = np.load(labels)
    return (
        {"exact": True}
        | answer
        | {
            "energy": integers.energy(found),
            "foreground": round(float(found.mean()), 4),
            "bytes_per_site": None if answer["peak_bytes"] is None else round(answer["peak_bytes"] / found.size, 1),
        }
    )


def check(record: Record, known: list[int], *, rounding_error: float) -> None:
    """Refuse a solver that claims the minimum and missed it, or whose own energy is not that of its labels."""
    energy, stated = record["energy"], record.get("stated_energy")
    if stated is not None and not math.isclose(stated, energy / record["scale"], rel_tol=1e-9, abs_tol=rounding_error):
        raise WrongAnswerError(f"the labels cost {energy / record['scale']!r}, but their solver says {stated!r}")
    if record["method"] == "exact" and not record["exact"]:
        raise WrongAnswerError(f"{record['solver']} did not reach the minimum: {record['stopped']}")
    against = [least for least in known if (least != energy if record["exact"] else least > energy)]
    if against:
        raise WrongAnswerError(f"{record['solver']} found the energy {energy}, another solver {against[0]}")


if __name__ == "__main__":
    main()
