"""The native core at its limits: degenerate shapes, ties, the greatest numbers of each width; and the same labels for
the same integers, whatever the width and the order of the axes."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dope import _core
from dope.rounding import rounded_down
from flows import (
    SCALE,
    STORES,
    WIDTHS,
    grid_pairs,
    half_box,
    random_unary,
    require_minimum,
    require_same_answers,
    store_offsets,
)

MOST_CAPACITY = {16: 2**14 - 1, 32: 2**30 - 1, 64: 2**48 - 1}


def degenerate_shapes(name):
    """One site, one row along each axis, and extents around the kernel's reach."""
    shape, radii = STORES[name]
    axes = len(shape)
    yield (1,) * axes
    for axis in range(axes):
        yield tuple(17 if a == axis else 1 for a in range(axes))
        yield tuple(1 if a == axis else 4 for a in range(axes))
    reach = radii or (1,) * axes
    for more in (0, 1):
        small = tuple(min(r + more, 5) for r in reach)
        yield small


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("name", STORES)
def test_degenerate_shapes(name, bits):
    rng = np.random.default_rng(bits)
    offsets = store_offsets(name, rng)
    for shape in degenerate_shapes(name):
        features = rng.normal(size=(*shape, 1))
        weights = _core.GridWeights(shape, offsets, np.full(len(offsets), 2.0), features, 0.5)
        pairs, capacities = grid_pairs(weights, offsets, shape)
        flow = _core.GridFlow(weights, SCALE, bits)
        assert flow.bytes == _core.GridFlow.bytes_needed(shape, offsets, bits)
        for _ in range(3):
            unary = random_unary(rng, math.prod(shape))
            flow.minimize((unary / SCALE).reshape(shape))
            require_minimum(flow, unary, pairs, capacities)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("name", STORES)
def test_weights_of_zero_leave_each_site_to_itself(name, bits):
    rng = np.random.default_rng(bits)
    shape, offsets = STORES[name][0], store_offsets(name, rng)
    flow = _core.GridFlow(_core.GridWeights(shape, offsets, np.zeros(len(offsets))), SCALE, bits)
    unary = rng.integers(-2, 3, shape).astype(float)
    flow.minimize(unary)
    flow.check()
    np.testing.assert_array_equal(flow.labels(), unary < 0)
    np.testing.assert_array_equal(flow.labels(largest=True), unary <= 0)
    assert flow.value() == unary[unary < 0].sum()


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("name", STORES)
def test_where_all_is_tied_the_smallest_is_empty_and_the_largest_is_all(name, bits):
    rng = np.random.default_rng(bits)
    shape, offsets = STORES[name][0], store_offsets(name, rng)
    flow = _core.GridFlow(_core.GridWeights(shape, offsets, np.ones(len(offsets))), SCALE, bits)
    nothing = np.zeros(shape)
    balanced = np.where(np.indices(shape).sum(0) % 2, 1.0, -1.0) / SCALE
    balanced.flat[-1] -= balanced.sum()
    for unary in (nothing, balanced, nothing, -balanced, -nothing):
        flow.minimize(unary)
        flow.check()
        assert not flow.labels().any()
        assert flow.labels(largest=True).all()
        assert flow.value() == 0.0


