"""Qpbo: what it proves is true, and as much as another implementation of the roof dual proves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import Energy, InputError, MaxFlow, Qpbo
from dope.roof_dual import double_pairs
from dope.solvers.parts.roof import Roof, listed
from oracles import brute_force, edge_weight_matrix
from problems import energies, grids, rng_of
from profiles import examples

KINDS = [Qpbo(), Qpbo(probe=True), Qpbo(improve=4), Qpbo(probe=True, rounds=1, improve=4, seed=3)]


def least(energy):
    return brute_force(energy.unary, edge_weight_matrix(energy))[0]


def noise(energy, answer):
    return answer.rounding_error + 1e-9 * (1 + float(np.abs(energy.unary).sum()))


def solved(solver, energy, start=None):
    return solver.prepare(energy).minimize(energy.unary, start=start)


@pytest.mark.parametrize("solver", KINDS, ids=str)
@given(energy=energies(most=10, signed=True))
def test_what_is_proved_is_true(solver, energy):
    answer, best = solved(solver, energy), least(energy)
    slack = noise(energy, answer)
    assert answer.bound <= best + slack
    assert best <= energy(answer.labels) + slack
    held = np.where(answer.labels, -1e3, 1e3)
    among = Energy(np.where(answer.proved, energy.unary + held, energy.unary), energy.pairs)
    # The minimum under all proved labels at once is the minimum.
    assert least(among) - float(held[answer.proved & answer.labels].sum()) <= best + slack
    if answer.exact:
        assert answer.proved.all()
        assert energy(answer.labels) <= best + slack


@pytest.mark.parametrize("solver", KINDS, ids=str)
@given(energy=energies(most=12))
@examples(30)
def test_a_submodular_energy_is_solved(solver, energy):
    answer, by_flow = solved(solver, energy), solved(MaxFlow(), energy)
    assert answer.exact
    assert answer.proved.all()
    np.testing.assert_array_equal(answer.labels, by_flow.labels)


@given(energies(most=12, integers=True), st.data())
def test_swapping_labels_of_some_sites_leaves_a_submodular_energy_solved(energy, data):
    swapped = rng_of(data.draw).random(energy.unary.size) < 0.5
    first, second, weights = energy.pairs.edges()
    signs = np.where(swapped[first] == swapped[second], 1.0, -1.0)
    edges = np.stack([first, second], axis=1)
    plain = Energy.graph(energy.unary.ravel(), edges, weights)
    turned = Energy.graph(np.where(swapped, -1, 1) * energy.unary.ravel(), edges, signs * weights)
    answer = solved(Qpbo(), turned)
    assert answer.exact
    assert answer.proved.all()
    assert plain(answer.labels ^ swapped) == least(plain)


@given(energies(most=12, signed=True))
def test_probing_and_improving_are_never_worse(energy):
    plain = solved(Qpbo(), energy)
    probed, improved = solved(Qpbo(probe=True), energy), solved(Qpbo(improve=4), energy)
    slack = 1e-9 * (1 + float(np.abs(energy.unary).sum()))
    for other in (probed, improved):
        assert energy(other.labels) <= energy(plain.labels) + slack
        assert other.bound >= plain.bound - slack - 2 * plain.rounding_error
    assert improved.proved.sum() >= plain.proved.sum()


@pytest.mark.parametrize("solver", KINDS, ids=str)
@given(energy=energies(most=12, signed=True), data=st.data())
@examples(30)
def test_labels_are_no_worse_than_the_start(solver, energy, data):
    start = rng_of(data.draw).random(energy.shape) < 0.5
    answer = solved(solver, energy, start)
    assert energy(answer.labels) <= energy(start) + noise(energy, answer)


@pytest.mark.parametrize("solver", KINDS, ids=str)
@given(energy=energies(most=12, signed=True), data=st.data())
@examples(30)
def test_answers_do_not_depend_on_earlier_calls(solver, energy, data):
    rng = rng_of(data.draw)
    minimizer = solver.prepare(energy)
    for scale in (0.37, 1.0, 0.37, 1e7):
        unary = energy.unary + scale * rng.integers(-3, 4, energy.shape)
        again, fresh = minimizer.minimize(unary), solver.prepare(energy).minimize(unary)
        np.testing.assert_array_equal(again.labels, fresh.labels)
        np.testing.assert_array_equal(again.proved, fresh.proved)
        assert (again.bound, again.exact) == (fresh.bound, fresh.exact)
        moved = Energy(unary, energy.pairs)
        assert again.bound <= least(moved) + noise(moved, again) if energy.unary.size <= 10 else True


@given(grids(most=12, signed=True), st.data())
def test_doubling_a_grid_is_doubling_its_graph(grid, data):
    energy, labels = grid[0], rng_of(data.draw).random((2, *grid[0].shape)) < 0.5
    first, second, weights = energy.pairs.edges()
    graph = Energy.graph(energy.unary.ravel(), np.stack([first, second], axis=1), weights)
    twice, expected = double_pairs(energy.pairs), double_pairs(graph.pairs)
    assert twice.lowest >= 0
    assert twice.roughness(labels) == pytest.approx(expected.roughness(labels.ravel()), rel=1e-9, abs=1e-9)


@given(energies(most=12, signed=True), st.data())
def test_the_doubled_energy_of_labels_and_their_opposite_is_twice_theirs(energy, data):
    labels = rng_of(data.draw).random(energy.shape) < 0.5
    pairs = double_pairs(energy.pairs)
    mirrored = np.stack([labels, ~labels]).reshape(pairs.shape)
    apart = np.stack([np.zeros_like(labels), np.ones_like(labels)]).reshape(pairs.shape)
    unary = float(energy.unary[labels].sum())
    twice = 2 * unary + pairs.roughness(mirrored) - pairs.roughness(apart)
    assert twice == pytest.approx(2 * energy(labels), rel=1e-9, abs=1e-9)


@given(energies(most=10, signed=True), st.data())
def test_a_roof_bounds_what_is_forced(energy, data):
    if energy.submodular:
        return
    rng, roof = rng_of(data.draw), Roof(energy, listed(energy.pairs))
    roof.solve(energy.unary.ravel().astype(float))
    free = roof.bound()
    sites = np.flatnonzero(rng.random(energy.unary.size) < 0.5)
    labels = rng.random(len(sites)) < 0.5
    roof.force(sites, labels)
    held = np.where(labels, -1e3, 1e3)
    unary = energy.unary.ravel().astype(float).copy()
    unary[sites] += held
    best = least(Energy(unary.reshape(energy.shape), energy.pairs)) - float(held[labels].sum())
    slack = roof.rounding_error + 1e-8 * (1 + abs(best))
    assert free - slack <= roof.bound() <= best + slack
    known, found = roof.labels()
    assert known[sites].all()
    np.testing.assert_array_equal(found[sites], labels)
    roof.force(sites[:0], labels[:0], release=sites)
    assert roof.bound() == pytest.approx(free, abs=1e-9)


@given(energies(most=12, signed=True, integers=True))
def test_as_much_is_proved_as_by_the_authors_own_program(energy):
    thinqpbo = pytest.importorskip("thinqpbo")
    theirs = thinqpbo.QPBOInt()
    theirs.add_node(energy.unary.size)
    for site, price in enumerate(energy.unary.ravel().tolist()):
        theirs.add_unary_term(site, 0, int(price))
    for i, j, weight in zip(*(part.tolist() for part in energy.pairs.edges()), strict=True):
        theirs.add_pairwise_term(i, j, 0, int(weight), int(weight), 0)
    theirs.merge_parallel_edges()
    theirs.solve()
    answer = solved(Qpbo(), energy)
    assert 2 * answer.bound == theirs.compute_twice_lower_bound()
    theirs.compute_weak_persistencies()
    labelled = sum(theirs.get_label(site) >= 0 for site in range(energy.unary.size))
    assert answer.proved.sum() >= labelled


def test_a_drawing_in_blocks_keeps_the_energy_recomputed():
    rng = np.random.default_rng(0)
    energy = Energy.grid(rng.normal(size=(24, 24)), kernel=3, weights=[1.0, -0.5, 1.0, -0.5])
    result = dope.minimize(energy, blocks=4, solver=Qpbo())
    assert result.energy == energy(result.labels)
    alone = dope.minimize(energy, blocks=1, solver=Qpbo(probe=True, improve=5))
    assert alone.lower_bound <= min(alone.energy, result.energy)


@pytest.mark.parametrize(
    "settings_", [{"probe": 1}, {"rounds": 0}, {"improve": -1}, {"seed": 0.5}, {"improve": True}], ids=str
)
def test_settings_that_make_no_sense_are_refused(settings_):
    with pytest.raises(InputError, match="expected"):
        Qpbo(**settings_)


def test_the_result_says_how_much_is_proved():
    rng = np.random.default_rng(1)
    energy = Energy.grid(rng.normal(size=(12, 12)), kernel=3, weights=rng.normal(0.0, 0.5, (4, 12, 12)))
    answer = Qpbo().prepare(energy).minimize(energy.unary)
    assert 0.0 < answer.proved.mean() < 1.0
    assert dope.minimize(energy, solver=Qpbo(), blocks=1).proved == answer.proved.mean()
    assert dope.minimize(energy, solver=Qpbo(), blocks=2, method=dope.Admm(rounds=1, bound=0)).proved is None
    assert 0.0 < dope.minimize(energy, solver=Qpbo(), blocks=2).proved < 1.0
