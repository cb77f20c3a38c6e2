"""Executors: what they tell; and rounds that end early, cancelled, by Ctrl-C or because a block failed.

These end at once and leave nobody at work.
"""

import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import Admm, Energy, Exact, MaxFlow, Partition, Serial, Threads
from dope.cancellation import Cancellation, Cancelled, check_cancelled, entered
from dope.executors.serial import SerialCrew
from dope.methods.admm_block import BlockRecipe
from dope.methods.lending import Minimizers
from dope.protocols import Problem
from problems import energies, partitions
from profiles import slow_but

# A round is stopped within some 0.1 s; that the machine may be busy with other things is allowed for.
AT_ONCE = 1.0
# Ends only when it is cancelled, or with a failed test.
FOR_EVER = 30.0


def hard_energy(side):
    rng = np.random.default_rng(0)
    unary, features = rng.normal(size=(2, side, side))
    return Energy.grid(unary, lam=60.0, kernel=[(0, 1), (1, 0)], features=features, beta=0.1)


def at_work():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("dope")]


@dataclass(frozen=True)
class Busy:
    """Opens to a worker that, asked to fail, does, and else minimizes for so many seconds."""

    energy: Energy

    def open(self):
        minimizer = MaxFlow(bits=32).prepare(self.energy)

        def work(message):
            if isinstance(message, Exception):
                time.sleep(0.2)
                raise message
            unary, end = self.energy.unary, time.monotonic() + message
            while time.monotonic() < end:
                minimizer.minimize(unary)
                unary = -unary
            return message

        return work


@pytest.mark.parametrize("number", [2, 3])
def test_a_block_that_fails_stops_the_others_at_once(number):
    with Threads(number).gather([Busy(hard_energy(300))] * 4) as crew:
        for _ in range(3):
            begun = time.monotonic()
            with pytest.raises(KeyError, match="block 1"):
                crew.ask([FOR_EVER, KeyError("block 1"), FOR_EVER, FOR_EVER])
            assert time.monotonic() - begun < 0.2 + AT_ONCE
        assert crew.ask([0.0] * 4) == [0.0] * 4
    assert not at_work()


def test_of_blocks_that_failed_one_is_told_and_not_that_others_were_cancelled():
    failures = [KeyError(k) for k in range(4)]
    with Threads(4).gather([Busy(hard_energy(4))] * 4) as crew, pytest.raises(KeyError) as error:
        crew.ask(failures)
    assert error.value in failures


@pytest.mark.parametrize("method", [Admm(), Exact()], ids=str)
def test_steps_that_nobody_reads_on_leave_no_thread(method):
    energy = hard_energy(60)
    problem = Problem(energy, Partition.grid(energy.shape, 4), MaxFlow(), Threads(2))
    with closing(method.steps(problem)) as steps:
        next(steps)
        assert at_work()
    assert not at_work()


@pytest.mark.skipif(sys.platform == "win32", reason="signals to other processes differ on Windows")
@pytest.mark.parametrize("method", [Admm(), Exact()], ids=str)
@pytest.mark.parametrize("waits", slow_but([(0.3,), (0.9, 0.5, 1.4)], quick=[(0.3,)]))
def test_an_interrupt_stops_blocks_in_threads_at_once(method, waits):
    program = textwrap.dedent(
        f"""
        import threading, time
        import dope
        from dope import Admm, Exact, MaxFlow, Threads
        from test_executors import at_work, hard_energy
        def work(energy):
            dope.minimize(energy, blocks=4, method={method}, solver=MaxFlow(bits=32), executor=Threads(2))
        work(hard_energy(8))  # Python loses an interrupt here and there while it imports
        energy = hard_energy(1600)
        while True:
            try:
                print("ready", flush=True)
                while True:
                    work(energy)
            except KeyboardInterrupt:
                caught, end = time.monotonic(), time.monotonic() + {AT_ONCE}
                while at_work() and time.monotonic() < end:  # the interrupt may have come while a round was ending
                    time.sleep(0.001)
                print(caught, len(at_work()), flush=True)
        """
    )
    command = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{program}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            for seconds in waits:
                assert running.stdout.readline() == "ready\n"
                with pytest.raises(subprocess.TimeoutExpired):
                    running.wait(seconds)
                sent = time.monotonic()
                running.send_signal(signal.SIGINT)
                caught, threads = running.stdout.readline().split()
                assert float(caught) - sent < AT_ONCE
                assert threads == "0"
        finally:
            running.kill()


