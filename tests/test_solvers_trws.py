"""Tree-reweighted message passing beside brute force, minimum cuts and the linear program that its bound rises to."""

import threading
import time
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import dope
from dope import Admm, Energy, Icm, InputError, MaxFlow, TrwS, _core
from oracles import brute_force, edge_weight_matrix
from problems import energies, rng_of
from profiles import examples

close = pytest.approx
PATIENT = TrwS(rounds=20_000, tolerance=1e-7)


def answer_of(energy, solver=None, **more):
    return (solver or TrwS()).prepare(energy).minimize(energy.unary, **more)


def optimum(energy):
    return brute_force(energy.unary, edge_weight_matrix(energy))[0]


def slack(energy):
    """What an oracle's own sums may be off by."""
    return 1e-12 * (1 + np.abs(energy.unary).sum() + np.abs(energy.pairs.edges()[2]).sum())


def linear_program(energy):
    """min u'y + w'd over the local polytope: y, and for each pair d between its bounds."""
    first, second, weights = energy.pairs.edges()
    n, m = energy.unary.size, len(weights)
    rows, limits = [], []
    for e, (i, j) in enumerate(zip(first, second, strict=True)):
        for of_i, of_j, of_d, limit in ((1, -1, -1, 0), (-1, 1, -1, 0), (-1, -1, 1, 0), (1, 1, 1, 2)):
            row = np.zeros(n + m)
            row[i], row[j], row[n + e] = of_i, of_j, of_d
            rows.append(row)
            limits.append(limit)
    found = linprog(
        np.concatenate([energy.unary.ravel(), weights]),
        A_ub=np.array(rows) if m else None,
        b_ub=limits if m else None,
        bounds=(0, 1),
    )
    assert found.success
    return found.fun


@st.composite
def trees(draw, most=12):
    """A random tree, its sites in any order: each but the first hangs on an earlier one."""
    rng, n = rng_of(draw), draw(st.integers(2, most))
    name = rng.permutation(n)
    edges = [(name[i], name[rng.integers(i)]) for i in range(1, n)]
    return Energy.graph(rng.normal(0, 2, n), edges, rng.normal(0, 2, n - 1))


@st.composite
def chains(draw, most=12):
    rng, n = rng_of(draw), draw(st.integers(1, most))
    return Energy.grid(rng.normal(0, 2, n), kernel=[[1]], weights=[rng.normal(0, 2, n)])


@given(energies(most=12, signed=True), st.sampled_from([TrwS(rounds=1), TrwS(rounds=3), TrwS()]))
def test_the_bound_is_below_the_minimum(energy, solver):
    answer, best = answer_of(energy, solver), optimum(energy)
    assert answer.bound - answer.rounding_error <= best + slack(energy)
    assert energy(answer.labels) >= best - slack(energy)
    assert answer.rounding_error <= 1e-12 * (1 + np.abs(energy.unary).sum() + energy.pairs.strength * 100)


def exact_optimum(unary, edges, weights):
    """The minimum without any rounding."""
    u, w = [Fraction(x) for x in unary.tolist()], [Fraction(x) for x in weights.tolist()]

    def energy(y):
        apart = sum(x for x, (i, j) in zip(w, edges.tolist(), strict=True) if y[i] != y[j])
        return apart + sum(x for x, label in zip(u, y, strict=True) if label)

    return min(map(energy, product([0, 1], repeat=len(u))))


@given(st.data())
def test_rounding_is_no_worse_than_admitted(data):
    rng, n = rng_of(data.draw), data.draw(st.integers(2, 7))
    edges = np.array([(i, j) for i in range(n) for j in range(i)])
    sizes = 10.0 ** rng.integers(-9, 9, len(edges) + n)
    costs = sizes * rng.normal(size=len(edges) + n)
    core = _core.Trws(_core.Neighbors.graph(n, edges, costs[n:]))
    _, bound, error, _ = core.run(costs[:n], data.draw(st.sampled_from([1, 10, 300])), 0.0, 0.0)
    assert Fraction(bound) - Fraction(error) <= exact_optimum(costs[:n], edges, costs[n:])


@given(energies(most=12, signed=True))
def test_more_rounds_never_lower_the_bound(energy):
    bounds = [answer_of(energy, TrwS(rounds=r, tolerance=0.0)).bound for r in (1, 2, 5, 50)]
    assert bounds == sorted(bounds)


@given(st.one_of(trees(), chains()))
def test_a_tree_is_minimized(energy):
    answer, best = answer_of(energy, PATIENT), optimum(energy)
    assert answer.bound == close(best, rel=1e-6, abs=1e-6)
    assert energy(answer.labels) == close(best, rel=1e-9, abs=1e-9)


@given(chains())
def test_a_chain_takes_one_round(energy):
    assert answer_of(energy, TrwS(rounds=1)).bound == close(optimum(energy), rel=1e-9, abs=1e-9)


