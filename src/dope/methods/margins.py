"""Kovtun's binary costs of every label: what it costs at each site over the best of the others.

    u_i(a) = c_i(a) - min over b != a of c_i(b)

The least and the second least cost of a site say it for all labels, so costs are looked through once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import MOST_PLACES, Index, Labels, Reals, measure_span, most_places
from dope.cancellation import check_cancelled
from dope.label_energy import LabelEnergy
from dope.pairs import GridPairs, strips

# Sites at a time: their costs stay in a cache while labels are compared one after the other.
STRIP_SITES = 1 << 14


@dataclass(frozen=True, eq=False)
class Margins:
    """Of every site the least cost, the first label that has it, and the least cost of the other labels.

    `largest` is the largest |u| of all labels, `total` the sum of a label's in the mean; `places` the binary places of
    the costs, None where they need many.
    """

    costs: npt.NDArray[Any]
    least: Reals
    second: Reals
    labels: Labels
    largest: float
    total: float
    places: int | None

    @classmethod
    def of(cls, energy: LabelEnergy) -> Margins:
        """Of an energy in memory; sites outside its mask count for nothing."""
        costs, shape, number = energy.costs, energy.shape, energy.label_count
        inside = energy.pairs.inside if isinstance(energy.pairs, GridPairs) else None
        least, second = np.empty(shape), np.empty(shape)
        labels: Labels = np.zeros(shape, dtype=energy.label_type)
        largest, total = 0.0, 0.0
        found: list[int | None] = []
        for box in strips(shape, STRIP_SITES):
            check_cancelled()
            part = costs[box]
            if inside is not None:  # outside, costs may be anything
                part = np.where(inside[box][..., None], part, part.dtype.type(0))
            low, high, first = two_least(part)
            least[box], second[box], labels[box] = low, high, first
            spread = part.astype(np.float64)
            spread -= low[..., None]
            np.put_along_axis(spread, first[..., None], (high - low)[..., None], axis=-1)
            largest = max(largest, float(spread.max(initial=0.0)))
            total += float(spread.sum())
            found.append(measure_span(part, most=MOST_PLACES).places)
        return cls(costs, least, second, labels, largest, total / number, most_places(found))

    def unary(self, label: int, where: Index) -> Reals:
        """u of a label at some sites."""
        others = np.where(self.labels[where] == label, self.second[where], self.least[where])
        found: Reals = self.costs[where][..., label] - others
        return found


def two_least(costs: npt.NDArray[Any]) -> tuple[Reals, Reals, npt.NDArray[np.int64]]:
    """The least cost of each site, the least of the other labels, and the first label that has the least."""
    low = costs[..., 0].astype(np.float64)
    high = np.full(low.shape, np.inf)
    first = np.zeros(low.shape, dtype=np.int64)
    for label in range(1, costs.shape[-1]):
        cost = costs[..., label]
        less = cost < low
        np.minimum(high, np.where(less, low, cost), out=high)
        first[less] = label
        np.minimum(low, cost, out=low)
    return low, high, first
