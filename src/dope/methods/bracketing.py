"""Bracketing: the global minimum of a submodular energy that need not fit into memory, or into one machine.

Let y* be the smallest minimiser, and some sites be *open*: their labels are not known yet. With everything outside a
block held at what is known, and open sites there at 0, the smallest minimiser of the block is at most y*; with those at
1 it is at least y*. Where the two are alike, the label is y*'s: it is *proved*, whatever the rest.

    pass 1    all blocks, everything outside open
    pass 2    blocks cut in the middle of those of pass 1: what was open near seams now lies inside
    ...       the two partitions by turns, only blocks with open sites, while passes prove much
    flows     what is still open is solved where it lies, by flows over the seams (`flow_rounds`), to the end

For a certificate, flows have to say all: there are no passes then, and everything is open.

A block reads its part of the arrays where it runs, and what others found on the board, and leaves there what it found
(`rounds`). The coordinator only counts. So blocks may run anywhere, fail and run again, in any order: the labels are
those of y*, to the bit.
"""

from __future__ import annotations

import math
import secrets
import time
import warnings
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dope.arrays import BinaryLabels, Box
from dope.boards import Board, FolderBoard
from dope.cancellation import check_cancelled
from dope.certificate import SeamFlows, StoredCertificate, integers
from dope.errors import DopeError, InputError
from dope.facts import measure_facts
from dope.fixed_point import Costs, FixedPoint
from dope.footprint import BOX_PROCESS_BYTES, box_bytes
from dope.methods.bracket_block import BoxRecipe, Finish, Outline, Prove, grid_of, sites_of
from dope.methods.codes import arrays_in, labels_in, overlaid
from dope.methods.flow_block import FlowRecipe
from dope.methods.flow_rounds import FlowRounds
from dope.methods.rounds import Left, Reference, Rounds, Task, content_of
from dope.methods.task_log import TaskLog
from dope.methods.tiling import Tiling, box_of, hull, size
from dope.protocols import FlowSolver, Leave, Problem, require_flow_solver
from dope.rounding import nearest, rounded_down
from dope.steps import BracketingStep

