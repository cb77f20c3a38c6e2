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


def solver_of(name: str, seed: int | None) -> BlockSolver:
    """The solver of this name, with its default settings but for the seed."""
    make: Callable[..., BlockSolver] = maker_of("solver", SOLVERS, name)
    if seed is None:
        return make()
    if "seed" not in signature(make).parameters:
        raise InputError(f"seed is {seed}, and the solver {name} draws nothing at random; leave one of them out.")
    return make(seed=seed)
