"""Result: what a run found, and what is known about it."""

from __future__ import annotations

import base64
import html
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dope import report
from dope.arrays import Box, Labels
from dope.certificate import Certificate
from dope.energy import Energy
from dope.lazy import LazyEnergy
from dope.partition import Partition
from dope.protocols import Step

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Result:
    """What was found, and what is known about it.

    Attributes
    ----------
    labels : bool array shaped like the unary, True = foreground; or what was given as `out`, where they are now.
    energy : their energy, recomputed from the labels; constant included.
    lower_bound : no labels have less energy than this; None where no bound is known.
    exact : whether the labels are a minimum of the integer energy that was solved.
    rounding_error : how far rounding costs to integers can put that minimum above the energy's own; 0 for integers.
    stopped : why it stopped: "exact", "tolerance", "agreed", "stalled", "round limit", "cancelled", or "undecided":
        some sites could not be proved in the memory allowed.
    proved : the fraction of sites whose labels are known to be those of a minimum; None where nothing is known.
    certificate : what proves the lower bound, for `dope.verify`; None where there is none.
    trace : a Step for every round, without labels.
    partition : the blocks.
    problem : after `segment`: the energy that was minimized.
    where : after `segment`: the box of the image that the energy, and the blocks, cover.
    """

    labels: Labels
    energy: float
    lower_bound: float | None
    exact: bool
    rounding_error: float
    stopped: str
    trace: tuple[Step, ...]
    partition: Partition
    proved: float | None = None
    certificate: Certificate | None = field(default=None, repr=False)
    problem: Energy | LazyEnergy | None = field(default=None, repr=False)
    where: Box | None = None
    _kept: object | None = field(default=None, repr=False)
    _ones: int | None = field(default=None, repr=False)

    @property
    def foreground(self) -> float:
        """The fraction of sites with label 1."""
        if self._ones is None:
            return float(np.asarray(self.labels).mean())
        return self._ones / math.prod(self.labels.shape)

    @property
    def gap(self) -> float | None:
        """energy - lower_bound, None where no bound is known."""
        return None if self.lower_bound is None else self.energy - self.lower_bound

    def __repr__(self) -> str:
        bound = "no bound known" if self.gap is None else f"gap {self.gap:.6g}"
        stopped = f", {self.stopped}"
        if self.exact:
            # The minimum in integers: with costs of very different sizes, rounding may leave little of the small ones.
            negligible = self.rounding_error <= 1e-6 * abs(self.energy)
            bound = "exact" if negligible else f"exact but for rounding by up to {self.rounding_error:.3g}"
            stopped = "" if self.stopped == "exact" else stopped
        return (
            f"Result(energy {self.energy:.10g}, {bound}{stopped} after {_number(len(self.trace), 'round')}, "
            f"{_number(len(self.partition.blocks), 'block')}, {self.foreground:.1%} foreground)"
        )

    def _repr_html_(self) -> str:
        rows = {
            "energy": f"{self.energy:.10g}",
            "lower bound": "not known" if self.lower_bound is None else f"{self.lower_bound:.10g}",
            "exact": "yes" if self.exact else "no",
            "sites proved": "not known" if self.proved is None else f"{self.proved:.2%}",
            "rounding error": f"at most {self.rounding_error:.3g}",
            "stopped": f"{self.stopped} after {_number(len(self.trace), 'round')}",
            "sites": " x ".join(str(n) for n in self.labels.shape),
            "foreground": f"{self.foreground:.2%}",
            "blocks": str(len(self.partition.blocks)),
        }
        cells = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in rows.items())
        if len(self.labels.shape) not in (2, 3) or not isinstance(self.labels, np.ndarray):
            return f"<table>{cells}</table>"
        encoded = base64.b64encode(report.thumbnail(self.labels)).decode()
        picture = f'<img src="data:image/png;base64,{encoded}" alt="labels, foreground bright" style="max-width: 16em">'
        return f'<div style="display: flex; gap: 1em; align-items: center"><table>{cells}</table>{picture}</div>'

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


def _number(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
