"""Plan: every decision about a run, once, with its reason.

It holds how blocks agree, what they are, what solves them and where, whether arrays are read whole or box by box, and
where labels go. `Plan.run()` does what it says; nothing is decided anywhere else.
"""

from __future__ import annotations

import html
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dope.arrays import Labels
from dope.boards import FolderBoard, MemoryBoard
from dope.cancellation import Cancelled
from dope.certificate import Certificate
from dope.energy import Energy
from dope.errors import DopeError, InputError
from dope.facts import measure_facts
from dope.fixed_point import Costs, FixedPoint
from dope.footprint import (
    ADMM_POST_BYTES,
    BOX_PROCESS_BYTES,
    LABEL_WORK_BYTES,
    OTHER_BITS,
    PROCESS_BYTES,
    admm_box_bytes,
    block_bytes,
    box_bytes,
    whole_bytes,
)
from dope.label_energy import LabelEnergy
from dope.layers import LayerSizes, layer_bytes
from dope.live import LiveLabels
from dope.memory import as_text
from dope.methods import Layers
from dope.methods.places import count_coupled
from dope.models.smoothing import SMOOTHING
from dope.pairs import GridPairs, Pairs, TablePairs
from dope.partition import Partition
from dope.planning.calibration import seconds_per_unit
from dope.protocols import BlockSolver, Executor, FlowSolver, LabelSolver, Method, Problem, Start
from dope.result import Result, counted
from dope.rounding import nearest, rounded_down
from dope.run import Conductor, Listener, Outcome, Run
from dope.steps import Step
from dope.stored import MappedTarget

# A coupled site's number goes out as float64 and its label comes back.
BYTES_PER_COUPLED_SITE = 9
# What a box is solved for: two cuts, and about half of all boxes a second time.
BOX_PASSES = 3


@dataclass(frozen=True)
class Decision:
    """What was chosen, and why."""

    what: str
    choice: str
    why: str


