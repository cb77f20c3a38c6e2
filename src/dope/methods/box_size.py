"""How large blocks are that are read, solved and forgotten: the larger, the fewer sites are open in the end."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dope import _core
from dope.errors import InputError
from dope.lazy import LazyEnergy
from dope.memory import as_text
from dope.partition import Partition

# Beside the network and what is read: the unary in float64, labels, codes, masks, and what is in hand while they are
# made. Measured with benchmarks/large.py.
WORK_BYTES = 34
# Of a process with NumPy and the core, and of the coordinator's messages.
PROCESS_BYTES = 200 << 20
# Blocks smaller than this have hardly anything but seams.
LEAST_SIDE = 8
# For every worker at least so many blocks, where they stay larger than this: the last ones to end keep others waiting.
BLOCKS_PER_WORKER, SITES_WORTH_CUTTING = 2, 1 << 18


def block_bytes(energy: LazyEnergy, sides: Sequence[int], bits: int) -> int:
    """What a block of these sides takes while it is at work, its neighbours included."""
    pairs = energy.pairs
    region = [min(n, side + 2 * r) for n, side, r in zip(pairs.shape, sides, pairs.reach, strict=True)]
    offsets = pairs.offsets[[all(abs(o) < n for o, n in zip(row, region, strict=True)) for row in pairs.offsets]]
    try:
        network = _core.GridFlow.bytes_needed(region, offsets, bits)
    except ValueError:  # more places than the core counts
        return 1 << 62
    return network + math.prod(region) * (WORK_BYTES + energy.site_bytes)


def fitting_partition(
    energy: LazyEnergy, *, memory: int, workers: int, bits: int | None, chunks: Sequence[int] | None
) -> Partition:
    """The fewest blocks of which `workers` fit into memory at once, cut at the borders of chunks, if there are any."""
    shape = energy.shape
    room = memory - PROCESS_BYTES
    units = [1] * len(shape) if chunks is None else [min(n, c) for n, c in zip(shape, chunks, strict=True)]
    sides = list(shape)
    blocks = 1
    while workers * block_bytes(energy, sides, bits or 32) > room or (
        blocks < BLOCKS_PER_WORKER * workers and math.prod(sides) > 2 * SITES_WORTH_CUTTING
    ):
        axis = max(
            (a for a in range(len(shape)) if sides[a] > units[a] and sides[a] > LEAST_SIDE),
            key=lambda a: sides[a],
            default=None,
        )
        if axis is None:
            needed = workers * block_bytes(energy, sides, bits or 32) + PROCESS_BYTES
            if needed <= memory:
                break
            raise InputError(
                f"{as_text(memory)} of memory are too little: {workers} blocks of "
                f"{' x '.join(map(str, sides))} sites, the smallest there can be, take {as_text(needed)} together. "
                f"Allow more memory, use fewer workers, or store the arrays in smaller chunks."
            )
        sides[axis] = _next_side(shape[axis], sides[axis], units[axis])
        blocks = math.prod(-(-n // side) for n, side in zip(shape, sides, strict=True))
    cuts = [range(side, n, side) for n, side in zip(shape, sides, strict=True)]
    return Partition.at(shape, [list(axis) for axis in cuts])


def _next_side(length: int, side: int, unit: int) -> int:
    """Of a block that is one more time along an axis, in whole chunks."""
    pieces = -(-length // side) + 1
    smaller = -(-length // pieces)
    return max(1, min(-(-smaller // unit), (side - 1) // unit)) * unit
