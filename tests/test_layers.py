"""Ordered labels as layers: one cut gives what trying all labellings gives."""

import itertools
import threading
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dope
from dope import InputError, LabelEnergy, Layers, Moves, Serial, Threads
from dope.layers import LayeredEnergy, LayerNumbers
from dope.methods.layers import counted
from dope.metric import Metric
from label_problems import all_labels, energies_of, graphs, grids, minimizers
from opengm_files import TABLE, opengm

JUMPS = {
    "bent": lambda d: np.maximum(d, 3 * d - 4),
    "nothing near": lambda d: np.maximum(0, d - 1),
    "tenths": lambda d: 0.1 * d,
    "steep": lambda d: 0.3 * d**3,
}


def tables(label_count):
    apart = np.abs(np.subtract.outer(np.arange(label_count), np.arange(label_count)))
    return [jumps(apart).astype(float) for jumps in JUMPS.values()]


@st.composite
def convex(draw, most_labels=4):
    """Energies whose metric is convex, of grids and graphs."""
    energy = draw(st.one_of(grids(["linear", "quadratic"], most_labels=most_labels), graphs(["linear", "quadratic"])))
    if draw(st.booleans()):
        table = draw(st.sampled_from(tables(energy.label_count)))
        energy = replace(energy, metric=Metric.of(table, energy.label_count))
    return energy


def tolerance(value):
    """Of plain sums."""
    return 1e-9 * (1 + abs(value))


@settings(max_examples=150, deadline=None)
@given(convex())
def test_a_cut_of_layers_is_the_best_of_all_labellings(energy):
    least, best = minimizers(energy)
    result = dope.minimize(energy, method=Layers())
    assert result.exact and result.proved == 1.0 and result.stopped == "exact"
    assert result.energy == energy(result.labels) <= least + result.rounding_error + tolerance(least)
    assert result.lower_bound <= least + tolerance(least)
    assert result.gap <= result.rounding_error + tolerance(least)
    if not result.rounding_error:
        assert result.lower_bound == result.energy
        # The smallest of them: of two minimizers the smaller label at every site is one, too.
        np.testing.assert_array_equal(result.labels, best.min(axis=0))


@settings(max_examples=60, deadline=None)
@given(convex(most_labels=3))
def test_the_energy_of_layers_is_that_of_labels(energy):
    numbers = LayerNumbers.of(energy)
    layered = LayeredEnergy.of(energy, numbers)
    labellings = all_labels(energy)[:40]
    least, _ = minimizers(energy)
    for labels, value in zip(labellings, energies_of(energy, labellings), strict=True):
        columns = labels[..., None] > np.arange(energy.label_count - 1)
        found = layered.energy.exactly(columns.reshape(layered.energy.shape)) + layered.bottom
        # Costs too great for any minimizer are counted as less.
        assert found <= energy.exactly(labels) + numbers.slack
        assert found >= Fraction(least) - Fraction(tolerance(least)) - numbers.slack
        if value <= least + numbers.cap - energy.pairs.strength * energy.metric.matrix(energy.label_count).max():
            assert abs(found - energy.exactly(labels)) <= numbers.slack
        np.testing.assert_array_equal(layered.labels(columns.reshape(layered.energy.shape)), labels)


@settings(max_examples=40, deadline=None)
@given(convex(most_labels=3))
def test_no_minimum_cut_changes_a_column_twice(energy):
    """M is large enough: every cut that is no labelling costs more than the minimum."""
    numbers = LayerNumbers.of(energy)
    layered = LayeredEnergy.of(energy, numbers)
    sites = layered.energy.unary.size
    assume(sites <= 12)
    cuts = [np.array(y).reshape(layered.energy.shape) for y in itertools.product([False, True], repeat=sites)]
    values = [layered.energy.exactly(y) for y in cuts]
    least = min(values)
    for y, value in zip(cuts, values, strict=True):
        if value == least:
            assert layered.in_order(y).all()


@pytest.mark.parametrize("metric", ["linear", "quadratic"])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("features", [True, False])
def test_labels_are_the_same_for_any_blocks_and_threads(metric, whole, features):
    rng = np.random.default_rng(1)
    costs = rng.integers(0, 9, (15, 14, 6)) if whole else rng.normal(0, 3, (15, 14, 6))
    mask = rng.random((15, 14)) < 0.9
    energy = LabelEnergy.grid(
        costs, lam=1.0 if whole else 0.7, mask=mask, metric=metric, features=rng.random((15, 14)) if features else None
    )
    one = dope.minimize(energy, method=Layers(), blocks=1, executor=Serial())
    assert one.exact and not one.labels[~mask].any()
    for blocks, executor in [(4, Serial()), ((3, 2), Threads(2)), ((5, 5), Threads(3))]:
        other = dope.minimize(energy, method=Layers(), blocks=blocks, executor=executor)
        np.testing.assert_array_equal(other.labels, one.labels)
        assert (other.energy, other.exact) == (one.energy, True)
        assert other.lower_bound == pytest.approx(one.lower_bound, rel=1e-9)
    assert dope.minimize(energy, method=Moves()).energy >= one.lower_bound


