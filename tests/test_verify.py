"""A right certificate is confirmed, whatever its flows; one that was tampered with is refused, with a reason."""

import copy
import math
import pickle
import zipfile
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

import dope
from dope import Certificate, Energy, InputError, MaxFlow, Partition, verify
from dope.pairs import GraphPairs
from dope.verify import parts
from dope.verify.minimum import block_minimum, proved_minimum
from dope.verify.units import exact_sum
from oracles import brute_force, dense_energy, edge_weight_matrix
from problems import energies, members, rng_of
from profiles import slow_but

NONE = np.zeros(0, dtype=np.int64)


# Certificates made by hand: random flows within the weights, and minima by brute force or SciPy.


def blocks_without_overlap(draw, energy):
    if isinstance(energy.pairs, GraphPairs):
        return Partition.graph(energy.pairs, draw(st.integers(1, min(4, energy.unary.size))))
    layout = tuple(draw(st.integers(1, min(3, n))) for n in energy.shape)
    return Partition.grid(energy.shape, layout)


def holders(partition):
    """The number of every site's block."""
    numbers = np.zeros(int(np.prod(partition.shape)), dtype=np.int64)
    for k, sites in enumerate(members(partition)):
        numbers[sites] = k
    return numbers


def random_flows(energy, partition, scale, rng):
    """Flows over some crossing pairs, their ends in any order, from one full way to the other."""
    first, second, weights = energy.pairs.edges()
    block = holders(partition)
    chosen = np.flatnonzero((block[first] != block[second]) & (rng.random(len(first)) < 0.8))
    rng.shuffle(chosen)
    most = np.rint(weights[chosen] * scale).astype(np.int64)
    flow = np.where(rng.random(len(most)) < 0.5, rng.integers(-most, most + 1), rng.choice([-1, 1], len(most)) * most)
    turned = rng.random(len(most)) < 0.5
    ends = [np.where(turned, second[chosen], first[chosen]), np.where(turned, first[chosen], second[chosen])]
    return *ends, flow


def in_units(energy, scale):
    first, second, weights = energy.pairs.edges()
    return np.rint(energy.unary.ravel() * scale), first, second, np.rint(weights * scale)


def brute_minimum(unary, first, second, weights):
    W = np.zeros((len(unary),) * 2)
    np.add.at(W, (first, second), weights)
    return round(brute_force(unary, W + W.T)[0])


def scipy_minimum(unary, first, second, weights):
    n = len(unary)
    tail = np.concatenate([first, second, np.full(n, n), np.arange(n)])
    head = np.concatenate([second, first, np.arange(n), np.full(n, n + 1)])
    capacity = np.concatenate([weights, weights, np.maximum(-unary, 0), np.maximum(unary, 0)]).astype(np.int32)
    flow = maximum_flow(csr_array((capacity, (tail, head)), shape=(n + 2, n + 2)), n, n + 1).flow_value
    return int(np.minimum(unary, 0).sum()) + int(flow)


def certified(energy, partition, flows, *, scale=1.0, minimum=brute_minimum):
    """The certificate of these flows."""
    unary, first, second, weights = in_units(energy, scale)
    for i, j, f in zip(*flows, strict=True):
        unary[i] += f
        unary[j] -= f
    bounds = []
    for sites in members(partition):
        place = np.full(len(unary), -1)
        place[sites] = np.arange(len(sites))
        inner = (place[first] >= 0) & (place[second] >= 0)
        bounds.append(minimum(unary[sites], place[first[inner]], place[second[inner]], weights[inner]))
    costs = np.concatenate([energy.unary.ravel(), energy.pairs.edges()[2]]) * scale
    whole = np.array_equal(costs, np.rint(costs))
    return Certificate(
        scale=scale,
        cuts=partition.cuts,
        members=None if partition.cuts is not None else holders(partition),
        first=flows[0],
        second=flows[1],
        flow=flows[2],
        bounds=np.array(bounds, dtype=np.int64),
        rounding_error=0.0 if whole else len(costs) / scale,
    )


# Laws.


@given(energies(most=10, integers=True), st.data())
def test_a_right_certificate_is_confirmed(energy, data):
    rng = rng_of(data.draw)
    partition = blocks_without_overlap(data.draw, energy)
    scale = data.draw(st.sampled_from([1.0, 8.0, 2.0**40]))
    certificate = certified(energy, partition, random_flows(energy, partition, scale, rng), scale=scale)
    labels = rng.random(energy.shape) < 0.5
    verdict = verify(energy, labels, certificate)
    assert verdict and verdict.valid, verdict.reason
    W = edge_weight_matrix(energy)
    assert verdict.energy == dense_energy(energy.unary, W, labels)
    assert verdict.lower_bound == certificate.lower_bound <= brute_force(energy.unary, W)[0]
    assert verdict.gap == verdict.energy - verdict.lower_bound
    assert verdict.exact == (verdict.energy == verdict.lower_bound)


@given(energies(most=10, integers=False), st.data())
def test_rounded_costs_are_confirmed_within_their_rounding(energy, data):
    rng = rng_of(data.draw)
    partition = blocks_without_overlap(data.draw, energy)
    scale = data.draw(st.sampled_from([1.0, 64.0, 2.0**30]))
    certificate = certified(energy, partition, random_flows(energy, partition, scale, rng), scale=scale)
    labels = rng.random(energy.shape) < 0.5
    verdict = verify(energy, labels, certificate)
    assert verdict.valid, verdict.reason
    best, least, _ = brute_force(energy.unary, edge_weight_matrix(energy))
    assert certificate.lower_bound - 1e-12 <= verdict.lower_bound <= best + 1e-12
    assert verdict.energy == pytest.approx(energy(labels), abs=1e-12)
    assert verdict.gap >= 0.0
    if verdict.exact:
        assert verdict.energy - best <= 2 * certificate.rounding_error
    assert verify(energy, least.reshape(energy.shape), certificate).gap == pytest.approx(best - verdict.lower_bound)


