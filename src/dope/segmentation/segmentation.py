"""Segmentation: an image, what is known about it, and settings, as one value that can be run and written down.

    frame (mask, margin) → plan → unaries → seeds → Energy → minimize, colours estimated again → labels in place

What is known may be scribbles (their colours are learnt), a probability map, or unaries themselves. Arrays need not fit
into memory: where the plan says so they are read box by box (`BoxSubject`), else they are in memory (`Subject`).
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

from dope.arrays import Box, Labels, known_shape
from dope.cancellation import Cancelled
from dope.energy import Energy
from dope.errors import InputError
from dope.label_energy import LabelEnergy
from dope.models import Model
from dope.pairs import Kernel
from dope.partition import Partition
from dope.planning import Plan, plan_holding
from dope.planning.plans import check_start, checked_target
from dope.plug_ins import check_plug_in
from dope.protocols import BlockSolver, Executor, Method
from dope.result import Result
from dope.run import Conductor, Job, Listener, Run
from dope.segmentation.box_subject import BoxSubject, given_unary, learning_model
from dope.segmentation.boxes import whole_of
from dope.segmentation.class_readings import COST_BYTES
from dope.segmentation.class_subject import ClassSubject, class_model
from dope.segmentation.classes import (
    Classes,
    ClassEvidence,
    Drawn,
    Names,
    SoftAxes,
    checked_names,
    drawn_classes,
    soft_classes,
)
from dope.segmentation.evidence import Evidence
from dope.segmentation.frame import Frame, Pixels, box_of, region_of
from dope.segmentation.subject import AnySubject, Settings, Subject
from dope.steps import Step
from dope.stored import Absent, AbsentCosts, check_apart

if TYPE_CHECKING:
    from dope.segmentation.files import Files

AnyEvidence = Evidence | ClassEvidence

# Rounds of re-estimation that follow a rectangle or a lasso, as inside it nothing is known at first.
ROUNDS = 5
# Of a site, where a model is estimated again: the energy and labels before, and what the model sees of the pixels.
# Measured with a rectangle on grey and coloured images of 1500 x 1500.
REESTIMATION_BYTES = 48

# Characters of a setting, where the segmentation is printed.
MOST_SHOWN = 100


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
    classes: Names | None = None
    label_axis: int | None = None

    def __post_init__(self) -> None:
        evidence = self.evidence
        if checked_names(self.classes) is not None:
            self._refuse_what_is_for_two(f"classes is {self.classes!r:.80}")
        if self.label_axis is not None and self.probability is None:
            raise InputError(f"label_axis is {self.label_axis!r}, without a probability; leave label_axis out.")
        checked_lam(self.lam)
        _checked_rounds(self.rounds, estimated=evidence.outlined, learnt=evidence.learnt)
        if not isinstance(self.connected, (bool, np.bool_)):
            raise InputError(f"connected is {self.connected!r}; expected True or False.")
        check_plug_in("model", self.model, "unary", such_as="dope.models.ColorClusters()")
        if self.model is not None and not evidence.learnt:
            raise InputError(
                f"model is {self.model!r}, and with a probability or a unary no colours are learnt. Leave model out."
            )

    def __repr__(self) -> str:
        given = [one.name for one in fields(self) if getattr(self, one.name) is not one.default]
        return f"Segmentation({', '.join(f'{name}={_in_short(getattr(self, name))}' for name in given)})"

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.scribbles, self.probability, self.unary, self.rectangle, self.lasso)

    def known(self) -> AnyEvidence:
        """The same, where it is of several classes with those: scribbles are read to see which numbers they hold."""
        names = checked_names(self.classes)
        axes = None
        if self.probability is not None:
            axes = SoftAxes.of(
                self.probability, self.image, self.channel_axis, self.label_axis, several=names is not None
            )
        drawn = None if self.scribbles is None else Drawn.of(self.scribbles)
        several = axes is not None or names is not None or (drawn is not None and drawn.several)
        if not several:
            return self.evidence
        inactive = drawn is not None and drawn.inactive
        if axes is not None:
            self._refuse_what_is_for_two(f"probability has {axes.count} classes")
            return ClassEvidence(
                soft_classes(axes.count, names, drawn), self.scribbles, self.probability, axes.label_axis, inactive
            )
        assert drawn is not None  # without a probability nothing else is of several classes
        self._refuse_what_is_for_two(drawn.in_words)
        if self.probability is not None:
            raise InputError(
                f"{drawn.in_words}, and probability is a map of foreground alone, shaped "
                f"{known_shape('probability', self.probability)}; expected one of several classes, on an axis more. "
                f"Leave probability out to learn their colours."
            )
        return ClassEvidence(drawn_classes(drawn, names), self.scribbles, inactive=inactive)

    def _refuse_what_is_for_two(self, found: str) -> None:
        """What is not there for several classes."""
        given = [name for name in ("rectangle", "lasso", "unary") if getattr(self, name) is not None]
        if self.connected:
            given.append("connected")
        if self.rounds:
            given.append("rounds")
        if given:
            raise InputError(
                f"{found}, and {given[0]} is for foreground and background; expected scribbles or a probability of "
                f"several classes without it. dope.LabelEnergy takes costs of any kind."
            )

    @property
    def estimates(self) -> int:
        """How often the model is estimated again from labels."""
        return _checked_rounds(self.rounds, estimated=self.evidence.outlined, learnt=self.evidence.learnt)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the labels."""
        said = self.files().described
        return said.known().sites(said.image, said.channel_axis)

    @property
    def label_count(self) -> int:
        """How many numbers labels may have: 2, or of several classes all up to the largest of theirs."""
        return _label_count(self.files().described.known())

    def found_classes(self) -> Classes | None:
        """The classes that its scribbles or its probability map have, None of foreground and background."""
        evidence = self.files().described.known()
        return evidence.classes if isinstance(evidence, ClassEvidence) else None

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

    def plan(self, *, checkpoint: Any = None, resume: Any = None, certificate: Any = None, out: Any = None) -> Plan:
        """What a run will do; of the arrays no more is read than a mask and scribbles that say which box takes part."""
        check_apart(out, self._arrays)
        folders = {"checkpoint": checkpoint, "resume": resume, "certificate": certificate}
        return self.files().described._decided(out=out, **folders)[0]

    def energy(self) -> tuple[Energy | LabelEnergy, Box]:
        """The energy that is minimized, and the box of the image that it covers.

        Labels of several classes are places in the classes there, in ascending order of their numbers.
        """
        if self.estimates:
            raise InputError("with rounds of re-estimation there are several energies; expected rounds=0.")
        files = self.files()
        decided, known = files.described._decided()
        with ExitStack() as stack:
            said = stack.enter_context(files.open(in_boxes=decided.in_boxes)).said
            posed = said._posed(decided, known)
            subject = said._subject(posed, Conductor(Run(_no_job)))
            energy = subject.energy(subject.unary())
            if decided.in_boxes:  # what was unpacked is read as long as there is the energy
                weakref.finalize(energy, stack.pop_all().close)
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
        certificate: str | os.PathLike[str] | None = None,
        out: Any = None,
        scratch: str | os.PathLike[str] | None = None,
    ) -> Result:
        """Do it, here and now.

        Parameters
        ----------
        start, watch, checkpoint, resume, certificate, out : optional
            As in `segment`.
        tell : callable, optional
            Called with every event, see `dope.Run`.
        plan : Plan, optional
            What `plan(...)` gave, so that nothing is decided again.
        scratch : path, optional
            A folder for files that have to be unpacked to be read box by box, until the run ends; workers of a cluster
            must see it. By default where the system has such.
        """
        folders = {"checkpoint": checkpoint, "resume": resume, "certificate": certificate}
        return Run(self._job(plan, start, scratch, out, folders), watch=watch, tell=tell).work()

    def start(
        self,
        *,
        start: Result | None = None,
        watch: Callable[[Step], object] | None = None,
        tell: Listener | None = None,
        plan: Plan | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: str | os.PathLike[str] | None = None,
        certificate: str | os.PathLike[str] | None = None,
        out: Any = None,
        scratch: str | os.PathLike[str] | None = None,
    ) -> Run:
        """Do it in the background, and hold the run. Parameters are those of `run`."""
        folders = {"checkpoint": checkpoint, "resume": resume, "certificate": certificate}
        return Run(self._job(plan, start, scratch, out, folders), watch=watch, tell=tell).start()

    def _job(
        self,
        plan: Plan | None,
        start: Result | None,
        scratch: Any,
        out: Any,
        folders: Mapping[str, Any],
    ) -> Job:
        """What a run does; everything is decided here, before it begins."""
        check_start(start)
        check_apart(out, self._arrays)
        files, known = self.files(), None
        if plan is None:
            plan, known = files.described._decided(out=out, **folders)
        decided = plan

        def job(conductor: Conductor) -> Result:
            with ExitStack() as stack:
                try:
                    with conductor.cancellation:
                        said = stack.enter_context(files.open(in_boxes=decided.in_boxes, scratch=scratch)).said
                        posed = said._posed(decided, known, out)
                    return said._conduct(posed, conductor, start)
                except Cancelled:
                    if not conductor.cancelled:
                        raise
                    return decided.cancelled(conductor)

        return job

    # The box that takes part, and what will be done with it.

    def _decided(self, *, out: Any = None, **folders: Any) -> tuple[Plan, _Known]:
        """The plan, and what had to be read for it; the folders are those of `plan`."""
        if self.estimates and folders.get("certificate") is not None:
            raise InputError(
                f"certificate is {folders['certificate']}, and rounds of re-estimation have several energies; expected "
                f"rounds=0. Leave certificate out."
            )
        if self.connected and folders.get("certificate") is not None:
            raise InputError(
                f"certificate is {folders['certificate']}, and connected=True drops parts of the labels that it would "
                f"prove; expected connected=False. Leave certificate out."
            )
        evidence = self.known()
        frame, estimated = self._frame(evidence), REESTIMATION_BYTES if self.estimates else 0
        if out is not None:
            checked_target(out, frame.shape, label_count=_label_count(evidence))
        planned = plan_holding(
            self._draft(evidence, frame),
            estimated,
            out=None if out is None else frame.target(out),
            **folders,
            **self._said,
        )
        if isinstance(evidence, ClassEvidence):
            if evidence.learnt and self.model is not None:
                class_model(self.model)
        elif planned.in_boxes and evidence.learnt and self.model is not None:
            learning_model(self.model)
        return planned, _Known(evidence, frame.where)

    def _posed(self, decided: Plan, known: _Known | None, out: Any = None) -> _Posed:
        found: AnyEvidence = self.evidence
        if known is None:
            found = self.known()
        elif isinstance(known.evidence, ClassEvidence):
            found = replace(known.evidence, scribbles=self.scribbles, probability=self.probability)
        frame = self._frame(found, None if known is None else known.where)
        if frame.sides != decided.energy.shape:
            raise InputError(
                f"the plan is for {decided.energy.shape} sites; expected one of this segmentation, which has "
                f"{frame.sides}."
            )
        target = None if out is None or not decided.in_boxes else frame.target(out)
        return _Posed(replace(decided, out=target), frame, found, out)

    def _frame(self, evidence: AnyEvidence, where: Box | None = None) -> Frame:
        """The box that takes part, which a mask and a margin around strokes decide, if it is not known yet."""
        shape = evidence.sites(self.image, self.channel_axis)
        whole = whole_of(shape)
        mask = evidence.region(None if self.mask is None else region_of(self.mask, shape))
        if where is None:
            where = box_of(shape, mask, evidence.seed_map(shape, whole, None), self.margin)
        return Frame(Pixels.of(self.image, shape, self.channel_axis), shape, where, mask)

    @property
    def _said(self) -> dict[str, Any]:
        """What `plan` is told."""
        names = ("method", "blocks", "overlap", "solver", "executor", "memory")
        return {name: getattr(self, name) for name in names}

    def _draft(self, evidence: AnyEvidence, frame: Frame) -> Energy | LabelEnergy:
        """The energy with weights of lam 1 and without seeds; none of its arrays is read, and colours are not known."""
        pixels = frame.stored_pixels
        if isinstance(evidence, ClassEvidence):
            read = pixels if evidence.learnt else frame.of(evidence.stored_probability)
            count = evidence.classes.count
            return LabelEnergy.grid(
                AbsentCosts(frame.sides, count, COST_BYTES * count + read.site_bytes),
                kernel=self.kernel,
                features=pixels,
                beta=self.beta,
                spacing=self.spacing,
                mask=frame.stored_mask,
            )
        return Energy.grid(
            Absent(frame.sides, 4 + pixels.site_bytes) if evidence.learnt else given_unary(evidence, frame),
            kernel=self.kernel,
            features=pixels,
            beta=self.beta,
            spacing=self.spacing,
            mask=frame.stored_mask,
        )

    # The job of a run.

    def _conduct(self, posed: _Posed, conductor: Conductor, start: Result | None) -> Result:
        evidence, numbers = posed.evidence, None
        if isinstance(evidence, ClassEvidence):
            numbers = np.array(evidence.classes.numbers, dtype=evidence.classes.label_type)
        conductor.place(posed.frame.shape, posed.frame.where, numbers)
        with conductor.cancellation:
            subject = self._subject(posed, conductor)
            unary = subject.unary_after(start)
            energy = subject.energy(unary)
        energy, result, labels = self._minimized(posed, subject, energy, conductor, start)
        result = subject.finished(result, energy, labels, posed.out)
        if result._labels is not None:
            labels = _with_coordinates(result._labels, self.image, posed.frame.pixels.channels)
            result = replace(result, _labels=labels)
        return replace(result, problem=energy, where=posed.frame.where, _learnt=subject.remember(unary))

    def _minimized(
        self, posed: _Posed, subject: AnySubject, energy: Any, conductor: Conductor, start: Result | None
    ) -> tuple[Any, Result, Any]:
        """Minimize and, as long as labels change and rounds are left, estimate the model from them, and again."""
        estimates, first = self.estimates, posed.in_frame(start)
        result, labels = subject.solve(posed.plan, energy, conductor, estimate=int(estimates > 0), start=first)
        for number in range(estimates):
            if conductor.cancelled or not labels.any() or labels.all():
                break
            before = labels
            try:
                with conductor.cancellation:
                    energy = subject.energy(subject.reestimate(before))
            except Cancelled:
                if not conductor.cancelled:
                    raise
                break
            result, labels = subject.solve(posed.plan, energy, conductor, estimate=number + 2, start=result)
            if subject.same(labels, before):
                break
        return energy, result, labels

    def _subject(self, posed: _Posed, conductor: Conductor) -> AnySubject:
        settings = Settings(
            lam=checked_lam(self.lam),
            kernel=self.kernel,
            beta=self.beta,
            spacing=self.spacing,
            model=self.model,
            connected=bool(self.connected),
        )
        evidence = posed.evidence
        if isinstance(evidence, ClassEvidence):
            plan, executor = posed.plan, conductor.observed(posed.plan.executor)
            partition = plan.partition.even() if plan.in_boxes else plan.partition
            return ClassSubject.of(evidence, posed.frame, settings, partition, executor, in_boxes=plan.in_boxes)
        if not posed.plan.in_boxes:
            return Subject.of(evidence, posed.frame, settings)
        return BoxSubject(
            evidence=evidence,
            frame=posed.frame,
            settings=settings,
            partition=posed.plan.partition.even(),
            executor=conductor.observed(posed.plan.executor),
            kept=bool(self.estimates or self.connected),
        )


@dataclass(frozen=True, eq=False)
class _Known:
    """What was read to make a plan: what is known about the image, and the box of it that takes part."""

    evidence: AnyEvidence
    where: Box


@dataclass(frozen=True, eq=False)
class _Posed:
    """A segmentation whose frame is known: what will be done, where, and where the labels of the image go."""

    plan: Plan
    frame: Frame
    evidence: AnyEvidence
    out: Any = None

    def in_frame(self, start: Result | None) -> Result | None:
        """An earlier result of the image, as one of the frame; None where it is of another one."""
        if start is None or start.shape == self.frame.sides:
            return start
        if start.shape != self.frame.shape or start.where != self.frame.where:
            return start if start.shape != self.frame.shape else None
        return replace(start, _labels=np.asarray(start.labels)[self.frame.where])


def _label_count(evidence: AnyEvidence) -> int:
    return evidence.classes.label_count if isinstance(evidence, ClassEvidence) else 2


def _no_job(conductor: Conductor) -> Result:
    del conductor
    raise InputError("nothing is to be run.")


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
