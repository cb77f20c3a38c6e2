"""The rounds of ADMM, the coordinator's side: tasks for blocks, and sums of what they tell.

    solve      every block its own part, given the consensus nearby
    measure    every block the new consensus nearby, and its parts of energies and residuals
    journal    where a round ended, for those who resume it; what nobody will read any more is removed

What blocks do is in `admm_block`.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dope.arrays import BinaryLabels, Index, Sites
from dope.boards import Post
from dope.fixed_point import Costs, FixedPoint
from dope.footprint import ADMM_POST_BYTES, BOX_PROCESS_BYTES, OTHER_BITS, admm_box_bytes
from dope.methods.admm_block import BlockRecipe, Room, weight_of
from dope.methods.admm_messages import OWN, CountOf, Measure, Message, Repulsion, SketchOf, Solve, Some
from dope.methods.admm_near import Neighbor, Values
from dope.methods.journal import Journal
from dope.methods.lending import Minimizers
from dope.methods.pieces import Labelling, Layer, LivePieces, piece
from dope.methods.places import GridPlaces, Places, count_coupled, places_of, size_of
from dope.methods.rounds import Left, Reference, Rounds, Task
from dope.methods.selection import Count, Sketch, bracket, median
from dope.methods.task_log import TaskLog
from dope.pairs import GridPairs
from dope.protocols import FlowSolver, Problem
from dope.rounding import rounded_down
from dope.steps import AdmmStep, preferred

if TYPE_CHECKING:
    from dope.methods.admm import Admm

# What may stay open of arrays that are elsewhere, where nobody set a limit.
DEFAULT_ROOM = 1 << 30


@dataclass(frozen=True, eq=False)
class Round:
    """A round that is over: where what blocks left of it lies, and its step."""

    step: AdmmStep
    solved: list[Reference]
    measured: list[Reference]
    rounding: list[Reference]


class AdmmRounds:
    """What is known of the blocks, and what to ask them next.

    `boxes` says that arrays and labels are not to be held all at once. Posts are `packed` where somebody else reads
    them, and hold `most` bytes at most. `best` and `last` are rounds that are over, `started` is where labels to begin
    with are, and `price` what label 1 costs everywhere.
    """

    def __init__(self, method: Admm, problem: Problem, begun: float, log: TaskLog) -> None:
        energy, partition = problem.energy, problem.partition
        self.method, self.problem, self.begun, self.log = method, problem, begun, log
        self.boxes = problem.in_boxes or not energy.in_memory or problem.target is not None
        self.token = secrets.token_hex(8)
        self.places = {kind: places_of(energy.pairs, partition, kind) for kind in ("where", "owned", "region")}
        regions = self.places["region"]
        self._near = [[j for j in regions.meeting(regions[k]) if j != k] for k in range(len(regions))]
        self._sizes = [size_of(block.where) for block in partition.blocks]
        self._region_sizes = [size_of(regions[k]) for k in range(len(regions))]
        self.most = 64 * max(self._region_sizes) + (1 << 16)
        self.packed = self.boxes
        self._journal = Journal(problem.board)
        whole: Index = energy.whole if partition.cuts is not None else np.arange(energy.shape[0])
        self.live = LivePieces(self._first_labels, whole, energy.shape)
        problem.live.show(self.live.read)
        self._rounds: Rounds | None = None
        self.best: Round | None = None
        self.last: Round | None = None
        self.price = 0.0  # of label 1 everywhere
        self._sites: Sites | None = None
        self._order: Sites = np.zeros(0, dtype=np.int64)
        self._kept_before = 0
        self.started: Sequence[Reference] = ()

    # Blocks.

    def opened(self) -> Rounds:
        problem, regions = self.problem, self.places["region"]
        room, minimizers = self._room_for_blocks(), Minimizers(problem.solver)
        blocks = problem.partition.blocks
        recipes = [
            BlockRecipe(
                problem.energy.unread_excerpt(problem.partition, k, regions[k]),
                k,
                tuple(Neighbor(j, blocks[j].where, regions[j]) for j in near),
                minimizers,
                room,
                self.token,
            )
            for k, near in enumerate(self._near)
        ]
        self._rounds = Rounds(problem.executor, problem.board, recipes, packed=self.packed)
        return self._rounds

    def room(self) -> int | None:
        """Bytes of blocks that may stay in a process between two tasks; None for all of them."""
        problem, pairs = self.problem, self.problem.energy.pairs
        if not self.boxes:
            return None
        if problem.memory is None or not isinstance(pairs, GridPairs):
            return DEFAULT_ROOM
        workers = max(1, problem.executor.workers)
        if self._elsewhere:
            return max(0, problem.memory // workers - BOX_PROCESS_BYTES - self._block_bytes(pairs))
        board = 0 if problem.board.shared else ADMM_POST_BYTES * count_coupled(pairs, problem.partition)
        return max(0, problem.memory - BOX_PROCESS_BYTES - workers * self._block_bytes(pairs) - board)

    def _room_for_blocks(self) -> Room | None:
        total, pairs = self.room(), self.problem.energy.pairs
        if total is None:
            return None
        if not isinstance(pairs, GridPairs):
            return Room(total, total)
        processes = max(1, self.problem.executor.workers) if self._elsewhere else 1
        return Room.of(
            total,
            blocks=-(-len(self._sizes) // processes),
            opened=self._block_bytes(pairs),
            arrays=self.problem.energy.site_bytes * max(self._region_sizes),
        )

    @property
    def _elsewhere(self) -> bool:
        return bool(getattr(self.problem.executor, "elsewhere", False))

    def _block_bytes(self, pairs: GridPairs) -> int:
        """What a block takes that is at work."""
        sides = [max(high - low for low, high in axis) for axis in _grid_axes(self.places["where"])]
        return admm_box_bytes(pairs, sides, site_bytes=self.problem.energy.site_bytes, bits=_bits(self.problem))

    def _play(
        self, message: Message, reads: Sequence[tuple[Reference, ...]], name: str, *, shown: bool = False
    ) -> list[Left]:
        """What all blocks left; if they are labels to be shown, as soon as they are there."""
        assert self._rounds is not None

        def done(k: int, one: Left) -> None:
            self.log.add(k, message.kind, one, sites=self._sizes[k], region=self._region_sizes[k])
            if shown:
                self.live.show(k, one.post)

        tasks = [Task(message, read, f"{name}/{k:05}") for k, read in enumerate(reads)]
        left = [one for one in self._rounds.play(tasks, done=done) if one is not None]
        self.log.statistics = self._rounds.statistics
        return left

    def _ask_all(self, message: Message, name: str) -> list[Left]:
        return self._play(message, [()] * len(self._sizes), name)

    def _read(self, reference: Reference) -> Any:
        assert self._rounds is not None
        return self._rounds.read(reference, most=self.most).arrays

    def read_labels(self, reference: Reference) -> BinaryLabels:
        labels: BinaryLabels = self._read(reference)["labels"]
        return labels

    # The penalty.

    def _first_mu(self) -> float:
        if self.method.mu0 != "auto":
            return float(self.method.mu0)
        return self._median("strength") or self._median("unary") or 1.0

    def _median(self, some: Some) -> float:
        """Of numbers of all blocks, to the bit; 0 where there are none."""
        left = self._ask_all(SketchOf(some), f"sketch-{some}")
        arrays = [self._read(one.post) for one in left]
        sketches = [
            Sketch(one["values"], one["ranks"], told.summary["number"]) for one, told in zip(arrays, left, strict=True)
        ]
        number, names = sum(one.number for one in sketches), [one.post.name for one in left]
        if not number:
            return 0.0
        low, high = bracket(sketches)
        counted = self._ask_all(CountOf(some, low, high), f"count-{some}")
        counts = []
        for one in counted:
            found = self._read(one.post)
            counts.append(Count(one.summary["below"], found["values"], found["times"]))
        self.problem.board.drop([*names, *(one.post.name for one in counted)])
        return median(counts, number, kind=left[0].summary["type"])

    # Rounds.

    def steps(self) -> Iterator[AdmmStep]:
        """The steps, those of a run that is resumed first."""
        method = self.method
        self.live.begin(self.places["where"], self.read_labels)
        starts = self._starts()
        before: Round | None = None
        for before in self._resumed():
            yield self._taken(before)
        mu = self._first_mu() if before is None else before.step.mu * method.mu_fact
        while before is None or before.step.stopped is None:
            before = self._round(1 if before is None else before.step.round + 1, mu, before, starts)
            mu *= method.mu_fact
            step = self._taken(before)
            self._forget(step.round)
            yield step

    def _taken(self, one: Round) -> AdmmStep:
        """The step of a round, with its labels if they are wanted; the best is kept."""
        if self.best is None or preferred(one.step, self.best.step):
            self.best = one
        self.last = one
        return one.step

    def _round(self, number: int, mu: float, before: Round | None, starts: Sequence[Reference]) -> Round:
        method, blocks = self.method, range(len(self._sizes))
        message = Solve(mu, method.penalty == "all", before is None)
        reads: list[tuple[Reference, ...]]
        if before is None:
            reads = [(starts[k],) if starts else () for k in blocks]
        else:
            reads = list(zip(before.measured, before.solved, strict=True))
        solved = self._play(message, reads, f"solve-{number:04}", shown=True)
        for k in blocks:  # also those that were on the board already
            self.live.show(k, solved[k].post)
        told = Measure(mu, relaxed=not self.boxes, first=before is None)
        near = [
            (solved[k].post, solved[k].parts[OWN], *(solved[j].parts[str(k)] for j in self._near[k])) for k in blocks
        ]
        measured = self._play(told, near, f"measure-{number:04}")
        return self._told(number, mu, solved, measured)

    def _told(self, number: int, mu: float, solved: list[Left], measured: list[Left]) -> Round:
        energy, method = self.problem.energy, self.method
        sums = [one.summary for one in measured]
        columns = zip(*(one["energies"] for one in sums), strict=True)
        energies = [math.fsum([energy.constant, *column]) for column in columns]
        best = 1 if energies[1] <= energies[2] else 2
        rounding = [one.parts["majority" if best == 2 and "majority" in one.parts else "rounded"] for one in measured]
        answers = [one.summary for one in solved]
        before, bound, proved = self.best, None, None
        if number == 1:
            bound, proved = self._first_bound(answers), _proved(answers)
            self.price = math.fsum(one["price"] for one in answers)
        elif self.last is not None:
            bound = self.last.step.lower_bound
        waited = 0 if before is None or energies[best] < before.step.energy else number - before.step.round
        residuals = [math.sqrt(one["square"]) for one in sums]
        step = AdmmStep(
            round=number,
            energy=energies[best],
            disagreeing=sum(one["apart"] for one in sums),
            seconds=time.perf_counter() - self.begun,
            lower_bound=bound,
            mu=mu,
            residual=max(residuals),
            relaxed_energy=energies[0],
            shares=math.fsum([*(one["value"] for one in answers), *(one["pulled"] for one in sums), energy.constant]),
            multipliers=mu * math.fsum(one["product"] for one in sums),
            penalty=mu / 2 * math.fsum(one["square"] for one in sums),
            proved=proved,
            exact=len(solved) == 1 and answers[0]["exact"],
            rounding_error=math.fsum(one["rounding_error"] for one in answers),
            stopped=method.reason(residuals, self._sizes, number, waited),
            tasks=self.log.read(),
        )
        found = Round(step, [one.post for one in solved], [one.post for one in measured], rounding)
        self._note(found)
        if self.boxes:
            return found
        return replace(found, step=replace(step, labels=self._whole(rounding), relaxed=self._relaxed(measured)))

    def _whole(self, rounding: Sequence[Reference]) -> BinaryLabels:
        labels = np.empty(self.problem.energy.shape, dtype=np.bool_)
        owned = self.places["owned"]
        for k, post in enumerate(rounding):
            labels[owned[k]] = self.read_labels(post)
        return labels

    def _relaxed(self, measured: Sequence[Left]) -> tuple[Sites, Values] | None:
        """The sites where blocks meet, and y there; None in a run that was resumed, where nobody tells the sites."""
        if "sites" in measured[0].parts:
            sites: Sites = np.concatenate([self._read(one.parts["sites"])["sites"] for one in measured])
            self._order = np.argsort(sites)
            self._sites = sites[self._order]
        if self._sites is None:
            return None
        y: Values = np.concatenate([self._read(one.parts["relaxed"])["y"] for one in measured])
        return self._sites, y[self._order]

    def _first_bound(self, answers: Sequence[Any]) -> float | None:
        """The blocks' own bounds of the first round, when y is constant and the coupling zero.

        Dropping the coupling of attractive pairs can only lower the energy, that of repulsive ones raise it by at most
        what they weigh. One block has no coupling: its bound is the whole's.
        """
        bounds = [one["bound"] for one in answers if one["bound"] is not None]
        if len(bounds) < len(answers) or not all(map(math.isfinite, bounds)):
            return None
        energy = self.problem.energy
        repulsion = Fraction(0)
        if len(answers) > 1 and not energy.submodular:
            repulsion = sum((weight_of(one.summary) for one in self._ask_all(Repulsion(), "repulsion")), Fraction(0))
        errors = [self._rounding_of_shares(answers), *(one["rounding_error"] for one in answers)]
        gained = sum(map(Fraction, [energy.constant, *bounds]), Fraction(0))
        return rounded_down(gained - repulsion - sum(map(Fraction, errors)))

    def _rounding_of_shares(self, answers: Sequence[Any]) -> float:
        """How far the shares of unaries, each divided by its number of blocks, can be from adding up to them.

        Halves and quarters add up. Pairs need no room: those that attract count less than they weigh wherever they are
        divided, and those that repel are measured as they are.
        """
        counts = self.problem.partition.counts
        numbers = np.concatenate([np.ravel(one) for one in counts]) if isinstance(counts, tuple) else np.asarray(counts)
        if (np.frexp(numbers)[0] == 0.5).all():
            return 0.0
        kind = np.dtype(answers[0]["type"])
        return math.fsum(one["size"] for one in answers) * float(np.finfo(kind).eps)

    # What is on the board.

    def _starts(self) -> list[Reference]:
        """Where blocks find labels to begin with: those of an earlier result, unless they would freeze there."""
        start, where = self.problem.start, self.places["where"]
        if start is None:
            return []
        assert self._rounds is not None
        self.started = [
            self._rounds.leave(f"start/{k:05}", Post({}, piece(where[k], start.labels[where[k]])))
            for k in range(len(where))
        ]
        return [] if self.method.penalty == "all" else self.started

    def _note(self, one: Round) -> None:
        """Write down where a round ended, for those who resume it."""
        step = {name: getattr(one.step, name) for name in _STEP_FIELDS}
        self._journal.write(
            one.step.round,
            {"step": step, "price": self.price},
            {"solved": one.solved, "measured": one.measured, "rounding": one.rounding},
        )

    def _resumed(self) -> Iterator[Round]:
        """The rounds of a run that is resumed, up to the last of which all is there that the next one needs."""
        entries = self._journal.read()
        while entries and not self._goes_on_from(entries):
            entries.pop()
        for entry in entries:
            self.price = entry.said["price"]
            step = AdmmStep(**entry.said["step"])
            found = Round(step, *(entry.posts[name] for name in ("solved", "measured", "rounding")))
            if not self.boxes and self._journal.has(found.rounding):
                found = replace(found, step=replace(step, labels=self._whole(found.rounding)))
            if entry is entries[-1]:
                for k, post in enumerate(found.solved):
                    self.live.show(k, post)
            yield found

    def _goes_on_from(self, entries: Sequence[Any]) -> bool:
        """Whether all is there that follows from the last of these rounds: of it, and of the best."""
        best = min(entries, key=lambda entry: entry.said["step"]["energy"])
        last = entries[-1].posts
        return self._journal.has([*last["solved"], *last["measured"], *last["rounding"], *best.posts["rounding"]])

    def _forget(self, number: int) -> None:
        """Remove what nobody will read any more: of a folder, the round before stays, should a file be damaged."""
        assert self.best is not None
        old = number - (2 if self.problem.board.shared else 1)
        if old < 1:
            return
        names = [f"solve-{old:04}/{k:05}" for k in range(len(self._sizes))]
        kept = self.best.step.round
        for one in {old, self._kept_before} - {kept, 0}:
            if one <= old:
                names += [f"measure-{one:04}/{k:05}" for k in range(len(self._sizes))]
        self._kept_before = kept
        self.problem.board.drop(names)

    def labelling(self, one: Round) -> Labelling:
        """The labels of a round."""
        return Labelling(layers=(Layer(self.places["owned"], one.rounding),))

    def _first_labels(self, place: Index) -> BinaryLabels:
        """Labels to show before any block was solved."""
        start, energy = self.problem.start, self.problem.energy
        if start is not None:
            return start.labels[place].copy()
        if not self.boxes:
            return np.asarray(energy.unary[place] < 0)
        return np.zeros([s.stop - s.start for s in place], dtype=np.bool_)


def _bits(problem: Problem) -> int:
    """The width of the integers that blocks count in, which coupling makes fractions of whole costs."""
    energy, solver = problem.energy, problem.solver
    if not isinstance(solver, FlowSolver):
        return OTHER_BITS
    if solver.bits is not None or energy.facts is None:
        return solver.bits or 32
    facts = energy.facts
    return FixedPoint.for_costs(Costs(energy.pairs, facts.sites, None, facts.largest, facts.total)).bits


def _grid_axes(places: Places) -> tuple[tuple[tuple[int, int], ...], ...]:
    assert isinstance(places, GridPlaces)
    return places.axes


# What of a step is written down: all that is no array, and not who worked.
_STEP_FIELDS = tuple(one.name for one in fields(AdmmStep) if "large" not in one.metadata and one.name != "tasks")


def _proved(answers: Sequence[Any]) -> float | None:
    """The fraction of sites that the solver of a single block proved; of several, each would prove its share only."""
    if len(answers) > 1:
        return None
    proved: float | None = answers[0]["proved"]
    return proved