@given(energies(most=10), st.data())
def test_one_block_without_flows_is_exact_for_a_minimum(energy, data):
    """What the solver claims for a whole energy, whose weights the core computed."""
    minimizer = MaxFlow(bits=data.draw(st.sampled_from([None, 64]))).prepare(energy)
    answer = minimizer.minimize(energy.unary)
    certificate = Certificate(
        scale=minimizer.scale,
        cuts=None if isinstance(energy.pairs, GraphPairs) else ((),) * energy.unary.ndim,
        members=np.zeros(energy.unary.size, dtype=np.int32) if isinstance(energy.pairs, GraphPairs) else None,
        first=NONE,
        second=NONE,
        flow=NONE,
        bounds=np.array([round(answer.bound * minimizer.scale)]),
        rounding_error=minimizer.rounding_error,
    )
    verdict = verify(energy, answer.labels, certificate)
    assert verdict.valid and verdict.exact, verdict.reason
    assert verdict.gap <= minimizer.rounding_error


@given(st.integers(1, 9), st.sampled_from([1, 7, 2**20, 2**50]), st.data())
def test_the_minimum_of_a_block_is_that_of_brute_force(n, largest, data):
    rng = rng_of(data.draw)
    ends = rng.integers(0, n, (data.draw(st.integers(0, 20)), 2))
    first, second = ends[ends[:, 0] != ends[:, 1]].T
    weights = rng.integers(0, largest + 1, len(first))
    added = rng.integers(-largest * 2, largest * 2 + 1, n)
    own = rng.integers(-2, 3, n) * rng.choice([1.0, 2.0**40, 2.0**62, 2.0**150], n)
    unary = [int(u) + int(f) for u, f in zip(own, added, strict=True)]
    pairs = list(zip(first.tolist(), second.tolist(), weights.tolist(), strict=True))
    assert proved_minimum(added, first, second, weights) == least_cost(added.tolist(), pairs)
    assert block_minimum(own, added, first, second, weights) == least_cost(unary, pairs)


def least_cost(unary, pairs):
    """By trying all labels, in integers of any size."""
    return min(
        sum(u for u, y in zip(unary, labels, strict=True) if y) + sum(w for i, j, w in pairs if labels[i] != labels[j])
        for labels in product([0, 1], repeat=len(unary))
    )


@given(st.lists(st.integers(-(2**62), 2**62)))
@example([2**62] * 5)
def test_sums_are_exact(values):
    assert exact_sum(np.array(values, dtype=np.int64)) == sum(values)
    whole = [float(value) * 2.0**60 for value in values]
    assert exact_sum(np.array(whole)) == sum(int(value) for value in whole)


# Larger problems, beside SciPy.


def large_energies():
    rng = np.random.default_rng(5)
    yield "2D", Energy.grid(rng.integers(-40, 41, (64, 64)), lam=9.0), (2, 3)
    yield "2D, wide kernel", Energy.grid(rng.integers(-60, 61, (40, 48)), lam=2.0, kernel=7), (2, 2)
    yield "3D", Energy.grid(rng.integers(-40, 41, (16, 20, 18)), lam=14.0), (2, 1, 3)
    weights = rng.integers(0, 20, (2, 50, 40)).astype(float)
    yield "arrays", Energy.grid(rng.integers(-20, 21, (50, 40)), kernel=[(0, 1), (-1, 2)], weights=weights), (3, 2)
    edges = np.sort(rng.integers(0, 3000, (9000, 2)), axis=1)
    edges = edges[edges[:, 0] != edges[:, 1]]
    yield "graph", Energy.graph(rng.integers(-30, 31, 3000), edges, rng.integers(0, 12, len(edges))), 5
    line = np.stack([np.arange(1999), np.arange(1, 2000)], axis=1)
    ends = np.zeros(2000)
    ends[0], ends[-1] = -500, 400
    yield "long line", Energy.graph(ends, line, np.full(1999, 300)), 3


@pytest.mark.parametrize(
    ("energy", "layout"),
    [
        pytest.param(*case, id=name, marks=[] if name in ("3D", "graph") else pytest.mark.slow)
        for name, *case in large_energies()
    ],
)
def test_larger_blocks_have_the_minimum_that_scipy_finds(energy, layout):
    rng = np.random.default_rng(6)
    graph = isinstance(energy.pairs, GraphPairs)
    for number in (1, layout):
        partition = Partition.graph(energy.pairs, number) if graph else Partition.grid(energy.shape, number)
        certificate = certified(energy, partition, random_flows(energy, partition, 1.0, rng), minimum=scipy_minimum)
        labels = MaxFlow().prepare(energy).minimize(energy.unary).labels
        verdict = verify(energy, labels, certificate)
        assert verdict.valid, verdict.reason
        assert verdict.lower_bound == certificate.lower_bound <= verdict.energy == energy(labels)
        assert verdict.exact == (verdict.energy == certificate.lower_bound) and (verdict.exact or number != 1)


