"""Live progress: a line per round, and a spinner with the time while a round is at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from dope.protocols import Step

_COLUMNS = "{:>8}  {:>16}  {:>16}  {:>12}  {:>10}  {:>8}  {:>8}"


@contextmanager
def at_work(console: Console, what: str) -> Iterator[Callable[[Step], None]]:
    """Show that `what` is going on; the value writes a line for each step it is given."""
    spinner = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    lines = _Lines(console)
    with spinner:
        task = spinner.add_task(what, total=None)

        def show(step: Step) -> None:
            lines.show(step)
            spinner.update(task, description=f"{what}, round {step.round + 1}")

        yield show


class _Lines:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = False

    def show(self, step: Step) -> None:
        if not self._begun:
            names = ("round", "energy", "lower bound", "disagreeing", "residual", "proved", "seconds")
            self._write(_COLUMNS.format(*names), "bold")
            self._begun = True
        if step.sweep:
            name, disagreeing, residual = f"sweep {step.sweep}", "-", "-"
        else:
            name, disagreeing = str(step.round), f"{step.disagreeing:,}"
            residual = "-" if step.residual is None else f"{step.residual:.3g}"
        bound = "-" if step.lower_bound is None else f"{step.lower_bound:,.1f}"
        proved = "-" if step.proved is None else f"{step.proved:.1%}"
        self._write(
            _COLUMNS.format(name, f"{step.energy:,.1f}", bound, disagreeing, residual, proved, f"{step.seconds:.1f}")
        )

    def _write(self, line: str, style: str | None = None) -> None:
        self._console.print(line, style=style, highlight=False, soft_wrap=True)
