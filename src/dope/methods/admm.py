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
near it from what its neighbours left there (`admm_block`); the coordinator adds up a few numbers of each
(`admm_rounds`), and has labels swept over and bounded at the end (`admm_polish`). In the paper the penalty acts on
every site, which freezes the interior of a block at its last labels (mu (1/2 - y_ki)); with `penalty="coupled"` it acts
only where blocks meet.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from dope.arrays import digest
from dope.facts import measure_facts
from dope.methods.admm_polish import Polish
from dope.methods.admm_rounds import AdmmRounds
from dope.methods.admm_settings import check_settings, stop_reason
from dope.methods.sweeps import without_overlap
from dope.methods.task_log import TaskLog
from dope.pairs import GridPairs
from dope.protocols import Leave, Problem
from dope.steps import AdmmStep, Tasks


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
        check_settings(self)

    @classmethod
    def paper(cls, *, mu0: float = 100.0, mu_fact: float = 1.05, rounds: int = 3, eps: float = 1e-3) -> Admm:
        """The paper's settings: in 2D mu0 = 100 and 1 or 3 rounds, in 3D mu0 = 500 and 5 to 10 rounds.

        mu0 is an absolute number there, meant for unaries of a few units.
        """
        return cls(mu0=mu0, mu_fact=mu_fact, rounds=rounds, eps=eps, patience=None, penalty="all", sweeps=0, bound=0)

    def steps(self, problem: Problem) -> Generator[AdmmStep, None, None]:
        """One Step per round, and one per sweep."""
        begun = time.perf_counter()
        log = TaskLog()
        problem = _with_facts(problem, log)
        problem.board.begin(_manifest(self, problem))
        rounds = AdmmRounds(self, problem, begun, log)
        sweeps = self.sweeps if len(problem.partition.blocks) > 1 else 0
        polish: Polish | None = None
        stopped: str | None = None
        try:
            with rounds.opened():
                for step in rounds.steps():
                    if step.stopped is None or sweeps:
                        yield replace(step, stopped=None)
                    stopped = step.stopped
            polish = Polish(rounds)
            for step in polish.sweep(sweeps):
                if step.sweep < sweeps:
                    yield step
            polish.find_bound(self.bound)
            last = polish.last
        except Leave:
            if not rounds.boxes:
                raise
            polish = polish or Polish(rounds)
            stopped, last = "cancelled", replace(polish.last, tasks=Tasks(()))  # which were told
        best = polish.finish()
        tasks = replace(last.tasks, done=last.tasks.done + log.read().done)
        yield replace(last, seconds=time.perf_counter() - begun, stopped=stopped, best=best, tasks=tasks)

    def reason(self, residuals: Sequence[float], sizes: Sequence[int], number: int, waited: int) -> str | None:
        """Why to stop after a round, None to go on; the best labels are `waited` rounds old."""
        return stop_reason(self, residuals, sizes, number, waited)


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
