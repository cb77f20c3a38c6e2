"""Dask: the replies of Serial, from other processes; what is kept there, what is refused, and what is told when."""

import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import dope
from dope import Admm, Dask, DopeError, Energy, InputError, LsaTr, MaxFlow, MissingExtraError, Partition, Serial
from dope.cancellation import Cancellation, Cancelled, check_cancelled
from dope.executors import remote_crew, remote_worker
from dope.protocols import Executor

distributed = pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")

# Long enough that only who does not wait for it is done sooner, and soon over where a test has failed.
FOR_EVER = 20.0
AT_ONCE = 3.0


@dataclass(frozen=True)
class Echo:
    """Opens to a worker that says who asked what; ballast makes it large."""

    name: object
    ballast: bytes = b""

    def open(self):
        return lambda message: (self.name, message)


@dataclass(frozen=True)
class Sleeper:
    """Opens to a worker that sleeps for so many seconds, and then tells in which process."""

    def open(self):
        def work(seconds):
            time.sleep(seconds)
            return os.getpid()

        return work


@dataclass(frozen=True)
class Faulty:
    """Opens to a worker that raises what it is sent; or does not open."""

    error: Exception | None = None

    def open(self):
        if self.error is not None:
            raise self.error

        def work(message):
            if isinstance(message, Exception):
                raise message
            return message

        return work


class UnsendableError(Exception):
    def __init__(self, one, other):
        super().__init__(one + other)


def raise_unsendable():
    raise UnsendableError("can be ", "pickled, but not read")


@dataclass(frozen=True)
class Caller:
    """Opens to a worker that calls what it is sent."""

    def open(self):
        return lambda function: function()


def grid_energy(side=40, *, lam=1.0):
    rng = np.random.default_rng(0)
    unary, features = rng.normal(size=(2, side, side))
    return Energy.grid(unary, lam=lam, kernel=[(0, 1), (1, 0)], features=features, beta=0.1)


def graph_energy():
    rng = np.random.default_rng(1)
    first = rng.integers(0, 100, 300)
    second = (first + rng.integers(1, 100, 300)) % 100
    return Energy.graph(rng.normal(size=100), np.stack([first, second], axis=1), rng.normal(size=300))


@pytest.fixture(scope="module")
def local():
    with Dask("local:2") as executor:
        executor.gather([])  # some tests look at its client
        yield executor


def assert_same(one, other):
    assert np.array_equal(one.labels, other.labels)
    assert [step.energy for step in one.trace] == [step.energy for step in other.trace]
    assert [step.residual for step in one.trace] == [step.residual for step in other.trace]


@pytest.mark.parametrize(
    ("energy", "solver"),
    [
        pytest.param(grid_energy(), MaxFlow(), id="attractive"),
        pytest.param(grid_energy(lam=-0.3), LsaTr(), id="repulsive", marks=pytest.mark.slow),
        pytest.param(graph_energy(), dope.Qpbo(), id="graph"),
    ],
)
def test_blocks_elsewhere_answer_as_blocks_here(local, energy, solver):
    here, there = (
        dope.minimize(energy, blocks=8, method=Admm(rounds=3, bound=0), solver=solver, executor=executor)
        for executor in (Serial(), local)
    )
    assert_same(here, there)


def test_it_is_an_executor(local):
    executor: Executor = local
    assert executor.workers == 2
    assert executor.elsewhere


def test_who_is_sent_nothing_is_left_alone_and_what_the_others_do_is_told_here(local):
    begun, told = [], []

    def done(k, reply):
        assert k in begun
        told.append((k, reply, threading.get_ident()))

    with local.gather([Echo(k) for k in range(4)]) as crew:
        replies = crew.ask([None, "a", None, "b"], begun=begun.append, done=done)
        assert replies == [None, (1, "a"), None, (3, "b")]
        assert crew.ask([None] * 4, begun=begun.append, done=done) == [None] * 4
    assert sorted(begun) == [1, 3]
    assert sorted(told) == [(k, (k, text), threading.get_ident()) for k, text in ((1, "a"), (3, "b"))]


@pytest.mark.parametrize("ballast", [10, 10 * remote_crew.SMALL_RECIPE], ids=["small", "large"])
def test_an_open_block_is_found_again_and_what_is_large_travels_once(local, ballast):
    with local.gather([Echo(k, bytes(ballast)) for k in range(6)]) as crew:
        assert crew.ask(list(range(6))) == [(k, k) for k in range(6)]
        first = crew.statistics
        assert (first.opened, first.cache_hits, first.tasks) == (6, 0, 6)
        sent = first.bytes_sent
        assert sent > 6 * ballast
        for _ in range(3):
            assert crew.ask(list(range(6))) == [(k, k) for k in range(6)]
        assert crew.statistics.cache_hits + crew.statistics.opened == 24
        assert crew.statistics.cache_hits > 0
        # A block may move where another worker is idle; then it travels once more.
        assert crew.statistics.bytes_sent - sent < (crew.statistics.opened - 6) * ballast + 50_000
        assert crew.statistics.resubmitted == 0
        assert crew.statistics.bytes_received > 0
        assert all(seconds > 0 for seconds in crew.statistics.seconds_by_worker.values())


