"""Futures: whose executor it is, what breaks it, what its processes keep and hear; and what is refused."""

import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import dope
from dope import Admm, DopeError, Energy, Exact, Futures, InputError, Serial
from dope.cancellation import Cancellation, Cancelled
from dope.executors import futures, remote_crew, remote_worker
from dope.executors.remote_crew import RemoteCrew
from pools import processes, threads
from recipes import Faulty, Named, Slow

# Long enough that only who does not wait for it is done sooner, and soon over where a test has failed.
FOR_EVER = 60.0
AT_ONCE = 5.0
unix = pytest.mark.skipif(sys.platform == "win32", reason="processes are stopped and killed by signals")


@dataclass(frozen=True)
class Caller:
    """Opens to a worker that calls what it is sent; ballast makes it large."""

    ballast: bytes = b""

    def open(self):
        return lambda function: function()


@pytest.fixture(scope="module")
def pool():
    with processes() as executor:
        yield executor


def energy_of(side=24):
    rng = np.random.default_rng(0)
    return Energy.grid(rng.normal(size=(side, side)), lam=1.0)


# Whose executor it is.


def test_an_executor_that_is_given_is_left_open(pool):
    with Futures(pool) as executor, executor.gather([Named(0)]) as crew:
        assert crew.ask(["a"]) == [(0, "a")]
    assert pool.submit(os.getpid).result() != os.getpid()


def test_what_a_function_made_is_shut_down_and_made_again():
    made = []

    def make():
        made.append(ThreadPoolExecutor(1))
        return made[-1]

    executor = Futures(make)
    assert len(made) == 1
    for number in (1, 2):
        with executor, executor.gather([Named(0)] * 2) as crew:
            assert crew.ask(["a", "b"]) == [(0, "a"), (0, "b")]
        assert len(made) == number
        with pytest.raises(RuntimeError, match="shutdown"):
            made[-1].submit(print)


def test_what_nobody_refers_to_is_shut_down():
    made = iter([pool := ThreadPoolExecutor(1)])
    executor = Futures(lambda: next(made))
    del executor
    with pytest.raises(RuntimeError, match="shutdown"):
        pool.submit(print)


@pytest.mark.parametrize("make", [ThreadPoolExecutor, lambda: ProcessPoolExecutor(1)], ids=["threads", "processes"])
def test_an_executor_that_was_shut_down_is_named(make):
    given = make()
    executor = Futures(given)
    given.shutdown()
    told = rf"{type(given).__name__} takes no more work \(.*shutdown.*\).*not replaced.*give a function"
    with executor.gather([Named(k) for k in range(3)]) as crew:
        for _ in range(2):
            with pytest.raises(DopeError, match=told):
                crew.ask([1, 2, 3])


@unix
@pytest.mark.slow
def test_a_pool_that_was_given_and_breaks_is_named():
    with processes() as given, Futures(given).gather([Caller()] * 2) as crew:
        assert os.getpid() not in crew.ask([os.getpid] * 2)
        with pytest.raises(DopeError, match=r"takes no more work .*terminated abruptly.*give a function"):
            crew.ask([os.abort, os.getpid])


@unix
@pytest.mark.slow
def test_who_dies_whenever_he_starts_is_given_up():
    spawn = multiprocessing.get_context("spawn")
    with Futures(lambda: ProcessPoolExecutor(1, spawn, initializer=os._exit, initargs=(1,))) as executor:
        for _ in range(2):
            with (
                executor.gather([Named(0)]) as crew,
                pytest.raises(DopeError, match=r"broke 3 times before .*__main__"),
            ):
                crew.ask([0])


@dataclass(frozen=True)
class DiesAtFirst:
    """Ends its process the first few times that it is asked; a file says how often that was."""

    file: Path
    times: int

    def __call__(self):
        with self.file.open("ab+") as stream:
            stream.write(b".")
            number = stream.tell()
        if number <= self.times:
            os._exit(1)
        return number


