"""Message passing of several labels beside brute force, the binary solver, and itself in other words."""

import threading
import time
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dope import Energy, InputError, LabelEnergy, LabelTrwS, TrwS, _core
from problems import rng_of
from profiles import examples

close = pytest.approx
PATIENT = LabelTrwS(rounds=3000, tolerance=1e-7)
SHAPES = [(5,), (2, 3), (2, 1, 3), (2, 2, 1), (6,)]


def optimum(energy):
    """The least energy of all labellings, without any rounding, and one that has it."""
    every = product(range(energy.label_count), repeat=int(np.prod(energy.shape)))
    return min(energy.exactly(np.reshape(x, energy.shape)) for x in every)


@st.composite
def metrics(draw, labels):
    rng = rng_of(draw)
    table = np.round(rng.normal(1, 2, (labels, labels)), draw(st.sampled_from([0, 3])))
    table = np.triu(table, 1) + np.triu(table, 1).T
    limit = draw(st.sampled_from([0.5, 1, 2, 3.5, 1e9]))
    return draw(st.sampled_from(["potts", "linear", "quadratic", ("linear", limit), ("quadratic", limit), table]))


@st.composite
def grids(draw):
    rng, shape, labels = rng_of(draw), draw(st.sampled_from(SHAPES)), draw(st.integers(2, 3))
    costs = rng.normal(0, 2, (*shape, labels))
    if draw(st.booleans()):
        costs = np.rint(2 * costs).astype(draw(st.sampled_from([np.int16, np.int32, np.int64, np.float32])))
    kernel = draw(st.sampled_from([3, 5, "faces"])) if len(shape) > 1 else 3
    kernel = 3 if kernel == "faces" else kernel
    mask = rng.random(shape) < 0.8 if draw(st.booleans()) else None
    if mask is not None:
        mask.flat[0] = True
    given_ = {"features": rng.random(shape)} if draw(st.booleans()) else {}
    lam = draw(st.sampled_from([0.5, 1.0, 4.0]))
    return LabelEnergy.grid(costs, lam=lam, kernel=kernel, mask=mask, metric=draw(metrics(labels)), **given_)


@st.composite
def graphs(draw, tree=False, signed=True):
    rng, n, labels = rng_of(draw), draw(st.integers(2, 5)), draw(st.integers(2, 4))
    name = rng.permutation(n)
    edges = [(name[i], name[rng.integers(i)]) for i in range(1, n)]
    if not tree:
        edges += [tuple(rng.choice(n, 2, replace=False)) for _ in range(n)]
    costs = rng.normal(0, 2, (n, labels))
    if draw(st.booleans()):
        tables = rng.normal(0, 2, (len(edges), labels, labels))
        return LabelEnergy.from_tables(costs, edges, tables)
    weights = rng.normal(0, 2, len(edges))
    return LabelEnergy.graph(costs, edges, weights if signed else abs(weights), draw(metrics(labels)))


@given(st.one_of(grids(), graphs()), st.sampled_from([1, 3, 100]))
@examples(60)
def test_the_bound_is_below_the_minimum_and_the_labels_above(energy, rounds):
    answer, best = LabelTrwS(rounds=rounds).minimize(energy), optimum(energy)
    assert answer.bound <= best
    assert answer.energy == energy(answer.labels) >= float(best)
    assert answer.rounding_error <= 1e-10 * (1 + np.abs(np.nan_to_num(energy.costs)).sum() + 1e3)
    assert answer.labels.shape == energy.shape and answer.labels.dtype == energy.label_type
    if answer.exact:
        assert answer.energy == float(best)


@given(graphs(tree=True))
@examples(40)
def test_a_tree_is_minimized(energy):
    answer, best = PATIENT.minimize(energy), float(optimum(energy))
    assert answer.bound == close(best, rel=1e-6, abs=1e-6)
    assert answer.energy == close(best, rel=1e-9, abs=1e-9)


@given(st.data())
@examples(40)
def test_rounding_is_no_worse_than_admitted(data):
    rng, n, labels = rng_of(data.draw), data.draw(st.integers(2, 4)), 3
    edges = [(i, j) for i in range(n) for j in range(i)]
    costs = 10.0 ** rng.integers(-9, 9, (n, labels)) * rng.normal(size=(n, labels))
    weights = 10.0 ** rng.integers(-9, 9, len(edges)) * rng.normal(size=len(edges))
    energy = LabelEnergy.graph(costs, edges, weights, data.draw(metrics(labels)))
    answer = LabelTrwS(rounds=data.draw(st.sampled_from([1, 10, 100])), tolerance=0.0).minimize(energy)
    assert Fraction(answer.bound) <= optimum(energy)


@given(st.one_of(grids(), graphs(signed=False)))
@examples(30)
def test_quick_messages_are_those_of_the_table(energy):
    if energy.metric is None:
        return
    solver = LabelTrwS(rounds=20, tolerance=0.0)
    table = LabelEnergy(energy.costs, energy.pairs, type(energy.metric)("table", table=energy._matrix))
    one, other = (solver.minimize(e) for e in (energy, table))
    assert one.bound == close(other.bound, rel=1e-9, abs=1e-9)


@given(st.data())
@examples(30)
def test_long_rows_of_labels(data):
    """Wide quadratics take the lower envelope; on a chain one round is enough."""
    rng, n, labels = rng_of(data.draw), 8, data.draw(st.sampled_from([17, 60, 130]))
    costs = rng.integers(0, 4000, (n, labels))
    limit = data.draw(st.sampled_from([9, 400, 2401, 3000, 1e12]))
    kind = data.draw(st.sampled_from(["linear", "quadratic"]))
    energy = LabelEnergy.grid(costs, weights=[np.full(n, 3.0)], kernel=[[1]], metric=(kind, limit))
    best, matrix = costs[0].astype(float), energy.metric.matrix(labels)
    for row in costs[1:]:
        best = (best[:, None] + 3.0 * matrix).min(0) + row
    answer = LabelTrwS(rounds=2).minimize(energy)
    assert answer.exact and answer.energy == best.min()


