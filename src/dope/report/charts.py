"""Figures of several runs: lines over what was varied, and pictures side by side. Drawn with matplotlib.

A figure is described by plain values, `Chart`s and `Image`s, and drawn by `figure`; `png` and `svg` are its files.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from numpy.typing import NDArray

from dope.errors import InputError
from dope.report.canvas import Picture
from dope.report.curves import BLUE, GREEN, GREY, INK, ORANGE, make_quiet, new_figure

if TYPE_CHECKING:
    from typing import Any

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PURPLE, SKY = "#cc79a7", "#56b4e9"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, GREY)
_LEGEND_COLUMNS, _LEGEND_ROW = 3, 0.22  # of an inch


@dataclass(frozen=True)
class Series:
    """A line: values over the places of its chart, None where there is none."""

    name: str
    values: Sequence[float | None]
    color: str = BLUE
    style: Literal["-", "--", ":", "-."] = "-"
    mark: str = "o"


@dataclass(frozen=True)
class Chart:
    """Lines over places, which are numbers or names."""

    title: str
    against: str
    measured: str
    places: Sequence[float | str]
    series: Sequence[Series]
    scale: Literal["linear", "log"] = "linear"


@dataclass(frozen=True, eq=False)
class Image:
    """A picture with a title; of one channel it is a map of heights in colours from `low` to `high`."""

    title: str
    pixels: Picture | NDArray[Any]
    low: float = 0.0
    high: float = 1.0


def figure(parts: Sequence[Chart | Image], *, columns: int, inches: float = 12.0) -> Figure:
    """Charts and pictures in rows.

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    """
    if not parts:
        raise InputError("a figure of nothing; expected at least one chart or picture")
    columns = min(columns, len(parts))
    rows = [parts[k : k + columns] for k in range(0, len(parts), columns)]
    heights = [_height(row, inches / columns) for row in rows]
    drawn = new_figure((inches, sum(heights)))
    places = drawn.subplots(len(rows), columns, squeeze=False, height_ratios=heights)
    maps = [
        shown
        for row, axes in zip(rows, places, strict=True)
        for part, place in zip(row, axes, strict=False)
        if (shown := _draw(part, place)) is not None
    ]
    for place in places.flat[len(parts) :]:
        place.set_axis_off()
    if maps:
        drawn.colorbar(maps[-1], ax=drawn.axes, shrink=0.7, pad=0.01)
    return drawn


def png(drawn: Figure) -> bytes:
    """The figure as a PNG file, the same bytes for the same figure."""
    stream = io.BytesIO()
    drawn.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def svg(drawn: Figure) -> str:
    """The figure as an SVG file, its text as text, the same for the same figure."""
    import matplotlib as mpl

    stream = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dope"}):
        drawn.savefig(stream, format="svg", metadata=nothing)
    return stream.getvalue()


def _height(parts: Sequence[Chart | Image], width: float) -> float:
    """Inches of a row: charts are a little wider than high, pictures as they are."""
    ratios: list[float] = [part.pixels.shape[0] / part.pixels.shape[1] for part in parts if isinstance(part, Image)]
    lines = [len(part.series) for part in parts if isinstance(part, Chart)]
    charts = [0.62 + _LEGEND_ROW / width * math.ceil(max(lines) / _LEGEND_COLUMNS)] if lines else []
    return width * max([*ratios, *charts]) + 0.35


def _draw(part: Chart | Image, axes: Axes) -> Any:
    """Draw one part; what a scale of colours belongs to, if it is a map of heights."""
    if isinstance(part, Chart):
        _draw_chart(part, axes)
        return None
    shown = _draw_image(part, axes)
    return shown if part.pixels.ndim == 2 else None


def _draw_chart(chart: Chart, axes: Axes) -> None:
    axes.set_title(chart.title, fontsize=11, color=INK)
    axes.set_xlabel(chart.against, color=INK)
    axes.set_ylabel(chart.measured, color=INK)
    make_quiet(axes)
    for line in chart.series:
        known = [(x, y) for x, y in zip(chart.places, line.values, strict=True) if y is not None]
        if known:
            x, y = zip(*known, strict=True)
            axes.plot(
                x, y, color=line.color, linestyle=line.style, marker=line.mark, markersize=4, linewidth=1.5,
                label=line.name, clip_on=False,
            )  # fmt: skip
    if len(chart.places) <= 12 and all(isinstance(place, (int, float)) for place in chart.places):
        axes.set_xticks([float(place) for place in chart.places], [f"{place:g}" for place in chart.places])
    _scale(chart, axes)
    if axes.get_legend_handles_labels()[1]:
        # Below the lines, where it hides none.
        axes.legend(
            fontsize=8.5, frameon=False, labelcolor=INK, ncols=_LEGEND_COLUMNS, loc="upper center",
            bbox_to_anchor=(0.5, -0.13), handlelength=3.2, columnspacing=1.2,
        )  # fmt: skip


def _scale(chart: Chart, axes: Axes) -> None:
    """Logarithmic where asked for, with 0 on the axis where a line reaches it, and numbers as they are said."""
    values = [y for line in chart.series for y in line.values if y is not None]
    positive = [y for y in values if y > 0]
    if chart.scale == "linear" or not positive:
        return
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter, SymmetricalLogLocator

    # Where values span less than a power of ten, its ends would be too few numbers; where both signs do, too many.
    spread = max(positive) / min(positive)
    subs = (1.0, 2.0, 5.0) if spread < 50 and min(values) >= 0 else (1.0,)
    if min(values) <= 0:
        # Around 0 the axis is linear: up to the least value, or where lines cross it, to about a tenth of the largest.
        near = min(positive) if min(values) == 0 else 10.0 ** math.floor(math.log10(max(map(abs, values))) - 1)
        axes.set_yscale("symlog", linthresh=near)
        axes.set_ylim(bottom=min(0.0, *values))
        axes.yaxis.set_major_locator(SymmetricalLogLocator(base=10.0, linthresh=near, subs=subs))
    else:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=subs))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _draw_image(image: Image, axes: Axes) -> Any:
    axes.set_title(image.title, fontsize=10, color=INK)
    axes.set_axis_off()
    if image.pixels.ndim == 2:
        return axes.imshow(image.pixels, cmap="viridis", vmin=image.low, vmax=image.high, interpolation="nearest")
    return axes.imshow(image.pixels, interpolation="antialiased")
