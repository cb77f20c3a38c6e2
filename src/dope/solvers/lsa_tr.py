"""LSA-TR: local submodular approximations in trust regions (Gorelick, Boykov, Veksler, Ben Ayed, Delong, CVPR 2014).

At labels y the repulsive pairs (w_ij < 0) are taken to first order and the attractive ones kept as they are:

    E_y(z) = tangent(y)' z + sum_{w_ij > 0} w_ij |z_i - z_j| + constant,        E_y(y) = E(y)

which one minimum cut minimizes, and so does it where leaving y costs:

    z = argmin E_y(z) + penalty * sum_i d_i [z_i != y_i]

    repeat
      P = E_y(y) - E_y(z),  R = E(y) - E(z)        the fall predicted, and the fall there is
      if z gains nothing: z, penalty <- the smallest step that does, R > 0 or stop
      penalty <- penalty / 2 if R / P > 1/4 else penalty * 2
      if R > 0: y <- z

d is the distance to the other label (Euclidean, on a grid) or 1 (Hamming). The smallest useful step has the largest
penalty for which leaving y pays: the ratio problem max_z (E_y(y) - E_y(z)) / dist(z, y), solved by Dinkelbach's cuts
that begin at the best single flip. Labels only ever improve. Where nothing does, single flips are tried, then chains
(`solvers.parts.chains`), and the trust region again if they found something: that is `polish`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from dope import _core
from dope.arrays import BinaryLabels, Reals
from dope.cancellation import check_cancelled
from dope.energy import Energy
from dope.errors import InputError
from dope.pairs import GridPairs
from dope.protocols import Answer, Minimizer
from dope.solvers.max_flow import MaxFlow
from dope.solvers.parts.chains import Chains, least_fall
from dope.solvers.parts.settings import require_count
from dope.solvers.parts.standpoint import UNLIMITED, lowest, neighbors
from dope.solvers.parts.starts import DEFAULT, StartName, Starts, Values, checked_starts

# As in the authors' code, and in OpenGM's.
FIRST_PENALTY, FACTOR, ENOUGH = 0.1, 2.0, 0.25
LEAST_PENALTY, MOST_PENALTY = 1e-9, 1e9


@dataclass(frozen=True)
class LsaTr:
    """A low minimum of any energy, by minimum cuts of its approximations about the labels so far.

    Attributes
    ----------
    distance : "euclidean", the distance to the other label, on grids; or "hamming", the number of sites changed.
        Graphs have no distances: sites are counted there.
    starts : where to begin when no labels are given; the best end is the answer (`solvers.parts.starts` has them all).
    polish : where trust regions end, flip single sites; where the best start ends, chain bounds as well, until so many
        in a row gained nothing (one, where labels are given to begin with). 0 for trust regions alone.
    seed : of the chains.
    cuts : at most about so many minimum cuts per start.
    """

    distance: Literal["euclidean", "hamming"] = "euclidean"
    starts: tuple[StartName, ...] = DEFAULT
    polish: int = 5
    seed: int = 0
    cuts: int = 10_000

    def __post_init__(self) -> None:
        if self.distance not in ("euclidean", "hamming"):
            raise InputError(f"LsaTr: distance is {self.distance!r}; expected 'euclidean' or 'hamming'.")
        for name, value, least in (("polish", self.polish, 0), ("seed", self.seed, 0), ("cuts", self.cuts, 1)):
            require_count(f"LsaTr: {name}", value, least)

        checked_starts("LsaTr", self.starts)

    def prepare(self, energy: Energy) -> LsaTrMinimizer:
        return LsaTrMinimizer(energy, self)


class LsaTrMinimizer:
    """The attractive pairs as a flow that is kept from cut to cut, and all pairs as a standpoint."""

    def __init__(self, energy: Energy, settings: LsaTr) -> None:
        self._shape, self._settings = energy.shape, settings
        self._axes = isinstance(energy.pairs, GridPairs)
        self._separate = energy.pairs.attractive.number == 0
        self._flow: Minimizer = MaxFlow().prepare(Energy(energy.unary, energy.pairs.attractive))
        around = neighbors(energy.pairs)
        self._here = _core.Standpoint(around)
        self._starts = Starts(settings.starts, self._flow, around, self._axes)
        self._chains = Chains(self._here, self._flow, energy.shape)
        self.cuts = 0  # those of trust regions, of all calls together

    def minimize(self, unary: Reals, *, start: BinaryLabels | None = None) -> Answer:
        prices = np.ascontiguousarray(unary, dtype=np.float64)
        self._least_fall = least_fall(prices)
        ends = [] if start is None else [self._descended(prices, start, None)]
        if start is None or self._separate:  # without attractive pairs cuts do not lead far from a start
            ends += [self._descended(prices, labels, FIRST_PENALTY) for labels in self._starts.labels(prices)]
        labels = lowest(self._here, prices, ends)
        patience = self._settings.polish if start is None else min(self._settings.polish, 1)
        return Answer(self._polished(prices, labels, patience) if patience else labels)

    def _descended(self, unary: Values, start: BinaryLabels, penalty: float | None) -> BinaryLabels:
        """Where trust regions and single flips lead from these labels."""
        self._here.stand(unary.ravel(), start.ravel())
        self._descend(penalty)
        return self._here.labels().reshape(self._shape)

    def _polished(self, unary: Values, labels: BinaryLabels, patience: int) -> BinaryLabels:
        prices = unary.ravel()
        self._here.stand(prices, labels.ravel())
        while self._chains.descend(prices, patience=patience, seed=self._settings.seed):
            self._descend(None)
        return self._here.labels().reshape(self._shape)

    def _descend(self, penalty: float | None) -> None:
        """Trust regions, then single flips, and again as long as these find something."""
        left = self._settings.cuts
        while left > 0:
            check_cancelled()
            left -= self._descend_by_cuts(left, penalty)
            if not self._settings.polish or not self._here.descend(UNLIMITED):
                break
            penalty = None

    def _descend_by_cuts(self, most: int, penalty: float | None) -> int:
        """Trust regions from where we stand until none helps; how many cuts it took.

        The first has this penalty; None is for labels that are nearly there: the smallest step is tried at once, and
        none that a penalty of FIRST_PENALTY would forbid, as these move far, cost much and seldom help.
        """
        before, nearly = self.cuts, penalty is None
        region, refused = self._region(), None
        while self.cuts - before < most:
            check_cancelled()
            step = None if penalty is None else self._step(region, penalty)
            if step is None or step.gain <= self._least_fall:
                step = self._smallest_step(region, refused, FIRST_PENALTY if nearly else LEAST_PENALTY)
                if step is None or step.actual <= self._least_fall:
                    break
            enough = step.actual > ENOUGH * step.predicted
            penalty = min(MOST_PENALTY, max(LEAST_PENALTY, step.penalty / FACTOR if enough else step.penalty * FACTOR))
            if step.actual > 0.0:
                self._here.move(step.labels)
                region, refused = self._region(), None
            else:
                refused = step
        return self.cuts - before

    @property
    def _euclidean(self) -> bool:
        return self._axes and self._settings.distance == "euclidean"

    def _region(self) -> _Region:
        labels = self._here.labels()
        away = _core.distances(labels.reshape(self._shape)).ravel() if self._euclidean else np.ones(labels.size)
        return _Region(labels, away, self._here.tangents())

    def _step(self, region: _Region, penalty: float) -> _Step:
        """Where one cut leads when leaving the labels costs so much."""
        self.cuts += 1
        unary = region.tangents + penalty * np.where(region.labels, -region.away, region.away)
        return self._step_to(self._flow.minimize(unary.reshape(self._shape)).labels.ravel(), region, penalty)

    def _step_to(self, labels: BinaryLabels, region: _Region, penalty: float) -> _Step:
        actual, predicted = self._here.falls(labels)
        return _Step(labels, penalty, actual, predicted, float(region.away[labels != region.labels].sum()))

    def _smallest_step(self, region: _Region, refused: _Step | None, least: float) -> _Step | None:
        """The step at the largest penalty that any step survives; None where it is below `least`.

        `refused` is a step from the same labels that gained by the approximation, and did not by the energy: the one
        that is looked for gains no less for its way.
        """
        found = self._best_flip(region)
        if self._separate:  # no step gains more for its way than the best of the flips it consists of
            return found
        if refused is not None and (found is None or refused.worth > found.penalty):
            found = replace(refused, penalty=refused.worth)
        if found is None:
            found = self._from_above(region, least)
        while True:
            check_cancelled()
            step = self._step(region, least if found is None else found.penalty)
            if step.gain <= self._least_fall:
                return found
            found = replace(step, penalty=step.worth)

    def _best_flip(self, region: _Region) -> _Step | None:
        """The single flip that gains most for its way."""
        prices = self._here.prices()
        ratios = np.where(region.labels, prices, -prices) / region.away
        best = int(ratios.argmax())
        if ratios[best] <= LEAST_PENALTY:
            return None
        flipped = region.labels.copy()
        flipped[best] = not flipped[best]
        return self._step_to(flipped, region, float(ratios[best]))

    def _from_above(self, region: _Region, least: float) -> _Step | None:
        """A step at a large penalty, where little moves and cuts are cheap: a quarter each time, down to 1/1024.

        Dinkelbach's cuts would come from below, where nearly everything moves.
        """
        penalty = float((np.abs(self._here.prices()) / region.away).max())
        for _ in range(5):
            penalty /= 4.0
            if penalty <= least:
                break
            step = self._step(region, penalty)
            if step.gain > self._least_fall:
                return replace(step, penalty=step.worth)
        return None


@dataclass(frozen=True, eq=False)
class _Region:
    """Labels, how far each site is from leaving them, and the energy to first order about them."""

    labels: BinaryLabels
    away: Values
    tangents: Values


@dataclass(frozen=True, eq=False)
class _Step:
    """Labels that a cut proposes, the fall of the energy and of its approximation, and the way there."""

    labels: BinaryLabels
    penalty: float
    actual: float
    predicted: float
    moved: float

    @property
    def gain(self) -> float:
        """What is left of the predicted fall after paying for the way."""
        return self.predicted - self.penalty * self.moved

    @property
    def worth(self) -> float:
        """The penalty at which nothing is left."""
        return self.predicted / self.moved
