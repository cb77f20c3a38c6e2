"""The flows over the seams: each over one pair that crosses a seam, and within its weight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from dope.arrays import Mask, Sites
from dope.certificate import AnyCertificate, Certificate, SeamFlows, StoredCertificate
from dope.verify.parts import Part, Parts
from dope.verify.units import FaultError, Reals, Unit, Units, real_sum


@dataclass(frozen=True, eq=False)
class Flows:
    """What flows into a block, by place among its sites; `lost` is how far rounding has put flows beyond the weights.

    Of a pair that is listed for both its blocks, only the first of these loses.
    """

    added: Units
    lost: Fraction


class SeamReader:
    """The flows of a certificate, block after block, each looked at before it is believed."""

    def __init__(self, certificate: AnyCertificate, parts: Parts, unit: Unit) -> None:
        self._parts, self._unit = parts, unit
        self._over_seams: Callable[[int], SeamFlows]
        if isinstance(certificate, Certificate):
            flows = certificate.first, certificate.second, certificate.flow
            self._over_seams = _by_block(_checked_ends(flows, parts), parts).__getitem__
        else:
            self._over_seams = partial(_stored, certificate, parts)

    def into(self, part: Part, k: int) -> Flows:
        """What the flows over its seams add to the unary of block k."""
        first, second, flow = self._over_seams(k)
        turned = self._parts.holding(first) != k
        own, other = np.where(turned, second, first), np.where(turned, first, second)
        weights = part.weights(part.numbers(own), part.numbers(other))
        beyond = _checked_amounts((first, second, flow), weights, self._unit)
        places = np.searchsorted(part.sites, part.numbers(own))
        amounts = np.where(turned, -flow, flow)
        self._unit.check_site_sums(places, amounts)
        added = np.zeros(len(part.sites), dtype=np.int64)
        np.add.at(added, places, amounts)
        return Flows(added, real_sum(beyond[k < self._parts.holding(other)]))


def _stored(certificate: StoredCertificate, parts: Parts, k: int) -> SeamFlows:
    """The flows over all pairs with an end in block k: its own, and those of earlier blocks to it."""
    found = []
    for n in parts.near(k):
        if n <= k:
            first, second, flow = _checked_ends(certificate.flows(n), parts, sender=n)
            here = np.full(len(first), n == k) | (parts.holding(second) == k)
            found.append((first[here], second[here], flow[here]))
    return _joined(found)


def _by_block(flows: SeamFlows, parts: Parts) -> list[SeamFlows]:
    """For each block the flows over the pairs that end there."""
    ends = [parts.holding(sites) for sites in flows[:2]]
    holders, place = np.concatenate(ends), np.tile(np.arange(len(flows[0])), 2)
    order = np.argsort(holders, kind="stable")
    starts = np.searchsorted(holders[order], np.arange(parts.number + 1))
    rows = [place[order[starts[k] : starts[k + 1]]] for k in range(parts.number)]
    return [(flows[0][some], flows[1][some], flows[2][some]) for some in rows]


def _joined(found: Sequence[SeamFlows]) -> SeamFlows:
    none = np.zeros(0, dtype=np.int64)
    first, second, flow = (np.concatenate([none, *(one[i] for one in found)]) for i in range(3))
    return first, second, flow


def _checked_ends(flows: SeamFlows, parts: Parts, sender: int | None = None) -> SeamFlows:
    """The flows, if each is over one pair between two blocks: from the `sender` to a later one, where that is said."""
    first, second, _ = flows
    number = parts.energy.pairs.sites
    for ends in (first, second):
        outside = (ends < 0) | (ends >= number)
        if outside.any():
            raise FaultError(f"a flow is given at site {ends[np.argmax(outside)]}; expected 0 to {number - 1}")
    holders = [parts.holding(ends) for ends in (first, second)]
    same = holders[0] == holders[1]
    if same.any():
        raise FaultError(f"a flow is given over {_pair(first, second, same)}, which does not cross a seam")
    if sender is not None and (odd := (holders[0] != sender) | (holders[1] < sender)).any():
        raise FaultError(f"a flow of block {sender} is over {_pair(first, second, odd)}; expected one to a later block")
    low, high = np.minimum(first, second), np.maximum(first, second)
    order = np.lexsort((high, low))
    again = np.flatnonzero((np.diff(low[order]) == 0) & (np.diff(high[order]) == 0))
    if len(again):
        one = order[again[0]]
        raise FaultError(f"a flow is given over pair ({first[one]}, {second[one]}) more than once")
    return flows


def _checked_amounts(flows: SeamFlows, weights: Reals, unit: Unit) -> Reals:
    """How far rounding has put flows beyond the weights, if they are within them but for that.

    Another exp than ours may have rounded a weight the other way: a unit more is let pass, and counted as lost.
    """
    first, second, flow = flows
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
        return np.asarray(np.maximum(np.abs(flow) / unit.scale - weights, 0.0), dtype=np.float64)


def _pair(first: Sites, second: Sites, which: Mask) -> str:
    one = int(np.argmax(which))
    return f"pair ({first[one]}, {second[one]})"
