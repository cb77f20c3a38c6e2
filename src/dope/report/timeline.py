"""Who worked when, drawn: a row per worker, a bar per block; of many, columns that are filled as far as they worked."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dope.report.curves import BLUE, GREEN, GREY, INK, ORANGE, Panel
from dope.report.timesheet import Pass, Timesheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Reals = NDArray[np.float64]

COLORS = (ORANGE, BLUE, GREEN, GREY)
"""Of the KINDS of a timesheet."""
# More bars than this hide each other, more rows than this cannot be told apart, more cells than this are a blur.
_MOST_BARS, _MOST_ROWS, _MOST_COLUMNS, _MOST_CELLS = 400, 25, 300, 3000
_LEVELS, _AIR = 16, 2  # pixels of a row that are filled, and that are not, at its top and at its foot
_THICK = _LEVELS / (_LEVELS + 2 * _AIR)
_MOST_MARKS = 60
_NAME_LEVELS = 5  # of names above each other, where passes are short
_LETTER = 0.0085  # of the width, about what a letter of a name takes
_LONGEST_NAME = 22


def timeline(sheet: Timesheet) -> Panel:
    """The picture of a timesheet."""
    unit, _ = unit_of(sheet)
    return Panel("workers", f"{unit} since the first block began", lambda axes: _draw(axes, sheet), titled=False)


def inches(sheet: Timesheet) -> tuple[float, float]:
    """How large that is, for names that can be read."""
    rows = len(_groups(sheet))
    names = 0.15 * max(min(level, _NAME_LEVELS - 1) for _, level in _marks(sheet))
    return 9.6, 0.95 + names + rows * (0.34 if rows <= 4 else 0.26 if rows <= 12 else 0.19)


def in_columns(sheet: Timesheet) -> bool:
    """Whether there are too many tasks, or workers, for a bar each."""
    return len(sheet.who) > _MOST_BARS or len(sheet.workers) > _MOST_ROWS


def workers_in_a_row(sheet: Timesheet) -> int:
    """How many workers share a row of the picture; the last row may have fewer."""
    return math.ceil(len(sheet.workers) / _MOST_ROWS)


def column_seconds(sheet: Timesheet) -> float:
    """What a column stands for."""
    return sheet.seconds / _columns(sheet)


def unit_of(sheet: Timesheet) -> tuple[str, float]:
    """What time is counted in, and how many seconds that is."""
    for name, seconds in (("hours", 3600.0), ("minutes", 60.0)):
        if sheet.seconds >= 5 * seconds:
            return name, seconds
    return "seconds", 1.0


def _columns(sheet: Timesheet) -> int:
    return min(_MOST_COLUMNS, _MOST_CELLS // len(_groups(sheet)))


def _groups(sheet: Timesheet) -> list[range]:
    """The workers of each row."""
    number, each = len(sheet.workers), workers_in_a_row(sheet)
    return [range(k, min(k + each, number)) for k in range(0, number, each)]


def _draw(axes: Axes, sheet: Timesheet) -> None:
    groups = _groups(sheet)
    _, second = unit_of(sheet)
    if in_columns(sheet):
        _draw_columns(axes, sheet, groups, second)
    else:
        _draw_bars(axes, sheet, second)
    axes.set_xlim(0, sheet.seconds / second)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_yticks(range(len(groups)), labels=_row_names(sheet, groups), fontsize=8, parse_math=False)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    _mark_passes(axes, sheet, second)


def _draw_bars(axes: Axes, sheet: Timesheet, second: float) -> None:
    """The parts of every task, one after the other in time; those of a kind are one path."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    ends = sheet.begun[:, None] + sheet.parts.cumsum(axis=1)
    low, high = sheet.who - _THICK / 2, sheet.who + _THICK / 2
    for color, end, part in zip(COLORS, ends.T / second, sheet.parts.T / second, strict=True):
        begin = end - part
        corners = np.stack([begin, high, end, high, end, low, begin, low], axis=1)[part > 0]
        if len(corners):
            path = Path.make_compound_path_from_polys(corners.reshape(-1, 4, 2))
            axes.add_patch(PathPatch(path, facecolor=color, linewidth=0))


def _draw_columns(axes: Axes, sheet: Timesheet, groups: Sequence[range], second: float) -> None:
    """In every row and column of time the parts, one upon the other, as an image."""
    from matplotlib.colors import ListedColormap

    levels = _levels(sheet, groups)
    # Pixels of a row from its top to its foot, with air at both; what a pixel shows is the number of those below it.
    heights = np.arange(_LEVELS + _AIR, -_AIR, -1)[:, None] - 0.5
    shown = np.where(heights < 0, len(COLORS), (levels[:, :, None] < heights).sum(axis=0))
    axes.imshow(
        shown.reshape(-1, shown.shape[-1]).astype(np.uint8),
        cmap=ListedColormap([*COLORS, "none"]),
        interpolation="none",
        aspect="auto",
        zorder=1,  # above the grid
        extent=(0, sheet.seconds / second, len(groups) - 0.5, -0.5),
    )


