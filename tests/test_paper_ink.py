"""The experiment on drawings, on a small one: lines, labels and a page, and a run that goes on where it was."""

import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

import dope
from dope import cli, samples
from dope.errors import InputError
from dope.executors import Serial, Threads
from dope.io import read_image, write_image
from dope.paper import drawings
from dope.paper.critical_path import Times
from dope.paper.drawings import modes_of, noisy_drawing, state_drawing
from dope.paper.ink import ALONE, BLOCKS, THREADS, InkBench, InkCell, ink
from dope.paper.ink_page import ink_section, rows_of
from dope.report.article import Drawn, Table, Words


@pytest.fixture(autouse=True)
def small_drawing(tmp_path, monkeypatch):
    """A ring in place of the drawings, with little paper around it."""
    rows, columns = np.ogrid[:60, :80]
    ring = abs(np.hypot(rows - 30, columns - 40) - 18) < 6
    (tmp_path / "data" / "ink").mkdir(parents=True)
    write_image(tmp_path / "data" / "ink" / "bull.png", ~ring)
    monkeypatch.setenv("DOPE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(drawings, "ROOM", (72, 88))


def paper(folder, *more):
    return CliRunner().invoke(cli.app, ["paper", "curvature", "--quick", "--workers", "2", "-o", str(folder), *more])


def lines(folder):
    return [json.loads(line) for line in (folder / "curvature-quick" / "runs.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_lines_labels_and_a_page_are_there(tmp_path):
    result = paper(tmp_path / "out")
    assert result.exit_code == 0, result.output
    found = lines(tmp_path / "out")
    ways = (ALONE, BLOCKS, THREADS)
    assert [(r["mode"], r["way"]) for r in found] == [(mode, way) for mode in ("all", "perimeter") for way in ways]
    bench = InkBench.at(ink(quick=True), tmp_path / "out", Serial())
    for record in found:
        cell = InkCell(record["case"], record["mode"], record["way"], record["blocks"])
        assert record["shape"] == [36, 44] and record["blocks"] == (1 if record["way"] == ALONE else 8)
        assert state_drawing("bull", record["mode"], step=2).energy(bench.labels(cell)) == record["energy"]
        assert record["energy"] < record["energy_of_signs"] and abs(record["gap_percent"]) < 3
    for blocks, threads in zip(found[1::3], found[2::3], strict=True):
        assert 0 < blocks["critical_seconds"] <= blocks["seconds"] + 1e-3
        assert 0 < blocks["critical_cpu_seconds"] <= blocks["cpu_seconds"] + 1e-3
        assert threads["energy"] == blocks["energy"] and threads["workers"] == 2
    page = tmp_path / "out" / "page-quick"
    assert "Squared curvature" in (page / "index.html").read_text()
    assert read_image(page / "figures" / "curvature-bull.png").ndim == 3
    table = (page / "tables" / "curvature-table-1.csv").read_text().splitlines()
    assert len(table) == 4 and "Picasso" in table[1] and f"{found[0]['energy']:.2f}" in table[2]


@pytest.mark.slow
def test_labels_that_were_not_kept_are_found_once_more(tmp_path):
    run_what_is_left(tmp_path)
    before = lines(tmp_path)
    bench, cell = InkBench.at(ink(quick=True), tmp_path, Serial()), InkCell("bull", "all", BLOCKS, 8)
    labels = bench.labels(cell)
    shutil.rmtree(tmp_path / "curvature-quick" / "labels")
    assert np.array_equal(bench.labels(cell), labels) and lines(tmp_path) == before


def run_what_is_left(folder):
    """How many runs that were."""
    bench = InkBench.at(ink(quick=True), folder, Threads(2))
    left = bench.left(list(bench.study.cells()))
    for cell in left:
        bench.run(cell)
    return len(left)


def test_a_second_run_adds_nothing_and_a_torn_line_is_run_again(tmp_path):
    file = tmp_path / "curvature-quick" / "runs.jsonl"
    assert run_what_is_left(tmp_path) == 6
    before = file.read_bytes()
    assert run_what_is_left(tmp_path) == 0 and file.read_bytes() == before
    file.write_bytes(before[:-20])
    assert run_what_is_left(tmp_path) == 1
    assert file.read_bytes().startswith(before[: before[:-1].rfind(b"\n") + 1])
    old, new = json.loads(before.splitlines()[-1]), lines(tmp_path)[-1]
    assert len(lines(tmp_path)) == 6 and (new["way"], new["energy"]) == (old["way"], old["energy"])


def test_what_is_not_for_drawings_is_refused(tmp_path):
    for more, word in ((["--kernels", "3"], "2d and 3d"), (["--cases", "cow"], "bull")):
        result = paper(tmp_path / "out", *more)
        assert result.exit_code == 2 and word in result.output and "Traceback" not in result.output


def test_the_section_shows_what_there_is(tmp_path):
    bench = InkBench.at(ink(quick=True), tmp_path / "out", Threads(2))
    cells = list(bench.study.cells())
    bench.run(cells[0])
    assert rows_of(bench.ledger.records) == []
    (words,) = ink_section(bench).parts
    assert isinstance(words, Words)
    bench.run(cells[1])
    (row,) = rows_of(bench.ledger.records)
    assert row.threads is None and row.faster_with_threads is None and row.faster > 0
    kinds = [type(part) for part in ink_section(bench).parts]
    assert kinds.count(Table) == 2 and kinds.count(Drawn) == 1 and bench.left(cells) == cells[2:]


def test_without_data_there_is_the_packaged_drawing(monkeypatch):
    monkeypatch.delenv("DOPE_DATA")
    assert ink(quick=False).cases == ("dancer_ink",) and modes_of("dancer_ink") == ["all", "perimeter"]
    with samples.dancer() as file:
        picture = read_image(file)
        assert picture.shape == (849, 600) and file.stat().st_size < 60_000
    instance = state_drawing("dancer_ink", "all", step=8)
    assert instance.picture.shape == (106, 75) and 0.1 < instance.clean.mean() < 0.3
    with pytest.raises(InputError, match=r"ink/bull\.png"):
        state_drawing("bull", "all")


def test_small_energies_have_the_triples_of_their_file(tmp_path):
    picture = np.random.default_rng(0).random((12, 14))
    (tmp_path / "data" / "nonsubmodular").mkdir()
    stored = {"image": picture, "clean": picture > 0.5, "lam": 4.0, "window": 7, "mode": "perimeter"}
    np.savez(tmp_path / "data" / "nonsubmodular" / "curvature_A2.npz", **stored)
    study = ink(quick=False)
    assert study.cases == ("bull", "A2")
    assert [cell.mode for cell in study.cells() if cell.case == "A2"] == ["perimeter"] * 3
    assert study.instance("A2", "perimeter").energy.shape == (12, 14)


def test_noise_is_the_same_for_the_same_seed():
    ink_alone = np.zeros((10, 20))
    first, second, other = (noisy_drawing("none", ink_alone, "all", room=(16, 30), seed=seed) for seed in (0, 0, 1))
    assert first.picture.shape == (16, 30)
    np.testing.assert_array_equal(first.picture, second.picture)
    assert (first.picture != other.picture).all()


def test_the_critical_path_is_the_slowest_worker_of_every_round_and_the_rest():
    times = Times([[(3.0, 1.0), (1.0, 2.0)], [(2.0, 0.0), (4.0, 0.0)]])
    assert times.critical(11.0) == 3 + 4 + 1
    assert times.critical(3.5, cpu=True) == 2 + 0.5


def test_times_are_those_of_every_block():
    times = Times()
    energy = dope.Energy.grid(np.random.default_rng(0).normal(size=(40, 40)), lam=0.3)
    result = dope.plan(energy, blocks=4, method=dope.Admm(rounds=2), executor=Serial()).run(tell=times)
    assert times.asked and all(1 <= len(asked) <= 9 for asked in times.asked)  # shifted blocks are 3 x 3
    assert all(clock >= 0 for asked in times.asked for clock, _ in asked)
    assert 0 < times.critical(result.seconds) <= result.seconds
