"""Pieces of an open part that are so small that all their labellings are looked at.

A label a that costs a site no less than its cheapest label and all its pairs together can be left out: whatever its
neighbours take, the cheapest one costs no more (Potts). What is left is often two or three labels at each of a few
sites, connected to no other: where three labels meet, say, and no cut of one label against all others can tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dope.arrays import MOST_PLACES, Labels, Mask, Sites, measure_span
from dope.cancellation import check_cancelled
from dope.label_energy import LabelEnergy
from dope.methods.open_part import MOST_UNITS
from dope.pairs import GraphPairs

# Labellings of a piece that are looked at, and pieces: 2^14 of 12 sites take a few milliseconds.
MOST_LABELINGS = 1 << 14
MOST_SITES = 14


@dataclass(frozen=True, eq=False)
class Settled:
    """Which sites of a part have their labels for good; `slack` is how far sums can be from their terms."""

    labels: Labels
    sites: Mask
    slack: float


def settle_small(energy: LabelEnergy) -> Settled:
    """The best labels of all small pieces of a graph (Potts, no negative weight)."""
    pairs = energy.pairs
    assert isinstance(pairs, GraphPairs)
    labels: Labels = np.zeros(pairs.sites, dtype=energy.label_type)
    settled: Mask = np.zeros(pairs.sites, dtype=np.bool_)
    first, second, weights = pairs.edges()
    wanted = _worth_taking(energy, first, second, weights)
    slack, exactly = 0.0, _exact_up_to(energy)
    for sites, joins in _pieces(pairs.sites, first, second):
        check_cancelled()
        choices = [np.flatnonzero(wanted[site]) for site in sites]
        if np.prod([float(len(one)) for one in choices]) > MOST_LABELINGS:
            continue
        ends = np.searchsorted(sites, first[joins]), np.searchsorted(sites, second[joins])
        labels[sites], largest = _best(energy.costs[sites], choices, *ends, weights[joins])
        settled[sites] = True
        if largest > exactly:
            slack += 2.0 * (len(sites) + len(joins)) * largest * float(np.finfo(np.float64).eps)
    return Settled(labels, settled, slack)


def _exact_up_to(energy: LabelEnergy) -> float:
    """Sums of costs and weights no larger than this are exact: all are binary fractions."""
    pairs = energy.pairs
    assert isinstance(pairs, GraphPairs)
    places, of_pairs = measure_span(energy.costs, most=MOST_PLACES).places, pairs.binary_places()
    if places is None or of_pairs is None:
        return 0.0
    return float(MOST_UNITS / 2.0 ** max(places, of_pairs))


def _worth_taking(energy: LabelEnergy, first: Sites, second: Sites, weights: npt.NDArray[np.float64]) -> Mask:
    """Labels of each site that some minimum may need."""
    costs = energy.costs
    strength = np.bincount(first, weights, len(costs)) + np.bincount(second, weights, len(costs))
    least = costs.min(axis=1, keepdims=True)
    wanted: Mask = (costs < least + strength[:, None]) | (costs == least)
    return wanted


def _pieces(number: int, first: Sites, second: Sites) -> Iterator[tuple[Sites, Sites]]:
    """Sites, rising, that are connected to each other and no more than a few, and the numbers of their pairs."""
    leader = np.arange(number)
    while True:  # the least site that is known to be connected, of all at once
        before = leader.copy()
        least = np.minimum(leader[first], leader[second])
        np.minimum.at(leader, leader[first], least)
        np.minimum.at(leader, leader[second], least)
        leader = leader[leader]
        if (leader == before).all():
            break
    size = np.bincount(leader, minlength=number)
    order = np.argsort(leader, kind="stable")
    by_piece = np.argsort(leader[first], kind="stable")
    heads = leader[first][by_piece]
    ends = np.cumsum(size)
    for head in np.flatnonzero((size > 0) & (size <= MOST_SITES)):
        low, high = np.searchsorted(heads, [head, head + 1])
        yield order[ends[head] - size[head] : ends[head]], by_piece[low:high]


def _best(
    costs: npt.NDArray[np.float64],
    choices: list[Sites],
    first: Sites,
    second: Sites,
    weights: npt.NDArray[np.float64],
) -> tuple[Sites, float]:
    """The first of all labellings that costs least, and the most that any adds up to on the way."""
    labelings = np.stack([axis.ravel() for axis in np.meshgrid(*choices, indexing="ij")])
    energy = np.zeros(labelings.shape[1])
    for site, taken in enumerate(labelings):
        energy += costs[site, taken]
    for tail, head, weight in zip(first, second, weights, strict=True):
        energy += weight * (labelings[tail] != labelings[head])
    best: Sites = labelings[:, int(np.argmin(energy))]
    return best, float(np.abs(costs).max(axis=1).sum() + weights.sum())