@dataclass(frozen=True, eq=False)
class Plan:
    """What a run will do.

    Attributes
    ----------
    energy : that is minimized.
    method, solver, executor : how blocks agree, what minimizes them, and where they run.
    cuts : where the axes of a grid are cut into blocks; None on a graph.
    in_boxes : whether arrays stay where they are and are read box by box; otherwise they are all in memory.
    memory : bytes that it may take, None where nobody set a limit.
    out : where labels go, None for a new array.
    decisions : all of that in words, with the reasons.
    checkpoint, resume, certificate : folders for what blocks find, and for what proves the bound.
    label_solver : what bounds the energy where there are several labels.
    held : bytes of a site that whoever asked for the plan keeps beside the arrays, where these are in memory.
    """

    energy: Energy | LabelEnergy
    method: Method
    solver: BlockSolver
    executor: Executor
    cuts: tuple[tuple[int, ...], ...] | None
    in_boxes: bool = False
    memory: int | None = None
    out: Any = None
    decisions: tuple[Decision, ...] = ()
    checkpoint: str | None = None
    resume: bool = False
    certificate: str | None = None
    held: int = 0
    label_solver: LabelSolver | None = None
    start: Start | None = field(default=None, repr=False)
    _partition: Partition | None = field(default=None, repr=False)
    _bits: int | None = field(default=None, repr=False)

    def run(self, *, watch: Callable[[Step], object] | None = None, tell: Listener | None = None) -> Result:
        """Do it, here and now. `watch` is called with every Step, `tell` with every event; see `Run`."""
        return Run(self.conducted_by, watch=watch, tell=tell).work()

    def begin(self, *, watch: Callable[[Step], object] | None = None, tell: Listener | None = None) -> Run:
        """Do it in the background."""
        return Run(self.conducted_by, watch=watch, tell=tell).start()

    def on(self, energy: Energy | LabelEnergy, *, start: Result | npt.ArrayLike | None = None) -> Plan:
        """The same for another energy on the same sites."""
        if energy.shape != self.energy.shape:
            raise InputError(
                f"the plan is for shape {self.energy.shape}; expected an energy of that, not {energy.shape}."
            )
        return replace(self, energy=energy, start=start_from(energy, start))

    @cached_property
    def partition(self) -> Partition:
        """The blocks."""
        if self._partition is not None:
            return self._partition
        assert self.cuts is not None
        return Partition.at(self.energy.shape, self.cuts)

    # What it takes.

    @property
    def sites(self) -> int:
        return self.energy.pairs.sites

    @property
    def pairs(self) -> int:
        return self.energy.pairs.number

    @property
    def label_count(self) -> int:
        return self.energy.label_count

    @property
    def neighbors(self) -> int:
        return cut_pairs(self.energy).degree

    @property
    def blocks(self) -> int:
        return math.prod(self.layout)

    @property
    def searches(self) -> bool:
        """Whether the solver goes on for as many seconds as it was given."""
        return getattr(self.solver, "seconds", None) is not None

    @property
    def layout(self) -> tuple[int, ...]:
        """How many blocks there are along each axis."""
        if self.cuts is None:
            return (len(self.partition.blocks),)
        return tuple(len(where) + 1 for where in self.cuts)

    @property
    def block_shape(self) -> tuple[int, ...]:
        """Of the largest block."""
        if self.cuts is None:
            return (max(len(cast("Any", block.where)) for block in self.partition.blocks),)
        if self._partition is not None and self._partition.overlaps:
            boxes = [cast("Any", block.where) for block in self._partition.blocks]
            return tuple(max(box[axis].stop - box[axis].start for box in boxes) for axis in range(len(self.cuts)))
        return tuple(max(high - low for low, high in self._pieces(axis)) for axis in range(len(self.cuts)))

    def _pieces(self, axis: int) -> list[tuple[int, int]]:
        assert self.cuts is not None
        return list(pairwise([0, *self.cuts[axis], self.energy.shape[axis]]))

    @property
    def bits(self) -> int:
        """Bits of a capacity, or as many as costs need that are no whole numbers."""
        return expected_bits(cut_pairs(self.energy), self.solver) if self._bits is None else self._bits

    @property
    def _layers(self) -> LayerSizes | None:
        """The layers that are cut, if labels are found that way."""
        return layers_of(self.energy, self.method)

    @property
    def bytes(self) -> int:
        """What this process will hold at most, about."""
        if not self.in_boxes:
            return bytes_in_memory(self.energy, self.method, bits=self.bits, layout=self._seams, held=self.held)
        held = self.energy.site_bytes * self.sites if self.energy.in_memory else 0
        elsewhere = getattr(self.executor, "elsewhere", False)
        workers = 1 if elsewhere else min(self.executor.workers, self.blocks)
        needed = BOX_PROCESS_BYTES + held + workers * self.block_bytes
        if not keeps_blocks(self.method):
            return needed
        # What blocks leave for each other, and, as far as there is room, blocks that stay open.
        needed += (
            0
            if self.checkpoint is not None
            else ADMM_POST_BYTES * count_coupled(cut_pairs(self.energy), self.partition)
        )
        if elsewhere:
            return needed
        whole = needed + (self.blocks - workers) * self.block_bytes
        return whole if self.memory is None else max(needed, min(whole, self.memory))

    @property
    def _seams(self) -> tuple[int, ...] | None:
        return self.layout if self.cuts is not None and getattr(self.method, "shares_a_flow", False) else None

    @property
    def block_bytes(self) -> int:
        """What the largest block takes while it is at work."""
        pairs = self.energy.pairs
        if self._layers is not None and isinstance(pairs, GridPairs):
            bare = replace(pairs, shape=self.block_shape, features=None, fields=None, inside=None, counts=None)
            return layer_bytes(replace(self._layers, pairs=bare), self.bits)
        if not isinstance(pairs, GridPairs):
            return self.bytes - PROCESS_BYTES
        if self.in_boxes and keeps_blocks(self.method):
            return admm_box_bytes(pairs, self.block_shape, site_bytes=self.energy.site_bytes, bits=self.bits)
        if self.in_boxes:
            return box_bytes(pairs, self.block_shape, site_bytes=self.energy.site_bytes, bits=self.bits)
        block = replace(pairs, shape=self.block_shape, features=None, fields=None, inside=None, counts=None)
        return block_bytes(block, pixel_bytes=pixel_bytes_of(self.energy), bits=self.bits)

    @property
    def worker_bytes(self) -> int:
        """What a worker in a process of its own takes."""
        return self.block_bytes + BOX_PROCESS_BYTES

    @property
    def coupled_sites(self) -> int:
        """The sites that have neighbours in other blocks."""
        pairs = self.energy.pairs
        if self.cuts is None or not isinstance(pairs, GridPairs):
            return 0
        alone = 1
        for axis, reach in enumerate(pairs.reach):
            pieces = self._pieces(axis)
            ends = [(low > 0) + (high < self.energy.shape[axis]) for low, high in pieces]
            alone *= sum(max(0, high - low - reach * sides) for (low, high), sides in zip(pieces, ends, strict=True))
        return self.sites - alone

    @property
    def round_bytes(self) -> int:
        """What travels between the coordinator and the blocks in a round."""
        return BYTES_PER_COUPLED_SITE * self.coupled_sites

    @property
    def halo(self) -> float:
        """Sites that boxes read, their neighbours included, per site that they have."""
        pairs = self.energy.pairs
        assert isinstance(pairs, GridPairs)
        read = 1.0
        for axis, (n, reach) in enumerate(zip(self.energy.shape, pairs.reach, strict=True)):
            read *= sum(min(n, b + reach) - max(0, a - reach) for a, b in self._pieces(axis)) / n
        return read

    @cached_property
    def seconds(self) -> float:
        """About how long it takes, by a small problem of the same kind that is solved here and now on one core."""
        passes = BOX_PASSES if self.in_boxes else 1
        units = passes * (self.sites + self.pairs) * (1 if self.label_count == 2 else self.label_count)
        pairs, layers = cut_pairs(self.energy), self._layers
        if layers is not None:
            units = layers.sites + layers.number
            pairs = layers.grid() if isinstance(pairs, GridPairs) else pairs
        return seconds_per_unit(pairs) * units / max(1, min(self.executor.workers, self.blocks))

    def rows(self) -> dict[str, str]:
        """What it is about and what it takes, by name."""
        by = " x ".join
        return {
            "sites": f"{self.sites:,} ({by(map(str, self.energy.shape))})",
            "pairs": f"{self.pairs:,} ({self.neighbors} neighbours)",
            **({"number of labels": f"{self.label_count}"} if isinstance(self.energy, LabelEnergy) else {}),
            **{one.what: f"{one.choice}: {one.why}" for one in self.decisions},
            "each block": f"up to {by(map(str, self.block_shape))} sites, {as_text(self.block_bytes)} at work",
            "memory": f"about {as_text(self.bytes)}{self._limit_in_words()}",
            "bytes per round": f"{as_text(self.round_bytes)} ({self.coupled_sites:,} sites near seams)",
            "time": f"about {_duration(self.seconds)} with {counted(self.executor.workers, 'worker')}",
        }

    def _limit_in_words(self) -> str:
        if self.memory is None:
            return ""
        return f"{', more than the' if self.bytes > self.memory else ' of'} {as_text(self.memory)} allowed"

    def __str__(self) -> str:
        rows = self.rows()
        width = max(map(len, rows))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows.items())

    def _repr_html_(self) -> str:
        cells = (
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in self.rows().items()
        )
        return f"<table>{''.join(cells)}</table>"

    # What it does.

    def conducted_by(self, conductor: Conductor, *, estimate: int = 0) -> Result:
        """The job of a run."""
        energy, live = self.energy, LiveLabels()
        if self.in_boxes:
            live.show(lambda box: np.zeros(energy.shape, dtype=energy.label_type)[... if box is None else box])
        else:
            try:
                with conductor.cancellation:
                    energy = self.energy.read()
            except Cancelled:
                return self.cancelled(conductor)
            live.show(lambda box: _alone(energy, ... if box is None else box))
        target = None if self.out is None else checked_target(self.out, energy.shape)
        problem = Problem(
            energy=cast("Energy", energy),  # or a LabelEnergy, for a method that takes one
            partition=self.partition,
            solver=self.solver,
            label_solver=self.label_solver,
            executor=conductor.observed(self.executor),
            start=self.start,
            target=target if self.in_boxes else None,
            in_boxes=self.in_boxes,
            memory=self.memory,
            certificate=self.certificate,
            board=MemoryBoard() if self.checkpoint is None else FolderBoard(self.checkpoint, resume=self.resume),
            live=live,
        )
        outcome = conductor.conduct(self.method, problem, estimate=estimate)
        if self.in_boxes and outcome.stopped != "cancelled":
            return self._result_in_boxes(problem, outcome, conductor)
        if not energy.in_memory:
            return self._result_cut_short(problem, outcome, conductor)
        result = self._result(problem, outcome, conductor)
        if self.certificate is not None and isinstance(result.certificate, Certificate):
            try:
                result.certificate.save_in(self.certificate)
            except (OSError, InputError) as error:  # which is no reason to lose the labels
                result = replace(result, uncertified=str(error))
                warnings.warn(f"no certificate in {self.certificate}: {error}", stacklevel=2)
        if target is not None and not self.in_boxes:
            target[energy.whole] = result.labels
            result = replace(result, _labels=None, out=self.out)
        return result

    def cancelled(self, conductor: Conductor) -> Result:
        """Of a run that was cancelled before its energy was known: all labels are 0, and nothing is claimed."""
        labels = np.zeros(self.energy.shape, dtype=self.energy.label_type)
        return self._told(conductor, "cancelled", _labels=labels, energy=math.nan, lower_bound=None, exact=False)

    def _told(self, conductor: Conductor, stopped: str, *, rounding_error: float = 0.0, **known: Any) -> Result:
        return Result(
            rounding_error=rounding_error,
            stopped=stopped,
            trace=tuple(conductor.trace),
            partition=self.partition,
            plan=replace(self, energy=self.energy.outline(), start=None, out=None),
            seconds=conductor.seconds,
            label_count=self.energy.label_count,
            label_type=self.energy.label_type,
            **known,
        )

    def _result(self, problem: Problem, outcome: Outcome, conductor: Conductor) -> Result:
        """What is known about the labels that a method ended with, or had when it was cancelled."""
        best, bounded = outcome.best, outcome.bounded
        if best is None or best.labels is None:
            if outcome.stopped != "cancelled":
                raise DopeError("the method ended without labels; it must yield at least one Step that has them.")
            labels = self._best_known(problem)
        else:
            labels = problem.energy.as_labels(best.labels).copy()
        energy = problem.energy.exactly(labels)
        bound = None if bounded is None else bounded.lower_bound
        if bound is None and outcome.stopped == "cancelled" and isinstance(problem.energy, Energy):
            bound = _trivial_bound(problem.energy)
        exact = (best is not None and best.exact) or (bound is not None and energy <= Fraction(bound))
        error = 0.0 if best is None else best.rounding_error
        return self._told(
            conductor,
            outcome.stopped,
            _labels=labels,
            energy=nearest(energy),
            lower_bound=_lower_bound(energy, bound, error if exact else None),
            exact=exact,
            rounding_error=error,
            proved=1.0 if exact else None if best is None else best.proved,
            certificate=None if bounded is None else bounded.certificate,
            _kept=None if bounded is None else bounded.kept,
        )

    def _best_known(self, problem: Problem) -> Labels:
        """Of a run that was cancelled before it had labels: those that it was given, or as they are now, if lower."""
        now = problem.live.read()
        if self.start is None:
            return now
        given = problem.energy.as_labels(self.start.labels)
        return now if problem.energy.exactly(now) < problem.energy.exactly(given) else given.copy()

    def _result_in_boxes(self, problem: Problem, outcome: Outcome, conductor: Conductor) -> Result:
        """Of labels whose energy blocks computed where they were: a step that has both, or wrote its labels away."""
        said = (outcome.bounded, outcome.last, outcome.best)
        last = next((step for step in said if step is not None and step.stopped), outcome.best)
        if last is None or (last.labels is None and self.out is None and getattr(last, "best", None) is None):
            raise DopeError("the method ended without labels; its last Step must have them, or write them to `target`.")
        energy, labels = last.energy, last.labels
        bound, exact = last.lower_bound, last.exact
        error, proved = last.rounding_error, last.proved
        best = getattr(last, "best", None)  # which need not be those of the last step
        if best is not None:
            energy, labels = nearest(best.energy), best.labels
            exact = exact or (bound is not None and best.energy <= Fraction(bound))
            error, proved = best.rounding_error, 1.0 if exact else best.proved
            bound = _lower_bound(best.energy, bound, error if exact else None)
        if labels is not None:
            labels = problem.energy.as_labels(labels)
            if self.out is not None:  # the method left it to others
                problem.target[problem.energy.whole] = labels
            if energy is None:
                energy = measure_facts(problem.energy, self.partition, problem.executor)(labels)
        return self._told(
            conductor,
            outcome.stopped,
            _labels=None if self.out is not None or labels is None else labels.copy(),
            out=self.out,
            energy=math.nan if energy is None else energy,
            lower_bound=None if bound is None or energy is None else min(bound, energy),
            exact=exact,
            rounding_error=error,
            proved=proved,
            certificate=last.certificate,
            uncertified=last.uncertified,
            _counts=getattr(last if best is None else best, "counts", None),
        )

    def _result_cut_short(self, problem: Problem, outcome: Outcome, conductor: Conductor) -> Result:
        """Of arrays elsewhere, where a run was cancelled: the method's last word, or labels as they were."""
        last = outcome.best or outcome.bounded or outcome.last
        if last is not None and last.stopped is not None:
            return self._result_in_boxes(problem, outcome, conductor)
        labels = problem.live.read() if self.out is None else None
        return self._told(
            conductor, "cancelled", _labels=labels, out=self.out, energy=math.nan, lower_bound=None, exact=False
        )


