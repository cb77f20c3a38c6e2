"""How fast exact minimum cuts of graphs that are no grids are, next to other solvers, on the same integers.

    python benchmarks/sparse.py                              # all cases, dope and its peers in turn
    python benchmarks/sparse.py --cases roadse near3h --repeat 5
    python benchmarks/sparse.py --peers PyMaxflow OR-tools   # fewer peers
    python benchmarks/sparse.py --quick                      # small variants, to see that everything works
    python benchmarks/sparse.py --table                      # the results as a table

dope is `minimize(Energy.graph(unary, edges, weights))` with its defaults, from arrays to labels: checks, sorting and
the energy computed anew are part of its time. Every solve has a process of its own, which starts from ready-made
integer arrays in the form that its solver takes; dope and its peers take turns. Energies are plain sums over the labels
and have to be the same, or the run fails. A peer that has solved for ten seconds in all is not asked again, and one
that takes longer than the limit is stopped.

`sparse_cases.py` says what the cases are; regions need DOPE_DATA. A run leaves out what is there already for the same
commit; --again measures anew. Results are added to benchmarks/results/sparse.jsonl, one JSON line per solve.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import cases
import flow
import lines
import numpy as np
import peers
import solvers
import sparse_cases
import tables
from lines import Record
from solvers import Stages
from sparse_cases import Sparse

import dope

RESULTS = lines.RESULTS / "sparse.jsonl"
# Energy, sorted pairs, network and what is in between: about what dope takes at most.
BYTES_PER_PAIR = 150


class Public:
    """The call that people make."""

    name = "dope"
    package = "dope"
    exact = True

    def refusal(self, instance: Sparse) -> str | None:
        del instance
        return None

    def bytes_needed(self, instance: Sparse) -> int:
        return BYTES_PER_PAIR * instance.pairs

    def stages(self, instance: Sparse, unary: Any) -> Stages:
        edges = np.stack([instance.first, instance.second], axis=1)
        results: list[dope.Result] = []
        dope.minimize(dope.Energy.graph([1.0, -1.0], [[0, 1]], [1.0]))  # what is imported only now
        return Stages(
            build=lambda: dope.Energy.graph(unary, edges, instance.weights),
            solve=lambda energy: results.append(dope.minimize(energy)),
            read=lambda _: results[0].labels,
            value=lambda *_: int(results[0].energy),
            bits=16,
        )


class PyMaxflow:
    """PyMaxflow's GraphInt, fed from arrays. True segments are the sink's."""

    name = "PyMaxflow"
    package = "PyMaxflow"
    exact = True

    def refusal(self, instance: Sparse) -> str | None:
        del instance
        return None

    def bytes_needed(self, instance: Sparse) -> int:
        return 64 * instance.pairs + 65 * instance.sites

    def stages(self, instance: Sparse, unary: Any) -> Stages:
        import maxflow

        to_source, to_sink = solvers.terminals(unary)
        weights = instance.weights.astype(np.int64)  # anything else it copies

        def build() -> Any:
            graph = maxflow.GraphInt(instance.sites, instance.pairs)
            nodes = graph.add_nodes(instance.sites)
            graph.add_edges(instance.first, instance.second, weights, weights)
            graph.add_grid_tedges(nodes, to_source, to_sink)
            return graph, nodes

        return Stages(
            build=build,
            solve=lambda built: built[0].maxflow(),
            read=lambda built: ~built[0].get_grid_segments(built[1]),
            value=lambda _, found: int(found) + solvers.negative(unary),
            bits=64,
        )


class ThinMaxflow(peers.ThinMaxflow):
    """As it comes: fed pair by pair, however many there are."""

    def refusal(self, instance: Any) -> str | None:
        del instance
        return None


OURS, YARDSTICK = Public(), PyMaxflow()
SOLVERS: dict[str, Any] = {one.name: one for one in (OURS, YARDSTICK, ThinMaxflow(), peers.OrTools())}
PEERS = [name for name in SOLVERS if name != OURS.name]


def main() -> None:
    arguments = _arguments()
    if arguments.child:
        print(json.dumps(_child(json.loads(arguments.child))))
    elif arguments.table:
        print(table(lines.read(arguments.results)))
    else:
        failed = [name for name in arguments.cases if not _run_case(name, arguments)]
        if failed:
            raise SystemExit(f"failed: {' '.join(failed)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    flow.add_common_arguments(parser, RESULTS)
    parser.add_argument("--cases", nargs="+", choices=sparse_cases.CASES, default=sparse_cases.CASES)
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS, help="by default all of them")
    parser.add_argument("--limit", type=float, default=flow.LIMIT_SECONDS, metavar="SECONDS", help="for a peer's solve")
    parser.add_argument("--again", action="store_true", help="measure also what is there already for this commit")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return flow.parsed(parser)


def _run_case(name: str, arguments: argparse.Namespace) -> bool:
    """Measure one case and add its lines; False if something went wrong."""
    commit, asked = lines.commit(), [OURS.name, *arguments.peers]
    if not arguments.again and _there(name, asked, commit, arguments):
        print(f"{name}: all there for commit {commit}")
        return True
    command = f"python benchmarks/sparse.py --cases {name} --repeat {arguments.repeat}"
    command += f" --peers {' '.join(arguments.peers)} --limit {arguments.limit:g}" + " --quick" * arguments.quick
    shared = {"commit": commit, "date": lines.now(), "command": command, "machine": lines.machine()}
    shared["load"] = lines.load()  # before it begins
    with tempfile.TemporaryDirectory(prefix="dope-sparse-") as folder:
        file = str(Path(folder) / "instance.npz")
        run_child = partial(flow.run_child, __file__)
        made = run_child({"stage": "make", "case": name, "quick": arguments.quick, "file": file, "solvers": asked})
        if made is None:
            return False
        if "missing" in made:
            print(f"{name} left out: {made['missing']}", file=sys.stderr)
            return True
        records = [record | shared for record in _in_turn(run_child, file, made["abouts"], arguments)]
    lines.append(arguments.results, records)
    print(table(records), flush=True)
    return all(any(r["solver"] == solver for r in records) for solver in asked)


def _there(name: str, asked: list[str], commit: str, arguments: argparse.Namespace) -> bool:
    case = name + cases.QUICK * arguments.quick
    found = [r for r in lines.read(arguments.results) if (r["case"], r["commit"]) == (case, commit)]
    ours = [r for r in found if r["solver"] == OURS.name]
    return {r["solver"] for r in found} >= set(asked) and len(ours) >= arguments.repeat


def _in_turn(run_child: Any, file: str, abouts: dict[str, Record], arguments: argparse.Namespace) -> Iterable[Record]:
    """Every solver in turn, again and again, as long as the patience with it lasts."""
    patience = flow.Patience(arguments.repeat, arguments.repeat, arguments.limit, unlimited=(OURS.name,))
    spent, least, ready = dict.fromkeys(abouts, 0.0), None, list(abouts)
    for repetition in range(patience.repeat):
        for solver in tuple(ready):
            if not patience.lasts(solver, repetition, spent[solver]):
                continue
            about = abouts[solver] | {"repetition": repetition}
            limit = None if solver in patience.unlimited else patience.limit
            request = {"stage": "solve", "file": file, "about": about, "limit": limit}
            flow.touch_memory(0 if about["skipped"] else about["bytes_needed"])
            record = about if about["skipped"] else run_child(request)
            if record is None or record["skipped"]:
                ready.remove(solver)
            else:
                spent[solver] += tables.seconds(record)
                least = record["energy"] if least is None else least
                flow.check_energy(SOLVERS[solver], record["energy"], least)
            if record is not None:
                yield record


def _child(request: Record) -> Record:
    file = Path(request["file"])
    if request["stage"] == "solve":
        instance, solver = Sparse.load(file), SOLVERS[request["about"]["solver"]]
        return request["about"] | flow.solved_here(instance, solver, request["limit"])
    try:
        instance = sparse_cases.make(request["case"], quick=request["quick"])
    except cases.MissingDataError as error:
        return {"missing": str(error)}
    instance.save(file)
    abouts = {}
    for name in request["solvers"]:
        known = flow.described(instance, SOLVERS[name], 0)
        known["bytes_needed"] = SOLVERS[name].bytes_needed(instance)
        abouts[name] = known | {"skipped": solvers.refusal(SOLVERS[name], instance), "pairs": instance.pairs}
    return {"abouts": abouts}


def table(records: Iterable[Record]) -> str:
    """Seconds from arrays to labels, medians, and how many times as long the best peer took."""
    head = ["case", "sites", "pairs", *SOLVERS, "times as fast as the best of them"]
    rows = []
    for case, found in tables.newest(records, sparse_cases.CASES).items():
        medians = {name: _median(found, name) for name in SOLVERS}
        peers_found = [seconds for name, seconds in medians.items() if name != OURS.name and seconds is not None]
        ours, first = medians[OURS.name], found[0]
        ratio = min(peers_found) / ours if ours and peers_found else None
        cells = [tables.number(seconds, ".3f") for seconds in medians.values()]
        rows.append([case, f"{first['sites']:,}", f"{first['pairs']:,}", *cells, tables.number(ratio, ".1f")])
    return tables.markdown(head, rows)


def _median(records: list[Record], solver: str) -> float | None:
    seconds = [tables.seconds(r) for r in records if r["solver"] == solver and not r["skipped"]]
    return float(np.median(seconds)) if seconds else None


if __name__ == "__main__":
    main()
