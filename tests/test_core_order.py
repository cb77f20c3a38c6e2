"""A graph whose neighbors are far apart is kept in another order inside; nobody sees it from outside."""

import numpy as np
import pytest

import dope
from dope import _core
from dope.pairs import ends

# From 2^14 sites on, sites are moved if most of their neighbors are not near.
SHAPE = (131, 127)
OFFSETS = np.array([(0, 1), (1, 0)])


class Scattered:
    """A grid, and the same as a graph whose sites are numbered anyhow."""

    def __init__(self, seed, bits=16):
        rng = np.random.default_rng(seed)
        n = int(np.prod(SHAPE))
        self.number = rng.permutation(n)  # of each site of the grid
        numbers = self.number.reshape(SHAPE)
        self.fields = [rng.integers(0, 9, SHAPE).astype(float) for _ in OFFSETS]
        self.unary = rng.integers(-12, 13, SHAPE).astype(float)
        tails, heads, weights = [], [], []
        for field, offset in zip(self.fields, OFFSETS.tolist(), strict=True):
            tail, head = ends(offset)
            tails.append(numbers[tail].ravel())
            heads.append(numbers[head].ravel())
            weights.append(field[tail].ravel())
        self.first, self.second = np.concatenate(tails), np.concatenate(heads)
        self.weights = np.concatenate(weights)
        self.sites, self.bits = n, bits
        order = rng.permutation(len(self.first))
        self.first, self.second, self.weights = self.first[order], self.second[order], self.weights[order]

    def graph_flow(self):
        return _core.GraphFlow(self.sites, (self.first, self.second), self.weights, 1.0, self.bits)

    def grid_flow(self):
        weights = _core.GridWeights(SHAPE, OFFSETS, np.ones(2), None, 0.0, self.fields)
        return _core.GridFlow(weights, 1.0, self.bits)

    def scattered(self, values):
        """Values of the grid's sites as those of the graph's."""
        found = np.empty(self.sites, dtype=values.dtype)
        found[self.number] = values.ravel()
        return found

    def energy(self):
        edges = np.stack([self.first, self.second], axis=1)
        return dope.Energy.graph(self.scattered(self.unary), edges, self.weights)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_labels_are_those_of_the_grid(bits):
    case = Scattered(0, bits)
    graph, grid = case.graph_flow(), case.grid_flow()
    graph.minimize(case.scattered(case.unary))
    grid.minimize(case.unary)
    graph.check()
    assert graph.minimum() == grid.minimum()
    for largest in (False, True):
        np.testing.assert_array_equal(graph.labels(largest), case.scattered(grid.labels(largest)))
    assert graph.bytes > _core.GraphFlow.bytes_needed(case.sites, len(case.weights), bits)  # with the order


def test_changes_are_made_where_they_belong():
    case = Scattered(1)
    graph, grid = case.graph_flow(), case.grid_flow()
    graph.minimize(case.scattered(case.unary))
    grid.minimize(case.unary)
    rng = np.random.default_rng(2)
    for _ in range(3):
        sites = rng.choice(case.sites, 500, replace=False)
        prices = rng.integers(-20, 21, 500).astype(float)
        grid.change(sites, prices)
        graph.change(case.number[sites], prices)
        graph.check()
        np.testing.assert_array_equal(graph.labels(), case.scattered(grid.labels()))
    with pytest.raises(ValueError, match=f"site {case.sites}: expected 0 to"):
        graph.change(np.array([case.sites]), np.zeros(1))


@pytest.mark.parametrize("method", [dope.Exact(bracket=True), dope.Exact(merge=False, rounds=2)], ids=str)
def test_blocks_find_the_same_and_prove_it(method):
    pytest.importorskip("pymetis")
    case = Scattered(3)
    energy = case.energy()
    whole = dope.minimize(energy)
    parts = dope.minimize(energy, blocks=4, method=method, solver=dope.MaxFlow(check=True))
    grid = case.grid_flow()
    grid.minimize(case.unary)
    np.testing.assert_array_equal(whole.labels, case.scattered(grid.labels()))
    np.testing.assert_array_equal(parts.labels, whole.labels)
    assert parts.exact and parts.lower_bound == whole.energy
    assert dope.verify(energy, parts.labels, parts.certificate).exact
    moved = dope.Energy(energy.unary + (np.arange(case.sites) % 7 == 0), energy.pairs)
    again = dope.minimize(moved, blocks=parts.partition, method=method, start=parts)
    np.testing.assert_array_equal(again.labels, dope.minimize(moved).labels)
