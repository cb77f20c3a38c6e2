"""Volumes larger than memory: boxes read and labels written by several processes, all or nothing in the end."""

import contextlib
import errno
import gc
import gzip
import itertools
import json
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from dope.errors import InputError
from dope.io import FORMATS, Image, LabelTarget, load, open_labels, save_labels, stored
from dope.io.lazy import Lazy
from label_files import holds_volumes
from profiles import slow_but

RANDOM = np.random.default_rng(0)
CUBE = RANDOM.integers(0, 200, (12, 14, 16)).astype(np.int16)
LABELS = RANDOM.random(CUBE.shape) > 0.5
SQUARE = RANDOM.random((11, 17)) > 0.5
BOX = (slice(2, 9), slice(0, 14), slice(5, 6))
FOR_LABELS = [suffix for suffix, kind in FORMATS.items() if kind.save is not None]
LAZY = ["a.npy", "a.nii", "a.tif", "a.zarr", "a.ome.zarr"]
PACKED = ["a.nii.gz", "a.npz", "packed.tif"]

WRITER = """
import pickle, sys
target, labels, boxes = pickle.load(open(sys.argv[1], "rb"))
for box in boxes:
    target[box] = labels[box]
    assert (target[box] == labels[box]).all()
"""
READER = """
import pickle, sys
import numpy as np
pixels, box, expected = pickle.load(open(sys.argv[1], "rb"))
assert np.array_equal(pixels[box], expected)
"""
KILLED = """
import sys, time
import numpy as np
from dope.io import load, open_labels
target = open_labels(sys.argv[1], (12, 14, 16), overwrite=True)
target[2:9] = np.ones((7, 14, 16), bool)
print("ready", flush=True)
time.sleep(60)
"""
PEAK = """
import sys
import numpy as np
import dope.io
from dope.memory import peak_bytes
image = dope.io.load(sys.argv[1]) if len(sys.argv) == 2 else None
np.asarray(range(10)).sum()
before = peak_bytes()
if image is None:
    image = dope.io.stored(sys.argv[1], sys.argv[2])
pixels = image.pixels
side = 100
for z in range(0, pixels.shape[0], side):
    for y in range(0, pixels.shape[1], side):
        for x in range(0, pixels.shape[2], side):
            pixels[z : z + side, y : y + side, x : x + side].sum()
print(peak_bytes() - before)
"""


def refused(words, call, *args, **settings):
    with pytest.raises(InputError, match=words) as error:
        call(*args, **settings)
    assert "\n" not in str(error.value)


def python(code, *args):
    return subprocess.Popen([sys.executable, "-c", code, *map(str, args)], stdout=subprocess.PIPE, text=True)


def finished(*processes):
    for process in processes:
        process.communicate(timeout=120)
        assert process.returncode == 0


def write(path, values):
    """`values` in the format of a path, by the libraries themselves."""
    if path.suffix == ".npy":
        np.save(path, values)
    elif path.suffix == ".npz":
        np.savez_compressed(path, a=values)
    elif path.suffix == ".tif":
        settings = {"compression": "zlib"} if path.stem == "packed" else {}
        axes = {"metadata": {"axes": "ZYX"[-values.ndim :]}}
        pytest.importorskip("tifffile").imwrite(path, values, photometric="minisblack", **axes, **settings)
    elif path.name.endswith(".ome.zarr"):
        ome(path, values)
    elif path.suffix == ".zarr":
        array = pytest.importorskip("zarr").create_array(
            str(path), shape=values.shape, dtype=values.dtype, chunks=(5, 6, 7)
        )
        array[...] = values
    else:
        nibabel = pytest.importorskip("nibabel")
        nibabel.save(nibabel.Nifti1Image(values, np.diag([1.5, 2.0, 2.5, 1.0])), path)
    return path


