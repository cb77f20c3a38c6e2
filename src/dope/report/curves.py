"""How a run converged, drawn with matplotlib, which nothing else needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.errors import InputError, MissingExtraError
from dope.protocols import Step
from dope.report.canvas import Picture
from dope.report.pictures import overlay, slices

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito, told apart by colour-blind readers too.
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#8c8c8c"
INK, GRID = "#262626", "#e5e5e5"
_MARKED = 60  # rounds; of more, every round's mark would hide the line


@dataclass(frozen=True)
class Panel:
    """One pair of axes: what it shows, against what, and how to draw it."""

    title: str
    against: str
    draw: Callable[[Axes], None]


def convergence(steps: Sequence[Step]) -> Picture:
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
    _check_steps(steps)
    figure = new_figure((12, 3.8))
    for axes, panel in zip(figure.subplots(1, 3), _three(steps), strict=True):
        draw(panel, axes)
    return _pixels(figure)


def plot(trace: Sequence[Step], labels: ArrayLike, *, image: ArrayLike | None = None, channels: bool = False) -> Figure:
    """What was found and how: the overlay beside the curves, or above them the slices of a volume.

    Parameters
    ----------
    trace : sequence of Step
        The rounds of a run, at least one.
    labels : bool array
        True is the object. Of what is neither an image nor a volume only the curves are shown.
    image : array shaped like the labels, optional
        Shown under them.
    channels : bool
        Whether the image has channels as its last axis.

    Returns
    -------
    matplotlib.figure.Figure
        On its own, outside of pyplot.

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    """
    _check_steps(trace)
    found = np.asarray(labels)
    if image is not None and np.ndim(image) != found.ndim + channels:
        raise InputError(
            f"an image shaped {np.shape(image)} with channels={channels} and labels shaped {found.shape}; expected "
            f"the same shape, and one more axis with channels=True"
        )
    panels = _three(trace)
    if found.ndim == 2:
        figure = new_figure((12, 5.2))
        picture, *curves = figure.subplot_mosaic([["picture", "0"], ["picture", "1"]], width_ratios=(1.25, 1)).values()
        _show(picture, overlay(image, found, longest=1200))
        panels = panels[:2]
    elif found.ndim == 3:
        figure = new_figure((12, 8))
        picture, *curves = figure.subplot_mosaic([["picture"] * 3, ["0", "1", "2"]], height_ratios=(1.2, 1)).values()
        _show(picture, slices(image, found, channels=channels, longest=1600))
    else:
        figure = new_figure((12, 3.8))
        curves = list(figure.subplots(1, 3))
    for axes, panel in zip(curves, panels, strict=True):
        draw(panel, axes)
    return figure


def panels_of(steps: Sequence[Step]) -> list[Panel]:
    """Everything that can be drawn of these steps: energies by round and by second, and what else was measured."""
    rounds = [step for step in steps if not step.sweep]
    panels = [_energies(steps, "round"), _energies(steps, "seconds")]
    if any(step.residual is not None for step in rounds):
        panels.append(_residual(rounds))
    if any(step.lower_bound is not None for step in steps):
        panels.append(_gaps(steps))
    panels.append(_disagreeing(rounds))
    if sum(step.proved is not None for step in steps) > 1:  # one number is no curve
        panels.append(Panel("sites proved", "round", lambda axes: _proved(axes, steps)))
    return panels


def new_figure(inches: tuple[float, float]) -> Figure:
    """A figure of its own, never pyplot's: no window system, no state shared with the caller's plots."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("curves need matplotlib; install it: pip install 'dope[report]'") from error
    figure = Figure(figsize=inches, dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def draw(panel: Panel, axes: Axes) -> None:
    """A panel with its title, its axes and a quiet grid."""
    from matplotlib.ticker import MaxNLocator

    panel.draw(axes)
    axes.set_title(panel.title, fontsize=11, color=INK)
    axes.set_xlabel(panel.against, color=INK)
    axes.tick_params(which="both", colors=INK)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=panel.against == "round"))
    axes.grid(visible=True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)


def _check_steps(steps: Sequence[Step]) -> None:
    if not steps:
        raise InputError("no rounds to draw; expected the trace of a run, at least one step")


