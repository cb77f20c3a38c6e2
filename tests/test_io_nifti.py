"""NIfTI: what nibabel writes is read alike, labels inherit the header to the byte, bombs stay packed."""

import gzip
import struct
import zlib

import numpy as np
import pytest

from dope.errors import InputError
from dope.io import Image, describe, load, same_space, save_labels
from dope.io.images.nifti import NiftiHeader
from dope.io.lazy import Lazy
from profiles import slow_but

nibabel = pytest.importorskip("nibabel")

RANDOM = np.random.default_rng(0)
VALUES = RANDOM.integers(0, 100, (5, 6, 7))
LABELS = RANDOM.random((5, 6, 7)) > 0.5
AFFINE = np.array([[-1.5, 0.1, 0, 90], [0.1, 2, 0, -120], [0, 0, 2.5, -70], [0, 0, 0, 1]])
# Where fields lie, by version of the format: (offset, bytes).
DATATYPE = {1: (70, 2), 2: (12, 2)}
BITPIX = {1: (72, 2), 2: (14, 2)}
SLOPE_INTER = {1: (112, 8), 2: (176, 16)}
VOX_OFFSET = {1: 108, 2: 168}
DIM = {1: 40, 2: 16}


def refused(words, call, *args, **settings):
    with pytest.raises(InputError, match=words) as error:
        call(*args, **settings)
    assert "\n" not in str(error.value)


def written(path, values, version=1, endian="<", **fields):
    """A file with something in every field of its header."""
    kind = nibabel.Nifti1Image if version == 1 else nibabel.Nifti2Image
    header = kind.header_class(endianness=endian)
    header.set_data_dtype(values.dtype.newbyteorder(endian))
    header.set_data_shape(values.shape)
    header.set_sform(AFFINE, 4)
    header.set_qform(np.diag([-1.5, 2, 2.5, 1]), 1)
    header.set_xyzt_units("mm", "sec")
    header["descrip"], header["aux_file"], header["intent_name"] = b"made for a test", b"aux", b"meaning"
    header["cal_max"], header["cal_min"], header["slice_code"], header["slice_end"], header["toffset"] = (
        90,
        5,
        3,
        6,
        2.5,
    )
    header["intent_code"], header["intent_p1"] = 3, 7.5
    header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"an extension of odd length"))
    for name, value in fields.items():
        header[name] = value
    image = kind(values, None, header)
    image.header.set_slope_inter(fields.get("scl_slope", 1), fields.get("scl_inter", 0))
    image.to_filename(path)
    return path


def content(path):
    whole = path.read_bytes()
    return gzip.decompress(whole) if whole[:2] == b"\x1f\x8b" else whole


def without(header, *places):
    kept = bytearray(header)
    for start, length in places:
        kept[start : start + length] = bytes(length)
    return bytes(kept)


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"])
def test_pixels_are_those_that_nibabel_reads(tmp_path, name, version, endian, dtype):
    path = written(tmp_path / name, VALUES.astype(dtype), version, endian)
    image, found = load(path), describe(path)
    assert image.pixels.dtype == np.dtype(dtype) and np.array_equal(image.pixels, VALUES)
    assert image.shape == VALUES.shape and not image.channels and image.spacing == (1.5, 2, 2.5)
    assert found.format == f"NIfTI-{version}" + ", gzip" * name.endswith("gz")
    assert (found.shape, found.channels, found.dtype) == (VALUES.shape, 1, np.dtype(dtype).name)
    assert found.spacing == image.spacing and found.bytes == image.pixels.nbytes
    assert found.details["units"] == "mm, sec" and found.details["description"] == "made for a test"
    assert isinstance(image.header, NiftiHeader) and np.allclose(image.header.affine(), nibabel.load(path).affine)


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
@pytest.mark.parametrize("endian", ["<", ">"])
def test_scaling_is_applied(tmp_path, name, endian):
    path = written(tmp_path / name, VALUES.astype("i2"), endian=endian)
    raw = bytearray(content(path))
    raw[112:120] = struct.pack(f"{endian}ff", 0.25, -3)
    path.write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
    image = load(path)
    stored = np.asarray(nibabel.load(path).dataobj.get_unscaled())
    assert image.pixels.dtype == np.float32 and np.array_equal(image.pixels, stored * np.float32(0.25) - 3)
    assert np.allclose(image.pixels, nibabel.load(path).get_fdata())
    assert describe(path).dtype == "float32" and "0.25" in describe(path).details["scaling"]
    save_labels(tmp_path / "out.nii", LABELS, like=image)
    assert np.array_equal(load(tmp_path / "out.nii").pixels, LABELS)


