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

import hashlib
import math
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dope import _core
from dope.arrays import Box, Sites
from dope.errors import DopeError, InputError
from dope.fixed_point import Costs, FixedPoint
from dope.lazy import SMALL_INTEGERS, Facts, LazyEnergy
from dope.methods.bracket_block import (
    BoxRecipe,
    Extract,
    Extracted,
    Finish,
    Finished,
    Look,
    Prove,
    Proved,
    Seen,
    Settle,
    Work,
)
from dope.methods.checkpoint import Checkpoint, read_manifest, require_new
from dope.methods.known import LABEL, OPEN, Codes, Known, packed, unpacked
from dope.partition import Partition
from dope.protocols import Executor, FlowSolver, LazyProblem, Leave, Problem, Step, Tasks
from dope.rounding import nearest, rounded_down

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

    def steps(self, problem: Problem | LazyProblem) -> Generator[Step, None, None]:
        """One Step per pass, and one at the end."""
        begun = time.perf_counter()
        if isinstance(problem, Problem):
            lazy = LazyEnergy.of(problem.energy)
            problem = LazyProblem(lazy, problem.partition, problem.solver, problem.executor)
        solver = _checked(problem)
        self._require_folder()
        problem = replace(problem, energy=looked_at(problem.energy, problem.partition, problem.executor))
        energy = problem.energy
        fixed = FixedPoint.for_costs(_costs(energy), solver.bits)
        run = _Run(problem, fixed, self._checkpoint(problem, fixed))
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
        if stopped is None and run.known.open and run.known.open <= self._open_sites(energy):
            run.solve_rest()
        stopped = stopped or ("undecided" if run.known.open else "exact")
        if run.known.open:
            run.settle()
        yield run.last(number + 1, stopped, begun)

    def _open_sites(self, energy: LazyEnergy) -> int:
        if self.memory is None:
            return OPEN_SITES
        return self.memory // (GRAPH_SITE_BYTES + GRAPH_PAIR_BYTES * energy.pairs.degree // 2)

    def _require_folder(self) -> None:
        """Refuse a folder that cannot be used before all arrays are read."""
        if self.checkpoint is not None:
            (read_manifest if self.resume else require_new)(Path(self.checkpoint))

    def _checkpoint(self, problem: LazyProblem, fixed: FixedPoint) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        manifest = manifest_of(problem.energy, problem.partition, fixed)
        make = Checkpoint.of if self.resume else Checkpoint.new
        return make(Path(self.checkpoint), manifest)


def manifest_of(energy: LazyEnergy, partition: Partition, fixed: FixedPoint) -> dict[str, Any]:
    """What replies follow from."""
    facts, pairs = energy.facts, energy.pairs
    assert facts is not None
    return {
        "shape": list(energy.shape),
        "arrays": facts.digest,
        "kernel": pairs.offsets.tolist(),
        "weights": [value.hex() for value in pairs.factors.tolist()],
        "beta": float(energy.beta or 0.0).hex(),
        "blocks": [list(axis) for axis in partition.cuts or ()],
        "scale": [fixed.scale.hex(), fixed.bits],
    }


def _checked(problem: LazyProblem) -> FlowSolver:
    if not problem.energy.submodular:
        raise InputError(
            f"a pair weight is as low as {problem.energy.pairs.lowest:g}; Bracketing() needs weights of 0 or more. "
            f"Use Admm(), which takes any sign, with arrays in memory."
        )
    if problem.partition.cuts is None or problem.partition.overlaps:
        raise InputError("the blocks overlap, or are of a graph; Bracketing() needs blocks of a grid without overlap.")
    if not isinstance(problem.solver, FlowSolver):
        raise InputError(f"the solver is {problem.solver!r}; Bracketing() counts flows and needs MaxFlow(), or None.")
    return problem.solver


