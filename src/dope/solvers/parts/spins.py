"""Spins: an energy as the samplers of dwave-samplers read it, and what becomes of their samples.

With spins s = 2 y - 1, twice the energy is, up to a constant,

    sum_i u_i s_i - sum over pairs of w_ij s_i s_j

The samplers keep what every flip costs by adding and subtracting. Costs are therefore given to them in whole numbers,
scaled by a power of two and rounded, so small that every sum is exact in float64: without that, noise in the last
place could look like a gain, again and again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.arrays import BinaryLabels, Reals, Sites
from dope.cancellation import run_aside
from dope.energy import Energy
from dope.extras import require_extra
from dope.protocols import Answer
from dope.solvers.parts.standpoint import lowest, neighbors

if TYPE_CHECKING:
    import dimod

Values = npt.NDArray[np.float64]

# All costs together, in whole numbers: a sampler may take four times as much and still count exactly.
MOST = 2.0**48
# Single flips per site in the end, at most; far more than it takes to arrive.
MOST_FLIPS = 1000


@dataclass(frozen=True, eq=False)
class Spins:
    """fields' s + sum of couplings s_first s_second: twice the energy times `scale`, in whole numbers."""

    fields: Values
    first: Sites
    second: Sites
    couplings: Values
    scale: float

    @classmethod
    def of(cls, unary: Values, first: Sites, second: Sites, weights: Values) -> Spins:
        total = float(np.abs(unary).sum() + np.abs(weights).sum())
        scale = math.ldexp(1.0, min(900, math.frexp(MOST)[1] - math.frexp(total)[1] - 1)) if total else 1.0
        return cls(np.rint(unary * scale), first, second, -np.rint(weights * scale), scale)

    def model(self) -> dimod.BinaryQuadraticModel:
        import dimod

        pairs = (self.first, self.second, self.couplings)
        return dimod.BinaryQuadraticModel.from_numpy_vectors(self.fields, pairs, 0.0, dimod.SPIN)

    def typical_change(self) -> float:
        """The median over all sites of the most that a flip can change the energy (twice it, scaled)."""
        coupled = np.abs(self.couplings)
        most = np.abs(self.fields) + sum(np.bincount(i, coupled, len(self.fields)) for i in (self.first, self.second))
        most = most[most > 0]
        return 2.0 * float(np.median(most)) if len(most) else 1.0


class Sampler(Protocol):
    """What finds labels for spins: depends on its arguments alone."""

    @property
    def seed(self) -> int: ...

    @property
    def reads(self) -> int: ...

    def sample(self, spins: Spins, starts: BinaryLabels, seed: int) -> BinaryLabels:
        """Labels, a row for each start; `seed` is between 1 and 2^31."""
        ...


class SampledMinimizer:
    """The pairs as a list. Answers with the best of a sampler's finds and of the start, no single flip better."""

    def __init__(self, energy: Energy, sampler: Sampler) -> None:
        self._edges = energy.pairs.edges()
        self._here = _core.Standpoint(neighbors(energy.pairs))
        self._sampler = sampler

    def minimize(self, unary: Reals, *, start: BinaryLabels | None = None) -> Answer:
        prices = unary.ravel().astype(np.float64)
        first = prices < 0 if start is None else start.ravel()
        draw = np.random.default_rng(self._sampler.seed)
        seed = int(draw.integers(1, 2**31))  # before the starts, so that the first read does not depend on the others
        starts = np.vstack([first, draw.random((self._sampler.reads - 1, len(prices))) < 0.5])
        spins = Spins.of(prices, *self._edges)
        # A sampler stops between reads at best: where it is cancelled, a read ends in its own time.
        sampled = run_aside(lambda: self._sampler.sample(spins, starts, seed))
        finds = [self._polished(prices, labels) for labels in (first, *sampled)]
        return Answer(lowest(self._here, prices, finds).reshape(unary.shape))

    def _polished(self, prices: Values, labels: BinaryLabels) -> BinaryLabels:
        self._here.stand(prices, np.ascontiguousarray(labels))
        self._here.descend(MOST_FLIPS * len(prices))
        return self._here.labels()


def require_samplers(purpose: str) -> None:
    """Refuse, with the command that helps, where dwave-samplers is missing."""
    require_extra("dwave", purpose)


def in_order(samples: dimod.SampleSet) -> BinaryLabels:
    """The labels of a sample set, a row for each sample, the sites in their order."""
    order = np.argsort(np.array(list(samples.variables), dtype=np.int64))
    rows: BinaryLabels = samples.record.sample[:, order] > 0
    return rows
