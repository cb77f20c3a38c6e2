"""Checkpoints of runs that are broken off, killed, short of space, or several at once: they go on to the same bit."""

import json
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import dope
from dope import Energy, Serial, Threads
from profiles import slow_but
from test_bracketing import volume
from test_checkpoint import posts


@pytest.mark.parametrize("seed", slow_but([0, 1], quick=[0]))
def test_a_run_that_was_broken_off_anywhere_goes_on_to_the_same_bit(tmp_path, seed):
    unary, image = volume((20, 20, 20), noise=1.2)
    energy = Energy.grid(unary, features=image, lam=0.7)
    settings = {"blocks": (3, 3, 3), "executor": Serial()}
    complete = tmp_path / "complete"
    expected = dope.minimize(energy, checkpoint=complete, **settings)
    files = posts(complete)
    assert len(files) > 27
    rng = np.random.default_rng(seed)
    for number in range(3):
        folder = tmp_path / f"broken-{number}"
        shutil.copytree(complete, folder)
        for path in files:
            copy = folder / path.relative_to(complete)
            fate = rng.random()
            if fate < 0.4:
                copy.unlink()
            elif fate < 0.6:
                copy.write_bytes(copy.read_bytes()[: int(rng.integers(0, 40))])
            elif fate < 0.7:
                copy.write_bytes(b"rubbish")
        result = dope.minimize(energy, resume=folder, **settings)
        assert result.exact
        assert np.array_equal(result.labels, expected.labels)


def test_a_run_goes_on_with_other_memory_and_workers(tmp_path):
    unary, image = volume((40, 40, 40), noise=1.2)
    energy = Energy.grid(unary, features=image, lam=0.7)
    first = dope.minimize(energy, memory="213MB", executor=Threads(2), checkpoint=tmp_path / "kept")
    assert len(first.partition.blocks) > 1
    again = dope.minimize(energy, memory="1GB", executor=Serial(), resume=tmp_path / "kept")
    assert again.partition.cuts == first.partition.cuts
    assert np.array_equal(again.labels, first.labels)


CLAIMS = """
import os, sys, time
from pathlib import Path
from dope.boards import FolderBoard
folder, me, other = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
for number in range(100):
    if number % 2:
        (folder / f"{number}").mkdir(exist_ok=True)
    (folder / f"{number}-{me}").touch()
    while not (folder / f"{number}-{other}").exists():  # both at once
        pass
    try:
        FolderBoard(folder / f"{number}").begin({"by": me})
        print(number)
    except ValueError as error:
        assert "another run" in str(error) or "not empty" in str(error), error
"""


def test_of_two_runs_on_one_new_folder_one_is_refused(tmp_path):
    command = [sys.executable, "-c", CLAIMS, str(tmp_path)]
    both = [
        subprocess.Popen([*command, *who], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for who in (("a", "b"), ("b", "a"))
    ]
    won = []
    for me, process in zip("ab", both, strict=True):
        said, wrong = process.communicate(timeout=120)
        assert process.returncode == 0, wrong
        won += [(int(number), me) for number in said.split()]
    assert sorted(number for number, _ in won) == list(range(100))
    for number, me in won:
        assert json.loads((tmp_path / f"{number}" / "manifest.json").read_text())["by"] == me
        assert sorted(path.name for path in (tmp_path / f"{number}").iterdir()) == ["manifest.json", "owner"]


SCRIPT = """
import sys, resource, signal
import numpy as np
import dope
folder, how, blocks, output = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
dope.minimize(dope.Energy.grid(np.ones((2, 2))), method=dope.Bracketing())  # whose modules are written nowhere later
if how == "full":  # a disk that takes no more than so many bytes of a file
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
arrays = [np.load(f"{folder}/{name}.npy", mmap_mode="r") for name in ("unary", "features")]
energy = dope.Energy.grid(arrays[0], features=arrays[1], lam=0.7)
where = {"resume" if how == "resume" else "checkpoint": f"{folder}/checkpoint"}
result = dope.minimize(energy, blocks=(blocks,) * 3, executor=dope.Threads(2), **where)
assert result.exact
np.save(f"{folder}/{output}.npy", result.labels)
"""


def run(folder, how, blocks=4, output="labels"):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), how, str(blocks), output],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )


def await_posts(folder, number):
    first = folder / "checkpoint" / "prove-01"
    until = time.monotonic() + 60
    while len(list(first.glob("[0-9]*")) if first.exists() else []) < number and time.monotonic() < until:
        time.sleep(0.005)


@pytest.fixture
def in_files(tmp_path):
    unary, image = volume((48, 48, 48), noise=1.2)
    np.save(tmp_path / "unary.npy", unary)
    np.save(tmp_path / "features.npy", image)
    return tmp_path, dope.minimize(Energy.grid(unary, features=image, lam=0.7)).labels


@pytest.mark.slow
def test_killed_and_resumed_by_several_at_once(in_files):
    """The last one to come goes on; who was there before stops with one line, unless it has finished by then."""
    folder, expected = in_files
    process = run(folder, "new")
    await_posts(folder, 5)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (folder / "labels.npy").exists()
    again = {name: run(folder, "resume", output=name) for name in ("one", "two")}
    finished = 0
    for name, process in again.items():
        _, said = process.communicate(timeout=120)
        if process.returncode == 0:
            finished += 1
            assert np.array_equal(np.load(folder / f"{name}.npy"), expected)
        else:
            assert said.count("another run has resumed") == 1, said
            assert not (folder / f"{name}.npy").exists()
    assert finished


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no limit to the size of files here")
def test_a_full_disk_is_told_and_the_run_goes_on_later(in_files):
    folder, expected = in_files
    process = run(folder, "full", 2)
    _, said = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "what was written before is whole" in said
    assert (folder / "checkpoint" / "prove-01").is_dir()
    process = run(folder, "resume", 2)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert np.array_equal(np.load(folder / "labels.npy"), expected)
