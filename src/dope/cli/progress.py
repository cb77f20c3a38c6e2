"""Live progress: a line per round, and a spinner with the blocks done and the time while a round is at work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from dope.memory import as_text, peak_bytes
from dope.protocols import Crew, Executor, Recipe, Step, Worker

_COLUMNS = "{:>8}  {:>16}  {:>16}  {:>9}  {:>12}  {:>10}  {:>8}  {:>8}  {:>8}"
_NAMES = ("round", "energy", "lower bound", "gap", "disagreeing", "residual", "proved", "memory", "seconds")


@contextmanager
def at_work(console: Console, what: str) -> Iterator[Shown]:
    """Show that `what` is going on; the value writes a line for each step that it is given."""
    spinner = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
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
        proved = "-" if step.proved is None else f"{step.proved:.1%}"
        peak = peak_bytes()
        memory = "-" if peak is None else as_text(peak)
        figures = (f"{step.energy:,.1f}", bound, gap, disagreeing, residual, proved, memory, f"{step.seconds:.1f}")
        self._write(_COLUMNS.format(name, *figures))
        self._spinner.update(self._task, description=f"{self._what}, round {step.round + 1}")

    def done(self, blocks: int, of: int, seconds: float) -> None:
        """So many blocks of a round are done, after so many seconds."""
        left = seconds / blocks * (of - blocks)
        more = f", about {left:.0f} s left of this step" if left >= 2 else ""
        self._spinner.update(self._task, description=f"{self._what}, {blocks} of {of} blocks{more}")

    def _write(self, line: str, style: str | None = None) -> None:
        self._console.print(line, style=style, highlight=False, soft_wrap=True)


@dataclass(frozen=True, eq=False)
class Counted:
    """An executor in this process that tells how many blocks of a round are done."""

    executor: Executor
    tell: Callable[[int, int, float], None]

    def gather(self, recipes: Sequence[Recipe]) -> Crew:
        counter = _Counter(self.tell)
        return _CountedCrew(self.executor.gather([_CountedRecipe(recipe, counter) for recipe in recipes]), counter)


class _Counter:
    def __init__(self, tell: Callable[[int, int, float], None]) -> None:
        self._tell, self._lock = tell, threading.Lock()
        self._done = self._all = 0
        self._begun = 0.0

    def begin(self, number: int) -> None:
        self._done, self._all, self._begun = 0, number, time.perf_counter()

    def count(self) -> None:
        with self._lock:
            self._done += 1
            self._tell(self._done, max(self._all, self._done), time.perf_counter() - self._begun)


@dataclass(frozen=True, eq=False)
class _CountedRecipe:
    recipe: Recipe
    counter: _Counter

    def open(self) -> Worker:
        worker = self.recipe.open()

        def counted(message: Any, /) -> Any:
            reply = worker(message)
            if message is not None:  # who is sent nothing has nothing to do
                self.counter.count()
            return reply

        return counted


class _CountedCrew:
    def __init__(self, crew: Crew, counter: _Counter) -> None:
        self._crew, self._counter = crew, counter

    def ask(self, messages: Sequence[Any]) -> list[Any]:
        self._counter.begin(sum(message is not None for message in messages))
        return self._crew.ask(messages)

    def __enter__(self) -> _CountedCrew:
        self._crew.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._crew.__exit__(*error)
