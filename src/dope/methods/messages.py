"""Messages: a label solver by itself, which finds a lower bound and labels of all of an energy at once."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dope.errors import InputError
from dope.methods.moves import label_energy_of
from dope.protocols import LabelMessages, LabelRound, Leave, Problem
from dope.rounding import nearest
from dope.steps import LabelStep


@dataclass(frozen=True)
class Messages:
    """What the label solver of a problem finds, a Step for some of its rounds."""

    takes_labels: ClassVar[bool] = True

    def steps(self, problem: Problem) -> Generator[LabelStep, None, None]:
        """A Step for some rounds of the solver, and one at the end."""
        energy = label_energy_of(problem)
        if problem.label_solver is None:
            raise InputError("Messages() needs a label solver; pass solver=LabelTrwS(), or leave method out.")
        threads = 1 if getattr(problem.executor, "elsewhere", False) else problem.executor.workers
        messages = problem.label_solver.prepare(energy, threads=threads)
        number, now = 0, None
        try:
            for now in messages.steps():
                number += 1
                yield LabelStep(round=number, energy=None, lower_bound=_finite(now), doing="bound")
        except Leave:
            yield _last(problem, messages, number + 1, now, "cancelled")
            return
        yield _last(problem, messages, number + 1, now, None)


def _last(
    problem: Problem, messages: LabelMessages, number: int, now: LabelRound | None, stopped: str | None
) -> LabelStep:
    energy = label_energy_of(problem)
    labels = energy.as_labels(messages.labels())
    if problem.start is not None and energy.exactly(problem.start.labels) < energy.exactly(labels):
        labels = energy.as_labels(problem.start.labels).copy()
    value = energy.exactly(labels)
    bound = None if now is None else _finite(now)
    exact = bound is not None and value <= Fraction(bound)
    return LabelStep(
        round=number, energy=nearest(value), labels=labels, lower_bound=bound, exact=exact,
        proved=1.0 if exact else None, stopped=stopped or ("exact" if exact else "settled"), doing="end",
    )  # fmt: skip


def _finite(now: LabelRound) -> float | None:
    return now.bound if math.isfinite(now.bound) else None
