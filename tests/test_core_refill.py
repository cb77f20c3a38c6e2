"""The native core's `refill`: other weights in the memory of an old flow, as if it were new."""

import math

import numpy as np
import pytest

from dope import _core
from flows import SCALE, STORES, WIDTHS, store_offsets
from memory import resident_bytes


def random_grid_weights(rng, shape, offsets):
    features = rng.normal(size=(*shape, 2)) if rng.random() < 0.7 else None
    fields = [rng.random(shape) for _ in offsets] if rng.random() < 0.5 else None
    return _core.GridWeights(shape, offsets, rng.choice([0.0, 1.0, 2.0], len(offsets)), features, 0.3, fields)


def all_answers(flow, unary):
    """Everything a flow tells after some solves, bit for bit."""
    told = []
    for sign in (1, -1):
        flow.minimize(sign * unary)
        told += [flow.value(), flow.labels(), flow.labels(largest=True)]
        flow.change(np.arange(0, unary.size, 7), np.full(len(range(0, unary.size, 7)), 0.5))
        told += [flow.value(), flow.labels()]
    flow.check()
    return told


def require_as_if_new(flow, weights, scale, bits, unary):
    new = _core.GridFlow(weights, scale, bits)
    assert flow.bytes == new.bytes
    for found, expected in zip(all_answers(flow, unary), all_answers(new, unary), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("name", STORES)
def test_a_refilled_flow_is_as_if_new(name, bits):
    rng = np.random.default_rng(bits)
    shape, offsets = STORES[name][0], store_offsets(name, rng)
    flow = _core.GridFlow(random_grid_weights(rng, shape, offsets), SCALE, bits)
    for turn in range(4):
        weights = random_grid_weights(rng, shape, offsets)
        scale = float(rng.choice([1.0, 64.0, 1024.0]))
        unary = rng.normal(size=shape)
        if turn == 2:  # refused, so that only another refill helps
            bad = _core.GridWeights(shape, offsets, np.full(len(offsets), math.nan))
            with pytest.raises(ValueError, match="nan"):
                flow.refill(bad, SCALE)
            for use in (flow.labels, flow.value, flow.check):
                with pytest.raises(RuntimeError, match="an earlier call failed half-way"):
                    use()
            with pytest.raises(RuntimeError, match="an earlier call failed half-way"):
                flow.minimize(unary)
        flow.refill(weights, scale)
        with pytest.raises(RuntimeError, match="minimize"):
            flow.labels()
        require_as_if_new(flow, weights, scale, bits, unary)


@pytest.mark.parametrize("bits", WIDTHS)
def test_another_grid_kernel_or_scale_is_refused_and_the_flow_lives_on(bits):
    offsets = np.array([[0, 1], [1, 0]])
    weights = _core.GridWeights((3, 4), offsets, np.ones(2))
    flow = _core.GridFlow(weights, 1.0, bits)
    flow.minimize(np.full((3, 4), -2.0))
    for other in (
        _core.GridWeights((4, 3), offsets, np.ones(2)),
        _core.GridWeights((3, 4, 1), np.array([[0, 1, 0], [1, 0, 0]]), np.ones(2)),
        _core.GridWeights((3, 4), offsets[:1], np.ones(1)),
        _core.GridWeights((3, 4), -offsets, np.ones(2)),
    ):
        with pytest.raises(ValueError, match=r"expected the grid \(3, 4\) with the same offsets"):
            flow.refill(other, 1.0)
        flow.check()
        assert flow.value() == -24.0
    for scale in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="expected a power of two"):
            flow.refill(weights, scale)
    flow.refill(weights, 2.0)
    require_as_if_new(flow, weights, 2.0, bits, np.linspace(-2.0, 2.0, 12).reshape(3, 4))


@pytest.mark.slow
def test_refills_take_no_more_memory():
    rng = np.random.default_rng(0)
    shape = (250, 250)
    offsets = np.array([[0, 1], [1, 0], [1, 1], [1, -1], [2, 1]])
    features = rng.normal(size=(*shape, 1))
    weights = [_core.GridWeights(shape, offsets, np.full(5, f), features, 0.5) for f in (1.0, 3.0)]
    flow = _core.GridFlow(weights[0], SCALE, 16)
    unary = rng.normal(size=shape)
    held = flow.bytes
    before = 0
    for turn in range(60):
        flow.refill(weights[turn % 2], SCALE)
        if turn % 10 == 0:
            flow.minimize(unary)
        assert flow.bytes == held
        if turn == 10:
            before = resident_bytes()
    # If one in ten left the least of a flow's arrays behind, a byte per site and more, this would show.
    assert resident_bytes() - before < 5 * math.prod(shape) / 2 + 2**20
