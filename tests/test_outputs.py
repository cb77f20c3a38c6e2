"""No output destroys an input, another output or a stranger's file, and none takes the labels down with it."""

import errno
import hashlib
import io
import itertools
import json
import os
import shutil
import signal
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import zarr
from typer.main import get_command

import dope
from dope import cli, durable, samples
from dope.cli import progress, segmenting, trace
from dope.cli.outcome import Outcome
from dope.cli.pictures import Seen
from dope.durable import replacing, replacing_folder, write_durably
from dope.errors import DopeError, InputError
from dope.io import FORMATS, load, open_labels, read_image, save_labels, write_image
from profiles import slow_but
from test_io_zarr import ome

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links need rights here")

FOR_LABELS = [suffix for suffix, kind in FORMATS.items() if kind.save is not None]
TRUTH = np.zeros((24, 32), bool)
TRUTH[6:18, 8:24] = True
SOFT = np.where(TRUTH, 230, 25).astype(np.uint8)
SEEDS = np.where(TRUTH, 1, 2).astype(np.uint8)
EVERYWHERE = np.full(TRUTH.shape, 255, np.uint8)

# Options of `dope segment`, and the names of files that any of them takes.
READ = {"image": "image.png", "--scribbles": "seeds.png", "--probability": "soft.png", "--mask": "inside.png"}
SIDE = ["--overlay", "--report", "--json", "--trace"]
WRITTEN = ["--output", *SIDE, "--checkpoint", "--resume"]


# Made once: that takes longer than most of the commands here.
COMMAND = get_command(cli.app)


def run(*arguments):
    stdout, stderr = io.StringIO(), io.StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr), pytest.raises(SystemExit) as end:
        COMMAND([str(argument) for argument in arguments], prog_name="dope")
    return Done(end.value.code or 0, stdout.getvalue(), stderr.getvalue())


class Done(NamedTuple):
    """How a command ended, and what it said."""

    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The current one, in which `here` is another name of it."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "here").symlink_to(".")
    for name, pixels in zip(READ.values(), (SOFT, SEEDS, SOFT, EVERYWHERE), strict=True):
        write_image(name, pixels)
    return folder


def digests():
    """Of all that there is, by its place; of links where they lead."""
    return {str(path): path.readlink() if path.is_symlink() else digest(path) for path in Path().rglob("*")}


def digest(path):
    return hashlib.sha256(path.read_bytes()).digest() if path.is_file() else None


def refused(*arguments, words=""):
    """In one line, with nothing changed on the disk."""
    before = digests()
    result = run(*arguments)
    assert result.exit_code == 2, (arguments, result)
    assert digests() == before, arguments
    (line,) = result.stderr.splitlines()
    assert line.startswith("dope: ") and words in line, (arguments, line)


def soft_link(name):
    link = Path(f"link{Path(name).suffix}")
    link.unlink(missing_ok=True)
    link.symlink_to(name)
    return link


def hard_link(name):
    link = Path(f"hard{Path(name).suffix}")
    link.unlink(missing_ok=True)
    if not Path(name).exists():
        Path(name).write_bytes(b"there")
    os.link(name, link)
    return link


SPELLINGS = {
    "plain": str,
    "dot": "./{}".format,
    "dots": "../work/{}".format,
    "absolute": lambda name: Path.cwd() / name,
    "folder link": "here/{}".format,
    "link": soft_link,
    "hard link": hard_link,
}
QUICK = ("plain", "link", "hard link")
spelled = pytest.mark.parametrize(
    "spelling",
    [pytest.param(one, id=name, marks=[] if name in QUICK else pytest.mark.slow) for name, one in SPELLINGS.items()],
)


# Places


@spelled
@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(WRITTEN[:-1], 2)))
def test_two_outputs_are_not_one(one, other, spelling):
    mask = [] if "--output" in (one, other) else ["-o", "mask.png"]
    refused("segment", "image.png", "--probability", "soft.png", *mask, one, "x.png", other, spelling("x.png"),
            "--overwrite", words="the same file is named for two outputs")  # fmt: skip


@spelled
@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("read", READ)
def test_no_output_is_an_input(read, written, spelling):
    inputs = ["image.png", *itertools.chain(*list(READ.items())[1:])]
    mask = [] if written == "--output" else ["-o", "mask.png"]
    refused("segment", *inputs, *mask, written, spelling(READ[read]), "--overwrite",
            words="is read; expected another name")  # fmt: skip


