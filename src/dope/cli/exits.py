"""How a command ends: exit codes, one line for what went wrong, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Self

import typer

from dope.errors import DopeError
from dope.protocols import Step

BAD_INPUT = 2
STOPPED_EARLY = 3
INCOMPLETE = 4
CANCELLED = 130

EXIT_CODES = (
    "Exit codes: 0 when all went well, 2 for bad input or labels that cannot be written, 3 when a run stopped before "
    "it was done, 4 when the labels are there but another output (overlay, report, JSON, trace) is missing or "
    "incomplete, 130 after Ctrl-C."
)


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turn what dope raises on purpose into one line on stderr and exit code 2, and Ctrl-C into 130."""
    try:
        yield
    except DopeError as error:
        print(f"dope: {' '.join(str(error).split())}", file=sys.stderr)
        raise typer.Exit(BAD_INPUT) from None
    except KeyboardInterrupt:
        print("dope: cancelled", file=sys.stderr)
        raise typer.Exit(CANCELLED) from None


def warn(text: str) -> None:
    """One line on stderr about what went wrong, while the rest goes on."""
    print(f"dope: warning: {' '.join(text.split())}", file=sys.stderr)


def exit_code(*, cancelled: bool, incomplete: bool, early: bool) -> int:
    """Of a run that wrote its labels. That it stopped early stands in its table; that a file is missing, nowhere."""
    if cancelled:
        return CANCELLED
    if incomplete:
        return INCOMPLETE
    return STOPPED_EARLY if early else 0


class Cancel:
    """While it is entered, the first Ctrl-C only sets `asked`, so that work can end well; the next one interrupts.

    Before the first round there is nothing that could end well, and the first one interrupts.
    """

    def __init__(self) -> None:
        self.asked = False
        self.rounds = 0
        self._before: Any = None
        self._before_term: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._ask)
        # What a batch system sends when the time is up: ends at once, but leaves nothing half-written behind.
        self._before_term = signal.signal(signal.SIGTERM, signal.default_int_handler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)
        signal.signal(signal.SIGTERM, self._before_term)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if not self.rounds:
            raise KeyboardInterrupt
        # Straight to the descriptor: the signal may have come in the middle of a print.
        os.write(2, b"\ndope: stopping after this round; Ctrl-C again to stop at once\n")


@dataclass
class Watch:
    """Shows every step, and stops the run after Ctrl-C or at a time by `time.perf_counter`."""

    cancel: Cancel
    show: Callable[[Step], object]
    until: float | None = None
    late: bool = False

    def __call__(self, step: Step) -> bool:
        self.cancel.rounds += 1
        self.show(step)
        self.late = self.until is not None and time.perf_counter() > self.until
        return self.cancel.asked or self.late
