"""The command: what it prints and writes, how it ends, and what it refuses."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest
from typer.testing import CliRunner

from dope import __version__, cli, samples
from dope.cli import progress
from dope.cli.exits import Cancel
from dope.io import read_image, read_scribbles, write_image
from dope.memory import peak_bytes

PICTURES = ["blocks.png", "convergence.png", "mask.png", "overlay.png"]
FILES = sorted([*PICTURES, "photo.json", "photo.png"])


def run(*arguments, folder):
    return subprocess.run(
        [sys.executable, "-m", "dope.cli", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture
def small_sample(tmp_path, monkeypatch):
    """A bright square on dark ground in place of the packaged photo."""
    draw = np.random.default_rng(0)
    image = np.full((60, 80, 3), 60.0)
    image[20:45, 25:60] = 170
    image = np.clip(image + draw.normal(0, 12, image.shape), 0, 255).astype(np.uint8)
    folder = tmp_path / "sample"
    folder.mkdir()
    write_image(folder / "photo.png", image)
    strokes = {"fg": [[[32, 30], [52, 30]]], "bg": [[[8, 8], [70, 8]]], "brush_radius": 3}
    (folder / "photo.json").write_text(json.dumps(strokes))

    @contextmanager
    def sample():
        yield samples.Sample(folder / "photo.png", folder / "photo.json")

    monkeypatch.setattr(samples, "canyon_wren", sample)
    truth = np.zeros((60, 80), dtype=bool)
    truth[20:45, 25:60] = True
    return truth


@pytest.mark.parametrize("more", [[], ["--blocks", "6", "--overlap", "0.25"], ["--method", "paper", "--kernel", "3"]])
def test_the_demo_writes_mask_and_pictures(small_sample, tmp_path, more):
    out = tmp_path / "a folder" / "out"
    result = CliRunner().invoke(cli.app, ["demo", "-o", str(out), "--workers", "2", *more])
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in out.iterdir()) == FILES
    mask = read_image(out / "mask.png") > 0
    assert (mask != small_sample).mean() < 0.01
    for word in ("sites", "4,800", "pairs", "blocks", "rounds", "energy", "seconds", "peak memory", str(out)):
        assert word in result.output


@pytest.mark.usefixtures("small_sample")
def test_a_cancelled_demo_keeps_the_best_labels(tmp_path, monkeypatch):
    monkeypatch.setattr(progress.Shown, "__call__", lambda *_: signal.raise_signal(signal.SIGINT))
    result = CliRunner().invoke(cli.app, ["demo", "-o", str(tmp_path / "out"), "--blocks", "12"])
    assert result.exit_code == 130 and "cancelled" in result.output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES


@pytest.mark.usefixtures("small_sample")
def test_a_demo_without_matplotlib_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = CliRunner().invoke(cli.app, ["demo", "-o", str(tmp_path / "out")])
    assert result.exit_code == 0 and "dope[report]" in result.output
    assert "convergence.png" not in [path.name for path in (tmp_path / "out").iterdir()]


def test_the_first_interrupt_asks_and_the_second_one_interrupts():
    before = signal.getsignal(signal.SIGINT)
    with Cancel() as cancel:
        cancel.rounds += 1
        assert not cancel.asked
        signal.raise_signal(signal.SIGINT)
        assert cancel.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    with Cancel() as cancel, pytest.raises(KeyboardInterrupt):  # before any round there is nothing to wait for
        signal.raise_signal(signal.SIGINT)
    assert cancel.asked


def test_version_and_help(tmp_path):
    assert run("--version", folder=tmp_path).stdout == f"dope {__version__}\n"
    shown = run("demo", "--help", folder=tmp_path)
    assert shown.returncode == 0 and "--kernel" in shown.stdout


BAD_INPUT = [
    (["--kernel", "4"], "kernel is 4"),
    (["--kernel", "1"], "kernel 1"),
    (["--blocks", "0"], "0 blocks"),
    (["--overlap", "1"], "overlap is 1.0"),
    (["--overlap", "-0.5"], "overlap is -0.5"),
    (["--workers", "0"], "Threads(0)"),
    (["-o", "a_file"], "cannot make the folder a_file"),
    (["--method", "magic"], "magic"),
    (["--blocks", "many"], "--blocks"),
]


def assert_one_line(code, out, err, words):
    assert code == 2 and words in err and "Traceback" not in err
    assert out == ""
    if "usage" not in err.lower():  # what typer itself says of arguments comes in a frame
        assert len(err.splitlines()) == 1


@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize(("arguments", "words"), BAD_INPUT)
def test_bad_input_ends_in_one_line_and_exit_code_2(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_file").touch()
    done = CliRunner().invoke(cli.app, ["demo", *arguments])
    assert_one_line(done.exit_code, done.stdout, done.stderr, words)


# A process takes a second: one refusal by dope, and one by typer.
@pytest.mark.parametrize(("arguments", "words"), [BAD_INPUT[0], pytest.param(*BAD_INPUT[-1], marks=pytest.mark.slow)])
def test_the_process_ends_so_too(tmp_path, arguments, words):
    done = run("demo", *arguments, folder=tmp_path)
    assert_one_line(done.returncode, done.stdout, done.stderr, words)


def test_the_packaged_photo_is_large_and_its_strokes_fit():
    with samples.canyon_wren() as sample:
        image = read_image(sample.photo)
        seeds = read_scribbles(sample.scribbles, image.shape)
    assert image.shape[0] * image.shape[1] >= 8_000_000
    assert (seeds == 1).any() and (seeds == 2).any()


def test_peak_memory_is_told_in_bytes():
    peak = peak_bytes()
    assert peak is None or 10e6 < peak < 1e12


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals to other processes differ on Windows")
def test_an_interrupt_while_rounds_run_writes_the_pictures_and_ends_with_130(tmp_path):
    arguments = ["demo", "-o", "out", "--kernel", "3", "--blocks", "32"]
    running = subprocess.Popen(
        [sys.executable, "-m", "dope.cli", *arguments], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    with running:
        assert running.stderr is not None
        for line in running.stderr:
            if line.split()[:1] == ["1"]:
                break
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()
    assert running.returncode == 130 and "stopping after this round" in said
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {*PICTURES, "canyon-wren.jpg", "canyon-wren.json"}


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals to other processes differ on Windows")
def test_the_second_interrupt_ends_the_demo_at_once_with_130(tmp_path):
    arguments = ["demo", "-o", "out", "--blocks", "8", "--workers", "2"]
    running = subprocess.Popen(
        [sys.executable, "-m", "dope.cli", *arguments], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    with running:
        assert running.stderr is not None
        for line in running.stderr:
            if line.split()[:1] == ["1"]:
                break
        running.send_signal(signal.SIGINT)
        for line in running.stderr:
            if "Ctrl-C again" in line:
                break
        sent = time.monotonic()
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()
    assert running.returncode == 130 and said.strip() == "dope: cancelled"
    assert time.monotonic() - sent < 2.0  # the interpreter, too, has to end
    assert not list((tmp_path / "out").iterdir())
