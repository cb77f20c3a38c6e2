"""Boards in real folders that break: each time the same bits, or one clear error; never a hang, or a traceback."""

import hashlib
import os
import pickle
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import dope
from clusters import kill
from dope import Bracketing, Dask, DopeError, Energy, Exact, InputError, Serial
from dope.boards import FolderBoard
from dope.boards import folder as folders
from test_boards import hard
from test_checkpoint import THINGS, posts

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links, pipes and signals")
SETTINGS = {"blocks": (2, 3), "method": Bracketing(memory=0), "executor": Serial()}


@pytest.fixture(scope="module")
def expected():
    return dope.minimize(hard(), method=Exact()).labels


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    folder = tmp_path_factory.mktemp("complete") / "board"
    dope.minimize(hard(), checkpoint=folder, **SETTINGS)
    return folder


@pytest.fixture
def kept(complete, tmp_path):
    return shutil.copytree(complete, tmp_path / "board")


@pytest.fixture
def impatient(monkeypatch):
    """Who waits for a file that will not come does so for a moment."""
    monkeypatch.setattr(folders, "SECONDS_TO_SEE", 0.5)
    monkeypatch.setattr(folders, "SECONDS_UNSEEN", 0.2)


def begun(folder):
    board = FolderBoard(folder)
    board.begin({"shape": [3]})
    return board


@pytest.mark.usefixtures("impatient")
def test_a_worker_that_does_not_see_the_folder_says_so_and_makes_none(tmp_path):
    board = begun(tmp_path / "seen")
    elsewhere = pickle.loads(pickle.dumps(board))
    (tmp_path / "seen").rename(tmp_path / "moved")
    for ask in (
        lambda: elsewhere.post("prove-01/000000", b"post"),
        lambda: elsewhere.read("prove-01/000000", "0" * 64),
    ):
        with pytest.raises(DopeError, match=r"does not see .*expected a folder that all workers see"):
            ask()
    assert not (tmp_path / "seen").exists()
    with pytest.raises(DopeError, match="cannot read"):
        board.require_owner()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("thing", [None, *THINGS])
def test_a_post_that_is_gone_while_others_need_it_is_named(tmp_path, thing, monkeypatch):
    board = begun(tmp_path / "board")
    board.post("prove-01/000000", b"post")
    digest, path = hashlib.sha256(b"post").hexdigest(), tmp_path / "board" / "prove-01" / "000000"
    assert board.read("prove-01/000000", digest) == b"post"
    path.unlink()
    if thing is not None:
        monkeypatch.chdir(path.parent)
        THINGS[thing](path)
    with pytest.raises(DopeError, match=re.escape(str(path))) as told:
        board.read("prove-01/000000", digest)
    assert "Resume the run" in str(told.value)
    board.post("prove-01/000000", b"post")
    assert board.read("prove-01/000000", digest) == b"post"


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", ["unlink", "cut", "flip"])
@pytest.mark.parametrize("kind", ["prove", "flow"])
def test_posts_that_break_while_a_run_is_under_way(tmp_path, expected, kind, fault):
    """One error that says what to do, or none; and then the run is resumed."""
    broken = []

    def strike(_):
        for path in [] if broken else [one for one in posts(tmp_path / "board") if one.parent.name.startswith(kind)]:
            broken.append(path)
            whole = path.read_bytes()
            if fault == "unlink":
                path.unlink()
            else:
                path.write_bytes(whole[:-3] if fault == "cut" else whole[:-3] + bytes([whole[-3] ^ 4]) + whole[-2:])

    said = "Resume the run: what is missing is made again"
    try:
        found = dope.minimize(hard(), checkpoint=tmp_path / "board", watch=strike, **SETTINGS)
        assert np.array_equal(found.labels, expected)
    except DopeError as error:
        said = str(error)
    assert "Resume the run: what is missing is made again" in said
    assert broken
    assert np.array_equal(dope.minimize(hard(), resume=tmp_path / "board", **SETTINGS).labels, expected)


@pytest.mark.parametrize("years", [-50, 50])
def test_no_clock_is_looked_at(kept, expected, years):
    when = time.time() + years * 365 * 86400
    for path in (kept, *kept.rglob("*")):
        os.utime(path, (when, when))
    result = dope.minimize(hard(), resume=kept, **SETTINGS)
    assert np.array_equal(result.labels, expected)
    assert {task.kind for step in result.trace for task in step.tasks.done} == {"measure", "finish"}


def test_of_two_coordinators_the_first_stops_and_the_second_finishes(tmp_path, expected):
    second = []

    def resume(step):
        if step.round == 2:
            second.append(dope.minimize(hard(), resume=tmp_path / "board", **SETTINGS).labels)

    with pytest.raises(DopeError, match=r"another run has resumed .* and goes on there; this one stops"):
        dope.minimize(hard(), checkpoint=tmp_path / "board", watch=resume, **SETTINGS)
    assert np.array_equal(second[0], expected)
    result = dope.minimize(hard(), resume=tmp_path / "board", **SETTINGS)
    assert np.array_equal(result.labels, expected)
    assert {task.kind for step in result.trace for task in step.tasks.done} == {"measure", "finish"}


