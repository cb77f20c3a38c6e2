"""What a command does with the events of its run: blocks move the spinner, steps make lines, and either may end it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dope.cli.exits import Cancel
from dope.cli.progress import Shown
from dope.run import BlockBegun, BlockDone, Event, Stepped
from dope.steps import Step


@dataclass
class Watch:
    """Shows what happens, and stops the run after Ctrl-C or at a time by `time.perf_counter`.

    `tell` is for the events of a run, the value itself for its steps, whose answer says whether to stop.
    """

    cancel: Cancel
    show: Shown
    until: float | None = None
    others: Sequence[Callable[[Step], object]] = ()
    late: bool = False

    def tell(self, event: Event) -> None:
        if isinstance(event, Stepped):
            self.cancel.rounds += 1
            for other in self.others:
                other(event.step)
            self.show(event.step)
        elif isinstance(event, BlockBegun | BlockDone):
            self.show.block(event)

    def __call__(self, step: Step) -> bool:
        del step
        self.late = self.until is not None and time.perf_counter() > self.until
        return self.cancel.asked or self.late
