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
from typing import Protocol

from dope.arrays import MOST_PLACES, Reals, binary_places, measure_span
from dope.energy import Energy
from dope.errors import InputError
from dope.pairs import GridPairs

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
        return cls.for_costs(Costs.of(energy, whole=whole), bits)

    @classmethod
    def for_costs(cls, costs: Costs, bits: int | None = None) -> FixedPoint:
        """The scale for an energy of which no more than this is known."""
        if bits not in (None, *ROOM):
            raise InputError(f"bits is {bits}; expected 16, 32 or 64.")
        exact = _exact(costs, bits)
        if exact is not None:
            return exact
        rounded = _finest(costs, bits or 32)
        too_coarse = rounded.error > TOLERANCE * costs.total
        return _finest(costs, 64) if bits is None and too_coarse else rounded

    def holds(self, unary: Reals) -> bool:
        """Whether counting this unary so is as good as promised: where no error is, it must be whole."""
        return self.error > 0.0 or binary_places([unary * self.scale], most=0) is not None


class Bounds(Protocol):
    """What capacities follow from: pairs have it, and what pairs are made of."""

    @property
    def strength(self) -> float:
        """No less than the sum of |weight| over the pairs of any one site."""
        ...

    @property
    def largest(self) -> float: ...

    @property
    def degree(self) -> int: ...

    @property
    def number(self) -> int: ...


@dataclass(frozen=True)
class Costs:
    """What a scale follows from.

    Attributes
    ----------
    pairs : pairs, of which the numbers that bound all weights are asked for.
    sites : how many.
    places : binary places that costs need; None where some are no binary fractions.
    largest, total : of |unary|, the largest and the sum.
    """

    pairs: Bounds
    sites: int
    places: int | None
    largest: float
    total: float

    @classmethod
    def of(cls, energy: Energy, *, whole: bool = True) -> Costs:
        of_pairs = energy.pairs.binary_places() if whole else None
        span = measure_span(energy.unary, most=-1 if of_pairs is None else MOST_PLACES)
        return cls(
            pairs=energy.pairs,
            sites=energy.unary.size,
            places=None if of_pairs is None or span.places is None else max(of_pairs, span.places),
            largest=span.largest,
            total=span.total,
        )

    @classmethod
    def measured(cls, energy: Energy) -> Costs:
        """Of an energy on a grid whose facts are known, wherever its arrays lie."""
        facts, pairs = energy.facts, energy.pairs
        assert facts is not None and isinstance(pairs, GridPairs)
        of_pairs = pairs.binary_places() if pairs.fields is None else None
        places = None if of_pairs is None or facts.places is None else max(of_pairs, facts.places)
        # Outside a mask `Energy.grid` puts prices like the others.
        total = facts.total + (facts.sites - facts.inside) * (facts.largest or 1.0)
        return cls(pairs, facts.sites, places, facts.largest, total)


def _exact(costs: Costs, bits: int | None) -> FixedPoint | None:
    """Scale the costs to integers, if they are binary fractions and some type has room for them."""
    if costs.places is None:
        return None
    scale = 2.0**costs.places
    for width in ROOM if bits is None else (bits,):
        if _fits(costs, scale, width):
            return FixedPoint(scale, width, 0.0)
    return None


def _finest(costs: Costs, bits: int) -> FixedPoint:
    strength = costs.pairs.strength or costs.largest or 1.0
    # A finer unit than 2^-900 would push costs of order one out of float64.
    scale = 2.0 ** min(900, math.floor(math.log2(min(ROOM[bits], FINE_ROOM)) - math.log2(strength)))
    while not _fits(costs, scale, bits):
        scale /= 2
    return FixedPoint(scale, bits, (costs.sites + costs.pairs.number) / scale)


def _fits(costs: Costs, scale: float, bits: int) -> bool:
    pairs = costs.pairs
    rounding = pairs.degree / 2 + 2
    return pairs.strength * scale + rounding <= ROOM[bits] and pairs.largest * scale <= LARGEST[bits]
