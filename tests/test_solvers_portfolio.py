"""The portfolio: never worse than its members, the same whatever the threads, and within its budget."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import Admm, Energy, Icm, InputError, LsaTr, Portfolio, Serial, Threads, _core
from dope.cancellation import Cancellation, check_cancelled
from dope.planning import plan_searching
from dope.solvers import portfolio
from dope.solvers.parts.standpoint import neighbors
from oracles import brute_force, edge_weight_matrix
from problems import energies
from profiles import examples

UNLIMITED = float("inf")


def spin_glass(side, seed=0):
    """A torus whose pairs weigh 1 or -1, without a unary."""
    rng = np.random.default_rng(seed)
    numbers = np.arange(side * side).reshape(side, side)
    ends = [np.stack([numbers, np.roll(numbers, 1, axis)], -1).reshape(-1, 2) for axis in (0, 1)]
    edges = np.concatenate(ends)
    return Energy.graph(np.zeros(side * side), edges, rng.choice([-1.0, 1.0], len(edges)))


def noisy(side, *, kernel=5):
    """A grid whose pairs attract and repel."""
    rng = np.random.default_rng(1)
    return Energy.grid(rng.normal(size=(side, side)), kernel=kernel, weights=rng.normal(size=kernel * kernel // 2))


def dense(sites):
    """A QUBO where every site is everyone's neighbour."""
    rng = np.random.default_rng(2)
    return Energy.from_qubo(np.triu(rng.integers(-100, 101, (sites, sites))).astype(float))