@given(energies(most=24))
@examples(50)
def test_without_repulsion_the_bound_reaches_the_minimum(energy):
    exact = MaxFlow(bits=64).prepare(energy).minimize(energy.unary)
    answer = answer_of(energy, PATIENT)
    error = answer.rounding_error + exact.rounding_error + slack(energy)
    assert answer.bound <= exact.bound + error
    assert answer.bound >= exact.bound - error - 1e-3 * (1 + abs(exact.bound))


@given(energies(most=10, signed=True, integers=False))
@examples(50)
def test_the_bound_rises_to_that_of_the_linear_program(energy):
    program, answer = linear_program(energy), answer_of(energy, PATIENT)
    assert answer.bound - answer.rounding_error <= program + 1e-7 * (1 + abs(program))
    assert answer.bound >= program - 1e-2 * (1 + abs(program))


@given(energies(most=12, signed=True, integers=True))
def test_whole_costs_have_whole_bounds_and_proofs(energy):
    answer, best = answer_of(energy), optimum(energy)
    assert answer.bound == round(answer.bound) and answer.rounding_error == 0.0
    assert answer.exact == (answer.bound == energy(answer.labels))
    if answer.exact:
        assert energy(answer.labels) == close(best)


@given(energies(most=12, signed=True), st.data())
def test_answers_depend_on_unary_and_start_alone(energy, data):
    rng = rng_of(data.draw)
    other, start = rng.normal(0, 3, energy.shape), rng.random(energy.shape) < 0.5
    used = TrwS().prepare(energy)
    for unary, labels in ((energy.unary, None), (other, start), (other, None), (energy.unary, start)):
        again, fresh = (m.minimize(unary, start=labels) for m in (used, TrwS().prepare(energy)))
        np.testing.assert_array_equal(again.labels, fresh.labels)
        assert (again.bound, again.exact, again.rounding_error) == (fresh.bound, fresh.exact, fresh.rounding_error)


@given(energies(most=12, signed=True), st.data())
def test_labels_are_never_worse_than_those_of_single_flips(energy, data):
    start = data.draw(st.sampled_from([None, rng_of(data.draw).random(energy.shape) < 0.5]))
    flipped = answer_of(energy, Icm(), start=start)
    assert energy(answer_of(energy, start=start).labels) <= energy(flipped.labels)


@given(energies(most=12, signed=True))
def test_no_single_flip_improves_the_labels(energy):
    labels = answer_of(energy).labels
    for site in np.ndindex(*energy.shape):
        flipped = labels.copy()
        flipped[site] ^= True
        assert energy(flipped) >= energy(labels) - slack(energy)


@given(energies(most=12, signed=True))
def test_a_grid_has_the_bound_of_its_edge_list(energy):
    first, second, weights = energy.pairs.edges()
    graph = Energy.graph(energy.unary.ravel(), np.stack([first, second], axis=1), weights)
    one, other = (answer_of(e, TrwS(rounds=20, tolerance=0.0)) for e in (energy, graph))
    assert one.bound == close(other.bound, rel=1e-9, abs=1e-9)


@given(energies(most=10, signed=True))
@examples(20)
def test_a_result_carries_the_bound(energy):
    result = dope.minimize(energy, blocks=1, method=Admm(), solver=TrwS())
    assert result.lower_bound <= optimum(energy) + slack(energy)
    assert result.energy == close(energy(result.labels), rel=1e-12, abs=1e-12)


def test_costs_that_add_up_beyond_float64_have_no_bound():
    energy = Energy.graph([1.7e308, -1.7e308, 1.0], [[0, 1]], [1.0])
    answer = answer_of(energy)
    assert answer.labels.tolist() == [False, True, False]
    assert answer.bound is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rounds": 0}, ["rounds", "0", "1 or more"]),
        ({"rounds": 2.5}, ["rounds", "2.5"]),
        ({"rounds": True}, ["rounds", "True"]),
        ({"tolerance": -0.1}, ["tolerance", "-0.1"]),
        ({"tolerance": float("nan")}, ["tolerance", "nan"]),
    ],
)
def test_settings_are_checked(settings, words):
    with pytest.raises(InputError) as error:
        TrwS(**settings)
    assert all(word in str(error.value) for word in words)


def test_long_work_can_be_cancelled():
    rng = np.random.default_rng(0)
    energy = Energy.grid(rng.normal(size=(200, 200)), kernel=5, weights=list(rng.normal(size=12)))
    minimizer, cancel, raised = TrwS(rounds=10**6, tolerance=0.0).prepare(energy), _core.Cancel(), []

    def work():
        with cancel:
            try:
                minimizer.minimize(energy.unary)
            except BaseException as error:
                raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    time.sleep(0.2)
    assert thread.is_alive()
    cancel.cancel()
    thread.join(20)
    assert not thread.is_alive()
    assert isinstance(raised[0], _core.Cancelled)
