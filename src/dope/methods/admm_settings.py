"""What ADMM can be told, of two labels and of several: settings checked, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from dope.errors import InputError


class Settings(Protocol):
    """What both have."""

    @property
    def mu0(self) -> float | str: ...

    @property
    def mu_fact(self) -> float: ...

    @property
    def rounds(self) -> int: ...

    @property
    def eps(self) -> float: ...

    @property
    def patience(self) -> int | None: ...

    @property
    def penalty(self) -> str: ...

    @property
    def sweeps(self) -> int: ...

    @property
    def bound(self) -> int: ...


def check_settings(method: Settings) -> None:
    """InputError where a setting is none."""
    name, mu0 = type(method).__name__, method.mu0
    if mu0 != "auto" and not (_is_number(mu0) and 0 < mu0 < math.inf):  # type: ignore[operator]
        raise InputError(f"{name}: mu0 is {mu0!r}; expected a positive number or 'auto'.")
    if not (_is_number(method.mu_fact) and 0 < method.mu_fact < math.inf):
        raise InputError(f"{name}: mu_fact is {method.mu_fact!r}; expected a positive number.")
    if not (_is_number(method.eps) and 0 <= method.eps < math.inf):
        raise InputError(f"{name}: eps is {method.eps!r}; expected a number of 0 or more.")
    for setting, least in (("rounds", 1), ("sweeps", 0), ("bound", 0)):
        value: Any = getattr(method, setting)
        if not _is_whole(value) or value < least:
            raise InputError(f"{name}: {setting} is {value!r}; expected a whole number of {least} or more.")
    if method.patience is not None and (not _is_whole(method.patience) or method.patience < 1):
        raise InputError(f"{name}: patience is {method.patience!r}; expected a whole number of rounds, or None.")
    if method.penalty not in ("coupled", "all"):
        raise InputError(f"{name}: penalty is {method.penalty!r}; expected 'coupled' or 'all'.")


def stop_reason(
    method: Settings, residuals: Sequence[float], sizes: Sequence[int], number: int, waited: int
) -> str | None:
    """Why to stop after a round, None to go on; the best labels are `waited` rounds old."""
    if all(r <= method.eps * math.sqrt(n) for r, n in zip(residuals, sizes, strict=True)):
        return "agreed"
    if number == method.rounds:
        return "round limit"
    if method.patience is not None and waited >= method.patience:
        return "stalled"
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
