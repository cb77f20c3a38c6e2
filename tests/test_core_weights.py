"""The native core: pair weights, their coupling between blocks, and contrast, against NumPy."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dope import _core
from profiles import examples


def half_kernel(dimension, radius, rng):
    """Half of a cube of offsets, with signs at random."""
    cube = itertools.product(range(-radius, radius + 1), repeat=dimension)
    half = np.array([o for o in cube if o > (0,) * dimension], dtype=np.int64)
    return half * rng.choice([-1, 1], size=(len(half), 1))


def ends(shape, offset):
    """Slices of p and of p + offset, or None where no pair exists."""
    if any(abs(s) >= n for s, n in zip(offset, shape, strict=True)):
        return None
    tail = tuple(slice(max(0, -s), n - max(0, s)) for s, n in zip(offset, shape, strict=True))
    head = tuple(slice(max(0, s), n - max(0, -s)) for s, n in zip(offset, shape, strict=True))
    return tail, head


def outer(counts):
    return np.prod(np.meshgrid(*counts, indexing="ij"), axis=0)


seeds = st.integers(0, 2**32 - 1)


@examples(60)
@given(seeds)
def test_weights_follow_their_formula(seed):
    rng = np.random.default_rng(seed)
    dimension = int(rng.integers(1, 5))
    shape = tuple(int(n) for n in rng.integers(1, [40, 9, 6, 4][dimension - 1], size=dimension))
    offsets = half_kernel(dimension, int(rng.integers(1, 3)), rng)
    factors = rng.uniform(-1, 1, len(offsets))
    dtype = rng.choice([np.float32, np.float64])
    pixels = rng.choice([np.uint8, np.uint16, np.int16, np.float32, np.float64])
    features = (rng.random((*shape, int(rng.integers(1, 5)))) * 4).astype(pixels) if rng.random() < 0.7 else None
    fields = [rng.normal(size=shape).astype(dtype) for _ in offsets] if rng.random() < 0.5 else None
    counts = [rng.integers(1, 4, n).astype(float) for n in shape] if rng.random() < 0.5 else None
    if features is not None and rng.random() < 0.5:  # views are read in place
        features = features[..., ::-1]
    beta = rng.uniform(0, 1)
    weights = _core.GridWeights(shape, offsets, factors, features, beta, fields, counts)

    for m, offset in enumerate(offsets):
        expected = np.zeros(shape)
        if (both := ends(shape, offset)) is not None:
            p, q = both
            w = np.full(expected[p].shape, factors[m])
            if features is not None:
                x = features.astype(float)
                w *= np.exp(-beta * ((x[p] - x[q]) ** 2).sum(-1))
            if fields is not None:
                w *= fields[m][p]
            if counts is not None:
                w /= outer(counts)[p] * outer(counts)[q]
            expected[p] = w
        np.testing.assert_allclose(weights.weights(m), expected, rtol=1e-13, atol=0)


def test_exp_is_accurate_and_exact_at_zero():
    x = np.concatenate([np.linspace(0, 700, 20_001), np.geomspace(1e-300, 700, 20_001)])
    features = np.stack([np.zeros_like(x), np.sqrt(x)], axis=-1)[:, :, None]
    weights = _core.GridWeights(features.shape[:2], np.array([[0, 1]]), np.ones(1), features, 1.0)
    found = weights.weights(0)[:, 0]
    expected = np.array([math.exp(-v) for v in features[:, 1, 0] ** 2])
    assert np.max(np.abs(found / expected - 1)) < 1e-14
    assert found[0] == 1.0


def test_exp_goes_to_zero_far_out():
    features = np.array([[0.0], [1e200], [0.0]])
    weights = _core.GridWeights((3,), np.array([[1]]), np.ones(1), features, 1.0)
    assert not weights.weights(0).any()


def test_field_entries_of_missing_pairs_may_be_nan():
    field = np.array([1.0, 2.0, np.nan])
    weights = _core.GridWeights((3,), np.array([[1]]), np.ones(1), fields=[field])
    assert weights.weights(0).tolist() == [1.0, 2.0, 0.0]


def test_weights_keep_their_arrays_alive():
    def build():
        features = np.arange(1000.0).reshape(-1, 1) / 1000
        fields = [np.full(1000, 2.0)]
        return _core.GridWeights((1000,), np.array([[1]]), np.ones(1), features, 1.0, fields)

    weights = build()
    _garbage = [np.full(1000, np.nan) for _ in range(100)]
    np.testing.assert_allclose(weights.weights(0)[:-1], 2 * math.exp(-1e-6))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"shape": (4, 0)}, ValueError, "at least one site"),
        ({"shape": ()}, ValueError, "at least one axis"),
        ({"offsets": np.array([[0, 1, 0]])}, ValueError, r"expected \(h, 2\)"),
        ({"offsets": np.array([[0.0, 1.0]])}, TypeError, "offsets has dtype float64: expected int64"),
        ({"offsets": [[0, 1]]}, TypeError, "offsets is a list: expected a NumPy array"),
        ({"factors": np.ones(2)}, ValueError, r"factors has shape \(2\): expected \(1\)"),
        ({"factors": np.ones(1, np.float32)}, TypeError, "float32: expected float64"),
        ({"features": np.ones((4, 5))}, ValueError, "one more axis for channels"),
        ({"features": np.ones((4, 5, 1), np.int64)}, TypeError, "float32 or float64"),
        ({"fields": []}, ValueError, "one per offset, 1"),
        ({"fields": [np.ones((5, 4))]}, ValueError, r"fields\[0\] has shape \(5, 4\)"),
        ({"counts": [np.ones(4)]}, ValueError, "one per axis, 2"),
        ({"counts": [np.ones(4), np.ones(4)]}, ValueError, r"counts\[1\] has shape \(4\)"),
    ],
)
def test_weights_refuse_what_they_cannot_use(change, error, message):
    arguments = {"shape": (4, 5), "offsets": np.array([[0, 1]]), "factors": np.ones(1)}
    with pytest.raises(error, match=message):
        _core.GridWeights(**(arguments | change))


def dense_coupling(weights, offsets, shape, membership, block):
    """C_k + R_k S_k from the definitions: membership[k, i] says whether block k holds site i."""
    n = math.prod(shape)
    index = np.arange(n).reshape(shape)
    w = np.zeros((n, n))
    for m, offset in enumerate(offsets):
        if (both := ends(shape, offset)) is not None:
            i, j = index[both[0]].ravel(), index[both[1]].ravel()
            w[i, j] = w[j, i] = weights.weights(m)[both[0]].ravel()
    d = np.diag(w.sum(1))
    laplacian = d - w
    q_inverse = np.diag(1 / membership.sum(0))
    s = np.eye(n)[membership[block]]
    c = s @ q_inverse @ laplacian @ (np.eye(n) - q_inverse @ s.T @ s)
    w_hat = s @ q_inverse @ w @ q_inverse @ s.T
    r = s @ q_inverse @ d @ q_inverse @ s.T - np.diag(w_hat.sum(1))
    return c + r @ s, w


@examples(80)
@given(seeds)
def test_coupling_is_the_matrix_of_the_paper(seed):
    rng = np.random.default_rng(seed)
    dimension = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(3, [30, 9, 6][dimension - 1], size=dimension))
    radius = int(rng.integers(1, 3))
    offsets = half_kernel(dimension, radius, rng)
    factors = rng.uniform(-1, 1, len(offsets))
    features = rng.normal(size=(*shape, 1))

    # Two blocks per axis, overlapping or not.
    axes = []
    for n in shape:
        cut, grow = int(rng.integers(1, n)), int(rng.integers(0, 3))
        axes.append([(0, min(n, cut + grow)), (max(0, cut - grow), n)])
    blocks = list(itertools.product(*axes))
    membership = np.zeros((len(blocks), *shape), bool)
    for k, block in enumerate(blocks):
        membership[(k, *(slice(*side) for side in block))] = True
    membership = membership.reshape(len(blocks), -1)
    counts = [np.zeros(n) for n in shape]
    for count, sides in zip(counts, axes, strict=True):
        for side in sides:
            count[slice(*side)] += 1

    k = int(rng.integers(len(blocks)))
    whole = _core.GridWeights(shape, offsets, factors, features, 0.5)
    matrix, w = dense_coupling(whole, offsets, shape, membership, k)

    # The block grown by the kernel's reach, cut at the image.
    low = [max(0, a - radius) for a, _ in blocks[k]]
    high = [min(n, b + radius) for (_, b), n in zip(blocks[k], shape, strict=True)]
    region = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
    region_shape = tuple(b - a for a, b in zip(low, high, strict=True))
    coupling = _core.GridCoupling(
        _core.GridWeights(region_shape, offsets, factors, features[region], 0.5),
        [a - r for (a, _), r in zip(blocks[k], low, strict=True)],
        [b - r for (_, b), r in zip(blocks[k], low, strict=True)],
        [c[r] for c, r in zip(counts, region, strict=True)],
    )

    y = rng.normal(size=shape)
    np.testing.assert_allclose(coupling.apply(y[region]).ravel(), matrix @ y.ravel(), atol=1e-12)

    labels = rng.random([b - a for a, b in blocks[k]]) < 0.5
    expected = (matrix.T @ labels.ravel()).reshape(shape)
    np.testing.assert_allclose(coupling.transpose(labels), expected[region], atol=1e-12)
    expected[region] = 0
    np.testing.assert_allclose(expected, 0, atol=1e-12)

    inside = membership[k]
    q = membership.sum(0)
    c = np.where(inside, 1 - 1 / q, 1.0)
    strength = (np.abs(w) * c).sum(1) / q
    np.testing.assert_allclose(coupling.strength().ravel(), strength[inside], atol=1e-12)
    neighbors = w != 0
    coupled = (q > 1) | (neighbors & (c > 0)).any(1)
    assert (coupling.coupled().ravel() == coupled[inside]).all()


def test_coupling_refuses_a_block_outside_its_region():
    weights = _core.GridWeights((4, 4), np.array([[0, 1]]), np.ones(1))
    ones = [np.ones(4), np.ones(4)]
    with pytest.raises(ValueError, match="inside the region"):
        _core.GridCoupling(weights, (0, 0), (4, 5), ones)
    with pytest.raises(ValueError, match="expected 2"):
        _core.GridCoupling(weights, (0,), (4,), ones)
    with pytest.raises(ValueError, match="numbers >= 1"):
        _core.GridCoupling(weights, (0, 0), (4, 4), [np.zeros(4), np.ones(4)])
    coupling = _core.GridCoupling(weights, (0, 0), (4, 2), ones)
    with pytest.raises(ValueError, match=r"y has shape \(4, 2\)"):
        coupling.apply(np.zeros((4, 2)))
    with pytest.raises(TypeError, match="labels has dtype float64: expected bool"):
        coupling.transpose(np.zeros((4, 2)))


@examples(40)
@given(seeds)
def test_contrast_adds_up_over_boxes_to_the_last_bit(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(2, 9, size=int(rng.integers(1, 4))))
    offsets = half_kernel(len(shape), 1, rng)
    features = rng.normal(size=(*shape, 2))
    whole, pairs = _core.contrast(features, offsets, (0,) * len(shape), shape, 1e-17)

    cuts = [sorted({0, n, int(rng.integers(0, n + 1))}) for n in shape]
    boxes = itertools.product(*(itertools.pairwise(c) for c in cuts))
    parts = [_core.contrast(features, offsets, [a for a, _ in box], [b for _, b in box], 1e-17) for box in boxes]
    assert sum(s for s, _ in parts) == whole
    assert sum(n for _, n in parts) == pairs

    expected = 0.0
    for offset in offsets:
        p, q = ends(shape, offset)
        expected += ((features[p] - features[q]) ** 2).sum()
    assert math.isclose(whole * 1e-17, expected, rel_tol=1e-12)


def test_contrast_is_exact_beyond_64_bits():
    features = np.tile([[0.0], [2.0**30]], (50, 1))
    total, pairs = _core.contrast(features, np.array([[1]]), (0,), (100,), 1.0)
    assert (total, pairs) == (99 * 2**60, 99)


def test_contrast_refuses_what_it_cannot_add_up():
    features = np.array([[0.0], [np.nan]])
    offsets = np.array([[1]])
    with pytest.raises(ValueError, match=r"site \(0\), offset \(1\)"):
        _core.contrast(features, offsets, (0,), (2,), 1.0)
    with pytest.raises(ValueError, match="unit is 0"):
        _core.contrast(np.zeros((2, 1)), offsets, (0,), (2,), 0.0)
    with pytest.raises(ValueError, match="leaves the grid"):
        _core.contrast(np.zeros((2, 1)), offsets, (0,), (3,), 1.0)


PIXELS = [np.uint8, np.uint16, np.int16, np.float32, np.float64]


def random_pixels(rng, shape, dtype):
    """Pixels over the whole range of the type, or over a narrow part of it; floats of any magnitude."""
    if np.dtype(dtype).kind == "f":
        return (rng.normal(size=shape) * 2.0 ** int(rng.integers(-60, 60))).astype(dtype)
    info = np.iinfo(dtype)
    high = info.max if rng.random() < 0.5 else info.min + int(rng.integers(1, 20))
    return rng.integers(info.min, high, size=shape, dtype=dtype, endpoint=True)


def added_one_by_one(features, offsets, unit):
    """The definition of contrast in Python's own integers, and the largest term."""
    terms = []
    shape = features.shape[:-1]
    for offset in offsets:
        if (both := ends(shape, offset)) is None:
            continue
        x, z = (features[end].reshape(-1, features.shape[-1]).astype(float) for end in both)
        for a, b in zip(x.tolist(), z.tolist(), strict=True):
            square = 0.0
            for one, other in zip(a, b, strict=True):
                square += (one - other) * (one - other)
            terms.append(round(square / unit))
    return sum(terms), len(terms), max(terms, default=0)