def ome(path, values, *, zarr_format=3, axes="zyx"):
    """An OME-Zarr image of two levels; further axes have one entry, or two if they are channels."""
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(path), mode="w", zarr_format=zarr_format)
    datasets = []
    for level in range(2):
        coarse = values[tuple(slice(None, None, 2**level) for _ in values.shape)]
        stacked = np.stack([coarse] * 2) if "c" in axes else coarse
        stored_values = stacked[None] if "t" in axes else stacked
        group.create_array(str(level), shape=stored_values.shape, dtype=values.dtype, chunks=stored_values.shape)[
            ...
        ] = stored_values
        scale = [2.0**level if axis in "zyx" else 1.0 for axis in axes]
        transforms = [{"type": "scale", "scale": scale}]
        datasets.append({"path": str(level), "coordinateTransformations": transforms})
    kinds = {"t": "time", "c": "channel"}
    entry = {"axes": [{"name": axis, "type": kinds.get(axis, "space")} for axis in axes], "datasets": datasets}
    if zarr_format == 2:
        group.attrs["multiscales"] = [{"version": "0.4", **entry}]
    else:
        group.attrs["ome"] = {"version": "0.5", "multiscales": [entry]}
    return path


def content(path):
    """All bytes of a file or folder."""
    if path.is_file():
        return path.read_bytes()
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def boxes_of(shape, sides):
    starts = (range(0, length, side) for length, side in zip(shape, sides, strict=True))
    for corner in itertools.product(*starts):
        yield tuple(slice(low, min(low + side, length)) for low, side, length in zip(corner, sides, shape, strict=True))


# Reading


@pytest.mark.parametrize("name", LAZY)
def test_pixels_stay_in_their_file_and_travel_as_few_bytes(tmp_path, name):
    pixels = load(write(tmp_path / name, CUBE)).pixels
    assert isinstance(pixels, Lazy) and len(pickle.dumps(pixels)) < 1500
    again = pickle.loads(pickle.dumps(pixels))
    for one in (pixels, again):
        assert (one.shape, one.ndim, one.dtype, one.size) == (CUBE.shape, 3, CUBE.dtype, CUBE.size)
        assert one.chunks == {"a.zarr": (5, 6, 7), "a.ome.zarr": CUBE.shape}.get(name)
        assert np.array_equal(one[BOX], CUBE[BOX]) and one[BOX].flags.writeable


@pytest.mark.parametrize("name", slow_but(LAZY, quick=LAZY[:2]))
def test_another_process_reads_the_same_file_from_another_folder(tmp_path, name, monkeypatch):
    write(tmp_path / name, CUBE)
    monkeypatch.chdir(tmp_path)
    message = tmp_path / "message"
    message.write_bytes(pickle.dumps((load(name).pixels, BOX, CUBE[BOX])))
    monkeypatch.chdir("/")
    finished(python(READER, message))


@pytest.mark.parametrize("name", ["a.npy", "a.nii", "a.tif"])
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
        (slice(1, 12, 5), slice(None, None, 2), slice(0, 15, 7)),
        (slice(None, None, 3),),
        (slice(-3, None), slice(0, 0)),
        (slice(100, 200),),
        (np.int64(2), slice(np.int64(1), np.int64(4))),
        (),
    ],
    ids=str,
)
@pytest.mark.parametrize("stretch", [(1 << 15, 1 << 24), (0, 1 << 24), (1 << 15, 300)], ids=str)
def test_indexing_is_that_of_numpy(tmp_path, name, key, stretch, monkeypatch):
    monkeypatch.setattr("dope.io.file_array._GAP", stretch[0])
    monkeypatch.setattr("dope.io.file_array._STRETCH", stretch[1])
    pixels = load(write(tmp_path / name, CUBE)).pixels
    found, expected = pixels[key], CUBE[key]
    assert np.array_equal(found, expected) and np.shape(found) == np.shape(expected) and found.dtype == CUBE.dtype


