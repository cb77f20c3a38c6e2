"""Cut the sites into blocks that may overlap, and put what the blocks say together again.

On a grid everything is a product of intervals, so a partition is described axis by axis: each axis is cut into even
pieces, each piece grows by the overlap, and the number of blocks that hold a site is the product of the axes' counts.
On a graph a block is a sorted list of sites.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dope.arrays import Index, Mask, Sites
from dope.errors import InputError, MissingExtraError
from dope.memory import require_bytes
from dope.pairs import GraphPairs, GridPairs, Pairs

Counts = tuple[npt.NDArray[np.float64], ...] | npt.NDArray[np.float64]
"""How many blocks hold a site: a vector per axis on a grid (multiply them), a vector over sites on a graph."""

Scalar = TypeVar("Scalar", bound=np.generic)

# Every block is an object, which whoever coordinates them lists; more than this take seconds to list.
MOST_BLOCKS = 1 << 20
# Longer than any axis, and far from where int64 ends.
MOST_SIDE = 1 << 48
# A place along an axis has a count of blocks.
_AXIS_BYTES = 8


@dataclass(frozen=True, eq=False)
class Block:
    """Where a block sits, and which of its sites it owns: every site is owned by exactly one block.

    `where` is a place in the whole, `owned` a place in the block's own arrays.
    """

    where: Index
    owned: Index


@dataclass(frozen=True, eq=False)
class Partition:
    """Blocks that cover all sites of `shape`; `counts` says how many of them hold each site.

    `cuts` are the places where the axes of a grid are cut, None on a graph.
    """

    shape: tuple[int, ...]
    blocks: tuple[Block, ...]
    counts: Counts
    cuts: tuple[tuple[int, ...], ...] | None = None

    @classmethod
    def grid(cls, shape: Sequence[int], blocks: int | Sequence[int], *, overlap: float | int = 0.0) -> Partition:
        """Cut a grid into `blocks` even-sized blocks: a number (laid out with the least seam) or one per axis.

        A float `overlap` makes each block's side grow by that fraction, an int by that many sites, half on either
        side, cut at the border.

        >>> [block.where for block in Partition.grid((4, 6), 2).blocks]
        [(slice(0, 4, None), slice(0, 3, None)), (slice(0, 4, None), slice(3, 6, None))]
        """
        lengths = _checked_shape(shape)
        layout = layout_of(lengths, blocks)
        cuts = [[i * n // k for i in range(1, k)] for n, k in zip(lengths, layout, strict=True)]
        return cls.at(lengths, cuts, overlap=overlap)

    @classmethod
    def at(cls, shape: Sequence[int], cuts: Sequence[Sequence[int]], *, overlap: float | int = 0.0) -> Partition:
        """Cut a grid at the given places: for each axis the sorted first indices of all pieces but the first."""
        lengths = _checked_shape(shape)
        if len(cuts) != len(lengths):
            raise InputError(f"cuts are given for {len(cuts)} axes; expected one list per axis, {len(lengths)}.")
        _require_few(math.prod(len(where) + 1 for where in cuts))
        if overlap:
            require_bytes(f"counting overlaps on {' x '.join(map(str, lengths))} sites", _AXIS_BYTES * sum(lengths))
        axes = [_Axis.cut(n, where, overlap) for n, where in zip(lengths, cuts, strict=True)]
        blocks = tuple(
            Block(tuple(p.grown for p in pieces), tuple(p.owned for p in pieces))
            for pieces in product(*(axis.pieces for axis in axes))
        )
        places = tuple(tuple(int(c) for c in where) for where in cuts)
        return cls(lengths, blocks, tuple(axis.count for axis in axes), places)

    @classmethod
    def graph(cls, pairs: GraphPairs, blocks: int, *, overlap: float | int = 0.0, metis: bool = False) -> Partition:
        """Cut a graph into `blocks` balanced blocks, which then grow over their neighbours by the overlap.

        The built-in cut halves the sites again and again in breadth-first order from a far corner: sizes differ by
        one at most. `metis=True` uses METIS (the extra `metis`), which cuts fewer pairs.
        """
        if not isinstance(pairs, GraphPairs):
            raise InputError(f"pairs is a {type(pairs).__name__}; expected the pairs of a graph, energy.pairs.")
        if isinstance(blocks, bool) or not isinstance(blocks, (int, np.integer)):
            raise InputError(f"blocks is {blocks!r}; expected a number of blocks on a graph.")
        if not 1 <= blocks <= pairs.sites:
            raise InputError(f"{blocks} blocks asked for {pairs.sites} sites; expected 1 to {pairs.sites}.")
        _require_few(int(blocks))
        cores = _metis(pairs, int(blocks)) if metis else _halved(pairs, np.arange(pairs.sites), int(blocks))
        return cls._of_sites(pairs, [np.sort(core) for core in cores], _checked_overlap(overlap))

    @classmethod
    def _of_sites(cls, pairs: GraphPairs, cores: list[Sites], overlap: float | int) -> Partition:
        counts = np.zeros(pairs.sites)
        blocks = []
        for core in cores:
            more = overlap if isinstance(overlap, int) else round(overlap * len(core))
            grown = _around(pairs, core, more)
            where = np.sort(np.concatenate([core, grown])) if len(grown) else core
            counts[where] += 1
            blocks.append(Block(where, np.searchsorted(where, core) if len(grown) else np.arange(len(core))))
        return cls((pairs.sites,), tuple(blocks), counts)

    def __repr__(self) -> str:
        sites, number = " x ".join(map(str, self.shape)), len(self.blocks)
        layout = "" if self.cuts is None else f" ({' x '.join(str(len(where) + 1) for where in self.cuts)})"
        kind = "graph of " if self.cuts is None else ""
        overlap = ", overlapping" if self.overlaps else ""
        return f"Partition({kind}{sites} sites, {number} block{'' if number == 1 else 's'}{layout}{overlap})"

    @property
    def overlaps(self) -> bool:
        """Whether some site is in several blocks."""
        counts = self.counts if isinstance(self.counts, tuple) else (self.counts,)
        return any(bool((count != 1).any()) for count in counts)

    def shifted(self) -> Partition:
        """A grid's blocks without overlap, cut in the middle of these ones: where these have seams, those have none."""
        assert self.cuts is not None
        middles = []
        for length, cuts in zip(self.shape, self.cuts, strict=True):
            centers = [(low + high) // 2 for low, high in pairwise([0, *cuts, length])]
            middles.append(sorted({c for c in centers if cuts and 0 < c < length}))
        return Partition.at(self.shape, middles)

    def block_numbers(self) -> npt.NDArray[np.int32]:
        """The number of every site's block, where blocks do not overlap."""
        numbers = np.empty(self.shape, dtype=np.int32)
        for k, block in enumerate(self.blocks):
            numbers[block.where] = k
        return numbers

    def even(self) -> Partition:
        """A grid's blocks without their overlap."""
        assert self.cuts is not None
        return Partition.at(self.shape, self.cuts)

    def alone(self) -> Partition:
        """The same blocks, each with the full costs of its sites also where it overlaps others.

        For methods that re-solve blocks while everything else is fixed.
        """
        if isinstance(self.counts, tuple):
            return replace(self, counts=tuple(np.ones_like(count) for count in self.counts))
        return replace(self, counts=np.ones_like(self.counts))

    def apart(self, pairs: Pairs) -> list[list[int]]:
        """The blocks in classes, such that no pair joins two blocks of a class."""
        if self.cuts is not None and isinstance(pairs, GridPairs):
            return self._apart_on_grid(self.cuts, pairs)
        return self._apart_on_graph(pairs)

    def _apart_on_grid(self, cuts: tuple[tuple[int, ...], ...], pairs: GridPairs) -> list[list[int]]:
        """Along an axis, every m-th block, with m - 1 blocks between them at least as wide as the kernel reaches.

        Where all pairs run along axes, the blocks of two colours of a chessboard; or of m, in the same way.
        """
        classes: dict[tuple[int, ...], list[int]] = {}
        layout = [len(places) + 1 for places in cuts]
        every = []
        for length, places, far in zip(self.shape, cuts, pairs.reach, strict=True):
            narrowest = min(high - low for low, high in pairwise([0, *places, length]))
            every.append(1 + math.ceil(far / narrowest))
        along_axes = bool((np.count_nonzero(pairs.offsets, axis=1) <= 1).all())
        for k, index in enumerate(np.ndindex(*layout)):
            color = tuple(i % m for i, m in zip(index, every, strict=True))
            classes.setdefault((sum(index) % max(every),) if along_axes else color, []).append(k)
        return list(classes.values())

    def _apart_on_graph(self, pairs: Pairs) -> list[list[int]]:
        """Greedily: each block joins the first class it has no pair with."""
        first, second, _ = pairs.edges()
        classes: list[tuple[Mask, list[int]]] = []
        for k, block in enumerate(self.blocks):
            held = np.zeros(self.shape, dtype=np.bool_)
            held[block.where] = True
            near = held.copy()
            near[second[held[first]]] = True
            near[first[held[second]]] = True
            fitting = next((one for one in classes if not (one[0] & near).any()), None)
            if fitting is None:
                classes.append((held, [k]))
            else:
                fitting[0][held] = True
                fitting[1].append(k)
        return [members for _, members in classes]

    def counts_at(self, where: Index) -> Counts:
        """The counts at a place: a box of the grid, or sites of the graph."""
        if isinstance(self.counts, tuple):
            assert isinstance(where, tuple)
            return tuple(count[s] for count, s in zip(self.counts, where, strict=True))
        return self.counts[where]

    def multiplicity(self, where: Index) -> npt.NDArray[np.float64]:
        """q_i, the number of blocks that hold site i, as an array over a place."""
        counts = self.counts_at(where)
        if not isinstance(counts, tuple):
            return counts
        answer = np.ones(())
        for count in counts:
            answer = np.multiply.outer(answer, count)
        return answer

    def assemble(self, pieces: Sequence[npt.NDArray[Scalar]]) -> npt.NDArray[Scalar]:
        """One array over all sites, each site's value from the block that owns it."""
        whole = np.empty(self.shape, dtype=pieces[0].dtype)
        for block, piece in zip(self.blocks, pieces, strict=True):
            if isinstance(block.where, tuple):
                whole[block.where][block.owned] = piece[block.owned]
            else:
                whole[block.where[block.owned]] = piece[block.owned]
        return whole

    def average(self, pieces: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
        """One array over all sites, each site's value the mean over the blocks that hold it."""
        whole = np.zeros(self.shape)
        for block, piece in zip(self.blocks, pieces, strict=True):
            whole[block.where] += piece
        everywhere: Index = tuple(slice(0, n) for n in self.shape)
        return whole / (self.multiplicity(everywhere) if isinstance(self.counts, tuple) else self.counts)


@dataclass(frozen=True)
class _Piece:
    """A piece of an axis: what its block covers, and what it owns, counted from the block's first site."""

    grown: slice
    owned: slice


@dataclass(frozen=True)
class _Axis:
    pieces: tuple[_Piece, ...]
    count: npt.NDArray[np.float64]

    @classmethod
    def cut(cls, length: int, cuts: Sequence[int], overlap: float | int) -> _Axis:
        try:
            edges = [0, *(operator.index(c) for c in cuts), length]
        except TypeError:
            raise InputError(f"cuts of an axis are {cuts!r}; expected a list of whole numbers.") from None
        if any(low >= high for low, high in pairwise(edges)):
            raise InputError(f"cuts {list(cuts)} of an axis of {length} sites; expected rising numbers inside it.")
        fraction = _checked_overlap(overlap)
        if not fraction:  # one number for all, however long the axis is
            whole = tuple(_Piece(slice(low, high), slice(0, high - low)) for low, high in pairwise(edges))
            return cls(whole, np.broadcast_to(np.float64(1.0), (length,)))
        count = np.zeros(length)
        pieces = []
        for low, high in pairwise(edges):
            if isinstance(fraction, int) and len(edges) > 2 and fraction >= high - low:
                raise InputError(
                    f"overlap is {fraction} sites on a block of {high - low}; expected less than the block's side. "
                    f"Use fewer blocks or less overlap."
                )
            growth = fraction if isinstance(fraction, int) else round(fraction * (high - low))
            first, last = max(0, low - growth // 2), min(length, high + growth - growth // 2)
            pieces.append(_Piece(slice(first, last), slice(low - first, high - first)))
            count[first:last] += 1
        return cls(tuple(pieces), count)


def _checked_shape(shape: Sequence[int]) -> tuple[int, ...]:
    try:
        lengths = tuple(operator.index(n) for n in shape)
    except TypeError:
        raise InputError(f"shape is {shape!r}; expected a whole number of sites per axis.") from None
    if not lengths or any(not 1 <= n <= MOST_SIDE for n in lengths):
        raise InputError(f"shape is {tuple(shape)}; expected at least one site along every axis, up to {MOST_SIDE:,}.")
    return lengths


def _checked_overlap(overlap: float | int) -> float | int:
    whole = isinstance(overlap, (int, np.integer)) and not isinstance(overlap, bool)
    if whole and overlap >= 0:
        return int(overlap)
    if isinstance(overlap, (float, np.floating)) and 0.0 <= overlap < 1.0:
        return float(overlap)
    raise InputError(
        f"overlap is {overlap!r}; expected a fraction of the block's side, 0 <= overlap < 1, "
        f"or a whole number of sites."
    )


def layout_of(shape: tuple[int, ...], blocks: int | Sequence[int]) -> tuple[int, ...]:
    """Blocks per axis: as given, or of all factorisations of the number the one with the least seam."""
    if isinstance(blocks, (int, np.integer)) and not isinstance(blocks, bool):
        return _least_seam(shape, int(blocks))
    try:
        layout = tuple(operator.index(k) for k in blocks)  # type: ignore[union-attr]
    except (TypeError, ValueError):
        raise InputError(f"blocks is {blocks!r}; expected a number, or a number per axis.") from None
    if len(layout) != len(shape) or any(k < 1 for k in layout):
        raise InputError(f"blocks is {layout}; expected {len(shape)} positive numbers, one per axis.")
    if any(k > n for k, n in zip(layout, shape, strict=True)):
        raise InputError(f"{layout} blocks on a grid of {shape}: more blocks than sites along an axis. Use fewer.")
    _require_few(math.prod(layout))
    return layout


def _require_few(blocks: int) -> None:
    if blocks > MOST_BLOCKS:
        raise InputError(f"{blocks:,} blocks are asked for; expected at most {MOST_BLOCKS:,}. Use fewer, larger ones.")


def _least_seam(shape: tuple[int, ...], blocks: int) -> tuple[int, ...]:
    sites = math.prod(shape)
    if not 1 <= blocks <= sites:
        raise InputError(f"{blocks} blocks asked for {sites} sites; expected 1 to {sites}.")
    _require_few(blocks)
    divisors = [k for k in range(1, blocks + 1) if blocks % k == 0]
    # For every number of blocks, from the last axis on: the least seam, and the layout that has it.
    best: dict[int, tuple[int, tuple[int, ...]]] = {1: (0, ())}
    for length in reversed(shape):
        longer: dict[int, tuple[int, tuple[int, ...]]] = {}
        for rest, (seam, layout) in best.items():
            for k in divisors:
                if k <= length and blocks % (k * rest) == 0:
                    found = seam + (k - 1) * (sites // length), (k, *layout)
                    longer[k * rest] = min(found, longer.get(k * rest, found))
        best = longer
    if blocks not in best:
        raise InputError(
            f"{blocks} blocks cannot be laid out on a grid of {shape}: no product of numbers that fit its sides. "
            f"Try a rounder number, or give blocks per axis."
        )
    return best[blocks][1]


def _halved(pairs: GraphPairs, sites: Sites, blocks: int) -> list[Sites]:
    if blocks == 1:
        return [sites]
    order = _breadth_first(pairs, sites)
    left = blocks // 2
    middle = len(sites) * left // blocks
    return _halved(pairs, order[:middle], left) + _halved(pairs, order[middle:], blocks - left)


def _breadth_first(pairs: GraphPairs, sites: Sites) -> Sites:
    """`sites` in breadth-first order from one end, component after component."""
    inside = np.zeros(pairs.sites, dtype=np.bool_)
    inside[sites] = True
    far = _layers(pairs, sites[:1], inside.copy())[-1]
    order = []
    for start in (far[:1], sites):
        for site in start:
            if inside[site]:
                order.extend(_layers(pairs, np.array([site]), inside))
    return np.concatenate(order)


def _layers(pairs: GraphPairs, start: Sites, free: Mask) -> list[Sites]:
    """Breadth-first layers from `start` over the sites that are `free`, which are taken (set False) on the way."""
    free[start] = False
    layers = [start]
    while len(layer := _next_layer(pairs, layers[-1], free)):
        free[layer] = False
        layers.append(layer)
    return layers


def _next_layer(pairs: GraphPairs, layer: Sites, free: Mask) -> Sites:
    start, neighbors = pairs.rows
    lengths = start[layer + 1] - start[layer]
    first = np.repeat(start[layer] - np.cumsum(lengths) + lengths, lengths)
    near = neighbors[first + np.arange(len(first))]
    return np.unique(near[free[near]])


def _around(pairs: GraphPairs, core: Sites, number: int) -> Sites:
    """Up to `number` sites around `core`, nearest layers first."""
    free = np.ones(pairs.sites, dtype=np.bool_)
    free[core] = False
    found = [np.zeros(0, dtype=np.int64)]
    layer, missing = core, number
    while missing > 0 and len(layer := _next_layer(pairs, layer, free)):
        layer = layer[:missing]
        free[layer] = False
        found.append(layer)
        missing -= len(layer)
    return np.concatenate(found)


def _metis(pairs: GraphPairs, blocks: int) -> list[Sites]:
    try:
        import pymetis
    except ImportError:
        raise MissingExtraError("metis=True needs pymetis; install it with: pip install 'dope[metis]'") from None
    start, neighbors = pairs.rows
    _, member = pymetis.part_graph(blocks, pymetis.CSRAdjacency(start, neighbors))
    cores = [np.flatnonzero(np.asarray(member) == k) for k in range(blocks)]
    return [core for core in cores if len(core)]
