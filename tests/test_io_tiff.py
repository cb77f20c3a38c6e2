"""TIFF: what tifffile and Pillow write is read alike, spacing is kept, strips that lie are refused."""

import contextlib
import json
import struct
import zlib

import numpy as np
import PIL.Image
import pytest

from dope.errors import InputError
from dope.io import Image, describe, load, save_labels
from dope.io.lazy import Lazy

tifffile = pytest.importorskip("tifffile")

RANDOM = np.random.default_rng(0)
CUBE = RANDOM.integers(0, 200, (4, 5, 6))
SQUARE = CUBE[0]
LABELS = RANDOM.random((4, 5, 6)) > 0.5


def refused(words, call, *args, **settings):
    with pytest.raises(InputError, match=words) as error:
        call(*args, **settings)
    assert "\n" not in str(error.value)


def sites_or_refusal(path):
    """How many sites are read within a budget, 0 if the file is refused: nothing else may happen."""
    with contextlib.suppress(InputError):
        return load(path, budget=10**6).pixels.size
    return 0


def written(path, values, **settings):
    tifffile.imwrite(path, values, photometric=settings.pop("photometric", "minisblack"), **settings)
    return path


@pytest.mark.parametrize("dtype", ["u1", "u2", "i2", "u4", "i4", "f4", "f8", "?"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"compression": "zlib"},
        {"compression": "lzw"},
        {"compression": "packbits"},
        {"compression": "zstd", "tile": (16, 16)},
        {"byteorder": ">"},
        {"bigtiff": True},
        {"metadata": None},
        {"rowsperstrip": 2, "compression": "zlib"},
    ],
    ids=str,
)
def test_volumes_and_pictures_come_back(tmp_path, dtype, settings):
    if dtype == "?" and "compression" in settings:
        pytest.skip("bits are packed their own way")
    for values in (CUBE.astype(dtype), SQUARE.astype(dtype)):
        path = written(tmp_path / "a.tif", values, **settings)
        image, found = load(path), describe(path)
        assert np.array_equal(image.pixels, values) and image.pixels.dtype == values.dtype
        assert image.shape == found.shape == values.shape and not image.channels and found.channels == 1
        assert found.dtype == values.dtype.name and found.bytes == values.nbytes and image.spacing is None
        assert ("BigTIFF" in found.format) == ("bigtiff" in settings)


@pytest.mark.parametrize("byteorder", ["<", ">"])
def test_plain_pixels_are_opened_not_read(tmp_path, byteorder):
    path = written(tmp_path / "a.tif", CUBE.astype("i2"), byteorder=byteorder)
    image = load(path, budget=300)
    assert isinstance(image.pixels, Lazy) and np.array_equal(image.pixels, CUBE)
    packed = written(tmp_path / "b.tif", CUBE.astype("i2"), compression="zlib")
    refused("4 x 5 x 6 int16 takes 240 bytes of memory, and 200 bytes are allowed", load, packed, budget=200)


def test_pages_that_pillow_wrote(tmp_path):
    pages = [PIL.Image.fromarray(page.astype(np.uint8)) for page in CUBE]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:], compression="tiff_lzw")
    assert np.array_equal(load(tmp_path / "a.tif").pixels, CUBE)


@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("planar", ["contig", "separate"])
def test_color_comes_last(tmp_path, channels, planar):
    values = RANDOM.integers(0, 256, (9, 8, channels), dtype=np.uint8)
    stored = values if planar == "contig" else np.moveaxis(values, -1, 0)
    more = {"extrasamples": ["unassalpha"]} if channels == 4 else {}
    path = written(tmp_path / "a.tif", stored, photometric="rgb", planarconfig=planar, **more)
    image = load(path)
    assert image.channels and image.shape == (9, 8) and np.array_equal(image.pixels, values)
    assert describe(path).channels == channels and describe(path).shape == (9, 8)


