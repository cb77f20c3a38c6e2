"""Live progress: a line per round, and a spinner with the blocks done and the time while a round is at work."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from dope.cli.screen import printable, shortened
from dope.memory import as_text, peak_bytes
from dope.run import BlockBegun, BlockDone
from dope.steps import AdmmStep, Step

_COLUMNS = "{:>8}  {:>16}  {:>16}  {:>9}  {:>12}  {:>10}  {:>8}  {:>8}  {:>8}"
_LONGEST = 100
_NAMES = ("round", "energy", "lower bound", "gap", "disagreeing", "residual", "proved", "memory", "seconds")


@contextmanager
def at_work(console: Console, what: str) -> Iterator[Shown]:
    """Show that `what` is going on; the value writes a line for each step that it is given."""
    what = shortened(printable(what), _LONGEST)
    spinner = Progress(
        SpinnerColumn("dots" if console.encoding.lower().startswith("utf") else "line"),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with spinner:
        yield Shown(console, spinner, spinner.add_task(what, total=None), what)


class Shown:
    """Where steps, and what blocks are at, appear."""

    def __init__(self, console: Console, spinner: Progress, task: TaskID, what: str) -> None:
        self._console, self._spinner, self._task, self._what = console, spinner, task, what
        self._begun = False
        self._since: float | None = None  # when the first of the blocks at work began

    def __call__(self, step: Step) -> None:
        if not self._begun:
            self._write(_COLUMNS.format(*_NAMES), "bold")
            self._begun = True
        name, disagreeing, residual = str(step.round), f"{step.disagreeing:,}", "-"
        if isinstance(step, AdmmStep):
            residual = f"{step.residual:.3g}"
            if step.sweep:  # which repeats both of the last round
                name, disagreeing, residual = f"sweep {step.sweep}", "-", "-"
        bound = "-" if step.lower_bound is None else f"{step.lower_bound:,.1f}"
        gap = "-"
        if step.lower_bound is not None and step.energy is not None:
            gap = f"{100 * max(0.0, step.energy - step.lower_bound) / (abs(step.energy) or 1.0):.2g} %"
        proved = "-" if step.proved is None else _percent(step.proved)
        peak = peak_bytes()
        memory = "-" if peak is None else as_text(peak)
        energy = "-" if step.energy is None else f"{step.energy:,.1f}"
        figures = (energy, bound, gap, disagreeing, residual, proved, memory, f"{step.seconds:.1f}")
        self._write(_COLUMNS.format(name, *figures))
        self._spinner.update(self._task, description=f"{self._what}, round {step.round + 1}")

    def block(self, event: BlockBegun | BlockDone) -> None:
        """A block of a round has begun, or is done."""
        if self._since is None:
            self._since = event.seconds
        if isinstance(event, BlockBegun):
            return
        left = (event.seconds - self._since) / event.done * (event.asked - event.done)
        more = f", about {left:.0f} s left of this step" if left >= 2 else ""
        self._spinner.update(self._task, description=f"{self._what}, {event.done} of {event.asked} blocks{more}")
        if event.done == event.asked:
            self._since = None

    def _write(self, line: str, style: str | None = None) -> None:
        self._console.print(line, style=style)


def _percent(share: float) -> str:
    """A share of all, which is all only where it is.

    >>> _percent(0.5), _percent(0.999999), _percent(1.0)
    ('50.0%', '99.9%', '100%')
    """
    return "100%" if share == 1.0 else f"{math.floor(1000 * share) / 10:.1f}%"