def test_blocks_of_a_graph_give_what_one_does():
    grid = LabelEnergy.grid(np.random.default_rng(2).integers(0, 9, (9, 10, 5)), lam=2.0, metric="linear")
    first, second, weights = grid.pairs.edges()
    graph = LabelEnergy.graph(grid.costs.reshape(-1, 5), np.stack([first, second], axis=1), weights, "linear")
    expected = dope.minimize(grid, method=Layers())
    for blocks in (1, 3):
        result = dope.minimize(graph, method=Layers(), blocks=blocks)
        np.testing.assert_array_equal(result.labels.reshape(9, 10), expected.labels)
        assert result.energy == expected.energy and result.exact


@pytest.mark.parametrize("metric", ["linear", "quadratic", "table"])
def test_jumps_find_the_same_energy_where_costs_are_convex(metric):
    rng = np.random.default_rng(3)
    grey = rng.integers(0, 8, (12, 13))
    costs = np.abs(grey[..., None] - np.arange(8))
    metric = tables(8)[0] if metric == "table" else metric
    energy = LabelEnergy.grid(costs, lam=1.0, metric=metric)
    jumped, cut = dope.minimize(energy), dope.minimize(energy, method=Layers())
    assert isinstance(jumped.plan.method, Moves) and "jumps" in str(jumped.plan)
    assert jumped.exact and cut.exact and jumped.energy == cut.energy


def test_a_label_that_is_forbidden_costs_no_precision():
    """M and the scale follow from what pairs pay, not from a cost beyond all others."""
    costs = np.random.default_rng(4).normal(0, 1, (10, 10, 6))
    far = costs.copy()
    far[..., 2] = 1e12
    energy, allowed = (LabelEnergy.grid(one, lam=0.4, metric="linear") for one in (far, costs))
    assert LayerNumbers.of(energy).column <= 2 * LayerNumbers.of(allowed).column
    result = dope.minimize(energy, method=Layers())
    assert result.exact and result.rounding_error < 1e-6 and not (result.labels == 2).any()


def test_costs_are_counted_in_64_bits_where_32_would_show():
    costs = np.random.default_rng(5).normal(0, 1, (8, 8, 200))
    energy = LabelEnergy.grid(costs, lam=30.0, kernel=5, metric="quadratic")
    numbers = LayerNumbers.of(energy)
    assert counted(numbers, None).bits == 64 > counted(numbers, 32).bits
    assert counted(numbers, 64).error < counted(numbers, 32).error


def rough(labels=5, shape=(20, 21), **more):
    """Costs that are convex nowhere."""
    costs = np.random.default_rng(6).integers(0, 20, (*shape, labels))
    return LabelEnergy.grid(costs, **{"lam": 2.0, "metric": "linear", **more})


def test_a_plan_takes_layers_where_they_fit_and_says_so():
    for metric in ("linear", "quadratic", *tables(5)[:3], ("linear", 4)):
        decided = dope.plan(rough(metric=metric))
        assert decided.method == Layers() and "one cut on layers" in str(decided)
        assert decided.run().exact
    graph = LabelEnergy.graph(np.random.default_rng(0).integers(0, 9, (5, 4)), [[0, 1], [1, 2]], [1.0, 2.0], "linear")
    assert dope.plan(graph).method == Layers() and dope.plan(graph).bytes > 0 and "layers" in str(dope.plan(graph))
    assert dope.plan(rough()).bits == 16 and dope.plan(rough(features=np.zeros((20, 21)), lam=0.1)).bits == 64


def test_a_plan_says_why_it_takes_moves(tmp_path):
    small, large = (dope.plan(rough(labels)) for labels in (5, 10))
    assert large.bytes > small.bytes

    def why(energy=None, **said):
        decided = dope.plan(rough() if energy is None else energy, **said)
        assert isinstance(decided.method, Moves)
        return next(one.why for one in decided.decisions if one.what == "method")

    allowed = (small.bytes + large.bytes) // 2
    assert dope.plan(rough(5), memory=allowed).method == Layers()
    assert "layers would find the minimum, but in one piece it takes" in why(rough(10), memory=allowed)
    assert "keeps no checkpoint" in why(checkpoint=tmp_path / "new")
    assert "Qpbo shows no flow" in why(solver=dope.Qpbo())
    for metric in ("potts", ("linear", 3), ("quadratic", 3)):
        assert "layers" not in why(rough(metric=metric))
    np.save(tmp_path / "costs.npy", rough().costs)
    mapped = LabelEnergy.grid(np.load(tmp_path / "costs.npy", mmap_mode="r"), lam=2.0, metric="linear")
    assert "costs are not in memory" in why(mapped)


