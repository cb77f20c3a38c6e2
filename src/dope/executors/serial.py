"""One block after the other, in the calling thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from dope.cancellation import check_cancelled
from dope.protocols import Recipe, Worker


@dataclass(frozen=True)
class Serial:
    """Runs blocks one after the other."""

    @property
    def workers(self) -> int:
        return 1

    @property
    def elsewhere(self) -> bool:
        return False

    def gather(self, recipes: Sequence[Recipe]) -> SerialCrew:
        return SerialCrew(recipes)


class SerialCrew:
    """Workers opened when first asked, and kept."""

    def __init__(self, recipes: Sequence[Recipe]) -> None:
        self._recipes = recipes
        self._opened: dict[int, Worker] = {}

    def ask(
        self,
        messages: Sequence[Any],
        *,
        begun: Callable[[int], object] | None = None,
        done: Callable[[int, Any], object] | None = None,
    ) -> list[Any]:
        replies: list[Any] = []
        for k, message in enumerate(messages):
            if message is None:
                replies.append(None)
                continue
            check_cancelled()
            if begun is not None:
                begun(k)
            replies.append(self.ask_one(k, message))
            if done is not None:
                done(k, replies[k])
        return replies

    def ask_one(self, k: int, message: Any) -> Any:
        if k not in self._opened:
            self._opened[k] = self._recipes[k].open()
        return self._opened[k](message)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.clear()
