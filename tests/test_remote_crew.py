"""Crews on other machines, with a cluster of threads: what is handed out, lost, sent again, waited for and given up."""

import pickle
import queue
import threading
import time
from concurrent import futures
from dataclasses import dataclass

import pytest

from dope import DopeError
from dope.cancellation import Cancellation, Cancelled, check_cancelled
from dope.executors import heartbeat, remote_crew
from dope.executors.remote_crew import RemoteCrew
from dope.executors.remote_worker import forget
from dope.executors.transport import Member, Transport, Unreadable

LONG = 30.0  # a test that waits for so long has failed


class Task:
    """One that was sent; nobody needs to be told that its answer is of no interest."""

    released = False

    def release(self):
        self.released = True


class Cluster:
    """Workers that are threads: each can be killed or fall silent, and the connection to all can be lost."""

    title = "the cluster of threads"
    advice = "Start threads."

    def __init__(self, *workers):
        self.connected, self.can_reconnect = True, True
        self.released, self.sent = [], []
        self._workers = {}
        for name in workers:
            self.start(name)

    def start(self, name, *, answer=pickle.loads):
        worker = Worker(answer)
        self._workers[name] = worker
        threading.Thread(target=worker.run, daemon=True).start()

    def kill(self, name):
        self._workers.pop(name).tasks.put(None)

    def silence(self, name):
        self._workers[name].answers.clear()

    def restore(self, name):
        self._workers[name].answers.set()

    def lose(self, *, for_good=False):
        self.connected, self.can_reconnect = False, not for_good
        for name in list(self._workers):
            self.kill(name)

    def close(self):
        for worker in self._workers.values():
            worker.answers.set()
            worker.tasks.put(None)

    # The transport.

    def open(self):
        pass

    def reconnect(self):
        if self.can_reconnect:
            self.start("new")
            self.connected = True

    def look(self):
        now = time.monotonic()
        found = futures.Future()
        found.set_result({name: Member(1, True, "running", now) for name in self._workers})
        return found

    def submit(self, task, *, name, worker, deliver):
        self.sent.append((worker, name))
        if worker in self._workers:
            self._workers[worker].tasks.put((task, deliver))
        return Task()

    def release(self, run, workers):
        self.released.append(set(workers))
        forget(run)
        told = futures.Future()
        told.set_result(None)
        return told


class Worker:
    def __init__(self, answer):
        self.tasks, self.answers, self._answer = queue.SimpleQueue(), threading.Event(), answer
        self.answers.set()

    def run(self):
        while (item := self.tasks.get()) is not None:
            task, deliver = item
            answer = self._answer(task)
            self.answers.wait(LONG)
            deliver(answer)


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(heartbeat, "SECONDS_BETWEEN_LOOKS", 0.01)


@pytest.fixture
def pair():
    cluster: Transport = Cluster("one", "other")
    yield cluster
    cluster.close()


@dataclass(frozen=True)
class Echo:
    name: int

    def open(self):
        return lambda message: (self.name, message)


def echoes(cluster, number, patience=LONG):
    return RemoteCrew(cluster, [Echo(k) for k in range(number)], patience)


def once(work):
    """work() at the first call of what this gives."""
    todo = [work]
    return lambda *_: todo.pop()() if todo else None


def test_replies_come_in_order_and_what_workers_do_is_told(pair):
    begun, told = [], []
    with echoes(pair, 5) as crew:
        replies = crew.ask(["a", None, "b", "c", None], begun=begun.append, done=lambda k, r: told.append((k, r)))
        assert replies == [(0, "a"), None, (2, "b"), (3, "c"), None]
        assert sorted(begun) == [0, 2, 3]
        assert sorted(told) == [(k, replies[k]) for k in sorted(begun)]
        assert {worker for worker, _ in pair.sent} == {"one", "other"}
    assert pair.released == [{"one", "other"}]


def test_blocks_of_a_worker_that_is_gone_are_sent_elsewhere(pair):
    begun = []
    pair.silence("one")  # so that it has something when it goes
    with echoes(pair, 6) as crew:
        replies = crew.ask(list(range(6)), begun=begun.append, done=once(lambda: pair.kill("one")))
        assert replies == [(k, k) for k in range(6)]
        assert crew.statistics.resubmitted > 0
    assert sorted(begun) == list(range(6))  # each once, however often it was sent


