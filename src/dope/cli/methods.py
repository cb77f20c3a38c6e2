"""Names of methods and models, as they exist at the command line only."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from dope.methods import Admm, Exact
from dope.models import ColorClusters, ColorMixture, GreyHistogram, Model
from dope.protocols import Method


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
