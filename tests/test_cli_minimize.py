"""The command minimize, as a shell sees it: files, words, exit codes."""

import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import dope
from dope.cli.methods import SOLVERS, solver_of
from dope.io import ENERGY_FORMATS, read_image
from opengm_files import TABLE, opengm
from test_cli_segment import run
from test_io_energies import DIMACS, GSET, QUBO, UAI, packed, uai_text

IN_FOLDER = pytest.mark.usefixtures("folder")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a file of every kind; the current one."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("g.txt", GSET), ("q.qubo", QUBO), ("u.uai", UAI), ("f.max", DIMACS)):
        (tmp_path / name).write_text(text)
    np.save("q.npy", np.array([[1.0, -2.0], [-2.0, 1.0]]))
    (tmp_path / "t.npz").write_bytes(packed(unary=[-1.0] * 6, edges=[[0, 1]], weights=[1.0], shape=[2, 3]))
    return tmp_path


def words_of(result):
    return " ".join(result.output.split())


@IN_FOLDER
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("g.txt", r"g.txt \(G-set max-cut\) .* energy -5 .* cut 5"),
        ("q.qubo", r"value 12.5"),
        ("u.uai", r"log product 1.79"),
        ("f.max", r"energy 4 lower bound 4 gap none proved 100.00% of sites maximum flow 4"),
        ("q.npy", r"energy -2"),
        ("t.npz", r"energy -6"),
    ],
)
def test_the_value_is_told_in_the_words_of_the_format(name, words):
    result = run("minimize", name)
    assert result.exit_code == 0, result.output
    assert re.search(words, words_of(result)), result.output
    assert "written" not in result.output


@pytest.mark.parametrize("name", ["a.uai", "a.h5"])
def test_labels_of_a_model_of_three_are_counted_and_written(folder, name):
    pytest.importorskip("h5py")
    costs = np.array([[0.0, 3, 3], [3, 3, 0], [3, 3, 0], [1, 2, 2]])
    scopes = [[0], [1], [2], [3], [0, 1], [1, 2], [2, 3]]
    tables = [*costs, *[1.0 - np.eye(3)] * 3]
    if name == "a.uai":
        (folder / name).write_text(uai_text(4, scopes, [np.exp(-table) for table in tables], 3))
    else:
        factors = [(TABLE, k, scope) for k, scope in enumerate(scopes)]
        (folder / name).write_bytes(opengm([3] * 4, factors, {TABLE: tables}))
    result = run("minimize", name, "-o", "labels.npy", "--json", "report.json")
    assert result.exit_code == 0, result.output
    assert "labels 0: 2 (50 %), 1: 0, 2: 2 (50 %)" in words_of(result) and "energy 3 " in words_of(result)
    np.testing.assert_array_equal(np.load("labels.npy"), [0, 2, 2, 0])
    assert np.load("labels.npy").dtype == np.uint8
    record = json.loads((folder / "report.json").read_text())
    assert record["problem"]["labels"] == 3 and record["result"]["counts"] == [2, 0, 2]
    assert run("minimize", name, "-o", "labels.txt").exit_code == 0
    assert (folder / "labels.txt").read_text() == "0\n2\n2\n0\n"
    shown = words_of(run("info", name))
    assert "sites 4, grid, 2 neighbours pairs 3 labels 3 metric potts" in shown


@IN_FOLDER
def test_info_tells_what_an_energy_is():
    assert "format UAI Markov network sites 2, graph pairs 1 labels 2 submodular" in words_of(run("info", "u.uai"))
    assert "format DIMACS max-flow" in words_of(run("info", "f.max"))


@IN_FOLDER
def test_what_is_to_be_maximized_may_be_minimized():
    result = run("minimize", "q.qubo", "--format", "qubo-min", "--solver", "brute")
    assert result.exit_code == 0 and "minimum value -4" in words_of(result)


