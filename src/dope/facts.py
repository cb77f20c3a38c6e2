"""Measure what must be known about all of an energy: once, in blocks, where the arrays are.

The scale of integers follows from the largest unary and their sum, the sharpness beta from the mean contrast of all
pairs, and whether a run may be resumed from a digest of everything. Sums do not depend on how the grid is cut.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.arrays import Box, binary_places, check_finite, digest
from dope.energy import Energy, Facts
from dope.errors import InputError
from dope.pairs import GridPairs, native_features
from dope.partition import Partition
from dope.protocols import Executor
from dope.rounding import nearest
from dope.stored import place_in_whole
from dope.sums import exact_sum
from dope.work import Work

# Pixels of these types have whole squares far below 2^53, which add up exactly in any unit.
SMALL_INTEGERS = ("|u1", "|i1", "<u2", "<i2", ">u2", ">i2")
# What squares of such differences are counted in.
SMALL_UNIT = 2.0**-6


def measure_facts(
    energy: Energy,
    partition: Partition,
    executor: Executor,
    *,
    done: Callable[[int, Measured], object] | None = None,
) -> Energy:
    """The energy with its facts and its beta: all arrays are read once, or twice for pixels that are no integers.

    `done` is called with every block's reply.
    """
    if energy.facts is not None:
        return energy
    pairs = _grid(energy)
    places = pairs.fields is None and pairs.beta is not None and pairs.binary_places() is not None
    small = pairs.features is not None and pairs.features.dtype.str in SMALL_INTEGERS
    first = Measure(unary=True, places=places, unit=SMALL_UNIT if small and pairs.beta is None else None)
    measured = _measure_blocks(energy, partition, executor, first, done)
    inside = sum(one.inside for one in measured)
    if inside == 0:
        raise InputError("mask has no site inside; expected some that are not 0, where sites take part.")
    beta = pairs.beta
    if beta is None:
        beta = _measure_beta(energy, partition, executor, measured, first.unit)
    found = [one.places for one in measured if one.inside]
    facts = Facts(
        sites=pairs.sites,
        inside=inside,
        largest=max(one.largest for one in measured),
        total=nearest(sum((one.total for one in measured), Fraction(0))),
        places=None if any(p is None for p in found) else max(p for p in found if p is not None),
        digest=hashlib.sha256("".join(one.digest for one in measured).encode()).hexdigest(),
    )
    return replace(energy, pairs=replace(pairs, beta=beta), facts=facts)


@dataclass(frozen=True)
class Measure:
    """Asks a block for its facts; the contrast is counted in `unit`, or left out where that is None."""

    kind: ClassVar[str] = "measure"
    unary: bool
    places: bool
    unit: float | None


@dataclass(frozen=True)
class Measured:
    """Facts about the sites of a block that take part, and about the pairs that begin there.

    `digest` is of all that the block's part of the energy follows from; it is empty where the unary was not asked for.
    """

    inside: int
    largest: float
    total: Fraction
    places: int | None
    low: tuple[float, ...]
    high: tuple[float, ...]
    contrast: int
    pairs: int
    digest: str
    work: Work


@dataclass(frozen=True, eq=False)
class MeasureRecipe:
    """A block, told by its place; sent elsewhere it takes along arrays in memory as far as it needs them."""

    energy: Energy
    where: Box

    def open(self) -> MeasureWorker:
        return MeasureWorker(self.energy, self.where)

    def __reduce__(self) -> tuple[type[MeasureRecipe], tuple[Energy, Box]]:
        return MeasureRecipe, (self.energy.confined_to(_grid(self.energy).around(self.where)), self.where)


class MeasureWorker:
    """Reads its box, and keeps nothing."""

    def __init__(self, energy: Energy, box: Box) -> None:
        self._energy, self._box = energy, box

    def __call__(self, ask: Measure) -> Measured:
        work = Work.here()
        try:
            return self._measure(ask, work)
        finally:
            work.end()

    def _measure(self, ask: Measure, work: Work) -> Measured:
        energy, box, grid = self._energy, self._box, _grid(self._energy)
        region = grid.around(box)
        mine = tuple(slice(s.start - r.start, s.stop - r.start) for s, r in zip(box, region, strict=True))
        with work.timed("read"):
            inside = energy.inside_at(region)
            nothing = inside is not None and not inside[mine].any()
            unary = energy.unary[box] if ask.unary and not nothing else None
            seen = grid.features is not None and not nothing
            pixels = energy.features_at(region, inside) if seen else None
        number = math.prod(s.stop - s.start for s in box) if inside is None else int(np.count_nonzero(inside[mine]))
        largest, total = 0.0, Fraction(0)
        places: int | None = 0 if ask.places else None
        if unary is not None:
            own = unary if inside is None else unary[inside[mine]]
            place = place_in_whole(energy.unary, box)
            check_finite("unary", unary, box=place, inside=None if inside is None else inside[mine])
            size = np.abs(own)
            largest, total = float(size.max()), exact_sum(size)
            places = binary_places([own]) if ask.places else None
        low: tuple[float, ...] = ()
        high: tuple[float, ...] = ()
        contrast = pairs = 0
        if pixels is not None:
            used = pixels[mine].reshape(-1, pixels.shape[-1]) if inside is None else pixels[mine][inside[mine]]
            low = tuple(float(used[:, c].min()) for c in range(used.shape[-1]))
            high = tuple(float(used[:, c].max()) for c in range(used.shape[-1]))
            if ask.unit is not None and len(grid.offsets):
                corners = [s.start for s in mine], [s.stop for s in mine]
                here = None if inside is None else np.ascontiguousarray(inside)
                with work.timed("solve"):
                    contrast, pairs = _core.contrast(native_features(pixels), grid.offsets, *corners, ask.unit, here)
        here_only = (None if wider is None else wider[mine] for wider in (inside, pixels))
        found = digest([*here_only, unary, *_given_weights(grid, box)]) if ask.unary else ""
        return Measured(number, largest, total, places, low, high, contrast, pairs, found, work)


def _given_weights(grid: GridPairs, box: Box) -> list[npt.NDArray[Any]]:
    """What the weights of a box's pairs are made of besides features."""
    divisors = [] if grid.counts is None else [count[s] for count, s in zip(grid.counts, box, strict=True)]
    moved = () if grid.fused is None else grid.fused.at(box).arrays
    return [*(field[box] for field in grid.fields or ()), *divisors, *(one for one in moved if one is not None)]


