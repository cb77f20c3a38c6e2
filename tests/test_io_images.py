"""Pictures: what is written is read again, files that are not what they say end in one clear line."""

import contextlib
import struct
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from PIL import Image

from dope.durable import replacing
from dope.errors import InputError
from dope.io import read_image, write_image
from profiles import examples

PICTURE = np.random.default_rng(0).integers(0, 256, (12, 17, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    "picture",
    [
        PICTURE,
        PICTURE[..., 0],
        np.dstack([PICTURE, PICTURE[..., 0]]),
        (PICTURE[..., 0].astype(np.uint16) << 8) + 3,
        np.ascontiguousarray(PICTURE[..., 0].T),
        PICTURE[::-1, ::2],
    ],
    ids=["color", "grey", "alpha", "16 bits", "upright", "strided"],
)
def test_png_round_trip(tmp_path, picture):
    write_image(tmp_path / "a.png", picture)
    again = read_image(tmp_path / "a.png")
    assert again.dtype == picture.dtype and np.array_equal(again, picture)


def test_a_mask_is_written_black_and_white(tmp_path):
    write_image(tmp_path / "mask.png", PICTURE[..., 0] > 100)
    assert np.array_equal(read_image(tmp_path / "mask.png"), np.where(PICTURE[..., 0] > 100, 255, 0))


def test_jpeg_comes_back_alike(tmp_path):
    smooth = np.repeat(np.linspace(0, 255, 64).astype(np.uint8)[None, :, None], 48, axis=0).repeat(3, axis=2)
    write_image(tmp_path / "a.JPG", smooth)
    assert np.abs(read_image(tmp_path / "a.JPG").astype(int) - smooth).max() < 8


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(tmp_path, orientation):
    upright = np.zeros((16, 24), dtype=np.uint8)
    upright[:8, :8] = 255
    turned = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.T,
        6: np.rot90(upright),
        7: upright.T[::-1, ::-1],
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.ascontiguousarray(turned)).save(tmp_path / "a.jpg", quality=95, exif=exif)
    assert np.abs(read_image(tmp_path / "a.jpg").astype(int) - upright).max() < 30


@pytest.mark.parametrize("mode", ["1", "P", "CMYK", "LA"])
def test_other_modes_become_plain_arrays(tmp_path, mode):
    suffix = ".jpg" if mode == "CMYK" else ".png"
    Image.fromarray(PICTURE).convert(mode).save(tmp_path / f"a{suffix}")
    picture = read_image(tmp_path / f"a{suffix}")
    assert picture.dtype == np.uint8 and picture.shape[:2] == PICTURE.shape[:2]
    assert picture.shape[2:] == {"1": (), "P": (3,), "CMYK": (3,), "LA": (2,)}[mode]


def one_line(error):
    return "\n" not in str(error.value)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(InputError, match=r"none\.png: no such file") as error:
        read_image(tmp_path / "none.png")
    assert one_line(error)
    with pytest.raises(InputError, match="a folder"):
        read_image(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"hello, I am a text\n", b"GIF89a" + bytes(40), b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"]
)
def test_files_that_are_no_pictures(tmp_path, content):
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.png: (not a PNG or JPEG|damaged|empty)") as error:
        read_image(tmp_path / "a.png")
    assert one_line(error)


@pytest.mark.parametrize("suffix", ["png", "jpg"])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_truncated_files(tmp_path, suffix, part):
    path = tmp_path / f"a.{suffix}"
    write_image(path, np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(InputError, match=r"damaged|not a PNG") as error:
        read_image(path)
    assert one_line(error)


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


@pytest.mark.parametrize("side", [14_000, 1_000_000])
def test_decompression_bombs_are_not_unpacked(tmp_path, side):
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    bomb = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    (tmp_path / "bomb.png").write_bytes(bomb)
    with pytest.raises(InputError, match="pixels"):
        read_image(tmp_path / "bomb.png")


@pytest.mark.parametrize("suffix", ["png", "jpg"])
@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=6))
def test_altered_files_are_read_or_refused(tmp_path, suffix, edits):
    path = tmp_path / f"a.{suffix}"
    write_image(path, PICTURE)
    content = bytearray(path.read_bytes())
    for place, value in edits:
        content[int(place * len(content))] = value
    path.write_bytes(content)
    with contextlib.suppress(InputError):  # and nothing else
        assert read_image(path).dtype in (np.uint8, np.uint16)


@pytest.mark.parametrize(
    ("name", "picture", "words"),
    [
        ("a.gif", PICTURE, r"\.gif"),
        ("a", PICTURE, "without suffix"),
        ("a.png", PICTURE.astype(float), "float64"),
        ("a.png", PICTURE[..., :2], r"\(12, 17, 2\)"),
        ("a.png", PICTURE[None], r"\(1, 12, 17, 3\)"),
        ("a.png", PICTURE[:0], r"\(0, 17, 3\)"),
        ("a.jpg", np.dstack([PICTURE, PICTURE[..., 0]]), "JPEG"),
        ("a.jpg", PICTURE[..., 0].astype(np.uint16), "uint16"),
        ("none/a.png", PICTURE, "no such file or directory.*folder that exists"),
    ],
)
def test_what_cannot_be_written(tmp_path, name, picture, words):
    with pytest.raises(InputError, match=words):
        write_image(tmp_path / name, picture)
    assert list(tmp_path.iterdir()) == []


def half_written(path, error):
    with replacing(path) as temporary:
        temporary.write_text("half of the n")
        raise error


def test_writing_replaces_the_file_or_leaves_it(tmp_path):
    path = tmp_path / "a.txt"
    with replacing(path) as temporary:
        temporary.write_text("old")
    with pytest.raises(RuntimeError):
        half_written(path, RuntimeError())
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"] and path.read_text() == "old"


def test_running_out_of_space_leaves_nothing_behind(tmp_path):
    with pytest.raises(InputError, match="no space left"):
        half_written(tmp_path / "a.png", OSError(28, "No space left on device"))
    assert list(tmp_path.iterdir()) == []
