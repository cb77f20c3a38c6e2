"""Who is whose neighbour, and what it costs to differ.

A grid's pairs are a handful of offsets and a rule for the weight of the pair (p, q = p + offset):

    w(p, m) = factor_m * exp(-beta |x_p - x_q|^2) * field_m(p) / (q_p q_q)

with factor_m = lam, lam / |offset| or lam x (a number per offset); features x, fields and the block counts q are
present or not. Where there is a mask of the sites inside, pairs with an end outside it weigh 0. The weights of a grid
are therefore never all in memory: whoever needs some computes them, the native core row by row, `weights_at` for a list
of sites. A graph's pairs are an edge list.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.arrays import Labels, Reals, Sites, as_array, as_reals, binary_places, check_finite
from dope.errors import InputError
from dope.sums import exact_sum, in_units

Kernel = int | Sequence[Any] | npt.NDArray[np.integer[Any]]
"""An odd size, or the half-offsets themselves: (h, dimensions) integers."""

Box = tuple[slice, ...]

# Further than any image goes, and far from where int64 ends.
MOST_REACH = 1 << 31

# As far as all of NumPy goes: `flat` ends there.
MOST_AXES = 32

# A graph with more kinds of neighbors than this is no grid: every kind costs a number per site.
MOST_OFFSETS = 512

# Half-offsets of a kernel: eight times as many as a network of the core can have arcs for, as those that lead out of a
# small image need none. In two dimensions a size of 511, in three one of 79.
MOST_HALF_OFFSETS = 1 << 17

# Sites per strip when an energy is evaluated with NumPy: temporaries then stay in the second-level cache.
STRIP_SITES = 1 << 17


def half_offsets(kernel: Kernel, dimensions: int) -> Sites:
    """One offset of each opposite pair of a kernel's offsets, in lexicographic order.

    An odd size is a square (2r+1)^2 in one and two dimensions and the ball |offset| <= r, in voxels, from three on.
    Explicit half-offsets are kept in the order given.

    >>> half_offsets(3, 2).tolist()
    [[0, 1], [1, -1], [1, 0], [1, 1]]
    """
    if not 1 <= dimensions <= MOST_AXES:
        raise InputError(f"a kernel in {dimensions} dimensions is asked for; expected 1 to {MOST_AXES}, as of arrays.")
    if isinstance(kernel, (int, np.integer)) and not isinstance(kernel, bool):
        return _sized_offsets(int(kernel), dimensions)
    return _listed_offsets(kernel, dimensions)


def _sized_offsets(size: int, dimensions: int) -> Sites:
    if size < 1 or size % 2 == 0:
        raise InputError(f"kernel is {size}; expected an odd size (3, 5, 7, ...) or a list of half-offsets.")
    radius = min(size // 2, MOST_HALF_OFFSETS + 1)  # any larger one has too many along a single axis
    # Axis by axis: how an offset can begin, and which squared length is left for its other axes.
    begun, left = np.zeros((1, 0), dtype=np.int64), np.array([radius * radius])
    for _ in range(dimensions):
        reach = _roots(left) if dimensions >= 3 else np.full(len(left), radius)
        steps = 2 * reach + 1
        # Every beginning goes on to one offset at least, with 0 along the other axes: there are no fewer offsets.
        if int(steps.sum()) // 2 > MOST_HALF_OFFSETS:
            raise InputError(
                f"kernel is {size}, which has more than {MOST_HALF_OFFSETS:,} pairs of opposite neighbours in "
                f"{dimensions} dimensions; expected at most so many. Use a smaller size, or list half-offsets."
            )
        which = np.repeat(np.arange(len(steps)), steps)
        step = np.arange(len(which)) - (np.cumsum(steps) - steps + reach)[which]
        begun, left = np.column_stack([begun[which], step]), left[which] - step * step
    return begun[len(begun) // 2 + 1 :]  # in lexicographic order the offset 0 lies in the middle


def _roots(squares: Sites) -> Sites:
    """The largest whole numbers whose squares are no larger."""
    roots = np.sqrt(squares.astype(np.float64)).astype(np.int64)
    roots -= roots * roots > squares
    return roots + ((roots + 1) * (roots + 1) <= squares)


def offset_lengths(offsets: Sites, spacing: Sequence[float] | None) -> npt.NDArray[np.float64]:
    """How long offsets are, in units of the spacing."""
    dimensions = offsets.shape[1]
    size = np.ones(dimensions) if spacing is None else as_reals("spacing", spacing).astype(np.float64)
    if size.shape != (dimensions,) or not (np.isfinite(size) & (size > 0)).all():
        raise InputError(f"spacing is {spacing}; expected {dimensions} positive numbers, one per axis.")
    with np.errstate(over="ignore", under="ignore"):
        lengths = np.asarray(np.linalg.norm(offsets * size, axis=1))
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        raise InputError(f"spacing is {spacing}; expected sizes whose squares float64 holds. Choose another unit.")
    return lengths


def _listed_offsets(kernel: Any, dimensions: int) -> Sites:
    found = np.asarray(kernel)
    if found.size == 0:
        return np.zeros((0, dimensions), dtype=np.int64)
    if found.ndim == 1 and dimensions == 1:
        found = found[:, None]
    if found.dtype.kind not in "iu" or found.ndim != 2 or found.shape[1] != dimensions:
        raise InputError(
            f"kernel has shape {found.shape} and dtype {found.dtype}; expected an odd size, or half-offsets as "
            f"integers of shape (number, {dimensions})."
        )
    if len(found) > MOST_HALF_OFFSETS:
        raise InputError(f"kernel lists {len(found):,} half-offsets; expected at most {MOST_HALF_OFFSETS:,}.")
    if found.max() > MOST_REACH or found.min() < -MOST_REACH:
        raise InputError(f"kernel reaches {found.min()} to {found.max()} sites; expected at most {MOST_REACH}.")
    offsets = found.astype(np.int64)
    seen: set[tuple[int, ...]] = set()
    for offset in map(tuple, offsets.tolist()):
        if not any(offset):
            raise InputError("kernel lists the offset 0; a site is not its own neighbour. Leave it out.")
        if offset in seen or tuple(-x for x in offset) in seen:
            raise InputError(f"kernel lists {offset} twice or with its opposite; give each direction once.")
        seen.add(offset)
    return offsets


def ends(offset: Sequence[int]) -> tuple[Box, Box]:
    """Aligned views of p and of p + offset, in any number of dimensions."""
    tail = tuple(slice(max(0, -s), -s if s > 0 else None) for s in offset)
    head = tuple(slice(max(0, s), s if s < 0 else None) for s in offset)
    return tail, head


def strips(shape: tuple[int, ...]) -> Iterator[Box]:
    """The whole of `shape`, cut along its first axis into boxes of about STRIP_SITES sites."""
    rows = max(1, STRIP_SITES // max(1, math.prod(shape[1:])))
    rest = tuple(slice(0, n) for n in shape[1:])
    for low in range(0, shape[0], rows):
        yield (slice(low, min(low + rows, shape[0])), *rest)


@dataclass(frozen=True, eq=False)
class GridPairs:
    """The pairs of a grid: offsets and the rule that gives each pair its weight.

    `bounds` holds, per offset, a lower and an upper bound of the weights; a crop inherits them, so that all blocks
    of one energy see the same bounds and choose the same fixed-point scale.
    """

    shape: tuple[int, ...]
    offsets: Sites
    factors: npt.NDArray[np.float64]
    bounds: npt.NDArray[np.float64]
    features: npt.NDArray[Any] | None = None
    beta: float = 0.0
    fields: tuple[Reals, ...] | None = None
    counts: tuple[npt.NDArray[np.float64], ...] | None = None
    inside: npt.NDArray[np.bool_] | None = None

    @property
    def sites(self) -> int:
        return math.prod(self.shape)

    @property
    def number(self) -> int:
        """How many pairs there are, those with an end outside a mask included."""
        room = np.maximum(np.array(self.shape) - np.abs(self.offsets), 0)
        if self.sites * len(room) < 1 << 63:
            return int(room.prod(axis=1).sum())
        return sum(math.prod(row) for row in room.tolist())

    def crossing(self, layout: Sequence[int]) -> int:
        """How many pairs, at most, join different blocks of a grid that is cut into so many along each axis."""
        smallest = tuple(n // k for n, k in zip(self.shape, layout, strict=True))
        return self.number - math.prod(layout) * replace(self, shape=smallest).number

    @property
    def reach(self) -> tuple[int, ...]:
        """How far the kernel reaches along each axis."""
        if not len(self.offsets):
            return (0,) * len(self.shape)
        return tuple(int(r) for r in np.abs(self.offsets).max(axis=0))

    @property
    def strength(self) -> float:
        """An upper bound of the sum of |weight| over the pairs of any one site."""
        return 2.0 * float(sum(np.abs(self.bounds).max(axis=1, initial=0.0).tolist()))

    @property
    def largest(self) -> float:
        """An upper bound of |weight|."""
        return float(np.abs(self.bounds).max(initial=0.0))

    @property
    def degree(self) -> int:
        """The largest number of neighbours a site can have."""
        return 2 * len(self.offsets)

    @property
    def lowest(self) -> float:
        """A lower bound of the weights: negative only where the energy is not submodular."""
        return float(self.bounds.min(initial=0.0))

    def binary_places(self) -> int | None:
        """How many binary places every weight needs at most; None when they are not all exact binary fractions."""
        if self.counts is not None or self._contrasted is not None:
            return None
        if self.fields is None:
            return binary_places([self.factors])
        inside = (field[ends(o)[0]] for field, o in zip(self.fields, self.offsets.tolist(), strict=True))
        return binary_places(f * values for f, values in zip(self.factors, inside, strict=True))

    def crop(self, where: Box) -> GridPairs:
        """The pairs with both ends in the box `where`."""
        shape = tuple(len(range(n)[s]) for n, s in zip(self.shape, where, strict=True))
        counts = self.counts and tuple(c[s] for c, s in zip(self.counts, where, strict=True))
        fields = self.fields and tuple(field[where] for field in self.fields)
        features = None if self.features is None else self.features[where]
        inside = None if self.inside is None else self.inside[where]
        return replace(self, shape=shape, counts=counts, fields=fields, features=features, inside=inside)

    def around(self, where: Box) -> Box:
        """The box and every neighbour of it, as a box."""
        return tuple(
            slice(max(0, s.start - r), min(n, s.stop + r))
            for s, r, n in zip(where, self.reach, self.shape, strict=True)
        )

    def divided(self, counts: tuple[npt.NDArray[np.float64], ...]) -> GridPairs:
        """The same pairs, each weight divided by the counts of both its ends."""
        return self if all((c == 1).all() for c in counts) else replace(self, counts=counts)

    @property
    def attractive(self) -> GridPairs:
        """The pairs whose ends would rather be alike, the others left out: weights max(w, 0)."""
        return self._part(1.0)

    @property
    def repulsive(self) -> GridPairs:
        """The pairs whose ends would rather differ, the others left out: weights max(-w, 0)."""
        return self._part(-1.0)

    def _part(self, sign: float) -> GridPairs:
        kept = (sign * self.bounds).max(axis=1, initial=0.0) > 0.0
        mixed = kept & ((sign * self.bounds).min(axis=1, initial=0.0) < 0.0)
        factors, fields = sign * self.factors[kept], self.fields
        if fields is not None:
            # What a factor's sign decides is left to it: only fields of both signs have to be cut off at 0.
            fields = tuple(
                np.where(factor * field > 0.0, field, 0.0) if both else field
                for factor, field, keep, both in zip(sign * self.factors, fields, kept, mixed, strict=True)
                if keep
            )
        bounds = np.sort(np.maximum(sign * self.bounds[kept], 0.0), axis=1)
        return replace(self, offsets=self.offsets[kept], factors=factors, bounds=bounds, fields=fields)

    def weights_at(self, m: int, tails: tuple[Sites, ...]) -> npt.NDArray[np.float64]:
        """The weights of the pairs (p, p + offset m) for the sites p whose coordinates are `tails`."""
        heads = tuple(t + int(o) for t, o in zip(tails, self.offsets[m], strict=True))
        if self.inside is not None:  # outside, pixels may be anything
            kept = self.inside[tails] & self.inside[heads]
            weights = np.zeros(len(tails[0]))
            weights[kept] = replace(self, inside=None).weights_at(m, tuple(t[kept] for t in tails))
            return weights
        weights = np.full(len(tails[0]), self.factors[m])
        if (pixels := self._contrasted) is not None:
            change = pixels[tails].astype(np.float64) - pixels[heads]
            weights *= np.exp(-self.beta * (change * change).sum(axis=-1))
        if self.fields is not None:
            weights *= self.fields[m][tails]
        if self.counts is not None:
            for count, t, h in zip(self.counts, tails, heads, strict=True):
                weights /= count[t] * count[h]
        return weights

    def total(self, within: Box | None = None) -> Fraction:
        """The sum of all weights, of the pairs whose first end lies in `within` (default: all)."""
        weights, where = self.native(), (...,) if within is None else within
        return sum((exact_sum(weights.weights(m)[where]) for m in range(int(self.fits.sum()))), Fraction(0))

    def exact_roughness(self, labels: Labels, within: Box | None = None) -> Fraction:
        """The same as `roughness` of labels, from which nothing is lost."""
        low = [0] * len(self.shape) if within is None else [s.start for s in within]
        high = self.shape if within is None else [s.stop for s in within]
        try:
            return in_units(_core.exact_roughness(self.native(), np.ascontiguousarray(labels), low, high))
        except OverflowError as error:
            raise InputError(f"{error}; scale the costs down first.") from error

    def roughness(self, y: npt.NDArray[Any], within: Box | None = None) -> float:
        """The sum of w (y_p - y_q)^2 over the pairs whose first end p lies in `within` (default: all)."""
        pixels = self._contrasted
        if y.dtype in (np.bool_, np.float64) and (pixels is None or _read_in_place(pixels)):
            low = [0] * len(self.shape) if within is None else [s.start for s in within]
            high = self.shape if within is None else [s.stop for s in within]
            return _core.roughness(self._native(pixels), y, low, high)
        total: list[float] = []
        for whole_box in strips(self.shape) if within is None else [within]:
            box = self._varied(y, whole_box)
            for m, offset in enumerate(self.offsets.tolist()):
                limits = [
                    (max(s.start, -o), min(s.stop, n - o)) for s, o, n in zip(box, offset, self.shape, strict=True)
                ]
                if any(low >= high for low, high in limits):
                    continue
                tail = y[tuple(slice(low, high) for low, high in limits)]
                head = y[tuple(slice(low + o, high + o) for (low, high), o in zip(limits, offset, strict=True))]
                # Flat indices of the few pairs that are apart: far cheaper than coordinates of all dimensions.
                flat = np.flatnonzero(tail != head)
                if not len(flat):
                    continue
                apart = np.unravel_index(flat, tail.shape)
                tails = tuple(a + low for a, (low, _) in zip(apart, limits, strict=True))
                change = tail[apart].astype(np.float64) - head[apart]
                total.append(float((self.weights_at(m, tails) * change * change).sum()))
        return math.fsum(total)

    def _varied(self, y: npt.NDArray[Any], box: Box) -> Box:
        """The part of the box outside which y is constant as far as pairs reach: no pair there is apart."""
        around = self.around(box)
        seen = y[around]
        odd = seen != seen[(0,) * seen.ndim]
        narrower = []
        for axis, (inner, outer, reach) in enumerate(zip(box, around, self.reach, strict=True)):
            places = np.flatnonzero(odd.any(axis=tuple(a for a in range(odd.ndim) if a != axis)))
            if not len(places):
                return tuple(slice(s.start, s.start) for s in box)
            low, high = outer.start + int(places[0]) - reach, outer.start + int(places[-1]) + 1 + reach
            narrower.append(slice(max(inner.start, low), min(inner.stop, high)))
        return tuple(narrower)

    def edges(self) -> tuple[Sites, Sites, npt.NDArray[np.float64]]:
        """All pairs as a list: first ends, second ends (flat indices) and weights. For small grids."""
        numbers = np.arange(self.sites, dtype=np.int64).reshape(self.shape)
        firsts, seconds, weights = [], [], []
        for m, offset in enumerate(self.offsets.tolist()):
            tail, head = ends(offset)
            first = numbers[tail].ravel()
            if any(abs(o) >= n for o, n in zip(offset, self.shape, strict=True)):
                continue
            firsts.append(first)
            seconds.append(numbers[head].ravel())
            weights.append(self.weights_at(m, np.unravel_index(first, self.shape)))
        if not firsts:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        return np.concatenate(firsts), np.concatenate(seconds), np.concatenate(weights)

    @property
    def fits(self) -> npt.NDArray[np.bool_]:
        """Which offsets lead from some site to another; the core is given no others."""
        fits: npt.NDArray[np.bool_] = np.all(np.abs(self.offsets) < np.array(self.shape), axis=1).reshape(-1)
        return fits

    def native(self) -> _core.GridWeights:
        """These pairs as the core reads them; offsets that fit nowhere are left out."""
        pixels = self._contrasted
        return self._native(None if pixels is None else native_features(pixels))

    @property
    def _contrasted(self) -> npt.NDArray[Any] | None:
        """The features, if the weights depend on them."""
        return self.features if self.beta else None

    def _native(self, features: npt.NDArray[Any] | None) -> _core.GridWeights:
        fits = self.fits
        fields = self.fields and [
            field if _read_in_place(field) else np.ascontiguousarray(field)
            for field, fit in zip(self.fields, fits, strict=True)
            if fit
        ]
        counts = self.counts and [np.ascontiguousarray(c) for c in self.counts]
        return _core.GridWeights(
            self.shape, self.offsets[fits], self.factors[fits], features, self.beta, fields, counts, self.inside
        )


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

    @cached_property
    def strength(self) -> float:
        ends_of_pairs = np.concatenate([self.first, self.second])
        sums = np.bincount(ends_of_pairs, np.tile(np.abs(self.weights), 2), minlength=self.sites)
        return float(sums.max(initial=0.0))

    @property
    def largest(self) -> float:
        return float(np.abs(self.weights).max(initial=0.0))

    @cached_property
    def degree(self) -> int:
        return int(np.bincount(np.concatenate([self.first, self.second]), minlength=1).max())

    @property
    def lowest(self) -> float:
        return float(self.weights.min(initial=0.0))

    def binary_places(self) -> int | None:
        return binary_places([self.weights])

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

    def _part(self, kept: npt.NDArray[np.bool_], sign: float) -> GraphPairs:
        return GraphPairs(self.sites, self.first[kept], self.second[kept], sign * self.weights[kept])

    def divided(self, counts: npt.NDArray[np.float64]) -> GraphPairs:
        return replace(self, weights=self.weights / (counts[self.first] * counts[self.second]))

    def roughness(self, y: npt.NDArray[Any], within: Sites | None = None) -> float:
        """The sum of w (y_p - y_q)^2 over the pairs whose first end is among the sites `within` (default: all)."""
        change = y[self.first].astype(np.float64) - y[self.second]
        return float((self.weights * change * change)[self._from(within)].sum())

    def exact_roughness(self, labels: Labels, within: Sites | None = None) -> Fraction:
        """The same of labels, from which nothing is lost."""
        return exact_sum(self.weights[self._from(within) & (labels[self.first] != labels[self.second])])

    def total(self, within: Sites | None = None) -> Fraction:
        return exact_sum(self.weights[self._from(within)])

    def _from(self, within: Sites | None) -> Labels:
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
        tails = np.stack(np.unravel_index(self.first, shape), axis=1)
        steps = np.stack(np.unravel_index(self.second, shape), axis=1) - tails
        offsets, which = np.unique(steps.astype(np.int64), axis=0, return_inverse=True)
        if len(offsets) > MOST_OFFSETS:
            raise InputError(
                f"the graph's pairs have {len(offsets)} different offsets on a grid of shape {shape}; expected at most "
                f"{MOST_OFFSETS}. Are the sites in row-major order of another shape? If not, leave it a graph."
            )
        fields = [np.zeros(shape) for _ in offsets]
        for m, field in enumerate(fields):
            mine = which.ravel() == m
            field.flat[self.first[mine]] = self.weights[mine]
        bounds = np.array([[min(0.0, f.min()), max(0.0, f.max())] for f in fields]).reshape(-1, 2)
        return GridPairs(shape, offsets.reshape(-1, len(shape)), np.ones(len(offsets)), bounds, fields=tuple(fields))

    @cached_property
    def rows(self) -> tuple[Sites, Sites]:
        """Neighbours by rows: those of site i are `neighbors[start[i]:start[i + 1]]`."""
        tail = np.concatenate([self.first, self.second])
        head = np.concatenate([self.second, self.first])
        order = np.lexsort((head, tail))
        start = np.zeros(self.sites + 1, dtype=np.int64)
        np.cumsum(np.bincount(tail, minlength=self.sites), out=start[1:])
        return start, head[order]


Pairs = GridPairs | GraphPairs


def sorted_graph(sites: int, first: Sites, second: Sites, weights: npt.NDArray[np.float64]) -> GraphPairs:
    """The normal form of an edge list: ends in order, pairs sorted, parallel pairs added up."""
    low, high = np.minimum(first, second), np.maximum(first, second)
    key, place = np.unique(low * sites + high, return_inverse=True)
    merged = np.bincount(place.ravel(), weights, minlength=len(key))
    return GraphPairs(sites, key // max(sites, 1), key % max(sites, 1), merged.astype(np.float64))


def graph_pairs(sites: int, edges: npt.ArrayLike, weights: npt.ArrayLike) -> GraphPairs:
    """Check an edge list at the door and bring it into its normal form; parallel edges add up."""
    found = as_array("edges", edges)
    if found.size == 0:
        found = np.zeros((0, 2), dtype=np.int64)
    if found.ndim != 2 or found.shape[1] != 2 or found.dtype.kind not in "iu":
        raise InputError(
            f"edges have shape {found.shape} and dtype {found.dtype}; expected integers of shape (number, 2)."
        )
    values = as_reals("weights", weights).astype(np.float64)
    if values.ndim == 0:
        values = np.full(len(found), float(values))
    if values.shape != (len(found),):
        raise InputError(f"weights have shape {values.shape}; expected one per edge, ({len(found)},).")
    check_finite("weights", values)
    if len(found) and (found.min() < 0 or found.max() >= sites):
        bad = int(np.argmax(((found < 0) | (found >= sites)).any(axis=1)))
        raise InputError(f"edge {bad} is {found[bad].tolist()}; expected sites from 0 to {sites - 1}.")
    pairs = found.astype(np.int64)
    loops = pairs[:, 0] == pairs[:, 1]
    if loops.any():
        bad = int(np.argmax(loops))
        raise InputError(f"edge {bad} joins site {pairs[bad, 0]} with itself; leave such edges out.")
    return sorted_graph(sites, pairs[:, 0], pairs[:, 1], values)


# What the core reads in place.
CORE_TYPES = (np.uint8, np.uint16, np.int16, np.float32, np.float64)


def native_features(features: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Features as the core reads them fast: as they are, or in the narrowest type that it knows and that holds them.

    A row's pixels follow one another; rows may lie anywhere, so that a crop of an image is no copy.
    """
    channels, itemsize = features.shape[-1], features.dtype.itemsize
    step, channel = features.strides[-2:]
    if _read_in_place(features) and step == channels * itemsize and (channels == 1 or channel == itemsize):
        return features
    if features.dtype in CORE_TYPES:
        return np.ascontiguousarray(features)
    return np.ascontiguousarray(features, dtype=np.float32 if itemsize <= 2 else np.float64)


