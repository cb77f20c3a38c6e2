"""Pairs of a grid: the default beta and what labels pay, against plainer ways to the same numbers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import _core
from dope.pairs import GridPairs, half_offsets, mean_contrast_beta
from oracles import site_pairs
from profiles import examples

PIXELS = [np.uint8, np.uint16, np.int16, np.float32, np.float64, np.bool_, np.int8, np.int32, np.float16]

seeds = st.integers(0, 2**32 - 1)


def random_shape(rng, most=(60, 12, 6)):
    dimension = int(rng.integers(1, 4))
    return tuple(int(n) for n in rng.integers(1, most[dimension - 1], size=dimension))


def random_features(rng, shape):
    """Of any type, and side by side in memory or not."""
    channels = int(rng.choice([1, 2, 3, 5]))
    dtype = rng.choice(PIXELS)
    features = (rng.normal(size=(*shape, channels)) * rng.choice([1.0, 30.0])).clip(0, 100).astype(dtype)
    way = rng.integers(5)
    if way == 0:
        features = np.ascontiguousarray(np.moveaxis(features, -1, 0))
        features = np.moveaxis(features, 0, -1)
    elif way == 1:
        features = np.asfortranarray(features)
    elif way == 2:
        features = np.repeat(features, 2, axis=0)[::2]
    elif way == 3:  # not a whole number of elements apart
        packed = np.zeros(features.shape, dtype=[("x", dtype), ("rest", np.uint8)])
        packed["x"] = features
        features = packed["x"]
    return features


def random_pairs(rng, shape):
    offsets = half_offsets(int(rng.choice([3, 5])), len(shape))
    factors = rng.uniform(-1, 1, len(offsets))
    features = random_features(rng, shape) if rng.random() < 0.7 else None
    fields = counts = None
    if rng.random() < 0.4:
        fields = tuple(rng.normal(size=shape).astype(rng.choice([np.float32, np.float64])) for _ in offsets)
    if rng.random() < 0.4:
        counts = tuple(rng.integers(1, 4, n).astype(float) for n in shape)
    beta = float(rng.choice([0.0, 1e-3, 0.1]))
    bounds = np.stack([-np.abs(factors), np.abs(factors)], axis=1)
    return GridPairs(shape, offsets, factors, bounds, features=features, beta=beta, fields=fields, counts=counts)


def random_labels(rng, shape):
    return rng.random(shape) < rng.choice([0.0, 0.05, 0.5])


@examples(150)
@given(seeds)
def test_beta_is_its_definition_in_whole_units(seed):
    rng = np.random.default_rng(seed)
    shape = random_shape(rng)
    features = random_features(rng, shape)
    offsets = half_offsets(3, len(shape))
    x = features.astype(float)
    spread = x.reshape(-1, x.shape[-1]).max(axis=0) - x.reshape(-1, x.shape[-1]).min(axis=0)
    widest = float((spread * spread).sum())
    unit = math.ldexp(1.0, math.frexp(widest)[1] - 40)
    terms = [round(float(sum((x[p] - x[q]) ** 2)) / unit) for p, q, _ in site_pairs(shape, offsets)]
    expected = len(terms) / (2.0 * sum(terms) * unit) if sum(terms) else 0.0
    assert mean_contrast_beta(features, offsets) == expected


def test_beta_of_a_large_image_does_not_see_how_it_lies_in_memory():
    rng = np.random.default_rng(5)
    image = rng.integers(0, 256, (700, 900, 3), dtype=np.uint8)
    offsets = half_offsets(7, 2)
    whole = mean_contrast_beta(image, offsets)
    assert whole == mean_contrast_beta(image.astype(np.int64), offsets)
    assert whole == mean_contrast_beta(image.astype(np.float32), offsets)
    assert whole == mean_contrast_beta(np.asfortranarray(image), offsets)
    assert whole == mean_contrast_beta(image[..., ::-1], offsets)


@examples(150)
@given(seeds)
def test_labels_pay_the_weights_of_the_pairs_they_part(seed):
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng, random_shape(rng))
    labels = random_labels(rng, pairs.shape)
    first, second, weights = pairs.edges()
    apart = labels.ravel()[first] != labels.ravel()[second]
    expected = math.fsum(weights[apart].tolist())
    scale = math.fsum(np.abs(weights[apart]).tolist())
    assert pairs.roughness(labels) == pytest.approx(expected, rel=1e-13, abs=1e-13 * scale)
    assert pairs.roughness(labels.astype(float)) == pytest.approx(expected, rel=1e-13, abs=1e-13 * scale)


@examples(100)
@given(seeds)
def test_numbers_pay_the_weight_times_the_square_of_their_difference(seed):
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng, random_shape(rng))
    y = np.where(rng.random(pairs.shape) < 0.2, rng.normal(size=pairs.shape), random_labels(rng, pairs.shape))
    first, second, weights = pairs.edges()
    terms = weights * (y.ravel()[first] - y.ravel()[second]) ** 2
    close = pytest.approx(math.fsum(terms.tolist()), rel=1e-12, abs=1e-12 * math.fsum(np.abs(terms).tolist()))
    assert pairs.roughness(y) == close
    assert pairs.roughness(np.asfortranarray(y)) == close
    assert pairs.roughness(y.astype(np.longdouble)) == close  # what the core does not take


@examples(100)
@given(seeds)
def test_the_core_adds_up_its_own_weights_and_rounds_once(seed):
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng, random_shape(rng, most=(3000, 60, 12)))
    labels = random_labels(rng, pairs.shape)
    weights = pairs.native()
    low = [int(rng.integers(0, n)) for n in pairs.shape]
    high = [int(rng.integers(a, n + 1)) for a, n in zip(low, pairs.shape, strict=True)]
    inside = np.zeros(pairs.shape, bool)
    inside[tuple(slice(a, b) for a, b in zip(low, high, strict=True))] = True
    terms = []
    for m, offset in enumerate(pairs.offsets[pairs.fits].tolist()):
        other = np.full(pairs.shape, 2)
        tail = tuple(slice(max(0, -s), n - max(0, s)) for s, n in zip(offset, pairs.shape, strict=True))
        head = tuple(slice(max(0, s), n - max(0, -s)) for s, n in zip(offset, pairs.shape, strict=True))
        other[tail] = labels[head]
        terms += weights.weights(m)[inside & (other != 2) & (other != labels)].tolist()
    assert _core.roughness(weights, labels, low, high) == math.fsum(terms)
    assert _core.roughness(weights, ~labels, low, high) == math.fsum(terms)


def test_roughness_adds_up_over_boxes():
    rng = np.random.default_rng(3)
    image = rng.integers(0, 256, (90, 2100, 3), dtype=np.uint8)
    pairs = dope.Energy.grid(np.zeros((90, 2100)), features=image, kernel=7).pairs
    labels = rng.random((90, 2100)) < 0.3
    boxes = [(slice(a, a + 30), slice(b, b + 700)) for a in range(0, 90, 30) for b in range(0, 2100, 700)]
    parts = [pairs.roughness(labels, box) for box in boxes]
    assert math.fsum(parts) == pytest.approx(pairs.roughness(labels), rel=1e-15)


@examples(30)
@given(seeds)
def test_labels_may_lie_anywhere_and_be_any_byte(seed):
    rng = np.random.default_rng(seed)
    pairs = dope.Energy.grid(np.zeros((20, 70)), features=rng.random((20, 70))).pairs
    labels = random_labels(rng, (20, 70))
    expected = pairs.roughness(labels)
    assert pairs.roughness(np.asfortranarray(labels)) == expected
    assert pairs.roughness(np.repeat(labels, 2, axis=1)[:, ::2]) == expected
    odd = (labels * rng.integers(1, 256, labels.shape)).astype(np.uint8).view(np.bool_)
    assert pairs.roughness(odd) == expected


def test_sums_beyond_float64_are_infinite():
    field = np.full((4, 300), 4e307)
    pairs = dope.Energy.grid(np.zeros((4, 300)), kernel=[[0, 1]], weights=[field]).pairs
    labels = np.zeros((4, 300), bool)
    labels[:, ::2] = True
    assert pairs.roughness(labels) == math.inf


def test_roughness_refuses_what_it_cannot_use():
    weights = _core.GridWeights((4, 4), np.array([[0, 1]]), np.ones(1))
    labels = np.zeros((4, 4), bool)
    with pytest.raises(TypeError, match="y has dtype float32: expected bool or float64"):
        _core.roughness(weights, labels.astype(np.float32), (0, 0), (4, 4))
    for dtype in (bool, float):
        with pytest.raises(ValueError, match=r"y has shape \(4, 3\)"):
            _core.roughness(weights, labels[:, 1:].astype(dtype), (0, 0), (4, 4))
    with pytest.raises(ValueError, match="leaves the grid"):
        _core.roughness(weights, labels, (0, 0), (4, 5))
    assert _core.roughness(weights, labels, (2, 2), (1, 1)) == 0.0


def test_a_crop_is_read_where_it_lies():
    image = np.arange(2 * 50 * 60 * 3, dtype=np.float64).reshape(2, 50, 60, 3)
    pairs = dope.Energy.grid(np.zeros((2, 50, 60)), features=image, beta=1e-9).pairs
    where = (slice(0, 2), slice(10, 30), slice(5, 40))
    crop = pairs.crop(where)
    inside = pairs.native().weights(0)[where].copy()
    found = crop.native().weights(0)
    known = found != 0.0
    assert known.any() and (found[known] == inside[known]).all()
