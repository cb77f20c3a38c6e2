"""Hostile names, values, streams and signals: one printable line, an exit code, and never a traceback."""

import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import dask.array
import nibabel
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from typer.main import get_command

import dope
from dope import Energy, InputError, cli, segment
from dope.cli.screen import LONGEST_LINE, printable, shortened
from dope.io import write_image, write_text
from dope.segmentation.document import KINDS, PLUG_INS
from profiles import slow_but

ESCAPES = "\x1b[31m\x1b]0;owned\x07\x9b2J\x7f\u202e\u2028\r\n[/x]:smile:"
SHAPE = (24, 20)
RNG = np.random.default_rng(0)
PIXELS = (RNG.random(SHAPE) * 255).astype(np.uint8)
STROKES = np.zeros(SHAPE, np.uint8)
STROKES[3:5, 3:5], STROKES[18:20, 15:18] = 1, 2
ON_POSIX = pytest.mark.skipif(os.name == "nt", reason="names, streams and signals of POSIX")
IN_FOLDER = pytest.mark.usefixtures("folder")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A picture, strokes and a probability map; the current folder."""
    monkeypatch.chdir(tmp_path)
    write_image("p.png", PIXELS)
    write_image("s.png", STROKES)
    np.save("soft.npy", PIXELS / np.float32(255))
    return tmp_path


COMMAND = get_command(cli.app)


@dataclass
class Ended:
    exit_code: int
    stdout: str
    stderr: str


def run(*arguments):
    """As `CliRunner.invoke`, which builds all commands anew every time."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        COMMAND.main(list(arguments), prog_name="dope")
    return Ended(ended.value.code, out.getvalue(), err.getvalue())


