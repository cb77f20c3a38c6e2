"""ADMM over blocks with several labels: which the paper leaves to future work; y_i is one-hot.

    E(y) = sum_i c_i' y_i + sum_pairs w_ij (y_i - y_j)' (-V/2) (y_i - y_j),     y_i in {0, 1}^L with sum 1

which is the paper's y'Ly with -V/2 between the labels, as V(a, a) = 0: shares and couplings are those of two labels
(`admm`, `coupling`), A_k stands for theirs times -V/2.

    y_i = 1/L, a_k = 0, mu = mu0
    repeat
      y_k <- argmin over one-hot labels of ( c_k + A_k y + mu (a_k - S_k y) )' y_k + pairs of share k     in parallel
      y   <- projection of Q^-1 sum_k [ S_k'(y_k + a_k) - A_k' y_k / mu ] to the simplex, site by site
      a_k <- a_k + y_k - S_k y
      mu  <- mu * mu_fact
    until every |y_k - S_k y| <= eps sqrt(2 |block k|)

The penalty, mu/2 |y_k - S_k y + a_k|^2, is linear in y_k, as y_k'y_k is the number of sites. That of y is the same for
all labels of a site, so the best y on the simplex is the projection of the best of all. y and a_k live on coupled sites
only. Two one-hot vectors differ in two places: of two labels, mu is half of what it is in `Admm`, whose y may leave
[0, 1].
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Literal, cast

import numpy as np

from dope.cancellation import check_cancelled
from dope.errors import InputError
from dope.label_energy import LabelEnergy, LabelNumbers
from dope.methods.admm_settings import check_settings, stop_reason
from dope.methods.label_admm_block import BlockRecipe, BlockSolving, Bound, Fix, Solve, first_labels, in_one_block
from dope.methods.label_consensus import Consensus
from dope.methods.moves import kind_for, label_energy_of
from dope.methods.open_part import MEMORY, PART_SHARE, message_bytes
from dope.methods.places import size_of
from dope.methods.sweeps import swept_blocks
from dope.pairs import GraphPairs, GridPairs, Pairs, TablePairs
from dope.partition import Partition
from dope.protocols import Problem
from dope.rounding import nearest, rounded_down
from dope.steps import LabelAdmmStep


@dataclass(frozen=True)
class LabelAdmm:
    """Blocks agree on several labels by ADMM, for a `LabelEnergy` in memory; settings are those of `Admm`.

    Attributes
    ----------
    mu0 : first penalty; "auto" is the median coupling strength over all coupled sites of all blocks, times the most
        that two labels cost.
    mu_fact : the penalty grows by this factor each round.
    rounds : at most so many rounds.
    eps : blocks agree when every |y_k - S_k y| <= eps sqrt(2 |block k|).
    patience : stop when the best labels have not improved for so many rounds; None to go on.
    penalty : "coupled" (sites where blocks meet) or "all" (every site, as in the paper).
    sweeps : afterwards, so many sweeps over shifted blocks with their surroundings fixed; they never raise the energy.
    bound : at the end, so many rounds of message passing for a lower bound, over everything or, where that does not
        fit, within blocks; 0 for none.
    block : what minimizes a block: "moves", each a problem of two labels for the `solver` that `minimize` is given, or
        "messages", by the label solver that it is given, or LabelTrwS(). None: moves for a metric, else messages.
    """

    takes_labels: ClassVar[bool] = True
    takes_overlap: ClassVar[bool] = True

    mu0: float | Literal["auto"] = "auto"
    mu_fact: float = 1.2
    rounds: int = 10
    eps: float = 1e-3
    patience: int | None = 4
    penalty: Literal["coupled", "all"] = "coupled"
    sweeps: int = 2
    bound: int = 30
    block: Literal["moves", "messages"] | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        if self.block not in (None, "moves", "messages"):
            raise InputError(f"LabelAdmm: block is {self.block!r}; expected 'moves', 'messages' or None.")

    def steps(self, problem: Problem) -> Generator[LabelAdmmStep, None, None]:
        """One Step per round, one per sweep, and one with a bound at the end."""
        energy = label_energy_of(problem, "LabelAdmm()")
        if isinstance(energy.pairs, TablePairs):
            raise InputError("each pair has a table of its own; LabelAdmm() needs one metric for all. Use Moves().")
        if getattr(problem.executor, "elsewhere", False):
            raise InputError(f"executor is {problem.executor!r}; LabelAdmm() runs in this process: use Threads().")
        run = _Run(self, energy, problem)
        for step in run.rounds():
            yield replace(step, stopped=None)
        ended = last = step
        for last in run.swept(ended):
            yield last
        yield run.bounded(last, ended.stopped)


class _Run:
    """Rounds, sweeps and a bound of one energy; `best` are the best labels so far, and `value` their energy."""

    def __init__(self, method: LabelAdmm, energy: LabelEnergy, problem: Problem) -> None:
        self._method, self._energy, self._problem = method, energy, problem
        # With two labels a swap is the choice between both at every site.
        kind = "swap" if energy.label_count == 2 and energy.is_semimetric else kind_for(energy, None)
        by_moves = method.block == "moves" or (method.block is None and energy.is_metric)
        self._solving = BlockSolving(problem, kind, by_moves)
        start = problem.start
        self.best = first_labels(energy) if start is None else energy.as_labels(start.labels).copy()
        self.value = energy.exactly(self.best)
        problem.live.show(lambda box: np.array(self.best if box is None else self.best[box]))

    def _recipe(self, partition: Partition, k: int) -> BlockRecipe:
        return BlockRecipe(self._energy, partition, k, self._solving)

    def _weighed(self, labels: LabelNumbers) -> Fraction:
        """The energy of labels, which are kept if there are none better."""
        value = self._energy.exactly(labels)
        if value < self.value:
            self.best, self.value = labels, value
        return value

    def rounds(self) -> Iterator[LabelAdmmStep]:
        """A step for each round; the last one says why."""
        method, partition = self._method, self._problem.partition
        recipes = [self._recipe(partition, k) for k in range(len(partition.blocks))]
        consensus = Consensus(self._energy, partition, recipes)
        mu = consensus.first_mu() if method.mu0 == "auto" else float(method.mu0)
        freeze = method.penalty == "all"
        before: list[LabelNumbers | None] = [None] * len(recipes)
        if self._problem.start is not None and not freeze:
            before = [np.ascontiguousarray(self.best[one.where]) for one in recipes]
        sizes = [2 * size_of(one.where) for one in recipes]
        waited, lowest, stopped, number = 0, None, None, 0
        with self._problem.executor.gather(recipes) as crew:
            while stopped is None:
                check_cancelled()
                number += 1
                asks = [Solve(*consensus.near(k), mu, labels, freeze) for k, labels in enumerate(before)]
                solved = crew.ask(asks)
                residuals = consensus.update(solved, mu)
                found = consensus.labels(solved)
                value, chosen = min(((self._weighed(one), k) for k, one in enumerate(found)))
                waited = 0 if lowest is None or value < lowest else waited + 1
                lowest = value if lowest is None else min(value, lowest)
                stopped = stop_reason(method, residuals, sizes, number, waited)
                yield LabelAdmmStep(
                    round=number, energy=nearest(value), labels=found[chosen].copy(), mu=mu,
                    residual=max(residuals), disagreeing=consensus.disagreeing, stopped=stopped,
                )  # fmt: skip
                before, mu = [one.labels for one in solved], mu * method.mu_fact

    def swept(self, last: LabelAdmmStep) -> Iterator[LabelAdmmStep]:
        """A step for each sweep over the best labels."""
        if len(self._problem.partition.blocks) == 1:
            return
        for turn in range(self._method.sweeps):
            partition = swept_blocks(self._problem, shifted=turn % 2 == 0)
            labels = self.best.copy()
            for members in partition.apart(cast("Pairs", self._energy.pairs)):
                recipes = [self._recipe(partition, k) for k in members]
                asks = [Fix(np.ascontiguousarray(labels[one.coupling.region])) for one in recipes]
                with self._problem.executor.gather(recipes) as crew:
                    for one, found in zip(recipes, crew.ask(asks), strict=True):
                        labels[one.where] = found
            self._weighed(labels)
            yield replace(
                last, round=last.round + turn + 1, sweep=turn + 1, energy=nearest(self.value),
                labels=self.best.copy(), stopped=None,
            )  # fmt: skip

    def bounded(self, last: LabelAdmmStep, stopped: str | None) -> LabelAdmmStep:
        """The best labels, and a bound."""
        bound = self._bound()
        exact = bound is not None and self.value <= bound
        return replace(
            last, round=last.round + 1, energy=nearest(self.value), labels=self.best.copy(),
            lower_bound=None if bound is None else rounded_down(bound), exact=exact, proved=1.0 if exact else None,
            stopped="exact" if exact else stopped,
        )  # fmt: skip

    def _bound(self) -> Fraction | None:
        """By messages over everything; where that does not fit, within blocks, as no pair costs less than 0."""
        energy, problem, solver = self._energy, self._problem, self._problem.label_solver
        assert energy.metric is not None
        if not self._method.bound or solver is None:
            return None
        if message_bytes(energy) <= (problem.memory or MEMORY) // PART_SHARE:
            partition, threads = in_one_block(energy), problem.executor.workers
        else:
            partition, threads = _apart(energy, problem.partition), 1
            if cast("Pairs", energy.pairs).lowest < 0.0 or energy.metric.matrix(energy.label_count).min() < 0.0:
                return None
        recipes = [self._recipe(partition, k) for k in range(len(partition.blocks))]
        with problem.executor.gather(recipes) as crew:
            parts = crew.ask([Bound(solver, self._method.bound, threads)] * len(recipes))
        return None if None in parts else sum(parts, Fraction(energy.constant))


def _apart(energy: LabelEnergy, partition: Partition) -> Partition:
    """As many blocks, without overlap."""
    pairs = energy.pairs
    return (
        partition.even()
        if isinstance(pairs, GridPairs)
        else Partition.graph(cast("GraphPairs", pairs), len(partition.blocks))
    )
