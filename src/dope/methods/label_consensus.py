"""The consensus of ADMM with several labels: y and a_k where blocks meet, and labels that follow from them.

All of it is added up in the order of the blocks, so that no bit depends on who worked when.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dope.arrays import Index, Sites
from dope.label_energy import LabelEnergy, LabelNumbers
from dope.methods.admm_near import within
from dope.methods.label_admm_block import BlockRecipe, Meeting, Solved, Values, mixed, one_hot, taking_part
from dope.partition import Partition


class Consensus:
    """A row of y for each site that is coupled in some block, and of a_k for each that is so in block k."""

    def __init__(self, energy: LabelEnergy, partition: Partition, recipes: Sequence[BlockRecipe]) -> None:
        assert energy.metric is not None
        self._energy, self._partition = energy, partition
        self._matrix = energy.metric.matrix(energy.label_count)
        sites = np.arange(energy.pairs.sites).reshape(energy.shape)
        couplings = [recipe.coupling for recipe in recipes]
        coupled = [np.flatnonzero(one.coupled()) for one in couplings]
        self._sites, counts = np.unique(
            np.concatenate([sites[one.where].ravel()[held] for one, held in zip(recipes, coupled, strict=True)]),
            return_counts=True,
        )
        self._counts = counts[:, None].astype(np.float64)  # of blocks that hold a site: each of them has it coupled
        slots = np.full(energy.shape, -1)
        slots.reshape(-1)[self._sites] = np.arange(len(self._sites))
        self.meetings: list[Meeting] = []
        self._slots: list[Sites] = []
        for one, held in zip(couplings, coupled, strict=True):
            there = slots[one.region]
            places = np.flatnonzero(there.ravel() >= 0)
            own = np.zeros(there.shape, dtype=np.bool_)
            own[one.inside] = True
            self.meetings.append(Meeting(held, places, own.ravel()[places]))
            self._slots.append(there.ravel()[places])
        strengths = [one.strength().ravel()[held] for one, held in zip(couplings, coupled, strict=True)]
        self._strength = float(np.median(np.concatenate(strengths))) if len(self._sites) else 0.0
        self._y = np.full((len(self._sites), energy.label_count), 1.0 / energy.label_count)
        self._votes = self._y
        self._a = [np.zeros((len(held), energy.label_count)) for held in coupled]
        self.disagreeing = 0

    def first_mu(self) -> float:
        """The median coupling strength, times the most that two labels can cost; 1 where nothing is coupled."""
        return self._strength * float(np.abs(self._matrix).max()) or 1.0

    def near(self, k: int) -> tuple[Meeting, Values, Values]:
        """Where block k meets others, and y and a_k there."""
        return self.meetings[k], self._y[self._slots[k]], self._a[k]

    def update(self, solved: Sequence[Solved], mu: float) -> list[float]:
        """The next y and a_k, from what blocks found; for each block how far it is from y."""
        number = self._energy.label_count
        found = [one_hot(one.labels.ravel()[at.coupled], number) for at, one in self._both(solved)]
        votes, sums = np.zeros_like(self._y), np.zeros_like(self._y)
        for k, (at, one) in enumerate(self._both(solved)):
            slots, held = self._slots[k], self._slots[k][at.own]
            votes[held] += found[k]
            sums[held] += found[k] + self._a[k]
            sums[slots] += mixed(one.pull, self._matrix / (2.0 * mu))
        y = on_simplex(sums / self._counts)
        # Where blocks agree y is 0 or 1 but for the last bits.
        whole = np.rint(y)
        self._y, self._votes = np.where(np.abs(y - whole) < 1e-12, whole, y), votes
        residuals = []
        apart = np.zeros(len(y), dtype=np.bool_)
        rounded = np.argmax(self._y, axis=1)
        for k, (at, one) in enumerate(self._both(solved)):
            held = self._slots[k][at.own]
            difference = found[k] - self._y[held]
            self._a[k] = self._a[k] + difference
            residuals.append(math.sqrt(float((difference * difference).sum())))
            apart[held] |= one.labels.ravel()[at.coupled] != rounded[held]
        self.disagreeing = int(np.count_nonzero(apart))
        return residuals

    def labels(self, solved: Sequence[Solved]) -> list[LabelNumbers]:
        """Labels of everything: by the largest y where blocks meet, and by most blocks, where that is not the same."""
        whole = np.empty(self._energy.shape, dtype=self._energy.label_type)
        for block, one in zip(self._partition.blocks, solved, strict=True):
            place: Index = within(block.where, block.owned)
            whole[place] = one.labels[block.owned]
        found: list[LabelNumbers] = []
        for values in (self._y, self._votes):
            labels = whole.copy()
            labels.reshape(-1)[self._sites] = np.argmax(values, axis=1)
            labels[~taking_part(self._energy)] = 0
            if not any(np.array_equal(labels, other) for other in found):
                found.append(labels)
        return found

    def _both(self, solved: Sequence[Solved]) -> zip[tuple[Meeting, Solved]]:
        return zip(self.meetings, solved, strict=True)


def on_simplex(y: Values) -> Values:
    """The nearest rows that are 0 or more and add up to 1: each less a number of its own, cut off at 0."""
    falling = -np.sort(-y, axis=1)
    excess = np.cumsum(falling, axis=1) - 1.0
    many = np.arange(1, y.shape[1] + 1)
    last = np.count_nonzero(falling * many > excess, axis=1)
    taken = excess[np.arange(len(y)), last - 1] / last
    found: Values = np.maximum(y - taken[:, None], 0.0)
    return found
