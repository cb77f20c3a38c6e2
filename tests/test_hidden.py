"""What a killed process was about to write: the next one removes it, and touches nothing that somebody works with."""

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from dope import hidden
from dope.durable import check_folder, hidden_file, hidden_folder, replacing_folder, scratch_folder, write_text
from dope.hidden import hidden_name, remove_abandoned
from dope.io import load, open_labels, write_image
from profiles import slow_but

ON_POSIX = pytest.mark.skipif(os.name == "nt", reason="signals and links of POSIX")
WRITES = """
import sys
from pathlib import Path
from dope.durable import hidden_file, hidden_folder, scratch_folder
place = Path(sys.argv[1])
with hidden_file(place / "a.png") as file, hidden_folder(place / "b.zarr") as folder, scratch_folder(place) as scratch:
    file.write_bytes(b"half")
    (folder / "c").mkdir()
    (folder / "c" / "0").write_bytes(b"half")
    (scratch / "unpacked.npy").write_bytes(b"half")
    print("ready", flush=True)
    sys.stdin.read()
"""
SWEEPS = """
import sys
from pathlib import Path
from dope.durable import write_text
write_text(Path(sys.argv[1]) / "new", "x")
"""


def start(code, *arguments):
    """A process that ends when its input does, as it does when a test fails."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def sweep(folder):
    """A later run that writes something there."""
    subprocess.run([sys.executable, "-c", SWEEPS, str(folder)], check=True)
    assert (folder / "new").read_text() == "x"
    (folder / "new").unlink()


@pytest.fixture
def killed(tmp_path):
    """A folder in which a process was killed, and what is left of it."""
    with start(WRITES, tmp_path) as process:
        assert process.stdout.readline() == "ready\n"
        process.kill()
    assert len(list(tmp_path.iterdir())) == 4
    return tmp_path


@ON_POSIX
def test_what_a_killed_process_left_is_removed_by_the_next(killed):
    sweep(killed)
    assert not list(killed.iterdir())


@ON_POSIX
def test_what_a_living_process_works_with_stays(tmp_path):
    with start(WRITES, tmp_path) as process:
        assert process.stdout.readline() == "ready\n"
        before = sorted(tmp_path.rglob("*"))
        sweep(tmp_path)
        assert sorted(tmp_path.rglob("*")) == before
    assert not list(tmp_path.iterdir())


@ON_POSIX
def test_a_stopped_process_is_a_living_one(tmp_path):
    with start(WRITES, tmp_path) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGSTOP)
        try:
            sweep(tmp_path)
            assert len(list(tmp_path.iterdir())) == 4
        finally:
            process.kill()


@ON_POSIX
def test_links_are_not_followed(killed, tmp_path_factory):
    precious = tmp_path_factory.mktemp("elsewhere")
    (precious / "data").write_text("all there is")
    folder = next(entry for entry in killed.iterdir() if entry.is_dir())
    (folder / "link").symlink_to(precious)
    link = killed / f"{next(killed.glob('.dope-*-*-*')).name}0"
    link.symlink_to(precious)
    (killed / f"{link.name}1").symlink_to(precious / "data")
    sweep(killed)
    assert (precious / "data").read_text() == "all there is"
    assert sorted(entry.name for entry in killed.iterdir()) == [link.name, f"{link.name}1"]


@ON_POSIX
def test_an_owner_that_is_a_link_or_no_file_is_left_alone(tmp_path):
    host = hidden._host()
    (tmp_path / "target").write_text("x")
    for token, make in (("00000000", lambda path: path.symlink_to(tmp_path / "target")), ("00000001", os.mkfifo)):
        make(tmp_path / f".dope-{host}-{token}")
        (tmp_path / f".dope-{host}-{token}-0.png").write_text("y")
    before = sorted(tmp_path.iterdir())
    remove_abandoned(tmp_path)
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / "target").read_text() == "x"


@pytest.mark.parametrize(
    "name",
    [
        ".dope-ffffffff-00000000-0.png",  # of another host
        ".dope-{host}-00000000-0.png",  # of nobody: whoever made it left no lock to tell by
        ".dope-{host}-0000-0.png",
        ".dope-{host}",
        ".dope-cache",
        "dope-{host}-00000000-0",
        ".mask-00000000.png",
    ],
)
def test_names_of_others_stay(tmp_path, name):
    path = tmp_path / name.format(host=hidden._host())
    path.write_text("x")
    remove_abandoned(tmp_path)
    assert path.read_text() == "x"


def test_another_host_with_its_lock_file_is_left_alone(killed_elsewhere):
    before = sorted(killed_elsewhere.iterdir())
    sweep(killed_elsewhere)
    assert sorted(killed_elsewhere.iterdir()) == before


@pytest.fixture
def killed_elsewhere(killed):
    for path in list(killed.iterdir()):
        path.rename(path.with_name(path.name.replace(hidden._host(), "ffffffff")))
    return killed


def test_nothing_is_left_after_an_ordinary_end(tmp_path):
    write_text(tmp_path / "a.txt", "a")
    check_folder(tmp_path / "b")
    with pytest.raises(ZeroDivisionError), hidden_file(tmp_path / "c.png"), scratch_folder(tmp_path):
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert not hidden._OWNERS


def test_many_threads_share_a_folder(tmp_path):
    def work(number):
        with hidden_name(tmp_path) as name:
            name.touch(exist_ok=False)
            time.sleep(0.001)
            remove_abandoned(tmp_path)
            name.rename(tmp_path / f"{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(100)))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(map(str, range(100)))


def test_names_are_short_whatever_the_file_is_called(tmp_path):
    longest = tmp_path / ("n" * 251 + ".txt")
    write_text(longest, "x")
    assert longest.read_text() == "x"


EXCHANGES = """
import os, sys
from pathlib import Path
import dope.durable
path, moment = Path(sys.argv[1]), sys.argv[2]
renames = iter(range(10))
rename = Path.rename
def killed(self, target):
    if next(renames) == int(moment):
        os.kill(os.getpid(), 9)
    return rename(self, target)
