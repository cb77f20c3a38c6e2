"""Forecast: the rounds of a run that reads box by box, at any size and with any number of workers.

The same rounds as those of a small problem that was measured (`Costs`), at another size:

    seconds of a round = max(workers, coordinator, storage)

The coordinator makes tasks, hands them out, several at a time where there are many, and reads what blocks tell in
short: so much per task, however large blocks are. What blocks leave for each other lies in storage, and is read there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dope.errors import InputError
from dope.executors.remote_crew import TASKS_PER_THREAD
from dope.forecast.costs import Costs, Round, seams_of
from dope.planning import Plan


@dataclass(frozen=True)
class Forecast:
    """A round of a plan, all blocks together.

    Attributes
    ----------
    tasks : how often blocks are asked.
    own, region : sites in their boxes, and with their neighbours.
    read_bytes, written_bytes : from and to storage: arrays, labels and posts.
    left : bytes of posts, which are among those written.
    sent, received : bytes between coordinator and workers.
    work : seconds of workers.
    coordinator : seconds of the coordinator.
    seconds : of the whole round.
    """

    name: str
    tasks: int
    own: float
    region: float
    read_bytes: float
    written_bytes: float
    left: float
    sent: float
    received: float
    work: float
    coordinator: float
    seconds: float = 0.0


def forecast_rounds(plan: Plan, costs: Costs, *, storage: float = math.inf) -> list[Forecast]:
    """The rounds of the small problem at the size of a plan; `storage` is what all workers read in a second."""
    if (costs.dimensions, costs.neighbors) != (len(plan.energy.shape), plan.neighbors):
        raise InputError(
            f"the costs are of {costs.neighbors} neighbours in {costs.dimensions} dimensions; expected "
            f"{plan.neighbors} in {len(plan.energy.shape)}. Measure them with the same kernel and as many axes."
        )
    seams = seams_of(plan.energy.shape, plan.cuts or ())
    kept = [one for one in costs.rounds if seams or one.name in ("measure", "pass 1", "finish")]
    forecasts: list[Forecast] = []
    for one in kept:
        forecasts.append(_forecast(plan, costs, one, seams, forecasts))
    return [replace(one, seconds=_seconds(plan, one, storage)) for one in forecasts]


def _forecast(plan: Plan, costs: Costs, one: Round, seams: float, before: Sequence[Forecast]) -> Forecast:
    at_work, sites = one.blocks, one.sites
    if min(at_work, sites) < 1.0 and costs.seams:
        # Larger blocks leave fewer sites open, but one that is open is in more of them. From sides of 64 to 256
        # (brain-512) the boxes of pass 2 fell from 8 to 4 % of all sites, in 25 and 52 % of the blocks, those of
        # pass 3 from 4 % to less than 0.5 %, and sites that are open after both from 57 to 1.9 in a million.
        rarer = costs.seams / seams
        times = max(1.0, at_work)  # where blocks are asked more than once
        at_work = times * (1.0 - (1.0 - at_work / times) ** math.sqrt(rarer))
        sites = min(1.0, sites / (math.sqrt(rarer) if one.name == "pass 2" else rarer))
    blocks = _number_of_blocks(plan, one.name)
    tasks = max(1, round(at_work * blocks))
    own = sites * plan.sites
    region = own * plan.halo
    left = 0.0 if one.name == "measure" else one.left * region
    read = 0.0 if one.name == "measure" else sum(_read_again(plan, one.name, tasks, post) for post in before)
    return Forecast(
        name=one.name,
        tasks=tasks,
        own=own,
        region=region,
        read_bytes=region * plan.energy.site_bytes + read,
        written_bytes=left + (own if one.name == "finish" else 0.0),
        left=left,
        sent=tasks * costs.task_bytes,
        received=tasks * costs.summary_bytes,
        work=region * (one.read + one.solve + one.write),
        coordinator=tasks * costs.count + min(tasks, TASKS_PER_THREAD * plan.executor.workers) * costs.task,
    )


def _in_between(name: str) -> bool:
    """Whether the blocks of a round are those in between, of passes of even numbers; at borders they are half ones."""
    return name.startswith("pass") and int(name.split()[1]) % 2 == 0


def _number_of_blocks(plan: Plan, name: str) -> int:
    return math.prod(k + 1 if k > 1 and _in_between(name) else k for k in plan.layout)


def _read_again(plan: Plan, name: str, tasks: int, before: Forecast) -> float:
    """Bytes that the tasks of a round read of posts that were left in one before: whole ones, of all blocks around.

    Along an axis a block and its neighbours lie in two blocks of the other partition, or in three of its own.
    """
    alike = _in_between(name) == _in_between(before.name)
    around = math.prod((3 - 2 / k if alike else 2 * k / (k + _in_between(name))) if k > 1 else 1 for k in plan.layout)
    return tasks * around * before.left / _number_of_blocks(plan, before.name)


def _seconds(plan: Plan, one: Forecast, storage: float) -> float:
    waves = math.ceil(one.tasks / plan.executor.workers)
    stored = (one.read_bytes + one.written_bytes) / storage
    return max(waves * one.work / one.tasks, one.coordinator, stored)
