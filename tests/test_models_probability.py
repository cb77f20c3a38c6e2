"""From soft maps to unaries."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dope.errors import InputError
from dope.models import probability, probability_unary


@given(st.floats(0.001, 0.999))
def test_it_is_the_log_of_the_odds_of_background(p):
    np.testing.assert_allclose(probability_unary(p), np.log((1 - p) / p), rtol=1e-5, atol=1e-6)


@given(st.lists(st.floats(0, 1), min_size=1), st.floats(1e-300, 0.49))
def test_unaries_are_finite_odd_and_fall_with_the_probability(values, clamp):
    p = np.sort(values)
    unary = probability_unary(p, clamp=clamp)
    most = np.float32(np.log1p(-clamp) - np.log(clamp))
    assert np.isfinite(unary).all() and np.abs(unary).max() <= most and (np.diff(unary) <= 0).all()
    np.testing.assert_allclose(
        probability_unary(1 - (1 - p), clamp=1e-3), -probability_unary(1 - p, clamp=1e-3), atol=1e-6
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_unsigned_integers_are_fractions_of_their_largest(dtype):
    most = np.iinfo(dtype).max
    values = np.array([0, most // 5, most // 2, most], dtype=dtype).reshape(2, 2)
    np.testing.assert_allclose(probability_unary(values), probability_unary(values / most), rtol=1e-6)


@pytest.mark.parametrize("dtype", [bool, np.float16, np.float32])
def test_other_types_count_as_they_are(dtype):
    values = np.array([0, 1], dtype=dtype)
    unary = probability_unary(values)
    assert unary.dtype == np.float32 and np.array_equal(unary, probability_unary([0.0, 1.0]))


def test_strips_do_not_show_and_shapes_are_kept(monkeypatch):
    p = np.random.default_rng(0).random((7, 8, 9))
    whole = probability_unary(p)
    monkeypatch.setattr(probability, "_STRIP_SITES", 11)
    assert whole.shape == p.shape and np.array_equal(probability_unary(p), whole)
    assert probability_unary(np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize(
    ("p", "settings", "words"),
    [
        ([0.5, np.nan], {}, "holds nan"),
        ([0.5, 1.5], {}, "holds 1.5"),
        ([-0.1], {}, "holds -0.1"),
        (np.array([0, 200]), {}, "int64"),
        (np.array(["a"]), {}, "real numbers"),
        ([0.5], {"clamp": 0}, "clamp is 0"),
        ([0.5], {"clamp": 0.5}, "clamp is 0.5"),
        ([0.5], {"clamp": float("nan")}, "clamp is nan"),
    ],
)
def test_what_is_no_probability_is_refused(p, settings, words):
    with pytest.raises(InputError, match=words):
        probability_unary(p, **settings)
