"""How fast exact minimum cuts on grids are, next to other solvers, on the same integers.

    python benchmarks/flow.py                                  # all cases, dope and PyMaxflow in turn, three times
    python benchmarks/flow.py --cases A2e C1h --repeat 5
    python benchmarks/flow.py --cases C2h --peer-repeat 1      # a slow peer once
    python benchmarks/flow.py --cases A1e C1e --peers PyMaxflow thinmaxflow scipy numpymaxflow
    python benchmarks/flow.py --table                          # the results as a table
    python benchmarks/flow.py --figure speed.png               # and as a figure
    python benchmarks/flow.py --docs                           # both into docs/speed.md, with those of warm.py

Each case is solved in a process of its own, by dope and its peers in turn. Every energy is computed anew from the
labels and has to be the same, or the run fails. Peak memory is that of a further process for each solver, which starts
from ready-made arrays and solves once; what it held before it began to build is not counted.

Results are added to benchmarks/results/flow.jsonl, one JSON line per solve. `cases.py` says what the cases are; M5 and
M7 need DOPE_DATA.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cases
import lines
import solvers
import tables
from lines import Record
from solvers import OURS, PEERS, SOLVERS, YARDSTICK, Run, Solver

from dope.memory import peak_bytes

RESULTS = lines.RESULTS / "flow.jsonl"
# A peer that rounds to float32 may miss the minimum by this much of its value.
CLOSE = 1e-3


def main() -> None:
    arguments = _arguments()
    if arguments.child:
        print(json.dumps(_child(json.loads(arguments.child))))
    elif arguments.table or arguments.figure or arguments.docs:
        _show(arguments)
    else:
        failed = [name for name in arguments.cases if not _run_case(name, arguments)]
        if failed:
            raise SystemExit(f"failed: {' '.join(failed)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add_common_arguments(parser, RESULTS)
    parser.add_argument("--cases", nargs="+", choices=list(cases.RECIPES), default=list(cases.RECIPES))
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=[YARDSTICK.name], help="by default PyMaxflow")
    parser.add_argument("--peer-repeat", type=int, metavar="N", help="how often peers solve, if fewer times")
    parser.add_argument("--memory", action=argparse.BooleanOptionalAction, default=True, help="measure peak memory too")
    parser.add_argument(
        "--figure", type=Path, metavar="FILE", help="draw the results, as .svg or .png, and run nothing"
    )
    parser.add_argument("--docs", action="store_true", help="put table and figure into docs/speed.md, and run nothing")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parsed(parser)


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments; a quick run keeps its lines apart from those that are published."""
    arguments = parser.parse_args()
    if arguments.quick and arguments.results == parser.get_default("results"):
        arguments.results = Path(tempfile.mkdtemp(prefix="dope-quick-")) / arguments.results.name
    return arguments


def add_common_arguments(parser: argparse.ArgumentParser, results: Path) -> None:
    """What all scripts of this folder take."""
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="how often to solve; by default 3 times")
    parser.add_argument("--quick", action="store_true", help="small variants, to see that everything works")
    parser.add_argument(
        "--results",
        type=Path,
        default=results,
        metavar="FILE",
        help="where the lines are added; with --quick a temporary file",
    )
    parser.add_argument("--table", action="store_true", help="print the results as a table, and run nothing")


def _show(arguments: argparse.Namespace) -> None:
    found = lines.read(arguments.results)
    if arguments.table:
        print(tables.flow_table(found))
    if arguments.figure:
        tables.figure(found, arguments.figure)
    if arguments.docs:
        tables.write_docs(found, lines.read(arguments.results.parent / "warm.jsonl"))


def _run_case(name: str, arguments: argparse.Namespace) -> bool:
    """Measure one case and add its lines; False if something went wrong."""
    peer_repeat = arguments.repeat if arguments.peer_repeat is None else arguments.peer_repeat
    command = f"python benchmarks/flow.py --cases {name} --repeat {arguments.repeat}"
    command += f" --peer-repeat {arguments.peer_repeat}" * (arguments.peer_repeat is not None)
    command += f" --peers {' '.join(arguments.peers)}" + " --quick" * arguments.quick
    shared = {"commit": lines.commit(), "date": lines.now(), "command": command, "machine": lines.machine()}
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "instance.npz")
        timing = {"stage": "time", "case": name, "quick": arguments.quick, "file": file, "repeat": arguments.repeat}
        found = run_child(__file__, timing | {"peers": arguments.peers, "peer_repeat": peer_repeat})
        if found is None:
            return False
        if "missing" in found:
            print(f"{name} left out: {found['missing']}", file=sys.stderr)
            return True
        peaks = _peaks(found["records"], file) if arguments.memory else {}
    records = [record | shared | _memory(record, peaks) for record in found["records"]]
    lines.append(arguments.results, records)
    print(tables.flow_summary(records), flush=True)
    return None not in peaks.values()


