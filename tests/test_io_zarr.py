"""Zarr and OME-Zarr: read as it is indexed, nothing outside the store, labels that are never seen half-written."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from dope.errors import InputError
from dope.io import Image, check_writable, describe, load, same_space, save_labels
from dope.io.images.ome_zarr import OmeHeader
from profiles import slow_but

zarr = pytest.importorskip("zarr")

RANDOM = np.random.default_rng(0)
CUBE = RANDOM.integers(0, 200, (8, 10, 12)).astype(np.uint16)
LABELS = RANDOM.random((8, 10, 12)) > 0.5
LENGTHS = {"t": 1, "c": 3, "z": 8, "y": 10, "x": 12}
SIZES = {"t": 1.0, "c": 1.0, "z": 2.0, "y": 0.5, "x": 0.25}
KINDS = {"t": "time", "c": "channel"}
FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])


def refused(words, call, *args, **settings):
    with pytest.raises(InputError, match=words) as error:
        call(*args, **settings)
    assert "\n" not in str(error.value)


def metadata_of(axes, levels, /, **changes):
    def scale(level):
        return [SIZES[axis] * (2**level if axis in "zyx" else 1) for axis in axes]

    multiscale = {
        "name": "image",
        "axes": [{"name": axis, "type": KINDS.get(axis, "space"), "unit": "micrometer"} for axis in axes],
        "datasets": [
            {
                "path": str(level),
                "coordinateTransformations": [
                    {"type": "scale", "scale": scale(level)},
                    {"type": "translation", "translation": [5.0 * (axis in "zyx") for axis in axes]},
                ],
            }
            for level in range(levels)
        ],
    }
    return {**multiscale, **changes}


def ome(path, axes="zyx", /, *, zarr_format=3, levels=2, **changes):
    """An image written by zarr itself; returns its finest level."""
    group = zarr.open_group(str(path), mode="w", zarr_format=zarr_format)
    values = RANDOM.integers(0, 200, [LENGTHS[axis] for axis in axes]).astype(np.uint16)
    separator = {"name": "v2" if zarr_format == 2 else "default", "separator": "/"}
    for level in range(levels):
        picks = tuple(slice(None, None, 2**level if axis in "zyx" else 1) for axis in axes)
        array = group.create_array(
            str(level),
            shape=values[picks].shape,
            dtype="u2",
            chunks=tuple(8 if axis in "zyx" else 2 for axis in axes),
            chunk_key_encoding=separator,
        )
        array[...] = values[picks]
    multiscale = metadata_of(axes, levels, **changes)
    if zarr_format == 2:
        group.attrs["multiscales"] = [{"version": "0.4", **multiscale}]
    else:
        group.attrs["ome"] = {"version": "0.5", "multiscales": [multiscale]}
    return values


@FORMATS
@pytest.mark.parametrize("dtype", ["?", "i2", "f8"])
@pytest.mark.parametrize("settings", [{}, {"compressors": None}, {"chunks": (3, 4, 5)}, {"order": "F"}], ids=str)
def test_arrays_come_back(tmp_path, zarr_format, dtype, settings):
    if zarr_format == 3 and "order" in settings:
        pytest.skip("an order of memory is a matter of format 2")
    values = CUBE.astype(dtype)
    array = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=values.shape, dtype=dtype, zarr_format=zarr_format, **settings
    )
    array[...] = values
    image, found = load(tmp_path / "a.zarr"), describe(tmp_path / "a.zarr")
    assert np.array_equal(np.asarray(image.pixels), values) and image.pixels.dtype == values.dtype
    assert image.shape == found.shape == values.shape and not image.channels and image.spacing is None
    assert (found.dtype, found.channels, found.bytes) == (values.dtype.name, 1, values.nbytes)
    assert found.format == f"Zarr {zarr_format}"


def test_the_other_byte_order_shards_and_paths_inside(tmp_path):
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=2)
    group.create_array("big", shape=CUBE.shape, dtype=">u2", chunks=CUBE.shape)[...] = CUBE
    image = load(tmp_path / "a.zarr" / "big")
    assert image.pixels.dtype.isnative and np.array_equal(image.pixels[1:3], CUBE[1:3])
    assert image.pixels[1:3].dtype.isnative
    sharded = zarr.create_array(
        str(tmp_path / "b.zarr"), shape=CUBE.shape, dtype="u2", chunks=(2, 5, 6), shards=(4, 10, 12)
    )
    sharded[...] = CUBE
    assert np.array_equal(load(tmp_path / "b.zarr").pixels[...], CUBE)
    assert "sharding" in describe(tmp_path / "b.zarr").details["compression"]
    refused(r"no OME-Zarr image; name what is meant within it, such as .*a\.zarr/big", load, tmp_path / "a.zarr")


@pytest.mark.parametrize(
    "key",
    [
        ...,
        0,
        -1,
        (1, 2, 3),
        slice(2, 5),
        (slice(None), 3),
        (..., 2),
        (2, ..., slice(1, 9, 3)),
        (slice(-3, None), slice(0, 0)),
        (slice(100, 200),),
        (),
    ],
    ids=str,
)
@pytest.mark.parametrize("axes", ["zyx", "tczyx"])
def test_indexing_is_that_of_numpy(tmp_path, axes, key):
    values = ome(tmp_path / "a.zarr", axes, levels=1)
    expected = np.moveaxis(values.reshape(values.shape[-3:] if axes == "zyx" else values.shape[-4:]), 0, -1)
    expected = values if axes == "zyx" else expected
    pixels = load(tmp_path / "a.zarr").pixels
    assert pixels.shape == expected.shape and pixels.ndim == expected.ndim and len(pixels) == len(expected)
    assert np.array_equal(pixels[key], expected[key]) and np.shape(pixels[key]) == np.shape(expected[key])


@pytest.mark.parametrize("key", [8, -9, (0, 0, 0, 0), (..., ...), slice(None, None, -1)], ids=str)
def test_indices_that_do_not_fit(tmp_path, key):
    ome(tmp_path / "a.zarr", levels=1)
    with pytest.raises(IndexError):
        load(tmp_path / "a.zarr").pixels[key]


@FORMATS
@pytest.mark.parametrize("axes", ["yx", "zyx", "cyx", "czyx", "tczyx", "tzyx"])
def test_images_have_sites_first_and_channels_last(tmp_path, zarr_format, axes):
    name = "a.ome.zarr" if len(axes) % 2 else "a.zarr"
    values = ome(tmp_path / name, axes, zarr_format=zarr_format)
    image, found = load(tmp_path / name), describe(tmp_path / name)
    space = [axis for axis in axes if axis in "zyx"]
    expected = values[0] if "t" in axes else values
    expected = np.moveaxis(expected, 0, -1) if "c" in axes else expected
    assert np.array_equal(np.asarray(image.pixels), expected)
    assert image.channels == ("c" in axes) and image.shape == found.shape == tuple(LENGTHS[axis] for axis in space)
    assert image.spacing == found.spacing == tuple(SIZES[axis] for axis in space)
    assert found.format == f"OME-Zarr {'0.4' if zarr_format == 2 else '0.5'}, Zarr {zarr_format}"
    assert found.channels == (3 if "c" in axes else 1) and found.details["axes"] == axes
    assert len(found.details["levels"].split(", ")) == 2 and found.details["units"].startswith("micrometer")


@FORMATS
def test_a_level_on_its_own_knows_where_it_lies(tmp_path, zarr_format):
    values = ome(tmp_path / "a.zarr", "czyx", zarr_format=zarr_format)
    image = load(tmp_path / "a.zarr" / "1")
    assert image.spacing == (4, 1, 0.5) and image.channels and image.shape == (4, 5, 6)
    assert np.array_equal(np.asarray(image.pixels), np.moveaxis(values[:, ::2, ::2, ::2], 0, -1))


def test_transforms_of_all_levels_come_after_their_own(tmp_path):
    ome(tmp_path / "a.zarr", coordinateTransformations=[{"type": "scale", "scale": [10.0, 10.0, 10.0]}])
    image = load(tmp_path / "a.zarr")
    assert isinstance(image.header, OmeHeader)
    assert image.spacing == (20, 5, 2.5) and image.header.grid()[1] == (50, 50, 50)


def test_same_space_compares_transforms(tmp_path):
    for name in "abc":
        ome(tmp_path / f"{name}.zarr", zarr_format=2 if name == "b" else 3)
    metadata = json.loads((tmp_path / "c.zarr" / "zarr.json").read_text())
    metadata["attributes"]["ome"]["multiscales"][0]["datasets"][0]["coordinateTransformations"][1]["translation"][0] = 6
    (tmp_path / "c.zarr" / "zarr.json").write_text(json.dumps(metadata))
    a, b, c = (load(tmp_path / f"{name}.zarr") for name in "abc")
    assert same_space(a, b) is None and "translations are 5 x 5 x 5 and 6 x 5 x 5" in same_space(a, c)
    ome(tmp_path / "d.zarr", datasets=metadata_of("zyx", 2)["datasets"][1:])
    assert "shaped" in same_space(a, load(tmp_path / "d.zarr"))
    assert same_space(a, Image(CUBE, False, None, tmp_path)) is None


@FORMATS
@pytest.mark.parametrize("axes", slow_but(["yx", "zyx", "czyx", "tczyx"], quick=["zyx", "czyx"]))
@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_labels_are_added_to_an_image(tmp_path, zarr_format, axes, consolidated):
    store = tmp_path / "a.ome.zarr"
    ome(store, axes, zarr_format=zarr_format)
    if consolidated:
        zarr.consolidate_metadata(str(store))
    image = load(store)
    masks = {name: RANDOM.random(image.shape) > 0.5 for name in ("cells", "nuclei")}
    for name, mask in masks.items():
        check_writable(store / "labels" / name)
        save_labels(store / "labels" / name, mask, like=image)
    group = zarr.open_group(str(store), mode="r")
    listed = group["labels"].attrs if zarr_format == 2 else group["labels"].attrs["ome"]
    assert listed["labels"] == ["cells", "nuclei"]
    for name, mask in masks.items():
        again = load(store / "labels" / name)
        assert np.array_equal(np.asarray(again.pixels), mask) and again.pixels.dtype == np.uint8
        assert same_space(image, again) is None and again.spacing == image.spacing
        label = group[f"labels/{name}"]
        entry = label.attrs if zarr_format == 2 else label.attrs["ome"]
        kept = [place for place, axis in enumerate(axes) if axis != "c"]
        source = metadata_of(axes, 2)
        assert entry["multiscales"][0]["axes"] == [source["axes"][place] for place in kept]
        assert len(entry["multiscales"][0]["datasets"]) == 2  # as many levels as the image, says the specification
        for level, dataset in enumerate(entry["multiscales"][0]["datasets"]):
            wanted = source["datasets"][level]["coordinateTransformations"]
            assert dataset["coordinateTransformations"][0]["scale"] == [wanted[0]["scale"][place] for place in kept]
            assert label[dataset["path"]].shape == tuple(group[str(level)].shape[place] for place in kept)
            if zarr_format == 3:
                assert label[dataset["path"]].metadata.dimension_names == tuple(axis for axis in axes if axis != "c")
        version = entry["multiscales"][0]["version"] if zarr_format == 2 else entry["version"]
        assert version == entry["image-label"]["version"] == ("0.4" if zarr_format == 2 else "0.5")
        assert entry["image-label"]["source"] == {"image": "../../"}
    names = {path.name for path in store.iterdir()} | {path.name for path in (store / "labels").iterdir()}
    known = {"0", "1", "labels", "cells", "nuclei", "zarr.json", ".zgroup", ".zattrs", ".zmetadata"}
    assert names <= known


@FORMATS
def test_labels_are_replaced_when_asked(tmp_path, zarr_format):
    store = tmp_path / "a.ome.zarr"
    ome(store, zarr_format=zarr_format)
    target = store / "labels" / "cells"
    save_labels(target, LABELS)
    refused("there already", save_labels, target, ~LABELS)
    save_labels(target, ~LABELS, overwrite=True)
    assert np.array_equal(np.asarray(load(target).pixels), ~LABELS)
    listed = zarr.open_group(str(store / "labels"), mode="r").attrs
    assert (listed if zarr_format == 2 else listed["ome"])["labels"] == ["cells"]


def test_other_entries_of_the_labels_stay(tmp_path):
    store = tmp_path / "a.ome.zarr"
    ome(store, zarr_format=2)
    zarr.open_group(str(store / "labels"), mode="w", zarr_format=2).attrs.update({"labels": ["old"], "other": 3})
    save_labels(store / "labels" / "new", LABELS)
    assert json.loads((store / "labels" / ".zattrs").read_text()) == {"labels": ["old", "new"], "other": 3}


@FORMATS
@pytest.mark.parametrize("first", [True, False], ids=["first label", "second label"])
@pytest.mark.parametrize(
    "writer",
    ["zarr.Array.__setitem__", "dope.io.images.ome_zarr_labels._write_group", "dope.io.images.ome_zarr_labels.create"],
)
def test_half_a_label_is_never_seen(tmp_path, zarr_format, first, writer, monkeypatch):
    store = tmp_path / "a.ome.zarr"
    ome(store, zarr_format=zarr_format)
    if not first:
        save_labels(store / "labels" / "old", LABELS)

    def snapshot():
        return sorted(str(path) for path in store.rglob("*")), [
            path.read_bytes() for path in sorted(store.rglob("*.json"))
        ]

    before = snapshot()
    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):

        def fail(*_, error=error, **__):
            raise error

        monkeypatch.setattr(writer, fail)
        with pytest.raises(InputError if isinstance(error, OSError) else KeyboardInterrupt):
            save_labels(store / "labels" / "new", LABELS)
        monkeypatch.undo()
        assert snapshot() == before
    save_labels(store / "labels" / "new", LABELS)
    assert np.array_equal(np.asarray(load(store / "labels" / "new").pixels), LABELS)


def test_a_label_is_listed_only_when_it_is_there(tmp_path, monkeypatch):
    store = tmp_path / "a.ome.zarr"
    ome(store)
    save_labels(store / "labels" / "old", LABELS)

    def stop(group, name):
        assert np.array_equal(np.asarray(load(group.folder / name).pixels), LABELS)
        raise KeyboardInterrupt

    monkeypatch.setattr("dope.io.images.ome_zarr_labels._list", stop)
    with pytest.raises(KeyboardInterrupt):
        save_labels(store / "labels" / "new", LABELS)
    assert json.loads((store / "labels" / "zarr.json").read_text())["attributes"]["ome"]["labels"] == ["old"]


def test_an_old_folder_comes_back_when_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    target = tmp_path / "a.zarr"
    save_labels(target, LABELS)
    rename, calls = Path.rename, []

    def fail_second(self, other):
        calls.append(other)
        if len(calls) == 2:
            raise PermissionError(13, "Permission denied")
        return rename(self, other)

    monkeypatch.setattr(Path, "rename", fail_second)
    refused("permission denied", save_labels, target, ~LABELS, overwrite=True)
    monkeypatch.undo()
    assert np.array_equal(np.asarray(load(target).pixels), LABELS)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]


@FORMATS
@pytest.mark.parametrize("axes", ["zyx", "tczyx"])
def test_labels_on_their_own_keep_the_transforms(tmp_path, zarr_format, axes):
    ome(tmp_path / "a.ome.zarr", axes, zarr_format=zarr_format)
    image = load(tmp_path / "a.ome.zarr")
    save_labels(tmp_path / "out.ome.zarr", LABELS, like=image)
    again = load(tmp_path / "out.ome.zarr")
    assert np.array_equal(np.asarray(again.pixels), LABELS) and same_space(image, again) is None
    assert describe(tmp_path / "out.ome.zarr").format.endswith(f"Zarr {zarr_format}")
    plain = Image(CUBE, False, (1.0, 2.0, 3.0), tmp_path / "a.npy")
    save_labels(tmp_path / "plain.zarr", LABELS, like=plain)
    array = zarr.open_array(str(tmp_path / "plain.zarr"), mode="r")
    assert array.metadata.zarr_format == 3 and array.dtype == np.uint8 and np.array_equal(array[...], LABELS)


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        ("cells", "no place for labels"),
        ("0/cells", "no place for labels"),
        ("labels/.hidden", "no place for labels"),
        ("labels/zarr.json", "no place for labels|there already"),
        ("labels/deep/cells", "no place for labels"),
        ("none/labels/cells", "no such file"),
        ("0/labels/cells", "no OME-Zarr image"),
        ("labels/../../../out", "leads out"),
    ],
)
def test_places_where_labels_cannot_go(tmp_path, inside, words):
    ome(tmp_path / "a.zarr")
    refused(words, check_writable, tmp_path / "a.zarr" / inside)
    refused(words, save_labels, tmp_path / "a.zarr" / inside, LABELS)


def test_a_folder_of_something_else_is_not_replaced(tmp_path):
    ome(tmp_path / "a.zarr")
    (tmp_path / "a.zarr" / "labels").mkdir()
    (tmp_path / "a.zarr" / "labels" / "precious").touch()
    for overwrite in (False, True):
        refused("no Zarr group of labels", save_labels, tmp_path / "a.zarr/labels/cells", LABELS, overwrite=overwrite)
    assert [path.name for path in (tmp_path / "a.zarr" / "labels").iterdir()] == ["precious"]


def test_labels_must_fit_the_image_they_are_added_to(tmp_path):
    ome(tmp_path / "a.zarr")
    refused("do not lie on", save_labels, tmp_path / "a.zarr" / "labels" / "cells", LABELS[:4])
    assert not (tmp_path / "a.zarr" / "labels").exists()


@pytest.mark.skipif(os.name != "posix", reason="links need rights here")
def test_links_out_of_the_store_are_not_followed(tmp_path):
    ome(tmp_path / "secret.zarr", levels=1)
    ome(tmp_path / "a.zarr", levels=1)
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "a.zarr" / "link").symlink_to(tmp_path / "secret.zarr")
    refused("leads out", load, tmp_path / "a.zarr" / "link")
    refused("leads out", load, tmp_path / "a.zarr" / ".." / "secret.zarr")
    (tmp_path / "a.zarr" / "labels").symlink_to(outside)
    refused("leads out", save_labels, tmp_path / "a.zarr" / "labels" / "cells", LABELS)
    assert not any(outside.iterdir())
    chunk = next(path for path in (tmp_path / "a.zarr" / "0" / "c").rglob("*") if path.is_file())
    stolen = next(path for path in (tmp_path / "secret.zarr" / "0" / "c").rglob("*") if path.is_file())
    chunk.unlink()
    chunk.symlink_to(stolen)
    refused("leads out of the store", np.asarray, load(tmp_path / "a.zarr").pixels)
    chunk.unlink()
    os.mkfifo(chunk)
    refused("device or pipe", np.asarray, load(tmp_path / "a.zarr").pixels)


@pytest.mark.parametrize("path", ["../b.zarr/0", "/etc", "../../b", "none", "."])
def test_levels_that_lead_elsewhere(tmp_path, path):
    ome(tmp_path / "b.zarr")
    ome(tmp_path / "a.zarr", datasets=[{"path": path, "coordinateTransformations": []}])
    refused("leads out|no such file|expected an array", load, tmp_path / "a.zarr")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"axes": ["z", "y", "x"]}, "before OME-Zarr 0.4"),
        ({"axes": [{"name": "z"}, {"name": "y"}], "datasets": [{"path": "0"}]}, "axes of its image are zy"),
        ({"axes": [{"name": name, "type": "space"} for name in "abcd"]}, "axes abcd"),
        ({"axes": [{"name": name, "type": "other"} for name in "zyx"]}, "type other"),
        (
            {
                "axes": [
                    {"name": name, "type": kind} for name, kind in zip("tyx", ["time"] + ["space"] * 2, strict=True)
                ]
            },
            "8 moments",
        ),
        ({"axes": None}, "damaged"),
        ({"datasets": []}, "without levels"),
        ({"datasets": [{}]}, "damaged"),
        ({"coordinateTransformations": [{"type": "scale", "scale": [1, 2]}]}, "a number per axis"),
        ({"coordinateTransformations": [{"type": "scale", "scale": [1, 2, "3"]}]}, "a number per axis"),
        ({"coordinateTransformations": [{"type": "scale", "scale": [1, 2, 0]}]}, "above zero"),
        ({"coordinateTransformations": [{"type": "scale", "path": "../x"}]}, "a number per axis"),
        ({"coordinateTransformations": [{"type": "affine", "affine": [1]}]}, "affine"),
        ({"coordinateTransformations": 7}, "damaged"),
    ],
)
def test_images_that_are_refused(tmp_path, changes, words):
    ome(tmp_path / "a.zarr", **changes)
    refused(words, load, tmp_path / "a.zarr")
    refused(words, describe, tmp_path / "a.zarr")


def test_other_versions_are_refused(tmp_path):
    ome(tmp_path / "a.zarr", zarr_format=2, version="0.5")
    refused("OME-Zarr 0.5 in Zarr 2; expected 0.4 in Zarr 2", load, tmp_path / "a.zarr")
    ome(tmp_path / "b.zarr")
    path = tmp_path / "b.zarr" / "zarr.json"
    path.write_text(path.read_text().replace('"0.5"', '"0.6"'))
    refused("OME-Zarr 0.6", load, tmp_path / "b.zarr")


def altered(tmp_path, zarr_format, /, **changes):
    path = tmp_path / "a.zarr"
    if not path.exists():
        zarr.create_array(str(path), shape=CUBE.shape, dtype="u2", chunks=(4, 5, 6), zarr_format=zarr_format)[...] = (
            CUBE
        )
    file = path / ("zarr.json" if zarr_format == 3 else ".zarray")
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    return path


@pytest.mark.parametrize(
    ("zarr_format", "changes", "words"),
    [
        (2, {"dtype": "|O"}, "integers or reals"),
        (2, {"dtype": "<c8"}, "integers or reals"),
        (2, {"dtype": "<U4"}, "integers or reals"),
        (2, {"dtype": [["a", "<f4"], ["b", "<f4"]]}, "integers or reals"),
        (2, {"dtype": "<M8[s]"}, "integers or reals"),
        (2, {"filters": [{"id": "pickle"}]}, "codec 'pickle'"),
        (2, {"filters": [{"id": "msgpack2"}]}, "codec 'msgpack2'"),
        (2, {"compressor": {"id": "pickle"}}, "codec 'pickle'"),
        (2, {"compressor": {"id": "unheard of"}}, "codec 'unheard of'"),
        (2, {"compressor": {}}, "damaged"),
        (2, {"compressor": "zlib"}, "damaged"),
        (2, {"chunks": [10**6] * 3}, "a chunk of 1000000 x .* takes .* and 1 GB are allowed"),
        (2, {"chunks": [0, 1, 1]}, "chunks"),
        (2, {"chunks": [4, 5]}, "chunks"),
        (2, {"shape": [-1, 2, 3]}, "declares the shape"),
        (2, {"shape": [1.5, 2, 3]}, "damaged"),
        (2, {"shape": "many"}, "damaged"),
        (2, {"shape": []}, "declares the shape"),
        (2, {"zarr_format": 7}, "does not describe Zarr format 2"),
        (2, {"fill_value": "surprise"}, "damaged"),
        (3, {"data_type": "complex64"}, "integers or reals"),
        (3, {"data_type": "string"}, "integers or reals"),
        (3, {"data_type": {"name": "numpy.datetime64"}}, "integers or reals"),
        (3, {"codecs": [{"name": "bytes"}, {"name": "numcodecs.pickle"}]}, "codec 'numcodecs.pickle'"),
        (3, {"codecs": [{"name": "sharding_indexed", "configuration": {"codecs": [{"name": "vlen-utf8"}]}}]}, "vlen"),
        (3, {"codecs": []}, "damaged"),
        (3, {"codecs": "bytes"}, "damaged"),
        (3, {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10**6] * 3}}}, "a chunk of 1000000"),
        (3, {"chunk_grid": {"name": "odd"}}, "not all of one shape"),
        (3, {"shape": [10**400, 1, 1]}, "beyond all bounds"),
        (3, {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10**400, 1, 1]}}}, "declares chunks"),
        (3, {"node_type": "cloud"}, "neither an array nor a group"),
        (3, {"zarr_format": 2}, "neither an array nor a group"),
        (3, {"attributes": 7}, "neither an array nor a group"),
    ],
)
def test_arrays_that_are_refused(tmp_path, zarr_format, changes, words):
    refused(words, load, altered(tmp_path, zarr_format, **changes), budget=10**9)


def test_a_pickle_in_a_chunk_is_not_unpacked(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "mark"), "w"))

    path = altered(tmp_path, 2, filters=[{"id": "pickle"}], compressor=None)
    for chunk in path.glob("[0-9]*"):
        chunk.write_bytes(pickle.dumps(Bomb()))
    refused("pickle", load, path)
    assert not (tmp_path / "mark").exists()


@FORMATS
def test_a_volume_larger_than_memory_opens(tmp_path, zarr_format):
    grid = {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [64] * 3}}}
    path = altered(tmp_path, zarr_format, shape=[10**6] * 3, **({"chunks": [64] * 3} if zarr_format == 2 else grid))
    image = load(path, budget=10**7)
    assert image.shape == (10**6,) * 3 and describe(path).bytes == 2 * 10**18
    assert not image.pixels[10**5, 10**5, 5:9].any()


@FORMATS
def test_damaged_chunks_are_told_when_they_are_read(tmp_path, zarr_format):
    path = altered(tmp_path, zarr_format)
    image = load(path)
    chunk = path / ("c/0/0/0" if zarr_format == 3 else "0.0.0")
    whole = chunk.read_bytes()
    for content in (whole[:-7], b"", b"text", bytes(len(whole)), bytes(10**6)):
        chunk.write_bytes(content)
        refused(r"a\.zarr: damaged|empty", lambda: image.pixels[0, 0, 0])
    assert np.array_equal(image.pixels[4:], CUBE[4:])


@pytest.mark.parametrize(
    ("zarr_format", "codec"),
    [
        (2, {"id": "zlib", "level": 9}),
        (2, {"id": "gzip", "level": 9}),
        (2, {"id": "lz4"}),
        (2, {"id": "blosc", "cname": "zstd"}),
        (2, {"id": "zstd", "level": 3}),
        (3, {"name": "zstd", "configuration": {"level": 3, "checksum": False}}),
        (3, {"name": "gzip", "configuration": {"level": 9}}),
    ],
    ids=lambda value: value if isinstance(value, int) else value.get("id") or value["name"],
)
def test_chunks_do_not_explode(tmp_path, zarr_format, codec):
    numcodecs = pytest.importorskip("numcodecs")
    changes = (
        {"compressor": codec}
        if zarr_format == 2
        else {"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, codec]}
    )
    path = altered(tmp_path, zarr_format, **changes)
    packer = numcodecs.get_codec(codec if zarr_format == 2 else {"id": codec["name"], "level": 3})
    chunk = path / ("c/0/0/0" if zarr_format == 3 else "0.0.0")
    chunk.write_bytes(packer.encode(CUBE[:4, :5, :6].copy()))
    assert np.array_equal(load(path).pixels[:4, :5, :6], CUBE[:4, :5, :6])
    chunk.write_bytes(packer.encode(bytes(10**7)))
    refused("damaged or cut short in chunk 0.0.0.* or more, expected", lambda: load(path).pixels[0, 0, 0])


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 10**5, '"text"', "\0\0"])
@pytest.mark.parametrize("name", ["zarr.json", ".zarray", ".zgroup"])
def test_metadata_that_are_no_json_objects(tmp_path, text, name):
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr" / name).write_text(text)
    for call in (load, describe):
        refused("damaged" if text else "empty", call, tmp_path / "a.zarr")


def test_folders_and_files_that_are_no_stores(tmp_path):
    (tmp_path / "a.zarr").mkdir()
    refused("no Zarr array or group", load, tmp_path / "a.zarr")
    refused("no such file", load, tmp_path / "a.zarr" / "0")
    zarr.open_group(str(tmp_path / "b.zarr"), mode="w")
    refused("a Zarr group that is no OME-Zarr image", load, tmp_path / "b.zarr")


def test_an_opened_image_can_be_sent_elsewhere(tmp_path):
    ome(tmp_path / "a.zarr", "czyx")
    image = load(tmp_path / "a.zarr")
    again = pickle.loads(pickle.dumps(image))
    assert np.array_equal(again.pixels[...], image.pixels[...]) and again.spacing == image.spacing


def test_color_pictures_without_names_of_axes(tmp_path):
    zarr.save_array(str(tmp_path / "a.zarr"), np.zeros((5, 6, 3), np.uint8))
    assert load(tmp_path / "a.zarr").channels and describe(tmp_path / "a.zarr").channels == 3
