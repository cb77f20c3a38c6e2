"""Flows that outlive their run, so that a later one can go on from them.

They only save time, and are large: those of the last results stay, up to MOST_BYTES together, and none is pickled. With
a flow goes a copy of the costs that it is of, since the caller may change the arrays they came from.
"""

from __future__ import annotations

import weakref
from dataclasses import replace
from threading import Lock

import numpy as np

from dope.energy import Energy
from dope.fixed_point import FixedPoint
from dope.flows import BlockFlow
from dope.pairs import GridPairs, Pairs
from dope.partition import Partition
from dope.protocols import BlockSolver

MOST_BYTES = 512 << 20

# Caches that hold a flow, the longest unused first; they live as long as somebody else holds them.
_holding: list[weakref.ref[FlowCache]] = []
_lock = Lock()


class FlowCache:
    """Holds one flow that nobody is at work with, the energy whose unary it has and who opened it; or nothing."""

    def __init__(self, partition: Partition, fixed: FixedPoint) -> None:
        self._partition, self._fixed = partition, fixed
        self._energy: Energy | None = None
        self._flow: BlockFlow | None = None
        self._solver: BlockSolver | None = None

    def store(self, energy: Energy, flow: BlockFlow, solver: BlockSolver) -> None:
        """Hold this flow, if there is room; those that were not used for longest make some."""
        room = MOST_BYTES - flow.bytes
        copied = _copied(energy) if room >= 0 else None
        with _lock:
            living = [one for ref in _holding if (one := ref()) is not None and one is not self]
            while living and sum(one.bytes for one in living) > room:
                living.pop(0)._clear()
            if copied is not None:
                self._energy, self._flow, self._solver = copied, flow, solver
                living.append(self)
            _holding[:] = map(weakref.ref, living)

    def take(self) -> tuple[Energy | None, BlockFlow | None]:
        """What is held, which belongs to the caller now; nothing where another run was faster, or memory scarce."""
        with _lock:
            energy, flow = self._energy, self._flow
            self._clear()
            return energy, flow

    def matches(self, energy: Energy, partition: Partition, fixed: FixedPoint, solver: BlockSolver) -> bool:
        """Whether this flow is of these pairs, cut and counted in the same way, and opened by the same solver."""
        before = self._energy
        if before is None or fixed != self._fixed or not _same_blocks(partition, self._partition):
            return False
        if solver is not self._solver and solver != self._solver:
            return False
        return _same_pairs(before.pairs, energy.pairs)

    @property
    def bytes(self) -> int:
        return 0 if self._flow is None else self._flow.bytes

    def _clear(self) -> None:
        self._energy = self._flow = self._solver = None

    def __reduce__(self) -> tuple[type[FlowCache], tuple[Partition, FixedPoint]]:
        return FlowCache, (self._partition, self._fixed)


def _copied(energy: Energy) -> Energy:
    pairs = energy.pairs
    if isinstance(pairs, GridPairs):
        features = None if pairs.features is None else pairs.features.copy()
        fields = pairs.fields and tuple(field.copy() for field in pairs.fields)
        inside = None if pairs.inside is None else pairs.inside.copy()
        pairs = replace(pairs, features=features, fields=fields, inside=inside)
    return replace(energy, unary=energy.unary.copy(), pairs=pairs)  # a graph's pairs are its own already


def _same_blocks(one: Partition, other: Partition) -> bool:
    if one is other or (one.shape == other.shape and one.cuts is not None and one.cuts == other.cuts):
        return True
    if one.cuts is not None or other.cuts is not None or len(one.blocks) != len(other.blocks):
        return False
    places = [(a.where, b.where) for a, b in zip(one.blocks, other.blocks, strict=True)]
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in places)


def _same_pairs(one: Pairs, other: Pairs) -> bool:
    if not isinstance(one, GridPairs) or not isinstance(other, GridPairs):
        return (
            not isinstance(one, GridPairs)
            and not isinstance(other, GridPairs)
            and one.sites == other.sites
            and all(np.array_equal(a, b) for a, b in zip(one.edges(), other.edges(), strict=True))
        )
    return (
        one.shape == other.shape
        and one.beta == other.beta
        and np.array_equal(one.offsets, other.offsets)
        and np.array_equal(one.factors, other.factors)
        and _same_arrays((one.features,), (other.features,))
        and _same_arrays(one.fields, other.fields)
        and _same_arrays(one.counts, other.counts)
        and _same_arrays((one.inside,), (other.inside,))
    )


def _same_arrays(one: object, other: object) -> bool:
    ones, others = one or (), other or ()
    assert isinstance(ones, tuple) and isinstance(others, tuple)
    if len(ones) != len(others):
        return False
    return all(
        a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in zip(ones, others, strict=True)
    )
