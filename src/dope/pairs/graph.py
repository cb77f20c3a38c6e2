"""The pairs of a graph: an edge list."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.arrays import (
    BinaryLabels,
    Mask,
    Sites,
    Span,
    as_array,
    as_numbers,
    as_reals,
    check_finite,
    core_reads,
    measure_span,
)
from dope.errors import InputError
from dope.pairs.boxes import ends
from dope.pairs.fused import LabelNumbers, Table, half_curl, half_slope, halved_curl, halved_slope
from dope.pairs.grid import GridPairs
from dope.pairs.kernels import MOST_AXES
from dope.sums import exact_sum, in_units

# A graph with more kinds of neighbors than this is no grid: every kind costs a number per site.
MOST_OFFSETS = 512

# How the core reads the ends of edges in place.
SITE_TYPES = (np.int32, np.int64)
WEIGHT_TYPES = (np.int32, np.float32, np.float64)


@dataclass(frozen=True, eq=False)
class GraphPairs:
    """The pairs of a graph: each unordered pair once, first end below the second, sorted."""

    sites: int
    first: Sites
    second: Sites
    weights: npt.NDArray[np.float64]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.sites,)

    @property
    def number(self) -> int:
        return len(self.weights)

    @property
    def strength(self) -> float:
        return self._strength[0]

    @property
    def largest(self) -> float:
        return self._span.largest

    @property
    def degree(self) -> int:
        return self._strength[1]

    @cached_property
    def _strength(self) -> tuple[float, int]:
        return _core.graph_strength(self.sites, self.first, self.second, self.weights)

    @property
    def lowest(self) -> float:
        return min(0.0, self._span.low)

    def binary_places(self) -> int | None:
        return self._span.places

    @cached_property
    def _span(self) -> Span:
        return measure_span(self.weights)

    def crop(self, where: Sites) -> GraphPairs:
        """The pairs with both ends among the sites `where`, renumbered in that order."""
        place = np.full(self.sites, -1, dtype=np.int64)
        place[where] = np.arange(len(where))
        first, second = place[self.first], place[self.second]
        inside = (first >= 0) & (second >= 0)
        return sorted_graph(len(where), first[inside], second[inside], self.weights[inside])

    def around(self, where: Sites) -> Sites:
        """The sites and every neighbour of them, sorted."""
        inside = np.zeros(self.sites, dtype=np.bool_)
        inside[where] = True
        return np.union1d(where, np.concatenate([self.second[inside[self.first]], self.first[inside[self.second]]]))

    @property
    def attractive(self) -> GraphPairs:
        return self._part(self.weights > 0.0, 1.0)

    @property
    def repulsive(self) -> GraphPairs:
        return self._part(self.weights < 0.0, -1.0)

    def _part(self, kept: Mask, sign: float) -> GraphPairs:
        return GraphPairs(self.sites, self.first[kept], self.second[kept], sign * self.weights[kept])

    def divided(self, counts: npt.NDArray[np.float64]) -> GraphPairs:
        return replace(self, weights=self.weights / (counts[self.first] * counts[self.second]))

    def roughness(self, y: npt.NDArray[Any], within: Sites | None = None) -> float:
        """The sum of w (y_p - y_q)^2 over the pairs whose first end is among the sites `within` (default: all)."""
        change = y[self.first].astype(np.float64) - y[self.second]
        return float((self.weights * change * change)[self._from(within)].sum())

    def exact_roughness(self, labels: BinaryLabels, within: Sites | None = None) -> Fraction:
        """The same of labels, from which nothing is lost."""
        if within is not None:
            return exact_sum(self.weights[self._from(within) & (labels[self.first] != labels[self.second])])
        try:
            return in_units(_core.exact_cut(self.first, self.second, self.weights, labels))
        except OverflowError as error:
            raise InputError(f"{error}; scale the costs down first.") from error

    def moved(self, labels: LabelNumbers, proposal: LabelNumbers, costs: Table) -> tuple[GraphPairs, Table]:
        """The pairs of a move from labels to a proposal, and what they add to the unary of each site."""
        x_i, x_j, p_i, p_j = (image[ends] for image in (labels, proposal) for ends in (self.first, self.second))
        weights = self.weights * half_curl(costs, x_i, x_j, p_i, p_j)
        slopes = _summed(self.sites, self.first, self.weights * half_slope(costs, x_i, x_j, p_i, p_j))
        slopes += _summed(self.sites, self.second, self.weights * half_slope(costs, x_j, x_i, p_j, p_i))
        return _without_zeros(self.sites, self.first, self.second, weights), slopes

    def exact_cost(self, labels: LabelNumbers, costs: Table, within: Sites | None = None) -> Fraction:
        """The sum of w V(x_p, x_q) over the pairs whose first end is among the sites `within` (default: all)."""
        paid = self.weights * costs[labels[self.first], labels[self.second]]
        return exact_sum(paid if within is None else paid[self._from(within)])

    def total(self, within: Sites | None = None) -> Fraction:
        return exact_sum(self.weights[self._from(within)])

    def _from(self, within: Sites | None) -> Mask:
        """The pairs whose first end is among these sites."""
        owned = np.full(self.sites, within is None)
        if within is not None:
            owned[within] = True
        return owned[self.first]

    def edges(self) -> tuple[Sites, Sites, npt.NDArray[np.float64]]:
        return self.first, self.second, self.weights

    def on_grid(self, shape: tuple[int, ...]) -> GridPairs:
        """The same pairs, their sites counted row by row through a grid of this shape."""
        if math.prod(shape) != self.sites:
            raise InputError(f"shape is {shape}, {math.prod(shape)} sites; expected one of {self.sites}, the graph's.")
        if len(shape) > MOST_AXES:
            raise InputError(f"shape has {len(shape)} axes; expected at most {MOST_AXES}. Leave out those of one site.")
        offsets, fields = _core.grid_fields(shape, self.first, self.second, self.weights, MOST_OFFSETS)
        if len(offsets) > MOST_OFFSETS:
            raise InputError(
                f"the graph's pairs have {len(offsets)} different offsets on a grid of shape {shape}; expected at most "
                f"{MOST_OFFSETS}. Are the sites in row-major order of another shape? If not, leave it a graph."
            )
        steps = np.array(offsets, dtype=np.int64).reshape(-1, len(shape))
        spans = [measure_span(field[ends(step)[0]]) for field, step in zip(fields, offsets, strict=True)]
        bounds = np.array([[min(0.0, span.low), max(0.0, span.high)] for span in spans]).reshape(-1, 2)
        return GridPairs(shape, steps, np.ones(len(steps)), bounds, fields=tuple(fields), spans=tuple(spans))

    @cached_property
    def rows(self) -> tuple[Sites, Sites]:
        """Neighbours by rows: those of site i are `neighbors[start[i]:start[i + 1]]`."""
        tail = np.concatenate([self.first, self.second])
        head = np.concatenate([self.second, self.first])
        order = np.lexsort((head, tail))
        start = np.zeros(self.sites + 1, dtype=np.int64)
        np.cumsum(np.bincount(tail, minlength=self.sites), out=start[1:])
        return start, head[order]


@dataclass(frozen=True, eq=False)
class TablePairs:
    """The pairs of a graph of which each has a table of its own: each unordered pair once, first below second, sorted.

    tables[e, a, b] is what pair e costs where its first end has label a and its second label b.
    """

    sites: int
    first: Sites
    second: Sites
    tables: npt.NDArray[np.float64]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.sites,)

    @property
    def number(self) -> int:
        return len(self.tables)

    @property
    def in_memory(self) -> bool:
        return True

    @property
    def graph(self) -> GraphPairs:
        """Which pairs there are."""
        return GraphPairs(self.sites, self.first, self.second, np.ones(self.number))

    @property
    def expandable(self) -> bool:
        """Whether V(a, b) + V(b, c) >= V(a, c) + V(b, b) in every table: expansions to any b are submodular."""
        return all(
            bool(
                (
                    halved_curl(
                        self.tables[:, :, None, b],
                        self.tables[:, b, None, :],
                        self.tables,
                        self.tables[:, b, b, None, None],
                    )
                    >= 0.0
                ).all()
            )
            for b in range(self.tables.shape[-1])
        )

    @property
    def swappable(self) -> bool:
        """Whether V(a, b) + V(b, a) >= V(a, a) + V(b, b) in every table: swaps of any a and b are submodular."""
        same = np.diagonal(self.tables, axis1=1, axis2=2)
        curls = halved_curl(self.tables, self.tables.transpose(0, 2, 1), same[:, :, None], same[:, None, :])
        return bool((curls >= 0.0).all())

    def moved(self, labels: LabelNumbers, proposal: LabelNumbers) -> tuple[GraphPairs, Table]:
        """The pairs of a move from labels to a proposal, and what they add to the unary of each site."""
        x_i, x_j, p_i, p_j = (image[ends] for image in (labels, proposal) for ends in (self.first, self.second))
        edge = np.arange(self.number)
        keep_take, take_keep = self.tables[edge, x_i, p_j], self.tables[edge, p_i, x_j]
        keep_keep, take_take = self.tables[edge, x_i, x_j], self.tables[edge, p_i, p_j]
        slopes = _summed(self.sites, self.first, halved_slope(keep_take, take_keep, keep_keep, take_take))
        slopes += _summed(self.sites, self.second, halved_slope(take_keep, keep_take, keep_keep, take_take))
        weights = halved_curl(keep_take, take_keep, keep_keep, take_take)
        return _without_zeros(self.sites, self.first, self.second, weights), slopes

    def exact_cost(self, labels: LabelNumbers) -> Fraction:
        """The sum of what all pairs cost."""
        return exact_sum(self.tables[np.arange(self.number), labels[self.first], labels[self.second]])


def _summed(sites: int, where: Sites, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.bincount(where, values, sites).astype(np.float64, copy=False)  # of no values NumPy makes integers


def _without_zeros(sites: int, first: Sites, second: Sites, weights: npt.NDArray[np.float64]) -> GraphPairs:
    kept = weights != 0.0
    return GraphPairs(sites, first[kept], second[kept], weights[kept])


def table_pairs(sites: int, edges: npt.ArrayLike, tables: npt.NDArray[np.float64]) -> TablePairs:
    """An edge list with a table per edge in its normal form; the tables of parallel edges add up."""
    found = as_array("edges", edges).reshape(-1, 2) if len(tables) else np.zeros((0, 2), dtype=np.int64)
    numbers = np.zeros(len(found))
    ordered = graph_pairs(sites, found, numbers)  # checks it, and knows which pairs there are
    backwards = found[:, 0] > found[:, 1]
    upright = np.where(backwards[:, None, None], tables.transpose(0, 2, 1), tables)
    low, high = found.min(axis=1).astype(np.int64), found.max(axis=1).astype(np.int64)
    places = np.searchsorted(ordered.first * np.int64(sites) + ordered.second, low * np.int64(sites) + high)
    added = np.zeros((ordered.number, *tables.shape[1:]))
    np.add.at(added, places, upright)
    return TablePairs(sites, ordered.first, ordered.second, added)


def sorted_graph(sites: int, first: Sites, second: Sites, weights: npt.NDArray[np.float64]) -> GraphPairs:
    """The normal form of an edge list: ends in order, pairs sorted, parallel pairs added up."""
    *_, pairs = _core.sort_edges(sites, first, second, weights)
    assert pairs is not None  # all ends are sites, and those of an edge differ
    return GraphPairs(sites, *pairs)


def graph_pairs(sites: int, edges: npt.ArrayLike, weights: npt.ArrayLike) -> GraphPairs:
    """Check an edge list at the door and bring it into its normal form; parallel edges add up."""
    found = as_array("edges", edges)
    if found.size == 0:
        found = np.zeros((0, 2), dtype=np.int64)
    if found.ndim != 2 or found.shape[1] != 2 or found.dtype.kind not in "iu":
        raise InputError(
            f"edges have shape {found.shape} and dtype {found.dtype}; expected integers of shape (number, 2)."
        )
    values = as_numbers("weights", weights)
    if not core_reads(values, WEIGHT_TYPES):
        values = as_reals("weights", values).astype(np.float64)
    if values.ndim == 0:
        values = np.full(len(found), float(values))
    if values.shape != (len(found),):
        directed = (
            ""
            if values.shape[1:] != (2,)
            else (
                " Capacities that differ by direction, there and back, are for Energy.from_tables, with the table "
                "[[0, there], [back, 0]] for each edge."
            )
        )
        raise InputError(f"weights have shape {values.shape}; expected one per edge, ({len(found)},).{directed}")
    check_finite("weights", values)
    listed = found if core_reads(found, SITE_TYPES) else found.astype(np.int64)
    outside, loop, pairs = _core.sort_edges(sites, listed[:, 0], listed[:, 1], values)
    if outside >= 0:
        raise InputError(f"edge {outside} is {found[outside].tolist()}; expected sites from 0 to {sites - 1}.")
    if pairs is None:
        raise InputError(f"edge {loop} joins site {found[loop, 0]} with itself; leave such edges out.")
    return GraphPairs(sites, *pairs)
