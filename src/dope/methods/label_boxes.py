"""The ground that moves stand on where arrays are read box by box: proofs over blocks, and what is open as one problem.

Every cut of the proof is a run of `Bracketing`, whose blocks may lie anywhere. Labels, a byte or two of a site, and
what is open, are kept here: in memory, or in a file that is mapped. What is open in the end is gathered from the boxes
that have some of it; where it is too much for one problem, blocks of two partitions by turns improve it, everything
around a block fixed (`label_sweeps`).
"""

from __future__ import annotations

import hashlib
import math
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, Labels, Mask, Reals
from dope.boards import Chapter, MemoryBoard
from dope.cancellation import check_cancelled
from dope.energy import Energy
from dope.errors import DopeError
from dope.facts import measure_facts
from dope.fixed_point import Costs, FixedPoint
from dope.label_costs import Prices
from dope.label_counts import count_labels
from dope.label_energy import LabelEnergy
from dope.live import LiveLabels
from dope.methods.bracketing import Bracketing
from dope.methods.label_blocks import Around, Ask, Begin, BlockRecipe, Bound, Gather, Improve, Joins, Weigh
from dope.methods.label_journal import LabelJournal
from dope.methods.label_moves import Kind
from dope.methods.margins import two_least
from dope.methods.open_part import MEMORY, PART_SHARE, OpenPart, fits, joined
from dope.methods.tiling import bounding_box, moved
from dope.pairs import GridPairs
from dope.protocols import Problem, require_flow_solver
from dope.stored import Stored, StoredCosts, StoredUnary

# Labels and what is open are held in memory as far as they take no more than this part of what may be used.
HELD_SHARE = 8
# Boxes that are asked at once.
BOXES_PER_WORKER = 4


