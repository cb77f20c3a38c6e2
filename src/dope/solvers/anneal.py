"""Simulated annealing, by the sampler of dwave-samplers.

Site after site flips with probability min(1, exp(-beta dE)), where dE is what flipping costs; after every sweep over
all sites beta grows, by the same factor each time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dope.arrays import BinaryLabels
from dope.cancellation import is_cancelled
from dope.energy import Energy
from dope.solvers.parts.settings import require_count
from dope.solvers.parts.spins import SampledMinimizer, Spins, in_order, require_samplers

# beta times the most that a flip at a typical site can change the energy, first and last. At 3 a grid that attracts is
# about to order itself (2D Ising: 3.5), so hotter sweeps do nothing; colder than 1000, nothing moves any more. Measured
# on squared curvature and deconvolution (tests/test_solvers_sampled.py): to end at 300 was worse, to begin at 10 no
# better.
HOT, COLD = 3.0, 1000.0


@dataclass(frozen=True)
class Anneal:
    """Low energies of any signs by slow cooling: often the best there is, given time. Needs `dope[dwave]`.

    `reads` runs of `sweeps` sweeps each; the first begins with the start, where there is one, the others with random
    labels. Labels depend on the input and the `seed` alone, with one version of dwave-samplers. The answer is never
    worse than the start, nor than that of fewer reads.
    """

    sweeps: int = 1000
    reads: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        require_count("Anneal: sweeps", self.sweeps, 1)
        require_count("Anneal: reads", self.reads, 1)
        require_count("Anneal: seed", self.seed, 0)

    def prepare(self, energy: Energy) -> SampledMinimizer:
        require_samplers("Anneal()")
        return SampledMinimizer(energy, self)

    def sample(self, spins: Spins, starts: BinaryLabels, seed: int) -> BinaryLabels:
        from dwave.samplers import SimulatedAnnealingSampler

        typical = spins.typical_change()
        # From the cold end, so that a single sweep is a cold one.
        betas = np.geomspace(COLD / typical, HOT / typical, self.sweeps)[::-1]
        samples = SimulatedAnnealingSampler().sample(  # type: ignore[no-untyped-call]
            spins.model(),
            beta_schedule_type="custom",
            beta_schedule=betas,
            initial_states=(np.where(starts, 1, -1).astype(np.int8), range(len(spins.fields))),
            num_reads=len(starts),
            seed=seed,
            interrupt_function=is_cancelled,  # asked between reads
        )
        return in_order(samples)
