"""Blocks side by side in threads of this process: the core releases the GIL, and memory is shared."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

from dope.errors import InputError
from dope.executors.serial import SerialCrew
from dope.protocols import Recipe


@dataclass(frozen=True)
class Threads:
    """Runs blocks in `number` threads; None means one per core."""

    number: int | None = None

    def __post_init__(self) -> None:
        if self.number is not None and (isinstance(self.number, bool) or self.number < 1):
            raise InputError(f"Threads({self.number!r}): expected one thread or more, or None for one per core.")

    def gather(self, recipes: Sequence[Recipe]) -> SerialCrew | ThreadCrew:
        if len(recipes) == 1:
            return SerialCrew(recipes)  # in the calling thread, where Ctrl-C is noticed
        return ThreadCrew(recipes, self.number or os.cpu_count() or 1)


class ThreadCrew:
    """A pool that asks the workers of a serial crew, each of them by one thread at a time."""

    def __init__(self, recipes: Sequence[Recipe], number: int) -> None:
        self._crew = SerialCrew(recipes)
        self._pool = ThreadPoolExecutor(min(number, max(1, len(recipes))), thread_name_prefix="dope")

    def ask(self, messages: Sequence[Any]) -> list[Any]:
        return list(self._pool.map(self._crew.ask_one, range(len(messages)), messages))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._crew.__exit__(*error)
