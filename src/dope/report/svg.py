"""Curves as SVG inside of a page: they take its colours, light or dark, and its font."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Sequence

from dope.report.curves import BLUE, GREEN, GREY, GRID, INK, ORANGE, Panel, draw, new_figure, panels_of
from dope.report.timeline import inches, timeline
from dope.report.timesheet import Timesheet
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


def inline_curves(steps: Sequence[Step]) -> list[str]:
    """One `<svg>` element for each thing that can be drawn of these steps.

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    """
    return [_element(panel, f"curve{k}-", (4.6, 3.1)) for k, panel in enumerate(panels_of(steps))]


def inline_timeline(sheet: Timesheet) -> str:
    """One `<svg>` element that shows who worked when.

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    """
    return _element(timeline(sheet), "timeline-", inches(sheet))


def _element(panel: Panel, prefix: str, size: tuple[float, float]) -> str:
    figure = new_figure(size)
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
    text = re.sub(r'\bd="([^"]*)"', _shorter, text)
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r'(url\(|href=")#', rf"\g<1>#{prefix}", text)
    text = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", text)
    for color, name in COLORS.items():
        text = text.replace(color, name)
    return text.strip()


def _shorter(path: re.Match[str]) -> str:
    """A path to a hundredth of a point, which nobody sees; along the axes with one number instead of two."""
    parts, at = [], ["", ""]
    for command, numbers in re.findall(r"([A-Za-z])([^A-Za-z]*)", path.group(1)):
        short = [f"{float(number):.2f}".rstrip("0").rstrip(".") for number in numbers.split()]
        if command == "L" and short[0] == at[0]:
            parts.append(f"V{short[1]}")
        elif command == "L" and short[1] == at[1]:
            parts.append(f"H{short[0]}")
        else:
            parts.append(command + " ".join(short))
        at = short[-2:] or ["", ""]
    return f'd="{"".join(parts)}"'
