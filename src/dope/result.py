"""Result: what a run found, and what is known about it."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dope import report
from dope.arrays import Labels
from dope.certificate import AnyCertificate
from dope.energy import Energy
from dope.errors import DopeError
from dope.label_counts import count_labels
from dope.label_energy import LabelEnergy
from dope.partition import Partition
from dope.steps import Step

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dope.planning import Plan

# Labels whose share of the sites a page names.
MOST_SHOWN = 6


@dataclass(frozen=True, eq=False)
class Result:
    """What was found, and what is known about it.

    Attributes
    ----------
    labels : bool array shaped like the unary, True = foreground, or, of a `LabelEnergy`, numbers in uint8 or uint16;
        with `out` they are read from there when asked for.
    label_count : how many labels there were to choose from.
    out : what was given as `out`, where the labels are; None where they are in memory.
    energy : their energy, recomputed from the labels; constant included. NaN where a run over arrays that are not in
        memory was cancelled.
    lower_bound : no labels have less energy than this; None where no bound is known.
    exact : whether the labels are a minimum of the integer energy that was solved.
    rounding_error : how far rounding costs to integers can put that minimum above the energy's own; 0 for integers.
    stopped : why it stopped: "exact", "tolerance", "agreed", "stalled", "round limit", "cancelled", "settled": no
        move lowers the energy, or "undecided": it was to stop after so many rounds, and some labels were not decided.
    proved : the fraction of sites whose labels are known to be those of a minimum; None where nothing is known.
    certificate : what proves the lower bound, for `dope.verify`; None where there is none. That of a run in boxes lies
        in the folder that was given for it.
    uncertified : why that folder has none, where it could not be written; None otherwise.
    trace : a Step for every round, without labels.
    partition : the blocks.
    plan : what was decided before it began, and why.
    seconds : from the beginning of the run to its end.
    classes : after `segment` with several classes: the numbers that labels have, in ascending order, and their names.
    problem : after `segment`: the energy that was minimized. Of several classes its labels are places in `classes`.
    where : after `segment`: the box of the image that the energy, and the blocks, cover.
    """

    energy: float
    lower_bound: float | None
    exact: bool
    rounding_error: float
    stopped: str
    trace: tuple[Step, ...]
    partition: Partition
    proved: float | None = None
    certificate: AnyCertificate | None = field(default=None, repr=False)
    uncertified: str | None = field(default=None, repr=False)
    out: Any = field(default=None, repr=False)
    plan: Plan | None = field(default=None, repr=False)
    seconds: float = 0.0
    problem: Energy | LabelEnergy | None = field(default=None, repr=False)
    where: tuple[slice, ...] | None = None
    label_count: int = 2
    label_type: np.dtype[Any] = field(default=np.dtype(np.bool_), repr=False)
    classes: Mapping[int, str] | None = field(default=None, repr=False)
    _labels: Labels | None = field(default=None, repr=False)
    _kept: object | None = field(default=None, repr=False)
    _counts: tuple[int, ...] | None = field(default=None, repr=False)
    _learnt: object | None = field(default=None, repr=False)

    @property
    def labels(self) -> Labels:
        """The labels: an array in memory, read from `out` where they are there."""
        if self._labels is not None:
            return self._labels
        if not hasattr(self.out, "__getitem__"):
            raise DopeError(f"the labels were written to {self.out!r}, which cannot be read here; open it instead.")
        if isinstance(self.out, np.ndarray) and self.out.dtype == self.label_type:
            return self.out
        found = np.asarray(self.out[...])
        return found != 0 if self.label_type == np.bool_ else found.astype(self.label_type, copy=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the labels."""
        return tuple((self.out if self._labels is None else self._labels).shape)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many sites have each label."""
        if self._counts is not None:
            return self._counts
        return tuple(count_labels(np.asarray(self.labels), self.label_count).tolist())

    @property
    def foreground(self) -> float:
        """The fraction of sites with label 1, where there are two."""
        if self.label_count != 2:
            raise DopeError(
                f"foreground is asked for of {self.label_count} labels; expected two. `counts` says how many sites "
                f"have each label."
            )
        return self.counts[1] / math.prod(self.shape)

    @property
    def gap(self) -> float | None:
        """energy - lower_bound, None where no bound is known."""
        return None if self.lower_bound is None else self.energy - self.lower_bound

    def summary(self) -> dict[str, Any]:
        """What is known about the labels, by name, in what JSON knows."""
        return {
            "energy": self.energy if math.isfinite(self.energy) else None,
            "lower_bound": self.lower_bound,
            "gap": self.gap,
            "exact": self.exact,
            "rounding_error": self.rounding_error,
            "proved": self.proved,
            "stopped": self.stopped,
            "rounds": len(self.trace),
            "blocks": len(self.partition.blocks),
            "counts": list(self.counts),
            "foreground": self.foreground if self.label_count == 2 else None,
        }

    def __repr__(self) -> str:
        bound = "no bound known" if self.gap is None else f"gap {self.gap:.6g}"
        stopped = f", {self.stopped}"
        if self.exact:
            # The minimum in integers: with costs of very different sizes, rounding may leave little of the small ones.
            negligible = self.rounding_error <= 1e-6 * abs(self.energy)
            bound = "exact" if negligible else f"exact but for rounding by up to {self.rounding_error:.3g}"
            stopped = "" if self.stopped == "exact" else stopped
        return (
            f"Result(energy {self.energy:.10g}, {bound}{stopped} after {counted(len(self.trace), 'round')}, "
            f"{counted(len(self.partition.blocks), 'block')}, {self._labels_in_words})"
        )

    @property
    def _labels_in_words(self) -> str:
        if self.label_count == 2:
            return f"{self.foreground:.1%} foreground"
        counts = self.counts
        offered, noun = (range(self.label_count), "labels") if self.classes is None else (self.classes, "classes")
        used = sum(counts[label] > 0 for label in offered)
        proved = "" if self.proved is None else f", {self.proved:.2%} proved"
        return f"{used} of {len(offered)} {noun}{proved}"

    def _repr_html_(self) -> str:
        rows = {
            "energy": f"{self.energy:.10g}",
            "lower bound": "not known" if self.lower_bound is None else f"{self.lower_bound:.10g}",
            "exact": "yes" if self.exact else "no",
            "sites proved": "not known" if self.proved is None else f"{self.proved:.2%}",
            "rounding error": f"at most {self.rounding_error:.3g}",
            "stopped": f"{self.stopped} after {counted(len(self.trace), 'round')}",
            "sites": " x ".join(str(n) for n in self.shape),
            "labels" if self.label_count > 2 else "foreground": self._share_of_labels,
            "blocks": str(len(self.partition.blocks)),
        }
        cells = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in rows.items())
        if len(self.shape) not in (2, 3) or not isinstance(self._labels, np.ndarray):
            return f"<table>{cells}</table>"
        encoded = base64.b64encode(report.thumbnail(self._labels)).decode()
        picture = f'<img src="data:image/png;base64,{encoded}" alt="labels, foreground bright" style="max-width: 16em">'
        return f'<div style="display: flex; gap: 1em; align-items: center"><table>{cells}</table>{picture}</div>'

    @property
    def _share_of_labels(self) -> str:
        """Sites with label 1; of several labels, with the most frequent ones."""
        if self.label_count == 2:
            return f"{self.foreground:.2%}"
        counts, sites = self.counts, math.prod(self.shape)
        order = sorted((label for label, number in enumerate(counts) if number), key=lambda label: -counts[label])
        shown = ", ".join(f"{label}: {counts[label] / sites:.1%}" for label in order[:MOST_SHOWN])
        return shown + (", ..." if len(order) > MOST_SHOWN else "")

    def plot(self, image: npt.ArrayLike | None = None, *, channel_axis: int | None = None) -> Figure:
        """A matplotlib figure: the labels, on the image where it is given, and how the run converged.

        Needs matplotlib (`pip install 'dope[report]'`).
        """
        labels = np.asarray(self.labels)
        if image is None:
            return report.plot(self.trace, labels)
        pixels = np.asarray(image)
        if channel_axis is not None:
            pixels = np.moveaxis(pixels, channel_axis, -1)
        return report.plot(self.trace, labels, image=pixels, channels=pixels.ndim > labels.ndim)


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "worker"), counted(2, "worker")
    ('1 worker', '2 workers')
    """
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"
