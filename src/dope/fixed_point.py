"""Costs as integers.

Flow solvers count in integers, so that "no augmenting path is left" and "energy equals bound" are equalities and not
tolerances. A cost c becomes rint(c x scale). The scale is a power of two, so scaling itself loses nothing:

- costs that are exact binary fractions (integers above all: scale 1) are solved as they are;
- other costs get the finest scale at which the capacities of a site still add up within their type.

The scale depends on bounds that all blocks of an energy share, never on a block's own values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dope.arrays import binary_places
from dope.energy import Energy
from dope.errors import InputError

# What the capacities of one site, and its own unary, may add up to: half of what the excess (int32, int32, int64)
# holds, as a warm start can move an excess by twice that. With 2^48 even the widest kernel's sum fits int64.
ROOM = {16: 2.0**30, 32: 2.0**30, 64: 2.0**48 - 1}
# A residual reaches twice its capacity.
LARGEST = {16: 2.0**14 - 1, 32: 2.0**30, 64: 2.0**48 - 1}
# Costs that have to be rounded need no more than this, which leaves room for strokes that cost a million times as much.
FINE_ROOM = 2.0**40
# Costs that are no binary fractions are counted in capacities of 32 bits unless the caller asks otherwise, or unless
# rounding could then cost more than this fraction of all unaries together: a few huge weights do that.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class FixedPoint:
    """Costs are counted in units of 1/scale, capacities held in `bits` bits.

    `error` bounds what the rounding can cost: the minimiser of the integer energy is at most that far above the
    minimum of the energy itself.
    """

    scale: float
    bits: int
    error: float

    @classmethod
    def of(cls, energy: Energy, bits: int | None = None, *, whole: bool = True) -> FixedPoint:
        """The scale for an energy; `whole=False` for one whose unary will move between binary fractions."""
        if bits not in (None, *ROOM):
            raise InputError(f"bits is {bits}; expected 16, 32 or 64.")
        exact = _exact(energy, bits) if whole else None
        if exact is not None:
            return exact
        rounded = _finest(energy, bits or 32)
        too_coarse = rounded.error > TOLERANCE * float(abs(energy.unary).sum(dtype=float))
        return _finest(energy, 64) if bits is None and too_coarse else rounded


def _exact(energy: Energy, bits: int | None) -> FixedPoint | None:
    """Scale the costs to integers, if they are binary fractions and some type has room for them."""
    of_pairs = energy.pairs.binary_places()
    if of_pairs is None:
        return None
    places = binary_places([energy.unary])
    if places is None:
        return None
    scale = 2.0 ** max(places, of_pairs)
    for width in ROOM if bits is None else (bits,):
        if _fits(energy, scale, width):
            return FixedPoint(scale, width, 0.0)
    return None


def _finest(energy: Energy, bits: int) -> FixedPoint:
    strength = energy.pairs.strength or float(abs(energy.unary).max()) or 1.0
    # A finer unit than 2^-900 would push costs of order one out of float64.
    scale = 2.0 ** min(900, math.floor(math.log2(min(ROOM[bits], FINE_ROOM)) - math.log2(strength)))
    while not _fits(energy, scale, bits):
        scale /= 2
    return FixedPoint(scale, bits, (energy.unary.size + energy.pairs.number) / scale)


def _fits(energy: Energy, scale: float, bits: int) -> bool:
    pairs = energy.pairs
    rounding = pairs.degree / 2 + 2
    return pairs.strength * scale + rounding <= ROOM[bits] and pairs.largest * scale <= LARGEST[bits]