def test_who_has_lost_a_block_says_so_and_is_sent_it_again(local):
    with local.gather([Echo(k, bytes(2 * remote_crew.SMALL_RECIPE)) for k in range(4)]) as crew:
        crew.ask(list(range(4)))
        local._link._client.run(_lose_all)
        assert crew.ask(list(range(4))) == [(k, k) for k in range(4)]
        assert crew.statistics.opened == 8


def _lose_all():
    remote_worker.OPEN._blocks.clear()


def _held():
    return len(remote_worker.OPEN._blocks)


def test_a_crew_that_leaves_is_forgotten(local):
    held = lambda: sum(local._link._client.run(_held).values())  # noqa: E731
    before = held()
    with local.gather([Echo(k) for k in range(6)]) as crew:
        crew.ask(list(range(6)))
        assert held() == before + 6
    assert held() == before


def test_few_blocks_are_a_task_each_and_many_are_grouped(local):
    for number, most in ((16, 16), (17, 9), (500, 16)):
        with local.gather([Echo(k) for k in range(number)]) as crew:
            assert crew.ask(list(range(number))) == [(k, k) for k in range(number)]
            assert crew.statistics.tasks <= most
            assert crew.statistics.opened == number


def test_what_is_large_is_not_grouped(local, monkeypatch):
    monkeypatch.setattr(remote_crew, "MOST_BYTES", 250_000)
    with local.gather([Echo(k, bytes(100_000)) for k in range(100)]) as crew:
        assert crew.ask(list(range(100))) == [(k, k) for k in range(100)]
        assert crew.statistics.tasks >= 33
        tasks = crew.statistics.tasks
        assert crew.ask(list(range(100))) == [(k, k) for k in range(100)]
        assert crew.statistics.tasks - tasks <= 20


def test_long_tasks_are_shared(local):
    with local.gather([Sleeper()] * 6) as crew:
        for _ in range(2):
            processes = crew.ask([0.0, 0.1, 0.1, 0.1, 0.1, 0.1])
            assert len(set(processes)) == 2


@pytest.mark.parametrize("error", [KeyError("block 1"), InputError("of its own"), MemoryError()], ids=repr)
@pytest.mark.parametrize("when", ["opened", "asked"])
def test_what_a_block_raises_is_passed_on(local, error, when):
    fails_to_open = error if when == "opened" else None
    with local.gather([Faulty(), Faulty(fails_to_open), Faulty()]) as crew:
        with pytest.raises(type(error)) as raised:
            crew.ask([1, error, 3])
        assert raised.value.args == error.args
        assert "block 1" in raised.value.__notes__[0]
        assert "Traceback" in raised.value.__notes__[0]
        if when == "asked":
            assert crew.ask([1, 2, 3]) == [1, 2, 3]


def test_an_error_that_cannot_be_read_here_is_told_in_words(local):
    with local.gather([Caller()]) as crew, pytest.raises(DopeError, match="can be pickled, but not read"):
        crew.ask([raise_unsendable])


@dataclass(frozen=True)
class Busy:
    """Opens to a worker that minimizes until so many seconds are over, unless it is cancelled; or fails."""

    energy: Energy

    def open(self):
        minimizer = MaxFlow(bits=32).prepare(self.energy)

        def work(message):
            if isinstance(message, Exception):
                time.sleep(0.3)
                raise message
            unary, end = self.energy.unary, time.monotonic() + message
            while time.monotonic() < end:
                minimizer.minimize(unary)
                unary = -unary
            return message

        return work


def test_a_block_that_fails_stops_the_others_at_once(local):
    with local.gather([Busy(grid_energy(200, lam=60.0))] * 4) as crew:
        begun = time.monotonic()
        with pytest.raises(KeyError, match="block 1"):
            crew.ask([FOR_EVER, KeyError("block 1"), FOR_EVER, FOR_EVER])
        assert crew.ask([0.0] * 4) == [0.0] * 4
        assert time.monotonic() - begun < 2 * AT_ONCE