class InterruptedCall:
    """Traces the functions that are called, and raises KeyboardInterrupt at the n-th: there Python looks for signals.

    Not while a thread is started: Python itself cannot be interrupted just anywhere then.
    """

    def __init__(self, n=None):
        self.n, self.called = n, []

    def __call__(self, frame, *_):
        outer = frame
        while outer is not None and outer.f_code is not threading.Thread.start.__code__:
            outer = outer.f_back
        if outer is None:
            self.called.append(frame.f_code)
            if len(self.called) == self.n:
                raise KeyboardInterrupt


# Python tells of an interrupt in a finalizer, and goes on.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("method", [Admm(rounds=2, sweeps=1, bound=0), Exact()], ids=str)
@pytest.mark.parametrize("number", slow_but([8, 500], quick=[8]))
def test_an_interrupt_anywhere_leaves_nothing_locked(method, number):
    energy, before = hard_energy(6), sys.gettrace()

    def minimize(call):
        sys.settrace(call)
        try:
            return dope.minimize(energy, blocks=4, method=method, executor=Threads(2)).labels
        finally:
            sys.settrace(before)

    labels = minimize(InterruptedCall())  # which also imports what is needed
    minimize(whole := InterruptedCall())
    # Anywhere, and in each function that has to do with locks.
    locking = {code: n for n, code in enumerate(whole.called, 1) if code.co_filename == threading.__file__}
    for n in sorted({*np.linspace(1, len(whole.called), number).astype(int), *locking.values()}):
        with suppress(KeyboardInterrupt):  # threads may be quicker than before, and the calls fewer
            minimize(InterruptedCall(n))
    assert np.array_equal(minimize(None), labels)
    gc.collect()  # crews that were interrupted as they began to leave
    end = time.monotonic() + FOR_EVER
    while at_work() and time.monotonic() < end:
        time.sleep(0.01)
    assert not at_work()


@dataclass(frozen=True)
class Elsewhere:
    """Serial, but every recipe, message and reply is pickled on its way."""

    workers = 1
    elsewhere = True

    def gather(self, recipes):
        return ElsewhereCrew([pickle.loads(pickle.dumps(recipe)) for recipe in recipes])


class ElsewhereCrew(SerialCrew):
    def ask_one(self, k, message):
        return pickle.loads(pickle.dumps(super().ask_one(k, pickle.loads(pickle.dumps(message)))))


@given(st.data())
def test_blocks_that_are_sent_elsewhere_answer_the_same(data):
    energy = data.draw(energies(most=40))
    blocks = data.draw(partitions(energy))
    here, there = (
        dope.minimize(energy, blocks=blocks, method=Admm(rounds=3, bound=0), executor=executor)
        for executor in (Serial(), Elsewhere())
    )
    assert np.array_equal(here.labels, there.labels)
    assert [step.energy for step in here.trace] == [step.energy for step in there.trace]


def test_a_recipe_takes_along_its_own_data_only():
    energy = Energy.grid(np.zeros((100, 100)), features=np.zeros((100, 100, 3)), lam=1.0)
    excerpt = energy.unread_excerpt(Partition.grid(energy.shape, 100), 55)
    recipe = BlockRecipe(excerpt, 55, (), Minimizers(MaxFlow()), None, "a run")
    assert len(pickle.dumps(recipe)) < len(pickle.dumps(energy)) / 20


