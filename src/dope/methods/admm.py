"""DOPE: consensus ADMM over blocks (Dolz, Ben Ayed, Desrosiers, CVPR 2017), in its local form.

    y = 1/2, a_k = 0, mu = mu0
    repeat
      y_k <- argmin over {0,1} of ( u_k + A_k y + mu (a_k - S_k y + 1/2) )' y_k + y_k' L_k y_k      in parallel
      y   <- Q^-1 sum_k [ S_k'(y_k + a_k) - A_k' y_k / mu ]
      a_k <- a_k + y_k - S_k y
      mu  <- mu * mu_fact
    until every |y_k - S_k y| <= eps sqrt(|block k|)

with lam inside A_k and L_k. Away from the seams y_i = y_ki and a_ki = 0, so y and a are held on *coupled* sites only:
the state grows with the seams, never with the volume. In the paper the penalty acts on every site, which freezes the
interior of a block at its last labels (mu (1/2 - y_ki)); with `penalty="coupled"` it acts only where blocks meet.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Mask, Sites
from dope.energy import Energy
from dope.errors import InputError
from dope.live import LiveLabels
from dope.methods.admm_block import BlockRecipe, Measure, Near, Repulsion, Seams, Solve, Solved, Survey, Values
from dope.methods.exact import Exact
from dope.methods.roof_bound import RoofBound, find_roof_bound
from dope.methods.sweeps import sweep
from dope.protocols import Crew, FlowSolver, Leave, Problem, RoofDualSolver
from dope.rounding import nearest, rounded_down
from dope.steps import AdmmStep, ExactStep


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
        then go on to the roof dual of the whole. With 0 the bound is that of the first round.
    """

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
        recipes = [
            BlockRecipe(problem.energy, problem.partition, k, problem.solver)
            for k in range(len(problem.partition.blocks))
        ]
        sweeps = self.sweeps if len(recipes) > 1 else 0
        best = last = None
        live = _first_live(problem)
        problem.live.show(lambda box: live[... if box is None else box].copy())
        with problem.executor.gather(recipes) as crew:
            for last in self._rounds(problem, crew, begun, live):
                best = last if best is None or last.energy < best.energy else best
                if last.stopped is None or sweeps:
                    yield replace(last, stopped=None)
        assert best is not None and best.labels is not None and last is not None
        stopped = last.stopped
        polished = _better_of(best, problem)
        live[...] = polished
        for number, labels in enumerate(sweep(problem, polished, sweeps, live), start=1):
            last = replace(
                last,
                round=last.round + 1,
                sweep=number,
                energy=problem.energy(labels),
                labels=labels,
                proved=None,
                seconds=time.perf_counter() - begun,
            )
            if number < sweeps:
                yield replace(last, stopped=None)
        yield replace(self._bounded(problem, last), seconds=time.perf_counter() - begun, stopped=stopped)

    def _bounded(self, problem: Problem, last: AdmmStep) -> AdmmStep:
        """The last step with a bound by flows between the blocks, where that is possible."""
        partition, solver = problem.partition, problem.solver
        if not self.bound or len(partition.blocks) == 1 or (partition.overlaps and partition.cuts is None):
            return last
        if getattr(problem.executor, "elsewhere", False):  # flows are in the memory of one process
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

    def _rounds(
        self, problem: Problem, crew: Crew, begun: float, live: BinaryLabels
    ) -> Generator[AdmmStep, None, None]:
        survey = Survey(strength=self.mu0 == "auto")
        consensus = _Consensus(problem, crew.ask([survey] * len(problem.partition.blocks)))
        mu = consensus.first_mu(self.mu0)
        previous = self._first_labels(problem)
        best, best_round, bound = math.inf, 0, None
        for number in range(1, self.rounds + 1):
            questions = [
                Solve(consensus.near(k, consensus.y), consensus.multiplier(k), mu, labels_before, self.penalty == "all")
                for k, labels_before in enumerate(previous)
            ]
            solved: list[Solved] = crew.ask(questions, done=_showing(problem, live))
            previous = labels = [one.answer.labels for one in solved]
            step = consensus.update(solved, mu)
            whole, energy, relaxed = consensus.measure(crew, labels)
            if number == 1:
                bound = consensus.first_bound(crew, solved)
            if energy < best:
                best, best_round = energy, number
            yield AdmmStep(
                round=number,
                energy=energy,
                labels=whole,
                disagreeing=step.disagreeing,
                seconds=time.perf_counter() - begun,
                lower_bound=bound,
                mu=mu,
                residual=max(step.residuals),
                relaxed_energy=relaxed,
                shares=step.shares,
                multipliers=step.multipliers,
                penalty=step.penalty,
                proved=_proved(solved) if number == 1 else None,
                relaxed=(consensus.sites, consensus.y),
                exact=len(solved) == 1 and solved[0].answer.exact,
                rounding_error=math.fsum(one.answer.rounding_error for one in solved),
                stopped=(reason := self._reason(step, number, number - best_round)),
            )
            if reason:
                return
            mu *= self.mu_fact

    def _first_labels(self, problem: Problem) -> Sequence[BinaryLabels | None]:
        """What blocks begin with: the labels of an earlier result, unless they would freeze there."""
        blocks, start = problem.partition.blocks, problem.start
        if start is None or self.penalty == "all":
            return [None] * len(blocks)
        return [start.labels[block.where] for block in blocks]

    def _reason(self, step: _Update, number: int, waited: int) -> str | None:
        if all(r <= self.eps * math.sqrt(n) for r, n in zip(step.residuals, step.sizes, strict=True)):
            return "agreed"
        if number == self.rounds:
            return "round limit"
        if self.patience is not None and waited >= self.patience:
            return "stalled"
        return None


