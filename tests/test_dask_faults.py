"""Dask when things go wrong: workers and schedulers that die, hang, come late or lack something; and Ctrl-C.

A process takes seconds to start, so the tests share a cluster, and each brings it to the workers it needs.
"""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import dope
from clusters import READY_SECONDS, Cluster, kill
from dope import Admm, Dask, DopeError, Serial
from dope.executors import heartbeat, remote_crew
from test_dask import Caller, Echo, Sleeper, assert_same, grid_energy

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are stopped and killed by signals")


@pytest.fixture
def pair(cluster):
    """The cluster with two workers."""
    cluster.bring_to(2)
    return cluster


def once(action):
    """To be called at the first reply, when others are under way."""
    todo = [action]
    return lambda *_: todo and todo.pop()()


def test_where_there_is_no_worker_one_is_told_how_to_start_some(cluster):
    cluster.bring_to(0)
    with Dask(cluster.address, patience=1.0) as executor, executor.gather([Echo(0)]) as crew:
        assert executor.workers == 1
        with pytest.raises(DopeError, match=rf"no worker .*there: none.*dask worker {cluster.address}"):
            crew.ask([0])


def test_a_worker_without_dope_is_named(cluster, tmp_path):
    without = tmp_path / "without.py"
    without.write_text("import sys; sys.modules['dope'] = None\n")
    cluster.bring_to(0)
    worker = cluster.start_worker(f"--preload={without}")
    cluster.await_workers(1)
    told = rf"worker tcp://127\.0\.0\.1:\d+ cannot read .*Install dope {dope.__version__}"
    with Dask(cluster.address) as executor, executor.gather([Echo(0)]) as crew, pytest.raises(DopeError, match=told):
        crew.ask([0])
    kill(worker)


def test_a_worker_that_dies_is_replaced_by_the_others(pair):
    dying, other = pair.workers
    with Dask(pair.address) as executor, executor.gather([Sleeper()] * 6) as crew:
        replies = crew.ask([0.2] * 6, done=once(lambda: kill(dying)))
        assert replies.count(other.pid) >= 4
        assert crew.statistics.resubmitted >= 1
        assert crew.ask([0.0] * 6) == [other.pid] * 6


@pytest.mark.slow
def test_when_all_have_died_a_new_one_goes_on(pair):
    def replace_all():
        kill(*pair.workers)
        pair.start_worker()

    with Dask(pair.address) as executor, executor.gather([Echo(k, bytes(100_000)) for k in range(6)]) as crew:
        crew.ask(list(range(6)))
        assert crew.ask(list("abcdef"), done=once(replace_all)) == list(enumerate("abcdef"))
        assert crew.statistics.resubmitted >= 1


@pytest.mark.slow
def test_a_method_goes_on_whoever_dies(pair):
    energy = grid_energy()
    method = Admm(rounds=6, patience=None, eps=0.0, bound=0)

    def watch(step):
        if step.round in (2, 4) and not step.sweep:
            kill(pair.workers.pop(0))
            pair.start_worker()

    with Dask(pair.address) as executor:
        there = dope.minimize(energy, blocks=8, method=method, executor=executor, watch=watch)
    assert_same(dope.minimize(energy, blocks=8, method=method, executor=Serial()), there)


@pytest.mark.slow
def test_a_worker_that_hangs_is_waited_for_once(pair):
    hanging, working = pair.workers
    with Dask(pair.address, patience=1.5) as executor, executor.gather([Sleeper()] * 6) as crew:
        crew.ask([0.0] * 6)
        begun = time.monotonic()
        replies = crew.ask([0.2] * 6, done=once(lambda: hanging.send_signal(signal.SIGSTOP)))
        assert 1.5 < time.monotonic() - begun < 8.0
        assert replies.count(working.pid) >= 4
        assert crew.statistics.resubmitted >= 1
        begun = time.monotonic()
        assert crew.ask([0.0] * 6) == [working.pid] * 6
        assert time.monotonic() - begun < 1.5
        hanging.send_signal(signal.SIGCONT)
        end = time.monotonic() + 8.0
        while hanging.pid not in crew.ask([0.2] * 4):  # trusted again
            assert time.monotonic() < end


