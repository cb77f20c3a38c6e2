"""Runs: what happens is told, labels can be seen while they change, and a run ends when somebody wants it to."""

import json
import sys
import threading
import time

import numpy as np
import pytest

import dope
from dope import (
    Admm,
    BlockBegun,
    BlockDone,
    Bracketing,
    Energy,
    Exact,
    Finished,
    Icm,
    InputError,
    LsaTr,
    Portfolio,
    Serial,
    Stepped,
    Threads,
)
from dope.run import event_in_plain

METHODS = [Exact(), Exact(merge=False), Exact(bracket=True), Admm(rounds=3), Admm.paper(), Bracketing()]
RNG = np.random.default_rng(0)
ENERGY = Energy.grid(RNG.normal(size=(60, 70)), lam=0.4)
# What takes some seconds in one thread, whatever the method.
HARD = Energy.grid(RNG.normal(size=(400, 400)), lam=3.0)
SIGNED = Energy.grid(RNG.normal(size=(160, 160)), lam=1.0, kernel=5, weights=RNG.normal(size=12))


def begun(run):
    """Wait until blocks are at work."""
    for event in run:
        if isinstance(event, BlockBegun):
            return run
    raise AssertionError("no block began")


@pytest.mark.parametrize("executor", [Serial(), Threads(2)], ids=str)
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_events_tell_all_of_it_once(method, executor):
    run = dope.start(ENERGY, method=method, blocks=6, executor=executor)
    events = list(run)
    result = run.result()
    assert [e for e in events if isinstance(e, Finished)] == [events[-1]] and events[-1].result is result
    steps = [e.step for e in events if isinstance(e, Stepped)]
    assert steps == list(result.trace) and [s.stopped for s in steps[:-1]] == [None] * (len(steps) - 1)
    assert all(s.labels is None for s in steps)
    starts = [(e.block, e.doing) for e in events if isinstance(e, BlockBegun)]
    ends = [(e.block, e.doing) for e in events if isinstance(e, BlockDone)]
    assert sorted(starts) == sorted(ends) and len(starts) >= 6
    seconds = [e.step.seconds if isinstance(e, Stepped) else e.seconds for e in events]
    assert all(0 <= s <= result.seconds + 1 for s in seconds)
    assert all(e.done <= e.asked for e in events if isinstance(e, BlockDone))
    assert json.loads(json.dumps([event_in_plain(e) for e in events]))
    assert list(run) == events  # whoever comes late finds them too
    assert np.array_equal(result.labels, dope.minimize(ENERGY, method=method, blocks=6, executor=Serial()).labels)


def test_where_a_block_lies_is_told():
    run = dope.start(ENERGY, method=Exact(), blocks=(2, 3))
    places = {e.block: e.where for e in run if isinstance(e, BlockDone)}
    assert {k: tuple(w) for k, w in places.items()} == {k: b.where for k, b in enumerate(run.result().partition.blocks)}
    assert {s.state for s in run.block_states()} <= {"idle", "done"} and len(run.block_states()) == 6


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_labels_can_be_seen_at_any_time(method):
    energy = Energy.grid(RNG.normal(size=(150, 200)), lam=1.0)
    box = (slice(10, 40), slice(0, 200))
    seen, looked = 0, threading.Event()  # it does not end before somebody has looked
    run = begun(dope.start(energy, method=method, blocks=9, executor=Threads(2), watch=lambda _: not looked.wait(60)))
    while not run.done:
        whole, part = run.labels(), run.labels(box)
        assert whole.shape == energy.shape and part.shape == (30, 200) and whole.dtype == part.dtype == np.bool_
        whole[:] = False  # a copy
        seen += 1
        looked.set()
    result = run.result()
    assert seen and np.array_equal(run.labels(), result.labels)
    assert np.array_equal(run.labels(box), result.labels[box])
    assert np.array_equal(
        result.labels, dope.minimize(energy, method=method, blocks=9).labels
    )  # looking changes nothing


def test_labels_can_be_seen_while_posts_are_superseded():
    run = begun(dope.start(HARD, method=Bracketing(passes=1), blocks=16, executor=Threads(2)))
    while not run.done:
        assert run.labels().shape == HARD.shape
    assert run.result().exact


@pytest.mark.parametrize(
    ("energy", "said"),
    [
        (HARD, {"method": Exact(), "blocks": 1}),
        (HARD, {"method": Exact(), "blocks": 16}),
        (HARD, {"method": Exact(), "blocks": 16, "executor": Serial()}),
        (HARD, {"method": Exact(merge=False), "blocks": 16}),
        (HARD, {"method": Admm(rounds=50, patience=None), "blocks": 4}),
        (HARD, {"method": Admm(rounds=1, sweeps=50), "blocks": 4}),
        (HARD, {"method": Bracketing(), "blocks": 4}),
        (SIGNED, {"solver": LsaTr(), "blocks": 1}),
        (SIGNED, {"solver": LsaTr(), "blocks": 4}),
        (SIGNED, {"solver": Portfolio(seconds=60.0), "blocks": 1}),
        (SIGNED, {"solver": Portfolio(seconds=60.0), "blocks": 4}),
        (SIGNED, {"solver": Icm(), "method": Admm(rounds=50, patience=None), "blocks": 4}),
    ],
    ids=str,
)
@pytest.mark.parametrize("wait", [0.0, 0.1])
def test_a_cancelled_run_ends_with_labels_and_a_gap(energy, said, wait):
    run = begun(dope.start(energy, **said))
    time.sleep(wait)
    threading.Thread(target=run.cancel).start()
    result = run.result(timeout=30)
    if result.stopped != "cancelled":  # it was quicker
        assert result.exact or result.stopped
        return
    assert result.labels.shape == energy.shape
    assert result.energy == energy(result.labels)
    assert result.lower_bound is not None and result.lower_bound <= result.energy and result.gap >= 0
    assert run.cancelled and run.done
    assert result.lower_bound <= min(0.0, float(energy.unary.sum())) + energy.constant  # of labels that are all alike


