"""The core's blocks, driven step by step on small problems, and what must hold after each step."""

import numpy as np
import pytest

from dope import Energy, MaxFlow, Partition, _core
from dope.fixed_point import FixedPoint
from dope.pairs import GridPairs
from problems import members

FOUR = [(0, 1), (1, 0)]
SIX = [(0, 0, 1), (0, 1, 0), (1, 0, 0)]
GRIDS = {
    "chain": ((40,), 3, (5,)),
    "4 neighbours": ((11, 13), FOUR, (3, 4)),
    "8 neighbours": ((11, 12), 3, (3, 3)),
    "kernel 5": ((11, 12), 5, (3, 2)),
    "kernel 7": ((12, 13), 7, (4, 4)),
    "6 neighbours": ((5, 6, 7), SIX, (2, 2, 3)),
    "kernel 3 in 3D": ((5, 6, 5), 3, (2, 3, 2)),
    "kernel 5 in 3D": ((6, 5, 6), 5, (3, 2, 2)),
    "blocks of a site": ((4, 5), 5, (4, 5)),
}
PROBLEMS = [*GRIDS, "graph"]


def problem(name, rng):
    """An energy of integers and its blocks."""
    if name == "graph":
        edges = rng.integers(0, 90, (240, 2))
        edges = edges[edges[:, 0] != edges[:, 1]]
        energy = Energy.graph(random_unary(rng, (90,)), edges, rng.integers(0, 9, len(edges)))
        return energy, Partition.graph(energy.pairs, 7)
    shape, kernel, layout = GRIDS[name]
    number = len(Energy.grid(np.zeros(shape), kernel=kernel).pairs.offsets)
    weights = rng.integers(0, 6, (number, *shape)).astype(float)
    energy = Energy.grid(random_unary(rng, shape), kernel=kernel, weights=weights)
    return energy, Partition.grid(shape, layout)


def random_unary(rng, shape):
    kind = rng.integers(4)
    if kind == 0:
        return np.where(rng.random(shape) < 0.1, rng.choice([-60.0, 60.0], shape), 0.0)
    if kind == 1:
        return rng.choice([-2.0, 0.0, 0.0, 2.0], shape)
    return rng.integers(-25, 26, shape) * (1000.0 if kind == 2 and rng.random() < 0.3 else 1.0)


