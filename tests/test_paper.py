"""`dope paper`: runs, the lines they leave, and the page made of them; on small variants of real pictures."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import dope
from dope.cli import app
from dope.errors import DopeError, InputError
from dope.executors import Threads
from dope.paper import cases
from dope.paper.ledger import Ledger, keep_labels, kept_labels
from dope.paper.parts import holds, span
from dope.paper.serial import SerialPeer
from dope.paper.study import EXACT, OURS, PAPER, SERIAL, Bench, Cell, delta_percent, dice, plane, volume
from dope.paper.tables import Runs, delta_after, dice_after, faster_after
from dope.paper.volume_page import volume_section
from dope.report.article import Article, Drawn, Section, Table, Words
from dope.report.charts import Chart, Image, Series, figure
from dope.report.pictures import difference

SERIAL_CUT = Path(__file__).parent.parent / "benchmarks" / "serial_cut.py"
EXPERIMENTS = Path(__file__).parent.parent / "experiments"


@pytest.fixture(scope="module", autouse=True)
def small():
    """The packaged photograph alone, at some thousand pixels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DOPE_DATA", raising=False)
        patch.setattr(cases, "_QUICK_PIXELS", 3000)
        cases._learnt.cache_clear()
        yield
    cases._learnt.cache_clear()


def bench_in(folder, **changes):
    study = replace(plane(quick=True), kernels=(3,), cuts=((32, 25), (128, 0)), **changes)
    return Bench.at(study, folder, Threads(1), serial=None)


def run_all(bench):
    cells = bench.left(list(bench.study.cells()))
    return [bench.run(cell) for cell in cells]


def test_every_cell_is_run_once_and_its_line_tells_what_its_labels_say(tmp_path):
    bench = bench_in(tmp_path)
    records = run_all(bench)
    assert [r["method"] for r in records] == [EXACT, PAPER, PAPER, OURS, OURS]
    stated = bench.study.state("canyon-wren.jpg", 3, True)
    judged = dope.Energy(stated.judged, stated.energy().pairs)
    exact = bench.labels(Cell("canyon-wren.jpg", 3, EXACT))
    brute = dope.minimize(stated.energy(), blocks=1)
    assert np.array_equal(exact, brute.labels) and brute.exact
    for record in records:
        cell = Cell(**{name: record[name] for name in asdict(Cell("", 0, ""))})
        labels = bench.labels(cell)
        assert record["energy"] == judged(labels)
        assert record["dice"] == dice(labels, exact)
        assert record["delta_percent"] == delta_percent(judged(labels), judged(exact)) >= 0
        assert record["exact"] if cell.method == EXACT else record["delta_percent"] == 0 or not record["exact"]
        if cell.method != EXACT:
            first = record["rounds"][0]
            assert first["delta_percent"] >= record["delta_percent"] - 1e-9  # the best labels are kept
            assert record["seconds"] >= first["seconds"] > 0
            best = min(record["rounds"], key=lambda r: r["delta_percent"])
            assert best["energy"] == pytest.approx(record["energy"], rel=1e-9)  # of rounds, too, strokes left out


@pytest.mark.slow
def test_a_run_that_was_broken_off_goes_on(tmp_path):
    bench = bench_in(tmp_path)
    cells = list(bench.study.cells())
    bench.run(cells[0])
    lines = tmp_path / "2d-quick" / "runs.jsonl"
    with lines.open("ab") as stream:
        stream.write(b'{"case": "canyon-wren.jpg", "ker')  # killed while it wrote
    again = bench_in(tmp_path)
    assert again.left(cells) == [cell for cell in cells[1:] if cell.method != SERIAL]
    run_all(again)
    assert bench_in(tmp_path).left(cells) == []
    assert len(lines.read_text().splitlines()) == 5


def test_the_ledger_refuses_what_is_no_line(tmp_path):
    file = tmp_path / "runs.jsonl"
    file.write_text("[1]\n")
    with pytest.raises(InputError, match="expected an object"):
        Ledger(file, ["a"])
    file.write_text("nonsense\n")
    with pytest.raises(InputError, match="no JSON"):
        Ledger(file, ["a"])