@dataclass(frozen=True)
class Looping:
    """Opens to a worker that goes round in Python until it is cancelled, and writes down that it was."""

    folder: Path

    def open(self):
        def work(_):
            name = self.folder / f"{os.getpid()}"
            name.with_suffix(".begun").touch()
            try:
                while True:
                    check_cancelled()
                    time.sleep(0.001)
            except Cancelled:
                name.with_suffix(".cancelled").touch()
                raise

        return work


@pytest.mark.parametrize("kind", ["core", "python"])
def test_cancel_ends_a_round_and_stops_the_workers(local, kind, tmp_path):
    recipe = {"core": Busy(grid_energy(200, lam=60.0)), "python": Looping(tmp_path)}[kind]
    cancellation, begun, done = Cancellation(), threading.Semaphore(0), []

    def cancel():
        for _ in range(2):
            begun.acquire(timeout=FOR_EVER)
        end = time.monotonic() + FOR_EVER
        while kind == "python" and len(list(tmp_path.glob("*.begun"))) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        cancellation.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with local.gather([recipe] * 4) as crew:
        with cancellation, pytest.raises(Cancelled):
            crew.ask([FOR_EVER] * 4, begun=lambda _: begun.release(), done=done.append)
        with cancellation, pytest.raises(Cancelled):  # for good
            crew.ask([0.0] * 4, done=done.append)
    canceller.join()
    assert not done
    with local.gather([Echo(k) for k in range(4)]) as crew:  # they have stopped, so they are free for others
        assert crew.ask([0] * 4) == [(k, 0) for k in range(4)]
    if kind == "python":
        assert len(list(tmp_path.glob("*.begun"))) == len(list(tmp_path.glob("*.cancelled"))) == 2


def test_what_whoever_is_told_raises_is_raised(local):
    def stop(*_):
        raise ZeroDivisionError

    with local.gather([Echo(k) for k in range(4)]) as crew:
        with pytest.raises(ZeroDivisionError):
            crew.ask(list(range(4)), done=stop)
        with pytest.raises(ZeroDivisionError):
            crew.ask(list(range(4)), begun=stop)
        assert crew.ask(list(range(4))) == [(k, k) for k in range(4)]


@pytest.mark.slow
def test_whoever_is_told_may_take_his_time(local):
    pauses = [0.0, 0.0, 0.0, 2.0]
    with Dask(local._link._client, patience=1.0) as executor, executor.gather([Sleeper()] * 4) as crew:
        assert len(crew.ask([0.0, 0.2, 0.0, 0.2], done=lambda *_: time.sleep(pauses.pop()))) == 4


def test_what_cannot_be_pickled_is_named(local):
    with local.gather([Echo(threading.Lock())]) as crew, pytest.raises(InputError, match=r"block 0 \(Echo\) cannot be"):
        crew.ask([0])
    with local.gather([Echo(0)]) as crew, pytest.raises(InputError, match="message to block 0"):
        crew.ask([threading.Lock()])
    with local.gather([Caller()]) as crew, pytest.raises(InputError, match="reply of block 0"):
        crew.ask([threading.Lock])


def test_exact_minima_are_found_elsewhere(local):
    energy = grid_energy(lam=2.0)
    with pytest.raises(InputError, match="Bracketing"):
        dope.minimize(energy, blocks=4, method=dope.Exact(), executor=local)
    here, there = dope.minimize(energy), dope.minimize(energy, blocks=4, executor=local)
    assert there.exact
    assert np.array_equal(here.labels, there.labels)


def test_another_version_is_named_with_its_worker(local, monkeypatch):
    here = dope.__version__
    monkeypatch.setattr(dope, "__version__", "9.8.7")
    with local.gather([Echo(0)]) as crew, pytest.raises(DopeError, match=rf"tcp://.* has dope {here}.*dope 9\.8\.7"):
        crew.ask([0])


@pytest.mark.parametrize("address", ["local:", "local:0", "local:-1", "local:two", "local:1.5", "local"])
def test_a_wrong_number_of_processes_is_refused(address):
    with pytest.raises(InputError, match="local:4"):
        Dask(address)


@pytest.mark.parametrize("address", ["", "nowhere", "host:8786", "tcp://host", "http://host:80", "tcp://h:99999999"])
def test_a_wrong_address_is_refused(address):
    with pytest.raises(InputError, match="no address of a scheduler"):
        Dask(address)


@pytest.mark.parametrize("thing", [None, 4, Partition.grid((4, 4), 2)], ids=repr)
def test_what_is_no_client_is_refused(thing):
    with pytest.raises(InputError, match=r"expected a distributed\.Client"):
        Dask(thing)


@pytest.mark.parametrize("patience", [0, -1.0, float("nan"), float("inf"), "long"])
def test_a_wrong_patience_is_refused(patience):
    with pytest.raises(InputError, match="patience"):
        Dask("local:2", patience=patience)