@given(st.data())
@examples(30)
def test_two_labels_have_the_bound_of_the_binary_solver(data):
    rng, shape = rng_of(data.draw), (5, 6)
    unary = rng.normal(0, 2, shape)
    weights = [rng.normal(0.5, 1, shape), rng.normal(0.5, 1, shape)]
    binary = Energy.grid(unary, kernel=[[1, 0], [0, 1]], weights=weights)
    several = LabelEnergy.grid(np.stack([np.zeros(shape), unary], axis=-1), kernel=[[1, 0], [0, 1]], weights=weights)
    one = TrwS(rounds=2000, tolerance=1e-6).prepare(binary).minimize(unary)
    other = LabelTrwS(rounds=2000, tolerance=1e-6).minimize(several)
    assert other.bound == close(one.bound, rel=2e-3, abs=2e-3)


@given(st.data())
@examples(20)
def test_permuted_labels_permute_the_answer(data):
    rng = rng_of(data.draw)
    costs, order = rng.normal(0, 2, (6, 7, 4)), rng.permutation(4)
    one, other = (LabelTrwS(rounds=20).minimize(LabelEnergy.grid(c, lam=2.0)) for c in (costs, costs[..., order]))
    assert other.bound == close(one.bound, rel=1e-12)
    np.testing.assert_array_equal(order[other.labels], one.labels)


@given(grids())
@examples(20)
def test_a_grid_has_the_bound_of_its_edge_list(energy):
    if energy.pairs.inside is not None:
        return
    first, second, weights = energy.pairs.edges()
    listed = LabelEnergy.graph(
        energy.costs.reshape(-1, energy.label_count), np.stack([first, second], axis=1), weights,
        energy.metric if energy.metric.table is None else energy.metric.table,
    )  # fmt: skip
    one, other = (LabelTrwS(rounds=20, tolerance=0.0).minimize(e) for e in (energy, listed))
    assert one.bound == close(other.bound, rel=1e-9, abs=1e-9)


@given(st.sampled_from([(40, 30), (9, 8, 7), (200,)]), st.sampled_from([3, 5]), st.data())
@examples(15)
def test_threads_and_repetition_change_no_bit(shape, kernel, data):
    rng = rng_of(data.draw)
    energy = LabelEnergy.grid(rng.normal(size=(*shape, 5)), kernel=kernel, lam=1.0, metric=("linear", 2))
    answers = [LabelTrwS(rounds=12).minimize(energy, threads=t) for t in (1, 1, 2, 3)]
    for other in answers[1:]:
        np.testing.assert_array_equal(other.labels, answers[0].labels)
        assert (other.bound, other.energy, other.rounds) == (answers[0].bound, answers[0].energy, answers[0].rounds)


def test_the_constant_and_a_start_count():
    energy = LabelEnergy.graph([[0.0, 1.0], [1.0, 0.0]], [[0, 1]], [0.25])
    shifted = LabelEnergy(energy.costs, energy.pairs, energy.metric, constant=10.5)
    answer = LabelTrwS().minimize(shifted, start=[0, 1])
    assert (answer.energy, answer.bound, answer.exact) == (10.75, 10.75, True)


def test_costs_outside_a_mask_may_be_anything():
    costs, mask = np.full((4, 5, 3), np.nan), np.zeros((4, 5), dtype=bool)
    costs[1:3, 1:4], mask[1:3, 1:4] = np.arange(18).reshape(2, 3, 3), True
    whole = LabelTrwS().minimize(LabelEnergy.grid(costs, mask=mask))
    part = LabelTrwS().minimize(LabelEnergy.grid(costs[1:3, 1:4]))
    assert whole.exact and part.exact and whole.energy == part.energy


def test_steps_tell_how_far_it_is():
    rng = np.random.default_rng(5)
    weights = [rng.normal(size=(20, 20)), rng.normal(size=(20, 20))]  # of both signs, so that a gap stays
    energy = LabelEnergy.grid(rng.normal(size=(20, 20, 6)), kernel=[[1, 0], [0, 1]], weights=weights)
    messages = LabelTrwS(rounds=35, tolerance=0.0).prepare(energy)
    steps = list(messages.steps())
    assert [step.rounds for step in steps] == [10, 20, 30, 35][: len(steps)]
    assert [step.bound for step in steps] == sorted(step.bound for step in steps)
    assert messages.answer().energy == close(steps[-1].energy)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rounds": 0}, ["rounds", "0", "1 or more"]),
        ({"tolerance": -0.1}, ["tolerance", "-0.1"]),
        ({"tolerance": float("nan")}, ["tolerance", "nan"]),
    ],
)
def test_settings_are_checked(settings, words):
    with pytest.raises(InputError) as error:
        LabelTrwS(**settings)
    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize("threads", [1, 2])
def test_long_work_can_be_cancelled(threads):
    rng = np.random.default_rng(0)
    energy = LabelEnergy.grid(rng.normal(size=(200, 200, 8)), kernel=5, lam=1.0)
    cancel, raised = _core.Cancel(), []

    def work():
        with cancel:
            try:
                LabelTrwS(rounds=10**6, tolerance=0.0).minimize(energy, threads=threads)
            except BaseException as error:
                raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    time.sleep(0.3)
    assert thread.is_alive()
    cancel.cancel()
    thread.join(20)
    assert not thread.is_alive()
    assert isinstance(raised[0], _core.Cancelled)
