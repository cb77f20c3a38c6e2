"""Minimum cut by maximum flow: the exact minimum of a submodular energy.

The core counts in integers (`fixed_point`). Sites that tie get label 0: the answer is the smallest minimiser, which is
unique, so it does not depend on the order of work, on threads, or on what was solved before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from threading import RLock
from typing import cast

import numpy as np

from dope import _core
from dope.arrays import BinaryLabels, Reals, Sites, as_reals, as_sites, check_finite
from dope.energy import Energy
from dope.errors import InputError
from dope.fixed_point import FixedPoint
from dope.flows import BlockFlow, Flow
from dope.pairs import GridPairs, Pairs
from dope.partition import Partition
from dope.protocols import Answer
from dope.solvers.parts import core_flows
from dope.solvers.parts.core_flows import CheckedBlockFlow, CheckedFlow, input_errors


@dataclass(frozen=True)
class MaxFlow:
    """Exact minimum of a submodular energy, warm-started when only the unary moves.

    `bits` (16, 32 or 64) is the width of the capacities; by default the narrowest that holds integer costs as they
    are, and 32 for costs that have to be rounded. With `check=True` the core recomputes after every solve, under every
    method, that flow and labels are what they must be, and raises RuntimeError where they are not: for tests, and slow.
    """

    bits: int | None = None
    check: bool = False

    def __post_init__(self) -> None:
        if repr(self.bits) not in ("None", "16", "32", "64"):  # 16.0 and "16" equal or look like a width, and are none
            raise InputError(f"bits is {self.bits!r}; expected 16, 32 or 64, or None for the narrowest that will do.")

    def prepare(self, energy: Energy) -> MaxFlowMinimizer:
        return MaxFlowMinimizer(_submodular(energy), self)

    def open_flow(self, pairs: Pairs, fixed: FixedPoint) -> Flow:
        flow = core_flows.open_flow(pairs, fixed)
        return cast(Flow, CheckedFlow(flow)) if self.check else flow

    def open_blocks(self, pairs: Pairs, partition: Partition, fixed: FixedPoint) -> BlockFlow:
        flow = core_flows.open_blocks(pairs, partition, fixed)
        return cast(BlockFlow, CheckedBlockFlow(flow)) if self.check else flow

    def bytes_needed(self, energy: Energy) -> int:
        """The `bytes` of the minimizer that `prepare(energy)` gives, without opening it.

        They stay the same while the unary does: fractions among costs that were whole may need a greater width.
        """
        pairs, bits = _submodular(energy).pairs, FixedPoint.of(energy, self.bits).bits
        with input_errors():
            if isinstance(pairs, GridPairs):
                return _core.GridFlow.bytes_needed(pairs.shape, pairs.offsets[pairs.fits], bits)
            return _core.GraphFlow.bytes_needed(pairs.sites, pairs.number, bits)


class MaxFlowMinimizer:
    """The pairs as residual capacities, kept from call to call: a FlowMinimizer."""

    def __init__(self, energy: Energy, solver: MaxFlow) -> None:
        self._solver = solver
        self._costs = _Costs(energy, solver.bits)
        self._fixed = self._costs.first
        self._flow: _core.GridFlow | _core.GraphFlow | None = None
        self._lock = RLock()  # not Lock: one that an interrupt left behind must not shut out its own thread
        self._opened()

    @property
    def scale(self) -> float:
        return self._fixed.scale

    @property
    def rounding_error(self) -> float:
        return self._fixed.error

    @property
    def bytes(self) -> int:
        with self._turn():
            return self._opened().bytes

    def minimize(self, unary: Reals, *, start: BinaryLabels | None = None) -> Answer:
        del start  # the minimum does not depend on where one starts
        with self._turn():
            values = as_reals("unary", unary)
            if values.shape != self._costs.energy.shape:
                raise InputError(f"unary has shape {values.shape}; expected {self._costs.energy.shape}, the energy's.")
            check_finite("unary", values)
            fixed = self._costs.counted(values)
            if fixed != self._fixed:
                self._adopt(self._costs, fixed)
            flow = self._opened()
            with input_errors():
                flow.minimize(np.ascontiguousarray(values, dtype=np.float64))
            self._check(flow)
            return Answer(flow.labels(), flow.value(), exact=True, rounding_error=fixed.error)

    def change(self, sites: Sites, unary: Reals) -> None:
        with self._turn():
            places, values = as_sites("sites", sites, self._costs.energy.unary.size), as_reals("unary", unary)
            if values.shape != places.shape:
                raise InputError(f"unary has shape {values.shape}; expected {places.shape}, a number for each site.")
            check_finite("unary", values)
            if not self._fixed.holds(values):
                raise InputError(
                    f"unary holds numbers that are no multiples of {1 / self._fixed.scale:g}, as all costs so far are; "
                    f"expected such. Call minimize with the unary of all sites instead: it will count more finely."
                )
            flow = self._opened()
            with input_errors():
                flow.change(places, np.ascontiguousarray(values, dtype=np.float64))
            self._check(flow)

    def labels(self, *, largest: bool = False) -> BinaryLabels:
        with self._turn():
            return self._opened().labels(bool(largest))

    def value(self) -> float:
        with self._turn():
            return self._opened().value()

    def minimum(self) -> Fraction:
        """The same, of the integer energy and not rounded to a float."""
        with self._turn():
            return Fraction(self._opened().minimum()) / Fraction(self._fixed.scale)

    def reopen(self, energy: Energy) -> None:
        costs = _Costs(_submodular(energy), self._solver.bits)
        with self._turn():
            self._adopt(costs, costs.first)

    def _adopt(self, costs: _Costs, fixed: FixedPoint) -> None:
        """Other costs, in the memory held where they fit into it; otherwise that is freed first."""
        before, pairs = self._costs.energy.pairs, costs.energy.pairs
        fits = fixed.bits == self._fixed.bits and _same_grid(before, pairs)
        flow, self._flow = self._flow, None  # an interrupt leaves none, rather than one that is half-filled
        self._costs, self._fixed = costs, fixed
        if fits and isinstance(flow, _core.GridFlow) and isinstance(pairs, GridPairs):
            flow.refill(pairs.native(), fixed.scale)
            self._flow = flow
        del flow
        self._opened()

    def _opened(self) -> _core.GridFlow | _core.GraphFlow:
        if self._flow is None:
            self._flow = core_flows.open_flow(self._costs.energy.pairs, self._fixed)
        return self._flow

    def _check(self, flow: _core.GridFlow | _core.GraphFlow) -> None:
        if self._solver.check:
            flow.check()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One thread at a time, also between the calls of the core that make up one of ours."""
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                "this minimizer is at work in another thread: expected one thread at a time. Prepare one for each."
            )
        try:
            yield
        finally:
            self._lock.release()


