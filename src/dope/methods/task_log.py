"""What blocks did, as the coordinator hears of it, for the step that comes next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy

from dope.facts import Measured
from dope.methods.places import places_of, size_of
from dope.methods.rounds import Left, Task
from dope.protocols import Problem
from dope.steps import BlockTask, Tasks


class TaskLog:
    """What blocks did since it was last read."""

    def __init__(self) -> None:
        self._tasks: list[BlockTask] = []
        self.statistics: object | None = None

    def measured(self, problem: Problem, *, kind: str = "measure") -> Callable[[int, Measured], None]:
        """Takes the replies of those that measure the facts of an energy."""
        regions = places_of(problem.energy.pairs, problem.partition, "region")

        def done(k: int, reply: Measured) -> None:
            sites, region = size_of(problem.partition.blocks[k].where), size_of(regions[k])
            self._tasks.append(reply.work.as_task(k, kind, sites=sites, region=region))

        return done

    def done(self, tasks: Sequence[Task | None]) -> Callable[[int, Left], None]:
        """Takes what blocks left for these tasks, whose messages say of which boxes."""

        def done(k: int, left: Left) -> None:
            task = tasks[k]
            if task is not None:
                ask = task.message
                self.add(k, ask.kind, left, sites=size_of(ask.mine), region=size_of(ask.region))

        return done

    def add(self, block: int, kind: str, left: Left, *, sites: int, region: int) -> None:
        """What a block left; nothing where that was on the board already."""
        if left.work is not None:
            sizes = {"sites": sites, "region": region, "sent": left.read, "received": left.bytes}
            self._tasks.append(left.work.as_task(block, kind, **sizes))

    def read(self) -> Tasks:
        tasks = Tasks(tuple(self._tasks), deepcopy(self.statistics))  # as they are now: a crew goes on counting
        self._tasks, self.statistics = [], None
        return tasks
