"""Total variation as cuts, one for each threshold, many of which are solved at once.

    E(x) = sum_i c_i(x_i) + sum_{pairs} w_ij |x_i - x_j|,      c_i(x) = |x - g_i| or (x - g_i)^2,   x_i = 0 .. 2^R - 1

is a sum over thresholds t of binary energies of y_i = [x_i >= t], all with the same pairs,

    E_t(y) = sum_i (c_i(t) - c_i(t - 1)) y_i + sum_{pairs} w_ij |y_i - y_j|,

whose smallest minimizers shrink as t grows, because c_i is convex: together they are a labelling, the smallest
minimizer of E (Hochbaum 2001; Darbon and Sigelle 2006). So x is found bit by bit. When its upper bits are known, a
site's threshold t_i is the middle of the interval that they leave. Neighbours in the same interval have the same
threshold, and their pair is one of the cut; of one in a higher interval y_j = 1 is known, in a lower one y_j = 0:

    u_i = c_i(t_i) - c_i(t_i - 1) + sum_{j lower} w_ij - sum_{j higher} w_ij

One cut over all sites halves all intervals, so R of them do for R bits.

In memory they are cuts of one flow: a minimum cut saturates the pairs it cuts, so what flows over them is what they put
into the unary, and stays (`nested_cuts`); each cut begins with the flow of the one before. Box by box each cut is an
energy by itself. Pairs between intervals are left out of it by a contrast between the upper bits
(`GridPairs.all_or_nothing`), so nothing is stored for a pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from dope.arrays import MOST_PLACES, Box, Mask, Reals, Sites, binary_places
from dope.cancellation import check_cancelled
from dope.energy import Energy
from dope.errors import InputError
from dope.fixed_point import LARGEST, ROOM
from dope.pairs import PARTING, GridPairs, ends, strips
from dope.stored import Stored, StoredMask, StoredPixels, StoredUnary
from dope.total_variation.levels import stored_levels

Norm = Literal["l1", "l2"]

# Sites whose unary is computed in one go: with their neighbours they stay in a cache.
PART_SITES = 1 << 17
# Whole numbers up to these are kept by floats.
WHOLE_32, WHOLE_64 = 2.0**24, 2.0**53


@dataclass(frozen=True, eq=False)
class Variation:
    """What is minimized: an image of whole numbers from `low` on that `bits` hold, pairs with factors, and a norm."""

    image: Stored
    mask: Stored | None
    offsets: Sites
    factors: npt.NDArray[np.float64]
    norm: Norm
    low: int
    bits: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.image.shape

    @property
    def level_type(self) -> np.dtype[Any]:
        """In which the bits are kept."""
        return np.dtype(np.uint8 if self.bits <= 8 else np.uint16)

    @property
    def pairs(self) -> GridPairs:
        """Those of a threshold."""
        bounds = np.stack([self.factors, self.factors], axis=1)
        inside = None if self.mask is None else cast(Mask, StoredMask(self.mask))
        return GridPairs(self.shape, self.offsets, self.factors, bounds, inside=inside)

    def slopes(self, known: npt.NDArray[Any], left: int, inside: Mask | None) -> Reals:
        """c(t) - c(t - 1) of the cut that finds the highest of `left` bits, where the sites above it are in memory."""
        whole = tuple(slice(0, n) for n in self.shape)
        unary = CutUnary(self, self.pairs, stored_levels(known), left - 1, alone=True).at(whole)
        if inside is not None:
            unary[~inside] = 1.0
        return unary

    def cut(self, known: Stored | None, left: int) -> Energy:
        """The cut that finds the highest of `left` bits, where those above it are `known`, if there are any."""
        pairs = self.pairs
        unary = StoredUnary(CutUnary(self, pairs, known, left - 1))
        if known is not None:
            bounds = np.stack([np.zeros_like(self.factors), self.factors], axis=1)
            pixels = cast("npt.NDArray[Any]", StoredPixels(known))
            pairs = replace(pairs, features=pixels, beta=PARTING, bounds=bounds)
        return Energy(cast(Reals, unary), pairs)

    @property
    def unary_type(self) -> np.dtype[Any]:
        """The smaller float that keeps every unary as it is."""
        steepest = 1.0 if self.norm == "l1" else 2.0 ** (self.bits + 1)
        places = binary_places([self.factors])
        assert places is not None
        most = (steepest + 2.0 * float(self.factors.sum())) * 2.0**places
        return np.dtype(np.float32 if most <= WHOLE_32 else np.float64)


@dataclass(frozen=True, eq=False)
class CutUnary:
    """The unary of a cut, computed as a box of it is read: a `Readable`.

    `alone` leaves out what neighbours in other intervals put into it.
    """

    variation: Variation
    pairs: GridPairs
    known: Stored | None
    shift: int
    alone: bool = False
    name: str = "image"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.variation.shape

    @property
    def site_bytes(self) -> int:
        return self.variation.unary_type.itemsize + self.variation.image.site_bytes

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return self.variation.image.chunks

    def excerpt(self, box: Box) -> CutUnary:
        around, before = self.pairs.around(box), self.variation
        mask = None if before.mask is None else before.mask.excerpt(around)
        known = None if self.known is None else self.known.excerpt(around)
        bare = replace(self.pairs, inside=None)
        return replace(
            self, variation=replace(before, image=before.image.excerpt(box), mask=mask), known=known, pairs=bare
        )

    def at(self, box: Box) -> Reals:
        values = self.variation.image.at(box)
        apart = self.known is None or self.alone
        region = box if apart else self.pairs.around(box)
        known = None if self.known is None else self.known.at(region)
        mask = self.variation.mask
        inside = None if mask is None or apart else mask.at(region) != 0
        unary = np.empty(values.shape, self.variation.unary_type)
        for part in strips(values.shape, PART_SITES):
            check_cancelled()
            whole = tuple(slice(s.start + b.start, s.stop + b.start) for s, b in zip(part, box, strict=True))
            if known is None or apart:
                unary[part] = self._slopes(values[part], None if known is None else known[part])
                continue
            near = tuple(
                slice(s.start - r.start, s.stop - r.start)
                for s, r in zip(self.pairs.around(whole), region, strict=True)
            )
            bits = known[near]
            mine = tuple(
                slice(s.start - r.start - n.start, s.stop - r.start - n.start)
                for s, r, n in zip(whole, region, near, strict=True)
            )
            unary[part] = self._slopes(values[part], bits[mine])
            for factor, balance in self._balances(bits, None if inside is None else inside[near]):
                unary[part] += balance[mine] * unary.dtype.type(factor)
        return unary

    def _slopes(self, values: npt.NDArray[Any], known: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        """c(t) - c(t - 1) at every site's threshold t."""
        levels = values.astype(np.int32)
        levels -= self.variation.low
        if known is None:
            levels -= 1 << self.shift
        else:
            # (2 known + 1) 2^shift, the middle of the interval that the known bits leave
            levels -= (known.astype(np.int32) << (self.shift + 1)) + (1 << self.shift)
        if self.variation.norm == "l1":
            return np.where(levels >= 0, np.int8(-1), np.int8(1))
        return -2 * levels - 1

    def _balances(self, known: npt.NDArray[Any], inside: Mask | None) -> Iterator[tuple[float, npt.NDArray[np.int16]]]:
        """For each factor, how many neighbours at such offsets are in a lower interval, less those in a higher one."""
        factors, offsets = self.variation.factors, self.pairs.offsets
        for factor in np.unique(factors):
            balance = np.zeros(known.shape, np.int16)
            for offset in offsets[factors == factor].tolist():
                if any(abs(o) >= n for o, n in zip(offset, known.shape, strict=True)):
                    continue
                tail, head = ends(offset)
                first, second = known[tail], known[head]
                lower = np.subtract((second < first).view(np.int8), (second > first).view(np.int8))
                if inside is not None:
                    lower *= inside[tail] & inside[head]
                balance[tail] += lower
                balance[head] -= lower
            yield float(factor), balance


