"""LSA-AUX and LSA-AUX-P: local submodular approximations by upper bounds (Gorelick et al., CVPR 2014).

Repulsive pairs are replaced by linear upper bounds that are tight at the labels so far (`solvers.parts.chains`), and
one minimum cut goes to labels that are no worse; again, while it gains.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dope import _core
from dope.arrays import BinaryLabels, Reals
from dope.energy import Energy
from dope.pairs import GridPairs
from dope.protocols import Answer
from dope.solvers.max_flow import MaxFlow
from dope.solvers.parts.chains import Chains
from dope.solvers.parts.settings import require_count
from dope.solvers.parts.standpoint import lowest, neighbors
from dope.solvers.parts.starts import DEFAULT, StartName, Starts, Values, checked_starts


@dataclass(frozen=True)
class LsaAux:
    """A low minimum of any energy, by minimum cuts of upper bounds that are tight at the labels so far.

    Attributes
    ----------
    patience : stop after so many random orders in a row that gained nothing; 0 for the averaged bound alone.
    seed : of the orders.
    starts : where to begin when no labels are given; the best end is the answer (`solvers.parts.starts` has them all).
    polish : flip single sites in the end.
    """

    patience: int = 10
    seed: int = 0
    starts: tuple[StartName, ...] = DEFAULT
    polish: bool = True

    def __post_init__(self) -> None:
        for name, value in (("patience", self.patience), ("seed", self.seed)):
            require_count(f"LsaAux: {name}", value, 0)
        checked_starts("LsaAux", self.starts)

    def prepare(self, energy: Energy) -> LsaAuxMinimizer:
        return LsaAuxMinimizer(energy, self)


class LsaAuxMinimizer:
    """The attractive pairs as a flow that is kept from cut to cut, and all pairs as a standpoint."""

    def __init__(self, energy: Energy, settings: LsaAux) -> None:
        flow, around = MaxFlow().prepare(Energy(energy.unary, energy.pairs.attractive)), neighbors(energy.pairs)
        self._settings, self._here = settings, _core.Standpoint(around)
        self._starts = Starts(settings.starts, flow, around, isinstance(energy.pairs, GridPairs))
        self._chains = Chains(self._here, flow, energy.shape)

    def minimize(self, unary: Reals, *, start: BinaryLabels | None = None) -> Answer:
        prices = np.ascontiguousarray(unary, dtype=np.float64)
        starts = self._starts.labels(prices) if start is None else [start]
        return Answer(lowest(self._here, prices, [self._descended(prices, labels) for labels in starts]))

    def _descended(self, unary: Values, start: BinaryLabels) -> BinaryLabels:
        prices = unary.ravel()
        self._here.stand(prices, start.ravel())
        self._chains.descend_averaged(prices)
        self._chains.descend(prices, patience=self._settings.patience, seed=self._settings.seed)
        if self._settings.polish:
            self._here.descend(prices.size)
        return self._here.labels().reshape(unary.shape)
