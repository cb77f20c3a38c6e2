"""Checkpoints: whatever a folder holds, the run is refused or its labels are right."""

import json
import os
import shutil
import socket
from dataclasses import replace

import numpy as np
import pytest

import dope
from dope import DopeError, Energy, InputError, Serial
from dope.boards import FolderBoard
from dope.boards import folder as folders
from dope.boards.folder import VERSION
from dope.stored import Stored
from profiles import slow_but
from test_bracketing import volume

SETTINGS = {"blocks": (3, 3), "executor": Serial()}


def picture(seed=0):
    """An energy that takes passes and flows; of another seed, another one of the same shape and kernel."""
    unary, image = volume((24, 26), seed, noise=3.0)
    return Energy.grid(unary if seed == 0 else -unary, features=image, lam=6.0, beta=0.0001)


@pytest.fixture(scope="module")
def expected():
    return dope.minimize(picture(), **SETTINGS).labels


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """Complete checkpoints: two runs of the same problem, and one of another."""
    folder = tmp_path_factory.mktemp("complete")
    for name, seed in (("kept", 0), ("same", 0), ("other", 1)):
        dope.minimize(picture(seed), checkpoint=folder / name, **SETTINGS)
    assert {"prove", "flow", "walls", "reach"} == {
        path.parent.name.partition("-")[0] for path in posts(folder / "kept")
    }
    return folder


@pytest.fixture
def kept(complete, tmp_path):
    """The first of them, to be changed."""
    return shutil.copytree(complete / "kept", tmp_path / "kept")


def resumed(folder):
    """The labels, and how many blocks were computed to find them."""
    result = dope.minimize(picture(), resume=folder, **SETTINGS)
    assert result.exact
    return result.labels, computed_blocks(result)


def computed_blocks(result):
    return sum(task.kind not in ("measure", "finish") for step in result.trace for task in step.tasks.done)


def posts(folder):
    return sorted(path for path in folder.glob("*-*/[0-9]*") if path.is_file())


def test_a_complete_checkpoint_leaves_nothing_to_compute(kept, expected):
    labels, computed = resumed(kept)
    assert computed == 0
    assert np.array_equal(labels, expected)


def test_what_stands_in_the_way_of_the_owner_is_set_aside(kept, expected):
    (kept / "owner").unlink()
    (kept / "owner").mkdir()
    labels, computed = resumed(kept)
    assert computed == 0
    assert np.array_equal(labels, expected)


def test_two_folders_and_no_name_are_refused(tmp_path):
    for name in ("checkpoint", "resume", "certificate"):
        with pytest.raises(InputError, match=f"{name} is '', an empty name"):
            dope.minimize(picture(), **{name: ""}, **SETTINGS)
    method = dope.Bracketing(checkpoint=str(tmp_path / "one"))
    with pytest.raises(InputError, match="names a folder of its own"):
        dope.minimize(picture(), checkpoint=tmp_path / "other", method=method, **SETTINGS)
    assert not list(tmp_path.iterdir())


def test_parts_that_are_dropped_have_no_certificate(tmp_path):
    image = np.zeros((12, 12), dtype=np.uint8)
    scribbles = np.zeros_like(image)
    scribbles[2, 2], scribbles[9, 9] = 1, 2
    with pytest.raises(InputError, match="connected=True drops parts"):
        dope.segment(image, scribbles=scribbles, connected=True, certificate=tmp_path / "proof", **SETTINGS)


def test_posts_without_their_manifest_are_nobodys(kept):
    (kept / "manifest.json").unlink()
    with pytest.raises(InputError, match="not empty"):
        dope.minimize(picture(1), checkpoint=kept, **SETTINGS)
    with pytest.raises(InputError, match="no checkpoint to resume"):
        dope.minimize(picture(1), resume=kept, **SETTINGS)


