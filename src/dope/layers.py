"""Ordered labels with a convex price of jumps, and any costs, as one cut on layers (Ishikawa 2003).

    E(x) = sum_i c_i(x_i) + sum_{pairs} w_ij V(x_i - x_j),     x_i in {0..L-1},   V convex, symmetric, V(0) = 0

Site i becomes a column of L - 1 sites y_it = [x_i >= t], t = 1..L-1, between a 1 below it (t = 0) and a 0 above it
(t = L).

- The unary of y_it is c_i(t) - c_i(t-1): a column that changes once pays c_i(x_i) - c_i(0).
- Neighbours in a column are joined by pairs of weight M, of which such a column pays one. To change from 0 back to 1
  between t and t + 1 takes 2 M - c_i(t) of flow, costs counted from the least one. What flows there came over pairs
  with other columns above t and leaves over such below, and may be S_i sum_k a_k min(t, L - 1 - t) at most, S_i being
  all weights of the site. Where M is more than half of both together no minimum cut has such a change.
- |[x_i >= t] - [x_j >= t + k]|, summed over t, is |x_i - x_j + k|. With a_k = (V(k+1) - 2 V(k) + V(k-1)) / 2 for
  |k| <= L - 2 the sum of a_k |d + k| is V(d) and a constant; for V(d) = |d| only a_0 = 1 is left. So columns are joined
  by pairs at offsets (offset, k), all of them symmetric and none negative: an energy of a grid with one more axis.

Where t + k leaves the column the label is known, and the pair is a unary: of the k layers nearest to either end.

A cost that is more than S_i V(L - 1) above the site's least is that of no minimizer, and is counted as little more than
that: M does not follow from what forbids a label.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.arrays import (
    MOST_PLACES,
    BinaryLabels,
    Box,
    Mask,
    Reals,
    Sites,
    binary_places,
    measure_span,
    most_places,
)
from dope.cancellation import check_cancelled
from dope.energy import Energy
from dope.errors import InputError
from dope.footprint import seam_bytes
from dope.label_costs import cost_strips
from dope.label_energy import LabelEnergy
from dope.pairs import GraphPairs, GridPairs, TablePairs, ends, sorted_graph
from dope.partition import Block, Partition
from dope.sums import exact_sum

# Of a layer of a site beside the network: its unary, labels, and the unary of blocks that are opened. On grids of
# 40,000 and 262,144 sites with 16 to 64 labels and 4 or 8 neighbours, the plan is 1.05 to 1.2 times what they took; 1.4
# times with "quadratic" and 32 labels, of whose network much is never touched.
LAYER_WORK_BYTES = 16
# Of an edge of a graph of layers beside the network: its ends and weight, twice and more while they are sorted. On
# graphs of 22,500 and 40,000 sites with 8 and 16 labels, the plan is 1.0 to 1.1 times what they took.
EDGE_BYTES = 64
# M and the cap are whole numbers of a unit of 2^-10 of what they follow from, so that they need few binary places.
COLUMN_PLACES = 10
# No unit of `fixed_point` is finer than 2^-900, and M has to be many of them.
LEAST_CAP = 2.0**-800
# Sums of whole numbers up to this are whole numbers in float64.
MOST_WHOLE = 2.0**52
ROUNDING = 2.0**-52


def require_layers(energy: LabelEnergy) -> None:
    """Refuse an energy that layers cannot express, or that is not in memory."""
    fault = why_no_layers(energy)
    if fault is not None:
        raise InputError(
            f"{fault}; Layers() need a linear or quadratic metric without a limit, or another convex one, and weights "
            f"of 0 or more. Use Moves(), which take any."
        )
    if not energy.in_memory:
        raise InputError("costs are not in memory; Layers() need all of them there. Call energy.read() first.")


def why_no_layers(energy: LabelEnergy) -> str | None:
    """What an energy has that layers cannot express, in words; None where it has nothing."""
    if energy.metric is None or isinstance(energy.pairs, TablePairs):
        return "each pair has a table of its own"
    if energy.metric.bends(energy.label_count) is None:
        return f"the metric is {energy.metric}, which is no convex function of the difference of two labels"
    if energy.pairs.lowest < 0.0:
        return f"a pair weight is as low as {energy.pairs.lowest:g}"
    return None


@dataclass(frozen=True, eq=False)
class LayerSizes:
    """How many sites and pairs the layers of an energy have: what follows from shapes, the metric and bounds alone.

    `bends` are k and a_k where that is not 0, `strength` bounds what the weights of a site add up to, columns aside.
    """

    pairs: GridPairs | GraphPairs
    label_count: int
    bends: tuple[tuple[int, float], ...]

    @classmethod
    def of(cls, energy: LabelEnergy) -> LayerSizes:
        """Of an energy that layers can express."""
        assert energy.metric is not None and isinstance(energy.pairs, GridPairs | GraphPairs)
        bends = energy.metric.bends(energy.label_count)
        assert bends is not None
        both = {k: a for m, a in enumerate(bends) if a for k in (-m, m)}
        return cls(energy.pairs, energy.label_count, tuple(sorted(both.items())))

    @property
    def count(self) -> int:
        """Layers."""
        return self.label_count - 1

    @property
    def sites(self) -> int:
        return self.pairs.sites * self.count

    @property
    def number(self) -> int:
        between = sum(self.count - abs(k) for k, _ in self.bends) * self.pairs.number
        return between + self.pairs.sites * (self.count - 1)

    @property
    def degree(self) -> int:
        return self.pairs.degree * len(self.bends) + 2

    @property
    def strength(self) -> float:
        return self.pairs.strength * sum(a for _, a in self.bends)

    def grid(self) -> GridPairs:
        """Between which layers of a grid there are pairs, without their weights."""
        assert isinstance(self.pairs, GridPairs)
        shape = (*self.pairs.shape, self.count)
        joined = [(*offset, k) for offset in self.pairs.offsets.tolist() for k, _ in self.bends]
        offsets = np.array([*joined, (*[0] * len(self.pairs.shape), 1)], dtype=np.int64)
        return GridPairs(shape, offsets, np.ones(len(offsets)), np.ones((len(offsets), 2)))


def layer_bytes(sizes: LayerSizes, bits: int, layout: Sequence[int] | None = None) -> int:
    """What it takes to make layers and to cut them, of sites in so many blocks along each axis; process aside."""
    work = sizes.sites * LAYER_WORK_BYTES
    if isinstance(sizes.pairs, GraphPairs):
        return work + sizes.number * EDGE_BYTES + _core.GraphFlow.bytes_needed(sizes.sites, sizes.number, bits)
    pairs = sizes.grid()
    try:
        network = _core.GridFlow.bytes_needed(pairs.shape, pairs.offsets[pairs.fits], bits)
    except ValueError as error:
        raise InputError(
            f"{sizes.label_count} labels are too many for layers of {sizes.pairs.sites:,} sites: {error}."
        ) from error
    weights = 8 * len(sizes.pairs.offsets) * sizes.pairs.sites  # where they are not the same everywhere
    return work + weights + network + seam_bytes(pairs, None if layout is None else (*layout, 1))


@dataclass(frozen=True, eq=False)
class LayerNumbers:
    """The numbers that layers are made of, before they are made.

    Attributes
    ----------
    column : M.
    cap : what a cost is counted as, at most, over the least of its site.
    unit : M and the cap are more than what they have to be by one of these.
    places : binary places of all costs and weights; None where some sum of them is rounded.
    largest_unary : what no unary of a layer is beyond.
    spread : the sum over the sites of what their greatest cost is above their least one.
    least : the sum of the least costs.
    slack : how far the energy of layers can be from that of labels, by rounding in float64 alone.
    """

    sizes: LayerSizes
    column: float
    cap: float
    unit: float
    places: int | None
    largest_unary: float
    spread: float
    least: Fraction
    slack: Fraction

    @classmethod
    def of(cls, energy: LabelEnergy) -> LayerNumbers:
        """By one look at the costs of an energy."""
        require_layers(energy)
        sizes = LayerSizes.of(energy)
        assert energy.metric is not None
        prices = energy.metric.matrix(energy.label_count)[0]
        strength = sizes.pairs.strength
        paid = strength * float(prices[-1])
        looked = _Look.at(energy, paid)
        room = sizes.strength * (sizes.count // 2)
        if not math.isfinite(sizes.sites * (paid + room) * (4 + 2 * sizes.degree)):
            raise InputError("what the pairs of all layers cost adds up beyond float64; scale the costs down first.")
        weights = sizes.pairs.binary_places()
        bends = binary_places([np.array([a for _, a in sizes.bends])]) if sizes.bends else 0
        of_pairs = None if weights is None or bends is None else weights + bends
        places = None if of_pairs is None or looked.places is None else max(of_pairs, looked.places)
        unit = 2.0 ** (math.frexp(max(paid, room, LEAST_CAP))[1] - COLUMN_PLACES)
        if places is not None:
            finest = 2.0**-places
            unit = max(unit, finest)
            places = places if 8.0 * (paid + room + unit) / finest <= MOST_WHOLE else None
        cap = _above(paid, unit)
        # One unit more, for capacities that are rounded.
        column = _above((min(cap, looked.widest) + room) / 2.0, unit) + unit
        largest = 2.0 * column + cap + sizes.strength * sizes.label_count
        slack = Fraction(0)
        if places is None:
            operations = sizes.sites * (4 + 2 * sizes.degree) * largest
            between = sizes.number * 4.0 * max(column, sizes.strength) + sizes.pairs.number * paid
            slack = Fraction(ROUNDING * (operations + between))
        slack += _deviation(prices, dict(sizes.bends)) * Fraction(sizes.pairs.number) * Fraction(sizes.pairs.largest)
        return cls(sizes, column, cap, unit, places, largest, looked.spread, looked.least, slack)

    # What capacities are bounded by, as `fixed_point` asks for it of pairs.

    @property
    def strength(self) -> float:
        return self.sizes.strength + 2.0 * self.column

    @property
    def largest(self) -> float:
        return max(self.column, self.sizes.pairs.largest * max((a for _, a in self.sizes.bends), default=0.0))

    @property
    def degree(self) -> int:
        return self.sizes.degree

    @property
    def number(self) -> int:
        return self.sizes.number


@dataclass(frozen=True)
class _Look:
    """What one look at costs tells."""

    places: int | None
    widest: float
    spread: float
    least: Fraction

    @classmethod
    def at(cls, energy: LabelEnergy, paid: float) -> _Look:
        places: list[int | None] = [0]
        widest, spread, least = 0.0, 0.0, Fraction(0)
        for _, here in _costs_in_strips(energy):
            if None not in places:
                places.append(measure_span(here, most=MOST_PLACES).places)
            low = here.min(axis=-1)
            with np.errstate(over="ignore"):
                above = here.max(axis=-1) - low
            widest = max(widest, float(above.max(initial=0.0)))
            spread += float(np.minimum(above, paid).sum())
            least += exact_sum(np.ascontiguousarray(low))
        return cls(most_places(places), widest, spread, least)


def _costs_in_strips(energy: LabelEnergy) -> Iterator[tuple[Box, Reals]]:
    """Some of the sites at a time, and their costs in float64, 0 outside a mask."""
    inside = _inside(energy)
    for strip in cost_strips(energy.costs):
        check_cancelled()
        here = energy.costs[strip].astype(np.float64)
        if inside is not None:
            here[~inside[strip]] = 0.0
        yield strip, here


def _inside(energy: LabelEnergy) -> Mask | None:
    return energy.pairs.inside if isinstance(energy.pairs, GridPairs) else None


def _above(number: float, unit: float) -> float:
    """A whole number of units that is more."""
    return (math.floor(number / unit) + 1) * unit


def _deviation(prices: Reals, bends: dict[int, float]) -> Fraction:
    """How far the sum of a_k (|d + k| - |k|) is from V(d) at most: not at all where the a_k are exact."""
    before, here, most = Fraction(0), Fraction(bends.get(0, 0.0)), Fraction(0)
    for d in range(1, len(prices)):
        most = max(most, abs(here - Fraction(float(prices[d]))))
        before, here = here, 2 * here - before + 2 * Fraction(bends.get(d, 0.0))
    return most


@dataclass(frozen=True, eq=False)
class LayeredEnergy:
    """The binary energy on layers, and what its labels say of the sites.

    On a grid layers are the last axis, on a graph the sites of a column follow one another. Its energy of y is that of
    the labels less `bottom`, which is E where all labels are 0, within `numbers.slack`.
    """

    energy: Energy
    numbers: LayerNumbers
    bottom: Fraction

    @classmethod
    def of(cls, energy: LabelEnergy, numbers: LayerNumbers) -> LayeredEnergy:
        """The layers of an energy in memory."""
        unary, first = _steps_of_costs(energy, numbers)
        weights = _weights(energy)
        check_cancelled()
        _add_known(unary, energy, numbers.sizes, weights)
        if numbers.sizes.count > 1:
            unary[..., 0] -= numbers.column
            unary[..., -1] += numbers.column
        inside = _inside(energy)
        if inside is not None:
            unary[~inside] = float(np.abs(unary[inside]).max(initial=0.0)) or 1.0
        check_cancelled()
        bottom = Fraction(energy.constant) + numbers.least + first
        if isinstance(energy.pairs, GraphPairs):
            return cls(Energy(unary.ravel(), _graph_pairs(energy.pairs, numbers)), numbers, bottom)
        return cls(Energy(unary, _grid_pairs(numbers, weights)), numbers, bottom)

    def labels(self, layers: BinaryLabels) -> npt.NDArray[Any]:
        """Of every site: how many of its layers have label 1."""
        count = self.numbers.sizes.count
        return np.asarray(self._columns(layers).sum(axis=-1), dtype=np.uint8 if count < 256 else np.uint16)

    def in_order(self, layers: BinaryLabels) -> Mask:
        """Of every site: whether no layer has label 1 above one that has 0."""
        columns = self._columns(layers)
        found: Mask = np.all(columns[..., 1:] <= columns[..., :-1], axis=-1)
        return found

    def _columns(self, layers: BinaryLabels) -> BinaryLabels:
        graph = isinstance(self.energy.pairs, GraphPairs)
        return layers.reshape(-1, self.numbers.sizes.count) if graph else layers

    def partition(self, blocks: Partition) -> Partition:
        """The same blocks, of whole columns."""
        if blocks.cuts is not None:
            return Partition.at(self.energy.shape, (*blocks.cuts, ()))
        count = self.numbers.sizes.count
        columns = [(cast("Sites", block.where)[:, None] * count + np.arange(count)).ravel() for block in blocks.blocks]
        parts = tuple(Block(column, np.arange(len(column))) for column in columns)
        return Partition(self.energy.shape, parts, np.ones(self.energy.shape))


def _steps_of_costs(energy: LabelEnergy, numbers: LayerNumbers) -> tuple[Reals, Fraction]:
    """c_i(t) - c_i(t-1) of every layer, and the sum of c_i(0), costs counted from the least of their site."""
    steps = np.empty((*energy.shape, numbers.sizes.count))
    first = Fraction(0)
    for strip, here in _costs_in_strips(energy):
        with np.errstate(over="ignore"):
            above = np.subtract(here, here.min(axis=-1, keepdims=True), out=here)
        np.minimum(above, numbers.cap, out=above)
        first += exact_sum(np.ascontiguousarray(above[..., 0]))
        np.subtract(above[..., 1:], above[..., :-1], out=steps[strip])
    return steps, first


def _weights(energy: LabelEnergy) -> list[Reals] | None:
    """The weights of a grid's pairs by offset and first site, where they are not the same everywhere."""
    pairs = energy.pairs
    if not isinstance(pairs, GridPairs) or not (pairs.features is not None or pairs.fields or pairs.inside is not None):
        return None
    native, fitting = pairs.native(), np.flatnonzero(pairs.fits).tolist()
    none = np.broadcast_to(np.zeros(()), pairs.shape)
    return [native.weights(fitting.index(m)) if m in fitting else none for m in range(len(pairs.offsets))]