def _levels(sheet: Timesheet, groups: Sequence[range]) -> Reals:
    """For each kind, row and column of time, how high the row is filled by this kind and those before it."""
    shape, column = (len(groups), _columns(sheet)), column_seconds(sheet)
    rows = sheet.who // workers_in_a_row(sheet)
    ends = (sheet.begun[:, None] + sheet.parts.cumsum(axis=1)) / column
    begins = ends - sheet.parts / column
    spent = [
        np.maximum(0.0, _after(rows, begins[:, kind], shape) - _after(rows, ends[:, kind], shape))
        for kind in range(len(COLORS))
    ]
    size = np.array([len(group) for group in groups], dtype=np.float64)[:, None]
    full = np.maximum(size, sum(spent))  # a worker that is said to do two things at once fills no more than its row
    levels: Reals = np.rint(_LEVELS * np.cumsum(spent, axis=0) / full)
    return levels


def _after(rows: NDArray[np.int64], moments: Reals, shape: tuple[int, ...]) -> Reals:
    """For each row and column the time of it that lies after a moment, summed over the moments of the row."""
    whole = np.clip(moments.astype(np.int64), 0, shape[1])
    part = moments - whole
    steps = np.zeros((shape[0], shape[1] + 2))
    np.add.at(steps, (rows, whole), 1.0 - part)
    np.add.at(steps, (rows, whole + 1), part)
    after: Reals = steps.cumsum(axis=1)[:, : shape[1]]
    return after


def _row_names(sheet: Timesheet, groups: Sequence[range]) -> list[str]:
    if workers_in_a_row(sheet) > 1:
        spans = [(group.start + 1, group.stop) for group in groups]
        return [f"worker {a}" if a == b else f"workers {a} to {b}" for a, b in spans]
    return short_names(sheet.workers)


def short_names(workers: Sequence[str]) -> list[str]:
    """What tells workers apart, of names such as host:process:thread; their number where that is too long.

    >>> short_names(["a:17:dope_0", "a:17:dope_1"]), short_names(["a:17:main", "b:4:main"]), short_names(["a:17:main"])
    (['dope_0', 'dope_1'], ['a:17', 'b:4'], ['worker 1'])
    >>> short_names(["node1:17:Dask-Default-Threads-17-0", "node2:4:Dask-Default-Threads-4-3"])
    ['node1:17:0', 'node2:4:3']
    """
    names = [_printable(name) for name in workers]
    for split in (r":", r"[:\-_ ]"):
        words = [re.split(split, name) for name in names]
        if len({len(parts) for parts in words}) == 1:
            # Those that are not the same for all, each of them once.
            columns = list(dict.fromkeys(column for column in zip(*words, strict=True) if len(set(column)) > 1))
            short = [":".join(parts) for parts in zip(*columns, strict=True)]
            if short and max(map(len, short)) <= _LONGEST_NAME:
                return short
    return [f"worker {k}" for k in range(1, len(workers) + 1)]


def _printable(name: str) -> str:
    """Letters that every font has."""
    return "".join(sign if sign.isascii() and sign.isprintable() else "?" for sign in name)


def _mark_passes(axes: Axes, sheet: Timesheet, second: float) -> None:
    """A line where each pass begins, and its name where there is room."""
    look: dict[str, Any] = {"color": INK, "linewidth": 0.8, "alpha": 0.6}
    for one, level in _marks(sheet):
        axes.axvline(one.begun / second, linestyle=(0, (3, 2)), **look)
        if level < _NAME_LEVELS:
            axes.annotate(
                f" {one.name}",
                (one.begun / second, 1.0),
                (0, 3 + 11 * level),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                annotation_clip=False,
                fontsize=8,
                color=INK,
                arrowprops={"arrowstyle": "-", "relpos": (0, 0), "shrinkA": 0, "shrinkB": 0, **look},
            )


def _marks(sheet: Timesheet) -> list[tuple[Pass, int]]:
    """Passes, and how high their names stand: above those that begin before they end, so that no line crosses a name.

    What would stand too high is not named.
    """
    marks: list[tuple[Pass, int]] = []
    for one in sheet.passes[:: -math.ceil(len(sheet.passes) / _MOST_MARKS)]:  # the last one always
        end = one.begun + _LETTER * (len(one.name) + 1) * sheet.seconds
        below = [level for later, level in marks if later.begun < end and level < _NAME_LEVELS]
        marks.append((one, 1 + max(below, default=-1)))
    return marks[::-1]