Path.rename = killed
with dope.durable.replacing_folder(path) as folder:
    (folder / "new").write_text("new")
"""


@ON_POSIX
@pytest.mark.parametrize("moment", [0, 1, 2, 3])
def test_a_folder_is_never_lost(tmp_path, moment):
    """Killed at each step of the exchange of a folder, and swept: the old one or the new one is there, whole."""
    with replacing_folder(tmp_path / "a.zarr") as folder:
        (folder / "old").write_text("old")
    done = subprocess.run([sys.executable, "-c", EXCHANGES, str(tmp_path / "a.zarr"), str(moment)], check=False)
    assert done.returncode == (-9 if moment < 3 else 0)
    sweep(tmp_path)
    found = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"old"} if moment < 2 else {"new"} <= found


SEGMENT = ["--probability", "p.npy", "--checkpoint", "c", "--blocks", "8", "-o", "mask.npy"]


@ON_POSIX
def test_a_run_that_is_killed_and_run_again(tmp_path):
    rng = np.random.default_rng(0)
    write_image(tmp_path / "p.png", rng.integers(0, 255, (120, 160), dtype=np.uint8))
    np.save(tmp_path / "p.npy", rng.random((120, 160), dtype=np.float32))
    command = [sys.executable, "-m", "dope.cli", "segment", "p.png", *SEGMENT]
    for _ in range(2):
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and len(list(tmp_path.glob(".dope-*-*-*"))) < 2:
                time.sleep(0.001)
            process.kill()
        assert process.returncode == -9 and list(tmp_path.glob(".dope-*")) and not (tmp_path / "mask.npy").exists()
        shutil.rmtree(tmp_path / "c", ignore_errors=True)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob(".*")) and load(tmp_path / "mask.npy").pixels.shape == (120, 160)


OPENS = """
import sys
from dope.io import open_labels
target = open_labels(sys.argv[1], (40, 50))
target[:20] = [[True] * 50] * 20
print("ready", flush=True)
sys.stdin.read()
"""


NAMES = ["out.npy", "out.nii.gz", "out.tif", "out.zarr"]


@ON_POSIX
@pytest.mark.parametrize("name", slow_but(NAMES, quick=["out.npy", "out.zarr"]))
def test_labels_that_were_never_committed(tmp_path, name):
    command = [sys.executable, "-c", OPENS, str(tmp_path / name)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.kill()
    assert list(tmp_path.glob(".dope-*"))
    hidden._LOOKED_AT.discard(tmp_path)
    with open_labels(tmp_path / name, (40, 50)) as target:
        target[...] = np.ones((40, 50), bool)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_folder_that_cannot_be_looked_at_is_no_error():
    remove_abandoned(Path("no such folder"))


def test_hidden_folders_keep_their_suffix(tmp_path):
    with hidden_folder(tmp_path / "a.zarr") as folder, hidden_file(tmp_path / "a.nii.gz") as file:
        assert folder.suffix == ".zarr" and file.suffix == ".gz"
