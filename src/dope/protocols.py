"""The seams, on one page: what a solver, a method and an executor are to each other.

A solver minimises "this energy, with that unary" and has never heard of blocks. An executor runs work where the data
is and has never heard of energies. A method ties them together and yields a Step per round.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Mask, Reals, Sites
from dope.certificate import Certificate
from dope.energy import Energy
from dope.errors import InputError
from dope.lazy import LazyEnergy
from dope.partition import Partition


@dataclass(frozen=True)
class Answer:
    """What a minimizer found: labels, and where it can prove them a lower bound and the proved sites.

    `bound` is a lower bound of the minimum, constant excluded, but for the rounding that the solver admits to: no
    labels have less energy than bound - rounding_error.
    `exact` says that the labels are a minimum (of the integer energy, where the solver counts in integers).
    """

    labels: BinaryLabels
    bound: float | None = None
    proved: Mask | None = None
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

    def minimize(self, unary: Reals, *, start: BinaryLabels | None = None) -> Answer:
        """Labels (bool, shaped like the unary) for these pairs with this unary.

        The unary may be of any real numbers, also where the one that `prepare` saw held integers. `start` are labels
        to begin with, for solvers that can use them. The answer depends on `unary` and `start` alone.
        """
        ...


@dataclass(frozen=True, eq=False)
class Crossings:
    """The pairs across a face of a grid, one entry each, and what can still flow over them.

    `below` and `above` are the flat positions of a pair's ends; `upward` and `downward` its residual capacities from
    below to above and back, whole numbers in units of 1 / scale. They add up to twice the pair's weight.
    """

    below: Sites
    above: Sites
    upward: npt.NDArray[np.int64]
    downward: npt.NDArray[np.int64]
    scale: float


@runtime_checkable
class FlowMinimizer(Minimizer, Protocol):
    """A minimizer that keeps a flow from call to call, counted in whole numbers, and shows it.

    After `minimize` or `change`, `labels`, `value` and `crossings` tell of the same flow; after one of those two was
    interrupted, `minimize` comes first. One thread at a time: a call while another thread is at work with the same
    minimizer raises RuntimeError.
    """

    @property
    def scale(self) -> float:
        """Costs are counted in units of 1 / scale, a power of two; a new scale may come with `minimize` or `reopen`."""
        ...

    @property
    def rounding_error(self) -> float:
        """How far counting in those units can put `value` from the minimum; 0 where the costs are whole in them."""
        ...

    @property
    def bytes(self) -> int:
        """Bytes held."""
        ...

    def change(self, sites: Sites, unary: Reals) -> None:
        """Minimize again where only the unary of these sites (flat positions) is new; work in proportion to them.

        The other sites keep the unary of the last call. A site listed twice gets its last value. InputError, and
        nothing is changed, where a value cannot be counted in the units that hold the others (a fraction among whole
        costs, or a number so large that it was cut off): give all of the unary to `minimize` then.
        """
        ...

    def labels(self, *, largest: bool = False) -> BinaryLabels:
        """The minimizer with the fewest sites True, or the one with the most: every other lies between them."""
        ...

    def value(self) -> float:
        """The minimum, the energy's constant excluded, within `rounding_error`."""
        ...

    def crossings(self, axis: int, at: int) -> Crossings:
        """The pairs with one end before index `at` of this axis and the other not; a graph has none to show."""
        ...

    def reopen(self, energy: Energy) -> None:
        """Become what `prepare(energy)` gives, in the memory held where shape, kernel and width allow."""
        ...


class BlockSolver(Protocol):
    """A recipe for a minimizer: a small frozen dataclass, cheap to compare and to pickle."""

    def prepare(self, energy: Energy) -> Minimizer:
        """Open the energy's pairs; its unary says what kind of numbers to expect."""
        ...


@runtime_checkable
class FlowSolver(BlockSolver, Protocol):
    """A block solver that counts flows in integers of so many bits, or None for what suits the costs."""

    @property
    def bits(self) -> int | None: ...


class Worker(Protocol):
    """Something opened where its data is. A reply depends on the recipe and the message alone, never on history."""

    def __call__(self, message: Any, /) -> Any: ...


class Recipe(Protocol):
    """How to open a worker; can be pickled and opened again elsewhere."""

    def open(self) -> Worker: ...