@dataclass(frozen=True)
class _Update:
    """What one consensus update shows."""

    residuals: list[float]
    sizes: list[int]
    disagreeing: int
    shares: float
    multipliers: float
    penalty: float


class _Consensus:
    """y and a_k on the coupled sites, and the few equations that move them.

    What every block holds stands block after block in one array (`_of_block[k]` is the slice of block k). Sums over
    blocks run in the order of the blocks, whatever the executor. Loops go over blocks because the numbers of one block
    fit into the cache.
    """

    def __init__(self, problem: Problem, seams: Sequence[Seams]) -> None:
        self._problem = problem
        self._of_block = _slices([len(one.coupled) for one in seams])
        self._shell_of_block = _slices([len(one.shell) for one in seams])
        self._sizes = [one.size for one in seams]
        self._strength = np.concatenate([one.strength for one in seams])
        everywhere = np.concatenate([one.coupled for one in seams])
        ordered = np.sort(everywhere)
        self.sites: Sites = ordered[np.diff(ordered, prepend=-1) > 0]
        self._coupled = np.searchsorted(self.sites, everywhere)
        self._shell, self._known = self._find(np.concatenate([one.shell for one in seams]))
        self._q = np.bincount(self._coupled, minlength=len(self.sites)).astype(np.float64)
        self.y: Values = np.full(len(self.sites), 0.5)
        self.a: Values = np.zeros(len(everywhere))
        self._majority = np.zeros(len(self.sites), dtype=np.bool_)

    def _find(self, sites: Sites) -> tuple[Sites, Mask]:
        """Where these sites stand among the coupled ones, and which do; corners of a shell may be nobody's."""
        places = np.searchsorted(self.sites, sites)
        places[places == len(self.sites)] = 0
        known = self.sites[places] == sites if len(self.sites) else np.zeros(len(sites), dtype=np.bool_)
        return places, known

    def first_mu(self, mu0: float | Literal["auto"]) -> float:
        if mu0 != "auto":
            return float(mu0)
        typical = float(np.median(self._strength)) if len(self._strength) else 0.0
        return typical or float(np.median(np.abs(self._problem.energy.unary))) or 1.0

    def multiplier(self, k: int) -> Values:
        """a_k."""
        return self.a[self._of_block[k]]

    def near(self, k: int, values: npt.NDArray[Any]) -> Near:
        """Values on the coupled sites, as seen from block k; 0 where its shell is nobody's neighbour."""
        known, places = self._known[self._shell_of_block[k]], self._shell[self._shell_of_block[k]]
        outside = np.zeros(len(known), dtype=values.dtype)
        outside[known] = values[places[known]]
        return Near(values[self._coupled[self._of_block[k]]], outside)

    def update(self, solved: Sequence[Solved], mu: float) -> _Update:
        """y <- Q^-1 sum_k [ S_k'(y_k + a_k) - A_k'y_k / mu ],   a_k <- a_k + y_k - S_k y."""
        votes, multipliers, pulls, pulls_outside = (np.zeros(len(self.sites)) for _ in range(4))
        for one, part, shell in zip(solved, self._of_block, self._shell_of_block, strict=True):
            places = self._coupled[part]
            votes[places] += one.coupled
            multipliers[places] += self.a[part]
            pulls[places] += one.pull.coupled
            known = self._known[shell]
            pulls_outside[self._shell[shell][known]] += one.pull.shell[known]
        pulls += pulls_outside
        y = (votes + multipliers - pulls / mu) / self._q
        # Where blocks agree y is 0 or 1 but for the last bits; without those, no weight need be computed there.
        whole = np.rint(y)
        self.y = np.where(np.abs(y - whole) < 1e-12, whole, y)
        self._majority = votes > self._q / 2
        rounded = self.y > 0.5
        apart = np.zeros(len(self.sites), dtype=np.bool_)
        squares, products, moved = [], [], np.empty_like(self.a)
        for one, part in zip(solved, self._of_block, strict=True):
            places = self._coupled[part]
            apart[places[one.coupled != rounded[places]]] = True
            difference = one.coupled - self.y[places]
            # Sums and not BLAS products, whose last bits depend on the number of threads.
            squares.append(float((difference * difference).sum()))
            products.append(float((self.a[part] * difference).sum()))
            moved[part] = self.a[part] + difference
        self.a = moved
        return _Update(
            residuals=[math.sqrt(square) for square in squares],
            sizes=self._sizes,
            disagreeing=int(apart.sum()),
            shares=math.fsum(
                [*(one.value for one in solved), float((self.y * pulls).sum()), self._problem.energy.constant]
            ),
            multipliers=mu * math.fsum(products),
            penalty=mu / 2 * math.fsum(squares),
        )

    def measure(self, crew: Crew, labels: list[BinaryLabels]) -> tuple[BinaryLabels, float, float]:
        """The better of both roundings with its energy, and the energy of the relaxed y."""
        roundings = [self.y > 0.5]
        if not np.array_equal(roundings[0], self._majority):
            roundings.append(self._majority)
        candidates = [self.y, *roundings]
        questions = [
            Measure(labels_k, tuple(self.near(k, values) for values in candidates)) for k, labels_k in enumerate(labels)
        ]
        parts = crew.ask(questions)
        constant = self._problem.energy.constant
        energies = [math.fsum([constant, *column]) for column in zip(*parts, strict=True)]
        best = min(range(len(roundings)), key=lambda i: energies[1 + i])
        whole = self._problem.partition.assemble(labels)
        whole.flat[self.sites] = roundings[best]
        return whole, energies[1 + best], energies[0]

    def first_bound(self, crew: Crew, solved: Sequence[Solved]) -> float | None:
        """The blocks' own bounds of the first round, when y is constant and the coupling zero.

        Dropping the coupling of attractive pairs can only lower the energy, that of repulsive ones raise it by at most
        what they weigh. One block has no coupling: its bound is the whole's.
        """
        bounds = [one.answer.bound for one in solved if one.answer.bound is not None]
        if len(bounds) < len(solved) or not all(map(math.isfinite, bounds)):
            return None
        repulsion: list[Fraction] = []
        if len(solved) > 1 and not self._problem.energy.submodular:
            repulsion = crew.ask([Repulsion()] * len(solved))
        errors = [_rounding_of_shares(self._problem), *(one.answer.rounding_error for one in solved)]
        gained = sum(map(Fraction, [self._problem.energy.constant, *bounds]), Fraction(0))
        return rounded_down(gained - sum(repulsion, Fraction(0)) - sum(map(Fraction, errors)))