def expected_bits(pairs: Pairs, solver: BlockSolver) -> int:
    """The width of a solver's integers, for unaries that are as large as the weights of `segment` expect them to be."""
    bits: int | None = getattr(solver, "bits", None)
    if bits is not None:
        return bits
    if not isinstance(solver, FlowSolver):
        return OTHER_BITS
    mean = (pairs.strength or 1.0) / SMOOTHING
    costs = Costs(pairs, pairs.sites, places=None, largest=mean, total=pairs.sites * mean)
    return FixedPoint.for_costs(costs).bits


def cut_pairs(energy: Energy | LabelEnergy) -> Pairs:
    """Between which sites there are pairs in the cuts that an energy is minimized by."""
    return energy.pairs.graph if isinstance(energy.pairs, TablePairs) else energy.pairs


def layers_of(energy: Energy | LabelEnergy, method: Method) -> LayerSizes | None:
    """The layers that a method cuts, which are more than the sites; None for any other."""
    several = isinstance(method, Layers) and isinstance(energy, LabelEnergy)
    return LayerSizes.of(energy) if several and isinstance(energy, LabelEnergy) else None


def bytes_in_memory(
    energy: Energy | LabelEnergy, method: Method, *, bits: int, layout: tuple[int, ...] | None, held: int
) -> int:
    """What everything takes in this process, with so many bytes of a site beside it."""
    sizes = layers_of(energy, method)
    if sizes is not None:
        return PROCESS_BYTES + layer_bytes(sizes, bits, layout) + (energy.site_bytes + held) * energy.pairs.sites
    return whole_bytes(cut_pairs(energy), pixel_bytes=pixel_bytes_of(energy) + held, bits=bits, layout=layout)


