"""An executor of a dozen lines: what verifies shares none with what solves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self


class InTurn:
    """Does one thing after another, here."""

    workers = 1
    elsewhere = False

    def gather(self, recipes: Sequence[Any]) -> _Crew:
        return _Crew(recipes)


class _Crew:
    def __init__(self, recipes: Sequence[Any]) -> None:
        self._recipes = recipes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        del error

    def ask(
        self,
        messages: Sequence[Any],
        *,
        begun: Callable[[int], object] | None = None,
        done: Callable[[int, Any], object] | None = None,
    ) -> list[Any]:
        del begun  # nobody looks on
        replies: list[Any] = []
        for k, (recipe, message) in enumerate(zip(self._recipes, messages, strict=True)):
            replies.append(None if message is None else recipe.open()(message))
            if done is not None and message is not None:
                done(k, replies[k])
        return replies