def test_weights_of_an_image_may_differ_from_the_cores_in_the_last_bit():
    rng = np.random.default_rng(7)
    image = rng.integers(0, 256, (48, 40, 3)).astype(np.uint8)
    energy = Energy.grid(rng.normal(0, 1, (48, 40)), lam=2.0, features=image, kernel=5, spacing=(1.0, 0.7))
    minimizer = MaxFlow(bits=64).prepare(energy)
    bound = round(minimizer.minimize(energy.unary).bound * minimizer.scale)
    whole = Certificate(minimizer.scale, ((), ()), None, NONE, NONE, NONE, np.array([bound]), minimizer.rounding_error)
    assert verify(energy, minimizer.labels(), whole).exact
    assert verify(energy, minimizer.labels(largest=True), whole).exact
    assert not verify(energy, ~minimizer.labels(), whole).exact
    assert not verify(energy, minimizer.labels(), replace(whole, bounds=whole.bounds + energy.pairs.number * 2))


def test_shares_with_divided_weights_are_energies_too():
    rng = np.random.default_rng(8)
    energy = Energy.grid(rng.normal(0, 1, (9, 8)), lam=0.7, features=rng.normal(0, 1, (9, 8)), kernel=5)
    share = energy.share(Partition.grid((9, 8), (2, 2), overlap=0.5), 3).energy
    assert share.pairs.counts is not None
    labels = rng.random(share.shape) < 0.5
    partition = Partition.grid(share.shape, (2, 1))
    flows = random_flows(share, partition, 2.0**20, rng)
    verdict = verify(share, labels, certified(share, partition, flows, scale=2.0**20, minimum=scipy_minimum))
    assert verdict.valid, verdict.reason
    assert verdict.energy == pytest.approx(share(labels), rel=1e-12)


def test_unaries_that_say_certainly():
    unary = np.array([[1e30, -3.0, 2.0], [-1e30, 4.0, 1e30]])
    energy = Energy.grid(unary, lam=2.0)
    labels = MaxFlow().prepare(energy).minimize(energy.unary).labels
    far = replace(good(), cuts=((), ()), first=NONE, second=NONE, flow=NONE, bounds=np.array([-(2**63)]))
    verdict = verify(energy, labels, far)
    assert not verdict and f"{int(-1e30) + round(energy(labels) + 1e30)}"[:16] in verdict.reason
    plain = replace(energy, unary=np.abs(unary))
    assert verify(plain, np.zeros((2, 3)), replace(far, bounds=np.array([0]))).exact


@pytest.mark.parametrize("strip", [1, 7, 20, 10**6])
def test_the_energy_does_not_depend_on_strips(monkeypatch, strip):
    rng = np.random.default_rng(2)
    energy = Energy.grid(rng.integers(-6, 7, (5, 3, 4)), kernel=[(0, 1, 0), (-2, 1, 1), (3, 0, -1)])
    certificate = certified(energy, Partition.grid(energy.shape, (3, 1, 2)), [NONE] * 3, minimum=scipy_minimum)
    labels = rng.random(energy.shape) < 0.5
    monkeypatch.setattr(parts, "STRIP_SITES", strip)
    assert verify(energy, labels, certificate).energy == energy(labels)


@pytest.mark.parametrize("center", ["apart", "inside"])
def test_costs_that_add_up_beyond_int64_are_refused(center):
    """A star whose centre has more than any site may have, over the seam or in its own block."""
    leaves = np.arange(1, 301)
    star = Energy.graph(np.zeros(301), np.stack([leaves * 0, leaves], axis=1), np.full(300, 2.0**52))
    numbers = np.zeros(301, dtype=np.int64)
    numbers[0] = center == "apart"
    bounds = np.array([-300 << 52, 0])
    flowing = Certificate(1.0, None, numbers, leaves * 0, leaves, np.full(300, 2**52), bounds)
    verdict = verify(star, np.zeros(301), flowing if center == "apart" else emptied(flowing))
    assert not verdict and "add up to 1.351e+18 units" in verdict.reason


def test_a_scale_at_which_costs_vanish_proves_nothing():
    energy = Energy.grid(np.array([-0.3, 0.2]), lam=0.25)
    nothing = Certificate(5e-324, ((),), None, NONE, NONE, NONE, np.array([0]))
    assert "put the bound off by 0.75" in verify(energy, [0, 0], nothing).reason
    assert verify(energy, [0, 0], replace(nothing, rounding_error=1.0)).lower_bound == -0.75


def test_nothing_of_the_core_is_asked(monkeypatch):
    energy = Energy.grid(np.random.default_rng(0).normal(size=(6, 7)), features=np.arange(42.0).reshape(6, 7))
    partition = Partition.grid(energy.shape, (2, 2))
    certificate = certified(energy, partition, [NONE] * 3, scale=2.0**20, minimum=scipy_minimum)

    class Core:
        def __getattr__(self, name):
            raise AssertionError(f"the core was asked for {name}")

    for room in ("arrays", "sums", "pairs.contrast", "pairs.graph", "pairs.grid", "coupling", "solvers.max_flow"):
        monkeypatch.setattr(f"dope.{room}._core", Core())
    assert verify(energy, np.zeros(energy.shape), certificate)


def test_what_is_passed_in_is_left_alone():
    certificate, labels = good(), np.zeros((4, 6), dtype=bool)
    arrays = [certificate.first, certificate.second, certificate.flow, certificate.bounds, labels, ENERGY.unary]
    before = copy.deepcopy(arrays)
    for array in arrays:
        array.flags.writeable = False
    assert verify(ENERGY, labels, certificate)
    assert all(map(np.array_equal, arrays, before))
    verdict = verify(ENERGY, labels, pickle.loads(pickle.dumps(certificate)))
    assert pickle.loads(pickle.dumps(verdict)) == verdict


