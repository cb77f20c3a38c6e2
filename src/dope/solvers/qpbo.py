"""QPBO: what the roof dual proves of an energy of any signs, and labels for the rest.

`roof_dual` has the equations. A minimizer of the doubled energy F proves a bound, and at the sites where y' = 1 - y
labels that some minimum has, all of them at once. Beyond that:

ties      F can have many minimizers, and those that are proved by all of them are fewest. What open arcs imply is a
          2-SAT problem, whose answer proves as many as any minimizer does (cpp/roof_flow.h).
probing   (Boros, Hammer, Tavares 2006) with a site forced to 0 and then to 1, what both prove alike is proved, as some
          minimum is under one of the two. Where one of the two has a bound above known labels, the other is right.
improving (Rother, Kolmogorov, Lempitsky, Szummer 2007) with random sites forced to the labels y they have, what is
          proved of the others can be adopted: it does not raise the energy of y.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.arrays import BinaryLabels, Mask, Reals
from dope.cancellation import check_cancelled
from dope.energy import Energy
from dope.errors import InputError
from dope.protocols import Answer, Minimizer
from dope.rounding import rounded_down
from dope.solvers.max_flow import MaxFlow
from dope.solvers.parts.roof import Roof, listed
from dope.solvers.parts.settings import require_count
from dope.solvers.parts.standpoint import lowest, neighbors

Values = npt.NDArray[np.float64]

# Single flips per site, at most; far more than it takes to arrive.
MOST_FLIPS = 1000


@dataclass(frozen=True)
class Qpbo:
    """A lower bound for any energy, a proof for some of the labels, and reasonable labels for the others.

    `proved` of the answer says which sites are proved: there is a minimum (of the integer energy, where costs are
    rounded) that has all these labels. Where no weight is negative these are all sites, and mostly so where none is
    after some labels are swapped. The more and the stronger the pairs that repel, the fewer. The others begin with the
    start, or with 0, with 1 and with the sign of what the proved ones make of their unary, and flip one by one while
    that pays; the best of these is taken.

    Attributes
    ----------
    probe : also force sites to one label and the other; proves more, at two minimizations per site that is left.
    rounds : so many times over all sites, at most, while that proves something.
    improve : so many times, try to lower the energy with random sites forced to their labels.
    seed : of these random sites.

    Examples
    --------
    >>> energy = Energy.graph([2.0, -1.0, -1.0], [[0, 1], [1, 2]], [1.0, -2.0])
    >>> answer = Qpbo().prepare(energy).minimize(energy.unary)
    >>> answer.labels.astype(int).tolist(), answer.bound, answer.exact
    ([0, 0, 1], -3.0, True)
    """

    probe: bool = False
    rounds: int = 3
    improve: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.probe, bool):
            raise InputError(f"Qpbo: probe is {self.probe!r}; expected True or False.")
        require_count("Qpbo: rounds", self.rounds, 1)
        require_count("Qpbo: improve", self.improve, 0)
        require_count("Qpbo: seed", self.seed, 0)

    def prepare(self, energy: Energy) -> Minimizer:
        if energy.submodular:
            return WholeMinimizer(energy)
        return QpboMinimizer(energy, self)

    @property
    def flow_solver(self) -> MaxFlow:
        """What finds the roof dual over many blocks."""
        return MaxFlow()


class WholeMinimizer:
    """An energy whose pairs all attract: y and y' have nothing to do with each other, and one of them is enough."""

    def __init__(self, energy: Energy) -> None:
        self._flow = MaxFlow().prepare(energy)

    def minimize(self, unary: Reals, *, start: BinaryLabels | None = None) -> Answer:
        answer = self._flow.minimize(unary, start=start)
        return replace(answer, proved=np.ones(unary.shape, dtype=np.bool_))


@dataclass(frozen=True, eq=False)
class _Rest:
    """Some of the sites: their prices under labels of the others, and the pairs between them."""

    prices: Values
    here: _core.Standpoint

    def local_minimum(self, start: BinaryLabels | None) -> BinaryLabels:
        """From the start; or the best of those from 0, from 1 and from the signs of the prices."""
        starts = self._starts() if start is None else [start]
        return lowest(self.here, self.prices, [self._descended(labels) for labels in starts])

    def _starts(self) -> list[BinaryLabels]:
        none = np.zeros(len(self.prices), dtype=np.bool_)
        if not self.prices.any():
            return [none]  # labels and their opposites cost the same
        signs = self.prices < 0.0
        return [signs, *(labels for labels in (none, ~none) if not np.array_equal(labels, signs))]

    def _descended(self, labels: BinaryLabels) -> BinaryLabels:
        self.here.stand(self.prices, np.ascontiguousarray(labels))
        self.here.descend(MOST_FLIPS * len(self.prices))
        return self.here.labels()


@dataclass(eq=False)
class _Known:
    """What is proved so far: the sites, their labels (anything elsewhere), and a lower bound."""

    sites: Mask
    labels: BinaryLabels
    bound: Fraction

    def add(self, sites: Mask, labels: BinaryLabels) -> npt.NDArray[np.int64]:
        """Take over labels where nothing is proved yet; where that was."""
        new = sites & ~self.sites
        self.labels = np.where(new, labels, self.labels)
        self.sites = self.sites | new
        return np.flatnonzero(new)