def child(*arguments, **options):
    """A process of its own, where streams, encodings and signals are real."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 60, **options}
    return subprocess.run([sys.executable, "-m", "dope.cli", *arguments], check=False, **options)


def assert_one_line(result, code=2):
    assert result.exit_code == code, result
    lines = result.stderr.split("\n")
    assert len(lines) == 2 and lines[1] == "", result.stderr
    assert lines[0].startswith("dope: ") and lines[0].isprintable() and len(lines[0]) <= LONGEST_LINE
    assert result.stdout == ""
    return lines[0]


# What is printed


def test_all_but_signs_and_blanks_is_escaped():
    shown = printable(ESCAPES)
    assert shown.isprintable() and shown == r"\x1b[31m\x1b]0;owned\x07\x9b2J\x7f\u202e\u2028\r\n[/x]:smile:"
    assert printable("caf\udce9") == r"caf\xe9"  # a byte of a name that is not UTF-8
    assert printable("Größe 東京\u3000x") == "Größe 東京\u3000x"
    everything = "".join(map(chr, range(0x10000)))
    assert all(sign.isprintable() or sign.isspace() for sign in printable(everything))


@pytest.mark.parametrize("length", [0, 299, 300, 301, 5000])
def test_a_long_line_keeps_its_beginning_and_its_end(length):
    text = "name" + length * "x" + ": what to do"
    short = shortened(text)
    assert len(short) <= LONGEST_LINE and short.startswith("name") and short.endswith(": what to do")
    assert (short == text) == (len(text) <= LONGEST_LINE)


LONG = ["a" * 300 + ".png", "x/" * 2500 + "a.png"]
NAMES = ["", ".", "-", "\n", ESCAPES, *LONG, "[/x]y.png", "p.png/x.png", "a\0.png", "\ud800.npy", "folder.png"]
NAMES += ["loop.png", "loop.json", "http://x/y.png", "file.npz::", "deep.json"]
READ = {
    "info": ["info", "NAME"],
    "image": ["segment", "NAME", "--scribbles", "s.png", "-o", "out.png"],
    "strokes": ["segment", "p.png", "--scribbles", "NAME", "-o", "out.png"],
    "map": ["segment", "p.png", "--probability", "NAME", "-o", "out.png"],
    "mask": ["segment", "p.png", "--scribbles", "s.png", "--mask", "NAME", "-o", "out.png"],
    "energy": ["minimize", "NAME"],
    "compare": ["compare", "s.png", "NAME"],
    "report": ["compare", "s.png", "s.png", "--run", "NAME"],
    "costs": ["plan", "--shape", "9x9", "--memory", "1GB", "--costs", "NAME"],
    "output": ["segment", "p.png", "--scribbles", "s.png", "-o", "NAME"],
    "shape": ["plan", "--shape", "NAME"],
    "solver": ["minimize", "p.png", "--solver", "NAME"],
    "command": ["NAME", "p.png"],
}
QUICK = ("info", "image", "energy", "report", "output")


@ON_POSIX
@pytest.mark.parametrize(
    "arguments",
    [pytest.param(one, id=name, marks=[] if name in QUICK else pytest.mark.slow) for name, one in READ.items()],
)
def test_hostile_names_end_in_one_line(folder, arguments):
    (folder / "folder.png").mkdir()
    (folder / "deep.json").write_text('{"job":' + 100_000 * "[")
    for link in ("loop.png", "loop.json"):
        (folder / link).symlink_to(link)
    before = sorted(folder.iterdir())
    for name in NAMES:
        assert_one_line(run(*(name if word == "NAME" else word for word in arguments)))
    assert sorted(folder.iterdir()) == before


@ON_POSIX
@pytest.mark.parametrize("option", ["-o", "--json", "--report", "--overlay", "--trace"])
def test_a_device_or_pipe_is_never_replaced(folder, option):
    os.mkfifo(folder / "pipe.png")
    mask = [] if option == "-o" else ["-o", "mask.png"]
    result = run("segment", "p.png", "--scribbles", "s.png", *mask, option, "pipe.png", "--overwrite")
    assert "device or pipe" in assert_one_line(result)
    assert (folder / "pipe.png").is_fifo()


VALUES = {
    "quick": ["nan", "-1", "9" * 5000, "", ESCAPES],
    "slow": ["inf", "-inf", "1e400", "9" * 400, " ", "x"],
}
OPTIONS = {
    "segment": ("margin", "lam", "kernel", "beta", "spacing", "rectangle", "rounds", "overlap", "tolerance", "memory"),
    "plan": ("kernel", "workers", "memory", "blocks", "pixel-bytes", "unary-bytes", "storage"),
}
HARMLESS = {("rounds", "9" * 400)}  # labels stop changing long before


@IN_FOLDER
@pytest.mark.parametrize(("command", "option"), [(name, one) for name, some in OPTIONS.items() for one in some])
@pytest.mark.parametrize("values", slow_but(VALUES, quick=["quick"]))
def test_hostile_values_end_in_one_line(command, option, values):
    rest = ["p.png", "--scribbles", "s.png", "-o", "out.png"] if command == "segment" else ["--shape", "50x50"]
    rest += ["--memory", "1GB"] if option == "unary-bytes" else []  # which is of files, read box by box
    for value in VALUES[values]:
        if (option, value) not in HARMLESS:
            assert_one_line(run(command, *rest, f"--{option}={value}"))


@IN_FOLDER
def test_kernels_and_margins_beyond_all_bounds():
    strokes = ["segment", "p.png", "--scribbles", "s.png", "-o", "out.png"]
    for size in ("1000000001", "99999", "1025"):
        assert f"kernel is {size}" in assert_one_line(run(*strokes, "--kernel", size))
        assert f"kernel is {size}" in assert_one_line(run("plan", "--shape", "9x9", "--kernel", size))
    assert "40 dimensions" in assert_one_line(run("plan", "--shape", "x".join(40 * ["1"])))
    assert run(*strokes, "--margin", "1e308").exit_code == 0
    assert_one_line(run(*strokes, "--overwrite", "--spacing", "1e308,1"))
    assert_one_line(run(*strokes, "--overwrite", "--spacing", "1e-320,1e-320"))


WRONG = {
    "quick": [None, -1, 10**400, ESCAPES, [[1]]],
    "slow": [True, 1e400, "", "a\0b", [], [ESCAPES]],
}


@pytest.mark.parametrize("name", [*KINDS, *PLUG_INS])
@pytest.mark.parametrize("values", slow_but(WRONG, quick=["quick"]))
def test_a_report_with_settings_of_wrong_types(folder, name, values):
    job = {"image": "p.png", "scribbles": "s.png"}
    for value in WRONG[values]:
        (folder / "r.json").write_text(json.dumps({"job": {**job, name: value}}))
        result = run("compare", "s.png", "s.png", "--run", "r.json")
        if result.exit_code:
            assert_one_line(result)
    (folder / "r.json").write_text(json.dumps({"job": {**job, name: {"a": 1}}}))
    assert f"{name} is {{'a': 1}}; expected" in assert_one_line(run("compare", "s.png", "s.png", "--run", "r.json"))


@pytest.mark.parametrize(
    "text", ["", "3", "[]", "null", '{"job": null}', '{"job": {}}', "\udcff", '{"job": {"image": ' + 5000 * "9" + "}}"]
)
def test_a_report_that_is_none(folder, text):
    (folder / "r.json").write_bytes(text.encode(errors="surrogateescape"))
    assert_one_line(run("compare", "s.png", "s.png", "--run", "r.json"))


def headers():
    """Files whose headers, members and metadata hold what a terminal obeys."""
    image = nibabel.Nifti1Image(PIXELS[..., None], np.eye(4))
    image.header["descrip"] = ESCAPES.encode()[:70]
    nibabel.save(image, "described.nii.gz")
    np.savez("one.npz", **{ESCAPES.replace("/", ""): PIXELS})
    np.savez("two.npz", **{ESCAPES.replace("/", "") + str(k): PIXELS for k in range(40)})
    group = zarr.open_group("named.ome.zarr", mode="w", zarr_format=2)
    group.create_array("0", data=PIXELS)
    axes = [{"name": name, "type": "space", "unit": ESCAPES * 400} for name in "yx"]
    level = {"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [0.5, 0.25]}]}
    image_of: Any = {"version": "0.4", "name": ESCAPES, "axes": axes, "datasets": [level]}
    group.attrs["multiscales"] = [image_of]
    return ["described.nii.gz", "one.npz", "two.npz", "named.ome.zarr"]


@IN_FOLDER
def test_what_headers_hold_is_printed_escaped():
    for name in headers():
        result = run("info", name)
        if result.exit_code:
            assert r"\x1b[31m" in assert_one_line(result), name
        else:
            assert r"\x1b" in result.stdout and all(line.isprintable() for line in result.stdout.split("\n")), name
            assert max(map(len, result.stdout.split("\n"))) < 2100


@ON_POSIX
def test_a_name_cannot_forge_a_page(folder):
    name = "<script>alert(1)<!--\udcff\x1b[31m.png"
    shutil.copy("p.png", name)
    result = run("segment", name, "--scribbles", "s.png", "-o", "m.png", "--report", "r.html", "--json", "r.json")
    assert result.exit_code == 0, result
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page and page.count("<script") == 1
    assert json.loads((folder / "r.json").read_text())["job"]["image"] == name
    assert run("compare", "m.png", "m.png", "--run", "r.json").exit_code == 0


# The handler


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (InputError(f"{ESCAPES}: " + 900 * "x" + "; expected less"), 2, "expected less"),
        (MemoryError("std::bad_alloc"), 2, "not enough memory"),
        (OSError(errno.ELOOP, "Too many levels", ESCAPES), 2, "too many levels"),
        (OSError(ESCAPES), 2, r"\x1b"),
        (RecursionError(ESCAPES), 1, "a defect of dope, RecursionError"),
        (ZeroDivisionError(), 1, "--debug"),
        (KeyboardInterrupt(), 130, "cancelled"),
    ],
)
def test_whatever_is_raised_ends_in_one_line(monkeypatch, error, code, words):
    def describe(_):
        raise error

    monkeypatch.setattr("dope.cli.info.describe", describe)
    assert words in assert_one_line(run("info", "x.png"), code)


def test_debug_shows_where_and_still_ends_in_the_line(monkeypatch):
    monkeypatch.setattr("dope.cli.be_talkative", lambda: None)  # which is for a process of its own
    first = run("--debug", "info", f"{ESCAPES}.png")
    monkeypatch.setenv("DOPE_DEBUG", "1")
    for result in (first, run("info", f"{ESCAPES}.png")):
        assert result.exit_code == 2 and "Traceback" in result.stderr
        lines = result.stderr.rstrip("\n").split("\n")
        assert lines[-1].startswith("dope: ") and all(line.isprintable() for line in lines)


LOUD = """
import logging, warnings
import dope.cli.info
def describe(name):
    warnings.warn("loud warning")
    logging.getLogger("tifffile").error("loud log")
    raise ZeroDivisionError(name)
