"""Minutes of looking for rare failures: `make soak`. The laws themselves run there too, on many more examples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dope
from dope import Admm, MaxFlow, Serial, Threads
from oracles import brute_force, edge_weight_matrix, scipy_minimum
from problems import energies, partitions, rng_of

pytestmark = pytest.mark.soak


@given(energies(most=12), st.data())
@settings(max_examples=5000)
def test_exact_solves_agree_with_brute_force(energy, data):
    bits = data.draw(st.sampled_from([None, 32, 64]))
    best, _, _ = brute_force(energy.unary, edge_weight_matrix(energy))
    result = dope.minimize(energy, solver=MaxFlow(bits), blocks=1, executor=Serial())
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
