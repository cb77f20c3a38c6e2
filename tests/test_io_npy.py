"""NPY and NPZ: read as they are, never executed, never unpacked beyond what they declare."""

import io
import pickle
import struct
import zipfile

import numpy as np
import pytest

from dope.errors import InputError
from dope.io import describe, load
from dope.io.lazy import Lazy

RANDOM = np.random.default_rng(0)
VALUES = RANDOM.normal(size=(4, 5, 6))


class Bomb:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


def refused(words, call, *args, **settings):
    with pytest.raises(InputError, match=words) as error:
        call(*args, **settings)
    assert "\n" not in str(error.value)


def header(shape, descr="<f8", order=False, version=1):
    text = repr({"descr": descr, "fortran_order": order, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">i2", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_arrays_come_back(tmp_path, dtype, order, suffix):
    values = np.asarray(VALUES * 9, dtype=dtype, order=order)
    path = tmp_path / f"a{suffix}"
    np.save(path, values) if suffix == ".npy" else np.savez_compressed(path, a=values)
    image, found = load(path), describe(path)
    assert np.array_equal(image.pixels, values) and image.pixels.dtype == values.dtype.newbyteorder("=")
    assert image.shape == found.shape == values.shape and not image.channels and image.spacing is None
    assert (found.channels, found.dtype, found.bytes) == (1, values.dtype.name, values.nbytes)


@pytest.mark.parametrize("dtype", ["f8", ">f8"])
def test_an_array_file_is_opened_not_read(tmp_path, dtype):
    np.save(tmp_path / "a.npy", VALUES.astype(dtype))
    image = load(tmp_path / "a.npy", budget=1)
    assert isinstance(image.pixels, Lazy) and np.array_equal(image.pixels[1:3, ..., 2], VALUES[1:3, ..., 2])


@pytest.mark.parametrize(
    ("shape", "dtype", "channels"),
    [
        ((4, 5, 3), np.uint8, 3),
        ((4, 5, 4), np.uint8, 4),
        ((4, 5, 2), np.uint8, 0),
        ((4, 5, 3), np.uint16, 0),
        ((4, 5, 3), np.float32, 0),
        ((4, 5, 6, 3), np.uint8, 0),
        ((3, 3), np.uint8, 0),
    ],
)
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_which_arrays_are_color_pictures(tmp_path, shape, dtype, channels, suffix):
    path = tmp_path / f"a{suffix}"
    (np.save if suffix == ".npy" else np.savez)(path, np.ones(shape, dtype))
    image, found = load(path), describe(path)
    assert image.channels == bool(channels) and found.channels == max(1, channels)
    assert image.shape == found.shape == (shape[:-1] if channels else shape)


def test_one_of_several_arrays_is_named(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, first=VALUES, second=VALUES[0])
    refused(r"first, second; say which one is meant, such as .*a\.npz::first", load, path)
    refused(r"no array third, but first, second", describe, f"{path}::third")
    assert np.array_equal(load(f"{path}::second").pixels, VALUES[0])
    assert load(f"{path}::second").path == path
    assert describe(f"{path}::first").details["array"] == "first"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.ones(3, complex), "complex numbers"),
        (np.array(["a", "b"]), "text"),
        (np.array([b"a", b"b"]), "text"),
        (np.zeros(3, [("x", "f4"), ("y", "f4")]), "records of x, y"),
        (np.zeros(3, "M8[s]"), "datetime64"),
        (np.zeros(3, np.longdouble), str(np.dtype(np.longdouble))),
        (np.zeros((3, 0)), r"the shape \(3, 0\)"),
        (np.float64(3), r"the shape \(\)"),
    ],
)
def test_what_is_no_array_of_numbers(tmp_path, values, words):
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "a.npz", a=values)
    for name in ("a.npy", "a.npz"):
        refused(words, load, tmp_path / name)
        refused(words, describe, tmp_path / name)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_nothing_is_unpickled(tmp_path, suffix):
    path, mark = tmp_path / f"a{suffix}", tmp_path / "mark"
    objects = np.array([Bomb(mark)], dtype=object)
    np.save(path, objects, allow_pickle=True) if suffix == ".npy" else np.savez(path, a=objects)
    refused("Python objects", load, path)
    path.write_bytes(pickle.dumps(Bomb(mark)))
    refused("not an NP", load, path)
    path.write_bytes(header((1,), "O") + pickle.dumps(Bomb(mark)))
    refused("Python objects|not an NPZ", load, path)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (header((10**12, 10**12)), "cut short"),
        (header((3,)) + bytes(23), "cut short, 1 bytes are missing"),
        (header((-3,)) + bytes(24), "the shape"),
        (header((3.5,)), "damaged"),
        (header((3,), "no such type"), "damaged"),
        (header((3,), "<f8", "perhaps"), "damaged"),
        (header((3,), version=3), "version 3"),
        (b"\x93NUMPY\x01\x00\xff\xff{", "a header of 65,535 bytes"),
        (b"\x93NUMPY\x01", "damaged"),
        (b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b"{" * 99, "a header of 2,147,483,648 bytes"),
        (b"\x93NUMPY\x01\x00\x10\x00" + b"__import__('os')", "damaged"),
        (b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"(" * 9000, "damaged"),
    ],
)
def test_headers_that_lie(tmp_path, content, words):
    (tmp_path / "a.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", content)
    refused(words, load, tmp_path / "a.npy")
    refused(f"{words}|bytes are there|bytes, but", load, tmp_path / "a.npz", budget=10**6)


def zipped(path, members, **settings):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, **settings) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_zip_bombs_are_not_unpacked(tmp_path):
    zeros = 10**7
    path = zipped(tmp_path / "a.npz", {"a.npy": header((zeros,), "|u1") + bytes(zeros)})
    assert path.stat().st_size < 10**5
    refused("takes 10 MB of memory, and 1 MB are allowed", load, path, budget=10**6)
    refused("declares", load, zipped(path, {"a.npy": header((10,), "|u1") + bytes(zeros)}), budget=10**6)
    refused("declares", load, zipped(path, {"a.npy": header((10**15,), "|u1") + bytes(10)}), budget=10**6)


def test_a_table_of_contents_that_lies(tmp_path):
    path = zipped(tmp_path / "a.npz", {"a.npy": header((10,), "|u1") + bytes(10**6)})
    short = len(header((10,), "|u1")) + 10
    real = len(header((10,), "|u1")) + 10**6
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", real), struct.pack("<I", short)))
    refused("damaged", load, path)  # the checksum tells


def test_zip_files_that_are_not_arrays(tmp_path):
    path = tmp_path / "a.npz"
    refused("no arrays", load, zipped(path, {}))
    refused("no arrays", load, zipped(path, {"a.txt": b"text"}))
    refused("not an NPY array", load, zipped(path, {"a.npy": b"text"}))
    content = io.BytesIO()
    np.savez_compressed(content, a=VALUES)
    whole = bytearray(content.getvalue())
    whole[100:120] = bytes(20)
    path.write_bytes(whole)
    refused("damaged", load, path)
    encrypted = bytearray(content.getvalue())
    for sign, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        encrypted[encrypted.index(sign) + place] |= 1
    path.write_bytes(encrypted)
    refused("damaged.*encrypted", load, path)
