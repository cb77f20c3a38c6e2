"""Hypothesis without a clock, and the same examples every time; `make soak` looks further."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

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


# The longest first: who comes upon a test of half a minute at the end works alone while the others have nothing left.
LONG_FILES = ("test_readme.py", "test_benchmarks.py", "test_dask_volumes.py", "test_dask_faults.py", "test_dask.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the long files before all others, and each file's in its own order."""
    items.sort(key=lambda item: LONG_FILES.index(item.path.name) if item.path.name in LONG_FILES else len(LONG_FILES))
