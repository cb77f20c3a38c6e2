"""What holds for every format: round trips, refusals in one line, writing as a whole or not at all."""

import errno
import subprocess
import sys

import numpy as np
import pytest

from dope.errors import InputError, MissingExtraError
from dope.io import Image, check_writable, describe, load, read_scribbles, same_space, save_labels, write_text

RANDOM = np.random.default_rng(0)
SQUARE = RANDOM.random((11, 17)) > 0.5
EXTRAS = {".tif": ("tifffile", "tiff"), ".nii.gz": ("nibabel", "nifti"), ".zarr": ("zarr", "zarr")}


def refused(words, call, *args, **settings):
    with pytest.raises(InputError, match=words) as error:
        call(*args, **settings)
    assert "\n" not in str(error.value)


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
        ("a.png", SQUARE * 2.5, "whole numbers"),
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
