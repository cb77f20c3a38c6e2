"""The ground that moves stand on where all arrays are in memory: labels so far, what is open, and the proof."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, Labels, Mask
from dope.label_counts import count_labels
from dope.label_energy import LabelEnergy
from dope.methods.label_proof import LabelProof
from dope.methods.open_part import WORTH_A_GRAPH, OpenPart, fits
from dope.pairs import GraphPairs, GridPairs
from dope.protocols import Problem


class LabelArrays:
    """Labels in memory; where they are `open`, others may be better."""

    def __init__(self, energy: LabelEnergy, problem: Problem) -> None:
        self.energy, self._problem = energy, problem
        self.rounding_error = 0.0
        self.given = problem.start is not None
        inside = energy.pairs.inside if isinstance(energy.pairs, GridPairs) else None
        self.open: Mask = np.ones(energy.shape, dtype=np.bool_) if inside is None else inside.copy()
        self.labels: Labels = np.zeros(energy.shape, dtype=energy.label_type)
        if problem.start is not None:
            self.labels[:] = problem.start.labels
        else:
            self.labels[:] = cheapest(energy.costs, inside)
        self.labels[~self.open] = 0

    def read(self, box: Box | None) -> Labels:
        """A copy of the labels of a box, or of all."""
        return np.array(self.labels if box is None else self.labels[box])

    @property
    def left(self) -> int:
        """How many sites are open."""
        return int(np.count_nonzero(self.open))

    def prove(self) -> Iterator[tuple[int, int]]:
        """Decide sites for one label after the other: the label, and how many."""
        proof = LabelProof(self.energy, self._problem)
        self.rounding_error += proof.rounding_error
        for label in range(self.energy.label_count):
            before = proof.prove(label)
            decided = self.open & ~proof.open
            self.labels[decided] = proof.labels[decided]
            self.open[decided] = False
            yield label, before

    def part(self) -> OpenPart | None:
        """What is open as a problem of its own, None where that is most of all sites."""
        left, sites = self.left, self.energy.pairs.sites
        if not fits(self.energy, left, self._problem.memory):
            return None
        limit = sites if isinstance(self.energy.pairs, GraphPairs) else WORTH_A_GRAPH * sites
        return OpenPart.of(self.energy, self.labels, self.open) if left < limit else None

    def counts(self) -> tuple[int, ...]:
        """How many sites have each label."""
        return tuple(count_labels(self.labels, self.energy.label_count).tolist())

    def write(self, target: Any) -> None:
        """Put the labels where they are wanted."""
        target[self.energy.whole] = self.labels

    def exactly(self) -> Fraction:
        """The energy of the labels."""
        return self.energy.exactly(self.labels)


def cheapest(costs: npt.NDArray[Any], inside: Mask | None) -> npt.NDArray[np.int64]:
    """The first label that costs least at each site by itself; anything outside a mask."""
    if inside is not None and costs.dtype.kind == "f":
        costs = np.where(inside[..., None], costs, costs.dtype.type(0))
    found: npt.NDArray[np.int64] = np.argmin(costs, axis=-1)
    return found