@pytest.mark.parametrize("slope", [0, np.nan, np.inf])
def test_a_slope_that_is_none_changes_nothing(tmp_path, slope):
    path = written(tmp_path / "a.nii", VALUES.astype("i2"))
    raw = bytearray(content(path))
    raw[112:120] = struct.pack("<ff", slope, 5)
    path.write_bytes(raw)
    assert load(path).pixels.dtype == np.int16 and np.array_equal(load(path).pixels, VALUES)


def test_a_plain_file_is_opened_not_read(tmp_path):
    plain = written(tmp_path / "a.nii", VALUES.astype("i2"))
    assert isinstance(load(plain, budget=1).pixels, Lazy)
    packed = written(tmp_path / "a.nii.gz", VALUES.astype("i2"))
    refused("5 x 6 x 7 int16 takes 420 bytes", load, packed, budget=419)
    assert load(packed, budget=420).shape == VALUES.shape


def test_the_suffix_may_be_wrong_about_gzip(tmp_path):
    packed = written(tmp_path / "a.nii.gz", VALUES.astype("i2"))
    assert np.array_equal(load(packed.rename(tmp_path / "b.nii")).pixels, VALUES)


@pytest.mark.parametrize(
    ("shape", "sites", "channels"),
    [
        ((5,), (5,), 1),
        ((5, 6), (5, 6), 1),
        ((5, 6, 1), (5, 6, 1), 1),
        ((5, 6, 7, 1), (5, 6, 7), 1),
        ((5, 6, 7, 3), (5, 6, 7), 3),
        ((5, 6, 7, 1, 3), (5, 6, 7), 3),
        ((5, 6, 7, 1, 1, 1, 1), (5, 6, 7), 1),
    ],
)
def test_axes_beyond_space_are_channels(tmp_path, shape, sites, channels):
    values = RANDOM.integers(0, 100, shape).astype("i2")
    path = written(tmp_path / "a.nii.gz", values)
    image, found = load(path), describe(path)
    assert image.shape == found.shape == sites and found.channels == channels and image.channels == (channels > 1)
    assert np.array_equal(image.pixels, values.reshape(image.pixels.shape)) and len(image.spacing) == len(sites)
    labels = RANDOM.random(sites) > 0.5
    save_labels(tmp_path / "labels.nii.gz", labels, like=image)
    again = load(tmp_path / "labels.nii.gz")
    assert again.shape == sites and np.array_equal(again.pixels, labels) and same_space(image, again) is None


def test_two_axes_of_channels_are_too_many(tmp_path):
    refused("5 axes", load, written(tmp_path / "a.nii", np.zeros((2, 2, 2, 2, 2), "i2")))


