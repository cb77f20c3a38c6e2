"""Where a block of ADMM meets others, and numbers that lie there.

*Coupled* sites of the block and the *shell*, the sites around it that have pairs with it, are all that a block and its
neighbours tell each other about. What others sent is added up at each of these sites in the order of the blocks, so
that every block that sees a site finds the same bits there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import Index, Mask, Sites
from dope.energy import Excerpt, Share
from dope.methods.places import common, seen_from

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Neighbor:
    """Another block that sees some of the sites that this one sees: all its sites, and these with their neighbours."""

    block: int
    where: Index
    region: Index


@dataclass(frozen=True, eq=False)
class Near:
    """Values on a block's coupled sites and on the shell around it."""

    coupled: npt.NDArray[Any]
    shell: npt.NDArray[Any]

    def same_as(self, other: Near) -> bool:
        return np.array_equal(self.coupled, other.coupled) and np.array_equal(self.shell, other.shell)


@dataclass(frozen=True, eq=False)
class SharedSites:
    """What a block and a neighbour have in common, as places in this block's arrays.

    `mine` are its own sites that the neighbour sees, `seen` all sites that both see.
    """

    block: int
    mine: Index
    seen: Index


@dataclass(frozen=True, eq=False)
class _Slots:
    """Where numbers that blocks sent, one after the other, are added up: at a coupled site, in the shell, or nowhere.

    `own` is for those of the sites that each sender holds. Of `pulls`, which are those of all sites that both see, sums
    at sites that the sender holds come first, then those at the others.
    """

    own: Sites
    pulls: Sites


class Surroundings:
    """The coupled sites of a block, as places in the block and in its region, and the shell in the region."""

    def __init__(self, excerpt: Excerpt, share: Share, number: int, neighbors: Sequence[Neighbor]) -> None:
        self._excerpt, self._share, self._number, self._neighbors = excerpt, share, number, neighbors
        self.shape = excerpt.energy.shape
        inside = np.zeros(self.shape, dtype=np.bool_)
        inside[share.coupling.inside] = True
        numbers = np.arange(inside.size).reshape(inside.shape)[share.coupling.inside].ravel()
        self.coupled = np.flatnonzero(share.coupling.coupled())
        self.coupled_in_region: Sites = numbers[self.coupled]
        self.shell_in_region = np.flatnonzero(~inside)

    @property
    def size(self) -> int:
        """How many sites are coupled, or in the shell."""
        return len(self.coupled) + len(self.shell_in_region)

    def near(self, values: npt.NDArray[Any]) -> Near:
        """Values of the coupled sites, and then those of the shell."""
        return Near(values[: len(self.coupled)], values[len(self.coupled) :])

    def spread(self, near: Near, interior: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """An array over the region: `interior` in the block, overwritten by the values nearby."""
        y = np.zeros(self.shape, dtype=near.coupled.dtype)
        y[self._share.coupling.inside] = interior
        flat = y.reshape(-1)  # which, unlike y.flat, is as quick as an array
        flat[self.coupled_in_region] = near.coupled
        flat[self.shell_in_region] = near.shell
        return y

    @cached_property
    def shared(self) -> list[SharedSites]:
        """What it has in common with each neighbour."""
        where, region = self._where, self._excerpt.place
        return [
            SharedSites(
                one.block,
                mine=seen_from(common(where, one.region), where),
                seen=seen_from(common(region, one.region), region),
            )
            for one in self._neighbors
        ]

    @property
    def _where(self) -> Index:
        return where_of(self._excerpt)

    @cached_property
    def senders(self) -> list[int | None]:
        """The neighbours, and None for this block itself, in the order of the blocks."""
        numbers = [one.block for one in self._neighbors]
        before = sum(number < self._number for number in numbers)
        return [*range(before), None, *range(before, len(numbers))]

    @cached_property
    def counts(self) -> Values:
        """q on the coupled sites, and in the shell."""
        region = self._excerpt.partition
        everywhere: Index = tuple(slice(0, n) for n in region.shape)
        counts = region.multiplicity(everywhere if isinstance(region.counts, tuple) else np.arange(region.shape[0]))
        places = np.concatenate([self.coupled_in_region, self.shell_in_region])
        found: Values = np.broadcast_to(counts, self.shape).ravel()[places]
        return found

    @cached_property
    def owned(self) -> Mask:
        """Which of the coupled sites the block owns."""
        owned = np.zeros(self._share.energy.shape, dtype=np.bool_)
        owned[self._share.owned] = True
        return owned.ravel()[self.coupled]

    def in_whole(self, places: Sites) -> Sites:
        """Places in the region as sites of the whole."""
        region = self._excerpt.place
        if not isinstance(region, tuple):
            return region[places]
        at = np.unravel_index(places, self.shape)
        moved = tuple(p + s.start for p, s in zip(at, region, strict=True))
        flat: Sites = np.ravel_multi_index(moved, self._excerpt.shape).astype(np.int64)
        return flat

    # Sums of what blocks sent, each in the order of `senders`.

    def add_own(self, values: Sequence[npt.NDArray[Any]]) -> Values:
        """Of numbers that each sent for the sites that it holds: the sums at sites nearby."""
        (total,) = self._added(self._slots.own, values)
        return total

    def add_pulls(self, values: Sequence[npt.NDArray[Any]]) -> Values:
        """Of numbers that each sent for all sites that it sees: the sums at sites nearby."""
        first, then = self._added(self._slots.pulls, values, rows=2)
        return first + then

    @cached_property
    def _slots(self) -> _Slots:
        region, number, nowhere = self._excerpt.place, len(self.coupled), self.size
        slots = np.full(self.shape, nowhere)
        slots.reshape(-1)[self.coupled_in_region] = np.arange(number)
        slots.reshape(-1)[self.shell_in_region] = np.arange(number, nowhere)
        own, pulls = [], []
        for k in self.senders:
            if k is None:
                own.append(np.arange(number))
                pulls.append(np.concatenate([np.arange(number), np.arange(number, nowhere) + nowhere + 1]))
                continue
            one = self._neighbors[k]
            theirs, both = common(one.where, region), common(one.region, region)
            seen = slots[seen_from(both, region)] + (nowhere + 1)
            seen[seen_from(theirs, both)] -= nowhere + 1
            own.append(slots[seen_from(theirs, region)].ravel())
            pulls.append(seen.ravel())
        return _Slots(np.concatenate(own), np.concatenate(pulls))

    def _added(self, slots: Sites, values: Sequence[npt.NDArray[Any]], *, rows: int = 1) -> list[Values]:
        """So many sums for each site nearby."""
        flat, at = np.empty(len(slots)), 0
        for one in values:  # each copied once, from wherever it lies
            flat[at : at + one.size].reshape(one.shape)[...] = one
            at += one.size
        sums = np.bincount(slots, flat, minlength=rows * (self.size + 1)).astype(np.float64, copy=False)
        return list(sums.reshape(rows, -1)[:, :-1])


def where_of(excerpt: Any) -> Index:
    """Where the block of an excerpt is in the whole."""
    return within(excerpt.place, excerpt.partition.blocks[0].where)


def within(outer: Index, place: Index) -> Index:
    """A place in arrays over an outer place, as one in what that is a place of."""
    if isinstance(outer, tuple):
        assert isinstance(place, tuple)
        return tuple(slice(o.start + p.start, o.start + p.stop) for o, p in zip(outer, place, strict=True))
    return outer[place]