def _measure_blocks(
    energy: Energy, partition: Partition, executor: Executor, measure: Measure, done: Any = None
) -> list[Measured]:
    recipes = [MeasureRecipe(energy, block.where) for block in partition.blocks if isinstance(block.where, tuple)]
    with executor.gather(recipes) as crew:
        return crew.ask([measure] * len(recipes), done=done)


def _measure_beta(
    energy: Energy, partition: Partition, executor: Executor, measured: Sequence[Measured], unit: float | None
) -> float:
    """As `mean_contrast_beta`: to the same bit, however the grid is cut."""
    lows = np.array([one.low for one in measured if one.low])
    highs = np.array([one.high for one in measured if one.low])
    spread = highs.max(axis=0) - lows.min(axis=0)
    widest = float((spread * spread).sum())
    if widest == 0.0 or not len(_grid(energy).offsets):
        return 0.0
    if not math.isfinite(widest):
        raise InputError("features differ by more than a float64 can square; scale them down first.")
    if unit is None:
        unit = math.ldexp(1.0, math.frexp(widest)[1] - 40)
        if unit == 0.0:
            return 0.0
        again = Measure(unary=False, places=False, unit=unit)
        measured = _measure_blocks(energy, partition, executor, again)
    total, pairs = sum(one.contrast for one in measured), sum(one.pairs for one in measured)
    return pairs / (2.0 * total * unit) if total else 0.0


def _grid(energy: Energy) -> GridPairs:
    if not isinstance(energy.pairs, GridPairs):
        raise InputError("the energy is one of a graph; expected one of a grid, which can be cut into boxes.")
    return energy.pairs
