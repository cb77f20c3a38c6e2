"""`dope.segment`: every kind of array and every kind of knowledge in, labels that lie on the image out."""

from typing import Any

import dask.array
import numpy as np
import pytest
import xarray
import zarr

import dope
from dope import InputError, Segmentation
from dope.models import ColorClusters, ColorMixture, GreyHistogram


def disc(shape=(48, 64), radius=14):
    middle = (np.array(shape) - 1) / 2
    away = np.indices(shape) - middle.reshape(-1, *[1] * len(shape))
    return np.sqrt((away**2).sum(axis=0)) < radius


def picture(truth, channels=3, seed=0):
    """A bright object on dark ground, with noise."""
    rng = np.random.default_rng(seed)
    colors = np.where(truth[..., None], [180, 150, 60][:channels], [60, 70, 90][:channels])
    return np.clip(colors + rng.normal(0, 15, colors.shape), 0, 255).astype(np.uint8)


def strokes(truth):
    seeds = np.zeros(truth.shape, dtype=np.uint8)
    middle = tuple(n // 2 for n in truth.shape)
    seeds[tuple(slice(m - 2, m + 3) for m in middle)] = 1
    seeds[:2] = 2
    return seeds


TRUTH = disc()
IMAGE, STROKES = picture(TRUTH), strokes(TRUTH)


def wrong(result, truth=TRUTH):
    return np.mean(np.asarray(result.labels) != truth)


def test_strokes_on_a_colour_photo():
    result = dope.segment(IMAGE, scribbles=STROKES)
    assert wrong(result) < 0.01
    assert result.labels.dtype == bool and result.labels.shape == TRUTH.shape
    assert result.labels[STROKES == 1].all() and not result.labels[STROKES == 2].any()
    assert result.exact
    assert dope.verify(result.problem, result.labels[result.where], result.certificate)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16, np.int32, np.float32, np.float64, np.bool_])
@pytest.mark.parametrize("channels", ["grey", "last", "first", "many"])
def test_any_type_and_any_channels(dtype, channels):
    image = picture(TRUTH, channels=1)[..., 0] if channels == "grey" else IMAGE
    if dtype is np.bool_:
        image = image > 110
    axis = None
    if channels == "first":
        image, axis = np.moveaxis(image, -1, 0), 0
    if channels == "many":
        image = np.concatenate([image, image[..., ::-1], image], axis=-1)
    result = dope.segment(image.astype(dtype), scribbles=STROKES, channel_axis=axis)
    assert result.labels.shape == TRUTH.shape
    assert wrong(result) < 0.03


def test_volumes_and_spacing():
    truth = disc((20, 24, 28), 8)
    image = picture(truth, channels=1)[..., 0]
    result = dope.segment(image, scribbles=strokes(truth), spacing=(2.0, 1.0, 1.0), kernel=5)
    assert wrong(result, truth) < 0.02


@pytest.mark.parametrize("wrap", ["memmap", "dask", "zarr", "list"])
def test_arrays_that_lie_elsewhere_give_the_same_labels(wrap, tmp_path):
    expected = dope.segment(IMAGE, scribbles=STROKES).labels
    if wrap == "memmap":
        np.save(tmp_path / "image.npy", IMAGE)
        image = np.load(tmp_path / "image.npy", mmap_mode="r")
    elif wrap == "dask":
        image = dask.array.from_array(IMAGE, chunks=(16, 16, 3))
    elif wrap == "zarr":
        image = zarr.create_array(store=str(tmp_path / "image.zarr"), shape=IMAGE.shape, dtype=IMAGE.dtype)
        image[:] = IMAGE
    else:
        image = IMAGE.tolist()
    labels = dope.segment(image, scribbles=STROKES).labels
    np.testing.assert_array_equal(labels, expected)
    assert isinstance(labels, np.ndarray)