def test_labels_come_back_and_damaged_ones_are_refused(tmp_path):
    labels = np.random.default_rng(0).random((5, 7, 3)) < 0.4
    file = tmp_path / "labels" / "one.npz"
    keep_labels(file, labels)
    assert np.array_equal(kept_labels(file), labels)
    file.write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match=r"take its line out of .*runs\.jsonl, and it is made anew"):
        kept_labels(file)
    file.unlink()
    with pytest.raises(InputError, match="made anew"):
        kept_labels(file)


@pytest.mark.slow
def test_labels_that_were_not_kept_are_found_once_more_and_must_be_those_of_the_line(tmp_path):
    bench = bench_in(tmp_path)
    run_all(bench)
    cell = Cell("canyon-wren.jpg", 3, PAPER, 32, 25)
    before, lines = bench.labels(cell), tmp_path / "2d-quick" / "runs.jsonl"
    kept = lines.read_bytes()
    shutil.rmtree(tmp_path / "2d-quick" / "labels")
    assert np.array_equal(bench_in(tmp_path).labels(cell), before)
    assert lines.read_bytes() == kept
    shutil.rmtree(tmp_path / "2d-quick" / "labels")
    lines.write_text(re.sub(r'"energy": -\d', '"energy": -9', kept.decode()))
    for _ in range(3):  # what came out wrong is not kept, of the exact minimum first, then of the run
        with pytest.raises(DopeError, match="their line says"):
            bench_in(tmp_path).labels(cell)


def test_what_was_left_out_is_tried_again_and_takes_others_along(tmp_path, monkeypatch):
    bench = bench_in(tmp_path)
    cells = list(bench.study.cells([EXACT, PAPER]))
    monkeypatch.setattr("dope.paper.study.available_bytes", lambda: 1000)
    first = [bench.run(cell) for cell in cells]
    assert "needs" in first[0]["skipped"]
    assert {record["skipped"] for record in first[1:]} == {"there is no exact minimum to compare with"}
    monkeypatch.undo()
    again = bench_in(tmp_path)
    assert again.left(cells) == cells
    assert not any(again.run(cell).get("skipped") for cell in cells)
    assert len(bench_in(tmp_path).ledger.records) == len(cells)  # the newest line counts


def test_two_runs_in_one_folder_are_refused_but_drawing_beside_one_is_not(tmp_path):
    bench = bench_in(tmp_path)
    with bench.ledger.alone():
        other = bench_in(tmp_path)
        with pytest.raises(InputError, match="another run is at work"), other.ledger.alone():
            pass
    with bench_in(tmp_path).ledger.alone():
        pass


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"a": 1}', "case is None"),
        ('{"case": "../../evil", "kernel": 3, "method": "paper", "blocks": 1, "size": 0}', "plain name"),
        ('{"case": "a:b", "kernel": 3, "method": "paper", "blocks": 1, "size": 0}', "plain name"),
        ('{"case": "x", "kernel": 3, "method": "paper", "blocks": 1, "size": [0]}', "expected a name or a number"),
        ('{"case": "canyon-wren.jpg", "kernel": 3, "method": "paper", "blocks": 1, "size": 0}', "KeyError"),
        (
            '{"case": "a", "kernel": 3, "method": "paper", "blocks": 1, "size": 0, "delta_percent": "x", "rounds": []}',
            "not what a run leaves",
        ),
    ],
)
def test_lines_from_elsewhere_are_refused_in_one_line(tmp_path, line, message):
    (tmp_path / "2d-quick").mkdir()
    (tmp_path / "2d-quick" / "runs.jsonl").write_text(line + "\n")
    done = CliRunner().invoke(app, ["paper", "2d", "--quick", "--draw", "-o", str(tmp_path)])
    assert done.exit_code == 2 and message in " ".join(done.output.split()), done.output


