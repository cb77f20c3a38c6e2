"""Steps: what a method tells of each of its rounds, in a type per method, and one way to write any of them down.

Fields that hold arrays, or refer to what does, are marked in the dataclass (`LARGE`). `slim(step)` is the step without
them, as a trace keeps it; `plain(step)` the same in what JSON knows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from dope.arrays import BinaryLabels, Labels, Reals, Sites
from dope.certificate import AnyCertificate

LARGE = {"large": True}
"""Metadata of a field that no trace keeps and no file holds."""
# Relative, of energies of the same labels whose terms were added up in another order.
SAME_HEIGHT = 1e-12
_DIGITS = 6  # of seconds in a task, behind the point: a microsecond


@dataclass(frozen=True)
class Step:
    """One round of a method. What only some methods have is in the types that they yield.

    Attributes
    ----------
    round : number of rounds done, from 1.
    energy : energy of this round's labels (the best of this round's roundings); None where nobody computed it.
    labels : those labels; None where the method shows them at the end only; dropped from the trace of a Result.
    disagreeing : sites on which some block differs from the consensus.
    seconds : since the method began.
    lower_bound : no labels have less energy than this; rounding is taken off.
    proved : the fraction of sites where this round's labels are proved, whatever the others are.
    exact, rounding_error : whether the labels are a minimum of the integer energy, and what rounding can cost.
    stopped : why the method ends here, None while it goes on.
    certificate : what proves the bound, where this is the last step; dropped from the trace.
    uncertified : why there is no certificate where one was asked for, if it could not be written; dropped likewise.
    kept : what the method would like to find again when it is started from this step; dropped from the trace.
    estimate : which estimate of the model an outer loop is at, from 1; 0 where there is no such loop.
    """

    round: int
    energy: float | None
    labels: Labels | None = field(default=None, repr=False, metadata=LARGE)
    disagreeing: int = 0
    seconds: float = 0.0
    lower_bound: float | None = None
    proved: float | None = None
    exact: bool = False
    rounding_error: float = 0.0
    stopped: str | None = None
    certificate: AnyCertificate | None = field(default=None, repr=False, metadata=LARGE)
    uncertified: str | None = field(default=None, repr=False, metadata=LARGE)
    kept: object | None = field(default=None, repr=False, metadata=LARGE)
    estimate: int = 0


@dataclass(frozen=True)
class ExactStep(Step):
    """A round of `Exact`.

    Attributes
    ----------
    groups : how many blocks or unions of blocks there are.
    decided : in a last step, the sites whose labels are proved; dropped from the trace.
    """

    energy: float
    _: KW_ONLY
    groups: int
    decided: BinaryLabels | None = field(default=None, repr=False, metadata=LARGE)


@dataclass(frozen=True, eq=False)
class BestLabels:
    """The best labels that a method has seen where its steps have none, their exact energy, and sites of each label.

    `labels` is None where they were written to the problem's target. `proved` and `rounding_error` are those of the
    step that had these labels.
    """

    energy: Fraction
    labels: BinaryLabels | None
    counts: tuple[int, ...]
    proved: float | None
    rounding_error: float


@dataclass(frozen=True)
class AdmmStep(Step):
    """A round of `Admm`.

    Attributes
    ----------
    mu, residual : the penalty's weight, and the largest |y_k - S_k y| over the blocks.
    relaxed_energy : energy of the relaxed consensus y.
    shares, multipliers, penalty : terms of the augmented Lagrangian, sum_k of E_k(y_k, y), of mu a_k'(y_k - S_k y)
        and of mu/2 |y_k - S_k y|^2, with y of this round and a_k of the round before.
    sweep : 0, or the number of the sweep with which the last round is polished, whose other fields it repeats.
    tasks : what blocks did since the step before; none in a round that was resumed.
    relaxed : sites where blocks meet, and the relaxed y there; elsewhere y is the labels. Dropped from the trace.
    best : in the last step of a run whose arrays, and labels, are read and written in boxes. Dropped from the trace.
    """

    energy: float
    _: KW_ONLY
    mu: float
    residual: float
    relaxed_energy: float
    shares: float
    multipliers: float
    penalty: float
    sweep: int = 0
    tasks: Tasks = field(default_factory=lambda: Tasks(()), repr=False)
    relaxed: tuple[Sites, Reals] | None = field(default=None, repr=False, metadata=LARGE)
    best: BestLabels | None = field(default=None, repr=False, metadata=LARGE)

    @property
    def lagrangian(self) -> float:
        """The augmented Lagrangian, the sum of its terms."""
        return self.shares + self.multipliers + self.penalty


@dataclass(frozen=True)
class BracketingStep(Step):
    """A pass of `Bracketing`, or what comes after the passes: only that last step has an energy.

    Attributes
    ----------
    tasks : what blocks did since the step before.
    sent : over how many pairs between blocks excess was sent on, in a sweep of flows.
    counts : in a last step, how many sites have each label, by the label's number.
    """

    _: KW_ONLY
    tasks: Tasks = field(repr=False)
    sent: int = 0
    counts: tuple[int, ...] | None = None


@dataclass(frozen=True)
class LabelStep(Step):
    """A step of `Moves`: a label whose sites were proved, a cycle of moves, a bound, or sweeps over blocks.

    Or one of `Layers`: what it begins with, and rounds of its cut.

    Attributes
    ----------
    doing : "prove", "move", "bound" or "sweep", and "end" in a last step that only says what there is; of layers
        "begin" and "cut".
    label : of a proof, the label; None elsewhere.
    changed : sites whose labels are others than before.
    open : sites that are not proved.
    counts : in a last step without labels, how many sites have each label.
    """

    _: KW_ONLY
    doing: str
    label: int | None = None
    changed: int = 0
    open: int = 0
    counts: tuple[int, ...] | None = None


@dataclass(frozen=True)
class LabelAdmmStep(Step):
    """A round of `LabelAdmm`, a sweep after these, or the last word, with a bound.

    Attributes
    ----------
    mu, residual : the penalty's weight, and the largest |y_k - S_k y| over the blocks.
    sweep : 0, or the number of the sweep, whose other fields are those of the last round.
    """

    energy: float
    _: KW_ONLY
    mu: float
    residual: float
    sweep: int = 0


@dataclass(frozen=True)
class BlockTask:
    """What a block did when it was asked once.

    Attributes
    ----------
    block : its number in the partition of that pass.
    worker : who worked.
    begun, ended : by `time.time`, where it worked.
    read, solve, write : seconds of these; what is left was other work.
    kind : what was asked. Of `Bracketing` "measure" (facts that the scale follows from), "prove", "flow" (solve, and
        send excess on), "walls" (how far sinks are), "reach" (labels, at the end of flows) or "finish"; of `Admm`
        "facts", "survey" (for the penalty), "solve", "measure" (y, residuals and energies), "repulsion" (for the
        bound), "sweep", "bound" (flows between blocks), "adopt" (labels that these prove), "weigh" (the energy) or
        "write".
    sites, region : of the box that it was asked about, and of that with its neighbours.
    sent, received : bytes of the posts that it read, and of the one that it left.
    """

    block: int
    worker: str
    begun: float
    ended: float
    read: float
    solve: float
    write: float
    kind: str = ""
    sites: int = 0
    region: int = 0
    sent: int = 0
    received: int = 0

    @property
    def seconds(self) -> float:
        """From its begin to its end."""
        return self.ended - self.begun


@dataclass(frozen=True)
class Tasks:
    """What blocks did in a round, for those who look at how a run went.

    Attributes
    ----------
    done : a task for each time that a block was asked, in the order in which replies came.
    statistics : what the executor counted, None for one in this process.
    """

    done: tuple[BlockTask, ...]
    statistics: object | None = None

    @property
    def bytes_sent(self) -> int:
        """What messages hold; by an executor that sends them, `statistics` has more."""
        return sum(task.sent for task in self.done)

    @property
    def bytes_received(self) -> int:
        """What replies hold."""
        return sum(task.received for task in self.done)


def preferred(step: Step, best: Step) -> bool:
    """Whether a step's labels are the better ones.

    They are if they are a minimum, or lower, or, at the same height but for the rounding of sums, if something of them
    is proved.
    """
    if step.exact or step.energy is None or best.energy is None:
        return step.exact or step.energy is not None or best.energy is None
    if math.isclose(step.energy, best.energy, rel_tol=SAME_HEIGHT):
        return step.proved is not None or (best.proved is None and step.energy < best.energy)
    return step.energy < best.energy


AnyStep = TypeVar("AnyStep", bound=Step)


def slim(step: AnyStep) -> AnyStep:
    """The step without what is large.

    >>> slim(Step(1, -2.5, np.array([True, False]))).labels is None
    True
    """
    large: dict[str, Any] = {one.name: None for one in dataclasses.fields(step) if "large" in one.metadata}
    return dataclasses.replace(step, **large)


def plain(step: Step, *, full: bool = False) -> dict[str, Any]:
    """What a step tells, by the names of its fields, in what JSON knows; None for what is not known, or not finite.

    Tasks are told in short: how many, and what they add up to. `full` tells each of them as well, and what the executor
    counted.

    >>> plain(Step(1, None, np.array([True, False]), proved=float("nan")))["proved"] is None
    True
    """
    told = {one.name: getattr(step, one.name) for one in dataclasses.fields(step) if "large" not in one.metadata}
    return {
        name: _plain_tasks(value, full=full) if isinstance(value, Tasks) else _plain_value(value)
        for name, value in told.items()
        if not isinstance(value, np.ndarray)
    }


def _plain_value(value: object) -> object:
    if isinstance(value, np.generic):
        return _plain_value(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain_value(entry) for entry in value]
    return str(value)


def _plain_tasks(tasks: Tasks, *, full: bool) -> dict[str, Any]:
    short = {
        "tasks": len(tasks.done),
        "workers": len({task.worker for task in tasks.done}),
        "read_seconds": _sum(task.read for task in tasks.done),
        "solve_seconds": _sum(task.solve for task in tasks.done),
        "write_seconds": _sum(task.write for task in tasks.done),
        "bytes_sent": int(tasks.bytes_sent),
        "bytes_received": int(tasks.bytes_received),
    }
    if not full:
        return short
    return {**short, "done": [_plain_task(task) for task in tasks.done], "statistics": _counted(tasks.statistics)}


def _sum(seconds: Iterator[float]) -> float:
    """Of times that clocks can have told: nothing of one that is no number, or ran backwards."""
    return math.fsum(one for one in seconds if 0 < one < math.inf)


def _plain_task(task: BlockTask) -> dict[str, Any]:
    values = {one.name: _plain_value(getattr(task, one.name)) for one in dataclasses.fields(task)}
    return {name: round(value, _DIGITS) if isinstance(value, float) else value for name, value in values.items()}


def _counted(statistics: object | None) -> dict[str, int] | None:
    """The whole numbers of a dataclass."""
    if not dataclasses.is_dataclass(statistics):
        return None
    values = {one.name: getattr(statistics, one.name) for one in dataclasses.fields(statistics)}
    return {name: value for name, value in values.items() if isinstance(value, int)}
