"""Pictures of a run: sizes, colours where they belong, arrays left alone."""

import sys

import numpy as np
import pytest

from dope.errors import InputError, MissingExtraError
from dope.protocols import Step
from dope.report import block_map, convergence, overlay

IMAGE = np.random.default_rng(0).integers(90, 160, (40, 60, 3), dtype=np.uint8)
LABELS = np.zeros((40, 60), dtype=bool)
LABELS[10:30, 20:50] = True


def test_overlay_keeps_the_object_and_shades_the_rest():
    before = IMAGE.copy()
    picture = overlay(IMAGE, LABELS)
    assert picture.shape == IMAGE.shape and picture.dtype == np.uint8
    assert np.array_equal(picture[13:27, 23:47], IMAGE[13:27, 23:47])
    assert picture[:8].mean() < 0.75 * IMAGE[:8].mean()
    assert np.array_equal(picture[10, 20:50], np.broadcast_to((255, 214, 10), (30, 3)))
    assert np.array_equal(IMAGE, before)


def test_overlay_draws_strokes_in_their_colors():
    seeds = np.zeros((40, 60), dtype=np.int8)
    seeds[20, 30:40], seeds[2, :10] = 1, 2
    picture = overlay(IMAGE, LABELS, seeds).astype(int)
    red, green, _ = np.moveaxis(picture, -1, 0)
    assert (green[20, 30:40] > red[20, 30:40] + 80).all() and (red[2, :10] > green[2, :10] + 80).all()


@pytest.mark.parametrize("image", [IMAGE[..., 0], IMAGE[..., :1], IMAGE[..., :2], np.dstack([IMAGE, IMAGE])])
def test_any_number_of_channels_is_shown(image):
    assert overlay(image, LABELS).shape == (40, 60, 3)


@pytest.mark.parametrize("image", [IMAGE / 1e4, IMAGE.astype(np.uint16) * 200, np.zeros((40, 60))])
def test_other_types_are_stretched(image):
    picture = overlay(image, np.ones((40, 60), dtype=bool))
    assert (picture.min(), picture.max()) == ((0, 255) if image.any() else (0, 0))


@pytest.mark.parametrize(("longest", "shape"), [(60, (40, 60)), (59, (20, 30)), (20, (14, 20)), (1, (1, 1))])
def test_pictures_are_shrunk_by_a_whole_number(longest, shape):
    assert overlay(IMAGE, LABELS, longest=longest).shape == (*shape, 3)
    where = [(slice(0, 40), slice(0, 31)), (slice(0, 40), slice(29, 60))]
    assert block_map((40, 60), where, image=IMAGE, labels=LABELS, longest=longest).shape == (*shape, 3)


def test_shrinking_takes_means():
    flat = np.full((40, 60), 120, dtype=np.uint8)
    flat[:, 1::2] = 130
    assert (overlay(flat, np.ones((40, 60), dtype=bool), longest=30) == 125).all()


def test_block_map_shows_borders_tints_and_overlap():
    where = [(slice(0, 40), slice(0, 33)), (slice(0, 40), slice(27, 60))]
    picture = block_map((40, 60), where).astype(int)
    left, both, right, border = picture[20, 10], picture[20, 30], picture[20, 50], picture[20, 27]
    assert np.abs(left - right).max() > 40
    assert both.mean() > left.mean() + 10 and border.mean() < left.mean() - 40


def test_blocks_side_by_side_differ_in_tint():
    where = [(slice(r, r + 10), slice(c, c + 20)) for r in range(0, 40, 10) for c in range(0, 60, 20)]
    centers = block_map((40, 60), where)[5::10, 10::20].astype(int)
    assert (np.abs(np.diff(centers, axis=0)).max(axis=2) > 20).all()
    assert (np.abs(np.diff(centers, axis=1)).max(axis=2) > 20).all()


@pytest.mark.parametrize(
    "draw",
    [
        lambda: overlay(IMAGE, LABELS[:20]),
        lambda: overlay(IMAGE, LABELS, LABELS[:, :5]),
        lambda: overlay(np.zeros((2, 2, 2, 2)), LABELS),
        lambda: overlay(IMAGE, LABELS, longest=0),
        lambda: overlay(IMAGE[:0], LABELS[:0]),
        lambda: block_map((4, 4, 4), []),
        lambda: block_map((40, 60), [(slice(0, 40),)]),
        lambda: block_map((40, 61), [], image=IMAGE),
        lambda: convergence([]),
    ],
)
def test_what_cannot_be_drawn(draw):
    with pytest.raises(InputError, match="expected"):
        draw()


def steps(number, **fields):
    return [
        Step(round=k, energy=-1e6 + 100 / k, disagreeing=max(0, 500 - 100 * k), seconds=0.1 * k, **fields)
        for k in range(1, number + 1)
    ]


@pytest.mark.parametrize("number", [1, 2, 12])
@pytest.mark.parametrize("fields", [{}, {"residual": 3.0, "relaxed_energy": 5e6, "lower_bound": -1e6 - 7, "mu": 2.0}])
def test_convergence_is_drawn_with_what_is_known(number, fields):
    picture = convergence(steps(number, **fields))
    assert picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3
    assert picture.min() < 60 and picture.mean() > 200


def test_convergence_of_an_energy_of_zero():
    assert convergence([Step(round=1, energy=0.0, residual=0.0)]).size


def test_curves_say_what_they_need(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"dope\[report\]"):
        convergence(steps(2))


def test_pictures_need_no_matplotlib():
    import subprocess

    code = "import sys, dope.report, dope.models; sys.exit('matplotlib' in sys.modules or 'PIL' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
