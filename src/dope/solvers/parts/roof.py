"""The roof dual: every site twice, so that pairs of any sign become pairs that pay when their ends differ.

With y' for 1 - y, as labels of their own,

    w|y_i - y_j|          is   w/2 ( |y_i - y_j| + |y'_i - y'_j| )              where w > 0, and
    w|y_i - y_j| - w      is |w|/2 ( |y_i - y'_j| + |y'_i - y_j| )              where w < 0,
    u_i y_i               is   1/2 ( u_i y_i - u_i y'_i + u_i ).

Twice the energy is thus F(y, y') + sum_i u_i - 2 R, R the sum of |w| over repulsive pairs; F is submodular, and no
fraction is needed where the costs have none. Its minimum over all y and y' is a lower bound, the roof dual (Hammer,
Hansen, Simeone 1984), and a minimizer with y'_i = 1 - y_i at some sites says what is best there: whatever the labels of
the others, these labels at these sites together never raise the energy (Boros, Hammer 2002; Kolmogorov, Rother 2007).
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Sites
from dope.energy import Energy
from dope.pairs import GridPairs, Pairs, ends, sorted_graph
from dope.partition import Block, Partition
from dope.protocols import Problem
from dope.rounding import rounded_down
from dope.solvers.max_flow import MaxFlow
from dope.sums import exact_sum

Values = npt.NDArray[np.float64]

# Up to so many pairs, capacities are so wide that rounding does not show.
SMALL_PAIRS = 1 << 22


def doubled(pairs: Pairs) -> Pairs:
    """The pairs of F. Of a grid they are a grid with an axis more, y and y' being its two layers."""
    attractive, repulsive = pairs.attractive, pairs.repulsive
    if isinstance(attractive, GridPairs) and isinstance(repulsive, GridPairs):
        return _doubled_grid(attractive, repulsive)
    assert not isinstance(attractive, GridPairs) and not isinstance(repulsive, GridPairs)
    n = pairs.sites
    layers = (0, n)
    first = [attractive.first + layer for layer in layers] + [repulsive.first + layer for layer in layers]
    second = [attractive.second + layer for layer in layers] + [repulsive.second + n - layer for layer in layers]
    weights = [attractive.weights] * 2 + [repulsive.weights] * 2
    return sorted_graph(2 * n, np.concatenate(first), np.concatenate(second), np.concatenate(weights))


def doubled_problem(problem: Problem) -> Problem:
    """F in place of the energy, 2 E = F where y' = 1 - y, and each block with both labels of its sites."""
    energy, partition = problem.energy, problem.partition
    pairs = doubled(energy.pairs)
    prices = energy.unary.astype(np.float64)
    constant = 2 * Fraction(energy.constant) + exact_sum(prices) - _between_layers(pairs)
    if partition.cuts is not None:
        blocks = Partition.at(pairs.shape, ((), *partition.cuts))
    else:
        n = partition.shape[0]
        twice = [
            np.concatenate([block.where, block.where + n])
            for block in partition.blocks
            if not isinstance(block.where, tuple)
        ]
        blocks = Partition(
            pairs.shape, tuple(Block(sites, np.arange(len(sites))) for sites in twice), np.ones(pairs.shape)
        )
    return replace(
        problem,
        # F is for bounds: what its constant cannot hold is left to them.
        energy=Energy(np.stack([prices, -prices]).reshape(pairs.shape), pairs, rounded_down(constant)),
        partition=blocks,
        solver=MaxFlow(),
        start=None,
    )


