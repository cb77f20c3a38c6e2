"""Cancellation: whoever entered it stops, in whichever thread, and nobody else."""

import importlib.util
import threading
import time

import numpy as np
import pytest

from dope import (
    Anneal,
    Brute,
    Energy,
    Icm,
    LsaAux,
    LsaTr,
    MaxFlow,
    MeanField,
    Portfolio,
    Qpbo,
    Tabu,
    TrwS,
    _core,
    io,
)
from dope.cancellation import Cancellation, Cancelled, check_cancelled, entered, finishing, run_aside, waking
from profiles import slow_but


def test_who_entered_what_is_cancelled_is_told_and_nobody_else():
    outer, inner = Cancellation(), Cancellation()
    check_cancelled()
    with outer, inner:
        assert entered() == (outer, inner)
        outer.cancel()
        assert (outer.cancelled, inner.cancelled) == (True, False)
        with pytest.raises(Cancelled):
            check_cancelled()
    assert entered() == ()
    check_cancelled()
    with inner:
        check_cancelled()
    with outer, pytest.raises(Cancelled):  # for good
        check_cancelled()


def test_one_may_be_entered_twice_and_by_many_threads():
    cancellation, raised, ready = Cancellation(), [], threading.Barrier(5)

    def work():
        with cancellation, cancellation:
            ready.wait(10.0)
            ready.wait(10.0)
            try:
                check_cancelled()
            except Cancelled as error:
                raised.append(error)
        assert entered() == ()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    ready.wait(10.0)
    check_cancelled()  # this thread has not entered it
    cancellation.cancel()
    ready.wait(10.0)
    for thread in threads:
        thread.join()
    assert len(raised) == 4


def test_the_core_and_python_stop_by_the_same_token():
    assert Cancelled is _core.Cancelled
    weights = _core.GridWeights((300, 300), np.array([[0, 1], [1, 0]]), np.ones(2))
    flow, unary = _core.GridFlow(weights, 1.0, 32), np.random.default_rng(0).normal(size=(300, 300)) * 3
    with Cancellation() as cancellation:
        flow.minimize(unary)
        cancellation.cancel()
        with pytest.raises(Cancelled):
            flow.minimize(-unary)


def test_who_waits_is_woken_once_it_is_cancelled_and_at_once_where_it_was():
    outer, inner, woken = Cancellation(), Cancellation(), []
    with outer, inner:
        with waking(lambda: woken.append(1)):
            assert not woken
            inner.cancel()
            assert woken == [1]
            outer.cancel()
            assert woken == [1, 1]
        with waking(lambda: woken.append(2)):
            assert woken == [1, 1, 2, 2]
    outer.cancel()
    assert woken == [1, 1, 2, 2]


def test_who_has_not_entered_cannot_leave():
    with pytest.raises(RuntimeError, match="not entered in this thread"):
        Cancellation().__exit__(None, None, None)
    assert entered() == ()


def test_what_runs_aside_replies_fails_or_is_left_behind():
    def fail():
        raise KeyError("aside")

    here, end = threading.get_ident(), threading.Event()
    assert run_aside(threading.get_ident) == here  # nobody could cancel it
    with Cancellation() as cancellation:
        assert run_aside(threading.get_ident) != here
        with pytest.raises(KeyError, match="aside"):
            run_aside(fail)
        threading.Timer(0.05, cancellation.cancel).start()
        with pytest.raises(Cancelled):
            run_aside(lambda: end.wait(60.0))
        end.set()
        with pytest.raises(Cancelled):
            run_aside(fail)


def test_who_answered_all_the_same_may_finish():
    with Cancellation() as outer, Cancellation() as inner:
        with finishing():
            check_cancelled()
            assert entered() == (outer, inner)
        inner.cancel()
        with finishing():
            check_cancelled()
            assert entered() == ()
        assert entered() == (outer, inner)
        with pytest.raises(Cancelled):
            check_cancelled()
    assert entered() == ()


SOLVERS = [Icm(), MeanField(), TrwS(), Qpbo(), Qpbo(probe=True, improve=2), LsaTr(), LsaAux(), MaxFlow(), Brute()]
SOLVERS += [Portfolio()]
if importlib.util.find_spec("dwave"):
    SOLVERS += [Tabu(restarts=0), Anneal(sweeps=20)]


def mixed_energy(side, *, attractive):
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(2, side, side))
    return Energy.grid(
        rng.normal(size=(side, side)), kernel=[(0, 1), (1, 0)], weights=list(abs(weights) if attractive else weights)
    )


def minimize_for_long(minimizer, unary):
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        minimizer.minimize(unary)


@pytest.mark.parametrize(
    "solver", slow_but(SOLVERS, quick=[Icm(), TrwS(), Qpbo(), LsaTr(), MaxFlow(), Brute(), Portfolio()]), ids=str
)
def test_a_minimizer_that_was_cancelled_answers_as_a_new_one(solver):
    energy = mixed_energy(4 if isinstance(solver, Brute) else 30, attractive=isinstance(solver, MaxFlow))
    minimizer, expected = solver.prepare(energy), solver.prepare(energy).minimize(energy.unary)
    for delay in (0.0, 0.01, 0.05):
        cancellation = Cancellation()
        threading.Timer(delay, cancellation.cancel).start()
        with cancellation, pytest.raises(Cancelled):
            minimize_for_long(minimizer, energy.unary)
        answer = minimizer.minimize(energy.unary)
        np.testing.assert_array_equal(answer.labels, expected.labels)
        assert answer.bound == expected.bound


@pytest.mark.parametrize(
    "name", ["pixels.npy", "pixels.nii", "packed.nii.gz", "pixels.tif", "pixels.zarr", "shards.zarr"]
)
def test_reading_a_file_that_is_cancelled_is_not_a_damaged_file(tmp_path, name):
    pixels = np.random.default_rng(0).integers(0, 255, (20, 30, 40)).astype(np.uint8)
    path = tmp_path / name
    if name.endswith(".npy"):
        np.save(path, pixels)
    elif ".nii" in name:
        nibabel = pytest.importorskip("nibabel")
        nibabel.save(nibabel.Nifti1Image(pixels, np.eye(4)), path)
    elif name.endswith(".tif"):
        pytest.importorskip("tifffile").imwrite(path, pixels, photometric="minisblack", compression=None)
    else:
        shards = {"shards": (20, 20, 20)} if name.startswith("shards") else {}
        zarr = pytest.importorskip("zarr")
        zarr.create_array(str(path), data=pixels, chunks=(5, 10, 10), **shards)
    with Cancellation() as cancellation:
        np.testing.assert_array_equal(np.asarray(io.load(path).pixels), pixels)
        cancellation.cancel()
        with pytest.raises(Cancelled):
            np.asarray(io.load(path).pixels)