@pytest.mark.parametrize("shape", [(40,), (3, 50), (1, 1, 30), (2, 3, 4, 5)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["?", "u1", "<f4", ">f8"])
def test_boxes_of_arrays_of_any_rank_order_and_type(tmp_path, shape, order, dtype):
    values = np.asarray(RANDOM.integers(0, 2, shape), dtype=dtype, order=order)
    np.save(tmp_path / "a.npy", values)
    pixels = load(tmp_path / "a.npy").pixels
    for _ in range(20):
        lows = [int(RANDOM.integers(length)) for length in shape]
        box = tuple(slice(low, int(RANDOM.integers(low, n + 1))) for low, n in zip(lows, shape, strict=True))
        assert np.array_equal(pixels[box], values[box]) and pixels[box].dtype.isnative


@pytest.mark.parametrize("key", [12, -13, (0, 0, 0, 0), (..., ...), slice(None, None, -1), [1, 2], None, 0.5], ids=str)
def test_indices_that_do_not_fit(tmp_path, key):
    with pytest.raises(IndexError):
        load(write(tmp_path / "a.npy", CUBE)).pixels[key]


def test_scaled_numbers_are_scaled_box_by_box(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    image = nibabel.Nifti1Image(CUBE, np.eye(4))
    image.header.set_slope_inter(0.25, -3)
    nibabel.save(image, tmp_path / "a.nii")
    nibabel.save(image, tmp_path / "a.nii.gz")
    pixels, whole = load(tmp_path / "a.nii", budget=1).pixels, load(tmp_path / "a.nii.gz").pixels
    assert isinstance(pixels, Lazy) and pixels.dtype == whole.dtype == np.float32
    assert np.array_equal(pixels[BOX], whole[BOX]) and np.array_equal(np.asarray(pixels), whole)
    assert np.array_equal(stored(tmp_path / "a.nii.gz", tmp_path).pixels[...], whole)


@pytest.mark.parametrize("name", ["a.npy", "a.nii", "a.tif"])
def test_a_file_that_has_changed_is_refused(tmp_path, name):
    path = write(tmp_path / name, CUBE)
    sent = pickle.dumps(load(path).pixels)
    status = path.stat()
    write(path, CUBE + 1)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))  # whatever the clock of the file system says
    refused(r"changed since it was opened; load it again", lambda: pickle.loads(sent)[BOX])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    pickle.loads(sent)[BOX]
    with path.open("ab") as stream:
        stream.write(b"more")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    refused(r"changed since it was opened", lambda: pickle.loads(sent)[BOX])


def test_an_array_of_another_layout_is_refused(tmp_path):
    pixels = load(write(tmp_path / "a.zarr", CUBE)).pixels
    sent = pickle.dumps(pixels)
    metadata = tmp_path / "a.zarr" / "zarr.json"
    metadata.write_text(json.dumps({**json.loads(metadata.read_text()), "shape": [12, 14, 17]}))
    refused("changed since it was opened", lambda: pickle.loads(sent)[BOX])


@pytest.mark.parametrize("name", LAZY)
def test_a_file_that_cannot_be_seen_is_named_with_a_remedy(tmp_path, name):
    folder = tmp_path / "mount"
    folder.mkdir()
    pixels = load(write(folder / name, CUBE)).pixels
    sent = pickle.dumps(pixels)
    assert np.array_equal(pixels[BOX], CUBE[BOX])
    folder.rename(tmp_path / "elsewhere")
    for one in (pixels, pickle.loads(sent)):
        refused(rf"{name}.*put it on a file system that all workers see", lambda one=one: one[BOX])
        refused("all workers see", np.asarray, one)


def growth(*args):
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc/self/status here")
    process = python(PEAK, *args)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return int(output)


@pytest.mark.parametrize("order", ["C", "F"])
def test_reading_box_by_box_takes_the_memory_of_a_box(tmp_path, order):
    path = tmp_path / "a.npy"
    np.lib.format.open_memmap(path, "w+", np.uint8, (100, 1000, 1000), fortran_order=order == "F").flush()
    assert path.stat().st_size > 100e6
    assert growth(path) < 30e6


