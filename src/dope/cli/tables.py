"""A short table on standard output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dope.cli.screen import printable, say, shortened
from dope.result import Result

# Characters of a value: several paths, and no more of what a header may hold.
_LONGEST_VALUE = 2000
_MOST_LABELS = 32


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


def labels_in_words(counts: Sequence[int]) -> str:
    """How many sites have each label, or each of the most frequent ones.

    >>> labels_in_words([6, 0, 2])
    '0: 6 (75 %), 1: 0, 2: 2 (25 %)'
    """
    sites = sum(counts) or 1
    shown = sorted(sorted(range(len(counts)), key=lambda label: -counts[label])[:_MOST_LABELS])
    words = [
        f"{label}: {counts[label]:,}" + (f" ({100 * counts[label] / sites:.3g} %)" if counts[label] else "")
        for label in shown
    ]
    left = len(counts) - len(shown)
    return ", ".join([*words, *([f"{left:,} others fewer"] if left else [])])


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
