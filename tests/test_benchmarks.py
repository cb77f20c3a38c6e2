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


def test_solvers_take_turns_and_agree(run, brain, tmp_path):
    pytest.importorskip("maxflow")
    arguments = ["--quick", "--cases", "A1h", "M5", "--repeat", "2", "--peer-repeat", "1"]
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


def test_what_is_missing_is_said(run, tmp_path):
    arguments = ["--quick", "--cases", "M5", "Be", "--repeat", "1", "--no-memory", "--peers", "scipy", "numpymaxflow"]
    done = run("flow.py", *arguments)
    assert done.returncode == 0, done.stderr
    assert "M5 left out: DOPE_DATA" in done.stderr and "numpymaxflow left out" in done.stderr
    found = {line["solver"]: line for line in lines_in(tmp_path)}
    assert found["dope"]["energy"] == found["scipy"]["energy"] is not None
    assert found["numpymaxflow"]["energy"] is None and found["numpymaxflow"]["skipped"]


def test_a_solver_that_does_not_fit_is_left_out(module, monkeypatch):
    pytest.importorskip("maxflow")
    solvers, instance = module("solvers"), module("cases").make("A1e", quick=True)
    assert solvers.refusal(solvers.YARDSTICK, instance) is None
    monkeypatch.setattr(solvers, "available_bytes", lambda: 1000)
    assert "GB are available" in solvers.refusal(solvers.YARDSTICK, instance)


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
