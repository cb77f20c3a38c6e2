"""Mean field beside brute force and its own equation, and single flips, which it must not fall behind."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from dope import Energy, Icm, InputError, MeanField, _core
from oracles import brute_force, edge_weight_matrix
from problems import energies, rng_of


def answer_of(energy, solver=None, **more):
    return (solver or MeanField()).prepare(energy).minimize(energy.unary, **more)


def slack(energy):
    return 1e-12 * (1 + np.abs(energy.unary).sum() + np.abs(energy.pairs.edges()[2]).sum())


def native(energy):
    first, second, weights = energy.pairs.edges()
    return _core.MeanField(_core.Neighbors.graph(energy.unary.size, np.stack([first, second], axis=1), weights))


@given(energies(most=10, signed=True), st.data())
def test_labels_are_between_brute_force_and_the_start(energy, data):
    start = rng_of(data.draw).random(energy.shape) < 0.5
    best = brute_force(energy.unary, edge_weight_matrix(energy))[0]
    found = energy(answer_of(energy, start=start).labels)
    assert best - slack(energy) <= found <= energy(start) + slack(energy)


@given(energies(most=12, signed=True))
def test_no_single_flip_improves_the_labels(energy):
    labels = answer_of(energy).labels
    for site in np.ndindex(*energy.shape):
        flipped = labels.copy()
        flipped[site] ^= True
        assert energy(flipped) >= energy(labels) - slack(energy)


@given(energies(most=24, signed=True, integers=False))
def test_where_it_is_hot_the_probabilities_solve_their_equation(energy):
    W, core = edge_weight_matrix(energy), native(energy)
    hot = 2.0 * max(core.strength, 1e-3)
    # Cooling by so little for so long is staying at one temperature.
    q = core.run(energy.unary.ravel().astype(float), hot, hot * (1 - 1e-7), 1 - 1e-9)
    field = energy.unary.ravel() + W @ (1 - 2 * q)
    np.testing.assert_allclose(q, expit(-field / hot), atol=0.02)


@given(energies(most=24, signed=True))
def test_strength_is_the_sum_of_weights_around_a_site(energy):
    sums = np.abs(edge_weight_matrix(energy)).sum(axis=1)
    core = native(energy)
    assert core.strength == pytest.approx(sums.max(), abs=1e-12)
    assert core.mean_strength == pytest.approx(sums.mean(), abs=1e-12)


@given(energies(most=14, signed=True), st.data())
def test_answers_depend_on_unary_and_start_alone(energy, data):
    other = rng_of(data.draw).normal(0, 3, energy.shape)
    used = MeanField().prepare(energy)
    for unary in (energy.unary, other, energy.unary):
        fresh = MeanField().prepare(energy).minimize(unary)
        np.testing.assert_array_equal(used.minimize(unary).labels, fresh.labels)


def test_it_beats_single_flips():
    falls = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        energy = Energy.grid(rng.normal(size=(20, 20)), kernel=5, weights=list(rng.normal(size=12)))
        mean_field, flips = (answer_of(energy, solver) for solver in (MeanField(), Icm()))
        falls.append(energy(flips.labels) - energy(mean_field.labels))
    assert min(falls) >= 0
    assert np.mean(np.array(falls) > 0) > 0.8


def test_labels_that_could_be_swapped_are_told_apart():
    ring = np.stack([np.arange(12), np.roll(np.arange(12), -1)], axis=1)
    energy = Energy.graph(np.zeros(12), ring, -np.ones(12))
    assert energy(answer_of(energy).labels) <= -10


def test_without_pairs_every_site_takes_its_cheaper_label():
    unary = np.array([1.0, -1.0, 0.0])
    assert answer_of(Energy.graph(unary, [], [])).labels.tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"hot": 0.001}, ["hot is 0.001", "cold 0.01"]),
        ({"cold": 0.0}, ["cold 0.0"]),
        ({"hot": float("inf")}, ["hot is inf"]),
        ({"cooling": 1.0}, ["cooling is 1.0", "between 0 and 1"]),
    ],
)
def test_settings_are_checked(settings, words):
    with pytest.raises(InputError) as error:
        MeanField(**settings)
    assert all(word in str(error.value) for word in words)
