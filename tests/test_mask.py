"""A region of interest: sites outside are not part of the problem, whatever lies there."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import Admm, Energy, Exact, InputError, MaxFlow, Serial
from dope.pairs import mean_contrast_beta
from problems import rng_of

SHAPES = [(17,), (7, 9), (40, 50), (4, 5, 6)]


@st.composite
def masked(draw):
    """Arguments of a contrast-sensitive energy with a mask, and rubbish outside it."""
    shape = draw(st.sampled_from(SHAPES))
    rng = rng_of(draw)
    mask = rng.random(shape) < draw(st.sampled_from([0.2, 0.7, 0.95]))
    mask.flat[rng.integers(mask.size)] = True
    channels = draw(st.sampled_from([(), (1,), (3,)]))
    features = rng.integers(0, 60, (*shape, *channels)).astype(np.uint8)
    unary = rng.normal(0, 1, shape)
    kernel = draw(st.sampled_from([3, 5]))
    return {"unary": unary, "features": features, "kernel": kernel, "lam": 0.7, "mask": mask}


def inside_alone(energy, mask):
    """The energy of the sites inside as a graph of their own."""
    number = np.cumsum(mask.ravel()) - 1
    first, second, weights = energy.pairs.edges()
    kept = mask.ravel()[first] & mask.ravel()[second]
    edges = np.stack([number[first[kept]], number[second[kept]]], axis=1)
    return Energy.graph(energy.unary[mask], edges, weights[kept])


@given(masked(), st.sampled_from([1, 4]))
def test_labels_inside_are_those_of_the_sites_inside_alone(arguments, blocks):
    mask = arguments["mask"]
    energy = Energy.grid(**arguments)
    free = Energy.grid(**{**arguments, "mask": None, "beta": energy.pairs.beta})
    result = dope.minimize(energy, blocks=blocks, executor=Serial())
    alone = dope.minimize(inside_alone(free, mask))
    np.testing.assert_array_equal(result.labels[mask], alone.labels)
    assert not result.labels[~mask].any()
    assert result.energy == pytest.approx(alone.energy, rel=1e-12)
    assert result.exact
    verdict = dope.verify(energy, result.labels, result.certificate)
    assert verdict.valid, verdict.reason


@given(masked())
def test_what_lies_outside_does_not_matter(arguments):
    mask = arguments["mask"]
    plain = Energy.grid(**arguments)
    unary, features = arguments["unary"].copy(), arguments["features"].astype(np.float64)
    unary[~mask], features[~mask] = np.nan, np.inf
    other = Energy.grid(**{**arguments, "unary": unary, "features": features})
    assert other.pairs.beta == plain.pairs.beta
    assert all(np.array_equal(a, b) for a, b in zip(plain.pairs.edges(), other.pairs.edges(), strict=True))
    one, two = dope.minimize(plain), dope.minimize(other)
    np.testing.assert_array_equal(one.labels, two.labels)
    assert one.energy == two.energy


@given(masked())
def test_beta_is_the_mean_over_pairs_inside(arguments):
    energy = Energy.grid(**arguments)
    mask, shape = arguments["mask"].ravel(), arguments["mask"].shape
    pixels = arguments["features"].reshape(mask.size, -1).astype(float)
    first, second, _ = energy.pairs.edges()
    kept = mask[first] & mask[second]
    squares = np.square(pixels[first[kept]] - pixels[second[kept]]).sum(axis=1)
    expected = 1 / (2 * squares.mean()) if squares.any() else 0.0
    assert energy.pairs.beta == pytest.approx(expected, rel=1e-9)
    whole = mean_contrast_beta(pixels.reshape(*shape, -1), energy.pairs.offsets, np.ones(shape, dtype=bool))
    assert whole == mean_contrast_beta(pixels.reshape(*shape, -1), energy.pairs.offsets)


@pytest.mark.parametrize("method", [Exact(merge=False), Admm(), Admm.paper()], ids=str)
def test_every_method_leaves_the_outside_alone(method):
    rng = np.random.default_rng(3)
    mask = np.hypot(*(np.indices((40, 50)) - np.array([20, 25])[:, None, None])) < 18
    image = rng.integers(0, 255, (40, 50, 3), dtype=np.uint8)
    unary = rng.normal(-0.3, 1, (40, 50))
    energy = Energy.grid(unary, features=image, lam=0.5, mask=mask)
    best = dope.minimize(energy, blocks=1)
    result = dope.minimize(energy, blocks=6, method=method)
    assert not result.labels[~mask].any()
    assert best.energy <= result.energy + result.rounding_error
    assert result.energy == pytest.approx(best.energy, rel=0.05)


def test_going_on_from_another_mask_is_not_going_on_from_its_flow():
    rng = np.random.default_rng(4)
    unary = rng.normal(0, 1, (60, 60))
    mask = np.ones((60, 60), dtype=bool)
    first = dope.minimize(Energy.grid(unary, lam=0.4, mask=mask), blocks=4)
    mask[:, 20:30] = False
    energy = Energy.grid(unary, lam=0.4, mask=mask)
    np.testing.assert_array_equal(
        dope.minimize(energy, blocks=4, start=first).labels, dope.minimize(energy, blocks=4).labels
    )


@pytest.mark.parametrize(
    ("mask", "words"),
    [(np.zeros((3, 4)), "no site inside"), (np.ones((4, 3)), r"expected the unary's \(3, 4\)"),
     (np.full((3, 4), 2), "mask .* 0 and 1")],
)  # fmt: skip
def test_bad_masks_are_refused(mask, words):
    with pytest.raises(InputError, match=words):
        Energy.grid(np.zeros((3, 4)), mask=mask)


@given(st.integers(0, 2**32 - 1))
def test_sites_outside_have_no_pairs_whatever_they_cost(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(2, 9, size=int(rng.integers(2, 4))))
    channels = int(rng.integers(1, 4))
    pixels = rng.integers(0, 30, (*shape, channels)).astype(np.uint8)
    inside = rng.random(shape) < 0.6
    inside.flat[0] = True
    whole = Energy.grid(np.zeros(shape), lam=3.0, kernel=int(rng.choice([3, 5])), features=pixels, mask=inside)
    unary = rng.normal(0, 2, shape)
    energy = replace(whole, unary=unary)
    exact = MaxFlow(check=True).prepare(energy).minimize(unary)
    assert np.array_equal(exact.labels[~inside], unary[~inside] < 0)
    plain = replace(energy, pairs=replace(energy.pairs, features=pixels.astype(np.float64)))
    assert np.array_equal(exact.labels, MaxFlow(check=True).prepare(plain).minimize(unary).labels)


def test_a_mask_of_black_and_white_is_one_of_two_labels():
    rng = np.random.default_rng(5)
    unary, mask = rng.normal(size=(9, 8)), rng.random((9, 8)) < 0.6
    picture = np.where(mask, 255, 0).astype(np.uint8)
    expected = dope.minimize(Energy.grid(unary, mask=mask)).labels
    np.testing.assert_array_equal(dope.minimize(Energy.grid(unary, mask=picture)).labels, expected)
    found = dope.segment(unary, unary=unary, mask=picture).labels
    np.testing.assert_array_equal(found, dope.segment(unary, unary=unary, mask=mask).labels)