@pytest.mark.parametrize("entry", ["a file", ".hidden", "a folder", "a link to nothing", "manifest.json"])
def test_a_folder_that_is_not_empty_is_refused_and_left_alone(tmp_path, entry):
    folder = tmp_path / "kept"
    folder.mkdir()
    if entry == "a folder":
        (folder / entry).mkdir()
    elif entry == "a link to nothing":
        (folder / entry).symlink_to("nowhere")
    else:
        (folder / entry).write_text("mine")
    unreadable = Energy.grid(Stored.of("unary", np.full((24, 26), np.nan)))  # refused before anything is read
    for run in (dope.minimize, lambda energy, **settings: dope.segment(np.zeros((24, 26)), unary=energy, **settings)):
        energy = unreadable if run is dope.minimize else np.full((24, 26), np.nan)
        with pytest.raises(InputError, match="another run" if entry == "manifest.json" else "not empty"):
            run(energy, checkpoint=folder, **SETTINGS)
    assert [path.name for path in folder.iterdir()] == [entry]


def test_an_empty_folder_and_one_in_new_folders_will_do(tmp_path, expected):
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "a" / "b"):
        assert np.array_equal(dope.minimize(picture(), checkpoint=folder, **SETTINGS).labels, expected)
        assert (folder / "manifest.json").is_file()


@pytest.mark.parametrize("place", ["file", "file/below", "link", "nul\0"])
def test_what_can_be_no_folder_is_told(tmp_path, place):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(InputError, match="cannot write into"):
        dope.minimize(picture(), checkpoint=os.path.join(tmp_path, place), **SETTINGS)  # noqa: PTH118
    assert (tmp_path / "file").read_text() == "mine"


def test_a_disk_that_takes_no_manifest_leaves_the_folder_free(tmp_path, monkeypatch, expected):
    def full(*_):
        raise DopeError("no space left")

    monkeypatch.setattr(folders, "write_durably", full)
    with pytest.raises(DopeError, match="no space left"):
        dope.minimize(picture(), checkpoint=tmp_path / "kept", **SETTINGS)
    monkeypatch.undo()
    assert np.array_equal(dope.minimize(picture(), checkpoint=tmp_path / "kept", **SETTINGS).labels, expected)


def test_a_run_that_died_over_its_manifest_is_neither_resumed_nor_replaced(tmp_path):
    (tmp_path / "manifest.json").touch()
    with pytest.raises(InputError, match="no checkpoint to resume"):
        dope.minimize(picture(), resume=tmp_path, **SETTINGS)
    with pytest.raises(InputError, match="another run"):
        dope.minimize(picture(), checkpoint=tmp_path, **SETTINGS)


@pytest.mark.parametrize("run", ["same", "other"])
def test_posts_of_another_checkpoint_are_computed_again(kept, complete, expected, run):
    mine = posts(kept)
    for path in mine:
        other = complete / run / path.relative_to(kept)
        path.write_bytes(other.read_bytes() if other.exists() else b"")
    labels, computed = resumed(kept)
    assert computed == len(mine)
    assert np.array_equal(labels, expected)


def test_manifests_that_were_swapped_make_posts_none(kept, complete, expected):
    number = len(posts(kept))
    shutil.copy(complete / "other" / "manifest.json", kept)
    with pytest.raises(InputError, match="something else, its arrays"):
        resumed(kept)
    shutil.copy(complete / "same" / "manifest.json", kept)
    labels, computed = resumed(kept)
    assert computed == number
    assert np.array_equal(labels, expected)


def test_a_manifest_that_was_edited_to_fit_makes_posts_none(complete, tmp_path, expected):
    forged = shutil.copytree(complete / "other", tmp_path / "forged") / "manifest.json"
    mine = json.loads((complete / "kept" / "manifest.json").read_text())
    forged.write_text(json.dumps({**mine, "run": json.loads(forged.read_text())["run"]}))
    labels, computed = resumed(tmp_path / "forged")
    assert computed == len(posts(complete / "kept"))
    assert np.array_equal(labels, expected)


def test_a_manifest_that_is_none_is_refused(kept):
    path = kept / "manifest.json"
    whole = path.read_bytes()
    known = json.loads(whole)
    truncated = [whole[:n] for n in range(0, len(whole), 25)]
    others = [[], "text", 3, None, {}, {**known, "run": 3}, {k: v for k, v in known.items() if k != "run"}]
    for content in (*truncated, b"[" * 100_000, b"\xff\xfe", *(json.dumps(other).encode() for other in others)):
        path.write_bytes(content)
        with pytest.raises(InputError, match="no checkpoint to resume"):
            resumed(kept)
    for make in (path.mkdir, lambda: os.mkfifo(path), lambda: path.symlink_to(path), lambda: path.symlink_to(kept)):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        make()
        with pytest.raises(InputError, match="no checkpoint to resume"):
            resumed(kept)


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1, str(VERSION), None, [VERSION] * 1000])
def test_another_version_is_refused_with_what_to_do(kept, version):
    manifest = kept / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": version}))
    for blocks in ((3, 3), None):
        with pytest.raises(
            InputError, match=rf"expected version {VERSION}\. Finish it with the dope that began"
        ) as told:
            dope.minimize(picture(), resume=kept, **{**SETTINGS, "blocks": blocks})
        assert len(str(told.value)) < 300 + len(str(kept))


