"""Strokes: both formats, how they are drawn, and what is refused."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dope.errors import InputError
from dope.io import read_scribbles, write_image

ENTRY = {"fg": [[[5, 5], [25, 5]]], "bg": [[[5, 20]], [[20, 20], [25, 25], [30, 20]]], "brush_radius": 3}
SHAPE = (32, 40)


def written(tmp_path, content):
    path = tmp_path / "strokes.json"
    path.write_text(json.dumps(content))
    return path


def test_strokes_are_drawn_with_a_round_brush(tmp_path):
    seeds = read_scribbles(written(tmp_path, ENTRY), SHAPE)
    assert seeds.dtype == np.int8 and seeds.shape == SHAPE
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    disc = np.hypot(x - 5, y - 20)
    assert (seeds[disc <= 2.5] == 2).all() and (seeds[(disc > 4) & (x < 12) & (y > 12)] == 0).all()
    line = np.abs(y - 5)
    assert (seeds[(line <= 2) & (x >= 5) & (x <= 25)] == 1).all()
    assert (seeds[(line > 4) & (y < 12)] == 0).all()
    assert seeds[5, 27] == 1 and seeds[5, 30] == 0
    assert seeds[20, 29] == seeds[25, 25] == 2


def test_one_entry_and_an_object_of_entries_are_read_alike(tmp_path):
    one = read_scribbles(written(tmp_path, ENTRY), SHAPE)
    assert np.array_equal(read_scribbles(written(tmp_path, {"a.jpg": ENTRY}), (*SHAPE, 3)), one)
    two = written(tmp_path, {"a.jpg": ENTRY, "b.jpg": {"fg": [[[1, 1]]], "bg": [[[9, 9]]]}})
    assert np.array_equal(read_scribbles(two, SHAPE, photo="folder/a.jpg"), one)
    with pytest.raises(InputError, match="2 pictures"):
        read_scribbles(two, SHAPE)
    with pytest.raises(InputError, match=r"no strokes for c\.jpg, but for a\.jpg, b\.jpg"):
        read_scribbles(two, SHAPE, photo="c.jpg")


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_label_images_are_taken_as_they_are(tmp_path, dtype):
    seeds = np.random.default_rng(0).integers(0, 3, SHAPE).astype(dtype)
    write_image(tmp_path / "seeds.png", seeds)
    assert np.array_equal(read_scribbles(tmp_path / "seeds.png", SHAPE), seeds)


def test_a_label_image_in_equal_channels_is_grey(tmp_path):
    seeds = np.random.default_rng(0).integers(0, 3, SHAPE).astype(np.uint8)
    write_image(tmp_path / "seeds.png", np.dstack([seeds] * 3))
    assert np.array_equal(read_scribbles(tmp_path / "seeds.png", SHAPE), seeds)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"width": 41, "height": 32}, "41 x 32 pixels, but this one has 40 x 32"),
        ({"width": "40"}, "40 x 32"),
        ({"fg": []}, "no foreground"),
        ({"bg": []}, "no background"),
        ({"bg": [[[40, 3]]]}, r"stroke 0 of \"bg\" has the point \(40, 3\) outside .* 40 x 32"),
        ({"fg": [[[2, 2]], [[-1, 3]]]}, r"stroke 1 of \"fg\""),
        ({"bg": [[[25, 20], [25, 2]]]}, r"pixel \(\d+, \d+\) lies under strokes of both kinds"),
        ({"brush_radius": -1}, "brush_radius is -1"),
        ({"brush_radius": "wide"}, "brush_radius is 'wide'"),
        ({"brush_radius": 1e9}, "brush_radius"),
        ({"fg": "none"}, "not a list"),
        ({"fg": [[5, 5], [25, 5]]}, "not a polyline"),
        ({"fg": [[]]}, "not a polyline"),
        ({"fg": [[[1, 2, 3]]]}, "not a polyline"),
        ({"fg": [[["1", "2"]]]}, "not a polyline"),
        ({"fg": [[[True, 2]]]}, "not a polyline"),
    ],
)
def test_strokes_that_are_refused(tmp_path, change, words):
    with pytest.raises(InputError, match=words) as error:
        read_scribbles(written(tmp_path, ENTRY | change), SHAPE)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text", ["", "{", "[1, 2]", "{}", '{"a": 1}', '{"fg": [[[NaN, 1]]], "bg": [[[9, 9]]]}', "[" * 9999]
)
def test_files_that_hold_no_strokes(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError, match=r"a\.json"):
        read_scribbles(tmp_path / "a.json", SHAPE)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_scribbles(tmp_path / "none.json", SHAPE)
    with pytest.raises(InputError, match="no such file"):
        read_scribbles(tmp_path / "none.png", SHAPE)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00\xd8")
    with pytest.raises(InputError, match="not valid JSON"):
        read_scribbles(tmp_path / "bytes.json", SHAPE)
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(InputError, match="a folder"):
        read_scribbles(tmp_path / "folder.json", SHAPE)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.full((32, 40), 3, dtype=np.uint8), r"label 3 at pixel \(0, 0\)"),
        (np.ones((31, 40), dtype=np.uint8), "40 x 31 pixels, but this one has 40 x 32"),
        (np.ones((32, 40), dtype=np.uint8), "no background"),
        (np.zeros((32, 40), dtype=np.uint8), "no foreground"),
        (np.arange(32 * 40 * 3).reshape(32, 40, 3).astype(np.uint8), "colour picture"),
    ],
)
def test_label_images_that_are_refused(tmp_path, labels, words):
    write_image(tmp_path / "seeds.png", labels)
    with pytest.raises(InputError, match=words):
        read_scribbles(tmp_path / "seeds.png", SHAPE)


def test_pictures_with_a_palette_hold_numbers(tmp_path):
    numbers = np.zeros((32, 40), dtype=np.uint8)
    numbers[:4], numbers[20:] = 1, 2
    picture = Image.fromarray(numbers)
    picture.putpalette(bytes([0, 0, 0, 255, 0, 0, 255, 0, 0]))  # the colours of 1 and 2 may even be the same
    picture.save(tmp_path / "seeds.png")
    assert np.array_equal(read_scribbles(tmp_path / "seeds.png", SHAPE), numbers)
    numbers[31, 39] = 7
    picture = Image.fromarray(numbers)
    picture.putpalette(bytes(range(24)))
    picture.save(tmp_path / "seeds.png")
    with pytest.raises(InputError, match=r"label 7 at pixel \(39, 31\).*two labels so far"):
        read_scribbles(tmp_path / "seeds.png", SHAPE)


@pytest.mark.parametrize("value", [0, 1, 2])
def test_one_kind_is_enough_where_nothing_is_learnt(tmp_path, value):
    write_image(tmp_path / "seeds.png", np.full((32, 40), value, dtype=np.uint8))
    assert (read_scribbles(tmp_path / "seeds.png", SHAPE, both=False) == value).all()


def test_a_line_has_no_strokes(tmp_path):
    with pytest.raises(InputError, match=r"\(40,\)"):
        read_scribbles(written(tmp_path, ENTRY), (40,))


@pytest.mark.slow
@pytest.mark.skipif("DOPE_DATA" not in os.environ, reason="DOPE_DATA names no folder of test images")
def test_strokes_of_all_photos():
    path = Path(os.environ["DOPE_DATA"]) / "photos" / "scribbles.json"
    for name, entry in json.loads(path.read_text()).items():
        seeds = read_scribbles(path, (entry["height"], entry["width"], 3), photo=name)
        assert 1000 < (seeds == 1).sum() < seeds.size / 10
        assert 1000 < (seeds == 2).sum() < seeds.size / 10
