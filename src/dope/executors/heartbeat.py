"""Who is there, and whose heart beats: asked of the cluster now and again, and never waited for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent import futures
from contextlib import suppress

from dope.executors.transport import Member, Transport

# A living worker's heart beats every 0.5 s, among a thousand workers every 6 s: if not for so long, it hangs.
HEARTBEAT_SECONDS = 15.0
SECONDS_BETWEEN_LOOKS = 0.5


class Heartbeat:
    """What was last known of the workers. `wake` is called when there is news, from another thread."""

    def __init__(self, transport: Transport, wake: Callable[[], object]) -> None:
        self.threads: dict[str, int] = {}  # of workers that take work
        self.silent_since = math.inf  # when the cluster was asked what it has not answered
        self._transport, self._wake = transport, wake
        self._statuses: dict[str, str] = {}
        self._beats: dict[str, tuple[float, float]] = {}  # a worker's last heartbeat there, and when it was news here
        self._look: futures.Future[Mapping[str, Member]] | None = None
        self._looked = -math.inf

    def update(self, now: float) -> None:
        """Take in what has come, and ask again if it is time."""
        if self._look is not None and self._look.done():
            with suppress(Exception):  # a connection that is lost is somebody else's matter
                self._note(self._look.result(), now)
            self._look = None
        if self._look is None and now - self._looked >= SECONDS_BETWEEN_LOOKS:
            self._looked = now
            self.silent_since = min(self.silent_since, now)
            self._look = self._transport.look()
            self._look.add_done_callback(lambda _: self._wake())

    def _note(self, members: Mapping[str, Member], now: float) -> None:
        self.silent_since = math.inf
        self._statuses = {worker: member.status for worker, member in members.items()}
        # A worker that others have outlived by so much gets no work, until its heart beats again.
        beating = max((member.heartbeat for member in members.values()), default=0.0) - HEARTBEAT_SECONDS
        self.threads = {
            worker: member.threads
            for worker, member in members.items()
            if member.running and member.heartbeat >= beating
        }
        before, self._beats = self._beats, {}
        for worker, member in members.items():
            same = worker in before and before[worker][0] == member.heartbeat
            self._beats[worker] = before[worker] if same else (member.heartbeat, now)

    def gone(self, worker: str) -> bool:
        """Whether a worker that was there is so no more."""
        return worker not in self._statuses

    def alive(self, worker: str, now: float) -> bool:
        """Whether the worker's heart has beaten of late."""
        return worker in self._beats and self._beats[worker][1] >= now - HEARTBEAT_SECONDS

    def summary(self) -> str:
        return ", ".join(f"{number} {status}" for status, number in Counter(self._statuses.values()).items()) or "none"