# Tampering.

ENERGY = Energy.grid(np.random.default_rng(3).integers(-6, 7, (4, 6)), lam=2.0)
BLOCKS = Partition.grid((4, 6), (1, 2))
GRAPH = Energy.graph([-3, 2, 4, -5, 1], [[0, 1], [1, 2], [2, 3], [3, 4], [0, 4]], [2, 1, 3, 2, 1])


def good(energy=ENERGY, partition=BLOCKS):
    return certified(energy, partition, random_flows(energy, partition, 1.0, np.random.default_rng(4)))


def graph_good():
    return good(GRAPH, Partition.graph(GRAPH.pairs, 2))


def altered(array, place, value):
    array = array.copy()
    array[place] = value
    return array


def listed(certificate, first, second, flow):
    """One more flow at the end of the list."""
    return replace(
        certificate,
        first=np.append(certificate.first, first),
        second=np.append(certificate.second, second),
        flow=np.append(certificate.flow, flow),
    )


TAMPERED = {
    "a flow beyond its weight": (lambda c: replace(c, flow=altered(c.flow, 3, 3)), ["3 units", "weight of 2"]),
    "back beyond its weight": (lambda c: replace(c, flow=altered(c.flow, 3, -3)), ["-3 units", "weight of 2"]),
    "the lowest int64": (lambda c: replace(c, flow=altered(c.flow, 3, -(2**63))), ["-9223372036854775808 units"]),
    "the highest int64": (lambda c: replace(c, flow=altered(c.flow, 3, 2**63 - 1)), ["9223372036854775807 units"]),
    "another flow": (lambda c: replace(c, flow=altered(c.flow, 3, c.flow[3] - np.sign(c.flow[3]))), ["bound of block"]),
    "all flows turned": (lambda c: replace(c, flow=-c.flow), ["bound of block"]),
    "ends exchanged": (lambda c: replace(c, first=c.second, second=c.first), ["bound of block"]),
    "no such pair": (lambda c: listed(c, 0, 5, 1), ["pair (0, 5)", "no pair of the energy"]),
    "no such pair, empty": (lambda c: listed(c, 0, 23, 0), ["pair (0, 23)", "no pair of the energy"]),
    "around the border": (lambda c: listed(c, 5, 6, 1), ["pair (5, 6)", "no pair of the energy"]),
    "inside a block": (lambda c: listed(c, 7, 0, 1), ["pair (7, 0)", "does not cross a seam"]),
    "a site with itself": (lambda c: listed(c, 4, 4, 1), ["pair (4, 4)", "does not cross a seam"]),
    "a pair twice": (lambda c: listed(c, c.first[2], c.second[2], 0), ["more than once"]),
    "a pair both ways": (lambda c: listed(c, c.second[2], c.first[2], 0), ["more than once"]),
    "an end below": (lambda c: replace(c, first=altered(c.first, 1, -1)), ["site -1", "0 to 23"]),
    "an end beyond": (lambda c: replace(c, second=altered(c.second, 1, 24)), ["site 24", "0 to 23"]),
    "a bound above": (
        lambda c: replace(c, bounds=c.bounds + np.array([0, 1])),
        ["bound of block 1", "its minimum"],
    ),
    "a bound below": (
        lambda c: replace(c, bounds=c.bounds - np.array([1, 0])),
        ["bound of block 0", "below its"],
    ),
    "bounds exchanged": (lambda c: replace(c, bounds=c.bounds[::-1]), ["bound of block 0"]),
    "bounds of equal sum": (lambda c: replace(c, bounds=c.bounds + np.array([1, -1])), ["bound of block 0"]),
    "the highest bound": (lambda c: replace(c, bounds=altered(c.bounds, 0, 2**63 - 1)), ["9223372036854775807 units"]),
    "a bound too few": (lambda c: replace(c, bounds=c.bounds[:1]), ["1 bounds for 2 blocks"]),
    "a bound too many": (lambda c: replace(c, bounds=np.append(c.bounds, 0)), ["3 bounds for 2 blocks"]),
    "no bounds": (lambda c: replace(c, bounds=NONE), ["0 bounds for 2 blocks"]),
    "no power of two": (lambda c: replace(c, scale=3.0), ["scale is 3.0", "power of two"]),
    "another scale": (lambda c: replace(c, scale=2.0), ["bound of block"]),
    "a scale too coarse": (lambda c: replace(c, scale=0.25), ["weight of 0"]),
    "the coarsest scale": (lambda c: replace(emptied(c), scale=5e-324, bounds=c.bounds * 0), ["rounding error"]),
    "a scale too fine": (lambda c: replace(c, scale=2.0**60), ["a weight is more than"]),
    "the finest scale": (lambda c: replace(c, scale=2.0**1023), ["a weight is more than"]),
    "cuts that fall": (lambda c: replace(c, cuts=((), (4, 3)), bounds=NONE), ["axis 1", "[4, 3]", "rising"]),
    "a cut twice": (lambda c: replace(c, cuts=((), (3, 3))), ["axis 1", "[3, 3]", "rising"]),
    "a cut at the border": (lambda c: replace(c, cuts=((), (0,))), ["axis 1", "[0]"]),
    "a cut beyond": (lambda c: replace(c, cuts=((), (6,))), ["axis 1 of 6 sites", "[6]"]),
    "another cut": (lambda c: replace(emptied(c), cuts=((), (2,))), ["bound of block 0"]),
    "an axis too few": (lambda c: replace(c, cuts=((3,),)), ["1 axes", "has 2"]),
    "of a graph": (lambda c: replace(c, cuts=None, members=np.zeros(24, dtype=int)), ["of a graph"]),
}


