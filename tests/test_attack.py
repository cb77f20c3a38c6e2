"""Hostile files: each is answered in a line, quickly, and in little memory. `make attack` runs all of them."""

import json
import shutil
import subprocess
import sys
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts memory by /proc")
for _package in ("zarr", "tifffile", "nibabel", "h5py"):
    pytest.importorskip(_package)

from hostile import all_cases  # noqa: E402
from hostile.case import Case  # noqa: E402

# The processor's seconds, so that others who work on the machine do not count; and a clock, for what waits for ever.
MOST_SECONDS, MOST_CLOCK = 2.0, 60.0
MOST_BYTES = 300 << 20
MOST_CHARACTERS = 300
SAMPLE = 40
# Those that were found in version 0.1 to take gigabytes, minutes, or to wait for ever.
FOUND = (
    *(
        "ome-tiff-SizeZ-100000000",
        "tiff-jpeg-strip-30000x30000",
        "zarr-2-bz2-bz2",
        "zarr-2-gzip-gzip-small-member-first",
    ),
    *("zarr-2-gzip-in-gzip", "zarr-2-lzma-lzma", "zarr-3-zstd-zstd-no-size", "zarr-2-filter-lzma-lzma"),
    *(
        "zarr-3-shard-zstd-zstd-no-size",
        "npy-v2-header-that-is-there",
        "png-13000-bits-to-the-end",
        "strokes-wide-picture",
    ),
    *("place-strokes-zero", "place-report-fifo", "place-strokes-fifo", "ome-zarr-20000-levels"),
)


@cache
def cases() -> list[Case]:
    """All of them, in the order of their names' checksums, so that a sample has some of every kind."""
    return sorted(all_cases(), key=lambda case: zlib.crc32(case.name.encode()))


class Server:
    """A process that answers command lines, each in a fork of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        script = Path(__file__).with_name("attack_server.py")
        self.process = subprocess.Popen(
            [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout.readline() == "ready\n"

    def __call__(self, args):
        asked = {"args": args, "folder": str(self.folder), "seconds": MOST_CLOCK}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    server.close()


def answers(server: Server, case: Case, folder: Path):
    """Each command about a case, and what came of it."""
    folder.mkdir()
    file, image, out = folder / case.file, folder / "image.npy", folder / "out.npy"
    case.write(file)
    if image != file:
        np.save(image, np.random.default_rng(0).integers(0, 255, (8, 8), np.uint8))
    for command in case.commands:
        words = [word.format(file=file, image=image, out=out, folder=folder) for word in command]
        yield command, server(words)
        out.unlink(missing_ok=True)
    shutil.rmtree(folder)


def fault(case: Case, command: tuple[str, ...], found) -> str:
    """What is wrong about an answer; nothing if all is well."""
    if found["code"] is None:
        return f"no answer in {MOST_CLOCK} s"
    if "bytes" not in found:
        return f"ended with {found['code']}: {found['stderr'][-200:]}"
    if found["processor"] > MOST_SECONDS:
        return f"took {found['processor']:.1f} s"
    if found["bytes"] > MOST_BYTES:
        return f"took {found['bytes'] >> 20} MB"
    if found["code"] == 0 and case.may_be_taken(command):
        return ""
    lines = found["stderr"].splitlines()
    if found["code"] != 2 or len(lines) != 1 or not lines[0].startswith("dope: "):
        return f"exit code {found['code']}, {len(lines)} lines: {found['stderr'][-300:]}"
    return f"a line of {len(lines[0])} characters" if len(lines[0]) > MOST_CHARACTERS else ""


def faults(server, folder, chosen):
    wrong, slowest, largest = [], (0.0, ""), (0, "")
    for number, case in enumerate(chosen):
        for command, found in answers(server, case, folder / str(number)):
            name = f"{case.name} ({command[0]})"
            if text := fault(case, command, found):
                wrong.append(f"{name}: {text}")
            slowest = max(slowest, (found.get("processor", MOST_CLOCK), name))
            largest = max(largest, (found.get("bytes", 0), name))
    print("\n".join(wrong))
    print(f"\n{len(chosen)} hostile files; slowest {slowest[0]:.2f} s: {slowest[1]}; "
          f"largest {largest[0] >> 20} MB: {largest[1]}; {len(wrong)} answered wrongly")  # fmt: skip
    return wrong


@pytest.mark.slow
def test_there_are_many_and_no_two_share_a_name():
    assert len(cases()) >= 300
    assert len({case.name for case in cases()}) == len(cases())


@pytest.mark.slow
def test_hostile_files_that_once_took_gigabytes_or_for_ever(server, tmp_path):
    found = [case for case in cases() if case.name in FOUND]
    assert len(found) == len(FOUND)
    assert faults(server, tmp_path, found) == []


@pytest.mark.slow
def test_a_sample_of_hostile_files(server, tmp_path):
    """Every so many of all."""
    assert faults(server, tmp_path, cases()[:SAMPLE]) == []


@pytest.mark.attack
def test_all_hostile_files(server, tmp_path, capsys):
    with capsys.disabled():
        assert faults(server, tmp_path, cases()) == []
