"""Energies with pairs that repel: each is, for all labels, what its definition says when computed by plain loops."""

import math
import pickle
from itertools import islice, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import convolve2d

from dope.errors import InputError
from dope.models import Pattern, curvature, deconvolution, denoising, learned_pattern, repulsion
from problems import rng_of
from profiles import slow_but

MODES = ["perimeter", "all", "coprime"]
CURVES = ["A1", "A2", "A3", "A4", "A5"]
BLURS = {"s05": 5.869, "s10": 23.477, "s20": 93.908}  # energy of the truth, lsa_tr.md 7.2


def inside(p, shape):
    return all(0 <= x < n for x, n in zip(p, shape, strict=True))


def steps(window, mode):
    """Every v of the window, opposite ones both, with the angle of its direction."""
    reach = window // 2
    for v in product(range(-reach, reach + 1), repeat=2):
        if any(v) and (
            mode == "all"
            or (mode == "perimeter" and max(map(abs, v)) == reach)
            or (mode == "coprime" and math.gcd(*v) == 1)
        ):
            yield v, math.degrees(math.atan2(*v)) % 180.0


def step_weight(angle, length, angles):
    """4 dphi / |v|^3: dphi half of the way to the nearest other direction on one side, and on the other."""
    others = [a for a in angles if abs(a - angle) > 1e-9]
    dphi = (min((a - angle) % 180.0 for a in others) + min((angle - a) % 180.0 for a in others)) / 2
    return 4 * math.radians(dphi) / length**3


def counted_curvature(labels, window, mode):
    """The sum over all triples inside the image whose middle differs from both ends."""
    total, every = 0.0, list(steps(window, mode))
    angles = [angle for _, angle in every]
    for v, angle in every:
        sharing = sum(abs(angle - a) < 1e-9 for a in angles) / 2
        weight = step_weight(angle, math.hypot(*v), angles) / sharing / 2  # as v and -v are one triple
        for p in np.ndindex(labels.shape):
            before, after = (p[0] - v[0], p[1] - v[1]), (p[0] + v[0], p[1] + v[1])
            if inside(before, labels.shape) and inside(after, labels.shape):
                total += weight * (labels[before] == labels[after] != labels[p])
    return total


def fitted(image, labels, unknown=None):
    known = np.ones(labels.shape, dtype=bool) if unknown is None else ~unknown
    return sum((float(image[p]) - labels[p]) ** 2 for p in zip(*np.nonzero(known), strict=True))


def all_labels(shape):
    for bits in range(2 ** math.prod(shape)):
        yield np.array([bits >> k & 1 for k in range(math.prod(shape))], dtype=bool).reshape(shape)


@given(st.data())
def test_curvature_counts_triples(data):
    shape = data.draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    window, mode = data.draw(st.sampled_from([3, 5, 7])), data.draw(st.sampled_from(MODES))
    rng = rng_of(data.draw)
    image, unknown = rng.normal(0.5, 0.6, shape), rng.random(shape) < 0.3
    energy = curvature(image, lam=3.0, window=window, mode=mode, unknown=unknown)
    labels = rng.random(shape) < rng.random()
    expected = fitted(image, labels, unknown) + 3.0 * counted_curvature(labels, window, mode)
    assert energy(labels) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_curvature_of_all_labels(mode):
    image = np.random.default_rng(1).normal(0.5, 0.5, (3, 3))
    energy = curvature(image, lam=0.7, window=3, mode=mode)
    for labels in all_labels(image.shape):
        expected = fitted(image, labels) + 0.7 * counted_curvature(labels, 3, mode)
        assert energy(labels) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_offsets_that_are_a_step_and_twice_another_are_merged():
    energy = curvature(np.zeros((20, 20)), window=7, mode="all")
    offsets = [tuple(o) for o in energy.pairs.offsets.tolist()]
    assert len(offsets) == len(set(offsets)) == 24 + 24 - 4
    assert {field.dtype.name for field in energy.pairs.fields} == {"float32"}
    assert not energy.submodular


@pytest.mark.parametrize(("window", "radius", "within"), [(7, 8, 0.15), (11, 12, 0.1), (11, 20, 0.1), (15, 30, 0.1)])
def test_the_curvature_of_discs_is_that_of_circles(window, radius, within):
    rows, columns = np.ogrid[-radius - 5 : radius + 6, -radius - 5 : radius + 6]
    found = []
    for shift in np.random.default_rng(0).random((10, 2)):
        disc = (rows - shift[0]) ** 2 + (columns - shift[1]) ** 2 < radius**2
        found.append(curvature(disc, lam=1.0, window=window, mode="perimeter")(disc) / (2 * np.pi / radius))
    assert np.mean(found) == pytest.approx(1.0, abs=within)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("slope", [0.0, 1.0, 0.5, -1 / 3])
