"""What every executor lives up to: bit for bit what `Serial` gives. A new one is one word in the list.

That a whole run gives the same with each of them is in `test_every_method.py`.
"""

import pickle
import threading
import time
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dope import Dask, Energy, Executor, Futures, MaxFlow, Partition, Serial, Threads
from dope.cancellation import Cancellation, Cancelled
from pools import processes, threads
from problems import energies, partitions
from profiles import examples
from recipes import Faulty, Named, Reversing, Slow

EXECUTORS: list[Executor] = [
    Serial(),
    Threads(1),
    Threads(2),
    Threads(5),
    Threads(),
    Futures(threads),
    Futures(processes),
    Dask("local:2"),
]
# The same for those that share memory with the tests: nothing is started, so they can be asked a thousand times.
HERE = [executor for executor in EXECUTORS if not executor.elsewhere]
ELSEWHERE = [executor for executor in EXECUTORS if executor.elsewhere]


@contextmanager
def opened(executor):
    """What an executor starts when it is first asked ends here."""
    if isinstance(executor, Dask):
        pytest.importorskip("distributed")
    if isinstance(executor, AbstractContextManager):
        with executor:
            yield executor
    else:
        yield executor


@pytest.fixture(scope="module", params=EXECUTORS, ids=str)
def executor(request):
    with opened(request.param) as executor:
        yield executor


def test_replies_come_in_the_order_of_messages(executor):
    with executor.gather([Named(k) for k in range(7)]) as crew:
        for messages in (list(range(7)), list("abcdefg"), [("a", k) for k in range(7)]):
            assert crew.ask(messages) == list(enumerate(messages))


def test_who_is_late_is_not_taken_for_another(executor):
    seconds = [0.1, 0.0, 0.05, 0.0]
    with executor.gather([Slow()] * 4) as crew:
        assert crew.ask(seconds) == seconds


def test_who_is_sent_nothing_is_left_alone(executor):
    with executor.gather([Faulty(ValueError("opened")), Named(1), Faulty(ValueError("opened")), Named(3)]) as crew:
        assert crew.ask([None, "a", None, "b"]) == [None, (1, "a"), None, (3, "b")]
        assert crew.ask([None] * 4) == [None] * 4


def test_nobody_to_ask(executor):
    with executor.gather([]) as crew:
        assert crew.ask([]) == []


def test_arrays_arrive_as_they_were(executor):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=n) for n in (1, 3, 1000)] + [np.arange(5, dtype=np.uint8), np.zeros(3, dtype=bool)]
    given = [array.copy() for array in arrays]
    with executor.gather([Reversing()] * len(arrays)) as crew:
        for reply, array, before in zip(crew.ask(arrays), arrays, given, strict=True):
            np.testing.assert_array_equal(array, before)
            np.testing.assert_array_equal(reply, array[::-1])
            assert reply.dtype == array.dtype
            reply[...] = 0  # it is the caller's own


def test_what_a_worker_raises_is_raised_and_the_crew_goes_on(executor):
    with executor.gather([Faulty()] * 4) as crew:
        for _ in range(2):
            with pytest.raises(KeyError, match="block 2"):
                crew.ask([1, 2, KeyError("block 2"), 3])
            assert crew.ask([1, 2, 3, 4]) == [1, 2, 3, 4]


def test_what_opening_raises_is_raised(executor):
    with (
        executor.gather([Faulty(), Faulty(KeyError("does not open"))]) as crew,
        pytest.raises(KeyError, match="does not open"),
    ):
        crew.ask([1, 2])


def test_a_crew_leaves_no_thread(executor):
    before = set(threading.enumerate())
    for failing in (False, True):
        try:
            with executor.gather([Faulty()] * 4) as crew:
                crew.ask([1, KeyError("block 1") if failing else 2, 3, 4])
        except KeyError:
            assert failing
        left = {thread for thread in set(threading.enumerate()) - before if thread.name.startswith("dope")}
        assert not left


def test_an_executor_says_how_many_work_at_once(executor):
    with executor.gather([Named(0)]) as crew:
        crew.ask([0])
        assert executor.workers >= 1
    assert executor.elsewhere in (False, True)


def test_every_block_is_told_to_begin_and_to_end_once(executor):
    begun, done, here = [], [], threading.get_ident()
    with executor.gather([Named(k) for k in range(5)]) as crew:
        crew.ask(
            ["a", None, "b", "c", None],
            begun=begun.append,
            done=lambda k, reply: done.append((k, reply, threading.get_ident())),
        )
    assert sorted(begun) == [0, 2, 3]
    assert sorted(done) == [(0, (0, "a"), here), (2, (2, "b"), here), (3, (3, "c"), here)]


def test_who_is_cancelled_does_not_wait(executor):
    cancellation = Cancellation()
    with executor.gather([Slow()] * 20) as crew:
        crew.ask([0.0] * 20)  # whatever it starts is there
        timer = threading.Timer(0.2, cancellation.cancel)
        timer.start()
        begun = time.perf_counter()
        with pytest.raises(Cancelled), cancellation:
            crew.ask([1.0] * 20)
        timer.join()
    assert time.perf_counter() - begun < 5.0  # all of it would take more, one after the other, or by twos


@pytest.mark.parametrize("executor", HERE, ids=str)
def test_every_executor_survives_pickling(executor):
    again = pickle.loads(pickle.dumps(executor))
    assert again == executor and hash(again) == hash(executor) and repr(again) == repr(executor)


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
@examples(20)
def test_whole_costs_have_the_same_labels_with_any_executor_and_width(energy, data):
    partition = data.draw(partitions(energy)).alone()
    number = len(partition.blocks)
    found = []
    for executor in HERE:
        for bits in (None, 16, 32, 64):
            with executor.gather([SolveBlock(energy, partition, k, bits) for k in range(number)]) as crew:
                found.append([crew.ask([factor] * number) for factor in (1.0, -2.0, 1.0)])
    for rounds in found:
        for labels, expected in zip(rounds, found[0], strict=True):
            for one, other in zip(labels, expected, strict=True):
                np.testing.assert_array_equal(one, other)