@pytest.mark.slow
def test_without_the_data_tables_and_curves_are_drawn_and_pictures_left_out(tmp_path):
    bench = bench_in(tmp_path)
    run_all(bench)
    lines = tmp_path / "2d-quick" / "runs.jsonl"
    lines.write_text(lines.read_text().replace("canyon-wren.jpg", "otters.jpg"))
    for command in (["2d"], ["all"]):
        done = CliRunner().invoke(app, ["paper", *command, "--quick", "--draw", "-o", str(tmp_path)])
        assert done.exit_code == 0, done.output
    page = (tmp_path / "page-quick" / "index.html").read_text()
    assert "A picture was not drawn: no photograph otters.jpg" in page
    assert (tmp_path / "page-quick" / "figures" / "2d-energy.svg").is_file()


def test_serial_runs_need_a_peer_and_drawing_a_folder(tmp_path):
    done = CliRunner().invoke(app, ["paper", "2d", "--quick", "--methods", "serial", "-o", str(tmp_path / "a")])
    assert done.exit_code == 2 and "expected --serial too" in " ".join(done.output.split())
    done = CliRunner().invoke(app, ["paper", "2d", "--quick", "--draw", "-o", str(tmp_path / "b")])
    assert done.exit_code == 2 and "no such folder" in " ".join(done.output.split())
    assert not (tmp_path / "b").exists()


@pytest.mark.slow
def test_one_broken_file_does_not_keep_the_other_experiments_from_running(tmp_path, monkeypatch):
    (tmp_path / "mri").mkdir()
    (tmp_path / "mri" / "brain_200x200x100.npz").write_bytes(b"PK\x03\x04")
    monkeypatch.setenv("DOPE_DATA", str(tmp_path))
    cases._scan.cache_clear()
    command_module = import_module("dope.cli.paper")
    monkeypatch.setattr(
        command_module, "plane", lambda quick: replace(plane(quick=quick), kernels=(3,), cuts=((32, 0),))
    )
    monkeypatch.setattr(command_module, "InkBench", type("Nothing", (), {"at": staticmethod(lambda *_: None)}))
    ran = []
    monkeypatch.setattr(command_module, "ink_told", str)
    run = command_module._run
    monkeypatch.setattr(
        command_module, "_run", lambda bench, *rest: ran.append(bench) if bench is None else run(bench, *rest)
    )
    done = CliRunner().invoke(app, ["paper", "all", "--quick", "-o", str(tmp_path / "out")])
    words = " ".join(done.output.split())
    assert done.exit_code == 2 and "3d: left out" in words and "holds no photos" in words, done.output
    assert ran == [None] and (tmp_path / "out" / "page-quick" / "index.html").is_file()


def test_a_photograph_that_is_not_there_is_not_replaced_by_another(tmp_path, monkeypatch):
    (tmp_path / "photos").mkdir()
    monkeypatch.setenv("DOPE_DATA", str(tmp_path))
    scribbles = tmp_path / "photos" / "scribbles.json"
    scribbles.write_text('{"otters.jpg": {}}')
    done = CliRunner().invoke(app, ["paper", "2d", "--quick", "-o", str(tmp_path / "out")])
    assert done.exit_code == 2 and "no photograph otters.jpg" in " ".join(done.output.split())
    scribbles.write_text("{nonsense")
    done = CliRunner().invoke(app, ["paper", "2d", "--quick", "-o", str(tmp_path / "out")])
    assert done.exit_code == 2 and "damaged" in done.output


@pytest.fixture
def phantom(monkeypatch):
    """A scan of some thousand voxels: two balls, one of them faint."""
    at = np.indices((24, 22, 14), dtype=float)
    far = np.minimum(
        np.linalg.norm(at - np.array([8, 8, 7]).reshape(3, 1, 1, 1), axis=0),
        np.linalg.norm(at - np.array([17, 14, 7]).reshape(3, 1, 1, 1), axis=0),
    )
    noise = np.random.default_rng(1).normal(0, 0.2, far.shape)
    probability = np.clip(1 / (1 + np.exp(far - 5)) + noise, 0, 1)
    scan = np.rint(200 * (far < 5) + 20).astype(np.uint8)
    monkeypatch.setattr(cases, "_scan", lambda _: (scan, probability))
    monkeypatch.setattr("dope.paper.study.structure_names", lambda: ["white matter"])