@pytest.mark.slow
def test_unpacking_takes_the_memory_of_a_piece(tmp_path):
    path = write(tmp_path / "a.nii", np.zeros((200, 500, 1000), np.uint8))
    packed = tmp_path / "a.nii.gz"
    with path.open("rb") as plain, gzip.open(packed, "wb", 1) as stream:
        while piece := plain.read(1 << 24):
            stream.write(piece)
    assert growth(packed, tmp_path) < 30e6 + 20e6  # nibabel among them


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("compressors", ["auto", None])
def test_a_damaged_chunk_is_named(tmp_path, zarr_format, compressors):
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "a.zarr"
    array = zarr.create_array(
        str(path), shape=CUBE.shape, dtype="i2", chunks=(5, 6, 7), zarr_format=zarr_format, compressors=compressors
    )
    array[...] = CUBE
    chunk = path / ("c/1/2/0" if zarr_format == 3 else "1.2.0")
    chunk.write_bytes(chunk.read_bytes()[:-3])
    pixels = load(path).pixels
    for key in (..., slice(5, 8), (7, 13, 3)):
        refused(r"a\.zarr: damaged .*chunk 1\.2\.0, the sites 5:10, 12:14, 0:7", lambda key=key: pixels[key])
    assert np.array_equal(pixels[:5], CUBE[:5])


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_missing_chunks_are_empty_but_not_all_of_them(tmp_path, zarr_format):
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "a.zarr"
    array = zarr.create_array(
        str(path), shape=CUBE.shape, dtype="i2", chunks=(5, 6, 7), zarr_format=zarr_format, fill_value=7
    )
    refused("no chunk at all, so that it would read as 7", lambda: load(path).pixels[BOX])
    array[:5, :6, :7] = 3
    assert np.array_equal(load(path).pixels[4:6, 0, 0], [3, 7])


@pytest.mark.parametrize("name", ["out.zarr", "a.ome.zarr/labels/none"])
def test_labels_of_nothing_but_background_can_be_read_back(tmp_path, name):
    write(tmp_path / "a.ome.zarr", CUBE)
    save_labels(tmp_path / name, np.zeros(CUBE.shape, bool))
    assert not np.asarray(load(tmp_path / name).pixels).any()


# Unpacking


@pytest.mark.parametrize("name", LAZY)
def test_what_can_be_read_box_by_box_is_stored_already(tmp_path, name):
    path = write(tmp_path / name, CUBE)
    image = load(path)
    assert stored(image, tmp_path / "none") is image
    assert np.array_equal(stored(path, tmp_path / "none").pixels[BOX], CUBE[BOX])


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("loaded", [False, True])
def test_packed_files_are_unpacked_into_a_folder(tmp_path, name, loaded):
    path, scratch = write(tmp_path / name, CUBE), tmp_path / "scratch"
    scratch.mkdir()
    image = load(path)
    again = stored(image if loaded else path, scratch)
    assert isinstance(again.pixels, Lazy) and again.path == path and again.spacing == image.spacing
    assert again.header == image.header and again.channels == image.channels
    assert np.array_equal(pickle.loads(pickle.dumps(again.pixels))[BOX], CUBE[BOX])
    assert again.pixels.dtype == image.pixels.dtype and again.pixels.shape == image.pixels.shape
    assert [entry.suffix for entry in scratch.iterdir()] == [".npy"]


def test_named_arrays_pictures_and_arrays_of_ones_own(tmp_path):
    np.savez(tmp_path / "a.npz", first=CUBE, second=np.asfortranarray(CUBE[0].astype(">f4")))
    assert np.array_equal(stored(f"{tmp_path}/a.npz::second", tmp_path).pixels, CUBE[0])
    save_labels(tmp_path / "a.png", SQUARE)
    assert np.array_equal(stored(tmp_path / "a.png", tmp_path).pixels, SQUARE * 255)
    for values in (CUBE[::2, ::-1], CUBE.T, SQUARE, np.arange(5.0)):
        image = stored(Image(values, False, (1.0,), tmp_path / "own"), tmp_path)
        assert np.array_equal(image.pixels, values) and image.spacing == (1.0,)