def keeps_blocks(method: Method) -> bool:
    """Whether a method keeps blocks of its own in memory, as far as they fit, and can do with overlap."""
    return getattr(method, "takes_memory", False) and not getattr(method, "takes_labels", False)


def _alone(energy: Energy | LabelEnergy, where: Any) -> Labels:
    """What each site alone would choose."""
    if isinstance(energy, LabelEnergy):
        found: Labels = np.argmin(energy.costs[where], axis=-1).astype(energy.label_type)
        return found
    return np.asarray(energy.unary[where] < 0)


def checked_target(out: Any, shape: tuple[int, ...], *, label_count: int = 2) -> Any:
    """Where labels are to be written; a mapped array in a form that any process can write to."""
    if not hasattr(out, "__setitem__") or not hasattr(out, "shape"):
        raise InputError(
            f"out is {out!r:.80}; expected an array of shape {shape} to write labels to. "
            f"dope.io.open_labels(path, shape) makes a file one."
        )
    if tuple(out.shape) != shape:
        raise InputError(f"out is {type(out).__name__} of shape {tuple(out.shape)}; expected the shape {shape}.")
    holds = _most_labels(out)
    if holds < label_count:
        kind = f" of {out.dtype}" if hasattr(out, "dtype") else ""
        raise InputError(
            f"out is {type(out).__name__}{kind} for {holds} labels; expected one that holds {label_count}, such as "
            f"uint16."
        )
    if isinstance(out, np.memmap) and out.mode != "c":
        return MappedTarget.of(out)
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise InputError("out is an array that cannot be written to; expected one that can, or None for a new one.")
    return out


