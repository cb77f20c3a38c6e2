"""The native core's `crossings`: what can still flow across a face, from which the minimum can be proved anew."""

import numpy as np
import pytest

from dope import _core
from flows import SCALE, STORES, WIDTHS, grid, network, random_unary


def across(problem, axis, at):
    """The pairs on both sides of a face, found one by one: (below, above) -> capacity."""
    coordinate = np.indices(problem.shape)[axis].ravel()
    found = {}
    for (i, j), capacity in zip(problem.pairs.tolist(), problem.capacities.tolist(), strict=True):
        if coordinate[i] < at <= coordinate[j]:
            found[i, j] = capacity
        if coordinate[j] < at <= coordinate[i]:
            found[j, i] = capacity
    return found


def faces(problem):
    return [(axis, at) for axis, extent in enumerate(problem.shape) for at in range(-1, extent + 2)]


def solved(problem, rng, bits):
    """A flow after some warm starts, its unary in units, and its residuals: (tail, head) -> units."""
    flow = problem.open(bits)
    unary = np.zeros(problem.sites, np.int64)
    for _ in range(3):
        unary = rng.integers(-300, 301, problem.sites)
        flow.minimize((unary / SCALE).reshape(problem.shape))
    residuals = {}
    for axis, at in faces(problem):
        for below, above, upward, downward in np.transpose(flow.crossings(axis, at)).tolist():
            assert residuals.setdefault((below, above), upward) == upward
            assert residuals.setdefault((above, below), downward) == downward
    return flow, unary, residuals


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("name", STORES)
def test_each_pair_across_a_face_is_there_once_with_its_capacity(name, bits):
    rng = np.random.default_rng(bits)
    problem = network(name, rng)
    flow = problem.open(bits)
    for solving in (False, True):
        if solving:
            flow.minimize((random_unary(rng, problem.sites) / SCALE).reshape(problem.shape))
        for axis, at in faces(problem):
            below, above, upward, downward = flow.crossings(axis, at)
            expected = across(problem, axis, at)
            assert len(below) == len(expected)
            assert set(zip(below.tolist(), above.tolist(), strict=True)) == set(expected)
            capacities = np.array([expected[pair] for pair in zip(below.tolist(), above.tolist(), strict=True)])
            np.testing.assert_array_equal(upward + downward, 2 * capacities)
            assert (upward >= 0).all() and (downward >= 0).all()
            if not solving:
                np.testing.assert_array_equal(upward, capacities)
            if at <= 0 or at >= problem.shape[axis]:
                assert len(below) == 0


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("name", STORES)
def test_residuals_prove_the_minimum(name, bits):
    """Flow changes no energy, so -sum of the sources' excess is a bound; that it is met proves both."""
    rng = np.random.default_rng(bits + 1)
    problem = network(name, rng)
    flow, unary, residuals = solved(problem, rng, bits)
    excess = -unary.astype(object)
    for (i, j), capacity in zip(problem.pairs.tolist(), problem.capacities.tolist(), strict=True):
        from_i_to_j = capacity - residuals[i, j]
        excess[i] -= from_i_to_j
        excess[j] += from_i_to_j
    assert flow.value() * SCALE == -sum(max(e, 0) for e in excess)
    for largest in (False, True):
        labels = flow.labels(largest=largest).ravel()
        assert (labels[excess > 0]).all()
        assert not labels[excess < 0].any()
        for (i, j), units in residuals.items():
            assert not (labels[i] and not labels[j] and units > 0), "open from label 1 to label 0"


def test_negative_steps_and_long_ones_cross_too():
    rng = np.random.default_rng(4)
    offsets = np.array([[2, -3], [-1, 0], [0, -2], [-3, -4], [1, 2]])
    problem = grid((6, 7), offsets, rng)
    flow = problem.open(32)
    flow.minimize(rng.normal(size=problem.shape))
    for axis, at in faces(problem):
        below, above, _, _ = flow.crossings(axis, at)
        assert set(zip(below.tolist(), above.tolist(), strict=True)) == set(across(problem, axis, at))


def test_faces_outside_the_grid_cut_nothing_and_wrong_axes_are_refused():
    flow = grid((3, 4), np.array([[0, 1], [1, -1]]), np.random.default_rng(0)).open(16)
    for at in (-(2**63), -1, 0, 4, 2**63 - 1):
        assert [len(column) for column in flow.crossings(1, at)] == [0, 0, 0, 0]
    for axis in (-1, 2, 2**40):
        with pytest.raises(ValueError, match=f"axis is {axis}: expected 0 to 1"):
            flow.crossings(axis, 1)
    with pytest.raises(TypeError):
        flow.crossings(0, 2**63)


def test_a_kernel_without_steps_along_an_axis_has_no_crossings_there():
    flow = _core.GridFlow(_core.GridWeights((3, 4), np.array([[0, 1]]), np.ones(1)), 1.0, 16)
    assert len(flow.crossings(0, 1)[0]) == 0
    assert len(flow.crossings(1, 1)[0]) == 3
