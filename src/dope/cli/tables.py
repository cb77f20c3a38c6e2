"""A short table on standard output."""

from __future__ import annotations

from collections.abc import Mapping

from dope.cli.screen import printable, say, shortened
from dope.result import Result

# Characters of a value: several paths, and no more of what a header may hold.
_LONGEST_VALUE = 2000


def print_rows(rows: Mapping[str, str]) -> None:
    """A name and its value per line, whatever the width of a terminal: a path that is cut helps nobody."""
    widest = max(map(len, rows), default=0)
    for name, value in rows.items():
        say(f"{name:<{widest}}  {shortened(printable(value), _LONGEST_VALUE)}")


def bound_in_words(result: Result) -> str:
    """The bound, and how far below the energy it lies: also that of a minimum, where costs had to be rounded."""
    if result.lower_bound is None or result.gap is None:
        return "-"
    if result.exact:
        rounding = f", but for {result.gap:.2g} from rounding costs" if result.gap else ""
        return f"{result.lower_bound:,.1f}, exact{rounding}"
    return f"{result.lower_bound:,.1f}, at most {100 * result.gap / (abs(result.energy) or 1.0):.2g} % below the energy"


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(0.5), duration(200), duration(1e5), duration(1e9)
    ('1 s', '3 min', '28 h', '11,574 days')
    """
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    for size, unit, most in ((60, "min", 100), (3600, "h", 72)):
        if seconds < most * size:
            return f"{round(seconds / size)} {unit}"
    return f"{round(seconds / 86400):,} days"