@pytest.mark.slow
@pytest.mark.usefixtures("phantom")
def test_the_section_on_3d_has_every_figure_of_the_paper(tmp_path):
    bench = Bench.at(
        replace(volume(quick=True), kernels=(3,), cuts=((8, 0), (8, 10))), tmp_path, Threads(), serial=None
    )
    records = run_all(bench)
    paper = [record for record in records if record["method"] == PAPER]
    assert all(record["rounds"][0]["lagrangian"] is not None for record in paper)
    section = volume_section(bench)
    drawn = {part.name for part in section.parts if isinstance(part, Drawn)}
    assert drawn == {
        "3d-energy", "3d-dice", "3d-admm-energy", "3d-segmentation-energy", "3d-relaxed-white-matter",
        "3d-surfaces-white-matter",
    }  # fmt: skip
    claims = next(part for part in section.parts if isinstance(part, Table) and part.name == "3d-claims")
    assert "kernel 9: not run" in claims.rows[0][-1]
    # The relaxed y that is kept is 0 or 1 away from seams, and that of the rounds that are shown.
    with np.load(tmp_path / "3d-quick" / "relaxed" / Cell("white matter", 3, PAPER, 8, 10).file) as stored:
        rounds = [int(name) for name in stored.files]
        planes = [stored[name] for name in stored.files]
    run = paper[-1]["rounds"]
    assert rounds == [*range(1, min(5, len(run)) + 1), *([len(run)] if len(run) > 5 else [])]
    assert planes[0].shape == (24, 22) and np.isin(planes[0], (0, 1)).mean() > 0.5
    # Of lines alone the same pictures are drawn.
    shutil.rmtree(tmp_path / "3d-quick" / "relaxed")
    shutil.rmtree(tmp_path / "3d-quick" / "labels")
    again = bench.relaxed(Cell("white matter", 3, PAPER, 8, 10))
    assert [*again] == rounds and all(np.array_equal(a, b) for a, b in zip(again.values(), planes, strict=True))
    assert {part.name for part in volume_section(bench).parts if isinstance(part, Drawn)} == drawn


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="PyMaxflow has no wheel for Python 3.14")
def test_the_serial_cut_reaches_the_same_energy_in_a_process_of_its_own(tmp_path, monkeypatch):
    pytest.importorskip("maxflow")
    study = replace(plane(quick=True), kernels=(3,), cuts=())
    monkeypatch.setattr(cases, "_QUICK_PIXELS", 600_000)  # as in the peer's process
    cases._learnt.cache_clear()
    bench = Bench.at(study, tmp_path, Threads(), serial=SerialPeer(SERIAL_CUT))
    exact, serial = [bench.run(cell) for cell in study.cells()]
    assert serial["whole_energy"] == pytest.approx(exact["whole_energy"], abs=exact["rounding_error"] + 1e-6)
    assert serial["solver"] == "PyMaxflow" and serial["cpu_seconds"] > 0
    cases._learnt.cache_clear()