@unix
@pytest.mark.slow
def test_processes_that_have_answered_may_be_killed_more_often(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    with Futures(lambda: ProcessPoolExecutor(1, spawn)) as executor, executor.gather([Caller()]) as crew:
        assert crew.ask([os.getpid]) != [os.getpid()]
        assert crew.ask([DiesAtFirst(tmp_path / "asked", 5)]) == [6]
        with pytest.raises(DopeError, match=r"broke \d+ times in a row, with no answer|was lost 10 times"):
            crew.ask([DiesAtFirst(tmp_path / "again", 100)])


def test_a_function_that_makes_no_executor_is_named():
    with pytest.raises(InputError, match=r"the function gave int, which has no submit"):
        Futures(int)
    with pytest.raises(DopeError, match=r"has made no executor \(full\)"):
        Futures(no_room)


def no_room():
    raise OSError("full")


# What is refused, and what it says of itself.


@pytest.mark.parametrize("thing", [None, 4, "local:2", Serial()], ids=repr)
def test_what_is_no_executor_is_refused(thing):
    with pytest.raises(
        InputError, match=r"has no submit.*expected an executor of concurrent\.futures.*ProcessPoolExec"
    ):
        Futures(thing)


@pytest.mark.parametrize("workers", [0, -1, True, 1.5, "two"])
def test_a_wrong_number_of_workers_is_refused(workers):
    with pytest.raises(InputError, match="workers is"):
        Futures(threads, workers)


@pytest.mark.parametrize("patience", [0, -1.0, float("nan"), float("inf"), "long"])
def test_a_wrong_patience_is_refused(patience):
    with pytest.raises(InputError, match="patience"):
        Futures(threads, patience=patience)


def test_a_client_of_dask_is_refused_in_favour_of_its_executor():
    distributed = pytest.importorskip("distributed")
    client = distributed.Client.__new__(distributed.Client)
    with pytest.raises(InputError, match=r"dope\.Dask\(client\)"):
        Futures(client)


class Here(Executor):
    """Does everything at once, in the calling thread; says nothing of its workers."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


def test_it_says_how_many_work_at_once_and_where(pool):
    assert (Futures(pool).workers, Futures(pool, 5).workers) == (2, 5)
    assert Futures(Here()).workers == dope.Threads().workers
    assert Futures(pool).elsewhere and Futures(Here()).elsewhere
    assert not Futures(threads).elsewhere
    assert repr(Futures(pool, patience=3.0)) == "Futures(ProcessPoolExecutor, 2, patience=3.0)"
    executor = Futures(threads, 3, patience=2.0)
    for again in (copy.copy(executor), pickle.loads(pickle.dumps(executor))):
        assert again == executor and repr(again) == "Futures(threads, 3, patience=2.0)"


def test_any_object_that_submits_will_do():
    before, threads_before = held(), set(threading.enumerate())
    with Futures(Here()).gather([Named(k) for k in range(20)]) as crew:
        assert crew.ask(list(range(20))) == [(k, k) for k in range(20)]
        assert held() == before + 20
    assert held() == before
    assert not set(threading.enumerate()) - threads_before


# Threads share memory.


def test_threads_share_memory_and_as_many_work_as_is_said():
    at_work, most, lock = [0], [0], threading.Lock()

    @dataclass(frozen=True)
    class Counting:
        def open(self):
            def work(_):
                with lock:
                    at_work[0] += 1
                    most[0] = max(most[0], at_work[0])
                time.sleep(0.01)
                with lock:
                    at_work[0] -= 1

            return work

    with ThreadPoolExecutor(4) as pool, Futures(pool, 2).gather([Counting()] * 12) as crew:
        crew.ask([0] * 12)
    assert most == [2]


def test_exact_minima_are_found_in_threads_and_by_another_way_elsewhere(pool):
    energy = energy_of()
    here = dope.minimize(energy, blocks=4, executor=Serial())
    in_threads = dope.minimize(energy, blocks=4, method=Exact(), executor=Futures(threads))
    there = dope.minimize(energy, blocks=4, executor=Futures(pool))
    with pytest.raises(InputError, match="Bracketing"):
        dope.minimize(energy, blocks=4, method=Exact(), executor=Futures(pool))
    for found in (in_threads, there):
        assert found.exact
        np.testing.assert_array_equal(found.labels, here.labels)


def test_who_waits_behind_others_in_a_pool_that_is_shared_is_cancelled_at_once():
    free, cancellation = threading.Event(), Cancellation()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(free.wait, FOR_EVER)
        threading.Timer(0.2, cancellation.cancel).start()
        with Futures(pool).gather([Named(k) for k in range(3)]) as crew:
            begun = time.monotonic()
            with cancellation, pytest.raises(Cancelled):
                crew.ask([0, 1, 2])
            assert time.monotonic() - begun < AT_ONCE
        free.set()


# What processes keep, and what they hear.


def held():
    return len(remote_worker.OPEN)


def test_open_blocks_are_found_again_and_forgotten_when_the_crew_leaves():
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        with Futures(pool).gather([Caller(bytes(2 * remote_crew.SMALL_RECIPE))] * 4) as crew:
            for _ in range(3):
                crew.ask([os.getpid] * 4)
            assert (crew.statistics.opened, crew.statistics.cache_hits) == (4, 8)
            assert pool.submit(held).result() == 4
        end = time.monotonic() + FOR_EVER
        while pool.submit(held).result():  # without a further task of ours
            assert time.monotonic() < end


def test_a_process_that_has_a_block_not_open_is_sent_it(pool):
    number = 6
    with Futures(pool).gather([Named(bytes(2 * remote_crew.SMALL_RECIPE))] * number) as crew:
        for round_ in range(8):
            assert [said for _, said in crew.ask([round_] * number)] == [round_] * number
        assert crew.statistics.opened <= 2 * number  # by each process once
        assert crew.statistics.opened + crew.statistics.cache_hits == 8 * number


def test_a_worker_that_does_not_see_the_file_hears_of_ended_runs_with_its_next_task(tmp_path):
    task = remote_worker.Task(dope.__version__, "earlier", ((0, pickle.dumps(Named(0)), pickle.dumps(1)),))
    before = held()
    futures.unpack(pickle.dumps(task), str(tmp_path / "not here"), ())
    assert held() == before + 1
    later = remote_worker.Task(dope.__version__, "later", ())
    futures.unpack(pickle.dumps(later), str(tmp_path / "not here"), ("earlier",))
    assert held() == before


def test_a_line_half_written_is_not_read(tmp_path):
    file = tmp_path / "ended"
    file.write_bytes(b"whole\nha")
    follower = threading.Thread(target=futures._follow, args=(file,), daemon=True)
    follower.start()
    end = time.monotonic() + FOR_EVER
    while "whole" not in remote_worker.OPEN._ended:
        assert time.monotonic() < end
        time.sleep(0.001)
    with file.open("ab") as more:
        more.write(b"lf\n")
    while "half" not in remote_worker.OPEN._ended:
        assert time.monotonic() < end
        time.sleep(0.001)
    assert not {"ha", "lf"} & set(remote_worker.OPEN._ended)
    file.unlink()  # as when the process that asked has ended
    follower.join(FOR_EVER)
    assert not follower.is_alive()


@pytest.mark.parametrize(("peak", "available", "short"), [(100, 100, False), (100, 10, True), (None, 10, False)])
def test_a_process_keeps_blocks_while_it_holds_a_part_of_the_memory(monkeypatch, peak, available, short):
    monkeypatch.setattr(remote_worker, "peak_bytes", lambda: peak)
    monkeypatch.setattr(remote_worker, "available_bytes", lambda: available)
    remote_worker._holds_much.cache_clear()
    assert remote_worker._holds_much(0) is short
    remote_worker._holds_much.cache_clear()


def test_without_cloudpickle_what_can_be_pickled_is_sent(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    assert pickle.loads(remote_worker.pickled("__main__", "a word")) == "__main__"
    with pytest.raises(InputError, match=r"the block \(function\) cannot be pickled. Install cloudpickle"):
        remote_worker.pickled(lambda: None, "the block")


# Waits have a limit.


@dataclass(frozen=True)
class Stopping:
    """Opens to a worker that stops its process."""

    folder: Path

    def open(self):
        def work(_):
            (self.folder / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGSTOP)

        return work


def start_both(executor):
    """However long it takes."""
    with executor.gather([Slow()] * 2) as crew:
        crew.ask([0.0] * 2)


def end_all(folder):
    for file in folder.iterdir():
        with suppress(ProcessLookupError):
            os.kill(int(file.name), signal.SIGKILL)


@unix
@pytest.mark.slow
def test_when_all_hang_one_is_told_and_closing_ends_them(tmp_path):
    with Futures(processes) as executor:
        start_both(executor)
        with (
            RemoteCrew(executor._link, [Stopping(tmp_path)] * 2, patience=0.5) as crew,
            pytest.raises(DopeError, match=r"block \d has not been answered .* a larger `patience`"),
        ):
            crew.ask([0, 0])
        begun = time.monotonic()
        executor.close()
        assert time.monotonic() - begun < 2 * AT_ONCE
        for file in tmp_path.iterdir():
            with pytest.raises(ProcessLookupError):
                os.kill(int(file.name), 0)
        with executor.gather([Named(k) for k in range(2)]) as crew:
            assert crew.ask("ab") == [(0, "a"), (1, "b")]


def run(script, **more):
    return subprocess.run(
        [sys.executable, script], check=False, capture_output=True, text=True, timeout=FOR_EVER, **more
    )


@unix
@pytest.mark.slow
@pytest.mark.parametrize("referred", [False, True])
def test_a_worker_that_hangs_does_not_keep_a_script_from_ending(tmp_path, referred):
    script, folder = tmp_path / "script.py", tmp_path / "stopped"
    folder.mkdir()
    script.write_text(
        textwrap.dedent(
            f"""
            if __name__ == "__main__":
                import sys
                from pathlib import Path
                sys.path[:] = {sys.path!r}
                import dope
                from pools import processes
                from dope.executors.remote_crew import RemoteCrew
                from test_futures import Stopping, start_both

                executor = dope.Futures(processes)
                start_both(executor)
                try:
                    RemoteCrew(executor._link, [Stopping(Path({str(folder)!r}))] * 2, patience=0.5).ask([0, 0])
                except dope.DopeError as error:
                    print("told", flush=True)
                if not {referred}:
                    del executor
            """
        )
    )
    try:
        assert run(script).stdout == "told\n"
        assert list(folder.iterdir())
    finally:
        end_all(folder)


@pytest.mark.slow
def test_a_script_may_have_classes_of_its_own_and_need_not_close(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            from concurrent.futures import ProcessPoolExecutor
            from dataclasses import dataclass
            from multiprocessing import get_context
            import sys
            import dope

            @dataclass(frozen=True)
            class Reply:
                text: str

            @dataclass(frozen=True)
            class Mine:
                def open(self):
                    return lambda message: Reply(message.text * 2)

            if __name__ == "__main__":
                for hidden in (False, True):
                    if hidden:
                        sys.modules["cloudpickle"] = None  # as where it is not installed
                    executor = dope.Futures(lambda: ProcessPoolExecutor(2, mp_context=get_context("spawn")))
                    crew = executor.gather([Mine()] * 2)
                    print(crew.ask([Reply("a"), Reply("b")]) == [Reply("aa"), Reply("bb")])
            """
        )
    )
    done = run(script)
    assert (done.stdout, done.stderr) == ("True\nTrue\n", "")


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_of_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            from concurrent.futures import ProcessPoolExecutor
            from dataclasses import dataclass
            from multiprocessing import get_context
            import dope

            @dataclass(frozen=True)
            class Mine:
                def open(self):
                    return abs

            dope.Futures(lambda: ProcessPoolExecutor(1, mp_context=get_context("spawn"))).gather([Mine()]).ask([1])
            """
        )
    )
    done = run(script)
    assert done.returncode
    assert "if __name__ == '__main__':" in done.stderr.splitlines()[-1]


# Executors of other packages.


@pytest.mark.slow
def test_the_executor_of_a_dask_client_will_do():
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(**settings) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        client.get_executor() as pool,
    ):
        check(Futures(pool, 2))


@pytest.mark.slow
def test_loky_will_do():
    loky = pytest.importorskip("loky")
    with Futures(lambda: loky.ProcessPoolExecutor(2)) as executor:
        check(executor)


def check(executor):
    energy, method = energy_of(), Admm(rounds=3, bound=0)
    here, there = (dope.minimize(energy, blocks=4, method=method, executor=one) for one in (Serial(), executor))
    np.testing.assert_array_equal(there.labels, here.labels)
    with executor.gather([Faulty()] * 3) as crew:
        with pytest.raises(KeyError, match="block 1"):
            crew.ask([0, KeyError("block 1"), 2])
        assert crew.ask([0, 1, 2]) == [0, 1, 2]
    with executor.gather([Slow()] * 4) as crew:
        assert crew.ask([0.05, 0.0, 0.05, 0.0]) == [0.05, 0.0, 0.05, 0.0]