class QpboMinimizer:
    """The doubled pairs as a flow that is kept from call to call, and all pairs as a list."""

    def __init__(self, energy: Energy, settings: Qpbo) -> None:
        self._pairs, self._settings = energy.pairs, settings
        self._edges = listed(energy.pairs)
        self._roof = Roof(energy, self._edges)

    def minimize(self, unary: Reals, *, start: BinaryLabels | None = None) -> Answer:
        prices = unary.ravel().astype(np.float64)
        roof = self._roof
        roof.solve(prices)
        known = _Known(*roof.labels(of_some=True), roof.bound())
        labels = self._completed(prices, known, None if start is None else start.ravel())
        if self._settings.probe and not known.sites.all():
            self._probe(known, self._value(prices, labels))
            labels = lowest(self._here, prices, [labels, self._completed(prices, known, labels)])
        if self._settings.improve and not known.sites.all():
            labels = self._improved(prices, known, labels)
        proved = known.sites & (labels == known.labels)
        exact = bool(proved.all()) or (roof.rounding_error == 0.0 and self._value(prices, labels) <= known.bound)
        return Answer(
            labels.reshape(unary.shape),
            rounded_down(known.bound),
            proved=(proved | exact).reshape(unary.shape),
            exact=exact,
            rounding_error=roof.rounding_error,
        )

    def _value(self, prices: Values, labels: BinaryLabels) -> Fraction:
        shape = self._pairs.shape
        return Energy(prices.reshape(shape), self._pairs).exactly(labels.reshape(shape))

    @cached_property
    def _here(self) -> _core.Standpoint:
        return _core.Standpoint(neighbors(self._pairs))

    def _completed(self, prices: Values, known: _Known, start: BinaryLabels | None) -> BinaryLabels:
        """Labels for all sites: the proved ones, and for the others those of a local minimum."""
        if known.sites.all():
            return known.labels.copy()
        labels = known.labels.copy()
        labels[~known.sites] = self._rest(prices, known).local_minimum(None if start is None else start[~known.sites])
        return labels

    def _rest(self, prices: Values, known: _Known) -> _Rest:
        """The sites that are not proved, under the labels of the others."""
        first, second, weights = self._edges
        sites = np.flatnonzero(~known.sites)
        if len(sites) == len(prices):
            return _Rest(prices, self._here)
        place = np.full(len(prices), -1, dtype=np.int64)
        place[sites] = np.arange(len(sites))
        of_first, of_second = place[first], place[second]
        held = np.where(known.labels, -1.0, 1.0)  # what a neighbor's label makes of w |y_i - y_j|
        fields = prices[sites]
        for inner, outer, ends in ((of_first, of_second, second), (of_second, of_first, first)):
            over = (inner >= 0) & (outer < 0)
            fields += np.bincount(inner[over], weights[over] * held[ends[over]], len(sites))
        both = (of_first >= 0) & (of_second >= 0)
        ends = np.stack([of_first[both], of_second[both]], axis=1)
        return _Rest(fields, _core.Standpoint(_core.Neighbors.graph(len(sites), ends, weights[both])))

    def _probe(self, known: _Known, least: Fraction) -> None:
        """Force sites to 0 and to 1, one after the other, while that proves something; some labels cost `least`."""
        self._force_known(known)
        for _ in range(self._settings.rounds):
            before = np.flatnonzero(~known.sites)
            for site in before.tolist():
                check_cancelled()
                if not known.sites[site]:
                    self._probe_site(site, known, least)
            if known.sites.all() or not known.sites[before].any():
                break
        known.bound = max(known.bound, self._roof.bound())

    def _probe_site(self, site: int, known: _Known, least: Fraction) -> None:
        roof, place = self._roof, np.array([site])
        trials = []
        for label in (False, True):
            roof.force(place, np.array([label]))
            trials.append(_Known(*roof.labels(), roof.bound()))
        known.bound = max(known.bound, min(trial.bound for trial in trials))
        new = known.add(*_proved_by_both(trials[0], trials[1], least, 2 * Fraction(roof.rounding_error)))
        roof.force(new, known.labels[new], release=place)

    def _improved(self, prices: Values, known: _Known, labels: BinaryLabels) -> BinaryLabels:
        """Labels with no more energy."""
        self._force_known(known)
        draw, free = np.random.default_rng(self._settings.seed), np.flatnonzero(~known.sites)
        for _ in range(self._settings.improve):
            check_cancelled()
            kept = draw.random(len(free)) < draw.random()
            self._roof.force(free[kept], labels[free[kept]], release=free[~kept])
            sites, found = self._roof.labels()
            labels = lowest(self._here, prices, [np.where(sites, found, labels), labels])
        return self._completed(prices, known, labels)

    def _force_known(self, known: _Known) -> None:
        sites = np.flatnonzero(known.sites)
        self._roof.force(sites, known.labels[sites])


def _proved_by_both(zero: _Known, one: _Known, least: Fraction, margin: Fraction) -> tuple[Mask, BinaryLabels]:
    """What is known of a site's two labels together: the sites, and their labels."""
    for this, other in ((zero, one), (one, zero)):
        # Nothing under the other label is better than these labels, or than some that have been found.
        if other.bound > least + margin or (this.sites.all() and other.bound >= this.bound + margin):
            return this.sites, this.labels
    return zero.sites & one.sites & (zero.labels == one.labels), zero.labels