@dataclass(frozen=True)
class Sleeper:
    def open(self):
        return time.sleep


def test_who_is_silent_is_not_waited_for_and_trusted_again_when_he_answers(pair):
    def asked():
        before = len(pair.sent)
        assert crew.ask([0.1] * 4) == [None] * 4
        return {worker for worker, _ in pair.sent[before:]}

    pair.silence("one")
    with RemoteCrew(pair, [Sleeper()] * 4, 1.0) as crew:
        assert asked() == {"one", "other"}
        assert crew.statistics.resubmitted > 0
        assert asked() == {"other"}
        pair.restore("one")
        end = time.monotonic() + LONG
        while asked() == {"other"}:
            assert time.monotonic() < end


def test_what_was_with_a_cluster_that_was_lost_is_sent_again(pair):
    with echoes(pair, 6) as crew:
        assert crew.ask(list(range(6)), done=once(pair.lose)) == [(k, k) for k in range(6)]
        assert {worker for worker, _ in pair.sent} >= {"new"}


def test_what_could_not_be_sent_is_sent_when_the_cluster_is_back(pair):
    submit, lose = pair.submit, once(pair.lose)

    def fail_at_first(*task, **where):
        lose()
        return submit(*task, **where) if pair.connected else None

    pair.submit = fail_at_first
    with echoes(pair, 6) as crew:
        assert crew.ask(list(range(6))) == [(k, k) for k in range(6)]
        assert {worker for worker, _ in pair.sent} == {"new"}


def test_no_wait_is_without_a_limit(pair):
    with echoes(pair, 6, patience=0.1) as crew, pytest.raises(DopeError, match="connection to the cluster of threads"):
        crew.ask(list(range(6)), done=once(lambda: pair.lose(for_good=True)))
    nobody = Cluster()
    with echoes(nobody, 1, patience=0.1) as crew, pytest.raises(DopeError, match=r"there: none\). Start threads"):
        crew.ask([0])
    nobody.look = futures.Future  # type: ignore[method-assign]
    with echoes(nobody, 1, patience=0.1) as crew, pytest.raises(DopeError, match="has not answered for 0 s"):
        crew.ask([0])


def test_a_block_that_kills_its_workers_is_given_up(monkeypatch):
    monkeypatch.setattr(remote_crew, "MOST_LOSSES", 3)
    cluster = Cluster()
    cluster.start("fragile", answer=lambda _: RuntimeError("the worker died"))
    with echoes(cluster, 1) as crew, pytest.raises(DopeError, match="block 0 was lost 3 times"):
        crew.ask([0])
    cluster.close()


def test_a_worker_that_cannot_read_is_named():
    cluster = Cluster()
    cluster.start("poor", answer=lambda _: Unreadable(ImportError("no module named solver")))
    with echoes(cluster, 1) as crew, pytest.raises(DopeError, match=r"worker poor cannot read.*no module named solver"):
        crew.ask([0])
    cluster.close()


@dataclass(frozen=True)
class Looping:
    """Opens to a worker that goes round in Python until it is cancelled."""

    def open(self):
        def work(message):
            try:
                while message:
                    check_cancelled()
                    time.sleep(0.001)
            finally:
                ENDED.put(message)

        return work


ENDED = queue.SimpleQueue()


def test_cancel_ends_a_round_and_stops_the_workers(pair):
    cancellation, begun = Cancellation(), threading.Semaphore(0)

    def cancel_then():
        begun.acquire(timeout=LONG)
        begun.acquire(timeout=LONG)
        cancellation.cancel()

    threading.Thread(target=cancel_then).start()
    with RemoteCrew(pair, [Looping()] * 4, LONG) as crew:
        with cancellation, pytest.raises(Cancelled):
            crew.ask([True] * 4, begun=lambda _: begun.release())
        assert pair.released == [{"one", "other"}]
        with cancellation, pytest.raises(Cancelled):
            crew.ask([True] * 4)
        assert crew.ask([False] * 4) == [None] * 4  # they are free again
