"""The seams, on one page: what a solver, a method and an executor are to each other.

A solver minimises "this energy, with that unary" and has never heard of blocks. An executor runs work where the data
is and has never heard of energies. A method ties them together and yields a Step per round.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np

from dope.arrays import Labels, Reals
from dope.energy import Energy
from dope.errors import InputError
from dope.partition import Partition


@dataclass(frozen=True)
class Answer:
    """What a minimizer found: labels, and where it can prove them a lower bound and the proved sites.

    `bound` is a lower bound of the minimum, constant excluded, up to the rounding the solver admits to.
    `exact` says that the labels are a minimum (of the integer energy, where the solver counts in integers).
    """

    labels: Labels
    bound: float | None = None
    proved: Labels | None = None
    exact: bool = False
    rounding_error: float = 0.0


def checked_answer(answer: Answer, shape: tuple[int, ...]) -> Answer:
    """The answer of somebody's solver, if its labels are what they must be."""
    labels = getattr(answer, "labels", None)
    if not isinstance(labels, np.ndarray) or labels.dtype != np.bool_ or labels.shape != shape:
        found = (
            f"{labels.dtype} labels of shape {labels.shape}" if isinstance(labels, np.ndarray) else repr(answer)[:80]
        )
        raise InputError(f"a solver answered with {found}; expected Answer(labels) with bool labels of shape {shape}.")
    return answer


class Minimizer(Protocol):
    """One energy, ready to be minimized again and again as its unary term moves."""

    def minimize(self, unary: Reals, *, start: Labels | None = None) -> Answer:
        """Labels (bool, shaped like the unary) for these pairs with this unary.

        The unary may be of any real numbers, also where the one that `prepare` saw held integers. `start` are labels
        to begin with, for solvers that can use them. The answer depends on `unary` and `start` alone.
        """
        ...


class BlockSolver(Protocol):
    """A recipe for a minimizer: a small frozen dataclass, cheap to compare and to pickle."""

    def prepare(self, energy: Energy) -> Minimizer:
        """Open the energy's pairs; its unary says what kind of numbers to expect."""
        ...


class Worker(Protocol):
    """Something opened where its data is. A reply depends on the recipe and the message alone, never on history."""

    def __call__(self, message: Any, /) -> Any: ...


class Recipe(Protocol):
    """How to open a worker; can be pickled and opened again elsewhere."""

    def open(self) -> Worker: ...


class Crew(Protocol):
    """Workers that an executor keeps, until the `with` block that holds them ends."""

    def ask(self, messages: Sequence[Any]) -> list[Any]:
        """Send each worker its message, in parallel; the replies in the same order."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class Executor(Protocol):
    """Where work runs: a small frozen dataclass."""

    def gather(self, recipes: Sequence[Recipe]) -> Crew:
        """One worker per recipe, opened when first asked."""
        ...


@dataclass(frozen=True)
class Step:
    """One round of a method. Fields that a method does not have are None.

    Attributes
    ----------
    round : number of rounds done, from 1.
    sweep : 0, or the number of the sweep with which a method polishes its last round, whose other fields it repeats.
    energy : energy of this round's labels (the best of this round's roundings).
    labels : those labels; dropped from the trace that a Result keeps.
    disagreeing : sites on which some block differs from the consensus.
    seconds : since the method began.
    lower_bound, proved : a bound of the minimum, and the fraction of sites proved so far.
    mu, residual : the penalty, and the largest |y_k - S_k y| over the blocks.
    relaxed_energy : energy of the relaxed consensus y.
    shares, multipliers, penalty : terms of the augmented Lagrangian, sum_k of E_k(y_k, y), of mu a_k'(y_k - S_k y)
        and of mu/2 |y_k - S_k y|^2, with y of this round and a_k of the round before.
    exact, rounding_error : whether the labels are a minimum of the integer energy, and what rounding can cost.
    stopped : why the method ends here, None while it goes on.
    """

    round: int
    energy: float
    labels: Labels | None = field(default=None, repr=False)
    disagreeing: int = 0
    seconds: float = 0.0
    lower_bound: float | None = None
    proved: float | None = None
    mu: float | None = None
    residual: float | None = None
    relaxed_energy: float | None = None
    shares: float | None = None
    multipliers: float | None = None
    penalty: float | None = None
    exact: bool = False
    rounding_error: float = 0.0
    stopped: str | None = None
    sweep: int = 0

    @property
    def lagrangian(self) -> float | None:
        """The augmented Lagrangian: the sum of its terms."""
        if self.shares is None or self.multipliers is None or self.penalty is None:
            return None
        return self.shares + self.multipliers + self.penalty


@dataclass(frozen=True, eq=False)
class Problem:
    """What a method works on."""

    energy: Energy
    partition: Partition
    solver: BlockSolver
    executor: Executor


class Method(Protocol):
    """A way for blocks to agree: a small frozen dataclass."""

    def steps(self, problem: Problem) -> Generator[Step, None, None]:
        """One Step per round; the last one says why it stopped. Whoever reads them may leave earlier."""
        ...
