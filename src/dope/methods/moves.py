"""Moves: labels of low energy where there are several, proved as far as that goes, and moved where it does not.

    prove     Potts: a binary cut for each label decides sites for good (`label_proof`), again and again on what is left
    bound     of what is left, by message passing (`LabelSolver`), which finds labels as well
    move      the rest, by expansions, swaps or fusions (`label_moves`), until none lowers the energy

Sites that are decided are left out of all that follows: what is left is a problem of its own (`open_part`) where it is
small. Where arrays are read box by box, cuts run over blocks (`label_boxes`), and what is left is solved as one problem
if it fits, else block by block, everything around a block fixed.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np

from dope.errors import InputError
from dope.label_energy import LabelEnergy
from dope.methods.label_moves import Kind
from dope.methods.label_run import LabelRun
from dope.pairs import TablePairs
from dope.protocols import Leave, Problem
from dope.steps import LabelStep


@dataclass(frozen=True)
class Moves:
    """Labels of low energy for a `LabelEnergy`, with what of them is proved.

    Attributes
    ----------
    kind : "expansion" for a metric, "swap" for a semi-metric, "fusion" for anything; "jump", up and down by powers of
        two, and expansions, for labels with an order: a linear or quadratic metric, with a limit or without. None
        chooses expansions of a metric, jumps where these find a minimum or V is quadratic, else the first that fits.
    prove : whether labels are proved first, where the metric is Potts and no weight is negative.
    cycles : at most so many times through all moves, None for as many as lower the energy. On a grid of
        more than 65,536 sites the first three go through boxes side by side; it takes two to move over their seams.
    bound : at most so many rounds of message passing over what is not proved, for a lower bound and labels that moves
        may begin with; 0 for none. What it takes in memory has to fit.
    """

    takes_labels: ClassVar[bool] = True
    reads_boxes: ClassVar[bool] = True
    takes_memory: ClassVar[bool] = True
    resumable: ClassVar[bool] = True
    shares_a_flow: ClassVar[bool] = True

    kind: Kind | None = None
    prove: bool = True
    cycles: int | None = None
    bound: int = 30

    def __post_init__(self) -> None:
        if self.kind not in (None, *get_args(Kind)):
            raise InputError(f"Moves: kind is {self.kind!r}; expected one of {', '.join(get_args(Kind))}, or None.")
        if not isinstance(self.prove, (bool, np.bool_)):
            raise InputError(f"Moves: prove is {self.prove!r}; expected True or False.")
        cycles: Any = self.cycles
        if cycles is not None and not (
            isinstance(cycles, (int, np.integer)) and not isinstance(cycles, bool) and cycles >= 0
        ):
            raise InputError(f"Moves: cycles is {cycles!r}; expected a whole number of 0 or more, or None.")

        bound: Any = self.bound
        if not isinstance(bound, (int, np.integer)) or isinstance(bound, bool) or bound < 0:
            raise InputError(f"Moves: bound is {bound!r}; expected a number of rounds, 0 or more.")

    def steps(self, problem: Problem) -> Generator[LabelStep, None, None]:
        """A Step for every label that is proved, for every cycle of moves, and one at the end."""
        energy = label_energy_of(problem)
        kind = kind_for(energy, self.kind)
        run = LabelRun(energy, problem, kind, rounds=self.bound, prove=self.prove)
        try:
            if self.prove:
                yield from run.prove()
            yield from run.move(self.cycles)
        except Leave:
            yield run.last("cancelled")
            return
        yield run.last(None)


def label_energy_of(problem: Problem, method: str = "Moves()") -> LabelEnergy:
    """The energy, which must be one of several labels."""
    energy: object = problem.energy
    if not isinstance(energy, LabelEnergy):
        raise InputError(
            f"the energy is of type {type(energy).__name__}; {method} needs a LabelEnergy. Leave method out for two "
            f"labels."
        )
    return energy


def kind_for(energy: LabelEnergy, kind: Kind | None) -> Kind:
    """The moves that suit an energy; those that a caller wants, if they do."""
    if kind is None:
        if energy.is_convex:
            return "jump"
        ordered = energy.metric is not None and energy.metric.is_ordered
        return "expansion" if energy.is_metric else _first_of_semimetric(ordered) if energy.is_semimetric else "fusion"
    if kind == "jump" and (energy.metric is None or not energy.metric.is_ordered or not energy.is_semimetric):
        found = energy.metric or "a table per pair"
        raise InputError(
            f"Moves: kind is 'jump', and the metric is {found}, or a pair weight below 0; expected linear or "
            f"quadratic, and weights of 0 or more: leave kind out, or use Moves(kind='fusion')."
        )
    if kind == "expansion" and not energy.is_metric:
        raise InputError(f"Moves: kind is 'expansion', {_fault(energy, 'expansion')}")
    if kind == "swap" and not energy.is_semimetric:
        raise InputError(f"Moves: kind is 'swap', {_fault(energy, 'swap')}")
    return kind


def _first_of_semimetric(ordered: bool) -> Kind:
    return "jump" if ordered else "swap"


def _fault(energy: LabelEnergy, kind: Kind) -> str:
    """Why moves of a kind are no minimum cuts, and what to use instead."""
    metric = energy.metric
    other = "leave kind out, or use Moves(kind='swap')" if energy.is_semimetric else "use Moves(kind='fusion')"
    if metric is None or isinstance(energy.pairs, TablePairs):
        needed = "V(a, c) + V(b, b) <= V(a, b) + V(b, c)" if kind == "expansion" else "V(a, b) + V(b, a) >= 0"
        return f"and the table of some pair has labels without {needed}; {other}."
    if energy.pairs.lowest < 0.0:
        return f"and a pair weight is as low as {energy.pairs.lowest:g}; expected weights of 0 or more: {other}."
    triple = metric.broken_triple(energy.label_count)
    if kind == "swap" or triple is None:
        return f"and some labels cost less than equal ones; {other}."
    a, b, c = triple
    v = metric.matrix(energy.label_count)
    return (
        f"and V({a}, {c}) = {v[a, c]:g} is more than V({a}, {b}) + V({b}, {c}) = {v[a, b] + v[b, c]:g}; expected a "
        f"metric: {other}."
    )
