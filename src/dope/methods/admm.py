"""DOPE: consensus ADMM over blocks (Dolz, Ben Ayed, Desrosiers, CVPR 2017), in its local form.

    y = 1/2, a_k = 0, mu = mu0
    repeat
      y_k <- argmin over {0,1} of ( u_k + A_k y + mu (a_k - S_k y + 1/2) )' y_k + y_k' L_k y_k      in parallel
      y   <- Q^-1 sum_k [ S_k'(y_k + a_k) - A_k' y_k / mu ]
      a_k <- a_k + y_k - S_k y
      mu  <- mu * mu_fact
    until every |y_k - S_k y| <= eps sqrt(|block k|)

with lam inside A_k and L_k. Away from the seams y_i = y_ki and a_ki = 0, so y and a are held on *coupled* sites only:
the state grows with the seams, never with the volume. Every block keeps its own part of it on the board, and computes y
near it from what its neighbours left there (`admm_block`); the coordinator adds up a few numbers of each. In the paper
the penalty acts on every site, which freezes the interior of a block at its last labels (mu (1/2 - y_ki)); with
`penalty="coupled"` it acts only where blocks meet.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from dope.arrays import BinaryLabels, Index, Sites, digest
from dope.boards import Post
from dope.energy import Energy
from dope.errors import InputError
from dope.facts import measure_facts
from dope.fixed_point import Costs, FixedPoint
from dope.footprint import ADMM_POST_BYTES, BOX_PROCESS_BYTES, OTHER_BITS, admm_box_bytes
from dope.live import LiveLabels
from dope.methods.admm_block import (
    OWN,
    BlockRecipe,
    CountOf,
    Measure,
    Message,
    Neighbor,
    Repulsion,
    SketchOf,
    Solve,
    Some,
    Values,
    weight_of,
)
from dope.methods.exact import Exact
from dope.methods.journal import Journal
from dope.methods.pieces import Labelling, Layer, LivePieces, boxes_of, piece
from dope.methods.places import GridPlaces, Places, count_coupled, places_of, size_of
from dope.methods.roof_bound import RoofBound, find_roof_bound
from dope.methods.rounds import Left, Reference, Rounds, Task
from dope.methods.selection import Count, Sketch, bracket, median
from dope.methods.sweeps import Sweeper, without_overlap
from dope.methods.task_log import TaskLog
from dope.pairs import GridPairs
from dope.protocols import FlowSolver, Leave, Problem, RoofDualSolver
from dope.rounding import nearest, rounded_down
from dope.steps import AdmmStep, BestLabels, ExactStep, Tasks

# What may stay open of arrays that are elsewhere, where nobody set a limit.
DEFAULT_ROOM = 1 << 30


@dataclass(frozen=True)
class Admm:
    """Blocks agree by ADMM. The defaults are ours; `Admm.paper()` has the paper's.

    Attributes
    ----------
    mu0 : first penalty; "auto" is the median coupling strength over all coupled sites of all blocks.
    mu_fact : the penalty grows by this factor each round.
    rounds : at most so many rounds.
    eps : blocks agree when every |y_k - S_k y| <= eps sqrt(|block k|).
    patience : stop when the best labels have not improved for so many rounds; None to go on.
    penalty : "coupled" (sites where blocks meet) or "all" (every site, as in the paper).
    sweeps : afterwards, so many sweeps over shifted blocks with their surroundings fixed; they never raise the energy.
    bound : at the end, so many rounds of flows between the blocks for a better lower bound, and the fraction of sites
        proved; only for a submodular energy and MaxFlow(), or for any energy with Qpbo() or TrwS(), whose blocks
        then go on to the roof dual of the whole. With 0, or where arrays stay where they are and blocks read them, the
        bound is that of the first round.
    """

    reads_boxes: ClassVar[bool] = True
    takes_memory: ClassVar[bool] = True
    resumable: ClassVar[bool] = True

    mu0: float | Literal["auto"] = "auto"
    mu_fact: float = 1.2
    rounds: int = 10
    eps: float = 1e-3
    patience: int | None = 4
    penalty: Literal["coupled", "all"] = "coupled"
    sweeps: int = 2
    bound: int = 2

    def __post_init__(self) -> None:
        if self.mu0 != "auto" and not (_is_number(self.mu0) and 0 < self.mu0 < math.inf):
            raise InputError(f"Admm: mu0 is {self.mu0!r}; expected a positive number or 'auto'.")
        if not (_is_number(self.mu_fact) and 0 < self.mu_fact < math.inf):
            raise InputError(f"Admm: mu_fact is {self.mu_fact!r}; expected a positive number.")
        if not (_is_number(self.eps) and 0 <= self.eps < math.inf):
            raise InputError(f"Admm: eps is {self.eps!r}; expected a number of 0 or more.")
        for name, value, least in (("rounds", self.rounds, 1), ("sweeps", self.sweeps, 0), ("bound", self.bound, 0)):
            if not _is_whole(value) or value < least:
                raise InputError(f"Admm: {name} is {value!r}; expected a whole number of {least} or more.")
        if self.patience is not None and (not _is_whole(self.patience) or self.patience < 1):
            raise InputError(f"Admm: patience is {self.patience!r}; expected a whole number of rounds, or None.")
        if self.penalty not in ("coupled", "all"):
            raise InputError(f"Admm: penalty is {self.penalty!r}; expected 'coupled' or 'all'.")

    @classmethod
    def paper(cls, *, mu0: float = 100.0, mu_fact: float = 1.05, rounds: int = 3, eps: float = 1e-3) -> Admm:
        """The paper's settings: in 2D mu0 = 100 and 1 or 3 rounds, in 3D mu0 = 500 and 5 to 10 rounds.

        mu0 is an absolute number there, meant for unaries of a few units.
        """
        return cls(mu0=mu0, mu_fact=mu_fact, rounds=rounds, eps=eps, patience=None, penalty="all", sweeps=0, bound=0)

    def steps(self, problem: Problem) -> Generator[AdmmStep, None, None]:
        """One Step per round."""
        begun = time.perf_counter()
        log = TaskLog()
        problem = _with_facts(problem, log)
        problem.board.begin(_manifest(self, problem))
        run = _Run(self, problem, begun, log)
        stopped: str | None = None
        try:
            with run.opened():
                for step in run.rounds():
                    if step.stopped is None or run.sweeps:
                        yield replace(step, stopped=None)
                    stopped = step.stopped
            for step in run.swept():
                if step.sweep < run.sweeps:
                    yield step
        except Leave:
            if not run.boxes:
                raise
            assert run.last is not None
            stopped, last = "cancelled", replace(run.last, tasks=Tasks(()))  # which were told
        else:
            last = self._bounded(problem, run)
        best = run.finish()
        tasks = replace(last.tasks, done=last.tasks.done + log.read().done)
        yield replace(last, seconds=time.perf_counter() - begun, stopped=stopped, best=best, tasks=tasks)

    def _bounded(self, problem: Problem, run: _Run) -> AdmmStep:
        """The last step with a bound by flows between the blocks, where that is possible."""
        last, partition, solver = run.last, problem.partition, problem.solver
        assert last is not None
        if not self.bound or len(partition.blocks) == 1 or (partition.overlaps and partition.cuts is None):
            return last
        if run.boxes or getattr(problem.executor, "elsewhere", False):  # flows are in the memory of one process
            return last
        whole = partition.even() if partition.overlaps else partition
        apart = replace(problem, partition=whole, start=None, live=LiveLabels())
        if problem.energy.submodular and isinstance(solver, FlowSolver):
            return _with_bound(last, self._flows(apart), problem.energy)
        if not problem.energy.submodular and isinstance(solver, RoofDualSolver):
            roof = find_roof_bound(apart, solver.flow_solver, rounds=self.bound)
            return _with_roof_bound(last, roof, problem.energy)
        return last

    def _flows(self, problem: Problem) -> ExactStep:
        """What some rounds of flows between the blocks end with."""
        steps = Exact(rounds=self.bound, bracket=True).steps(problem)
        with closing(steps):
            step = next(steps)
            while step.stopped is None:
                step = next(steps) if step.round <= self.bound else steps.throw(Leave())
        return step

    def reason(self, residuals: Sequence[float], sizes: Sequence[int], number: int, waited: int) -> str | None:
        """Why to stop after a round, None to go on; the best labels are `waited` rounds old."""
        if all(r <= self.eps * math.sqrt(n) for r, n in zip(residuals, sizes, strict=True)):
            return "agreed"
        if number == self.rounds:
            return "round limit"
        if self.patience is not None and waited >= self.patience:
            return "stalled"
        return None


def _with_facts(problem: Problem, log: TaskLog) -> Problem:
    """The problem with what must be known of all its arrays, where these are elsewhere or a checkpoint is kept."""
    energy = problem.energy
    if not isinstance(energy.pairs, GridPairs) or (energy.in_memory and not problem.board.shared):
        return problem
    even = without_overlap(problem.partition)
    done = log.measured(replace(problem, partition=even), kind="facts")
    return replace(problem, energy=measure_facts(energy, even, problem.executor, done=done))


def _manifest(method: Admm, problem: Problem) -> dict[str, Any]:
    """What posts follow from."""
    if not problem.board.shared:
        return {}
    energy, pairs, partition = problem.energy, problem.energy.pairs, problem.partition
    start = None if problem.start is None else digest([problem.start.labels])
    said = {"method": repr(method), "solver": _name(problem.solver), "shape": list(energy.shape), "start": start}
    if not isinstance(pairs, GridPairs):
        held = digest([np.asarray(block.where) for block in partition.blocks])
        return {**said, "arrays": digest([energy.unary, pairs.first, pairs.second, pairs.weights]), "blocks": held}
    assert energy.facts is not None
    return {
        **said,
        "arrays": energy.facts.digest,
        "kernel": pairs.offsets.tolist(),
        "weights": [value.hex() for value in pairs.factors.tolist()],
        "beta": float(pairs.beta or 0.0).hex(),
        "constant": energy.constant.hex(),
        "blocks": [list(axis) for axis in partition.cuts or ()],
        "overlap": [[int(count.max()), float(count.sum())] for count in partition.counts],
    }


def _name(solver: object) -> str:
    """What a solver is, in any process."""
    return repr(solver) if is_dataclass(solver) else f"{type(solver).__module__}.{type(solver).__qualname__}"


@dataclass(frozen=True, eq=False)
class _Round:
    """A round that is over: where what blocks left of it lies, and its step."""

    step: AdmmStep
    solved: list[Reference]
    measured: list[Reference]
    rounding: list[Reference]


class _Run:
    """The coordinator's side: tasks for blocks, and sums of what they tell."""

    def __init__(self, method: Admm, problem: Problem, begun: float, log: TaskLog) -> None:
        energy, partition = problem.energy, problem.partition
        self._method, self._problem, self._begun, self._log = method, problem, begun, log
        self.boxes = problem.in_boxes or not energy.in_memory or problem.target is not None
        self.sweeps = method.sweeps if len(partition.blocks) > 1 else 0
        self.last: AdmmStep | None = None
        self._token = secrets.token_hex(8)
        self._places = {kind: places_of(energy.pairs, partition, kind) for kind in ("where", "owned", "region")}
        regions = self._places["region"]
        self._near = [[j for j in regions.meeting(regions[k]) if j != k] for k in range(len(regions))]
        self._sizes = [size_of(block.where) for block in partition.blocks]
        self._region_sizes = [size_of(regions[k]) for k in range(len(regions))]
        self._most = 64 * max(self._region_sizes) + (1 << 16)
        self._packed = self.boxes
        self._journal = Journal(problem.board)
        whole: Index = energy.whole if partition.cuts is not None else np.arange(energy.shape[0])
        self._live = LivePieces(self._first_labels, whole, energy.shape)
        problem.live.show(self._live.read)
        self._rounds: Rounds | None = None
        self._best: _Round | None = None
        self._price = 0.0  # of label 1 everywhere
        self._found: tuple[float, Labelling] | None = None
        self._sites: Sites | None = None
        self._order: Sites = np.zeros(0, dtype=np.int64)
        self._kept_before = 0
        self._started: Sequence[Reference] = ()

    # Blocks.

    def opened(self) -> Rounds:
        problem, regions = self._problem, self._places["region"]
        room = self._room()
        blocks = problem.partition.blocks
        recipes = [
            BlockRecipe(
                problem.energy.unread_excerpt(problem.partition, k, regions[k]),
                k,
                tuple(Neighbor(j, blocks[j].where, regions[j]) for j in near),
                problem.solver,
                room,
                self._token,
            )
            for k, near in enumerate(self._near)
        ]
        self._rounds = Rounds(problem.executor, problem.board, recipes, packed=self._packed)
        return self._rounds

    def _room(self) -> int | None:
        """Bytes of blocks that may stay open in a process; None for all of them."""
        problem, pairs = self._problem, self._problem.energy.pairs
        if not self.boxes:
            return None
        if problem.memory is None or not isinstance(pairs, GridPairs):
            return DEFAULT_ROOM
        workers = max(1, problem.executor.workers)
        sides = [max(high - low for low, high in axis) for axis in _grid_axes(self._places["where"])]
        at_work = admm_box_bytes(pairs, sides, site_bytes=problem.energy.site_bytes, bits=_bits(problem))
        elsewhere = getattr(problem.executor, "elsewhere", False)
        if elsewhere:
            return max(0, problem.memory // workers - BOX_PROCESS_BYTES - at_work)
        board = 0 if problem.board.shared else ADMM_POST_BYTES * count_coupled(pairs, problem.partition)
        return max(0, problem.memory - BOX_PROCESS_BYTES - workers * at_work - board)

    def _play(
        self, message: Message, reads: Sequence[tuple[Reference, ...]], name: str, *, shown: bool = False
    ) -> list[Left]:
        """What all blocks left; if they are labels to be shown, as soon as they are there."""
        assert self._rounds is not None

        def done(k: int, one: Left) -> None:
            self._log.add(k, message.kind, one, sites=self._sizes[k], region=self._region_sizes[k])
            if shown:
                self._live.show(k, one.post)

        tasks = [Task(message, read, f"{name}/{k:05}") for k, read in enumerate(reads)]
        left = [one for one in self._rounds.play(tasks, done=done) if one is not None]
        self._log.statistics = self._rounds.statistics
        return left

    def _ask_all(self, message: Message, name: str) -> list[Left]:
        return self._play(message, [()] * len(self._sizes), name)

    def _read(self, reference: Reference) -> Any:
        assert self._rounds is not None
        return self._rounds.read(reference, most=self._most).arrays

    def _read_labels(self, reference: Reference) -> BinaryLabels:
        labels: BinaryLabels = self._read(reference)["labels"]
        return labels

    # The penalty.

    def _first_mu(self) -> float:
        if self._method.mu0 != "auto":
            return float(self._method.mu0)
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
        self._problem.board.drop([*names, *(one.post.name for one in counted)])
        return median(counts, number, kind=left[0].summary["type"])

    # Rounds.

    def rounds(self) -> Iterator[AdmmStep]:
        """The steps, those of a run that is resumed first."""
        method = self._method
        self._live.begin(self._places["where"], self._read_labels)
        starts = self._starts()
        before: _Round | None = None
        for before in self._resumed():
            yield self._taken(before)
        mu = self._first_mu() if before is None else before.step.mu * method.mu_fact
        while before is None or before.step.stopped is None:
            before = self._round(1 if before is None else before.step.round + 1, mu, before, starts)
            mu *= method.mu_fact
            step = self._taken(before)
            self._forget(step.round)
            yield step

    def _taken(self, one: _Round) -> AdmmStep:
        """The step of a round, with its labels if they are wanted; the best is kept."""
        if self._best is None or one.step.energy < self._best.step.energy:
            self._best = one
        self.last = one.step
        return one.step

    def _round(self, number: int, mu: float, before: _Round | None, starts: Sequence[Reference]) -> _Round:
        method, blocks = self._method, range(len(self._sizes))
        message = Solve(mu, method.penalty == "all", before is None)
        reads: list[tuple[Reference, ...]]
        if before is None:
            reads = [(starts[k],) if starts else () for k in blocks]
        else:
            reads = list(zip(before.measured, before.solved, strict=True))
        solved = self._play(message, reads, f"solve-{number:04}", shown=True)
        for k in blocks:  # also those that were on the board already
            self._live.show(k, solved[k].post)
        told = Measure(mu, relaxed=not self.boxes, first=before is None)
        near = [
            (solved[k].post, solved[k].parts[OWN], *(solved[j].parts[str(k)] for j in self._near[k])) for k in blocks
        ]
        measured = self._play(told, near, f"measure-{number:04}")
        return self._told(number, mu, solved, measured)

    def _told(self, number: int, mu: float, solved: list[Left], measured: list[Left]) -> _Round:
        energy, method = self._problem.energy, self._method
        sums = [one.summary for one in measured]
        columns = zip(*(one["energies"] for one in sums), strict=True)
        energies = [math.fsum([energy.constant, *column]) for column in columns]
        best = 1 if energies[1] <= energies[2] else 2
        rounding = [one.parts["majority" if best == 2 and "majority" in one.parts else "rounded"] for one in measured]
        answers = [one.summary for one in solved]
        before, bound, proved = self._best, None, None
        if number == 1:
            bound, proved = self._first_bound(answers), _proved(answers)
            self._price = math.fsum(one["price"] for one in answers)
        elif self.last is not None:
            bound = self.last.lower_bound
        waited = 0 if before is None or energies[best] < before.step.energy else number - before.step.round
        residuals = [math.sqrt(one["square"]) for one in sums]
        step = AdmmStep(
            round=number,
            energy=energies[best],
            disagreeing=sum(one["apart"] for one in sums),
            seconds=time.perf_counter() - self._begun,
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
            tasks=self._log.read(),
        )
        found = _Round(step, [one.post for one in solved], [one.post for one in measured], rounding)
        self._note(found)
        if self.boxes:
            return found
        return replace(found, step=replace(step, labels=self._whole(rounding), relaxed=self._relaxed(measured)))

    def _whole(self, rounding: Sequence[Reference]) -> BinaryLabels:
        labels = np.empty(self._problem.energy.shape, dtype=np.bool_)
        owned = self._places["owned"]
        for k, post in enumerate(rounding):
            labels[owned[k]] = self._read_labels(post)
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
        energy = self._problem.energy
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
        counts = self._problem.partition.counts
        numbers = np.concatenate([np.ravel(one) for one in counts]) if isinstance(counts, tuple) else np.asarray(counts)
        if (np.frexp(numbers)[0] == 0.5).all():
            return 0.0
        kind = np.dtype(answers[0]["type"])
        return math.fsum(one["size"] for one in answers) * float(np.finfo(kind).eps)

    # What is on the board.

    def _starts(self) -> list[Reference]:
        """Where blocks find labels to begin with: those of an earlier result, unless they would freeze there."""
        start, where = self._problem.start, self._places["where"]
        if start is None:
            return []
        assert self._rounds is not None
        self._started = [
            self._rounds.leave(f"start/{k:05}", Post({}, piece(where[k], start.labels[where[k]])))
            for k in range(len(where))
        ]
        return [] if self._method.penalty == "all" else self._started

    def _note(self, one: _Round) -> None:
        """Write down where a round ended, for those who resume it."""
        step = {name: getattr(one.step, name) for name in _STEP_FIELDS}
        self._journal.write(
            one.step.round,
            {"step": step, "price": self._price},
            {"solved": one.solved, "measured": one.measured, "rounding": one.rounding},
        )

    def _resumed(self) -> Iterator[_Round]:
        """The rounds of a run that is resumed, up to the last of which all is there that the next one needs."""
        entries = self._journal.read()
        while entries and not self._goes_on_from(entries):
            entries.pop()
        for entry in entries:
            self._price = entry.said["price"]
            step = AdmmStep(**entry.said["step"])
            found = _Round(step, *(entry.posts[name] for name in ("solved", "measured", "rounding")))
            if not self.boxes and self._journal.has(found.rounding):
                found = replace(found, step=replace(step, labels=self._whole(found.rounding)))
            if entry is entries[-1]:
                for k, post in enumerate(found.solved):
                    self._live.show(k, post)
            yield found

    def _goes_on_from(self, entries: Sequence[Any]) -> bool:
        """Whether all is there that follows from the last of these rounds: of it, and of the best."""
        best = min(entries, key=lambda entry: entry.said["step"]["energy"])
        last = entries[-1].posts
        return self._journal.has([*last["solved"], *last["measured"], *last["rounding"], *best.posts["rounding"]])

    def _forget(self, number: int) -> None:
        """Remove what nobody will read any more: of a folder, the round before stays, should a file be damaged."""
        assert self._best is not None
        old = number - (2 if self._problem.board.shared else 1)
        if old < 1:
            return
        names = [f"solve-{old:04}/{k:05}" for k in range(len(self._sizes))]
        kept = self._best.step.round
        for one in {old, self._kept_before} - {kept, 0}:
            if one <= old:
                names += [f"measure-{one:04}/{k:05}" for k in range(len(self._sizes))]
        self._kept_before = kept
        self._problem.board.drop(names)

    # Afterwards.

    def swept(self) -> Iterator[AdmmStep]:
        """The steps of sweeps over the best labels."""
        assert self._best is not None and self.last is not None
        best = self._best
        self._found = best.step.energy, self._labelling(best)
        if not self.sweeps:
            return
        begins = self._better_of(best)
        self._live.begin(self._places["owned"], self._read_labels)
        for k, post in enumerate(best.rounding):
            self._live.show(k, post)
        for number, labelling in enumerate(self._sweeper.sweep(begins, self.sweeps), start=1):
            labels = None if self.boxes else self._labels_of(labelling)
            energy = self._weighed(labelling, f"weigh-{number:02}") if labels is None else self._problem.energy(labels)
            if energy < self._found[0]:
                self._found = energy, labelling
            self.last = replace(
                self.last,
                round=self.last.round + 1,
                sweep=number,
                energy=energy,
                labels=labels,
                proved=None,
                seconds=time.perf_counter() - self._begun,
                stopped=None,
                tasks=self._log.read(),
            )
            yield self.last

    @property
    def _sweeper(self) -> Sweeper:
        return Sweeper(self._problem, self._packed, self._most, self._live, self._log)

    def _labelling(self, one: _Round) -> Labelling:
        return Labelling(layers=(Layer(self._places["owned"], one.rounding),))

    def _weighed(self, labelling: Labelling, name: str) -> float:
        return nearest(self._sweeper.weigh(labelling, name)[0])

    def _labels_of(self, labelling: Labelling) -> BinaryLabels:
        energy = self._problem.energy
        whole: Index = energy.whole if self._problem.partition.cuts is not None else np.arange(energy.shape[0])
        return labelling.labels(whole, self._read_labels)

    def _better_of(self, best: _Round) -> Labelling:
        """The labels of a round, or those to start with, or constant ones: small blocks can do that badly."""
        energy, least, labelling = self._problem.energy, best.step.energy, self._labelling(best)
        if self._started:
            start = Labelling(layers=(Layer(self._places["where"], self._started),))
            value = self._weighed(start, "weigh-start")
            if value < least:
                labelling, least = start, value
        price = self._price
        if energy.constant + min(0.0, price) < least:
            return Labelling(background=price < 0.0)
        return labelling

    def finish(self) -> BestLabels | None:
        """The best labels, where they belong, with their energy; None where steps have had them."""
        if not self.boxes:
            return None
        if self._found is None:
            assert self._best is not None
            self._found = self._best.step.energy, self._labelling(self._best)
        problem, labelling = self._problem, self._found[1]
        value, ones = self._sweeper.weigh(labelling, "weigh-best")
        labels: BinaryLabels | None = None
        if problem.target is None:
            labels = self._labels_of(labelling)
        elif getattr(problem.target, "anywhere", False):
            self._sweeper.write(labelling, self._places["owned"], name=f"written-{self._token}")
        else:
            for box in boxes_of(problem.energy.shape):
                problem.target[box] = labelling.labels(box, self._read_labels)
        sites = math.prod(problem.energy.shape)
        return BestLabels(value, labels, (sites - ones, ones))

    def _first_labels(self, place: Index) -> BinaryLabels:
        """Labels to show before any block was solved."""
        start, energy = self._problem.start, self._problem.energy
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


def _with_bound(last: AdmmStep, flows: ExactStep, energy: Energy) -> AdmmStep:
    """The last step with what flows found: labels that are proved, and a bound if it is better."""
    assert flows.labels is not None and flows.decided is not None and last.labels is not None
    last = _with_proved(last, flows.decided, flows.labels, energy)
    if flows.lower_bound is None or (last.lower_bound is not None and flows.lower_bound < last.lower_bound):
        return last
    return replace(last, lower_bound=flows.lower_bound, certificate=flows.certificate)


def _with_roof_bound(last: AdmmStep, roof: RoofBound, energy: Energy) -> AdmmStep:
    """The last step with what the roof dual proves: labels, and a bound if it is better."""
    if last.lower_bound is None or roof.lower_bound > last.lower_bound:
        last = replace(last, lower_bound=roof.lower_bound)
    return _with_proved(last, roof.decided, roof.labels, energy)


def _with_proved(last: AdmmStep, decided: BinaryLabels, found: BinaryLabels, energy: Energy) -> AdmmStep:
    """The last step with the labels found where they are decided, which does not raise the energy, and their number.

    Where costs were rounded, what is best for the integers can cost a little: the labels stay as they were then.
    """
    assert last.labels is not None
    labels: BinaryLabels = np.where(decided, found, last.labels)
    before, now = energy.exactly(last.labels), energy.exactly(labels)
    if now <= before:
        return replace(last, labels=labels, energy=nearest(now), proved=float(decided.mean()))
    return replace(last, proved=float((decided & (found == last.labels)).mean()))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
