"""Several labels in pictures and pages, each in its colour; two look as they always did."""

import io
import json
import re

import numpy as np
import pytest
from PIL import Image

import dope
from dope.palette import label_colors
from dope.report import PageContent, block_map, difference, overlay, page, plot, slices, surface, thumbnail

COLORS = label_colors(6).astype(int)
LABELS = np.zeros((40, 60), dtype=np.uint8)
LABELS[5:20, 5:30], LABELS[20:35, 5:30], LABELS[5:35, 35:55] = 1, 2, 5
GREY = np.full((40, 60), 120, dtype=np.uint8)


def balls():
    places = np.indices((30, 32, 34))
    labels = np.zeros(places.shape[1:], dtype=np.uint8)
    for label, center in enumerate([(10, 10, 8), (20, 20, 24)], start=1):
        labels[((places - np.array(center)[:, None, None, None]) ** 2).sum(axis=0) < 49] = label
    return labels


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int64])
def test_labels_are_tinted_and_outlined_in_their_colors(kind):
    picture = overlay(GREY, LABELS.astype(kind)).astype(int)
    for label, inner in ((1, (12, 15)), (2, (28, 15)), (5, (20, 45))):
        assert np.array_equal(picture[inner], np.rint(120 + 0.45 * (COLORS[label] - 120)))
    assert np.array_equal(picture[5, 10], COLORS[1]) and np.array_equal(picture[34, 50], COLORS[5])
    # Between two labels each has a line of its own.
    assert np.array_equal(picture[19, 10], COLORS[1]) and np.array_equal(picture[20, 10], COLORS[2])
    assert np.array_equal(picture[38, 2], overlay(GREY, LABELS > 0)[38, 2])


def test_two_labels_look_the_same_whatever_their_type():
    two = LABELS > 0
    for draw in (lambda some: overlay(GREY, some), thumbnail, lambda some: block_map(two.shape, [], labels=some),
                 lambda some: difference(GREY, some, np.zeros_like(some))):  # fmt: skip
        wanted = np.frombuffer(draw(two), np.uint8) if draw is thumbnail else draw(two)
        for some in (two.astype(np.uint8), two * np.uint8(255), two.astype(float)):
            found = np.frombuffer(draw(some), np.uint8) if draw is thumbnail else draw(some)
            assert np.array_equal(found, wanted)


def test_labels_that_are_shrunk_are_mixed():
    labels = np.ones((40, 60), dtype=np.uint8)
    labels[:, 1::2] = 2
    inner = overlay(GREY, labels, longest=30).astype(int)[3:17, 3:27]
    mixed = 120 + 0.45 * ((COLORS[1] + COLORS[2]) / 2 - 120)
    assert np.abs(inner - mixed).max() <= 1


@pytest.mark.parametrize("longest", [200, 37, 5, 1])
def test_any_size(longest):
    assert max(overlay(GREY, LABELS, longest=longest).shape[:2]) <= longest
    assert max(slices(None, balls(), longest=longest + 20, spacing=(1, 2, 0.5)).shape[:2]) <= longest + 20


def test_differences_of_several_labels():
    other = LABELS.copy()
    other[5:20, 5:30], other[20:35, 5:30], other[0:3] = 2, 0, 4
    picture = difference(GREY, LABELS, other).astype(int)
    for place, color in (((12, 15), (204, 121, 167)), ((30, 15), (255, 140, 26)), ((1, 40), (64, 170, 255))):
        assert np.array_equal(picture[place], color)
    assert len(set(picture[20, 45])) == 1  # nothing is painted where both agree


def test_the_blocks_with_outlines_of_all_labels():
    blocks = [(slice(0, 40), slice(0, 60))]
    picture = block_map(LABELS.shape, blocks, labels=LABELS)
    assert (picture[19, 10:20] == (255, 214, 10)).all()
    assert not (block_map(LABELS.shape, blocks, labels=LABELS > 0)[19, 10:20] == (255, 214, 10)).all()


def test_surfaces_have_the_colors_of_their_labels():
    labels = balls()
    picture, plain = surface(labels, longest=200).astype(float), surface(labels > 0, longest=200).astype(float)
    assert picture.shape == plain.shape
    shown = plain.max(axis=2) > 60  # of the object, where there is light
    hue = picture[shown] / picture[shown].max(axis=1, keepdims=True)
    near = [np.abs(hue - COLORS[label] / COLORS[label].max()).max(axis=1) < 0.1 for label in (1, 2)]
    assert near[0].mean() > 0.2 and near[1].mean() > 0.2 and (near[0] | near[1]).mean() > 0.9


def test_thumbnails_have_colors_only_where_there_are_several_labels():
    for labels, mode in ((LABELS, "RGB"), (LABELS > 0, "L"), (balls(), "RGB"), (balls() > 0, "L")):
        with Image.open(io.BytesIO(thumbnail(labels))) as picture:
            assert picture.mode == mode
    with Image.open(io.BytesIO(thumbnail(LABELS, longest=60))) as picture:
        assert picture.getpixel((45, 20)) == tuple(COLORS[5].tolist())


def test_plots_show_several_labels():
    pytest.importorskip("matplotlib")
    trace = dope.minimize(dope.Energy.grid(np.eye(3) - 0.5)).trace
    drawn = [plot(trace, labels, image=GREY) for labels in (LABELS, LABELS > 0)]
    colors = [len(np.unique(figure.axes[0].images[0].get_array().reshape(-1, 3), axis=0)) for figure in drawn]
    assert colors[0] > colors[1]


def in_json(text):
    return json.loads(re.search(r'id="run">(.*?)</script>', text, re.DOTALL)[1])


def test_a_page_of_several_labels_counts_them():
    text = page(PageContent("parts", GREY, False, LABELS, spacing=(0.5, 2.0)))
    assert "<td>5</td><td>600</td><td>25 %</td><td>600</td>" in text and "<th>area</th>" in text
    assert '<span class="name">labels</span><span class="value">4</span>' in text and ">foreground<" not in text
    assert all(f"rgb{tuple(COLORS[label].tolist())}" in text for label in (1, 2, 5))
    found = in_json(text)
    assert found["counts"] == {"0": 1050, "1": 375, "2": 375, "5": 600} and found["foreground"] == 1350 / 2400


def test_a_page_of_two_labels_has_no_such_table():
    text = page(PageContent("object", GREY, False, LABELS > 0))
    assert "<h2>Labels</h2>" not in text and "counts" not in in_json(text)
    assert in_json(text)["foreground"] == (LABELS > 0).mean() and ">foreground<" in text


def test_counts_of_labels_of_which_some_are_drawn():
    found = in_json(page(PageContent("parts", None, False, LABELS[::4, ::4], counts=[10, 0, 30, 0])))
    assert found["counts"] == {"0": 10, "2": 30} and found["foreground"] == 0.75


def test_many_labels_do_not_fill_the_page_with_keys():
    labels = np.arange(400, dtype=np.uint16).reshape(20, 20)
    text = page(PageContent("many", None, False, labels))
    assert "and 379 more" in text and len(in_json(text)["counts"]) == 400


def test_a_volume_of_several_labels():
    text = page(PageContent("balls", None, False, balls(), spacing=(1.0, 1.0, 1.0)))
    assert "<th>volume</th>" in text and "Surface of what is not 0" in text
