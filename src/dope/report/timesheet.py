"""Who worked when: what the tasks of a run add up to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dope.report.passes import FINISH, in_passes, numbers
from dope.steps import AdmmStep, BracketingStep, Step, Tasks

Reals = NDArray[np.float64]

KINDS = ("reading", "solving", "writing", "other work")
"""What a worker does with a block, in this order."""


@dataclass(frozen=True)
class Pass:
    """A step that blocks worked for: its name, when the first of them began, and the bytes out and back."""

    name: str
    begun: float
    bytes_sent: int
    bytes_received: int


@dataclass(frozen=True, eq=False)
class Timesheet:
    """The tasks of a run, in seconds since the first of them began.

    Attributes
    ----------
    workers : names of those who worked, in order.
    who : the place of each task's worker among them.
    begun : when each task began.
    parts : (tasks, 4) seconds of each of the KINDS; they add up to the task's.
    passes : those that had tasks.
    """

    workers: tuple[str, ...]
    who: NDArray[np.int64]
    begun: Reals
    parts: Reals
    passes: tuple[Pass, ...]

    @classmethod
    def of(cls, trace: Sequence[Step]) -> Timesheet | None:
        """What the steps tell; None where they tell no time."""
        told = [
            (name, step.tasks, _table(step.tasks))
            for name, step in zip(_names(trace), trace, strict=True)
            if isinstance(step, AdmmStep | BracketingStep)
        ]
        tables = [table for _, _, table in told]
        if not any(len(table.clock) for table in tables):
            return None
        clock = np.concatenate([table.clock for table in tables])
        spent = np.concatenate([table.spent for table in tables])
        first = float(clock[:, 0].min())
        if clock[:, 1].max() <= first:  # a run too short for the clock
            return None
        names = [name for table in tables for name in table.workers]
        workers = sorted(set(names), key=_natural)
        place = {name: k for k, name in enumerate(workers)}
        passes = tuple(
            Pass(name, float(table.clock[:, 0].min()) - first, tasks.bytes_sent, tasks.bytes_received)
            for name, tasks, table in told
            if len(table.clock)
        )
        who = np.array([place[name] for name in names], dtype=np.int64)
        return cls(tuple(workers), who, clock[:, 0] - first, _parts(clock[:, 1] - clock[:, 0], spent), passes)

    @property
    def ended(self) -> Reals:
        """When each task ended."""
        ended: Reals = self.begun + self.parts.sum(axis=1)
        return ended

    @property
    def seconds(self) -> float:
        """From the first task's begin to the last one's end."""
        return float(self.ended.max())

    @property
    def shares(self) -> dict[str, float]:
        """The shares of all workers' time that went into each of the KINDS, and into "waiting"."""
        spent = self.parts.sum(axis=0) / (len(self.workers) * self.seconds)
        return {**dict(zip(KINDS, map(float, spent), strict=True)), "waiting": max(0.0, 1.0 - float(spent.sum()))}


@dataclass(frozen=True, eq=False)
class _Table:
    """Tasks in columns: who, (begun, ended) and (read, solve, write)."""

    workers: list[str]
    clock: Reals
    spent: Reals


def _table(tasks: Tasks) -> _Table:
    """The tasks that were timed. A clock at 0 was never looked at; one that was set back meanwhile tells no time."""
    told = np.array(
        [(task.begun, task.ended, task.read, task.solve, task.write) for task in tasks.done], dtype=np.float64
    ).reshape(-1, 5)
    timed = np.isfinite(told[:, :2]).all(axis=1) & (told[:, 0] > 0)
    clock = told[timed, :2]
    clock[:, 1] = np.maximum(clock[:, 1], clock[:, 0])
    spent = np.maximum(np.nan_to_num(told[timed, 2:], posinf=0.0), 0.0)
    return _Table([task.worker for task, one in zip(tasks.done, timed, strict=True) if one], clock, spent)


def _parts(seconds: Reals, spent: Reals) -> Reals:
    """What is told of a task, and the rest of its time; no more than its time, where two clocks differ a little."""
    total = spent.sum(axis=1)
    fitting = spent * np.divide(seconds, total, out=np.ones_like(total), where=total > seconds)[:, None]
    return np.column_stack([fitting, np.maximum(0.0, seconds - fitting.sum(axis=1))])


def _names(trace: Sequence[Step]) -> list[str]:
    word = "pass" if in_passes(trace) else "round"
    return [number if number == FINISH else f"{word} {number}" for number in numbers(trace)]


def _natural(name: str) -> list[tuple[int, str]]:
    """The order in which people count: 2 before 10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
