"""Settings that have to be numbers of some kind, checked at the door."""

from __future__ import annotations

from typing import Any

import numpy as np

from dope.errors import InputError


def number(name: str, value: Any, example: float) -> float:
    """A setting that has to be a finite number."""
    found = np.asarray(value)
    if found.ndim or found.dtype.kind not in "fiu" or not np.isfinite(found):
        raise InputError(f"{name} is {value!r}; expected a number, such as {example:g}.")
    return float(found)


def positive(name: str, value: Any, example: float) -> float:
    """A setting that has to be a number above 0."""
    found = number(name, value, example)
    if not found > 0:
        raise InputError(f"{name} is {value!r}; expected a positive number, such as {example:g}.")
    return found


def whole(name: str, value: Any, example: int) -> int:
    """A setting that has to be a whole number of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InputError(f"{name} is {value!r}; expected a whole number, such as {example}.")
    return int(value)


def odd(name: str, value: Any, example: int) -> int:
    """A setting that has to be an odd size of 3 or more."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 3 or value % 2 == 0:
        raise InputError(f"{name} is {value!r}; expected an odd size from 3 on, such as {example}.")
    return int(value)