def _three(steps: Sequence[Step]) -> list[Panel]:
    """The three that say most in little room."""
    rounds = [step for step in steps if not step.sweep]
    falling = _residual(rounds) if any(step.residual is not None for step in rounds) else _gaps(rounds)
    return [_energies(steps, "round"), falling, _disagreeing(rounds)]


def _energies(steps: Sequence[Step], against: str) -> Panel:
    return Panel("energy", against, lambda axes: _draw_energies(axes, steps, against))


def _residual(steps: Sequence[Step]) -> Panel:
    values = [step.residual for step in steps]
    return Panel("largest residual of a block", "round", lambda axes: _falling(axes, steps, values))


def _gaps(steps: Sequence[Step]) -> Panel:
    values = [_gap(step) for step in steps]
    return Panel("energy above the bound", "round", lambda axes: _falling(axes, steps, values))


def _disagreeing(steps: Sequence[Step]) -> Panel:
    values = [step.disagreeing for step in steps]
    return Panel("disagreeing sites", "round", lambda axes: _falling(axes, steps, values))


def _gap(step: Step) -> float | None:
    return None if step.lower_bound is None else max(0.0, step.energy - step.lower_bound)


def _draw_energies(axes: Axes, steps: Sequence[Step], against: str) -> None:
    when = [step.round if against == "round" else step.seconds for step in steps]
    energy = np.array([step.energy for step in steps])
    best = np.minimum.accumulate(energy)
    relaxed = _known(step.relaxed_energy for step in steps)
    bound = _known(step.lower_bound for step in steps)
    if np.isfinite(relaxed).any():
        axes.plot(when, relaxed, color=GREY, linewidth=1.2, linestyle=":", label="relaxed consensus")
    if np.isfinite(bound).any():
        axes.plot(when, bound, color=GREEN, linewidth=1.6, marker=_mark(steps), markersize=3, label="lower bound")
    axes.plot(when, best, color=BLUE, linewidth=2.5, label="best so far")
    axes.plot(when, energy, color=ORANGE, marker=_mark(steps), markersize=3, linewidth=0.8, label="rounded labels")
    # The relaxed energy of the first rounds can lie so far off that the labels' curve would be a flat line.
    shown = np.concatenate([energy, bound[np.isfinite(bound)]])
    margin = 0.12 * float(np.ptp(shown)) or 1e-3 * abs(float(energy[0])) or 1.0
    axes.set_ylim(float(shown.min()) - margin, float(shown.max()) + margin)
    axes.ticklabel_format(axis="y", useOffset=False, scilimits=(-4, 9))
    axes.legend(fontsize=8, frameon=False, labelcolor=INK)


def _falling(axes: Axes, steps: Sequence[Step], values: Sequence[float | None]) -> None:
    """A quantity that should fall to 0: logarithmic, with 0 on the axis where it is reached."""
    known = _known(values)
    if not np.isfinite(known).any():
        axes.text(0.5, 0.5, "not measured", ha="center", va="center", transform=axes.transAxes, color=GREY)
        return
    positive = known[np.isfinite(known) & (known > 0)]
    when = [step.round for step in steps]
    axes.plot(when, known, color=BLUE, marker=_mark(steps), markersize=3, linewidth=1.5)
    if (known == 0).any() and positive.size:
        axes.set_yscale("symlog", linthresh=float(positive.min()))
        axes.set_ylim(bottom=0)
    elif positive.size:
        axes.set_yscale("log")


def _proved(axes: Axes, steps: Sequence[Step]) -> None:
    percent = 100 * _known(step.proved for step in steps)
    when = [step.round for step in steps]
    axes.plot(when, percent, color=GREEN, marker=_mark(steps), markersize=3, linewidth=1.5)
    axes.set_ylim(-3, 103)
    axes.yaxis.set_major_formatter("{x:g} %")


def _mark(steps: Sequence[Step]) -> str:
    return "o" if len(steps) <= _MARKED else ""


def _show(axes: Axes, picture: Picture) -> None:
    axes.imshow(picture)
    axes.set_axis_off()


def _pixels(figure: Figure) -> Picture:
    canvas = figure.canvas
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()  # type: ignore[attr-defined]


def _known(values: Iterable[float | None]) -> NDArray[np.float64]:
    """Numbers, with NaN (which matplotlib leaves out) where a step has none."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
