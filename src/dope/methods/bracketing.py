"""Bracketing: the global minimum of a submodular energy that need not fit into memory, block by block, in passes.

Let y* be the smallest minimiser, and some sites be *open*: their labels are not known yet. With everything outside a
block held at what is known, and open sites there at 0, the smallest minimiser of the block is at most y*; with those at
1 it is at least y*. Where the two are alike, the label is y*'s: it is *proved*, whatever the rest.

    pass 1    all blocks, everything outside open
    pass 2    blocks cut in the middle of those of pass 1: what was open near seams now lies inside
    ...       the two partitions by turns, only blocks with open sites, while passes prove something
    finish    the energy that is left on the open sites, with all else held, is small: it is solved as one graph.
              Where it is not, blocks are solved without their pairs to open sites of others: that is a lower bound,
              and E(y) exceeds it by what those pairs cost

A block reads its part of the arrays where it runs, and keeps nothing; a reply follows from the message alone. The
coordinator holds a code of two bits per site, compressed (`known`), and files of replies, if asked to (`checkpoint`).
So blocks may run anywhere, fail and run again, in any order: the labels are those of y*, to the bit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dope.arrays import Box, Sites
from dope.cancellation import check_cancelled
from dope.energy import Energy
from dope.errors import DopeError, InputError
from dope.facts import Measured, measure_facts
from dope.fixed_point import Costs, FixedPoint
from dope.methods.bracket_block import BoxRecipe, Extract, Extracted, Finish, Finished, Prove, Proved, Settle, grid_of
from dope.methods.checkpoint import Checkpoint, read_manifest, require_new
from dope.methods.known import OPEN, Codes, Known, packed, unpacked
from dope.pairs import GraphPairs
from dope.partition import Partition
from dope.protocols import Executor, FlowSolver, Leave, Problem, require_flow_solver
from dope.rounding import nearest, rounded_down
from dope.steps import BlockTask, BracketingStep, Tasks

# A pass that leaves more than this share of what was open open is the last.
WORTH_ANOTHER_PASS = 0.5
# What the graph of the open sites takes, per site and per neighbour, while it is put together and solved.
GRAPH_SITE_BYTES, GRAPH_PAIR_BYTES = 120, 100
# That compressed codes of a few sites can take more than as they are.
MORE_BYTES = 1 << 12
# Open sites that are solved as one graph where nobody set a limit to memory.
OPEN_SITES = 5_000_000


@dataclass(frozen=True)
class Bracketing:
    """The global minimum of a submodular energy on a grid, in passes over blocks that need not be in memory together.

    Attributes
    ----------
    passes : at most so many; what is still open then is solved at once, if it fits into memory.
    memory : bytes that the coordinator may take for that; None allows for a few million sites.
    checkpoint : a folder for the replies of blocks, from which a run can be resumed.
    resume : whether to go on from the replies in that folder.
    """

    reads_boxes: ClassVar[bool] = True
    resumable: ClassVar[bool] = True

    passes: int = 8
    memory: int | None = None
    checkpoint: str | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        passes: object = self.passes
        if not isinstance(passes, (int, np.integer)) or isinstance(passes, bool) or passes < 1:
            raise InputError(f"Bracketing: passes is {self.passes!r}; expected a whole number of 1 or more.")
        if self.resume and self.checkpoint is None:
            raise InputError("Bracketing: resume is True without a checkpoint; expected the folder to go on from.")

    def steps(self, problem: Problem) -> Generator[BracketingStep, None, None]:
        """One Step per pass, and one at the end."""
        begun = time.perf_counter()
        solver = _checked(problem)
        told = self._told_by(problem)
        told._require_folder()
        log = TaskLog()
        energy = measure_facts(problem.energy, problem.partition, problem.executor, done=log.measured(problem))
        problem = replace(problem, energy=energy)
        fixed = FixedPoint.for_costs(_costs(energy), solver.bits)
        run = _Run(problem, solver, fixed, told._checkpoint(problem, fixed), log)
        stopped: str | None = None
        number, before = 0, math.inf
        while stopped is None:
            number += 1
            run.prove(number)
            left = run.known.open
            try:
                yield run.step(number, time.perf_counter() - begun)
            except Leave:
                stopped = "cancelled"
                break
            if left == 0 or number >= self.passes or left > WORTH_ANOTHER_PASS * before:
                break
            before = left if number > 1 else math.inf  # the second pass is the first that sees what lies beyond seams
        if stopped is None and run.known.open and run.known.open <= told._open_sites(energy):
            run.solve_rest()
        stopped = stopped or ("undecided" if run.known.open else "exact")
        if run.known.open:
            run.settle()
        yield run.last(number + 1, stopped, begun)

    def _told_by(self, problem: Problem) -> Bracketing:
        """What the problem says where nothing was said here: half of its memory is for the open sites."""
        memory = self.memory
        if memory is None and problem.memory is not None:
            memory = problem.memory // 2
        if self.checkpoint is not None or problem.checkpoint is None:
            return replace(self, memory=memory)
        return replace(self, memory=memory, checkpoint=problem.checkpoint, resume=problem.resume)

    def _open_sites(self, energy: Energy) -> int:
        if self.memory is None:
            return OPEN_SITES
        return self.memory // (GRAPH_SITE_BYTES + GRAPH_PAIR_BYTES * energy.pairs.degree // 2)

    def _require_folder(self) -> None:
        """Refuse a folder that cannot be used before all arrays are read."""
        if self.checkpoint is not None:
            (read_manifest if self.resume else require_new)(Path(self.checkpoint))

    def _checkpoint(self, problem: Problem, fixed: FixedPoint) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        manifest = manifest_of(problem.energy, problem.partition, fixed)
        make = Checkpoint.of if self.resume else Checkpoint.new
        return make(Path(self.checkpoint), manifest)


def manifest_of(energy: Energy, partition: Partition, fixed: FixedPoint) -> dict[str, Any]:
    """What replies follow from."""
    facts, pairs = energy.facts, grid_of(energy)
    assert facts is not None
    return {
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
            f"Use Admm(), which takes any sign, with arrays in memory."
        )
    if problem.partition.cuts is None or problem.partition.overlaps:
        raise InputError("the blocks overlap, or are of a graph; Bracketing() needs blocks of a grid without overlap.")
    return require_flow_solver(problem.solver, "open_flow", method="Bracketing()")


def _box(where: Any) -> Box:
    assert isinstance(where, tuple)
    return where


class TaskLog:
    """What blocks did since it was last read."""

    def __init__(self) -> None:
        self._tasks: list[BlockTask] = []
        self._statistics: object | None = None

    def measured(self, problem: Problem) -> Callable[[int, Measured], None]:
        """Takes the replies of those that measure the facts of an energy."""
        places, grid = [_box(block.where) for block in problem.partition.blocks], grid_of(problem.energy)

        def done(k: int, reply: Measured) -> None:
            sites, region = _size(places[k]), _size(grid.around(places[k]))
            self._tasks.append(reply.work.as_task(k, "measure", sites=sites, region=region))

        return done

    def ask(self, executor: Executor, recipes: Sequence[BoxRecipe], messages: Sequence[Any], take: Any) -> list[Any]:
        """The replies; `take` gets each with its place as soon as it is there."""

        def done(k: int, reply: Any) -> None:
            message = messages[k]
            sites, region = _size(getattr(message, "mine", recipes[k].where)), _size(message.region)
            sent = len(message.codes or b"")
            self._tasks.append(
                reply.work.as_task(k, message.kind, sites=sites, region=region, sent=sent, received=reply.bytes)
            )
            if take is not None:
                take(k, reply)

        with executor.gather(recipes) as crew:
            replies = crew.ask(messages, done=done)
            self._statistics = getattr(crew, "statistics", None)
        return replies

    def read(self) -> Tasks:
        tasks = Tasks(tuple(self._tasks), self._statistics)
        self._tasks, self._statistics = [], None
        return tasks


class _Run:
    """The coordinator's side."""

    def __init__(
        self, problem: Problem, solver: FlowSolver, fixed: FixedPoint, checkpoint: Checkpoint | None, log: TaskLog
    ) -> None:
        self._problem, self._energy, self._fixed, self._checkpoint = problem, problem.energy, fixed, checkpoint
        self._solver, self._log = solver, log
        self._partitions = [problem.partition, problem.partition.shifted()]
        cuts = [partition.cuts or () for partition in self._partitions]
        self.known = Known(self._energy.shape, cuts)
        problem.live.show(lambda box: self.known.labels(self._energy.whole if box is None else box))

    def prove(self, number: int) -> None:
        """Pass `number`, from what was known before it; replies that are in files already are taken from there."""
        partition = self._partitions[(number - 1) % 2]
        messages = self._messages(partition, Prove)
        for k, message in enumerate(messages if self._checkpoint is not None else ()):
            codes = None if message is None else self._kept(number, k, message.mine)
            if message is not None and codes is not None:
                self.known.write(message.mine, codes)
                messages[k] = None

        def take(k: int, reply: Proved) -> None:
            if self._checkpoint is not None:
                self._checkpoint.save(number, k, _text(reply.mine), reply.codes)
            # While others work; what they were sent was packed before.
            self.known.write(reply.mine, _codes(reply))

        self._ask(partition, messages, take)

    def _kept(self, number: int, k: int, mine: Box) -> Codes | None:
        """What a block has found before, if it is in a file and whole."""
        assert self._checkpoint is not None
        sides = [s.stop - s.start for s in mine]
        blob = self._checkpoint.load(number, k, _text(mine), most=2 * math.prod(sides) // 8 + MORE_BYTES)
        try:
            return None if blob is None else unpacked(blob, sides)
        except DopeError:
            return None

    def solve_rest(self) -> None:
        """What is left on the open sites as one graph, solved here."""
        partition = self._partitions[0]
        replies: list[Extracted | None] = self._ask(partition, self._messages(partition, Extract))
        parts = [part for part in replies if part is not None]
        sites = np.concatenate([part.sites for part in parts])
        order = np.argsort(sites)
        unary, first, second, weights = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("unary", "first", "second", "weights")
        )
        del replies, parts  # as large as the graph
        labels = self._solve_graph(sites[order], unary[order], first, second, weights)
        for block in partition.blocks:
            check_cancelled()
            box = self.known.open_box(_box(block.where))
            if box is None:
                continue
            codes = self.known.read(box)
            places = np.nonzero(codes & OPEN)
            whole = tuple(p + s.start for p, s in zip(places, box, strict=True))
            found = np.searchsorted(sites[order], np.ravel_multi_index(whole, self._energy.shape))
            codes[places] = labels[found]
            self.known.write(box, codes)

    def _solve_graph(self, sites: Sites, unary: Sites, first: Sites, second: Sites, weights: Sites) -> Codes:
        """The smallest minimiser of an integer energy on a graph of these sites."""
        ends = np.searchsorted(sites, first), np.searchsorted(sites, second)
        pairs = GraphPairs(len(sites), *ends, weights.astype(np.float64))  # not sorted, which no flow asks for
        flow = self._solver.open_flow(pairs, FixedPoint(1.0, 64, 0.0))
        flow.minimize(unary.astype(np.float64))
        return flow.labels().astype(np.uint8)

    def settle(self) -> None:
        """Labels for the sites that are still open, block by block."""
        partition = self._partitions[0]
        replies: list[Proved | None] = self._ask(partition, self._messages(partition, Settle))
        for reply in replies:
            if reply is not None:
                self.known.write(reply.mine, _codes(reply))

    def step(self, number: int, seconds: float) -> BracketingStep:
        left = self.known.open
        return BracketingStep(
            round=number,
            energy=None,
            disagreeing=left,
            seconds=seconds,
            proved=1.0 - left / math.prod(self._energy.shape),
            rounding_error=self._fixed.error,
            tasks=self._log.read(),
        )

    def last(self, number: int, stopped: str, begun: float) -> BracketingStep:
        """The energy of the labels, what bounds it, and the labels in their place."""
        target, partition = self._problem.target, self._partitions[0]
        around = [grid_of(self._energy).around(_box(block.where)) for block in partition.blocks]
        anywhere = getattr(target, "anywhere", False)
        messages = []
        for region in around:
            check_cancelled()
            messages.append(Finish(region, packed(self.known.read(region)), target if anywhere else None))
        finished: list[Finished] = self._ask(partition, messages)
        if target is not None and not anywhere:  # such as an array in memory, or chunks that several boxes share
            for block in partition.blocks:
                box = _box(block.where)
                target[box] = self.known.labels(box)
        value = sum((one.energy for one in finished), Fraction(self._energy.constant))
        left_out = sum((one.left_out for one in finished), Fraction(0))
        step = self.step(number, 0.0)
        exact = stopped == "exact" or (self.known.open == 0 and left_out == 0)
        return replace(
            step,
            energy=nearest(value),
            labels=self.known.labels(self._energy.whole) if target is None else None,
            lower_bound=rounded_down(value - left_out - Fraction(self._fixed.error)),
            exact=exact,
            counts=(math.prod(self._energy.shape) - self.known.ones, self.known.ones),
            stopped=stopped,
            seconds=time.perf_counter() - begun,
        )

    def _messages(self, partition: Partition, kind: type[Prove]) -> list[Prove | None]:
        """For every block with open sites, what it has to know of them and their neighbours."""
        messages: list[Prove | None] = []
        untouched = self.known.open == math.prod(self._energy.shape)
        for block in partition.blocks:
            check_cancelled()
            mine = self.known.open_box(_box(block.where))
            if mine is None:
                messages.append(None)
                continue
            region = grid_of(self._energy).around(mine)
            codes = None if untouched else packed(self.known.read(region))
            messages.append(kind(self._solver, self._fixed, mine, region, codes))
        return messages

    def _ask(self, partition: Partition, messages: Sequence[Any], take: Any = None) -> list[Any]:
        recipes = [BoxRecipe(self._energy, _box(block.where)) for block in partition.blocks]
        return self._log.ask(self._problem.executor, recipes, messages, take)


def _costs(energy: Energy) -> Costs:
    facts = energy.facts
    assert facts is not None
    pairs = grid_of(energy)
    of_pairs = pairs.binary_places() if pairs.fields is None and not pairs.beta else None
    places = None if of_pairs is None or facts.places is None else max(of_pairs, facts.places)
    # Outside a mask `Energy.grid` puts prices like the others.
    total = facts.total + (facts.sites - facts.inside) * (facts.largest or 1.0)
    return Costs(energy.pairs, facts.sites, places, facts.largest, total)


def _size(box: Box) -> int:
    return math.prod(s.stop - s.start for s in box)


def _text(box: Box) -> str:
    return ",".join(f"{s.start}:{s.stop}" for s in box)


def _codes(reply: Proved) -> Codes:
    return unpacked(reply.codes, [s.stop - s.start for s in reply.mine])
