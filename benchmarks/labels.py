"""Several labels: what dope finds in how long, beside others on the same integers.

    python benchmarks/labels.py tsukuba venus --repeats 3

Each run is a process of its own, as one of the others ends the interpreter on costs that are no metric. Timed is the
call that a user makes, arrays in and labels out, without what is imported; energies are plain sums of integers. Runs of
all solvers take turns. Appends a line for each run to benchmarks/results/labels.jsonl.

    dope            Moves(bound=0), until no move gains
    dope, 1 cycle   the same, each move once
    dope, 2 cycles  and twice
    dope, default   minimize(energy): bounds, too
    dope, slow      500 rounds of message passing, moves from its labels
    gco             gco-wrapper, expansions, and swaps
    fastmin         PyMaxflow's aexpansion_grid, and abswap_grid: one V for all pairs, so for cases with one weight
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from label_cases import MAKERS, LabelCase, label_case
from lines import RESULTS, append, commit, load, machine, now

FILE = RESULTS / "labels.jsonl"
SLOW_ROUNDS = 500
Found = tuple[Any, float | None]
"""Labels, and a lower bound if there is one."""


def dope_energy(case: LabelCase) -> Any:
    import dope

    kernel, weights = [[1, 0], [0, 1]], [case.down, case.right]
    return dope.LabelEnergy.grid(case.costs, kernel=kernel, weights=weights, metric=case.metric)


def by_moves(case: LabelCase, **settings: Any) -> Found:
    import dope

    result = dope.minimize(dope_energy(case), method=dope.Moves(**{"bound": 0, **settings}))
    return result.labels, result.lower_bound


def by_default(case: LabelCase) -> Found:
    import dope

    result = dope.minimize(dope_energy(case))
    return result.labels, result.lower_bound


def slowly(case: LabelCase) -> Found:
    import dope

    result = dope.minimize(dope_energy(case), method=dope.Moves(bound=SLOW_ROUNDS))
    return result.labels, result.lower_bound


def by_gco(case: LabelCase, moves: str) -> Found:
    import gco

    table = case.table.astype(np.int32)
    found = gco.cut_grid_graph(case.costs, table, case.down[:-1], case.right[:, :-1], n_iter=-1, algorithm=moves)
    return np.asarray(found).reshape(case.costs.shape[:2]), None


def by_fastmin(case: LabelCase, moves: str) -> Found:
    from maxflow import fastmin

    weights = np.unique(np.concatenate([case.down[:-1].ravel(), case.right[:, :-1].ravel()]))
    if len(weights) > 1:
        raise ValueError("weights differ, and it takes one table for all pairs")
    solve = fastmin.aexpansion_grid if moves == "expansion" else fastmin.abswap_grid
    return solve(case.costs.astype(float), case.table * float(weights[0])), None


SOLVERS: dict[str, Callable[[LabelCase], Found]] = {
    "dope": by_moves,
    "dope, 1 cycle": lambda case: by_moves(case, cycles=1),
    "dope, 2 cycles": lambda case: by_moves(case, cycles=2),
    "dope, default": by_default,
    "dope, slow": slowly,
    "gco expansion": lambda case: by_gco(case, "expansion"),
    "gco swap": lambda case: by_gco(case, "swap"),
    "fastmin expansion": lambda case: by_fastmin(case, "expansion"),
    "fastmin swap": lambda case: by_fastmin(case, "swap"),
}


def measure(name: str, solver: str) -> None:
    """Print what one solver finds for one case."""
    case = label_case(name)
    SOLVERS[solver](_small(case))  # what is imported does not count
    began, busy = time.perf_counter(), time.process_time()
    labels, bound = SOLVERS[solver](case)
    seconds, used = time.perf_counter() - began, time.process_time() - busy
    print(json.dumps({"energy": case.energy(labels), "bound": bound, "seconds": seconds, "cpu_seconds": used}))


def _small(case: LabelCase) -> LabelCase:
    corner = slice(0, 8), slice(0, 8)
    return replace(case, costs=case.costs[corner], down=case.down[corner], right=case.right[corner])


def run(name: str, solver: str, limit: float) -> dict[str, Any]:
    """The same in a process of its own; what it said last where it ends without an answer."""
    command = [sys.executable, str(Path(__file__)), name, "--only", solver]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer in {limit:g} s"}
    if done.returncode == 0:
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found
    said = [line for line in done.stderr.splitlines() if line.strip()]
    return {"failed": said[-1] if said else f"ended with {done.returncode}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", choices=sorted(MAKERS))
    parser.add_argument("--solvers", nargs="+", choices=list(SOLVERS), default=list(SOLVERS))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for each run")
    parser.add_argument("--only", choices=list(SOLVERS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        measure(args.cases[0], args.only)
        return
    for name in args.cases:
        for repeat in range(args.repeats):
            for solver in args.solvers:
                found = run(name, solver, args.limit)
                known = {"case": name, "solver": solver, "repeat": repeat}
                command = " ".join(["python", "benchmarks/labels.py", *sys.argv[1:]])
                place = {"command": command, "commit": commit(), "time": now(), "load": load(), "machine": machine()}
                append(FILE, [{**known, **found, **place}])
                print(json.dumps({**known, **found}), flush=True)


if __name__ == "__main__":
    main()