@pytest.mark.parametrize(
    "cuts", [[[8, 16]], [[8, 16], 3], [[8.0], []], [[True], []], [[16, 8], []], [[-1], []], [[99], []], [[2**80], []]]
)
def test_cuts_that_fit_no_grid_are_refused(kept, cuts):
    manifest = kept / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "blocks": cuts}))
    with pytest.raises(InputError):
        dope.minimize(picture(), resume=kept)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))  # an address is short


def make_large_file(path):
    with path.open("wb") as stream:
        stream.truncate(1 << 28)


def make_folder_of_mine(path):
    path.mkdir()
    (path / "mine").write_text("mine")


THINGS = {
    "folder": lambda path: path.mkdir(),
    "full folder": make_folder_of_mine,
    "pipe": os.mkfifo,
    "socket": make_socket,
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path),
    "link to a folder": lambda path: path.symlink_to(path.parent),
    "link to zeros": lambda path: path.symlink_to("/dev/zero"),
    "file of another": lambda path: path.write_text("mine"),
    "large file": make_large_file,
}


@pytest.mark.parametrize("thing", THINGS)
def test_what_is_no_post_is_computed_again_and_kept_then(kept, expected, thing, monkeypatch):
    monkeypatch.chdir(kept)
    chosen = posts(kept)[1::4]
    for path in chosen:
        path.unlink()
        THINGS[thing](path)
    labels, computed = resumed(kept)
    # A block that is solved anew may send over other pairs; what was made from its post is then made anew, too.
    assert computed >= len(chosen)
    assert np.array_equal(labels, expected)
    assert resumed(kept)[1] == 0
    mine = [path.read_text() for path in kept.rglob("mine")]
    assert mine == (["mine"] * len(chosen) if thing == "full folder" else [])


@pytest.mark.parametrize("thing", [thing for thing in THINGS if "folder" not in thing])
def test_what_is_no_folder_of_posts_is_set_aside(kept, expected, thing, monkeypatch):
    monkeypatch.chdir(kept)
    first = kept / "prove-01"
    number = len(list(first.iterdir()))
    shutil.rmtree(first)
    THINGS[thing](first)
    labels, computed = resumed(kept)
    assert computed == number
    assert np.array_equal(labels, expected)
    assert resumed(kept)[1] == 0
    assert len(list(kept.glob("prove-01-set-aside-*"))) == 1


def test_a_post_is_of_its_run_its_name_and_every_bit(tmp_path):
    board = FolderBoard(tmp_path / "kept")
    board.begin({"shape": [3]})
    content = bytes(range(20))
    board.post("prove-01/000000", content)
    path = tmp_path / "kept" / "prove-01" / "000000"
    whole = path.read_bytes()
    again = FolderBoard(tmp_path / "kept", resume=True)
    again.begin({"shape": [3]})
    assert again.find("prove-01/000000") == content
    for elsewhere in ("prove-02/000000", "prove-01/000001"):
        (tmp_path / "kept" / elsewhere).parent.mkdir(exist_ok=True)
        shutil.copy(path, tmp_path / "kept" / elsewhere)
        assert again.find(elsewhere) is None
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        for other in (bytes(damaged), whole[:position], whole[position + 1 :]):
            path.write_bytes(other)
            assert again.find("prove-01/000000") is None
    path.write_bytes(whole + b"\n")
    assert again.find("prove-01/000000") is None


