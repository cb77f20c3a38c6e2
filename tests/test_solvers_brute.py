"""Brute: every labelling, against a loop over every labelling."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given

from dope import Brute, Energy, InputError
from dope.solvers.brute import MOST_SITES
from problems import energies
from profiles import examples


def by_loop(energy):
    """The minimum, and the labels that have it exactly, in the order of binary numbers."""
    found = [np.array(labels, dtype=bool).reshape(energy.shape) for labels in product([0, 1], repeat=energy.unary.size)]
    values = [energy(labels) for labels in found]
    return min(values), [labels for labels, value in zip(found, values, strict=True) if value == min(values)]


@given(energies(most=8, signed=True))
@examples(60)
def test_it_finds_what_a_loop_finds(energy):
    answer = Brute().prepare(energy).minimize(energy.unary)
    best, _ = by_loop(energy)
    assert answer.exact
    assert answer.proved.all()
    slack = answer.rounding_error + 1e-12 * (1 + abs(best))
    assert answer.bound == pytest.approx(best, rel=0, abs=slack)
    assert energy(answer.labels) == pytest.approx(best, rel=0, abs=slack)


@given(energies(most=8, signed=True, integers=True))
@examples(60)
def test_of_equals_it_takes_the_smallest_binary_number(energy):
    answer = Brute().prepare(energy).minimize(energy.unary)
    best, minimizers = by_loop(energy)
    assert answer.rounding_error == 0.0
    assert answer.bound == best
    np.testing.assert_array_equal(answer.labels, minimizers[0])


@pytest.mark.slow
def test_the_most_sites_it_takes_are_soon_done():
    rng = np.random.default_rng(0)
    energy = Energy.grid(rng.normal(size=(4, 6)), kernel=5, weights=rng.normal(size=12))
    assert energy.unary.size == MOST_SITES
    answer = Brute().prepare(energy).minimize(energy.unary)
    assert answer.bound == pytest.approx(energy(answer.labels))
    for site in np.ndindex(*energy.shape):
        flipped = answer.labels.copy()
        flipped[site] ^= True
        assert energy(flipped) >= energy(answer.labels)


def test_more_sites_are_refused_before_memory_is_spent():
    with pytest.raises(InputError, match=r"1000000 sites; expected at most 24\. Use MaxFlow"):
        Brute().prepare(Energy.grid(np.zeros((1000, 1000))))
