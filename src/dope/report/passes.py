"""How the steps of a run are called: rounds, or passes where only the last step knows its energy."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dope.protocols import Step

FINISH = "finish"


def in_passes(steps: Sequence[Step]) -> bool:
    """Whether the energy is left to the last step, so that the sites still open tell how far the others got."""
    return bool(steps) and math.isnan(steps[0].energy) and all(math.isnan(step.energy) for step in steps[:-1])


def ends_with_finish(steps: Sequence[Step]) -> bool:
    """Whether the last step is no pass, but what comes after them: the energy, and the labels in their place."""
    return in_passes(steps) and not math.isnan(steps[-1].energy)


def numbers(steps: Sequence[Step]) -> list[str]:
    """The number of each step; "finish" where it is none of the passes.

    >>> numbers([Step(1, math.nan), Step(2, math.nan), Step(3, -7.0)]), numbers([Step(1, -5.0), Step(2, -7.0)])
    (['1', '2', 'finish'], ['1', '2'])
    """
    known = [str(step.round) for step in steps]
    return [*known[:-1], FINISH] if ends_with_finish(steps) else known