@pytest.mark.slow
def test_a_scheduler_that_comes_back_is_found_again(pair):
    def restart():
        pair.kill_scheduler()
        pair.start_scheduler()
        pair.start_worker()

    with Dask(pair.address, patience=60) as executor, executor.gather([Echo(k) for k in range(6)]) as crew:
        crew.ask(list(range(6)))
        assert crew.ask(list("abcdef"), done=once(restart)) == list(enumerate("abcdef"))
        assert crew.ask(list(range(6))) == [(k, k) for k in range(6)]


@pytest.mark.slow
def test_ctrl_c_stops_the_blocks_and_spares_the_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            if __name__ == "__main__":
                import sys
                sys.path[:] = {sys.path!r}
                import dope
                from test_dask import Busy, grid_energy

                executor = dope.Dask("local:2")
                with executor, executor.gather([Busy(grid_energy(200, lam=60.0))] * 4) as crew:
                    crew.ask([0.0] * 4)
                    workers = set(crew.statistics.seconds_by_worker)
                    try:
                        print("ready", flush=True)
                        crew.ask([30.0] * 4)
                    except KeyboardInterrupt:
                        print("interrupted", flush=True)
                    crew.ask([0.0] * 4)
                    print(set(crew.statistics.seconds_by_worker) == workers, flush=True)
            """
        )
    )
    command = [sys.executable, script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as running:
        overdue = threading.Timer(READY_SECONDS, running.kill)  # who reads a line waits without end
        overdue.start()
        try:
            assert running.stdout.readline() == "ready\n"
            with pytest.raises(subprocess.TimeoutExpired):
                running.wait(0.5)
            begun = time.monotonic()
            os.killpg(running.pid, signal.SIGINT)  # as a terminal does
            assert running.stdout.readline() == "interrupted\n"
            assert running.stdout.readline() == "True\n"
            assert time.monotonic() - begun < 5.0
            assert running.wait(20) == 0
        finally:
            overdue.cancel()
            running.kill()


@pytest.mark.slow
def test_what_a_failed_test_leaves_is_cleared_away(cluster):
    """The tests' own cluster: whatever hangs or is gone, the next test finds what it needs."""
    for strike in (lambda process: process.send_signal(signal.SIGSTOP), kill):
        cluster.bring_to(1)
        for process in (cluster.scheduler, *cluster.workers):
            strike(process)
        cluster.start_again()
    cluster.bring_to(1)


@pytest.mark.slow
def test_a_worker_that_comes_late_gets_its_part(cluster):
    cluster.bring_to(1)
    with Dask(cluster.address) as executor, executor.gather([Sleeper()] * 40) as crew:
        assert len(set(crew.ask([0.2] * 40, done=once(cluster.start_worker)))) == 2
        assert len(set(crew.ask([0.1] * 40))) == 2


@pytest.mark.slow
def test_a_scheduler_that_is_away_for_long_is_found_again(pair):
    """Longer than Dask's own client tries."""

    def start_again():
        pair.start_scheduler()
        pair.start_worker()

    with Dask(pair.address, patience=60) as executor, executor.gather([Sleeper()] * 4) as crew:
        crew.ask([0.0] * 4)
        pair.kill_scheduler()
        later = threading.Timer(12.0, start_again)
        later.start()
        assert len(crew.ask([0.1] * 4)) == 4
        later.join()


@pytest.mark.slow
def test_a_scheduler_that_is_lost_is_not_waited_for_without_end(pair):
    with Dask(pair.address, patience=1.5) as executor, executor.gather([Sleeper()] * 6) as crew:
        begun = time.monotonic()
        with pytest.raises(DopeError, match=rf"connection to the Dask scheduler at {pair.address} was lost"):
            crew.ask([0.5] * 6, done=once(pair.kill_scheduler))
        assert time.monotonic() - begun < 10.0
    pair.start_scheduler()


