"""Pictures of a run: sizes, colours where they belong, arrays left alone."""

import sys

import numpy as np
import pytest

from dope.errors import InputError, MissingExtraError
from dope.report import block_map, convergence, overlay
from dope.steps import AdmmStep, Step
from profiles import slow_but

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


def test_a_square_cut_off_by_the_border_is_the_mean_of_what_is_left():
    image = np.arange(35, dtype=np.uint8).reshape(5, 7)
    picture = overlay(image, np.ones((5, 7), dtype=bool), longest=3)
    assert picture.shape == (2, 3, 3)
    assert np.array_equal(
        picture[..., 0], np.rint([[image[r : r + 3, c : c + 3].mean() for c in (0, 3, 6)] for r in (0, 3)])
    )


def test_a_few_hot_pixels_do_not_darken_the_rest():
    image = np.linspace(0, 1, 2400).reshape(40, 60)
    image[0, 0], image[-1, -1] = -1e9, 1e9
    picture = overlay(image, np.ones((40, 60), dtype=bool))
    assert picture[..., 0].std() > 60 and picture[0, 0, 0] == 0 and picture[-1, -1, 0] == 255


@pytest.mark.parametrize("longest", [60, 20])
def test_what_is_not_a_number_is_black_and_spoils_no_neighbor(longest):
    image = np.linspace(1, 2, 2400, dtype=np.float32).reshape(40, 60)
    image[:6, :6], image[20, 30] = np.nan, np.inf
    picture = overlay(image, np.ones((40, 60), dtype=bool), longest=longest)
    assert picture[0, 0].max() == 0 and picture[-1, -1].min() == 255
    step = 60 // longest
    assert longest == 60 or picture[20 // step, 30 // step].min() > 100


def test_levels_are_those_inside_of_the_mask():
    image, mask = np.full((40, 60), 1e6), LABELS
    image[mask] = np.linspace(0, 1, mask.sum())
    inside = overlay(image, np.ones((40, 60), dtype=bool), mask=mask)[mask]
    assert inside.min() == 0 and inside.max() == 255


def test_outside_of_the_mask_is_greyed():
    mask = np.ones((40, 60), dtype=bool)
    mask[:, 40:] = False
    picture = overlay(IMAGE, np.zeros((40, 60), dtype=bool), mask=mask).astype(int)
    assert np.array_equal(picture[:, :40], overlay(IMAGE, np.zeros((40, 60), dtype=bool))[:, :40])
    assert np.abs(picture[:, 41:] - (128, 128, 134)).max() < 30


def test_a_thin_stroke_is_seen_in_a_small_picture():
    seeds = np.zeros((400, 600), dtype=np.int8)
    seeds[200] = 1
    picture = overlay(np.full((400, 600), 90, np.uint8), np.ones((400, 600), bool), seeds, longest=60).astype(int)
    assert (picture[20, :, 1] > picture[20, :, 0] + 80).all()


def test_labels_are_shown_without_an_image():
    picture = overlay(None, LABELS)
    assert picture.shape == (40, 60, 3) and picture[20, 30].min() > 150 and picture[2, 2].max() < 120


@pytest.mark.parametrize(("spacing", "shape"), [((1, 1), (40, 60)), ((2, 1), (80, 60)), ((0.5, 1.5), (40, 180))])
def test_spacing_gives_true_proportions(spacing, shape):
    assert overlay(IMAGE, LABELS, spacing=spacing).shape == (*shape, 3)
    assert block_map((40, 60), [], spacing=spacing).shape == (*shape, 3)


def test_zoom_repeats_sites():
    picture = overlay(IMAGE, np.ones((40, 60), dtype=bool), zoom=3)
    assert np.array_equal(picture, IMAGE.repeat(3, axis=0).repeat(3, axis=1))
    assert overlay(IMAGE, LABELS, zoom=9, longest=130).shape == (80, 120, 3)


def test_a_large_image_is_not_copied():
    import tracemalloc

    image, labels = np.ones((3000, 3000), dtype=np.float32), np.ones((3000, 3000), dtype=bool)
    seeds = np.zeros((3000, 3000), dtype=np.int8)
    tracemalloc.start()
    overlay(image, labels, seeds, mask=labels, longest=300)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < labels.nbytes


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
        lambda: overlay(None, LABELS[0]),
        lambda: overlay(IMAGE, LABELS, mask=LABELS[:5]),
        lambda: overlay(IMAGE[..., :0], LABELS),
        lambda: overlay(IMAGE, LABELS, spacing=(1, 0)),
        lambda: overlay(IMAGE, LABELS, spacing=(1, 1, 1)),
        lambda: block_map((4,), []),
        lambda: block_map((4, 4, 4, 4), []),
        lambda: block_map((4, 4, 4), [(slice(0, 4), slice(0, 4))]),
        lambda: block_map((40, 60), [(slice(0, 40),)]),
        lambda: block_map((40, 61), [], image=IMAGE),
        lambda: convergence([]),
    ],
)
def test_what_cannot_be_drawn(draw):
    with pytest.raises(InputError, match="expected"):
        draw()


OF_ADMM = {"mu": 2.0, "residual": 3.0, "relaxed_energy": 5e6, "shares": 0.0, "multipliers": 0.0, "penalty": 0.0}


def steps(number, kind=Step, **fields):
    return [
        kind(round=k, energy=-1e6 + 100 / k, disagreeing=max(0, 500 - 100 * k), seconds=0.1 * k, **fields)
        for k in range(1, number + 1)
    ]


@pytest.mark.parametrize("number", slow_but([1, 2, 12], quick=[1, 12]))
@pytest.mark.parametrize("fields", [{}, {"kind": AdmmStep, "lower_bound": -1e6 - 7, **OF_ADMM}])
def test_convergence_is_drawn_with_what_is_known(number, fields):
    picture = convergence(steps(number, **fields))
    assert picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3
    assert picture.min() < 60 and picture.mean() > 200


def test_convergence_of_an_energy_of_zero():
    assert convergence([AdmmStep(round=1, energy=0.0, **(OF_ADMM | {"residual": 0.0}))]).size


def test_curves_say_what_they_need(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"dope\[report\]"):
        convergence(steps(2))


def test_pictures_need_no_matplotlib():
    import subprocess

    code = "import sys, dope.report, dope.models; sys.exit('matplotlib' in sys.modules or 'PIL' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
