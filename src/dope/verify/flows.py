"""The flows over the seams: each over one pair that crosses a seam, and within its weight."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dope.arrays import Mask, Sites
from dope.certificate import Certificate
from dope.verify.blocks import Block, Blocks, pair_keys
from dope.verify.units import FaultError, Reals, Unit, Units, real_sum


@dataclass(frozen=True, eq=False)
class Flows:
    """What flows add to the unary of the sites at seams, block after block: block k's part begins at starts[k].

    A site is listed once for each of its pairs. `lost` is how far rounding has put flows beyond the weights.
    """

    sites: Sites
    amounts: Units
    starts: Sites
    lost: Fraction

    @classmethod
    def of(cls, certificate: Certificate, blocks: Blocks, unit: Unit) -> Flows:
        first, second, flow = certificate.first, certificate.second, certificate.flow
        _check_ends(first, second, blocks)
        lost = _check_amounts(certificate, blocks.weights(first, second), unit)
        sites, amounts = np.concatenate([first, second]), np.concatenate([flow, -flow])
        unit.check_site_sums(np.unique(sites, return_inverse=True)[1], amounts)
        holders = blocks.holding(sites)
        order = np.argsort(holders, kind="stable")
        starts = np.searchsorted(holders[order], np.arange(blocks.number + 1))
        return cls(sites[order], amounts[order], starts, lost)

    def into(self, block: Block, k: int) -> Units:
        """What the flows add to the unary of block k."""
        part = slice(self.starts[k], self.starts[k + 1])
        added = np.zeros(len(block.sites), dtype=np.int64)
        np.add.at(added, np.searchsorted(block.sites, self.sites[part]), self.amounts[part])
        return added


def _check_ends(first: Sites, second: Sites, blocks: Blocks) -> None:
    number = blocks.pairs.sites
    for ends in (first, second):
        outside = (ends < 0) | (ends >= number)
        if outside.any():
            raise FaultError(f"a flow is given at site {ends[np.argmax(outside)]}; expected 0 to {number - 1}")
    same = blocks.holding(first) == blocks.holding(second)
    if same.any():
        raise FaultError(f"a flow is given over {_pair(first, second, same)}, which does not cross a seam")
    _, place, times = np.unique(pair_keys(first, second, number), return_inverse=True, return_counts=True)
    again = times[place] > 1
    if again.any():
        raise FaultError(f"a flow is given over {_pair(first, second, again)} more than once")


def _check_amounts(certificate: Certificate, weights: Reals, unit: Unit) -> Fraction:
    """Refuse flows beyond the weights, and add up how far rounding has put the others beyond them.

    Another exp than ours may have rounded a weight the other way: a unit more is let pass, and counted as lost.
    """
    first, second, flow = certificate.first, certificate.second, certificate.flow
    missing = np.isnan(weights)
    if missing.any():
        raise FaultError(f"a flow is given over {_pair(first, second, missing)}, which is no pair of the energy")
    allowed, changed = unit.weights(weights)
    most = allowed + (changed > 0.0)
    beyond = (flow > most) | (flow < -most)
    if beyond.any():
        bad = int(np.argmax(beyond))
        raise FaultError(
            f"the flow over {_pair(first, second, beyond)} is {flow[bad]} units, more than its weight of "
            f"{allowed[bad]} allows"
        )
    with np.errstate(over="ignore"):
        return real_sum(np.maximum(np.abs(flow) / unit.scale - weights, 0.0))


def _pair(first: Sites, second: Sites, which: Mask) -> str:
    one = int(np.argmax(which))
    return f"pair ({first[one]}, {second[one]})"
