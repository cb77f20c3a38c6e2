"""A segmentation of files: read as its plan says, written to JSON and read again, repeated by `dope segment --from`."""

import json
import math
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import dope
from dope import InputError, Segmentation, cli
from dope.cli.flags import in_flags
from dope.io import load, read_image, write_image
from dope.models import ColorClusters, ColorMixture, GreyHistogram
from dope.segmentation.files import Files
from profiles import examples
from test_segmentation import IMAGE, STROKES, TRUTH

JSON_STROKES = {"fg": [[[32, 24], [33, 24]]], "bg": [[[1, 1], [62, 1]]], "brush_radius": 1, "width": 64, "height": 48}
SOFT = np.where(TRUTH, 0.8, 0.2).astype(np.float32)
FOREGROUND_ONLY = np.where(STROKES == 1, 1, 0).astype(np.uint8)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A photo, strokes, a map and a mask; the current folder."""
    monkeypatch.chdir(tmp_path)
    write_image("photo.png", IMAGE)
    write_image("strokes.png", STROKES)
    write_image("one.png", FOREGROUND_ONLY)
    (tmp_path / "strokes.json").write_text(json.dumps(JSON_STROKES))
    np.save("soft.npy", SOFT)
    np.savez_compressed("soft.npz", SOFT)
    write_image("mask.png", np.pad(np.full((44, 56), 255, np.uint8), ((1, 3), (4, 4))))
    return tmp_path


IN_FOLDER = pytest.mark.usefixtures("folder")


def run(*arguments):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def same(one, other):
    return np.array_equal(np.asarray(one.labels), np.asarray(other.labels)) and one.energy == other.energy


# Paths in place of arrays


@pytest.mark.parametrize("as_path", [str, "as a Path"])
@pytest.mark.parametrize("more", [{}, {"margin": 0.5}, {"mask": "mask.png"}, {"kernel": 5, "blocks": 4}])
def test_paths_give_what_their_arrays_give(folder, as_path, more):
    def place(name):
        return folder / name if as_path == "as a Path" else name

    mask = {"mask": read_image("mask.png") > 0} if "mask" in more else {}
    in_files = {name: place(value) if isinstance(value, str) else value for name, value in more.items()}
    found = Segmentation(image=place("photo.png"), scribbles=place("strokes.png"), **in_files)
    expected = Segmentation(image=IMAGE, scribbles=STROKES, **{**more, **mask})
    result = found.run()
    assert same(result, expected.run()) and same(found.start().result(), result)
    assert found.shape == TRUTH.shape
    energy, where = found.energy()
    assert energy(result.labels[where]) == result.energy


@IN_FOLDER
@pytest.mark.parametrize(
    "more", [{"image": IMAGE}, {"scribbles": STROKES}, {"image": IMAGE, "scribbles": "strokes.json"}]
)
def test_paths_and_arrays_go_together(more):
    result = Segmentation(**{"image": "photo.png", "scribbles": "strokes.png", **more}).run()
    assert np.mean(result.labels != TRUTH) < 0.01


@IN_FOLDER
def test_segment_takes_paths_too():
    assert same(dope.segment("photo.png", scribbles="strokes.png"), dope.segment(IMAGE, scribbles=STROKES))


@IN_FOLDER
@pytest.mark.parametrize("name", ["soft.npy", "soft.npz"])
def test_files_are_read_box_by_box_where_the_plan_says_so(folder, name):
    expected = dope.segment(IMAGE, probability=SOFT)
    scratch = folder / "scratch"
    scratch.mkdir()
    found = Segmentation(image="photo.png", probability=name, method=dope.Bracketing(), blocks=4)
    plan = found.plan()
    result = found.run(plan=plan, scratch=scratch)
    assert plan.in_boxes and np.array_equal(result.labels, expected.labels)
    assert list(scratch.iterdir()) == []
    energy, _ = found.energy()  # which can be read as long as it is there
    assert energy(result.labels) == pytest.approx(expected.energy)


@IN_FOLDER
def test_nothing_is_read_before_it_is_planned(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("read")

    monkeypatch.setattr("dope.segmentation.files.load", fail)
    monkeypatch.setattr("dope.segmentation.files.open_scribbles", fail)
    found = Segmentation(image="photo.png", scribbles="strokes.json", memory="1MB")
    with pytest.raises(InputError, match="1 MB of memory are too little"):
        found.run()
    assert Segmentation(image="photo.png", scribbles="strokes.json").plan().sites == TRUTH.size


@IN_FOLDER
def test_what_a_file_says_of_itself_counts():
    zarr.create_array("image.zarr", data=IMAGE[..., 0])
    zarr.create_array("soft.zarr", data=SOFT, chunks=(16, 32))
    files = Files.of(Segmentation(image="image.zarr", probability="soft.zarr"))
    assert files.described.probability.chunks == (16, 32)
    with files.open(in_boxes=True) as opened:
        assert opened.said.probability.chunks == (16, 32) and opened.image.shape == TRUTH.shape
    with pytest.raises(InputError, match="a file, which says itself"):
        Segmentation(image="photo.png", scribbles="strokes.png", channel_axis=0).plan()


@IN_FOLDER
@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"probability": "photo.png"}, "3 maps in one file"),
        ({"probability": "small.npy"}, "small.npy: does not lie on photo.png"),
        ({"unary": "small.npy"}, "small.npy: does not lie on photo.png"),
        ({"scribbles": "missing.json"}, "no such file"),
        ({"scribbles": "one.png"}, "no background strokes"),
        ({"scribbles": "strokes.png", "image": b"photo.png"}, "image"),
    ],
)
def test_files_that_do_not_fit_are_refused(more, words):
    np.save("small.npy", np.full((10, 10), 0.5))
    with pytest.raises(InputError, match=words):
        Segmentation(**{"image": "photo.png", **more}).run()


@IN_FOLDER
def test_strokes_of_one_kind_will_do_beside_a_map():
    result = run("segment", "photo.png", "--probability", "soft.npy", "--scribbles", "one.png", "-o", "m.png")
    assert result.exit_code == 0, result.output
    expected = dope.segment(IMAGE, probability=SOFT, scribbles=FOREGROUND_ONLY)
    assert np.array_equal(read_image("m.png") > 0, expected.labels)


# JSON


def number(least=0.0):
    return st.floats(least, 1e6, allow_nan=False)


METHODS = st.one_of(
    st.builds(dope.Exact, tolerance=number(), rounds=st.none() | st.integers(0, 9), merge=st.booleans()),
    st.builds(dope.Admm, mu0=st.just("auto") | number(0.1), penalty=st.sampled_from(["coupled", "all"])),
    st.just(dope.Admm.paper()),
    st.builds(dope.Bracketing, passes=st.integers(1, 9)),
)  # fmt: skip
SOLVERS = st.one_of(
    st.builds(dope.MaxFlow, bits=st.sampled_from([None, 32, 64]), check=st.booleans()),
    st.builds(dope.LsaTr, starts=st.sampled_from([("cooled",), ("smooth", "cooled")]), seed=st.integers(0, 9)),
    st.builds(dope.TrwS, rounds=st.integers(1, 9), tolerance=st.floats(0, 0.5)),
)
MODELS = st.one_of(
    st.builds(ColorClusters, clusters=st.integers(1, 9)), st.just(ColorMixture()),
    st.builds(GreyHistogram, width=number(0.1)),
)  # fmt: skip
EXECUTORS = st.one_of(
    st.builds(dope.Threads, st.none() | st.integers(1, 9)), st.just(dope.Serial()),
    st.just(dope.Dask("local:2")), st.just(dope.Dask("tls://10.0.0.1:8786")),
)  # fmt: skip
SIDES = st.tuples(st.integers(0, 9), st.integers(10, 99))
OPEN = {
    "mask": st.text(), "margin": number(), "lam": st.just("auto") | number(), "beta": number(),
    "kernel": st.integers(0, 9) | st.just(((0, 1), (1, 0))), "spacing": st.tuples(number(), number()),
    "model": MODELS, "rounds": st.integers(0, 9), "connected": st.booleans(),
    "blocks": st.integers(1, 99) | st.tuples(st.integers(1, 9)), "overlap": st.integers(0, 9) | number(),
    "method": METHODS, "solver": SOLVERS, "executor": EXECUTORS, "memory": st.integers(1, 10**12) | st.just("8GB"),
}  # fmt: skip
KNOWN = st.one_of(
    st.fixed_dictionaries({"scribbles": st.text()}),
    st.fixed_dictionaries({"rectangle": st.tuples(SIDES, SIDES)}),
    st.fixed_dictionaries({"lasso": st.just(((1.0, 2.0), (3.0, 4.0), (5.0, 0.5)))}),
)


def fields_of(said):
    """All fields, with what means the same as one."""
    found = {one.name: getattr(said, one.name) for one in fields(said)}
    if found["executor"] == dope.Threads():
        found["executor"] = None
    return {name: str(value) if isinstance(value, dope.Dask) else value for name, value in found.items()}


def as_tuples(value):
    return tuple(map(as_tuples, value)) if isinstance(value, list | tuple) else value


@examples(200)
@given(st.text(), KNOWN, st.fixed_dictionaries({}, optional=OPEN))
def test_what_is_written_is_read_again(image, known, more):
    said = Segmentation(image=image, **known, **more)
    text = json.dumps(said.to_json(), allow_nan=False)
    again = Segmentation.from_json(json.loads(text))
    assert {name: as_tuples(value) for name, value in fields_of(again).items()} == {
        name: as_tuples(value) for name, value in fields_of(said).items()
    }
    assert json.dumps(again.to_json()) == text


class Strange:
    """A plug-in of somebody else."""

    def steps(self, problem):
        raise AssertionError(problem)

    prepare = gather = unary = steps


@pytest.mark.parametrize(
    "more",
    [{"image": IMAGE}, {"scribbles": STROKES}, {"mask": TRUTH}, {"method": Strange()}, {"solver": Strange()},
     {"model": Strange()}, {"executor": Strange()}, {"blocks": dope.Partition.grid(TRUTH.shape, 2)}],
)  # fmt: skip
def test_what_cannot_be_written_is_named(more):
    said = Segmentation(**{"image": "photo.png", "scribbles": "strokes.png", **more})
    with pytest.raises(InputError, match=f"^{next(iter(more))} is "):
        said.to_json()


OLD = {
    "image": "photo.png", "scribbles": "strokes.png", "probability": None, "mask": None, "rectangle": None,
    "margin": 0.5, "lam": None, "kernel": 5, "beta": 0.001, "spacing": [2.0, 1.0], "model": "mixture", "rounds": 1,
    "connected": True, "blocks": 4, "overlap": 0.0, "method": None, "tolerance": 1e-5, "workers": 2, "memory": "8GB",
    "dask": None,
}  # fmt: skip


def test_reports_of_before_are_read(folder):
    (folder / "old.json").write_text(json.dumps({"job": OLD, "settings": {}, "result": {}}))
    said = Segmentation.from_json("old.json")
    assert said.method == dope.Exact(tolerance=1e-5) and said.executor == dope.Threads(2)
    assert (said.lam, said.model, said.spacing, said.memory) == ("auto", ColorMixture(), (2.0, 1.0), "8GB")
    assert said.to_json() == {**OLD, "method": "exact"}
    box = Segmentation.from_json({"image": "photo.png", "rectangle": "1:2,3:40"})
    assert box.rectangle == ((1, 2), (3, 40)) and box.to_json()["rectangle"] == "1:2,3:40"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"kernel": "3"}, "kernel is '3'; expected int"),
        ({"kernel": True}, "kernel is True"),
        ({"lam": "much"}, "lam is 'much'; expected float"),
        ({"spacing": [1, "2"]}, "spacing is"),
        ({"method": "magic"}, "method is 'magic'; expected one of exact"),
        ({"method": {"name": "exact", "rounds": "3"}}, "exact has 'rounds' of '3'; expected int"),
        ({"method": {"name": "exact", "shares_a_flow": True}}, "method"),
        ({"method": {"name": "paper", "penalty": "all"}}, "no such setting"),
        ({"solver": {"name": "maxflow", "bits": -1}}, "bits"),
        ({"tolerance": 0.1, "method": "admm"}, "tolerance is for the method exact"),
        ({"dask": "local:2", "workers": 2}, "workers and dask are both given"),
        ({"rectangle": "5"}, "rectangle is '5'"),
        ({"image": 5}, "image is 5; expected str"),
    ],
)
def test_documents_are_checked(document, words):
    with pytest.raises(InputError, match=re.escape(words)):
        Segmentation.from_json({"image": "photo.png", "scribbles": "strokes.png", **document})


# The command line


def test_a_run_is_repeated_from_its_report(folder):
    known = ["segment", "photo.png", "--scribbles", "strokes.json", "--kernel", 5, "--tolerance", "1e-6", "--blocks", 4]
    assert run(*known, "-o", "a.png", "--json", "a.json").exit_code == 0
    result = run("segment", "--from", "a.json", "-o", "b.png", "--json", "b.json")
    assert result.exit_code == 0, result.output
    one, other = (json.loads((folder / name).read_text()) for name in ("a.json", "b.json"))
    assert one["job"] == other["job"] and one["result"]["energy"] == other["result"]["energy"]
    assert (folder / "a.png").read_bytes() == (folder / "b.png").read_bytes()
    assert run("segment", "--from", "a.json", "-o", "c.png", "--json", "c.json", "--kernel", 3, "--method", "admm",
               "--rectangle", "6:42,12:52", "--workers", 1).exit_code in (0, 3)  # fmt: skip
    job = json.loads((folder / "c.json").read_text())["job"]
    expected = {"kernel": 3, "method": "admm", "tolerance": 0.0, "rectangle": "6:42,12:52", "workers": 1}
    assert job == {**one["job"], **expected}
    assert "'a.json' " not in run("segment", "-o", "d.png").stderr
    assert run("segment", "-o", "d.png").exit_code == 2
    assert "is read" in run("segment", "--from", "a.json", "-o", "photo.png", "--overwrite").stderr


@IN_FOLDER
def test_what_a_dry_run_shows_is_what_runs():
    rng = np.random.default_rng(0)
    soft = np.repeat(np.repeat(rng.random((60, 60)), 10, axis=0), 10, axis=1).astype(np.float32)
    np.save("p.npy", soft)
    np.save("i.npy", rng.integers(0, 200, soft.shape, dtype=np.uint8))
    known = ["segment", "i.npy", "--probability", "p.npy", "-o", "l.zarr", "--memory", "240MB", "--workers", 2]
    for more in (["--checkpoint", "kept"], ["--blocks", 4], []):
        shown = run(*known, *more, "--dry-run").output
        result = run(*known, *more, "--json", "r.json", "--overwrite")
        assert result.exit_code == 0, result.output
        blocks = json.loads(Path("r.json").read_text())["result"]["blocks"]
        assert re.search(rf"^blocks +{blocks}\b", shown, re.MULTILINE), shown
        assert re.search(r"^memory +about .* of 240 MB allowed$", shown, re.MULTILINE), shown
    little = run(*known[:-3], "1MB", "--dry-run")
    assert little.exit_code == 2 and "1 MB" in little.stderr


def test_one_clock(folder):
    known = ["segment", "photo.png", "--scribbles", "strokes.json", "-o", "m.png"]
    result = run(*known, "--trace", "t.jsonl", "--json", "r.json")
    assert result.exit_code == 0
    record = json.loads((folder / "r.json").read_text())["result"]
    last = json.loads((folder / "t.jsonl").read_text().splitlines()[-1])
    assert 0 <= last["seconds"] <= record["seconds"]
    told = re.search(r"seconds +([\d.]+) \(([\d.]+) reading, ([\d.]+) minimizing, ([\d.]+) writing\)", result.output)
    total, *parts = map(float, told.groups())
    assert math.isclose(parts[1], record["seconds"], abs_tol=0.06) and sum(parts) <= total + 0.2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--kernel", "4"], "dope: --kernel is 4;"),
        (["--lam", "-1"], "dope: --lam is -1.0;"),
        (["--margin", "-1"], "dope: --margin is -1.0;"),
        (["--spacing", "1,2,3"], "dope: --spacing is "),
        (["--rounds", "-1"], "dope: --rounds is -1;"),
        (["--tolerance", "-1"], "dope: --tolerance is -1.0;"),
        (["--tolerance", "1", "--method", "paper"], "dope: --tolerance is for the method exact;"),
        (["--dask", "local:2", "--workers", "2"], "dope: --workers and --dask are both given;"),
        (["--rectangle", "5"], "dope: --rectangle is '5';"),
        (["--rectangle", "1:5,1:5", "--probability", "soft.npy"], "dope: --probability and --rectangle are given;"),
        (["--checkpoint", "a", "--resume", "b"], "dope: --checkpoint and --resume are both given;"),
    ],
)
@IN_FOLDER
def test_errors_name_options(arguments, words):
    scribbles = [] if "--rectangle" in arguments else ["--scribbles", "strokes.png"]
    result = run("segment", "photo.png", *scribbles, *arguments, "-o", "m.png")
    assert result.exit_code == 2 and result.stderr.startswith(words), result.stderr


def test_only_what_is_said_of_arguments_is_translated():
    flags = {"mask": "--mask", "memory": "--memory", "scribbles": "--scribbles"}
    for text in ("mask.png: no such file", "1 kB of memory are too little", "a memory is needed", "masks are many"):
        assert in_flags(text, flags) == text
    assert in_flags("scribbles and mask are shaped so", flags) == "--scribbles and --mask are shaped so"
    assert in_flags("kernel is 4", {}) == "kernel is 4"


def test_load_is_what_the_command_writes(folder):
    assert run("segment", "photo.png", "--scribbles", "strokes.png", "-o", "m.npy").exit_code == 0
    expected = Segmentation(image=folder / "photo.png", scribbles=folder / "strokes.png").run()
    assert np.array_equal(np.asarray(load("m.npy").pixels), expected.labels)
