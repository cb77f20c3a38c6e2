"""The core's blocks, driven directly: any sequence of steps keeps the invariants, any way on ends in the minimum."""

import numpy as np
import pytest

from block_flows import FOUR, PROBLEMS, Driven, finish, problem, wander
from dope import Energy, MaxFlow, Partition, _core
from oracles import bracketed
from profiles import slow_but


@pytest.mark.parametrize("bits", slow_but([16, 32, 64], quick=[16]))
@pytest.mark.parametrize("name", PROBLEMS)
def test_any_sequence_of_steps_keeps_the_invariants_and_ends_in_the_minimum(name, bits):
    for seed in range(4):
        wander(name, seed, bits=bits, turns=12)


def both_minimizers(unary, edges, weights):
    minimizer = MaxFlow().prepare(Energy.graph(unary, edges, weights))
    minimizer.minimize(unary)
    return minimizer.labels(), minimizer.labels(largest=True)


@pytest.mark.parametrize("name", PROBLEMS)
def test_brackets_are_those_of_each_block_alone_whatever_has_flowed(name):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        energy, partition = problem(name, rng)
        driven = Driven(energy, partition, None)
        expected = bracketed(energy, partition, both_minimizers)
        for _ in range(3):
            low, high = driven.bracket()
            np.testing.assert_array_equal(low, expected[0])
            np.testing.assert_array_equal(high, expected[1])
            driven.push()


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_was_pushed_is_what_flows(name):
    rng = np.random.default_rng(5)
    energy, partition = problem(name, rng)
    driven = Driven(energy, partition, 32)
    for _ in range(4):
        driven.push()
        pushed, flows = (
            sorted(zip(*(a.tolist() for a in arrays), strict=True)) for arrays in (driven.flow.pushed(), driven.flows())
        )
        assert pushed == flows


@pytest.mark.parametrize("name", PROBLEMS)
def test_flows_imposed_on_a_new_one_give_the_same_bound(name):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        energy, partition = problem(name, rng)
        driven = Driven(energy, partition, 64)
        finish(driven, rng, "discharge")
        flows = driven.flows()
        again = Driven(energy, partition, 64)
        again.flow.impose(*flows, energy.unary.size)
        for mine, others in zip(again.flows(), flows, strict=True):
            np.testing.assert_array_equal(mine, others)
        again.solve(again.flow.changed())
        assert again.certified()


def test_nonsense_is_refused():
    energy = Energy.grid(np.zeros((4, 6)), kernel=FOUR)
    weights = energy.pairs.native()
    for cuts in ([[2]], [[2], [6]], [[2], [3, 3]], [[0], [3]], [[2], [3], [1]]):
        with pytest.raises(ValueError, match="cuts"):
            _core.BlockFlow.grid(weights, 1.0, 16, cuts)
    flow = Driven(energy, Partition.at((4, 6), [[2], [3]]), 16).flow
    for call in (flow.solve, flow.labels, flow.survey, flow.bound, flow.check, flow.group):
        for k in (-1, 4):
            with pytest.raises(ValueError, match=f"block {k}"):
                call(k)
    with pytest.raises(ValueError, match="unary"):
        flow.price(0, np.zeros(5))
    with pytest.raises(ValueError, match="merged"):
        flow.merge(1, 1)
    flow.merge(2, 1)
    with pytest.raises(ValueError, match="merged"):
        flow.merge(2, 0)
    one = np.array([0])
    with pytest.raises(ValueError, match="site"):
        flow.impose(one, one + 24, one, 24)
    with pytest.raises(ValueError, match="block 7"):
        _core.BlockFlow.graph(3, np.array([[0, 1]]), np.ones(1), 1.0, 16, np.array([0, 7, 1], np.int32), 2)