def test_who_does_not_answer_is_named():
    begun = time.monotonic()
    executor = Dask("tcp://127.0.0.1:1")
    for attempt in (lambda: executor.gather([Echo(0)]), lambda: executor.workers):
        with pytest.raises(DopeError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1 .*dask scheduler"):
            attempt()
    assert time.monotonic() - begun < 2 * AT_ONCE


def test_of_plain_tcp_to_another_machine_one_is_warned():
    with pytest.warns(UserWarning, match=r"Dask runs whatever reaches its port.*tls://") as told:
        Dask("tcp://192.0.2.1:8786")
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for address in ("tcp://127.0.0.1:8786", "tcp://localhost:8786", "tcp://[::1]:8786", "tls://192.0.2.1:8786"):
            Dask(address)


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dope\[dask\]'"):
        Dask("local:2").gather([Echo(0)])


def test_a_client_is_used_and_left_open(local):
    client = local._link._client
    with Dask(client) as executor, executor.gather([Echo(0)]) as crew:
        assert executor.workers == 2
        assert crew.ask(["a"]) == [(0, "a")]
    assert client.status == "running"
    with executor.gather([Echo(0)]) as crew:
        assert crew.ask(["b"]) == [(0, "b")]


def test_a_client_that_is_closed_is_refused(local):
    client = distributed.Client(local._link._client.scheduler.address, set_as_default=False)
    client.close()
    with pytest.raises(InputError, match="the client is closed"):
        Dask(client)


def test_processes_of_its_own_listen_on_loopback_only(local):
    with local.gather([Caller()] * 2) as crew:
        crew.ask([os.getpid, os.getpid])
    this = psutil.Process()
    listening = [
        connection.laddr.ip
        for process in (this, *this.children(recursive=True))
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) >= 3
    assert set(listening) == {"127.0.0.1"}


@pytest.mark.slow
def test_what_is_closed_starts_again():
    with Dask("local:1") as executor:
        (first,) = executor.gather([Caller()]).ask([os.getpid])
        executor.close()
        (second,) = executor.gather([Caller()]).ask([os.getpid])
        assert first != second
    assert not psutil.pid_exists(second)


def test_the_blocks_kept_are_bounded(monkeypatch):
    monkeypatch.setattr(remote_worker, "MOST_OPEN_BLOCKS", 3)
    kept = remote_worker._OpenBlocks()
    kept.keep("earlier run", 0, print)
    for k in range(5):
        kept.keep("run", k, print)
    assert [kept.take("run", k) is not None for k in range(5)] == [True, True, True, False, False]
    kept.keep("run", 0, print)
    kept.forget("run")
    kept.keep("run", 1, print)  # by somebody who was late
    assert len(kept) == 0


def test_where_memory_is_short_nothing_is_kept(monkeypatch):
    monkeypatch.setattr(remote_worker, "_memory_is_short", lambda: True)
    kept = remote_worker._OpenBlocks()
    kept.keep("run", 0, print)
    assert len(kept) == 0


def test_to_read_a_task_is_to_do_it():
    message, recipe = pickle.dumps("a"), pickle.dumps(Echo(3))
    task = pickle.dumps(remote_worker.Task(dope.__version__, "run", ((3, recipe, message), (4, None, message))))
    version, seconds, results = pickle.loads(task)
    assert version == dope.__version__
    assert seconds > 0.0
    assert [(k, outcome) for k, outcome, *_ in results] == [(3, "opened"), (4, "missing")]
    assert pickle.loads(results[0][2]) == (3, "a")
    remote_worker.forget("run")


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], check=False, capture_output=True, text=True, timeout=60)


def test_dask_is_imported_when_it_is_used():
    done = run("-c", "import dope, sys; dope.Dask('local:2'); print({'dask', 'distributed'} & set(sys.modules))")
    assert (done.stdout, done.stderr) == ("set()\n", "")


@pytest.mark.slow
def test_a_script_may_have_classes_of_its_own_and_need_not_close(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            from dataclasses import dataclass
            import dope

            @dataclass(frozen=True)
            class Reply:
                text: str

            @dataclass(frozen=True)
            class Mine:
                def open(self):
                    return lambda message: Reply(message.text * 2)

            if __name__ == "__main__":
                crew = dope.Dask("local:2").gather([Mine()] * 2)
                print(crew.ask([Reply("a"), Reply("b")]) == [Reply("aa"), Reply("bb")])
            """
        )
    )
    done = run(script)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_script_without_a_guard_is_told_of_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import dope\ndope.Dask('local:1').gather([])\n")
    done = run(script)
    assert done.returncode
    assert "if __name__ == '__main__':" in done.stderr.splitlines()[-1]
