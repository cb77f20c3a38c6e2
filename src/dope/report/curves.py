"""How a run converged, drawn with matplotlib, which nothing else needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.errors import InputError, MissingExtraError
from dope.report.canvas import Picture
from dope.report.passes import in_passes, numbers, residual, without_sweeps
from dope.report.pictures import overlay, slices
from dope.steps import AdmmStep, Step

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito, told apart by colour-blind readers too.
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#8c8c8c"
INK, GRID = "#262626", "#e5e5e5"
_MARKED = 60  # rounds; of more, every round's mark would hide the line
_NAMED = 10  # passes; of more, their names would run into each other


@dataclass(frozen=True)
class Panel:
    """One pair of axes: what it shows, against what, and how to draw it."""

    title: str
    against: str
    draw: Callable[[Axes], None]
    titled: bool = True


def convergence(steps: Sequence[Step]) -> Picture:
    """Curves of a run against its rounds: energies, residual (or gap, where there is none), disagreeing sites.

    Of a run in passes, whose energy is known at the end alone: open sites, sites proved. What nobody measured is left
    out.

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
    panels = _three(steps)
    figure = new_figure((12, 3.8))
    for axes, panel in zip(_row(figure, len(panels)), panels, strict=True):
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
        panels = panels[:2]
        figure = new_figure((12, 5.2))
        rows: Any = [["picture", str(k)] for k in range(len(panels))]
        picture, *curves = figure.subplot_mosaic(rows, width_ratios=(1.25, 1)).values()
        _show(picture, overlay(image, found, longest=1200))
    elif found.ndim == 3:
        figure = new_figure((12, 8))
        rows = [["picture"] * len(panels), [str(k) for k in range(len(panels))]]
        picture, *curves = figure.subplot_mosaic(rows, height_ratios=(1.2, 1)).values()
        _show(picture, slices(image, found, channels=channels, longest=1600))
    else:
        figure = new_figure((12, 3.8))
        curves = _row(figure, len(panels))
    for axes, panel in zip(curves, panels, strict=True):
        draw(panel, axes)
    return figure


def panels_of(steps: Sequence[Step]) -> list[Panel]:
    """Everything that can be drawn of these steps: energies by round and by second, and what else was measured.

    Where nobody computed energies, open and proved sites by pass and by second.
    """
    rounds = without_sweeps(steps)
    unit = _unit(steps)
    panels = [_energies(steps, unit), _energies(steps, "seconds"), _residual(rounds), _gaps(steps)]
    if unit == "pass":
        panels += [_open(steps, unit), _open(steps, "seconds"), _proved(steps, unit), _proved(steps, "seconds")]
    else:
        panels.append(_disagreeing(rounds))
        if len(steps) > 1:  # one number is no curve
            panels.append(_proved(steps, unit))
    return [panel for panel in panels if panel is not None]


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

    if panel.titled:
        axes.set_title(panel.title, fontsize=11, color=INK)
    axes.set_xlabel(panel.against, color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=panel.against in ("round", "pass")))
    make_quiet(axes)
    panel.draw(axes)


def make_quiet(axes: Axes) -> None:
    """A light grid, and no frame around it."""
    axes.tick_params(which="both", colors=INK)
    axes.grid(visible=True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)


def _check_steps(steps: Sequence[Step]) -> None:
    if not steps:
        raise InputError("no rounds to draw; expected the trace of a run, at least one step")


def _row(figure: Figure, number: int) -> list[Axes]:
    return list(figure.subplots(1, number, squeeze=False)[0])


def _three(steps: Sequence[Step]) -> list[Panel]:
    """Up to three that say most in little room."""
    rounds = without_sweeps(steps)
    unit = _unit(steps)
    if unit == "pass":
        panels = [_energies(steps, unit), _open(steps, unit), _proved(steps, unit), _open(steps, "seconds")]
    else:
        panels = [_energies(steps, unit), _residual(rounds) or _gaps(rounds), _disagreeing(rounds)]
    return [panel for panel in panels if panel is not None][:3]


def _unit(steps: Sequence[Step]) -> str:
    return "pass" if in_passes(steps) else "round"


def _energies(steps: Sequence[Step], against: str) -> Panel | None:
    if not (_worth_drawing(step.energy for step in steps) or _worth_drawing(step.lower_bound for step in steps)):
        return None
    return Panel("energy", against, lambda axes: _draw_energies(axes, steps, against))


def _residual(steps: Sequence[Step]) -> Panel | None:
    return _falling("largest residual of a block", "round", steps, [residual(step) for step in steps])


def _gaps(steps: Sequence[Step]) -> Panel | None:
    return _falling("energy above the bound", "round", steps, [_gap(step) for step in steps])


def _disagreeing(steps: Sequence[Step]) -> Panel | None:
    return _falling("disagreeing sites", "round", steps, [step.disagreeing for step in steps])