@pytest.fixture
def containers():
    """Inputs that lie within something: two arrays in an NPZ file, a Zarr group, an OME-Zarr image with a label."""
    np.savez("p.npz", x=SOFT / 255, y=SOFT)
    zarr.open_group("g.zarr", mode="w").create_array("a", data=SOFT / 255)
    ome(Path("image.ome.zarr"), levels=1)
    shape = load("image.ome.zarr").shape
    save_labels("image.ome.zarr/labels/old", np.ones(shape, bool))
    np.save("map.npy", np.full(shape, 0.7, np.float32))
    Path("a.zarr").symlink_to("g.zarr/a")


@pytest.mark.usefixtures("containers")
@pytest.mark.parametrize("written", ["--output", "--report", "--json", "--trace", "--checkpoint"])
@spelled
def test_no_output_is_what_an_array_is_read_from(written, spelling):
    mask = [] if written == "--output" else ["-o", "mask.png"]
    for inputs in (["image.png", "--probability", "p.npz::x"], ["here/p.npz::y", "--scribbles", "seeds.png"]):
        refused("segment", *inputs, *mask, written, spelling("p.npz"), "--overwrite", words="is read")


IN_A_STORE = [
    "g.zarr",
    "g.zarr/a",
    "g.zarr/a/zarr.json",
    "g.zarr/zarr.json",
    "g.zarr/a/c/0/0",
    "g.zarr/new.png",
    "g.zarr/new",
    "a.zarr",
    "a.zarr/new.png",
]


@pytest.mark.usefixtures("containers")
@pytest.mark.parametrize("written", slow_but(WRITTEN, quick=["--output", "--report", "--checkpoint"]))
def test_no_output_holds_an_input_or_lies_in_its_store(written):
    mask = [] if written == "--output" else ["-o", "mask.png"]
    for place in IN_A_STORE:
        refused("segment", "image.png", "--probability", "g.zarr/a", *mask, written, place, "--overwrite")
        refused("segment", "image.png", "--probability", "a.zarr", *mask, written, f"../work/{place}", "--overwrite")


@pytest.mark.usefixtures("containers")
def test_labels_are_added_to_a_store_beside_what_is_read_only():
    image = ["segment", "image.ome.zarr"]
    probability = [*image, "--probability", "map.npy"]
    for read in ("image.ome.zarr/labels/old", "image.ome.zarr/labels/old/0", "here/image.ome.zarr/labels/old"):
        refused(*image, "--probability", read, "-o", "image.ome.zarr/labels/old", "--overwrite", words="read")
    for written in (*SIDE, "--checkpoint"):
        for place in ("image.ome.zarr/labels/new", "image.ome.zarr/labels/x.png", "image.ome.zarr/zarr.json"):
            refused(*probability, "-o", "image.ome.zarr/labels/new", written, place, "--overwrite")
            refused(*probability, "-o", "out.zarr", written, place, "--overwrite")
        refused("segment", "map.npy", "--probability", "map.npy", "-o", "image.ome.zarr/labels/new", written,
                "image.ome.zarr/x.png", words="in another" if written != "--overlay" else "")  # fmt: skip
    refused(*probability, "-o", "image.ome.zarr", "--overwrite", words="holds image.ome.zarr")
    for name in ("old", "new"):
        result = run(*probability, "-o", f"here/image.ome.zarr/labels/{name}", "--json", "r.json", "--overwrite")
        assert result.exit_code == 0, result
        assert np.asarray(load(f"image.ome.zarr/labels/{name}").pixels).all()


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        (["-o", "out.zarr", "--report", "out.zarr/r.html"], "one output lies in another"),
        (["-o", "here/out.zarr", "--json", "out.zarr/0/x"], "one output lies in another"),
        (["-o", "out.zarr/labels/m", "--json", "out.zarr/r.json"], "one output lies in another"),
        (["-o", "m.png", "--checkpoint", "kept", "--trace", "here/kept/t.jsonl"], "one output lies in another"),
        (["-o", "kept/m.png", "--checkpoint", "kept"], "one output lies in another"),
        (["-o", "kept/m.png", "--resume", "../work/kept"], "one output lies in another"),
        (["-o", "m.png", "--checkpoint", "."], "holds image.png, which is read"),
        (["-o", "m.png", "--resume", "here"], "holds image.png, which is read"),
        (["-o", "m.png", "--checkpoint", ".."], "holds"),
    ],
)
def test_no_output_lies_in_another(outputs, words):
    refused("segment", "image.png", "--probability", "soft.png", *outputs, "--overwrite", words=words)


