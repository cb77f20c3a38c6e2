"""How fast exact minimum cuts on grids are, next to other solvers, on the same integers.

    python benchmarks/flow.py                                  # all cases, dope and all peers in turn
    python benchmarks/flow.py --cases A2e C1h --repeat 5
    python benchmarks/flow.py --peers PyMaxflow --limit 600    # fewer peers, or more patience
    python benchmarks/flow.py --table                          # the results as tables
    python benchmarks/flow.py --figure speed.png               # and as a figure
    python benchmarks/flow.py --docs                           # both into docs/speed.md, with those of warm.py
    python benchmarks/flow.py --public                         # minimize beside the core that it calls (public.py)
    python benchmarks/flow.py --public --table
    python benchmarks/flow.py --bars                           # core, minimize on all threads, and PyMaxflow

Every solve has a process of its own, which starts from ready-made arrays; dope and its peers take turns. Peak memory is
that of the process, less what it held before it began to build. Every energy is computed anew from the labels and has
to be the same, or the run fails. A peer that has solved for ten seconds in all is not asked again, and one that takes
longer than the limit is stopped (PyMaxflow, which the ratios need, is not).

A run leaves out what is there already for the same commit; --again measures anew. Results are added to
benchmarks/results/flow.jsonl, or public.jsonl, one JSON line per solve. `cases.py` says what the cases are; M5 and M7
need DOPE_DATA.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cases
import lines
import peers
import public
import solvers
import tables
from lines import Record
from peers import PEERS
from solvers import OURS, YARDSTICK, Run, Solver

from dope.memory import peak_bytes

RESULTS = lines.RESULTS / "flow.jsonl"
PUBLIC_RESULTS = lines.RESULTS / "public.jsonl"
BARS_RESULTS = lines.RESULTS / "bars.jsonl"
SOLVERS = peers.SOLVERS | public.CALLS
# A peer that rounds to float32 may miss the minimum by this much of its value.
CLOSE = 1e-3
LIMIT_SECONDS = 60.0
# Less memory than this is at hand anyway.
WORTH_TOUCHING = 1 << 28


@dataclass(frozen=True)
class Patience:
    """How often each solver is asked, and for how long.

    Who has solved for `enough` seconds in all is not asked again. A solve that takes longer than `limit`
    seconds of processor time is stopped, but for those of the `unlimited`.
    """

    repeat: int
    peer_repeat: int
    limit: float
    unlimited: tuple[str, ...] = ()
    enough: float = 10.0

    def lasts(self, solver: str, repetition: int, spent: float) -> bool:
        most = self.repeat if solver == OURS.name else self.peer_repeat
        return not repetition or (repetition < most and spent < self.enough)


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
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS, help="by default all of them")
    parser.add_argument("--peer-repeat", type=int, metavar="N", help="how often peers solve, if fewer times")
    parser.add_argument("--limit", type=float, default=LIMIT_SECONDS, metavar="SECONDS", help="for a peer's solve")
    parser.add_argument("--again", action="store_true", help="measure also what is there already for this commit")
    parser.add_argument(
        "--figure", type=Path, metavar="FILE", help="draw the results, as .svg or .png, and run nothing"
    )
    parser.add_argument("--docs", action="store_true", help="put table and figure into docs/speed.md, and run nothing")
    parser.add_argument("--public", action="store_true", help="minimize(Energy.grid(...)) beside the core, not peers")
    parser.add_argument("--bars", action="store_true", help="core, minimize as it comes and PyMaxflow, into bars.jsonl")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    if "--public" in sys.argv[1:]:
        parser.set_defaults(results=PUBLIC_RESULTS)
    if "--bars" in sys.argv[1:]:
        parser.set_defaults(results=BARS_RESULTS)
    return parsed(parser)


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments; a quick run keeps its lines apart from those that are published."""
    arguments = parser.parse_args()
    for name in ("repeat", "peer_repeat"):
        number = getattr(arguments, name, None)
        if number is not None and number < 1:
            parser.error(f"--{name.replace('_', '-')} {number}: expected 1 or more")
    if arguments.quick and arguments.results == parser.get_default("results"):
        arguments.results = Path(tempfile.mkdtemp(prefix="dope-quick-")) / arguments.results.name
        print(f"lines go to {arguments.results}", file=sys.stderr)
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
    if arguments.table and arguments.public:
        print(public.table(found))
    elif arguments.table and arguments.bars:
        print(public.bars_table(found))
    elif arguments.table:
        print("\n\n".join([tables.flow_table(found), tables.everyone_table(found), *tables.left_out(found)]))
    if arguments.figure:
        tables.figure(found, arguments.figure)
    if arguments.docs:
        tables.write_docs(found, lines.read(arguments.results.parent / "warm.jsonl"))


