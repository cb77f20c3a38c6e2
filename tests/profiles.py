"""How much of a test runs when: examples by the profile that conftest.py chose, and parameters by marker."""

from collections.abc import Container, Iterable
from math import ceil
from typing import Any

import pytest
from hypothesis import settings

FEW = 3


def examples(number: int, **more: Any) -> settings:
    """So many in the profile that has a hundred of others, `make slow`'s, and more or fewer with the number of others.

    A number in `settings` itself would hold in every profile.
    """
    scaled = ceil(number * settings().max_examples / 100)
    return settings(max_examples=max(scaled, min(number, FEW)), **more)


def slow_but(values: Iterable[Any], quick: Container[Any]) -> list[Any]:
    """Parameters of a test: `make test` has those that are quick, and `make slow` the others."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in values]
