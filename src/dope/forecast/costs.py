"""Costs: what the rounds of a small problem took here, enough to forecast those of a large one.

They are measured by runs of `Bracketing` on problems that are made here and now, can be kept in a file, and read on
another machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.bounded import read_regular
from dope.durable import write_text
from dope.energy import Energy
from dope.errors import InputError
from dope.executors import Serial
from dope.methods import Bracketing
from dope.models import kernel_lam
from dope.pairs import GridPairs, Kernel, half_offsets
from dope.planning import plan
from dope.planning.calibration import patches
from dope.result import Result
from dope.steps import BlockTask, BracketingStep

# Pairs of the problem whose rounds are measured; no more sites than the next number, and no fewer than the third, but
# for kernels with which that would make more than the last number of pairs.
ROUND_PAIRS, MOST_ROUND_SITES, LEAST_ROUND_SITES, MOST_ROUND_PAIRS = 6 << 20, 1 << 21, 1 << 18, 4 << 20
# With more axes, blocks and cells of the problem that is measured would not be small any more.
MOST_MEASURED_AXES = 4
# |unary| of a site that is certain, as `probability_unary` has it.
SURE = 6.9
# More seconds or bytes per site than any machine takes; sums and products of such numbers are still numbers.
MOST_COST = 1e15
# Of a block on its way through Dask: seconds of client and scheduler, bytes of its recipe and task, and of what it
# tells in short. Measured with benchmarks/simulate.py --overhead.
TASK_SECONDS, TASK_BYTES, SUMMARY_BYTES = 0.004, 4_000, 1_500
# Blocks of the problem with which the coordinator is measured, and the side of each: small, so that sites do not count.
COUNTED_BLOCKS, COUNTED_SIDE = 125, 4
# Fields of costs when codes went through the coordinator.
OLD_FIELDS = ("fetch", "pack", "store", "cell")


@dataclass(frozen=True)
class Round:
    """A round of `Bracketing`, by the site.

    Attributes
    ----------
    name : measure, pass 1, pass 2, ..., rest, finish.
    blocks, sites : the shares of all blocks that are at work, and of all sites that are in their boxes; above 1 where
        blocks are asked more than once.
    read, solve, write : seconds of a worker, per site of the boxes and their neighbours.
    left : bytes that it leaves on the board, per such site.
    """

    name: str
    blocks: float
    sites: float
    read: float
    solve: float
    write: float
    left: float

    @classmethod
    def of(cls, name: str, tasks: Sequence[BlockTask], *, blocks: int, sites: int) -> Round:
        """By what blocks did in it, of so many blocks and sites there are."""
        region = sum(task.region for task in tasks)
        # Whatever else a task did counts as solving.
        solve = sum(max(0.0, task.seconds - task.read - task.write) for task in tasks) / region
        read, write, left = (
            sum(getattr(task, what) for task in tasks) / region for what in ("read", "write", "received")
        )
        shares = len(tasks) / blocks, sum(task.sites for task in tasks) / sites
        return cls(name, *shares, read, solve, write, left)


@dataclass(frozen=True)
class Costs:
    """What the rounds of a small problem took here: enough to plan a large one, and small enough for a file.

    Attributes
    ----------
    dimensions, neighbors : of the problem, which must be those of the plan.
    seams : of its blocks: cuts for each place along an axis, all axes together.
    rounds : in their order.
    count : seconds of the coordinator per task: to make it, look whether its post is there, and read what a block told.
    task, task_bytes : what a block on its way to a worker takes from the coordinator: seconds, and bytes of a message.
    summary_bytes : what a block tells the coordinator.
    spread : seconds per site of the blocks of pass 1, in units of their mean, in rising order.
    """

    dimensions: int
    neighbors: int
    seams: float
    rounds: tuple[Round, ...]
    count: float
    task: float = TASK_SECONDS
    task_bytes: float = TASK_BYTES
    summary_bytes: float = SUMMARY_BYTES
    spread: tuple[float, ...] = (1.0,)

    @classmethod
    def measured(cls, kernel: Kernel = 3, dimensions: int = 3) -> Costs:
        """By a small problem, solved here and now in a few blocks on one core; a second or two."""
        if dimensions > MOST_MEASURED_AXES:
            raise InputError(
                f"costs of {dimensions} axes are asked for; expected at most {MOST_MEASURED_AXES}, of which a small "
                f"problem can be measured."
            )
        pairs = max(1, len(half_offsets(kernel, dimensions)))
        sites = min(MOST_ROUND_SITES, max(LEAST_ROUND_SITES, ROUND_PAIRS // pairs), MOST_ROUND_PAIRS // pairs)
        side = max(4, round(sites ** (1 / dimensions)))
        _measure_rounds(kernel, (8,) * dimensions)  # wakes everything up
        return _measure_rounds(kernel, (side,) * dimensions)

    @classmethod
    def of(cls, result: Result, energy: Energy) -> Costs:
        """By the trace of a run of `Bracketing`; the coordinator by a run of its own, here and now."""
        partition = result.partition
        rounds = tuple(_rounds(result, pairs_of(energy).sites))
        first = [task for task in _tasks(result)[0] if task.kind == "prove"]
        paces = np.sort([task.seconds / task.region for task in first])
        return cls(
            dimensions=len(energy.shape),
            neighbors=energy.pairs.degree,
            seams=seams_of(energy.shape, partition.cuts or ()),
            rounds=rounds,
            count=_seconds_per_task(len(energy.shape)),
            spread=tuple((paces / paces.mean()).tolist()),
        )

    @classmethod
    def from_plain(cls, found: dict[str, Any]) -> Costs:
        """From what JSON knows."""
        if any(name in found for name in OLD_FIELDS):
            raise ValueError("they are of an older dope, whose coordinator did other work")
        rounds = tuple(Round(**one) for one in found["rounds"])
        return cls(**{**found, "rounds": rounds, "spread": tuple(found["spread"])})

    @classmethod
    def load(cls, path: str | Path) -> Costs:
        """From a file of `save`."""
        try:
            found = json.loads(read_regular(Path(path), "costs", most=1 << 20))
            costs = cls.from_plain(found)
            rounds = costs.rounds
            numbers = [*_numbers(costs), *(number for one in rounds for number in _numbers(one)), *costs.spread]
            if not rounds or not costs.spread or not all(0 <= number < MOST_COST for number in numbers):
                raise ValueError(f"a number is below 0, or not below {MOST_COST:g}, or there are none")
            if not all(isinstance(one.name, str) for one in rounds):
                raise ValueError("a round's name is no text")
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}; expected a file of costs.") from error
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise InputError(f"{path} holds no costs ({error}); write such a file with dope plan --measure.") from error
        return costs

    def save(self, path: str | Path, *, overwrite: bool = True) -> None:
        """As JSON, for another machine."""
        write_text(path, json.dumps(asdict(self), indent=1) + "\n", overwrite=overwrite)


def _numbers(thing: Costs | Round) -> list[float]:
    return [getattr(thing, one.name) for one in fields(thing) if one.name not in ("name", "rounds", "spread")]


def _measure_rounds(kernel: Kernel, sides: tuple[int, ...]) -> Costs:
    image, unary = _sure_sample(sides)
    lam = kernel_lam(kernel, len(sides), total=2 * SURE)
    energy = Energy.grid(unary, features=image, kernel=kernel, lam=lam)
    blocks = (2,) * len(sides)
    return Costs.of(plan(energy, blocks=blocks, method=Bracketing(), executor=Serial()).run(), energy)


def _sure_sample(sides: tuple[int, ...]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    """As of a probability map of which most sites are certain; it takes about as long as a brain scan."""
    rng = np.random.default_rng(0)
    smooth = patches(rng, sides, 16)
    image = (200 * smooth + 40 * rng.random(sides)).astype(np.uint8)
    unary = 20 * (0.9 - smooth) + rng.normal(0, 3, sides)
    return image, np.clip(unary, -SURE, SURE).astype(np.float32)


def _tasks(result: Result) -> list[tuple[BlockTask, ...]]:
    """What blocks did, step by step."""
    return [step.tasks.done for step in result.trace if isinstance(step, BracketingStep)]


def _rounds(result: Result, sites: int) -> Iterator[Round]:
    """Each time that blocks were asked for the same."""
    number = len(result.partition.blocks), len(result.partition.shifted().blocks)
    for index, tasks in enumerate(_tasks(result)):
        for kind in dict.fromkeys(task.kind for task in tasks):
            asked = [task for task in tasks if task.kind == kind]
            name = {"measure": "measure", "prove": f"pass {index + 1}", "finish": "finish"}.get(kind, "rest")
            blocks = number[index % 2] if kind == "prove" else number[0]
            yield Round.of(name, asked, blocks=blocks, sites=sites)


def pairs_of(energy: Energy) -> GridPairs:
    """Of an energy on a grid."""
    assert isinstance(energy.pairs, GridPairs)
    return energy.pairs


def seams_of(shape: Sequence[int], cuts: Sequence[Sequence[int]]) -> float:
    """Cuts for each place along an axis, all axes together."""
    return sum(len(where) / n for n, where in zip(shape, cuts, strict=True))


def _seconds_per_task(dimensions: int) -> float:
    """Seconds of the coordinator per task, in a run of many blocks that hardly have sites."""
    number = max(2, round(COUNTED_BLOCKS ** (1 / dimensions)))
    unary = np.random.default_rng(0).normal(0, 1, (number * COUNTED_SIDE,) * dimensions).astype(np.float32)
    energy = Energy.grid(unary, kernel=3, lam=0.02)  # so little that passes prove everything
    found = []
    for _ in range(2):  # the first wakes everything up
        result = plan(energy, blocks=(number,) * dimensions, method=Bracketing(), executor=Serial()).run()
        tasks = [task for done in _tasks(result) for task in done]
        found.append((result.seconds - sum(task.seconds for task in tasks)) / len(tasks))
    return max(0.0, min(found))
