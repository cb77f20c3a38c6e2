"""When a crew gives up: no wait is without a limit."""

from __future__ import annotations

import math
import time

from dope.errors import DopeError, InputError
from dope.executors.heartbeat import Heartbeat
from dope.executors.transport import Transport

# Patience where none was asked for: a worker that is silent for so long, and for so many times the slowest task.
PATIENCE_SECONDS, PATIENCE_TASKS = 300.0, 10.0
# A worker that lives but does not answer may take so many times the patience.
MOST_PATIENCE = 10.0


def check_patience(whose: str, patience: object) -> None:
    """InputError where this is no number of seconds, nor None."""
    if patience is not None and not (isinstance(patience, (int, float)) and 0 < patience < math.inf):
        raise InputError(f"{whose}: patience is {patience!r}; expected seconds, more than 0, or None.")


class Deadlines:
    """How long to wait for a worker, for any worker, and for the cluster."""

    def __init__(self, transport: Transport, patience: float | None) -> None:
        self._transport, self._given = transport, patience
        self._slowest = 0.0  # seconds of a task
        self._lost_since: float | None = None  # when the cluster went
        self._last_fit = 0.0  # when there was last somebody who could answer

    @property
    def patience(self) -> float:
        """Seconds."""
        return self._given or max(PATIENCE_SECONDS, PATIENCE_TASKS * self._slowest)

    def note_task(self, seconds: float) -> None:
        """A task took so long."""
        self._slowest = max(self._slowest, seconds)

    def extend(self) -> None:
        """There is somebody who can answer, or the time that has gone by is not the cluster's."""
        self._last_fit = time.monotonic()

    def check_connection(self, now: float) -> bool:
        """While the cluster is lost; whether that is news. DopeError where it has not come back for too long."""
        news = self._lost_since is None
        if self._lost_since is None:
            self._lost_since = now
        if now - self._lost_since > self.patience:
            raise DopeError(
                f"the connection to {self._transport.title} was lost, and it has not come back for "
                f"{self.patience:.0f} s. Start it again at the same address; a larger `patience` waits longer."
            )
        return news

    def note_connected(self) -> None:
        self._lost_since = None

    def check_cluster(self, heartbeat: Heartbeat, now: float) -> None:
        """DopeError where the cluster has not said for too long who is there."""
        if now - heartbeat.silent_since > self.patience:
            raise DopeError(
                f"{self._transport.title} has not answered for {self.patience:.0f} s. "
                "Restart it; a larger `patience` waits longer."
            )

    def check_workers(self, heartbeat: Heartbeat, now: float) -> None:
        """While nobody can answer; DopeError where that has been so for too long."""
        if now - self._last_fit > self.patience:
            raise DopeError(
                f"no worker of {self._transport.title} has been fit for work for {self.patience:.0f} s "
                f"(there: {heartbeat.summary()}). {self._transport.advice}"
            )

    def check_block(self, k: int, worker: str, seconds: float) -> None:
        """DopeError where a block was sent so long ago that waiting for a worker that lives makes no sense either."""
        if seconds > MOST_PATIENCE * self.patience:
            raise DopeError(
                f"block {k} has not been answered for {seconds:.0f} s, by {worker} nor anybody else. "
                "Take smaller blocks, or a larger `patience`."
            )
