"""Volumes on a Dask cluster of real processes: the labels of `Exact()` to the bit, whoever dies on the way."""

import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dope
from clusters import job_cluster, kill
from dope import Admm, Dask, Energy, InputError
from dope.steps import Tasks
from test_bracketing import volume

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are stopped and killed by signals")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A volume in files, its energy there, and its labels."""
    folder = tmp_path_factory.mktemp("volume")
    unary, image = volume((60, 64, 56), noise=1.2)
    expected = dope.minimize(Energy.grid(unary, features=image, lam=0.7)).labels
    np.save(folder / "unary.npy", unary)
    np.save(folder / "image.npy", image)
    arrays = [np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("unary", "image")]
    return Energy.grid(arrays[0], features=arrays[1], lam=0.7), expected


def solved(energy, executor, **more):
    return dope.minimize(energy, blocks=(4, 4, 4), executor=executor, **more)


def test_files(cluster, stored, tmp_path):
    energy, expected = stored
    cluster.bring_to(2)
    with Dask(cluster.address, patience=30.0) as executor:
        out = np.lib.format.open_memmap(tmp_path / "out.npy", mode="w+", dtype=np.bool_, shape=energy.shape)
        result = solved(energy, executor, out=out)
        assert result.exact
        assert np.array_equal(np.load(tmp_path / "out.npy"), expected)
        tasks = result.trace[0].tasks
        assert tasks.statistics is not None
        assert len({task.worker for task in tasks.done}) == 2


@pytest.mark.slow
def test_arrays_in_memory(cluster, stored):
    _, expected = stored
    cluster.bring_to(2)
    with Dask(cluster.address, patience=30.0) as executor:
        unary, image = volume((60, 64, 56), noise=1.2)
        held = Energy.grid(unary, features=image, lam=0.7)
        result = solved(held, executor)
        assert result.exact
        assert np.array_equal(result.labels, expected)


def test_other_methods_say_what_they_need(cluster):
    cluster.bring_to(2)
    unary, image = volume((20, 20))
    energy = Energy.grid(unary, features=image, lam=0.7)
    with Dask(cluster.address) as executor:
        with pytest.raises(InputError, match="use Bracketing"):
            dope.minimize(energy, method=dope.Exact(), executor=executor, blocks=4)
        found = dope.minimize(energy, method=Admm(rounds=2), executor=executor, blocks=4)
    assert np.array_equal(found.labels, dope.minimize(energy, method=Admm(rounds=2, bound=0), blocks=4).labels)


def test_a_file_that_workers_cannot_see_is_named(cluster, tmp_path):
    cluster.bring_to(1)
    np.save(tmp_path / "unary.npy", np.ones((8, 8)))
    energy = Energy.grid(np.load(tmp_path / "unary.npy", mmap_mode="r"))
    (tmp_path / "unary.npy").unlink()
    with Dask(cluster.address) as executor, pytest.raises(InputError, match="file system that all workers share"):
        dope.minimize(energy, executor=executor, blocks=4)


@pytest.mark.slow
def test_workers_that_die_in_every_pass_are_not_missed(cluster, stored):
    energy, expected = stored
    cluster.bring_to(2)
    done = 0

    def kill_one(_):
        nonlocal done
        kill(cluster.workers.pop(0))
        cluster.start_worker()
        done += 1

    with Dask(cluster.address, patience=30.0) as executor:
        result = solved(energy, executor, watch=kill_one)
    assert done > 2
    assert result.exact
    assert np.array_equal(result.labels, expected)


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("both at once", marks=pytest.mark.slow),
        pytest.param("one hangs", marks=pytest.mark.slow),
        pytest.param("scheduler", marks=pytest.mark.slow),
    ],
)
def test_faults_in_the_middle_of_a_pass(cluster, stored, how):
    energy, expected = stored
    cluster.bring_to(2)
    hanging = []

    def strike():
        if how == "both at once":
            kill(*cluster.workers)
            cluster.start_worker()
        elif how == "one hangs":
            hanging.append(cluster.workers[0])
            hanging[0].send_signal(signal.SIGSTOP)
        else:
            cluster.kill_scheduler()
            cluster.start_scheduler()
            cluster.workers = []
            cluster.start_worker()

    timer = threading.Timer(0.4, strike)
    timer.start()
    try:
        with Dask(cluster.address, patience=3.0 if how == "one hangs" else 40.0) as executor:
            result = solved(energy, executor)
    finally:
        timer.join()
        kill(*hanging)
    assert result.exact
    assert np.array_equal(result.labels, expected)