class Elsewhere(Serial):
    elsewhere = True


def test_what_layers_cannot_do_is_refused_in_a_line(tmp_path):
    np.save(tmp_path / "costs.npy", rough().costs)
    mapped = LabelEnergy.grid(np.load(tmp_path / "costs.npy", mmap_mode="r"), metric="linear")
    listed = LabelEnergy.from_tables(np.zeros((3, 2)), [[0, 1]], np.zeros((1, 2, 2)))
    refusals = [
        ("potts", rough(metric="potts"), {}),
        ("limit 3\\), which is no convex", rough(metric=("linear", 3)), {}),
        ("as low as -1", rough(lam=-1.0), {}),
        ("a table of its own", listed, {}),
        ("not in memory", mapped, {}),
        ("4 of them for 5 labels of 420 sites, but in one piece it takes", rough(), {"memory": 60_000_000}),
        ("keeps no checkpoint", rough(), {"checkpoint": tmp_path / "new"}),
        ("other processes", rough(), {"executor": Elsewhere()}),
        ("Qpbo shows no flow", rough(), {"solver": dope.Qpbo()}),
        ("LabelTrwS", rough(), {"solver": dope.LabelTrwS()}),
        ("overlap", rough(), {"blocks": 4, "overlap": 1}),
        ("certificate", rough(), {"certificate": tmp_path / "proof"}),
        ("for several labels", dope.Energy.grid(np.zeros((3, 3))), {}),
    ]
    for words, energy, said in refusals:
        with pytest.raises(InputError, match=words) as caught:
            dope.minimize(energy, method=Layers(), **said)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="beyond float64"):
        dope.minimize(rough(lam=1e306), method=Layers())


def test_steps_lead_from_single_sites_to_the_minimum():
    energy, seen = rough(), []
    result = dope.minimize(energy, blocks=4, watch=seen.append)
    assert [step.doing for step in seen[:1]] == ["begin"] and {step.doing for step in seen[1:]} == {"cut"}
    bounds = [step.lower_bound for step in seen]
    assert max(bounds) == result.lower_bound == result.energy
    assert seen[0].energy == energy(seen[0].labels) >= result.energy
    assert all(step.labels is None for step in result.trace)


def test_who_stops_a_run_gets_labels_and_a_true_bound():
    energy = rough(features=np.random.default_rng(0).random((20, 21)))
    least = dope.minimize(energy).energy
    rounds = len(dope.minimize(energy, blocks=16).trace)
    assert rounds > 2
    for wanted in range(1, rounds):
        answers = iter([False] * (wanted - 1) + [True])
        result = dope.minimize(energy, blocks=16, watch=lambda _, answers=answers: next(answers))
        assert result.stopped == "cancelled" and result.labels.dtype == np.uint8
        assert result.energy == energy(result.labels) and result.lower_bound <= least <= result.energy


def test_a_start_is_what_a_cancelled_run_returns_at_least():
    energy = rough()
    best = dope.minimize(energy, method=Moves(bound=0))
    again = dope.minimize(energy, start=best, watch=lambda _: True)
    assert again.stopped == "cancelled" and again.energy == best.energy
    assert dope.minimize(energy, start=best).exact


def test_a_cancelled_run_has_valid_labels_and_live_ones_are_numbers():
    energy = rough(12, (80, 80))
    run = dope.start(energy)
    run.cancel()
    result = run.result(timeout=60)
    assert result.labels.shape == (80, 80) and result.labels.max() < 12 and result.labels.dtype == np.uint8
    runs, seen = [], []
    started = threading.Event()

    def look(_):
        started.wait(60)
        seen.append(runs[0].labels())

    runs.append(dope.start(energy, blocks=16, watch=look))
    started.set()
    last = runs[0].result(timeout=60).labels
    assert all(labels.shape == (80, 80) and labels.dtype == np.uint8 and labels.max() < 12 for labels in seen)
    first = [energy.costs.argmin(axis=-1), *(np.full((80, 80), label) for label in range(12))]
    assert energy(seen[0]) == min(map(energy, first))
    np.testing.assert_array_equal(seen[-1], last)
    np.testing.assert_array_equal(runs[0].labels((slice(0, 2), slice(0, 3))), last[:2, :3])


