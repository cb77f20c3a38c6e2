"""Layers: the global minimum of ordered labels whose metric is convex, whatever they cost, by one cut (`dope.layers`).

The energy of layers is one of two labels, which `Exact` minimizes over the same blocks, columns whole. Its smallest
minimizer is the smallest labelling of least energy, for any blocks and threads. A lower bound of it is one of E: every
labelling is one of layers.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dope.arrays import Box, Labels
from dope.errors import InputError
from dope.fixed_point import Costs, FixedPoint
from dope.label_energy import LabelEnergy
from dope.layers import LayeredEnergy, LayerNumbers
from dope.live import LiveLabels
from dope.methods.exact import Exact
from dope.methods.label_arrays import cheapest
from dope.methods.moves import label_energy_of
from dope.pairs import GraphPairs, GridPairs
from dope.protocols import Leave, Problem, require_flow_solver
from dope.rounding import nearest, rounded_down
from dope.steps import ExactStep, LabelStep

# Up to so many pairs, costs that have to be rounded are counted in 64 bits.
SMALL_PAIRS = 1 << 20


@dataclass(frozen=True)
class Layers:
    """The global minimum of a `LabelEnergy` whose metric is a convex function of the difference of two labels.

    "linear" and "quadratic" without a limit are, and tables such as max(0, |a - b| - 1). Costs may be any. Everything
    is in memory: L labels take that of L - 1 problems of two, and of a metric other than "linear" more, as every layer
    has a neighbour in each.

    Examples
    --------
    >>> import dope, numpy as np
    >>> energy = dope.LabelEnergy.grid(np.array([[0, 3, 1, 3], [2, 3, 0, 3]]), lam=0.5, metric="linear")
    >>> result = dope.minimize(energy, method=Layers())
    >>> result.labels.tolist(), result.energy, result.exact
    ([0, 2], 1.0, True)
    """

    takes_labels: ClassVar[bool] = True
    shares_a_flow: ClassVar[bool] = True

    def steps(self, problem: Problem) -> Generator[LabelStep, None, None]:
        """A Step with what single sites tell, and one for every round of the cut."""
        run = _Run(problem)
        first = run.first()
        try:
            yield first
        except Leave:
            yield replace(first, stopped="cancelled")
            return
        yield from run.rounds()


def counted(numbers: LayerNumbers, bits: int | None) -> FixedPoint:
    """How the costs of layers are counted, in capacities of so many bits, or of as many as they need.

    What is lost to rounding is measured by what costs differ, not by M. A small problem can afford 64 bits.
    """
    sizes = numbers.sizes
    costs = Costs(numbers, sizes.sites, numbers.places, largest=numbers.largest_unary, total=numbers.spread)
    found = FixedPoint.for_costs(costs, bits)
    fine = bits is None and found.error > 0.0 and (sizes.number <= SMALL_PAIRS or not _keeps_apart(numbers, found))
    return FixedPoint.for_costs(costs, 64) if fine else found


def _keeps_apart(numbers: LayerNumbers, fixed: FixedPoint) -> bool:
    """Whether M and the cap are still large enough once every pair of a column was rounded."""
    return fixed.error == 0.0 or numbers.unit * fixed.scale > numbers.sizes.degree * numbers.sizes.label_count


class _Run:
    def __init__(self, problem: Problem) -> None:
        self._energy = label_energy_of(problem, "Layers()")
        if getattr(problem.executor, "elsewhere", False):
            raise InputError(
                f"Layers() keeps one residual graph in this process, and {problem.executor!r} runs blocks in others; "
                f"use Threads() or Serial(), or leave method out."
            )
        self._solver = require_flow_solver(problem.solver, "open_blocks", method="Layers()")
        self._problem = problem
        self._alone = _begin(self._energy, _labels_alone(self._energy))
        problem.live.show(lambda box: np.array(self._alone if box is None else self._alone[box]))

    def first(self) -> LabelStep:
        """What a run begins with, and that every site pays its least cost and no pair is paid."""
        start, energy = self._problem.start, self._energy
        labels = self._alone if start is None else energy.as_labels(start.labels)
        inside = energy.pairs.inside if isinstance(energy.pairs, GridPairs) else None
        self._numbers = LayerNumbers.of(energy)
        return LabelStep(
            round=1,
            energy=nearest(energy.exactly(labels)),
            labels=labels.copy() if inside is None else np.where(inside, labels, labels.dtype.type(0)),
            lower_bound=rounded_down(Fraction(energy.constant) + self._numbers.least),
            doing="begin",
            open=energy.pairs.sites,
        )

    def rounds(self) -> Generator[LabelStep, None, None]:
        problem = self._problem
        layers = LayeredEnergy.of(self._energy, self._numbers)
        live = LiveLabels()
        fixed = counted(layers.numbers, self._solver.bits)
        self._certain = _keeps_apart(layers.numbers, fixed)
        binary = replace(
            problem, energy=layers.energy, partition=layers.partition(problem.partition), start=None, target=None,
            live=live, certificate=None, fixed=fixed,
        )  # fmt: skip
        problem.live.show(lambda box: self._labels_now(layers, live, box))
        steps = Exact().rounds_of(binary, keep=False)
        for step in steps:
            try:
                yield self._step(layers, step)
            except Leave:
                yield self._step(layers, steps.throw(Leave()))
                return

    def _labels_now(self, layers: LayeredEnergy, live: LiveLabels, box: Box | None) -> Labels:
        """Where a column is in order its label; elsewhere, before it was solved, that of the site alone."""
        if not live.shown:
            return np.array(self._alone if box is None else self._alone[box])
        on_graph = isinstance(layers.energy.pairs, GraphPairs)
        whole = box is None or on_graph
        inner = None if whole or box is None else (*box, slice(0, layers.numbers.sizes.count))
        now = live.read(inner).astype(np.bool_, copy=False)
        alone = self._alone if whole or box is None else self._alone[box]
        labels = np.where(layers.in_order(now), layers.labels(now), alone).astype(self._energy.label_type)
        return np.array(labels[box]) if on_graph and box is not None else labels

    def _step(self, layers: LayeredEnergy, step: ExactStep) -> LabelStep:
        """What a round of the cut says of labels."""
        error = Fraction(step.rounding_error) + 2 * layers.numbers.slack
        assert step.lower_bound is not None
        bound = layers.bottom + Fraction(step.lower_bound) - 2 * layers.numbers.slack
        labels, value, exact = None, None, False
        if step.labels is not None:
            found = step.labels.astype(np.bool_, copy=False)
            ordered = layers.in_order(found)
            labels = np.where(ordered, layers.labels(found), self._alone).astype(self._energy.label_type)
            value = self._energy.exactly(labels)
            exact = step.exact and self._certain and bool(ordered.all())
            if exact:
                bound = max(bound, value - error)
        return LabelStep(
            round=step.round + 1,
            energy=None if value is None else nearest(value),
            labels=labels,
            disagreeing=step.disagreeing,
            lower_bound=rounded_down(bound),
            proved=1.0 if exact else None,
            exact=exact,
            rounding_error=_rounded_up(error),
            stopped=step.stopped if exact or step.stopped != "exact" else "settled",
            doing="cut",
            open=0 if exact else self._energy.pairs.sites,
        )


def _begin(energy: LabelEnergy, alone: Labels) -> Labels:
    """What a run that is cancelled at once is left with: each site's own choice, or the best one of all for all."""
    inside = energy.pairs.inside if isinstance(energy.pairs, GridPairs) else None
    costs = energy.costs if inside is None else energy.costs[inside]
    same = np.full_like(alone, np.argmin(costs.reshape(-1, energy.label_count).sum(axis=0, dtype=np.float64)))
    if inside is not None:
        same[~inside] = 0
    return same if energy.exactly(same) < energy.exactly(alone) else alone


def _labels_alone(energy: LabelEnergy) -> Labels:
    """What each site would choose by itself, 0 outside a mask."""
    inside = energy.pairs.inside if isinstance(energy.pairs, GridPairs) else None
    labels = cheapest(energy.costs, inside).astype(energy.label_type)
    if inside is not None:
        labels[~inside] = 0
    return labels


def _rounded_up(number: Fraction) -> float:
    return -rounded_down(-number) if number else 0.0
