"""What executors in other processes live up to when things go wrong: workers that die, hang or raise, cancel, Ctrl-C.

Real processes, which kill or stop themselves in the middle of a task: nothing depends on when. What only a scheduler
can suffer is in `test_dask_faults.py`.
"""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import dope
from dope import Admm, Bracketing, Dask, DopeError, Energy, Futures, InputError, MaxFlow, Serial
from dope.cancellation import Cancellation, Cancelled, check_cancelled
from dope.executors import remote_crew
from dope.executors.remote_crew import RemoteCrew
from pools import processes
from recipes import Faulty, Named, Slow
from test_every_executor import opened

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are stopped and killed by signals")

# Long enough that only who does not wait for it is done sooner, and soon over where a test has failed.
FOR_EVER = 60.0
AT_ONCE = 3.0
REMOTE = [Dask("local:2"), Futures(processes)]


@pytest.fixture(scope="module", params=REMOTE, ids=str)
def remote(request):
    with opened(request.param) as executor:
        yield executor


@pytest.fixture(params=REMOTE, ids=str)
def fresh(request):
    """For those who kill: where a worker of Dask's own dies while it starts, it stays away.

    Its processes are there, however long that takes.
    """
    with opened(replace(request.param)) as executor:
        with executor.gather([Slow()] * 2) as crew:
            crew.ask([0.0] * 2)
        yield executor


@dataclass(frozen=True)
class StruckOnce:
    """Opens to a worker that sleeps a while and says its name; the first to find no file gets a signal before that."""

    name: int
    file: Path
    signal: int

    def open(self):
        def work(message):
            try:
                with self.file.open("x") as file:
                    file.write(str(os.getpid()))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), self.signal)
            time.sleep(0.01)
            return self.name, message

        return work


@dataclass(frozen=True)
class Doomed:
    """Opens to a worker that kills its process if it is asked to."""

    def open(self):
        def work(dies):
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)
            return os.getpid()

        return work


def end(file):
    """Kill the process that wrote its number there."""
    with suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int(file.read_text()), signal.SIGKILL)


@pytest.mark.slow
def test_blocks_of_a_worker_that_is_killed_are_sent_again(fresh, tmp_path):
    begun = []
    with fresh.gather([StruckOnce(k, tmp_path / "struck", signal.SIGKILL) for k in range(6)]) as crew:
        assert crew.ask(list("abcdef"), begun=begun.append) == list(enumerate("abcdef"))
        assert crew.statistics.resubmitted >= 1
        assert crew.ask(list(range(6))) == [(k, k) for k in range(6)]
    assert sorted(begun) == list(range(6))


@pytest.mark.slow
@pytest.mark.parametrize("method", [Admm(rounds=4, patience=None, eps=0.0, bound=0), Bracketing()], ids=str)
def test_a_method_goes_on_whoever_is_killed(fresh, method):
    rng = np.random.default_rng(0)
    unary, features = rng.normal(size=(2, 40, 40))
    energy = Energy.grid(unary, lam=1.0, features=features, beta=0.1, kernel=[(0, 1), (1, 0)])

    def watch(step):
        if step.round == 1 and step.stopped is None:
            with fresh.gather([Doomed()]) as crew:
                os.kill(crew.ask([False])[0], signal.SIGKILL)

    here = dope.minimize(energy, blocks=8, method=method, executor=Serial())
    there = dope.minimize(energy, blocks=8, method=method, executor=fresh, watch=watch)
    np.testing.assert_array_equal(there.labels, here.labels)
    if isinstance(method, Admm):
        assert [step.energy for step in there.trace] == [step.energy for step in here.trace]
    else:  # a block that is opened again may send another of its maximal flows, and rounds be more or fewer
        assert (there.energy, there.lower_bound, there.exact) == (here.energy, here.lower_bound, True)


@pytest.mark.slow
def test_a_block_that_kills_its_workers_is_given_up(fresh, monkeypatch):
    monkeypatch.setattr(remote_crew, "MOST_LOSSES", 3)
    with fresh.gather([Doomed()] * 2) as crew:
        with pytest.raises(DopeError, match=r" 3 times.* smaller blocks"):
            crew.ask([None, True])
        assert os.getpid() not in crew.ask([False, False])


