"""Pictures of volumes: planes that meet in the object, true proportions, a lit surface; PNG files of our own."""

import io
import os
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from dope.errors import InputError
from dope.report import block_map, overlay, slices, surface, thumbnail
from dope.report.png import encoded
from dope.report.scene import through_object

YELLOW = (255, 214, 10)


def ball(shape=(40, 40, 40), center=None, radius=12.0):
    center = [side / 2 - 0.5 for side in shape] if center is None else center
    return np.linalg.norm(np.indices(shape) - np.reshape(center, (3, 1, 1, 1)), axis=0) < radius


@st.composite
def volumes(draw):
    shape = tuple(draw(st.integers(1, 7)) for _ in range(3))
    return draw(arrays(np.bool_, shape))


@given(volumes())
def test_every_plane_meets_the_object(labels):
    for axis, k in enumerate(through_object(labels)):
        assert 0 <= k < labels.shape[axis]
        assert labels.take(k, axis=axis).any() == labels.any()


def test_planes_go_through_the_middle_of_a_box():
    labels = np.zeros((30, 40, 50), dtype=bool)
    labels[10:21, 4:15, 30:41] = True
    assert through_object(labels) == (15, 9, 35)


def test_planes_look_for_strokes():
    labels, seeds = ball(), np.zeros((40, 40, 40), dtype=np.int8)
    seeds[12, 15:25, 20] = 1
    assert through_object(labels)[0] in (19, 20) and through_object(labels, seeds)[0] == 12


@pytest.mark.parametrize("longest", [90, 300, 640])
@pytest.mark.parametrize("shape", [(40, 40, 40), (10, 60, 30), (300, 20, 20)])
def test_slices_fit(shape, longest):
    picture = slices(np.zeros(shape), ball(shape, radius=6), longest=longest)
    assert picture.dtype == np.uint8 and max(picture.shape) <= longest and picture.shape[2] == 3


def test_slices_show_the_planes_side_by_side():
    image = np.random.default_rng(0).integers(0, 255, (20, 30, 40)).astype(np.uint8)
    labels = np.ones(image.shape, dtype=bool)
    picture = slices(image, labels, longest=112)
    gap = picture.shape[1] - (40 + 40 + 30)
    assert picture.shape[0] == 30 and gap == 2
    panels = [picture[:, :40], picture[5:25, 41:81], picture[5:25, 82:]]
    for axis, (panel, k) in enumerate(zip(panels, through_object(labels), strict=True)):
        assert np.array_equal(panel[..., 0], image.take(k, axis=axis))


@pytest.mark.parametrize("spacing", [(1, 1, 1), (2, 1, 1), (1, 1, 3.0), (0.3, 0.7, 0.7)])
def test_slices_keep_true_proportions(spacing):
    """A ball of air in lengths is round in every panel."""
    shape = [round(60 / length) for length in spacing]
    places = [(np.arange(side) + 0.5) * length - 30 for side, length in zip(shape, spacing, strict=True)]
    labels = sum(np.square(line) for line in np.ix_(*places)) < 15**2
    picture = slices(None, labels, spacing=spacing, longest=600)
    width = picture.shape[1] / 3
    for k in range(3):
        panel = picture[:, round(k * width) : round((k + 1) * width)]
        rows, columns = np.nonzero((panel == YELLOW).all(axis=2))
        assert np.ptp(rows) == pytest.approx(np.ptp(columns), rel=0.12)
        assert np.ptp(rows) == pytest.approx(panel.shape[0] / 2, rel=0.15)


def test_slices_with_channels_strokes_and_a_mask():
    labels, seeds = ball(), np.zeros((40, 40, 40), dtype=np.int8)
    seeds[19:21, 19:21, 5:15] = 1
    image = np.full((40, 40, 40, 3), (200, 60, 60), dtype=np.uint8)
    picture = slices(image, labels, seeds, channels=True, mask=labels).astype(int)
    reds = (picture == (200, 60, 60)).all(axis=2)
    greens = (picture[..., 1] > picture[..., 0] + 80).sum()
    assert reds.any() and greens > 20
    with pytest.raises(InputError, match="channels says"):
        slices(image, labels)


def test_an_overlay_of_a_volume_is_its_slices():
    labels = ball()
    assert np.array_equal(overlay(None, labels, longest=120), slices(None, labels, longest=120))


def test_volumes_may_hold_no_object_or_nothing_else():
    for labels in (np.zeros((5, 6, 7), bool), np.ones((5, 6, 7), bool), np.ones((1, 1, 1), bool)):
        assert slices(None, labels).size and surface(labels, longest=40).size and thumbnail(labels)


def test_a_block_map_of_a_volume_shows_the_blocks_of_each_plane():
    cut = [slice(0, 20), slice(20, 40)]
    blocks = [(a, b, slice(0, 40)) for a in cut for b in cut]
    picture = block_map((40, 40, 40), blocks).astype(int)
    gap = (picture.shape[1] - 120) // 2
    first, second, third = (picture[:, k * (40 + gap) : k * (40 + gap) + 40] for k in range(3))
    assert np.abs(first[10, 20] - first[30, 20]).max() > 20  # rows are axis 1, cut; columns axis 2, whole
    assert np.array_equal(first[10, 5], first[10, 35]) and np.array_equal(second[10, 5], second[10, 35])
    assert len({tuple(third[r, c]) for r in (10, 30) for c in (10, 30)}) == 4