def _most_labels(out: Any) -> float:
    """How many labels a target can tell from each other, as far as it says; what is no integer is for two."""
    if hasattr(out, "label_count"):
        return int(out.label_count)
    try:
        dtype = np.dtype(out.dtype)
    except (AttributeError, TypeError):
        return math.inf
    return int(np.iinfo(dtype).max) + 1 if dtype.kind in "iu" else 2


def check_start(previous: object) -> None:
    """Refuse what is no earlier result."""
    if previous is not None and not isinstance(previous, Result):
        raise InputError(f"start is of type {type(previous).__name__}; expected the Result of an earlier run, or None.")


def start_from(energy: Energy | LabelEnergy, previous: Result | npt.ArrayLike | None) -> Start | None:
    """Where to begin after an earlier result, which must be of the same shape; of several labels, also labels."""
    if isinstance(energy, LabelEnergy):
        if previous is None:
            return None
        return Start(energy.as_labels(previous.labels if isinstance(previous, Result) else previous, name="start"))
    check_start(previous)
    if not isinstance(previous, Result):
        return None
    if previous.shape != energy.shape:
        raise InputError(f"start is a result of shape {previous.shape}; expected the energy's {energy.shape}.")
    proof = previous.certificate
    proof = proof if isinstance(proof, Certificate) else None  # flows in a folder are for those who doubt
    return Start(np.asarray(previous.labels, dtype=np.bool_), proof, previous._kept)