class Driven:
    """A BlockFlow with an energy, and what must hold after every step."""

    def __init__(self, energy, partition, bits):
        self.energy, self.partition = energy, partition
        fixed = FixedPoint.of(energy, bits)
        assert fixed.error == 0.0
        self.scale, self.flow = fixed.scale, self._opened(fixed)
        for part in range(self.flow.parts):
            self.flow.fill(part)
        self.flow.finish()
        for k in range(self.flow.blocks):
            self.flow.wall_in(k)
            self.flow.price(k, self._unary_of(energy, k))
        self._whole()
        self.solve(range(self.flow.blocks))

    def _opened(self, fixed):
        pairs = self.energy.pairs
        if isinstance(pairs, GridPairs):
            return _core.BlockFlow.grid(pairs.native(), fixed.scale, fixed.bits, self.partition.cuts)
        holders = np.zeros(pairs.sites, np.int32)
        for k, sites in enumerate(members(self.partition)):
            holders[sites] = k
        edges = np.stack([pairs.first, pairs.second], axis=1)
        blocks = len(self.partition.blocks)
        return _core.BlockFlow.graph(pairs.sites, edges, pairs.weights, fixed.scale, fixed.bits, holders, blocks)

    def _unary_of(self, energy, k):
        return np.ascontiguousarray(energy.unary[self.partition.blocks[k].where], dtype=float).ravel()

    def _whole(self):
        self.minimizer = MaxFlow().prepare(self.energy)
        self.best = round(self.minimizer.minimize(self.energy.unary).bound * self.scale)
        self.smallest, self.largest = self.minimizer.labels().ravel(), self.minimizer.labels(largest=True).ravel()

    @property
    def groups(self):
        return sorted({self.flow.group(k) for k in range(self.flow.blocks)})

    def solve(self, groups):
        for g in groups:
            self.flow.solve(g)
            self.flow.check(g)

    def survey(self):
        """Bound, gap and conflicts; the labels cost what these say."""
        surveys = [self.flow.survey(k) for k in range(self.flow.blocks)]
        bound = sum(self.flow.bound(k) for k in range(self.flow.blocks))
        gap, conflicts, _ = (sum(values) for values in zip(*surveys, strict=True))
        labels = self.labels()
        assert self.energy(labels.reshape(self.energy.shape)) * self.scale == bound + gap
        assert bound <= self.best <= bound + gap
        return bound, gap, conflicts

    def labels(self, *, of_all=False):
        labels = np.zeros(self.energy.unary.size, bool)
        for k, sites in enumerate(members(self.partition)):
            labels[sites] = self.flow.labels(k, of_all=of_all)
        return labels

    def certified(self):
        """Surveys, and whether that was the minimum, which then has to be right."""
        bound, _, conflicts = self.survey()
        if conflicts or not self.flow.certify():
            assert self.flow.disputes()
            return False
        assert bound == self.best
        np.testing.assert_array_equal(self.labels(of_all=True), self.smallest)
        return True

    def push(self):
        if not self.certified():
            assert self.flow.push() > 0
            self.solve(self.flow.changed())

    def merge(self, rng):
        if self.certified():
            return
        disputes = self.flow.disputes()
        one, other, amount = disputes[int(rng.integers(len(disputes)))]
        assert one != other and amount > 0
        self.flow.merge(other, one)
        assert self.flow.group(other) == self.flow.group(one) == min(one, other)
        self.solve(sorted({min(one, other), *self.flow.changed()}))

    def merge_any(self, rng):
        """Also groups that agree, or are not even neighbours."""
        if len(self.groups) > 1:
            self.flow.merge(*(int(g) for g in rng.choice(self.groups, 2, replace=False)))
            self.solve(self.groups)

    def discharge(self, rng):
        if self.certified():
            return
        self.flow.measure()
        for g in rng.permutation(self.groups):  # one at a time: groups may be neighbours
            if g in self.flow.changed():
                self.solve([g])
            self.flow.discharge(g)
            self.flow.check(g)
            self.flow.deliver()
        self.solve(self.flow.changed())

    def price(self, rng):
        before = self.energy
        changed = rng.random(before.shape) < rng.choice([0.01, 0.2, 1.0])
        self.energy = Energy(np.where(changed, random_unary(rng, before.shape), before.unary), before.pairs)
        for k in range(self.flow.blocks):
            self.flow.price(k, self._unary_of(self.energy, k), self._unary_of(before, k))
        self._whole()
        self.solve(self.flow.changed())

    def bracket(self):
        low, high = np.zeros(self.energy.unary.size, bool), np.zeros(self.energy.unary.size, bool)
        places = members(self.partition)
        before = self.labels()
        for g in self.groups:
            sites = np.concatenate([places[k] for k in self.flow.members(g)])
            low[sites], high[sites] = self.flow.bracket(g, outside=False), self.flow.bracket(g, outside=True)
            self.flow.check(g)
        np.testing.assert_array_equal(self.labels(), before)
        assert (low <= self.smallest).all() and (self.largest <= high).all()
        return low, high

    def require_flows_within_weights(self):
        first, second, weights = self.energy.pairs.edges()
        allowed = dict.fromkeys(zip(first.tolist(), second.tolist(), strict=True), 0.0)
        for i, j, w in zip(first.tolist(), second.tolist(), weights.tolist(), strict=True):
            allowed[i, j] = allowed.get((i, j), 0.0) + w
            allowed[j, i] = allowed[i, j]
        holder = np.zeros(self.energy.unary.size, int)
        for k, sites in enumerate(members(self.partition)):
            holder[sites] = k
        for k in range(self.flow.blocks):
            for i, j, amount in zip(*(array.tolist() for array in self.flow.flows(k)), strict=True):
                assert holder[i] == k != holder[j]
                assert 0 < abs(amount) <= allowed[i, j] * self.scale

    def flows(self):
        """Of all blocks, each pair once."""
        of_blocks = [self.flow.flows(k) for k in range(self.flow.blocks)]
        first, second, amount = (np.concatenate(arrays) for arrays in zip(*of_blocks, strict=True))
        pairs = list(zip(first.tolist(), second.tolist(), strict=True))
        assert len({frozenset(pair) for pair in pairs}) == len(pairs)
        return first, second, amount


def finish(driven, rng, way):
    """From wherever it is to the minimum."""
    for _ in range(400):
        if driven.certified():
            driven.require_flows_within_weights()
            return
        if way == "merge":
            driven.merge(rng)
        else:
            driven.discharge(rng)
    pytest.fail(f"no end in sight by {way}")


def wander(name, seed, *, bits, turns):
    """A random sequence of steps, each checked; then to the minimum, twice."""
    rng = np.random.default_rng([seed, bits])
    energy, partition = problem(name, rng)
    driven = Driven(energy, partition, bits)
    steps = {
        "push": driven.push,
        "merge": lambda: driven.merge(rng),
        "merge any": lambda: driven.merge_any(rng),
        "discharge": lambda: driven.discharge(rng),
        "price": lambda: driven.price(rng),
        "bracket": driven.bracket,
    }
    for _ in range(turns):
        steps[str(rng.choice(list(steps), p=[0.4, 0.1, 0.05, 0.15, 0.15, 0.15]))]()
        driven.survey()
        driven.require_flows_within_weights()
    finish(driven, rng, "merge" if seed % 2 else "discharge")
    driven.price(rng)
    finish(driven, rng, "discharge" if seed % 2 else "merge")