# A pass that leaves more than this share of what was open open is the last. If, of the first pass, one block in so many
# is asked and they leave more, the others are not asked. Each would be solved twice, to prove 5 % of 120^3 and 19 % of
# 800^2 in benchmarks/apart.py: without, CPU time fell from 24.6 to 23.2 s and from 13.7 to 11.2 s, one run each.
WORTH_ANOTHER_PASS = 0.5
SAMPLED = 7
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
    certifies: ClassVar[bool] = True

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
        fixed = problem.fixed or FixedPoint.for_costs(Costs.measured(energy), solver.bits)
        board.begin(manifest_of(problem, self, fixed))
        run = _Run(problem, solver, fixed, log, self._room(problem, fixed.bits))
        stopped: str | None = None
        passes = self.passes
        if problem.certificate is not None:
            run.outline()
            passes = 0
        number, left, before = 0, run.open, math.inf
        while left and number < passes and left <= WORTH_ANOTHER_PASS * before:
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
                    break
            else:
                stopped = None
                flows.reach()
            if stopped != "cancelled":
                run.certify(flows)
        return stopped, number

    def _room(self, problem: Problem, bits: int) -> int:
        """Of opened blocks in a process: a share of the memory, as far as blocks at work leave it."""
        if self.memory is not None:
            return self.memory
        if problem.memory is None:
            return SHELF_BYTES
        energy, boxes = problem.energy, [_box(block.where) for block in problem.partition.blocks]
        largest = [max(box[axis].stop - box[axis].start for box in boxes) for axis in range(len(energy.shape))]
        at_work = box_bytes(grid_of(energy), largest, site_bytes=energy.site_bytes, bits=bits)
        workers = max(1, min(problem.executor.workers, len(boxes)))
        mine = problem.memory
        if getattr(problem.executor, "elsewhere", False):  # and each process has one block at work
            mine, workers = problem.memory // workers, 1
        return max(0, min(mine // SHELF_SHARE, mine - BOX_PROCESS_BYTES - workers * at_work))


def manifest_of(problem: Problem, method: Bracketing, fixed: FixedPoint) -> dict[str, Any]:
    """What posts follow from."""
    energy, partition = problem.energy, problem.partition
    facts, pairs = energy.facts, grid_of(energy)
    assert facts is not None
    return {
        "method": f"Bracketing(passes={method.passes if problem.certificate is None else 0})",
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
        self._certificate: StoredCertificate | None = None
        self._uncertified: str | None = None
        self._most = sites_of([box for tiling in self._tilings for box in tiling.boxes])
        problem.live.show(lambda box: self._labels_now(self._energy.whole if box is None else box))

    @property
    def open(self) -> int:
        """How many sites are not proved."""
        return sum(number for number, _ in self._open.values())

    def labels(self, box: Box) -> BinaryLabels:
        """Those that are known, proved or not; 0 where none is."""
        return self._labels_of(box, self._posts_near(box))

    def _labels_of(self, box: Box, posts: Sequence[Reference]) -> BinaryLabels:
        return labels_in(overlaid(box, [content_of(self._board, one) for one in posts], sites=self._most))

    def _labels_now(self, box: Box) -> BinaryLabels:
        """The same from any thread: a post that was read about may be superseded before it is read."""
        while True:
            posts = self._posts_near(box)
            try:
                return self._labels_of(box, posts)
            except DopeError:
                if self._posts_near(box) == posts:
                    raise

    def prove(self, number: int) -> None:
        """Pass `number`, from what was known before it; of the first, some blocks, and the others if it is worth it."""
        tiling = self._tilings[(number - 1) % 2]
        tasks = self._proofs(number, tiling)
        every = SAMPLED if number == 1 and len(tasks) >= 2 * SAMPLED else 1
        sampled = range(every // 2, len(tasks), every)
        before = sum(self._open_in(tiling.box(k)) for k in sampled)
        recipes = [BoxRecipe(self._energy, box, self._cells, self._most) for box in tiling.boxes]
        self._proved.append({})
        with Rounds(self._problem.executor, self._board, recipes) as rounds:
            self._play_proofs(rounds, [task if k in sampled else None for k, task in enumerate(tasks)])
            if sum(self._open_in(tiling.box(k)) for k in sampled) <= WORTH_ANOTHER_PASS * before:
                self._play_proofs(rounds, [None if k in sampled else task for k, task in enumerate(tasks)])
            self._log.statistics = rounds.statistics

    def _proofs(self, number: int, tiling: Tiling) -> list[Task | None]:
        """What the blocks of a pass are to do, those with open sites."""
        tasks: list[Task | None] = []
        for k, block in enumerate(tiling.boxes):
            check_cancelled()
            mine = self._open_box(block)
            if mine is None:
                tasks.append(None)
                continue
            message = Prove(self._solver, self._fixed, mine, grid_of(self._energy).around(mine))
            tasks.append(Task(message, self._codes_near(mine), f"prove-{number:02}/{k:06}"))
        return tasks

    def _play_proofs(self, rounds: Rounds, tasks: Sequence[Task | None]) -> None:
        """Have blocks prove labels, and count what they leave open."""
        self._take(rounds.play(tasks, done=self._log.done(tasks)))

    def _take(self, found: Sequence[Left | None]) -> None:
        """Learn from posts of codes, which are of the last pass, which sites are open."""
        for k, left in enumerate(found):
            if left is None:
                continue
            self._proved[-1][k] = left.post
            for cell, unproved, box in left.summary["cells"]:
                self._open[int(cell)] = int(unproved), None if box is None else box_of(box)

    def _open_in(self, block: Box) -> int:
        """How many sites are open in a block, which consists of whole cells."""
        return sum(self._open[cell][0] for cell in self._cells.within(block))

    def outline(self) -> None:
        """Which sites take part, with nothing proved."""
        boxes = self._tilings[0].boxes
        tasks = [Task(Outline(box, box), (), f"outline/{k:06}") for k, box in enumerate(boxes)]
        self._proved.append({})
        self._take(self._played(boxes, tasks))

    def _played(self, boxes: Sequence[Box], tasks: Sequence[Task | None]) -> list[Left | None]:
        recipes = [BoxRecipe(self._energy, box, self._cells, self._most) for box in boxes]
        with Rounds(self._problem.executor, self._board, recipes) as rounds:
            found = rounds.play(tasks, done=self._log.done(tasks))
            self._log.statistics = rounds.statistics
        return found

    def certify(self, flows: FlowRounds) -> None:
        """Put what proves the bound into its folder, if one is wanted; labels are not lost where that fails."""
        if self._problem.certificate is None:
            return
        try:
            self._certificate = self._written(flows, Path(self._problem.certificate))
        except (OSError, InputError) as error:
            self._uncertified = str(error)
            warnings.warn(f"no certificate in {self._problem.certificate}: {error}", stacklevel=2)

    def _written(self, flows: FlowRounds, folder: Path) -> StoredCertificate:
        tiling = self._tilings[0]
        bounds = [0] * len(tiling.boxes)
        partition, fixed = self._problem.partition, self._fixed
        stored = StoredCertificate(folder, fixed.scale, partition.cuts or (), integers(bounds), fixed.error)
        found = flows.certify()
        none = np.zeros(0, dtype=np.int64)
        for k in range(len(bounds)):
            check_cancelled()
            seams: SeamFlows = none, none, none
            if k in found:
                bounds[k] = int(found[k].summary["bound"])
                arrays = arrays_in(content_of(self._board, found[k].post), self._most)
                seams = arrays["first"], arrays["second"], arrays["flow"]
            stored.save_flows(k, seams)
        whole = replace(stored, bounds=integers(bounds))
        whole.finish()
        return whole

    def _open_box(self, block: Box) -> Box | None:
        """The smallest box in a block that holds all its open sites."""
        found = [self._open[cell][1] for cell in self._cells.within(block)]
        return hull([box for box in found if box is not None])

    def _codes_near(self, box: Box) -> tuple[Reference, ...]:
        """The posts of passes that tell of a box and its neighbours, in the order of the passes."""
        return tuple(
            posts[k]
            for number, posts in enumerate(self._proved)
            for k in self._tilings[number % 2].near(box, grid_of(self._energy))
            if k in posts
        )

    def _posts_near(self, box: Box) -> list[Reference]:
        """The same, and what flows said last."""
        found = list(self._codes_near(box))
        if self._flows is not None:
            for k in self._tilings[0].near(box, grid_of(self._energy)):
                found += [self._flows.labels_of(k)] if k in self._flows.flows else []
        return found

    def _sent_by(self, k: int) -> list[Reference]:
        """The post that tells what a block sent over its seams, if it has any."""
        flows = {} if self._flows is None else self._flows.flows
        return [flows[k].post] if k in flows else []

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
            reads = self._posts_near(box)
            message = Finish(box, region, len(reads), self._fixed.scale, target if anywhere else None)
            tasks.append(Task(message, (*reads, *self._sent_by(k)), f"finish-{unique}/{k:06}"))
        found = [left for left in self._played(boxes, tasks) if left is not None]
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
            certificate=self._certificate,
            uncertified=self._uncertified,
            counts=(math.prod(self._energy.shape) - ones, ones),
            stopped="exact" if exact and stopped == "undecided" else stopped,
            seconds=time.perf_counter() - begun,
        )


class _Flowing:
    """Rounds of flows over what a run left open, while a `with` lasts; what they end with is the run's."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        problem, tiling = run._problem, run._tilings[0]
        recipes = [FlowRecipe(run._energy, box, run._name, run._room) for box in tiling.boxes]
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
            codes=run._codes_near,
            done=run._log.done,
        )
        return run._flows

    def __exit__(self, *error: object) -> None:
        self._run._log.statistics = self._rounds.statistics
        self._rounds.__exit__(*error)
