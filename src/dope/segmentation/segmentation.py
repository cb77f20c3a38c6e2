"""Segmentation: an image, what is known about it, and settings, as one value that can be run and written down.

    frame (mask, margin) → plan → unaries → seeds → Energy → minimize, colours estimated again → labels in place

What is known may be scribbles (their colours are learnt), a probability map, or unaries themselves. With one of the
last two the arrays need not fit into memory: they are read box by box where the plan says so.
"""

from __future__ import annotations

import math
import os
import reprlib
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, Labels, Mask, digest
from dope.cancellation import Cancelled
from dope.energy import Energy
from dope.errors import InputError
from dope.facts import measure_facts
from dope.memory import budget_of, require_bytes
from dope.models import Model, kernel_lam
from dope.models.smoothing import SMOOTHING
from dope.pairs import GridPairs, Kernel
from dope.partition import Partition
from dope.planning import Plan, plan, plan_in_memory
from dope.planning.plans import check_start, checked_target
from dope.plug_ins import check_plug_in
from dope.protocols import BlockSolver, Executor, Method
from dope.result import Result
from dope.run import Conductor, Job, Listener, Run
from dope.scribbles import FOREGROUND, UNLABELED, Seeds
from dope.segmentation.evidence import Evidence
from dope.segmentation.frame import Frame, Pixels, box_of, region_of
from dope.segmentation.readings import SeededUnary, SoftUnary
from dope.segmentation.subject import Subject
from dope.steps import Step
from dope.stored import AbsentPixels, Readable, Stored, StoredUnary, check_apart

if TYPE_CHECKING:
    from dope.segmentation.files import Files

# Rounds of re-estimation that follow a rectangle or a lasso, as inside it nothing is known at first.
ROUNDS = 5
# Of a site: strokes, a mask, and what is in hand while their bounding box is looked for. Measured with strokes of JSON.
STROKE_BYTES = 4
# Of a site, where a model is estimated again: the energy and labels before, and what the model sees of the pixels.
# Measured with a rectangle on grey and coloured images of 1500 x 1500.
REESTIMATION_BYTES = 48

# Characters of a setting, where the segmentation is printed.
MOST_SHOWN = 100

_ADVICE = "Allow more memory, crop it, or use a probability map alone, which is read box by box."


