"""What the native core keeps alive, and that it gives everything back."""

import gc
import math
import sys
import weakref

import numpy as np
import pytest

from dope import _core
from flows import SCALE, WIDTHS
from memory import growth
from profiles import slow_but

OFFSETS = np.array([[0, 1], [1, 0]])


class Watched(np.ndarray):
    """An array one can hold a weak reference to."""


def watched(shape, dtype=np.float64):
    return np.ones(shape, dtype).view(Watched)


def make_weights(shape, features=None, fields=None):
    return _core.GridWeights(shape, OFFSETS, np.ones(2), features, 0.5, fields)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_keep_features_and_fields_alive_and_let_them_go(dtype):
    features, fields = watched((4, 5, 2), dtype), [watched((4, 5), dtype) for _ in OFFSETS]
    arrays = [weakref.ref(array) for array in (features, *fields)]
    weights = make_weights((4, 5), features, fields)
    del features, fields
    gc.collect()
    assert all(array() is not None for array in arrays)
    assert weights.weights(0)[0, 0] == 1.0
    flow = _core.GridFlow(weights, SCALE, 16)
    del weights
    gc.collect()
    assert all(array() is None for array in arrays)  # a flow has computed all it needs
    flow.minimize(np.full((4, 5), -1.0))
    assert flow.labels().all()


def test_references_are_counted():
    features, fields = np.ones((4, 5, 1)), [np.ones((4, 5)) for _ in OFFSETS]
    counts = [np.ones(4), np.ones(5)]
    factors = np.ones(2)
    unary, sites = np.ones((4, 5)), np.arange(3)
    arrays = [features, *fields, *counts, factors, OFFSETS, unary, sites]

    def references():
        gc.collect()
        return [sys.getrefcount(array) for array in arrays]

    def use():
        weights = _core.GridWeights((4, 5), OFFSETS, factors, features, 0.5, fields, counts)
        flow = _core.GridFlow(weights, SCALE, 32)
        flow.minimize(unary)
        flow.change(sites, unary[0, :3])
        flow.refill(weights, SCALE)
        with pytest.raises(ValueError, match="scale"):
            _core.GridFlow(weights, math.nan, 32)
        with pytest.raises(ValueError, match="bits"):
            _core.GridFlow(weights, SCALE, 8)
        with pytest.raises(ValueError, match="unary has shape"):
            flow.minimize(unary.T)
        with pytest.raises(TypeError):
            flow.change(unary, sites)
        with pytest.raises(ValueError, match="fields has 1 entries"):
            _core.GridWeights((4, 5), OFFSETS, factors, features, 0.5, fields[:1], counts)
        with pytest.raises(ValueError, match="counts"):
            _core.GridWeights((4, 5), OFFSETS, factors, features, 0.5, fields, counts[:1])

    before = references()
    for _ in range(20):
        use()
    assert references() == before


def test_weights_are_referenced_as_often_as_they_are_used():
    weights = make_weights((4, 5))
    before = sys.getrefcount(weights)
    flows = [_core.GridFlow(weights, SCALE, 16) for _ in range(5)]
    for flow in flows:
        flow.refill(weights, SCALE)
    assert sys.getrefcount(weights) == before  # a flow has no use for them once it is filled


def test_arrays_handed_out_own_their_memory():
    weights = make_weights((30, 40))
    flow = _core.GridFlow(weights, SCALE, 16)
    flow.minimize(np.linspace(-2, 2, 1200).reshape(30, 40))
    labels, other = flow.labels(), flow.labels()
    some_weights = weights.weights(0)
    kept = labels.copy(), some_weights.copy()
    assert not np.shares_memory(labels, other)
    other[:] = ~other  # fresh arrays are the caller's to write to
    np.testing.assert_array_equal(flow.labels(), labels)
    flow.minimize(np.full((30, 40), 9.0))
    del flow, weights, other
    gc.collect()
    np.testing.assert_array_equal(labels, kept[0])
    np.testing.assert_array_equal(some_weights, kept[1])


def test_what_is_passed_in_is_never_written_to():
    arrays = [np.ones((4, 5, 1)), np.ones((4, 5)), np.ones((4, 5)), np.ones((4, 5)), np.arange(5), np.ones(5)]
    for array in arrays:
        array.flags.writeable = False
    features, field, other_field, unary, sites, values = arrays
    flow = _core.GridFlow(make_weights((4, 5), features, [field, other_field]), SCALE, 16)
    flow.minimize(unary)
    flow.change(sites, values)
    for array in arrays:
        np.testing.assert_array_equal(array, np.arange(5) if array is sites else np.ones_like(array))


# A cycle of the tests below handles arrays of 10,000 sites. If only one byte per site were lost each
# time, 200 times would be two million bytes.
SHAPE = (100, 100)
BOUND = 10_000 * 200 // 2


@pytest.mark.parametrize("bits", slow_but(WIDTHS, quick=[32]))
def test_opening_and_solving_leaves_nothing_behind(bits):
    rng = np.random.default_rng(0)
    unary = rng.normal(size=SHAPE)
    features = rng.normal(size=(*SHAPE, 1))

    def cycle():
        flow = _core.GridFlow(make_weights(SHAPE, features), SCALE, bits)
        flow.minimize(unary)
        flow.labels()
        flow.change(np.arange(50), np.zeros(50))
        flow.labels(largest=True)
        flow.value()

    assert growth(cycle, 200) < BOUND


@pytest.mark.slow
def test_opening_and_solving_graphs_leaves_nothing_behind():
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 10_000, (20_000, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    unary = rng.normal(size=10_000)

    def cycle():
        flow = _core.GraphFlow(10_000, edges, np.ones(len(edges)), SCALE, 32)
        flow.minimize(unary)
        flow.labels()

    assert growth(cycle, 200) < BOUND


def test_what_is_refused_leaves_nothing_behind():
    field = np.ones(SHAPE)
    field[-1, -2] = -1.0  # the very last pair, when all else is there
    edges = np.stack([np.arange(9_999), np.arange(1, 10_000)], axis=1)
    bad_weights = np.ones(9_999)
    bad_weights[-1] = math.nan
    good = _core.GridFlow(make_weights(SHAPE), SCALE, 32)
    no_number = np.full(SHAPE, math.nan)

    def cycle():
        weights = make_weights(SHAPE, None, [field, field])
        with pytest.raises(ValueError, match="-1"):
            _core.GridFlow(weights, SCALE, 32)
        with pytest.raises(ValueError, match="-1"):
            good.refill(weights, SCALE)
        with pytest.raises(ValueError, match="nan"):
            _core.GraphFlow(10_000, edges, bad_weights, SCALE, 32)
        with pytest.raises(ValueError, match="NaN"):
            good.minimize(no_number)
        with pytest.raises(RuntimeError, match="half-way"):
            good.labels()

    assert growth(cycle, 200) < BOUND


def test_too_much_memory_is_an_exception():
    """2^31 sites fit the numbers of the core, and a network of them no machine that runs this test."""
    offsets = np.array([[0, 1], [1, 0], [1, 1], [1, -1]])
    shape = (2**15, 2**16 - 8)
    needed = _core.GridFlow.bytes_needed(shape, offsets, 64)
    assert needed > 2**37
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2**36, hard))
    try:
        with pytest.raises(MemoryError):
            _core.GridFlow(_core.GridWeights(shape, offsets, np.ones(4)), 1.0, 64)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
