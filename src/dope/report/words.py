"""What a run's numbers mean, in words, and how numbers are written."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dope.errors import InputError
from dope.memory import as_text
from dope.report.content import PageContent
from dope.report.passes import ends_with_finish, in_passes
from dope.report.timeline import column_seconds, in_columns, workers_in_a_row
from dope.report.timesheet import Pass, Timesheet
from dope.steps import Step

_NEGLIGIBLE = 1e-6  # of the energy: rounding that nobody would see
_MOST_PASSES = 10  # that are told one by one


@dataclass(frozen=True)
class Figure:
    """A number worth a place of its own: its name, and what else to say about it."""

    name: str
    value: str
    more: str = ""


def verdict(run: PageContent) -> str:
    """What is known about the labels, in one sentence."""
    energy, bound, gap = (_number(run, name) for name in ("energy", "lower_bound", "gap"))
    if gap is None and energy is not None and bound is not None:
        gap = energy - bound
    rounding = _number(run, "rounding_error") or 0.0
    if run.summary.get("exact"):
        if rounding <= _NEGLIGIBLE * abs(energy or 0.0):
            return "The global minimum, proved"
        return f"The minimum of the rounded costs, proved: at most {number(rounding, 3)} above the minimum"
    if gap is None:
        return "No bound is known"
    if gap <= 0:
        return "The global minimum, proved"
    share = _share(gap, energy, bound)
    return f"At most {number(gap, 3) if share is None else percent(share)} above the minimum"


def ending(run: PageContent) -> str:
    """How it went, in a few words."""
    words = {
        "exact": "ended with the minimum",
        "tolerance": "ended within the tolerance",
        "agreed": "ended when all blocks agreed",
        "stalled": "ended when nothing moved any more",
        "round limit": "ended at the limit of rounds",
        "cancelled": "was cancelled before its end",
        "undecided": _undecided(run),
    }
    stopped = run.summary.get("stopped")
    parts = [" × ".join(f"{side:,}" for side in run.labels.shape) + " sites"]
    if stopped is not None:
        parts.append(f"the run {words.get(str(stopped), f'ended: {stopped}')}")
    return ", ".join(parts) + "."


def _undecided(run: PageContent) -> str:
    left = run.trace[-1].disagreeing if in_passes(run.trace) else 0
    sites = f"{left:,} site{'' if left == 1 else 's'}" if left else "some sites"
    words = f"ended with {sites} whose labels were not decided yet"
    gap = _number(run, "gap")
    return words if not gap else f"{words}: the gap says how far the labels can be from the minimum"


def figures(run: PageContent) -> list[Figure]:
    """The key figures that are known."""
    energy, bound, gap = (_number(run, name) for name in ("energy", "lower_bound", "gap"))
    proved, seconds, peak = (_number(run, name) for name in ("proved", "seconds", "peak_bytes"))
    share = None if gap is None else _share(gap, energy, bound)
    of_gap = "from rounding costs" if gap and run.summary.get("exact") else "" if share is None else percent(share)
    known = [
        None if energy is None else Figure("energy", number(energy)),
        None if bound is None else Figure("lower bound", number(bound)),
        None if gap is None else Figure("gap", number(gap, 4), of_gap),
        None if proved is None else Figure("sites proved", percent(proved), _left_open(run)),
        Figure("labels", f"{len(run.several):,}") if run.several else None,
        None if run.foreground is None or run.several else Figure("foreground", percent(run.foreground)),
        Figure("blocks", f"{len(run.blocks):,}") if run.blocks else None,
        _how_many(run.trace) if run.trace else None,
        None if seconds is None else Figure("seconds", number(seconds, 3)),
        None if peak is None else Figure("peak memory", as_text(peak)),
    ]
    return [figure for figure in known if figure is not None]


def _left_open(run: PageContent) -> str:
    left = run.trace[-1].disagreeing if in_passes(run.trace) else 0
    return f"{left:,} open" if left else ""


def _how_many(trace: Sequence[Step]) -> Figure:
    if not in_passes(trace):
        return Figure("rounds", f"{len(trace):,}")
    finish = ends_with_finish(trace)
    return Figure("passes", f"{len(trace) - finish:,}", "and the finish" if finish else "")


def bars_in_words(sheet: Timesheet) -> str:
    """What the picture of a timesheet shows."""
    tasks = f"{len(sheet.who):,} task{'' if len(sheet.who) == 1 else 's'}"
    if not in_columns(sheet):
        return f"{tasks}, a bar each."
    together = workers_in_a_row(sheet)
    who = "a worker" if together == 1 else f"{together} workers"
    return f"{tasks}; a column is {number(column_seconds(sheet), 2)} seconds of {who}, filled as far as they worked."


def bytes_in_words(sheet: Timesheet) -> str:
    """How many bytes went out to blocks and came back, pass by pass; of many passes on the average."""
    if len(sheet.passes) <= _MOST_PASSES:
        return "Bytes out and back: " + "; ".join(f"{one.name} {_out_and_back(one)}" for one in sheet.passes) + "."
    many = len(sheet.passes)
    out, back = sum(one.bytes_sent for one in sheet.passes), sum(one.bytes_received for one in sheet.passes)
    most = max(sheet.passes, key=lambda one: one.bytes_sent + one.bytes_received)
    return (
        f"Bytes out and back: {as_text(out)} and {as_text(back)} in {many:,} passes, {as_text(out / many)} and "
        f"{as_text(back / many)} each on the average; most in {most.name}, {_out_and_back(most)}."
    )


def _out_and_back(one: Pass) -> str:
    return f"{as_text(one.bytes_sent)} and {as_text(one.bytes_received)}"


def escaped(text: str) -> str:
    """Somebody's text for HTML. Bytes of a path that are not text, which no file could hold, become question marks.

    >>> escaped("<b> & c")
    '&lt;b&gt; &amp; c'
    """
    return html.escape(text.encode("utf-8", "replace").decode("utf-8"))


def number(value: float, digits: int = 7) -> str:
    """A number with so many digits that count, in groups of three.

    >>> number(-1234567.891), number(0.05), number(12.0), number(1.2e-9)
    ('-1,234,568', '0.05', '12', '1.2e-09')
    """
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    if not 1e-4 <= abs(value) < 1e15:
        return f"{value:.3g}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float) -> str:
    """A share as a percentage that says neither "all" nor "nothing" where some are left.

    >>> percent(0.000131), percent(1.0), percent(0.999999999), percent(0.4567)
    ('0.013 %', '100 %', '99.9999 %', '45.7 %')
    """
    value = 100 * share
    if 0 < 100 - value < 0.1:
        return f"{min(99.9999, math.floor(value * 1e4) / 1e4):g} %"
    if 0 < value < 1e-6:
        return "less than 0.000001 %"
    return f"{value:.3g} %" if value >= 1 else f"{float(f'{value:.2g}'):.8f}".rstrip("0").rstrip(".") + " %"


def _number(run: PageContent, name: str) -> float | None:
    """A number of the summary; None where it is missing, or as good as that: NaN, or a bound of minus infinity."""
    value = run.summary.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float | np.number):
        raise InputError(f"summary[{name!r}] is {value!r}; expected a number, or None where it is not known.")
    known = float(value)
    return known if math.isfinite(known) else None


def _share(gap: float, energy: float | None, bound: float | None) -> float | None:
    """The gap as a share of the minimum, which lies between the two; None where that may be 0."""
    if energy is None or bound is None or energy * bound <= 0:
        return None
    return gap / min(abs(energy), abs(bound))
