"""How the steps of a run are called: rounds; passes, where only the last step knows its energy; or sweeps."""

from __future__ import annotations

from collections.abc import Sequence

from dope.steps import AdmmStep, BracketingStep, Step

FINISH = "finish"


def in_passes(steps: Sequence[Step]) -> bool:
    """Whether the energy is left to the last step, so that the sites still open tell how far the others got."""
    return bool(steps) and all(isinstance(step, BracketingStep) for step in steps)


def ends_with_finish(steps: Sequence[Step]) -> bool:
    """Whether the last step is no pass, but what comes after them: the energy, and the labels in their place."""
    return in_passes(steps) and steps[-1].energy is not None


def numbers(steps: Sequence[Step]) -> list[str]:
    """The number of each step; "finish" where it is none of the passes.

    >>> numbers([Step(1, -5.0), Step(2, -7.0)])
    ['1', '2']
    >>> from dope.steps import Tasks
    >>> nothing = Tasks(())
    >>> numbers([BracketingStep(1, None, tasks=nothing), BracketingStep(2, -7.0, tasks=nothing)])
    ['1', 'finish']
    """
    known = [str(step.round) for step in steps]
    return [*known[:-1], FINISH] if ends_with_finish(steps) else known


def without_sweeps(steps: Sequence[Step]) -> list[Step]:
    """The steps that are rounds: sweeps repeat what the last round measured."""
    return [step for step in steps if not (isinstance(step, AdmmStep) and step.sweep)]


def residual(step: Step) -> float | None:
    """The largest residual of a block, where blocks have one."""
    return step.residual if isinstance(step, AdmmStep) else None
