"""Workers that do next to nothing, for exams of executors: other processes find them here by name."""

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Named:
    """Opens to a worker that says who was asked what."""

    name: object

    def open(self):
        return lambda message: (self.name, message)


@dataclass(frozen=True)
class Slow:
    """Opens to a worker that takes so many seconds, and replies with them."""

    def open(self):
        def work(seconds):
            time.sleep(seconds)
            return seconds

        return work


@dataclass(frozen=True)
class Faulty:
    """Opens to a worker that raises what it is sent, if that is an exception; or does not open."""

    error: Exception | None = None

    def open(self):
        if self.error is not None:
            raise self.error
        return self._work

    @staticmethod
    def _work(message):
        if isinstance(message, Exception):
            raise message
        return message


@dataclass(frozen=True)
class Reversing:
    """Opens to a worker that turns an array round."""

    def open(self):
        return lambda array: array[::-1].copy()
