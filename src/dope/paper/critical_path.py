"""What as many workers as blocks would take, measured with fewer: the critical path.

Blocks run one after the other, a watch beside each. The critical path is the slowest block of every time that all were
asked, and what is done in between. Seconds of the processor are beside those of the clock because they do not count
what else the machine does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from dope.protocols import Crew, Executor, Recipe, Worker


@dataclass(frozen=True)
class Times:
    """Seconds of every worker at every time that all were asked: of the clock, and of the processor."""

    asked: list[list[tuple[float, float]]] = field(default_factory=list)

    def critical(self, total: float, *, cpu: bool = False) -> float:
        """What `total` would have been with a processor per worker: the slowest of each time, and the rest."""
        seconds = [[pair[cpu] for pair in workers] for workers in self.asked]
        return total - sum(map(sum, seconds)) + sum(map(max, seconds))


@dataclass(frozen=True, eq=False)
class Timed:
    """Another executor, with a watch beside every worker; opening one counts as its work."""

    executor: Executor
    times: Times

    @property
    def workers(self) -> int:
        return self.executor.workers

    @property
    def elsewhere(self) -> bool:
        return self.executor.elsewhere

    def gather(self, recipes: Sequence[Recipe]) -> TimedCrew:
        return TimedCrew(self.executor.gather([TimedRecipe(recipe) for recipe in recipes]), self.times)


class TimedCrew:
    """A crew whose workers reply with their seconds, which are taken off again."""

    def __init__(self, crew: Crew, times: Times) -> None:
        self._crew = crew
        self._times = times

    def ask(
        self,
        messages: Sequence[Any],
        *,
        begun: Callable[[int], object] | None = None,
        done: Callable[[int, Any], object] | None = None,
    ) -> list[Any]:
        timed = [(None, (0.0, 0.0)) if reply is None else reply for reply in self._crew.ask(messages, begun=begun)]
        self._times.asked.append([seconds for _, seconds in timed])
        for k, (message, (reply, _)) in enumerate(zip(messages, timed, strict=True)):
            if done is not None and message is not None:
                done(k, reply)
        return [reply for reply, _ in timed]

    def __enter__(self) -> Self:
        self._crew.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._crew.__exit__(*error)


@dataclass(frozen=True, eq=False)
class TimedRecipe:
    """A recipe for a worker with a watch."""

    recipe: Recipe

    def open(self) -> TimedWorker:
        return TimedWorker(self.recipe)


class TimedWorker:
    """Replies with what the worker said and how long it took, opening included."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._worker: Worker | None = None

    def __call__(self, message: Any, /) -> tuple[Any, tuple[float, float]]:
        begun, worked = time.perf_counter(), time.thread_time()
        if self._worker is None:
            self._worker = self._recipe.open()
        reply = self._worker(message)
        return reply, (time.perf_counter() - begun, time.thread_time() - worked)
