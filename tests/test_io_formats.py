"""What holds for every format: round trips, refusals in one line, writing as a whole or not at all."""

import errno
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from dope.errors import InputError, MissingExtraError
from dope.io import FORMATS, Image, check_writable, describe, load, read_scribbles, same_space, save_labels, write_text

RANDOM = np.random.default_rng(0)
SQUARE = RANDOM.random((11, 17)) > 0.5
CUBE = RANDOM.random((5, 6, 7)) > 0.5
EXTRAS = {".tif": ("tifffile", "tiff"), ".nii.gz": ("nibabel", "nifti"), ".zarr": ("zarr", "zarr")}
FOR_LABELS = [suffix for suffix, kind in FORMATS.items() if kind.save is not None]
FOR_VOLUMES = [suffix for suffix in FOR_LABELS if suffix != ".png"]


def refused(words, call, *args, **settings):
    with pytest.raises(InputError, match=words) as error:
        call(*args, **settings)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("suffix", FOR_LABELS)
@pytest.mark.parametrize("labels", [SQUARE, CUBE], ids=["2d", "3d"])
def test_labels_come_back_as_they_were(tmp_path, suffix, labels):
    path = tmp_path / f"labels{suffix}"
    if suffix == ".png" and labels.ndim == 3:
        refused("PNG has 2 axes", save_labels, path, labels)
        return
    save_labels(path, labels)
    image = load(path)
    assert image.shape == labels.shape and not image.channels
    assert np.array_equal(np.asarray(image.pixels) > 0, labels)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", FOR_LABELS)
def test_labels_of_any_memory_order_and_type(tmp_path, suffix):
    for labels in (SQUARE.T, SQUARE[::-1, ::2], SQUARE.astype(float), np.asfortranarray(SQUARE)):
        save_labels(tmp_path / f"labels{suffix}", labels, overwrite=True)
        assert np.array_equal(np.asarray(load(tmp_path / f"labels{suffix}").pixels) > 0, labels > 0)


@pytest.mark.parametrize("suffix", FOR_VOLUMES)
@pytest.mark.parametrize("last", [1, 2, 3, 4])
def test_a_short_last_axis_is_not_taken_for_channels(tmp_path, suffix, last):
    labels = RANDOM.random((5, 6, last)) > 0.5
    save_labels(tmp_path / f"labels{suffix}", labels)
    assert np.array_equal(np.asarray(load(tmp_path / f"labels{suffix}").pixels) > 0, labels)


@pytest.mark.parametrize("suffix", FOR_LABELS)
def test_a_description_says_what_is_read(tmp_path, suffix):
    path = tmp_path / f"labels{suffix}"
    save_labels(path, SQUARE)
    found, image = describe(path), load(path)
    assert found.shape == image.shape and found.channels == 1 and found.spacing == image.spacing
    assert found.dtype == image.pixels.dtype.name and found.bytes == np.asarray(image.pixels).nbytes
    assert found.path == image.path == path and found.format
    assert all(isinstance(word, str) for pair in found.details.items() for word in pair)