@pytest.mark.parametrize("name", ["out.nii", "out.nii.gz"])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4"])
def test_labels_inherit_the_header_to_the_byte(tmp_path, name, version, endian, dtype):
    source = written(tmp_path / "in.nii.gz", VALUES.astype(dtype), version, endian)
    save_labels(tmp_path / name, LABELS, like=load(source))
    old, new = content(source), content(tmp_path / name)
    start = int(nibabel.load(source).dataobj.offset)
    assert start > {1: 352, 2: 544}[version]  # there is an extension
    changed = (DATATYPE[version], BITPIX[version], SLOPE_INTER[version])
    assert without(new[:start], *changed) == without(old[:start], *changed)
    assert np.array_equal(np.frombuffer(new[start:], np.uint8).reshape(LABELS.shape, order="F"), LABELS)
    again = nibabel.load(tmp_path / name)
    assert again.get_data_dtype() == np.uint8 and (again.dataobj.slope, again.dataobj.inter) == (1, 0)
    assert np.array_equal(again.affine, nibabel.load(source).affine)
    assert again.header.extensions[0].get_content() == nibabel.load(source).header.extensions[0].get_content()
    assert np.array_equal(np.asarray(again.dataobj), LABELS)


def test_of_four_dimensions_three_are_left_and_no_intent_of_vectors(tmp_path):
    source = written(tmp_path / "in.nii", np.zeros((5, 6, 7, 3), "f4"), intent_code=1007)
    save_labels(tmp_path / "out.nii", LABELS, like=load(source))
    old, new = content(source)[:348], content(tmp_path / "out.nii")[:348]
    assert struct.unpack("<8h", new[40:56]) == (3, 5, 6, 7, 1, 1, 1, 1)
    intent = ((56, 12), (68, 2), (328, 16))
    changed = (DATATYPE[1], BITPIX[1], SLOPE_INTER[1], (40, 16), *intent)
    assert without(new, *changed) == without(old, *changed)
    assert not any(new[place] for start, length in intent for place in range(start, start + length))
    one = written(tmp_path / "one.nii", np.zeros((5, 6, 7, 1), "f4"))
    save_labels(tmp_path / "of_one.nii", LABELS, like=load(one))
    assert without(content(tmp_path / "of_one.nii")[:348], *changed[:4]) == without(content(one)[:348], *changed[:4])


def test_the_same_labels_give_the_same_file(tmp_path):
    image = load(written(tmp_path / "in.nii.gz", VALUES.astype("i2")))
    for name in ("a.nii.gz", "b.nii.gz"):
        save_labels(tmp_path / name, LABELS, like=image)
    assert (tmp_path / "a.nii.gz").read_bytes() == (tmp_path / "b.nii.gz").read_bytes()


def test_labels_on_another_format_keep_the_spacing(tmp_path):
    image = Image(np.zeros((5, 6, 7)), False, (0.5, 1.0, 2.0), tmp_path / "a.npy")
    save_labels(tmp_path / "out.nii", LABELS, like=image)
    assert load(tmp_path / "out.nii").spacing == image.spacing
    assert nibabel.load(tmp_path / "out.nii").header.get_zooms() == image.spacing


def test_long_axes_need_nifti_2(tmp_path):
    labels = np.ones((40_000, 2), bool)
    save_labels(tmp_path / "a.nii.gz", labels)
    assert (
        describe(tmp_path / "a.nii.gz").format == "NIfTI-2, gzip" and load(tmp_path / "a.nii.gz").shape == labels.shape
    )
    assert nibabel.load(tmp_path / "a.nii.gz").shape == labels.shape


def test_same_space_compares_affines(tmp_path):
    a = load(written(tmp_path / "a.nii", VALUES.astype("i2")))
    near = load(written(tmp_path / "b.nii.gz", VALUES.astype("u1"), srow_x=AFFINE[0] + 0.0005))
    far = load(written(tmp_path / "c.nii", VALUES.astype("i2"), srow_x=AFFINE[0] + [0, 0, 0, 2]))
    assert same_space(a, near) is None and same_space(near, a) is None
    assert "affines differ by up to 2" in same_space(a, far) and "\n" not in same_space(a, far)
    assert same_space(a, Image(VALUES, False, None, tmp_path)) is None


