"""An energy's pairs as the core goes through them, from neighbor to neighbor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dope import _core
from dope.arrays import BinaryLabels, Reals
from dope.pairs import GridPairs, Pairs

# Every flip lowers the energy by more than rounding, so an end always comes.
UNLIMITED = 2**62


def neighbors(pairs: Pairs) -> _core.Neighbors:
    """Who is whose neighbor: a weight per pair in memory, or one per offset where they are equal."""
    if isinstance(pairs, GridPairs):
        return _core.Neighbors.grid(pairs.native())
    return _core.Neighbors.graph(pairs.sites, np.stack([pairs.first, pairs.second], axis=1), pairs.weights)


def standpoint(pairs: Pairs) -> _core.Standpoint:
    """What every flip costs, kept while labels move; all its arrays are flat."""
    return _core.Standpoint(neighbors(pairs))


def polished(here: _core.Standpoint, unary: Reals, labels: BinaryLabels) -> BinaryLabels:
    """Where flipping single sites leads from these labels: the one that gains most first, until none gains."""
    here.stand(np.ascontiguousarray(unary, dtype=np.float64).ravel(), labels.ravel())
    here.descend(UNLIMITED)
    return here.labels().reshape(labels.shape)


def lowest(here: _core.Standpoint, unary: Reals, candidates: Sequence[BinaryLabels]) -> BinaryLabels:
    """The labels of least energy with this unary, the first of equals; stands at the first candidate then."""
    if len(candidates) == 1:
        return candidates[0]
    here.stand(np.ascontiguousarray(unary, dtype=np.float64).ravel(), candidates[0].ravel())
    falls = [here.falls(labels.ravel())[0] for labels in candidates]
    return candidates[int(np.argmax(falls))]