@pytest.mark.parametrize("axes", ["CZYX", "ZYXS"])
def test_pages_with_channels_are_put_in_order(tmp_path, axes):
    tifffile = pytest.importorskip("tifffile")
    lengths = dict(zip("CZYXS", (2, 4, 5, 6, 3), strict=True))
    values = RANDOM.integers(0, 256, [lengths[axis] for axis in axes], dtype=np.uint8)
    settings = {"photometric": "rgb" if "S" in axes else "minisblack", "compression": "zlib", "ome": True}
    tifffile.imwrite(tmp_path / "a.ome.tif", values, metadata={"axes": axes}, **settings)
    image, again = load(tmp_path / "a.ome.tif"), stored(tmp_path / "a.ome.tif", tmp_path)
    assert again.channels and again.shape == image.shape and np.array_equal(again.pixels, image.pixels)


@pytest.mark.parametrize("name", PACKED)
def test_what_is_damaged_is_not_unpacked(tmp_path, name):
    path, scratch = write(tmp_path / name, CUBE), tmp_path / "scratch"
    scratch.mkdir()
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[: len(whole) // 3] + bytes(40) + whole[len(whole) // 3 + 40 :]):
        path.write_bytes(damaged)
        refused(rf"{name}: (damaged|not an NPZ|cut short|lacks|goes on)", stored, path, scratch)
    assert not list(scratch.iterdir())


def test_folders_that_cannot_take_it(tmp_path):
    path = write(tmp_path / "a.nii.gz", CUBE)
    refused("cannot write .*folder that exists", stored, path, tmp_path / "none")
    refused("cannot write .*folder that exists", stored, load(path), tmp_path / "none")


# Writing


def drafted(path, labels, boxes, **settings):
    with open_labels(path, labels.shape, **settings) as target:
        for box in boxes:
            target[box] = labels[box]
            assert np.array_equal(target[box], labels[box]) and target[box].dtype == np.bool_
        assert not path.exists() or settings.get("overwrite")
    return path


def the_same_labels(tmp_path, suffix, labels, like=None):
    save_labels(tmp_path / f"whole{suffix}", labels, like=like)
    (tmp_path / "drafted").mkdir()
    # Under the same name, which some formats keep.
    path = drafted(tmp_path / "drafted" / f"whole{suffix}", labels, boxes_of(labels.shape, (5, 6, 4)), like=like)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert content(path) == content(tmp_path / f"whole{suffix}")


@pytest.mark.parametrize("suffix", [suffix for suffix in FOR_LABELS if holds_volumes(suffix)])
@pytest.mark.parametrize(
    "source",
    slow_but([None, "a.npy", "a.nii", "a.nii.gz", "a.tif", "a.ome.zarr"], quick=[None, "a.nii.gz", "a.ome.zarr"]),
)
def test_what_is_committed_is_what_is_saved(tmp_path, suffix, source):
    like = None if source is None else load(write(tmp_path / source, CUBE))
    the_same_labels(tmp_path, suffix, LABELS, like)


def test_pictures_are_committed_too(tmp_path):
    save_labels(tmp_path / "whole.png", SQUARE)
    path = drafted(tmp_path / "boxes.png", SQUARE, boxes_of(SQUARE.shape, (4, 10)))
    assert content(path) == content(tmp_path / "whole.png")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("axes", slow_but(["zyx", "czyx", "tczyx"], quick=["czyx"]))
@pytest.mark.parametrize("chunks", [None, (5, 6, 4)])
def test_labels_are_added_to_an_image_box_by_box(tmp_path, zarr_format, axes, chunks):
    for name in ("a.ome.zarr", "b.ome.zarr"):
        ome(tmp_path / name, CUBE, zarr_format=zarr_format, axes=axes)
    for label in ("cells", "nuclei"):
        save_labels(tmp_path / "a.ome.zarr" / "labels" / label, LABELS)
        path = tmp_path / "b.ome.zarr" / "labels" / label
        with open_labels(path, LABELS.shape, like=load(tmp_path / "b.ome.zarr"), chunks=chunks) as target:
            assert target.chunks == (chunks or target.chunks) and target.dtype == np.uint8
            for box in boxes_of(LABELS.shape, (5, 6, 4)):
                target[box] = LABELS[box]
            assert not path.exists()
    if chunks is None:
        assert content(tmp_path / "a.ome.zarr" / "labels") == content(tmp_path / "b.ome.zarr" / "labels")
    for label, level in itertools.product(("cells", "nuclei"), ("0", "1")):
        one, other = (load(tmp_path / f"{name}.ome.zarr" / "labels" / label / level) for name in "ab")
        assert np.array_equal(one.pixels, other.pixels) and one.spacing == other.spacing
        # Of a coarser site the label at its centre, which of two sites is the second.
        assert np.array_equal(one.pixels, LABELS if level == "0" else LABELS[1::2, 1::2, 1::2])
    hidden = [path for path in tmp_path.rglob(".*") if path.name not in (".zarray", ".zattrs", ".zgroup")]
    assert not hidden


def test_two_labels_of_a_new_image_at_the_same_time(tmp_path):
    store = ome(tmp_path / "a.ome.zarr", CUBE)
    first, second = (open_labels(store / "labels" / name, LABELS.shape) for name in ("first", "second"))
    first[...], second[...] = LABELS, ~LABELS
    second.commit()
    first.commit()
    assert np.array_equal(load(store / "labels" / "first").pixels, LABELS)
    assert np.array_equal(load(store / "labels" / "second").pixels, ~LABELS)
    listed = json.loads((store / "labels" / "zarr.json").read_text())["attributes"]["ome"]["labels"]
    assert sorted(listed) == ["first", "second"]


@pytest.mark.parametrize(
    "name",
    [
        "out.npy",
        pytest.param("out.zarr", marks=pytest.mark.slow),
        pytest.param("out.nii", marks=pytest.mark.slow),
        pytest.param("out.nii.gz", marks=pytest.mark.slow),
        pytest.param("out.tif", marks=pytest.mark.slow),
        pytest.param("a.ome.zarr/labels/out", marks=pytest.mark.slow),
    ],
)
def test_two_processes_write_one_file(tmp_path, name):
    write(tmp_path / "a.ome.zarr", CUBE)
    with open_labels(tmp_path / name, LABELS.shape, chunks=(3, 5, 7)) as target:
        assert len(pickle.dumps(target)) < 1500
        boxes = list(boxes_of(LABELS.shape, target.chunks or (3, 5, 7)))
        for number in range(2):
            (tmp_path / f"message{number}").write_bytes(pickle.dumps((target, LABELS, boxes[number::2])))
        finished(*[python(WRITER, tmp_path / f"message{number}") for number in range(2)])
        assert np.array_equal(target[...], LABELS)
    assert np.array_equal(np.asarray(load(tmp_path / name).pixels) > 0, LABELS)


@pytest.mark.skipif(os.name != "posix", reason="no locks between processes here")
def test_two_processes_write_boxes_that_share_chunks(tmp_path):
    with open_labels(tmp_path / "out.zarr", LABELS.shape, chunks=(6, 7, 8)) as target:
        boxes = list(boxes_of(LABELS.shape, (2, 3, 5)))
        for number in range(2):
            (tmp_path / f"message{number}").write_bytes(pickle.dumps((target, LABELS, boxes[number::2])))
        finished(*[python(WRITER, tmp_path / f"message{number}") for number in range(2)])
    assert np.array_equal(load(tmp_path / "out.zarr").pixels, LABELS)


@pytest.mark.parametrize("name", ["out.npy", "out.nii", "out.zarr"])
def test_threads_write_boxes_that_are_not_aligned(tmp_path, name):
    boxes = list(boxes_of(LABELS.shape, (2, 3, 5)))
    with (
        open_labels(tmp_path / name, LABELS.shape, chunks=(6, 7, 8)) as target,
        ThreadPoolExecutor(4) as pool,
    ):
        list(pool.map(lambda box: target.__setitem__(box, LABELS[box]), boxes))
    assert np.array_equal(np.asarray(load(tmp_path / name).pixels) > 0, LABELS)


@pytest.mark.parametrize("suffix", FOR_LABELS)
def test_what_nobody_writes_is_background_and_boxes_may_be_written_again(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    with open_labels(path, SQUARE.shape) as target:
        target[2:5, 3:9] = np.ones((3, 6), bool)
        target[3:4] = np.zeros((1, 17), np.uint8)
        target[7:7] = np.ones((0, 17))
        assert target[7:7].shape == (0, 17)
    expected = np.zeros(SQUARE.shape, bool)
    expected[2:5, 3:9], expected[3] = True, False
    assert np.array_equal(np.asarray(load(path).pixels) > 0, expected)


def fail_while_writing(path, error):
    with open_labels(path, SQUARE.shape, overwrite=True) as target:
        target[...] = ~SQUARE
        raise error


@pytest.mark.parametrize("suffix", FOR_LABELS)
def test_an_exception_leaves_nothing_new(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    for old in (False, True):
        if old:
            save_labels(path, SQUARE)
        for error in (RuntimeError("no"), OSError(errno.EIO, "no"), KeyboardInterrupt("no")):
            with pytest.raises(type(error), match="no"):
                fail_while_writing(path, error)
        assert [entry.name for entry in tmp_path.iterdir()] == [path.name] * old
    assert np.array_equal(np.asarray(load(path).pixels) > 0, SQUARE)


@pytest.mark.parametrize("suffix", slow_but(FOR_LABELS, quick=[".npy", ".nii.gz", ".zarr"]))
def test_one_that_is_forgotten_leaves_nothing(tmp_path, suffix):
    open_labels(tmp_path / f"a{suffix}", SQUARE.shape)[...] = SQUARE
    gc.collect()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", FOR_LABELS)
def test_only_who_opened_it_decides_and_only_once(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    target = open_labels(path, SQUARE.shape)
    copy = pickle.loads(pickle.dumps(target))
    assert isinstance(copy, LabelTarget) and copy.path == path and copy.shape == SQUARE.shape
    assert (copy.dtype, copy.chunks) == (target.dtype, target.chunks)
    copy[...] = SQUARE
    for call in (copy.commit, copy.abandon, copy.__enter__):
        refused("a copy in another process", call)
    target.commit()
    for call in (target.commit, target.abandon):
        refused("committed or abandoned before", call)
    for late in (copy, target):
        refused("no longer open for labels", late.__setitem__, ..., ~SQUARE)
        refused("no longer open for labels", late.__getitem__, ...)
    assert np.array_equal(np.asarray(load(path).pixels) > 0, SQUARE)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", FOR_LABELS)
def test_nothing_is_replaced_unasked(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    target = open_labels(path, SQUARE.shape)
    target[...] = ~SQUARE
    save_labels(path, SQUARE)  # somebody else, meanwhile
    refused("there already", target.commit)
    refused("there already", open_labels, path, SQUARE.shape)
    target.abandon()
    assert np.array_equal(np.asarray(load(path).pixels) > 0, SQUARE)
    drafted(path, ~SQUARE, [(slice(None), slice(None))], overwrite=True)
    assert np.array_equal(np.asarray(load(path).pixels) > 0, ~SQUARE)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["out.npy", "out.nii.gz", "out.zarr"])
@pytest.mark.parametrize("old", slow_but([False, True], quick=[True]))
def test_a_process_that_is_killed_leaves_what_was_there(tmp_path, name, old):
    if old:
        save_labels(tmp_path / name, LABELS)
    process = python(KILLED, tmp_path / name)
    assert process.stdout.readline().strip() == "ready"
    process.kill()
    process.communicate()
    visible = [entry.name for entry in tmp_path.iterdir() if not entry.name.startswith(".")]
    assert visible == [name] * old
    if old:
        assert np.array_equal(np.asarray(load(tmp_path / name).pixels) > 0, LABELS)


def test_leftovers_of_killed_writers_are_not_committed(tmp_path):
    with open_labels(tmp_path / "a.zarr", LABELS.shape) as target:
        target[...] = LABELS
        hidden = next(entry for entry in tmp_path.iterdir() if entry.is_dir())
        (hidden / "c" / "0" / "0" / "0.123.partial").write_bytes(b"half a chunk")
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("a.jpg", (4, 5), "JPEG alters labels"),
        ("a.png", (4, 5, 6), "PNG has 2 axes"),
        ("a.tif", (2, 3, 4, 5), "rows and columns"),
        ("a.nii.gz", (1,) * 8, "1 to 7"),
        ("a.npy", (4, 0), "no labels"),
        ("a.npy", (), "no labels"),
        ("a.npy", (4, -1), "no labels"),
        ("a.gif", (4, 5), "not a format"),
        ("none/a.npy", (4, 5), "folder that exists"),
        ("a.ome.zarr/labels/cells", (4, 5), "do not lie on"),
        ("a.ome.zarr/cells", CUBE.shape, "no place for labels"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_created(tmp_path, name, shape, words):
    ome(tmp_path / "a.ome.zarr", CUBE)
    before = content(tmp_path)
    refused(words, open_labels, tmp_path / name, shape)
    assert content(tmp_path) == before


def test_labels_must_fit_the_image_and_the_box(tmp_path):
    image = load(write(tmp_path / "a.npy", CUBE))
    refused("do not lie on", open_labels, tmp_path / "b.npy", (4, 5), like=image)
    refused("the image itself", open_labels, tmp_path / "a.npy", CUBE.shape, like=image, overwrite=True)
    refused("chunks", open_labels, tmp_path / "b.zarr", (4, 5), chunks=(2,))
    refused("chunks", open_labels, tmp_path / "b.zarr", (4, 5), chunks=(2, 0))
    with open_labels(tmp_path / "b.npy", CUBE.shape) as target:
        refused(r"shaped \(3, 14, 16\) for the box 0:2, 0:14, 0:16", target.__setitem__, slice(2), LABELS[:3])
        refused("shaped", target.__setitem__, slice(2), True)
        refused("that are 0 and 1", target.__setitem__, slice(2), CUBE[:2])
        for key in (3, slice(None, None, 2), [1, 2]):
            with pytest.raises(IndexError):
                target[key] = LABELS[key]


@contextlib.contextmanager
def files_of_at_most(size):
    """What a full disk or a quota does, done by the system itself."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("suffix", [suffix for suffix in FOR_LABELS if suffix != ".zarr"])
def test_a_lack_of_space_is_told_at_the_beginning(tmp_path, suffix):
    with files_of_at_most(10_000):
        refused("cannot write .*too large", open_labels, tmp_path / f"a{suffix}", (200, 200))
    assert not list(tmp_path.iterdir())


def test_a_lack_of_space_while_chunks_are_written(tmp_path):
    target = open_labels(tmp_path / "a.zarr", (200, 200))
    with files_of_at_most(1000):
        refused("cannot write .*too large", target.__setitem__, ..., RANDOM.random((200, 200)) > 0.5)
    target.abandon()
    assert not list(tmp_path.iterdir())