def _run_case(name: str, arguments: argparse.Namespace) -> bool:
    """Measure one case and add its lines; False if something went wrong."""
    commit, asked = lines.commit(), _asked(arguments)
    if not arguments.again and _there(name, asked, commit, arguments):
        print(f"{name}: all there for commit {commit}")
        return True
    shared = {"commit": commit, "date": lines.now(), "command": _command(name, arguments), "machine": lines.machine()}
    shared["load"] = lines.load()  # before it begins
    with tempfile.TemporaryDirectory(prefix="dope-flow-") as folder:
        file = str(Path(folder) / "instance.npz")
        request = {"stage": "make", "case": name, "quick": arguments.quick, "file": file, "solvers": asked}
        made = run_child(__file__, request)
        if made is None:
            return False
        if "missing" in made:
            print(f"{name} left out: {made['missing']}", file=sys.stderr)
            return True
        records = list(in_turn(file, made["abouts"], _patience(arguments)))
    records = [record | shared for record in records]
    if arguments.public:
        public.check_same(records)
    lines.append(arguments.results, records)
    show = public.table if arguments.public else public.bars_table if arguments.bars else tables.flow_summary
    print(show(records), flush=True)
    return all(any(r["solver"] == solver for r in records) for solver in asked)


def _asked(arguments: argparse.Namespace) -> list[str]:
    if arguments.public:
        return list(public.BESIDE_CORE)
    if arguments.bars:
        return [OURS.name, *(name for name in public.BESIDE_PEERS if "contrast" not in name), YARDSTICK.name]
    return [OURS.name, *arguments.peers]


def _command(name: str, arguments: argparse.Namespace) -> str:
    command = f"python benchmarks/flow.py --cases {name} --repeat {arguments.repeat}"
    if arguments.public or arguments.bars:
        return command + (" --public" if arguments.public else " --bars") + " --quick" * arguments.quick
    command += f" --peer-repeat {arguments.peer_repeat}" * (arguments.peer_repeat is not None)
    return command + f" --peers {' '.join(arguments.peers)} --limit {arguments.limit:g}" + " --quick" * arguments.quick


def _there(name: str, asked: list[str], commit: str, arguments: argparse.Namespace) -> bool:
    """Whether all of these solvers have solved this case, the first as often as asked for."""
    case = name + cases.QUICK * arguments.quick
    found = [r for r in lines.read(arguments.results) if (r["case"], r["commit"]) == (case, commit)]
    ours = [r for r in found if r["solver"] == asked[0]]
    return {r["solver"] for r in found} >= set(asked) and len(ours) >= arguments.repeat


def _patience(arguments: argparse.Namespace) -> Patience:
    if arguments.public:
        return Patience(arguments.repeat, arguments.repeat, math.inf, unlimited=tuple(public.CALLS), enough=math.inf)
    peer_repeat = arguments.repeat if arguments.peer_repeat is None else arguments.peer_repeat
    unlimited = (OURS.name, YARDSTICK.name, *public.BESIDE_PEERS)
    return Patience(arguments.repeat, peer_repeat, arguments.limit, unlimited=unlimited)