def _submodular(energy: Energy) -> Energy:
    if not isinstance(energy, Energy):
        raise InputError(f"energy is a {type(energy).__name__}; expected an Energy. Make one with Energy.grid(...).")
    if energy.pairs.lowest < 0:
        raise InputError(
            f"a pair weight is as low as {energy.pairs.lowest:g}; MaxFlow needs weights of 0 or more. "
            f"Use a solver for any sign, such as Portfolio()."
        )
    return energy


@dataclass(frozen=True, eq=False)
class _Costs:
    """An energy, and how its costs are counted: as they are while they are whole, finely while they are not."""

    energy: Energy
    bits: int | None

    @cached_property
    def first(self) -> FixedPoint:
        return FixedPoint.of(self.energy, self.bits)

    @cached_property
    def fine(self) -> FixedPoint:
        return FixedPoint.of(self.energy, self.bits, whole=False)

    def counted(self, unary: Reals) -> FixedPoint:
        """The scale for this unary, whatever came before."""
        return self.first if self.first.holds(unary) else self.fine


def _same_grid(one: Pairs, other: Pairs) -> bool:
    return (
        isinstance(one, GridPairs)
        and isinstance(other, GridPairs)
        and one.shape == other.shape
        and np.array_equal(one.offsets, other.offsets)
    )
