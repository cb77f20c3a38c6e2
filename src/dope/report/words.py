"""What a run's numbers mean, in words, and how numbers are written."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass

import numpy as np

from dope.errors import InputError
from dope.report.run import Run

_NEGLIGIBLE = 1e-6  # of the energy: rounding that nobody would see


@dataclass(frozen=True)
class Figure:
    """A number worth a place of its own: its name, and what else to say about it."""

    name: str
    value: str
    more: str = ""


def verdict(run: Run) -> str:
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


def ending(run: Run) -> str:
    """How it went, in a few words."""
    words = {
        "exact": "ended with the minimum",
        "tolerance": "ended within the tolerance",
        "agreed": "ended when all blocks agreed",
        "stalled": "ended when nothing moved any more",
        "round limit": "ended at the limit of rounds",
        "cancelled": "was cancelled before its end",
    }
    stopped = run.summary.get("stopped")
    parts = [" × ".join(f"{side:,}" for side in run.labels.shape) + " sites"]
    if stopped is not None:
        parts.append(f"the run {words.get(str(stopped), f'ended: {stopped}')}")
    return ", ".join(parts) + "."


def figures(run: Run) -> list[Figure]:
    """The key figures that are known."""
    energy, bound, gap = (_number(run, name) for name in ("energy", "lower_bound", "gap"))
    proved, seconds, peak = (_number(run, name) for name in ("proved", "seconds", "peak_bytes"))
    share = None if gap is None else _share(gap, energy, bound)
    known = [
        None if energy is None else Figure("energy", number(energy)),
        None if bound is None else Figure("lower bound", number(bound)),
        None if gap is None else Figure("gap", number(gap, 4), "" if share is None else percent(share)),
        None if proved is None else Figure("sites proved", percent(proved)),
        Figure("foreground", percent(float(run.labels.mean()))) if run.labels.size else None,
        Figure("blocks", f"{len(run.blocks):,}") if run.blocks else None,
        Figure("rounds", f"{len(run.trace):,}") if run.trace else None,
        None if seconds is None else Figure("seconds", number(seconds, 3)),
        None if peak is None else Figure("peak memory", in_bytes(peak)),
    ]
    return [figure for figure in known if figure is not None]


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


def in_bytes(value: float) -> str:
    """Bytes in the unit that suits them.

    >>> in_bytes(1_234_567_890), in_bytes(999)
    ('1.23 GB', '999 B')
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} B"


def _number(run: Run, name: str) -> float | None:
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