def in_turn(file: str, abouts: dict[str, Record], patience: Patience) -> Iterator[Record]:
    """Every solver in turn, again and again, as long as the patience with it lasts."""
    spent, least, ready = dict.fromkeys(abouts, 0.0), None, list(abouts)
    for repetition in range(patience.repeat):
        for solver in tuple(ready):
            if not patience.lasts(solver, repetition, spent[solver]):
                continue
            limit = None if solver in patience.unlimited else patience.limit
            record = solved(file, abouts[solver] | {"repetition": repetition}, limit=limit)
            if record is None or record["skipped"]:
                ready.remove(solver)
            else:
                spent[solver] += tables.seconds(record)
                least = record["energy"] if least is None else least
                if solver not in public.CALLS or SOLVERS[solver].exact:  # from features, weights are not rounded alike
                    check_energy(SOLVERS[solver], record["energy"], least)
            if record is not None:
                yield record


def about(instance: cases.Instance, names: list[str]) -> dict[str, Record]:
    """Of each solver a line with what is known before it solves, and why it will not, if so."""
    found = {}
    for name in names:
        known = described(instance, SOLVERS[name], 0)
        reason = solvers.refusal(SOLVERS[name], instance)
        found[name] = known | {"skipped": reason, "bytes_needed": SOLVERS[name].bytes_needed(instance)}
    return found


def solved(file: str, known: Record, *, limit: float | None) -> Record | None:
    """The line of one solve, in a process of its own; None if it went wrong."""
    if known["skipped"]:
        print(f"{known['case']}: {known['solver']} left out: {known['skipped']}", file=sys.stderr)
        return known
    touch_memory(known["bytes_needed"])
    return run_child(__file__, {"stage": "solve", "file": file, "about": known, "limit": limit})


def touch_memory(needed: int) -> None:
    """As in `solvers`, but in yet another process: the one that solves has its peak watched."""
    if needed > WORTH_TOUCHING:
        touch = json.dumps({"touched_bytes": needed})
        subprocess.run([sys.executable, str(Path(__file__).parent / "alone.py"), touch], check=False)


def run_child(script: str, request: Record) -> Record | None:
    """What a fresh process of the script answers; None, and a word about it, if it fails.

    One that a signal ended, such as the alarm of its limit, is answered for: it was left out.
    """
    command = [sys.executable, script, "--child", json.dumps(request)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode < 0 and "about" in request:
        late = -done.returncode == getattr(signal, "SIGPROF", None)
        reason = f"stopped after {request['limit']:g} s" if late else f"ended by signal {-done.returncode}"
        print(f"{request['about']['case']}: {request['about']['solver']} {reason}", file=sys.stderr)
        return {**request["about"], "skipped": reason}
    if done.returncode:
        print(f"{request.get('case', '')} {request['stage']}: exit code {done.returncode}", file=sys.stderr)
        return None
    answer: Record = json.loads(done.stdout.splitlines()[-1])
    return answer


def _child(request: Record) -> Record:
    file = Path(request["file"])
    if request["stage"] == "solve":
        solver = SOLVERS[request["about"]["solver"]]
        return request["about"] | solved_here(cases.Instance.load(file), solver, request["limit"])
    try:
        instance = cases.make(request["case"], quick=request["quick"])
    except cases.MissingDataError as error:
        return {"missing": str(error)}
    instance.save(file)
    return {"abouts": about(instance, request["solvers"])}


def solved_here(instance: cases.Instance, solver: Solver, limit: float | None) -> Record:
    """Build, solve and read; the peak is the most memory that these hold, beyond what was there before."""
    stages = solver.stages(instance, instance.unary)
    _forget_peak()
    before = peak_bytes()
    _alarm(limit)
    run = solvers.timed(stages)
    _alarm(None)
    after = peak_bytes()
    peak = None if before is None or after is None else after - before
    memory = {"peak_bytes": peak, "bytes_per_site": None if peak is None else round(peak / instance.sites, 1)}
    return outcome(instance, run) | memory | {"checksum": public.checksum(run.labels)}


def _alarm(limit: float | None) -> None:
    """Let the system end this process after so many seconds of work, in whatever code; where it cannot, never.

    Processor time: what else runs on the machine should not decide who is stopped.
    """
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, limit or 0.0)


def _forget_peak() -> None:
    """Let the peak of this process be what it holds now; where a system cannot, the earlier peak stays the base."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


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


if __name__ == "__main__":
    main()
