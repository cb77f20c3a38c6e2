"""The laws everything rests on, on random grids of one to three dimensions and on graphs."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import Admm, Energy, Icm, Partition
from oracles import DenseBlocks, dense_energy, edge_weight_matrix, grid_weight_matrix
from problems import energies, graphs, grids, members, partitions, rng_of

close = pytest.approx


@given(grids(signed=True), st.data())
def test_a_grid_energy_is_its_definition(grid, data):
    energy, unary, arguments = grid
    labels = rng_of(data.draw).random(unary.shape) < 0.5
    known = {k: arguments[k] for k in ("features", "spacing", "weights") if k in arguments}
    W = grid_weight_matrix(unary.shape, energy.pairs.offsets, arguments["lam"], beta=energy.pairs.beta, **known)
    inside = arguments.get("mask", np.ones(unary.shape, dtype=bool))
    W *= np.outer(inside.ravel(), inside.ravel())
    labels &= inside
    assert energy(labels) == close(dense_energy(unary, W, labels), rel=1e-10, abs=1e-9)


@given(grids(signed=True), st.data())
def test_a_grid_energy_is_the_energy_of_its_edge_list(grid, data):
    energy = grid[0]
    labels = rng_of(data.draw).random(energy.shape) < 0.5
    first, second, weights = energy.pairs.edges()
    graph = Energy.graph(energy.unary.ravel(), np.stack([first, second], axis=1), weights)
    assert graph(labels.ravel()) == close(energy(labels), rel=1e-10, abs=1e-9)


@given(st.data())
def test_tables_keep_every_cost(data):
    rng = rng_of(data.draw)
    n = data.draw(st.integers(1, 8))
    edges = rng.integers(0, n, (12, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    costs, tables = rng.normal(size=(n, 2)), rng.normal(size=(len(edges), 2, 2))
    energy = Energy.from_tables(costs, edges, tables)
    y = rng.integers(0, 2, n)
    direct = sum(costs[i, y[i]] for i in range(n)) + sum(t[y[i], y[j]] for (i, j), t in zip(edges, tables, strict=True))
    assert energy(y) == close(direct, abs=1e-9)


@given(energies(signed=True), st.data())
def test_shares_of_a_partition_add_up_to_the_whole(energy, data):
    partition = data.draw(partitions(energy))
    y = rng_of(data.draw).random(energy.shape) < 0.5
    total = energy.constant
    for k, block in enumerate(partition.blocks):
        share = energy.share(partition, k)
        y_k = y[block.where]
        coupling = share.coupling.apply(np.ascontiguousarray(y[share.coupling.region], dtype=float))
        total += share.energy(y_k) + float((coupling * y_k).sum())
    assert total == close(energy(y), rel=1e-9, abs=1e-8)


@given(energies(signed=True), st.data())
def test_the_coupling_is_the_papers_matrix(energy, data):
    partition = data.draw(partitions(energy))
    rng = rng_of(data.draw)
    places = members(partition)
    dense = DenseBlocks(energy.unary.astype(float), edge_weight_matrix(energy), places)
    numbers = np.arange(energy.unary.size).reshape(energy.shape)
    for k, block in enumerate(partition.blocks):
        share = energy.share(partition, k)
        coupling, region = share.coupling, numbers[share.coupling.region].ravel()
        y = rng.normal(size=energy.shape)
        local = coupling.apply(np.ascontiguousarray(y[coupling.region]))
        np.testing.assert_allclose(local.ravel(), dense.A[k] @ y.ravel(), atol=1e-9)
        labels = rng.random(local.shape) < 0.5
        spread = np.zeros(energy.unary.size)
        spread[region] = coupling.transpose(labels).ravel()
        np.testing.assert_allclose(spread, dense.A[k].T @ labels.ravel(), atol=1e-9)
        np.testing.assert_allclose(share.energy.unary.ravel(), dense.u_hat[k], atol=1e-12)
        np.testing.assert_allclose(edge_weight_matrix(share.energy), dense.W_hat[k], atol=1e-9)
        uncoupled = ~coupling.coupled().ravel()
        assert np.abs(dense.A[k][uncoupled]).max(initial=0.0) < 1e-12
        assert (partition.multiplicity(block.where).ravel()[uncoupled] == 1).all()
        assert coupling.strength().shape == labels.shape


@given(energies(), st.data())
def test_the_average_of_the_restrictions_is_the_whole(energy, data):
    partition = data.draw(partitions(energy))
    x = rng_of(data.draw).normal(size=energy.shape)
    pieces = [x[block.where] for block in partition.blocks]
    np.testing.assert_allclose(partition.average(pieces), x, rtol=1e-12)
    np.testing.assert_array_equal(partition.assemble(pieces), x)


@given(energies(most=10, signed=True))
def test_icm_ends_where_no_single_flip_pays(energy):
    # One block of ADMM asks the solver once, and takes its answer.
    labels = dope.minimize(energy, blocks=1, method=Admm(), solver=Icm()).labels
    for site in np.ndindex(*energy.shape):
        flipped = labels.copy()
        flipped[site] = not flipped[site]
        assert energy(flipped) >= energy(labels) - 1e-9 * (1 + abs(energy(labels)))


@given(energies(signed=True), st.data())
def test_energies_and_partitions_survive_pickling(energy, data):
    partition = data.draw(partitions(energy))
    labels = rng_of(data.draw).random(energy.shape) < 0.5
    again, blocks = pickle.loads(pickle.dumps((energy, partition)))
    assert again(labels) == energy(labels)
    assert members(blocks)[0].tolist() == members(partition)[0].tolist()


@given(grids(most=24), st.data())
def test_beta_is_the_same_to_the_bit_for_any_blocks(grid, data):
    unary, rng = grid[1], rng_of(data.draw)
    features = rng.normal(size=(*unary.shape, 2))
    energy = Energy.grid(unary, features=features, kernel=grid[2]["kernel"])
    partition = Partition.grid(unary.shape, tuple(data.draw(st.integers(1, min(3, n))) for n in unary.shape))
    for k in range(len(partition.blocks)):
        assert energy.share(partition, k).energy.pairs.beta == energy.pairs.beta
    total, number = 0.0, 0
    for first, second, _ in zip(*energy.pairs.edges(), strict=True):
        change = features.reshape(-1, 2)[first] - features.reshape(-1, 2)[second]
        total, number = total + float(change @ change), number + 1
    assert energy.pairs.beta == close(number / (2 * total) if total else 0.0, rel=1e-9)


@given(graphs(most=30), st.integers(1, 6))
def test_graph_blocks_are_balanced_and_cover(energy, number):
    number = min(number, energy.unary.size)
    partition = Partition.graph(energy.pairs, number)
    sizes = [len(block.where) for block in partition.blocks]
    assert sum(sizes) == energy.unary.size
    assert max(sizes) - min(sizes) <= 1