@pytest.mark.slow
def test_a_worker_that_hangs_is_not_waited_for(fresh, tmp_path):
    file, patience = tmp_path / "struck", 2.0
    recipes = [StruckOnce(k, file, signal.SIGSTOP) for k in range(6)]
    with RemoteCrew(fresh._link, recipes, patience) as crew:
        try:
            begun = time.monotonic()
            assert crew.ask(list("abcdef")) == list(enumerate("abcdef"))
            assert time.monotonic() - begun > patience
            assert crew.statistics.resubmitted >= 1
            begun = time.monotonic()
            assert crew.ask(list(range(6))) == [(k, k) for k in range(6)]
            assert time.monotonic() - begun < patience  # it is waited for once
        finally:
            end(file)


@pytest.mark.parametrize("error", [KeyError("block 1"), MemoryError()], ids=repr)
def test_what_a_worker_raises_comes_with_the_place(remote, error):
    with remote.gather([Faulty()] * 3) as crew:
        with pytest.raises(type(error)) as raised:
            crew.ask([1, error, 3])
        assert raised.value.args == error.args
        assert "block 1" in raised.value.__notes__[0] and "Traceback" in raised.value.__notes__[0]
        assert crew.ask([1, 2, 3]) == [1, 2, 3]


def test_what_cannot_be_pickled_is_named(remote):
    with remote.gather([Named(threading.Lock())]) as crew, pytest.raises(InputError, match=r"block 0 \(Named\) cannot"):
        crew.ask([0])
    with remote.gather([Named(0)]) as crew:
        with pytest.raises(InputError, match="message to block 0"):
            crew.ask([threading.Lock()])
        assert crew.ask([0]) == [(0, 0)]


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


@dataclass(frozen=True)
class Solving:
    """Opens to a worker that minimizes, in the core, for so many seconds."""

    folder: Path

    def open(self):
        rng = np.random.default_rng(0)
        unary, features = rng.normal(size=(2, 200, 200))
        energy = Energy.grid(unary, lam=60.0, features=features, beta=0.1, kernel=[(0, 1), (1, 0)])
        minimizer = MaxFlow(bits=32).prepare(energy)

        def work(seconds):
            (self.folder / f"{os.getpid()}.begun").touch()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                minimizer.minimize(unary)

        return work


def await_files(folder, pattern, number):
    end = time.monotonic() + FOR_EVER
    while len(list(folder.glob(pattern))) < number:
        assert time.monotonic() < end, f"no {number} files {pattern}"
        time.sleep(0.005)


@pytest.mark.parametrize("recipe", [Looping, Solving])
def test_cancel_ends_a_round_at_once_and_stops_the_workers(remote, recipe, tmp_path):
    cancellation, cancelled = Cancellation(), []

    def cancel():
        await_files(tmp_path, "*.begun", 2)
        cancelled.append(time.monotonic())
        cancellation.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with remote.gather([recipe(tmp_path)] * 4) as crew:
        with cancellation, pytest.raises(Cancelled):
            crew.ask([FOR_EVER] * 4)
        assert time.monotonic() - cancelled[0] < AT_ONCE
    canceller.join()
    begun = time.monotonic()
    with remote.gather([Named(k) for k in range(4)]) as crew:  # they have stopped, so they are free for others
        assert crew.ask([0] * 4) == [(k, 0) for k in range(4)]
    assert time.monotonic() - begun < AT_ONCE
    if recipe is Looping:
        await_files(tmp_path, "*.cancelled", 2)


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["Dask('local:2')", "Futures(processes)"])
def test_ctrl_c_stops_the_blocks_and_the_crew_goes_on(executor, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            if __name__ == "__main__":
                import sys
                from pathlib import Path
                sys.path[:] = {sys.path!r}
                from dope import Dask, Futures
                from pools import processes
                from test_executor_faults import Solving

                with {executor} as executor, executor.gather([Solving(Path({str(tmp_path)!r}))] * 4) as crew:
                    try:
                        crew.ask([{FOR_EVER}] * 4)
                    except KeyboardInterrupt:
                        print("interrupted", flush=True)
                    crew.ask([0.0] * 4)
                    print("asked again", flush=True)
            """
        )
    )
    command = [sys.executable, script]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **pipes, text=True, start_new_session=True) as running:
        overdue = threading.Timer(3 * FOR_EVER, running.kill)  # who reads a line waits without end
        overdue.start()
        try:
            await_files(tmp_path, "*.begun", 2)
            begun = time.monotonic()
            os.killpg(running.pid, signal.SIGINT)  # as a terminal does
            assert running.stdout.readline() == "interrupted\n"
            assert time.monotonic() - begun < AT_ONCE
            assert running.stdout.readline() == "asked again\n"
            assert running.wait(FOR_EVER) == 0
        finally:
            overdue.cancel()
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