def counted_factors(factors: npt.NDArray[np.float64], *, most: float) -> npt.NDArray[np.float64]:
    """Factors as binary fractions, so that all costs are whole in some unit and every cut is exact.

    No pair is ever cut that weighs more than `most`, all slopes of a threshold together: such a factor may as well be
    that. Fractions are rounded to 20 binary places, to fewer where they are large.

    >>> counted_factors(np.array([0.1, 2.5]), most=1e9) * 2**20
    array([ 104858., 2621440.])
    """
    bounded = np.minimum(factors, most)
    places, strength = binary_places([bounded]), 2.0 * float(bounded.sum())
    if places is None or strength * 2.0**places > ROOM[32]:
        room = min(ROOM[32], LARGEST[32]) / 4.0
        rounded = max(0, min(MOST_PLACES, math.floor(math.log2(room / strength))))
        places = rounded if places is None else min(places, rounded)
        bounded = np.rint(bounded * 2.0**places) / 2.0**places
    if strength * 2.0**places > ROOM[64] / 2.0:
        raise InputError(
            f"lam makes a site's pairs weigh {strength:g} together, more than whole numbers of 64 bits hold here; "
            f"expected a smaller lam."
        )
    return bounded


def range_of_levels(image: Stored, mask: Stored | None) -> tuple[int, int] | None:
    """The least and the greatest value of the sites that take part; None where there are none."""
    found: list[tuple[int, int]] = []
    for box in strips(image.shape, 1 << 22):
        check_cancelled()
        values = image.at(box)
        if mask is not None:
            values = values[mask.at(box) != 0]
        if values.size:
            found.append((int(values.min()), int(values.max())))
    return (min(low for low, _ in found), max(high for _, high in found)) if found else None
