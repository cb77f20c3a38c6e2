"""One clock for a command: what it took in all, and what of that it spent on what."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Begins when it is made.

    Attributes
    ----------
    begun : by `time.perf_counter`.
    spent : seconds of each part so far, by its name.
    """

    def __init__(self) -> None:
        self.begun = time.perf_counter()
        self.spent: dict[str, float] = {}

    @contextmanager
    def counting(self, part: str) -> Iterator[None]:
        """What passes in the block is time of this part."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.spent[part] = self.spent.get(part, 0.0) + time.perf_counter() - begun

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.begun

    def in_words(self) -> str:
        """In all, and its parts."""
        parts = ", ".join(f"{seconds:.1f} {part}" for part, seconds in self.spent.items())
        return f"{self.seconds:.1f}{parts and f' ({parts})'}"
