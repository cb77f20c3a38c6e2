"""What as many workers as blocks would take, measured with fewer: the critical path.

Blocks run one after the other, and events tell when each begins and ends. The critical path is the slowest block of
every time that all were asked, and what is done in between. Seconds of the processor are beside those of the clock
because they do not count what else the machine does.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from dope.run import BlockBegun, BlockDone, Event


@dataclass(frozen=True)
class Times:
    """Seconds of every block at every time that all were asked: of the clock, and of the processor.

    Listens to a run whose blocks are worked on in turn, in one thread.
    """

    asked: list[list[tuple[float, float]]] = field(default_factory=list)
    _begun: list[tuple[float, float]] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        now = time.perf_counter(), time.process_time()
        if isinstance(event, BlockBegun):
            self._begun[:] = [now]
        elif isinstance(event, BlockDone):
            if event.done == 1:
                self.asked.append([])
            (clock, processor) = self._begun[0]
            self.asked[-1].append((now[0] - clock, now[1] - processor))

    def critical(self, total: float, *, cpu: bool = False) -> float:
        """What `total` would have been with a processor per worker: the slowest of each time, and the rest."""
        seconds = [[pair[cpu] for pair in blocks] for blocks in self.asked]
        return total - sum(map(sum, seconds)) + sum(map(max, seconds))
