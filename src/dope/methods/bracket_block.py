"""A block of `Bracketing`: reads its part of the arrays where it runs, does what the message says, and keeps nothing.

Prove     which labels are certain whatever the open sites outside are
Extract   what is left of the energy on the open sites, as a list of pairs
Settle    the best labels of open sites when pairs with open sites of other blocks are left out
Finish    the energy of labels, and the labels written to their place
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Box, Mask, Sites
from dope.energy import Energy
from dope.fixed_point import FixedPoint
from dope.methods.known import LABEL, OPEN, Codes, moved, packed, unpacked
from dope.pairs import GridPairs
from dope.protocols import FlowSolver
from dope.sums import exact_sum
from dope.work import Work

# A price beyond this decides its site alone, and the sum of its pairs beside it is an int64 still.
MOST_UNITS = 2.0**50


@dataclass(frozen=True)
class Prove:
    """`region` holds the open sites `mine` of the block and all their neighbours; `codes` are those of the region.

    `solver` opens flows, and `fixed` says how these count costs.
    """

    kind: ClassVar[str] = "prove"
    solver: FlowSolver
    fixed: FixedPoint
    mine: Box
    region: Box
    codes: bytes | None


@dataclass(frozen=True)
class Proved:
    """The codes of `mine` now, and how many of them are open."""

    mine: Box
    codes: bytes
    open: int
    work: Work

    @property
    def bytes(self) -> int:
        """What it holds."""
        return len(self.codes)


@dataclass(frozen=True)
class Extract(Prove):
    """As `Prove`; answered with `Extracted`."""

    kind: ClassVar[str] = "extract"


@dataclass(frozen=True, eq=False)
class Extracted:
    """Open sites, their unaries with proved neighbours in them, and the pairs that begin in the block; all integers."""

    sites: Sites
    unary: npt.NDArray[np.int64]
    first: Sites
    second: Sites
    weights: npt.NDArray[np.int64]
    work: Work

    @property
    def bytes(self) -> int:
        """What it holds."""
        return 8 * (2 * len(self.sites) + 3 * len(self.weights))


@dataclass(frozen=True)
class Settle(Prove):
    """As `Prove`; answered with codes whose sites are as open as before, but have labels."""

    kind: ClassVar[str] = "settle"


@dataclass(frozen=True)
class Finish:
    """`codes` are those of the block and all its neighbours; `target`, if there is one, is where labels go."""

    kind: ClassVar[str] = "finish"
    region: Box
    codes: bytes
    target: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class Finished:
    """The block's part of the energy, and what leaving out pairs of open sites can have cost."""

    energy: Fraction
    left_out: Fraction
    work: Work
    bytes: int = 16


@dataclass(frozen=True, eq=False)
class BoxRecipe:
    """A block, told by its place; sent elsewhere it takes along arrays in memory as far as it needs them."""

    energy: Energy
    where: Box

    def open(self) -> BoxWorker:
        return BoxWorker(self.energy, self.where)

    def __reduce__(self) -> tuple[type[BoxRecipe], tuple[Energy, Box]]:
        return BoxRecipe, (self.energy.confined_to(grid_of(self.energy).around(self.where)), self.where)


def grid_of(energy: Energy) -> GridPairs:
    """The pairs of an energy on a grid."""
    assert isinstance(energy.pairs, GridPairs)
    return energy.pairs


