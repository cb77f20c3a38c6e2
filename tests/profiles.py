"""How many examples of a law are tried, by the profile that conftest.py chose."""

from math import ceil
from typing import Any

from hypothesis import settings

FEW = 5


def examples(number: int, **more: Any) -> settings:
    """So many in the profile that has a hundred of others, `make slow`'s, and more or fewer with the number of others.

    A number in `settings` itself would hold in every profile.
    """
    scaled = ceil(number * settings().max_examples / 100)
    return settings(max_examples=max(scaled, min(number, FEW)), **more)