def emptied(certificate):
    return replace(certificate, first=NONE, second=NONE, flow=NONE)


def test_the_certificate_that_is_tampered_with_was_right():
    for energy, certificate in ((ENERGY, good()), (GRAPH, graph_good())):
        assert verify(energy, np.zeros(energy.shape), certificate), "or the tests below mean nothing"
        assert len(certificate.flow) and len(certificate.bounds) == 2 and certificate.bounds[0] != certificate.bounds[1]
    assert abs(good().flow[3]) == 2


@pytest.mark.parametrize("name", TAMPERED)
def test_tampering_is_refused_with_its_reason(name):
    tamper, words = TAMPERED[name]
    verdict = verify(ENERGY, np.zeros((4, 6)), tamper(good()))
    assert not verdict and not verdict.valid and not verdict.exact
    assert all(word in verdict.reason for word in words), verdict.reason
    assert verdict.energy == 0.0 and verdict.lower_bound is None and verdict.gap is None


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (lambda c: replace(c, flow=altered(c.flow, 0, 4)), ["4 units", "allows"]),
        (lambda c: listed(c, 2, 0, 1), ["pair (2, 0)", "no pair of the energy"]),
        (lambda c: replace(c, members=c.members[:-1]), ["4 sites", "of 5"]),
        (lambda c: replace(c, members=np.append(c.members, 0)), ["6 sites", "of 5"]),
        (lambda c: replace(c, members=altered(c.members, 2, 2)), ["site 2", "block 2"]),
        (lambda c: replace(c, members=altered(c.members, 2, -1)), ["site 2", "block -1"]),
        (lambda c: replace(c, members=1 - c.members), ["bound of block 0"]),
        (lambda c: replace(c, members=c.members * 0), ["does not cross a seam"]),
        (lambda c: replace(c, bounds=c.bounds + 1), ["bound of block 0"]),
        (lambda c: replace(c, bounds=np.append(c.bounds, 1)), ["bound of block 2", "minimum, 0"]),
        (lambda c: replace(c, members=None, cuts=((2,),)), ["of a grid"]),
    ],
)
def test_tampering_on_a_graph_is_refused_with_its_reason(tamper, words):
    verdict = verify(GRAPH, np.zeros(5), tamper(graph_good()))
    assert not verdict and all(word in verdict.reason for word in words), verdict.reason


def test_a_graph_without_pairs_has_none_to_flow_over():
    energy = Energy.graph([-1.0, 2.0], [], [])
    right = Certificate(1.0, None, np.array([0, 1]), NONE, NONE, NONE, np.array([-1, 0]))
    assert verify(energy, [1, 0], right).exact
    assert "no pair of the energy" in verify(energy, [1, 0], listed(right, 0, 1, 0)).reason


def test_a_certificate_of_another_energy_is_refused():
    other = replace(ENERGY, unary=altered(ENERGY.unary, (0, 0), ENERGY.unary[0, 0] - 100))
    assert "bound of block 0" in verify(other, np.zeros((4, 6)), good()).reason
    assert "is no pair" in verify(Energy.grid(ENERGY.unary, lam=2.0, kernel=[(0, 2)]), np.zeros((4, 6)), good()).reason
    assert "allows" in verify(Energy.grid(ENERGY.unary), np.zeros((4, 6)), good()).reason
    assert not verify(Energy.grid(ENERGY.unary.T.copy(), lam=2.0), np.zeros((6, 4)), good())
    assert "of a grid" in verify(GRAPH, np.zeros(5), good()).reason


def test_other_labels_have_another_energy_and_are_no_fault():
    certificate = certified(ENERGY, Partition.grid((4, 6), 1), [NONE] * 3, minimum=scipy_minimum)
    best = MaxFlow().prepare(ENERGY).minimize(ENERGY.unary).labels
    assert verify(ENERGY, best, certificate).exact
    for place in np.ndindex(4, 6):
        labels = altered(best, place, ~best[place])
        verdict = verify(ENERGY, labels, certificate)
        assert verdict.valid and verdict.energy == ENERGY(labels)
        assert verdict.gap == ENERGY(labels) - ENERGY(best)
        assert verdict.exact == (verdict.gap == 0)


def test_the_constant_is_in_energy_and_bound():
    energy = replace(ENERGY, constant=7.5)
    plain, with_constant = (verify(one, np.zeros((4, 6)), good()) for one in (ENERGY, energy))
    assert with_constant.energy == plain.energy + 7.5 and with_constant.lower_bound == plain.lower_bound + 7.5
    assert with_constant.gap == plain.gap


def rounded():
    """A certificate of costs that are no whole numbers of units, and its energy."""
    rng = np.random.default_rng(9)
    energy = Energy.grid(rng.normal(0, 2, (4, 6)), lam=0.9, features=rng.normal(0, 1, (4, 6)))
    flows = random_flows(energy, BLOCKS, 256.0, rng)
    return energy, certified(energy, BLOCKS, flows, scale=256.0)