def test_labels_and_a_report_are_written(folder):
    result = run("minimize", "f.max", "-o", "side.txt", "--json", "report.json")
    assert result.exit_code == 0 and "written side.txt, report.json" in words_of(result)
    assert (folder / "side.txt").read_text() == "1\n1\n0\n"
    assert run("minimize", "f.max", "-o", "side.npy").exit_code == 0
    np.testing.assert_array_equal(np.load("side.npy"), [True, True, False])
    record = json.loads((folder / "report.json").read_text())
    assert record["objective"] == {"name": "maximum flow", "value": 4.0, "bound": 4.0}
    assert record["result"]["exact"] and record["result"]["gap"] == 0 and record["job"]["file"] == "f.max"
    assert record["problem"] == {"format": "DIMACS max-flow", "sites": 3, "labels": 2, "pairs": 0, "submodular": True}
    assert record["trace"] and record["versions"]["dope"] == dope.__version__


@IN_FOLDER
def test_labels_lie_as_the_sites_of_the_file_do():
    for name in ("labels.npy", "labels.png"):
        assert run("minimize", "t.npz", "-o", name).exit_code == 0
    assert np.load("labels.npy").shape == read_image("labels.png").shape == (2, 3)


@IN_FOLDER
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_by_name(solver):
    result = run("minimize", "f.max", "--solver", solver, "--workers", 1)
    assert result.exit_code == 0 and "energy 4" in words_of(result), result.output


def test_a_seed_goes_to_the_solver_that_has_one():
    assert solver_of("anneal", seed=7) == dope.Anneal(seed=7) and solver_of("anneal", seed=None) == dope.Anneal()
    assert solver_of("anneal", sweeps=9, reads=2) == dope.Anneal(sweeps=9, reads=2)
    assert solver_of("tabu", restarts=0) == dope.Tabu(restarts=0)


def spin_glass(side):
    """A G-set file of a torus whose pairs weigh 1 or -1."""
    draw, numbers = np.random.default_rng(0), np.arange(side * side).reshape(side, side) + 1
    ends = np.concatenate([np.stack([numbers, np.roll(numbers, 1, axis)], -1).reshape(-1, 2) for axis in (0, 1)])
    rows = [f"{i} {j} {weight}" for (i, j), weight in zip(ends.tolist(), draw.choice([-1, 1], len(ends)), strict=True)]
    return "\n".join([f"{side * side} {len(rows)}", *rows, ""])


def test_seconds_are_a_budget_where_weights_are_negative(folder):
    (folder / "torus.txt").write_text(spin_glass(20))
    told = {}
    for name, arguments in {"plain": [], "named": ["--solver", "portfolio"], "blocks": ["--blocks", 2]}.items():
        done = run("minimize", "torus.txt", "--seconds", 0.4, "--json", f"{name}.json", *arguments)
        assert done.exit_code == 0 and "time limit" not in done.output, done.output
        told[name] = json.loads((folder / f"{name}.json").read_text())
        assert told[name]["job"]["seconds"] == 0.4
    assert told["plain"]["result"]["seconds"] >= 0.4
    few = run("minimize", "torus.txt", "--solver", "portfolio", "--sweeps", 1, "--seed", 3, "--json", "few.json")
    assert few.exit_code == 0, few.output
    assert json.loads((folder / "few.json").read_text())["result"]["energy"] >= told["plain"]["result"]["energy"]


@IN_FOLDER
def test_blocks_overlap_and_methods():
    for arguments in (["--blocks", 2], ["--method", "admm"], ["--blocks", 2, "--overlap", 0.5, "--method", "admm"]):
        result = run("minimize", "f.max", *arguments)
        assert result.exit_code == 0 and "energy 4" in words_of(result), result.output


def test_stopping_early_is_exit_code_3_with_labels(folder):
    side = 40
    numbers = np.arange(side * side).reshape(side, side)
    edges = np.concatenate([np.stack([numbers[:, :-1], numbers[:, 1:]], -1).reshape(-1, 2),
                            np.stack([numbers[:-1], numbers[1:]], -1).reshape(-1, 2)])  # fmt: skip
    unary = np.random.default_rng(0).normal(0, 3, side * side)
    (folder / "grid.npz").write_bytes(packed(unary=unary, edges=edges, weights=np.ones(len(edges))))
    result = run("minimize", "grid.npz", "--blocks", 8, "--method", "admm", "--seconds", 1e-9, "-o", "labels.npy")
    assert result.exit_code == 3 and "time limit" in result.output, result.output
    assert np.load("labels.npy").shape == (side * side,)


