"""Exact: the global minimum of a submodular energy, block by block, with a certificate.

A pair that crosses a seam is w|y_i - y_j| = max over |f| <= w of f (y_i - y_j), so for any such flows f

    LB(f) = sum_k min over block k of [ sum_i (u_i + sum_j +-f_ij) y_i + pairs inside k ]    <=    min E

with equality for the best f. f is flow over the seams of one residual graph that the solver opens (`BlockFlow`; the
equations are at the head of cpp/blocks.h). In a round all blocks that something came to are solved again:

    conflict    a seam still lets flow from a source's side to a sink's, directly or over free sites: E(y) > LB(f)
    push        some flow over every conflict, then the next round; the core keeps flow and search trees
    merge       after some rounds: neighbouring groups that still disagree become one, at most K - 1 times
    discharge   instead of merging, where groups must not grow: excess leaves its block towards the nearest sinks

Costs are integers in there (`fixed_point`): E(y) = LB(f) is an equality. Labels are then read off by reachability,
which gives the smallest minimiser, whatever the blocks, the executor and the start.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dope.arrays import BinaryLabels, Index, Mask, Reals
from dope.certificate import MOST_BOUND, Certificate, integers
from dope.energy import Energy
from dope.errors import DopeError, InputError
from dope.fixed_point import FixedPoint
from dope.flows import BlockFlow, SeamFlows
from dope.methods.flow_cache import FlowCache, Units
from dope.methods.live_blocks import LiveBlocks
from dope.partition import Partition
from dope.protocols import Crew, FlowSolver, Leave, Problem, require_flow_solver
from dope.rounding import nearest, rounded_down
from dope.steps import ExactStep


@dataclass(frozen=True)
class Exact:
    """The global minimum of a submodular energy, and the proof.

    Attributes
    ----------
    tolerance : stop when energy - bound <= tolerance x |energy|; 0 goes on to the minimum itself.
    rounds : push flow over the seams in at most so many rounds, then merge (or discharge). None chooses by kernel.
    merge : whether blocks that still disagree become one; False leaves them apart and discharges them instead.
    bracket : first decide sites for good, block by block, whatever the others do; for the fraction of sites proved.
    """

    shares_a_flow: ClassVar[bool] = True
    certifies: ClassVar[bool] = True

    tolerance: float = 0.0
    rounds: int | None = None
    merge: bool = True
    bracket: bool = False

    def __post_init__(self) -> None:
        tolerance: object = self.tolerance
        number = isinstance(tolerance, (int, float, np.number)) and not isinstance(tolerance, bool)
        if not number or not 0.0 <= self.tolerance < math.inf:
            raise InputError(f"Exact: tolerance is {self.tolerance!r}; expected a number of 0 or more.")
        whole = isinstance(self.rounds, (int, np.integer)) and not isinstance(self.rounds, bool)
        if self.rounds is not None and not (whole and self.rounds >= 0):
            raise InputError(f"Exact: rounds is {self.rounds!r}; expected a whole number of 0 or more, or None.")
        for name, value in (("merge", self.merge), ("bracket", self.bracket)):
            if not isinstance(value, (bool, np.bool_)):
                raise InputError(f"Exact: {name} is {value!r}; expected True or False.")

    def steps(self, problem: Problem) -> Generator[ExactStep, None, None]:
        """One Step per round."""
        yield from self.rounds_of(problem)

    def rounds_of(self, problem: Problem, *, keep: bool = True) -> Generator[ExactStep, None, None]:
        """The same; the flow is kept for a later run, or not."""
        begun = time.perf_counter()
        run = _Run.of(problem)
        with run.gathered() as crew:
            groups: Iterable[int] = run.open(crew)
            decided = run.bracket(crew, groups) if self.bracket else None
            rounds = _rounds(problem.energy, self.rounds)
            done = 0
            while True:
                run.solve(crew, groups)
                done += 1
                certified = run.certified(crew)
                stopped = self._reason(run, certified)
                step = run.step(crew, done, decided, stopped, time.perf_counter() - begun)
                if stopped and keep:
                    run.keep()
                try:
                    yield step
                except Leave:
                    last = run.step(crew, done, decided, "cancelled", time.perf_counter() - begun)
                    if keep:
                        run.keep()
                    yield last
                    return
                if stopped:
                    return
                groups = run.next_groups(crew, push=done <= rounds, merge=self.merge)

    def _reason(self, run: _Run, certified: bool) -> str | None:
        if certified:
            return "exact"
        if Fraction(run.gap, 1) <= Fraction(self.tolerance) * abs(run.energy):
            return "tolerance"
        return None


def nested_cuts(
    problem: Problem, following: Callable[[BinaryLabels], Reals | None], *, balanced_after: int | None = None
) -> None:
    """Cut after cut over the same pairs, each inside the parts that the cuts before it made.

    `following` gets the smallest minimizer of a cut, and gives the unary of the next one (or None: no more). From then
    on pairs whose ends had different labels weigh w (y_i - y_j) instead of w |y_i - y_j|, in the order that they had:
    what the cuts of rising thresholds are to each other. That is what flows over them already, so the flow of one cut
    is where the next one begins; and blocks are apart again, for threads.

    After so many cuts excesses are balanced before each further one, which changes no cut, only where its flow begins.
    That helps where the unary of a site rises by the same number from each threshold to the next, as with squares: the
    flow that makes the sum of squares of excesses least is then maximal for all thresholds (cpp/balance.h).
    """
    run = _Run.of(problem)
    if run.shared.fixed.error:
        raise DopeError("nested cuts are counted in whole numbers; expected costs that are some, in a common unit.")
    for done in itertools.count():
        with run.gathered() as crew:
            if done:
                run.part(crew)
            balanced = balanced_after is not None and done >= balanced_after
            run.minimize(crew, balance=_BALANCES[done % 2] if balanced else None)
        unary = following(run.labels)
        if unary is None:
            return
        run = run.followed_by(unary)


def _rounds(energy: Energy, rounds: int | None) -> int:
    """Rounds before merging: they keep unions small, and cost more than they save where seams have many pairs."""
    if rounds is not None:
        return int(rounds)
    # Measured on A2e, A2h, Bh, M5, M7 of benchmarks/cases.py, on photos with 3x3 and 7x7 and a scan with 6 neighbours;
    # in 3D on C1h, C2h (a fifth to a third less time than with none), C2e and the scan with 6, 32 and 122 neighbours.
    if len(energy.shape) > 2:
        return 3
    return 4 if energy.pairs.degree <= 8 else 2


@dataclass(frozen=True, eq=False)
class _Shared:
    """What all blocks of a run work on: one residual graph, and the unary that it has so far."""

    energy: Energy
    partition: Partition
    fixed: FixedPoint
    flow: BlockFlow
    live: LiveBlocks
    priced: Units | None = None

    @classmethod
    def of(cls, problem: Problem, fixed: FixedPoint, flow: BlockFlow, priced: Units | None = None) -> _Shared:
        live = LiveBlocks(problem.energy, problem.partition, flow)
        return cls(problem.energy, problem.partition, fixed, flow, live, priced)


def _checked(problem: Problem) -> FlowSolver:
    energy, partition = problem.energy, problem.partition
    if energy.pairs.lowest < 0:
        raise InputError(
            f"a pair weight is as low as {energy.pairs.lowest:g}; Exact() needs weights of 0 or more. "
            f"Use Admm(), which takes any sign."
        )
    solver = require_flow_solver(problem.solver, "open_blocks", method="Exact()")
    if getattr(problem.executor, "elsewhere", False):
        raise InputError(
            f"Exact() keeps one residual graph in this process, and {problem.executor!r} runs blocks in others; "
            f"use Bracketing(), which finds the same labels, or leave method out."
        )
    if partition.overlaps:
        raise InputError("the blocks overlap; Exact() needs blocks without overlap. Leave overlap out.")
    return solver


@dataclass(frozen=True, eq=False)
class _BlockRecipe:
    """How to open a block of a residual graph that is in this process."""

    shared: _Shared
    k: int

    @property
    def where(self) -> Index:
        return self.shared.partition.blocks[self.k].where

    def open(self) -> _Block:
        return _Block(self.shared, self.k)


class _Block:
    """Does for its block the task that it is sent, one of its own methods, and answers with what came of it."""

    def __init__(self, shared: _Shared, k: int) -> None:
        self._shared, self._flow, self._k = shared, shared.flow, k

    def __call__(self, task: _Task | None) -> Any:
        if task is None:
            return None
        with self._shared.live.at_work(self._k):
            return task(self)

    def fill(self) -> None:
        for part in range(self._k, self._flow.parts, self._flow.blocks):
            self._flow.fill(part)

    def wall_in(self) -> None:
        self._flow.wall_in(self._k)

    def part(self) -> None:
        self._flow.part(self._k)

    def price(self) -> None:
        before = self._shared.priced
        now = np.ascontiguousarray(self._shared.energy.unary[self._where], dtype=np.float64)
        self._flow.price(self._k, now.ravel(), None if before is None else before.at(self._where).ravel())

    def balance(self) -> None:
        self._flow.balance(self._k, shifted=False)

    def balance_shifted(self) -> None:
        self._flow.balance(self._k, shifted=True)

    def solve(self) -> dict[int, int]:
        """The bounds of the blocks of its group."""
        self._flow.solve(self._k)
        return self._solved()

    def discharge(self) -> dict[int, int]:
        self._flow.discharge(self._k)
        return self._solved()

    def _solved(self) -> dict[int, int]:
        members = self._flow.members(self._k)
        self._shared.live.solved(members)
        return {k: self._flow.bound(k) for k in members}

    def labels(self) -> BinaryLabels:
        return self._flow.labels(self._k)

    def flows(self) -> SeamFlows:
        return self._flow.flows(self._k)

    def survey(self) -> tuple[int, int, int]:
        return self._flow.survey(self._k)

    def bracket(self) -> dict[int, Mask]:
        """For each block of its group, the sites that have one label whatever other groups do."""
        low, high = (self._flow.bracket(self._k, outside=outside) for outside in (False, True))
        decided, parts, begin = np.equal(low, high), {}, 0
        for k in self._flow.members(self._k):
            end = begin + self._shared.energy.unary[self._shared.partition.blocks[k].where].size
            parts[k], begin = decided[begin:end], end
        return parts

    def final_labels(self) -> BinaryLabels:
        return self._flow.labels(self._k, of_all=True)

    @property
    def _where(self) -> Index:
        return self._shared.partition.blocks[self._k].where


_Task = Callable[[_Block], Any]
# In turn, so that borders of tiles are inside others next time.
_BALANCES: tuple[_Task, _Task] = _Block.balance, _Block.balance_shifted


class _Run:
    """The coordinator's side: what is known of every block, and what to do next."""

    def __init__(self, problem: Problem, shared: _Shared) -> None:
        self.problem, self.shared = problem, shared
        self._cache = FlowCache(shared.partition, shared.fixed)
        number = self._number
        self.labels: BinaryLabels = np.zeros(problem.energy.shape, dtype=np.bool_)
        self._bounds, self._gaps, self._conflicts, self._apart = ([0] * number for _ in range(4))
        self._stale: set[int] = set()  # blocks whose seams have to be looked at again
        self._relabelled: set[int] = set()  # blocks whose labels may be others than those held
        self._neighbors = [shared.flow.neighbors(k) for k in range(number)]
        self._certified = False
        # The best bound so far and, where it may be better than the one at hand, what proves it.
        self._best: tuple[int | None, Certificate | None] = None, None
        problem.live.show(shared.live.read)

    @classmethod
    def of(cls, problem: Problem) -> _Run:
        """New, or going on from the flow that an earlier result kept, if its pairs and blocks were the same."""
        solver, energy, partition = _checked(problem), problem.energy, problem.partition
        fixed = problem.fixed or FixedPoint.of(energy, solver.bits)
        cache = problem.start.kept if problem.start is not None else None
        if isinstance(cache, FlowCache) and cache.matches(energy, partition, fixed, solver):
            before, flow = cache.take()
            if flow is not None:
                return cls(problem, _Shared.of(problem, fixed, flow, before))
        return cls(problem, _Shared.of(problem, fixed, solver.open_blocks(energy.pairs, partition, fixed)))

    def keep(self) -> None:
        """Leave the flow to a later run."""
        self._cache.store(self.shared.energy, self.shared.flow, self.problem.solver)

    def gathered(self) -> Crew:
        recipes = [_BlockRecipe(self.shared, k) for k in range(self._number)]
        return self.problem.executor.gather(recipes)

    @property
    def _number(self) -> int:
        return len(self.problem.partition.blocks)

    @property
    def bound(self) -> int:
        return sum(self._bounds)

    @property
    def gap(self) -> int:
        return sum(self._gaps)

    @property
    def energy(self) -> Fraction:
        """Of the labels, in units of 1 / scale like bound and gap, but with the constant."""
        constant, scale = Fraction(self.problem.energy.constant), Fraction(self.shared.fixed.scale)
        return constant * scale + self.bound + self.gap

    def open(self, crew: Crew) -> list[int]:
        """Capacities, walls, unaries, and flows of an earlier result; which groups are to be solved: all."""
        flow, everyone = self.shared.flow, range(self._number)
        if self.shared.priced is None:
            self._ask(crew, _Block.fill, everyone)
            flow.finish()
            self._ask(crew, _Block.wall_in, everyone)
            self._impose()
        self._ask(crew, _Block.price, everyone)
        self.shared.live.open()
        return sorted({flow.group(k) for k in everyone})

    def minimize(self, crew: Crew, *, balance: _Task | None) -> None:
        """To the minimum, and no word on the way.

        Blocks merge at once. With rounds of pushes first, all cuts of a photo of 2048^2 took a tenth longer
        (benchmarks/total_variation.py, "l1"): parts are small, and few blocks disagree.
        """
        groups = self.open(crew)
        if balance is not None:
            self._ask(crew, balance, range(self._number))
        while True:
            self.solve(crew, groups)
            if self.certified(crew):
                return
            groups = self.next_groups(crew, push=False, merge=True)

    def followed_by(self, unary: Reals) -> _Run:
        """What goes on from its flow with another unary."""
        shared = self.shared
        before = Units.of(shared.energy.unary, shared.fixed.scale)
        problem = replace(self.problem, energy=replace(shared.energy, unary=unary))
        return _Run(problem, _Shared.of(problem, shared.fixed, shared.flow, before))

    def part(self, crew: Crew) -> None:
        """Leave the sites that had one label in the run before by themselves; blocks are apart again."""
        everyone = range(self._number)
        self._ask(crew, _Block.part, everyone)
        self.shared.flow.regroup()
        self._ask(crew, _Block.wall_in, everyone)

    def _impose(self) -> None:
        """Begin with the flows of an earlier result, as far as they fit: another lam, other blocks, other pixels."""
        start = self.problem.start
        earlier = None if start is None else start.certificate
        if earlier is None or start is None or start.labels.shape != self.problem.energy.shape:
            return
        if (earlier.cuts is None) != (self.problem.partition.cuts is None):
            return
        amount = np.clip(np.rint(earlier.flow * (self.shared.fixed.scale / earlier.scale)), -(2.0**50), 2.0**50)
        self.shared.flow.impose(earlier.first, earlier.second, amount.astype(np.int64), self.labels.size)

    def bracket(self, crew: Crew, groups: Iterable[int]) -> Mask:
        """The sites that are decided for good, whatever groups merge later: labels of no later round differ there."""
        if self.shared.priced is not None:  # what is new of the unary has not come to the kept flow yet
            self.solve(crew, groups)
        decided = np.zeros(self.labels.shape, dtype=np.bool_)
        for parts in self._ask(crew, _Block.bracket, groups).values():
            self._put(decided, parts)
        return decided

    def solve(self, crew: Crew, groups: Iterable[int], task: _Task = _Block.solve) -> None:
        for bounds in self._ask(crew, task, groups).values():
            for k, bound in bounds.items():
                self._bounds[k] = bound
                self._stale.update([k, *self._neighbors[k]])
                self._relabelled.add(k)

    def _look(self, crew: Crew, task: _Task, blocks: Iterable[int]) -> None:
        """Fetch the labels of some blocks."""
        self._put(self.labels, self._ask(crew, task, blocks))
        self._relabelled.clear()

    def _put(self, whole: Mask, parts: dict[int, Mask]) -> None:
        """Write the parts of some blocks to their places."""
        for k, part in parts.items():
            where = self.problem.partition.blocks[k].where
            whole[where] = part.reshape(whole[where].shape)

    def certified(self, crew: Crew) -> bool:
        """Look at the seams of what was solved; whether the labels are the minimum now."""
        for k, (gap, conflicts, apart) in self._ask(crew, _Block.survey, sorted(self._stale)).items():
            self._gaps[k], self._conflicts[k], self._apart[k] = gap, conflicts, apart
        self._stale.clear()
        with self.shared.live.moving():
            self._certified = not any(self._conflicts) and self.shared.flow.certify()
        if self._certified:
            everyone = range(self._number)
            # A gap is over free sites only: they take the label that reaches them.
            self._look(crew, _Block.final_labels, everyone if self.gap else sorted(self._relabelled))
            self._gaps, self._apart = [0] * self._number, [0] * self._number
        return self._certified

    def next_groups(self, crew: Crew, *, push: bool, merge: bool) -> list[int]:
        """Move flow over the seams, or take some away; which groups are to be solved."""
        flow = self.shared.flow
        if push:
            if self._best[0] is None or self.bound >= self._best[0]:  # which the pushes may lower
                # A kept flow also went over seams that were merged or discharged then.
                fresh = self.shared.priced is None
                self._best = self.bound, self._proof(flow.pushed() if fresh else self._all_flows(crew))
            with self.shared.live.moving():
                flow.push()
                return flow.changed()
        if merge:
            with self.shared.live.moving():
                merged = _matched(flow.disputes(), self._sizes())
                for one, other in merged:
                    flow.merge(one, other)
                return sorted({min(pair) for pair in merged} | set(flow.changed()))
        return self._discharge(crew)

    def _discharge(self, crew: Crew) -> list[int]:
        flow, live = self.shared.flow, self.shared.live
        with live.moving():
            flow.measure()
        for groups in self._groups_apart():
            changed = set(flow.changed())
            self.solve(crew, [g for g in groups if g in changed])
            self.solve(crew, groups, _Block.discharge)
            with live.moving():
                flow.deliver()
        return flow.changed()

    def _groups_apart(self) -> list[list[int]]:
        """The groups in classes, such that no two of a class have pairs: each joins the first class it can."""
        flow = self.shared.flow
        near: dict[int, set[int]] = {}
        for k in range(self._number):
            near.setdefault(flow.group(k), set()).update(flow.group(n) for n in self._neighbors[k])
        classes: list[list[int]] = []
        for g, others in near.items():
            fitting = next((one for one in classes if others.isdisjoint(one)), None)
            if fitting is None:
                classes.append([g])
            else:
                fitting.append(g)
        return classes

    def _sizes(self) -> list[int]:
        sizes = [0] * self._number
        for k, block in enumerate(self.problem.partition.blocks):
            sizes[self.shared.flow.group(k)] += self.labels[block.where].size
        return sizes

    def _all_flows(self, crew: Crew) -> SeamFlows:
        found = self._ask(crew, _Block.flows, range(self._number)).values()
        first, second, flow = (np.concatenate(column) for column in zip(*found, strict=True))
        return first, second, flow

    def _proof(self, flows: SeamFlows) -> Certificate | None:
        """What proves the bound of this round; None where its numbers are too large for one."""
        if max(map(abs, self._bounds)) >= MOST_BOUND:
            return None
        partition, fixed = self.problem.partition, self.shared.fixed
        first, second, flow = flows
        return Certificate(
            scale=fixed.scale,
            cuts=partition.cuts,
            members=None if partition.cuts is not None else partition.block_numbers(),
            first=first,
            second=second,
            flow=flow,
            bounds=integers(self._bounds),
            rounding_error=fixed.error,
        )

    def step(
        self, crew: Crew, number: int, decided: BinaryLabels | None, stopped: str | None, seconds: float
    ) -> ExactStep:
        """What is known now; with labels, and what proves the bound, where this is the end."""
        shared, scale = self.shared, Fraction(self.shared.fixed.scale)
        if stopped is not None:
            self._look(crew, _Block.labels, sorted(self._relabelled))
        before = self._best[0]
        now_best = before is None or self.bound >= before
        best = self.bound if before is None or now_best else before
        certificate = None
        if stopped is not None:
            certificate = self._proof(self._all_flows(crew)) if now_best else self._best[1]
        return ExactStep(
            round=number,
            energy=nearest(self.energy / scale),
            labels=self.labels.copy() if stopped is not None else None,
            disagreeing=sum(self._apart),
            seconds=seconds,
            lower_bound=rounded_down(
                Fraction(self.problem.energy.constant) + best / scale - Fraction(shared.fixed.error)
            ),
            proved=1.0 if self._certified else None if decided is None else float(decided.mean()),
            decided=None if stopped is None else decided,
            exact=self._certified,
            rounding_error=shared.fixed.error,
            stopped=stopped,
            groups=len({shared.flow.group(k) for k in range(self._number)}),
            certificate=certificate,
            kept=self._cache,
        )

    def _ask(self, crew: Crew, task: _Task, blocks: Iterable[int]) -> dict[int, Any]:
        """The same of some blocks, the others idle."""
        asked = list(blocks)
        messages: list[_Task | None] = [None] * self._number
        for k in asked:
            messages[k] = task
        try:
            replies = crew.ask(messages)
        except ValueError as error:  # what the core refuses is the caller's input, and its words say why
            raise InputError(str(error)) from error
        return {k: replies[k] for k in asked}


def _matched(disputes: Sequence[tuple[int, int, float]], sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs of groups to merge, each group in one at most: the most conflict over size first."""
    order = sorted(disputes, key=lambda d: (-d[2] / (sizes[d[0]] + sizes[d[1]]), d[0], d[1]))
    taken: set[int] = set()
    pairs = []
    for one, other, _ in order:
        if one not in taken and other not in taken:
            taken.update((one, other))
            pairs.append((one, other))
    return pairs