@examples(150)
@given(seeds)
def test_contrast_is_the_sum_of_rounded_squares_whatever_the_pixels(seed):
    rng = np.random.default_rng(seed)
    dimension = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(1, [2500, 40, 9][dimension - 1], size=dimension))
    offsets = half_kernel(dimension, 1, rng)
    features = random_pixels(rng, (*shape, int(rng.choice([1, 2, 3, 5]))), rng.choice(PIXELS))
    if rng.random() < 0.3:
        features = features[..., ::-1]  # not side by side
    if rng.random() < 0.3:
        features = features[::2]
    spread = features.max().astype(float) - features.min().astype(float)
    widest = features.shape[-1] * float(spread * spread) or 1.0
    # From units so coarse that nothing is left to those so fine that terms take the slow way.
    unit = math.ldexp(1.0, math.frexp(widest)[1] - int(rng.integers(-2, 61)))
    if rng.random() < 0.2:
        unit *= 1.25
    total, pairs, most = added_one_by_one(features, offsets, unit)
    assert most < 2**62
    assert _core.contrast(features, offsets, (0,) * dimension, features.shape[:-1], unit) == (total, pairs)


@pytest.mark.parametrize("dtype", PIXELS)
@pytest.mark.parametrize("channels", [1, 3, 1025])
def test_contrast_holds_the_largest_differences(dtype, channels):
    low, high = (0.0, 2.0**40) if np.dtype(dtype).kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    features = np.zeros((70, channels), dtype)
    features[::2], features[1::2] = low, high
    square = channels * (int(high) - int(low)) ** 2
    unit = math.ldexp(1.0, square.bit_length() - 61)
    total, _ = _core.contrast(features, np.array([[1]]), (0,), (70,), unit)
    assert total == 69 * round(square / unit)
    with pytest.raises(ValueError, match=r"site \(0\), offset \(1\) .* below 2\^62 units"):
        _core.contrast(features, np.array([[1]]), (0,), (70,), unit / 4)


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, 1e300])
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_contrast_names_the_pair_that_is_no_number(bad, channels):
    features = np.zeros((3, 40, channels))
    features[1, 30] = bad
    with pytest.raises(ValueError, match=r"site \(1, 29\), offset \(0, 1\)"):
        _core.contrast(features, np.array([[0, 1]]), (0, 0), (3, 40), 2.0**-30)
