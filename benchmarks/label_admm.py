"""ADMM of several labels beside moves of everything: energy over the best bound, seconds, rounds.

    DOPE_DATA=... python benchmarks/label_admm.py tsukuba venus potts brain
    python benchmarks/label_admm.py --table

tsukuba, venus   stereo pairs, see label_cases.py; 16 blocks
potts            300^2 pixels, 6 grey levels one apart under noise of 1.5, Potts, lam 1.5; 36 blocks
brain            a network's softmax of 18 classes, the middle 48 slices of the brain, contrast of the T1; 8 blocks

    moves             minimize(energy): proofs (Potts), messages, moves
    first round       blocks alone: LabelAdmm(rounds=1, sweeps=0)
    rounds            LabelAdmm(sweeps=0)
    sweeps            LabelAdmm(rounds=1): what sweeps do without rounds
    admm              LabelAdmm()
    admm, overlap     the same, blocks grown by 10 %
    admm, messages    LabelAdmm(block="messages") with 30 rounds of LabelTrwS
    paper             LabelAdmm(penalty="all", rounds=3, sweeps=0), and mu grows by 1.05

Bounds of ADMM are switched off, as they are those of moves: messages over everything. Each run is a process of its own;
CPU seconds are those of the call. Lines go to results/label_admm.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lines
import numpy as np
from label_cases import label_case
from labels import dope_energy

import dope

FILE = lines.RESULTS / "label_admm.jsonl"
SLAB = slice(72, 120)
BLOCKS = {"tsukuba": 16, "venus": 16, "potts": 36, "brain": 8}
MESSAGES = 30


def potts() -> dope.LabelEnergy:
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 6, (30, 30)).repeat(10, 0).repeat(10, 1)
    image = truth + rng.normal(0, 1.5, truth.shape)
    return dope.LabelEnergy.grid((image[..., None] - np.arange(6)) ** 2, lam=1.5)


def brain() -> dope.LabelEnergy:
    from labels_large import scan_and_softmax

    scan, soft = scan_and_softmax()
    inside = np.argwhere(soft.argmax(axis=-1) > 0)
    box = tuple(slice(low, high + 1) for low, high in zip(inside.min(axis=0), inside.max(axis=0), strict=True))
    scan, soft = scan[box][SLAB], soft[box][SLAB]
    p = np.clip(soft / soft.sum(axis=-1, keepdims=True, dtype=np.float32), 0.001, 0.999)
    return dope.LabelEnergy.grid(-np.log(p).astype(np.float32), lam=1.0, features=scan)


CASES: dict[str, Callable[[], dope.LabelEnergy]] = {
    "tsukuba": lambda: dope_energy(label_case("tsukuba")),
    "venus": lambda: dope_energy(label_case("venus")),
    "potts": potts,
    "brain": brain,
}


def admm(energy: dope.LabelEnergy, name: str, **settings: Any) -> dope.Result:
    beside = {key: settings.pop(key) for key in ("overlap", "solver") if key in settings}
    return dope.minimize(energy, method=dope.LabelAdmm(bound=0, **settings), blocks=BLOCKS[name], **beside)


METHODS: dict[str, Callable[[dope.LabelEnergy, str], dope.Result]] = {
    "moves": lambda energy, _: dope.minimize(energy),
    "first round": lambda energy, name: admm(energy, name, rounds=1, sweeps=0),
    "rounds": lambda energy, name: admm(energy, name, sweeps=0),
    "sweeps": lambda energy, name: admm(energy, name, rounds=1),
    "admm": admm,
    "admm, overlap": lambda energy, name: admm(energy, name, overlap=0.1),
    "admm, messages": lambda energy, name: admm(energy, name, block="messages", solver=dope.LabelTrwS(rounds=MESSAGES)),
    "paper": lambda energy, name: admm(energy, name, penalty="all", rounds=3, mu_fact=1.05, patience=None, sweeps=0),
}


def measure(name: str, method: str) -> None:
    """Print what one method finds for one case."""
    energy = CASES[name]()
    METHODS[method](potts(), "potts")  # what is imported does not count
    began, busy = time.perf_counter(), time.process_time()
    result = METHODS[method](energy, name)
    seconds, used = time.perf_counter() - began, time.process_time() - busy
    rounds = len({step.mu for step in result.trace if isinstance(step, dope.LabelAdmmStep)})
    found = {"energy": result.energy, "bound": result.lower_bound, "proved": result.proved, "stopped": result.stopped}
    blocks, sites = len(result.partition.blocks), energy.pairs.sites
    sizes = {"sites": sites, "labels": energy.label_count, "blocks": blocks, "rounds": rounds or None}
    print(json.dumps({**found, **sizes, "seconds": seconds, "cpu_seconds": used}))


def run(name: str, method: str) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, str(Path(__file__)), name, "--only", method]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(records: list[lines.Record]) -> str:
    """Of each case and method the last line, beside the best bound of the case."""
    last = {(one["case"], one["method"]): one for one in records if "failed" not in one}
    rows = ["| energy | method | over the bound, % | rounds | CPU s |", "|---|---|---:|---:|---:|"]
    for name in CASES:
        bounds = [one["bound"] for (case, _), one in last.items() if case == name and one["bound"] is not None]
        for method in METHODS:
            if (one := last.get((name, method))) is not None and bounds:
                gap = 100.0 * (one["energy"] - max(bounds)) / abs(max(bounds))
                rows.append(f"| {name} | {method} | {gap:.3f} | {one['rounds'] or ''} | {one['cpu_seconds']:.1f} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []])
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--results", type=Path, default=FILE)
    parser.add_argument("--table", action="store_true", help="print the results, and run nothing")
    parser.add_argument("--only", choices=list(METHODS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        measure(args.cases[0], args.only)
        return
    if args.table:
        print(table(lines.read(args.results)))
        return
    command = " ".join(["python", "benchmarks/label_admm.py", *sys.argv[1:]])
    for name in args.cases:
        for repeat in range(args.repeats):
            for method in args.methods:
                found = {"case": name, "method": method, "repeat": repeat, **run(name, method)}
                place = {"commit": lines.commit(), "time": lines.now(), "load": lines.load()}
                lines.append(args.results, [{**found, **place, "machine": lines.machine(), "command": command}])
                print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
