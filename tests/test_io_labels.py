"""Labels of any number, in every format that takes labels: what is read back is what was written."""

import itertools
import json
import os
import pickle

import numpy as np
import pytest
from PIL import Image as Pillow

from dope.errors import InputError
from dope.io import FORMATS, describe, load, load_labels, open_labels, save_labels, write_image
from label_files import holds_volumes
from profiles import slow_but

nibabel = pytest.importorskip("nibabel")
pytest.importorskip("tifffile")
zarr = pytest.importorskip("zarr")

RANDOM = np.random.default_rng(0)
FOR_LABELS = [suffix for suffix, kind in FORMATS.items() if kind.save is not None]
FOR_VOLUMES = [suffix for suffix in FOR_LABELS if holds_volumes(suffix)]
NUMBERS = [2, 3, 300]
TYPES = {2: np.bool_, 3: np.uint8, 300: np.uint16}


def labels_of(number, shape):
    labels = RANDOM.integers(0, number, shape).astype(TYPES[number])
    labels.flat[:2] = 0, number - 1
    return labels


def refused(words, call, *args, **settings):
    with pytest.raises(InputError, match=words) as error:
        call(*args, **settings)
    assert "\n" not in str(error.value)


def boxes_of(shape, sides):
    starts = (range(0, length, side) for length, side in zip(shape, sides, strict=False))
    for corner in itertools.product(*starts):
        yield tuple(slice(low, low + side) for low, side in zip(corner, sides, strict=False))


def content(path):
    """Of a file, or of all files in a folder, by name."""
    if path.is_file():
        return path.read_bytes()
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def drafted(path, labels, number, **settings):
    with open_labels(path, labels.shape, label_count=number, **settings) as target:
        assert target.label_count == pickle.loads(pickle.dumps(target)).label_count == number
        assert target[...].dtype == labels.dtype and not target[...].any()
        for box in boxes_of(labels.shape, (5, 6, 4)):
            pickle.loads(pickle.dumps(target))[box] = labels[box]
            assert np.array_equal(target[box], labels[box])
        assert target[...].dtype == target[:0].dtype == labels.dtype
    return path


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("suffix", FOR_LABELS)
@pytest.mark.parametrize("shape", slow_but([(11, 17), (5, 6, 7), (5, 6, 3)], quick=[(11, 17), (5, 6, 3)]))
def test_labels_come_back_as_they_were(tmp_path, suffix, shape, number):
    if not holds_volumes(suffix) and len(shape) == 3:
        return
    labels = labels_of(number, shape)
    for name, written in (("own", labels), ("wide", labels.astype(np.int64)), ("turned", np.asfortranarray(labels))):
        save_labels(tmp_path / f"{name}{suffix}", written)
        found = load_labels(tmp_path / f"{name}{suffix}")
        assert found.dtype == labels.dtype and np.array_equal(found, labels)
    drafted(tmp_path / f"boxes{suffix}", labels, number)
    assert np.array_equal(load_labels(tmp_path / f"boxes{suffix}"), labels)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("suffix", FOR_LABELS)
def test_what_is_committed_is_what_is_saved(tmp_path, suffix, number):
    labels = labels_of(number, (12, 14, 16) if holds_volumes(suffix) else (12, 14))
    (tmp_path / "drafted").mkdir()
    save_labels(tmp_path / f"a{suffix}", labels)
    path = drafted(tmp_path / "drafted" / f"a{suffix}", labels, number)
    assert content(path) == content(tmp_path / f"a{suffix}")
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("number", [3, 300])
@pytest.mark.parametrize("suffix", FOR_VOLUMES)
def test_every_other_reader_finds_the_numbers(tmp_path, suffix, number):
    """Labels of volumes are plain integers: `load` needs no hint to read them."""
    labels = labels_of(number, (5, 6, 7))
    save_labels(tmp_path / f"a{suffix}", labels)
    image = load(tmp_path / f"a{suffix}")
    assert np.array_equal(np.asarray(image.pixels), labels) and image.pixels.dtype == TYPES[number]
    assert describe(tmp_path / f"a{suffix}").dtype == np.dtype(TYPES[number]).name


@pytest.mark.parametrize("suffix", FOR_LABELS)
def test_labels_of_which_the_last_do_not_occur(tmp_path, suffix):
    labels = np.zeros((4, 5), dtype=np.uint8)
    labels[0] = 1
    for number, kind in ((None, bool), (3, np.uint8), (300, np.uint16)):
        path = tmp_path / f"{number}{suffix}"
        save_labels(path, labels, label_count=number)
        stored = np.asarray(load_labels(path))
        assert np.array_equal(stored, labels)
        if suffix == ".npy":
            assert np.load(path).dtype == kind