@pytest.mark.slow
def test_a_scheduler_that_hangs_is_not_waited_for_without_end(pair):
    with Dask(pair.address, patience=1.5) as executor, executor.gather([Sleeper()] * 6) as crew:
        with pytest.raises(DopeError, match=rf"{pair.address} has not answered"):
            crew.ask([0.5] * 6, done=once(lambda: pair.scheduler.send_signal(signal.SIGSTOP)))
        pair.scheduler.send_signal(signal.SIGCONT)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates with openssl")
def test_tls_needs_certificates(tmp_path):
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    subprocess.run([*make, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    cluster = Cluster("tls", f"--tls-ca-file={certificate}", f"--tls-cert={certificate}", f"--tls-key={key}")
    tls = {"ca-file": certificate, "client.cert": certificate, "client.key": key}
    try:
        with dask.config.set({f"distributed.comm.tls.{name}": value for name, value in tls.items()}):
            cluster.bring_to(1)
            with Dask(cluster.address) as executor, executor.gather([Echo(k) for k in range(3)]) as crew:
                assert crew.ask(["a", "b", "c"]) == list(enumerate("abc"))
        for address in (cluster.address, cluster.address.replace("tls", "tcp")):
            with pytest.raises(DopeError, match="certificates"):
                Dask(address).gather([])
    finally:
        cluster.close()


@pytest.mark.slow
def test_a_worker_that_lives_may_be_late(cluster):
    cluster.bring_to(1)
    with Dask(cluster.address, patience=0.5) as executor, executor.gather([Sleeper()] * 2) as crew:
        crew.ask([2.0, 0.0])
        with pytest.raises(DopeError, match=r"block 1 has not been answered for .* a larger `patience`"):
            crew.ask([None, 20.0])
    cluster.bring_to(0)


@pytest.mark.slow
def test_when_the_only_worker_hangs_one_is_told(cluster, monkeypatch):
    monkeypatch.setattr(heartbeat, "HEARTBEAT_SECONDS", 2.0)
    cluster.bring_to(1)
    executor, told = Dask(cluster.address, patience=1.0), r"no worker .*there: 1 running"
    with executor, executor.gather([Sleeper()] * 2) as crew, pytest.raises(DopeError, match=told):
        crew.ask([0.0, 1.0], done=once(lambda: cluster.workers[0].send_signal(signal.SIGSTOP)))
    cluster.bring_to(0)


@pytest.mark.slow
def test_a_block_that_kills_its_workers_is_given_up(monkeypatch):
    monkeypatch.setattr(remote_crew, "MOST_LOSSES", 3)
    with Dask("local:1") as executor, executor.gather([Caller()]) as crew:
        with pytest.raises(DopeError, match=r"block 0 was lost 3 times: .* smaller blocks"):
            crew.ask([os.abort])
        assert crew.ask([os.getpid]) != [os.getpid()]


@pytest.mark.soak
def test_whatever_dies_the_replies_are_those_of_serial(cluster):
    rng = np.random.default_rng(0)
    energy, method = grid_energy(60), Admm(rounds=12, patience=None, eps=0.0, bound=0)
    here = dope.minimize(energy, blocks=12, method=method, executor=Serial())

    stopped = []

    def watch(_):
        chance = rng.random()
        if chance < 0.3:
            kill(cluster.workers.pop(0))
            cluster.start_worker()
        elif chance < 0.5:
            cluster.workers[-1].send_signal(signal.SIGSTOP)
            stopped.append(cluster.workers.pop())
            cluster.start_worker()
        elif chance < 0.7 and stopped:
            stopped[-1].send_signal(signal.SIGCONT)
            cluster.workers.append(stopped.pop())

    for _ in range(5):
        kill(*stopped)
        stopped.clear()
        cluster.bring_to(3)
        with Dask(cluster.address, patience=3) as executor:
            there = dope.minimize(energy, blocks=12, method=method, executor=executor, watch=watch)
        assert_same(here, there)
    kill(*stopped)
