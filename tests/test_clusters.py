"""The tests' own clusters: whatever ends a process that started one, nothing of it is left."""

import subprocess
import sys
import textwrap
import time

import pytest

psutil = pytest.importorskip("psutil")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="processes are stopped and killed by signals"),
]


@pytest.mark.parametrize("ending", ["os._exit(1)", "os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(0)"])
def test_a_cluster_ends_with_the_process_that_started_it(ending):
    program = textwrap.dedent(
        f"""
        import os, signal, sys
        sys.path[:] = {sys.path!r}
        from clusters import Cluster, start_quietly
        cluster = Cluster()
        started = [cluster.scheduler, cluster.start_worker(), start_quietly(["sleep", "1000"])]
        started[-1].send_signal(signal.SIGSTOP)
        print(*[process.pid for process in started], flush=True)
        {ending}
        """
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    started = [int(word) for word in done.stdout.split()]
    assert len(started) == 3
    end = time.monotonic() + 10.0
    while left := [pid for pid in started if _lives(pid)]:
        assert time.monotonic() < end, left
        time.sleep(0.05)


def _lives(pid):
    """Whether there is such a process: one that has ended and that nobody has asked about is none."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
