"""How fast a second solve is after some unaries have changed.

    python benchmarks/warm.py                          # all cases
    python benchmarks/warm.py --cases A2h C1h --repeat 3
    python benchmarks/warm.py --no-peer                # dope alone
    python benchmarks/warm.py --table

The flow of a case is solved, the unaries are changed in a strip along one face (5 % of the sites), at 1 % of the sites
at random or on the outermost line or plane of sites, by about 20 % of their mean size (`cases.changes`; shift is the
strip again, all one way), and the flow is solved again. Beside it: a new flow, built and solved with the changed
unaries, which has to find the same energy; and PyMaxflow, which solves the case once from nothing and then each change,
flow and search trees kept.

A run leaves out what is there already for the same commit; --again measures anew. Results are added to
benchmarks/results/warm.jsonl, in the format of flow.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import cases
import lines
import solvers
import tables
from flow import add_common_arguments, check_energy, described, outcome, parsed, run_child
from lines import Record
from solvers import OURS, YARDSTICK, Stages

RESULTS = lines.RESULTS / "warm.jsonl"


def main() -> None:
    arguments = _arguments()
    if arguments.child:
        print(json.dumps(_child(json.loads(arguments.child))))
    elif arguments.table:
        print(tables.warm_table(lines.read(arguments.results)))
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
    parser.add_argument("--peer", action=argparse.BooleanOptionalAction, default=True, help="PyMaxflow too, once")
    parser.add_argument("--again", action="store_true", help="measure also what is there already for this commit")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parsed(parser)


def _run_case(name: str, arguments: argparse.Namespace) -> bool:
    commit = lines.commit()
    there = {(r["case"], r["commit"], r["repetition"]) for r in lines.read(arguments.results) if not arguments.again}
    if (name + cases.QUICK * arguments.quick, commit, arguments.repeat - 1) in there:
        print(f"{name}: all there for commit {commit}")
        return True
    command = f"python benchmarks/warm.py --cases {name} --repeat {arguments.repeat}"
    command += " --no-peer" * (not arguments.peer) + " --quick" * arguments.quick
    shared = {"commit": commit, "date": lines.now(), "command": command, "machine": lines.machine()}
    request = {"stage": "warm", "case": name, "quick": arguments.quick, "repeat": arguments.repeat}
    found = run_child(__file__, request | {"peer": arguments.peer})
    if found is None:
        return False
    if "missing" in found:
        print(f"{name} left out: {found['missing']}", file=sys.stderr)
        return True
    records = [record | shared for record in found["records"]]
    lines.append(arguments.results, records)
    print(tables.warm_table(records), flush=True)
    return True


def _child(request: Record) -> Record:
    try:
        instance = cases.make(request["case"], quick=request["quick"])
    except cases.MissingDataError as error:
        return {"missing": str(error)}
    records = []
    least: dict[str, int] = {}
    for repetition in range(request["repeat"]):
        for record in _ours(instance, repetition):
            least.setdefault(record["change"], record["energy"])
            check_energy(OURS, record["energy"], least[record["change"]])
            records.append(record)
    if request["peer"]:
        for record in _peer(instance):
            if not record["skipped"] and record["change"]:
                check_energy(YARDSTICK, record["energy"], least[record["change"]])
            records.append(record)
    return {"records": records}


def _ours(instance: cases.Instance, repetition: int) -> Iterator[Record]:
    """For every change a flow that has seen the old unaries, and a new one."""
    for name, (there, unary) in cases.changes(instance).items():
        about = described(instance, OURS, repetition) | {"change": name, "changed_sites": int(there.sum())}
        solvers.touch_memory(OURS, instance)
        stages = OURS.stages(instance, instance.unary)
        flow = stages.build()
        stages.solve(flow)
        stages.read(flow)
        run = solvers.timed(_again(stages, flow, OURS.restart(unary, there)))
        del flow
        yield about | {"start": "warm"} | outcome(instance, run, unary)
        yield about | outcome(instance, solvers.timed(OURS.stages(instance, unary)), unary)


def _peer(instance: cases.Instance) -> Iterator[Record]:
    """One graph: the old unaries, then every change and back again."""
    about = described(instance, YARDSTICK, 0)
    reason = solvers.refusal(YARDSTICK, instance)
    if reason:
        print(f"{instance.name}: {YARDSTICK.name} left out: {reason}", file=sys.stderr)
        yield about | {"skipped": reason}
        return
    stages = YARDSTICK.stages(instance, instance.unary)
    graphs: list[Any] = []
    solvers.touch_memory(YARDSTICK, instance)

    def build() -> Any:
        graphs.append(stages.build())
        return graphs[-1]

    yield about | outcome(instance, solvers.timed(replace(stages, build=build)))
    for name, (there, unary) in cases.changes(instance).items():
        change = unary - instance.unary
        again = _again(stages, graphs[0], YARDSTICK.restart(change, there))
        # A restarted graph's flow value counts from where it was built.
        run = solvers.timed(replace(again, value=lambda *_: None))
        YARDSTICK.restart(-change, there)(graphs[0])
        told = about | {"change": name, "changed_sites": int(there.sum()), "start": "warm"}
        yield told | outcome(instance, run, unary)


def _again(stages: Stages, graph: Any, solve: Callable[[Any], Any]) -> Stages:
    """The stages of a second solve: there is nothing to build."""
    return replace(stages, build=lambda: graph, solve=solve)


if __name__ == "__main__":
    main()