@dataclass(frozen=True, eq=False, kw_only=True)
class Segmentation:
    """What to segment, what is known about it, and how: see `segment` for what each field means.

    Arrays may be paths of files, of any format that `dope.io` reads, strokes of JSON included: an image says its own
    spacing and channels then, and maps must lie on it. It reads nothing before it is planned or run, and can do both
    again and again.
    """

    image: Any
    scribbles: Any = None
    probability: Any = None
    unary: Any = None
    rectangle: Sequence[slice] | Sequence[tuple[int, int]] | None = None
    lasso: Any = None
    mask: Any = None
    margin: float | None = None
    lam: float | Literal["auto"] = "auto"
    kernel: Kernel = 3
    beta: float | None = None
    spacing: Sequence[float] | None = None
    channel_axis: int | None = None
    model: Model | None = None
    rounds: int | None = None
    connected: bool = False
    blocks: int | Sequence[int] | Partition | None = None
    overlap: float | int | None = None
    method: Method | None = None
    solver: BlockSolver | None = None
    executor: Executor | None = None
    memory: int | str | None = None

    def __post_init__(self) -> None:
        evidence = self.evidence
        checked_lam(self.lam)
        _checked_rounds(self.rounds, estimated=evidence.outlined, learnt=evidence.learnt)
        if not isinstance(self.connected, (bool, np.bool_)):
            raise InputError(f"connected is {self.connected!r}; expected True or False.")
        check_plug_in("model", self.model, "unary", such_as="dope.models.ColorClusters()")

    def __repr__(self) -> str:
        given = [one.name for one in fields(self) if getattr(self, one.name) is not one.default]
        return f"Segmentation({', '.join(f'{name}={_in_short(getattr(self, name))}' for name in given)})"

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.scribbles, self.probability, self.unary, self.rectangle, self.lasso)

    @property
    def estimates(self) -> int:
        """How often the model is estimated again from labels."""
        return _checked_rounds(self.rounds, estimated=self.evidence.outlined, learnt=self.evidence.learnt)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the labels."""
        said = self.files().described
        return said.evidence.sites(said.image, said.channel_axis)

    @property
    def paths(self) -> list[str]:
        """Of the files that it reads."""
        return [os.fspath(array) for array in self._arrays.values() if isinstance(array, (str, os.PathLike))]

    @property
    def _arrays(self) -> dict[str, Any]:
        names = ("image", "scribbles", "probability", "unary", "mask")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def files(self) -> Files:
        """Its files, where fields are paths: of them no more is read than headers."""
        from dope.segmentation.files import Files  # here: `import dope` does without dope.io and Pillow

        return Files.of(self)

    def to_json(self) -> dict[str, Any]:
        """In what JSON knows: the paths of its arrays, and all settings; plug-ins by their names and settings.

        Raises
        ------
        InputError
            An array is in memory, or a plug-in is none of dope's own.

        Examples
        --------
        >>> said = Segmentation(image="photo.jpg", scribbles="strokes.json", kernel=5)
        >>> said.to_json()["kernel"], Segmentation.from_json(said.to_json()).scribbles
        (5, 'strokes.json')
        """
        from dope.segmentation.document import document_of

        return document_of(self)

    @classmethod
    def from_json(cls, source: str | os.PathLike[str] | Mapping[str, Any]) -> Segmentation:
        """From what `to_json` gave, or from a file that holds it: by itself, or as the "job" of a report."""
        from dope.segmentation.document import read_document, segmentation_of

        found = source if isinstance(source, Mapping) else read_document(source)
        return cls(**segmentation_of(found, "" if isinstance(source, Mapping) else f"{os.fspath(source)}: "))

    def plan(self, *, checkpoint: Any = None, resume: Any = None, out: Any = None) -> Plan:
        """What a run will do; of the arrays no more is read than a mask and scribbles that say which box takes part."""
        check_apart(out, self._arrays)
        return self.files().described._decided(checkpoint=checkpoint, resume=resume, out=out)[0]

    def energy(self) -> tuple[Energy, Box]:
        """The energy that is minimized, and the box of the image that it covers."""
        if self.estimates:
            raise InputError("with rounds of re-estimation there are several energies; expected rounds=0.")
        files = self.files()
        decided, framed = files.described._decided()
        with ExitStack() as stack:
            said = stack.enter_context(files.open(in_boxes=decided.in_boxes)).said
            posed = said._posed(decided, framed)
            if not decided.in_boxes:
                subject = said._subject(posed)
                return subject.energy(subject.unary()), posed.frame.where
            energy = said._energy_in_boxes(posed, Conductor(Run(_no_job)))
            weakref.finalize(energy, stack.pop_all().close)  # what was unpacked is read as long as there is the energy
            return energy, posed.frame.where

    def run(
        self,
        *,
        start: Result | None = None,
        watch: Callable[[Step], object] | None = None,
        tell: Listener | None = None,
        plan: Plan | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: str | os.PathLike[str] | None = None,
        out: Any = None,
        scratch: str | os.PathLike[str] | None = None,
    ) -> Result:
        """Do it, here and now.

        Parameters
        ----------
        start, watch, checkpoint, resume, out : optional
            As in `segment`.
        tell : callable, optional
            Called with every event, see `dope.Run`.
        plan : Plan, optional
            What `plan(...)` gave, so that nothing is decided again.
        scratch : path, optional
            A folder for files that have to be unpacked to be read box by box, until the run ends; workers of a cluster
            must see it. By default where the system has such.
        """
        kept = {"checkpoint": checkpoint, "resume": resume, "out": out}
        return Run(self._job(plan, start, scratch, **kept), watch=watch, tell=tell).work()

    def start(
        self,
        *,
        start: Result | None = None,
        watch: Callable[[Step], object] | None = None,
        tell: Listener | None = None,
        plan: Plan | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: str | os.PathLike[str] | None = None,
        out: Any = None,
        scratch: str | os.PathLike[str] | None = None,
    ) -> Run:
        """Do it in the background, and hold the run. Parameters are those of `run`."""
        kept = {"checkpoint": checkpoint, "resume": resume, "out": out}
        return Run(self._job(plan, start, scratch, **kept), watch=watch, tell=tell).start()

    def _job(
        self,
        plan: Plan | None,
        start: Result | None,
        scratch: Any,
        *,
        checkpoint: Any,
        resume: Any,
        out: Any,
    ) -> Job:
        """What a run does; everything is decided here, before it begins."""
        check_start(start)
        check_apart(out, self._arrays)
        files, framed = self.files(), None
        if plan is None:
            plan, framed = files.described._decided(checkpoint=checkpoint, resume=resume, out=out)
        decided = plan

        def job(conductor: Conductor) -> Result:
            with ExitStack() as stack:
                try:
                    with conductor.cancellation:
                        said = stack.enter_context(files.open(in_boxes=decided.in_boxes, scratch=scratch)).said
                        posed = said._posed(decided, framed, out)
                    return said._conduct(posed, conductor, start)
                except Cancelled:
                    if not conductor.cancelled:
                        raise
                    return decided.cancelled(conductor)

        return job

    # The box that takes part, and what will be done with it.

    def _decided(self, *, checkpoint: Any = None, resume: Any = None, out: Any = None) -> tuple[Plan, _Framed | None]:
        """The plan, and the box that takes part, where that had to be looked for."""
        whole, kept = self._whole, {"checkpoint": checkpoint, "resume": resume}
        planned = None
        if not self.evidence.learnt:
            planned = plan(self._draft(whole), out=out, **kept, **self._said)
            if planned.in_boxes:
                self._check_boxes()
                if self.scribbles is not None:
                    self._require_strokes(whole.shape)
                return planned, None
        if out is not None:
            checked_target(out, whole.shape)
        if self.mask is None and self.margin is None:
            planned = planned or self._plan_in_memory(whole, kept)
            self._require_strokes(whole.shape)
            return planned, None
        self._require_strokes(whole.shape)
        framed = self._framed(whole)
        return self._plan_in_memory(framed.frame, kept), framed

    def _posed(self, decided: Plan, framed: _Framed | None, out: Any = None) -> _Posed:
        whole = self._whole
        if decided.in_boxes:
            return _Posed(replace(decided, out=out), _Framed(whole, None, None), self._draft(whole))
        framed = framed or self._framed(whole)
        if framed.frame.sides != decided.energy.shape:
            raise InputError(
                f"the plan is for {decided.energy.shape} sites; expected one of this segmentation, which has "
                f"{framed.frame.sides}."
            )
        return _Posed(replace(decided, out=None), framed, None, out)

    @property
    def _whole(self) -> Frame:
        shape = self.evidence.sites(self.image, self.channel_axis)
        return Frame(Pixels.of(self.image, shape, self.channel_axis), shape, tuple(slice(0, n) for n in shape))

    def _framed(self, whole: Frame) -> _Framed:
        shape = whole.shape
        seeds = self.evidence.seeds(shape)
        inside = None if self.mask is None else region_of(self.mask, shape)
        return _Framed(replace(whole, where=box_of(shape, inside, seeds, self.margin)), inside, seeds)

    @property
    def _said(self) -> dict[str, Any]:
        """What `plan` is told."""
        names = ("method", "blocks", "overlap", "solver", "executor", "memory")
        return {name: getattr(self, name) for name in names}

    def _plan_in_memory(self, frame: Frame, kept: dict[str, Any]) -> Plan:
        planned = plan_in_memory(self._outline(frame), advice=_ADVICE, **kept, **self._said)
        if not planned.in_boxes:
            return planned
        raise InputError(
            "colours are learnt from the whole image, in the memory of this process; expected a probability map or a "
            "unary, which are read box by box. Leave out checkpoint, resume, Bracketing() and Dask, or make a map "
            "first."
        )

    def _draft(self, frame: Frame) -> Energy:
        """The energy with weights of lam 1 and without seeds; none of its arrays is read."""
        region = None if self.mask is None else Stored.of("mask", self.mask)
        unary: Readable
        if self.unary is not None:
            unary = Stored.of("unary", self.unary)
        else:
            unary = SoftUnary(Stored.of("probability", self.probability), region)
        pixels = Stored.of("image", frame.pixels.array, channels=frame.pixels.channels)
        return Energy.grid(
            unary, kernel=self.kernel, features=pixels, beta=self.beta, spacing=self.spacing, mask=region
        )

    def _outline(self, frame: Frame) -> Energy:
        """An energy of which only the sizes are known, with what is in hand beside it."""
        more = REESTIMATION_BYTES if self.estimates else 0
        pixels = AbsentPixels((*frame.sides, max(1, frame.pixel_bytes + more)))
        return Energy.grid(_AbsentUnary(frame.sides), features=pixels, kernel=self.kernel, spacing=self.spacing)

    def _require_strokes(self, shape: tuple[int, ...]) -> None:
        """Refuse strokes, or a mask, on more sites than the budget has room for."""
        if self.scribbles is None and self.mask is None and not self.evidence.outlined:
            return
        sites = " x ".join(map(str, shape))
        require_bytes(
            f"strokes or a mask on {sites} sites",
            STROKE_BYTES * math.prod(shape),
            budget_of(self.memory),
            advice=_ADVICE,
        )

    def _check_boxes(self) -> None:
        asked = {"margin": self.margin, "model": self.model, "rounds": self.rounds, "connected": self.connected or None}
        for name, value in asked.items():
            if value is not None:
                raise InputError(
                    f"{name} is given, which needs the whole image in the memory of this process; leave it out, or "
                    f"checkpoint, resume and Dask, and allow enough memory."
                )

    # The job of a run.

    def _conduct(self, posed: _Posed, conductor: Conductor, start: Result | None) -> Result:
        conductor.place(posed.frame.shape, posed.frame.where)
        if posed.plan.in_boxes:
            return self._conduct_boxes(posed, conductor)
        with conductor.cancellation:
            subject = self._subject(posed)
            learnt = subject.unary() if start is None else subject.unary_after(start)
        energy, result = self._minimized(posed, subject, learnt, conductor, start)
        result = _relabelled(result, energy, subject.connect(result.labels))
        labels = _in_place(result.labels, self.image, posed.frame)
        result = replace(
            result, _labels=labels, problem=energy, where=posed.frame.where, _learnt=subject.remember(learnt)
        )
        return result if posed.out is None else _written(result, posed.out)

    def _minimized(
        self, posed: _Posed, subject: Subject, unary: Any, conductor: Conductor, start: Result | None
    ) -> tuple[Energy, Result]:
        """Minimize and, as long as labels change and rounds are left, estimate the model from them, and again."""
        estimates = self.estimates
        energy = subject.energy(unary)
        first = posed.in_frame(start)
        result = posed.plan.on(energy, start=first).conducted_by(conductor, estimate=int(estimates > 0))
        labels = subject.connect(result.labels)
        for number in range(estimates):
            if conductor.cancelled or not labels.any() or labels.all():
                break
            before = labels
            energy = subject.energy(subject.reestimate(before))
            result = posed.plan.on(energy, start=result).conducted_by(conductor, estimate=number + 2)
            labels = subject.connect(result.labels)
            if np.array_equal(labels, before):
                break
        return energy, result

    def _subject(self, posed: _Posed) -> Subject:
        where, inside, seeds = posed.frame.where, posed.framed.inside, posed.framed.seeds
        region = None if inside is None or inside[where].all() else inside[where]
        drawn = None if seeds is None else seeds[where]
        return Subject(
            evidence=self.evidence,
            frame=posed.frame,
            features=posed.frame.features(),
            inside=region,
            # Strokes outside the region are nobody's.
            seeds=drawn if drawn is None or region is None else np.where(region, drawn, np.int8(UNLABELED)),
            given_lam=checked_lam(self.lam),
            kernel=self.kernel,
            beta=self.beta,
            spacing=self.spacing,
            given_model=self.model,
            connected=bool(self.connected) and drawn is not None,
        )

    def _conduct_boxes(self, posed: _Posed, conductor: Conductor) -> Result:
        with conductor.cancellation:
            energy = self._energy_in_boxes(posed, conductor)
        result = replace(posed.plan, energy=energy).conducted_by(conductor)
        result = replace(result, problem=energy, where=posed.frame.where)
        if result._labels is None:
            return result
        return replace(result, _labels=_with_coordinates(result._labels, self.image, posed.frame.pixels.channels))

    def _energy_in_boxes(self, posed: _Posed, conductor: Conductor) -> Energy:
        """The energy whose arrays stay where they are: with lam, and with seeds."""
        draft, shape = posed.draft, posed.frame.shape
        assert draft is not None
        measured = measure_facts(draft, posed.plan.partition, conductor.observed(posed.plan.executor))
        lam = checked_lam(self.lam)
        energy = measured.scaled(self._automatic_lam(measured) if lam is None else lam)
        seeds = self.evidence.seeds(shape)
        inside = None if seeds is None else energy.inside_at(energy.whole)
        if seeds is not None and inside is not None:
            seeds = np.where(inside, seeds, np.int8(UNLABELED))  # those outside are nobody's
        return energy if seeds is None or not (seeds != UNLABELED).any() else _with_seeds(energy, seeds)

    def _automatic_lam(self, energy: Energy) -> float:
        """As `Subject.lam`, by what one look at all sites found."""
        facts = energy.facts
        assert facts is not None
        total = 2.0 * facts.largest if self.probability is not None else SMOOTHING * facts.total / facts.inside
        return kernel_lam(self.kernel, len(energy.shape), total=total, spacing=self.spacing)


@dataclass(frozen=True, eq=False)
class _Framed:
    """The box that takes part, and what was read to find it."""

    frame: Frame
    inside: Mask | None
    seeds: Seeds | None


@dataclass(frozen=True, eq=False)
class _Posed:
    """A segmentation whose frame is known: what will be done, and where."""

    plan: Plan
    framed: _Framed
    draft: Energy | None
    out: Any = None

    @property
    def frame(self) -> Frame:
        return self.framed.frame

    def in_frame(self, start: Result | None) -> Result | None:
        """An earlier result of the image, as one of the frame; None where it is of another one."""
        if start is None or start.shape == self.frame.sides:
            return start
        if start.shape != self.frame.shape or start.where != self.frame.where:
            return start if start.shape != self.frame.shape else None
        return replace(start, _labels=np.asarray(start.labels)[self.frame.where])


@dataclass(frozen=True)
class _AbsentUnary:
    """A unary that will be made."""

    shape: tuple[int, ...]
    site_bytes: int = 8
    chunks: None = None

    def at(self, box: Box) -> npt.NDArray[Any]:
        raise InputError(f"the unary of {box} is asked for before it was made.")

    def excerpt(self, box: Box) -> _AbsentUnary:
        del box
        return self


def _no_job(conductor: Conductor) -> Result:
    del conductor
    raise InputError("nothing is to be run.")


def _with_seeds(energy: Energy, seeds: Seeds) -> Energy:
    """Seeds cost more than a site can gain by any label; those that are kept, as all are, cost nothing."""
    facts, unary = energy.facts, energy.unary
    assert facts is not None and isinstance(unary, StoredUnary) and isinstance(energy.pairs, GridPairs)
    strength = 1.0 + energy.pairs.strength + facts.largest
    stroked = int(np.count_nonzero(seeds != UNLABELED))
    constant = strength * int(np.count_nonzero(seeds == FOREGROUND))
    total = facts.total + strength * stroked
    both = f"{facts.digest}-{digest([seeds])}"
    more = replace(facts, total=total, digest=both, places=None, largest=facts.largest + strength)
    seeded: Any = StoredUnary(SeededUnary(unary.source, Stored.of("scribbles", seeds), strength))
    return replace(energy, unary=seeded, constant=constant, facts=more)


def _relabelled(result: Result, energy: Energy, labels: Labels) -> Result:
    """The result with labels that are not what was minimized any more, as far as they differ."""
    if np.array_equal(labels, result.labels):
        return result
    return replace(result, _labels=labels, energy=energy(labels), exact=False, proved=None)


def _written(result: Result, out: Any) -> Result:
    out[tuple(slice(0, n) for n in result.shape)] = np.asarray(result.labels)
    return replace(result, _labels=None, out=out)


def _in_place(labels: Labels, image: Any, frame: Frame) -> Any:
    """The labels of the box in an array of the image's shape, and with its coordinates, if it has some."""
    whole = labels
    if frame.sides != frame.shape:
        whole = np.zeros(frame.shape, dtype=labels.dtype)
        whole[frame.where] = labels
    return _with_coordinates(whole, image, frame.pixels.channels)


