"""A block of `Bracketing`: reads its part of the arrays where it runs, does what the message says, and keeps nothing.

Look      what the scale and beta follow from: the largest unary, the mean contrast
Prove     which labels are certain whatever the open sites outside are
Extract   what is left of the energy on the open sites, as a list of pairs
Settle    the best labels of open sites when pairs with open sites of other blocks are left out
Finish    the energy of labels, and the labels written to their place
"""

from __future__ import annotations

import math
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.arrays import Labels, Sites, binary_places, digest
from dope.energy import Energy
from dope.errors import InputError
from dope.fixed_point import FixedPoint
from dope.lazy import LazyEnergy
from dope.methods.known import LABEL, OPEN, Codes, moved, packed, unpacked
from dope.pairs import Box, native_features
from dope.steps import BlockTask
from dope.sums import exact_sum

# A price beyond this decides its site alone, and the sum of its pairs beside it is an int64 still.
MOST_UNITS = 2.0**50


@dataclass
class Work:
    """What a block did, when and where; seconds by `time.time` and for reading, solving and writing."""

    worker: str = ""
    begun: float = 0.0
    ended: float = 0.0
    read: float = 0.0
    solve: float = 0.0
    write: float = 0.0

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        setattr(self, what, getattr(self, what) + time.perf_counter() - begun)

    def as_task(self, k: int, recipe: BoxRecipe, message: Look | Prove | Finish, reply: Any) -> BlockTask:
        """For a trace: what block k was asked, and did."""
        box = message.mine if isinstance(message, Prove) else recipe.box
        region = recipe.energy.pairs.around(box) if isinstance(message, Look) else message.region
        return BlockTask(
            block=k,
            worker=self.worker,
            begun=self.begun,
            ended=self.ended,
            read=self.read,
            solve=self.solve,
            write=self.write,
            kind=message.kind,
            sites=_size(box),
            region=_size(region),
            sent=0 if isinstance(message, Look) else len(message.codes or b""),
            received=getattr(reply, "bytes", 0),
        )


def _size(box: Box) -> int:
    return math.prod(s.stop - s.start for s in box)


@dataclass(frozen=True)
class Look:
    """Asks for facts; the contrast is counted in `unit`, or left out where that is None."""

    kind: ClassVar[str] = "measure"
    prices: bool
    places: bool
    unit: float | None


@dataclass(frozen=True)
class Seen:
    """Facts about the sites of a block that take part, and about the pairs that begin there.

    `digest` is of all that the block's part of the energy follows from; it is empty where prices were not asked for.
    """

    inside: int
    largest: float
    total: float
    places: int | None
    low: tuple[float, ...]
    high: tuple[float, ...]
    contrast: int
    pairs: int
    digest: str
    work: Work


@dataclass(frozen=True)
class Prove:
    """`region` holds the open sites `mine` of the block and all their neighbours; `codes` are those of the region."""

    kind: ClassVar[str] = "prove"
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

    energy: LazyEnergy
    box: Box

    def open(self) -> BoxWorker:
        return BoxWorker(self.energy, self.box)

    def __reduce__(self) -> tuple[type[BoxRecipe], tuple[LazyEnergy, Box]]:
        return BoxRecipe, (self.energy.excerpt(self.energy.pairs.around(self.box)), self.box)


