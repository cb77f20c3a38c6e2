"""Curves as SVG inside of a page: they take its colours, light or dark, and its font."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Sequence

from dope.protocols import Step
from dope.report.curves import BLUE, GREEN, GREY, GRID, INK, ORANGE, Panel, draw, new_figure, panels_of

# Colours of the drawing, and the names under which a page sets its own.
COLORS = {
    INK: "var(--ink)",
    GRID: "var(--grid)",
    BLUE: "var(--blue)",
    ORANGE: "var(--orange)",
    GREEN: "var(--green)",
    GREY: "var(--grey)",
}


def inline_curves(steps: Sequence[Step]) -> list[str]:
    """One `<svg>` element for each thing that can be drawn of these steps.

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    """
    return [_element(panel, f"curve{k}-") for k, panel in enumerate(panels_of(steps))]


def _element(panel: Panel, prefix: str) -> str:
    figure = new_figure((4.6, 3.1))
    import matplotlib as mpl

    figure.patch.set_visible(False)
    axes = figure.subplots()
    axes.set_facecolor("none")
    draw(panel, axes)
    text = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    # Text stays text; and the same run gives the same page, as names are not drawn by lot.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dope"}):
        figure.savefig(text, format="svg", metadata=nothing)
    return _fitted(text.getvalue(), prefix, f"{panel.title} by {panel.against}")


def _fitted(text: str, prefix: str, label: str) -> str:
    """An SVG file as an element of a page: no addresses, no rules for others, names of its own, the page's colours."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style\b.*?</style>|<!--.*?-->", "", text, flags=re.DOTALL)
    box = re.search(r'viewBox="[^"]*"', text)
    opening = f'<svg {box.group() if box else ""} role="img" aria-label="{html.escape(label)}">'
    text = opening + text[text.index(">") + 1 :]
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r'(url\(|href=")#', rf"\g<1>#{prefix}", text)
    text = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", text)
    for color, name in COLORS.items():
        text = text.replace(color, name)
    return text.strip()
