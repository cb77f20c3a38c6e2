"""Hypothesis without a clock, and the same examples every time; clusters; and limits of time for all tests."""

import faulthandler
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from clusters import Cluster

# The first is that of `make test`; `make slow` has the second, and `make soak` the third, with new examples every time.
STEADY = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steady", STEADY, max_examples=20)
settings.register_profile("thorough", STEADY, max_examples=100)
settings.register_profile("soak", deadline=None, max_examples=1000, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

STDERR = pytest.StashKey[int]()


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of further test images, where there is one."""
    folder = os.environ.get("DOPE_DATA")
    if not folder:
        pytest.skip("DOPE_DATA is not set: no further test images")
    return Path(folder)


# What is not over by then waits for something that will not come. Others have the limit of pyproject.toml, many times
# what the longest of them takes, or one of their own: @pytest.mark.timeout(seconds).
MOST_SECONDS = {"slow": 600, "attack": 1800, "soak": 3600}
# pytest-timeout ends a test by a signal, so that it fails and what it opened is closed. Python handles no signal while
# its main thread is in native code. A watchdog that needs neither the main thread nor the GIL ends such a process, so
# much later, and writes the traces of all threads. pytest-xdist then reports the test and starts another process.
GRACE_SECONDS = 60
TEARDOWN_SECONDS = 120


def pytest_configure(config: pytest.Config) -> None:
    assert sys.__stderr__ is not None
    config.stash[STDERR] = os.dup(sys.__stderr__.fileno())  # before output is captured


def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Beside pytest-timeout's own timer."""
    _exit_after(settings.timeout + GRACE_SECONDS, item)


def pytest_timeout_cancel_timer() -> None:
    faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """After a failure both timers are off, and what the test opened has yet to be closed."""
    _exit_after(TEARDOWN_SECONDS, item)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _exit_after(seconds: float, item: pytest.Item) -> None:
    faulthandler.dump_traceback_later(seconds, exit=True, file=item.config.stash[STDERR])


@pytest.fixture(scope="session")
def _only_cluster() -> Iterator[Any]:
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture
def cluster(_only_cluster: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A Dask cluster, to be brought to the workers one needs; what a failed test leaves of it is not the next one's."""
    before = request.session.testsfailed
    yield _only_cluster
    if request.session.testsfailed > before:
        _only_cluster.start_again()


# The longest first: who comes upon a test of half a minute at the end works alone while the others have nothing left.
LONG_FILES = ("test_readme.py", "test_benchmarks.py", "test_dask_volumes.py", "test_dask_faults.py", "test_dask.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the long files before all others, and each file's in its own order; and limits of time by marker."""
    items.sort(key=lambda item: LONG_FILES.index(item.path.name) if item.path.name in LONG_FILES else len(LONG_FILES))
    for item in items:
        for name, seconds in MOST_SECONDS.items():
            if item.get_closest_marker(name) and not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(seconds))
