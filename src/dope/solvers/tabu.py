"""Tabu search (Palubeckis 2004, MST2), by the sampler of dwave-samplers.

The flip that costs least is taken, even uphill, but no site flips back soon; after so many steps without more to find
the search begins anew from the best labels with some of them changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dope.arrays import BinaryLabels
from dope.energy import Energy
from dope.errors import InputError
from dope.memory import require_bytes
from dope.solvers.parts.settings import require_count
from dope.solvers.parts.spins import SampledMinimizer, Spins, in_order, require_samplers

# The library keeps the pairs of all sites with all others, six times over.
MOST_SITES = 15_000
BYTES_PER_PAIR = 6 * 8


@dataclass(frozen=True)
class Tabu:
    """Low energies of any signs by a search that does not turn back; best where every site is everyone's neighbour.

    At most 15 000 sites: memory grows with their square. `restarts` further searches follow the first. It ends by count
    and not by the clock, so that labels depend on the input and the `seed` alone, with one version of dwave-samplers.
    The answer is never worse than the start. Needs `dope[dwave]`.
    """

    restarts: int = 20
    seed: int = 0

    reads: ClassVar[int] = 1

    def __post_init__(self) -> None:
        require_count("Tabu: restarts", self.restarts, 0)
        require_count("Tabu: seed", self.seed, 0)

    def prepare(self, energy: Energy) -> SampledMinimizer:
        sites = energy.unary.size
        if sites > MOST_SITES:
            raise InputError(
                f"Tabu needs memory for the square of the number of sites, and the energy has {sites} of them; "
                f"expected at most {MOST_SITES}. Use Portfolio() or Anneal(), or more blocks."
            )
        require_bytes(f"Tabu with {sites} sites", BYTES_PER_PAIR * sites * sites)
        require_samplers("Tabu()")
        return SampledMinimizer(energy, self)

    def sample(self, spins: Spins, starts: BinaryLabels, seed: int) -> BinaryLabels:
        from dwave.samplers import TabuSampler

        samples = TabuSampler().sample(  # type: ignore[no-untyped-call]
            spins.model().binary,
            initial_states=(starts.astype(np.int8), range(len(spins.fields))),
            num_restarts=self.restarts,
            lower_bound_z=0,  # otherwise a dozen sites are searched as long as a hundred
            timeout=None,  # type: ignore[arg-type]  # what its words allow, unlike its types
            seed=seed,
        )
        return in_order(samples)