def looked_at(energy: LazyEnergy, partition: Partition, executor: Executor) -> LazyEnergy:
    """The energy with its facts and its beta: all arrays are read once, or twice for pixels that are no integers."""
    if energy.facts is not None:
        return energy
    places = energy.beta == 0.0 and energy.pairs.binary_places() is not None if energy.fields is None else False
    small = energy.features is not None and energy.features.dtype.str in SMALL_INTEGERS
    first = Look(prices=True, places=places, unit=2.0**-6 if small and energy.beta is None else None)
    seen = _look(energy, partition, executor, first)
    inside = sum(one.inside for one in seen)
    if inside == 0:
        raise InputError("mask has no site inside; expected some that are not 0, where sites take part.")
    beta = energy.beta
    if beta is None:
        beta = _beta(energy, partition, executor, seen, first.unit)
    sites, largest = math.prod(energy.shape), max(one.largest for one in seen)
    found = [one.places for one in seen if one.inside]
    facts = Facts(
        sites=sites,
        inside=inside,
        largest=largest,
        total=math.fsum(one.total for one in seen),
        places=None if any(p is None for p in found) else max(p for p in found if p is not None),
        beta=beta,
        digest=hashlib.sha256("".join(one.digest for one in seen).encode()).hexdigest(),
    )
    return replace(energy, beta=beta, facts=facts)


def _look(energy: LazyEnergy, partition: Partition, executor: Executor, look: Look) -> list[Seen]:
    recipes = [BoxRecipe(energy, _box(block.where)) for block in partition.blocks]
    with executor.gather(recipes) as crew:
        return crew.ask([look] * len(recipes))


def _beta(
    energy: LazyEnergy, partition: Partition, executor: Executor, seen: Sequence[Seen], unit: float | None
) -> float:
    """As `mean_contrast_beta`: to the same bit, however the grid is cut."""
    lows = np.array([one.low for one in seen if one.low])
    highs = np.array([one.high for one in seen if one.low])
    spread = highs.max(axis=0) - lows.min(axis=0)
    widest = float((spread * spread).sum())
    if widest == 0.0 or not len(energy.pairs.offsets):
        return 0.0
    if not math.isfinite(widest):
        raise InputError("features differ by more than a float64 can square; scale them down first.")
    if unit is None:
        unit = math.ldexp(1.0, math.frexp(widest)[1] - 40)
        if unit == 0.0:
            return 0.0
        seen = _look(energy, partition, executor, Look(prices=False, places=False, unit=unit))
    total, pairs = sum(one.contrast for one in seen), sum(one.pairs for one in seen)
    return pairs / (2.0 * total * unit) if total else 0.0


def _box(where: Any) -> Box:
    assert isinstance(where, tuple)
    return where


