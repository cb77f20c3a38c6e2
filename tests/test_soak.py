"""Minutes of looking for rare failures: `make soak`. The laws themselves run there too, on many more examples."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dope
from block_flows import PROBLEMS, wander
from dope import Admm, Energy, Exact, MaxFlow, Serial, Threads, _core
from flows import NETWORKS, SCALE, WIDTHS, Network, follow, network, random_weights
from memory import growth
from oracles import brute_force, edge_weight_matrix, scipy_minimum
from problems import energies, partitions, rng_of

pytestmark = pytest.mark.soak


@given(energies(most=12), st.data())
@settings(max_examples=5000)
def test_exact_solves_agree_with_brute_force(energy, data):
    bits = data.draw(st.sampled_from([None, 32, 64]))
    best, _, _ = brute_force(energy.unary, edge_weight_matrix(energy))
    result = dope.minimize(energy, solver=MaxFlow(bits), blocks=1, method=Admm(), executor=Serial())
    assert abs(result.energy - best) <= result.rounding_error + 1e-9 * (1 + abs(best))


@given(energies(most=200, integers=True), st.data())
@settings(max_examples=1000)
def test_long_sequences_of_warm_starts_agree_with_scipy(energy, data):
    rng = rng_of(data.draw)
    minimizer = MaxFlow().prepare(energy)
    weights = edge_weight_matrix(energy)
    unary = energy.unary.copy()
    for _ in range(12):
        changed = rng.random(unary.shape) < rng.choice([0.02, 0.2, 1.0])
        unary = np.where(changed, rng.integers(-9, 10, unary.shape), unary).astype(float)
        answer = minimizer.minimize(unary)
        assert answer.bound == scipy_minimum(unary, weights)
        np.testing.assert_array_equal(answer.labels, MaxFlow().prepare(energy).minimize(unary).labels)


@given(energies(most=300), st.data())
@settings(max_examples=500)
def test_threads_agree_with_serial_for_any_blocks(energy, data):
    partition = data.draw(partitions(energy))
    runs = [
        dope.minimize(energy, blocks=partition, method=Admm(rounds=6), executor=executor)
        for executor in (Serial(), Threads(2), Threads(7))
    ]
    for other in runs[1:]:
        np.testing.assert_array_equal(other.labels, runs[0].labels)
        assert [step.energy for step in other.trace] == [step.energy for step in runs[0].trace]


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_blocks_wander_far_and_end_in_the_minimum(name, bits):
    for seed in range(100, 120):
        wander(name, seed, bits=bits, turns=60)


@given(energies(most=12, integers=True), st.data())
@settings(max_examples=5000)
def test_blocks_agree_with_brute_force(energy, data):
    partition = data.draw(partitions(energy, overlaps=False))
    method = Exact(rounds=data.draw(st.integers(0, 6)), merge=data.draw(st.booleans()))
    best, smallest, _ = brute_force(energy.unary, edge_weight_matrix(energy))
    result = dope.minimize(energy, blocks=partition, method=method, executor=Serial())
    assert result.exact and result.energy == best
    np.testing.assert_array_equal(result.labels.ravel(), smallest)
    assert dope.verify(energy, result.labels, result.certificate).exact


@pytest.mark.parametrize("kernel", [[(0, 1), (1, 0)], 3, 7], ids=str)
@pytest.mark.parametrize("number", [1, 4])
def test_blocks_that_go_on_for_long_end_where_one_block_does(kernel, number):
    """Pictures of some size in threads, from one change to the next, now merging and now not."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        shape = tuple(int(n) for n in rng.integers(60, 160, 2))
        pixels = rng.normal(size=shape).cumsum(axis=int(rng.integers(2)))
        unary = rng.normal(0, rng.choice([0.2, 2.0]), shape)
        layout = tuple(int(n) for n in rng.integers(1, 9, 2))
        result = None
        for _ in range(6):
            energy = Energy.grid(unary, lam=float(rng.choice([0.3, 1.0])), kernel=kernel, features=pixels)
            method = Exact(rounds=int(rng.integers(5)), merge=bool(rng.random() < 0.5))
            result = dope.minimize(energy, blocks=layout, method=method, executor=Threads(number), start=result)
            assert result.exact
            whole = MaxFlow(64).prepare(energy).minimize(energy.unary)
            np.testing.assert_array_equal(result.labels, whole.labels)
            changed = rng.random(shape) < rng.choice([0.001, 0.1, 1.0])
            unary = np.where(changed, rng.normal(0, 2, shape), unary)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("name", NETWORKS)
def test_long_sequences_of_changes_give_what_cold_flows_give(name, bits):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        follow(network(name, rng), rng, bits=bits, turns=300)


@given(st.integers(0, 2**32 - 1), st.sampled_from(WIDTHS))
@settings(max_examples=2000)
def test_changes_on_any_grid_give_what_cold_flows_give(seed, bits):
    rng = np.random.default_rng(seed)
    follow(Network(*random_weights(rng)), rng, bits=bits, turns=20)


def test_flows_in_many_threads_give_the_serial_answers_time_and_again():
    def last_labels(task):
        name, bits, seed = task
        rng = np.random.default_rng(seed)
        problem = network(name, rng)
        flow = problem.open(bits)
        for _ in range(20):
            flow.minimize(rng.normal(size=problem.shape))
        return flow.labels()

    tasks = list(itertools.product(NETWORKS, WIDTHS, range(10)))
    serial = [last_labels(task) for task in tasks]
    with ThreadPoolExecutor(16) as pool:
        for _ in range(5):
            for labels, expected in zip(pool.map(last_labels, tasks), serial, strict=True):
                np.testing.assert_array_equal(labels, expected)


def test_thousands_of_flows_leave_nothing_behind():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(50, 50, 1))
    unary = rng.normal(size=(50, 50))

    def cycle():
        weights = _core.GridWeights((50, 50), np.array([[0, 1], [1, 0], [2, 1]]), np.ones(3), features, 0.5)
        flow = _core.GridFlow(weights, SCALE, 16)
        for sign in (1, -1):
            flow.minimize(sign * unary)
            flow.labels()
            flow.refill(weights, SCALE)
        with pytest.raises(ValueError, match="scale"):
            _core.GridFlow(weights, -1.0, 16)

    assert growth(cycle, 20_000) < 2_000_000  # a hundred bytes a time
