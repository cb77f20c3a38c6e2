"""A run of `Moves`: what is proved, what is left, and what moves make of that."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from dope.arrays import BinaryLabels, Labels, Mask
from dope.cancellation import check_cancelled
from dope.energy import Energy
from dope.label_energy import LabelEnergy
from dope.live import LiveLabels
from dope.methods.exact import Exact
from dope.methods.label_arrays import LabelArrays
from dope.methods.label_boxes import LabelBoxes
from dope.methods.label_moves import Kind, Mover, Solve, solving
from dope.methods.label_proof import LabelProof
from dope.methods.open_part import MEMORY, PART_SHARE, OpenPart, message_bytes
from dope.methods.side_by_side import cycle_in_boxes, partitions, trying
from dope.methods.small_parts import settle_small
from dope.pairs import GraphPairs, GridPairs, TablePairs
from dope.partition import Partition
from dope.protocols import Answer, FlowSolver, Problem
from dope.rounding import nearest, rounded_down
from dope.steps import LabelStep
from dope.sums import exact_sum

# Ties are settled among at most so many open sites: one label at a time, each a cut for every label that follows.
MOST_TIES = 1 << 17


class LabelRun:
    """Its labels are those of the ground; `rest` is what is paid outside the part that is left."""

    def __init__(
        self, energy: LabelEnergy, problem: Problem, kind: Kind, *, rounds: int = 0, prove: bool = True
    ) -> None:
        self._problem, self._kind, self._rounds = problem, kind, rounds
        self.ground: LabelArrays | LabelBoxes = (
            LabelBoxes(energy, problem, f"Moves(kind={kind!r}, prove={prove})")
            if problem.in_boxes
            else LabelArrays(energy, problem)
        )
        self._energy = self.ground.energy
        self._sites = energy.pairs.sites
        self._round = 0
        self._bound: Fraction | None = None
        self._value: Fraction | None = None
        problem.live.show(self.ground.read)

    @property
    def _provable(self) -> bool:
        metric = self._energy.metric
        potts = metric is not None and metric.kind == "potts" and self._energy.is_metric
        return potts and isinstance(self._problem.solver, FlowSolver)

    def prove(self) -> Iterator[LabelStep]:
        """Labels that are decided whatever the others are."""
        if self._provable:
            for label, changed in self.ground.prove():
                yield self._step("prove", label=label, changed=changed)

    def move(self, cycles: int | None) -> Iterator[LabelStep]:
        """The rest."""
        if not self.ground.left:
            return
        part = self.ground.part()
        if part is None and isinstance(self.ground, LabelBoxes):
            yield from self._swept(self.ground, cycles)
            return
        if part is None:
            yield from self._moved(_Rest(self._energy, self.ground.labels, self.ground.open), cycles)
            return
        if not self.ground.given:
            self._put(part, part.cheapest())
        if self._provable:
            part = yield from self._proved_again(part)
            part = yield from self._settled(part)
        if len(part.sites):
            labels = self.ground.labels.ravel()[part.sites]
            yield from self._moved(_Rest(part.energy, labels, np.ones(len(labels), dtype=np.bool_), part), cycles)

    def _proved_again(self, part: OpenPart) -> Any:
        """What is left of a part once labels are proved that follow from those that are fixed by now."""
        while len(part.sites):
            pairs = part.energy.pairs
            assert isinstance(pairs, GraphPairs)
            problem = replace(self._problem, partition=Partition.graph(pairs, 1))
            proof = LabelProof(part.energy, problem)
            changed = sum(proof.prove(label) for label in range(self._energy.label_count))
            if not changed and len(part.sites) <= MOST_TIES:
                changed = proof.settle()
            if not changed:
                return part
            self.ground.rounding_error += proof.rounding_error + part.slack
            labels = self.ground.labels.ravel()[part.sites]
            labels[~proof.open] = proof.labels[~proof.open]
            self._put(part, labels)
            self.ground.open.reshape(-1)[part.sites[~proof.open]] = False
            yield self._step("prove", changed=changed)
            part = part.rest(labels, proof.open)
        return part

    def _settled(self, part: OpenPart) -> Any:
        """What is left once all labellings of small pieces are looked at."""
        found = settle_small(part.energy)
        changed = int(np.count_nonzero(found.sites))
        if not changed:
            return part
        labels = np.where(found.sites, found.labels, self.ground.labels.ravel()[part.sites])
        self.ground.rounding_error += found.slack + part.slack
        self._put(part, labels)
        self.ground.open.reshape(-1)[part.sites[found.sites]] = False
        yield self._step("prove", changed=changed)
        return part.rest(labels, ~found.sites)

    def _put(self, part: OpenPart, labels: Labels) -> None:
        self.ground.labels.reshape(-1)[part.sites] = labels

    def _moved(self, rest: _Rest, cycles: int | None) -> Iterator[LabelStep]:
        outside = self.ground.exactly() - rest.energy.exactly(rest.labels)
        if not self.ground.given and not self._provable:
            rest.begin()
            if rest.part is not None:
                self._put(rest.part, rest.labels)
        slack = 0.0 if rest.part is None else rest.part.slack
        error = Fraction(self.ground.rounding_error) + Fraction(slack)
        self._bound = outside + rest.bound() - error
        self._value = outside + rest.energy.exactly(rest.labels)
        # Moves of convex costs end in a minimum, and prove it: messages would tell nothing more.
        if not rest.energy.is_convex:
            yield from self._bounded(rest, outside, error)
        mover = Mover(rest.energy, rest.labels, rest.free, solve_with(self._problem), cut_off=self._kind == "jump")
        boxes = partitions(mover)
        done, changed = 0, 1
        while (changed or done <= len(boxes)) and not self._closed and (cycles is None or done < cycles):
            if done < len(boxes):
                changed = cycle_in_boxes(mover, self._kind, boxes[done], self._problem)
            else:
                mover.together = trying(self._problem) if boxes else None
                changed = sum(mover.cycle(self._kind))
            if rest.part is not None:
                self._put(rest.part, rest.labels)
            self._value = outside + rest.energy.exactly(rest.labels)
            done += 1
            if mover.at_minimum:
                self._bound = self._value - error
            yield self._step("move", changed=changed, labels=True)
        if rest.energy.is_convex and not self._closed:
            yield from self._bounded(rest, outside, error)

    @property
    def _closed(self) -> bool:
        """Whether the labels are known to be a minimum."""
        return self._value is not None and self._bound is not None and self._value <= self._bound

    def _bounded(self, rest: _Rest, outside: Fraction, error: Fraction) -> Iterator[LabelStep]:
        """Message passing, for a better bound; its labels are taken over where they are the better ones."""
        solver, bound = self._problem.label_solver, self._bound
        room = (self._problem.memory or MEMORY) // PART_SHARE
        if solver is None or self._rounds == 0 or message_bytes(rest.energy) > room:
            yield self._step("bound", labels=True)
            return
        assert bound is not None
        threads = 1 if getattr(self._problem.executor, "elsewhere", False) else self._problem.executor.workers
        messages = solver.prepare(rest.energy, threads=threads)
        for now in messages.steps():
            check_cancelled()
            if math.isfinite(now.bound):
                bound = max(bound, outside + Fraction(now.bound) - error)
            if now.rounds >= self._rounds:
                break
            self._bound = bound
            yield self._step("bound")
        self._bound = bound
        found = np.where(rest.free, messages.labels(), rest.labels)
        if rest.energy.exactly(found) < rest.energy.exactly(rest.labels):
            rest.labels[...] = found
            if rest.part is not None:
                self._put(rest.part, rest.labels)
        self._value = outside + rest.energy.exactly(rest.labels)
        yield self._step("bound", labels=True)

    def _swept(self, ground: LabelBoxes, cycles: int | None) -> Iterator[LabelStep]:
        """Blocks of two partitions by turns, everything around a block fixed, until none of either gains."""
        self._bound = ground.begin(self._rounds) - Fraction(ground.rounding_error)
        sweeps, idle = 0, 0
        while idle < 2 and (cycles is None or sweeps < 2 * cycles):
            changed = ground.sweep(self._kind, shifted=sweeps % 2 == 1)
            sweeps += 1
            idle = 0 if changed else idle + 1
            yield self._step("sweep", changed=changed)

    def _step(self, doing: str, *, label: int | None = None, changed: int = 0, labels: bool = False) -> LabelStep:
        self._round += 1
        left = self.ground.left
        value, bound = self._value, self._bound
        return LabelStep(
            round=self._round,
            energy=None if value is None else nearest(value),
            labels=self.ground.read(None) if labels and not self._problem.in_boxes else None,
            lower_bound=None if bound is None else rounded_down(bound),
            proved=1.0 - left / self._sites,
            rounding_error=self.ground.rounding_error,
            doing=doing,
            label=label,
            changed=changed,
            open=left,
        )

    def last(self, stopped: str | None) -> LabelStep:
        """Where it ends: the labels, their energy, and what bounds it."""
        self._value = self.ground.exactly()
        written = self._problem.in_boxes and self._problem.target is not None
        if written:
            self.ground.write(self._problem.target)
        exact = not self.ground.left
        if exact:
            self._bound = self._value - Fraction(self.ground.rounding_error)
        exact = exact or self._closed
        why = stopped or ("exact" if exact else "settled")
        step = replace(self._step("end"), exact=exact, stopped=why, counts=self.ground.counts())
        return replace(step, labels=None if written else self.ground.read(None), proved=1.0 if exact else step.proved)


class _Rest:
    """What moves work on: an energy, its labels, and the sites that are free."""

    def __init__(self, energy: LabelEnergy, labels: Labels, free: Mask, part: OpenPart | None = None) -> None:
        self.energy, self.labels, self.free, self.part = energy, labels, free, part

    def begin(self) -> None:
        """Take one label everywhere where that costs less, which it does where single sites know little.

        Expansions of the tsukuba pair end at 369,829 from there, at 370,889 from each site's best label.
        """
        energy, free = self.energy, self.free
        sums = (energy.costs if free.all() else energy.costs[free]).reshape(-1, energy.label_count).sum(axis=0)
        uniform = np.where(free, self.labels.dtype.type(np.argmin(sums)), self.labels)
        if energy.exactly(uniform) < energy.exactly(self.labels):
            self.labels[...] = uniform

    def bound(self) -> Fraction:
        """Every site takes its least cost, fixed ones their own, and every pair the least it can pay."""
        energy = self.energy
        fixed = np.take_along_axis(energy.costs, self.labels[..., None].astype(np.int64), axis=-1)[..., 0]
        least = np.where(self.free, energy.costs.min(axis=-1), fixed).astype(np.float64)
        if isinstance(energy.pairs, GridPairs) and energy.pairs.inside is not None:
            least[~energy.pairs.inside] = 0
        return Fraction(energy.constant) + exact_sum(np.ascontiguousarray(least)) + _least_of_pairs(energy)


def _least_of_pairs(energy: LabelEnergy) -> Fraction:
    pairs = energy.pairs
    if isinstance(pairs, TablePairs):
        return exact_sum(np.ascontiguousarray(pairs.tables.min(axis=(1, 2))))
    assert energy.metric is not None
    matrix = energy.metric.matrix(energy.label_count)
    low, high = Fraction(float(min(0.0, matrix.min()))), Fraction(float(max(0.0, matrix.max())))
    of_pairs = low * pairs.attractive.total() if low else Fraction(0)
    if pairs.lowest < 0.0:
        of_pairs -= high * pairs.repulsive.total()
    return of_pairs


def solve_with(problem: Problem) -> Solve:
    """How moves are solved: over the blocks of the problem where it has several, and threads to work on them."""
    whole, partition = solving(problem.solver), problem.partition
    threads = len(partition.blocks) > 1 and not getattr(problem.executor, "elsewhere", False)

    def solve(choice: Energy, start: BinaryLabels) -> Answer:
        in_blocks = threads and choice.shape == partition.shape and isinstance(choice.pairs, GridPairs)
        if in_blocks and choice.submodular and isinstance(problem.solver, FlowSolver):
            return _solved_in_blocks(choice, problem)
        return whole(choice, start)

    return solve


def _solved_in_blocks(choice: Energy, problem: Problem) -> Answer:
    binary = replace(problem, energy=choice, start=None, live=LiveLabels(), certificate=None)
    *_, last = Exact().steps(binary)
    assert last.labels is not None
    return Answer(last.labels.astype(np.bool_, copy=False), exact=True, rounding_error=last.rounding_error)