def pixel_bytes_of(energy: Energy | LabelEnergy) -> int:
    """Of a site, beside its unary."""
    if isinstance(energy, LabelEnergy):
        return energy.site_bytes + LABEL_WORK_BYTES
    unary: Any = energy.unary
    own = unary.itemsize if isinstance(unary, np.ndarray) else unary.site_bytes
    return max(0, energy.site_bytes - int(own))


def _trivial_bound(energy: Energy) -> float:
    """Every site takes its cheaper label, and every pair with a negative weight differs."""
    gain = sum(float(np.minimum(part, 0).sum(dtype=np.float64)) for part in [energy.unary])
    slack = abs(gain) * energy.unary.size * float(np.finfo(np.float64).eps)  # of the sum's own rounding
    repelled = Fraction(0) if energy.submodular else energy.pairs.repulsive.total()
    return rounded_down(Fraction(energy.constant) + Fraction(gain) - Fraction(slack) - repelled)


def _lower_bound(energy: Fraction, bound: float | None, rounding_error: float | None) -> float | None:
    """The best bound known: the method's or, of a minimum but for this rounding error, its energy less that."""
    known = [] if bound is None else [bound]
    if rounding_error is not None:
        known.append(rounded_down(energy - Fraction(rounding_error)))
    # A bound that is above the float nearest to the energy is so by the rounding of that one alone.
    return min(max(known), nearest(energy)) if known else None


def _duration(seconds: float) -> str:
    return (
        f"{seconds:.2g} s"
        if seconds < 100
        else f"{seconds / 60:.3g} min"
        if seconds < 6000
        else f"{seconds / 3600:.3g} h"
    )
