"""Energies whose pairs attract and repel: dope's solvers beside each other, a plain LSA-TR, and others' solvers.

    python benchmarks/signed.py                        # all groups: about twenty minutes
    python benchmarks/signed.py --groups lsa solvers   # some of them
    python benchmarks/signed.py --table                # the results as tables
    python benchmarks/signed.py --docs                 # tables into docs/signed.md

Groups:
    lsa      LsaTr from the sign of the unary, without polish, and the same in NumPy and PyMaxflow, by turns
    solvers  all solvers on squared curvature (A1-A5), deconvolution (s05, s10, s20) and a decision tree field (dtf)
    maxcut   G-set grids, whole and in 8 blocks
    qubo     Beasley's instances with Tabu
    uai      models of the UAI competition, beside dwave-samplers and toulbar2
    peers    the same integers for dope, thinqpbo and dwave-samplers (`signed_peers.py`): for docs/benchmarks.md

DOPE_DATA names the folder that holds nonsubmodular/ and mrf/; three cases of the peers do without. Results are added to
benchmarks/results/signed.jsonl, one JSON line per solve; a run takes up where another one of the same commit ended,
--again measures anew. Energies are those of `Energy`, computed from labels, constants included; the peers' are plain
sums in integers.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import lines
import numpy as np
import signed_peers
from cases import MissingDataError, data_file
from lines import Record
from numpy.typing import NDArray
from tables import between

import dope
from dope.models import curvature, deconvolution

RESULTS = lines.RESULTS / "signed.jsonl"
PAGE = lines.PROJECT / "docs" / "signed.md"
CURVATURE = ("A1", "A2", "A5", "A4", "A3")
DECONVOLUTION = ("s05", "s10", "s20")
STORED = (*CURVATURE, *DECONVOLUTION, "dtf")
# The least of each column of the tables that the prototype of LSA-TR came with; dtf: the best known.
MARKS = dict(zip(STORED, (3032.2, 3194.9, 3317.2, 1063.6, 6667.7, 5.845, 21.474, 79.078, -25953.88), strict=True))
# The same for its own LSA-TR, best of three starts with single flips between them.
LSA_MARKS = dict(zip(STORED, (3042.5, 3196.5, 3341.4, 1063.6, 6671.1, 5.847, 21.798, 80.136, -25953.88), strict=True))
# The best cuts known, after the table that microsoft/AOCoptimizer.jl comes with. It lacks G77, where 9938 has been
# reported (Benlic and Hao 2013: 9926).
CUTS = {"G11": 564, "G32": 1410, "G62": 4870, "G65": 5562, "G66": 6364, "G67": 6950, "G70": 9591, "G72": 7006}
CUTS |= {"G77": 9938}
QUBO = {"bqp100_1": 7970, "bqp250_1": 45607, "bqp500_1": 116586}
UAI = [f"Grids_{k}" for k in range(11, 19)] + [f"Segmentation_{k}" for k in range(11, 17)]
REPETITIONS = 3
PEER_SECONDS = 20
PLAIN = "NumPy + PyMaxflow"
LSA_ALONE = dope.LsaTr(starts=("threshold",), polish=0)

Labels = NDArray[np.bool_]


@dataclass(frozen=True)
class Job:
    """One solve of one case, by whatever `solve` does."""

    group: str
    case: str
    solver: str
    solve: Callable[[], Record]
    repetition: int = 0


def main() -> None:
    arguments = _arguments()
    if arguments.docs:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), lines.read(arguments.results)), encoding="utf-8")
    elif arguments.table:
        print("\n\n".join(table(lines.read(arguments.results)) for table in TABLES.values()))
    else:
        try:
            _run(arguments)
        except MissingDataError as error:
            raise SystemExit(str(error)) from None


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--groups", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--cases", nargs="+", metavar="CASE", help="of these groups, such as A1 or G11; default all")
    parser.add_argument("--again", action="store_true", help="measure also what is there already for this commit")
    parser.add_argument("--table", action="store_true", help="print the results as tables and run nothing")
    parser.add_argument("--docs", action="store_true", help="put the tables into docs/signed.md and run nothing")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE", help="where the lines are added")
    return parser.parse_args()


def _run(arguments: argparse.Namespace) -> None:
    commit, machine, load = lines.commit(), lines.machine(), lines.load()
    there = [] if arguments.again else [r for r in lines.read(arguments.results) if r["commit"] == commit]
    done = {(r["group"], r["case"], r["solver"], r["repetition"]) for r in there}
    for group in arguments.groups:
        for job in GROUPS[group](arguments.cases):
            if (job.group, job.case, job.solver, job.repetition) in done:
                continue
            begun = time.perf_counter()
            found = job.solve()
            found.setdefault("seconds", time.perf_counter() - begun)
            about = {"group": group, "case": job.case, "solver": job.solver, "repetition": job.repetition}
            again = {"command": f"python benchmarks/signed.py --groups {group} --cases {job.case}"}
            record = about | found | again | {"date": lines.now(), "commit": commit, "machine": machine, "load": load}
            lines.append(arguments.results, [record])
            print(f"{job.case} {job.solver}: {record['energy']:.6g} in {record['seconds']:.3g} s", flush=True)


def stored(name: str) -> dope.Energy:
    """An instance of nonsubmodular/."""
    if name == "dtf":
        with np.load(data_file(Path("nonsubmodular/dtf_0009.npz"))) as found:
            costs, ends = np.stack([found["cost0"], found["cost1"]], axis=1), np.stack([found["i"], found["j"]], axis=1)
            return dope.Energy.from_tables(costs, ends, found["tables"]).on_grid(found["shape"].tolist())
    kind = "curvature" if name in CURVATURE else "deconvolution"
    with np.load(data_file(Path(f"nonsubmodular/{kind}_{name}.npz"))) as found:
        if kind == "deconvolution":
            return deconvolution(found["image"])
        unknown = found.get("unknown")
        settings = {"lam": float(found["lam"]), "window": int(found["window"]), "mode": str(found["mode"])}
        return curvature(found["image"], **settings, unknown=unknown)


def _chosen(cases: list[str] | None, known: list[str] | tuple[str, ...]) -> list[str]:
    return [case for case in known if cases is None or case in cases]


def lsa_jobs(cases: list[str] | None) -> Iterator[Job]:
    for case in _chosen(cases, STORED):
        energy = stored(case)
        for repetition in range(REPETITIONS):
            yield Job("lsa", case, "LsaTr", lambda e=energy: _lsa(e), repetition)
            if find_spec("maxflow") is not None:
                yield Job("lsa", case, PLAIN, lambda e=energy: _plain_lsa(e), repetition)


def _lsa(energy: dope.Energy) -> Record:
    begun = time.perf_counter()
    minimizer = LSA_ALONE.prepare(energy)
    labels = minimizer.minimize(energy.unary).labels
    return {"seconds": time.perf_counter() - begun, "energy": energy(labels), "cuts": minimizer.cuts}


def _plain_lsa(energy: dope.Energy) -> Record:
    from lsa_tr_reference import Reference

    begun = time.perf_counter()
    reference = Reference(energy)
    labels = reference.minimize()
    return {"seconds": time.perf_counter() - begun, "energy": energy(labels), "cuts": reference.cuts}


def solver_jobs(cases: list[str] | None) -> Iterator[Job]:
    solvers = [dope.Portfolio(), dope.LsaTr(), dope.LsaAux(), dope.MeanField(), dope.Icm(), dope.TrwS(), dope.Qpbo()]
    solvers += [dope.Anneal(sweeps=1000), dope.Anneal(sweeps=10_000), dope.Anneal(sweeps=10_000, reads=4)]
    for case in _chosen(cases, STORED):
        energy = stored(case)
        for solver in solvers:
            yield Job("solvers", case, _name(solver), lambda e=energy, s=solver: _whole(e, s))


def _whole(energy: dope.Energy, solver: dope.BlockSolver, **more: int) -> Record:
    result = dope.minimize(energy, solver=solver, blocks=more.get("blocks", 1))
    return {"energy": result.energy, "bound": result.lower_bound, "proved": result.proved} | more


def _name(solver: dope.BlockSolver) -> str:
    """A solver with the settings that are not the usual ones."""
    usual = vars(type(solver)())
    changed = ", ".join(f"{key}={value}" for key, value in vars(solver).items() if value != usual[key])
    return f"{type(solver).__name__}({changed})"


def maxcut_jobs(cases: list[str] | None) -> Iterator[Job]:
    for case in _chosen(cases, list(CUTS)):
        energy = dope.read_energy(data_file(Path(f"mrf/gset/{case}.txt")))
        solvers = [dope.Portfolio(), dope.Portfolio(seconds=60.0)]
        solvers += [dope.Anneal(sweeps=1000), dope.Anneal(sweeps=10_000), dope.MeanField(), dope.LsaTr()]
        for solver in solvers:
            for blocks in (1, 8):
                name = f"{_name(solver)}, {blocks} block{'s' * (blocks > 1)}"
                yield Job("maxcut", case, name, lambda e=energy, s=solver, b=blocks: _whole(e, s, blocks=b))


def qubo_jobs(cases: list[str] | None) -> Iterator[Job]:
    for case in _chosen(cases, list(QUBO)):
        energy = dope.read_energy(data_file(Path(f"mrf/qubo/{case}.qubo")))
        for solver in (dope.Portfolio(), dope.Tabu(), dope.Anneal(), dope.MeanField(), dope.LsaTr()):
            yield Job("qubo", case, _name(solver), lambda e=energy, s=solver: _whole(e, s))


def uai_jobs(cases: list[str] | None) -> Iterator[Job]:
    solvers = [
        dope.Portfolio(),
        dope.LsaTr(),
        dope.MeanField(),
        dope.TrwS(),
        dope.Qpbo(),
        dope.Tabu(),
        dope.Anneal(sweeps=10_000),
    ]
    for case in _chosen(cases, UAI):
        energy = dope.read_energy(data_file(Path(f"mrf/uai/{case}.uai")))
        for solver in solvers:
            yield Job("uai", case, _name(solver), lambda e=energy, s=solver: _whole(e, s))
        yield Job("uai", case, "dwave-samplers steepest descent", lambda e=energy: _steepest(e))
        if find_spec("pytoulbar2") is not None:
            yield Job("uai", case, "toulbar2", lambda e=energy: _toulbar2(e))


def _steepest(energy: dope.Energy) -> Record:
    """As many descents from random labels as take a second or so."""
    from dwave.samplers import SteepestDescentSampler

    model = energy.to_dimod()
    begun = time.perf_counter()
    found = SteepestDescentSampler().sample(model, num_reads=1000, seed=0)
    labels = found.record.sample[np.argmin(found.record.energy)][np.argsort(list(found.variables))] > 0
    return {"seconds": time.perf_counter() - begun, "energy": energy(labels)}


def _toulbar2(energy: dope.Energy) -> Record:
    """Exact, given time; it counts in decimals, of which nine are kept."""
    import pytoulbar2

    first, second, weights = energy.pairs.edges()
    begun = time.perf_counter()
    problem = pytoulbar2.CFN(resolution=6)
    for site, price in enumerate(energy.unary.tolist()):
        problem.AddVariable(str(site), [0, 1])
        problem.AddFunction([site], [0.0, price])
    for i, j, weight in zip(first.tolist(), second.tolist(), weights.tolist(), strict=True):
        problem.AddFunction([i, j], [0.0, weight, weight, 0.0])
    solved = problem.Solve(timeLimit=PEER_SECONDS)
    seconds = time.perf_counter() - begun
    best = solved or (problem.GetSolutions() or [None])[-1]
    labels = best if best is None or isinstance(best[0], int) else best[0 if solved else 1]
    value = math.nan if labels is None else energy(np.array(labels) > 0)
    return {"seconds": seconds, "energy": value, "bound": problem.GetDDualBound() + energy.constant}


def peers_jobs(cases: list[str] | None) -> Iterator[Job]:
    """What needs data that is not there is left out, with a word about it."""
    for case in _chosen(cases, signed_peers.CASES):
        try:
            whole = _whole_numbers(case)
        except MissingDataError as error:
            print(f"{case} left out: {error}", file=sys.stderr)
            continue
        for name, solver, solve, repetition in signed_peers.solves(case, whole):
            yield Job("peers", name, solver, solve, repetition)


def _whole_numbers(case: str) -> signed_peers.Whole:
    if case in signed_peers.GENERATED:
        return signed_peers.mixed(256, signed_peers.GENERATED[case])
    if case in STORED:
        return signed_peers.Whole.of(stored(case), signed_peers.SCALE)
    file = Path(f"mrf/gset/{case}.txt") if case in CUTS else Path(f"mrf/qubo/{case}.qubo")
    return signed_peers.Whole.of(dope.read_energy(data_file(file)), 1)


def page(text: str, records: list[Record]) -> str:
    """The page with the tables of these lines between its marks."""
    for mark, table in TABLES.items():
        text = between(text, mark, table(records))
    return between(text, "measured", measured([r for r in records if r["group"] in TABLES]))


def measured(records: list[Record]) -> str:
    """On what and when."""
    machines = sorted({f"{r['machine']['cpu']}, {r['machine']['cores']} cores" for r in records})
    days, commits = sorted({r["date"][:10] for r in records}), sorted({r["commit"] for r in records})
    return f"Measured on {'; '.join(machines)}, {days[0]} to {days[-1]}, commit {', '.join(commits)}."


def newest(records: list[Record], group: str) -> dict[str, dict[str, list[Record]]]:
    """By case and solver: the lines of the newest commit that has some, all repetitions."""
    found: dict[str, dict[str, list[Record]]] = {}
    for record in (r for r in records if r["group"] == group):
        those = found.setdefault(record["case"], {}).setdefault(record["solver"], [])
        if those and those[0]["commit"] != record["commit"]:
            those.clear()
        those.append(record)
    return found


def lsa_table(records: list[Record]) -> str:
    rows = ["| case | energy | plain, energy | cuts | plain, cuts | s | plain, s | faster |", "|---|" + "---:|" * 7]
    for case, found in newest(records, "lsa").items():
        ours, plain = found.get("LsaTr", []), found.get(PLAIN, [])
        if not ours or not plain:
            continue
        ratios = [p["seconds"] / o["seconds"] for o, p in zip(ours, plain, strict=False)]
        fastest = min(o["seconds"] for o in ours), min(p["seconds"] for p in plain)
        cells = [_number(ours[0]["energy"]), _number(plain[0]["energy"]), str(ours[0]["cuts"]), str(plain[0]["cuts"])]
        cells += [f"{fastest[0]:.3f}", f"{fastest[1]:.3f}", f"{float(np.median(ratios)):.1f}x"]
        rows.append(f"| {case} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def solvers_table(records: list[Record]) -> str:
    found = newest(records, "solvers")
    cases = [case for case in STORED if case in found]
    names = list(dict.fromkeys(name for case in cases for name in found[case]))
    rows = ["| | " + " | ".join(cases) + " |", "|---|" + "---:|" * len(cases)]
    rows.append("| least of the prototype | " + " | ".join(_number(MARKS[case]) for case in cases) + " |")
    rows.append("| its LSA-TR | " + " | ".join(_number(LSA_MARKS[case]) for case in cases) + " |")
    rows += [
        f"| `{name}` | " + " | ".join(_energy_cell(found[case].get(name)) for case in cases) + " |" for name in names
    ]
    return "\n".join(rows)


def _energy_cell(records: list[Record] | None) -> str:
    if not records:
        return "-"
    record = records[-1]
    bound = "" if record.get("bound") is None else f", at least {_number(record['bound'])}"
    return f"{_number(record['energy'])}{bound} ({record['seconds']:.2g} s)"


def maxcut_table(records: list[Record]) -> str:
    return _valued(records, "maxcut", CUTS)


def qubo_table(records: list[Record]) -> str:
    return _valued(records, "qubo", QUBO)


def _valued(records: list[Record], group: str, best: dict[str, int]) -> str:
    """What is maximized, and how far it is from the best known."""
    found = newest(records, group)
    cases = [case for case in best if case in found]
    names = list(dict.fromkeys(name for case in cases for name in found[case]))
    rows = ["| | " + " | ".join(f"{case} ({best[case]})" for case in cases) + " |", "|---|" + "---:|" * len(cases)]
    for name in names:
        cells = []
        for case in cases:
            record = found[case][name][-1]
            short = 100 * (best[case] + record["energy"]) / best[case]
            cells.append(f"{-record['energy']:.0f}, -{short:.2f} % ({record['seconds']:.2g} s)")
        rows.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def uai_table(records: list[Record]) -> str:
    found = newest(records, "uai")
    names = list(dict.fromkeys(name for solvers in found.values() for name in solvers))
    rows = ["| | " + " | ".join(f"`{name}`" for name in names) + " |", "|---|" + "---:|" * len(names)]
    for case, solvers in found.items():
        rows.append(f"| {case} | " + " | ".join(_energy_cell(solvers.get(name)) for name in names) + " |")
    return "\n".join(rows)


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:.1f}"


GROUPS = {
    "lsa": lsa_jobs,
    "solvers": solver_jobs,
    "maxcut": maxcut_jobs,
    "qubo": qubo_jobs,
    "uai": uai_jobs,
    "peers": peers_jobs,
}
TABLES = {"lsa": lsa_table, "solvers": solvers_table, "maxcut": maxcut_table, "qubo": qubo_table, "uai": uai_table}


if __name__ == "__main__":
    main()