def test_files_are_files_in_a_folder_of_any_name():
    Path("old.zarr").mkdir()
    Path("old.zarr/g.txt").write_text("3 3\n1 2 1\n2 3 1\n1 3 1\n")
    shutil.copy("image.png", "old.zarr")
    assert run("minimize", "old.zarr/g.txt", "-o", "old.zarr/x.txt").exit_code == 0
    assert run("segment", "old.zarr/image.png", "--probability", "soft.png", "-o", "old.zarr/m.png").exit_code == 0


@pytest.mark.parametrize("name", ["loop.png", "loop.zarr", "l" * 300 + ".png", "nul\0.png"])
def test_names_that_are_none_are_refused(name):
    for suffix in (".png", ".zarr"):
        Path(f"loop{suffix}").symlink_to(f"loop{suffix}")
    for option in ("--output", *SIDE):
        mask = [] if option == "--output" else ["-o", "mask.png"]
        if option != "--overlay" or name.endswith(".png"):
            refused("segment", "image.png", "--probability", "soft.png", *mask, option, name, "--overwrite")


def test_what_is_beside_something_read_may_be_written():
    """The rule goes no further than it has to."""
    Path("sub").mkdir()
    Path("image.npz").write_bytes(b"another file of the same stem")
    outputs = ["-o", "sub/image.png", "--json", "sub/soft.png.json", "--trace", "image.png.jsonl"]
    pictures = ["--report", "soft.html", "--overlay", "here/inside2.png"]
    assert run("segment", "image.png", "--probability", "soft.png", *outputs, *pictures).exit_code == 0


@spelled
@pytest.mark.parametrize(("one", "other"), [("--output", "--json"), ("--json", "--output")])
def test_minimize_destroys_nothing(one, other, spelling):
    Path("g.txt").write_text("3 3\n1 2 1\n2 3 1\n1 3 1\n")
    Path("h.txt").write_text("theirs")
    refused("minimize", "g.txt", one, spelling("g.txt"), other, "x.txt", "--overwrite", words="is read")
    refused("minimize", "g.txt", one, "h.txt", other, spelling("h.txt"), "--overwrite", words="the same file")


def test_the_other_commands_destroy_nothing(monkeypatch):
    @contextmanager
    def sample():
        yield samples.Sample(Path("image.png").absolute(), Path("seeds.png").absolute())

    monkeypatch.setattr(samples, "canyon_wren", sample)
    refused("demo", "-o", ".", words="is read")
    refused("demo", "-o", "here", words="is read")
    Path("pictures").mkdir()
    Path("pictures/mask.png").symlink_to("overlay.png")
    refused("demo", "-o", "pictures", words="the same file")
    Path("paper/2d").mkdir(parents=True)
    Path("paper/2d/serial.py").write_text("print()")
    refused("paper", "2d", "-o", "paper", "--serial", "here/paper/2d/serial.py", words="which is read")
    Path("costs.json").write_text("mine")
    refused("plan", "--shape", "9x9", "--measure", "costs.json", words="there already")


def test_devices_and_links_to_nowhere_are_not_replaced():
    os.mkfifo("pipe.png")
    Path("nowhere.png").symlink_to("not there.png")
    for option in ("--output", *SIDE):
        mask = [] if option == "--output" else ["-o", "mask.png"]
        arguments = ["segment", "image.png", "--probability", "soft.png", *mask, option]
        refused(*arguments, "pipe.png", "--overwrite", words="a device or pipe")
        refused(*arguments, "nowhere.png", words="there already")


@spelled
def test_labels_never_replace_the_image_that_they_are_of(spelling):
    np.save("a.npy", SOFT)
    other = spelling("a.npy")
    for call in (lambda: save_labels(other, TRUTH, like=load("a.npy"), overwrite=True),
                 lambda: open_labels(other, TRUTH.shape, like=load("a.npy"), overwrite=True)):  # fmt: skip
        with pytest.raises(InputError, match="the image itself"):
            call()


# What happens meanwhile


