"""How tasks reach workers: all that a crew asks of a cluster. Another kind of cluster is one file that offers this."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent import futures
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Member:
    """A worker as the cluster sees it.

    Attributes
    ----------
    threads : how many tasks it works on at once.
    running : whether it takes tasks; `status` says that in the cluster's own word.
    heartbeat : when the cluster last heard from it, by a clock that all members share.
    """

    threads: int
    running: bool
    status: str
    heartbeat: float


@dataclass(frozen=True)
class Unreadable:
    """What is delivered in place of an answer where a worker lacks what it takes to read a task."""

    error: Exception


class Sent(Protocol):
    """A task under way."""

    def release(self) -> None:
        """Its answer is of no interest any more."""
        ...


class Transport(Protocol):
    """The way to a cluster. No call waits for long; all but `deliver` are made by one thread at a time."""

    @property
    def title(self) -> str:
        """What messages call it, such as "the Dask scheduler at tcp://127.0.0.1:8786"."""
        ...

    @property
    def advice(self) -> str:
        """What to do where there are no workers."""
        ...

    @property
    def connected(self) -> bool: ...

    def open(self) -> None:
        """Connect, for the first time or after it was closed; DopeError where nobody answers."""
        ...

    def reconnect(self) -> None:
        """Try once to reach a cluster that was lost; the crew goes on asking `connected`."""
        ...

    def look(self) -> futures.Future[Mapping[str, Member]]:
        """Who is there, by address."""
        ...

    def submit(self, task: bytes, *, name: str, worker: str, deliver: Callable[[Any], object]) -> Sent | None:
        """Have a worker read a task (`pickle.loads` runs it); None where the connection was lost just now.

        What that returns is delivered, from another thread; or `Unreadable`; or the exception by which it was lost, the
        worker having died, for one. It may be delivered late or never.
        """
        ...

    def release(self, run: str, workers: Collection[str]) -> futures.Future[None]:
        """Have workers stop and forget a run (`remote_worker.forget`), as far as they hear it soon."""
        ...
