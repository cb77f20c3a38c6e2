"""What work takes in memory: the one model of it, from shapes, neighbours and widths alone.

    everything in one process = process + network + sites x (work + pixels) + seams
    a box while it is solved  = network + sites x (work + what is read), its neighbours included

The network is what the core holds, which says so itself; the rest was measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.errors import InputError
from dope.pairs import GridPairs, Pairs

# Beside the network and the pixels: unary, labels, and what is in hand while blocks are opened and energies computed.
# benchmarks/exact.py measured 17 to 30 bytes per site.
WORK_BYTES = 24
# Of a site with several labels, beside its costs: the least two of them, its label, and what a move computes. Counted
# from these arrays, not measured apart.
LABEL_WORK_BYTES = 34
# Of an interpreter with NumPy and the core.
PROCESS_BYTES = 60 << 20
# Of a pair that crosses a seam, on top of the network: what was pushed over it, and what the search notes while it
# mends its trees after a merge. The latter grows where seams are many. Measured on noise, with kernels of 7 to 51.
SEAM_BYTES, DENSE_SEAM_BYTES = 250, 2000
# Of all pairs, the share that may cross seams. With kernels of 9 to 51 on images of 64 to 512 pixels, one block was
# quicker than any blocks of which more did, up to 100 times, and took a tenth of the memory.
MOST_CROSSING = 1 / 32
# Of a box, beside the network and what is read: the unary in float64, labels, codes, masks, and what is in hand while
# they are made. Measured with benchmarks/box_memory.py: with 6 to 256 neighbours, in 8 and 27 boxes of 160^3 sites, the
# plan is 1.05 to 1.24 times what boxes took, both without the process. What flows between boxes take beside that, seams
# and blocks on their way to a file, is not in it: where they solved nearly everything, boxes took four times the plan.
BOX_WORK_BYTES = 34
# Up to so many neighbours a site's capacities are part of one record (cpp/few_arcs.h).
MOST_FEW_ARCS = 8
# Of a box of ADMM's, on top of that: y, votes, multipliers and pulls on it, its places near seams, and its posts while
# they are packed and unpacked. Counted from these arrays, not measured apart; with it, and 4 GB allowed, 256^3 sites
# took 3.3 and 3.5 GB (benchmarks/results/admm_large.jsonl).
ADMM_WORK_BYTES = 120
# Of a coupled site in each block that holds it, of what a board in memory has at most, packed: 18 to 34 on the volume
# of benchmarks/admm_large.py at 96^3, with 6 and 32 neighbours, with and without overlap.
ADMM_POST_BYTES = 34
# How wide the numbers are that solvers without flows are taken to hold for each pair.
OTHER_BITS = 64
# Of a process with NumPy and the core that reads boxes, and of the coordinator's messages.
BOX_PROCESS_BYTES = 200 << 20
# A grid with so few sites that the core would count them: what it refuses is the kernel, or the number of axes.
COUNTED_SITES = 1 << 20
# More than there is.
ENDLESS = 1 << 62


def network_bytes(pairs: Pairs, bits: int) -> int:
    """What the core holds for these pairs; of a grid with more places than it counts, twice that of one half."""
    if not isinstance(pairs, GridPairs):
        return _core.GraphFlow.bytes_needed(pairs.sites, pairs.number, bits)
    try:
        return _core.GridFlow.bytes_needed(pairs.shape, pairs.offsets[pairs.fits], bits)
    except ValueError as error:
        if pairs.sites <= COUNTED_SITES:
            raise InputError(str(error)) from error
        shape = pairs.shape
        longest = max(range(len(shape)), key=lambda axis: shape[axis])
        half = tuple(-(-n // 2) if axis == longest else n for axis, n in enumerate(shape))
        return 2 * network_bytes(_bare(pairs, half), bits)


def whole_bytes(pairs: Pairs, *, pixel_bytes: int, bits: int, layout: Sequence[int] | None = None) -> int:
    """What everything takes in one process, cut into so many blocks along each axis; process included."""
    seams = seam_bytes(pairs, layout)
    tiles = tile_bytes(pairs, bits) if layout is None or math.prod(layout) == 1 else 0
    return PROCESS_BYTES + block_bytes(pairs, pixel_bytes=pixel_bytes, bits=bits) + seams + tiles


def block_bytes(pairs: Pairs, *, pixel_bytes: int, bits: int) -> int:
    """What the sites of these pairs take as one block in memory."""
    return network_bytes(pairs, bits) + pairs.sites * (WORK_BYTES + pixel_bytes)


def tile_bytes(pairs: Pairs, bits: int) -> int:
    """What the core takes, in one block, while flow goes over long distances on tiles of sites (cpp/grid_half.h)."""
    if not isinstance(pairs, GridPairs) or 2 * len(pairs.offsets) > MOST_FEW_ARCS:
        return 0
    tiles = tuple(-(-n // 2) for n in pairs.shape)
    return 4 * network_bytes(_bare(pairs, tiles), min(64, 2 * bits)) // 3  # and tiles of tiles


def seam_bytes(pairs: Pairs, layout: Sequence[int] | None) -> int:
    """What pairs across seams take on top of the network."""
    if layout is None or not isinstance(pairs, GridPairs):
        return 0
    crossing = pairs.crossing(layout)
    return crossing * (DENSE_SEAM_BYTES if crossing > MOST_CROSSING * pairs.number else SEAM_BYTES)


def box_bytes(pairs: GridPairs, sides: Sequence[int], *, site_bytes: int, bits: int) -> int:
    """What a box of these sides takes while it is read and solved, its neighbours included."""
    region = [min(n, side + 2 * r) for n, side, r in zip(pairs.shape, sides, pairs.reach, strict=True)]
    offsets = pairs.offsets[np.all(np.abs(pairs.offsets) < np.array(region), axis=1)]
    try:
        network = _core.GridFlow.bytes_needed(region, offsets, bits)
    except ValueError:  # more places than the core counts
        return ENDLESS
    return network - _untouched_bytes(region, offsets, bits) + math.prod(region) * (BOX_WORK_BYTES + site_bytes)


def _untouched_bytes(region: Sequence[int], offsets: npt.NDArray[np.int64], bits: int) -> int:
    """What a network has before its first site and behind its last one, and the system never has to provide.

    Only of the capacities, which begin as zeros, and not of few neighbours, whose capacities lie among other things.
    """
    if 2 * len(offsets) <= MOST_FEW_ARCS:
        return 0
    reach = np.abs(offsets).max(axis=0).tolist()
    row = math.prod(n + r for n, r in zip(region[1:], reach[1:], strict=True))
    return int(2 * reach[0] * row * 2 * len(offsets) * bits // 8)


def admm_box_bytes(pairs: GridPairs, sides: Sequence[int], *, site_bytes: int, bits: int) -> int:
    """The same for a box of ADMM's, which has sides of its own, overlap included."""
    region = [min(n, side + 2 * r) for n, side, r in zip(pairs.shape, sides, pairs.reach, strict=True)]
    return box_bytes(pairs, sides, site_bytes=site_bytes, bits=bits) + math.prod(region) * ADMM_WORK_BYTES


def grown_sides(shape: Sequence[int], sides: Sequence[int], growth: float | int) -> tuple[int, ...]:
    """The sides of blocks that overlap, of pieces of these sides."""
    more = [growth if isinstance(growth, int) else math.ceil(growth * side) for side in sides]
    return tuple(min(n, side + extra) for n, side, extra in zip(shape, sides, more, strict=True))


def _bare(pairs: GridPairs, shape: tuple[int, ...]) -> GridPairs:
    return replace(pairs, shape=shape, features=None, fields=None, counts=None, inside=None)