@pytest.mark.parametrize("claimed", [0.0, 0.01])
def test_a_rounding_error_that_is_too_small_is_refused(claimed):
    energy, certificate = rounded()
    assert verify(energy, np.zeros((4, 6)), certificate)
    verdict = verify(energy, np.zeros((4, 6)), replace(certificate, rounding_error=claimed))
    assert not verdict and "rounding error" in verdict.reason


def test_a_large_rounding_error_makes_nothing_exact_or_higher():
    energy, certificate = rounded()
    labels = np.ones((4, 6))
    one, other = (verify(energy, labels, replace(certificate, rounding_error=r)) for r in (1.0, 1e300))
    assert one == other and one.valid and not one.exact


def test_bounds_may_be_above_by_a_unit_for_every_rounded_cost():
    energy, certificate = rounded()
    costs = 12 + Energy.grid(np.zeros((4, 3))).pairs.number
    for more, valid in ((costs, True), (costs + 1, False)):
        claim = replace(certificate, bounds=certificate.bounds + np.array([0, more]), rounding_error=1.0)
        verdict = verify(energy, np.zeros((4, 6)), claim)
        assert verdict.valid == valid and (valid or f"no more than {costs} above" in verdict.reason), verdict.reason
        assert not valid or verdict == verify(energy, np.zeros((4, 6)), certificate)


def test_units_so_coarse_that_they_could_make_a_minimum_of_anything_make_none():
    energy = Energy.grid([-1.0, 1.0], lam=0.4)
    whole = Certificate(1.0, ((),), None, NONE, NONE, NONE, np.array([-1]), rounding_error=1.0)
    verdicts = [verify(energy, labels, whole) for labels in ([1, 0], [0, 0], [0, 1])]
    assert all(verdict.lower_bound == pytest.approx(-1.4) and not verdict.exact for verdict in verdicts)


def test_units_so_fine_that_rounding_decides_nothing_tell_a_minimum():
    energy = Energy.grid([-1.1, 1.1], lam=0.4)
    bound = round(-0.7 * 2**40)
    whole = Certificate(2.0**40, ((),), None, NONE, NONE, NONE, np.array([bound]), rounding_error=3 / 2**40)
    verdicts = [verify(energy, labels, whole) for labels in ([1, 0], [0, 0], [1, 1], [0, 1])]
    assert [verdict.exact for verdict in verdicts] == [True, False, False, False]


def test_a_coarse_scale_and_no_flows_prove_nothing_of_labels_that_differ():
    energy = Energy.grid(np.zeros((1, 2)), lam=3)
    forged = Certificate(2.0**-14, ((), ()), None, NONE, NONE, NONE, np.array([0]), rounding_error=0.0)
    assert not verify(energy, [[0, 1]], forged).exact


def test_one_huge_weight_does_not_make_flipped_labels_exact():
    rng = np.random.default_rng(0)
    edges = [(i, i + 1) for i in range(19)]
    energy = Energy.graph(rng.normal(size=20), edges, [*rng.random(18), 1e15])
    result = dope.minimize(energy)
    assert verify(energy, result.labels, result.certificate).valid
    for site in range(20):
        flipped = altered(result.labels, site, ~result.labels[site])
        assert not verify(energy, flipped, result.certificate).exact