def _with_coordinates(labels: Labels, image: Any, channels: int | None = None) -> Any:
    """The labels with the dimensions and coordinates of the image, if it has some."""
    if not (hasattr(image, "dims") and hasattr(image, "coords") and hasattr(image, "isel")):
        return labels
    sites = image if channels is None else image.isel({image.dims[channels]: 0}, drop=True)
    return sites.copy(data=labels).rename("labels")


def _in_short(value: Any) -> str:
    """An array by its shape and type, anything else as it is, cut where it is long."""
    if getattr(value, "shape", None) and hasattr(value, "dtype"):
        return f"<{' x '.join(map(str, value.shape))} {value.dtype}>"
    text = reprlib.repr(value) if isinstance(value, (list, tuple)) else repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def checked_lam(lam: object) -> float | None:
    """The number, or None for "auto"."""
    if isinstance(lam, str) and lam == "auto":
        return None
    number = np.asarray(lam)
    if isinstance(lam, bool) or number.ndim or number.dtype.kind not in "fiu" or not 0 <= number < math.inf:
        raise InputError(f'lam is {lam!r}; expected a number of 0 or more, or "auto".')
    return float(number)


def _checked_rounds(rounds: object, *, estimated: bool, learnt: bool) -> int:
    if rounds is None:
        return ROUNDS if estimated else 0
    if isinstance(rounds, bool) or not isinstance(rounds, (int, np.integer)) or rounds < 0:
        raise InputError(f"rounds is {rounds!r}; expected a whole number of 0 or more.")
    if rounds and not learnt:
        raise InputError("rounds are for models of colours; with a probability or a unary there is none to estimate.")
    return int(rounds)
