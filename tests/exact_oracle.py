"""Energies by brute force in exact rational arithmetic: what every claim of a result is held against."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class Truth:
    """All energies of a small problem, as whole numbers of 2^-places."""

    shape: tuple[int, ...]
    unary: list[Fraction]
    pairs: list[tuple[int, int, Fraction]]
    constant: Fraction

    @classmethod
    def of(cls, energy):
        first, second, weights = energy.pairs.edges()
        return cls(
            energy.shape,
            [Fraction(u) for u in energy.unary.ravel().tolist()],
            [(i, j, Fraction(w)) for i, j, w in zip(first.tolist(), second.tolist(), weights.tolist(), strict=True)],
            Fraction(energy.constant),
        )

    def __call__(self, labels) -> Fraction:
        y = np.asarray(labels).ravel().tolist()
        linear = sum((u for u, one in zip(self.unary, y, strict=True) if one), self.constant)
        return linear + sum((w for i, j, w in self.pairs if y[i] != y[j]), Fraction(0))

    @cached_property
    def _unit(self) -> int:
        """All costs are multiples of one over this."""
        return max(cost.denominator for cost in [*self.unary, *(w for *_, w in self.pairs), self.constant])

    @cached_property
    def energies(self) -> list[int]:
        """Of all labels, bit i being the label of site i, times the unit; in Gray code one site flips at a time."""
        unary = [int(u * self._unit) for u in self.unary]
        around: list[list[tuple[int, int]]] = [[] for _ in unary]
        for i, j, w in self.pairs:
            around[i].append((j, int(w * self._unit)))
            around[j].append((i, int(w * self._unit)))
        found = [0] * (1 << len(unary))
        y, value = 0, int(self.constant * self._unit)
        found[0] = value
        for turn in range(1, len(found)):
            site = (turn & -turn).bit_length() - 1
            up = not y >> site & 1
            value += unary[site] if up else -unary[site]
            for other, weight in around[site]:
                value += weight if (y >> other & 1) != up else -weight
            y ^= 1 << site
            found[y] = value
        return found

    @cached_property
    def least(self) -> Fraction:
        return Fraction(min(self.energies), self._unit)

    def best_agreement(self, labels, error: Fraction) -> int:
        """With how many labels of some minimum, but for this error, these agree."""
        y = sum(1 << i for i, one in enumerate(np.asarray(labels).ravel().tolist()) if one)
        most = min(self.energies) + int(error * self._unit)
        apart = min((z ^ y).bit_count() for z, value in enumerate(self.energies) if value <= most)
        return len(self.unary) - apart

    @cached_property
    def at_stake(self) -> Fraction:
        """sum_i min(|u_i|, the weight of the pairs of site i)."""
        reach = [Fraction(0)] * len(self.unary)
        for i, j, w in self.pairs:
            reach[i] += w
            reach[j] += w
        return sum((min(abs(u), r) for u, r in zip(self.unary, reach, strict=True)), Fraction(0))

    @cached_property
    def size(self) -> Fraction:
        """The sum of |costs|."""
        return sum((abs(c) for c in [*self.unary, *(w for *_, w in self.pairs)]), abs(self.constant))
