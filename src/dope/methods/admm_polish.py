"""What follows ADMM's rounds: labels are swept over, bounded, and brought to their place.

    sweep     over shifted blocks, with all around them fixed (`sweeps`)
    bound     by flows between blocks (`seam_bound`), or the roof dual where weights have both signs (`roof_bound`); the
              labels that these prove are adopted
    finish    the best labels, weighed exactly and written where they belong

On a grid all of it goes over the board, so that it is the same wherever arrays lie and blocks run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np

from dope.arrays import BinaryLabels, Index
from dope.live import LiveLabels
from dope.methods.admm_rounds import AdmmRounds, Round
from dope.methods.exact import Exact
from dope.methods.pieces import Labelling, Layer, boxes_of
from dope.methods.places import places_of
from dope.methods.roof_bound import find_roof_bound, find_roof_proofs
from dope.methods.rounds import Reference
from dope.methods.seam_bound import find_seam_bound
from dope.methods.sweeps import Sweeper, without_overlap
from dope.partition import Partition
from dope.protocols import FlowSolver, Leave, Problem, RoofDualSolver
from dope.rounding import nearest
from dope.steps import AdmmStep, BestLabels, ExactStep, preferred


class Polish:
    """The last step and the best one, with their labels, after rounds that are over."""

    def __init__(self, rounds: AdmmRounds) -> None:
        assert rounds.best is not None and rounds.last is not None
        self._rounds, self._problem, self._boxes = rounds, rounds.problem, rounds.boxes
        self._begins = rounds.best
        self.last, self._labelling = rounds.last.step, rounds.labelling(rounds.last)
        self._best = rounds.best.step, rounds.labelling(rounds.best)
        self._sweeper = Sweeper(rounds.problem, rounds.packed, rounds.most, rounds.live, rounds.log)

    def _take(self, step: AdmmStep, labelling: Labelling) -> None:
        """A step that is the last now; the best is kept."""
        self.last, self._labelling = step, labelling
        if preferred(step, self._best[0]):
            self._best = step, labelling

    # Sweeps.

    def sweep(self, number: int) -> Iterator[AdmmStep]:
        """The steps of so many sweeps over the best labels."""
        if not number:
            return
        rounds = self._rounds
        begins = self._better_of(self._begins)
        rounds.live.begin(rounds.places["owned"], rounds.read_labels)
        for k, post in enumerate(self._begins.rounding):
            rounds.live.show(k, post)
        for done, labelling in enumerate(self._sweeper.sweep(begins, number), start=1):
            labels = None if self._boxes else self._labels_of(labelling)
            energy = self._weighed(labelling, f"weigh-{done:02}") if labels is None else self._problem.energy(labels)
            step = replace(
                self.last,
                round=self.last.round + 1,
                sweep=done,
                energy=energy,
                labels=labels,
                proved=None,
                seconds=time.perf_counter() - rounds.begun,
                stopped=None,
                tasks=rounds.log.read(),
            )
            self._take(step, labelling)
            yield step

    def _better_of(self, best: Round) -> Labelling:
        """The labels of a round, or those to start with, or constant ones: small blocks can do that badly."""
        rounds = self._rounds
        energy, least, labelling = self._problem.energy, best.step.energy, rounds.labelling(best)
        if rounds.started:
            start = Labelling(layers=(Layer(rounds.places["where"], rounds.started),))
            value = self._weighed(start, "weigh-start")
            if value < least:
                labelling, least = start, value
        price = rounds.price
        if energy.constant + min(0.0, price) < least:
            return Labelling(background=price < 0.0)
        return labelling

    def _weighed(self, labelling: Labelling, name: str) -> float:
        return nearest(self._sweeper.weigh(labelling, name)[0])

    def _labels_of(self, labelling: Labelling) -> BinaryLabels:
        energy = self._problem.energy
        whole: Index = energy.whole if self._problem.partition.cuts is not None else np.arange(energy.shape[0])
        return labelling.labels(whole, self._rounds.read_labels)

    # A bound.

    def find_bound(self, rounds: int) -> None:
        """Bound the energy by flows between blocks, in so many rounds, and adopt the labels that they prove.

        Only of several blocks, on a graph without overlap and in this process, and by solvers that have flows.
        """
        problem, partition, solver = self._problem, self._problem.partition, self._problem.solver
        grid = partition.cuts is not None
        here = not self._boxes and not getattr(problem.executor, "elsewhere", False)
        if not rounds or len(partition.blocks) == 1 or not (grid or (here and not partition.overlaps)):
            return
        apart = replace(problem, partition=without_overlap(partition), start=None, live=LiveLabels())
        if problem.energy.submodular and isinstance(solver, FlowSolver):
            if grid:
                self._bound_by_seams(apart, rounds)
            else:
                self._bound_by_flows(_flows(apart, rounds))
        elif not problem.energy.submodular and isinstance(solver, RoofDualSolver):
            if grid:
                found = find_roof_proofs(apart, solver.flow_solver, self._rounds.log, packed=self._rounds.packed)
                self._raise_bound(found.lower_bound)
                self._adopt(apart.partition, found.proofs)
            else:
                roof = find_roof_bound(apart, solver.flow_solver, rounds=rounds)
                self._raise_bound(roof.lower_bound)
                self._adopt_here(roof.decided, roof.labels)

    def _raise_bound(self, bound: float) -> None:
        if self.last.lower_bound is None or bound > self.last.lower_bound:
            self.last = replace(self.last, lower_bound=bound)

    def _bound_by_seams(self, apart: Problem, pushes: int) -> None:
        found = find_seam_bound(apart, pushes=pushes, room=self._rounds.room(), log=self._rounds.log)
        if self.last.lower_bound is None or found.lower_bound >= self.last.lower_bound:
            self.last = replace(self.last, lower_bound=found.lower_bound, certificate=found.certificate)
        self._adopt(apart.partition, found.proofs)

    def _adopt(self, partition: Partition, proofs: Sequence[Reference]) -> None:
        """Take labels that are proved, which does not raise the energy, and count them.

        Where costs were rounded, what is best for the integers can cost a little: the labels stay as they were then.
        """
        step, labelling, energy = self.last, self._labelling, self._problem.energy
        adopted = self._sweeper.adopt(labelling, places_of(energy.pairs, partition, "where"), proofs)
        proved = adopted.decided
        if adopted.agreeing < adopted.decided:
            before, _ = self._sweeper.weigh(labelling, "weigh-last")
            now, _ = self._sweeper.weigh(adopted.labelling, "weigh-adopted")
            if now <= before:
                labelling = adopted.labelling
                labels = None if self._boxes else self._labels_of(labelling)
                step = replace(step, labels=labels, energy=nearest(now))
            else:
                proved = adopted.agreeing
        self._take(replace(step, proved=proved / math.prod(energy.shape)), labelling)

    def _bound_by_flows(self, flows: ExactStep) -> None:
        """The same of a graph, from one residual graph of all of it."""
        assert flows.labels is not None and flows.decided is not None and flows.lower_bound is not None
        if self.last.lower_bound is None or flows.lower_bound >= self.last.lower_bound:
            self.last = replace(self.last, lower_bound=flows.lower_bound, certificate=flows.certificate)
        self._adopt_here(flows.decided, flows.labels.astype(np.bool_, copy=False))

    def _adopt_here(self, decided: BinaryLabels, found: BinaryLabels) -> None:
        step, energy = self.last, self._problem.energy
        assert step.labels is not None
        labels: BinaryLabels = np.where(decided, found, step.labels)
        before, now = energy.exactly(step.labels), energy.exactly(labels)
        if now <= before:
            self.last = replace(step, labels=labels, energy=nearest(now), proved=float(decided.mean()))
        else:
            self.last = replace(step, proved=float((decided & (found == step.labels)).mean()))

    # The end.

    def finish(self) -> BestLabels | None:
        """The best labels, where they belong, with their energy; None where steps have had them."""
        if not self._boxes:
            return None
        problem, rounds, (step, labelling) = self._problem, self._rounds, self._best
        value, ones = self._sweeper.weigh(labelling, "weigh-best")
        labels: BinaryLabels | None = None
        if problem.target is None:
            labels = self._labels_of(labelling)
        elif getattr(problem.target, "anywhere", False):
            self._sweeper.write(labelling, rounds.places["owned"], name=f"written-{rounds.token}")
        else:
            for box in boxes_of(problem.energy.shape):
                problem.target[box] = labelling.labels(box, rounds.read_labels)
        sites = math.prod(problem.energy.shape)
        return BestLabels(value, labels, (sites - ones, ones), step.proved, step.rounding_error)


def _flows(problem: Problem, rounds: int) -> ExactStep:
    """What so many rounds of flows between blocks end with."""
    steps = Exact(rounds=rounds, bracket=True).steps(problem)
    with closing(steps):
        step = next(steps)
        while step.stopped is None:
            step = next(steps) if step.round <= rounds else steps.throw(Leave())
    return step