BOXES = {"in memory": [], "box by box": ["--checkpoint", "kept"]}
both_ways = pytest.mark.parametrize("more", BOXES.values(), ids=BOXES.keys())


@pytest.fixture
def meanwhile(monkeypatch):
    """What somebody else does, on the one machine, before a run is over."""

    def during(*, before=lambda: None, after=lambda: None):
        compute = dope.Segmentation.run

        def run_meanwhile(*arguments, **settings):
            before()
            try:
                return compute(*arguments, **settings)
            finally:
                after()

        monkeypatch.setattr(dope.Segmentation, "run", run_meanwhile)

    return during


@pytest.fixture
def plain_page(monkeypatch):
    """A report without charts, which take longer than everything else."""
    monkeypatch.setattr(segmenting, "page", lambda run: f"<!doctype html>{run.title}" * 1000)


PLAIN_PAGE = pytest.mark.usefixtures("plain_page")


def segmented(*more, mask="mask.png"):
    """With all outputs beside the mask in a folder of their own."""
    Path("side").mkdir(exist_ok=True)
    side = itertools.chain(*((option, f"side/{option.strip('-')}.png") for option in SIDE))
    return run("segment", "image.png", "--probability", "soft.png", "-o", mask, *side, *more)


def whole(mask="mask.png"):
    assert np.array_equal(np.asarray(load(mask).pixels) > 0, TRUTH)
    hidden = [path for path in Path().rglob(".*") if path.name not in (".zarray", ".zattrs", ".zgroup")]
    assert not hidden
    return True


def warned(result, *missing):
    """Of these side outputs, and of no others; they alone are not in the table."""
    assert result.exit_code == 4, result
    lines = [line for line in result.stderr.splitlines() if line.startswith("dope: ")]
    assert [line.split()[2] for line in lines] == list(missing), result.stderr
    assert all(line.startswith("dope: warning: ") for line in lines)
    table = result.stdout.split("written", 1)[1]
    assert all(name not in table for name in missing) and "mask" in table
    return True


NAMES = ["side/trace.png", "side/json.png", "side/overlay.png", "side/report.png"]


@PLAIN_PAGE
@both_ways
def test_side_outputs_in_a_folder_that_is_removed_fail_alone(meanwhile, more):
    meanwhile(after=lambda: shutil.rmtree("side"))
    assert warned(segmented(*more), *NAMES) and whole()
    assert not Path("side").exists()


@PLAIN_PAGE
@both_ways
@pytest.mark.parametrize("taken", NAMES)
def test_a_side_output_that_somebody_else_made_stays(meanwhile, more, taken):
    def make():
        Path(taken).unlink(missing_ok=True)  # the trace, which has begun
        Path(taken).write_text("theirs")

    meanwhile(after=make)
    assert warned(segmented(*more), taken) and whole()
    assert Path(taken).read_text() == "theirs"
    assert all(Path(name).stat().st_size > 100 for name in NAMES if name != taken)


@both_ways
@pytest.mark.parametrize("suffix", FOR_LABELS)
def test_a_mask_that_somebody_else_made_stays(meanwhile, more, suffix):
    mask = f"mask{suffix}"

    def make():
        if suffix == ".zarr":
            Path(mask).mkdir()
        else:
            Path(mask).write_text("theirs")

    meanwhile(after=make)
    result = segmented(*more, mask=mask)
    assert result.exit_code == 2 and "there already" in result.stderr
    assert not list(Path("side").glob("*[!e].png"))  # without a mask there is nothing to report on
    assert list(Path(mask).iterdir()) == [] if suffix == ".zarr" else Path(mask).read_text() == "theirs"
    assert not list(Path().rglob(".*"))