def test_reading_can_be_cancelled(tmp_path):
    import zarr

    unary = RNG.normal(size=(256, 256)).astype(np.float32)
    stored = zarr.create_array(tmp_path / "unary", data=unary, chunks=(16, 16))
    for said in ({}, {"method": Bracketing(), "blocks": 16}):
        run = dope.start(Energy.grid(stored, lam=0.5), **said)
        run.cancel()
        result = run.result(timeout=30)
        assert result.shape == (256, 256) and result.stopped in ("cancelled", "exact")


def test_a_run_that_was_cancelled_before_it_began_still_answers():
    run = dope.start(ENERGY, blocks=4)
    run.cancel()
    assert run.result(timeout=30).labels.shape == ENERGY.shape


def test_an_error_is_for_whoever_asks():
    class Broken:
        def steps(self, problem):
            raise ValueError(f"broken: {problem.energy.shape}")
            yield

    run = dope.start(ENERGY, method=Broken())
    with pytest.raises(ValueError, match="broken"):
        run.result()
    with pytest.raises(ValueError, match="broken"):
        list(run)
    with pytest.raises(InputError, match="method is 3"):
        dope.start(ENERGY, method=3)


class Finalized:
    """Interrupted where its last reference goes: what is raised there Python writes down and forgets."""

    def __del__(self):
        raise KeyboardInterrupt


@pytest.mark.parametrize("executor", [Serial(), Threads(2)], ids=str)
def test_an_interrupt_that_python_loses_ends_the_run_all_the_same(executor):
    hook = sys.unraisablehook

    def watch(_):
        Finalized()

    with pytest.raises(KeyboardInterrupt):
        dope.minimize(HARD, method=Admm(rounds=10**6, patience=None), blocks=4, executor=executor, watch=watch)
    assert sys.unraisablehook is hook


def test_waiting_has_a_limit():
    waited = threading.Event()
    run = dope.start(ENERGY, watch=lambda _: not waited.wait(60))
    with pytest.raises(TimeoutError, match="has not ended within"):
        run.result(timeout=0.01)
    waited.set()
    run.result(timeout=30)


def test_rounds_of_estimation_are_one_run():
    image = np.full((40, 50), 60, dtype=np.uint8) + RNG.integers(0, 40, (40, 50), dtype=np.uint8)
    image[10:30, 15:40] += 120
    run = dope.Segmentation(image=image, rectangle=((5, 35), (10, 45))).start()
    events = list(run)
    estimates = [e.step.estimate for e in events if isinstance(e, Stepped)]
    assert estimates == sorted(estimates) and estimates[0] == 1 and max(estimates) > 1
    result = run.result()
    assert len(result.trace) == len(estimates)
    seconds = [s.seconds for s in result.trace]
    assert seconds == sorted(seconds)
    assert np.array_equal(result.labels, dope.segment(image, rectangle=((5, 35), (10, 45))).labels)


def test_labels_of_a_segmentation_lie_in_the_image():
    image = RNG.integers(0, 255, (60, 80), dtype=np.uint8)
    strokes = np.zeros(image.shape, dtype=np.uint8)
    strokes[30, 30:36], strokes[34, 30:36] = 1, 2
    run = dope.Segmentation(image=image, scribbles=strokes, margin=0.5).start()
    for _ in run:
        if not run.done and run._live.shown:
            assert run.labels().shape == image.shape
    assert run.labels().shape == image.shape and run.result().where != (slice(0, 60), slice(0, 80))


@pytest.mark.parametrize(
    "box",
    [((0, 5), (0, 5)), 3, "x", [slice(0, 5)] * 2, (slice(0, 5),), (slice(0, 5),) * 3, (slice(0, 61), slice(0, 5)),
     (slice(-3, 5), slice(0, 5)), (slice(5, 3), slice(0, 5)), (slice(0, 5, 2), slice(0, 5)), (slice("a"), slice(0, 5))],
    ids=str,
)  # fmt: skip
def test_boxes_of_another_form_are_refused_while_it_runs_and_after(box):
    looked, begun = [], threading.Event()

    def look(_):
        assert begun.wait(60)
        with pytest.raises(InputError, match=r"box is .*; expected a tuple with a slice .* the shape \(60, 70\)"):
            run.labels(box)
        looked.append(run.labels((slice(2, 5), slice(None))).shape)

    run = dope.plan(ENERGY, method=Exact(), blocks=4).begin(watch=look)
    begun.set()
    run.result()
    look(None)
    assert looked and set(looked) == {(3, 70)}
