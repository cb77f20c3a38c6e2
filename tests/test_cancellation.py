"""Cancellation: whoever entered it stops, in whichever thread, and nobody else."""

import threading

import numpy as np
import pytest

from dope import _core
from dope.cancellation import Cancellation, Cancelled, check_cancelled, entered, run_aside, waking


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
