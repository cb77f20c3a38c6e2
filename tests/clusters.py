"""Dask clusters of real processes on loopback, whose workers and schedulers can be killed and stopped."""

import os
import shlex
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

READY_SECONDS = 60.0


class Cluster:
    """A scheduler and workers, each a process of its own; with options for all of them."""

    def __init__(self, scheme="tcp", *options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.address = f"{scheme}://127.0.0.1:{self._port}"
        self._options = [f"--protocol={scheme}", *options]
        self._started = []
        self.workers = []
        self.start_scheduler()

    def start_scheduler(self):
        self.scheduler = self._start("scheduler", f"--port={self._port}")

    def start_worker(self, *options):
        self.workers.append(
            self._start("worker", self.address, "--nthreads=1", "--no-nanny", "--no-dashboard", *options)
        )
        return self.workers[-1]

    def _start(self, what, *options):
        loopback = "--host=127.0.0.1", "--dashboard-address=127.0.0.1:0"
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *options, *loopback, *self._options]
        self._started.append(start_quietly(command))
        return self._started[-1]

    def bring_to(self, number):
        """So many workers: those that live, and as many new ones as are wanting."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        while len(self.workers) > number:
            kill(self.workers.pop())
        while len(self.workers) < number:
            self.start_worker()
        self.await_workers(number)

    def await_workers(self, number):
        end = time.monotonic() + READY_SECONDS
        while self._number_of_workers() != number:
            assert time.monotonic() < end, f"not {number} workers after {READY_SECONDS} s"
            time.sleep(0.1)

    def _number_of_workers(self):
        import distributed

        try:
            with distributed.Client(self.address, timeout=READY_SECONDS, set_as_default=False) as client:
                return len(client.scheduler_info()["workers"])
        except OSError:
            return None

    def kill_scheduler(self):
        kill(self.scheduler)
        for worker in self.workers:  # they leave with it, unless they hang
            try:
                worker.wait(READY_SECONDS)
            except subprocess.TimeoutExpired:
                kill(worker)

    def start_again(self):
        """Nothing of what was there is left, in whatever state it was."""
        self.close()
        self.start_scheduler()

    def close(self):
        kill(*self._started)
        self._started, self.workers = [], []


@contextmanager
def job_cluster(python):
    """dask-jobqueue's cluster, its jobs processes of this machine and of a Python, which end with it.

    Its own local jobs are split at every space, also in the path of Python, and are waited for without end, by pipes
    that stay open where one fails. These are split as a shell splits the script of any other queue.
    """
    from dask_jobqueue import local

    started = []

    class LocalJob(local.LocalJob):
        async def _submit_job(self, script_filename):
            started.append(start_quietly(shlex.split(Path(script_filename).read_text())))
            return str(started[-1].pid)

    class LocalCluster(local.LocalCluster):
        job_cls = LocalJob

    loopback = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    settings = {"cores": 1, "memory": "1GB", "python": shlex.quote(str(python)), "scheduler_options": loopback}
    try:
        with LocalCluster(**settings) as cluster:
            yield cluster
    finally:
        kill(*started)


def start_quietly(command):
    path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def kill(*processes):
    for process in processes:
        process.kill()
        process.wait(READY_SECONDS)
