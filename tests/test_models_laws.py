"""What every model promises: the same exam for all of them."""

import pickle

import numpy as np
import pytest

from dope.errors import InputError
from dope.models import ColorClusters, ColorMixture, GreyHistogram, Model, automatic_model, channels, reestimated

MODELS = [ColorClusters(), ColorMixture(), GreyHistogram()]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)


def grey(shape=(40, 60), noise=8.0):
    """A dark and a bright half, with a stroke in each."""
    draw = np.random.default_rng(0)
    truth = np.zeros(shape, dtype=bool)
    truth[..., shape[-1] // 2 :] = True
    image = np.where(truth, 170.0, 70.0) + draw.normal(0, noise, shape)
    seeds = np.zeros(shape, dtype=np.uint8)
    wide = max(4, shape[-1] // 10)
    seeds[..., 2 : 2 + wide] = 2
    seeds[..., -2 - wide : -2] = 1
    return np.clip(image, 0, 255).astype(np.uint8), seeds, truth


@every_model
@pytest.mark.parametrize("shape", [(500,), (40, 60), (8, 10, 12), (4, 5, 6, 12)])
def test_dark_and_bright_are_told_apart_in_any_dimension(model, shape):
    image, seeds, truth = grey(shape)
    unary = model.unary(image, seeds)
    assert unary.shape == shape and unary.dtype == np.float32
    assert ((unary < 0) == truth).mean() > 0.99


@every_model
def test_one_channel_and_no_channel_axis_are_the_same(model):
    image, seeds, _ = grey()
    assert np.array_equal(model.unary(image[..., None], seeds), model.unary(image, seeds))


@every_model
@pytest.mark.parametrize("scale", [2.0**-40, 2.0**30])
def test_a_power_of_two_in_the_units_changes_nothing(model, scale):
    image, seeds, _ = grey()
    assert np.array_equal(model.unary(image * scale, seeds), model.unary(image, seeds))


@every_model
@pytest.mark.parametrize(("scale", "shift"), [(1e-6, -1e-3), (3.0, 12.5), (1e300, 0.0), (1e-300, 0.0)])
def test_units_hardly_change_what_is_found(model, scale, shift):
    image, seeds, _ = grey()
    moved = model.unary(image * scale + shift, seeds)
    # The last bit decides ties of k-means and on which side of a bin's border a value falls.
    assert ((moved < 0) == (model.unary(image, seeds) < 0)).mean() > 0.99


@every_model
def test_swapping_the_strokes_turns_the_sign(model):
    image, seeds, _ = grey(noise=60)
    swapped = model.unary(image, np.choose(seeds, [0, 2, 1]))
    np.testing.assert_allclose(swapped, -model.unary(image, seeds), atol=1e-4)


@every_model
def test_the_answer_is_the_same_each_time_and_the_input_is_left_alone(model):
    image, seeds, _ = grey(noise=60)
    before = image.copy(), seeds.copy()
    image.flags.writeable = seeds.flags.writeable = False
    assert np.array_equal(model.unary(image, seeds), model.unary(image, seeds))
    assert np.array_equal(image, before[0]) and np.array_equal(seeds, before[1])


@every_model
def test_strips_do_not_show(model, monkeypatch):
    image, seeds, _ = grey()
    whole = model.unary(image, seeds)
    monkeypatch.setattr(channels, "_STRIP_NUMBERS", 97)
    monkeypatch.setattr(channels, "_SEED_STRIP", 89)
    np.testing.assert_allclose(model.unary(image, seeds), whole, atol=1e-4)


@every_model
def test_a_thinned_sample_says_about_the_same(model, monkeypatch):
    image, seeds, truth = grey((60, 80))
    monkeypatch.setattr(channels, "_FITTED_SITES", 100)
    monkeypatch.setattr(channels, "_SEED_STRIP", 89)
    assert ((model.unary(image, seeds) < 0) == truth).mean() > 0.98


@pytest.mark.parametrize(("most", "number"), [(10, 10), (7, 5), (1000, 10)])
def test_a_sample_is_evenly_thinned_whatever_the_strips(monkeypatch, most, number):
    monkeypatch.setattr(channels, "_FITTED_SITES", most)
    seeds = np.tile([1, 0, 2], 10)
    whole = channels._sample(seeds, 2)
    assert whole.size == number and (seeds[whole] == 2).all() and len(set(np.diff(whole))) == 1
    monkeypatch.setattr(channels, "_SEED_STRIP", 7)
    assert np.array_equal(channels._sample(seeds, 2), whole)


@every_model
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int16, np.uint16, np.int64, np.float16, np.float32, np.float64])
def test_any_real_type_is_welcome_and_a_site_of_each_label_is_enough(model, dtype):
    image = np.zeros((6, 8), dtype=dtype)
    image[:, 4:] = 1
    seeds = np.zeros((6, 8), dtype=np.uint8)
    seeds[0, 0], seeds[0, 7] = 2, 1
    assert np.array_equal(model.unary(image, seeds) < 0, image != 0)


