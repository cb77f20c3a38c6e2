"""Names of methods, models and solvers, as they exist at the command line only."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from inspect import signature

from dope.errors import InputError
from dope.methods import Admm, Exact
from dope.models import ColorClusters, ColorMixture, GreyHistogram, Model
from dope.protocols import BlockSolver, Method
from dope.solvers import Anneal, Brute, Icm, LsaAux, LsaTr, MaxFlow, MeanField, Qpbo, Tabu, TrwS


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


METHODS: dict[MethodName, Callable[[], Method]] = {
    MethodName.EXACT: Exact,
    MethodName.ADMM: Admm,
    MethodName.PAPER: Admm.paper,
}
MODELS: dict[ModelName, Callable[[], Model]] = {
    ModelName.CLUSTERS: ColorClusters,
    ModelName.MIXTURE: ColorMixture,
    ModelName.HISTOGRAM: GreyHistogram,
}
# A new solver is one row. What it can be told from here is a `seed`, if it has one.
SOLVERS: dict[str, Callable[..., BlockSolver]] = {
    "maxflow": MaxFlow,
    "icm": Icm,
    "lsatr": LsaTr,
    "lsaaux": LsaAux,
    "qpbo": Qpbo,
    "meanfield": MeanField,
    "trws": TrwS,
    "tabu": Tabu,
    "anneal": Anneal,
    "brute": Brute,
}


def solver_of(name: str, seed: int | None) -> BlockSolver:
    """The solver of this name, with its default settings but for the seed."""
    if name not in SOLVERS:
        raise InputError(f"--solver is {name!r}; expected one of {', '.join(SOLVERS)}.")
    make = SOLVERS[name]
    if seed is None:
        return make()
    if "seed" not in signature(make).parameters:
        raise InputError(f"--seed is {seed}, and the solver {name} draws nothing at random; leave one of them out.")
    return make(seed=seed)
