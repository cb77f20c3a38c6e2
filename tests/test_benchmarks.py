"""The benchmarks, on small instances: lines, a table and a figure come out, and the page shows the lines there are."""

import importlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from oracles import site_pairs

FOLDER = Path(__file__).parent.parent / "benchmarks"
FIELDS = {
    "case",
    "solver",
    "version",
    "commit",
    "date",
    "sites",
    "neighbours",
    "bits",
    "build_seconds",
    "solve_seconds",
    "read_seconds",
    "peak_bytes",
    "bytes_per_site",
    "energy",
    "repetition",
    "command",
    "machine",
}

MADE = ("date", "commit", "command", "machine")


@pytest.fixture
def module(monkeypatch):
    """A module of the benchmarks by its name: scripts that import each other, not a package."""
    monkeypatch.syspath_prepend(str(FOLDER))
    known = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - known:
        if str(FOLDER) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def run(tmp_path):
    def run(script, *arguments, **changes):
        environment = {k: v for k, v in os.environ.items() if k != "DOPE_DATA"} | changes
        command = [sys.executable, FOLDER / script, "--results", tmp_path / "lines.jsonl", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def brain(tmp_path):
    """A folder with a scan such as M5 and M7 read, of noise."""
    draw = np.random.default_rng(0)
    (tmp_path / "mri").mkdir()
    arrays = {name: draw.integers(0, 256, (24, 25, 26), dtype=np.uint8) for name in ("t1", "prob_wm_u8")}
    np.savez(tmp_path / "mri" / "brain_200x200x100.npz", **arrays)
    return str(tmp_path)


def lines_in(folder):
    return [json.loads(line) for line in (folder / "lines.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_solvers_take_turns_and_agree(run, brain, tmp_path):
    pytest.importorskip("maxflow")
    arguments = ["--quick", "--cases", "A1h", "M5", "--repeat", "2", "--peer-repeat", "1", "--peers", "PyMaxflow"]
    done = run("flow.py", *arguments, DOPE_DATA=brain)
    assert done.returncode == 0, done.stderr
    found = lines_in(tmp_path)
    for case in ("A1h-quick", "M5-quick"):
        those = [line for line in found if line["case"] == case]
        assert [line["solver"] for line in those] == ["dope", "PyMaxflow", "dope"]
        assert len({line["energy"] for line in those}) == 1
    for line in found:
        assert line.keys() >= FIELDS and all(line[name] is not None for name in FIELDS)
        assert str(FOLDER.parent) not in json.dumps(line)
    shown = run("flow.py", "--table", "--figure", tmp_path / "speed.svg")
    assert "| A1h-quick | 2,000 | 4 | 16 |" in shown.stdout
    assert "<svg" in (tmp_path / "speed.svg").read_text()


@pytest.mark.slow
def test_the_public_call_is_measured_beside_the_core(run, tmp_path):
    arguments = ["--public", "--quick", "--cases", "A1h", "--repeat", "1"]
    done = run("flow.py", *arguments)
    assert done.returncode == 0, done.stderr
    found = lines_in(tmp_path)
    ways = [f"{way}, {given}" for given in ("weights", "features", "contrast") for way in ("core", "whole", "blocks")]
    assert [line["solver"] for line in found] == ways
    assert all(line["command"] == "python benchmarks/flow.py --cases A1h --repeat 1 --public --quick" for line in found)
    for given in ("weights", "features", "contrast"):
        assert len({line["checksum"] for line in found if line["solver"].endswith(given)}) == 1
    assert "| A1h-quick | weights |" in run("flow.py", "--public", "--table").stdout
    assert "all there" in run("flow.py", *arguments).stdout and len(lines_in(tmp_path)) == len(found)


@pytest.mark.slow
def test_sparse_graphs_take_turns_and_agree(run, tmp_path):
    pytest.importorskip("maxflow")
    arguments = ["--quick", "--cases", "roadsh", "near3e", "regionse", "--repeat", "2", "--peers", "PyMaxflow"]
    done = run("sparse.py", *arguments)
    assert done.returncode == 0, done.stderr
    assert "regionse left out: DOPE_DATA" in done.stderr
    found = lines_in(tmp_path)
    for case in ("roadsh-quick", "near3e-quick"):
        those = [line for line in found if line["case"] == case]
        assert [line["solver"] for line in those] == ["dope", "PyMaxflow"] * 2
        assert len({line["energy"] for line in those}) == 1
    assert "| near3e-quick | 400 |" in run("sparse.py", "--table").stdout
    assert "all there" in run("sparse.py", *arguments).stdout and len(lines_in(tmp_path)) == len(found)


@pytest.mark.slow
def test_what_is_missing_is_said(run, tmp_path):
    arguments = ["--quick", "--cases", "M5", "Be", "--repeat", "1", "--peers", "scipy", "numpymaxflow"]
    done = run("flow.py", *arguments)
    assert done.returncode == 0, done.stderr
    assert "M5 left out: DOPE_DATA" in done.stderr and "numpymaxflow left out" in done.stderr
    found = {line["solver"]: line for line in lines_in(tmp_path)}
    assert found["dope"]["energy"] == found["scipy"]["energy"] is not None
    assert found["numpymaxflow"]["energy"] is None and found["numpymaxflow"]["skipped"]
    again = run("flow.py", *arguments, "--cases", "Be")
    assert "all there" in again.stdout and len(lines_in(tmp_path)) == len(found)


@pytest.mark.parametrize(
    "name", ["PyMaxflow", "thinmaxflow", "scipy", "OR-tools", "igraph", "HPF", "gco", "numpymaxflow"]
)
@pytest.mark.parametrize("case", ["A1h", "C1e", "Be"])
def test_every_peer_finds_the_minimum(module, name, case):
    peers, solvers, flow = module("peers"), module("solvers"), module("flow")
    solver, instance = peers.SOLVERS[name], module("cases").make(case, quick=True)
    if solvers.installed(solver) is None:
        pytest.skip(f"{solver.package} is not installed; it is in the extra bench, where it can be")
    reason = solver.refusal(instance)
    if reason:
        pytest.skip(f"{name} {reason}")
    least = flow.outcome(instance, solvers.timed(solvers.OURS.stages(instance, instance.unary)))["energy"]
    found = flow.outcome(instance, solvers.timed(solver.stages(instance, instance.unary)))
    flow.check_energy(solver, found["energy"], least)


@pytest.mark.slow
def test_a_slow_peer_is_stopped(module, tmp_path):
    flow, instance = module("flow"), module("cases").make("Be", quick=True)
    instance.save(tmp_path / "instance.npz")
    known = flow.about(instance, ["scipy"])["scipy"]
    record = flow.solved(str(tmp_path / "instance.npz"), known, limit=1e-4)
    assert record["skipped"] == "stopped after 0.0001 s" and record["energy"] is None
    shared = {"date": "1", "commit": "a"}
    ours = known | {"solver": "dope", "build_seconds": 1.0, "solve_seconds": 1.0, "read_seconds": 1.0}
    table = module("tables").everyone_table([record | shared, ours | shared, ours | shared | {"solver": "HPF"}])
    assert table.endswith("| **3** | - | **3** | > 0.0001 |")


def test_a_solver_that_does_not_fit_is_left_out(module, monkeypatch):
    pytest.importorskip("maxflow")
    solvers, instance = module("solvers"), module("cases").make("A1e", quick=True)
    assert solvers.refusal(solvers.YARDSTICK, instance) is None
    monkeypatch.setattr(solvers, "available_bytes", lambda: 1000)
    assert "GB are available" in solvers.refusal(solvers.YARDSTICK, instance)


@pytest.mark.slow
def test_second_solves_find_what_first_ones_find(run, tmp_path):
    pytest.importorskip("maxflow")
    done = run("warm.py", "--quick", "--cases", "C1h", "--repeat", "1")
    assert done.returncode == 0, done.stderr
    found = lines_in(tmp_path)
    for change in ("strip", "scattered", "seam", "shift"):
        those = [line for line in found if line["change"] == change]
        assert [(line["solver"], line["start"]) for line in those] == [
            ("dope", "warm"),
            ("dope", "cold"),
            ("PyMaxflow", "warm"),
        ]
        assert len({line["energy"] for line in those}) == 1
    assert "| C1h-quick | strip |" in run("warm.py", "--table").stdout


def test_a_missed_minimum_ends_the_run(module):
    flow, solvers = module("flow"), module("solvers")
    with pytest.raises(SystemExit, match="dope found the energy 5"):
        flow.check_energy(solvers.OURS, 5, 4)


@pytest.mark.parametrize("name", ["A1h", "Be", "C2e"])
def test_energies_are_those_of_the_definition(module, name):
    instance = module("cases").make(name, quick=True)
    labels = np.random.default_rng(0).random(instance.shape) < 0.5
    expected = int(instance.unary[labels].sum())
    for p, q, m in site_pairs(instance.shape, instance.offsets):
        if labels[p] != labels[q]:
            change = float(instance.features[p][0]) - float(instance.features[q][0])
            expected += round(instance.factors[m] * math.exp(-instance.beta * change**2))
    assert instance.energy(labels) == expected


def test_the_table_pairs_repetitions_and_takes_the_newest_commit(module):
    tables = module("tables")

    def line(solver, seconds, repetition=0, *, commit="new", date="2"):
        of_stages = {"build_seconds": 0.0, "solve_seconds": seconds, "read_seconds": 0.0}
        about = {
            "case": "A2e",
            "sites": 10,
            "neighbours": 4,
            "bits": 16,
            "skipped": None,
            "bytes_per_site": 8 * seconds,
        }
        known = {"solver": solver, "repetition": repetition, "commit": commit, "date": date}
        return about | known | of_stages | {"user_seconds": seconds / 2, "bytes_per_site": 8 * seconds}

    old = [line("dope", 1.0, commit="old", date="1"), line("PyMaxflow", 100.0, commit="old", date="1")]
    new = [
        line("dope", 1.0),
        line("PyMaxflow", 4.0),
        line("dope", 2.0, 1),
        line("dope", 1.0, 2),
        line("PyMaxflow", 3.0, 2),
    ]
    assert tables.ratios(new) == [4.0, 2.0, 3.0]
    row = tables.flow_table(old + new).splitlines()[2]
    assert "| **3.0** | 2.0 to 4.0 | 2.5 met | 3.0 | 16 | 32 | 2.0 | 5 missed |" in row


def test_the_page_shows_the_lines_that_are_there(module):
    lines, tables = module("lines"), module("tables")
    found = {name: lines.read(lines.RESULTS / f"{name}.jsonl") for name in ("flow", "warm")}
    text = tables.PAGE.read_text(encoding="utf-8")
    if not any(found.values()):
        pytest.skip("benchmarks/results has no lines yet: make bench")
    assert tables.page(text, found["flow"], found["warm"]) == text, "run: python benchmarks/flow.py --docs"


EXACT_FIELDS = {
    "case",
    "shape",
    "kernel",
    "bits",
    "scale",
    "threads",
    "seconds",
    "peak_bytes",
    "energy",
    "date",
    "commit",
    "command",
    "machine",
}


@pytest.mark.slow
def test_exact_minima_agree_to_the_integer(run, brain, tmp_path):
    pytest.importorskip("maxflow")
    arguments = ["--quick", "--cases", "canyon-wren-7", "brain-3", "A2h", "--repeat", "1", "--blocks", "2", "8"]
    done = run("exact.py", *arguments, DOPE_DATA=brain)
    assert done.returncode == 0, done.stderr
    found = lines_in(tmp_path)
    solves = {case: [] for case in ("canyon-wren-7-quick", "brain-3-quick", "A2h-quick")}
    for line in found:
        assert all(line[name] is not None for name in EXACT_FIELDS)
        assert line["solver"] == "PyMaxflow" or (line["rounds"] and line["stopped"] and line["split"])
        assert str(FOLDER.parent) not in json.dumps(line) and str(tmp_path) not in json.dumps(line)
        solves[line["case"]].append((line["solver"], line["threads"], line["blocks_asked"]))
    in_turn, cut = [("dope", 2, None), ("PyMaxflow", 1, None)], [("dope", 2, 2), ("dope", 2, 8)]
    assert list(solves.values()) == [[*in_turn, ("dope", 1, None), *cut], in_turn, [*in_turn, *cut]]
    for case in solves:
        assert len({line["energy"] for line in found if line["case"] == case}) == 1
    again = run("exact.py", *arguments, DOPE_DATA=brain)
    assert "all there" in again.stdout and lines_in(tmp_path) == found
    shown = run("exact.py", "--table").stdout
    assert "| brain-3-quick | 4,096 | 6 | 32 |" in shown and "| 10 photos, 7x7 | 32 | 1 |" in shown


@pytest.mark.slow
def test_exact_widths_and_curves(run, brain, module, tmp_path):
    done = run("exact.py", "--quick", "--curves", "--cases", "brain-3", "--width", "16", DOPE_DATA=brain)
    assert done.returncode == 0, done.stderr
    lines, exact_tables = module("lines"), module("exact_tables")
    found = lines.read(tmp_path / "curves.jsonl")
    assert [(line["method"], line["bits"]) for line in found] == [("exact", 16), ("admm", 16), ("paper", 16)]
    least = found[0]["energy"]
    assert all(line["points"] and line["energy"] >= least for line in found)
    exact_tables.curves_figure(found, tmp_path / "curves.svg")
    assert "<svg" in (tmp_path / "curves.svg").read_text()


@pytest.mark.slow
def test_exact_says_what_is_missing(run):
    done = run("exact.py", "--quick", "--cases", "brain-9", "pondering-heron-3")
    assert done.returncode == 0, done.stderr
    assert "brain-9-quick left out: DOPE_DATA" in done.stderr and "pondering-heron-3-quick left out" in done.stderr


def test_exact_catches_wrong_answers(module):
    exact = module("exact")
    good = {"solver": "dope", "method": "exact", "exact": True, "energy": 12, "scale": 4.0, "stopped": "proved"}
    exact.check(good | {"stated_energy": 3.0}, [12, 12], rounding_error=0.0)
    exact.check(good | {"method": "admm", "exact": False, "energy": 13}, [12], rounding_error=0.0)
    for wrong, word in [
        ({"energy": 13}, "found the energy 13, another solver 12"),
        ({"energy": 11}, "found the energy 11, another solver 12"),
        ({"stated_energy": 3.25}, "the labels cost 3.0"),
        ({"exact": False, "stopped": "round limit"}, "did not reach the minimum: round limit"),
        ({"method": "admm", "exact": False, "energy": 11}, "found the energy 11"),
    ]:
        with pytest.raises(exact.WrongAnswerError, match=word):
            exact.check(good | wrong, [12], rounding_error=0.0)


@pytest.fixture
def integers(module, tmp_path):
    """A small case in integers, as dope counts it and as other solvers get it."""

    def integers(name, width):
        exact_cases, energies = module("exact_cases"), module("energies")
        model = exact_cases.make(name, quick=True)
        model.save(tmp_path, width)
        return model.energy(), energies.Integers.load(tmp_path, mapped=True)

    return integers


@pytest.mark.parametrize("width", [None, 16])
@pytest.mark.parametrize("name", ["canyon-wren-3", "A2h"])
def test_integers_are_those_that_dope_counts_in(integers, name, width):
    energy, counted = integers(name, width)
    core = energy.pairs.native()
    for m, offset in enumerate(counted.offsets):
        assert offset == energy.pairs.offsets[m].tolist()
        assert np.array_equal(counted.weights(m), np.rint(core.weights(m) * counted.scale))
    assert np.array_equal(counted.prices(), np.rint(energy.unary.astype(float) * counted.scale))


def test_energies_in_integers_are_those_of_the_definition(integers, module, monkeypatch):
    energy, counted = integers("canyon-wren-3", 16)
    labels = np.random.default_rng(0).random(counted.shape) < 0.5
    expected = int(counted.prices()[labels].sum())
    weights = [counted.weights(m) for m in range(len(counted.offsets))]
    for p, q, m in site_pairs(counted.shape, energy.pairs.offsets):
        expected += int(weights[m][p]) * (labels[p] != labels[q])
    assert counted.energy(labels) == expected
    monkeypatch.setattr(module("energies"), "_STRIP_SITES", 300)
    assert counted.energy(labels) == expected


def test_a_photo_is_cut_to_its_middle(module):
    exact_cases = module("exact_cases")
    height, width = exact_cases.middle((3391, 6028), exact_cases.MOST_PIXELS)
    sides = height.stop - height.start, width.stop - width.start
    assert math.prod(sides) <= exact_cases.MOST_PIXELS < (sides[0] + 1) * (sides[1] + 1)
    assert abs(sides[1] / sides[0] - 6028 / 3391) < 2 / sides[0]
    assert abs(height.start - (3391 - height.stop)) <= 1
    assert exact_cases.middle((30, 40), 1200) == (slice(0, 30), slice(0, 40))


def test_a_bar_is_met_when_every_case_meets_it(module):
    group_verdict = module("exact_tables").group_verdict
    assert group_verdict([5.0, 9.0], 5.0) == "5 met"
    assert group_verdict([4.9, 9.0], 5.0) == "5 missed, met by 1 of 2"
    assert group_verdict([4.9], 5.0) == "5 missed"
    assert group_verdict([], 5.0) == "5"


def test_the_page_of_exact_minima_shows_the_lines_that_are_there(module):
    lines, exact_tables = module("lines"), module("exact_tables")
    found, curves = (lines.read(lines.RESULTS / f"{name}.jsonl") for name in ("exact", "curves"))
    text = exact_tables.PAGE.read_text(encoding="utf-8")
    if not found and not curves:
        pytest.skip("benchmarks/results has no lines yet: make bench-exact")
    assert exact_tables.page(text, found, curves) == text, "run: python benchmarks/exact.py --docs"


@pytest.mark.slow
def test_energies_that_repel_are_solved_beside_a_plain_lsa_tr(run, module, tmp_path):
    pytest.importorskip("maxflow")
    draw = np.random.default_rng(0)
    (tmp_path / "nonsubmodular").mkdir()
    np.savez(tmp_path / "nonsubmodular" / "deconvolution_s05.npz", image=draw.random((8, 9)))
    done = run("signed.py", "--groups", "lsa", "solvers", "--cases", "s05", DOPE_DATA=str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = lines_in(tmp_path)
    plain = [line for line in found if line["group"] == "lsa"]
    assert len({line["solver"] for line in plain}) == 2
    assert max(line["energy"] for line in plain) == pytest.approx(min(line["energy"] for line in plain))
    bounds = [line["bound"] for line in found if line.get("bound") is not None]
    assert bounds and max(bounds) <= min(line["energy"] for line in found)
    assert "| s05 |" in run("signed.py", "--table").stdout
    signed = module("signed")
    page = signed.page(signed.PAGE.read_text(encoding="utf-8"), found)
    assert "| s05 |" in page and "`LsaTr()`" in page


def test_roof_duals_are_the_same_and_energies_add_up(module):
    signed_peers = module("signed_peers")
    whole = signed_peers.mixed(9, 0.2)
    found = {"mixed-20": {}}
    for _, solver, solve, repetition in signed_peers.solves("mixed-20", whole):
        if repetition == 0 and "tabu" not in solver:
            found["mixed-20"][solver] = [solve()]
    labels = np.random.default_rng(0).random(81) < 0.5
    assert whole.energy(labels) == module("signed").dope.Energy.graph(
        whole.unary, np.stack([whole.first, whole.second], axis=1), whole.weights
    )(labels)
    bounds = {record[0]["twice_bound"] for name, record in found["mixed-20"].items() if name in signed_peers.ROOFS}
    assert len(bounds) == 1 and all(2 * r[0]["energy"] >= max(bounds) for r in found["mixed-20"].values())
    assert "| mixed-20 | 81 | 272 |" in signed_peers.roof_table(found)
    assert "**" in signed_peers.energies_table(found)
    with pytest.raises(SystemExit, match="roof duals differ"):
        signed_peers._agreeing({"twice_bound": 3}, {4})


@pytest.mark.slow
def test_curves_of_growth_are_measured_and_drawn(run, module, tmp_path):
    arguments = ["--quick", "--curves", "sites-6", "blocks-hard", "--peers", "scipy", "--repeat", "1", "--most", "600"]
    done = run("growth.py", *arguments)
    assert done.returncode == 0, done.stderr
    found = lines_in(tmp_path)
    assert [(line["curve"], line["x"], line["solver"]) for line in found] == [
        ("sites-6-quick", 512.0, "dope"),
        ("sites-6-quick", 512.0, "scipy"),
        ("blocks-hard-quick", 1.0, "dope"),
        ("blocks-hard-quick", 4.0, "dope"),
    ]
    for line in found:
        assert all(line[name] is not None for name in ("energy", "seconds", "peak_bytes", *MADE))
        assert len({other["energy"] for other in found if other["case"] == line["case"]}) == 1
        assert str(tmp_path) not in json.dumps(line) and str(FOLDER.parent) not in json.dumps(line)
    assert not run("growth.py", *arguments).stdout and lines_in(tmp_path) == found
    growth_tables = module("growth_tables")
    assert not growth_tables.full_size(found)
    assert "| 512 |" in "".join(growth_tables.sections(found).values())
    drawn = growth_tables.figures(found, tmp_path)
    assert [file.name for file in drawn] == ["growth_sites.svg", "growth_blocks.svg"]
    assert all("<svg" in file.read_text() for file in drawn)


def test_the_page_of_all_peers_shows_the_lines_that_are_there(module):
    overview = module("overview")
    found = overview.Lines.read(module("lines").RESULTS)
    text = overview.PAGE.read_text(encoding="utf-8")
    if not found.any:
        pytest.skip("benchmarks/results has no lines yet: make bench")
    assert overview.page(text, found) == text, "run: make bench-docs"


def test_energies_that_repel_need_their_data(run):
    done = run("signed.py", "--groups", "qubo")
    assert done.returncode == 1 and "DOPE_DATA" in done.stderr and "Traceback" not in done.stderr