def one_strong_pair(name, capacity):
    """Weights of zero but for one pair, and its two sites."""
    shape, offsets = STORES[name][0], store_offsets(name, np.random.default_rng(0))
    fields = [np.zeros(shape) for _ in offsets]
    middle = tuple(n // 2 for n in shape)
    fields[-1][middle] = capacity
    return shape, _core.GridWeights(shape, offsets, np.ones(len(offsets)), None, 0.0, fields), middle, offsets[-1]


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("name", STORES)
def test_the_greatest_capacity_works_and_one_more_is_refused(name, bits):
    most = MOST_CAPACITY[bits]
    shape, weights, p, offset = one_strong_pair(name, float(most))
    q = tuple(int(a + b) for a, b in zip(p, offset, strict=True))
    flow = _core.GridFlow(weights, 1.0, bits)
    unary = np.zeros(shape)
    for at_p, at_q in itertools.product([-1e300, -most, -1.0, 0.0, 1.0, most, 1e300], repeat=2):
        unary[p], unary[q] = at_p, at_q
        flow.minimize(unary)
        exact_p, exact_q = int(at_p), int(at_q)
        expected = min(0, exact_p + exact_q, exact_p + most, exact_q + most)
        assert flow.minimum() == expected and flow.value() == rounded_down(Fraction(expected))
        labels, all_labels = flow.labels(), flow.labels(largest=True)
        for found in (labels, all_labels):
            energy = (exact_p if found[p] else 0) + (exact_q if found[q] else 0)
            assert energy + most * bool(found[p] != found[q]) == expected
    flow.check()

    shape, weights, p, offset = one_strong_pair(name, most + 1.0)
    where = "({}), offset ({})".format(*(", ".join(map(str, point)) for point in (p, offset)))
    with pytest.raises(ValueError, match="greatest capacity in") as error:
        _core.GridFlow(weights, 1.0, bits)
    assert f"the weight at site {where} is {most + 1}," in str(error.value)
    assert f"at scale 1 more than {most}, the greatest capacity in {bits} bits" in str(error.value)
    assert str(error.value).endswith("expected a smaller scale or more bits")
    _core.GridFlow(weights, 0.5, bits)
    if bits < 64:
        _core.GridFlow(weights, 1.0, 2 * bits)


@pytest.mark.parametrize(("bits", "most"), [(32, 2**30 - 1), (64, 2**48 - 1)])
@pytest.mark.parametrize("kind", ["grid", "graph"])
def test_the_greatest_sum_of_capacities_works_and_one_more_is_refused(kind, bits, most):
    edges = np.array([[0, 1], [1, 2]])

    def flow_of(first, second):
        if kind == "graph":
            return _core.GraphFlow(3, edges, np.array([first, second], dtype=float), 1.0, bits)
        field = np.array([first, second, 0], dtype=float)
        return _core.GridFlow(_core.GridWeights((3,), np.array([[1]]), np.ones(1), None, 0.0, [field]), 1.0, bits)

    flow = flow_of(most - 5, 5)
    for sign in (1, -1, 1):
        flow.minimize(sign * np.array([1e300, -1e300, 1e300]))
        flow.check()
        assert flow.labels().tolist() == [sign < 0, sign > 0, sign < 0]
    flow.minimize(np.zeros(3))
    assert flow.value() == 0.0
    with pytest.raises(ValueError, match=rf"add up to {most + 1}, more than {most}, the most for {bits} bits"):
        flow_of(most - 5, 6)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("name", STORES)
def test_costs_without_measure_settle_their_sites_and_add_up(name, bits):
    """Beyond 2^50 units no pair matters; the value is the sum of the costs and of what the pairs cost then."""
    rng = np.random.default_rng(bits)
    shape, offsets = STORES[name][0], store_offsets(name, rng)
    weights = _core.GridWeights(shape, offsets, np.ones(len(offsets)), rng.normal(size=(*shape, 1)), 0.5)
    pairs, capacities = grid_pairs(weights, offsets, shape)
    flow = _core.GridFlow(weights, SCALE, bits)
    for size in (1e300, 2.0**50, 2.0**44, 2.0**60):
        unary = size * rng.choice([-1.0, 1.0], shape)
        flow.minimize(unary)
        flow.check()
        labels = unary < 0
        np.testing.assert_array_equal(flow.labels(), labels)
        np.testing.assert_array_equal(flow.labels(largest=True), labels)
        i, j = pairs.T
        cut = int(capacities @ (labels.flat[i] != labels.flat[j]))
        expected = sum(int(u) for u in unary[labels]) + cut / SCALE
        assert math.isclose(flow.value(), expected, rel_tol=2.0**-52 * math.prod(shape))  # added up in float64
    flow.minimize(np.full(shape, -0.25))
    assert flow.labels().all()
    assert flow.value() == -0.25 * math.prod(shape)


@pytest.mark.parametrize("name", STORES)
def test_the_same_integers_give_the_same_labels_in_every_width(name):
    rng = np.random.default_rng(3)
    shape, offsets = STORES[name][0], store_offsets(name, rng)
    weights = _core.GridWeights(shape, offsets, np.full(len(offsets), 2.0), rng.normal(size=(*shape, 1)), 0.5)
    pairs, capacities = grid_pairs(weights, offsets, shape)
    flows = [_core.GridFlow(weights, SCALE, bits) for bits in WIDTHS]
    graph = _core.GraphFlow(math.prod(shape), pairs, capacities / SCALE, SCALE, 32)
    for _ in range(5):
        unary = (random_unary(rng, math.prod(shape)) / SCALE).reshape(shape)
        graph.minimize(unary.ravel())
        for flow in flows:
            flow.minimize(unary)
            require_same_answers(flow, flows[0])
            np.testing.assert_array_equal(flow.labels().ravel(), graph.labels())
            np.testing.assert_array_equal(flow.labels(largest=True).ravel(), graph.labels(largest=True))


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize(
    ("shape", "radii"),
    [
        ((9, 21), (1, 6)),
        ((11, 12), (3, 3)),
        ((5, 4, 6), (1, 0, 2)),
        ((4, 5, 6), (1, 1, 1)),
        ((3, 4, 2, 5), (1, 0, 1, 1)),
    ],
)
def test_the_order_of_axes_does_not_matter(shape, radii, bits):
    rng = np.random.default_rng(7)
    offsets = half_box(radii, rng)
    features = rng.normal(size=(*shape, 1))
    unary = np.rint(rng.normal(size=shape) * 2 * SCALE) / SCALE
    fields = [rng.choice([0.5, 1.0, 2.0], shape) for _ in offsets]
    flow = _core.GridFlow(_core.GridWeights(shape, offsets, np.ones(len(offsets)), features, 0.5, fields), SCALE, bits)
    flow.minimize(unary)
    for order in itertools.permutations(range(len(shape))):
        weights = _core.GridWeights(
            tuple(shape[a] for a in order),
            np.ascontiguousarray(offsets[:, order]),
            np.ones(len(offsets)),
            features.transpose(*order, -1),
            0.5,
            [field.transpose(order) for field in fields],
        )
        turned = _core.GridFlow(weights, SCALE, bits)
        turned.minimize(unary.transpose(order))
        assert turned.value() == flow.value()
        np.testing.assert_array_equal(turned.labels(), flow.labels().transpose(order))
        np.testing.assert_array_equal(turned.labels(largest=True), flow.labels(largest=True).transpose(order))


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("offsets", [[[0, 0]], [[0, 1], [0, 1]], [[1, -1], [-1, 1]]])
def test_neighbors_are_listed_once(offsets, bits):
    weights = _core.GridWeights((5, 6), np.array(offsets), np.ones(len(offsets)))
    with pytest.raises(ValueError, match="expected every pair of neighbors once"):
        _core.GridFlow(weights, 1.0, bits)
    with pytest.raises(ValueError, match="expected every pair of neighbors once"):
        _core.GridFlow.bytes_needed((5, 6), np.array(offsets), bits)


def test_offsets_that_reach_beyond_the_grid_have_no_pairs():
    far = [[2**63 - 1, 0], [-(2**63), 0], [0, 6], [0, -6], [5, 1], [-5, 2**40]]
    alone = _core.GridFlow(_core.GridWeights((5, 6), np.array([[0, 1]]), np.ones(1)), 1.0, 32)
    flow = _core.GridFlow(_core.GridWeights((5, 6), np.array([[0, 1], *far]), np.ones(7)), 1.0, 32)
    assert flow.bytes == alone.bytes
    unary = np.random.default_rng(0).normal(size=(5, 6))
    for one in (flow, alone):
        one.minimize(unary)
    require_same_answers(flow, alone)


def test_a_graph_joins_different_sites_perhaps_more_than_once():
    with pytest.raises(ValueError, match="edge 1 joins site 2 to itself: expected two sites"):
        _core.GraphFlow(3, np.array([[0, 1], [2, 2]]), np.ones(2), 1.0, 32)
    twice = _core.GraphFlow(3, np.array([[0, 1], [1, 0], [1, 2]]), np.array([1.0, 2.0, 1.0]), 1.0, 32)
    once = _core.GraphFlow(3, np.array([[0, 1], [1, 2]]), np.array([3.0, 1.0]), 1.0, 32)
    for flow in (twice, once):
        flow.minimize(np.array([-5.0, 2.5, 1.0]))
    require_same_answers(twice, once)