def test_a_peer_that_contradicts_is_an_error_and_one_that_is_missing_is_not(tmp_path):
    script = tmp_path / "peer.py"
    exact = {"whole_energy": -5.0, "rounding_error": 0.0}
    told = {"skipped": None, "whole_energy": -4.0, "seconds": 1.0, "cpu_seconds": 1.0, "sites": 4}
    script.write_text(f"print({json.dumps(told)!r})")
    with pytest.raises(DopeError, match="one of them is wrong"):
        SerialPeer(script).measure("2d", "x", 3, True, exact)
    script.write_text('print(\'{"skipped": "not installed"}\')')
    assert SerialPeer(script).measure("2d", "x", 3, True, exact) == {"skipped": "not installed"}
    script.write_text("raise SystemExit(3)")
    with pytest.raises(DopeError, match="exit code 3"):
        SerialPeer(script).measure("2d", "x", 3, True, exact)
    for nonsense in ("{}", "[1]", '{"skipped": null}', "5"):
        script.write_text(f"print('{nonsense}')")
        with pytest.raises(DopeError, match="expected a line of JSON"):
            SerialPeer(script).measure("2d", "x", 3, True, exact)
    with pytest.raises(InputError, match="no such file"):
        SerialPeer(tmp_path / "nowhere.py")


def line(case, kernel, method, seconds, blocks=1, size=0, **more):
    return {
        "case": case,
        "kernel": kernel,
        "method": method,
        "blocks": blocks,
        "size": size,
        "seconds": seconds,
        **more,
    }


def test_measures_are_of_the_best_labels_so_far_and_ratios_of_the_same_case():
    rounds = [
        {"round": 1, "delta_percent": 0.5, "dice": 0.9, "seconds": 1.0},
        {"round": 2, "delta_percent": 0.7, "dice": 0.8, "seconds": 2.0},
        {"round": 3, "delta_percent": 0.2, "dice": 0.95, "seconds": 4.0},
    ]
    run = line("a", 3, PAPER, 5.0, 128, 25, rounds=rounds, delta_percent=0.2, dice=0.95)
    runs = Runs([run, line("a", 3, SERIAL, 20.0), line("b", 3, SERIAL, 0.0, skipped="too large")])
    assert [delta_after(n)(runs, run) for n in (1, 2, 3, None)] == [0.5, 0.5, 0.2, 0.2]
    assert [dice_after(n)(runs, run) for n in (1, 2, 3)] == [0.9, 0.9, 0.95]
    assert [faster_after(n)(runs, run) for n in (1, 3, None)] == [10.0, 4.0, 4.0]  # 1 s before and after rounds
    assert faster_after(None)(runs, {**run, "case": "b"}) is None
    assert faster_after(None)(runs, {**run, "machine": {"cpu": "another"}}) is None
    assert runs.left_out(SERIAL) == {("b", 3): "too large"}
    assert runs.over_cases(delta_after(1), 3, PAPER, 128, 25) == [0.5]


def test_verdicts_say_where_a_claim_does_not_hold():
    found = {(3, 64, 0): 0.1, (3, 64, 10): 0.3}
    assert holds(found, lambda v: v < 1, "below 1") == "yes: below 1 in all 2 settings"
    assert holds(found, lambda v: v < 0.2, "below 0.2").endswith(
        "in 1 of 2 settings; not at kernel 3, 64 blocks, Size_10"
    )
    assert holds({}, lambda _: True, "") == "not run"
    assert span([]) == "-"