def _add_known(unary: Reals, energy: LabelEnergy, sizes: LayerSizes, weights: list[Reals] | None) -> None:
    """Adds the pairs of which one end is known to the unary of the other."""
    profile = np.zeros(sizes.count)
    for k, a in sizes.bends:
        if k > 0:
            profile[-k:] += a
            profile[:k] -= a
    if not profile.any():
        return
    pairs = energy.pairs
    joined = np.zeros(energy.shape)
    if isinstance(pairs, GraphPairs):
        for ends_of in (pairs.first, pairs.second):
            joined += np.bincount(ends_of, pairs.weights, pairs.sites)
    else:
        assert isinstance(pairs, GridPairs)
        for m, offset in enumerate(pairs.offsets.tolist()):
            if all(abs(o) < n for o, n in zip(offset, pairs.shape, strict=True)):
                tail, head = ends(offset)
                here = pairs.factors[m] if weights is None else weights[m][tail]
                joined[tail] += here
                joined[head] += here
    unary += joined[..., None] * profile


def _grid_pairs(numbers: LayerNumbers, weights: list[Reals] | None) -> GridPairs:
    """The pairs of the layers of a grid; fields are those of the sites, the same memory for every layer."""
    sizes, column = numbers.sizes, numbers.column
    bare, pairs = sizes.grid(), cast("GridPairs", sizes.pairs)
    a = np.array([a for _, a in sizes.bends])
    bounds = np.concatenate([np.multiply.outer(pairs.bounds, a).swapaxes(1, 2).reshape(-1, 2), [[column, column]]])
    if weights is None:
        factors = np.append(np.multiply.outer(pairs.factors, a).ravel(), column)
        return replace(bare, factors=factors, bounds=bounds)
    ones = np.broadcast_to(np.ones(()), bare.shape)
    fields = [np.broadcast_to(field[..., None], bare.shape) for field in weights for _ in sizes.bends]
    factors = np.append(np.tile(a, len(weights)), column)
    return replace(bare, factors=factors, bounds=bounds, fields=(*fields, ones))


def _graph_pairs(pairs: GraphPairs, numbers: LayerNumbers) -> GraphPairs:
    """The pairs of the layers of a graph."""
    count = numbers.sizes.count
    layer = np.arange(count)
    columns = (np.arange(pairs.sites)[:, None] * count + layer[:-1]).ravel()
    firsts, seconds, weights = [columns], [columns + 1], [np.full(len(columns), numbers.column)]
    for k, a in numbers.sizes.bends:
        kept = layer[max(0, -k) : count - max(0, k)]
        firsts.append((pairs.first[:, None] * count + kept).ravel())
        seconds.append((pairs.second[:, None] * count + kept + k).ravel())
        weights.append(np.repeat(a * pairs.weights, len(kept)))
    return sorted_graph(pairs.sites * count, *map(np.concatenate, (firsts, seconds, weights)))