@pytest.mark.parametrize("suffix", FORMATS)
def test_missing_files_and_wrong_kinds_of_file(tmp_path, suffix):
    for call in (load, describe):
        refused("no such file", call, tmp_path / f"none{suffix}")
        refused("no such file", call, tmp_path / "none" / f"none{suffix}")
    path = tmp_path / f"a{suffix}"
    path.mkdir()
    refused("a folder", load, path)
    path.rmdir()
    for content in (b"", b"hello, I am a text\n", bytes(500), b"\x1f\x8b", b"PK\x03\x04" + bytes(60)):
        path.write_bytes(content)
        for call in (load, describe):
            refused(rf"a{suffix}: (empty|not |a file|damaged)", call, path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("suffix", [suffix for suffix in FORMATS if suffix != ".zarr"])
def test_pipes_are_not_waited_for(tmp_path, suffix):
    os.mkfifo(tmp_path / f"a{suffix}")
    refused("a device or pipe", load, tmp_path / f"a{suffix}")


@pytest.mark.parametrize("suffix", [suffix for suffix in FOR_LABELS if suffix != ".zarr"])
def test_truncated_files(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    save_labels(path, RANDOM.random((64, 64)) > 0.5)
    whole = path.read_bytes()
    for part in (0.02, 0.1, 0.3, 0.5, 0.8, 0.95):
        path.write_bytes(whole[: int(part * len(whole))])
        refused(rf"a{suffix}: ", load, path)


@pytest.mark.parametrize("suffix", [suffix for suffix in FOR_LABELS if suffix != ".zarr"])
def test_altered_files_are_read_or_refused(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    save_labels(path, RANDOM.random((8, 9)) > 0.5)
    whole = path.read_bytes()
    random = np.random.default_rng(1)
    refusals = []
    for _ in range(80):
        content = bytearray(whole)
        for _ in range(random.integers(1, 5)):
            content[random.integers(min(len(content), 400))] = random.integers(256)
        path.write_bytes(content)
        try:
            describe(path)
            image = load(path, budget=10**7)
            np.asarray(image.pixels[:2])
        except InputError as error:
            refusals.append(str(error))
    assert refusals and not any("\n" in words for words in refusals)


def test_unknown_suffixes_name_the_known_ones(tmp_path):
    for name in ("a.gif", "a", "a.gz", ".png"):
        refused(r"\.nii\.gz", load, tmp_path / name)
        refused(r"\.nii\.gz", check_writable, tmp_path / name)


@pytest.mark.parametrize("url", ["https://example.org/a.zarr", "s3://bucket/a.zarr/0", "file:///tmp/a.npy"])
def test_addresses_are_refused(url):
    for call in (load, describe, check_writable):
        refused("an address", call, url)


def test_case_does_not_matter(tmp_path):
    for suffix in (".PNG", ".Nii.GZ", ".NPZ", ".Tif"):
        save_labels(tmp_path / f"a{suffix}", SQUARE)
        assert np.array_equal(np.asarray(load(tmp_path / f"a{suffix}").pixels) > 0, SQUARE)


@pytest.mark.parametrize("suffix", FOR_LABELS)
def test_nothing_is_replaced_unasked(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    save_labels(path, SQUARE)
    refused("there already", save_labels, path, ~SQUARE)
    refused("there already", check_writable, path)
    assert np.array_equal(np.asarray(load(path).pixels) > 0, SQUARE)
    check_writable(path, overwrite=True)
    save_labels(path, ~SQUARE, overwrite=True)
    assert np.array_equal(np.asarray(load(path).pixels) > 0, ~SQUARE)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", FOR_LABELS)
def test_the_image_itself_is_never_replaced(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    save_labels(path, SQUARE)
    refused("the image itself", save_labels, path, SQUARE, like=load(path), overwrite=True)


@pytest.mark.parametrize("suffix", FOR_LABELS)
def test_folders_in_the_way_and_missing_ones(tmp_path, suffix):
    refused("folder that exists", check_writable, tmp_path / "none" / f"a{suffix}")
    refused("folder that exists", save_labels, tmp_path / "none" / f"a{suffix}", SQUARE)
    (tmp_path / f"a{suffix}").mkdir()
    (tmp_path / f"a{suffix}" / "precious").touch()
    refused("a folder|there already", save_labels, tmp_path / f"a{suffix}", SQUARE)
    refused("a folder|there already", save_labels, tmp_path / f"a{suffix}", SQUARE, overwrite=True)
    assert (tmp_path / f"a{suffix}" / "precious").exists()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("suffix", FOR_LABELS)
def test_read_only_folders(tmp_path, suffix):
    tmp_path.chmod(0o500)
    refused("permission denied.*writable", check_writable, tmp_path / f"a{suffix}")
    tmp_path.chmod(0o700)


@pytest.mark.parametrize("suffix", FOR_LABELS)
def test_folders_that_turn_out_not_to_be_writable(tmp_path, suffix, monkeypatch):
    def deny(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "open", deny)
    refused("read-only file system; choose a folder", check_writable, tmp_path / f"a{suffix}")


WRITERS = {
    ".png": "PIL.Image.Image.save",
    ".tif": "tifffile.TiffWriter.write",
    ".npy": "numpy.save",
    ".npz": "numpy.savez_compressed",
    ".nii.gz": "gzip.GzipFile.write",
    ".zarr": "zarr.Array.__setitem__",
}


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("old", [False, True], ids=["new", "replaced"])
def test_a_full_disk_leaves_what_was_there(tmp_path, suffix, old, monkeypatch):
    path = tmp_path / f"a{suffix}"
    if old:
        save_labels(path, SQUARE)
    for error, seen in ((OSError(errno.ENOSPC, "No space left on device"), InputError), (KeyboardInterrupt(), None)):

        def fail(*_, error=error, **__):
            raise error

        monkeypatch.setattr(WRITERS[suffix], fail)
        with pytest.raises(seen or type(error), match="no space left" if seen else None) as caught:
            save_labels(path, ~SQUARE, overwrite=True)
        assert "\n" not in str(caught.value)
        monkeypatch.undo()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name] * old
    if old:
        assert np.array_equal(np.asarray(load(path).pixels) > 0, SQUARE)


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


@pytest.mark.parametrize("size", [0, 100, 1000])
@pytest.mark.parametrize("suffix", FOR_LABELS)
def test_the_system_refuses_to_write_more(tmp_path, suffix, size):
    path = tmp_path / f"a{suffix}"
    save_labels(path, SQUARE)
    with pytest.raises(InputError, match=r"cannot write .*(too large|disk full)") as error, files_of_at_most(size):
        save_labels(path, RANDOM.random((200, 200)) > 0.5, overwrite=True)
    assert "\n" not in str(error.value)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert np.array_equal(np.asarray(load(path).pixels) > 0, SQUARE)


@pytest.mark.parametrize("suffix", EXTRAS)
def test_a_missing_package_is_named_with_the_command(tmp_path, suffix, monkeypatch):
    package, extra = EXTRAS[suffix]
    save_labels(tmp_path / f"a{suffix}", SQUARE)
    monkeypatch.setitem(sys.modules, package, None)
    for call in (load, describe, lambda path: check_writable(path, overwrite=True)):
        with pytest.raises(MissingExtraError, match=rf"{package}.*pip install 'dope\[{extra}\]'"):
            call(tmp_path / f"a{suffix}")


def test_importing_brings_no_heavy_package():
    code = "import sys, dope.io; print([n for n in ('nibabel', 'tifffile', 'imagecodecs', 'zarr') if n in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "labels", "words"),
    [
        ("a.jpg", SQUARE, "JPEG alters labels"),
        ("a.png", SQUARE * 2.0, "other than 0 and 1"),
        ("a.npy", np.zeros((0, 3), bool), "no labels"),
        ("a.npy", np.bool_(True), "no labels"),
        ("a.npz::b", SQUARE, "leave out ::"),
        ("a.tif", np.zeros((2, 3, 4, 5), bool), "rows and columns"),
        ("a.tif", np.zeros(5, bool), "rows and columns"),
        ("a.nii", np.zeros((1,) * 8, bool), "1 to 7"),
    ],
)
def test_labels_that_cannot_be_written(tmp_path, name, labels, words):
    refused(words, save_labels, tmp_path / name, labels)
    assert list(tmp_path.iterdir()) == []


def test_labels_must_fit_the_image(tmp_path):
    image = Image(np.zeros((4, 5)), False, None, tmp_path / "image.npy")
    refused(r"\(11, 17\) do not lie on .*image.npy.*\(4, 5\)", save_labels, tmp_path / "a.npy", SQUARE, like=image)


def test_places_for_other_files_are_checked_too(tmp_path):
    check_writable(tmp_path / "report.html", any_suffix=True)
    refused("folder that exists", check_writable, tmp_path / "none" / "report.html", any_suffix=True)
    write_text(tmp_path / "report.html", "µ\n")
    assert (tmp_path / "report.html").read_bytes() == "µ\n".encode()
    refused("there already", check_writable, tmp_path / "report.html", any_suffix=True)


def test_images_of_other_shapes_do_not_lie_on_each_other(tmp_path):
    a, b = (Image(np.zeros((4, 5, n)), True, None, tmp_path) for n in (3, 1))
    assert same_space(a, b) is None
    c = Image(np.zeros((4, 6)), False, None, tmp_path)
    assert "(4, 5) and (4, 6)" in same_space(a, c)


def seeds_of(shape):
    seeds = np.zeros(shape, np.uint8)
    seeds.flat[3], seeds.flat[9] = 1, 2
    return seeds


def written(path, values):
    """`values` in the format of a path, by the libraries themselves."""
    if path.suffix == ".npy":
        np.save(path, values)
    elif path.suffix == ".npz":
        np.savez(path, a=values)
    elif path.suffix == ".tif":
        pytest.importorskip("tifffile").imwrite(
            path, values, photometric="minisblack", metadata={"axes": "ZYX"[-values.ndim :]}
        )
    elif path.suffix == ".zarr":
        pytest.importorskip("zarr").save_array(str(path), values)
    else:
        nibabel = pytest.importorskip("nibabel")
        nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), path)
    return path


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".tif", ".nii", ".nii.gz", ".zarr"])
@pytest.mark.parametrize("shape", [(5, 6, 7), (6, 7), (5, 6, 3)])
def test_strokes_in_any_format(tmp_path, suffix, shape):
    path = written(tmp_path / f"seeds{suffix}", seeds_of(shape))
    seeds = read_scribbles(path, shape)
    assert seeds.dtype == np.int8 and np.array_equal(seeds, seeds_of(shape))
    if len(shape) == 2:
        assert np.array_equal(read_scribbles(path, (*shape, 3)), seeds)


def test_strokes_in_volumes_that_are_refused(tmp_path):
    path = tmp_path / "seeds.npy"
    shape = (5, 6, 7)
    refused(
        r"shaped \(5, 6, 7\) for an image shaped \(5, 6, 8\)", read_scribbles, written(path, seeds_of(shape)), (5, 6, 8)
    )
    refused("no foreground", read_scribbles, written(path, np.zeros(shape, np.uint8)), shape)
    refused("no background", read_scribbles, written(path, np.ones(shape, np.uint8)), shape)
    wrong = seeds_of(shape).astype(np.float32)
    for value in (3, 0.5, -1, np.nan):
        wrong[1, 2, 3] = value
        refused(rf"label {value}.* at \(1, 2, 3\)", read_scribbles, written(path, wrong), shape)
    for name in ("a.json", "a.png"):
        (tmp_path / name).touch()
        refused("use a label volume", read_scribbles, tmp_path / name, shape)
