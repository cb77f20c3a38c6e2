"""Nothing that a result says is false: energies, bounds, `proved`, `exact` and verdicts in exact rational arithmetic.

`make attack` looks at twenty thousand problems, `make soak` at a hundred thousand; every run of the tests at the first.
"""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import dope
from dope.certificate import Certificate, integers
from dope.rounding import nearest
from dope.verify import NEGLIGIBLE
from exact_oracle import Truth
from mixed_problems import random_case
from profiles import slow_but

QUICK, SLOW, ATTACK, SOAK, PARTS = 30, 400, 20_000, 100_000, 10
NONE = np.zeros(0, dtype=np.int64)


def examine(seed):
    """What a random problem came to, after all of its claims were looked at."""
    case = random_case(seed)
    try:
        result = case.run()
    except dope.DopeError as error:
        return f"refused: {str(error)[:40]}"
    energy, labels = case.energy, result.labels
    truth = Truth.of(energy)
    # The core's exp and NumPy's may differ in the last bit.
    slack = truth.size / (1 << 50) if getattr(energy.pairs, "features", None) is not None else Fraction(0)
    cost, rounding = truth(labels), Fraction(result.rounding_error)
    assert abs(Fraction(result.energy) - cost) <= slack or result.energy == nearest(cost)
    for bound in [result.lower_bound, *(step.lower_bound for step in result.trace)]:
        assert bound is None or Fraction(bound) <= truth.least + slack
    assert result.lower_bound is None or result.lower_bound <= result.energy
    if result.exact:
        assert cost <= truth.least + rounding + slack and result.proved == 1.0
    if result.proved is not None:
        assert result.proved * labels.size <= truth.best_agreement(labels, rounding + slack) + 1e-9
    if result.certificate is not None:
        examine_certificate(energy, truth, result, slack)
    if energy.submodular:
        rng = np.random.default_rng(seed)
        for _ in range(3):
            examine_forgery(energy, truth, forged(rng, energy, result.certificate), rng.random(labels.shape) < 0.5)
    return "exact" if result.exact else "bounded" if result.lower_bound is not None else "no bound"


def examine_certificate(energy, truth, result, slack):
    verdict = dope.verify(energy, result.labels, result.certificate)
    assert verdict.valid, verdict.reason
    assert Fraction(verdict.lower_bound) <= truth.least and verdict.lower_bound <= verdict.energy
    assert verdict.energy == nearest(truth(result.labels))
    if result.exact and not result.rounding_error and not slack:
        assert verdict.exact
    examine_forgery(energy, truth, result.certificate, result.labels)
    examine_forgery(energy, truth, result.certificate, ~result.labels)


def examine_forgery(energy, truth, certificate, labels):
    """Whatever a certificate says: a bound is one, and what is called exact is a minimum."""
    verdict = dope.verify(energy, labels, certificate)
    if verdict.valid:
        assert Fraction(verdict.lower_bound) <= truth.least
        assert certificate.claim + Fraction(energy.constant) <= truth.least
    if verdict.exact:
        assert truth(labels) - truth.least <= NEGLIGIBLE * truth.at_stake * Fraction(101, 100)


def forged(rng, energy, certificate):
    """A certificate with other numbers, or one that was made up."""
    if certificate is None or rng.random() < 0.5:
        graph = isinstance(energy.pairs, dope.pairs.GraphPairs)
        certificate = Certificate(
            scale=1.0,
            cuts=None if graph else ((),) * energy.unary.ndim,
            members=np.zeros(energy.unary.size, dtype=np.int32) if graph else None,
            first=NONE,
            second=NONE,
            flow=NONE,
            bounds=np.zeros(1, dtype=np.int64),
        )
    bounds = [int(b) + int(rng.integers(-3, 4)) * 2 ** int(rng.integers(0, 60)) for b in certificate.bounds.tolist()]
    changes = {
        "scale": float(2.0 ** rng.integers(-60, 60)),
        "rounding_error": float(10.0 ** rng.integers(-12, 20)),
        "bounds": integers(bounds),
        "flow": certificate.flow + rng.integers(-2, 3, len(certificate.flow)),
    }
    return replace(certificate, **{name: value for name, value in changes.items() if rng.random() < 0.6})


@pytest.mark.parametrize("tolerance", [0.0, 1e-5])
def test_one_site_of_a_billion_does_not_swallow_the_gap(tolerance):
    """A stroke among weak unaries: the bound of a run that stops early is below the minimum by what it says."""
    unary = np.random.default_rng(0).normal(0, 0.1, (64, 64))
    unary[10, 10] = -1e9
    energy = dope.Energy.grid(unary, lam=0.4)
    method = dope.Exact(rounds=0, tolerance=tolerance)
    early = dope.minimize(energy, blocks=16, method=method, watch=lambda step: step.round == 1)
    least = energy.exactly(dope.minimize(energy).labels)
    assert not early.exact and early.lower_bound < early.energy
    assert early.lower_bound <= least <= Fraction(early.energy)
    assert early.gap >= float(energy.exactly(early.labels) - least) > 1.0


def test_proved_speaks_of_the_labels_that_are_returned():
    unary = np.array([[-1, -5, -6, 2], [6, 2, -5, 2]])
    energy = dope.Energy.grid(unary, lam=1)
    result = dope.minimize(energy, blocks=4, overlap=0.3)
    truth = Truth.of(energy)
    assert result.proved is None or result.proved * 8 <= truth.best_agreement(result.labels, Fraction(0))
    assert truth.least <= Fraction(result.energy)


@pytest.mark.parametrize("number", slow_but([QUICK, SLOW], quick=[QUICK]))
def test_nothing_false_is_said_of_random_problems(number):
    outcomes = Counter(examine(seed) for seed in range(number))
    refused = sum(number for outcome, number in outcomes.items() if outcome.startswith("refused"))
    assert outcomes["exact"] > number // 5 and outcomes["bounded"] > number // 20 and refused < number // 2, outcomes


def examine_part(first, number):
    for seed in range(first, first + number):
        try:
            examine(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.attack
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_false_is_said_of_many_random_problems(part):
    examine_part(part * ATTACK // PARTS, ATTACK // PARTS)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_false_is_said_of_very_many_random_problems(part):
    examine_part(ATTACK + part * (SOAK - ATTACK) // PARTS, (SOAK - ATTACK) // PARTS)