def sparse(sites):
    """A graph that is nearly a tree."""
    rng = np.random.default_rng(3)
    edges = rng.integers(0, sites, (sites, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    return Energy.graph(rng.normal(size=sites), edges, rng.normal(size=len(edges)))


# One for every member: exact moves on strips and on trees, tabu search, annealing alone.
CASES = {"torus": spin_glass(20), "tree": sparse(600), "dense": dense(60), "grid": noisy(24)}
every_case = pytest.mark.parametrize("energy", CASES.values(), ids=CASES)


def searched(energy, *, sweeps=300, seconds=UNLIMITED, seed=0, threads=1, start=None):
    """Labels and what the core tells of them, from labels that unaries alone would choose."""
    unary = energy.unary.ravel().astype(float)
    first = unary < 0 if start is None else start
    found = _core.Search(neighbors(energy.pairs)).run(unary, first, sweeps, seconds, seed, threads)
    return found[0].reshape(energy.shape), *found[1:]


@given(energy=energies(most=12, signed=True, integers=True))
def test_the_minimum_of_a_handful_of_sites(energy):
    best, *_ = brute_force(energy.unary, edge_weight_matrix(energy))
    labels, *_, exact, _ = searched(energy, sweeps=1)
    assert exact and energy(labels) == pytest.approx(best, abs=1e-5)


@given(length=st.integers(2, 200), seed=st.integers(0, 99))
@examples(20)
def test_a_chain_is_solved_at_once(length, seed):
    rng = np.random.default_rng(seed)
    pays, steps = rng.integers(-5, 6, length).astype(float), rng.integers(-5, 6, length - 1).astype(float)
    edges = np.stack([np.arange(length - 1), np.arange(1, length)], axis=1)
    labels, rounds, *_, exact, _ = searched(Energy.graph(pays, edges, steps), sweeps=1)
    least = np.array([0.0, pays[0]])  # of the sites so far, by the label of the last
    for price, weight in zip(pays[1:], steps, strict=True):
        least = np.minimum(least, least[::-1] + weight) + np.array([0.0, price])
    assert exact and rounds == 0 and Energy.graph(pays, edges, steps)(labels) == least.min()


def test_a_narrow_grid_is_solved_at_once():
    energy = noisy(40, kernel=3)
    narrow = Energy.grid(energy.unary[:4], kernel=3, weights=[1.0, -1.0, 0.5, -0.5])
    *_, exact, _ = searched(narrow)
    assert exact
    *_, exact, _ = searched(energy)
    assert not exact


@every_case
def test_threads_change_nothing(energy):
    expected = searched(energy)
    for threads in (2, 3, 7):
        labels, *told = searched(energy, threads=threads)
        np.testing.assert_array_equal(labels, expected[0])
        assert tuple(told) == expected[1:]


@every_case
def test_another_seed_draws_otherwise(energy):
    assert len({searched(energy, seed=seed)[3] for seed in range(4)}) > 1  # the work


@every_case
def test_work_keeps_to_the_sweeps(energy):
    sites = energy.unary.size
    before = 0
    for sweeps in (1, 300, 3000):
        _, rounds, _, work, exact, _ = searched(energy, sweeps=sweeps)
        assert exact or work >= sweeps * sites
        # A round more at most, of four walks; hot ones visit the neighbours of most sites that they pass.
        degree = 2 * energy.pairs.number / sites
        assert work <= 2 * sweeps * sites + 40 * sites * (2 + degree) ** 2
        assert exact or rounds >= max(1, before)
        before = rounds


@every_case
def test_never_worse_than_its_members_or_its_start(energy):
    rng = np.random.default_rng(0)
    result = Portfolio(sweeps=100).prepare(energy).minimize(energy.unary).labels
    assert energy(result) <= min(energy(s.prepare(energy).minimize(energy.unary).labels) for s in (LsaTr(), Icm()))
    for start in (rng.random(energy.shape) < 0.5, result):
        labels = Portfolio(sweeps=40).prepare(energy).minimize(energy.unary, start=start).labels
        assert energy(labels) <= energy(start)


@given(energy=energies(most=60, signed=True), seed=st.integers(0, 9))
@examples(20)
def test_more_work_is_never_worse_than_the_start(energy, seed):
    start = np.random.default_rng(seed).random(energy.unary.size) < 0.5
    labels, *_ = searched(energy, sweeps=50, seed=seed, start=start)
    assert energy(labels) <= energy(start.reshape(energy.shape)) + 1e-5 * (1 + energy.pairs.strength)


def test_a_torus_of_spins_ends_lower_than_lsa_tr():
    energy = spin_glass(30)
    low = dope.minimize(energy, solver=LsaTr()).energy
    assert dope.minimize(energy).energy < low - 2.0


def test_labels_may_be_swapped_where_no_site_has_a_price():
    energy = spin_glass(16)
    labels, *_ = searched(energy)
    swapped, *_ = searched(energy, start=~labels.ravel())
    assert energy(swapped) <= energy(labels)


def test_costs_of_any_size():
    plain = noisy(16)
    labels = Portfolio(sweeps=200).prepare(plain).minimize(plain.unary).labels
    for power in (-400, -30, 30, 400):
        factor = 2.0**power
        scaled = Energy.grid(plain.unary * factor, kernel=5, weights=plain.pairs.factors, lam=factor)
        again = Portfolio(sweeps=200).prepare(scaled).minimize(scaled.unary).labels
        np.testing.assert_array_equal(again, labels)


def test_a_site_whose_unary_outweighs_its_pairs_is_decided():
    energy = noisy(12)
    unary = np.where(np.eye(12) > 0, 1e12, energy.unary)
    labels = Portfolio(sweeps=200).prepare(energy).minimize(unary).labels
    assert not labels[np.eye(12) > 0].any()


def test_seconds_are_for_searching():
    energy = noisy(30)
    begun = time.perf_counter()
    result = dope.minimize(energy, solver=Portfolio(sweeps=1, seconds=0.5))
    assert time.perf_counter() - begun >= 0.5
    assert result.energy <= dope.minimize(energy, solver=LsaTr()).energy


def test_lsa_tr_that_takes_too_long_is_left_out(monkeypatch):
    energy = noisy(12)
    minimizer = Portfolio(seconds=0.2).prepare(energy)

    class Endless:
        def minimize(self, *_, **__):
            while True:
                check_cancelled()

    monkeypatch.setattr(minimizer, "_first", Endless())
    monkeypatch.setattr(portfolio, "LEAST_FIRST_SECONDS", 0.0)
    for start in (None, np.zeros(energy.shape, dtype=bool)):
        labels = minimizer.minimize(energy.unary, start=start).labels
        assert energy(labels) <= energy(energy.unary < 0 if start is None else start) and minimizer.found.rounds
    with Cancellation() as cancellation:
        cancellation.cancel()
        with pytest.raises(_core.Cancelled):
            minimizer.minimize(energy.unary)


def test_a_plan_shares_seconds_among_blocks_and_threads_with_one():
    energy = noisy(40)
    one = plan_searching(energy, 6.0, executor=Threads(3))
    assert one.searches and one.solver == Portfolio(sweeps=one.solver.sweeps, seconds=6.0) and one.solver.threads == 3
    said = {"solver": Portfolio(seconds=6.0), "blocks": (4, 2)}
    # A round and a sweep of 8 blocks each, and a sweep of the 15 that lie across their borders.
    for executor, turns in ((Serial(), 8 + 15 + 8), (Threads(3), 3 + 5 + 3)):
        many = dope.plan(energy, method=Admm(rounds=1, sweeps=2), executor=executor, **said)
        assert many.solver.seconds == 6.0 / turns and many.solver.threads == 1
    assert not plan_searching(Energy.grid(energy.unary), 6.0).searches
    assert not plan_searching(energy, 6.0, solver=Icm()).searches
    assert "6 seconds" in str(one)


def test_over_blocks_it_is_no_worse_than_lsa_tr_over_blocks_by_much():
    energy = noisy(40)
    whole = dope.minimize(energy)
    blocks = dope.minimize(energy, blocks=4)
    assert whole.energy <= blocks.energy <= dope.minimize(energy, solver=Icm(), blocks=4).energy


def test_cancelled_it_answers_with_the_best_so_far():
    energy = noisy(60)
    run = dope.start(energy, solver=Portfolio(seconds=60.0), blocks=1)
    low = dope.minimize(energy, solver=LsaTr(), blocks=1).energy
    deadline = time.monotonic() + 30.0
    while run.seconds < 3.0 and time.monotonic() < deadline:
        time.sleep(0.1)
    run.cancel()
    result = run.result(timeout=30.0)
    assert result.stopped == "cancelled" and result.energy == energy(result.labels) <= low


def test_a_search_that_is_cancelled_before_it_began_raises():
    energy = noisy(10)
    minimizer = Portfolio().prepare(energy)
    with Cancellation() as cancellation:
        cancellation.cancel()
        with pytest.raises(_core.Cancelled):
            minimizer.minimize(energy.unary)


@pytest.mark.parametrize(
    "settings",
    [
        {"sweeps": 0},
        {"sweeps": 1.5},
        {"seed": -1},
        {"threads": 0},
        {"seconds": 0.0},
        {"seconds": float("nan")},
        {"seconds": "long"},
        {"seconds": True},
        {"seconds": float("inf")},
    ],
    ids=str,
)
def test_settings_that_make_no_sense(settings):
    with pytest.raises(InputError, match=f"Portfolio: {next(iter(settings))}"):
        Portfolio(**settings)
