"""Minimum cut by maximum flow: the exact minimum of a submodular energy.

The core counts in integers (`fixed_point`). Sites that tie get label 0: the answer is the smallest minimiser, which is
unique, so it does not depend on the order of work, on threads, or on what was solved before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dope import _core
from dope.arrays import Labels, Reals, binary_places
from dope.energy import Energy
from dope.errors import InputError
from dope.fixed_point import FixedPoint
from dope.pairs import GridPairs, Pairs
from dope.protocols import Answer


@dataclass(frozen=True)
class MaxFlow:
    """Exact minimum of a submodular energy, warm-started when only the unary moves.

    `bits` (16, 32 or 64) is the width of the capacities; by default the narrowest that holds integer costs as they
    are, and 32 for costs that have to be rounded.
    """

    bits: int | None = None

    def prepare(self, energy: Energy) -> MaxFlowMinimizer:
        if energy.pairs.lowest < 0:
            raise InputError(
                f"a pair weight is as low as {energy.pairs.lowest:g}; MaxFlow needs weights of 0 or more. "
                f"Use a solver for any sign, such as Icm()."
            )
        return MaxFlowMinimizer(energy, self.bits)


class MaxFlowMinimizer:
    """The pairs as residual capacities, kept from call to call."""

    def __init__(self, energy: Energy, bits: int | None) -> None:
        self._energy = energy
        self._bits = bits
        self._open(FixedPoint.of(energy, bits))

    def _open(self, fixed: FixedPoint) -> None:
        self._fixed = fixed
        self._flow = _open_flow(self._energy.pairs, fixed)

    def minimize(self, unary: Reals, *, start: Labels | None = None) -> Answer:
        del start  # the minimum does not depend on where one starts
        if self._fixed.error == 0.0 and not _holds(self._fixed, unary):
            # The costs were whole when the pairs were opened and are no longer: from now on count finely.
            self._open(FixedPoint.of(self._energy, self._bits, whole=False))
        self._flow.minimize(np.ascontiguousarray(unary, dtype=np.float64))
        labels = self._flow.labels()
        return Answer(labels, self._flow.value(), exact=True, rounding_error=self._fixed.error)


def _holds(fixed: FixedPoint, unary: Reals) -> bool:
    return binary_places([unary * fixed.scale], most=0) is not None


def _open_flow(pairs: Pairs, fixed: FixedPoint) -> _core.GridFlow | _core.GraphFlow:
    if isinstance(pairs, GridPairs):
        return _core.GridFlow(pairs.native(), fixed.scale, fixed.bits)
    edges = np.stack([pairs.first, pairs.second], axis=1)
    return _core.GraphFlow(pairs.sites, edges, pairs.weights, fixed.scale, fixed.bits)
