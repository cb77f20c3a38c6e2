"""The core's blocks, driven directly: any sequence of steps keeps the invariants, any way on ends in the minimum."""

import numpy as np
import pytest

from block_flows import FOUR, GRIDS, PROBLEMS, Driven, finish, problem, wander
from dope import Energy, MaxFlow, Partition, _core
from dope.fixed_point import FixedPoint
from oracles import bracketed
from problems import members
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


def opened(energy, partition, fixed, k, *, empty=False):
    """A flow of the core for one block of a grid, whose other blocks are never solved."""
    flow = MaxFlow().open_blocks(energy.pairs, partition, fixed)
    for part in range(0 if empty else flow.parts):
        flow.fill(part)
    flow.finish()
    if not empty:
        for j in range(flow.blocks):
            flow.wall_in(j)
        flow.price(k, np.ascontiguousarray(energy.unary[partition.blocks[k].where], dtype=float).ravel())
    return flow


@pytest.mark.parametrize("name", GRIDS)
def test_a_block_that_was_saved_and_loaded_goes_on_alike(name):
    """Before and after flow has come and gone over its walls; bytes of another length are refused."""
    rng = np.random.default_rng(3)
    energy, partition = problem(name, rng)
    fixed = FixedPoint.of(energy)
    k = len(partition.blocks) // 2
    one = opened(energy, partition, fixed, k)
    one.solve(k)
    for _ in range(4):
        other = opened(energy, partition, fixed, k, empty=True)
        saved = one.save(k)
        for wrong in (saved[:-1], saved + b"0", b""):
            with pytest.raises(ValueError, match="bytes were saved"):
                other.load(k, wrong)
        for store, those in zip(other.stores(), one.stores(), strict=True):
            store[:] = those
        other.load(k, saved)
        other.check(k)
        assert other.bound(k) == one.bound(k)
        around = np.setdiff1d(np.arange(energy.unary.size), members(partition)[k])
        distances = rng.integers(0, 4, len(around)).astype(np.int32)
        answers = []
        for flow in (one, other):
            flow.surround(around, distances)
            flow.discharge(k)
            flow.check(k)
            flow.measure_from(k, 9)
            first, second, amount = flow.wall_flows(k)
            reached = flow.reach(k, np.zeros(0, dtype=np.int64))
            answers.append([first, second, amount, *flow.border(k), reached, flow.labels(k), flow.labels(k, True)])
            half = np.sign(amount) * (np.abs(amount) // 2)
            flow.carry(k, first, second, -half)  # some comes back
            flow.solve(k)
            flow.check(k)
            answers[-1] += [flow.labels(k), *flow.wall_flows(k)]
        for mine, others in zip(*answers, strict=True):
            np.testing.assert_array_equal(mine, others)
        assert one.bound(k) == other.bound(k)


@pytest.mark.parametrize("name", GRIDS)
def test_sites_that_are_held_are_fixed_labels(name):
    """A block among sites with labels for good has the smallest minimum of its sites, given those labels."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        energy, partition = problem(name, rng)
        fixed = FixedPoint.of(energy)
        k = int(rng.integers(len(partition.blocks)))
        where = members(partition)[k]
        held = rng.integers(1, 3, energy.unary.size).astype(np.uint8)
        held[where] = 0
        flow = opened(energy, partition, fixed, k)
        flow.hold(k, held)
        flow.solve(k)
        flow.check(k)
        first, second, weights = energy.pairs.edges()
        price = 1 + 2 * weights.sum() + np.abs(energy.unary).sum()
        unary = np.where(held == 0, energy.unary.ravel(), np.where(held == 2, -price, price))
        expected, _ = both_minimizers(unary, np.stack([first, second], axis=1), weights)
        np.testing.assert_array_equal(flow.labels(k), expected[where])


def test_flows_and_sites_that_cannot_be_are_refused():
    energy = Energy.grid(np.zeros((4, 6)), kernel=FOUR, lam=2.0)
    flow = opened(energy, Partition.at((4, 6), [[2], [3]]), FixedPoint.of(energy), 0)
    flow.solve(0)
    one = np.array([2])
    for first, second, amount in ((2, 3, 10**6), (0, 1, 1), (2, 9, 1), (9, 3, 1), (2, 24, 1), (-1, 3, 1)):
        with pytest.raises(ValueError, match="site"):
            flow.carry(0, np.array([first]), np.array([second]), np.array([amount]))
    for site in (3, 24, -1):
        with pytest.raises(ValueError, match="site"):
            flow.reach(0, np.array([site]))
    with pytest.raises(ValueError, match="expected 0 or more walls"):
        flow.surround(one, np.array([-1], dtype=np.int32))
    with pytest.raises(ValueError, match="held"):
        flow.hold(0, np.zeros(23, dtype=np.uint8))
    for call in (flow.save, flow.wall_flows, flow.border):
        with pytest.raises(ValueError, match="block 4"):
            call(4)


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
