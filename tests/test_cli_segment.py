"""The commands segment, info, plan and compare, as a shell sees them: files, words, exit codes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import nibabel
import numpy as np
import pytest
import zarr
from typer.testing import CliRunner
from zarr.core.common import JSON

import dope
from dope import cli
from dope.io import load, read_image, save_labels, write_image
from test_segmentation import IMAGE, STROKES, TRUTH, disc, picture


def run(*arguments):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


IN_PHOTO, IN_SCAN = pytest.mark.usefixtures("photo"), pytest.mark.usefixtures("scan")


@pytest.fixture
def photo(tmp_path, monkeypatch):
    """A folder with a photo, strokes of both formats and a probability map; the current one."""
    monkeypatch.chdir(tmp_path)
    write_image("photo.png", IMAGE)
    write_image("strokes.png", STROKES)
    drawn = {"fg": [[[32, 24], [33, 24]]], "bg": [[[1, 1], [62, 1]]], "brush_radius": 1, "width": 64, "height": 48}
    (tmp_path / "strokes.json").write_text(json.dumps(drawn))
    write_image("probability.png", np.where(TRUTH, 200, 50).astype(np.uint8))
    return tmp_path


@pytest.fixture
def scan(tmp_path, monkeypatch):
    """A folder with a T1 and a white-matter map as NIfTI files."""
    monkeypatch.chdir(tmp_path)
    truth = disc((20, 24, 28), 8)
    affine = np.array([[2.0, 0, 0, -20], [0, 1, 0, -12], [0, 0, 1, -14], [0, 0, 0, 1]])
    image = nibabel.Nifti1Image(picture(truth, channels=1)[..., 0].astype(np.int16), affine)
    image.header["descrip"] = b"a scan"
    nibabel.save(image, "t1.nii.gz")
    noise = np.random.default_rng(0).normal(0, 0.2, truth.shape)
    probability = np.clip(np.where(truth, 0.75, 0.25) + noise, 0, 1).astype(np.float32)
    nibabel.save(nibabel.Nifti1Image(probability, affine), "wm.nii.gz")
    return truth


def test_a_photo_with_strokes_becomes_a_mask(photo):
    result = run("segment", "photo.png", "--scribbles", "strokes.json", "-o", "mask.png", "--overlay", "overlay.png",
                 "--report", "report.html", "--json", "report.json", "--workers", 2)  # fmt: skip
    assert result.exit_code == 0, result.output
    assert np.mean((read_image("mask.png") > 0) != TRUTH) < 0.01
    assert "exact" in result.output and "mask.png" in result.output
    page = (photo / "report.html").read_text()
    assert page.startswith("<!") and "photo.png" in page and not re.search(r"(src|href)=.?https?:", page)
    record = json.loads((photo / "report.json").read_text())
    assert record["result"]["exact"] and record["result"]["stopped"] == "exact"
    assert record["settings"]["kernel"] == 3 and record["job"]["scribbles"] == "strokes.json"
    assert record["versions"]["dope"] == dope.__version__
    assert read_image("overlay.png").shape[2] == 3


@IN_PHOTO
@pytest.mark.parametrize("method", ["exact", "admm", "paper"])
def test_every_method_by_name(method):
    result = run("segment", "photo.png", "--scribbles", "strokes.png", "-o", "mask.png", "--method", method,
                 "--blocks", 4, *(["--overlap", "0.1"] if method != "exact" else []))  # fmt: skip
    assert result.exit_code in (0, 3), result.output
    assert np.mean((read_image("mask.png") > 0) != TRUTH) < 0.02


def test_a_scan_and_a_probability_map_become_a_label_volume(scan):
    result = run("segment", "t1.nii.gz", "--probability", "wm.nii.gz", "-o", "seg.nii.gz", "--kernel", 5, "--lam", 2,
                 "--blocks", 8, "--overlay", "o.png", "--report", "r.html")  # fmt: skip
    assert result.exit_code == 0, result.output
    ours, given = nibabel.Nifti1Image.from_filename("seg.nii.gz"), nibabel.Nifti1Image.from_filename("t1.nii.gz")
    assert np.mean((np.asarray(ours.dataobj) > 0) != scan) < 0.02
    np.testing.assert_array_equal(ours.affine, given.affine)
    assert bytes(ours.header["descrip"]).startswith(b"a scan")
    assert ours.header.get_zooms() == (2.0, 1.0, 1.0)


@IN_PHOTO
def test_formats_in_and_out():
    np.save("photo.npy", IMAGE)
    for name in ("mask.npy", "mask.tif", "mask.zarr", "mask.npz"):
        result = run("segment", "photo.npy", "--scribbles", "strokes.png", "-o", name)
        assert result.exit_code == 0, result.output
        labels = np.asarray(load(name).pixels) > 0
        assert np.mean(labels != TRUTH) < 0.01


@IN_PHOTO
def test_more_ways_to_say_what_is_known():
    write_image("mask_in.png", np.pad(np.full((40, 56), 255, np.uint8), 4))
    for arguments in (
        ["--probability", "probability.png"],
        ["--rectangle", "6:42,12:52"],
        ["--scribbles", "strokes.png", "--model", "mixture", "--rounds", "1"],
        ["--scribbles", "strokes.png", "--margin", "0.5", "--connected"],
        ["--probability", "probability.png", "--mask", "mask_in.png", "--spacing", "2,1", "--beta", "0.001"],
        ["--scribbles", "strokes.png", "--tolerance", "1e-3", "--blocks", "4"],
    ):
        result = run("segment", "photo.png", *arguments, "-o", "out.png", "--overwrite")
        assert result.exit_code == 0, (arguments, result.output)
        assert np.mean((read_image("out.png") > 0) != TRUTH) < 0.03, arguments


@IN_PHOTO
def test_an_alpha_channel_says_nothing():
    alpha = np.random.default_rng(0).integers(0, 255, (48, 64, 1), dtype=np.uint8)
    write_image("alpha.png", np.concatenate([IMAGE, alpha], axis=2))
    for name in ("photo.png", "alpha.png"):
        assert run("segment", name, "--scribbles", "strokes.png", "-o", f"mask_{name}").exit_code == 0
    np.testing.assert_array_equal(read_image("mask_photo.png"), read_image("mask_alpha.png"))


def test_a_dry_run_computes_and_writes_nothing(photo):
    before = sorted(path.name for path in photo.iterdir())
    result = run("segment", "photo.png", "--scribbles", "strokes.png", "--dry-run", "--kernel", 5)
    assert result.exit_code == 0
    for word in ("3,072", "24 neighbours", "memory", "blocks", "nothing was computed"):
        assert word in result.output
    assert sorted(path.name for path in photo.iterdir()) == before


@IN_PHOTO
def test_stopping_early_is_exit_code_3_with_a_mask():
    result = run(
        "segment", "photo.png", "--scribbles", "strokes.png", "-o", "mask.png", "--blocks", 16, "--seconds", 1e-9
    )
    assert result.exit_code == 3, result.output
    assert read_image("mask.png").shape == TRUTH.shape


@IN_SCAN
def test_info_tells_what_is_in_a_file(photo):
    result = run("info", "t1.nii.gz")
    assert result.exit_code == 0
    for word in ("NIfTI", "20 x 24 x 28", "int16", "2 x 1 x 1"):
        assert word in result.output
    assert "48 x 64" in run("info", photo / "photo.png").output


@pytest.mark.slow
def test_plan():
    result = run("plan", "--shape", "10000x10000x5000", "--kernel", 3, "--workers", 100, "--memory", "16GB")
    assert result.exit_code == 0
    for word in ("500,000,000,000", "blocks", "per round", "100 workers"):
        assert word in result.output


def test_plans_that_are_refused():
    for bad in (["--shape", "10x"], ["--shape", "10x10", "--memory", "lots"], ["--shape", "9x9", "--kernel", 4],
                ["--shape", "9x9", "--workers", 0], ["--shape", "0x9"]):  # fmt: skip
        assert run("plan", *bad).exit_code == 2


def test_compare(photo):
    assert run("segment", "photo.png", "--scribbles", "strokes.png", "-o", "a.png", "--json", "a.json").exit_code == 0
    other = read_image("a.png") > 0
    other[0, :10] = True
    save_labels("b.png", other)
    result = run("compare", "b.png", "a.png", "--run", "a.json")
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    assert "differing 10 (0.3255%)" in words
    both = 2 * (other.sum() - 10) / (2 * other.sum() - 10)
    assert f"Dice {both:.6f}" in words
    best = json.loads((photo / "a.json").read_text())["result"]["energy"]
    assert f"E(B) {best:,.10g}" in words
    assert float(re.search(r"Delta E ([+-][\d.e+-]+) %", words)[1]) > 0
    same = run("compare", "a.png", "a.png", "--image", "photo.png", "--scribbles", "strokes.png")
    assert "Dice 1.000000" in " ".join(same.output.split()) and "Delta E +0 %" in " ".join(same.output.split())


@pytest.mark.usefixtures("photo")
def test_compare_several_labels():
    ours = np.array([[0, 1, 1, 2], [0, 1, 2, 2]], dtype=np.uint8)
    theirs = np.array([[0, 1, 1, 2], [0, 0, 4, 2]], dtype=np.uint8)
    save_labels("a.png", ours)
    save_labels("b.npy", theirs)
    words = " ".join(run("compare", "a.png", "b.npy").output.split())
    assert "labels 3 and 4 differing 2 (25.0000%)" in words
    common = {0: "0.800000 (2 and 3", 1: "0.800000 (3 and 2", 2: "0.800000 (3 and 2", 4: "0.000000 (0 and 1"}
    for label, dice in common.items():
        assert f"Dice of {label} {dice} sites)" in words
    assert "Dice of 3" not in words
    words = " ".join(run("compare", "a.png", "b.npy", "--foreground").output.split())
    assert "foreground 6 and 5 differing 1 (12.5000%) Dice 0.909091" in words
    # Two labels among several are those of their numbers.
    save_labels("c.npy", ours != 0)
    assert "Dice of 1 0.666667" in " ".join(run("compare", "a.png", "c.npy").output.split())
    # An energy is of two labels.
    save_labels("d.npy", np.arange(48 * 64).reshape(48, 64) % 3)
    result = run("compare", "d.npy", "d.npy", "--image", "photo.png", "--scribbles", "strokes.png")
    assert "Dice 1.000000" in " ".join(result.output.split()) and "Delta E" in result.output


@pytest.mark.usefixtures("photo")
def test_what_is_no_label_is_compared_as_foreground_alone():
    soft = np.linspace(0, 1, 48 * 64, dtype=np.float32).reshape(48, 64)
    np.save("soft.npy", soft)
    np.save("two.npy", (soft > 0).astype(np.uint8) * 255)
    np.save("negative.npy", -(soft > 0).astype(np.int8))
    write_image("colors.png", np.dstack([soft > 0, soft > 0.5, soft > 2]).astype(np.uint8) * 255)
    whole = {"soft.npy": "in labels of soft.npy (dtype float32); expected whole numbers"}
    words = {**whole, "negative.npy": "there is -1 in labels of negative.npy", "colors.png": "a picture in colours"}
    for name, found in words.items():
        assert "Dice 1.000000" in " ".join(run("compare", name, "two.npy", "--foreground").output.split())
        for pair in ((name, "two.npy"), ("two.npy", name)):
            result = run("compare", *pair)
            assert result.exit_code == 2 and found in result.stderr and "--foreground" in result.stderr
            assert result.stderr.count("\n") == 1
    assert run("compare", "two.npy", "missing.npy").stderr == "dope: missing.npy: no such file\n"
    # Labels in whole floats, as NIfTI often has them.
    np.save("whole.npy", np.floor(3 * soft))
    np.save("numbers.npy", np.floor(3 * soft).astype(np.uint8))
    assert "Dice of 3 1.000000" in " ".join(run("compare", "whole.npy", "numbers.npy").output.split())


@pytest.mark.usefixtures("photo")
def test_strokes_of_one_kind_are_enough_beside_a_probability():
    strokes = read_image("strokes.png")
    write_image("one.png", np.where(strokes == 2, 0, strokes).astype(np.uint8))
    write_image("p.png", np.full((48, 64), 100, dtype=np.uint8))
    result = run("segment", "photo.png", "--probability", "p.png", "--scribbles", "one.png", "-o", "a.png")
    assert result.exit_code == 0, result.output
    assert (read_image("a.png") > 0)[strokes == 1].all()


def test_ctrl_c_is_130_and_keeps_nothing_unless_asked(photo):
    rng = np.random.default_rng(0)
    write_image("large.png", rng.integers(0, 255, (500, 500, 3), dtype=np.uint8))
    write_image("p.png", rng.integers(0, 255, (500, 500), dtype=np.uint8))
    command = [sys.executable, "-m", "dope.cli", "segment", "large.png", "--probability", "p.png", "-o", "mask.png",
               "--kernel", "7", "--lam", "3", "--blocks", "256"]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=photo) as started:
        assert "round" in started.stderr.readline()
        os.kill(started.pid, signal.SIGINT)
        words = started.stderr.read()
        assert started.wait(timeout=60) == 130, words
    assert "Traceback" not in words and not (photo / "mask.png").exists()
    assert [path.name for path in photo.iterdir() if path.name.startswith(".")] == []


BAD = {
    "no such image": (["missing.png", "--scribbles", "strokes.png"], "no such file"),
    "no strokes file": (["photo.png", "--scribbles", "missing.json"], "no such file"),
    "nothing known": (["photo.png"], "nothing is known"),
    "strokes of another size": (["photo.png", "--scribbles", "small.png"], "strokes for a picture of 10 x 10"),
    "one kind of stroke": (["photo.png", "--scribbles", "one.png"], "no background strokes"),
    "strokes outside": (["photo.png", "--scribbles", "outside.json"], "outside the picture"),
    "probability above 1": (["photo.png", "--probability", "above.npy"], "probability"),
    "probability of another shape": (["photo.png", "--probability", "small.png"], "does not lie on photo.png"),
    "text named png": (["fake.png", "--scribbles", "strokes.png"], "fake.png"),
    "truncated": (["cut.png", "--scribbles", "strokes.png"], "cut.png"),
    "even kernel": (["photo.png", "--scribbles", "strokes.png", "--kernel", "4"], "kernel is 4"),
    "negative lam": (["photo.png", "--scribbles", "strokes.png", "--lam", "-1"], "lam|weight"),
    "no memory": (["photo.png", "--scribbles", "strokes.png", "--memory", "1kB"], "1 kB of memory are too little"),
    "too many blocks": (["photo.png", "--scribbles", "strokes.png", "--blocks", "99999"], "blocks"),
    "no workers": (["photo.png", "--scribbles", "strokes.png", "--workers", "0"], "Threads"),
    "no time": (["photo.png", "--scribbles", "strokes.png", "--seconds", "-1"], "--seconds is -1"),
    "tolerance of another method": (
        ["photo.png", "--scribbles", "strokes.png", "--tolerance", "1e-3", "--method", "paper"],
        "--tolerance is for",
    ),
    "huge lam": (["photo.png", "--scribbles", "strokes.png", "--lam", "1e300"], "strokes take up to"),
    "a volume as a picture": (["t1.nii.gz", "--probability", "wm.nii.gz"], "PNG has 2 axes"),
    "bad rectangle": (["photo.png", "--rectangle", "5"], "--rectangle is '5'"),
    "bad spacing": (["photo.png", "--scribbles", "strokes.png", "--spacing", "a,b"], "--spacing is 'a,b'"),
}


@pytest.mark.parametrize(("arguments", "words"), BAD.values(), ids=BAD.keys())
@IN_SCAN
def test_bad_input_is_one_line_and_exit_code_2(photo, arguments, words):
    write_image("small.png", np.ones((10, 10), np.uint8))
    write_image("one.png", (STROKES == 1).astype(np.uint8))
    (photo / "outside.json").write_text(json.dumps({"fg": [[[3, 3]]], "bg": [[[900, 3]]]}))
    np.save("above.npy", np.full(TRUTH.shape, 1.5))
    (photo / "fake.png").write_text("this is not a picture")
    (photo / "cut.png").write_bytes((photo / "photo.png").read_bytes()[:200])
    begun = time.perf_counter()
    result = CliRunner().invoke(cli.app, ["segment", *arguments, "-o", "out.png"])
    assert result.exit_code == 2, result.output
    assert time.perf_counter() - begun < 20
    assert "energy" not in result.stderr  # nothing was computed
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("dope: ") and re.search(words, lines[0]), result.stderr
    assert not (photo / "out.png").exists()


@IN_SCAN
def test_a_map_that_lies_elsewhere_is_refused():
    moved = nibabel.Nifti1Image.from_filename("wm.nii.gz")
    affine = moved.affine + np.diag([0, 0, 0.5, 0])
    nibabel.save(nibabel.Nifti1Image(np.asarray(moved.dataobj), affine), "moved.nii.gz")
    result = run("segment", "t1.nii.gz", "--probability", "moved.nii.gz", "-o", "out.nii.gz")
    assert result.exit_code == 2 and "moved.nii.gz: does not lie on t1.nii.gz" in result.stderr
    assert not Path("out.nii.gz").exists()


def test_outputs_are_checked_before_anything_is_computed(photo):
    strokes = ["photo.png", "--scribbles", "strokes.png"]
    (photo / "there.png").write_bytes(b"keep me")
    for arguments, words in (
        (["-o", "there.png"], "there already"),
        (["-o", "missing/mask.png"], "missing"),
        (["-o", "mask.gif"], "gif"),
        (["-o", "mask.jpg"], "jpg|JPEG"),
        ([], "no output is named"),
        (["-o", "m.png", "--json", "m.png"], "the same file"),
        (["-o", "m.png", "--overlay", "o.txt"], "--overlay is o.txt"),
        (["-o", "m.png", "--report", "missing/r.html"], "missing"),
        (["-o", "m.png", "--json", "there.png"], "there already"),
    ):
        result = run("segment", *strokes, *arguments)
        assert result.exit_code == 2 and re.search(words, result.stderr), (arguments, result.output)
        assert not (photo / "m.png").exists()
    assert (photo / "there.png").read_bytes() == b"keep me"
    for option in (
        ["-o", "photo.png"],
        ["-o", "m.png", "--overlay", "strokes.png"],
        ["-o", "m.png", "--json", "photo.png"],
    ):
        before = {path.name: path.read_bytes() for path in photo.iterdir()}
        result = run("segment", *strokes, *option, "--overwrite")
        assert result.exit_code == 2 and "is read; expected another name" in result.stderr
        assert {path.name: path.read_bytes() for path in photo.iterdir()} == before
    assert run("segment", *strokes, "-o", "there.png", "--overwrite").exit_code == 0
    assert read_image("there.png").shape == TRUTH.shape


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions do not bind this user")
def test_a_read_only_folder_is_refused(photo):
    (photo / "locked").mkdir(mode=0o500)
    result = run("segment", "photo.png", "--scribbles", "strokes.png", "-o", "locked/mask.png")
    assert result.exit_code == 2


@IN_PHOTO
def test_without_neighbours_lam_is_as_it_was_given():
    arguments = ["segment", "photo.png", "--probability", "probability.png", "-o", "m.png", "--json", "m.json"]
    assert run(*arguments, "--kernel", 1, "--lam", 2).exit_code == 0
    assert json.loads(Path("m.json").read_text())["settings"]["lam"] == 2
    assert run(*arguments, "--overwrite").exit_code == 0
    assert json.loads(Path("m.json").read_text())["settings"]["lam"] > 0


def test_labels_are_added_to_an_ome_zarr_image(tmp_path):
    image = tmp_path / "image.ome.zarr"
    group = zarr.open_group(str(image), mode="w", zarr_format=2)
    group.create_array("0", data=IMAGE[..., 0])
    axes: list[JSON] = [{"name": name, "type": "space"} for name in "yx"]
    level: JSON = {"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [0.5, 0.25]}]}
    group.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": [level]}]
    write_image(tmp_path / "strokes.png", STROKES)
    target = image / "labels" / "disc"
    result = run("segment", image, "--scribbles", tmp_path / "strokes.png", "-o", target)
    assert result.exit_code == 0, result.output
    found = load(target)
    assert found.spacing == (0.5, 0.25) and np.mean((np.asarray(found.pixels) > 0) != TRUTH) < 0.03
    assert zarr.open_group(str(image / "labels"), mode="r").attrs["labels"] == ["disc"]


def test_help_of_every_command():
    for command in ("segment", "info", "plan", "compare", "demo"):
        result = run(command, "--help")
        assert result.exit_code == 0 and "Usage" in result.output
