"""What every block solver lives up to. A new one is one word in a list: it then sits the exam of all the others."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import (
    Admm,
    Anneal,
    Brute,
    Energy,
    Icm,
    InputError,
    LsaAux,
    LsaTr,
    MaxFlow,
    MeanField,
    Portfolio,
    Qpbo,
    Serial,
    Tabu,
    TrwS,
)
from dope.rounding import rounded_down
from oracles import brute_force, edge_weight_matrix
from problems import energies, grids, rng_of
from profiles import examples

# These promise the smallest minimiser wherever no weight is negative.
EXACT = [MaxFlow(check=True), MaxFlow(bits=32), MaxFlow(bits=64), Qpbo()]
SOLVERS = [
    *EXACT,
    MaxFlow(bits=16),
    Icm(),
    MeanField(),
    TrwS(),
    Qpbo(probe=True, improve=2),
    Brute(),
    Tabu(restarts=0),
    Anneal(sweeps=20),
    LsaTr(),
    LsaAux(),
    Portfolio(sweeps=200),
]
# One block of ADMM asks the solver once, and takes its answer.
ALONE = {"blocks": 1, "method": Admm(), "executor": Serial()}

every_solver = pytest.mark.parametrize("solver", SOLVERS, ids=str)
every_exact_solver = pytest.mark.parametrize("solver", EXACT, ids=str)
close = pytest.approx


def minimum_of(energy):
    """The least energy, and how far from it rounding may lead."""
    best, smallest, largest = brute_force(energy.unary, edge_weight_matrix(energy))
    return best, 1e-9 * (1 + abs(best)), smallest, largest


def check_claims(energy, result, best, near):
    """What a result says of itself is true, whatever was solved."""
    assert result.energy == close(energy(result.labels), rel=1e-12, abs=1e-12)
    assert result.energy >= best - result.rounding_error - near
    if result.lower_bound is not None:
        assert result.lower_bound <= best + near and result.lower_bound <= result.energy
    if result.exact:
        assert result.energy <= best + result.rounding_error + near
        assert rounded_down(energy.exactly(result.labels) - Fraction(result.rounding_error)) <= result.lower_bound


@every_solver
@given(energy=energies(most=10))
def test_no_solver_beats_brute_force_and_exact_ones_reach_it(solver, energy):
    best, near, smallest, _ = minimum_of(energy)
    result = dope.minimize(energy, solver=solver, **ALONE)
    check_claims(energy, result, best, near)
    if solver in EXACT:
        assert result.exact
        if result.rounding_error == 0:
            np.testing.assert_array_equal(result.labels.ravel(), smallest)


@every_solver
@given(energy=energies(most=10, signed=True))
def test_weights_of_any_sign_are_solved_or_refused(solver, energy):
    best, near, *_ = minimum_of(energy)
    try:
        result = dope.minimize(energy, solver=solver, **ALONE)
    except InputError as error:
        refusal = error
    else:
        check_claims(energy, result, best, near)
        return
    assert not energy.submodular
    assert "Use a solver for any sign" in str(refusal)


@every_exact_solver
@given(grid=grids(integers=True))
def test_transposing_the_picture_transposes_the_smallest_minimiser(solver, grid):
    _, unary, arguments = grid
    offsets = dope.Energy.grid(unary, **arguments).pairs.offsets
    arguments = {**arguments, "kernel": offsets}
    plain = dope.minimize(Energy.grid(unary, **arguments), solver=solver, **ALONE)
    turned = {**arguments, "kernel": offsets[:, ::-1]}
    if "weights" in arguments and np.ndim(arguments["weights"]) > 1:
        turned["weights"] = [w.T for w in arguments["weights"]]
    if "mask" in arguments:
        turned["mask"] = arguments["mask"].T
    across = dope.minimize(Energy.grid(unary.T, **turned), solver=solver, **ALONE)
    np.testing.assert_array_equal(across.labels, plain.labels.T)


@every_exact_solver
@given(energy=energies(most=10, integers=True))
def test_swapping_the_labels_turns_the_smallest_minimiser_into_the_largest(solver, energy):
    *_, largest = minimum_of(energy)
    swapped = dope.minimize(Energy(-energy.unary, energy.pairs), solver=solver, **ALONE)
    np.testing.assert_array_equal(~swapped.labels.ravel(), largest)


@every_exact_solver
@given(grid=grids(), power=st.sampled_from([-3, 2, 7]))
def test_scaling_costs_by_a_power_of_two_changes_nothing(solver, grid, power):
    _, unary, arguments = grid
    plain = dope.minimize(Energy.grid(unary, **arguments), solver=solver, **ALONE)
    factor = 2.0**power
    scaled = Energy.grid(unary * factor, **{**arguments, "lam": arguments["lam"] * factor})
    larger = dope.minimize(scaled, solver=solver, **ALONE)
    np.testing.assert_array_equal(larger.labels, plain.labels)
    assert larger.energy == plain.energy * factor


@every_solver
@given(energy=energies(most=14), data=st.data())
@examples(20)
def test_an_answer_depends_on_the_unary_and_the_start_alone(solver, energy, data):
    rng = rng_of(data.draw)
    asked = [(rng.permuted(energy.unary), start) for start in (None, rng.random(energy.shape) < 0.5, None)]
    seasoned = solver.prepare(energy)
    for unary, start in [*asked, asked[0]]:
        given_ = unary.copy()
        answer = seasoned.minimize(unary, start=start)
        np.testing.assert_array_equal(unary, given_)
        assert answer.labels.dtype == np.bool_ and answer.labels.shape == energy.shape
        fresh = solver.prepare(energy).minimize(unary, start=start)
        np.testing.assert_array_equal(answer.labels, fresh.labels)
        assert (answer.bound, answer.exact) == (fresh.bound, fresh.exact)
        answer.labels[...] = ~answer.labels  # it is the caller's own


@every_solver
def test_every_solver_survives_pickling(solver):
    again = pickle.loads(pickle.dumps(solver))
    assert again == solver and hash(again) == hash(solver) and repr(again) == repr(solver)
