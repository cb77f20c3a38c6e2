"""Edge lists as the core sorts them, adds them up and puts them on grids, beside plain NumPy."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dope import Energy, InputError, _core
from dope.pairs import graph_pairs
from profiles import examples


@st.composite
def edge_lists(draw):
    """(sites, edges, weights): any order, parallel edges, sites that have many and none."""
    sites = draw(st.integers(2, 200))
    number = draw(st.integers(0, 600))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    first = rng.integers(0, sites, number)
    if draw(st.booleans()):
        first[:] = 0  # a star
    second = (first + rng.integers(1, sites, number)) % sites
    edges = np.stack([first, second], axis=1).astype(draw(st.sampled_from([np.int32, np.int64, np.uint8])))
    if draw(st.booleans()):
        edges = edges[np.lexsort((edges.max(axis=1), edges.min(axis=1)))]
    weights = rng.normal(size=number)
    weights[rng.random(number) < 0.1] = -0.0
    return sites, edges, weights


def plain_pairs(sites, edges, weights):
    """Sorted and merged: sums in the order of the list."""
    low, high = edges.min(axis=1).astype(np.int64), edges.max(axis=1).astype(np.int64)
    keys, place = np.unique(low * sites + high, return_inverse=True)
    return keys // sites, keys % sites, np.bincount(place.ravel(), weights, minlength=len(keys))


@given(edge_lists())
@examples(200)
def test_pairs_are_sorted_and_added_up(problem):
    sites, edges, weights = problem
    expected = plain_pairs(sites, edges.reshape(-1, 2), weights)
    for listed in (edges, edges[:, ::-1], np.repeat(edges, 2, axis=0)[::2], np.asfortranarray(edges)):
        found = graph_pairs(sites, listed, weights)
        for one, other in zip(found.edges(), expected, strict=True):
            assert one.tobytes() == other.astype(one.dtype).tobytes()
    found = graph_pairs(sites, edges, weights)
    ends = np.concatenate(expected[:2])
    sums = np.bincount(ends, np.tile(np.abs(expected[2]), 2), minlength=sites)
    assert (found.strength, found.degree) == (sums.max(), np.bincount(ends, minlength=sites).max())
    assert (found.largest, found.lowest) == (np.abs(expected[2]).max(initial=0.0), expected[2].min(initial=0.0))


@given(edge_lists(), st.integers(0, 2**32 - 1))
def test_a_cut_weighs_what_its_pairs_do(problem, seed):
    sites, edges, weights = problem
    pairs = graph_pairs(sites, edges, weights)
    labels = np.random.default_rng(seed).random(sites) < 0.5
    apart = labels[pairs.first] != labels[pairs.second]
    expected = sum(map(Fraction, pairs.weights[apart].tolist()), Fraction(0))
    assert pairs.exact_roughness(labels) == expected
    assert pairs.exact_roughness(labels, np.arange(sites)) == expected


@given(edge_lists(), st.sampled_from([(1, -1), (2, -1), (-1, 2), (3, -1), (2, 2, -1), (1, -1, 1)]))
def test_on_a_grid_every_pair_has_its_offset(problem, layout):
    sites, edges, weights = problem
    rest = int(np.prod([n for n in layout if n > 0]))
    sites += -sites % rest
    shape = tuple(sites // rest if n < 0 else n for n in layout)
    pairs = graph_pairs(sites, edges, weights)
    steps = np.stack(np.unravel_index(pairs.second, shape), 1) - np.stack(np.unravel_index(pairs.first, shape), 1)
    offsets = np.unique(steps, axis=0)
    if len(offsets) > 512:
        with pytest.raises(InputError, match=f"{len(offsets)} different offsets"):
            pairs.on_grid(shape)
        return
    grid = pairs.on_grid(shape)
    assert np.array_equal(grid.offsets, offsets.reshape(-1, len(shape)))
    first, second, found = grid.edges()
    order = np.lexsort((second, first))
    there = found[order] != 0
    expected = pairs.weights != 0
    for one, other in zip((first, second, found), pairs.edges(), strict=True):
        assert np.array_equal(one[order][there], other[expected])


def test_a_grid_of_its_own_edges_is_the_grid_again():
    rng = np.random.default_rng(0)
    energy = Energy.grid(rng.normal(size=(5, 6, 7)), kernel=3, weights=[rng.random((5, 6, 7)) + 0.1 for _ in range(3)])
    first, second, weights = energy.pairs.edges()
    again = Energy.graph(energy.unary.ravel(), np.stack([first, second], axis=1), weights).on_grid(energy.shape)
    assert np.array_equal(again.pairs.offsets, energy.pairs.offsets)
    labels = rng.random(energy.shape) < 0.5
    assert again.exactly(labels) == energy.exactly(labels)


@pytest.mark.parametrize("edges", [[[0, 1], [1, 5], [9, 9]], [[2, 2], [0, 1], [-1, 0]]])
def test_an_end_that_is_no_site_is_named_before_a_loop(edges):
    bad = next(k for k, pair in enumerate(edges) if min(pair) < 0 or max(pair) > 4)
    with pytest.raises(InputError, match=rf"edge {bad} is .*expected sites from 0 to 4"):
        graph_pairs(5, edges, 1.0)


def test_unsigned_sites_beyond_int64_are_refused():
    with pytest.raises(InputError, match="edge 0 is"):
        graph_pairs(5, np.array([[0, 2**63 + 1]], dtype=np.uint64), 1.0)


def test_sorting_stops_when_it_is_cancelled():
    ends, weights = np.arange(1 << 20), np.ones((1 << 20) - 1)
    with _core.Cancel() as cancel:
        cancel.cancel()
        with pytest.raises(_core.Cancelled):
            _core.sort_edges(1 << 20, ends[:-1], ends[1:], weights)