class BoxWorker:
    """Answers messages; nothing stays from one to the next."""

    def __init__(self, energy: Energy, box: Box) -> None:
        self._energy, self._box = energy, box

    def __call__(self, message: Prove | Finish) -> Any:
        work = Work.here()
        try:
            match message:
                case Extract():
                    return self._extract(message, work)
                case Settle():
                    return self._settle(message, work)
                case Prove():
                    return self._prove(message, work)
                case Finish():
                    return self._finish(message, work)
        finally:
            work.end()

    def _prove(self, ask: Prove, work: Work) -> Proved:
        part = self._opened(ask, work)
        if part is None:
            return self._proved(ask, np.zeros(tuple(s.stop - s.start for s in ask.mine), dtype=np.uint8), work)
        with work.timed("solve"):
            flow = ask.solver.open_flow(part.pairs, ask.fixed)
            flow.minimize(part.unary)
            low = flow.labels()
            high = low
            elsewhere = np.flatnonzero(part.elsewhere & part.near)
            if len(elsewhere):
                flow.change(elsewhere, np.full(len(elsewhere), -part.price))
                high = flow.labels()
            del flow
            certain = part.target & (low == high)
            codes = np.where(certain, low.astype(np.uint8), part.codes)[part.mine]
        return self._proved(ask, codes, work)

    def _settle(self, ask: Settle, work: Work) -> Proved:
        part = self._opened(ask, work)
        assert part is not None  # nothing is open outside the mask
        with work.timed("solve"):
            apart = replace(part.pairs, inside=part.near & ~part.elsewhere)
            flow = ask.solver.open_flow(apart, ask.fixed)
            flow.minimize(part.unary)
            codes = np.where(part.target, OPEN | flow.labels().astype(np.uint8), part.codes)[part.mine]
        return self._proved(ask, codes, work)

    def _proved(self, ask: Prove, codes: Codes, work: Work) -> Proved:
        with work.timed("write"):
            return Proved(ask.mine, packed(codes), int(np.count_nonzero(codes & OPEN)), work)

    def _opened(self, ask: Prove, work: Work) -> _Part | None:
        """The energy around the open sites, everything else held at what it is known to be, or None where none is."""
        with work.timed("read"):
            inside = self._energy.inside_at(ask.region)
            mine = moved(ask.mine, [s.start for s in ask.region], -1)
            if inside is not None and not inside[mine].any():
                return None
            energy = self._energy.at(ask.region)
            shape = energy.shape
            codes = np.full(shape, OPEN, dtype=np.uint8) if ask.codes is None else unpacked(ask.codes, shape)
            if inside is not None:
                codes[~inside] = 0
            return _Part.of(energy, codes, mine, ask.fixed)

    def _extract(self, ask: Extract, work: Work) -> Extracted:
        part = self._opened(ask, work)
        assert part is not None
        with work.timed("solve"):
            return _extracted(part, ask, self._energy.shape, work)

    def _finish(self, ask: Finish, work: Work) -> Finished:
        energy, box = self._energy, self._box
        codes = unpacked(ask.codes, tuple(s.stop - s.start for s in ask.region))
        mine = moved(box, [s.start for s in ask.region], -1)
        labels = (codes & LABEL) != 0
        value = left_out = Fraction(0)
        if labels.any():
            with work.timed("read"):
                whole = energy.at(ask.region)
            with work.timed("solve"):
                value = exact_sum(whole.unary[mine], labels[mine])
                value += whole.pairs.exact_roughness(labels, mine)  # type: ignore[arg-type]
                undecided = (codes & OPEN) != 0
                if undecided.any():
                    left_out = _between_blocks(whole, labels, undecided, mine)
        if ask.target is not None:
            with work.timed("write"):
                ask.target[box] = labels[mine]
        return Finished(value, left_out, work)


@dataclass(frozen=True, eq=False)
class _Part:
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
    pairs: Any
    unary: npt.NDArray[np.float64]
    codes: Codes
    mine: Box
    target: Mask
    elsewhere: Mask
    near: Mask
    price: float

    @classmethod
    def of(cls, energy: Energy, codes: Codes, mine: Box, fixed: FixedPoint) -> _Part:
        pairs: Any = energy.pairs
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


def _extracted(part: _Part, ask: Prove, shape: tuple[int, ...], work: Work) -> Extracted:
    """The integer energy on the open sites; whole pairs of them belong to the block where they begin."""
    scale, region, target = ask.fixed.scale, part.target.shape, part.target
    places = np.nonzero(target)
    unary = np.zeros(region, dtype=np.int64)
    unary[places] = np.rint(part.energy.unary[places].astype(np.float64) * scale).clip(-MOST_UNITS, MOST_UNITS)
    corner = [s.start for s in ask.region]
    weights = part.pairs.native()
    fitting = part.pairs.offsets[part.pairs.fits]
    firsts, seconds, capacities = [], [], []
    for m, offset in enumerate(fitting.tolist()):
        row = weights.weights(m)
        for sign in (1, -1):
            others = tuple(p + sign * o for p, o in zip(places, offset, strict=True))
            here = np.logical_and.reduce([(q >= 0) & (q < n) for q, n in zip(others, region, strict=True)])
            own, far = tuple(p[here] for p in places), tuple(q[here] for q in others)
            capacity = np.rint(row[own if sign == 1 else far] * scale).astype(np.int64)
            both = ((part.codes[far] & OPEN) != 0) & part.near[far]
            if sign == 1:
                pair = both & (capacity > 0)
                firsts.append(_flat(own, pair, corner, shape))
                seconds.append(_flat(far, pair, corner, shape))
                capacities.append(capacity[pair])
            sure = ~both
            pull = np.where(part.codes[far] & LABEL, -capacity, capacity)
            np.add.at(unary, tuple(p[sure] for p in own), pull[sure])
    everything = np.ones(len(places[0]), dtype=np.bool_)
    none = [np.zeros(0, dtype=np.int64)]
    return Extracted(
        _flat(places, everything, corner, shape),
        unary[places],
        np.concatenate(firsts or none),
        np.concatenate(seconds or none),
        np.concatenate(capacities or none),
        work,
    )


def _flat(places: tuple[Sites, ...], which: Mask, corner: list[int], shape: tuple[int, ...]) -> Sites:
    moved_places = tuple(p[which] + c for p, c in zip(places, corner, strict=True))
    return np.ravel_multi_index(moved_places, shape).astype(np.int64)


def _between_blocks(energy: Energy, labels: BinaryLabels, undecided: Mask, mine: Box) -> Fraction:
    """What pairs of open sites of this block and of others cost, as far as they begin here and differ."""
    pairs: Any = energy.pairs
    inside = undecided if pairs.inside is None else undecided & pairs.inside
    some = replace(pairs, inside=np.ascontiguousarray(inside))
    left_out: Fraction = some.exact_roughness(labels, mine) - some.crop(mine).exact_roughness(labels[mine])
    return left_out
