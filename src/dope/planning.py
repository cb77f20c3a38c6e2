"""Planning: what a problem takes in memory, how to cut it for workers, and about how long it will run.

Nothing of it needs the pixels: it all follows from shape and kernel, and the time from a small problem of the same
kind that is solved here and now.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from dope import _core
from dope.api import automatic_blocks, minimize
from dope.energy import Energy
from dope.errors import InputError
from dope.executors import Serial
from dope.methods import Exact
from dope.pairs import GridPairs, Kernel, half_offsets
from dope.partition import layout_of

# Beside the network and the pixels: unary, labels, and what is in hand while blocks are opened and energies computed.
# benchmarks/exact.py measured 17 to 30 bytes per site.
WORK_BYTES = 24
# Of an interpreter with NumPy and the core.
PROCESS_BYTES = 60 << 20
# A worker's memory also holds the system, the interpreter, and blocks on their way in and out.
SHARE_FOR_BLOCKS = 0.5
# Sites of the problem that is solved to see how fast this machine is.
CALIBRATION_SITES = 250_000
# A coupled site's number goes out as float64 and its label comes back.
BYTES_PER_COUPLED_SITE = 9


@dataclass(frozen=True)
class Plan:
    """What it takes to minimize a contrast-sensitive energy on a grid."""

    shape: tuple[int, ...]
    kernel: Kernel
    pixel_bytes: int = 3
    bits: int = 32
    blocks: int = 1
    workers: int = 1

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        *,
        kernel: Kernel = 3,
        pixel_bytes: int = 3,
        bits: int = 32,
        blocks: int | None = None,
        workers: int = 1,
        memory: int | None = None,
    ) -> Plan:
        """With the blocks given; or as few as fit into each worker's `memory`; or as `minimize` chooses."""
        if not shape or any(n < 1 for n in shape):
            raise InputError(f"shape is {shape}; expected the number of sites along each axis, at least 1.")
        if pixel_bytes < 0:
            raise InputError(f"pixel_bytes is {pixel_bytes}; expected 0 or more.")
        if workers < 1:
            raise InputError(f"workers is {workers}; expected at least 1.")
        plan = cls(shape, kernel, pixel_bytes, bits, 1, workers)
        number = plan._blocks(memory) if blocks is None else math.prod(layout_of(shape, blocks))
        return replace(plan, blocks=number)

    def _blocks(self, memory: int | None) -> int:
        if memory is None:
            return automatic_blocks(self.grid, Exact())
        number, most = 1, math.prod(1 << (n.bit_length() - 1) for n in self.shape)
        while replace(self, blocks=number).block_bytes > SHARE_FOR_BLOCKS * memory or number < self.workers:
            number *= 2
            if number > most:
                raise InputError(f"no block fits into {memory} bytes, however small; expected more memory.")
        return number

    @property
    def grid(self) -> GridPairs:
        """The pairs; what they weigh does not matter here."""
        offsets = half_offsets(self.kernel, len(self.shape))
        return GridPairs(self.shape, offsets, np.ones(len(offsets)), np.ones((len(offsets), 2)))

    @property
    def sites(self) -> int:
        return self.grid.sites

    @property
    def neighbors(self) -> int:
        return self.grid.degree

    @property
    def pairs(self) -> int:
        return self.grid.number

    @property
    def layout(self) -> tuple[int, ...]:
        """How many blocks along each axis."""
        return layout_of(self.shape, self.blocks)

    @property
    def block_shape(self) -> tuple[int, ...]:
        """Of the largest block."""
        return tuple(-(-n // k) for n, k in zip(self.shape, self.layout, strict=True))

    @property
    def block_bytes(self) -> int:
        """What the largest block takes while it is solved."""
        return self._bytes(self.block_shape)

    @property
    def bytes(self) -> int:
        """What the whole problem takes in one process."""
        return PROCESS_BYTES + self.blocks * self.block_bytes

    def _bytes(self, shape: tuple[int, ...]) -> int:
        """Cut up until the core counts it: it has 2^31 places at most."""
        sites = math.prod(shape)
        grid = replace(self.grid, shape=shape)
        try:
            network = _core.GridFlow.bytes_needed(shape, grid.offsets[grid.fits], self.bits)
        except ValueError:
            longest = max(range(len(shape)), key=lambda axis: shape[axis])
            half = tuple(-(-n // 2) if axis == longest else n for axis, n in enumerate(shape))
            return 2 * self._bytes(half)
        return network + sites * (WORK_BYTES + self.pixel_bytes)

    @property
    def coupled_sites(self) -> int:
        """The sites that have neighbours in other blocks."""
        alone = [_inner(n, k, r) for n, k, r in zip(self.shape, self.layout, self.grid.reach, strict=True)]
        return self.sites - math.prod(alone)

    @property
    def round_bytes(self) -> int:
        """What travels between the coordinator and the blocks in a round."""
        return BYTES_PER_COUPLED_SITE * self.coupled_sites

    def seconds(self) -> float:
        """About how long it takes, by a small problem of the same kind solved on one core of this machine."""
        sides = _calibration_sides(self.shape)
        rng = np.random.default_rng(0)
        coarse = rng.random(tuple(-(-n // 8) for n in sides))
        smooth = coarse
        for axis in range(len(sides)):
            smooth = np.repeat(smooth, 8, axis=axis)
        smooth = smooth[tuple(slice(0, n) for n in sides)]
        image = (200 * smooth + 40 * rng.random(sides)).astype(np.uint8)
        unary = (8 * (0.5 - smooth) + rng.normal(0, 2, sides)).astype(np.float32)
        begun = time.perf_counter()
        minimize(Energy.grid(unary, features=image, kernel=self.kernel, lam=1.0), blocks=1, executor=Serial())
        each = (time.perf_counter() - begun) / math.prod(sides)
        return each * self.sites / min(self.workers, max(1, self.blocks))


def _inner(length: int, pieces: int, reach: int) -> int:
    """How many places along an axis are so far inside their piece that no step leads out of it into another."""
    sizes = np.diff(np.arange(pieces + 1) * length // pieces)
    sizes[1:] -= reach
    sizes[:-1] -= reach
    return int(np.maximum(sizes, 0).sum())


def _calibration_sides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A box of the same proportions, as far as that goes, with about CALIBRATION_SITES sites."""
    share = min(1.0, (CALIBRATION_SITES / math.prod(shape)) ** (1 / len(shape)))
    return tuple(max(1, round(n * share)) for n in shape)
