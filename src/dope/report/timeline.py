"""Who worked when, drawn: a row per worker, a bar per block; of many, columns that are filled as far as they worked."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
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
# More bars than this hide each other, more rows than this cannot be told apart; and columns keep the picture small.
_MOST_BARS, _MOST_ROWS, _MOST_COLUMNS, _MOST_CELLS = 400, 25, 300, 3000
_LEVELS = 20  # to which a column is filled: steps that are seen, and neighbours alike are drawn as one
_THICK = 0.8  # of a row
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
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    groups = _groups(sheet)
    drawn = _filled_columns(sheet, groups) if in_columns(sheet) else _bars(sheet)
    _, second = unit_of(sheet)
    for color, outlines in reversed(list(zip(COLORS, drawn, strict=True))):
        if outlines:
            path = Path.make_compound_path(*(Path(points / (second, 1.0), closed=True) for points in outlines))
            axes.add_patch(PathPatch(path, facecolor=color, linewidth=0))
    axes.set_xlim(0, sheet.seconds / second)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_yticks(range(len(groups)), labels=_row_names(sheet, groups), fontsize=8, parse_math=False)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    _mark_passes(axes, sheet, second)


def _bars(sheet: Timesheet) -> list[list[Reals]]:
    """For each kind the outlines of its part of every task, one after the other in time."""
    ends = sheet.begun[:, None] + sheet.parts.cumsum(axis=1)
    begins = ends - sheet.parts
    half = _THICK / 2
    return [
        [
            np.array([(a, k + half), (b, k + half), (b, k - half), (a, k - half), (a, k + half)])
            for k, a, b in zip(sheet.who, begins[:, kind], ends[:, kind], strict=True)
            if b > a
        ]
        for kind in range(len(COLORS))
    ]


def _filled_columns(sheet: Timesheet, groups: Sequence[range]) -> list[list[Reals]]:
    """For each kind the outlines of its part of every row, one upon the other in each column of time.

    They reach down to the row's foot: what lies below is to be drawn over them.
    """
    shape = len(groups), _columns(sheet)
    column = sheet.seconds / shape[1]
    rows = sheet.who // workers_in_a_row(sheet)
    ends = (sheet.begun[:, None] + sheet.parts.cumsum(axis=1)) / column
    begins = ends - sheet.parts / column
    spent = [
        np.maximum(0.0, _after(rows, begins[:, kind], shape) - _after(rows, ends[:, kind], shape))
        for kind in range(len(COLORS))
    ]
    size = np.array([len(group) for group in groups], dtype=np.float64)[:, None]
    full = np.maximum(size, sum(spent))  # a worker that is said to do two things at once fills no more than its row
    levels = np.rint(_LEVELS * np.cumsum([np.zeros(shape), *spent], axis=0) / full)
    return [
        [outline for k in range(len(groups)) for outline in _outlines(k, low[k], high[k], column)]
        for low, high in pairwise(levels)
    ]


def _after(rows: NDArray[np.int64], moments: Reals, shape: tuple[int, ...]) -> Reals:
    """For each row and column the time of it that lies after a moment, summed over the moments of the row."""
    whole = np.clip(moments.astype(np.int64), 0, shape[1])
    part = moments - whole
    steps = np.zeros((shape[0], shape[1] + 2))
    np.add.at(steps, (rows, whole), 1.0 - part)
    np.add.at(steps, (rows, whole + 1), part)
    after: Reals = steps.cumsum(axis=1)[:, : shape[1]]
    return after


def _outlines(row: int, low: Reals, high: Reals, column: float) -> Iterable[Reals]:
    """Around neighbouring columns in which there is something between two levels."""
    filled = np.concatenate([[False], high > low, [False]])
    begins, ends = np.flatnonzero(filled[1:] & ~filled[:-1]), np.flatnonzero(filled[:-1] & ~filled[1:])
    for first, last in zip(begins, ends, strict=True):
        cuts = np.flatnonzero(np.diff(high[first:last])) + 1  # corners only where the level is another
        edges = first + np.concatenate([[0], cuts, [last - first]])
        levels = high[edges[:-1]]
        across = column * np.concatenate([np.repeat(edges, 2), edges[:1]])
        up = np.concatenate([[0.0], np.repeat(levels, 2), [0.0, 0.0]])
        yield np.column_stack([across, row + _THICK * (0.5 - up / _LEVELS)])


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
