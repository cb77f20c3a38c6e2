"""How large blocks are that are read, solved and forgotten: the larger, the fewer sites are open in the end."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dope.energy import Energy
from dope.errors import InputError
from dope.footprint import BOX_PROCESS_BYTES as PROCESS_BYTES
from dope.footprint import admm_box_bytes, box_bytes, grown_sides
from dope.label_energy import LabelEnergy
from dope.memory import as_text
from dope.pairs import GridPairs
from dope.partition import MOST_BLOCKS

_Sides = tuple[int, ...]

# Blocks smaller than this have hardly anything but seams.
LEAST_SIDE = 8
# For every worker at least so many blocks, where they stay larger than this: the last ones to end keep others waiting.
BLOCKS_PER_WORKER, SITES_WORTH_CUTTING = 2, 1 << 18


@dataclass(frozen=True, eq=False)
class Boxes:
    """What boxes of an energy take. With `growth` they are those of ADMM, and so much larger than their pieces."""

    energy: Energy | LabelEnergy
    bits: int
    growth: float | int | None = None

    def bytes(self, sides: Sequence[int]) -> int:
        """Of a box of these sides while it is at work, its neighbours included."""
        pairs = self.energy.pairs
        assert isinstance(pairs, GridPairs)
        if self.growth is None:
            return box_bytes(pairs, sides, site_bytes=self.energy.site_bytes, bits=self.bits)
        grown = grown_sides(pairs.shape, sides, self.growth)
        return admm_box_bytes(pairs, grown, site_bytes=self.energy.site_bytes, bits=self.bits)


def fitting_cuts(
    energy: Energy | LabelEnergy,
    *,
    memory: int,
    workers: int,
    bits: int,
    chunks: Sequence[int] | None,
    written: Sequence[int] | None = None,
    growth: float | int | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Where to cut each axis, such that `workers` of the blocks fit into memory at once, and these are the fewest.

    That is at the borders of the chunks that are read, if there are any. Those of the chunks that are `written` come
    first, where blocks of whole ones fit: other blocks take turns at a chunk that they share, and no more.
    """
    shape, room, boxes = energy.shape, memory - PROCESS_BYTES, Boxes(energy, bits, growth)

    def fits(sides: Sequence[int]) -> bool:
        return workers * boxes.bytes(sides) <= room

    whole = _Units(shape, chunks or [1] * len(shape))
    _require_room(boxes, whole, memory=memory, workers=workers)
    for units in [*_halves(shape, written or ()), whole]:
        sides = _first(units.ladder(), lambda sides: _is_small(shape, sides, workers) and fits(sides))
        if fits(sides):
            return tuple(tuple(range(side, n, side)) for n, side in zip(shape, sides, strict=True))
    *_, smallest = whole.ladder()
    raise _too_little(boxes, smallest, memory=memory, workers=workers, chunked=chunks is not None)


def _first(ladder: Iterator[_Sides], will_do: Callable[[_Sides], bool]) -> _Sides:
    """The first sides that will do, as all after them do, or the last ones: without a look at each of many."""
    climbed: list[_Sides] = []
    for sides in ladder:
        climbed.append(sides)
        if len(climbed).bit_count() == 1 and will_do(sides):
            break
    return climbed[min(bisect_left(climbed, True, key=will_do), len(climbed) - 1)]


def _is_small(shape: Sequence[int], sides: Sequence[int], workers: int) -> bool:
    """Whether blocks are so small that all workers have some, or that it is not worth it to cut them further."""
    enough = _number(shape, sides) >= BLOCKS_PER_WORKER * workers
    return enough or math.prod(sides) <= 2 * SITES_WORTH_CUTTING


def _number(shape: Sequence[int], sides: Sequence[int]) -> int:
    return math.prod(-(-n // side) for n, side in zip(shape, sides, strict=True))


@dataclass(frozen=True)
class _Units:
    """What sides of blocks are whole numbers of, along each axis."""

    shape: Sequence[int]
    chunks: Sequence[int]

    @property
    def lengths(self) -> list[int]:
        return [min(n, chunk) for n, chunk in zip(self.shape, self.chunks, strict=True)]

    def ladder(self) -> Iterator[_Sides]:
        """Ever smaller sides, the longest cut first, down to as small or as many as blocks can be."""
        units, sides = self.lengths, list(self.shape)
        while _number(self.shape, sides) <= MOST_BLOCKS:
            yield tuple(sides)
            longer = [a for a in range(len(sides)) if sides[a] > units[a] and sides[a] > LEAST_SIDE]
            if not longer:
                return
            axis = max(longer, key=lambda a: sides[a])
            sides[axis] = _next_side(self.shape[axis], sides[axis], units[axis])


def _halves(shape: Sequence[int], chunks: Sequence[int]) -> Iterator[_Units]:
    """Whole chunks, half of them, a quarter, ..."""
    lengths = list(chunks)
    while max(lengths, default=0) > LEAST_SIDE:
        yield _Units(shape, lengths)
        lengths = [-(-length // 2) for length in lengths]


def _require_room(boxes: Boxes, units: _Units, *, memory: int, workers: int) -> None:
    """Refuse at once what no cutting can help, and what would take more blocks than there can be."""
    # No ladder leads below half of LEAST_SIDE, nor below a unit.
    sides = [max(unit, min(n, LEAST_SIDE // 2)) for n, unit in zip(units.shape, units.lengths, strict=True)]
    chunked = any(unit > LEAST_SIDE for unit in units.lengths)
    if workers * boxes.bytes(sides) > memory - PROCESS_BYTES:
        raise _too_little(boxes, sides, memory=memory, workers=workers, chunked=chunked)
    some = [min(n, 64) for n in units.shape]
    each = boxes.bytes(some) / math.prod(some)
    about = workers * math.prod(units.shape) * each / (memory - PROCESS_BYTES)
    if about > MOST_BLOCKS:
        raise InputError(
            f"{as_text(memory)} of memory make about {about:,.0f} blocks; expected memory for up to {MOST_BLOCKS:,}, "
            f"which the coordinator can list. Allow more memory, or use fewer workers."
        )


def _too_little(boxes: Boxes, sides: Sequence[int], *, memory: int, workers: int, chunked: bool) -> InputError:
    needed = workers * boxes.bytes(sides) + PROCESS_BYTES
    advice = ", use fewer workers, store the arrays in smaller chunks" if chunked else ", use fewer workers"
    return InputError(
        f"{as_text(memory)} of memory are too little: {workers} blocks of {' x '.join(map(str, sides))} sites, the "
        f"smallest there can be, take {as_text(needed)} together. Allow more memory{advice}, "
        f"or say how many blocks, which are taken whatever they need."
    )


def _next_side(length: int, side: int, unit: int) -> int:
    """Of a block that is one more time along an axis, in whole chunks."""
    pieces = -(-length // side) + 1
    smaller = -(-length // pieces)
    return max(1, min(-(-smaller // unit), (side - 1) // unit)) * unit