@pytest.mark.parametrize("executor", [Serial(), Threads(2)], ids=str)
def test_who_is_sent_nothing_is_left_alone_and_what_the_others_do_is_told(executor):
    told, here = [], threading.get_ident()

    def done(k, reply):
        assert threading.get_ident() == here
        told.append((k, reply))

    with executor.gather([Busy(hard_energy(4))] * 4) as crew:
        replies = crew.ask([None, 0.0, None, 0.001], begun=lambda k: told.append((k, None)), done=done)
    assert replies == [None, 0.0, None, 0.001]
    assert len(told) == 4
    for k, reply in [(1, 0.0), (3, 0.001)]:
        assert told.index((k, None)) < told.index((k, reply))


def test_serial_blocks_begin_when_those_before_are_done():
    told = []
    with Serial().gather([Busy(hard_energy(4))] * 3) as crew:
        crew.ask([0.0] * 3, begun=lambda k: told.append((k, "begun")), done=lambda k, _: told.append((k, "done")))
    assert told == [(k, what) for k in range(3) for what in ("begun", "done")]


@dataclass(frozen=True)
class Looping:
    """Opens to a worker that goes round in Python until it is cancelled, after telling that it has begun."""

    begun: threading.Semaphore
    ended: list

    def open(self):
        return self._work

    def _work(self, _):
        self.begun.release()
        try:
            while True:
                check_cancelled()
                time.sleep(0.001)
        finally:
            self.ended.append(threading.get_ident())


@pytest.mark.parametrize("executor", [Serial(), Threads(2)], ids=str)
@pytest.mark.parametrize("blocks", [1, 4])
@pytest.mark.parametrize("kind", ["core", "python"])
def test_cancel_ends_a_round_and_leaves_nobody_at_work(executor, blocks, kind):
    begun, ended, after = threading.Semaphore(0), [], []
    recipes = {"core": [Busy(hard_energy(200))] * blocks, "python": [Looping(begun, ended)] * blocks}[kind]
    at_once = min(blocks, executor.workers)
    cancellation = Cancellation()

    def cancel():
        for _ in range(at_once):
            begun.acquire(timeout=FOR_EVER)
        cancellation.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with executor.gather(recipes) as crew:
        tell = (lambda _: begun.release()) if kind == "core" else None
        with cancellation, pytest.raises(Cancelled):
            crew.ask([FOR_EVER] * blocks, begun=tell, done=lambda *_: after.append(1))
        if kind == "python":
            assert len(ended) == at_once  # when it raises, they have stopped, and nobody else has begun
        with cancellation, pytest.raises(Cancelled):  # for good
            crew.ask([0.0] * blocks, begun=after.append)
        assert not after
        if kind == "core":  # the crew itself lives on
            assert crew.ask([0.0] * blocks) == [0.0] * blocks
    canceller.join()
    assert not at_work()


@pytest.mark.parametrize("executor", [Serial(), Threads(2)], ids=str)
def test_a_round_that_is_done_when_it_is_cancelled_is_done(executor):
    with Cancellation() as cancellation, executor.gather([Busy(hard_energy(4))] * 2) as crew:
        assert crew.ask([0.0, None], done=lambda *_: cancellation.cancel()) == [0.0, None]
        with pytest.raises(Cancelled):
            crew.ask([0.0, None])


def test_threads_enter_what_the_calling_thread_has_entered():
    with Cancellation() as outer, Cancellation() as inner, Threads(2).gather([Entered()] * 2) as crew:
        for found in crew.ask([0, 0]):
            assert found[:2] == (outer, inner)
    assert entered() == ()


@dataclass(frozen=True)
class Entered:
    def open(self):
        return lambda _: entered()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no word here on which cores a process may use")
def test_threads_are_as_many_as_the_cores_that_may_be_used():
    one = min(os.sched_getaffinity(0))
    words = f"import os; os.sched_setaffinity(0, [{one}]); import dope; print(dope.Threads().workers)"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