def _read_in_place(array: npt.NDArray[Any]) -> bool:
    """Whether the core reads this array where it lies: of a type it knows, whole elements apart."""
    whole = all(stride % array.dtype.itemsize == 0 for stride in array.strides)
    return array.dtype in CORE_TYPES and array.flags.aligned and whole


def mean_contrast_beta(
    features: npt.NDArray[Any], offsets: Sites, inside: npt.NDArray[np.bool_] | None = None
) -> float:
    """beta = 1 / (2 mean |x_p - x_q|^2) over the kernel's pairs, channels summed; 0 for a constant image.

    The squares are rounded to a unit of 2^-40 of their range and added up as integers, so that the sum does not
    depend on the order, and so not on how the image is cut into blocks. Of pairs `inside` a mask, if there is one.
    """
    spread = _channel_spread(features if inside is None else features[inside])
    widest = float((spread * spread).sum())
    if widest == 0.0 or not len(offsets):
        return 0.0
    if not math.isfinite(widest):
        raise InputError("features differ by more than a float64 can square; scale them down first.")
    unit = math.ldexp(1.0, math.frexp(widest)[1] - 40)
    if unit == 0.0:
        return 0.0  # differences that float64 cannot square are none
    shape = features.shape[:-1]
    total = pairs = 0
    for box in strips(shape):
        reach = int(np.abs(offsets[:, 0]).max())
        low, high = max(0, box[0].start - reach), min(shape[0], box[0].stop + reach)
        corner = [box[0].start - low, *([0] * (len(shape) - 1))]
        opposite = [box[0].stop - low, *shape[1:]]
        here = None if inside is None else inside[low:high]
        part, number = _core.contrast(native_features(features[low:high]), offsets, corner, opposite, unit, here)
        total, pairs = total + part, pairs + number
    return pairs / (2.0 * total * unit) if total else 0.0


def _channel_spread(features: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The largest minus the smallest value of each channel."""
    low = high = features
    # One axis at a time, the longest rows first: over several at once NumPy takes 30 ns per pixel of three channels.
    while low.ndim > 2:
        low, high = low.min(axis=0), high.max(axis=0)
    return np.array([float(high[:, c].max()) - float(low[:, c].min()) for c in range(features.shape[-1])])