def _rounding_of_shares(problem: Problem) -> float:
    """How far the shares of unaries, each divided by its number of blocks, can be from adding up to them.

    Halves and quarters add up. Pairs need no room: those that attract count less than they weigh wherever they are
    divided, and those that repel are measured as they are.
    """
    counts = problem.partition.counts
    numbers = np.concatenate([np.ravel(axis) for axis in counts]) if isinstance(counts, tuple) else np.asarray(counts)
    if (np.frexp(numbers)[0] == 0.5).all():
        return 0.0
    size = np.abs(problem.energy.unary)
    return float(size.sum(dtype=np.float64)) * float(np.finfo(size.dtype).eps)


def _proved(solved: Sequence[Solved]) -> float | None:
    """The fraction of sites that the solver of a single block proved; of several, each would prove its share only."""
    if len(solved) > 1 or solved[0].answer.proved is None:
        return None
    return float(solved[0].answer.proved.mean())


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


def _first_live(problem: Problem) -> BinaryLabels:
    """Labels to show before any block was solved."""
    start = problem.start
    return start.labels.copy() if start is not None else np.asarray(problem.energy.unary < 0)


def _showing(problem: Problem, live: BinaryLabels) -> Callable[[int, Solved], None]:
    """Puts a block's labels where they can be seen, as soon as they are there."""
    blocks = problem.partition.blocks

    def done(k: int, reply: Solved) -> None:
        live[blocks[k].where] = reply.answer.labels

    return done


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _better_of(best: AdmmStep, problem: Problem) -> BinaryLabels:
    """The labels of a step, or those to start with, or constant ones: small blocks can do that badly."""
    assert best.labels is not None
    energy, start = problem.energy, problem.start
    labels, least = best.labels, best.energy
    if start is not None and energy(start.labels) < least:
        labels, least = start.labels, energy(start.labels)
    price = float(energy.unary.sum(dtype=np.float64))
    if energy.constant + min(0.0, price) < least:
        return np.full(energy.shape, price < 0.0)
    return labels


def _slices(lengths: Sequence[int]) -> list[slice]:
    """Slices of these lengths, one after the other."""
    ends = np.cumsum([0, *lengths]).tolist()
    return [slice(low, high) for low, high in pairwise(ends)]
