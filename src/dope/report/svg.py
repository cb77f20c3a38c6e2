"""Curves as SVG images inside of a page: they take its colours, light or dark, and its font."""

from __future__ import annotations

from collections.abc import Sequence

from dope.report.charts import svg
from dope.report.curves import BLUE, GREEN, GREY, GRID, INK, ORANGE, Panel, draw, new_figure, panels_of
from dope.report.png import data_uri
from dope.report.style import COLORS_CSS
from dope.report.timeline import inches, timeline
from dope.report.timesheet import Timesheet
from dope.report.words import escaped
from dope.steps import Step

# Colours of the drawing, and the names under which a page sets its own.
COLORS = {
    INK: "var(--ink)",
    GRID: "var(--grid)",
    BLUE: "var(--blue)",
    ORANGE: "var(--orange)",
    GREEN: "var(--green)",
    GREY: "var(--grey)",
}


def curve_images(steps: Sequence[Step]) -> list[str]:
    """One `<img>` element for each thing that can be drawn of these steps.

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    """
    return [_image(panel, (4.6, 3.1)) for panel in panels_of(steps)]


def timeline_image(sheet: Timesheet) -> str:
    """One `<img>` element that shows who worked when.

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    """
    return _image(timeline(sheet), inches(sheet))


def _image(panel: Panel, size: tuple[float, float]) -> str:
    figure = new_figure(size)
    figure.patch.set_visible(False)
    axes = figure.subplots()
    axes.set_facecolor("none")
    draw(panel, axes)
    text = svg(figure).replace("'DejaVu Sans'", "system-ui")
    for color, name in COLORS.items():
        text = text.replace(color, name)
    text = text.replace("</svg>", f"<style>{COLORS_CSS}</style></svg>")
    return f'<img src="{data_uri(text.encode(), "svg+xml")}" alt="{escaped(f"{panel.title} by {panel.against}")}">'
