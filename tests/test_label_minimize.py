"""`minimize` with several labels: plans, runs, blocks, executors, boxes, outputs, and what is refused."""

import pickle
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dope
from dope import Energy, Exact, InputError, LabelAdmm, LabelEnergy, LabelStep, Layers, Messages, Moves, Serial, Threads
from dope.methods import label_boxes
from dope.names import METHODS, name_of, plug_in_of
from label_problems import graphs, grids, minimizers, sites_of

LABEL_METHODS = [Moves(), Layers(), Messages(), LabelAdmm(rounds=4)]
every_label_method = pytest.mark.parametrize("method", LABEL_METHODS, ids=lambda method: type(method).__name__)


def regions(shape=(24, 25), labels=4, noise=1.2, seed=0):
    """Costs of a picture of a few regions, seen through noise: most of it can be proved."""
    rng = np.random.default_rng(seed)
    places = np.indices(shape).sum(axis=0) * labels // (sum(shape) - 1)
    return (rng.normal(0, noise, (*shape, labels)) + 2.0 * (places[..., None] != np.arange(labels))).astype(np.float32)


def blob(**more):
    return LabelEnergy.grid(regions(), **{"lam": 0.6, **more})


def mapped(folder, array, name="costs"):
    np.save(folder / f"{name}.npy", array)
    return np.load(folder / f"{name}.npy", mmap_mode="r")


def boxed(energy_of, folder, **more):
    """A result whose costs were read box by box."""
    result = dope.minimize(energy_of(mapped(folder, regions())), **{"blocks": (2, 3), "memory": "4MB", **more})
    assert result.plan.in_boxes
    return result


def potts(costs):
    return LabelEnergy.grid(costs, lam=0.6)


def quadratic(costs):
    return LabelEnergy.grid(costs, lam=0.3, metric=("quadratic", 4))


# The exam of every method.


@every_label_method
@settings(max_examples=25, deadline=None)
@given(energy=st.one_of(grids(["linear", "quadratic"], most_labels=3), graphs(["linear", "quadratic"])))
def test_no_method_is_below_the_minimum_or_bounds_what_is_none(method, energy):
    before = energy.costs.copy()
    result = dope.minimize(energy, method=method)
    least, _ = minimizers(energy)
    room = 1e-7 * (1 + abs(least))
    assert result.labels.dtype == energy.label_type and result.labels.max() < energy.label_count
    assert result.energy == energy(result.labels) >= least - room
    assert result.lower_bound is None or result.lower_bound <= least + room
    assert not result.exact or result.energy <= least + result.rounding_error + room
    assert not result.labels[~sites_of(energy)].any()
    np.testing.assert_array_equal(energy.costs, before)


@every_label_method
def test_who_stops_a_method_gets_labels_and_a_true_bound(method):
    energy = blob(metric="linear")
    least = dope.minimize(energy, method=Layers()).energy
    rounds = len(dope.minimize(energy, method=method, blocks=4).trace)
    for wanted in range(1, min(rounds, 6)):
        answers = iter([False] * (wanted - 1) + [True])
        result = dope.minimize(energy, method=method, blocks=4, watch=lambda _, answers=answers: next(answers))
        assert result.stopped == "cancelled" and result.energy == energy(result.labels) >= least
        assert result.lower_bound is None or result.lower_bound <= least


@every_label_method
def test_methods_survive_pickling_and_have_names(method):
    assert pickle.loads(pickle.dumps(method)) == method
    said = name_of("method", METHODS, method)
    assert plug_in_of("method", METHODS, said) == method


# What they tell, and where labels go.


def test_a_result_has_numbers_of_labels_and_says_what_is_known():
    energy = blob()
    result = dope.minimize(energy)
    assert result.labels.dtype == np.uint8 and result.label_count == 4
    assert result.counts == tuple(np.bincount(result.labels.ravel(), minlength=4))
    assert result.energy == energy(result.labels)
    assert result.lower_bound <= result.energy and 0.9 < result.proved <= 1.0
    assert "of 4 labels" in repr(result) and "proved" in repr(result)
    assert result.summary()["foreground"] is None and len(result.summary()["counts"]) == 4
    assert "<table>" in result._repr_html_()
    with pytest.raises(dope.DopeError, match="foreground is asked for of 4 labels"):
        _ = result.foreground
    assert all(isinstance(step, LabelStep) and step.labels is None for step in result.trace)
    assert [step.label for step in result.trace if step.doing == "prove"][:4] == [0, 1, 2, 3]


def test_all_proved_is_exact():
    result = dope.minimize(LabelEnergy.grid(regions(noise=0.1), lam=0.5))
    assert (result.exact, result.proved, result.stopped) == (True, 1.0, "exact")
    assert result.gap <= result.rounding_error + 1e-9


