"""What no cut of one label against all others tells: ties, and small pieces where several labels meet."""

from itertools import pairwise

import numpy as np
from hypothesis import given

import dope
from dope import LabelEnergy, Serial
from dope.methods.label_proof import LabelProof
from dope.methods.small_parts import MOST_SITES, settle_small
from dope.partition import Partition
from dope.protocols import Problem
from label_problems import graphs, minimizers
from profiles import examples

POTTS = graphs(kinds=["potts"])


@given(energy=POTTS)
@examples(60)
def test_small_pieces_get_their_best_labels(energy):
    found = settle_small(energy)
    least, _ = minimizers(energy)
    assert found.sites.all()
    assert float(energy.exactly(found.labels) - least) <= found.slack


@given(energy=POTTS)
@examples(60)
def test_the_largest_minimizer_of_a_label_is_part_of_some_optimum(energy):
    proof = LabelProof(energy, problem_of(energy))
    number = proof.settle()
    assert number == np.count_nonzero(~proof.open)
    _, optima = minimizers(energy)
    assert (optima == proof.labels)[:, ~proof.open].all(axis=1).any()


def test_pieces_of_several_sizes_are_told_apart():
    """Rings in a shuffled order: small ones are settled, larger ones and nothing else are left."""
    rng = np.random.default_rng(0)
    sizes = [3, MOST_SITES + 1, 1, 5, MOST_SITES + 9, 2]
    places = rng.permutation(sum(sizes))
    edges, large = [], []
    for begin, size in zip(np.cumsum([0, *sizes]), sizes, strict=False):
        ring = places[begin : begin + size]
        edges += list(zip(ring, np.roll(ring, 1), strict=True)) if size > 2 else list(pairwise(ring))
        large += list(ring) if size > MOST_SITES else []
    energy = LabelEnergy.graph(rng.integers(0, 3, (len(places), 2)), edges, np.ones(len(edges)))
    found = settle_small(energy)
    assert set(np.flatnonzero(~found.sites)) == set(large)


def test_a_tie_of_all_labels_is_exact():
    result = dope.minimize(LabelEnergy.grid(np.zeros((6, 7, 3)), lam=1.0))
    assert (result.energy, result.lower_bound, result.exact, result.proved) == (0.0, 0.0, True, 1.0)


def test_three_labels_that_meet_are_exact_where_they_are_few():
    """Around a corner where three labels meet, no label wins against the best of all others at each site."""
    costs = np.full((9, 9, 3), 3.0)
    y, x = np.indices((9, 9)) - 4
    truth = np.digitize(np.arctan2(y, x), [-np.pi / 3, np.pi / 3])
    np.put_along_axis(costs, truth[..., None], 0.0, axis=-1)
    costs[3:6, 3:6] = [0.0, 0.0, 0.0]
    energy = LabelEnergy.grid(costs, lam=1.0, kernel=3)
    result = dope.minimize(energy)
    assert result.exact and result.proved == 1.0 and result.gap < 1e-9
    again = dope.minimize(energy, blocks=4)
    np.testing.assert_array_equal(again.labels, result.labels)


def problem_of(energy):
    solver = dope.plan(energy, executor=Serial(), blocks=1).solver
    return Problem(energy=energy, partition=Partition.graph(energy.pairs, 1), solver=solver, executor=Serial())
