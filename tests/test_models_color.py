"""The colour model: what it says of known mixtures, laws it keeps, and input it refuses."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dope.errors import InputError
from dope.models import channels, color, color_unary, seed_unary
from dope.models.clusters import k_means
from profiles import examples

SETTINGS = examples(30)


def two_sided(shape=(40, 60), channels=3, noise=8.0, seed=0):
    """An image whose left half is dark and right half bright, with a stroke in each."""
    draw = np.random.default_rng(seed)
    truth = np.zeros(shape, dtype=bool)
    truth[..., shape[-1] // 2 :] = True
    image = np.where(truth, 170.0, 70.0)[..., None] + draw.normal(0, noise, (*shape, channels))
    seeds = np.zeros(shape, dtype=np.int8)
    wide = max(4, shape[-1] // 10)
    seeds[..., 2 : 2 + wide] = 2
    seeds[..., -2 - wide : -2] = 1
    return np.clip(image, 0, 255).astype(np.uint8), seeds, truth


@pytest.mark.parametrize("shape", [(500,), (40, 60), (8, 10, 12)])
@pytest.mark.parametrize("channels", [1, 2, 3, 7])
def test_two_colors_are_told_apart_in_any_dimension(shape, channels):
    image, seeds, truth = two_sided(shape, channels)
    unary = color_unary(image, seeds)
    assert unary.shape == shape and unary.dtype == np.float32
    assert np.array_equal(unary < 0, truth)


def test_one_channel_and_no_channel_axis_are_the_same():
    image, seeds, _ = two_sided(channels=1)
    assert np.array_equal(color_unary(image, seeds), color_unary(image[..., 0], seeds))


def test_one_gaussian_per_label_is_the_log_ratio_of_the_densities(monkeypatch):
    monkeypatch.setattr(color, "_STRAY", 1e-30)
    monkeypatch.setattr(color, "_REGULARIZATION", 1e-9)
    draw = np.random.default_rng(1)
    image = np.concatenate([draw.normal(0, 1, 4000), draw.normal(1.5, 2, 4000)])
    seeds = np.repeat(np.array([2, 1], dtype=np.int8), 4000)
    back, fore = image[:4000], image[4000:]

    def log_density(sample):
        return -0.5 * ((image - sample.mean()) / sample.std()) ** 2 - np.log(sample.std())

    expected = np.clip(log_density(back) - log_density(fore), -10, 10)
    np.testing.assert_allclose(color_unary(image, seeds, clusters=1), expected, atol=2e-3)


def test_colors_far_from_all_strokes_say_nothing():
    image, seeds, _ = two_sided()
    image = image.astype(np.float64)
    image[0, 30:33] = (60, 900, 60), (60, 1e30, 60), (-1e300, 0, 0)
    assert np.abs(color_unary(image, seeds)[0, 30:33]).max() < 0.1


@pytest.mark.parametrize("scale", [2.0**-20, 0.5, 2.0**17])
def test_a_power_of_two_in_the_units_of_the_image_changes_nothing(scale):
    image, seeds, _ = two_sided()
    assert np.array_equal(color_unary(image * scale, seeds), color_unary(image, seeds))


@pytest.mark.parametrize(("scale", "shift"), [(1e-6, -1e-3), (3.0, 12.5), (1e5, 0.0)])
def test_units_of_the_image_do_not_matter(scale, shift):
    image, seeds, _ = two_sided()
    # One cluster each: k-means breaks ties between equal distances by the last bit.
    moved = color_unary(image * scale + shift, seeds, clusters=1)
    np.testing.assert_allclose(moved, color_unary(image, seeds, clusters=1), atol=0.02)


def test_swapping_the_strokes_turns_the_sign():
    image, seeds, _ = two_sided()
    np.testing.assert_allclose(color_unary(image, np.choose(seeds, [0, 2, 1])), -color_unary(image, seeds))


def test_the_answer_is_the_same_each_time_and_the_input_is_left_alone():
    image, seeds, _ = two_sided(noise=40)
    before = image.copy(), seeds.copy()
    assert np.array_equal(color_unary(image, seeds), color_unary(image, seeds))
    assert np.array_equal(image, before[0]) and np.array_equal(seeds, before[1])


def test_strips_do_not_show(monkeypatch):
    image, seeds, _ = two_sided()
    whole = color_unary(image, seeds)
    monkeypatch.setattr(channels, "_STRIP_NUMBERS", 3 * 97)
    np.testing.assert_allclose(color_unary(image, seeds), whole, atol=1e-4)


@pytest.mark.parametrize("clip", [0.5, 10.0])
def test_unaries_are_clipped(clip):
    image, seeds, _ = two_sided()
    unary = color_unary(image, seeds, clip=clip)
    assert np.abs(unary).max() <= clip


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.float32, np.float64, bool])
def test_any_real_type_is_welcome(dtype):
    image = np.zeros((6, 8), dtype=dtype)
    image[:, 4:] = 1
    seeds = np.zeros((6, 8), dtype=np.uint8)
    seeds[0, 0], seeds[0, 7] = 2, 1
    assert np.array_equal(color_unary(image, seeds) < 0, image != 0)


def test_a_constant_image_says_nothing():
    seeds = np.array([[1, 0, 2]])
    assert np.array_equal(color_unary(np.full((1, 3), 7), seeds), np.zeros((1, 3)))


@SETTINGS
@given(
    clusters=st.integers(1, 8),
    points=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30),
)
def test_k_means_leaves_no_cluster_empty_and_no_point_astray(clusters, points):
    x = np.array(points, dtype=np.float64)
    cluster = k_means(x, clusters)
    found = np.unique(cluster)
    assert np.array_equal(found, np.arange(len(found))) and len(found) <= clusters
    if len(np.unique(x, axis=0)) <= clusters:
        assert all(len(np.unique(x[cluster == c], axis=0)) == 1 for c in found)


def test_seeds_are_put_into_a_copy():
    unary = np.array([[0.5, -1.0], [2.0, 3.0]], dtype=np.float32)
    seeds = np.array([[1, 2], [0, 0]])
    out = seed_unary(unary, seeds, strength=50)
    assert out.tolist() == [[-50, 50], [2, 3]] and out.dtype == np.float32
    assert unary[0, 0] == 0.5


IMAGE, SEEDS = np.arange(12.0).reshape(3, 4), np.array([[1, 0, 0, 2]] * 3)


@pytest.mark.parametrize(
    ("image", "seeds", "settings", "words"),
    [
        (IMAGE, SEEDS[:2], {}, r"\(3, 4\).*\(2, 4\)"),
        (np.zeros((3, 4, 0)), SEEDS, {}, "no channels"),
        (IMAGE, np.where(SEEDS == 2, 0, SEEDS), {}, "no background"),
        (IMAGE, np.where(SEEDS == 1, 0, SEEDS), {}, "no foreground"),
        (IMAGE, np.where(SEEDS == 2, 3, SEEDS), {}, "label 3"),
        (IMAGE, np.where(SEEDS == 2, -1, SEEDS), {}, "label -1"),
        (IMAGE, SEEDS.astype(float), {}, "float64"),
        (IMAGE.astype(complex), SEEDS, {}, "complex128"),
        (IMAGE.astype(str), SEEDS, {}, "real numbers"),
        (np.where(IMAGE == 0, np.nan, IMAGE), SEEDS, {}, "NaN"),
        (np.where(IMAGE == 5, np.inf, IMAGE), SEEDS, {}, "NaN or infinite"),
        (np.zeros((0, 4)), np.zeros((0, 4), dtype=int), {}, "empty"),
        (IMAGE, SEEDS, {"clusters": 0}, "clusters is 0"),
        (IMAGE, SEEDS, {"clip": 0}, "clip is 0"),
        (IMAGE, SEEDS, {"clip": float("nan")}, "clip is nan"),
    ],
)
def test_bad_input_is_refused(image, seeds, settings, words):
    with pytest.raises(InputError, match=words):
        color_unary(image, seeds, **settings)


@pytest.mark.parametrize("strength", [0, -1, float("inf"), float("nan")])
def test_a_seed_needs_a_strength(strength):
    with pytest.raises(InputError, match="strength"):
        seed_unary(IMAGE, SEEDS, strength)


def test_seeds_and_unary_share_a_shape():
    with pytest.raises(InputError, match="same shape"):
        seed_unary(IMAGE, SEEDS[:2], 10)


@pytest.mark.slow
@pytest.mark.skipif("DOPE_DATA" not in os.environ, reason="DOPE_DATA names no folder of test images")
def test_real_strokes_lie_on_their_side_of_the_model():
    from dope.io import read_image, read_scribbles

    folder = Path(os.environ["DOPE_DATA"]) / "photos"
    image = read_image(folder / "canyon-wren.jpg")
    seeds = read_scribbles(folder / "scribbles.json", image.shape, photo="canyon-wren.jpg")
    unary = color_unary(image, seeds)
    assert (unary[seeds == 1] < 0).mean() > 0.99
    assert (unary[seeds == 2] > 0).mean() > 0.99