def test_a_board_of_another_problem_is_refused(kept):
    for other, words in ((hard(1), "arrays"), (Energy.grid(hard().unary, lam=3.0, kernel=[(1, 0), (0, 1)]), "weights")):
        with pytest.raises(InputError, match=f"something else, its .*{words}"):
            dope.minimize(other, resume=kept, **SETTINGS)


def test_posts_of_an_older_round_under_a_newer_name_are_made_again(kept, expected):
    """As by a worker that comes late: whole, of this run, and with another basis."""
    board = FolderBoard(kept, resume=True)
    manifest = folders.read_manifest(kept)
    board.begin({name: value for name, value in manifest.items() if name not in ("version", "run")})
    names = [str(path.relative_to(kept)) for path in posts(kept)]
    contents = [board.find(name) for name in names]
    assert None not in contents
    for name, content in zip(names, contents[3:] + contents[:3], strict=True):
        board.post(name, content, replace=True)
    assert np.array_equal(dope.minimize(hard(), resume=kept, **SETTINGS).labels, expected)


FULL = """
import sys
import numpy as np
import dope
sys.path.insert(0, sys.argv[2])
from test_boards import hard
try:
    dope.minimize(hard(), checkpoint=sys.argv[1], blocks=(2, 3), executor=dope.Serial(), method=dope.Bracketing())
except dope.DopeError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root mounts")
@pytest.mark.parametrize("size", [8, 64, 160])
def test_a_disk_that_is_full_says_so_and_what_is_there_is_whole(tmp_path, expected, size):
    """A file system of so many KiB, which nobody else sees."""
    folder, kept = tmp_path / "small", tmp_path / "kept"
    folder.mkdir()
    words = [sys.executable, "-c", FULL, str(folder / "board"), str(Path(__file__).parent)]
    script = f"mount -t tmpfs -o size={size}k none {shlex.quote(str(folder))} && {shlex.join(words)}; "
    script += shlex.join(["cp", "-r", str(folder / "board"), str(kept)])
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    if "unshare" in ran.stderr or "mount" in ran.stderr:
        pytest.skip(ran.stderr)
    assert "Traceback" not in ran.stderr, ran.stderr
    assert "no space left" in ran.stdout.lower() and ran.stdout.count("\n") == 1, ran.stdout
    if (kept / "manifest.json").exists() and (kept / "manifest.json").stat().st_size:
        result = dope.minimize(hard(), resume=kept, **{**SETTINGS, "method": Bracketing()})
        assert np.array_equal(result.labels, expected)


# Processes that are killed.


def volumes(seed):
    return hard(seed, (20, 20, 20))


def killed_at(cluster, folder, fraction, seed):
    """The labels of a run in two processes, one of which is killed when such a part of its posts is there."""
    energy = volumes(seed)
    whole = folder / "whole"
    settings = {"blocks": (2, 2, 2), "method": Bracketing(passes=1)}
    dope.minimize(energy, checkpoint=whole, executor=Serial(), **settings)
    number = len(posts(whole))
    assert {"prove", "flow"} <= {path.parent.name.partition("-")[0] for path in posts(whole)}
    cluster.bring_to(2)
    over, board, killed = threading.Event(), folder / "board", []

    def strike():
        while not over.wait(0.005):
            if board.exists() and len(posts(board)) >= fraction * number:
                killed.append(cluster.workers.pop(0))
                kill(killed[0])
                cluster.start_worker()
                return

    thread = threading.Thread(target=strike)
    thread.start()
    try:
        with Dask(cluster.address, patience=60.0) as executor:
            found = dope.minimize(energy, checkpoint=board, executor=executor, **settings)
    finally:
        over.set()
        thread.join()
    assert found.exact and killed
    return found.labels, dope.minimize(energy, method=Exact()).labels


@pytest.mark.slow
@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9])
def test_a_worker_that_is_killed_on_the_way(cluster, tmp_path, fraction):
    pytest.importorskip("distributed")
    found, expected = killed_at(cluster, tmp_path, fraction, 0)
    assert np.array_equal(found, expected)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_workers_that_are_killed_anywhere(cluster, tmp_path, seed):
    pytest.importorskip("distributed")
    found, expected = killed_at(cluster, tmp_path, float(np.random.default_rng(seed).random()), seed)
    assert np.array_equal(found, expected)


@pytest.mark.slow
def test_a_folder_that_one_worker_does_not_see(cluster, tmp_path):
    pytest.importorskip("distributed")
    board = tmp_path / "board"
    board.mkdir()
    covered = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs none {board} && exec "$@"', "sh"]
    probe = subprocess.run([*covered, "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"no mounts of one's own: {probe.stderr}")
    cluster.bring_to(1)
    blind = subprocess.Popen(
        [*covered, sys.executable, "-m", "distributed.cli.dask_worker", cluster.address, "--nthreads=1", "--no-nanny"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        cluster.await_workers(2)
        with Dask(cluster.address, patience=30.0) as executor, pytest.raises(DopeError, match="does not see") as told:
            dope.minimize(volumes(0), checkpoint=board, executor=executor, blocks=(2, 2, 2), method=Bracketing())
        assert str(board) in str(told.value) and "Traceback" not in str(told.value)
    finally:
        blind.send_signal(signal.SIGKILL)
        blind.wait()
        cluster.await_workers(1)