class Crew(Protocol):
    """Workers that an executor keeps, until the `with` block that holds them ends."""

    def ask(
        self,
        messages: Sequence[Any],
        *,
        begun: Callable[[int], object] | None = None,
        done: Callable[[int, Any], object] | None = None,
    ) -> list[Any]:
        """Send each worker its message, in parallel; the replies in the same order.

        A worker whose message is None is left alone, and its reply is None. Of every other one, `begun(k)` is called,
        in whatever thread, when worker k begins with its message, and `done(k, reply)`, in the calling thread, as soon
        as the reply is there.

        When a `Cancellation` that the calling thread has entered is cancelled, this raises `Cancelled` within tens of
        milliseconds, and stops the workers.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class Executor(Protocol):
    """Where work runs: a small frozen dataclass."""

    @property
    def workers(self) -> int:
        """How many blocks it works on at once."""
        ...

    @property
    def elsewhere(self) -> bool:
        """Whether workers are in other processes. What they are sent is pickled, and they share no memory."""
        ...

    def gather(self, recipes: Sequence[Recipe]) -> Crew:
        """One worker per recipe, opened when first asked."""
        ...


@dataclass(frozen=True)
class Tasks:
    """What blocks did in a round, for those who look at how a run went.

    Attributes
    ----------
    done : for each block that was at work its number, who worked, when by `time.time` it began and ended, and the
        seconds that it read, solved and wrote.
    bytes_sent, bytes_received : what messages and replies hold; by an executor that sends them, `statistics` has more.
    statistics : what the executor counted, None for one in this process.
    """

    done: tuple[tuple[int, str, float, float, float, float, float], ...]
    bytes_sent: int
    bytes_received: int
    statistics: object | None = None


@dataclass(frozen=True)
class Step:
    """One round of a method. Fields that a method does not have are None.

    Attributes
    ----------
    round : number of rounds done, from 1.
    sweep : 0, or the number of the sweep with which a method polishes its last round, whose other fields it repeats.
    energy : energy of this round's labels (the best of this round's roundings); NaN where nobody computed it.
    labels : those labels; None where the method shows them at the end only; dropped from the trace of a Result.
    disagreeing : sites on which some block differs from the consensus.
    seconds : since the method began.
    lower_bound : no labels have less energy than this; rounding is taken off.
    proved, decided : the fraction of sites where this round's labels are proved, whatever the others are; and, in a
        last step, which these are. Dropped from the trace.
    mu, residual : the penalty, and the largest |y_k - S_k y| over the blocks.
    relaxed_energy : energy of the relaxed consensus y.
    shares, multipliers, penalty : terms of the augmented Lagrangian, sum_k of E_k(y_k, y), of mu a_k'(y_k - S_k y)
        and of mu/2 |y_k - S_k y|^2, with y of this round and a_k of the round before.
    exact, rounding_error : whether the labels are a minimum of the integer energy, and what rounding can cost.
    certificate : what proves the bound, where this is the last step; dropped from the trace.
    groups : how many blocks or unions of blocks there are.
    kept : what the method would like to find again when it is started from this step; dropped from the trace.
    tasks : what blocks did.
    ones : how many labels are 1, where the labels themselves are elsewhere.
    relaxed : sites where blocks meet, and the relaxed y there; elsewhere y is the labels. Dropped from the trace.
    stopped : why the method ends here, None while it goes on.
    """

    round: int
    energy: float
    labels: BinaryLabels | None = field(default=None, repr=False)
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
    groups: int | None = None
    certificate: Certificate | None = field(default=None, repr=False)
    kept: object | None = field(default=None, repr=False)
    tasks: Tasks | None = field(default=None, repr=False)
    ones: int | None = None
    relaxed: tuple[Sites, Reals] | None = field(default=None, repr=False)
    decided: Mask | None = field(default=None, repr=False)

    @property
    def lagrangian(self) -> float | None:
        """The augmented Lagrangian, the sum of its terms."""
        if self.shares is None or self.multipliers is None or self.penalty is None:
            return None
        return self.shares + self.multipliers + self.penalty


@dataclass(frozen=True, eq=False)
class Start:
    """Where to begin: the labels of an earlier result, what proved its bound, and what its method kept."""

    labels: BinaryLabels
    certificate: Certificate | None = None
    kept: object | None = None


@dataclass(frozen=True, eq=False)
class Problem:
    """What a method works on."""

    energy: Energy
    partition: Partition
    solver: BlockSolver
    executor: Executor
    start: Start | None = None


@dataclass(frozen=True, eq=False)
class LazyProblem:
    """What a method works on that reads boxes of arrays wherever they lie.

    `target`, if there is one, is where blocks write their labels: `target[box] = labels`.
    """

    energy: LazyEnergy
    partition: Partition
    solver: BlockSolver
    executor: Executor
    target: Any = None


@runtime_checkable
class DoublingSolver(BlockSolver, Protocol):
    """A block solver whose bounds are those of an energy F of twice the sites, all of whose pairs attract.

    F(y, 1 - y) = 2 E(y), so half the minimum of F is a lower bound of E; and flows can find it over many blocks.
    """

    def doubled(self, problem: Problem) -> Problem:
        """F in place of E: sites and blocks twice, y and then y', along a first axis of a grid; and a flow solver."""
        ...


class Leave(Exception):  # noqa: N818 (no error: somebody asked for it)
    """Thrown into the steps of a method by a reader who wants no more."""


class Method(Protocol):
    """A way for blocks to agree: a small frozen dataclass."""

    def steps(self, problem: Problem) -> Generator[Step, None, None]:
        """One Step per round; the last one says why it stopped.

        Whoever reads them may leave earlier. `throw(Leave())` says so: a method that has a last word catches it and
        yields one more Step, which says "cancelled".
        """
        ...
