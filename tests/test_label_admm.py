"""ADMM of several labels: its equations, its relation to that of two, brute force, and what is refused."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import (
    Admm,
    Energy,
    InputError,
    LabelAdmm,
    LabelAdmmStep,
    LabelEnergy,
    LabelTrwS,
    Partition,
    Problem,
    Serial,
    Threads,
)
from dope.methods import label_admm, label_consensus
from dope.methods.label_admm_block import BlockRecipe, BlockSolving, Fix, one_hot
from dope.methods.label_consensus import on_simplex
from label_problems import graphs, grids, minimizers

METRICS = ["potts", "linear", ("linear", 2), ("quadratic", 3)]
OF_METRIC = ["potts", "linear", ("linear", 2)]


def picture(shape=(16, 15), labels=4, noise=1.0, seed=0, **more):
    """Costs of a few diagonal stripes, seen through noise."""
    rng = np.random.default_rng(seed)
    places = np.indices(shape).sum(axis=0) * labels // (sum(shape) - 1)
    costs = rng.normal(0, noise, (*shape, labels)) + 2.0 * (places[..., None] != np.arange(labels))
    return LabelEnergy.grid(costs, **{"lam": 0.7, **more})


def on_graph(energy):
    """The same energy as one of a graph."""
    first, second, weights = energy.pairs.edges()
    costs = energy.costs.reshape(-1, energy.label_count)
    return LabelEnergy.graph(costs, np.stack([first, second], axis=1), weights, energy.metric)


def partitions_of(energy, blocks=4):
    if energy.pairs.__class__.__name__ == "GraphPairs":
        return [Partition.graph(energy.pairs, blocks, overlap=overlap) for overlap in (0, 3)]
    return [Partition.grid(energy.shape, blocks, overlap=overlap) for overlap in (0, 0.4)]


def nothing_solved(energy, partition):
    problem = Problem(energy, partition, dope.MaxFlow(), Serial())
    return BlockSolving(problem, "expansion", by_moves=True)


# The equations.


@pytest.mark.parametrize("metric", METRICS, ids=str)
@pytest.mark.parametrize("graph", [False, True], ids=["grid", "graph"])
def test_shares_and_couplings_add_up_to_the_energy(metric, graph):
    rng = np.random.default_rng(1)
    energy = picture((7, 6), features=rng.random((7, 6)), kernel=5, metric=metric)
    energy = on_graph(energy) if graph else energy
    labels = rng.integers(0, 4, energy.shape)
    for partition in partitions_of(energy):
        total = 0.0
        for k, block in enumerate(partition.blocks):
            recipe = BlockRecipe(energy, partition, k, nothing_solved(energy, partition))
            opened, region = recipe.open(), labels[recipe.coupling.region].ravel()
            everywhere = np.arange(opened.share.pairs.sites)
            felt = opened.felt(one_hot(region, 4), np.arange(len(region)), everywhere)
            mine = labels[block.where]
            total += opened.share(mine) + felt[everywhere, mine.ravel()].sum()
        assert total == pytest.approx(energy(labels), rel=1e-12)


@given(st.integers(0, 999), st.integers(2, 6))
def test_no_point_of_the_simplex_is_nearer_than_the_projection(seed, labels):
    rng = np.random.default_rng(seed)
    y = rng.normal(0, 2, (5, labels))
    found = on_simplex(y)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    assert found.min() >= 0.0
    # That is so if no direction to a corner comes nearer.
    slope = ((found - y)[:, None, :] * (np.eye(labels) - found[:, None, :])).sum(axis=-1)
    assert slope.min() >= -1e-9
    np.testing.assert_allclose(on_simplex(found), found, atol=1e-15)


@pytest.mark.parametrize("graph", [False, True], ids=["grid", "graph"])
@pytest.mark.parametrize("overlap", [0, 0.4])
@pytest.mark.parametrize(("penalty", "mu0"), [("coupled", 1.0), ("all", 0.4)])
def test_without_the_simplex_two_labels_are_those_of_admm(graph, overlap, penalty, mu0, monkeypatch):
    """Round by round: the same energies, and residuals but for counting both labels."""
    monkeypatch.setattr(label_consensus, "on_simplex", lambda y: y)
    rng = np.random.default_rng(3)
    energy = picture((12, 11), 2, noise=2.0, features=rng.random((12, 11)))
    energy = on_graph(energy) if graph else energy
    costs, pairs = energy.costs, energy.pairs
    two = Energy(costs[..., 1] - costs[..., 0], pairs, float(costs[..., 0].sum()))
    same = {"rounds": 6, "patience": None, "penalty": penalty, "sweeps": 0, "bound": 0}
    settings = {"blocks": 4, "overlap": overlap, "solver": dope.MaxFlow(bits=64)}
    expected = dope.minimize(two, method=Admm(mu0=mu0, **same), **settings)
    result = dope.minimize(energy, method=LabelAdmm(mu0=mu0 / 2, **same), **settings)
    rounds = result.trace[:-1]
    assert len(rounds) == len(expected.trace) > 2
    np.testing.assert_allclose([s.energy for s in rounds], [s.energy for s in expected.trace], rtol=1e-9)
    np.testing.assert_allclose(
        [s.residual / np.sqrt(2) for s in rounds], [s.residual for s in expected.trace], rtol=1e-6, atol=1e-9
    )
    assert [s.disagreeing for s in rounds] == [s.disagreeing for s in expected.trace]


@pytest.mark.parametrize("metric", METRICS, ids=str)
@pytest.mark.parametrize("graph", [False, True], ids=["grid", "graph"])
def test_what_a_block_pays_beside_fixed_labels_is_what_the_whole_pays(metric, graph, monkeypatch):
    rng = np.random.default_rng(2)
    energy = picture((6, 5), kernel=5, features=rng.random((6, 5)), metric=metric)
    energy = on_graph(energy) if graph else energy
    around, seen = rng.integers(0, 4, energy.shape).astype(np.uint8), []

    def kept(_, fixed, start):
        seen.append(fixed)
        return start

    monkeypatch.setattr(BlockSolving, "lowered", kept)
    for partition in partitions_of(energy):
        for k, block in enumerate(partition.blocks):
            recipe = BlockRecipe(energy, partition.alone(), k, nothing_solved(energy, partition))
            before = recipe.open()(Fix(np.ascontiguousarray(around[recipe.coupling.region])))
            np.testing.assert_array_equal(before, around[block.where])
            other = around.copy()
            other[block.where] = after = rng.integers(0, 4, before.shape)
            gained = seen[-1](after) - seen[-1](before)
            assert gained == pytest.approx(energy(other) - energy(around), abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_two_labels_end_where_admm_ends(seed):
    energy = picture((12, 11), 2, noise=1.2, seed=seed)
    two = Energy(energy.costs[..., 1] - energy.costs[..., 0], energy.pairs, float(energy.costs[..., 0].sum()))
    least = dope.minimize(two).energy
    for method, problem in ((Admm(), two), (LabelAdmm(), energy)):
        assert dope.minimize(problem, method=method, blocks=4).energy == pytest.approx(least, rel=1e-9)


# What it finds.


@pytest.mark.parametrize("block", ["moves", "messages", None])
@given(energy=st.one_of(grids(shapes=[(5,), (2, 3), (2, 2, 2)], most_labels=3), graphs()), data=st.data())
def test_no_labels_are_below_the_minimum_and_the_bound_is_not_above(block, energy, data):
    blocks = data.draw(st.integers(1, min(3, max(energy.shape))))
    if len(energy.shape) > 1:
        blocks = (blocks if energy.shape[0] == max(energy.shape) else 1,) + (1,) * (len(energy.shape) - 1)
        blocks = tuple(min(k, n) for k, n in zip(blocks, energy.shape, strict=True))
    overlap = data.draw(st.sampled_from([0.0, 0.5]))
    result = dope.minimize(energy, method=LabelAdmm(rounds=4, block=block), blocks=blocks, overlap=overlap)
    least, _ = minimizers(energy)
    room = 1e-7 * (1 + abs(least))
    assert result.energy == energy(result.labels) >= least - room
    assert result.lower_bound is None or result.lower_bound <= least + room
    assert not result.exact or result.energy <= least + room
    inside = getattr(energy.pairs, "inside", None)
    assert inside is None or not result.labels[~inside].any()


@pytest.mark.parametrize("metric", METRICS, ids=str)
@pytest.mark.parametrize("overlap", [0, 0.4])
def test_sites_that_know_their_label_get_it(metric, overlap):
    energy = picture(noise=0.1, lam=0.05, metric=metric)
    result = dope.minimize(energy, method=LabelAdmm(), blocks=4, overlap=overlap)
    assert result.energy == pytest.approx(dope.minimize(energy).energy, rel=1e-9)
    np.testing.assert_array_equal(result.labels, np.argmin(energy.costs, axis=-1))


@pytest.mark.parametrize("metric", OF_METRIC, ids=str)
@pytest.mark.parametrize("graph", [False, True], ids=["grid", "graph"])
def test_blocks_come_near_to_what_the_whole_gives(metric, graph):
    energy = picture(metric=metric)
    energy = on_graph(energy) if graph else energy
    alone = LabelAdmm(rounds=1, sweeps=0, bound=0)
    for partition in partitions_of(energy):
        result = dope.minimize(energy, method=LabelAdmm(), blocks=partition)
        assert result.lower_bound <= result.energy <= 1.01 * result.lower_bound
        assert result.energy <= dope.minimize(energy, method=alone, blocks=partition).energy


@pytest.mark.parametrize("metric", OF_METRIC, ids=str)
def test_one_block_gives_what_moves_give(metric):
    energy = picture(metric=metric)
    result = dope.minimize(energy, method=LabelAdmm(bound=0), blocks=1)
    expected = dope.minimize(energy, method=dope.Moves(bound=0), start=label_admm.first_labels(energy))
    np.testing.assert_array_equal(result.labels, expected.labels)
    assert result.stopped == "agreed" and len(result.trace) == 2


def test_one_block_gives_what_messages_give():
    energy, solver = picture(metric=("quadratic", 3), noise=2.0), LabelTrwS(rounds=20)
    result = dope.minimize(energy, method=LabelAdmm(block="messages", bound=0), solver=solver, blocks=1)
    np.testing.assert_array_equal(result.labels, solver.minimize(energy).labels)


@pytest.mark.parametrize("block", ["moves", "messages"])
def test_workers_change_no_bit(block):
    energy = picture((20, 21), metric=("linear", 2))
    found = [
        dope.minimize(energy, method=LabelAdmm(block=block), blocks=(3, 2), overlap=0.2, executor=executor)
        for executor in (Serial(), Threads(2), Threads(5))
    ]
    traces = [[(s.energy, s.residual, s.mu, s.lower_bound, s.disagreeing) for s in one.trace] for one in found]
    assert traces[0] == traces[1] == traces[2]
    for one in found[1:]:
        np.testing.assert_array_equal(one.labels, found[0].labels)


@pytest.mark.parametrize("block", ["moves", "messages"])
def test_labels_may_have_other_numbers_where_the_minimum_is_found(block):
    energy, order = picture(noise=0.3), np.array([2, 0, 3, 1])
    other = picture(noise=0.3)
    other = LabelEnergy(energy.costs[..., order], energy.pairs, energy.metric)
    one, two = (dope.minimize(e, method=LabelAdmm(block=block), blocks=4) for e in (energy, other))
    assert one.energy == pytest.approx(one.lower_bound, rel=1e-9)
    np.testing.assert_array_equal(order[two.labels], one.labels)


def test_a_label_solver_of_anybody_solves_blocks():
    asked = []

    class First:
        takes_labels = True

        def prepare(self, energy, *, threads=1):
            asked.append(energy.shape)
            return LabelTrwS(rounds=10).prepare(energy, threads=threads)

    result = dope.minimize(picture(), method=LabelAdmm(block="messages", rounds=1), solver=First(), blocks=4)
    assert len(asked) > 4 and result.lower_bound <= result.energy


def test_sweeps_never_raise_the_energy_and_the_best_labels_are_given():
    for energy in (picture(noise=2.5), on_graph(picture(noise=2.5))):
        result = dope.minimize(energy, method=LabelAdmm(sweeps=3, patience=None), blocks=4)
        assert all(isinstance(step, LabelAdmmStep) and step.labels is None for step in result.trace)
        swept = [step.energy for step in result.trace if step.sweep]
        rounds = [step.energy for step in result.trace if not step.sweep]
        assert len(swept) == 4 and sorted(swept, reverse=True) == swept  # the last word repeats the last sweep
        assert swept[0] < min(rounds)  # of this noise
        assert result.energy == pytest.approx(swept[-1], rel=1e-12)


def test_a_mask_leaves_costs_unread():
    rng = np.random.default_rng(0)
    mask = rng.random((16, 15)) < 0.8
    costs = picture().costs.copy()
    costs[~mask] = np.nan
    result = dope.minimize(LabelEnergy.grid(costs, lam=0.7, mask=mask), method=LabelAdmm(), blocks=4, overlap=0.2)
    costs[~mask] = 7.0
    again = dope.minimize(LabelEnergy.grid(costs, lam=0.7, mask=mask), method=LabelAdmm(), blocks=4, overlap=0.2)
    assert not result.labels[~mask].any() and result.energy <= 1.01 * result.lower_bound
    np.testing.assert_array_equal(result.labels, again.labels)


def test_blocks_bound_the_energy_where_messages_over_everything_do_not_fit(monkeypatch):
    energy = picture((8, 8))
    whole = dope.minimize(energy, method=LabelAdmm(), blocks=4, overlap=0.3)
    monkeypatch.setattr(label_admm, "message_bytes", lambda _: 1 << 60)
    parts = dope.minimize(energy, method=LabelAdmm(), blocks=4, overlap=0.3)
    alone = sum(
        LabelTrwS(rounds=30).minimize(energy.at(block.where)).bound
        for block in Partition.grid(energy.shape, 4).blocks
    )  # fmt: skip
    assert parts.lower_bound == pytest.approx(alone, rel=1e-9) and parts.lower_bound < whole.lower_bound
    repelling = LabelEnergy.grid(energy.costs, metric=1.0 - 2.0 * (np.ones((4, 4)) - np.eye(4)) - np.eye(4))
    assert dope.minimize(repelling, method=LabelAdmm(rounds=1), blocks=4).lower_bound is None


# A run.


def test_an_earlier_result_is_a_start():
    energy = picture(noise=2.0)
    best = dope.minimize(energy)
    again = dope.minimize(energy, method=LabelAdmm(sweeps=0), start=best, blocks=4)
    assert again.energy <= best.energy


def test_a_watcher_ends_it_with_the_best_labels():
    energy = picture(noise=2.0)
    steps = []

    def watch(step):
        steps.append(step)
        return len(steps) == 3

    result = dope.minimize(energy, method=LabelAdmm(), blocks=4, watch=watch)
    assert result.stopped == "cancelled" and len(steps) == 3
    assert result.energy == energy(result.labels) == pytest.approx(min(s.energy for s in steps), rel=1e-12)


def test_a_cancelled_run_has_labels():
    run = dope.start(picture((120, 120), 6), method=LabelAdmm(), blocks=16)
    run.cancel()
    result = run.result(timeout=60)
    assert result.labels.shape == (120, 120) and result.labels.max() < 6


def test_what_it_cannot_do_is_refused_in_a_line():
    settings = [
        {"mu0": 0}, {"mu0": "high"}, {"mu_fact": -1}, {"rounds": 0}, {"rounds": True}, {"eps": float("nan")},
        {"patience": 0}, {"penalty": "none"}, {"sweeps": -1}, {"bound": 1.5}, {"block": "fast"},
    ]  # fmt: skip
    for one in settings:
        with pytest.raises(InputError, match=f"LabelAdmm: {next(iter(one))}") as caught:
            LabelAdmm(**one)
        assert "\n" not in str(caught.value)
    tables = LabelEnergy.from_tables(np.zeros((3, 2)), [[0, 1]], np.zeros((1, 2, 2)))
    with pytest.raises(InputError, match="a table of its own"):
        dope.minimize(tables, method=LabelAdmm())
    with pytest.raises(InputError, match="for several labels"):
        dope.minimize(Energy.grid(np.zeros((3, 3))), method=LabelAdmm())
    with pytest.raises(InputError, match="without overlap"):
        dope.minimize(picture(), method=dope.Moves(), blocks=4, overlap=0.2)


def test_other_processes_are_refused():
    class Elsewhere:
        workers, elsewhere = 2, True

        def gather(self, _):
            raise AssertionError("nothing is to be sent")

    with pytest.raises(InputError, match=r"LabelAdmm\(\) runs in this process"):
        dope.minimize(picture(), method=LabelAdmm(), executor=Elsewhere(), blocks=4)


def test_it_survives_pickling():
    method = LabelAdmm(rounds=3, block="messages")
    assert pickle.loads(pickle.dumps(method)) == method
