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
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dope.arrays import Labels, Sites
from dope.errors import InputError
from dope.methods.admm_block import BlockRecipe, Measure, Near, Seams, Solve, Solved, Survey, Values
from dope.methods.sweeps import sweep
from dope.protocols import Crew, Problem, Step


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
    """

    mu0: float | Literal["auto"] = "auto"
    mu_fact: float = 1.2
    rounds: int = 24
    eps: float = 1e-3
    patience: int | None = 4
    penalty: Literal["coupled", "all"] = "coupled"
    sweeps: int = 2

    def __post_init__(self) -> None:
        positive = {"mu0": self.mu0, "mu_fact": self.mu_fact, "rounds": self.rounds, "patience": self.patience}
        for name, value in positive.items():
            if value not in ("auto", None) and not 0 < float(value) < math.inf:
                raise InputError(f"Admm: {name} is {value!r}; expected a positive number.")
        for name, value in {"eps": self.eps, "sweeps": self.sweeps}.items():
            if not 0 <= value < math.inf:
                raise InputError(f"Admm: {name} is {value!r}; expected a number of 0 or more.")
        if self.penalty not in ("coupled", "all"):
            raise InputError(f"Admm: penalty is {self.penalty!r}; expected 'coupled' or 'all'.")

    @classmethod
    def paper(cls, *, mu0: float = 100.0, mu_fact: float = 1.05, rounds: int = 3, eps: float = 1e-3) -> Admm:
        """The paper's settings: in 2D mu0 = 100 and 1 or 3 rounds, in 3D mu0 = 500 and 5 to 10 rounds.

        mu0 is an absolute number there, meant for unaries of a few units.
        """
        return cls(mu0=mu0, mu_fact=mu_fact, rounds=rounds, eps=eps, patience=None, penalty="all", sweeps=0)

    def steps(self, problem: Problem) -> Generator[Step, None, None]:
        """One Step per round."""
        begun = time.perf_counter()
        recipes = [
            BlockRecipe(problem.energy, problem.partition, k, problem.solver)
            for k in range(len(problem.partition.blocks))
        ]
        sweeps = self.sweeps if len(recipes) > 1 else 0
        best = last = None
        with problem.executor.gather(recipes) as crew:
            for last in self._rounds(problem, crew, begun):
                best = last if best is None or last.energy < best.energy else best
                yield replace(last, stopped=None) if sweeps else last
        assert best is not None and best.labels is not None and last is not None
        for number, labels in enumerate(sweep(problem, best.labels, sweeps), start=1):
            yield replace(
                last,
                round=last.round + number,
                sweep=number,
                energy=problem.energy(labels),
                labels=labels,
                seconds=time.perf_counter() - begun,
                stopped=last.stopped if number == sweeps else None,
            )

    def _rounds(self, problem: Problem, crew: Crew, begun: float) -> Generator[Step, None, None]:
        consensus = _Consensus(problem, crew.ask([Survey()] * len(problem.partition.blocks)))
        mu = consensus.first_mu(self.mu0)
        previous: list[Labels] | list[None] = [None] * len(consensus.blocks)
        best, best_round, bound = math.inf, 0, None
        for number in range(1, self.rounds + 1):
            questions = [
                Solve(consensus.near(k), block.a, mu, previous[k], self.penalty == "all")
                for k, block in enumerate(consensus.blocks)
            ]
            solved: list[Solved] = crew.ask(questions)
            previous = labels = [one.answer.labels for one in solved]
            step = consensus.update(solved, mu)
            whole, energy, relaxed = consensus.measure(crew, labels)
            if number == 1:
                bound = consensus.first_bound(solved)
            if energy < best:
                best, best_round = energy, number
            yield Step(
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
                exact=len(solved) == 1 and solved[0].answer.exact,
                rounding_error=math.fsum(one.answer.rounding_error for one in solved),
                stopped=(reason := self._reason(step, number, number - best_round)),
            )
            if reason:
                return
            mu *= self.mu_fact

    def _reason(self, step: _Update, number: int, waited: int) -> str | None:
        if all(r <= self.eps * math.sqrt(n) for r, n in zip(step.residuals, step.sizes, strict=True)):
            return "agreed"
        if number == self.rounds:
            return "round limit"
        if self.patience is not None and waited >= self.patience:
            return "stalled"
        return None


@dataclass(eq=False)
class _Tie:
    """A block as the coordinator sees it: where it meets the consensus, and its multiplier a_k."""

    coupled: Sites
    shell: Sites
    known: npt.NDArray[np.bool_]
    strength: Values
    size: int
    a: Values


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
    """y and a_k on the coupled sites, and the few equations that move them."""

    def __init__(self, problem: Problem, seams: Sequence[Seams]) -> None:
        self._problem = problem
        self.sites: Sites = np.unique(np.concatenate([s.coupled for s in seams]))
        self.blocks = [self._tie(s) for s in seams]
        self.y: Values = np.full(len(self.sites), 0.5)
        self._q = np.zeros(len(self.sites))
        for block in self.blocks:
            self._q[block.coupled] += 1
        self._majority = np.zeros(len(self.sites), dtype=np.bool_)

    def _tie(self, seams: Seams) -> _Tie:
        shell = np.minimum(np.searchsorted(self.sites, seams.shell), max(0, len(self.sites) - 1))
        known = self.sites[shell] == seams.shell if len(self.sites) else np.zeros(len(shell), dtype=np.bool_)
        coupled = np.searchsorted(self.sites, seams.coupled)
        return _Tie(coupled, shell[known], known, seams.strength, seams.size, np.zeros(len(coupled)))

    def first_mu(self, mu0: float | Literal["auto"]) -> float:
        if mu0 != "auto":
            return float(mu0)
        strengths = np.concatenate([block.strength for block in self.blocks])
        typical = float(np.median(strengths)) if len(strengths) else 0.0
        return typical or float(np.median(np.abs(self._problem.energy.unary))) or 1.0

    def near(self, k: int, values: npt.NDArray[Any] | None = None) -> Near:
        """The consensus (or other values on its sites) around block k."""
        values = self.y if values is None else values
        block = self.blocks[k]
        shell = np.zeros(len(block.known), dtype=values.dtype)
        shell[block.known] = values[block.shell]
        return Near(values[block.coupled], shell)

    def update(self, solved: Sequence[Solved], mu: float) -> _Update:
        """y <- Q^-1 sum_k [ S_k'(y_k + a_k) - A_k'y_k / mu ],   a_k <- a_k + y_k - S_k y."""
        total, pulls, votes = (np.zeros(len(self.sites)) for _ in range(3))
        for block, one in zip(self.blocks, solved, strict=True):
            total[block.coupled] += one.coupled + block.a
            pulls[block.coupled] += one.pull.coupled
            pulls[block.shell] += one.pull.shell[block.known]
            votes[block.coupled] += one.coupled
        self.y = (total - pulls / mu) / self._q
        self._majority = votes > self._q / 2
        rounded = self.y > 0.5
        apart = np.zeros(len(self.sites), dtype=np.bool_)
        residuals, multipliers, squares = [], [], []
        for block, one in zip(self.blocks, solved, strict=True):
            difference = one.coupled - self.y[block.coupled]
            apart[block.coupled[one.coupled != rounded[block.coupled]]] = True
            square = float(difference @ difference)
            residuals.append(math.sqrt(square))
            squares.append(square)
            multipliers.append(float(block.a @ difference))
            block.a = block.a + difference
        return _Update(
            residuals=residuals,
            sizes=[block.size for block in self.blocks],
            disagreeing=int(apart.sum()),
            shares=math.fsum([*(one.value for one in solved), float(self.y @ pulls), self._problem.energy.constant]),
            multipliers=mu * math.fsum(multipliers),
            penalty=mu / 2 * math.fsum(squares),
        )

    def measure(self, crew: Crew, labels: list[Labels]) -> tuple[Labels, float, float]:
        """The better of both roundings with its energy, and the energy of the relaxed y."""
        whole_numbers = np.rint(self.y)
        # Where blocks agree y is 0 or 1 up to float noise, and noise would make every pair there count as apart.
        relaxed = np.where(np.abs(self.y - whole_numbers) < 1e-9, whole_numbers, self.y)
        roundings = [self.y > 0.5]
        if not np.array_equal(roundings[0], self._majority):
            roundings.append(self._majority)
        candidates = [relaxed, *roundings]
        questions = [
            Measure(labels[k], tuple(self.near(k, values) for values in candidates)) for k in range(len(self.blocks))
        ]
        parts = crew.ask(questions)
        constant = self._problem.energy.constant
        energies = [math.fsum([constant, *column]) for column in zip(*parts, strict=True)]
        best = min(range(len(roundings)), key=lambda i: energies[1 + i])
        whole = self._problem.partition.assemble(labels)
        whole.flat[self.sites] = roundings[best]
        return whole, energies[1 + best], energies[0]

    def first_bound(self, solved: Sequence[Solved]) -> float | None:
        """The blocks' own bounds of the first round, when y is constant and the coupling zero.

        Without negative weights dropping the coupling can only lower the energy, so their sum bounds the minimum.
        One block has no coupling: its bound is the whole's, whatever the weights.
        """
        bounds = [one.answer.bound for one in solved]
        if len(solved) > 1 and not self._problem.energy.submodular:
            return None
        if any(bound is None for bound in bounds):
            return None
        return math.fsum([self._problem.energy.constant, *(b for b in bounds if b is not None)])