@pytest.mark.parametrize("longest", [640, 100, 1])
def test_a_ball_is_round_and_lit_from_the_upper_left(longest):
    picture = surface(ball(), longest=longest).astype(int)
    assert max(picture.shape[:2]) == longest and picture.shape[2] == 3
    if longest == 1:
        return
    rows, columns = np.nonzero(picture[..., 0] > 70)
    assert np.ptp(rows) == pytest.approx(np.ptp(columns), rel=0.08)
    height, width, _ = picture.shape
    upper_left, lower_right = picture[height * 3 // 8, width * 3 // 8], picture[height * 3 // 4, width * 3 // 4]
    assert upper_left.mean() > lower_right.mean() + 40


@pytest.mark.parametrize("spacing", [(1, 1, 4.0), (0.4, 0.4, 0.8)])
def test_the_surface_of_a_ball_in_lengths_is_round(spacing):
    shape = [round(48 * max(spacing) / length) for length in spacing]
    places = [(np.arange(side) + 0.5 - side / 2) * length for side, length in zip(shape, spacing, strict=True)]
    labels = sum(np.square(line) for line in np.ix_(*places)) < (16 * max(spacing)) ** 2
    rows, columns = np.nonzero(surface(labels, spacing=spacing, longest=200)[..., 0] > 70)
    assert np.ptp(rows) == pytest.approx(np.ptp(columns), rel=0.12)


@pytest.mark.parametrize("up", [0, 1, 2])
def test_up_is_up(up):
    """A small ball far along the axis is seen above a large one."""
    center = [20.0, 20.0, 20.0]
    high = center.copy()
    high[up] = 52.0
    shape = [64 if axis == up else 40 for axis in range(3)]
    both = ball(shape, center) | ball(shape, high, radius=5)
    bright = (surface(both, up=up, longest=200)[..., 0] > 70).sum(axis=1)
    filled = np.flatnonzero(bright)
    assert bright[filled[:40]].mean() < 0.6 * bright[filled[-40:]].mean()


def test_a_surface_is_not_a_mirror_image():
    """Turning the axes round in a circle and saying so changes nothing."""
    labels = ball((30, 36, 42), (10, 20, 22), 8) | ball((30, 36, 42), (20, 10, 30), 5)
    pictures = [
        surface(np.moveaxis(labels, (0, 1, 2), order), up=order[2], longest=120) for order in ((0, 1, 2), (1, 2, 0))
    ]
    assert np.array_equal(*pictures)


def test_thin_things_are_seen():
    thread = np.zeros((40, 40, 40), dtype=bool)
    thread[20, 20, 5:35] = True
    assert (surface(thread)[..., 0] > 70).sum() > 100
    specks = np.zeros((300, 300, 300), dtype=bool)
    specks[0, 0, 0] = specks[-1, -1, -1] = True
    assert (surface(specks)[..., 0] > 50).any()


def test_a_surface_does_not_take_long():
    noise = np.random.default_rng(0).random((96, 96, 96))
    labels = (noise < 0.5) & ball((96, 96, 96), radius=45)
    begun = time.process_time()
    surface(labels, longest=320)
    assert time.process_time() - begun < 6  # a tenth of that on an idle core; a hang is what this finds


@pytest.mark.slow
@pytest.mark.skipif("DOPE_DATA" not in os.environ, reason="DOPE_DATA is not set: no further test images")
def test_white_matter(data_folder):
    file = data_folder / "mri" / "brain_200x200x100.npz"
    if not file.exists():
        pytest.skip(f"{file} is missing")
    with np.load(file) as volume:
        t1, labels = volume["t1"], volume["prob_wm_u8"] > 127
    picture = surface(labels)
    bright = picture[..., 0] > 70
    assert 0.3 < bright.mean() < 0.95 and picture[bright].std() > 25
    assert (slices(t1, labels, longest=1280) == YELLOW).all(axis=2).mean() > 0.01


@pytest.mark.parametrize(
    "draw",
    [
        lambda: slices(None, np.ones((3, 3), bool)),
        lambda: slices(np.ones((3, 3)), np.ones((3, 3, 3), bool)),
        lambda: slices(None, np.ones((3, 3, 0), bool)),
        lambda: surface(np.ones((3, 3), bool)),
        lambda: surface(np.ones((3, 3, 3), bool), up=3),
        lambda: surface(np.ones((3, 3, 3), bool), longest=0),
        lambda: surface(np.ones((3, 3, 3), bool), spacing=(1, 1)),
        lambda: surface(np.ones((3, 3, 3), bool), spacing=(1, 1, np.nan)),
        lambda: thumbnail(np.ones(3, bool)),
    ],
)
def test_what_cannot_be_drawn(draw):
    with pytest.raises(InputError, match="expected"):
        draw()


@given(
    arrays(
        np.uint8,
        st.tuples(st.integers(1, 9), st.integers(1, 9)) | st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3)),
    )
)
def test_png_files_read_back(picture):
    with Image.open(io.BytesIO(encoded(picture))) as image:
        assert np.array_equal(np.asarray(image), picture)


def test_png_files_of_smooth_pictures_are_small():
    ramp = np.add.outer(np.arange(300), np.arange(300)).astype(np.uint8)
    assert len(encoded(ramp)) < 0.02 * ramp.size


@pytest.mark.parametrize("shape", [(40, 60), (1000, 3), (40, 50, 60)])
def test_thumbnails_are_small_and_show_the_object_bright(shape):
    labels = np.zeros(shape, dtype=bool)
    labels[: shape[0] // 2] = True
    with Image.open(io.BytesIO(thumbnail(labels))) as image:
        picture = np.asarray(image)
    assert picture.ndim == 2 and max(picture.shape) <= 256
    assert picture.max() == 236 and picture.min() <= 38
