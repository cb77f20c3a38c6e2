"""An executor whose blocks are seen to begin and to end: the one place that looks at how work goes, for all methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from dope.errors import DopeError
from dope.protocols import Crew, Executor, Recipe


class Observer(Protocol):
    """Who wants to know. Calls may come from any thread."""

    def gathered(self, places: Sequence[Any]) -> None:
        """New blocks: the place of each."""
        ...

    def asked(self, doing: dict[int, str]) -> None:
        """What these blocks are asked to do; they wait for it."""
        ...

    def begun(self, block: int) -> None: ...

    def done(self, block: int) -> None: ...


@dataclass(frozen=True, eq=False)
class ObservedExecutor:
    """Another executor, observed."""

    executor: Executor
    observer: Observer

    @property
    def workers(self) -> int:
        return self.executor.workers

    @property
    def elsewhere(self) -> bool:
        return self.executor.elsewhere

    def gather(self, recipes: Sequence[Recipe]) -> Crew:
        places = [getattr(recipe, "where", None) for recipe in recipes]
        self.observer.gathered(places)
        return ObservedCrew(self.executor.gather(recipes), self.observer, repr(self.executor))


class ObservedCrew:
    """A crew, observed."""

    def __init__(self, crew: Crew, observer: Observer, name: str) -> None:
        self._crew, self._observer, self._name = crew, observer, name

    @property
    def statistics(self) -> object:
        return getattr(self._crew, "statistics", None)

    def ask(
        self,
        messages: Sequence[Any],
        *,
        begun: Callable[[int], object] | None = None,
        done: Callable[[int, Any], object] | None = None,
    ) -> list[Any]:
        observer = self._observer
        told: set[int] = set()
        observer.asked({k: _name(message) for k, message in enumerate(messages) if message is not None})

        def on_begun(k: int) -> None:
            observer.begun(k)
            if begun is not None:
                begun(k)

        def on_done(k: int, reply: Any) -> None:
            told.add(k)
            observer.done(k)
            if done is not None:
                done(k, reply)

        replies: Any = self._crew.ask(messages, begun=on_begun, done=on_done)
        asked = {k for k, message in enumerate(messages) if message is not None}
        if not isinstance(replies, list) or len(replies) != len(messages) or told != asked:
            raise DopeError(
                f"{self._name} answered {len(messages)} messages with {_count(replies)} replies, and called done for "
                f"{len(told)} of {len(asked)} blocks; expected a list with a reply for each, and a call for each."
            )
        return list(replies)

    def __enter__(self) -> Self:
        self._crew.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._crew.__exit__(*error)


def _count(replies: Any) -> str:
    return str(len(replies)) if hasattr(replies, "__len__") else f"{replies!r:.40} instead of"


def _name(message: Any) -> str:
    """What a message asks for: its own word, a function's name, or that of its type."""
    return str(getattr(message, "doing", None) or getattr(message, "__name__", None) or type(message).__name__).lower()