def test_xarray_keeps_dimensions_and_coordinates():
    coordinates = {"y": np.arange(48) * 0.5, "x": np.arange(64) * 0.25 + 3, "band": ["r", "g", "b"], "day": 7}
    image = xarray.DataArray(IMAGE, dims=("y", "x", "band"), coords=coordinates, attrs={"units": "counts"})
    labels: Any = dope.segment(image, scribbles=xarray.DataArray(STROKES, dims=("y", "x"))).labels
    assert labels.dims == ("y", "x") and labels.dtype == bool
    xarray.testing.assert_equal(labels.y, image.y)
    xarray.testing.assert_equal(labels.x, image.x)
    assert int(labels.day) == 7 and "band" not in labels.coords
    np.testing.assert_array_equal(labels.values, dope.segment(IMAGE, scribbles=STROKES).labels)


def test_a_probability_map():
    rng = np.random.default_rng(1)
    probability = np.clip(np.where(TRUTH, 0.7, 0.3) + rng.normal(0, 0.25, TRUTH.shape), 0, 1).astype(np.float32)
    assert (np.mean((probability > 0.5) != TRUTH)) > 0.1
    result = dope.segment(IMAGE, probability=probability)
    assert wrong(result) < 0.02
    stroked = dope.segment(IMAGE, probability=probability, scribbles=STROKES)
    assert stroked.labels[STROKES == 1].all()
    whole = dope.segment(IMAGE, probability=np.rint(probability * 255).astype(np.uint8))
    assert np.mean(whole.labels != result.labels) < 0.01


def test_a_unary_is_minimized_as_it_is():
    unary = np.random.default_rng(2).normal(0, 1, TRUTH.shape)
    result = dope.segment(IMAGE, unary=unary, lam=0.3)
    same = dope.minimize(dope.Energy.grid(unary, lam=0.3, features=IMAGE))
    np.testing.assert_array_equal(result.labels, same.labels)
    assert result.energy == same.energy


def test_a_mask_leaves_the_rest_out():
    mask = np.zeros(TRUTH.shape, dtype=bool)
    mask[5:40, 10:50] = True
    mask[20:25, 10:14] = False
    image = IMAGE.astype(np.float32)
    image[~mask] = np.nan
    seeds = np.zeros_like(STROKES)
    seeds[22:26, 30:34], seeds[6:8, 11:49] = 1, 2
    result = dope.segment(image, scribbles=seeds, mask=mask)
    assert not result.labels[~mask].any()
    assert np.mean(result.labels[mask] != TRUTH[mask]) < 0.01
    assert result.where == (slice(5, 40), slice(10, 50))


def test_a_margin_restricts_to_the_strokes_box():
    seeds = np.zeros_like(STROKES)
    seeds[22:26, 30:34], seeds[4:6, 12:52] = 1, 2
    result = dope.segment(IMAGE, scribbles=seeds, margin=1.0)
    assert result.where == (slice(0, 48), slice(0, 64))
    near = dope.segment(IMAGE, scribbles=seeds, margin=0.1)
    assert near.where == (slice(1, 29), slice(8, 56))
    assert near.labels.shape == TRUTH.shape and not near.labels[30:].any()


@pytest.mark.parametrize(
    "known", [{"rectangle": [(6, 42), (12, 52)]}, {"lasso": [(5, 32), (24, 10), (43, 32), (24, 54)]}]
)
def test_rectangle_and_lasso(known):
    result = dope.segment(IMAGE, **known)
    assert wrong(result) < 0.02


@pytest.mark.parametrize("model", [ColorClusters(), ColorMixture(), GreyHistogram()], ids=lambda m: type(m).__name__)
def test_every_model(model):
    image = picture(TRUTH, channels=1)[..., 0] if isinstance(model, GreyHistogram) else IMAGE
    assert wrong(dope.segment(image, scribbles=STROKES, model=model)) < 0.03


def test_connected_keeps_what_hangs_together_with_a_stroke():
    truth = TRUTH.copy()
    truth[40:46, 2:12] = True
    image = picture(truth)
    plain, kept = (dope.segment(image, scribbles=STROKES, connected=c) for c in (False, True))
    assert plain.labels[40:46, 2:12].mean() > 0.9 and plain.exact
    assert not kept.labels[40:46, 2:12].any() and not kept.exact
    assert kept.problem is not None and kept.energy == kept.problem(kept.labels)
    assert kept.lower_bound <= plain.energy <= kept.energy