def test_straight_outlines_cost_nothing(mode, slope):
    rows, columns = np.mgrid[:30, :30]
    half = rows - 15 > slope * (columns - 15)
    assert curvature(half, mode=mode)(half) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("name", CURVES)
def test_curvature_of_stored_drawings(data_folder, name):
    with np.load(data_folder / "nonsubmodular" / f"curvature_{name}.npz") as stored:
        settings = {"lam": float(stored["lam"]), "window": int(stored["window"]), "mode": str(stored["mode"])}
        energy = curvature(stored["image"], unknown=stored.get("unknown"), **settings)
        assert energy(stored["clean"]) == pytest.approx(float(stored["energy_of_clean"]), rel=1e-13)


@pytest.mark.parametrize("name", BLURS)
def test_deconvolution_of_stored_pictures(data_folder, name):
    with np.load(data_folder / "nonsubmodular" / f"deconvolution_{name}.npz") as stored:
        energy = deconvolution(stored["image"], int(stored["blur"]))
        assert energy(stored["clean"]) == pytest.approx(float(stored["energy_of_clean"]), rel=1e-12)
        assert energy(stored["clean"]) == pytest.approx(BLURS[name], abs=5e-4)


def blurred_apart(image, kernel, labels):
    return float(((image - convolve2d(labels.astype(float), kernel, mode="valid")) ** 2).sum())