class _Run:
    """The coordinator's side."""

    def __init__(self, problem: LazyProblem, fixed: FixedPoint, checkpoint: Checkpoint | None) -> None:
        self._problem, self._energy, self._fixed, self._checkpoint = problem, problem.energy, fixed, checkpoint
        self._partitions = [problem.partition, problem.partition.shifted()]
        cuts = [partition.cuts or () for partition in self._partitions]
        self.known = Known(self._energy.shape, cuts)
        self._tasks: list[tuple[int, Work]] = []
        self._sent = self._received = 0
        self._statistics: Any = None

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
        labels = _solved(
            sites[order],
            np.concatenate([part.unary for part in parts])[order],
            *(np.concatenate([getattr(part, name) for part in parts]) for name in ("first", "second", "weights")),
        )
        for block in partition.blocks:
            box = self.known.open_box(_box(block.where))
            if box is None:
                continue
            codes = self.known.read(box)
            places = np.nonzero(codes & OPEN)
            whole = tuple(p + s.start for p, s in zip(places, box, strict=True))
            found = np.searchsorted(sites[order], np.ravel_multi_index(whole, self._energy.shape))
            codes[places] = labels[found]
            self.known.write(box, codes)

    def settle(self) -> None:
        """Labels for the sites that are still open, block by block."""
        partition = self._partitions[0]
        replies: list[Proved | None] = self._ask(partition, self._messages(partition, Settle))
        for reply in replies:
            if reply is not None:
                self.known.write(reply.mine, _codes(reply))

    def step(self, number: int, seconds: float) -> Step:
        left = self.known.open
        return Step(
            round=number,
            energy=math.nan,
            disagreeing=left,
            seconds=seconds,
            proved=1.0 - left / math.prod(self._energy.shape),
            rounding_error=self._fixed.error,
            tasks=self._told(),
        )

    def last(self, number: int, stopped: str, begun: float) -> Step:
        """The energy of the labels, what bounds it, and the labels in their place."""
        target, partition = self._problem.target, self._partitions[0]
        around = [self._energy.pairs.around(_box(block.where)) for block in partition.blocks]
        anywhere = getattr(target, "anywhere", False)
        messages = [Finish(region, packed(self.known.read(region)), target if anywhere else None) for region in around]
        finished: list[Finished] = self._ask(partition, messages)
        if target is not None and not anywhere:  # such as an array in memory, or chunks that several boxes share
            for block in partition.blocks:
                box = _box(block.where)
                target[box] = (self.known.read(box) & LABEL) != 0
        value = sum((one.energy for one in finished), Fraction(self._energy.constant))
        left_out = sum((one.left_out for one in finished), Fraction(0))
        step = self.step(number, 0.0)
        exact = stopped == "exact" or (self.known.open == 0 and left_out == 0)
        return replace(
            step,
            energy=nearest(value),
            labels=(self.known.read(self._energy.whole) & LABEL) != 0 if target is None else None,
            lower_bound=rounded_down(value - left_out - Fraction(self._fixed.error)),
            exact=exact,
            ones=self.known.ones,
            stopped=stopped,
            seconds=time.perf_counter() - begun,
        )

    def _messages(self, partition: Partition, kind: type[Prove]) -> list[Prove | None]:
        """For every block with open sites, what it has to know of them and their neighbours."""
        messages: list[Prove | None] = []
        untouched = self.known.open == math.prod(self._energy.shape)
        for block in partition.blocks:
            mine = self.known.open_box(_box(block.where))
            if mine is None:
                messages.append(None)
                continue
            region = self._energy.pairs.around(mine)
            codes = None if untouched else packed(self.known.read(region))
            messages.append(kind(self._fixed, mine, region, codes))
        return messages

    def _ask(self, partition: Partition, messages: Sequence[Any], take: Any = None) -> list[Any]:
        recipes = [BoxRecipe(self._energy, _box(block.where)) for block in partition.blocks]
        self._sent += sum(len(message.codes or b"") for message in messages if message is not None)

        def done(k: int, reply: Any) -> None:
            self._tasks.append((k, reply.work))
            self._received += reply.bytes
            if take is not None:
                take(k, reply)

        with self._problem.executor.gather(recipes) as crew:
            replies = crew.ask(messages, done=done)
            self._statistics = getattr(crew, "statistics", None)
        return replies

    def _told(self) -> Tasks:
        """What was done since the last step."""
        tasks = Tasks(
            tuple(
                (k, work.worker, work.begun, work.ended, work.read, work.solve, work.write) for k, work in self._tasks
            ),
            self._sent,
            self._received,
            self._statistics,
        )
        self._tasks, self._sent, self._received, self._statistics = [], 0, 0, None
        return tasks


def _costs(energy: LazyEnergy) -> Costs:
    facts = energy.facts
    assert facts is not None
    of_pairs = energy.pairs.binary_places() if energy.fields is None and not energy.beta else None
    places = None if of_pairs is None or facts.places is None else max(of_pairs, facts.places)
    # Outside a mask `Energy.grid` puts prices like the others.
    total = facts.total + (facts.sites - facts.inside) * (facts.largest or 1.0)
    return Costs(energy.pairs, facts.sites, places, facts.largest, total)


def _text(box: Box) -> str:
    return ",".join(f"{s.start}:{s.stop}" for s in box)


def _codes(reply: Proved) -> Codes:
    return unpacked(reply.codes, [s.stop - s.start for s in reply.mine])


def _solved(sites: Sites, unary: Sites, first: Sites, second: Sites, weights: Sites) -> Codes:
    """The smallest minimiser of an integer energy on a graph of these sites."""
    edges = np.stack([np.searchsorted(sites, first), np.searchsorted(sites, second)], axis=1)
    flow = _core.GraphFlow(len(sites), edges, weights.astype(np.float64), 1.0, 64)
    flow.minimize(unary.astype(np.float64))
    return flow.labels().astype(np.uint8)
