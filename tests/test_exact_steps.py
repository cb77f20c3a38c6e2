"""Exact on its way: energies, bounds and certificates of every round, and what is known when it stops early."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import Energy, Exact, MaxFlow, Serial, verify
from oracles import bracketed, brute_force, edge_weight_matrix
from problems import energies, partitions
from profiles import examples, slow_but


def disputed(side=24, *, seed=0, lam=3.0, kernel=3, whole=True):
    """Integer costs (or not) on which blocks disagree for many rounds."""
    rng = np.random.default_rng(seed)
    unary = rng.integers(-9, 10, (side, side)) + 4 * np.sign(np.indices((side, side)).sum(axis=0) - side)
    return Energy.grid(unary if whole else unary + rng.random(unary.shape) / 3, lam=lam, kernel=kernel)


METHODS = [Exact(), Exact(rounds=0), Exact(rounds=3), Exact(rounds=2, merge=False), Exact(rounds=0, merge=False)]


def watched(energy, **arguments):
    """A result, and all steps with the labels they were shown with."""
    steps = []
    result = dope.minimize(energy, watch=steps.append, **arguments)
    return result, steps


def require_true_steps(steps, energy, best):
    """Rounding apart, nothing in a step is more than what it says."""
    slack = steps[0].rounding_error + 1e-9 * abs(best)
    assert [step.round for step in steps] == list(range(1, len(steps) + 1))
    # Whole costs are told to the integer; the labels of the rounds before are shown to those who leave there.
    assert steps[-1].energy == pytest.approx(energy(steps[-1].labels), abs=slack, rel=0)
    for step in steps:
        assert step.lower_bound - slack <= best <= step.energy + slack
    bounds = [step.lower_bound for step in steps]
    assert bounds == sorted(bounds)
    groups = [step.groups for step in steps]
    assert groups == sorted(groups, reverse=True)
    assert not any(step.stopped or step.exact for step in steps[:-1])


@given(energy=energies(most=12), data=st.data(), method=st.sampled_from(METHODS))
@examples(100)
def test_steps_of_small_energies_hold_what_they_say(energy, data, method):
    partition = data.draw(partitions(energy, overlaps=False))
    best, _, _ = brute_force(energy.unary, edge_weight_matrix(energy))
    result, steps = watched(energy, blocks=partition, method=method, executor=Serial())
    require_true_steps(steps, energy, best)
    assert result.trace == tuple(replace(s, labels=None, certificate=None, kept=None) for s in steps)


@pytest.mark.parametrize("whole", [True, False], ids=["integers", "floats"])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_steps_close_in_on_the_minimum(method, whole):
    energy = disputed(whole=whole)
    best = energy(MaxFlow(64).prepare(energy).minimize(energy.unary).labels)
    result, steps = watched(energy, blocks=16, method=method)
    assert len(steps) > 2, "too easy to show anything"
    require_true_steps(steps, energy, best)
    assert steps[-1].exact and steps[-1].stopped == "exact" and result.energy == best


def stopped_after(rounds, energy, **arguments):
    return dope.minimize(energy, watch=lambda step: step.round == rounds, **arguments)


def require_consistent(result, energy):
    """A Result says nothing that it does not keep."""
    assert result.energy == energy(result.labels)
    assert result.lower_bound <= result.energy
    assert result.gap == result.energy - result.lower_bound
    assert (result.proved == 1.0) == result.exact
    verdict = verify(energy, result.labels, result.certificate)
    assert verdict, verdict.reason
    if result.rounding_error == 0.0:
        assert verdict.energy == result.energy
        assert verdict.lower_bound == result.lower_bound
        assert verdict.exact == result.exact == (result.gap == 0.0)
    else:
        last_bits = 1e-12 * (1 + abs(result.energy))
        assert verdict.energy == pytest.approx(result.energy, abs=last_bits)
        assert verdict.lower_bound >= result.lower_bound - last_bits
        assert verdict.exact or not result.exact


@pytest.mark.parametrize("method", slow_but(METHODS, quick=[Exact(rounds=3), Exact(rounds=0, merge=False)]), ids=str)
def test_a_run_that_is_stopped_at_any_round_has_proved_its_bound(method):
    energy = disputed()
    whole = dope.minimize(energy, blocks=16, method=method)
    require_consistent(whole, energy)
    for step in whole.trace[:-1]:
        result = stopped_after(step.round, energy, blocks=16, method=method)
        require_consistent(result, energy)
        assert result.stopped == "cancelled"
        assert len(result.trace) == step.round
        assert result.lower_bound == step.lower_bound <= whole.energy
        assert result.energy == step.energy
    assert not stopped_after(1, energy, blocks=16, method=method).exact
    last = stopped_after(len(whole.trace), energy, blocks=16, method=method)
    assert last.stopped == "exact" and last.exact


@given(energy=energies(most=12), data=st.data(), method=st.sampled_from(METHODS))
@examples(100)
def test_small_runs_have_proved_their_bound_wherever_they_stop(energy, data, method):
    partition = data.draw(partitions(energy, overlaps=False))
    rounds = data.draw(st.integers(1, 4))
    result = stopped_after(rounds, energy, blocks=partition, method=method, executor=Serial())
    require_consistent(result, energy)
    best, _, _ = brute_force(energy.unary, edge_weight_matrix(energy))
    assert result.lower_bound <= best + 1e-9 * (1 + abs(best))


@pytest.mark.parametrize(
    "merge", [pytest.param(True, id="merge"), pytest.param(False, id="discharge", marks=pytest.mark.slow)]
)
def test_tolerance_is_kept_and_told(merge):
    energy = disputed(40)
    reasons = set()
    for tolerance in (0.5, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0):
        result = dope.minimize(energy, blocks=25, method=Exact(tolerance=tolerance, rounds=4, merge=merge))
        require_consistent(result, energy)
        assert result.gap <= tolerance * abs(result.energy)
        assert result.stopped == ("exact" if result.trace[-1].exact else "tolerance")
        assert tolerance > 0 or result.exact
        for step in result.trace[:-1]:
            assert step.energy - step.lower_bound > 0
        if result.gap:
            reasons.add(result.stopped)
    assert reasons == {"tolerance"}


def test_tolerance_is_of_the_energy_with_its_constant():
    """The constant moves the energy, and with it what a fraction of it is; not the gap."""
    plain = disputed(40)
    energy = replace(plain, constant=-0.97 * dope.minimize(plain).energy)
    result = dope.minimize(energy, blocks=25, method=Exact(tolerance=0.01, rounds=4))
    assert result.gap <= 0.01 * abs(result.energy)
    assert dope.verify(energy, result.labels, result.certificate).lower_bound == pytest.approx(result.lower_bound)


# Bracketing.


def solved_block(unary, edges, weights):
    minimizer = MaxFlow().prepare(Energy.graph(unary, edges, weights))
    minimizer.minimize(unary)
    return minimizer.labels(), minimizer.labels(largest=True)


@given(energy=energies(most=12, integers=True), data=st.data(), merge=st.booleans())
@examples(60)
def test_bracketed_sites_are_those_of_every_minimiser(energy, data, merge):
    partition = data.draw(partitions(energy, overlaps=False))
    _, smallest, largest = brute_force(energy.unary, edge_weight_matrix(energy))
    low, high = bracketed(energy, partition, solved_block)
    assert (low <= smallest).all() and (largest <= high).all()
    _, steps = watched(energy, blocks=partition, method=Exact(bracket=True, merge=merge), executor=Serial())
    for step in steps[:-1]:
        assert step.proved == (low == high).mean()
    assert steps[-1].proved == 1.0


@pytest.mark.parametrize("merge", [True, False], ids=["merge", "discharge"])
def test_the_fraction_of_sites_proved_is_told_when_it_stops_early(merge):
    energy = disputed(lam=1.0)
    method = Exact(bracket=True, merge=merge, rounds=1)
    result = stopped_after(1, energy, blocks=9, method=method)
    low, high = bracketed(energy, result.partition, solved_block)
    assert 0 < result.proved < 1
    assert result.proved == (low == high).mean()
    truth = dope.minimize(energy, blocks=1).labels.ravel()
    assert (truth[low == high] == low[low == high]).all()
    whole = dope.minimize(energy, blocks=9, method=method)
    plain = dope.minimize(energy, blocks=9, method=replace(method, bracket=False))
    np.testing.assert_array_equal(whole.labels, plain.labels)
    assert [s.energy for s in whole.trace] == [s.energy for s in plain.trace]
    assert stopped_after(1, energy, blocks=9, method=replace(method, bracket=False)).proved is None


# What others find out about a run.


@pytest.fixture(scope="module")
def proved():
    energy = disputed()
    result = dope.minimize(energy, blocks=16, method=Exact())
    assert len(result.certificate.flow) > 50
    return energy, result


def test_tampered_labels_are_not_the_minimum(proved):
    energy, result = proved
    for site in ((0, 0), (5, 6), (23, 23)):
        labels = result.labels.copy()
        labels[site] ^= True
        verdict = verify(energy, labels, result.certificate)
        assert verdict and not verdict.exact
        assert verdict.energy == energy(labels) > result.energy == verdict.lower_bound
    other = disputed(seed=1)
    assert not verify(other, result.labels, result.certificate)


@pytest.mark.parametrize("amount", [-1, 1])
def test_tampered_bounds_are_refused(proved, amount):
    energy, result = proved
    for k in range(16):
        bounds = result.certificate.bounds.copy()
        bounds[k] += amount
        verdict = verify(energy, result.labels, replace(result.certificate, bounds=bounds))
        assert not verdict and f"block {k} " in verdict.reason and verdict.lower_bound is None
    swapped = replace(result.certificate, bounds=result.certificate.bounds[::-1].copy())
    assert not verify(energy, result.labels, swapped)


@pytest.mark.parametrize("number", slow_but([4, 12], quick=[4]))
def test_tampered_flows_prove_no_more_than_is_true(proved, number):
    energy, result = proved
    certificate, refused = result.certificate, 0
    rng = np.random.default_rng(0)
    for at in rng.choice(len(certificate.flow), number, replace=False):
        for amount in (-certificate.flow[at], 1, -1):
            flow = certificate.flow.copy()
            flow[at] += amount
            verdict = verify(energy, result.labels, replace(certificate, flow=flow))
            # A change between free sites may leave all minima as they are.
            assert verdict.lower_bound is None or verdict.lower_bound <= result.energy
            refused += not verdict
        flow = certificate.flow.copy()
        flow[at] = 4  # lam is 3
        assert not verify(energy, result.labels, replace(certificate, flow=flow))
    assert refused > 3 * number / 2
    assert not verify(energy, result.labels, replace(certificate, flow=-certificate.flow))
    assert not verify(energy, result.labels, replace(certificate, second=certificate.second[::-1].copy()))


def test_other_blocks_and_units_are_refused(proved):
    energy, result = proved
    cuts = tuple(tuple(c + 1 for c in places) for places in result.certificate.cuts)
    assert not verify(energy, result.labels, replace(result.certificate, cuts=cuts))
    assert not verify(energy, result.labels, replace(result.certificate, scale=2.0))
    assert not verify(energy, result.labels, replace(result.certificate, scale=0.5))