@pytest.mark.parametrize("seed", slow_but(range(12), quick=range(4)))
def test_whatever_was_mixed_up_no_label_is_wrong(complete, kept, expected, seed):
    """Files of this checkpoint, of another run and of another problem in each other's place, damaged or replaced."""
    rng = np.random.default_rng(seed)
    sources = [complete / name for name in ("kept", "same", "other")]
    pool = [path.read_bytes() for source in sources for path in (source / "manifest.json", *posts(source))]
    if rng.random() < 0.7:
        shutil.copy(sources[int(rng.integers(3))] / "manifest.json", kept)
    for path in posts(kept):
        twin = sources[int(rng.integers(3))] / path.relative_to(kept)
        match int(rng.integers(6)):
            case 0 | 1 | 2:
                path.write_bytes(twin.read_bytes() if twin.exists() else b"")
            case 3:
                path.write_bytes(pool[int(rng.integers(len(pool)))])
            case 4:
                path.unlink()
                path.mkdir()
    try:
        labels, _ = resumed(kept)
    except InputError:
        return
    assert np.array_equal(labels, expected)


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    unary, image = volume((12, 12))
    settings = {"blocks": (2, 2), "executor": Serial()}
    dope.minimize(Energy.grid(unary, features=image), checkpoint=tmp_path / "c", **settings)
    other, mask = unary.copy(), np.ones((12, 12), dtype=np.bool_)
    other[3, 4] += 1e-3
    for energy, more, words in (
        (Energy.grid(other, features=image), {}, "arrays"),
        (Energy.grid(unary, features=image.T), {}, "arrays"),
        (Energy.grid(unary, features=image, mask=mask), {}, "arrays"),
        (Energy.grid(unary, features=image, lam=2.0), {}, "weights"),
        (Energy.grid(unary, features=image, beta=0.5), {}, "beta"),
        (Energy.grid(unary, features=image, kernel=5), {}, "kernel"),
        (Energy.grid(unary, features=image), {"blocks": (3, 2)}, "blocks"),
    ):
        with pytest.raises(InputError, match=words):
            dope.minimize(energy, resume=tmp_path / "c", **{**settings, **more})
    with pytest.raises(InputError, match="another run"):
        dope.minimize(Energy.grid(unary, features=image), checkpoint=tmp_path / "c", **settings)


def test_weights_that_were_given_are_part_of_the_problem(tmp_path):
    rng = np.random.default_rng(0)
    unary, weights = rng.normal(size=(20, 20)), 2 * rng.random((2, 20, 20))
    one, other = (
        Energy.grid(unary, weights=[*some], kernel=[(0, 1), (1, 0)]) for some in (weights, weights[:, ::-1].copy())
    )
    dope.minimize(one, checkpoint=tmp_path / "given", **SETTINGS)
    with pytest.raises(InputError, match="arrays"):
        dope.minimize(other, resume=tmp_path / "given", **SETTINGS)
    counts = np.arange(1.0, 21.0), np.ones(20)
    one, other = (replace(one, pairs=one.pairs.divided(some)) for some in (counts, counts[::-1]))
    dope.minimize(one, checkpoint=tmp_path / "divided", **SETTINGS)
    with pytest.raises(InputError, match="arrays"):
        dope.minimize(other, resume=tmp_path / "divided", **SETTINGS)


def test_strokes_are_part_of_the_problem(tmp_path):
    unary, image = volume((24, 26))
    strokes = np.zeros(unary.shape, dtype=np.uint8)
    strokes[3, 4], strokes[12, 12] = 1, 2
    settings = {"unary": unary, **SETTINGS}
    dope.segment(image, scribbles=strokes, checkpoint=tmp_path / "kept", **settings)
    again = dope.segment(image, scribbles=strokes, resume=tmp_path / "kept", **settings)
    assert computed_blocks(again) == 0
    with pytest.raises(InputError, match="arrays"):
        dope.segment(image, scribbles=strokes[::-1], resume=tmp_path / "kept", **settings)


@pytest.mark.parametrize(("name", "why"), [("missing", "no such file or directory"), ("a file", "not a directory")])
def test_a_folder_that_is_none_is_said_once(tmp_path, name, why):
    (tmp_path / "a file").touch()
    folder = tmp_path / name
    with pytest.raises(InputError, match=f"no checkpoint to resume: its manifest.json cannot be read, {why}") as error:
        dope.minimize(Energy.grid(np.zeros((4, 5))), resume=folder)
    assert str(error.value).count(str(folder)) == 1 and "Errno" not in str(error.value)
