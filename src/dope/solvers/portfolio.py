"""A portfolio of searches, for energies whose weights may be negative.

    y <- LSA-TR's labels (`solvers.lsa_tr`), or the minimum at once where the pairs are narrow enough
    repeat
      four walks from y : heated up, cooled down by annealing, single and pair flips; some go on by tabu search, where
                          most sites are neighbours, or by exact moves on parts of small tree-width (Hamze and
                          de Freitas 2004; Selby 2014), where few are
      y <- y crossed with what they found : every connected part where they differ is taken where it gains

and after long without a gain y joins the best labels in the same way, and begins anew with random ones. Parts without a
pair between them change the energy each by itself, so what a crossing keeps is the best of all mixes of its parents by
whole parts (partition crossover; Whitley, Hains and Howe 2009). All of it is in the core (`cpp/search.h`), in whole
numbers; in the end single flips by the energy itself, and the lowest labels of all members.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field

import numpy as np

from dope import _core
from dope.arrays import BinaryLabels, Reals
from dope.cancellation import Cancellation, Cancelled, check_cancelled
from dope.energy import Energy
from dope.errors import InputError
from dope.protocols import Answer
from dope.solvers.lsa_tr import LsaTr
from dope.solvers.parts.settings import require_count
from dope.solvers.parts.standpoint import lowest, neighbors, polished

# Of the sweeps, where there are labels to begin with: most of the work is done then.
PART_FROM_A_START = 4
# Of the seconds, LSA-TR may have so much, and so many in any case: on a million sites of a spin glass it takes minutes.
FIRST_SHARE, LEAST_FIRST_SECONDS = 0.5, 2.0


@dataclass(frozen=True)
class Portfolio:
    """The lowest energy that several searches find together, for weights of any sign; the default for negative ones.

    Labels depend on the input, the `seed` and the sweeps alone. With `seconds` they depend on the clock as well: it
    decides how many rounds there are. The answer is never worse than that of `LsaTr()`, nor than the start; with
    `seconds` LSA-TR is left out where it would take more than half of them, and more than two.

    Attributes
    ----------
    sweeps : how much work the search may do, in visits of all sites, each by itself or from a neighbour that flips.
    seconds : search for so long instead, LSA-TR included; looked at between rounds.
    seed : of all draws.
    threads : at most so many, which change nothing but the time it takes. A plan gives one block those of its executor.

    Examples
    --------
    >>> import dope
    >>> ring = Energy.graph(np.zeros(5), [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]], -1.0)  # the largest cut is 4
    >>> dope.minimize(ring, solver=Portfolio(sweeps=100)).energy
    -4.0
    """

    sweeps: int = 100_000
    seconds: float | None = None
    seed: int = 0
    threads: int = field(default=1, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, value, least in (("sweeps", self.sweeps, 1), ("seed", self.seed, 0), ("threads", self.threads, 1)):
            require_count(f"Portfolio: {name}", value, least)
        seconds: object = self.seconds
        number = isinstance(seconds, (int, float, np.number)) and not isinstance(seconds, bool)
        if self.seconds is not None and not (number and math.isfinite(self.seconds) and self.seconds > 0):
            raise InputError(f"Portfolio: seconds is {self.seconds!r}; expected a number above 0, or None.")

    def prepare(self, energy: Energy) -> PortfolioMinimizer:
        return PortfolioMinimizer(energy, self)


class PortfolioMinimizer:
    """LSA-TR, the core's search, and the pairs as a standpoint, from which all of them are judged."""

    def __init__(self, energy: Energy, settings: Portfolio) -> None:
        self._settings = settings
        around = neighbors(energy.pairs)
        self._first = LsaTr().prepare(energy)
        self._search = _core.Search(around)
        self._here = _core.Standpoint(around)
        self.found: Found | None = None  # by the last call

    def minimize(self, unary: Reals, *, start: BinaryLabels | None = None) -> Answer:
        begun = time.perf_counter()
        prices = np.ascontiguousarray(unary, dtype=np.float64)
        first = self._first_labels(prices, start)
        sweeps, seconds = self._settings.sweeps, math.inf
        if start is not None:
            sweeps = max(1, sweeps // PART_FROM_A_START)
        if self._settings.seconds is not None:
            left = self._settings.seconds - (time.perf_counter() - begun)
            least = 0.0 if first is not None else self._settings.seconds * (1.0 - FIRST_SHARE)
            seconds = max(left, least)
        if first is None:
            first = prices < 0 if start is None else np.ascontiguousarray(start)
        labels, rounds, epochs, work, exact, cancelled = self._search.run(
            prices.ravel(), first.ravel(), sweeps, seconds, self._settings.seed, self._settings.threads
        )
        self.found = Found(rounds, epochs, work, exact)
        searched = labels.reshape(prices.shape)
        if cancelled:
            return Answer(searched)  # at once: it is no worse than the first, but for the rounding of costs
        return Answer(lowest(self._here, prices, [first, polished(self._here, prices, searched)]))

    def _first_labels(self, prices: Reals, start: BinaryLabels | None) -> BinaryLabels | None:
        """LSA-TR's, or None where it would take too much of the seconds."""
        if self._settings.seconds is None:
            return self._first.minimize(prices, start=start).labels
        limit = Cancellation()
        timer = threading.Timer(max(FIRST_SHARE * self._settings.seconds, LEAST_FIRST_SECONDS), limit.cancel)
        timer.daemon = True
        timer.start()
        try:
            with limit:
                return self._first.minimize(prices, start=start).labels
        except Cancelled:
            if not limit.cancelled:
                raise
            check_cancelled()  # whether it was somebody else as well
            return None
        finally:
            timer.cancel()


@dataclass(frozen=True)
class Found:
    """What a search took: rounds of walks, new beginnings, and visits. `exact` if it was solved at once."""

    rounds: int
    epochs: int
    work: int
    exact: bool
