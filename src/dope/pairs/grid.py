"""The pairs of a grid: a handful of offsets and a rule for the weight of the pair (p, q = p + offset).

    w(p, m) = factor_m * exp(-beta |x_p - x_q|^2) * field_m(p) / (q_p q_q)

with factor_m = lam, lam / |offset| or lam x (a number per offset); features x, fields and the block counts q are
present or not. In a move of several labels a weight is multiplied by what the labels of both ends say (`fused`). Where
there is a mask of the sites inside, pairs with an end outside it weigh 0. The weights of a grid are therefore never all
in memory: whoever needs some computes them, the native core row by row, `weights_at` for a list of sites.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.arrays import (
    BinaryLabels,
    Box,
    Mask,
    Reals,
    Sites,
    Span,
    binary_places,
    core_reads,
    measure_span,
    most_places,
)
from dope.errors import InputError
from dope.pairs.boxes import ends, strips
from dope.pairs.contrast import native_features
from dope.pairs.fused import Fused, LabelNumbers, Table
from dope.sums import exact_sum, in_units

# A beta by which whole numbers that differ are worlds apart: exp(-1024) is 0, in the core (below -708) and in NumPy.
PARTING = 1024.0


@dataclass(frozen=True, eq=False)
class GridPairs:
    """The pairs of a grid: offsets and the rule that gives each pair its weight.

    `bounds` holds, per offset, a lower and an upper bound of the weights; a crop inherits them, so that all blocks
    of one energy see the same bounds and choose the same fixed-point scale. Features, fields and mask are arrays, or
    lie elsewhere (`stored`): then a `crop` reads its part, and nothing else is asked of them. `beta` is None while it
    is to follow from features that nobody has looked at yet. `spans`, where somebody has looked through the fields
    already, are those of the fields where there are pairs, their binary places those of factor x field. Of an offset
    whose `signs` are not 0 only weights of that sign count, as their size: max(w, 0) or max(-w, 0).
    """

    shape: tuple[int, ...]
    offsets: Sites
    factors: npt.NDArray[np.float64]
    bounds: npt.NDArray[np.float64]
    features: npt.NDArray[Any] | None = None
    beta: float | None = 0.0
    fields: tuple[Reals, ...] | None = None
    counts: tuple[npt.NDArray[np.float64], ...] | None = None
    inside: Mask | None = None
    spans: tuple[Span, ...] | None = None
    fused: Fused | None = None
    signs: npt.NDArray[np.int8] | None = None

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

    @property
    def all_or_nothing(self) -> bool:
        """Whether features do no more than to part: pairs of equal pixels weigh what they do without, others 0.

        So it is where pixels are whole numbers and beta is so large that exp(-beta) is 0.
        """
        return self.features is not None and self.features.dtype.kind in "iu" and self.sharpness >= PARTING

    def binary_places(self) -> int | None:
        """How many binary places every weight needs at most; None when they are not all exact binary fractions."""
        if self.fused is not None:
            found = self.fused.places, replace(self, fused=None).binary_places()
            return None if found[0] is None or found[1] is None else found[0] + found[1]
        if self.counts is not None or (self._contrasted is not None and not self.all_or_nothing):
            return None
        if self.fields is None:
            return binary_places([self.factors])
        if self.spans is not None:
            return most_places(span.places for span in self.spans)
        inside = (field[ends(o)[0]] for field, o in zip(self.fields, self.offsets.tolist(), strict=True))
        spans = (measure_span(values, factor=f) for f, values in zip(self.factors.tolist(), inside, strict=True))
        return most_places(span.places for span in spans)

    def crop(self, where: Box) -> GridPairs:
        """The pairs with both ends in the box `where`."""
        shape = tuple(len(range(n)[s]) for n, s in zip(self.shape, where, strict=True))
        counts = self.counts and tuple(c[s] for c, s in zip(self.counts, where, strict=True))
        fields = self.fields and tuple(field[where] for field in self.fields)
        # Pixels that are not in memory are read only where weights depend on them.
        unread = self.features is None or (self.beta == 0.0 and not isinstance(self.features, np.ndarray))
        features = None if unread or self.features is None else self.features[where]
        inside = None if self.inside is None else self.inside[where]
        fused = None if self.fused is None else self.fused.at(where)
        return replace(
            self, shape=shape, counts=counts, fields=fields, features=features, inside=inside, spans=None, fused=fused
        )

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
        bounds = np.sort(np.maximum(sign * self.bounds[kept], 0.0), axis=1)
        factors, fields = sign * self.factors[kept], self.fields
        if self.fused is not None:
            # Which pairs of an offset are of which sign, nobody knows before they are computed.
            signs = np.where(mixed, np.int8(sign), np.int8(0) if self.signs is None else self.signs)[kept]
            factors = np.where(mixed[kept], self.factors[kept], factors)
            fields = fields and tuple(field for field, keep in zip(fields, kept, strict=True) if keep)
            return replace(
                self, offsets=self.offsets[kept], factors=factors, bounds=bounds, fields=fields, spans=None, signs=signs
            )
        if fields is not None:
            # What a factor's sign decides is left to it: only fields of both signs have to be cut off at 0.
            fields = tuple(
                np.where(factor * field > 0.0, field, 0.0) if both else field
                for factor, field, keep, both in zip(sign * self.factors, fields, kept, mixed, strict=True)
                if keep
            )
        return replace(self, offsets=self.offsets[kept], factors=factors, bounds=bounds, fields=fields, spans=None)

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
            weights *= np.exp(-self.sharpness * (change * change).sum(axis=-1))
        if self.fields is not None:
            weights *= self.fields[m][tails]
        if self.counts is not None:
            for count, t, h in zip(self.counts, tails, heads, strict=True):
                weights /= count[t] * count[h]
        if self.fused is not None:
            weights *= self.fused.factors(tails, heads)
        if self.signs is not None and self.signs[m]:
            weights = np.maximum(float(self.signs[m]) * weights, 0.0)
        return weights

    def moved(self, labels: LabelNumbers, proposal: LabelNumbers, costs: Table) -> tuple[GridPairs, Table]:
        """The pairs of a move from labels to a proposal, and what they add to the unary of each site.

        Sites at which the two are the same are outside the mask.
        """
        moving = labels != proposal
        if self.inside is not None:
            moving &= self.inside
        fused = Fused.of(labels, proposal, costs, moving)
        ends = self.bounds[:, :, None] * np.array([fused.low, fused.high])
        bounds = np.stack([ends.min(axis=(1, 2)), ends.max(axis=(1, 2))], axis=1).reshape(-1, 2)
        slopes = _core.label_slopes(self.native(), labels, proposal, costs)
        return replace(self, fused=fused, bounds=bounds, inside=moving), slopes

    def exact_cost(self, labels: LabelNumbers, costs: Table, within: Box | None = None) -> Fraction:
        """The sum of w V(x_p, x_q) over the pairs whose first end p lies in `within` (default: all)."""
        low = [0] * len(self.shape) if within is None else [s.start for s in within]
        high = self.shape if within is None else [s.stop for s in within]
        try:
            return in_units(_core.exact_label_cost(self.native(), labels, costs, low, high))
        except OverflowError as error:
            raise InputError(f"{error}; scale the costs down first.") from error

    def total(self, within: Box | None = None) -> Fraction:
        """The sum of all weights, of the pairs whose first end lies in `within` (default: all)."""
        weights, where = self.native(), (...,) if within is None else within
        return sum((exact_sum(weights.weights(m)[where]) for m in range(int(self.fits.sum()))), Fraction(0))

    def exact_roughness(self, labels: BinaryLabels, within: Box | None = None) -> Fraction:
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
        if y.dtype in (np.bool_, np.float64) and (pixels is None or core_reads(pixels)):
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
    def fits(self) -> Mask:
        """Which offsets lead from some site to another; the core is given no others."""
        fits: Mask = np.all(np.abs(self.offsets) < np.array(self.shape), axis=1).reshape(-1)
        return fits

    def native(self) -> _core.GridWeights:
        """These pairs as the core reads them; offsets that fit nowhere are left out."""
        pixels = self._contrasted
        return self._native(None if pixels is None else native_features(pixels))

    @property
    def in_memory(self) -> bool:
        """Whether all that the weights follow from is in memory."""
        arrays = [self.features, self.inside, *(self.fields or ())]
        return self.beta is not None and all(one is None or isinstance(one, np.ndarray) for one in arrays)

    @property
    def sharpness(self) -> float:
        """beta, which is known."""
        if self.beta is None:
            raise InputError(
                "beta follows from pixels that have not been read yet; expected an energy that was read or measured. "
                "Call energy.read(), or give beta; a method that reads boxes calls measure_facts first."
            )
        return self.beta

    @property
    def _contrasted(self) -> npt.NDArray[Any] | None:
        """The features, if the weights depend on them."""
        return self.features if self.sharpness else None

    def _native(self, features: npt.NDArray[Any] | None) -> _core.GridWeights:
        fits = self.fits
        fields = self.fields and [
            field if core_reads(field) else np.ascontiguousarray(field)
            for field, fit in zip(self.fields, fits, strict=True)
            if fit
        ]
        counts = self.counts and [np.ascontiguousarray(c) for c in self.counts]
        labels, proposal, costs = self.fused.arrays if self.fused is not None else (None, None, None)
        signs = None if self.signs is None else self.signs[fits]
        return _core.GridWeights(
            self.shape, self.offsets[fits], self.factors[fits], features, self.sharpness, fields, counts, self.inside,
            labels, proposal, costs, signs,
        )  # fmt: skip