def _peaks(records: list[Record], file: str) -> dict[str, Record | None]:
    """Peak memory of each solver that ran, measured apart; None for one that failed."""
    ran = dict.fromkeys(r["solver"] for r in records if not r["skipped"])
    return {solver: run_child(__file__, {"stage": "memory", "solver": solver, "file": file}) for solver in ran}


def _memory(record: Record, peaks: dict[str, Record | None]) -> Record:
    peak = (peaks.get(record["solver"]) or {}).get("peak_bytes")
    return {"peak_bytes": peak, "bytes_per_site": None if peak is None else round(peak / record["sites"], 1)}


def run_child(script: str, request: Record) -> Record | None:
    """What a fresh process of the script answers; None, and a word about it, if it fails."""
    command = [sys.executable, script, "--child", json.dumps(request)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(f"{request.get('case', '')} {request['stage']}: exit code {done.returncode}", file=sys.stderr)
        return None
    answer: Record = json.loads(done.stdout.splitlines()[-1])
    return answer


def _child(request: Record) -> Record:
    file = Path(request["file"])
    if request["stage"] == "memory":
        return {"peak_bytes": _peak(SOLVERS[request["solver"]], cases.Instance.load(file))}
    try:
        instance = cases.make(request["case"], quick=request["quick"])
    except cases.MissingDataError as error:
        return {"missing": str(error)}
    instance.save(file)
    return {"records": list(_time(instance, request))}


def _time(instance: cases.Instance, request: Record) -> Iterator[Record]:
    """Every solver in turn, again and again."""
    ready = []
    for name in [OURS.name, *request["peers"]]:
        reason = solvers.refusal(SOLVERS[name], instance)
        if reason:
            print(f"{instance.name}: {name} left out: {reason}", file=sys.stderr)
            yield described(instance, SOLVERS[name], 0) | {"skipped": reason}
        else:
            ready.append(SOLVERS[name])
    least = None
    for repetition in range(request["repeat"]):
        for solver in ready:
            if solver is not OURS and repetition >= request["peer_repeat"]:
                continue
            solvers.touch_memory(solver, instance)
            run = solvers.timed(solver.stages(instance, instance.unary))
            record = described(instance, solver, repetition) | outcome(instance, run)
            least = record["energy"] if least is None else least
            check_energy(solver, record["energy"], least)
            yield record


def described(instance: cases.Instance, solver: Solver, repetition: int) -> Record:
    """A line with what is known before the solve; `outcome` fills in the rest."""
    return {
        "case": instance.name,
        "solver": solver.name,
        "start": "cold",
        "change": None,
        "version": solvers.installed(solver),
        "sites": instance.sites,
        "neighbours": instance.neighbours,
        "repetition": repetition,
        "skipped": None,
        **dict.fromkeys(("bits", "build_seconds", "solve_seconds", "read_seconds", "user_seconds", "system_seconds")),
        **dict.fromkeys(("energy", "foreground", "held_bytes", "peak_bytes", "bytes_per_site")),
    }


def outcome(instance: cases.Instance, run: Run, unary: cases.Ints | None = None) -> Record:
    """What a solve took and gave. The energy is computed from the labels; a solver that says otherwise fails."""
    energy = instance.energy(run.labels, unary)
    if run.value not in (None, energy):
        raise SystemExit(f"{instance.name}: the labels cost {energy}, but their solver says {run.value}")
    rounded: dict[str, Any] = {
        name: None if seconds is None else round(seconds, 6)
        for name, seconds in (
            ("build_seconds", run.build_seconds),
            ("solve_seconds", run.solve_seconds),
            ("read_seconds", run.read_seconds),
            ("user_seconds", run.user_seconds),
            ("system_seconds", run.system_seconds),
        )
    }
    foreground = round(float(run.labels.mean()), 4)
    return rounded | {"bits": run.bits, "energy": energy, "foreground": foreground, "held_bytes": run.held_bytes}


def check_energy(solver: Solver, energy: int, least: int) -> None:
    """End everything if a solver missed the minimum."""
    allowed = 0.0 if solver.exact else CLOSE * abs(least)
    if abs(energy - least) > allowed:
        raise SystemExit(f"{solver.name} found the energy {energy}, another solver {least}")


def _peak(solver: Solver, instance: cases.Instance) -> int | None:
    """The most memory that building, solving and reading hold at once, beyond what was there before."""
    stages = solver.stages(instance, instance.unary)
    _forget_peak()
    before = peak_bytes()
    run = solvers.timed(stages)
    after = peak_bytes()
    del run
    return None if before is None or after is None else after - before


def _forget_peak() -> None:
    """Let the peak of this process be what it holds now; where a system cannot, the earlier peak stays the base."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


if __name__ == "__main__":
    main()
