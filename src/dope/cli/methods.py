"""Names of methods, models and solvers, as options take them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from inspect import signature

from dope.errors import InputError
from dope.names import SOLVERS, maker_of
from dope.protocols import BlockSolver


class MethodName(StrEnum):
    """How blocks agree."""

    EXACT = "exact"
    ADMM = "admm"
    PAPER = "paper"


class ModelName(StrEnum):
    """How colours become unaries."""

    CLUSTERS = "clusters"
    MIXTURE = "mixture"
    HISTOGRAM = "histogram"


def solver_of(name: str, **settings: int | None) -> BlockSolver:
    """The solver of this name, with its default settings but for those that are not None."""
    make: Callable[..., BlockSolver] = maker_of("solver", SOLVERS, name)
    said = {key: value for key, value in settings.items() if value is not None}
    for key, value in said.items():
        if key not in signature(make).parameters:
            lacking = "draws nothing at random" if key == "seed" else f"has no {key}"
            raise InputError(f"{key} is {value}, and the solver {name} {lacking}; leave one of them out.")
    return make(**said)