@pytest.mark.parametrize("name", ["a.tif", "a.ome.tif"])
@pytest.mark.parametrize("axes", ["CZYX", "ZCYX", "TZCYX", "CYX", "ZYXS"])
def test_named_axes_are_put_in_order(tmp_path, name, axes):
    lengths = dict(zip("TCZYXS", (1, 2, 4, 5, 6, 3), strict=True))
    values = RANDOM.integers(0, 256, [lengths[axis] for axis in axes], dtype=np.uint8)
    photometric = "rgb" if "S" in axes else "minisblack"
    path = written(tmp_path / name, values, metadata={"axes": axes}, ome="ome" in name, photometric=photometric)
    image, found = load(path), describe(path)
    wanted = [axis for axis in "ZYXCS" if axis in axes]
    order = [axes.index(axis) for axis in wanted] + [place for place, axis in enumerate(axes) if axis == "T"]
    expected = values.transpose(order).reshape([lengths[axis] for axis in wanted])
    assert image.channels and np.array_equal(image.pixels, expected)
    assert found.shape == image.shape and found.channels == expected.shape[-1] and found.details["axes"]


@pytest.mark.parametrize(
    ("axes", "words"),
    [("TYX", "a series of 4 moments"), ("TZYX", "a series of 4 moments"), ("QZYX", "axes QZYX"), ("RYX", "axes RYX")],
)
def test_axes_that_are_refused(tmp_path, axes, words):
    values = np.zeros((*(4, 3)[: len(axes) - 2], 5, 6), np.uint8)
    path = written(tmp_path / "a.tif", values, metadata={"axes": axes})
    refused(words, load, path)
    refused(words, describe, path)


def test_spacing_that_imagej_wrote(tmp_path):
    path = tmp_path / "a.tif"
    metadata = {"axes": "ZYX", "spacing": 2.5, "unit": "um"}
    tifffile.imwrite(path, CUBE.astype(np.uint16), imagej=True, resolution=(4, 2), metadata=metadata)
    assert load(path).spacing == describe(path).spacing == (2.5, 0.5, 0.25)
    assert describe(path).details["unit"] == "um" and describe(path).format == "ImageJ TIFF"
    tifffile.imwrite(path, SQUARE.astype(np.uint16), imagej=True, resolution=(4, 2), metadata={"unit": "um"})
    assert load(path).spacing == (0.5, 0.25)
    tifffile.imwrite(path, CUBE.astype(np.uint16), imagej=True, metadata={"axes": "ZYX"})
    assert load(path).spacing is None


def test_spacing_that_ome_wrote(tmp_path):
    path = tmp_path / "a.ome.tif"
    sizes = {"PhysicalSizeX": 0.25, "PhysicalSizeY": 0.5, "PhysicalSizeZ": 2.5}
    written(path, CUBE.astype("f4"), metadata={"axes": "ZYX", **sizes})
    assert load(path).spacing == (2.5, 0.5, 0.25) and describe(path).details["unit"] == "µm"
    assert describe(path).format == "OME-TIFF"
    written(path, CUBE.astype("f4"), metadata={"axes": "ZYX", **sizes, "PhysicalSizeXUnit": "mm"})
    assert load(path).spacing is None
    written(path, CUBE.astype("f4"), metadata={"axes": "ZYX", "PhysicalSizeX": 0.25})
    assert load(path).spacing is None


def test_resolution_of_a_picture(tmp_path):
    PIL.Image.fromarray(SQUARE.astype(np.uint8)).save(tmp_path / "a.tif", dpi=(254, 127))
    assert load(tmp_path / "a.tif").spacing == pytest.approx((0.2, 0.1))
    written(tmp_path / "b.tif", CUBE.astype("u1"), resolution=(10, 10), resolutionunit="CENTIMETER")
    assert load(tmp_path / "b.tif").spacing is None  # which says nothing about pages


@pytest.mark.parametrize("name", ["out.tif", "out.ome.tif", "out.ome.tiff"])
@pytest.mark.parametrize("spacing", [None, (2.5, 0.5, 0.3), (1e-9, 1e-9, 1e-9), (1e9, 1e9, 1e12)])
def test_labels_keep_the_spacing(tmp_path, name, spacing):
    image = Image(CUBE, False, spacing, tmp_path / "a.npy")
    save_labels(tmp_path / name, LABELS, like=image)
    again = load(tmp_path / name)
    assert np.array_equal(again.pixels, LABELS) and again.pixels.dtype == np.uint8
    if spacing is None or (max(spacing) < 1e6 and min(spacing) > 1e-6):
        assert again.spacing == (None if spacing is None else pytest.approx(spacing))
    assert "deflate" in describe(tmp_path / name).details["compression"]
    assert np.array_equal(tifffile.imread(tmp_path / name), LABELS)