@pytest.mark.slow
def test_the_command_writes_lines_tables_figures_and_one_page(tmp_path, monkeypatch):
    command_module = import_module("dope.cli.paper")
    monkeypatch.setattr(command_module, "plane", lambda quick: replace(plane(quick=quick), cuts=((32, 25), (128, 0))))
    done = CliRunner().invoke(app, ["paper", "2d", "--quick", "-o", str(tmp_path / "out"), "--kernels", "3"])
    assert done.exit_code == 0, done.output
    page = tmp_path / "out" / "page-quick"
    text = (page / "index.html").read_text()
    assert "does it hold here?" in text and "No serial graph cut was run" in text
    assert 'src="http' not in text and "<script" not in text
    names = {file.stem for file in (page / "figures").iterdir()}
    assert names == {"2d-energy", "2d-dice", "2d-example-canyon-wren"}  # of time there is nothing to draw
    for name in names:
        assert (page / "figures" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert "<svg" in (page / "figures" / f"{name}.svg").read_text()
    with (page / "tables" / "2d-cells.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["blocks"], row["size"]) for row in rows] == [("32", "Size_25"), ("128", "Size_00")]
    assert all(row["times faster, 1 round"] == "-" for row in rows)
    lines = (tmp_path / "out" / "2d-quick" / "runs.jsonl").read_text()
    assert {json.loads(one)["quick"] for one in lines.splitlines()} == {True}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["2d", "--kernels", "4"], "expected some of 3, 5, 7, 9"),
        (["2d", "--methods", "magic"], "expected some of exact"),
        (["2d", "--cases", "unicorn"], "no such case"),
        (["2d", "--serial", "nowhere.py"], "no such file"),
        (["2d", "--draw"], "no runs to draw"),
        (["2d", "--kernels", ""], "nothing; expected some of 3"),
        (["curvature", "--kernels", "3"], "are for 2d and 3d"),
    ],
)
def test_bad_words_are_refused_at_once(tmp_path, words, message):
    done = CliRunner().invoke(app, ["paper", *words, "--quick", "-o", str(tmp_path)])
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_without_a_scan_3d_is_refused_and_all_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("dope.paper.cases.find_spec", lambda _: None)
    done = CliRunner().invoke(app, ["paper", "3d", "--quick", "-o", str(tmp_path)])
    assert done.exit_code == 2 and "set DOPE_DATA" in " ".join(done.output.split())
    done = CliRunner().invoke(app, ["paper", "all", "--quick", "-o", str(tmp_path), "--cases", "nobody"])
    assert done.exit_code == 2 and done.output.count("left out") == 3 and "no runs to draw" in done.output
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(app, ["paper", "2d", "--quick", "-o", str(tmp_path / "file")])
    assert done.exit_code == 2 and "cannot write" in done.output


def test_an_article_escapes_what_it_is_told_and_names_its_files():
    drawn = figure([Chart("t", "x", "y", [1, 2], [Series("a", [0.0, 1.0])], "log")], columns=1, inches=3)
    article = Article(
        "<b>", "&", [Section("s", [Words("<script>"), Table("t", "c", ["h"], [["<i>"]]), Drawn("d", "c", drawn)])]
    )
    files = dict(article.files())
    page = files[Path("index.html")].decode()
    assert "<b>" not in page.replace("<body>", "") and "<script>" not in page and "<i>" not in page
    assert set(files) == {Path("index.html"), Path("tables/t.csv"), Path("figures/d.png"), Path("figures/d.svg")}
    assert files[Path("tables/t.csv")] == b"h\n<i>\n"


def test_a_figure_of_nothing_is_refused_and_maps_have_a_scale():
    with pytest.raises(InputError, match="of nothing"):
        figure([], columns=2)
    drawn = figure([Image("y", np.eye(4)), Image("p", np.zeros((4, 4, 3), np.uint8))], columns=2, inches=4)
    assert len(drawn.axes) == 3  # two pictures and the scale of colours


def test_difference_shows_each_side_in_its_colour():
    first, second = np.zeros((6, 6), bool), np.zeros((6, 6), bool)
    first[0, 0], second[5, 5] = True, True
    pixels = difference(None, first, second)
    assert pixels[0, 0].argmax() == 0 and pixels[5, 5].argmax() == 2
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) == 3
    with pytest.raises(InputError, match="same shape"):
        difference(None, first, second[:3])


def test_the_page_of_the_docs_shows_lines_and_allowed_pictures_alone(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SERIAL_CUT.parent))
    paper_page = import_module("paper_page")

    monkeypatch.setattr(paper_page, "PICTURES", tmp_path)
    chart = figure([Chart("t", "x", "y", [1, 2], [Series("a", [0.5, 1.0])])], columns=1, inches=3)
    names = ("2d-energy", "2d-example-canyon-wren", "2d-example-otters", "3d-surfaces-putamen", "3d-relaxed-putamen")
    plain = Words("plain"), Words("loud", loud=True), Table("t", "caption", ["h", "i"], [["1", "2"]])
    text = paper_page.markdown([Section("A title", [*plain, *(Drawn(name, name, chart) for name in names)])])
    assert {file.name for file in tmp_path.iterdir()} == {"2d-energy.svg", "2d-example-canyon-wren.jpg"}
    assert text.startswith("## A title\n\nplain\n\n**loud**\n\ncaption\n\n| h | i |\n|---|---|\n| 1 | 2 |")
    assert text.count("drawn by the command") == 3


