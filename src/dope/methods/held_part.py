"""The energy around the open sites of a box, with everything else held at the label that it is known to have."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, Mask
from dope.energy import Energy
from dope.fixed_point import FixedPoint
from dope.methods.codes import LABEL, OPEN, Codes
from dope.methods.tiling import seen_from
from dope.pairs import GridPairs


@dataclass(frozen=True, eq=False)
class HeldPart:
    """An energy around open sites, ready to be minimized.

    Attributes
    ----------
    unary : with prices that hold all sites but `target` at their labels, and open ones elsewhere at 0.
    target : the sites whose labels are looked for.
    elsewhere : open sites of other blocks.
    near : `target` and what may be its neighbours; pairs are those among `near`.
    price : what a site costs that is held.
    """

    energy: Energy
    pairs: GridPairs
    unary: npt.NDArray[np.float64]
    codes: Codes
    mine: Box
    target: Mask
    elsewhere: Mask
    near: Mask
    price: float

    @classmethod
    def read(cls, energy: Energy, mine: Box, region: Box, *, codes: Codes, fixed: FixedPoint) -> HeldPart | None:
        """The part of a region around its box `mine`, or None where no site of that takes part."""
        inside = energy.inside_at(region)
        place = seen_from(mine, region)
        if inside is not None and not inside[place].any():
            return None
        if inside is not None:
            codes = np.where(inside, codes, np.uint8(0))
        return cls.of(energy.at(region), codes, place, fixed)

    @classmethod
    def of(cls, energy: Energy, codes: Codes, mine: Box, fixed: FixedPoint) -> HeldPart:
        pairs = energy.pairs
        assert isinstance(pairs, GridPairs)
        unproved = (codes & OPEN) != 0
        target = np.zeros(codes.shape, dtype=np.bool_)
        target[mine] = unproved[mine]
        elsewhere = unproved & ~target
        # More than all pairs of a site together, rounding included.
        price = pairs.strength + (pairs.degree + 2) / fixed.scale
        unary = energy.unary.astype(np.float64)
        held = np.where(codes & LABEL, -price, price)
        held[elsewhere] = price
        np.copyto(unary, held, where=~target)
        near = target if target.all() else _grown(target, pairs.reach)
        if pairs.inside is not None:
            near = near & pairs.inside
        if not near.all():
            pairs = replace(pairs, inside=np.ascontiguousarray(near))
        return cls(energy, pairs, unary, codes, mine, target, elsewhere, near, price)


def _grown(where: Mask, reach: tuple[int, ...]) -> Mask:
    """All that is as near as pairs reach along each axis."""
    grown = where
    for axis, far in enumerate(reach):
        wider = grown.copy()
        for step in range(1, min(far, where.shape[axis] - 1) + 1):
            low = tuple(slice(None) if a != axis else slice(None, -step) for a in range(where.ndim))
            high = tuple(slice(None) if a != axis else slice(step, None) for a in range(where.ndim))
            wider[low] |= grown[high]
            wider[high] |= grown[low]
        grown = wider
    return grown