@given(st.data())
def test_deconvolution_blurs(data):
    image_shape = data.draw(st.tuples(st.integers(1, 7), st.integers(1, 7)))
    blur_shape = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    rng = rng_of(data.draw)
    image, kernel = rng.normal(0.5, 0.5, image_shape), rng.normal(0, 1, blur_shape)
    energy = deconvolution(image, kernel)
    assert energy.shape == tuple(n + k - 1 for n, k in zip(image_shape, blur_shape, strict=True))
    labels = rng.random(energy.shape) < 0.5
    assert energy(labels) == pytest.approx(blurred_apart(image, kernel, labels), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("every", slow_but([1, 9], quick=[9]))
def test_deconvolution_of_all_labels(every):
    image = np.random.default_rng(2).random((1, 2))
    energy = deconvolution(image, 3)
    for labels in islice(all_labels((3, 4)), 0, None, every):
        assert energy(labels) == pytest.approx(blurred_apart(image, np.full((3, 3), 1 / 9), labels), abs=1e-12)


@given(st.data())
def test_denoising_weighs_offsets(data):
    shape = data.draw(st.tuples(st.integers(1, 7), st.integers(1, 7)))
    rng = rng_of(data.draw)
    offsets = [(0, 1), (1, -1), (2, 3)]
    pattern = Pattern(offsets, rng.normal(size=3), price=0.3)
    image, unknown, labels = rng.random(shape), rng.random(shape) < 0.3, rng.random(shape) < 0.5
    image[unknown] = np.nan
    expected = fitted(image, labels, unknown) / (2 * 0.5**2) + 0.3 * labels.sum()
    for (r, c), weight in zip(offsets, pattern.weights, strict=True):
        for p in np.ndindex(shape):
            q = (p[0] + r, p[1] + c)
            if inside(q, shape):
                expected += weight * (labels[p] != labels[q])
    energy = denoising(image, pattern, noise=0.5, unknown=unknown)
    assert energy(labels) == pytest.approx(float(expected), abs=1e-10)


def test_a_learned_pattern_is_that_of_its_samples():
    """Labels drawn from a pattern by Gibbs sampling give the pattern back."""
    true = Pattern([(0, 1), (1, -1), (1, 0), (1, 1)], [0.5, -0.3, 0.4, 0.0], price=0.2)
    rng = np.random.default_rng(3)
    s = np.where(rng.random((220, 220)) < 0.5, 1.0, -1.0)
    # Sites of one of four classes are no neighbours of each other.
    for _ in range(60):
        for first in product((0, 1), repeat=2):
            odds = np.full(s.shape, -true.price)
            for (r, c), weight in zip(true.offsets, true.weights, strict=True):
                odds += weight * (np.roll(s, (-r, -c), (0, 1)) + np.roll(s, (r, c), (0, 1)))
            drawn = np.where(rng.random(s.shape) < 1 / (1 + np.exp(-odds)), 1.0, -1.0)
            s[first[0] :: 2, first[1] :: 2] = drawn[first[0] :: 2, first[1] :: 2]
    learned = learned_pattern(s > 0, 3)
    assert learned.offsets.tolist() == true.offsets.tolist()
    assert learned.weights == pytest.approx(true.weights, abs=0.05)
    assert learned.price == pytest.approx(true.price, abs=0.05)


def test_a_pattern_learned_from_stripes_repels_across_and_inpaints_them():
    stripes = np.tile([True, True, False, False], (24, 6))
    pattern = learned_pattern([stripes, ~stripes], 5, number=4)
    across = {tuple(o): w for o, w in zip(pattern.offsets.tolist(), pattern.weights, strict=True)}
    assert across[0, 2] < 0 and len(across) == 4
    hole = np.zeros(stripes.shape, dtype=bool)
    hole[10:12, 9:12] = True
    energy = denoising(stripes, pattern, noise=0.1, unknown=hole)
    inpainted = [stripes.copy() for _ in range(2**6)]
    for labels, filled in zip(inpainted, all_labels((2, 3)), strict=True):
        labels[10:12, 9:12] = filled
    assert np.array_equal(min(inpainted, key=energy), stripes)


@given(st.data())
def test_repulsion_weighs_colors(data):
    shape = data.draw(st.sampled_from([(7,), (4, 5), (3, 2, 3)]))
    rng = rng_of(data.draw)
    colors = rng.integers(0, 256, (*shape, 3)).astype(np.uint8)
    unary, labels = rng.normal(size=shape), rng.random(shape) < 0.5
    axis = data.draw(st.sampled_from([0, -1]))
    energy = repulsion(np.moveaxis(colors, -1, axis), unary, lam=7.0, alike=0.4, kernel=3, channel_axis=axis)
    expected = float(unary[labels].sum())
    for p in np.ndindex(shape):
        for q in np.ndindex(shape):
            apart = np.subtract(p, q)
            near = abs(apart).max() <= 1 if len(shape) < 3 else (apart**2).sum() <= 1
            if p < q and near:
                differ = np.linalg.norm(colors[p] / 255 - colors[q] / 255)
                expected += 7.0 * (0.4 - differ) / np.linalg.norm(apart) * (labels[p] != labels[q])
    assert energy(labels) == pytest.approx(expected, rel=1e-5, abs=1e-4)
    precise = repulsion(colors / 255, unary, lam=7.0, alike=0.4, kernel=3, channel_axis=-1)
    assert precise(labels) == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_repulsion_of_grey_images_by_default():
    image = np.random.default_rng(4).random((20, 17))
    energy = repulsion(image, np.zeros(image.shape))
    assert len(energy.pairs.offsets) == (15 * 15 - 1) // 2 and not energy.submodular
    first, second, weights = energy.pairs.edges()
    (r, c), (s, t) = (np.unravel_index(ends, image.shape) for ends in (first, second))
    expected = 100 * (0.06 - abs(image[r, c] - image[s, t])) / np.hypot(r - s, c - t)
    assert weights == pytest.approx(expected, rel=1e-10, abs=1e-10)


MAKERS = {
    "curvature": lambda image: curvature(image, window=3),
    "deconvolution": deconvolution,
    "denoising": lambda image: denoising(image, Pattern([(0, 1)], [-1.0])),
    "repulsion": lambda image: repulsion(image, np.zeros(np.shape(image)), kernel=3),
}
every_model = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@every_model
def test_types_of_pixels_say_the_same(make):
    black = np.random.default_rng(5).random((6, 7)) < 0.5
    energy = make(black)
    labels = np.random.default_rng(6).random(energy.shape) < 0.5
    for same in (black.astype(np.uint8) * np.uint8(255), black.astype(np.uint16) * np.uint16(65535), black.tolist()):
        assert make(same)(labels) == pytest.approx(energy(labels), rel=1e-6)
    for same in (black.astype(np.float32), black.astype(np.float64), black.astype(int), black.astype(">f8")):
        assert make(same)(labels) == pytest.approx(energy(labels), rel=1e-6)


@every_model
def test_bounds_hold_and_images_are_left_alone(make):
    image = np.random.default_rng(7).random((9, 8))
    before = image.copy()
    energy = make(image)
    for m in range(len(energy.pairs.offsets)):
        first = np.indices(energy.shape).reshape(2, -1)
        there = ((first.T + energy.pairs.offsets[m]) >= 0) & ((first.T + energy.pairs.offsets[m]) < energy.shape)
        weights = energy.pairs.weights_at(m, tuple(first[:, there.all(axis=1)]))
        low, high = energy.pairs.bounds[m]
        assert low <= weights.min() and weights.max() <= high
    assert np.array_equal(image, before)
    assert pickle.loads(pickle.dumps(energy))(np.ones(energy.shape)) == energy(np.ones(energy.shape))


@every_model
@pytest.mark.parametrize(
    ("image", "words"),
    [
        (np.zeros((0, 4)), "at least one"),
        (np.full((4, 4), np.nan), "finite"),
        (np.full((4, 4), 200), "does not say what 1 is"),
        (np.full((4, 4), 1j), "complex"),
    ],
)
def test_bad_images_are_refused(make, image, words):
    with pytest.raises(InputError, match=words):
        make(image)


PICTURE = np.zeros((4, 5))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: curvature(np.zeros((4, 5, 3))), "Convert colours"),
        (lambda: curvature(np.zeros(9)), "rows, columns"),
        (lambda: curvature(PICTURE, window=4), "odd size from 3"),
        (lambda: curvature(PICTURE, window=7.0), "odd size from 3"),
        (lambda: curvature(PICTURE, mode="corner"), "'perimeter', 'all', 'coprime'"),
        (lambda: curvature(PICTURE, lam=-1), "positive number"),
        (lambda: curvature(PICTURE, lam=np.inf), "lam is inf"),
        (lambda: curvature(PICTURE, lam=1e308, window=3), "scale the costs down"),
        (lambda: curvature(PICTURE, unknown=np.zeros((5, 4))), r"unknown have shape \(5, 4\)"),
        (lambda: curvature(np.full((4, 5), 1e200)), "sum of the image's squares"),
        (lambda: deconvolution(np.zeros((4, 5, 3))), "Convert colours"),
        (lambda: deconvolution(PICTURE, 4), "kernel is 4"),
        (lambda: deconvolution(PICTURE, 3.0), "kernel is 3"),
        (lambda: deconvolution(PICTURE, [1.0, 2.0]), "kernel has shape"),
        (lambda: deconvolution(PICTURE, [[0.0]]), "nothing but 0"),
        (lambda: deconvolution(PICTURE, [[np.nan]]), "finite"),
        (lambda: denoising(PICTURE, 3), "expected a Pattern"),
        (lambda: denoising(PICTURE, Pattern([(0, 1)], [1.0]), noise=0), "noise is 0"),
        (lambda: denoising(PICTURE, Pattern([(0, 1)], [1.0]), noise=1e-300), "noise and image"),
        (lambda: Pattern([(0, 1)], [1.0, 2.0]), "one per offset"),
        (lambda: Pattern([(0, 1), (0, -1)], [1.0, 2.0]), "each direction once"),
        (lambda: Pattern([(0, 1)], [np.nan]), "weights holds nan"),
        (lambda: Pattern([(0, 1)], [1.0], price=np.inf), "price holds inf"),
        (lambda: learned_pattern([]), "empty list"),
        (lambda: learned_pattern([[1, 0]]), r"examples\[0\]"),
        (lambda: learned_pattern(np.full((3, 3), 2)), r"examples\[0\]"),
        (lambda: learned_pattern(PICTURE, 1), "no neighbours"),
        (lambda: learned_pattern(PICTURE, number=0), "number is 0"),
        (lambda: repulsion(PICTURE, np.zeros((5, 4))), "expected the same"),
        (lambda: repulsion(np.zeros((4, 5, 3)), PICTURE), "channel_axis"),
        (lambda: repulsion(np.zeros((4, 5, 3)), PICTURE, channel_axis=5), "channel_axis is 5"),
        (lambda: repulsion(PICTURE, 1.0), "at least one site"),
        (lambda: repulsion(PICTURE, np.full((4, 5), np.nan)), "unary holds nan"),
        (lambda: repulsion(PICTURE, PICTURE, alike="much"), "alike is 'much'"),
        (lambda: repulsion(PICTURE, PICTURE, lam=0), "lam is 0"),
    ],
)
def test_bad_settings_are_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()