def test_labels_keep_the_unit(tmp_path):
    sizes = {"PhysicalSizeX": 0.25, "PhysicalSizeY": 0.5, "PhysicalSizeZ": 2.5}
    written(tmp_path / "a.ome.tif", CUBE.astype("f4"), metadata={"axes": "ZYX", **sizes})
    for name, unit in (("b.tif", "um"), ("c.ome.tif", "µm")):
        save_labels(tmp_path / name, LABELS, like=load(tmp_path / "a.ome.tif"))
        assert describe(tmp_path / name).details["unit"] == unit and load(tmp_path / name).spacing == (2.5, 0.5, 0.25)


def test_large_labels_become_a_large_tiff(tmp_path, monkeypatch):
    monkeypatch.setattr("dope.io.images.tiff._MOST_CLASSIC_BYTES", 10)
    save_labels(tmp_path / "a.tif", LABELS, like=Image(CUBE, False, (1.0, 2.0, 3.0), tmp_path))
    assert "BigTIFF" in describe(tmp_path / "a.tif").format
    assert np.array_equal(load(tmp_path / "a.tif").pixels, LABELS)


@pytest.mark.parametrize(
    ("values", "settings", "words"),
    [
        (np.ones((5, 6), np.complex64), {}, "complex numbers"),
        (np.ones((5, 6), np.uint8), {"photometric": "palette", "colormap": np.zeros((3, 256), np.uint16)}, "palette"),
        (np.ones((64, 64), np.uint8), {"compression": "jpeg2000"}, "JPEG2000, which is not supported"),
    ],
)
def test_what_is_not_read(tmp_path, values, settings, words):
    refused(words, load, written(tmp_path / "a.tif", values, **settings))


def tagged(tags, pixels=bytes(64)):
    """A little-endian TIFF of one page, from (code, type, count, value) with values of at most four bytes."""
    start = 8 + 2 + 12 * len(tags) + 4
    entries = b"".join(
        struct.pack("<HHI", code, kind, count) + struct.pack("<I", start if value == "pixels" else value)
        for code, kind, count, value in sorted(tags)
    )
    return b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(tags)) + entries + bytes(4) + pixels


def page(width=8, length=8, strip=("pixels", 64), compression=1, bits=8, rows=None):
    return [
        (256, 4, 1, width),
        (257, 4, 1, length),
        (258, 3, 1, bits),
        (259, 3, 1, compression),
        (262, 3, 1, 1),
        (273, 4, 1, strip[0]),
        (277, 3, 1, 1),
        (278, 4, 1, length if rows is None else rows),
        (279, 4, 1, strip[1]),
    ]


def test_the_page_that_the_next_ones_alter(tmp_path):
    (tmp_path / "a.tif").write_bytes(tagged(page(), bytes(range(64))))
    assert np.array_equal(load(tmp_path / "a.tif").pixels, np.arange(64).reshape(8, 8))


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        (page(10**6, 10**6), "takes 1 TB"),
        (page(10**6, 10**6, compression=8), "takes 1 TB"),
        (page(10**4, 10**4), "cut short"),
        (page(10**4, 10**4, compression=8), "damaged|cut short"),
        (page(strip=(10**9, 64)), "cut short|lacks"),
        (page(strip=(10**9, 64), compression=8), "cut short"),
        (page(strip=("pixels", 10**9), compression=8), "cut short"),
        (page(strip=("pixels", 0), compression=8), "lacks"),
        (page(rows=2, compression=8), "lacks|damaged"),
        (page(0, 8), "declares the shape|holds no image|damaged"),
        (page(compression=8), "damaged"),
        (page(compression=12345), "damaged|supported"),
        (page(bits=77), "bits|holds"),
        (page()[:2], "cut short|damaged|lacks|no image"),
        ([(256, 4, 2**31, 12)], "damaged|no image|declares"),
    ],
    ids=lambda value: None if isinstance(value, str) else " ".join(str(tag[-1]) for tag in value),
)
def test_pages_that_lie(tmp_path, tags, words):
    (tmp_path / "a.tif").write_bytes(tagged(tags))
    refused(words, load, tmp_path / "a.tif", budget=10**9)


