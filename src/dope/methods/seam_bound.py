"""A lower bound by flow between blocks, in a few rounds over the board: the coordinator's side, which only adds up.

    round 1    every block solves its own part; which of its labels are the same whatever is outside?
    round t    flow is pushed over seams whose ends disagree, and the blocks that it came to are solved again

`push_block` has the equations and says why the rounds follow from the energy and its blocks alone: they are the same
wherever the arrays lie and blocks run. The bound is the best of all rounds.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dope.certificate import MOST_BOUND, Certificate, integers
from dope.facts import measure_facts
from dope.fixed_point import Costs, FixedPoint
from dope.methods.codes import arrays_in
from dope.methods.push_block import PROOF, Certify, Push, PushRecipe
from dope.methods.rounds import Left, Reference, Rounds, Task, content_of
from dope.methods.task_log import TaskLog
from dope.methods.tiling import Tiling, size
from dope.pairs import GridPairs
from dope.protocols import FlowSolver, Problem
from dope.rounding import rounded_down


@dataclass(frozen=True, eq=False)
class SeamBound:
    """No labels have less energy than `lower_bound`.

    `proofs` say where blocks left which of their labels are proved.
    """

    lower_bound: float
    proofs: Sequence[Reference]
    certificate: Certificate | None


def find_seam_bound(problem: Problem, *, pushes: int, room: int | None, log: TaskLog) -> SeamBound:
    """Push flow so many times. Blocks are those of a grid, without overlap; `room` as `PushRecipe` has it.

    There is a certificate where all blocks may stay open.
    """
    if problem.energy.facts is None:
        done = log.measured(problem, kind="facts")
        problem = replace(problem, energy=measure_facts(problem.energy, problem.partition, problem.executor, done=done))
    pushing = _Pushing(problem, log)
    run = secrets.token_hex(8)
    recipes = [PushRecipe(problem.energy, box, run, room) for box in pushing.boxes]
    with Rounds(problem.executor, problem.board, recipes, packed=room is not None) as rounds:
        pushing.solve(rounds)
        for _ in range(pushes):
            pushing.solve(rounds)
            if not pushing.moved:
                break
        certificate = pushing.certificate(rounds) if room is None else None
        log.statistics = rounds.statistics
    return SeamBound(pushing.bound, pushing.proofs, certificate)


class _Pushing:
    """What blocks said in each round, and what to ask them next."""

    def __init__(self, problem: Problem, log: TaskLog) -> None:
        energy, partition = problem.energy, problem.partition
        assert isinstance(energy.pairs, GridPairs) and isinstance(problem.solver, FlowSolver)
        self._problem, self._log, self._solver = problem, log, problem.solver
        self._fixed = FixedPoint.for_costs(Costs.measured(energy), problem.solver.bits)
        tiling = Tiling(energy.shape, partition.cuts or ())
        self.boxes = tiling.boxes
        self._regions = [energy.pairs.around(box) for box in self.boxes]
        self._near = [[n for n in tiling.near(box, energy.pairs) if n != k] for k, box in enumerate(self.boxes)]
        self._said: list[list[Left]] = []

    @property
    def moved(self) -> bool:
        """Whether flow came to some block in the last round."""
        return any(one.summary["moved"] for one in self._said[-1])

    @property
    def proofs(self) -> list[Reference]:
        return [one.parts[PROOF] for one in self._said[0]]

    @property
    def bound(self) -> float:
        fixed = self._fixed
        value = Fraction(self._problem.energy.constant) + sum(self._bounds(self._best)) / Fraction(fixed.scale)
        return rounded_down(value - Fraction(fixed.error))

    def _bounds(self, t: int) -> list[int]:
        """Of the blocks in a round, in units of 1 / scale."""
        return [int(one.summary["bound"]) for one in self._said[t]]

    @property
    def _best(self) -> int:
        return max(range(len(self._said)), key=lambda t: sum(self._bounds(t)))

    def solve(self, rounds: Rounds) -> None:
        """One more round."""
        self._said.append(self._play(rounds, Push, len(self._said)))

    def certificate(self, rounds: Rounds) -> Certificate | None:
        """What proves the bound; None where its numbers are too large for one."""
        best, partition, fixed = self._best, self._problem.partition, self._fixed
        bounds = self._bounds(best)
        if max(map(abs, bounds)) >= MOST_BOUND:
            return None
        most = max(map(size, self._regions))
        told = [arrays_in(content_of(self._problem.board, one.post), most) for one in self._play(rounds, Certify, best)]
        first, second, flow = (np.concatenate([one[name] for one in told]) for name in ("first", "second", "flow"))
        return Certificate(
            scale=fixed.scale,
            cuts=partition.cuts,
            members=None,
            first=first,
            second=second,
            flow=flow,
            bounds=integers(bounds),
            rounding_error=fixed.error,
        )

    def _play(self, rounds: Rounds, kind: type[Push], number: int) -> list[Left]:
        """What blocks leave who know what was said in so many rounds."""
        tasks = [self._task(kind, number, k) for k in range(len(self.boxes))]
        return [one for one in rounds.play(tasks, done=self._log.done(tasks)) if one is not None]

    def _task(self, kind: type[Push], number: int, k: int) -> Task:
        told = self._said[:number]
        seams = [n for n in self._near[k] if told and str(k) in told[0][n].parts]
        near = tuple((n, self.boxes[n]) for n in self._near[k])
        message = kind(self._solver, self._fixed, k, self.boxes[k], self._regions[k], near, number, (k, *seams))
        reads = [ref for said in told for ref in (said[k].post, *(said[n].parts[str(k)] for n in seams))]
        return Task(message, tuple(reads), f"{kind.__name__.lower()}-{number:02}/{k:06}")
