"""The minimum of a block in integers, by a maximum flow in NumPy.

Sites with a negative unary have excess, u_i = -excess_i, the others a deficit; over a pair flows at most its weight.
Excess is pushed in waves. A breadth-first search from the deficits gives every site its level, then all excess goes
down level by level, a whole level at once. A site that keeps some of its excess has filled every arc to the level
below, and only arcs that lead up were opened, so its level has risen at the next search; no level ever sinks, and none
reaches the number of sites. Hence waves come to an end: no excess is left that could reach a deficit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dope.arrays import Mask, Sites
from dope.verify.units import MOST_AT_A_SITE, Reals, Units, exact_sum


def block_minimum(own: Reals, added: Units, first: Sites, second: Sites, weights: Units) -> int:
    """The minimum of (own + added)'y + sum of weights |y_i - y_j|; `own` holds whole numbers of any size.

    A unary beyond its reach, the weights of its site's pairs together, decides the label whatever the neighbours do.
    It is cut off there, and what was cut off is added again where the label is 1.
    """
    reach = np.zeros(len(own), dtype=np.int64)
    np.add.at(reach, first, weights)
    np.add.at(reach, second, weights)
    sure = np.abs(own) > 4.0 * MOST_AT_A_SITE
    unary = np.where(sure, 0.0, own).astype(np.int64) + added
    cut = np.where(sure, np.where(own > 0.0, reach, -reach), np.clip(unary, -reach, reach))
    below = sure & (own < 0.0)
    rest = exact_sum(own[below]) + exact_sum((added - cut)[below]) + exact_sum(np.minimum(unary - cut, 0)[~sure])
    return rest + proved_minimum(cut, first, second, weights)


def proved_minimum(unary: Units, first: Sites, second: Sites, weights: Units) -> int:
    """The minimum of unary'y + sum of weights |y_i - y_j|, proved by a flow and reached by labels.

    A flow f from i to j leaves u_i + f, u_j - f and, of the pair, w - f and w + f, for either way to differ. While
    those are not negative, no labels cost less than all negative unaries together. However the flow was found.
    """
    flow, labels = _maximum_flow(-unary, first, second, weights)
    left = unary.copy()
    np.add.at(left, first, flow)
    np.subtract.at(left, second, flow)
    bound = exact_sum(np.minimum(left, 0))
    cost = exact_sum(unary[labels]) + exact_sum(weights[labels[first] != labels[second]])
    if bound != cost or np.any(np.abs(flow) > weights):
        raise RuntimeError(f"the flow of a block leaves {bound} and its labels cost {cost}; expected a proved minimum")
    return bound


def _maximum_flow(excess: Units, first: Sites, second: Sites, weights: Units) -> tuple[Units, Mask]:
    """What flows from first to second, and the sites from which no deficit can be reached."""
    pairs = len(first)
    tail = np.concatenate([first, second])
    order = np.argsort(tail, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(2 * pairs)
    network = _Network(
        starts=np.searchsorted(tail[order], np.arange(len(excess) + 1)),
        heads=np.concatenate([second, first])[order],
        backs=np.roll(place, pairs)[order],
        room=np.tile(weights, 2)[order],
        excess=excess,
    )
    labels = network.run()
    return weights - network.room[place[:pairs]], labels


@dataclass(eq=False)
class _Network:
    """Arcs by rows, those from site i at starts[i] to starts[i + 1]; `backs` are the arcs the other way.

    Invariants: room >= 0, and room over an arc and back add up to twice the pair's weight.
    """

    starts: Sites
    heads: Sites
    backs: Sites
    room: Units
    excess: Units
    slots: Sites = field(init=False)

    def __post_init__(self) -> None:
        self.slots = np.zeros(len(self.excess), dtype=np.int64)

    def run(self) -> Mask:
        """Push all excess that can reach a deficit; the sites that cannot reach one in the end."""
        active = np.flatnonzero(self.excess > 0)
        while True:
            level = self._levels(active)
            # What cannot reach a deficit now never will: nothing is pushed towards it.
            active = active[level[active] < len(level)]
            if not len(active):
                return np.equal(level, len(level))
            active = self._wave(active, level)

    def _levels(self, active: Sites) -> Sites:
        """Arcs to the nearest deficit, the number of sites where there is none; no further than to all active sites."""
        far = len(self.excess)
        level = np.full(far, far, dtype=np.int64)
        layer = np.flatnonzero(self.excess < 0)
        level[layer] = 0
        missing, steps = len(active), 0
        while len(layer) and (missing or not len(active)):
            arcs, _ = self._arcs(layer)
            near = self.heads[arcs]
            layer = self._once(near[(level[near] == far) & (self.room[self.backs[arcs]] > 0)])
            steps += 1
            level[layer] = steps
            missing -= int(np.count_nonzero(self.excess[layer] > 0))
        return level

    def _wave(self, active: Sites, level: Sites) -> Sites:
        """All excess down to the deficits, as far as there is room; the sites that have excess after it."""
        order = active[np.argsort(level[active], kind="stable")]
        starts = np.searchsorted(level[order], np.arange(level[order[-1]] + 2))
        touched, pushed = [active], order[:0]
        for step in range(len(starts) - 2, 0, -1):
            sites = self._once(np.concatenate([order[starts[step] : starts[step + 1]], pushed]))
            pushed = self._push(sites, level, step - 1) if len(sites) else sites
            touched.append(pushed)
        reached = self._once(np.concatenate(touched))
        return reached[self.excess[reached] > 0]

    def _push(self, sites: Sites, level: Sites, below: int) -> Sites:
        """Excess of all sites at once to their neighbours on the level below; the sites that got some.

        The arcs of a site are filled in their order: into each goes what the room of those before it left over. The
        running sum of all rooms may overflow and wrap around, but differences of it within a site are right again.
        """
        arcs, lengths = self._arcs(sites)
        room = np.where(level[self.heads[arcs]] == below, self.room[arcs], 0)
        filled = np.cumsum(room) - room
        filled -= np.repeat(filled[np.cumsum(lengths) - lengths], lengths)
        amounts = np.clip(np.repeat(self.excess[sites], lengths) - filled, 0, room)
        used = np.flatnonzero(amounts)
        arcs, amounts = arcs[used], amounts[used]
        heads = self.heads[arcs]
        self.room[arcs] -= amounts
        self.room[self.backs[arcs]] += amounts
        np.add.at(self.excess, heads, amounts)
        np.subtract.at(self.excess, np.repeat(sites, lengths)[used], amounts)
        return self._once(heads)

    def _arcs(self, sites: Sites) -> tuple[Sites, Sites]:
        """The arcs from all these sites, and how many each has."""
        lengths = self.starts[sites + 1] - self.starts[sites]
        stops = np.cumsum(lengths)
        arcs: Sites = np.repeat(self.starts[sites] - stops + lengths, lengths) + np.arange(lengths.sum())
        return arcs, lengths

    def _once(self, sites: Sites) -> Sites:
        """The sites without repetition: of each, the entry whose number its slot kept."""
        numbers = np.arange(len(sites))
        self.slots[sites] = numbers
        kept: Mask = self.slots[sites] == numbers
        return sites[kept]