@pytest.mark.parametrize("suffix", FOR_LABELS)
def test_labels_that_no_type_holds_are_refused(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    refused(
        "there is 70000 in labels; expected the numbers of labels, 0 to 65535",
        save_labels,
        path,
        np.array([[0, 70_000]]),
    )
    refused("there is -1 in labels", save_labels, path, np.array([[0, -1]]))
    refused(
        "there is 3 in labels; expected the numbers of labels, 0 to 2",
        save_labels,
        path,
        np.array([[0, 3]]),
        label_count=3,
    )
    refused("1 labels", open_labels, path, (4, 5), label_count=1)
    refused("70,000 labels", open_labels, path, (4, 5), label_count=70_000)
    assert list(tmp_path.iterdir()) == []
    with open_labels(path, (4, 5), label_count=3) as target:
        refused("there is 3 in labels", target.__setitem__, slice(0, 2), np.full((2, 5), 3))
        refused("shaped", target.__setitem__, slice(0, 2), np.full((3, 5), 2))
        target[:2] = np.full((2, 5), 2)
        target[2:] = np.ones((2, 5), dtype=bool)
    assert load_labels(path).tolist() == [[2] * 5] * 2 + [[1] * 5] * 2
    with open_labels(path, (4, 5), overwrite=True) as target:
        refused("that are 0 and 1", target.__setitem__, slice(0, 2), np.full((2, 5), 2))


def test_jpeg_holds_no_labels(tmp_path):
    write_image(tmp_path / "a.jpg", np.zeros((4, 5), np.uint8))
    refused("JPEG alters labels", load_labels, tmp_path / "a.jpg")


# PNG


def test_two_labels_of_a_picture_are_black_and_white(tmp_path):
    labels = labels_of(2, (9, 10))
    save_labels(tmp_path / "a.png", labels)
    with Pillow.open(tmp_path / "a.png") as picture:
        assert picture.mode == "L" and np.array_equal(np.array(picture), labels * np.uint8(255))
    # Of a program that knows black and white only.
    Pillow.fromarray(labels).save(tmp_path / "b.png")
    assert np.array_equal(load_labels(tmp_path / "b.png"), labels)


@pytest.mark.parametrize("number", [3, 4, 5, 17, 256])
def test_more_have_a_palette(tmp_path, number):
    labels = RANDOM.integers(0, number, (9, 10)).astype(np.uint8)
    save_labels(tmp_path / "a.png", labels, label_count=number)
    with Pillow.open(tmp_path / "a.png") as picture:
        assert picture.mode == "P" and np.array_equal(np.array(picture), labels)
        colors = np.array(picture.convert("RGB"))
    assert len(np.unique(colors.reshape(-1, 3), axis=0)) == len(np.unique(labels))
    assert not colors[labels == 0].any()
    assert np.array_equal(load_labels(tmp_path / "a.png"), labels)


def test_the_last_of_256_labels_is_no_foreground(tmp_path):
    labels = np.array([[0, 255]], dtype=np.uint8)
    save_labels(tmp_path / "a.png", labels)
    assert load_labels(tmp_path / "a.png").tolist() == [[0, 255]]


def test_grey_pictures_of_other_programs_hold_numbers(tmp_path):
    labels = labels_of(3, (9, 10))
    write_image(tmp_path / "a.png", labels)
    assert np.array_equal(load_labels(tmp_path / "a.png"), labels)
    write_image(tmp_path / "b.png", np.dstack([labels] * 3))
    refused("in colours; expected a number for each site", load_labels, tmp_path / "b.png")


# Headers


@pytest.mark.parametrize("name", ["out.nii", "out.nii.gz"])
@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize("number", [3, 300])
def test_labels_on_a_nifti_image(tmp_path, name, endian, number):
    header = nibabel.Nifti1Header(endianness=endian)
    header.set_data_dtype(np.dtype("i2").newbyteorder(endian))
    image = nibabel.Nifti1Image(np.zeros((5, 6, 7), np.int16), np.diag([1.0, 2, 3, 1]), header)
    nibabel.save(image, tmp_path / "in.nii")
    labels = labels_of(number, (5, 6, 7))
    like = load(tmp_path / "in.nii")
    save_labels(tmp_path / name, labels, like=like)
    again = nibabel.load(tmp_path / name)
    assert again.header.endianness == like.header.fields.endianness == endian
    assert again.get_data_dtype().newbyteorder("=") == TYPES[number] and np.array_equal(again.affine, image.affine)
    assert np.array_equal(np.asarray(again.dataobj), labels)
    assert np.array_equal(load_labels(tmp_path / name), labels)
    (tmp_path / "drafted").mkdir()
    path = drafted(tmp_path / "drafted" / name, labels, number, like=like)
    assert content(path) == content(tmp_path / name)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("number", NUMBERS)
def test_labels_of_an_ome_zarr_image(tmp_path, zarr_format, number):
    store = tmp_path / "a.ome.zarr"
    group = zarr.open_group(str(store), mode="w", zarr_format=zarr_format)
    group.create_array("0", shape=(6, 8), dtype=np.int16)[...] = 0
    axes = [{"name": name, "type": "space"} for name in "yx"]
    scale = [{"type": "scale", "scale": [0.5, 0.5]}]
    entry = {"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": scale}]}
    if zarr_format == 2:
        group.attrs["multiscales"] = [{"version": "0.4", **entry}]
    else:
        group.attrs["ome"] = {"version": "0.5", "multiscales": [entry]}
    labels = labels_of(number, (6, 8))
    save_labels(store / "labels" / "parts", labels)
    drafted(store / "labels" / "boxes", labels, number, chunks=(3, 5))
    for name in ("parts", "boxes"):
        assert np.array_equal(load_labels(store / "labels" / name), labels)
        assert load(store / "labels" / name).spacing == (0.5, 0.5)
        folder = store / "labels" / name
        found = json.loads((folder / (".zattrs" if zarr_format == 2 else "zarr.json")).read_text())
        colors = (found if zarr_format == 2 else found["attributes"]["ome"])["image-label"]["colors"]
        assert [color["label-value"] for color in colors] == list(range(1, min(number, 256)))
        if number == 2:
            assert colors == [{"label-value": 1, "rgba": [255, 0, 0, 255]}]
        assert len({tuple(color["rgba"]) for color in colors}) == len(colors)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="sizes of files are those of Linux")
@pytest.mark.parametrize("suffix", [".npy", ".nii"])
def test_a_target_takes_its_place_on_the_disk_at_once(tmp_path, suffix):
    target = open_labels(tmp_path / f"a{suffix}", (100, 100), label_count=300)
    assert max(file.stat().st_size for file in tmp_path.iterdir()) > 2 * 100 * 100
    target.abandon()