dope.cli.info.describe = describe
dope.cli.main()
"""


@pytest.mark.parametrize("debug", slow_but([False, True], quick=[False]))
def test_libraries_are_silent_unless_asked(debug):
    arguments = ["--debug"] * debug + ["info", "x.png"]
    done = subprocess.run([sys.executable, "-c", LOUD, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert ("loud warning" in done.stderr, "loud log" in done.stderr, "Traceback" in done.stderr) == 3 * (debug,)
    assert debug or len(done.stderr.splitlines()) == 1


# Streams, terminals and signals, in processes of their own


@ON_POSIX
@IN_FOLDER
def test_names_that_the_encoding_does_not_hold():
    name = b"gr\xc3\xb6\xc3\x9fe-\xff.png"
    shutil.copy("p.png", name)
    done = child("info", name, env={**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii:strict", "COLUMNS": "0"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.splitlines()[0].split() == [b"file", rb"gr\xf6\xdfe-\xff.png"]
    done = child("info", b"missing-" + name, env={**os.environ, "PYTHONIOENCODING": "ascii:strict"})
    assert (done.returncode, done.stderr) == (2, rb"dope: missing-gr\xf6\xdfe-\xff.png: no such file" + b"\n")


@ON_POSIX
@IN_FOLDER
def test_markup_and_escapes_in_a_name_on_a_terminal():
    import pty

    name = "[/x]\x1b]0;owned\x07\n.png"
    Path("[").mkdir()
    shutil.copy("p.png", name)
    ours, theirs = pty.openpty()
    arguments = [sys.executable, "-m", "dope.cli", "segment", name, "--scribbles", "s.png", "-o", "m.png"]
    with subprocess.Popen(arguments, stdout=theirs, stderr=theirs, stdin=theirs) as started:
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 1 << 16)
            except OSError:  # how Linux says that the other side is closed
                break
        os.close(ours)
        assert started.wait(timeout=60) == 0, shown
    assert b"owned\x07" not in shown and rb"[/x]\x1b]0;owned\x07\n.png" in shown


@ON_POSIX
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@IN_FOLDER
def test_standard_output_on_a_full_disk():
    with Path("/dev/full").open("wb") as full:
        done = child("info", "p.png", stdout=full)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
        assert b"cannot write to standard output: no space left" in done.stderr
        done = child("segment", "p.png", "--scribbles", "s.png", "-o", "m.png", stderr=full)
        assert done.returncode == 0 and b"m.png" in done.stdout  # progress that nobody sees stops nothing


@ON_POSIX
def test_streams_that_are_closed_or_that_nobody_reads(folder):
    command = f"exec {shlex.quote(sys.executable)} -m dope.cli segment p.png --scribbles s.png -o m.png <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", command], check=False).returncode == 0
    assert (folder / "m.png").read_bytes().startswith(b"\x89PNG")
    reader, writer = os.pipe()
    os.close(reader)
    done = child("info", "p.png", stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


SCRIPT = "import sys\nfrom dope.cli import main\nsys.exit(main())\n"


@ON_POSIX
@pytest.mark.parametrize("started_as", ["module", "script"])
@pytest.mark.parametrize("module", slow_but([b"typer", b"numpy.", b"dope.io"], quick=[b"numpy."]))
def test_ctrl_c_while_modules_load(folder, started_as, module):
    (folder / "dope").write_text(SCRIPT)
    name = ["-m", "dope.cli"] if started_as == "module" else [str(folder / "dope")]
    command = [sys.executable, "-X", "importtime", *name, "info", "p.png"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        for line in started.stderr:
            if module in line:
                started.send_signal(signal.SIGINT)
                break
        lines = [line for line in started.stderr if not line.startswith(b"import time")]
        assert started.wait(timeout=60) == 130 and lines == [b"dope: cancelled\n"]


def test_a_program_that_imports_dope_keeps_its_own_ctrl_c():
    code = "import signal; import dope; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


# Arrays

UNARY = RNG.normal(size=SHAPE)
HIDDEN = np.zeros(SHAPE, np.bool_)
HIDDEN[0, :4] = True
SEEDS = STROKES.astype(np.int64)


def masked(values):
    return np.ma.masked_array(values, np.broadcast_to(HIDDEN, np.shape(values)))


MASKED = {
    "image of strokes": lambda: segment(masked(PIXELS), scribbles=SEEDS),
    "image of a map": lambda: segment(masked(PIXELS), probability=PIXELS),
    "image in dask": lambda: segment(dask.array.from_array(masked(PIXELS)), probability=PIXELS),
    "probability": lambda: segment(PIXELS, probability=masked(PIXELS)),
    "probability as rows": lambda: segment(PIXELS, probability=list(masked(PIXELS))),
    "unary": lambda: segment(PIXELS, unary=masked(UNARY)),
    "scribbles": lambda: segment(PIXELS, scribbles=masked(SEEDS)),
    "mask": lambda: segment(PIXELS, scribbles=SEEDS, mask=masked(~HIDDEN)),
    "grid": lambda: Energy.grid(masked(UNARY)),
    "features": lambda: Energy.grid(UNARY, features=masked(PIXELS)),
    "mask of a grid": lambda: Energy.grid(UNARY, mask=masked(~HIDDEN)),
    "weights": lambda: Energy.grid(UNARY, weights=4 * [masked(UNARY)]),
    "labels": lambda: Energy.grid(UNARY)(masked(HIDDEN)),
    "lazy": lambda: dope.minimize(Energy.grid(masked(UNARY))),
    "lazy features": lambda: dope.minimize(Energy.grid(UNARY, features=masked(PIXELS))),
    "lazy in dask": lambda: dope.minimize(Energy.grid(dask.array.from_array(masked(UNARY)))),
    "edges": lambda: Energy.graph([1.0, 2.0], np.ma.masked_array([[0, 1]], [[True, False]]), [1.0]),
}


@pytest.mark.parametrize("refused", MASKED.values(), ids=MASKED.keys())
def test_masked_sites_are_refused_at_every_door(refused):
    with pytest.raises(InputError, match=r"masked sites; pass its \.data, and mask="):
        refused()


def test_what_the_refusal_advises_works():
    plain = segment(PIXELS, scribbles=SEEDS)
    assert np.array_equal(segment(np.ma.masked_array(PIXELS), scribbles=SEEDS).labels, plain.labels)
    image = masked(PIXELS)
    result = segment(image.data, scribbles=SEEDS, mask=~np.ma.getmaskarray(image))
    assert not result.labels[HIDDEN].any()


@pytest.mark.parametrize("table", [np.asarray, pd.DataFrame, xr.DataArray, dask.array.from_array])
def test_missing_values_are_refused(table):
    holed = np.where(HIDDEN, np.nan, UNARY)
    for refused in (
        lambda: segment(table(holed), scribbles=SEEDS),
        lambda: segment(table(holed), probability=PIXELS),
        lambda: segment(PIXELS, unary=table(holed)),
        lambda: segment(PIXELS, probability=table(np.where(HIDDEN, np.nan, 0.5))),
        lambda: dope.minimize(Energy.grid(table(holed))),  # an array in dask is read then
    ):
        with pytest.raises(InputError, match=r"nan|NaN"):
            refused()


def test_chunks_of_unknown_sizes_are_refused():
    array = dask.array.from_array(UNARY, chunks=6)
    unknown = array[array[:, 0] > -100]
    for refused in (
        lambda: segment(unknown, scribbles=SEEDS),
        lambda: segment(unknown, rectangle=((2, 20), (2, 18))),
        lambda: segment(PIXELS, unary=unknown),
        lambda: segment(PIXELS, scribbles=SEEDS, mask=unknown > 0),
        lambda: Energy.grid(unknown),
        lambda: Energy.grid(UNARY, features=unknown),
        lambda: Energy.grid(UNARY, mask=unknown),
    ):
        with pytest.raises(InputError, match="compute_chunk_sizes"):
            refused()


@pytest.mark.parametrize("name", ["a\0.npy", "\ud800.npy", "/", ""])
def test_names_that_no_file_has(name):
    with pytest.raises(InputError):
        dope.io.load(name)
    with pytest.raises(InputError):
        write_text(name, "")