@pytest.mark.slow
def test_a_cluster_of_jobs_in_a_folder_with_a_space(stored, tmp_path):
    pytest.importorskip("dask_jobqueue")
    energy, expected = stored
    (tmp_path / "with space").symlink_to(sys.prefix)
    python = tmp_path / "with space" / Path(sys.executable).relative_to(sys.prefix)
    with job_cluster(python) as jobs:
        jobs.scale(jobs=2)
        with distributed.Client(jobs, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
            result = solved(energy, Dask(client))
    assert np.array_equal(result.labels, expected)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_random_schedules_of_kills(cluster, stored, tmp_path, seed):
    """Kills, stops and late workers at random moments; some runs are broken off and resumed."""
    energy, expected = stored
    rng = np.random.default_rng(seed)
    cluster.bring_to(3)
    over, stopped = threading.Event(), []

    def strike():
        while not over.wait(float(rng.exponential(0.8))):
            alive = [worker for worker in cluster.workers if worker.poll() is None and worker not in stopped]
            fate = rng.random()
            if fate < 0.5 and alive:
                killed = alive[: int(rng.integers(1, len(alive) + 1))]
                kill(*killed)
                for _ in killed:
                    cluster.start_worker()
            elif fate < 0.65 and len(alive) > 1:
                stopped.append(alive[0])
                alive[0].send_signal(signal.SIGSTOP)
            else:
                cluster.start_worker()
            if time.monotonic() - begun > 15:
                return  # enough: let it end

    begun = time.monotonic()
    thread = threading.Thread(target=strike)
    thread.start()
    try:
        with Dask(cluster.address, patience=60.0) as executor:
            result = solved(energy, executor, checkpoint=tmp_path / "kept")
            again = solved(energy, executor, resume=tmp_path / "kept")
    finally:
        over.set()
        thread.join()
        for worker in stopped:
            worker.send_signal(signal.SIGCONT)
        kill(*cluster.workers)
    assert np.array_equal(result.labels, expected)
    assert np.array_equal(again.labels, expected)


@pytest.mark.parametrize("board", ["memory", pytest.param("folder", marks=pytest.mark.slow)])
def test_admm_in_other_processes_has_the_trace_of_one_in_memory(cluster, tmp_path, board):
    unary, image = volume((20, 22, 18), noise=1.2)
    np.save(tmp_path / "unary.npy", unary)
    np.save(tmp_path / "image.npy", image)
    arrays = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("unary", "image")]
    weights = np.where(np.arange(16) % 3, 0.2, -0.1)
    pairs = [
        (Energy.grid(unary, features=image, lam=0.7), Energy.grid(arrays[0], features=arrays[1], lam=0.7), None),
        (Energy.grid(unary, weights=weights, kernel=5), Energy.grid(arrays[0], weights=weights, kernel=5), 1),
    ]
    cluster.bring_to(2)
    with Dask(cluster.address, patience=30.0) as executor:
        for number, (held, far, overlap) in enumerate(pairs):
            settings = {"method": Admm(bound=0, rounds=3), "blocks": (2, 2, 1), "overlap": overlap}
            kept = {"checkpoint": tmp_path / f"kept-{number}"} if board == "folder" else {}
            expected = dope.minimize(held, **settings)
            result = dope.minimize(far, executor=executor, **settings, **kept)
            assert result.plan.in_boxes
            assert _told(result) == _told(expected)
            assert result.energy == expected.energy
            assert np.array_equal(result.labels, expected.labels)


def _told(result):
    return [replace(step, seconds=0.0, tasks=Tasks(())) for step in result.trace]