def test_a_folder_comes_back_from_the_lines_of_the_project(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SERIAL_CUT.parent))
    paper_page = import_module("paper_page")
    paper_page.restore(tmp_path)
    bench = Bench.at(plane(quick=False), tmp_path, Threads(1), serial=None)
    record = bench.ledger.find(case="canyon-wren.jpg", kernel=7, method=EXACT)
    assert record is not None and record["exact"]
    # Taken over once more, a line keeps what it says about where it was made.
    assert paper_page.described("2d", record, "0123456789ab") == record
    with pytest.raises(InputError, match="there already"):
        paper_page.restore(tmp_path)


def test_a_folder_without_runs_changes_nothing_in_the_docs(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SERIAL_CUT.parent))
    paper_page = import_module("paper_page")
    page = tmp_path / "paper.md"
    page.write_text("<!-- results -->\nas it was\n<!-- end of results -->\n")
    monkeypatch.setattr(paper_page, "PAGE", page)
    monkeypatch.setattr(paper_page.lines, "RESULTS", tmp_path / "results")
    for argument in (tmp_path / "nowhere", tmp_path, page):
        monkeypatch.setattr(sys, "argv", ["paper_page.py", str(argument)])
        with pytest.raises(SystemExit) as left:
            paper_page.main()
        assert left.value.code == 2 and "as it was" in page.read_text()


@pytest.mark.parametrize(
    ("shape", "blocks", "overlap", "mu0"), [((40, 36), 6, 0.25, 3.0), ((14, 12, 10), 8, 0.0, 20.0)]
)
def test_the_second_way_to_the_numbers_goes_through_the_same_labels(monkeypatch, shape, blocks, overlap, mu0):
    pytest.importorskip("maxflow")
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    check_paper = import_module("check_paper")

    rng = np.random.default_rng(len(shape))
    image, unary = rng.integers(0, 256, shape, dtype=np.uint8), rng.normal(size=shape)
    grid = check_paper.Grid.of(image, 0.5, 5, shape)
    energy = dope.Energy.grid(unary, lam=0.5, kernel=5, features=image)
    exact = dope.minimize(energy).labels
    assert np.array_equal(grid.minimum(unary), exact)
    assert grid.energy(unary, exact) == pytest.approx(energy(exact), rel=1e-12)
    seen = []
    dope.minimize(
        energy,
        blocks=blocks,
        overlap=overlap,
        method=dope.Admm.paper(mu0=mu0, rounds=3),
        watch=lambda step: seen.append(step.labels),
    )
    boxes = [block.where for block in dope.Partition.grid(shape, blocks, overlap=overlap).blocks]
    again = list(grid.admm(unary, boxes, mu0=mu0, rounds=3))
    assert len(seen) == len(again) and all(np.array_equal(a, b) for a, b in zip(seen, again, strict=True))


@pytest.mark.slow
def test_other_penalties_are_run_once_and_tabled(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    penalty = import_module("penalty")

    words = ["--quick", "--results", str(tmp_path / "lines.jsonl"), "--photos", "canyon-wren", "--kernels", "3"]
    monkeypatch.setattr(sys, "argv", ["penalty.py", *words, "--sizes", "25", "--penalties", "3", "100"])
    penalty.main()
    assert capsys.readouterr().out.count("canyon-wren") == 2
    penalty.main()
    assert capsys.readouterr().out == ""
    records = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    for record in records:
        assert record["delta"]["1"] >= record["delta"]["3"] >= record["delta"]["10"] >= -1e-9
    assert penalty.table(records).splitlines()[2].startswith("| canyon-wren | 3 | Size_25 | ")
