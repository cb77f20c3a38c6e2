"""What a worker did with a block: where, when, and how long it read, solved and wrote."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from dope.steps import BlockTask


@cache
def _host() -> str:
    return socket.gethostname()


@dataclass
class Work:
    """What a worker did; `begun` and `ended` by `time.time`, and the seconds for reading, solving and writing."""

    worker: str = ""
    begun: float = 0.0
    ended: float = 0.0
    read: float = 0.0
    solve: float = 0.0
    write: float = 0.0

    @classmethod
    def here(cls) -> Work:
        """Of this thread, from now on."""
        name = f"{_host()}:{os.getpid()}:{threading.current_thread().name}"
        return cls(worker=name, begun=time.time())

    def end(self) -> None:
        self.ended = time.time()

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        setattr(self, what, getattr(self, what) + time.perf_counter() - begun)

    def as_task(self, block: int, kind: str, *, sites: int, region: int, sent: int = 0, received: int = 0) -> BlockTask:
        """For a trace: what a block was asked, and did."""
        return BlockTask(
            block=block,
            worker=self.worker,
            begun=self.begun,
            ended=self.ended,
            read=self.read,
            solve=self.solve,
            write=self.write,
            kind=kind,
            sites=sites,
            region=region,
            sent=sent,
            received=received,
        )