def test_tiles_larger_than_memory(tmp_path):
    tags = [tag for tag in page(compression=8) if tag[0] not in (273, 278, 279)]
    tags += [(322, 4, 1, 10**6), (323, 4, 1, 10**6), (324, 4, 1, "pixels"), (325, 4, 1, 64)]
    (tmp_path / "a.tif").write_bytes(tagged(tags))
    refused("in a strip takes 1 TB", load, tmp_path / "a.tif", budget=10**9)


def followed_by(following):
    raw = bytearray(tagged(page()))
    place = raw.index(struct.pack("<HHI", 279, 4, 1)) + 12
    raw[place : place + 4] = struct.pack("<I", following)
    return bytes(raw)


@pytest.mark.parametrize(("following", "words"), [(8, "circle"), (4, "damaged|declare"), (10**9, "damaged")])
def test_pages_in_a_circle_and_nowhere(tmp_path, following, words):
    (tmp_path / "a.tif").write_bytes(followed_by(following))
    refused(words, load, tmp_path / "a.tif")
    refused(words, describe, tmp_path / "a.tif")


def test_pages_with_a_million_parts(tmp_path):
    parts = struct.pack("<I", 8) * 10**6
    raw = tagged([*page(), (330, 4, 10**6, "pixels")], parts)
    (tmp_path / "a.tif").write_bytes(raw)
    refused("declare more than a file", load, tmp_path / "a.tif")


def test_many_pages_that_share_one_long_tag(tmp_path):
    long = 10**5
    count = 200
    one = len(tagged(page())) - 64 - 8
    pages = b""
    for number in range(count):
        tags = [tag if tag[0] != 273 else (273, 4, long, 8 + count * one) for tag in page(strip=(8, 64))]
        body = bytearray(tagged(tags)[8:-64])
        body[-4:] = struct.pack("<I", 8 + (number + 1) * one if number + 1 < count else 0)
        pages += body
    (tmp_path / "a.tif").write_bytes(b"II*\0" + struct.pack("<I", 8) + pages + bytes(4 * long))
    refused("declare more than a file", load, tmp_path / "a.tif")


def test_strips_that_unpack_to_more_than_they_should(tmp_path):
    bomb = zlib.compress(bytes(10**8), 9)
    (tmp_path / "a.tif").write_bytes(tagged(page(strip=("pixels", len(bomb)), compression=8), bomb))
    assert sites_or_refusal(tmp_path / "a.tif") <= 64


@pytest.mark.parametrize("shape", [[10**6, 5, 6], [10**9, 10**9, 30], [7, 7], [0], "none", [-4, 5, 6]])
@pytest.mark.parametrize("compression", [None, "zlib"])
def test_shapes_in_the_description_that_lie(tmp_path, shape, compression):
    description = json.dumps({"shape": shape})
    written(tmp_path / "a.tif", CUBE.astype("u1"), compression=compression, metadata=None, description=description)
    assert sites_or_refusal(tmp_path / "a.tif") <= CUBE.size


@pytest.mark.parametrize("slices", [10**9, 3, -1])
def test_imagej_slices_that_lie(tmp_path, slices):
    description = f"ImageJ=1.53t\nimages={slices}\nslices={slices}\n"
    written(tmp_path / "a.tif", CUBE.astype("u1"), metadata=None, description=description)
    assert sites_or_refusal(tmp_path / "a.tif") <= CUBE.size


def test_pixels_in_other_files_are_not_fetched(tmp_path):
    written(tmp_path / "a.ome.tif", CUBE.astype("u1"), metadata={"axes": "ZYX"})
    xml = tifffile.tiffcomment(tmp_path / "a.ome.tif")
    elsewhere = '<TiffData FirstZ="1" IFD="0"><UUID FileName="../secret.tif">urn:uuid:1</UUID></TiffData>'
    start, end = xml.index("<TiffData"), xml.index("</Pixels>")
    written(tmp_path / "b.ome.tif", CUBE.astype("u1"), metadata=None, description=xml[:start] + elsewhere + xml[end:])
    refused("other files", load, tmp_path / "b.ome.tif")


def test_only_the_first_image_is_taken(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as writer:
        writer.write(CUBE.astype("u1"), photometric="minisblack")
        writer.write(np.zeros((9, 9), "u2"), photometric="minisblack")
    assert np.array_equal(load(tmp_path / "a.tif").pixels, CUBE)
    assert describe(tmp_path / "a.tif").details["images"] == "2; the first is taken"
