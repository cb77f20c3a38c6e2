"""The seams, on one page: what a solver, a method and an executor are to each other.

A solver minimises "this energy, with that unary" and has never heard of blocks. An executor runs work where the data
is and has never heard of energies. A method ties them together and yields a Step per round.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Mask, Reals, Sites
from dope.boards import Board, MemoryBoard
from dope.certificate import Certificate
from dope.energy import Energy
from dope.errors import InputError
from dope.fixed_point import FixedPoint
from dope.flows import BlockFlow, Flow
from dope.label_energy import LabelEnergy
from dope.live import LiveLabels
from dope.pairs import Pairs
from dope.partition import Partition
from dope.steps import Step


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


@runtime_checkable
class FlowMinimizer(Minimizer, Protocol):
    """A minimizer that keeps a flow from call to call, counted in whole numbers, and shows it.

    After `minimize` or `change`, `labels` and `value` tell of the same flow; after one of those two was interrupted,
    `minimize` comes first. One thread at a time: a call while another thread is at work with the same minimizer raises
    RuntimeError.
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
    """A block solver that also opens flows, for methods that move flow themselves. All weights are 0 or more then."""

    @property
    def bits(self) -> int | None:
        """The width of the integers it counts in, or None for what suits the costs."""
        ...

    def open_flow(self, pairs: Pairs, fixed: FixedPoint) -> Flow:
        """One flow over these pairs, costs counted as `fixed` says; those of a graph may come in any order."""
        ...

    def open_blocks(self, pairs: Pairs, partition: Partition, fixed: FixedPoint) -> BlockFlow:
        """One residual graph of these pairs, stored by the blocks of a partition without overlap; to be filled."""
        ...


def require_flow_solver(solver: BlockSolver, call: str, *, method: str) -> FlowSolver:
    """The solver, if it has the call that a method makes, and says how many bits it counts in."""
    for name in (call, "bits"):
        if not hasattr(solver, name):
            raise InputError(
                f"{method} needs a solver with {name}, such as MaxFlow(); {type(solver).__name__} has none. "
                f"Use Admm(), which takes any solver."
            )
    return cast(FlowSolver, solver)


@runtime_checkable
class RoofDualSolver(BlockSolver, Protocol):
    """A block solver whose bounds are those of the roof dual (`roof_dual`), which flows can find over many blocks."""

    @property
    def flow_solver(self) -> FlowSolver:
        """What opens these flows."""
        ...


class LabelRound(Protocol):
    """Where a label solver is after some rounds: no labels have less energy than `bound`."""

    @property
    def rounds(self) -> int: ...

    @property
    def energy(self) -> float:
        """Of the best labels so far, within rounding."""
        ...

    @property
    def bound(self) -> float: ...


class LabelMessages(Protocol):
    """One energy of several labels while a label solver is at work on it."""

    def steps(self) -> Iterator[LabelRound]:
        """Some rounds each, to the end."""
        ...

    def labels(self) -> npt.NDArray[Any]:
        """The best labels so far."""
        ...


@runtime_checkable
class LabelSolver(Protocol):
    """A recipe for lower bounds and labels where there are several labels: a small frozen dataclass."""

    @property
    def takes_labels(self) -> bool:
        """True: what tells it from a block solver, which has `prepare` as well."""
        ...

    def prepare(self, energy: LabelEnergy, *, threads: int = 1) -> LabelMessages:
        """The energy, which is in memory, before the first round. `threads` change nothing but the time it takes."""
        ...


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


@dataclass(frozen=True, eq=False)
class Start:
    """Where to begin: the labels of an earlier result, what proved its bound, and what its method kept."""

    labels: npt.NDArray[Any]  # bool, or numbers where there are several
    certificate: Certificate | None = None
    kept: object | None = None


@dataclass(frozen=True, eq=False)
class Problem:
    """What a method works on.

    Attributes
    ----------
    energy : in memory, unless the method `reads_boxes`: then boxes are read where blocks run, by `energy.at(box)`.
    target : where blocks write their labels, `target[box] = labels`, if there is such a place; only for a method that
        reads boxes. `anywhere` says that any process can.
    memory : bytes that the method may take, None where nobody set a limit.
    board : where blocks leave what their neighbours need, and from where a run is resumed; a method that is
        `resumable` says by `board.begin(manifest)` what it solves, before anything is left there.
    live : where the method shows its labels while it is at work.
    certificate : a folder for what proves the bound, where that is wanted; only for a method that `certifies`.
    in_boxes : arrays are not to be held all at once, nor are labels; so it is, too, where the energy is not in memory.
    label_solver : where there are several labels, what bounds their energy.
    fixed : how `Exact` and `Bracketing` count costs, where several problems are to be counted alike.
    """

    energy: Energy
    partition: Partition
    solver: BlockSolver
    executor: Executor
    start: Start | None = None
    target: Any = None
    memory: int | None = None
    board: Board = field(default_factory=MemoryBoard)
    live: LiveLabels = field(default_factory=LiveLabels)
    in_boxes: bool = False
    certificate: str | None = None
    fixed: FixedPoint | None = None
    label_solver: LabelSolver | None = None


class Leave(Exception):  # noqa: N818 (no error: somebody asked for it)
    """Thrown into the steps of a method by a reader who wants no more."""


class Method(Protocol):
    """A way for blocks to agree: a small frozen dataclass.

    What else it can, it says by attributes of its class, False where they are missing:

    reads_boxes : it only asks for `energy.at(box)`, where blocks run, so that arrays need not fit into memory.
    takes_memory : it reads boxes only where arrays do not fit; where they do, it is better off with all of them.
    resumable : what its blocks find lies on `problem.board`, and a run of it can be resumed from there.
    certifies : its last Step has what proves its bound, or says which folder, `problem.certificate`, that is in.
    shares_a_flow : its blocks are parts of one flow in this process, work for threads.
    takes_overlap : it takes several labels, and blocks of these may overlap.
    takes_labels : its problems are of several labels, and their energy is a `LabelEnergy`.
    """

    def steps(self, problem: Problem) -> Generator[Step, None, None]:
        """One Step per round; the last one says why it stopped.

        Whoever reads them may leave earlier. `throw(Leave())` says so: a method that has a last word catches it and
        yields one more Step, which says "cancelled".
        """
        ...