@pytest.mark.parametrize("executor", [Serial(), Threads(2)], ids=str)
@pytest.mark.parametrize("blocks", [4, 8], ids=str)
def test_blocks_and_threads_change_no_bit_of_what_is_proved(blocks, executor):
    energy = blob()
    whole = dope.minimize(energy, blocks=1, executor=Serial())
    result = dope.minimize(energy, blocks=blocks, executor=executor)
    np.testing.assert_array_equal(result.labels, whole.labels)
    assert (result.energy, result.proved, result.lower_bound) == (whole.energy, whole.proved, whole.lower_bound)


@pytest.mark.parametrize("energy_of", [potts, quadratic], ids=["potts", "quadratic"])
@pytest.mark.parametrize("executor", [Serial(), Threads(2)], ids=str)
def test_boxes_give_what_memory_gives(energy_of, executor, tmp_path):
    held = dope.minimize(energy_of(regions()), blocks=1, executor=Serial())
    result = boxed(energy_of, tmp_path, executor=executor)
    np.testing.assert_array_equal(result.labels, held.labels)
    assert result.energy == pytest.approx(held.energy, rel=1e-12)
    assert result.counts == held.counts and result.proved == held.proved
    assert result.lower_bound == pytest.approx(held.lower_bound, rel=1e-9)


def test_a_mask_and_contrast_in_boxes_are_those_in_memory(tmp_path):
    rng = np.random.default_rng(3)
    image, mask = rng.random((24, 25)), rng.random((24, 25)) < 0.8
    costs = regions()
    costs[~mask] = np.nan
    held = dope.minimize(LabelEnergy.grid(costs, lam=0.6, features=image, mask=mask))
    far = LabelEnergy.grid(
        mapped(tmp_path, costs), lam=0.6, features=mapped(tmp_path, image, "image"), mask=mapped(tmp_path, mask, "mask")
    )
    result = dope.minimize(far, blocks=(2, 3), memory="4MB")
    assert result.plan.in_boxes and not result.labels[~mask].any()
    np.testing.assert_array_equal(result.labels, held.labels)
    assert result.proved == held.proved


@pytest.mark.parametrize("energy_of", [potts, quadratic], ids=["potts", "quadratic"])
def test_blocks_by_turns_improve_what_is_too_much_for_one_problem(energy_of, tmp_path, monkeypatch):
    monkeypatch.setattr(label_boxes, "fits", lambda *_: False)
    energy = energy_of(regions())
    alone = dope.minimize(energy, method=Moves(cycles=0))
    result = boxed(energy_of, tmp_path)
    assert result.energy == pytest.approx(energy(result.labels), rel=1e-12)
    assert result.energy <= alone.energy and result.lower_bound <= result.energy
    whole = dope.minimize(energy)
    assert result.energy <= whole.energy + 0.02 * abs(whole.energy)
    assert any(step.doing == "sweep" for step in result.trace)


@pytest.mark.parametrize("kind", ["array", "mapped", "file"])
def test_labels_go_where_they_are_wanted(kind, tmp_path):
    expected = dope.minimize(potts(regions()))
    for energy_from in ("memory", "boxes"):
        place = tmp_path / energy_from
        place.mkdir()
        if kind == "array":
            out: Any = np.zeros((24, 25), dtype=np.uint8)
        elif kind == "mapped":
            out = np.lib.format.open_memmap(place / "out.npy", mode="w+", dtype=np.uint8, shape=(24, 25))
        else:
            out = dope.io.open_labels(place / "out.npy", (24, 25), label_count=4)
        result = boxed(potts, place, out=out) if energy_from == "boxes" else dope.minimize(potts(regions()), out=out)
        assert result.counts == expected.counts and result.labels.dtype == np.uint8
        np.testing.assert_array_equal(result.labels, expected.labels)
        np.testing.assert_array_equal(out[...], expected.labels)
        if kind == "file":
            out.abandon()


def test_a_place_that_cannot_hold_the_labels_is_refused():
    with pytest.raises(InputError, match="for 2 labels; expected one that holds 4"):
        dope.plan(blob(), out=np.zeros((24, 25), dtype=bool))
    with pytest.raises(InputError, match="of float64 for 2 labels; expected one that holds 4, such as uint16"):
        dope.plan(blob(), out=np.zeros((24, 25)))


def test_a_watcher_sees_steps_and_ends_the_run_with_valid_labels():
    energy = blob()
    rounds = len(dope.minimize(energy).trace)
    for wanted in range(1, rounds):
        answers = iter([False] * (wanted - 1) + [True])
        result = dope.minimize(energy, watch=lambda _, answers=answers: next(answers))
        assert result.stopped == "cancelled"
        assert result.labels.dtype == np.uint8 and result.labels.max() < 4
        assert result.energy == energy(result.labels)
        assert result.lower_bound is None or result.lower_bound <= result.energy


