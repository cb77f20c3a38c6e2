"""Settings of solvers, refused at the door where they make no sense."""

from __future__ import annotations

import numpy as np

from dope.errors import InputError


def require_count(name: str, value: object, least: int) -> None:
    """Refuse what is no whole number, or one below `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name} is {value!r}; expected a whole number of {least} or more.")