@every_model
@pytest.mark.parametrize("value", [0, 7, -1e300, 1e-300])
def test_a_constant_image_says_nothing(model, value):
    seeds = np.array([[1, 0, 2]])
    assert np.array_equal(model.unary(np.full((1, 3), value), seeds), np.zeros((1, 3)))


@every_model
def test_huge_and_lone_values_leave_the_rest_as_it_was(model):
    image, seeds, truth = grey()
    image = image.astype(np.float64)
    image[0, 30], image[1, 30] = 1e308, -1e308
    unary = model.unary(image, seeds)
    assert np.isfinite(unary).all() and ((unary < 0) == truth).mean() > 0.99


@pytest.mark.parametrize("model", MODELS[:2], ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("sites", [1, 30])
def test_two_hundred_channels_and_fewer_sites(model, sites):
    draw = np.random.default_rng(3)
    truth = np.arange(80) >= 40
    image = draw.normal(0, 1, (80, 200)) + np.where(truth, 1, -1)[:, None]
    seeds = np.zeros(80, dtype=int)
    seeds[:sites], seeds[-sites:] = 2, 1
    assert np.array_equal(model.unary(image, seeds) < 0, truth)


@every_model
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("at", [(0, 30), (3, 3)])
def test_what_is_not_a_number_is_refused(model, value, at):
    image, seeds, _ = grey()
    image = image.astype(np.float32)
    image[at] = value
    with pytest.raises(InputError, match="NaN or infinite"):
        model.unary(image, seeds)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (ColorClusters(clusters=0), "clusters is 0"),
        (ColorMixture(clusters=0), "clusters is 0"),
        (ColorMixture(rounds=-1), "rounds is -1"),
        (GreyHistogram(bins=1), "bins is 1"),
        (GreyHistogram(width=0), "width is 0"),
        (ColorClusters(clip=0), "clip is 0"),
        (GreyHistogram(clip=float("nan")), "clip is nan"),
    ],
)
def test_senseless_settings_are_refused(model, words):
    image, seeds, _ = grey()
    with pytest.raises(InputError, match=words):
        model.unary(image, seeds)


def test_a_histogram_is_of_one_channel():
    image, seeds, _ = grey()
    with pytest.raises(InputError, match="3 channels"):
        GreyHistogram().unary(np.stack([image] * 3, axis=-1), seeds)


def test_an_image_of_nearly_one_value_still_shows_its_rest():
    image = np.zeros(10_000)
    image[:4] = 5
    seeds = np.zeros(10_000, dtype=int)
    seeds[:2], seeds[-50:] = 1, 2
    assert np.array_equal(GreyHistogram().unary(image, seeds) < 0, image > 0)


@every_model
def test_a_model_is_a_small_value(model):
    assert isinstance(model, Model) and pickle.loads(pickle.dumps(model)) == model


@pytest.mark.parametrize(
    ("shape", "kind"), [((4, 5), GreyHistogram), ((4, 5, 1), GreyHistogram), ((4, 5, 3), ColorClusters)]
)
def test_the_automatic_model_goes_by_channels(shape, kind):
    assert isinstance(automatic_model(np.zeros(shape), (4, 5)), kind)


def test_the_automatic_model_refuses_shapes_that_do_not_belong_together():
    with pytest.raises(InputError, match="without its channels"):
        automatic_model(np.zeros((4, 6)), (4, 5))


@every_model
def test_fitting_again_to_the_strokes_alone_changes_nothing(model):
    image, seeds, _ = grey()
    image, seeds = image[:, [2, 3, 4, 55, 56, 57]], seeds[:, [2, 3, 4, 55, 56, 57]]
    assert (seeds > 0).all()
    again = reestimated(model, image, seeds=seeds, labels=seeds == 2)  # seeds keep what the user said
    assert np.array_equal(again, model.unary(image, seeds))


def test_fitting_again_takes_labels_for_strokes():
    image, seeds, truth = grey()
    again = reestimated(ColorClusters(), image, seeds=seeds, labels=truth)
    assert np.array_equal(again, ColorClusters().unary(image, np.where(truth, 1, 2)))


def test_fitting_again_needs_both_labels():
    image, seeds, _ = grey()
    with pytest.raises(InputError, match="no foreground"):
        reestimated(ColorClusters(), image, seeds=np.where(seeds == 1, 0, seeds), labels=np.zeros(seeds.shape, bool))