@contextmanager
def files_of_at_most(size):
    """What a full disk or a quota does, done by the system itself."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@both_ways
def test_a_report_that_does_not_fit_fails_alone(more):
    with files_of_at_most(8000):
        assert warned(segmented(*more), "side/report.png") and whole()
    assert not Path("side/report.png").exists()
    assert json.loads(Path("side/json.png").read_text())["result"]["exact"]


@PLAIN_PAGE
@both_ways
@pytest.mark.parametrize("size", [0, 60])
def test_a_trace_that_does_not_fit_fails_alone(monkeypatch, more, size):
    write = trace._write_all

    def on_a_full_disk(*arguments):
        with files_of_at_most(size):
            write(*arguments)

    monkeypatch.setattr(trace, "_write_all", on_a_full_disk)
    assert warned(segmented(*more), "side/trace.png") and whole()
    lines = Path("side/trace.png").read_bytes()
    assert len(lines) <= size and (not lines or lines.endswith(b"\n"))  # whole ones only


def test_a_trace_is_a_new_file():
    """What an old one is called elsewhere stays as it was."""
    Path("theirs.txt").write_text("theirs")
    Path("side").mkdir()
    os.link("theirs.txt", "side/trace.png")
    assert segmented("--overwrite").exit_code == 0
    assert Path("theirs.txt").read_text() == "theirs" and len(Path("side/trace.png").read_text()) > 100


@PLAIN_PAGE
@both_ways
@pytest.mark.parametrize(
    ("place", "broken", "name"),
    [
        (Seen, "picture", "side/overlay.png"),
        (segmenting, "page", "side/report.png"),
        (Outcome, "record", "side/json.png"),
    ],
)
def test_what_cannot_be_drawn_fails_alone(monkeypatch, more, place, broken, name):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(place, broken, fail)
    assert warned(segmented(*more), name) and whole()


@PLAIN_PAGE
@both_ways
def test_an_input_that_vanishes_is_missed_by_pictures_only(meanwhile, more):
    meanwhile(after=lambda: Path("image.png").unlink())
    result = segmented(*more)
    assert result.exit_code in (0, 4) and whole()


@both_ways
def test_an_interrupt_while_side_outputs_are_written_leaves_the_mask(monkeypatch, more):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(segmenting, "write_record", interrupt)
    result = segmented(*more)
    assert result.exit_code == 130 and whole()
    assert not Path("side/json.png").exists()


@PLAIN_PAGE
@both_ways
@pytest.mark.parametrize("keep", [[], ["--save-on-cancel"]])
def test_a_cancelled_run_writes_all_or_nothing(monkeypatch, meanwhile, more, keep):
    monkeypatch.setattr(progress.Shown, "__call__", lambda *_: signal.raise_signal(signal.SIGINT))
    meanwhile(after=lambda: Path("side/json.png").write_text("theirs"))
    result = segmented(*more, *keep, "--blocks", "4")
    assert result.exit_code == 130
    assert Path("mask.png").exists() == Path("side/report.png").exists() == bool(keep)
    assert Path("side/json.png").read_text() == "theirs"
    assert ("warning: side/json.png" in result.stderr) == bool(keep)


@PLAIN_PAGE
def test_time_that_runs_out_and_a_missing_file_are_told_by_one_code(meanwhile):
    stop = ["--seconds", "1e-9", "--method", "admm", "--blocks", "4"]
    assert segmented(*stop).exit_code == 3
    meanwhile(after=lambda: shutil.rmtree("side"))
    result = segmented(*stop, "--overwrite")
    assert warned(result, *NAMES) and "time limit" in result.stdout


def test_pictures_of_labels_that_are_in_their_file_are_the_same():
    known = ["segment", "image.png", "--probability", "soft.png"]
    assert run(*known, "-o", "mask.png", "--overlay", "overlay.png").exit_code == 0
    for suffix in FOR_LABELS:
        overlay = f"overlay{suffix}.png"
        result = run(*known, "-o", f"m{suffix}", "--overlay", overlay, "--checkpoint", f"kept{suffix}")
        assert result.exit_code == 0, result
        assert np.array_equal(read_image("overlay.png"), read_image(overlay))
    assert not list(Path().rglob(".dope-*"))


def test_minimize_writes_labels_though_the_record_does_not_fit():
    Path("g.txt").write_text("3 3\n1 2 1\n2 3 1\n1 3 1\n")
    with files_of_at_most(100):
        result = run("minimize", "g.txt", "-o", "side.txt", "--json", "r.json")
    assert result.exit_code == 4 and "warning: r.json" in result.stderr
    assert len(Path("side.txt").read_text().split()) == 3 and not Path("r.json").exists()
    assert "side.txt" in result.stdout and "r.json" not in result.stdout


def test_the_demo_writes_its_mask_though_pictures_do_not_fit(monkeypatch):
    @contextmanager
    def sample():
        yield samples.Sample(Path("image.png").absolute(), Path("seeds.png").absolute())

    monkeypatch.setattr(samples, "canyon_wren", sample)
    with files_of_at_most(1000):
        result = run("demo", "-o", "pictures", "--kernel", "3")
    assert result.exit_code == 4 and "warning: convergence.png" in result.stderr
    assert read_image("pictures/mask.png").shape == TRUTH.shape and not Path("pictures/convergence.png").exists()


# Whole or not at all


def appear(path):
    if path.suffix == ".zarr":
        path.mkdir()
    else:
        path.write_text("theirs")


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
@pytest.mark.parametrize("suffix", FOR_LABELS)
def test_a_name_that_is_taken_at_the_last_moment_is_not_replaced(monkeypatch, suffix, links):
    def no_links(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", no_links)
    save_labels(f"free{suffix}", TRUTH)
    assert np.array_equal(np.asarray(load(f"free{suffix}").pixels) > 0, TRUTH)
    path, flush = Path(f"taken{suffix}"), "_flush_tree" if suffix == ".zarr" else "_flush"
    monkeypatch.setattr(durable, flush, lambda _: appear(path))  # after all checks
    with pytest.raises(InputError, match="there already"):
        save_labels(path, TRUTH)
    assert path.is_dir() or path.read_text() == "theirs"
    path.rmdir() if path.is_dir() else path.unlink()
    target = open_labels(path, TRUTH.shape)
    target[...] = TRUTH
    with pytest.raises(InputError, match="there already"):
        target.commit()
    assert path.is_dir() or path.read_text() == "theirs"
    assert not list(Path().glob(".*"))


def test_a_folder_in_which_somebody_is_at_work_is_not_replaced(monkeypatch):
    mkdir = Path.mkdir

    def used_at_once(self, *arguments, **settings):
        mkdir(self, *arguments, **settings)
        if not self.name.startswith("."):
            (self / "theirs").touch()

    monkeypatch.setattr(Path, "mkdir", used_at_once)
    with pytest.raises(InputError, match="there already"), replacing_folder(Path("a.zarr"), overwrite=False) as new:
        (new / "ours").touch()
    assert [path.name for path in Path("a.zarr").iterdir()] == ["theirs"]


def test_an_old_folder_that_cannot_come_back_is_named(monkeypatch):
    Path("a.zarr").mkdir()
    (Path("a.zarr") / "old").touch()
    rename = Path.rename

    def once(self, other):
        if not self.name.startswith("."):
            return rename(self, other)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "rename", once)
    with (
        pytest.raises(InputError, match=r"input/output error; what was there before is in .*\.a-"),
        replacing_folder(Path("a.zarr")) as new,
    ):
        (new / "ours").touch()
    (left,) = Path().glob(".a-*.zarr")
    assert (left / "old").exists()


def certificate():
    energy = dope.Energy.grid(np.random.default_rng(0).normal(size=(16, 16)))
    return dope.minimize(energy, blocks=4).certificate


def text_in_place(path):
    with replacing(path) as temporary:
        temporary.write_text("new" * 1000)


WRITERS = {
    "durably": lambda path: write_durably(path, b"new" * 1000),
    "text": text_in_place,
    "labels": lambda path: save_labels(path, np.random.default_rng(0).random((200, 200)) > 0.5, overwrite=True),
    "certificate": lambda path: certificate().save(path),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
def test_cleaning_up_hides_no_error(monkeypatch, write):
    """A disk that is full, and has become read-only by the time a half-written file is to be removed."""

    def read_only(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    path = Path("a.npz")
    path.write_bytes(b"old")
    monkeypatch.setattr(Path, "unlink", read_only)
    with pytest.raises(DopeError, match=r"cannot write a\.npz: file too large") as caught, files_of_at_most(500):
        write(path)
    assert "\n" not in str(caught.value) and path.read_bytes() == b"old"


def test_a_folder_that_cannot_be_flushed_is_no_reason_to_complain(monkeypatch):
    """Some network file systems cannot, and a folder may be writable but not readable."""
    for broken in ("open", "fsync"):
        original = getattr(os, broken)

        def deny(what, *arguments, original=original, broken=broken, **settings):
            if (Path(what) if broken == "open" else Path(f"/proc/self/fd/{what}")).is_dir():
                raise OSError(errno.EINVAL, "Invalid argument")
            return original(what, *arguments, **settings)

        with monkeypatch.context() as patched:
            patched.setattr(os, broken, deny)
            write_durably(Path("a"), broken.encode())
        assert Path("a").read_text() == broken