def test_labels_go_where_they_are_wanted():
    out = np.zeros((20, 21), dtype=np.uint8)
    result = dope.minimize(rough(), out=out)
    np.testing.assert_array_equal(out, dope.minimize(rough()).labels)
    assert result.plan.method == Layers()


def test_layers_of_256_labels_and_more_are_counted_in_16_bits():
    costs = np.abs(np.arange(300) - 280.0)[None, None].repeat(2, 1)
    assert dope.minimize(LabelEnergy.grid(costs, metric="linear"), method=Layers()).labels.tolist() == [[280, 280]]


def test_a_mask_hides_whatever_lies_outside():
    rng = np.random.default_rng(7)
    mask = rng.random((9, 8)) < 0.6
    costs, image = rng.normal(0, 2, (9, 8, 4)), rng.random((9, 8))
    said = {"mask": mask, "beta": 2.0, "metric": "quadratic", "lam": 0.3}
    inside = LabelEnergy.grid(np.where(mask[..., None], costs, 0), features=np.where(mask, image, 0), **said)
    costs[~mask], image[~mask] = np.nan, np.nan
    hidden = LabelEnergy.grid(costs, features=image, **said)
    one, other = dope.minimize(inside, method=Layers()), dope.minimize(hidden, method=Layers(), blocks=4)
    np.testing.assert_array_equal(one.labels, other.labels)
    assert one.exact and other.exact and one.energy == other.energy


@pytest.mark.parametrize("said", [{"lam": 0.0}, {"kernel": 1}, {"kernel": 9}, {"lam": 1e-300}, {"lam": 1e200}], ids=str)
def test_pairs_that_pay_nothing_or_all(said):
    costs = np.random.default_rng(8).integers(0, 99, (3, 4, 6))
    for metric in ("linear", "quadratic"):
        energy = LabelEnergy.grid(costs, **{"lam": 1.0, "metric": metric, **said})
        result = dope.minimize(energy, method=Layers())
        assert result.exact and result.energy == energy(result.labels)
        if said.get("lam", 1.0) <= 1e-300 or said.get("kernel") == 1:
            np.testing.assert_array_equal(result.labels, costs.argmin(axis=-1))
        assert len(np.unique(result.labels)) == 1 or said.get("lam") != 1e200


def test_models_in_files_are_recognized(tmp_path):
    """A table per pair that is a weight times one convex metric."""
    rng, states = np.random.default_rng(9), 4
    for table in (tables(states)[0], tables(states)[1]):
        costs, pairs = rng.integers(0, 9, (5, states)), [(0, 1), (1, 2), (0, 3), (3, 4), (1, 4)]
        factors = [(TABLE, k, [k]) for k in range(5)] + [(TABLE, 5 + k, scope) for k, scope in enumerate(pairs)]
        functions = [*costs, *(weight * table for weight in (1.0, 2.0, 1.0, 3.0, 2.0))]
        (tmp_path / "model.h5").write_bytes(opengm([states] * 5, factors, {TABLE: functions}))
        energy = dope.read_energy(tmp_path / "model.h5")
        result = dope.minimize(energy)
        assert result.plan.method == Layers() and result.exact
        assert result.energy == minimizers(energy)[0]


def test_a_plan_is_for_other_energies_too():
    """Costs that need wider capacities than those that a plan was made for get them."""
    rng = np.random.default_rng(10)
    decided = dope.plan(rough(), method=Layers())
    other = rough(features=rng.random((20, 21)), lam=0.3)
    assert decided.bits == 16 and decided.on(other).run().energy == dope.minimize(other).energy
    assert decided.on(other).run().rounding_error < 1e-3


def test_two_labels_are_one_cut_whatever_their_costs():
    energy = LabelEnergy.grid(np.random.default_rng(3).normal(3, 3, (9, 8, 2)), lam=1.0, metric="linear")
    result = dope.minimize(energy)
    assert result.plan.method == dope.Layers() and result.exact
    costs = energy.costs
    binary = dope.minimize(dope.Energy.grid(costs[..., 1] - costs[..., 0], lam=1.0))
    assert (result.labels == binary.labels).all()


@pytest.mark.parametrize("count", [1, 8])
def test_a_run_that_is_cancelled_at_once_still_has_the_labels_that_it_was_given(count):
    costs = np.random.default_rng(0).normal(size=(60, 60, count + 1))
    energy = (
        LabelEnergy.grid(costs, lam=0.5, metric="linear") if count > 1 else dope.Energy.grid(costs[..., 0], lam=1.0)
    )
    before = dope.minimize(energy)
    run = dope.start(energy, start=before)
    run.cancel()
    assert run.result().energy == before.energy