def _doubled_grid(attractive: GridPairs, repulsive: GridPairs) -> GridPairs:
    """Offsets (0, o) for pairs that attract; (1, o) and (1, -o) for those that repel, from y to y' both times."""
    shape = (2, *attractive.shape)

    def twice(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.broadcast_to(array, (2, *array.shape))  # both layers are the same memory

    fields = None
    if attractive.fields is not None and repulsive.fields is not None:
        back = [_seen_from_head(f, o) for f, o in zip(repulsive.fields, repulsive.offsets.tolist(), strict=True)]
        fields = tuple(twice(field) for field in (*attractive.fields, *repulsive.fields, *back))
    features, inside, counts = attractive.features, attractive.inside, attractive.counts
    return replace(
        attractive,
        shape=shape,
        offsets=np.concatenate(
            [
                np.insert(attractive.offsets, 0, 0, axis=1),
                np.insert(repulsive.offsets, 0, 1, axis=1),
                np.insert(-repulsive.offsets, 0, 1, axis=1),
            ]
        ),
        factors=np.concatenate([attractive.factors, repulsive.factors, repulsive.factors]),
        bounds=np.concatenate([attractive.bounds, repulsive.bounds, repulsive.bounds]),
        fields=fields,
        features=None if features is None else twice(features),
        inside=None if inside is None else np.ascontiguousarray(twice(inside)),
        counts=counts and (np.ones(2), *counts),
    )


def _seen_from_head(field: npt.NDArray[Any], offset: list[int]) -> npt.NDArray[Any]:
    """The field of the pairs (q, q - offset), where `field` is that of (p, p + offset)."""
    turned = np.zeros(field.shape, dtype=field.dtype)
    if all(abs(o) < n for o, n in zip(offset, field.shape, strict=True)):
        tail, head = ends(offset)
        turned[head] = field[tail]
    return turned


class Roof:
    """The flow of F, kept from call to call. Sites are flat positions; some can be forced to have a label.

    A site is forced by a unary that outweighs its pairs. One whose own price does so counts as forced from the
    beginning and is given no more than that, so that it can be forced the other way as well.
    """

    def __init__(self, energy: Energy) -> None:
        pairs = doubled(energy.pairs)
        self._shape = pairs.shape
        self._flow = MaxFlow(64 if pairs.number <= SMALL_PAIRS else None).prepare(
            Energy(self._mirrored(energy.unary.ravel().astype(np.float64)), pairs)
        )
        # At least twice what the pairs of any site weigh together, so that rounding does not matter.
        self.force_price = math.ldexp(1.0, math.frexp(energy.pairs.strength)[1] + 1)
        self._repulsion = _between_layers(pairs)
        self._prices = self._given = np.zeros(energy.unary.size)
        self._forced = np.zeros(energy.unary.size, dtype=np.int8)  # +1 to label 1, -1 to label 0
        self._total = Fraction(0)

    @property
    def scale(self) -> float:
        """Costs are counted in units of 1 / scale."""
        return self._flow.scale

    @property
    def rounding_error(self) -> float:
        """How far counting in whole units can put `bound` from the roof dual."""
        return self._flow.rounding_error / 2

    def solve(self, prices: Values) -> None:
        """Minimize F for another unary, no site forced but those whose price does it."""
        self._prices = prices
        self._given = np.clip(prices, -self.force_price, self.force_price)
        self._forced = self._of_their_own(prices)
        self._total = exact_sum(prices)
        self._flow.minimize(self._mirrored(self._given))

    def force(self, sites: Sites, labels: BinaryLabels, *, release: Sites | None = None) -> None:
        """Minimize F where these sites have these labels, and those to release may again have any."""
        free = np.zeros(0, dtype=np.int64) if release is None else release
        self._forced[free] = self._of_their_own(self._prices[free])
        self._forced[sites] = np.where(labels, 1, -1)
        held = np.where(labels, -self.force_price, self.force_price)
        places, prices = np.concatenate([free, sites]), np.concatenate([self._given[free], held])
        self._flow.change(np.concatenate([places, places + len(self._prices)]), np.concatenate([prices, -prices]))

    def labels(self) -> tuple[BinaryLabels, BinaryLabels]:
        """Where all minimizers of F agree on y = 1 - y', and the labels y there."""
        one, other = self._flow.labels().reshape(2, -1)
        return one | other, one

    def bound(self) -> Fraction:
        """The roof dual: no labels that agree with the forced ones have less energy, the constant excluded."""
        ones, zeros = self._forced > 0, self._forced < 0
        # In the flow a forced site adds -force, in F it adds u with label 1 and -u with label 0.
        beyond = Fraction(self.force_price) * int(np.count_nonzero(ones | zeros))
        beyond += exact_sum(self._prices, ones) - exact_sum(self._prices, zeros)
        return (self._flow.minimum() + beyond + self._total - self._repulsion) / 2

    def _of_their_own(self, prices: Values) -> npt.NDArray[np.int8]:
        return np.where(np.abs(prices) >= self.force_price, -np.sign(prices), 0).astype(np.int8)

    def _mirrored(self, prices: Values) -> Values:
        return np.stack([prices, -prices]).reshape(self._shape)


def _between_layers(pairs: Pairs) -> Fraction:
    """2 R: what all pairs between y and y' weigh together."""
    layer = np.zeros(pairs.shape, dtype=np.bool_)
    layer.reshape(2, -1)[1] = True
    return pairs.exact_roughness(layer)