class LabelBoxes:
    """Labels in memory or in a mapped file; where they are `open`, others may be better."""

    def __init__(self, energy: LabelEnergy, problem: Problem, method: str) -> None:
        """`method` tells what rounds there will be."""
        self._problem = problem
        self._measured = measure_facts(_all_prices(energy), problem.partition, problem.executor)
        self.energy = replace(energy, pairs=self._measured.pairs)
        self.rounding_error = 0.0
        self.given = problem.start is not None
        self._memory = problem.memory or MEMORY
        self.labels: Labels = self._held(energy.label_type)
        self.open: Mask = self._held(np.dtype(np.bool_))
        for box in self._boxes:
            check_cancelled()
            inside = _grid(energy).inside
            self.open[box] = True if inside is None else inside[box]
            if problem.start is not None:
                self.labels[box] = np.where(self.open[box], problem.start.labels[box], 0)
        problem.board.begin(self._manifest(method))
        self._journal = LabelJournal(problem.board, self._boxes, self.labels, self.open)

    def _manifest(self, method: str) -> dict[str, Any]:
        """What posts follow from."""
        facts, pairs, metric = self._measured.facts, _grid(self.energy), self.energy.metric
        assert facts is not None and metric is not None
        prices = metric.matrix(self.energy.label_count)
        return {
            "method": method,
            "shape": list(self.energy.shape),
            "labels": self.energy.label_count,
            "metric": hashlib.sha256(prices.astype("<f8").tobytes()).hexdigest(),
            "arrays": facts.digest,
            "kernel": pairs.offsets.tolist(),
            "weights": [value.hex() for value in pairs.factors.tolist()],
            "beta": float(pairs.beta or 0.0).hex(),
            "blocks": [list(axis) for axis in self._problem.partition.cuts or ()],
        }

    def _held(self, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        shape = self.energy.shape
        if math.prod(shape) * dtype.itemsize * HELD_SHARE <= self._memory:
            return np.zeros(shape, dtype=dtype)
        folder = tempfile.TemporaryDirectory(prefix="dope-labels-")
        held = np.memmap(Path(folder.name) / "labels", dtype=dtype, mode="w+", shape=shape)
        weakref.finalize(self, folder.cleanup)
        return held

    @property
    def _boxes(self) -> list[Box]:
        return [cast("Box", block.where) for block in self._problem.partition.blocks]

    def read(self, box: Box | None) -> Labels:
        """A copy of the labels of a box, or of all."""
        return np.array(self.labels if box is None else self.labels[box])

    @property
    def left(self) -> int:
        """How many sites are open."""
        return sum(int(np.count_nonzero(self.open[box])) for box in self._boxes)

    def prove(self) -> Iterator[tuple[int, int]]:
        """Decide sites for one label after the other: the label, and how many."""
        solver = require_flow_solver(self._problem.solver, "open_flow", method="a proof of labels")
        facts = self._measured.facts
        assert facts is not None
        facts = replace(facts, total=facts.total / self.energy.label_count)
        fixed = FixedPoint.for_costs(Costs.measured(replace(self._measured, facts=facts)), solver.bits)
        self.rounding_error += fixed.error
        for label in range(self.energy.label_count):
            target, energy = ClaimTarget(self.labels, self.open, label), self.energy.against(label)
            board = self._problem.board
            problem = replace(
                self._problem, energy=replace(energy, facts=facts), fixed=fixed, start=None, target=target,
                board=Chapter(board, f"label-{label:04}") if board.shared else MemoryBoard(), live=LiveLabels(),
                in_boxes=True,
            )  # fmt: skip
            yield label, self._journal.play(lambda: _claimed(problem, target))  # noqa: B023 - it is called at once

    def part(self) -> OpenPart | None:
        """What is open as a problem of its own, None where that is too much for one."""
        if not fits(self.energy, self.left, self._memory):
            return None
        assert self.energy.metric is not None
        boxes = self._open_boxes(self._boxes)
        return joined([piece for _, piece in self.asked(boxes, Gather)], self.energy.metric)

    def begin(self, rounds: int) -> Fraction:
        """Labels for what is open, each the best beside those that are fixed; and a lower bound of the energy.

        It is that of messages, so many rounds of them, within boxes: pairs that leave a box are left out.
        """
        boxes = self._open_boxes(self._boxes)
        before = np.array(self.labels) if self.given else None
        for box, labels in self.asked(boxes, Begin):
            self.labels[box] = np.where(self.open[box], labels, self.labels[box])
        bound = self.exactly() - sum((joins for _, joins in self.asked(boxes, Joins)), Fraction(0))
        solver = self._problem.label_solver if rounds else None
        room = self._memory // PART_SHARE // self._problem.executor.workers
        for _, gain in self.asked(boxes, lambda around: Bound(around, solver, rounds, room)):
            bound += gain
        if before is not None:
            self.labels[...] = before
        return bound

    def sweep(self, kind: Kind, *, shifted: bool) -> int:
        """Have every block with open sites lower the energy, those that share no pair at once; sites changed."""
        return self._journal.play(lambda: self._swept(kind, shifted=shifted))

    def _swept(self, kind: Kind, *, shifted: bool) -> int:
        partition = self._problem.partition.shifted() if shifted else self._problem.partition
        changed = 0
        for members in partition.apart(_grid(self.energy)):
            blocks = [cast("Box", partition.blocks[k].where) for k in members]
            # A block is asked with its open sites' box only; blocks of a class stay apart all the same.
            for box, labels in self.asked(self._open_boxes(blocks), lambda around: Improve(around, kind)):
                if labels is not None:
                    changed += int(np.count_nonzero(self.labels[box] != labels))
                    self.labels[box] = labels
        return changed

    def _open_boxes(self, blocks: Sequence[Box]) -> list[Box]:
        return [box for box in map(self._open_box, blocks) if box is not None]

    def _open_box(self, block: Box) -> Box | None:
        """The smallest box in a block that holds all its open sites."""
        found = bounding_box(self.open[block])
        return None if found is None else moved(found, [s.start for s in block])

    def exactly(self) -> Fraction:
        """The energy of the labels."""
        return sum((part for _, part in self.asked(self._boxes, Weigh)), Fraction(self.energy.constant))

    def counts(self) -> tuple[int, ...]:
        """How many sites have each label."""
        total = np.zeros(self.energy.label_count, dtype=np.int64)
        for box in self._boxes:
            total += count_labels(self.labels[box], len(total))
        return tuple(total.tolist())

    def write(self, target: Any) -> None:
        """Put the labels where they are wanted."""
        for box in self._boxes:
            check_cancelled()
            target[box] = np.array(self.labels[box])

    def asked(self, boxes: Sequence[Box], ask: Callable[[Around], Ask]) -> Iterator[tuple[Box, Any]]:
        """What becomes of some boxes, with labels and open sites as they are when they are asked."""
        pairs = _grid(self.energy)
        # So many at once: what they are sent, and answer, is here for as long.
        most = BOXES_PER_WORKER * self._problem.executor.workers
        for low in range(0, len(boxes), most):
            check_cancelled()
            some = boxes[low : low + most]
            places = [pairs.around(box) for box in some]
            messages = [ask(Around(np.array(self.labels[near]), np.array(self.open[near]))) for near in places]
            recipes = [BlockRecipe(self.energy, box, self._problem.solver) for box in some]
            with self._problem.executor.gather(recipes) as crew:
                replies = crew.ask(messages)
            yield from zip(some, replies, strict=True)


def _claimed(problem: Problem, target: ClaimTarget) -> int:
    for _ in Bracketing().steps(problem):
        pass
    return target.claimed


class ClaimTarget:
    """Where blocks write the smallest minimizer of a label: where it is 1, that is the label, for good."""

    def __init__(self, labels: Labels, open_sites: Mask, label: int) -> None:
        self._labels, self._open, self._label = labels, open_sites, label
        self.shape = labels.shape
        self.claimed = 0

    def __setitem__(self, box: Box, claims: Mask) -> None:
        mine = self._open[box]
        if not mine[claims].all():
            raise DopeError("a site is proved for two labels; this is a fault of dope, please report it.")
        mine[claims] = False
        self._labels[box][claims] = self._label
        self.claimed += int(np.count_nonzero(claims))


class AllPrices(Prices):
    """What every label costs over the best other one at each site, labels last."""

    def at(self, box: Box) -> Reals:
        costs = self.costs[box]
        with np.errstate(invalid="ignore"):  # outside a mask costs may be anything
            least, second, first = two_least(costs)
            prices: Reals = costs - least[..., None]
            np.put_along_axis(prices, first[..., None], (least - second)[..., None], axis=-1)
        return prices


def _all_prices(energy: LabelEnergy) -> Energy:
    """An energy of which facts can be measured that are true of every label's."""
    costs: Any = energy.costs
    if isinstance(costs, np.ndarray):
        costs = StoredCosts(Stored("costs", costs, channels=costs.ndim - 1), energy.label_count)
    return Energy(cast("Reals", StoredUnary(AllPrices(costs))), _grid(energy), energy.constant)


def _grid(energy: LabelEnergy | Energy) -> GridPairs:
    assert isinstance(energy.pairs, GridPairs)
    return energy.pairs
