"""Forecast: the rounds of a run that reads box by box, at any size and with any number of workers.

The same rounds as those of a small problem that was measured (`Costs`), at another size:

    seconds of a round = packing + max(workers, tasks handed out + storing, storage)

The coordinator packs messages before it sends the first, and stores replies while others work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dope.errors import InputError
from dope.executors.remote_crew import TASKS_PER_THREAD
from dope.forecast.costs import Costs, Round, seams_of
from dope.methods.known import CELLS_AT_HAND
from dope.planning import Plan


@dataclass(frozen=True)
class Forecast:
    """A round of a plan, all blocks together.

    Attributes
    ----------
    tasks : blocks at work.
    own, region : sites in their boxes, and with their neighbours.
    read_bytes, written_bytes : from and to storage.
    sent, received : bytes between coordinator and workers.
    work : seconds of workers.
    packing, storing : seconds of the coordinator: before the first message is sent, and when replies come.
    seconds : of the whole round.
    """

    name: str
    tasks: int
    own: float
    region: float
    read_bytes: float
    written_bytes: float
    sent: float
    received: float
    work: float
    packing: float
    storing: float
    seconds: float = 0.0

    @property
    def coordinator(self) -> float:
        """Seconds that the coordinator is at work, other than handing out tasks."""
        return self.packing + self.storing


def forecast_rounds(plan: Plan, costs: Costs, *, storage: float = math.inf) -> list[Forecast]:
    """The rounds of the small problem at the size of a plan; `storage` is what all workers read in a second."""
    if (costs.dimensions, costs.neighbors) != (len(plan.energy.shape), plan.neighbors):
        raise InputError(
            f"the costs are of {costs.neighbors} neighbours in {costs.dimensions} dimensions; expected "
            f"{plan.neighbors} in {len(plan.energy.shape)}. Measure them with the same kernel and as many axes."
        )
    seams = seams_of(plan.energy.shape, plan.cuts or ())
    kept = [one for one in costs.rounds if seams or one.name in ("measure", "pass 1", "finish")]
    forecasts = [_forecast(plan, costs, one, seams) for one in kept]
    return [replace(one, seconds=_seconds(plan, one, costs, storage)) for one in forecasts]


def _forecast(plan: Plan, costs: Costs, one: Round, seams: float) -> Forecast:
    at_work, sites, received = one.blocks, one.sites, one.received
    if min(at_work, sites) < 1.0 and costs.seams:
        # Larger blocks leave fewer sites open, but one that is open is in more of them. From sides of 64 to 256
        # (brain-512) the boxes of pass 2 fell from 8 to 4 % of all sites, in 25 and 52 % of the blocks, those of
        # pass 3 from 4 % to less than 0.5 %, and sites that are open after both from 57 to 1.9 in a million.
        rarer = costs.seams / seams
        at_work = 1.0 - (1.0 - at_work) ** math.sqrt(rarer)
        sites = min(1.0, sites / (math.sqrt(rarer) if one.name == "pass 2" else rarer))
        received /= rarer if one.name == "rest" else 1.0
    # Passes of even numbers have blocks in between, and half ones at the borders.
    shifted = one.name.startswith("pass") and int(one.name.split()[1]) % 2 == 0
    blocks = math.prod(k + 1 if k > 1 and shifted else k for k in plan.layout)
    tasks = max(1, round(at_work * blocks))
    own = sites * plan.sites
    region = own * plan.halo
    in_blocks = tasks * plan.sites / blocks
    extent = (own / in_blocks) ** (1 / len(plan.energy.shape))
    packing = storing = 0.0
    if one.name not in ("measure", "pass 1"):
        packing = costs.pack * region + _fetched(plan, costs, tasks, in_blocks, extent)
    if one.name not in ("measure", "finish"):  # all cells that a box touches are written
        storing = costs.store * in_blocks * min(1.0, 0.5 + extent) ** len(plan.energy.shape)
    return Forecast(
        name=one.name,
        tasks=tasks,
        own=own,
        region=region,
        read_bytes=region * plan.energy.site_bytes,
        written_bytes=own if one.name == "finish" else 0.0,
        sent=one.sent * region + tasks * costs.task_bytes,
        received=received * region,
        work=region * (one.read + one.solve + one.write),
        packing=packing,
        storing=storing,
    )


def _fetched(plan: Plan, costs: Costs, tasks: int, in_blocks: float, extent: float) -> float:
    """Seconds to look up the codes of boxes and their neighbours, in whole cells, of which blocks have two by axis.

    `extent` is the side of a box in units of its block's.
    """
    lengths, cells = [], 1.0
    for k in plan.layout:
        whole, most = ((2 * k - 1) / k, min(4, k + 1)) if k > 1 else (1.0, 1)
        lengths.append(whole if extent > 0.99 else min(whole, 0.5 + extent))
        cells *= min(most, 2 * lengths[-1])
    if cells <= CELLS_AT_HAND:  # those of the block before are still at hand
        lengths[-1] = min(1.0, lengths[-1])
    return tasks * cells * costs.cell + costs.fetch * math.prod(lengths) * in_blocks


def _seconds(plan: Plan, one: Forecast, costs: Costs, storage: float) -> float:
    waves = math.ceil(one.tasks / plan.executor.workers)
    handed_out = min(one.tasks, TASKS_PER_THREAD * plan.executor.workers) * costs.task
    stored = (one.read_bytes + one.written_bytes) / storage
    return one.packing + max(waves * one.work / one.tasks, handed_out + one.storing, stored)
