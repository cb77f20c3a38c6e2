"""What neighbours with different labels pay: V(a, b) of every two labels, V(a, a) = 0, the same both ways.

    potts        V(a, b) = [a != b]
    linear       V(a, b) = min(|a - b|, limit)
    quadratic    V(a, b) = min((a - b)^2, limit)
    table        any symmetric table with zeros on its diagonal

A move that offers label b to all sites at once is a minimum cut where no detour is shorter than the way itself,
V(a, c) <= V(a, b) + V(b, c): for a metric. Numbers of a table that were rounded, such as distances, may break this by
their last bit: what is within rounding of equality counts as equal, here and where the weights of a move are computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dope.arrays import as_reals, check_finite
from dope.errors import InputError

Table = npt.NDArray[np.float64]

# Sums of two costs that differ by less than this fraction of what they are made of are equal: four roundings.
ROUNDING = 2.0**-50

_KINDS = ("potts", "linear", "quadratic")
_EXPECTED = 'expected "potts", "linear", "quadratic", ("linear", limit), ("quadratic", limit) or a table of costs'


@dataclass(frozen=True, eq=False)
class Metric:
    """A cost of every two labels, by a rule or by a table.

    `limit` is the most that a linear or quadratic rule costs; `table` is there for the kind "table" alone.

    >>> Metric.of(("linear", 2), 4).matrix(4)[0].tolist()
    [0.0, 1.0, 2.0, 2.0]
    """

    kind: Literal["potts", "linear", "quadratic", "table"]
    limit: float = math.inf
    table: Table | None = None

    @classmethod
    def of(cls, what: Any, label_count: int) -> Metric:
        """What a caller gave, checked: a name, a name with a limit, or a table of so many labels."""
        if isinstance(what, Metric):
            return what if what.table is None else cls.of(what.table, label_count)
        if isinstance(what, str):
            return cls(_checked_kind(what))
        if isinstance(what, tuple) and len(what) == 2 and isinstance(what[0], str):
            kind = _checked_kind(what[0])
            if kind == "potts":
                raise InputError(
                    'metric is ("potts", ...), which has no limit; expected "potts". Put factors into lam.'
                )
            return cls(kind, _checked_limit(what[1]))
        if isinstance(what, dict) or not (hasattr(what, "__len__") or hasattr(what, "__array__")):
            raise InputError(f"metric is {what!r}; {_EXPECTED}.")
        return cls("table", table=_checked_table(what, label_count))

    def matrix(self, label_count: int) -> Table:
        """V as an array, (labels, labels)."""
        if self.table is not None:
            return self.table
        labels = np.arange(label_count, dtype=np.float64)
        apart = np.abs(labels[:, None] - labels)
        if self.kind == "potts":
            return np.minimum(apart, 1.0)
        return np.minimum(apart if self.kind == "linear" else apart * apart, self.limit)

    @property
    def is_metric(self) -> bool:
        """Whether no detour is shorter, however many labels there are."""
        if self.table is not None:
            return self.broken_triple(len(self.table)) is None
        return self.kind != "quadratic" or self.limit <= 2.0

    @property
    def is_semimetric(self) -> bool:
        """Whether no two labels cost less than equal ones: a swap of two labels is a minimum cut then."""
        return self.table is None or bool((self.table >= 0.0).all())

    def is_convex(self, label_count: int) -> bool:
        """Whether V is a convex function of a - b for so many labels."""
        if self.table is not None:
            prices = [Fraction(price) for price in self._by_distance(label_count).tolist()]
            bent = zip(prices[1:2] + prices, prices, prices[1:], strict=False)  # V(-1) = V(1)
            return bool(prices) and all(before + after >= 2 * here for before, here, after in bent)
        if self.kind == "potts":
            return False
        return self.limit >= float(label_count - 1) ** (1 if self.kind == "linear" else 2)

    def bends(self, label_count: int) -> list[float] | None:
        """a_0, a_1 .. a_(L-2), none below 0, with V(d) = sum of a_|k| (|d + k| - |k|) over |k| <= L - 2.

        None where V is no convex function of a - b. What is below 0 by the rounding of a table alone is 0.

        >>> Metric.of("linear", 4).bends(4), Metric.of("quadratic", 4).bends(4), Metric.of("potts", 4).bends(4)
        ([1.0, 0.0, 0.0], [1.0, 1.0, 1.0], None)
        """
        prices = self._by_distance(label_count)
        if not len(prices):
            return None
        around = np.concatenate([prices[1:2], prices])  # V(-1) = V(1)
        bends = (around[2:] - 2.0 * around[1:-1] + around[:-2]) / 2.0
        slack = ROUNDING * (np.abs(around[2:]) + 2.0 * np.abs(around[1:-1]) + np.abs(around[:-2]))
        return None if (bends < -slack).any() else np.where(bends > slack, bends, 0.0).tolist()

    def _by_distance(self, label_count: int) -> Table:
        """V(0), V(1) .. V(L - 1); empty where V does not follow from a - b."""
        costs = self.matrix(label_count)
        apart = np.abs(np.subtract.outer(np.arange(label_count), np.arange(label_count)))
        prices: Table = costs[0]
        return prices if np.array_equal(costs, prices[apart]) else prices[:0]

    @property
    def is_ordered(self) -> bool:
        """Whether V follows from how far apart two labels are."""
        return self.kind in ("linear", "quadratic")

    def broken_triple(self, label_count: int) -> tuple[int, int, int] | None:
        """Labels a, b, c with V(a, c) > V(a, b) + V(b, c), of which the detour saves most; None in a metric.

        >>> Metric.of("quadratic", 3).broken_triple(3)
        (0, 1, 2)
        """
        if self.table is None and self.kind != "quadratic":
            return None
        costs = self.matrix(label_count)
        size, most, found = np.abs(costs), 0.0, None
        for b in range(label_count):
            detour = costs[:, b, None] + costs[b]
            saved = costs - detour
            saved[saved <= ROUNDING * (size + (size[:, b, None] + size[b]))] = 0.0
            place = int(saved.argmax())
            if saved.flat[place] > most:
                most, found = float(saved.flat[place]), (place // label_count, b, place % label_count)
        return found

    def __repr__(self) -> str:
        if self.table is not None:
            return f"Metric(table of {len(self.table)} labels)"
        return f"Metric({self.kind}{'' if self.limit == math.inf else f', limit {self.limit:g}'})"


def _checked_kind(name: str) -> Literal["potts", "linear", "quadratic"]:
    for kind in _KINDS:
        if name == kind:
            return kind  # type: ignore[return-value]
    raise InputError(f"metric is {name!r}; {_EXPECTED}.")


def _checked_limit(limit: Any) -> float:
    number = np.asarray(limit)
    if number.ndim or number.dtype.kind not in "fiu" or not number > 0:
        raise InputError(f"the limit of the metric is {limit!r}; expected a number above 0.")
    return float(number)


def _checked_table(what: Any, label_count: int) -> Table:
    table = np.array(as_reals("metric", what), dtype=np.float64)
    if table.shape != (label_count, label_count):
        raise InputError(
            f"metric has shape {table.shape}; expected ({label_count}, {label_count}), a cost for every two labels."
        )
    check_finite("metric", table)
    diagonal = np.flatnonzero(np.diagonal(table))
    if len(diagonal):
        a = int(diagonal[0])
        raise InputError(
            f"metric has {table[a, a]} at ({a}, {a}); expected 0, as equal labels cost nothing. Put it into the costs."
        )
    uneven = np.argwhere(table != table.T)
    if len(uneven):
        a, b = map(int, uneven[0])
        raise InputError(
            f"metric has {table[a, b]} at ({a}, {b}) and {table[b, a]} at ({b}, {a}); expected the same, as pairs have "
            f"no direction. Take (V + V.T) / 2."
        )
    return table
