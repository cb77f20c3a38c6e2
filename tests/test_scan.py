"""What the core says about arrays, beside plain NumPy and fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dope import Energy, InputError, _core
from dope.arrays import binary_places, check_finite, measure_span
from dope.sums import exact_sum
from profiles import examples

TYPES = (np.uint8, np.uint16, np.int16, np.float32, np.float64)


@st.composite
def arrays(draw, types=TYPES, values=None):
    """Arrays of several types and shapes, some with gaps, transposed, backwards or repeated."""
    dtype = np.dtype(draw(st.sampled_from(types)))
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    if draw(st.booleans()):
        shape = (*shape[:-1], draw(st.integers(900, 2200)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = values or draw(st.sampled_from(["whole", "halves", "noise", "wide"]))
    room = tuple(2 * n for n in shape)
    found = rng.integers(0, 200, room).astype(np.float64)
    if dtype.kind == "f":
        found -= 100
        if kind == "halves":
            found /= 2.0 ** draw(st.integers(0, 23))
        if kind == "noise":
            found = rng.normal(size=room)
        if kind == "wide":
            found = np.ldexp(rng.normal(size=room), rng.integers(-140, 120, room))
    found = found.astype(dtype)
    way = draw(st.sampled_from(["whole", "gaps", "backwards", "transposed", "repeated"]))
    first = tuple(slice(0, n) for n in shape)
    if way == "whole":
        return np.ascontiguousarray(found[first])
    if way == "gaps":
        return found[tuple(slice(1, None, 2) for _ in shape)]
    if way == "backwards":
        return found[first][..., ::-1]
    if way == "transposed":
        return found[first].T
    return np.broadcast_to(found[first][..., :1], shape)


def plain_places(values, most):
    """The smallest k for which all values x 2^k are whole numbers, from their fractions."""
    places = max((Fraction(float(v)).denominator.bit_length() - 1 for v in np.ravel(values)), default=0)
    return places if places <= most else None


@given(arrays(), st.sampled_from([1.0, 0.25, 3.0, -2.0, 0.1]), st.sampled_from([0, 3, 20]))
@examples(200)
def test_one_pass_says_what_several_do(array, factor, most):
    before = array.copy()
    span = measure_span(array, factor=factor, most=most)
    numbers = array.astype(np.float64)
    assert (span.low, span.high, span.largest) == (numbers.min(), numbers.max(), np.abs(numbers).max())
    assert span.total == pytest.approx(float(sum(Fraction(v) for v in np.abs(numbers).ravel())), rel=1e-15, abs=0)
    assert span.places == plain_places(numbers * factor, most)
    assert span.beyond == -1
    assert np.array_equal(array, before)


def test_nothing_and_a_single_number():
    empty = measure_span(np.zeros((0, 3)))
    assert (empty.low, empty.high, empty.total, empty.places, empty.beyond) == (0.0, 0.0, 0.0, 0, -1)
    single = measure_span(np.array(-2.5))
    assert (single.low, single.largest, single.places) == (-2.5, 2.5, 1)
    assert measure_span(np.zeros(3), most=-1).places is None


@pytest.mark.parametrize(
    ("values", "places"),
    [([2.0**52 + 1, 2.0**60], 0), ([2.0**51 + 0.5], 1), ([1e300], 0), ([2.0**-20, 5.0], 20), ([2.0**-21], None)],
)
def test_binary_places_of_extreme_numbers(values, places):
    assert binary_places([np.array(values)]) == places


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble, np.float16])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [(0, 0), (1, 1500), (2, 2047)])
def test_the_first_number_that_is_not_finite_is_named(dtype, bad, where):
    array = np.zeros((3, 2048), dtype=dtype)
    array[2, 2047] = np.nan
    array[where] = bad
    for view in (array, array[:, ::-1], array.T):
        first = next(at for at in np.ndindex(view.shape) if not np.isfinite(view[at]))
        with pytest.raises(InputError) as error:
            check_finite("unary", view)
        assert f"unary holds {view[first]} at {first};" in str(error.value)


def test_numbers_that_add_up_beyond_float64_are_finite():
    huge = np.full(3000, 1e308)
    check_finite("unary", huge)
    assert measure_span(huge).total == np.inf


def test_unaligned_and_swapped_arrays_are_read_too():
    raw = np.zeros(8 * 5 + 1, dtype=np.uint8)
    unaligned = raw[1:].view(np.float64)
    unaligned[:] = [1, 2, 3, -4.5, 0]
    for array in (unaligned, unaligned.astype(">f8")):
        assert (measure_span(array).largest, binary_places([array])) == (4.5, 1)
    assert exact_sum(unaligned) == Fraction(3, 2)


def test_an_array_is_looked_through_until_it_is_cancelled():
    with _core.Cancel() as cancel:
        cancel.cancel()
        with pytest.raises(_core.Cancelled):
            _core.scan(np.zeros(1 << 20))


@given(arrays(types=(np.float32, np.float64)), st.booleans(), st.integers(0, 2**32 - 1))
@examples(200)
def test_sums_lose_nothing(array, masked, seed):
    where = None
    if masked:
        where = np.random.default_rng(seed).random(array.shape) < 0.3
        where = where[..., ::-1]
    chosen = array if where is None else array[where]
    assert exact_sum(array, where) == sum((Fraction(float(v)) for v in chosen.ravel()), Fraction(0))


@pytest.mark.parametrize(
    "values",
    [
        [1e308, 1e308, -1e308, 5e-324, 1e-320],
        [5e-324] * 1500,
        [2.0**1000, 2.0**-1000, -(2.0**1000)],
        [1.0, 2.0**-60, 2.0**-120, 2.0**-180, 2.0**-240, 2.0**-300],
        [np.nextafter(1.0, 0.0)] * 3000,
        [-0.0, 0.0],
    ],
)
def test_sums_of_extreme_numbers_lose_nothing(values):
    assert exact_sum(np.array(values)) == sum(map(Fraction, values))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_sum_of_what_is_no_number_is_refused(bad):
    with pytest.raises(InputError, match="a cost is infinite"):
        exact_sum(np.array([1.0, bad]))


@given(arrays())
def test_a_fingerprint_is_of_the_numbers_alone(array):
    found = _core.fingerprint(array)
    assert found == _core.fingerprint(np.ascontiguousarray(array).astype(np.float64))
    assert len(found) == 16


@given(arrays(types=(np.float64,)), st.integers(0, 2**32 - 1))
def test_another_number_or_shape_has_another_fingerprint(array, seed):
    found = _core.fingerprint(array)
    other = array.copy()
    at = tuple(np.random.default_rng(seed).integers(0, array.shape))
    other[at] = np.nextafter(other[at], np.inf)
    assert _core.fingerprint(other) != found
    assert _core.fingerprint(np.ascontiguousarray(array)[None]) != found
    assert _core.fingerprint(np.append(array.ravel(), 0.0)) != found


@given(arrays(types=(np.float32, np.float64)), st.sampled_from([1.0, 2.0**-3, 2.0**10, 2.0**40]))
def test_units_are_rounded_to_even_as_narrow_as_they_fit(array, scale):
    expected = np.rint(array.astype(np.float64) * scale)
    found = _core.whole_units(array, scale)
    low, high = expected.min(), expected.max()
    narrow = next((t for t in (np.int16, np.int32) if np.iinfo(t).min <= low and high <= np.iinfo(t).max), None)
    assert found is None if narrow is None else found.dtype == narrow and np.array_equal(found, expected)


@pytest.mark.parametrize("lam", [1.0, 0.25, 3.0, 0.3])
def test_places_known_from_the_door_are_those_of_the_weights(lam):
    rng = np.random.default_rng(3)
    weights = [rng.integers(0, 9, (4, 5)) / 4, rng.integers(0, 9, (4, 5)) / 8]
    weights[0][:, -1] = 0.1  # partners outside: nobody asks
    pairs = Energy.grid(np.zeros((4, 5)), kernel=[(0, 1), (1, 0)], weights=weights, lam=lam).pairs
    inside = [lam * weights[0][:, :-1], lam * weights[1][:-1]]
    expected = [plain_places(values, 20) for values in inside]
    assert pairs.binary_places() == (None if None in expected else max(expected))
    part = pairs.crop((slice(0, 2), slice(0, 2)))
    assert part.binary_places() == plain_places(np.append(lam * weights[0][:2, 0], lam * weights[1][0, :2]), 20)