def test_the_stated_energy_is_the_one_that_is_minimized():
    energy, where = Segmentation(image=IMAGE, scribbles=STROKES, kernel=5).energy()
    result = dope.segment(IMAGE, scribbles=STROKES, kernel=5)
    assert energy(result.labels[where]) == result.energy


def test_going_on_after_another_stroke():
    first = dope.segment(IMAGE, scribbles=STROKES, blocks=4)
    seeds = STROKES.copy()
    seeds[30:34, 30:34] = 1
    again = dope.segment(IMAGE, scribbles=seeds, blocks=4, start=first)
    np.testing.assert_array_equal(again.labels, dope.segment(IMAGE, scribbles=seeds, blocks=4).labels)


BAD = {
    "nothing": ({}, "nothing is known"),
    "two sources": ({"probability": TRUTH * 1.0, "unary": TRUTH * 1.0}, "probability and unary are given"),
    "another size": ({"scribbles": STROKES[1:]}, "the image is shaped .* expected the same shape"),
    "one kind": ({"scribbles": np.where(STROKES == 2, 0, STROKES)}, "no background"),
    "above 1": ({"probability": TRUTH * 2.0}, "probability"),
    "NaN": ({"probability": np.where(TRUTH, np.nan, 0.5)}, "probability"),
    "mask": ({"scribbles": STROKES, "mask": TRUTH[1:]}, "mask is shaped"),
    "empty mask": ({"scribbles": STROKES, "mask": TRUTH & False}, "no site inside"),
    "lam": ({"scribbles": STROKES, "lam": "much"}, "lam is 'much'"),
    "rounds": ({"probability": TRUTH * 1.0, "rounds": 2}, "rounds are for models"),
    "memory": ({"scribbles": STROKES, "memory": "1kB"}, "1 kB of memory are too little"),
    "memory in words": ({"scribbles": STROKES, "memory": "much"}, "not a size of memory"),
    "channel axis": ({"scribbles": STROKES, "channel_axis": 5}, "channel_axis is 5"),
    "margin": ({"probability": TRUTH * 1.0, "margin": 0.1}, "margin is given without strokes"),
    "spacing": ({"scribbles": STROKES, "spacing": (1.0,)}, "spacing"),
    "kernel": ({"scribbles": STROKES, "kernel": 4}, "kernel is 4"),
    "margin in words": ({"scribbles": STROKES, "margin": "wide"}, "margin is 'wide'"),
    "mask apart from the strokes": (
        {"scribbles": STROKES, "mask": np.arange(48)[:, None] + np.zeros(64) > 40, "margin": 0.1},
        "lie apart",
    ),
    "huge lam": ({"scribbles": STROKES, "lam": 1e100}, "strokes take up to"),
    "no lam": ({"scribbles": STROKES, "lam": None}, "lam is None"),
    "flat rectangle": ({"rectangle": (3, 5, 18, 25)}, "a start and a stop for each axis"),
    "rectangle in words": ({"rectangle": "3:18,5:25"}, "a start and a stop for each axis"),
    "model": ({"scribbles": STROKES, "model": 3}, "model is 3"),
    "watch": ({"scribbles": STROKES, "watch": "x"}, "watch is 'x'"),
    "start": ({"scribbles": STROKES, "start": "x"}, "start is of type str"),
    "start in numbers": ({"probability": TRUTH * 1.0, "start": 3}, "start is of type int"),
    "checkpoint": ({"probability": TRUTH * 1.0, "checkpoint": 3}, "checkpoint is 3; expected the path of a folder"),
    "resume": ({"scribbles": STROKES, "resume": 3}, "resume is 3; expected the path of a folder"),
    "connected": ({"scribbles": STROKES, "connected": "yes"}, "connected is 'yes'; expected True or False"),
    "method": ({"scribbles": STROKES, "method": "exact"}, r"method is 'exact'; expected an object such as dope.Exact"),
    "foreground outside": ({"scribbles": STROKES, "mask": STROKES != 1}, "no foreground stroke lies inside the mask"),
    "background outside": ({"scribbles": STROKES, "mask": STROKES != 2}, "no background stroke lies inside the mask"),
}