def test_ctrl_c_is_130_and_keeps_nothing_unless_asked(folder):
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 8_000, (80_000, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    graph = packed(unary=rng.normal(0, 3, 8_000), edges=edges, weights=rng.normal(0.2, 1, len(edges)))
    (folder / "large.npz").write_bytes(graph)
    command = [sys.executable, "-m", "dope.cli", "minimize", "large.npz", "-o", "labels.npy", "--blocks", "32",
               "--method", "admm", "--solver", "icm"]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder) as started:
        assert "round" in started.stderr.readline()
        os.kill(started.pid, signal.SIGINT)
        words = started.stderr.read()
        assert started.wait(timeout=60) == 130, words
    assert "Traceback" not in words and not (folder / "labels.npy").exists()


BAD = {
    "no such file": (["missing.txt"], "no such file"),
    "no energy": (["letter.txt"], "as no format does"),
    "another format": (["g.txt", "--format", "uai"], "expected MARKOV"),
    "no such format": (["g.txt", "--format", "hdf5"], "expected one of gset"),
    "no such solver": (["g.txt", "--solver", "oracle"], "expected one of maxflow"),
    "flow for a cut to be maximized": (["g.txt", "--solver", "maxflow"], "needs weights of 0 or more"),
    "exact for a cut to be maximized": (["g.txt", "--method", "exact"], "weights of 0 or more"),
    "a seed for nobody": (["g.txt", "--seed", "1"], "--seed is 1 without --solver"),
    "a seed for a solver that needs none": (["g.txt", "--seed", "1", "--solver", "icm"], "draws nothing"),
    "sweeps for nobody": (["g.txt", "--sweeps", "9"], "--sweeps is 9 without --solver"),
    "sweeps of a solver that has none": (
        ["g.txt", "--sweeps", "9", "--solver", "lsatr"],
        "--sweeps is 9, and the solver lsatr has no",
    ),
    "reads of a solver that has none": (["g.txt", "--reads", "9", "--solver", "portfolio"], "has no reads"),
    "restarts of a solver that has none": (["g.txt", "--restarts", "9", "--solver", "anneal"], "has no restarts"),
    "no sweeps": (["g.txt", "--sweeps", "0", "--solver", "portfolio"], "sweeps is 0"),
    "no time": (["g.txt", "--seconds", "0"], "--seconds is 0"),
    "no end": (["g.txt", "--seconds", "inf"], "--seconds is inf"),
    "too many blocks": (["g.txt", "--blocks", "99"], "blocks"),
    "no workers": (["g.txt", "--workers", "0"], "Threads"),
    "a row as a picture": (
        ["g.txt", "-o", "out.png"],
        "PNG has 2 axes. Write .npy or .npz; or .txt, a number per line",
    ),
    "an unknown suffix": (["g.txt", "-o", "out.gif"], "gif"),
    "no such folder": (["g.txt", "-o", "missing/out.npy"], "missing"),
    "one name for two": (["g.txt", "-o", "o.txt", "--json", "o.txt"], "the same file"),
    "the file itself": (["g.txt", "-o", "g.txt", "--overwrite"], "is read; expected another name"),
    "there already": (["g.txt", "-o", "letter.txt"], "there already"),
    "a report there already": (["g.txt", "--json", "letter.txt"], "there already"),
}


@pytest.mark.parametrize(("arguments", "words"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_line_and_exit_code_2(folder, arguments, words):
    (folder / "letter.txt").write_text("Dear all,\n")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result = run("minimize", *arguments)
    assert result.exit_code == 2, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("dope: ") and re.search(words, lines[0]), result.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_file_is_replaced_when_asked(folder):
    (folder / "side.txt").write_text("keep me")
    assert run("minimize", "f.max", "-o", "side.txt", "--overwrite").exit_code == 0
    assert (folder / "side.txt").read_text() == "1\n1\n0\n"


def test_help_names_all_solvers_and_formats():
    words = words_of(run("minimize", "--help"))
    assert all(name in words for name in (*SOLVERS, *ENERGY_FORMATS))
