"""What a move does to pairs: each site keeps its label x or takes another one that is proposed, p.

    y_i = 1 where p_i is taken:   w_ij V(., .) = w'_ij |y_i - y_j| + something linear in y,

    w'_ij = w_ij (V(x_i, p_j) + V(p_i, x_j) - V(x_i, x_j) - V(p_i, p_j)) / 2

and the linear part of site i is, of the pair (i, j),

    u'_i = w_ij (V(p_i, x_j) + V(p_i, p_j) - V(x_i, x_j) - V(x_i, p_j)) / 2.

What stands behind w_ij is computed from the images x and p when somebody asks for the weights, and never stored. Where
p follows from x, as in an expansion (p = a) or a swap, it is a number for every two labels, which is looked up.

The four costs may be rounded numbers whose sum should be 0: it is, within rounding, so that a metric gives no negative
weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.arrays import MOST_PLACES, Box, Mask, binary_places
from dope.metric import ROUNDING

Table = npt.NDArray[np.float64]
LabelNumbers = npt.NDArray[np.uint8 | np.uint16]

# Pairs of a label and what is proposed instead, of which all factors are looked at to bound them: 8 MB of numbers.
MOST_CHANGES = 1024


@dataclass(frozen=True, eq=False)
class Fused:
    """The factor of every pair's weight in a move from labels x to a proposal p.

    `costs` is V, or where there is no image p the factor itself for labels x_i and x_j. `low` and `high` bound the
    factors, `places` says how many binary places they need, None where they are many.
    """

    labels: LabelNumbers
    proposal: LabelNumbers | None
    costs: Table
    low: float
    high: float
    places: int | None

    @classmethod
    def of(cls, labels: LabelNumbers, proposal: LabelNumbers, costs: Table, moving: Mask) -> Fused:
        """Of the pairs between sites that may move; all others weigh nothing whatever is said here."""
        kept, taken = np.nonzero(_core.joint_labels(labels, proposal, moving, len(costs)))
        if len(np.unique(kept)) == len(kept):
            by_label = np.zeros_like(costs)
            by_label[np.ix_(kept, kept)] = factors = pair_factors(costs, kept, taken)
            return cls(labels, None, by_label, *_span(factors))
        if len(kept) <= MOST_CHANGES:
            return cls(labels, proposal, costs, *_span(pair_factors(costs, kept, taken)))
        widest = float(costs.max() - costs.min())
        places = binary_places([costs])
        return cls(labels, proposal, costs, -widest, widest, None if places is None else places + 1)

    def at(self, box: Box) -> Fused:
        proposal = None if self.proposal is None else self.proposal[box]
        return replace(self, labels=self.labels[box], proposal=proposal)

    def twice(self) -> Fused:
        """Of two layers that are alike."""
        labels, proposal = (
            None if image is None else np.broadcast_to(image, (2, *image.shape))
            for image in (self.labels, self.proposal)
        )
        assert labels is not None
        return replace(self, labels=labels, proposal=proposal)

    @property
    def arrays(self) -> tuple[LabelNumbers, LabelNumbers | None, Table]:
        """The images and the table, as the core takes them."""
        return self.labels, self.proposal, self.costs

    def factors(self, tails: tuple[Any, ...], heads: tuple[Any, ...]) -> npt.NDArray[np.float64]:
        """The factors of the pairs between places that are indices of each other's shape."""
        x_i, x_j = self.labels[tails], self.labels[heads]
        if self.proposal is None:
            found: Table = self.costs[x_i, x_j]
            return found
        return half_curl(self.costs, x_i, x_j, self.proposal[tails], self.proposal[heads])


def pair_factors(costs: Table, kept: npt.NDArray[Any], taken: npt.NDArray[Any]) -> Table:
    """The factors of pairs of which one end changes from kept[k] to taken[k], the other from kept[l] to taken[l]."""
    return half_curl(costs, kept[:, None], kept, taken[:, None], taken)


def half_curl(costs: Table, x_i: Any, x_j: Any, p_i: Any, p_j: Any) -> Table:
    """(V(x_i, p_j) + V(p_i, x_j) - V(x_i, x_j) - V(p_i, p_j)) / 2, which is 0 where it is so within rounding."""
    return halved_curl(costs[x_i, p_j], costs[p_i, x_j], costs[x_i, x_j], costs[p_i, p_j])


def half_slope(costs: Table, x_i: Any, x_j: Any, p_i: Any, p_j: Any) -> Table:
    """(V(p_i, x_j) + V(p_i, p_j) - V(x_i, x_j) - V(x_i, p_j)) / 2."""
    return halved_slope(costs[x_i, p_j], costs[p_i, x_j], costs[x_i, x_j], costs[p_i, p_j])


def halved_curl(keep_take: Table, take_keep: Table, keep_keep: Table, take_take: Table) -> Table:
    """`half_curl` of what a pair costs if both ends keep their labels, one of them, or none."""
    # Each sum is rounded by itself: where the one is not less than the other, it is not after rounding either.
    curl: Table = (keep_take + take_keep) - (keep_keep + take_take)
    size = ((np.abs(keep_take) + np.abs(take_keep)) + np.abs(keep_keep)) + np.abs(take_take)
    return np.where(np.abs(curl) <= ROUNDING * size, 0.0, 0.5 * curl)


def halved_slope(keep_take: Table, take_keep: Table, keep_keep: Table, take_take: Table) -> Table:
    """`half_slope` of the same: what the first end of such a pair pays for moving."""
    slope: Table = 0.5 * ((take_keep + take_take) - (keep_keep + keep_take))
    return slope


def _span(factors: Table) -> tuple[float, float, int | None]:
    if not factors.size:
        return 0.0, 0.0, 0
    return float(factors.min()), float(factors.max()), binary_places([factors], MOST_PLACES)