@pytest.mark.parametrize(("arguments", "words"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused_in_words(arguments, words):
    with pytest.raises(InputError, match=words):
        dope.segment(IMAGE, **arguments)


@pytest.mark.parametrize("known", ["scribbles", "rectangle", "probability"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_models_see_nothing_of_what_lies_outside_a_mask(known, dtype):
    truth = disc((24, 30), 8)
    image = picture(truth, channels=1)[..., 0].astype(dtype)
    mask = np.random.default_rng(0).random(truth.shape) < 0.7
    seeds = np.zeros(truth.shape, np.uint8)
    seeds[10:14, 12:18], seeds[:2] = 1, 2
    probability = np.where(truth, 0.7, 0.3)
    said = {"scribbles": seeds, "rectangle": ((2, 22), (3, 27)), "probability": probability}
    results = []
    for rubbish in (0, 100, 255):
        other, map_ = image.copy(), probability.copy()
        other[~mask], map_[~mask] = rubbish, np.nan
        value = map_ if known == "probability" else said[known]
        results.append(dope.segment(other, mask=mask, **{known: value}))
    assert {result.energy for result in results} == {results[0].energy}
    assert all(np.array_equal(result.labels, results[0].labels) for result in results)


def test_tiny_numbers_are_an_image_of_one_value():
    grey = IMAGE[..., 0] / 255 * 5e-324
    assert dope.segment(grey, scribbles=STROKES).labels[STROKES == 1].all()


def test_strings_and_complex_images_are_refused():
    with pytest.raises(InputError, match="image has dtype"):
        dope.segment(IMAGE.astype(complex), scribbles=STROKES)
    with pytest.raises(InputError, match="image has dtype"):
        dope.segment(np.full(IMAGE.shape, "red"), scribbles=STROKES)
    for image in (None, 3):
        with pytest.raises(InputError, match=r"expected an array. dope.io.load"):
            dope.segment(image, scribbles=STROKES)
    with pytest.raises(InputError, match=r"photo\.png: no such file"):
        dope.segment("photo.png", scribbles=STROKES)


def test_a_result_shows_itself():
    result = dope.segment(IMAGE, scribbles=STROKES, blocks=4)
    page = result._repr_html_()
    assert "data:image/png;base64," in page and "exact" in page
    assert len(result.plot(IMAGE).axes) >= 3
    assert len(result.plot().axes) >= 3
    first = dope.segment(np.moveaxis(IMAGE, -1, 0), scribbles=STROKES, channel_axis=0)
    assert first.plot(np.moveaxis(IMAGE, -1, 0), channel_axis=0).axes
    line = dope.minimize(dope.Energy.grid(np.array([1.0, -1.0, 2.0])))
    assert "<table>" in line._repr_html_() and "<img" not in line._repr_html_()


@pytest.mark.parametrize("more", [{}, {"method": dope.Bracketing(), "blocks": 4}], ids=["whole", "boxes"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", ["image", "image with channels", "probability", "unary"])
def test_what_is_not_finite_is_named_with_its_place_in_the_image(name, masked, more):
    image = (IMAGE if name == "image with channels" else IMAGE[..., 0]).astype(np.float32)
    known = "unary" if name == "unary" else "probability"
    arguments: dict[str, Any] = {"image": image, known: np.where(TRUTH, 0.7, 0.3)}
    if masked:
        arguments["mask"] = np.zeros(TRUTH.shape, dtype=bool)
        arguments["mask"][8:40, 5:60] = True
        for each in ("image", known):
            arguments[each][0, 0] = np.nan  # nobody looks there
        dope.segment(**arguments, **more)
    arguments[name.split()[0]][30, 50] = np.inf
    with pytest.raises(InputError, match=rf"^{name.split()[0]} holds inf at \(30, 50\)"):
        dope.segment(**arguments, **more)


@pytest.mark.parametrize("known", [{"scribbles": STROKES}, {"rectangle": ((5, 45), (5, 60))}], ids=["strokes", "box"])
def test_a_pixel_that_is_not_finite_is_named_where_colours_are_learnt(known):
    image = IMAGE.astype(np.float64)
    image[0, 3, 1] = np.nan
    with pytest.raises(InputError, match=r"^image holds nan at \(0, 3\)"):
        dope.segment(image, **known)