def test_a_watcher_ends_a_run_in_boxes_with_its_labels_written(tmp_path):
    out = np.full((24, 25), 9, dtype=np.uint8)
    result = boxed(potts, tmp_path, out=out, watch=lambda step: step.round == 2)
    assert result.stopped == "cancelled" and out.max() < 4
    assert result.energy == pytest.approx(blob()(out), rel=1e-12)


def test_a_cancelled_run_has_valid_labels():
    run = dope.start(LabelEnergy.grid(regions((200, 200), 6), lam=0.7))
    run.cancel()
    result = run.result(timeout=60)
    assert result.labels.shape == (200, 200) and result.labels.max() < 6
    assert result.labels.dtype == np.uint8


def test_live_labels_are_numbers():
    seen = []
    run = dope.start(blob(), watch=lambda step: seen.append(step.round))
    run.result(timeout=60)
    assert run.labels().dtype == np.uint8 and seen
    np.testing.assert_array_equal(run.labels((slice(0, 2), slice(0, 3))), run.result().labels[:2, :3])


def test_an_earlier_result_is_a_start():
    energy = blob(metric="linear")
    first = dope.minimize(energy, method=Moves(cycles=1))
    again = dope.minimize(energy, start=first)
    assert again.energy <= first.energy
    assert dope.minimize(energy, start=again.labels).energy == again.energy
    with pytest.raises(InputError, match="the shape of start is"):
        dope.plan(energy, start=np.zeros((3, 3), dtype=int))
    with pytest.raises(InputError, match="there is 7 in start"):
        dope.plan(energy, start=np.full((24, 25), 7))
    with pytest.raises(InputError, match=r"there is 0.5 in start \(dtype float64\); expected whole numbers"):
        dope.plan(energy, start=np.full((24, 25), 0.5))
    with pytest.raises(InputError, match="the dtype of start is <U3; expected whole numbers"):
        dope.plan(energy, start="abc")
    assert dope.minimize(energy, start=again.labels.astype(float)).energy == again.energy


def test_plans_say_what_is_done_and_why():
    words = str(dope.plan(blob()))
    assert re.search(r"number of labels\s+4", words) and "a cut for each label proves" in words
    assert "jumps" in str(dope.plan(quadratic(regions())))
    table = np.array([[0, -1.0], [-1, 0]])
    assert "fusions" in str(dope.plan(LabelEnergy.grid(regions(labels=2), metric=table)))
    graph = LabelEnergy.graph(np.zeros((4, 3)), [[0, 1], [1, 2]], [1.0, 2.0])
    assert dope.plan(graph).bytes > 0
    listed = LabelEnergy.from_tables(np.zeros((3, 2)), [[0, 1]], np.zeros((1, 2, 2)))
    assert "graph" in repr(listed) and dope.plan(listed).bytes > 0


def test_what_is_not_for_several_labels_is_refused_in_a_line(tmp_path):
    energy = blob()
    refusals = {
        "method is Exact": {"method": Exact()},
        "overlap": {"overlap": 0.2, "blocks": 4},
        "checkpoint": {"checkpoint": tmp_path / "new", "method": dope.Messages()},
        "certificate": {"certificate": tmp_path / "proof"},
    }
    for word, arguments in refusals.items():
        with pytest.raises(InputError, match=word) as caught:
            dope.minimize(energy, **arguments)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="for several labels"):
        dope.minimize(Energy.grid(np.zeros((3, 3))), method=Moves())


def test_message_passing_runs_alone_where_it_is_asked_for():
    energy = quadratic(regions())
    steps = []
    result = dope.minimize(energy, solver=dope.LabelTrwS(rounds=50), watch=steps.append)
    assert result.plan.method == dope.Messages() and len(steps) > 1
    assert result.energy == energy(result.labels) and result.lower_bound <= result.energy
    best = dope.minimize(energy)
    assert best.lower_bound <= result.energy and result.lower_bound <= best.energy
    assert best.gap < dope.minimize(energy, method=Moves(bound=0)).gap
    with pytest.raises(InputError, match="for several labels"):
        dope.minimize(Energy.grid(np.zeros((3, 3))), solver=dope.LabelTrwS())


def test_moves_survive_pickling():
    method = Moves(kind="swap", cycles=3)
    assert pickle.loads(pickle.dumps(method)) == method
    assert dope.Moves is Moves


@pytest.mark.slow
def test_dask_gives_what_serial_gives(tmp_path):
    distributed = pytest.importorskip("distributed")
    expected = dope.minimize(blob())
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        executor = dope.Dask(cluster.scheduler_address)
        for energy in (blob(), potts(mapped(tmp_path, regions()))):
            result = dope.minimize(energy, blocks=(2, 2), executor=executor)
            np.testing.assert_array_equal(result.labels, expected.labels)
            assert result.proved == expected.proved
