"""How a run converged, drawn with matplotlib, which nothing else needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dope.errors import InputError, MissingExtraError
from dope.protocols import Step

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito, told apart by colour-blind readers too.
_BLUE, _ORANGE, _GREEN, _GREY = "#0072b2", "#d55e00", "#009e73", "#8c8c8c"


def convergence(steps: Sequence[Step]) -> NDArray[np.uint8]:
    """Curves of a run against its rounds: energies, residual (or gap, where there is none), disagreeing sites.

    Parameters
    ----------
    steps : sequence of Step
        The trace of a result, at least one round.

    Returns
    -------
    uint8 array (height, width, 3)

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    """
    if not steps:
        raise InputError("no rounds to draw; expected the trace of a run, at least one step")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise MissingExtraError("curves need matplotlib; install it: pip install 'dope[report]'") from error
    # A figure of its own, never pyplot: no window system, no state shared with the caller's plots.
    figure = Figure(figsize=(12, 3.8), dpi=130, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    left, middle, right = figure.subplots(1, 3)
    _energies(left, steps)
    rounds = [step for step in steps if not step.sweep]
    if any(step.residual is not None for step in rounds):
        _falling(middle, rounds, [step.residual for step in rounds], "largest residual of a block")
    else:
        _falling(middle, rounds, [_gap(step) for step in rounds], "energy above the bound")
    _falling(right, rounds, [step.disagreeing for step in rounds], "disagreeing sites")
    for axes in (left, middle, right):
        axes.set_xlabel("round")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(visible=True, color="#e5e5e5", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    canvas.draw()  # type: ignore[no-untyped-call]
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()  # type: ignore[no-untyped-call]


def _gap(step: Step) -> float | None:
    return None if step.lower_bound is None else max(0.0, step.energy - step.lower_bound)


def _energies(axes: Axes, steps: Sequence[Step]) -> None:
    rounds = [step.round for step in steps]
    energy = np.array([step.energy for step in steps])
    best = np.minimum.accumulate(energy)
    relaxed = _known(step.relaxed_energy for step in steps)
    bound = _known(step.lower_bound for step in steps)
    if np.isfinite(relaxed).any():
        axes.plot(rounds, relaxed, color=_GREY, linewidth=1.2, linestyle=":", label="relaxed consensus")
    if np.isfinite(bound).any():
        axes.plot(rounds, bound, color=_GREEN, linewidth=1.6, label="lower bound")
    axes.plot(rounds, best, color=_BLUE, linewidth=2.5, label="best so far")
    axes.plot(rounds, energy, color=_ORANGE, marker="o", markersize=3, linewidth=0.8, label="rounded labels")
    # The relaxed energy of the first rounds can lie so far off that the labels' curve would be a flat line.
    shown = np.concatenate([energy, bound[np.isfinite(bound)]])
    margin = 0.12 * float(np.ptp(shown)) or 1e-3 * abs(float(energy[0])) or 1.0
    axes.set_ylim(float(shown.min()) - margin, float(shown.max()) + margin)
    axes.ticklabel_format(axis="y", useOffset=False, scilimits=(-4, 9))
    axes.set_title("energy", fontsize=11)
    axes.legend(fontsize=8, frameon=False)


def _falling(axes: Axes, steps: Sequence[Step], values: Sequence[float | None], title: str) -> None:
    """A quantity that should fall to 0: logarithmic, with 0 on the axis where it is reached."""
    known = _known(values)
    axes.set_title(title, fontsize=11)
    if not np.isfinite(known).any():
        axes.text(0.5, 0.5, "not measured", ha="center", va="center", transform=axes.transAxes, color=_GREY)
        return
    positive = known[np.isfinite(known) & (known > 0)]
    axes.plot([step.round for step in steps], known, color=_BLUE, marker="o", markersize=3, linewidth=1.5)
    if (known == 0).any() and positive.size:
        axes.set_yscale("symlog", linthresh=float(positive.min()))
        axes.set_ylim(bottom=0)
    elif positive.size:
        axes.set_yscale("log")


def _known(values: Iterable[float | None]) -> NDArray[np.float64]:
    """Numbers, with NaN (which matplotlib leaves out) where a step has none."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
