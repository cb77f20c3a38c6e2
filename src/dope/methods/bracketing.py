"""Bracketing: the global minimum of a submodular energy that need not fit into memory, or into one machine.

Let y* be the smallest minimiser, and some sites be *open*: their labels are not known yet. With everything outside a
block held at what is known, and open sites there at 0, the smallest minimiser of the block is at most y*; with those at
1 it is at least y*. Where the two are alike, the label is y*'s: it is *proved*, whatever the rest.

    pass 1    all blocks, everything outside open
    pass 2    blocks cut in the middle of those of pass 1: what was open near seams now lies inside
    ...       the two partitions by turns, only blocks with open sites, while passes prove much
    flows     what is still open is solved where it lies, by flows over the seams (`flow_rounds`), to the end

A block reads its part of the arrays where it runs, and what others found on the board, and leaves there what it found
(`rounds`). The coordinator only counts. So blocks may run anywhere, fail and run again, in any order: the labels are
those of y*, to the bit.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dope.arrays import BinaryLabels, Box
from dope.boards import Board, FolderBoard
from dope.cancellation import check_cancelled
from dope.energy import Energy
from dope.errors import DopeError, InputError
from dope.facts import Measured, measure_facts
from dope.fixed_point import Costs, FixedPoint
from dope.methods.bracket_block import BoxRecipe, Finish, Prove, grid_of, sites_of
from dope.methods.codes import labels_in, overlaid
from dope.methods.flow_block import FlowRecipe
from dope.methods.flow_rounds import FlowRounds
from dope.methods.rounds import Left, Reference, Rounds, Task, content_of
from dope.methods.tiling import Tiling, box_of, hull, size
from dope.protocols import FlowSolver, Leave, Problem, require_flow_solver
from dope.rounding import nearest, rounded_down
from dope.steps import BlockTask, BracketingStep, Tasks

# A pass that leaves more than this share of what was open open is the last.
WORTH_ANOTHER_PASS = 0.5
# Of memory that the caller allows, the part that opened blocks may keep between two visits.
SHELF_SHARE = 4
# The same where nobody set a limit.
SHELF_BYTES = 1 << 30


@dataclass(frozen=True)
class Bracketing:
    """The global minimum of a submodular energy on a grid, over blocks that need not be in memory together.

    Attributes
    ----------
    passes : at most so many in which blocks prove labels, each by itself; what is open then is solved by flows.
    rounds : at most so many sweeps of flows, None for as many as it takes. With fewer the run may end undecided, with
        the gap that is known then.
    memory : bytes of opened blocks that a process may keep for their next visit; None for a part of what the run may
        take. What is more is kept on its disk.
    checkpoint : a folder for what blocks find, from which a run can be resumed; as `checkpoint` of `minimize`.
    resume : whether to go on from what is in that folder.
    """

    reads_boxes: ClassVar[bool] = True
    resumable: ClassVar[bool] = True

    passes: int = 8
    rounds: int | None = None
    memory: int | None = None
    checkpoint: str | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        for name, value, least in (("passes", self.passes, 1), ("rounds", self.rounds, 0)):
            whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            if not (value is None and name == "rounds") and not (whole and value is not None and value >= least):
                raise InputError(f"Bracketing: {name} is {value!r}; expected a whole number of {least} or more.")
        memory: object = self.memory
        if memory is not None and not (
            isinstance(memory, (int, np.integer)) and not isinstance(memory, bool) and memory >= 0
        ):
            raise InputError(f"Bracketing: memory is {memory!r}; expected a number of bytes, or None.")
        if self.resume and self.checkpoint is None:
            raise InputError("Bracketing: resume is True without a checkpoint; expected the folder to go on from.")

    def steps(self, problem: Problem) -> Generator[BracketingStep, None, None]:
        """One Step per pass and sweep, and one at the end."""
        begun = time.perf_counter()
        solver = _checked(problem)
        board: Board = problem.board
        if self.checkpoint is not None:
            board = FolderBoard(self.checkpoint, resume=self.resume)
        log = TaskLog()
        energy = measure_facts(problem.energy, problem.partition, problem.executor, done=log.measured(problem))
        problem = replace(problem, energy=energy, board=board)
        fixed = FixedPoint.for_costs(_costs(energy), solver.bits)
        board.begin(manifest_of(problem, self, fixed))
        run = _Run(problem, solver, fixed, log, self._room(problem))
        stopped: str | None = None
        number, left, before = 0, run.open, math.inf
        while left and number < self.passes and left <= WORTH_ANOTHER_PASS * before:
            number += 1
            run.prove(number)
            before = left if number > 1 or run.open > WORTH_ANOTHER_PASS * left else math.inf
            left = run.open
            try:
                yield run.step(number, time.perf_counter() - begun)
            except Leave:
                stopped = "cancelled"
                break
        if stopped is not None and run.open:
            run.settle()
        elif run.open:
            stopped, number = yield from self._flows(run, number, begun)
        yield run.last(number + 1, stopped or "exact", begun)

    def _flows(self, run: _Run, number: int, begun: float) -> Generator[BracketingStep, None, tuple[str | None, int]]:
        """Sweeps of flows over what is open, until it is decided or somebody leaves; why, if that is before the end."""
        with run.flows() as flows:
            sweeps = flows.sweeps()
            for done, waiting in enumerate(sweeps):
                number += 1
                stopped = "undecided" if self.rounds is not None and done >= self.rounds and waiting else None
                try:
                    yield run.step(number, time.perf_counter() - begun)
                except Leave:
                    stopped = "cancelled"
                if stopped:
                    flows.settle(waiting)
                    return stopped, number
            flows.reach()
        return None, number

    def _room(self, problem: Problem) -> int:
        if self.memory is not None:
            return self.memory
        return SHELF_BYTES if problem.memory is None else problem.memory // SHELF_SHARE


def manifest_of(problem: Problem, method: Bracketing, fixed: FixedPoint) -> dict[str, Any]:
    """What posts follow from."""
    energy, partition = problem.energy, problem.partition
    facts, pairs = energy.facts, grid_of(energy)
    assert facts is not None
    return {
        "method": f"Bracketing(passes={method.passes})",
        "shape": list(energy.shape),
        "arrays": facts.digest,
        "kernel": pairs.offsets.tolist(),
        "weights": [value.hex() for value in pairs.factors.tolist()],
        "beta": float(grid_of(energy).beta or 0.0).hex(),
        "blocks": [list(axis) for axis in partition.cuts or ()],
        "scale": [fixed.scale.hex(), fixed.bits],
    }


def _checked(problem: Problem) -> FlowSolver:
    if not problem.energy.submodular:
        raise InputError(
            f"a pair weight is as low as {problem.energy.pairs.lowest:g}; Bracketing() needs weights of 0 or more. "
            f"Use Admm(), which takes any sign."
        )
    if problem.partition.cuts is None or problem.partition.overlaps:
        raise InputError("the blocks overlap, or are of a graph; Bracketing() needs blocks of a grid without overlap.")
    require_flow_solver(problem.solver, "open_blocks", method="Bracketing()")
    return require_flow_solver(problem.solver, "open_flow", method="Bracketing()")


def _box(where: Any) -> Box:
    assert isinstance(where, tuple)
    return where


class TaskLog:
    """What blocks did since it was last read."""

    def __init__(self) -> None:
        self._tasks: list[BlockTask] = []
        self.statistics: object | None = None

    def measured(self, problem: Problem) -> Callable[[int, Measured], None]:
        """Takes the replies of those that measure the facts of an energy."""
        places, grid = [_box(block.where) for block in problem.partition.blocks], grid_of(problem.energy)

        def done(k: int, reply: Measured) -> None:
            sites, region = size(places[k]), size(grid.around(places[k]))
            self._tasks.append(reply.work.as_task(k, "measure", sites=sites, region=region))

        return done

    def done(self, tasks: Sequence[Task | None]) -> Callable[[int, Left], None]:
        """Takes what blocks left for these tasks."""

        def done(k: int, left: Left) -> None:
            task = tasks[k]
            if task is None or left.work is None:
                return
            ask = task.message
            sizes = {"sites": size(ask.mine), "region": size(ask.region)}
            self._tasks.append(left.work.as_task(k, ask.kind, **sizes, sent=left.read, received=left.bytes))

        return done

    def read(self) -> Tasks:
        tasks = Tasks(tuple(self._tasks), self.statistics)
        self._tasks, self.statistics = [], None
        return tasks


class _Run:
    """The coordinator's side: where posts are, how many sites are open in each cell, and in which box."""

    def __init__(self, problem: Problem, solver: FlowSolver, fixed: FixedPoint, log: TaskLog, room: int) -> None:
        self._problem, self._energy, self._fixed, self._board = problem, problem.energy, fixed, problem.board
        self._solver, self._log, self._room = solver, log, room
        self._name = secrets.token_hex(8)  # of what is kept on shelves
        shape = self._energy.shape
        partitions = [problem.partition, problem.partition.shifted()]
        self._tilings = [Tiling(shape, partition.cuts or ()) for partition in partitions]
        both = [sorted({*one, *other}) for one, other in zip(*(p.cuts or () for p in partitions), strict=True)]
        self._cells = Tiling(shape, both)
        self._open: dict[int, tuple[int, Box | None]] = {i: (size(b), b) for i, b in enumerate(self._cells.boxes)}
        self._proved: list[dict[int, Reference]] = []  # by pass and block
        self._flows: FlowRounds | None = None
        self._most = sites_of([box for tiling in self._tilings for box in tiling.boxes])
        problem.live.show(lambda box: self.labels(self._energy.whole if box is None else box))

    @property
    def open(self) -> int:
        """How many sites are not proved."""
        return sum(number for number, _ in self._open.values())

    def labels(self, box: Box) -> BinaryLabels:
        """Those that are known, proved or not; 0 where none is."""
        contents = [content_of(self._board, one) for one in self._posts_at(box)]
        return labels_in(overlaid(box, contents, sites=self._most))

    def prove(self, number: int) -> None:
        """Pass `number`, from what was known before it."""
        tiling, grid = self._tilings[(number - 1) % 2], grid_of(self._energy)
        tasks: list[Task | None] = []
        for k, block in enumerate(tiling.boxes):
            check_cancelled()
            mine = self._open_box(block)
            if mine is None:
                tasks.append(None)
                continue
            region = grid.around(mine)
            message = Prove(self._solver, self._fixed, mine, region)
            tasks.append(Task(message, self._codes_at(region), f"prove-{number:02}/{k:06}"))
        recipes = [BoxRecipe(self._energy, box, self._cells, self._most) for box in tiling.boxes]
        with Rounds(self._problem.executor, self._board, recipes) as rounds:
            found = rounds.play(tasks, done=self._log.done(tasks))
            self._log.statistics = rounds.statistics
        self._proved.append({k: left.post for k, left in enumerate(found) if left is not None})
        for left in found:
            for cell, unproved, box in () if left is None else left.summary["cells"]:
                self._open[int(cell)] = int(unproved), None if box is None else box_of(box)

    def _open_box(self, block: Box) -> Box | None:
        """The smallest box in a block, which consists of whole cells, that holds all its open sites."""
        found = [self._open[cell][1] for cell in self._cells.within(block)]
        return hull([box for box in found if box is not None])

    def _codes_at(self, region: Box) -> tuple[Reference, ...]:
        """The posts of passes that tell of a region, in the order of the passes."""
        return tuple(
            posts[k]
            for number, posts in enumerate(self._proved)
            for k in self._tilings[number % 2].within(region)
            if k in posts
        )

    def _posts_at(self, region: Box) -> list[Reference]:
        """The same, and what flows said last."""
        found = list(self._codes_at(region))
        if self._flows is not None:
            for k in self._tilings[0].within(region):
                found += [self._flows.labels_of(k)] if k in self._flows.flows else []
        return found

    def _sent_at(self, region: Box) -> list[Reference]:
        """The posts that tell what was sent over seams there."""
        flows = {} if self._flows is None else self._flows.flows
        return [flows[k].post for k in self._tilings[0].within(region) if k in flows]

    def flows(self) -> _Flowing:
        return _Flowing(self)

    def settle(self) -> None:
        """Labels for the sites that are still open, block by block."""
        with self.flows() as flows:
            next(flows.sweeps())

    def step(self, number: int, seconds: float) -> BracketingStep:
        left = self.open
        return BracketingStep(
            round=number,
            energy=None,
            disagreeing=left,
            sent=0 if self._flows is None else self._flows.sent,
            seconds=seconds,
            proved=1.0 - left / math.prod(self._energy.shape),
            rounding_error=self._fixed.error,
            tasks=self._log.read(),
        )

    def last(self, number: int, stopped: str, begun: float) -> BracketingStep:
        """The energy of the labels, what bounds it, and the labels in their place."""
        target, boxes, grid = self._problem.target, self._tilings[0].boxes, grid_of(self._energy)
        anywhere = getattr(target, "anywhere", False)
        tasks: list[Task | None] = []
        unique = secrets.token_hex(4)  # labels are written in every run, whatever is on the board
        for k, box in enumerate(boxes):
            check_cancelled()
            region = grid.around(box)
            reads = self._posts_at(region)
            message = Finish(box, region, len(reads), self._fixed.scale, target if anywhere else None)
            tasks.append(Task(message, (*reads, *self._sent_at(region)), f"finish-{unique}/{k:06}"))
        recipes = [BoxRecipe(self._energy, box, self._cells, self._most) for box in boxes]
        with Rounds(self._problem.executor, self._board, recipes) as rounds:
            found = [left for left in rounds.play(tasks, done=self._log.done(tasks)) if left is not None]
            self._log.statistics = rounds.statistics
        self._board.drop([left.post.name for left in found])
        if target is not None and not anywhere:  # such as an array in memory, or chunks that several boxes share
            for box in boxes:
                target[box] = self.labels(box)
        value = sum((Fraction(left.summary["energy"]) for left in found), Fraction(self._energy.constant))
        left_out = sum((Fraction(left.summary["left_out"]) for left in found), Fraction(0))
        if stopped == "exact" and left_out > Fraction(self._fixed.error):
            raise DopeError(
                f"blocks ended in disagreement by {float(left_out):g}; this is a fault of dope, please report it."
            )
        ones = sum(left.summary["ones"] for left in found)
        step = self.step(number, 0.0)
        exact = stopped == "exact" or left_out == 0
        return replace(
            step,
            energy=nearest(value),
            labels=self.labels(self._energy.whole) if target is None else None,
            lower_bound=rounded_down(value - (0 if exact else left_out) - Fraction(self._fixed.error)),
            proved=1.0 if exact else step.proved,
            disagreeing=0 if exact else step.disagreeing,
            exact=exact,
            counts=(math.prod(self._energy.shape) - ones, ones),
            stopped="exact" if exact and stopped == "undecided" else stopped,
            seconds=time.perf_counter() - begun,
        )


