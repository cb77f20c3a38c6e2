"""Hypothesis without a clock, and the same examples every time; `make soak` looks further."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from clusters import Cluster

settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", deadline=None, max_examples=1000, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of further test images, where there is one."""
    folder = os.environ.get("DOPE_DATA")
    if not folder:
        pytest.skip("DOPE_DATA is not set: no further test images")
    return Path(folder)


# Many times what the longest takes: what is not over by then waits for something that will not come.
MOST_SECONDS = 600


@pytest.fixture(autouse=True)
def _limit_of_time(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test waits without end, and keeps all others waiting; those that are long on purpose may be."""
    long = any(request.node.get_closest_marker(name) for name in ("slow", "soak", "attack"))
    if long or not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"not over after {MOST_SECONDS} s"))
    signal.alarm(MOST_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


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
    """Tests of the long files before all others, and each file's in its own order."""
    items.sort(key=lambda item: LONG_FILES.index(item.path.name) if item.path.name in LONG_FILES else len(LONG_FILES))
