"""Live progress: a line per round, and a spinner with the blocks done and the time while a round is at work."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from dope.cli.screen import printable, shortened
from dope.memory import as_text, peak_bytes
from dope.protocols import Crew, Executor, Recipe, Step

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
    """Where steps, and blocks that are done, appear."""

    def __init__(self, console: Console, spinner: Progress, task: TaskID, what: str) -> None:
        self._console, self._spinner, self._task, self._what = console, spinner, task, what
        self._begun = False

    def __call__(self, step: Step) -> None:
        if not self._begun:
            self._write(_COLUMNS.format(*_NAMES), "bold")
            self._begun = True
        if step.sweep:
            name, disagreeing, residual = f"sweep {step.sweep}", "-", "-"
        else:
            name, disagreeing = str(step.round), f"{step.disagreeing:,}"
            residual = "-" if step.residual is None else f"{step.residual:.3g}"
        bound = gap = "-"
        if step.lower_bound is not None:
            bound = f"{step.lower_bound:,.1f}"
            gap = f"{100 * max(0.0, step.energy - step.lower_bound) / (abs(step.energy) or 1.0):.2g} %"
        proved = "-" if step.proved is None else _percent(step.proved)
        peak = peak_bytes()
        memory = "-" if peak is None else as_text(peak)
        energy = f"{step.energy:,.1f}" if math.isfinite(step.energy) else "-"
        figures = (energy, bound, gap, disagreeing, residual, proved, memory, f"{step.seconds:.1f}")
        self._write(_COLUMNS.format(name, *figures))
        self._spinner.update(self._task, description=f"{self._what}, round {step.round + 1}")

    def done(self, blocks: int, of: int, seconds: float) -> None:
        """So many blocks of a round are done, after so many seconds."""
        left = seconds / blocks * (of - blocks)
        more = f", about {left:.0f} s left of this step" if left >= 2 else ""
        self._spinner.update(self._task, description=f"{self._what}, {blocks} of {of} blocks{more}")

    def _write(self, line: str, style: str | None = None) -> None:
        self._console.print(line, style=style)


def _percent(share: float) -> str:
    """A share of all, which is all only where it is.

    >>> _percent(0.5), _percent(0.999999), _percent(1.0)
    ('50.0%', '99.9%', '100%')
    """
    return "100%" if share == 1.0 else f"{math.floor(1000 * share) / 10:.1f}%"


@dataclass(frozen=True, eq=False)
class Counted:
    """An executor that tells how many blocks of a round are done, and after how many seconds."""

    executor: Executor
    tell: Callable[[int, int, float], None]

    @property
    def workers(self) -> int:
        return self.executor.workers

    @property
    def elsewhere(self) -> bool:
        return self.executor.elsewhere

    def gather(self, recipes: Sequence[Recipe]) -> Crew:
        return _CountedCrew(self.executor.gather(recipes), self.tell)


class _CountedCrew:
    def __init__(self, crew: Crew, tell: Callable[[int, int, float], None]) -> None:
        self._crew, self._tell = crew, tell

    def ask(
        self,
        messages: Sequence[Any],
        *,
        begun: Callable[[int], object] | None = None,
        done: Callable[[int, Any], object] | None = None,
    ) -> list[Any]:
        since, blocks, number = time.perf_counter(), 0, sum(message is not None for message in messages)

        def counted(k: int, reply: Any) -> None:
            nonlocal blocks
            blocks += 1
            self._tell(blocks, number, time.perf_counter() - since)
            if done is not None:
                done(k, reply)

        return self._crew.ask(messages, begun=begun, done=counted)

    @property
    def statistics(self) -> object | None:
        return getattr(self._crew, "statistics", None)

    def __enter__(self) -> _CountedCrew:
        self._crew.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._crew.__exit__(*error)