def patched(path, place, value):
    raw = bytearray(content(path))
    raw[place : place + len(value)] = value
    path.write_bytes(gzip.compress(raw) if path.name.endswith("gz") else raw)
    return path


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (0, struct.pack("<i", 999), "not a NIfTI file"),
        (344, b"n+9\0", "not a NIfTI file"),
        (344, bytes(4), "Analyze"),
        (344, b"ni1\0", r"\.img"),
        (40, struct.pack("<h", 0), "dimensions"),
        (40, struct.pack("<h", 8), "dimensions"),
        (42, struct.pack("<h", -5), "dimensions"),
        (42, struct.pack("<hhh", 32767, 32767, 32767), "cut short|takes"),
        (70, struct.pack("<h", 9999), "damaged"),
        (70, struct.pack("<h", 32), "complex numbers"),
        (70, struct.pack("<h", 128), "records of R, G, B"),
        (70, struct.pack("<h", 1536), "float128|longdouble|unknown kind"),
        (112, struct.pack("<ff", 1, np.inf), "damaged"),
        (108, struct.pack("<f", 100), "at byte 100; expected 352"),
        (108, struct.pack("<f", -1), "at byte -1"),
        (108, struct.pack("<f", np.nan), "at byte nan"),
        (108, struct.pack("<f", 1e30), "extensions"),
        (108, struct.pack("<f", 1e6), "damaged or cut short"),
    ],
)
def test_headers_that_lie(tmp_path, name, place, value, words):
    path = patched(written(tmp_path / name, VALUES.astype("i2")), place, value)
    refused(words, load, path, budget=10**9)


def test_an_offset_of_zero_means_right_after_the_header(tmp_path):
    plain = nibabel.Nifti1Image(VALUES.astype("i2"), np.eye(4))
    plain.to_filename(tmp_path / "a.nii.gz")
    image = load(patched(tmp_path / "a.nii.gz", 108, struct.pack("<f", 0)))
    assert np.array_equal(image.pixels, VALUES)
    save_labels(tmp_path / "b.nii.gz", LABELS, like=image)
    assert np.array_equal(np.asarray(nibabel.load(tmp_path / "b.nii.gz").dataobj), LABELS)


def test_sizes_that_are_none(tmp_path):
    path = patched(written(tmp_path / "a.nii", VALUES.astype("i2")), 80, struct.pack("<f", 0))
    assert load(path).spacing is None and describe(path).spacing is None


def test_gzip_bombs_are_not_unpacked(tmp_path):
    path = written(tmp_path / "a.nii.gz", VALUES.astype("u1"))
    raw = content(path)
    path.write_bytes(gzip.compress(raw + bytes(10**7)))
    refused("goes on after the pixels", load, path, budget=10**4)
    large = bytearray(raw)
    large[42:48] = struct.pack("<hhh", 1000, 1000, 1000)
    packer = zlib.compressobj(wbits=31)
    path.write_bytes(packer.compress(bytes(large)) + packer.compress(bytes(10**7)) + packer.flush())
    refused("takes 1 GB of memory, and 100 MB are allowed", load, path, budget=10**8)
    assert describe(path).bytes == 10**9


def test_gzip_streams_that_are_damaged(tmp_path):
    path = written(tmp_path / "a.nii.gz", VALUES.astype("i2"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-8] + bytes(8))
    refused("damaged", load, path)
    path.write_bytes(whole[:200] + bytes(30) + whole[230:])
    refused("damaged|goes on", load, path)


@pytest.mark.parametrize("name", slow_but(["t1", "prob_wm_u8", "prob_putamen_u8"], quick=["t1"]))
def test_labels_on_real_volumes(tmp_path, data_folder, name):
    source = data_folder / "mri" / f"brainchop_t1_{name}.nii.gz"
    image = load(source)
    reference = nibabel.load(source)
    assert np.array_equal(image.pixels, np.asarray(reference.dataobj))
    save_labels(tmp_path / "out.nii.gz", np.asarray(image.pixels) > 100, like=image)
    changed = (DATATYPE[1], BITPIX[1], SLOPE_INTER[1])
    start = int(reference.dataobj.offset)
    assert without(content(tmp_path / "out.nii.gz")[:start], *changed) == without(content(source)[:start], *changed)