def _open(steps: Sequence[Step], against: str) -> Panel | None:
    return _falling("open sites", against, steps, [step.disagreeing for step in steps])


def _falling(title: str, against: str, steps: Sequence[Step], values: Sequence[float | None]) -> Panel | None:
    """A quantity that should fall to 0."""
    if not _worth_drawing(values):
        return None
    return Panel(title, against, lambda axes: _draw_falling(axes, steps, against, values))


def _proved(steps: Sequence[Step], against: str) -> Panel | None:
    if not _worth_drawing(step.proved for step in steps):
        return None
    return Panel("sites proved", against, lambda axes: _draw_proved(axes, steps, against))


def _gap(step: Step) -> float | None:
    if step.lower_bound is None or step.energy is None:
        return None
    return max(0.0, step.energy - step.lower_bound)


def _draw_energies(axes: Axes, steps: Sequence[Step], against: str) -> None:
    when = _when(axes, steps, against)
    energy = _known(step.energy for step in steps)
    bound = _known(step.lower_bound for step in steps)
    relaxed = _known(step.relaxed_energy if isinstance(step, AdmmStep) else None for step in steps)
    _line(axes, when, relaxed, color=GREY, linewidth=1.2, linestyle=":", marker="", label="relaxed consensus")
    _line(axes, when, bound, color=GREEN, linewidth=1.6, label="lower bound")
    _line(axes, when, np.fmin.accumulate(energy), color=BLUE, linewidth=2.5, marker="", label="best so far")
    _line(axes, when, energy, color=ORANGE, linewidth=0.8, label="rounded labels")
    # The relaxed energy of the first rounds can lie so far off that the labels' curve would be a flat line.
    shown = np.concatenate([energy, bound])
    shown = shown[np.isfinite(shown)]
    margin = 0.12 * float(np.ptp(shown)) or 1e-3 * abs(float(shown[0])) or 1.0
    axes.set_ylim(float(shown.min()) - margin, float(shown.max()) + margin)
    axes.ticklabel_format(axis="y", useOffset=False, scilimits=(-4, 9))
    axes.legend(fontsize=8, frameon=False, labelcolor=INK)


def _draw_falling(axes: Axes, steps: Sequence[Step], against: str, values: Sequence[float | None]) -> None:
    """Logarithmic, with 0 on the axis where it is reached."""
    known = _known(values)
    positive = known[np.isfinite(known) & (known > 0)]
    _line(axes, _when(axes, steps, against), known, color=BLUE, linewidth=1.5)
    if (known == 0).any() and positive.size:
        axes.set_yscale("symlog", linthresh=float(positive.min()))
        axes.set_ylim(bottom=0)
    elif positive.size:
        axes.set_yscale("log")
    else:
        axes.set_ylim(-0.05, 1)


def _draw_proved(axes: Axes, steps: Sequence[Step], against: str) -> None:
    percent = 100 * _known(step.proved for step in steps)
    _line(axes, _when(axes, steps, against), percent, color=GREEN, linewidth=1.5)
    # Near the end of the scale nothing else is of interest.
    low = float(np.nanmin(percent))
    low = low if 90 < low < 100 else 0.0
    axes.set_ylim(low - 0.04 * (100 - low), 100 + 0.04 * (100 - low))
    axes.yaxis.set_major_formatter("{x:g} %")


def _when(axes: Axes, steps: Sequence[Step], against: str) -> NDArray[np.float64]:
    """Where steps lie along the axis, on which few passes have their names."""
    if against == "pass" and len(steps) <= _NAMED:
        axes.set_xticks([step.round for step in steps], labels=numbers(steps))
    if against == "seconds":
        axes.set_xlim(0, 1.03 * max(step.seconds for step in steps) or 1.0)
    return np.array([step.seconds if against == "seconds" else step.round for step in steps], dtype=np.float64)


def _line(
    axes: Axes, when: NDArray[np.float64], values: NDArray[np.float64], *, marker: str | None = None, **look: Any
) -> None:
    """A line through what is known of the values; nothing where nothing is."""
    known = np.isfinite(values)
    if known.any():
        marker = _mark(int(known.sum())) if marker is None else marker
        axes.plot(when[known], values[known], marker=marker, markersize=3, **look)


def _worth_drawing(values: Iterable[float | None]) -> bool:
    """Whether there are numbers for a curve: two, or the only one there can be."""
    known = _known(values)
    return bool(known.size) and int(np.isfinite(known).sum()) >= min(2, known.size)


def _mark(number: int) -> str:
    return "o" if number <= _MARKED else ""


def _show(axes: Axes, picture: Picture) -> None:
    axes.imshow(picture)
    axes.set_axis_off()


def _pixels(figure: Figure) -> Picture:
    canvas = figure.canvas
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()  # type: ignore[attr-defined]


def _known(values: Iterable[float | None]) -> NDArray[np.float64]:
    """Numbers, with NaN where a step has none."""
    known = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.where(np.isfinite(known), known, np.nan)
