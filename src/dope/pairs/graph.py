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
from dope.arrays import BinaryLabels, Mask, Sites, Span, as_array, as_reals, check_finite, core_reads, measure_span
from dope.errors import InputError
from dope.pairs.boxes import ends
from dope.pairs.grid import GridPairs
from dope.pairs.kernels import MOST_AXES
from dope.sums import exact_sum, in_units

# A graph with more kinds of neighbors than this is no grid: every kind costs a number per site.
MOST_OFFSETS = 512

# How the core reads the ends of edges in place.
SITE_TYPES = (np.int32, np.int64)


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
    values = as_reals("weights", weights).astype(np.float64, copy=False)
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
    numbers = values if core_reads(values) else values.copy()
    outside, loop, pairs = _core.sort_edges(sites, listed[:, 0], listed[:, 1], numbers)
    if outside >= 0:
        raise InputError(f"edge {outside} is {found[outside].tolist()}; expected sites from 0 to {sites - 1}.")
    if pairs is None:
        raise InputError(f"edge {loop} joins site {found[loop, 0]} with itself; leave such edges out.")
    return GraphPairs(sites, *pairs)