def test_certificates_of_unaries_far_beyond_their_pairs_are_confirmed():
    """Some of the bounds have more than 63 bits, and are kept and read again."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        size = [1e6, 1e9, 1e15][seed % 3]
        energy = Energy.grid(rng.normal(0, size, 20), lam=1.0, kernel=[[1]])
        result = dope.minimize(energy, blocks=4)
        verdict = verify(energy, result.labels, result.certificate)
        assert result.exact and verdict.valid and verdict.exact, verdict.reason


def test_bounds_of_any_size_are_kept_and_read_again(tmp_path):
    energy = Energy.grid(np.array([-1e20, 0.3, 0.2, -5.0]), lam=0.7)
    certificate = dope.minimize(energy, blocks=2).certificate
    assert max(abs(bound) for bound in certificate.bounds.tolist()) > 1 << 63
    certificate.save(tmp_path / "proof.npz")
    again = Certificate.load(tmp_path / "proof.npz")
    assert again.bounds.tolist() == certificate.bounds.tolist() and again.claim == certificate.claim


def test_flows_a_unit_beyond_a_rounded_weight_pass_and_are_paid_for():
    """A weight of 0.4 and a flow of 1 prove 0 where -0.6 is the minimum, but for the 0.6 that the flow is beyond."""
    energy = Energy.grid([-1.0, 1.0], lam=0.4)
    ends = np.array([0]), np.array([1])
    over = Certificate(1.0, ((1,),), None, *ends, np.array([1]), np.array([0, 0]), rounding_error=1.0)
    verdict = verify(energy, [1, 0], over)
    assert verdict.valid and verdict.lower_bound == verdict.energy == -0.6
    assert "rounding error" in verify(energy, [1, 0], replace(over, rounding_error=0.5)).reason
    assert "2 units, more than its weight of 0" in verify(energy, [1, 0], replace(over, flow=np.array([2]))).reason


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.zeros((6, 4)), ["(6, 4)", "(4, 6)"]),
        (np.zeros(24), ["(24,)"]),
        (np.full((4, 6), 2), ["0 and 1"]),
        (np.full((4, 6), np.nan), ["0 and 1"]),
        (np.full((4, 6), "1"), ["0 and 1"]),
        (None, ["()"]),
    ],
)
def test_labels_of_another_kind_are_an_error(labels, words):
    with pytest.raises(InputError) as error:
        verify(ENERGY, labels, good())
    assert all(word in str(error.value) for word in words), error.value


def test_arguments_that_cannot_be_used_are_an_error():
    labels = np.zeros((4, 6))
    negative = Energy.grid(ENERGY.unary, weights=[1.0, 1.0, -0.5, 1.0])
    with pytest.raises(InputError, match=r"as low as -0\.5"):
        verify(negative, labels, good())
    several = dope.LabelEnergy.grid(np.zeros((2, 2, 3)))
    with pytest.raises(InputError, match=r"is of 3 labels, and .* result.proved says .* result.lower_bound below"):
        verify(several, np.zeros((2, 2), dtype=int), None)
    with pytest.raises(InputError, match="expected an Energy"):
        verify(ENERGY.unary, labels, good())
    with pytest.raises(InputError, match="expected a Certificate"):
        verify(ENERGY, labels, {"scale": 1.0})
    with pytest.raises(InputError, match="finite"):
        verify(replace(ENERGY, unary=np.full((4, 6), np.nan)), labels, good())


MALFORMED = {
    "scale NaN": ({"scale": math.nan}, "scale is nan"),
    "scale infinite": ({"scale": math.inf}, "scale is inf"),
    "scale 0": ({"scale": 0.0}, "above 0"),
    "scale below 0": ({"scale": -2.0}, "above 0"),
    "scale a word": ({"scale": "1"}, "finite float"),
    "rounding NaN": ({"rounding_error": math.nan}, "rounding_error is nan"),
    "rounding infinite": ({"rounding_error": math.inf}, "rounding_error is inf"),
    "rounding below 0": ({"rounding_error": -1.0}, "0 or more"),
    "flows of floats": ({"flow": np.ones(3)}, "flow has dtype float64"),
    "flows of int32": ({"flow": np.ones(3, dtype=np.int32)}, "flow has dtype int32"),
    "flows of objects": ({"flow": np.array([2**70])}, "flow has dtype object"),
    "flows in a list": ({"flow": [1, 2]}, "flow is a list"),
    "ends of floats": ({"first": np.ones(3)}, "first has dtype float64"),
    "bounds of floats": ({"bounds": np.ones(3)}, "bounds has dtype float64"),
    "bounds of NaN": ({"bounds": np.full(2, np.nan)}, "bounds has dtype float64"),
    "bounds in a square": ({"bounds": np.ones((2, 2), dtype=np.int64)}, "bounds has shape (2, 2)"),
    "fewer flows": ({"flow": NONE}, "lists of one length"),
    "both kinds": ({"members": NONE}, "found both or none"),
    "neither kind": ({"cuts": None}, "found both or none"),
    "cuts of floats": ({"cuts": ((), (3.0,))}, "cuts are ((), (3.0,))"),
    "cuts in lists": ({"cuts": [[], [3]]}, "cuts are [[], [3]]"),
    "cuts below 0": ({"cuts": ((), (-3,))}, "cuts are ((), (-3,))"),
    "members of floats": ({"cuts": None, "members": np.ones(24)}, "members has dtype float64"),
    "members of uint64": ({"cuts": None, "members": np.ones(24, dtype=np.uint64)}, "members has dtype uint64"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_certificate_of_other_kinds_cannot_be_made(name):
    change, words = MALFORMED[name]
    with pytest.raises(InputError) as error:
        replace(good(), **change)
    assert words in str(error.value), error.value


def test_a_certificate_is_looked_at_again_when_it_is_verified():
    certificate = good()
    object.__setattr__(certificate, "flow", certificate.flow.astype(float))
    with pytest.raises(InputError, match="flow has dtype float64"):
        verify(ENERGY, np.zeros((4, 6)), certificate)


# Files.


def same(one, other):
    arrays = ("members", "first", "second", "flow", "bounds")
    return (one.scale, one.cuts, one.rounding_error) == (other.scale, other.cuts, other.rounding_error) and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays
    )


@given(energies(most=10), st.data())
def test_a_saved_certificate_is_loaded_as_it_was(tmp_path_factory, energy, data):
    partition = blocks_without_overlap(data.draw, energy)
    certificate = certified(energy, partition, random_flows(energy, partition, 4.0, rng_of(data.draw)), scale=4.0)
    file = tmp_path_factory.mktemp("certificates") / "one.npz"
    certificate.save(file)
    assert same(Certificate.load(file), certificate)
    labels = np.zeros(energy.shape)
    assert verify(energy, labels, Certificate.load(str(file))) == verify(energy, labels, certificate)
    with np.load(file, allow_pickle=False) as arrays:
        assert np.array_equal(arrays["flow"], certificate.flow)
    assert [path.name for path in file.parent.iterdir()] == ["one.npz"]


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "one.npz"
    good().save(file)
    before = file.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(InputError, match="no space left"):
        graph_good().save(file)
    assert file.read_bytes() == before and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("name", ["missing/one.npz", "file/one.npz", "x" * 400 + ".npz"])
def test_a_place_that_cannot_be_written_to_is_an_error(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        good().save(tmp_path / name)
    with pytest.raises(InputError, match="cannot read"):
        Certificate.load(tmp_path / name)


def write(file, parts, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, array in parts.items():
            if isinstance(array, bytes):
                archive.writestr(f"{name}.npy", array)
            else:
                with archive.open(f"{name}.npy", "w") as part:
                    np.lib.format.write_array(part, array, allow_pickle=True)


def header(shape, dtype="<i8"):
    """An .npy file that claims a shape and has no more than its header."""
    text = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(10 + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


BROKEN = {
    "a name missing": (lambda p: p.pop("flow"), "it holds"),
    "a name too many": (lambda p: p.update(more=NONE), "it holds"),
    "both kinds": (lambda p: p.update(members=NONE), "it holds"),
    "another version": (lambda p: p.update(version=np.array(3)), "version is 3"),
    "flows of floats": (lambda p: p.update(flow=np.ones(4)), "flow has dtype float64"),
    "flows of objects": (lambda p: p.update(flow=np.array([1, None])), "flow has dtype object"),
    "flows in big end": (lambda p: p.update(flow=p["flow"].astype(">i8")), "flow has dtype >i8"),
    "flows in a square": (lambda p: p.update(flow=p["flow"][None]), "flow has dtype int64 and shape (1, "),
    "a scale of two": (lambda p: p.update(scale=np.ones(2)), "scale has dtype float64 and shape (2,)"),
    "a scale of int": (lambda p: p.update(scale=np.array(1)), "scale has dtype int64"),
    "a scale of NaN": (lambda p: p.update(scale=np.array(np.nan)), "scale is nan"),
    "a scale of inf": (lambda p: p.update(scale=np.array(np.inf)), "scale is inf"),
    "a list too short": (lambda p: p.update(flow=p["flow"][:-1]), "lists of one length"),
    "a huge list": (lambda p: p.update(flow=header((1 << 60,))), "flow has shape (1152921504606846976,) but 0 bytes"),
    "a list below 0": (lambda p: p.update(flow=header((-1,))), "flow has shape (-1,)"),
    "more bytes": (lambda p: p.update(flow=header((0,)) + b"12345678"), "8 bytes"),
    "no header": (lambda p: p.update(flow=b"nothing"), "is no certificate"),
    "half a header": (lambda p: p.update(flow=header((3,))[:40]), "is no certificate"),
    "a header of code": (lambda p: p.update(flow=header("__import__('os')")), "is no certificate"),
    "another .npy": (lambda p: p.update(flow=b"\x93NUMPY\x03\x00" + header((0,))[8:]), "version (3, 0)"),
    "cuts that are not there": (lambda p: p.update(cuts_per_axis=np.array([1, 1])), "1 cuts, but counts 2"),
    "cuts below 0": (lambda p: p.update(cuts_per_axis=np.array([-1, 2])), "1 cuts"),
    "huge cuts": (lambda p: p.update(cuts_per_axis=np.array([2**62, -(2**62) + 1])), "1 cuts"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_of_other_content_is_an_error(tmp_path, name):
    spoil, words = BROKEN[name]
    parts = good()._arrays()
    spoil(parts)
    write(tmp_path / "one.npz", parts)
    with pytest.raises(InputError) as error:
        Certificate.load(tmp_path / "one.npz")
    assert words in str(error.value), error.value


def test_compressed_files_could_be_of_any_length(tmp_path):
    write(tmp_path / "one.npz", good()._arrays(), zipfile.ZIP_DEFLATED)
    with pytest.raises(InputError, match="compressed"):
        Certificate.load(tmp_path / "one.npz")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00", b"certainly"])
def test_a_file_of_another_kind_is_an_error(tmp_path, content):
    (tmp_path / "one.npz").write_bytes(content)
    with pytest.raises(InputError, match="no certificate" if content else "empty"):
        Certificate.load(tmp_path / "one.npz")


@pytest.mark.parametrize("every", slow_but([1, 8], quick=[8]))
def test_a_damaged_file_is_an_error_or_what_it_was(tmp_path, every):
    """Bytes that are cut off or changed, one after the other: no other exception, and no other certificate."""
    file, certificate = tmp_path / "one.npz", good()
    certificate.save(file)
    content = file.read_bytes()
    rng = np.random.default_rng(1)
    damaged = [content[:length] for length in range(0, len(content), 7 * every)]
    damaged += [
        altered(np.frombuffer(content, np.uint8), place, rng.integers(256)).tobytes()
        for place in range(0, len(content), every)
    ]
    for bad in damaged:
        file.write_bytes(bad)
        try:
            loaded = Certificate.load(file)
        except InputError:
            continue
        assert same(loaded, certificate)


def test_certificate_and_verdict_are_at_the_front_door():
    assert {"Certificate", "Verdict", "verify"} <= set(dope.__all__)
    assert callable(dope.verify)


def test_unaries_of_any_size_are_confirmed():
    energy = Energy.graph([1e80, -1.0, 1.0], [[0, 1], [1, 2]], [1.0, 3.0])
    result = dope.minimize(energy)
    assert verify(energy, result.labels, result.certificate).exact


def test_claims_beyond_float64_are_invalid_and_no_error():
    energy = Energy.graph([1 / 3], np.zeros((0, 2), int), [])
    result = dope.minimize(energy)
    assert result.certificate is not None
    far = replace(result.certificate, scale=2.0**-1000, bounds=np.array([2**60]))
    assert far.lower_bound > 1e308 and not verify(energy, result.labels, far)
    tiny = replace(result.certificate, scale=5e-324, rounding_error=0.001, bounds=np.array([1]))
    assert not verify(energy, result.labels, tiny)


def test_energies_beyond_float64_are_infinite():
    energy = Energy.graph([-1.7e308, -1.7e308], [[0, 1]], [1.0])
    assert energy([1, 1]) == -math.inf and energy.exactly([1, 1]) == 2 * Fraction(-1.7e308)
    result = dope.minimize(energy)
    assert result.labels.all() and result.exact and result.lower_bound == -math.inf