class BoxWorker:
    """Answers messages; nothing stays from one to the next."""

    def __init__(self, energy: LazyEnergy, box: Box) -> None:
        self._energy, self._box = energy, box

    def __call__(self, message: Look | Prove | Finish) -> Any:
        work = Work(worker=f"{socket.gethostname()}:{os.getpid()}:{threading.current_thread().name}", begun=time.time())
        try:
            match message:
                case Look():
                    return self._look(message, work)
                case Extract():
                    return self._extract(message, work)
                case Settle():
                    return self._settle(message, work)
                case Prove():
                    return self._prove(message, work)
                case Finish():
                    return self._finish(message, work)
        finally:
            work.ended = time.time()

    def _look(self, ask: Look, work: Work) -> Seen:
        energy, box = self._energy, self._box
        region = energy.pairs.around(box)
        mine = moved(box, [s.start for s in region], -1)
        with work.timed("read"):
            inside = energy.inside_at(region)
            nothing = inside is not None and not inside[mine].any()
            prices = energy.unary.at(box) if ask.prices and not nothing else None
            seen = energy.features is not None and not nothing
            pixels = energy.features_at(region, inside) if seen else None
        largest = total = 0.0
        places: int | None = 0 if ask.places else None
        number = math.prod(s.stop - s.start for s in box) if inside is None else int(np.count_nonzero(inside[mine]))
        if prices is not None:
            own = prices if inside is None else prices[inside[mine]]
            _require_finite(own, box)
            size = np.abs(own)
            largest, total = float(size.max()), float(size.sum(dtype=np.float64))
            places = binary_places([own]) if ask.places else None
        low: tuple[float, ...] = ()
        high: tuple[float, ...] = ()
        contrast = pairs = 0
        if pixels is not None:
            used = pixels[mine].reshape(-1, pixels.shape[-1]) if inside is None else pixels[mine][inside[mine]]
            low = tuple(float(used[:, c].min()) for c in range(used.shape[-1]))
            high = tuple(float(used[:, c].max()) for c in range(used.shape[-1]))
            if ask.unit is not None and len(energy.pairs.offsets):
                corners = [s.start for s in mine], [s.stop for s in mine]
                here = None if inside is None else np.ascontiguousarray(inside)
                with work.timed("solve"):
                    contrast, pairs = _core.contrast(
                        native_features(pixels), energy.pairs.offsets, *corners, ask.unit, here
                    )
        here_only = (None if wider is None else wider[mine] for wider in (inside, pixels))
        found = digest([*here_only, prices, *self._given_weights(box)]) if ask.prices else ""
        return Seen(number, largest, total, places, low, high, contrast, pairs, found, work)

    def _given_weights(self, box: Box) -> list[npt.NDArray[Any]]:
        """What the weights of a box's pairs are made of besides features."""
        fields, counts = self._energy.fields or (), self._energy.pairs.counts
        divisors = [] if counts is None else [count[s] for count, s in zip(counts, box, strict=True)]
        return [*(field.at(box) for field in fields), *divisors]

    def _prove(self, ask: Prove, work: Work) -> Proved:
        part = self._opened(ask, work)
        if part is None:
            return self._proved(ask, np.zeros(tuple(s.stop - s.start for s in ask.mine), dtype=np.uint8), work)
        with work.timed("solve"):
            flow = _core.GridFlow(part.pairs.native(), ask.fixed.scale, ask.fixed.bits)
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
            flow = _core.GridFlow(apart.native(), ask.fixed.scale, ask.fixed.bits)
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
    target: Labels
    elsewhere: Labels
    near: Labels
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


def _grown(where: Labels, reach: tuple[int, ...]) -> Labels:
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


def _flat(places: tuple[Sites, ...], which: Labels, corner: list[int], shape: tuple[int, ...]) -> Sites:
    moved_places = tuple(p[which] + c for p, c in zip(places, corner, strict=True))
    return np.ravel_multi_index(moved_places, shape).astype(np.int64)


def _between_blocks(energy: Energy, labels: Labels, undecided: Labels, mine: Box) -> Fraction:
    """What pairs of open sites of this block and of others cost, as far as they begin here and differ."""
    pairs: Any = energy.pairs
    inside = undecided if pairs.inside is None else undecided & pairs.inside
    some = replace(pairs, inside=np.ascontiguousarray(inside))
    left_out: Fraction = some.exact_roughness(labels, mine) - some.crop(mine).exact_roughness(labels[mine])
    return left_out


def _require_finite(values: npt.NDArray[Any], box: Box) -> None:
    if not np.isfinite(values.sum()) and not np.isfinite(values).all():
        where = ", ".join(f"{s.start}:{s.stop}" for s in box)
        bad = values[~np.isfinite(values)][0]
        raise InputError(f"unary holds {bad} in [{where}]; expected finite numbers. Clip or replace such values first.")
