"""The native core's `change`: a new unary at listed sites, against a flow that starts cold."""

import math

import numpy as np
import pytest

from dope import _core
from flows import NETWORKS, WIDTHS, follow, network, require_same_answers
from profiles import slow_but


@pytest.mark.parametrize("bits", slow_but(WIDTHS, quick=[16]))
@pytest.mark.parametrize("name", NETWORKS)
def test_changes_give_what_a_cold_flow_gives(name, bits):
    rng = np.random.default_rng(bits)
    follow(network(name, rng), rng, bits=bits, turns=150)


def chain(unary, weight=1.0, scale=1.0, bits=32):
    """A solved chain of as many sites, in units."""
    flow = _core.GridFlow(_core.GridWeights((len(unary),), np.array([[1]]), np.array([weight])), scale, bits)
    flow.minimize(np.array(unary, dtype=float))
    return flow


def test_of_several_changes_at_one_site_the_last_wins():
    flow = chain([5.0, 5.0, 5.0])
    flow.change(np.array([1, 0, 1, 1]), np.array([-100.0, 1.0, 100.0, -9.0]))
    require_same_answers(flow, chain([1.0, -9.0, 5.0]))


def test_no_change_changes_nothing():
    flow = chain([-5.0, 1.0, 5.0])
    before = flow.labels(), flow.value()
    flow.change(np.zeros(0, np.int64), np.zeros(0))
    flow.check()
    assert (flow.labels() == before[0]).all()
    assert flow.value() == before[1]


def test_sites_and_values_need_not_be_contiguous():
    flow = chain([5.0] * 6)
    flow.change(np.arange(6)[1::4], np.array([-1.0, 9.0, -8.0, 9.0])[::2])
    require_same_answers(flow, chain([5.0, -1.0, 5.0, 5.0, 5.0, -8.0]))


@pytest.mark.parametrize(
    ("sites", "values", "error", "message"),
    [
        (np.array([3]), np.zeros(1), ValueError, "a change is at site 3: expected 0 to 2"),
        (np.array([0, -1]), np.zeros(2), ValueError, "at site -1: expected 0 to 2"),
        (np.array([2**62]), np.zeros(1), ValueError, "at site 4611686018427387904"),
        (np.array([1]), np.array([math.nan]), ValueError, "site 1 is nan"),
        (np.array([1]), np.array([math.inf]), ValueError, "site 1 is inf"),
        (np.array([1]), np.array([-(2.0**50)]), ValueError, "give the whole unary to minimize"),
        (np.array([1], np.int32), np.zeros(1), TypeError, "sites has dtype int32: expected int64"),
        (np.array([1.0]), np.zeros(1), TypeError, "sites has dtype float64: expected int64"),
        (np.array([True, False, True]), np.zeros(3), TypeError, "sites has dtype bool8: expected int64"),
        (np.array([1]), np.zeros(1, np.float32), TypeError, "unary has dtype float32: expected float64"),
        (np.array([1]), np.zeros(2), ValueError, r"unary has shape \(2\): expected \(1\)"),
        (np.array([1]), np.zeros((1, 1)), ValueError, r"unary has shape \(1, 1\): expected \(1\)"),
        (np.array([[1]]), np.zeros(1), ValueError, r"sites has shape \(1, 1\)"),
        (1, np.zeros(1), TypeError, "sites is a int: expected a NumPy array"),
        (np.array([1]), [0.0], TypeError, "unary is a list: expected a NumPy array"),
    ],
)
@pytest.mark.parametrize("kind", ["grid", "graph"])
def test_a_wrong_change_is_refused_as_a_whole(kind, sites, values, error, message):
    unary = np.array([-5.0, 1.0, 5.0])
    flow = chain(unary)
    if kind == "graph":
        flow = _core.GraphFlow(3, np.array([[0, 1], [1, 2]]), np.ones(2), 1.0, 32)
        flow.minimize(unary)
    with pytest.raises(error, match=message):
        flow.change(sites, values)
    flow.check()
    require_same_answers(flow, chain(unary))


def test_a_change_needs_a_solved_flow():
    flow = _core.GridFlow(_core.GridWeights((3,), np.array([[1]]), np.ones(1)), 1.0, 32)
    with pytest.raises(RuntimeError, match=r"expected minimize\(\) to be called first"):
        flow.change(np.array([1]), np.ones(1))


@pytest.mark.parametrize("bits", WIDTHS)
def test_changes_beside_sites_that_are_certain(bits):
    """Costs of 2^50 units and more are kept to the last unit, and given anew only with all of the unary."""
    certain = [-(2.0**51), 2.0**52, 3.0, 1.0]
    flow = chain(certain, bits=bits)
    flow.change(np.array([2, 3]), np.array([-7.0, 2.0**50 - 1]))
    assert flow.value() == -(2.0**51) + 1 - 7 + 2  # the ends of the chain differ three times
    flow.check()
    require_same_answers(flow, chain([*certain[:2], -7.0, 2.0**50 - 1], bits=bits))
    for site in (0, 1):
        with pytest.raises(ValueError, match=rf"site {site} was too large before"):
            flow.change(np.array([site]), np.zeros(1))
    flow.minimize(np.zeros(4))
    flow.change(np.array([0]), np.array([-1.5]))
    require_same_answers(flow, chain([-1.5, 0.0, 0.0, 0.0], bits=bits))
