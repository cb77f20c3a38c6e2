"""Flows that outlive their run, so that a later one can go on from them.

They only save time, and are large: those of the last results stay, up to `most_bytes()` together, as long as somebody
holds their results, and none is pickled. The caller may change the arrays that the costs came from: with a flow goes a
copy of its unary, and of its pairs what tells them from others.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.arrays import Index, Reals, core_reads
from dope.energy import Energy
from dope.fixed_point import FixedPoint
from dope.flows import BlockFlow
from dope.memory import available_bytes
from dope.pairs import GraphPairs, Pairs
from dope.partition import Partition
from dope.protocols import BlockSolver

# Of memory that is available when a run has ended, its own flow apart, flows may take one part in so many; but so much
# they always may. A photo of 8 megapixels takes 0.3 GB with 3x3, and 1.1 GB with 7x7, where a further stroke takes a
# tenth of the time with the flow before it.
SHARE, LEAST_BYTES = 4, 512 << 20


def most_bytes() -> int:
    """What flows that outlive their runs may take together."""
    available = available_bytes()
    return LEAST_BYTES if available is None else max(LEAST_BYTES, available // SHARE)


# Caches that hold a flow, the longest unused first; they live as long as somebody else holds them.
_holding: list[weakref.ref[FlowCache]] = []
_lock = Lock()


class FlowCache:
    """Holds one flow that nobody is at work with, its unary, what its pairs are and who opened it; or nothing."""

    def __init__(self, partition: Partition, fixed: FixedPoint) -> None:
        self._partition, self._fixed = partition, fixed
        self._unary: Units | None = None
        self._pairs: _PairsPrint | GraphPairs | None = None
        self._flow: BlockFlow | None = None
        self._solver: BlockSolver | None = None

    def store(self, energy: Energy, flow: BlockFlow, solver: BlockSolver) -> None:
        """Hold this flow, if there is room; those that were not used for longest make some."""
        room = most_bytes() - flow.bytes
        unary, pairs = None, None
        if room >= 0:
            unary, pairs = Units.of(energy.unary, self._fixed.scale), _print_of(energy.pairs)
        with _lock:
            living = [one for ref in _holding if (one := ref()) is not None and one is not self]
            while living and sum(one.bytes for one in living) > room:
                living.pop(0)._clear()
            if room >= 0:
                self._unary, self._pairs, self._flow, self._solver = unary, pairs, flow, solver
                living.append(self)
            _holding[:] = map(weakref.ref, living)

    def take(self) -> tuple[Units | None, BlockFlow | None]:
        """Unary and flow, which belong to the caller now; nothing where another run was faster, or memory scarce."""
        with _lock:
            unary, flow = self._unary, self._flow
            self._clear()
            return unary, flow

    def matches(self, energy: Energy, partition: Partition, fixed: FixedPoint, solver: BlockSolver) -> bool:
        """Whether this flow is of these pairs, cut and counted in the same way, and opened by the same solver."""
        before = self._pairs
        if before is None or fixed != self._fixed or not _same_blocks(partition, self._partition):
            return False
        if solver is not self._solver and solver != self._solver:
            return False
        if isinstance(before, GraphPairs) or isinstance(energy.pairs, GraphPairs):
            return _same_graph(before, energy.pairs)
        return before == _print_of(energy.pairs)

    @property
    def bytes(self) -> int:
        return 0 if self._flow is None else self._flow.bytes

    def _clear(self) -> None:
        self._unary = self._pairs = self._flow = self._solver = None

    def __reduce__(self) -> tuple[type[FlowCache], tuple[Partition, FixedPoint]]:
        return FlowCache, (self._partition, self._fixed)


@dataclass(frozen=True, eq=False)
class Units:
    """A unary as a flow counts it, in whole units of 1 / scale: a quarter of its bytes, mostly."""

    counts: npt.NDArray[Any]
    scale: float

    @classmethod
    def of(cls, unary: Reals, scale: float) -> Units:
        counts = _core.whole_units(unary if core_reads(unary) else np.ascontiguousarray(unary), scale)
        return cls(unary.copy(), 1.0) if counts is None else cls(counts, scale)

    def at(self, where: Index) -> npt.NDArray[np.float64]:
        """What the flow takes for the unary of these sites."""
        return self.counts[where].astype(np.float64) / self.scale


@dataclass(frozen=True)
class _PairsPrint:
    """What tells the pairs of a grid from others: small things as they are, of arrays their fingerprints."""

    shape: tuple[int, ...]
    beta: float | None
    arrays: tuple[bytes | None, ...]


def _print_of(pairs: Pairs) -> _PairsPrint | GraphPairs:
    """A graph's pairs are its own, as nobody else has their arrays."""
    if isinstance(pairs, GraphPairs):
        return pairs
    fused = () if pairs.fused is None else pairs.fused.arrays
    arrays = (pairs.offsets, pairs.factors, pairs.features, pairs.inside, *fused)
    several = [len(group) if group is not None else -1 for group in (pairs.fields, pairs.counts)]
    signs = None if pairs.signs is None else pairs.signs.astype(np.int16)
    found = (*arrays, signs, np.array(several), *(pairs.fields or ()), *(pairs.counts or ()))
    return _PairsPrint(pairs.shape, pairs.beta, tuple(None if one is None else _fingerprint(one) for one in found))


def _fingerprint(array: npt.NDArray[Any]) -> bytes:
    if array.dtype == np.bool_:
        array = array.view(np.uint8)
    return _core.fingerprint(array if core_reads(array) else np.ascontiguousarray(array, dtype=np.float64))


def _same_blocks(one: Partition, other: Partition) -> bool:
    if one is other or (one.shape == other.shape and one.cuts is not None and one.cuts == other.cuts):
        return True
    if one.cuts is not None or other.cuts is not None or len(one.blocks) != len(other.blocks):
        return False
    places = [(a.where, b.where) for a, b in zip(one.blocks, other.blocks, strict=True)]
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in places)


def _same_graph(one: object, other: Pairs) -> bool:
    return (
        isinstance(one, GraphPairs)
        and isinstance(other, GraphPairs)
        and one.sites == other.sites
        and all(np.array_equal(a, b) for a, b in zip(one.edges(), other.edges(), strict=True))
    )
