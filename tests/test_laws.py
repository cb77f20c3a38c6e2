"""The laws everything rests on, on random grids of one to three dimensions and on graphs."""

import pickle
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dope
from dope import (
    Admm,
    Anneal,
    Brute,
    Energy,
    Exact,
    Executor,
    Icm,
    LsaAux,
    LsaTr,
    MaxFlow,
    MeanField,
    Partition,
    Qpbo,
    Serial,
    Tabu,
    Threads,
    TrwS,
)
from dope.rounding import rounded_down
from oracles import DenseBlocks, brute_force, dense_energy, edge_weight_matrix, grid_weight_matrix
from problems import energies, graphs, grids, members, partitions, rng_of

SOLVERS = [
    MaxFlow(check=True),
    MaxFlow(bits=16),
    MaxFlow(bits=32),
    MaxFlow(bits=64),
    Icm(),
    MeanField(),
    TrwS(),
    Qpbo(),
    Qpbo(probe=True, improve=2),
    Brute(),
    Tabu(restarts=0),
    Anneal(sweeps=20),
    LsaTr(),
    LsaAux(),
]
# One block of ADMM asks the solver once, and takes its answer.
ALONE = {"blocks": 1, "method": Admm()}
EXACT = [MaxFlow(check=True), MaxFlow(bits=32), MaxFlow(bits=64), Qpbo()]
EXECUTORS: list[Executor] = [Serial(), Threads(1), Threads(2), Threads(5), Threads()]
METHODS = [
    Admm(),
    Admm.paper(),
    Admm.paper(mu0=500.0, rounds=10),
    Admm(penalty="all", patience=None),
    Exact(),
    Exact(rounds=1, merge=False),
]


def with_solvers(*solvers):
    """Every method with every solver that it takes."""
    pairs = [(m, s) for m in METHODS for s in solvers if isinstance(s, MaxFlow) or not isinstance(m, Exact)]
    return pytest.mark.parametrize(("method", "solver"), pairs, ids=str)


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


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
@given(energy=energies(most=10))
def test_no_solver_beats_brute_force_and_exact_ones_reach_it(solver, energy):
    best, smallest, _ = brute_force(energy.unary, edge_weight_matrix(energy))
    result = dope.minimize(energy, solver=solver, executor=Serial(), **ALONE)
    slack = result.rounding_error + 1e-9 * (1 + abs(best))
    assert result.energy == close(energy(result.labels), rel=1e-12, abs=1e-12)
    assert result.energy >= best - slack
    if result.exact:
        assert result.energy <= best + slack
        assert (
            rounded_down(energy.exactly(result.labels) - Fraction(result.rounding_error))
            <= result.lower_bound
            <= result.energy
        )
        assert result.lower_bound <= best + 1e-9 * (1 + abs(best))
    if isinstance(solver, MaxFlow) and result.exact and result.rounding_error == 0:
        np.testing.assert_array_equal(result.labels.ravel(), smallest)


@pytest.mark.parametrize("solver", [Icm(), MeanField(), Tabu(restarts=0), Anneal(sweeps=20)], ids=str)
@given(energy=energies(most=10, signed=True))
def test_heuristics_never_beat_brute_force_on_any_signs(solver, energy):
    best, _, _ = brute_force(energy.unary, edge_weight_matrix(energy))
    result = dope.minimize(energy, solver=solver, **ALONE)
    assert result.energy >= best - 1e-9 * (1 + abs(best))
    assert not result.exact
    assert result.lower_bound is None


@given(energies(most=10, signed=True))
def test_icm_ends_where_no_single_flip_pays(energy):
    labels = dope.minimize(energy, solver=Icm(), **ALONE).labels
    for site in np.ndindex(*energy.shape):
        flipped = labels.copy()
        flipped[site] ^= True
        assert energy(flipped) >= energy(labels) - 1e-9 * (1 + abs(energy(labels)))


@pytest.mark.parametrize("solver", EXACT, ids=str)
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