class _Flowing:
    """Rounds of flows over what a run left open, while a `with` lasts; what they end with is the run's."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        problem, tiling = run._problem, run._tilings[0]
        recipes = [FlowRecipe(run._energy, tiling, box, run._name, run._room) for box in tiling.boxes]
        self._rounds = Rounds(problem.executor, run._board, recipes, packed=False)

    def __enter__(self) -> FlowRounds:
        run, problem = self._run, self._run._problem
        self._rounds.__enter__()
        boxes = {k: run._open_box(box) for k, box in enumerate(run._tilings[0].boxes)}
        run._flows = FlowRounds(
            self._rounds,
            run._board,
            solver=run._solver,
            fixed=run._fixed,
            partition=problem.partition,
            pairs=grid_of(run._energy),
            open_boxes={k: box for k, box in boxes.items() if box is not None},
            codes=run._codes_at,
            done=run._log.done,
        )
        return run._flows

    def __exit__(self, *error: object) -> None:
        self._run._log.statistics = self._rounds.statistics
        self._rounds.__exit__(*error)


def _costs(energy: Energy) -> Costs:
    facts = energy.facts
    assert facts is not None
    pairs = grid_of(energy)
    of_pairs = pairs.binary_places() if pairs.fields is None and not pairs.beta else None
    places = None if of_pairs is None or facts.places is None else max(of_pairs, facts.places)
    # Outside a mask `Energy.grid` puts prices like the others.
    total = facts.total + (facts.sites - facts.inside) * (facts.largest or 1.0)
    return Costs(energy.pairs, facts.sites, places, facts.largest, total)
