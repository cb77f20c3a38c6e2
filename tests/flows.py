"""Grids and graphs for tests of the native core, at random and for each way it stores a grid; and what must hold."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import maximum_flow

from dope import _core

SCALE = 64.0
WIDTHS = (16, 32, 64)


def half_kernel(dimension, radius, rng):
    """Half of a cube of offsets, with signs at random."""
    return half_box((radius,) * dimension, rng)


def half_box(radii, rng):
    """The same of a box, with a radius for each axis."""
    box = itertools.product(*(range(-radius, radius + 1) for radius in radii))
    half = np.array([o for o in box if o > (0,) * len(radii)], dtype=np.int64)
    return half * rng.choice([-1, 1], size=(len(half), 1))


# A shape and the radii of a kernel for each store of cpp/grid_flow_maker.h; no radii: the axes alone.
STORES = {
    "few4": ((13, 17), None),
    "few4 chain": ((70,), None),
    "few6": ((5, 7, 6), None),
    "few8": ((11, 12), (1, 1)),
    "few8 in 4D": ((3, 4, 5, 3), None),
    "rows4": ((5, 4, 6), (1, 1, 1)),
    "rows8": ((12, 13), (3, 3)),
    "rows16": ((11, 16), (2, 6)),
    "rows16 chain": ((90,), (12,)),
    "rows16 of many arcs": ((13, 12), (6, 6)),
}

NETWORKS = (*STORES, "graph")


def store_offsets(name, rng):
    shape, radii = STORES[name]
    return np.eye(len(shape), dtype=np.int64) if radii is None else half_box(radii, rng)


def grid_pairs(weights, offsets, shape):
    """The pairs of a grid as flat places, offset by offset, and their capacities at SCALE."""
    index = np.arange(math.prod(shape)).reshape(shape)
    edges, capacities = [], []
    for m, offset in enumerate(offsets):
        for p in np.ndindex(shape):
            q = tuple(a + b for a, b in zip(p, offset, strict=True))
            if all(0 <= a < n for a, n in zip(q, shape, strict=True)):
                edges.append((index[p], index[q]))
        w = weights.weights(m)
        capacities += [np.rint(w.flat[i] * SCALE) for i, _ in edges[len(capacities) :]]
    return np.array(edges, dtype=np.int64).reshape(-1, 2), np.array(capacities, dtype=np.int64)


@dataclass(frozen=True)
class Network:
    """A grid or a graph that flows can be opened on, as often as one likes."""

    weights: object
    offsets: np.ndarray | None  # None: a graph
    shape: tuple[int, ...]
    pairs: np.ndarray
    capacities: np.ndarray

    @property
    def sites(self):
        return math.prod(self.shape)

    def open(self, bits):
        if self.offsets is None:
            return _core.GraphFlow(self.sites, self.pairs, self.capacities / SCALE, SCALE, bits)
        return _core.GridFlow(self.weights, SCALE, bits)


def grid(shape, offsets, rng, factor=2.0):
    """A grid whose pairs differ in weight."""
    features = rng.normal(size=(*shape, 1))
    weights = _core.GridWeights(shape, offsets, np.full(len(offsets), factor), features, 0.5)
    return Network(weights, offsets, tuple(shape), *grid_pairs(weights, offsets, shape))


def graph(sites, rng, density=0.05):
    upper = np.array(list(itertools.combinations(range(sites), 2)), dtype=np.int64).reshape(-1, 2)
    pairs = upper[rng.random(len(upper)) < density]
    pairs = rng.permuted(rng.permutation(pairs), axis=1)
    return Network(None, None, (sites,), pairs, rng.integers(0, 200, len(pairs)))


def network(name, rng):
    """The one of this name in STORES, or a graph."""
    return graph(120, rng) if name == "graph" else grid(STORES[name][0], store_offsets(name, rng), rng)


def random_weights(rng, most_sites=400):
    """A small grid of any dimension with any kernel and weights; also its list of pairs, at SCALE."""
    dimension = int(rng.integers(1, 5))
    shape = tuple(int(n) for n in rng.integers(1, [60, 12, 6, 4][dimension - 1], size=dimension))
    shape = shape if math.prod(shape) <= most_sites else shape[:1]
    offsets = half_kernel(len(shape), int(rng.integers(1, 4 if len(shape) < 3 else 2)), rng)
    offsets = offsets[rng.random(len(offsets)) < rng.choice([0.4, 1.0])]
    factors = rng.choice([0.0, 0.5, 1.0, 3.0, 20.0], len(offsets))
    features = rng.normal(size=(*shape, 1)) if rng.random() < 0.5 else None
    fields = [rng.random(shape) for _ in offsets] if rng.random() < 0.3 else None
    counts = [rng.integers(1, 3, n).astype(float) for n in shape] if rng.random() < 0.3 else None
    weights = _core.GridWeights(shape, offsets, factors, features, 0.7, fields, counts)
    return weights, offsets, shape, *grid_pairs(weights, offsets, shape)


def random_unary(rng, sites):
    """Of any kind: informative, tied, empty, or with sites that are certain. In units of 1 / SCALE."""
    kind = rng.integers(5)
    unary = rng.integers(-300, 301, sites) if kind else np.zeros(sites, np.int64)
    if kind == 1:
        unary = rng.choice([-64, 0, 64], sites)
    if kind == 2:
        unary[rng.random(sites) < 0.2] = rng.choice([-(10**7), 10**7])
    if kind == 3:
        unary[rng.random(sites) < 0.8] = 0
    return unary


def integer_energy(unary, pairs, capacities, labels):
    i, j = pairs.T
    return int(unary @ labels + capacities @ (labels[i] != labels[j]))


def scipy_minimum(unary, pairs, capacities):
    n = len(unary)
    i, j = pairs.T
    nodes = np.arange(n)
    rows = np.concatenate([i, j, np.full(n, n), nodes])
    columns = np.concatenate([j, i, nodes, np.full(n, n + 1)])
    values = np.concatenate([capacities, capacities, np.maximum(-unary, 0), np.maximum(unary, 0)])
    arcs = scipy.sparse.csr_matrix((values.astype(np.int32), (rows, columns)), shape=(n + 2, n + 2))
    return maximum_flow(arcs, n, n + 1).flow_value + int(np.minimum(unary, 0).sum())


def require_minimum(flow, unary, pairs, capacities):
    """The value is the minimum and the energy of both minimizers; returns them, the smallest first."""
    minimum = scipy_minimum(unary, pairs, capacities)
    assert flow.value() * SCALE == minimum
    smallest, largest = flow.labels().ravel(), flow.labels(largest=True).ravel()
    for labels in (smallest, largest):
        assert integer_energy(unary, pairs, capacities, labels) == minimum
    assert (smallest <= largest).all()
    flow.check()
    return smallest, largest


def require_same_answers(flow, other):
    assert flow.value() == other.value()
    np.testing.assert_array_equal(flow.labels(), other.labels())
    np.testing.assert_array_equal(flow.labels(largest=True), other.labels(largest=True))


def random_change(rng, sites):
    """Some sites, some of them more than once, and what their unary becomes, in units."""
    count = int(rng.choice([0, 1, 2, sites // 20, sites // 4, sites]))
    return rng.integers(0, sites, count), rng.choice(random_unary(rng, sites), count)


def follow(problem, rng, *, bits, turns):
    """One flow through a long sequence of changes and whole unaries; each answer is what a cold flow gives."""
    flow = problem.open(bits)
    unary = random_unary(rng, problem.sites)
    flow.minimize((unary / SCALE).reshape(problem.shape))
    for _ in range(turns):
        if rng.random() < 0.8:
            where, values = random_change(rng, problem.sites)
            unary[where] = values  # NumPy, too, lets the last of several win
            flow.change(where, values / SCALE)
        else:
            changed = rng.random(problem.sites) < rng.choice([0.05, 0.5])
            unary = np.where(changed, random_unary(rng, problem.sites), unary)
            flow.minimize((unary / SCALE).reshape(problem.shape))
        if rng.random() < 0.2:
            flow.check()
        if rng.random() < 0.5:  # looking at labels grows the forests the next turn starts with
            cold = problem.open(64)
            cold.minimize((unary / SCALE).reshape(problem.shape))
            assert flow.value() == cold.value()
        if rng.random() < 0.5:
            cold = problem.open(64)
            cold.minimize((unary / SCALE).reshape(problem.shape))
            require_same_answers(flow, cold)
    flow.check()