@pytest.mark.parametrize("solver", EXACT, ids=str)
@given(energy=energies(most=10, integers=True))
def test_swapping_the_labels_turns_the_smallest_minimiser_into_the_largest(solver, energy):
    _, _, largest = brute_force(energy.unary, edge_weight_matrix(energy))
    swapped = dope.minimize(Energy(-energy.unary, energy.pairs), solver=solver, **ALONE)
    np.testing.assert_array_equal(~swapped.labels.ravel(), largest)


@pytest.mark.parametrize("solver", EXACT, ids=str)
@given(grid=grids(), power=st.sampled_from([-3, 2, 7]))
def test_scaling_costs_by_a_power_of_two_changes_nothing(solver, grid, power):
    _, unary, arguments = grid
    plain = dope.minimize(Energy.grid(unary, **arguments), solver=solver, **ALONE)
    factor = 2.0**power
    scaled = Energy.grid(unary * factor, **{**arguments, "lam": arguments["lam"] * factor})
    larger = dope.minimize(scaled, solver=solver, **ALONE)
    np.testing.assert_array_equal(larger.labels, plain.labels)
    assert larger.energy == plain.energy * factor


@pytest.mark.parametrize("method", [None, Admm()], ids=str)
@given(energy=energies(most=12), data=st.data())
def test_bound_below_optimum_below_energy_for_any_blocks(method, energy, data):
    partition = data.draw(partitions(energy))
    best, _, _ = brute_force(energy.unary, edge_weight_matrix(energy))
    result = dope.minimize(energy, blocks=partition, method=method, executor=Serial())
    slack = result.rounding_error + 1e-9 * (1 + abs(best))
    assert result.lower_bound <= best + slack
    assert best <= result.energy + slack
    assert result.gap == result.energy - result.lower_bound


@with_solvers(*SOLVERS)
@given(energy=energies(most=12))
@settings(max_examples=10)
def test_one_block_gives_exactly_the_solvers_answer(solver, method, energy):
    alone = solver.prepare(energy).minimize(energy.unary).labels
    result = dope.minimize(energy, blocks=1, method=method, solver=solver)
    np.testing.assert_array_equal(result.labels, alone)
    assert result.stopped == ("exact" if isinstance(method, Exact) else "agreed")
    assert len(result.trace) == 1


@with_solvers(MaxFlow(), Icm())
@given(energy=energies(most=24), data=st.data())
@settings(max_examples=8)
def test_every_executor_gives_bit_for_bit_what_serial_gives(solver, method, energy, data):
    partition = data.draw(partitions(energy, overlaps=not isinstance(method, Exact)))
    results = [
        dope.minimize(energy, blocks=partition, method=method, solver=solver, executor=executor)
        for executor in EXECUTORS
    ]
    serial = results[0]
    for other in results[1:]:
        np.testing.assert_array_equal(other.labels, serial.labels)
        assert other.energy == serial.energy
        assert [replace(step, seconds=0.0) for step in other.trace] == [
            replace(step, seconds=0.0) for step in serial.trace
        ]


@dataclass(frozen=True)
class SolveBlock:
    """Opens to a worker that answers with the labels of its block alone."""

    energy: Energy
    partition: Partition
    k: int
    bits: int | None

    def open(self):
        share = self.energy.share(self.partition, self.k).energy
        minimizer = MaxFlow(self.bits).prepare(share)
        return lambda factor: minimizer.minimize(factor * share.unary).labels


@given(energy=energies(most=24, integers=True), data=st.data())
@settings(max_examples=30)
def test_whole_costs_have_the_same_labels_with_any_executor_and_width(energy, data):
    partition = data.draw(partitions(energy)).alone()
    number = len(partition.blocks)
    found = []
    for executor in EXECUTORS:
        for bits in (None, 16, 32, 64):
            with executor.gather([SolveBlock(energy, partition, k, bits) for k in range(number)]) as crew:
                found.append([crew.ask([factor] * number) for factor in (1.0, -2.0, 1.0)])
    for rounds in found:
        for labels, expected in zip(rounds, found[0], strict=True):
            for one, other in zip(labels, expected, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("recipe", [*SOLVERS, *EXECUTORS, *METHODS], ids=str)
def test_every_recipe_survives_pickling(recipe):
    assert pickle.loads(pickle.dumps(recipe)) == recipe


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
