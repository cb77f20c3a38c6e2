"""Planning: what a problem takes in memory, how to cut it for workers, and about how long it will run.

Nothing of it needs the pixels: it all follows from shape and kernel, and the time from a small problem of the same
kind that is solved here and now. `Plan` is of problems in memory; `LazyPlan` of those that `Bracketing` reads, solves
and forgets block by block: the same rounds as those of the small problem, at another size. `Costs` are what its sites
took, and can be kept in a file.

    seconds of a round = packing + max(workers, tasks handed out + storing, storage)

The coordinator packs messages before it sends the first, and stores replies while others work.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.api import MOST_CROSSING, automatic_blocks, automatic_flow_solver, minimize
from dope.arrays import Box, Mask
from dope.bounded import read_regular
from dope.durable import write_text
from dope.energy import Energy
from dope.errors import InputError
from dope.executors import Serial
from dope.executors.remote_crew import TASKS_PER_THREAD
from dope.fixed_point import Costs as IntegerCosts
from dope.fixed_point import FixedPoint
from dope.lazy import LazyEnergy
from dope.memory import as_text
from dope.methods import Bracketing, Exact
from dope.methods.box_size import PROCESS_BYTES as LAZY_PROCESS_BYTES
from dope.methods.box_size import block_bytes, fitting_cuts
from dope.methods.known import CELLS_AT_HAND, Known, packed, unpacked
from dope.models import kernel_lam
from dope.models.smoothing import SMOOTHING
from dope.pairs import GridPairs, Kernel, half_offsets
from dope.partition import MOST_BLOCKS, Partition, layout_of
from dope.protocols import Crew, Executor, LazyProblem, Recipe

# Beside the network and the pixels: unary, labels, and what is in hand while blocks are opened and energies computed.
# benchmarks/exact.py measured 17 to 30 bytes per site.
WORK_BYTES = 24
# Of an interpreter with NumPy and the core.
PROCESS_BYTES = 60 << 20
# A worker's memory also holds the system, the interpreter, and blocks on their way in and out.
SHARE_FOR_BLOCKS = 0.5
# Sites and pairs, at most, of the problem that is solved to see how fast this machine is.
CALIBRATION_SITES, CALIBRATION_PAIRS = 250_000, 4 << 20
# Of a pair that crosses a seam, on top of the network: what was pushed over it, and what the search notes while it
# mends its trees after a merge. The latter grows where seams are many. Measured on noise, with kernels of 7 to 51.
SEAM_BYTES, DENSE_SEAM_BYTES = 250, 2000
# A grid with so few sites that the core would count them: what it refuses is the kernel, or the number of axes.
COUNTED_SITES = 1 << 20
# A coupled site's number goes out as float64 and its label comes back.
BYTES_PER_COUPLED_SITE = 9
# Pairs of the problem whose rounds are measured; no more sites than the next number, and no fewer than the third, but
# for kernels with which that would make more than the last number of pairs.
ROUND_PAIRS, MOST_ROUND_SITES, LEAST_ROUND_SITES, MOST_ROUND_PAIRS = 6 << 20, 1 << 21, 1 << 18, 4 << 20
# With more axes, blocks and cells of the problem that is measured would not be small any more.
MOST_MEASURED_AXES = 4
# |unary| of a site that is certain, as `probability_unary` has it.
SURE = 6.9
# More seconds or bytes per site than any machine takes; sums and products of such numbers are still numbers.
MOST_COST = 1e15
# Workers of a cluster, and bytes of a site.
MOST_SIZE = (1 << 31) - 1
# Of a block on its way through Dask, beside its codes: seconds of client and scheduler, and the bytes of its recipe and
# message. Measured with benchmarks/simulate.py --overhead.
TASK_SECONDS, TASK_BYTES = 0.004, 4_000
# Sites of the cells with which the coordinator is measured: many, so that sites count, and few, so that cells do.
MANY_IN_A_CELL, FEW_IN_A_CELL = 1 << 15, 1 << 6


@dataclass(frozen=True)
class Plan:
    """What it takes to minimize a contrast-sensitive energy on a grid."""

    shape: tuple[int, ...]
    kernel: Kernel
    pixel_bytes: int = 3
    bits: int | None = None
    blocks: int = 1
    workers: int = 1

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        *,
        kernel: Kernel = 3,
        pixel_bytes: int = 3,
        bits: int | None = None,
        blocks: int | Sequence[int] | None = None,
        workers: int = 1,
        memory: int | None = None,
    ) -> Plan:
        """With the blocks given; or as few as fit into each worker's `memory`; or as `minimize` chooses.

        `bits` is the width of capacities, by default the one that `minimize` needs for the lam that `segment` chooses.
        """
        if not shape or any(n < 1 for n in shape):
            raise InputError(f"shape is {shape}; expected the number of sites along each axis, at least 1.")
        _check_sizes(pixel_bytes=(pixel_bytes, 0), workers=(workers, 1))
        plan = cls(shape, kernel, pixel_bytes, bits, 1, workers)
        number = plan._blocks(memory) if blocks is None else math.prod(layout_of(shape, blocks))
        return replace(plan, blocks=number)

    def _blocks(self, memory: int | None) -> int:
        if memory is None:
            return automatic_blocks(self.grid, Exact())
        number, most = 1, min(MOST_BLOCKS, math.prod(1 << (n.bit_length() - 1) for n in self.shape))
        while replace(self, blocks=number).block_bytes > SHARE_FOR_BLOCKS * memory or number < self.workers:
            number *= 2
            if number > most:
                raise InputError(f"no block fits into {memory} bytes, however small; expected more memory.")
        return number

    @cached_property
    def grid(self) -> GridPairs:
        """The pairs; what they weigh does not matter here."""
        offsets = half_offsets(self.kernel, len(self.shape))
        return GridPairs(self.shape, offsets, np.ones(len(offsets)), np.ones((len(offsets), 2)))

    @cached_property
    def width(self) -> int:
        """Bits of a capacity, for costs that are no whole numbers."""
        if self.bits is not None:
            return self.bits
        mean = (self.grid.strength or 1.0) / SMOOTHING
        costs = IntegerCosts(self.grid, self.sites, places=None, largest=mean, total=self.sites * mean)
        return FixedPoint.for_costs(costs, automatic_flow_solver(self.grid).bits).bits

    @property
    def sites(self) -> int:
        return self.grid.sites

    @property
    def neighbors(self) -> int:
        return self.grid.degree

    @property
    def pairs(self) -> int:
        return self.grid.number

    @property
    def layout(self) -> tuple[int, ...]:
        """How many blocks along each axis."""
        return layout_of(self.shape, self.blocks)

    @property
    def block_shape(self) -> tuple[int, ...]:
        """Of the largest block."""
        return tuple(-(-n // k) for n, k in zip(self.shape, self.layout, strict=True))

    @property
    def block_bytes(self) -> int:
        """What the largest block takes while it is solved."""
        return self._bytes(self.block_shape)

    @property
    def bytes(self) -> int:
        """What the whole problem takes in one process, with one network and what its seams take."""
        crossing = self.grid.crossing(self.layout)
        dense = crossing > MOST_CROSSING * self.pairs
        return PROCESS_BYTES + self._bytes(self.shape) + crossing * (DENSE_SEAM_BYTES if dense else SEAM_BYTES)

    def _bytes(self, shape: tuple[int, ...]) -> int:
        """Cut up until the core counts it: it has 2^31 places at most."""
        sites = math.prod(shape)
        grid = replace(self.grid, shape=shape)
        try:
            network = _core.GridFlow.bytes_needed(shape, grid.offsets[grid.fits], self.width)
        except ValueError as error:
            if sites <= COUNTED_SITES:
                raise InputError(str(error)) from error
            longest = max(range(len(shape)), key=lambda axis: shape[axis])
            half = tuple(-(-n // 2) if axis == longest else n for axis, n in enumerate(shape))
            return 2 * self._bytes(half)
        return network + sites * (WORK_BYTES + self.pixel_bytes)

    @property
    def coupled_sites(self) -> int:
        """The sites that have neighbours in other blocks."""
        alone = [_inner(n, k, r) for n, k, r in zip(self.shape, self.layout, self.grid.reach, strict=True)]
        return self.sites - math.prod(alone)

    @property
    def round_bytes(self) -> int:
        """What travels between the coordinator and the blocks in a round."""
        return BYTES_PER_COUPLED_SITE * self.coupled_sites

    def seconds(self) -> float:
        """About how long it takes, by a small problem of the same kind solved on one core of this machine."""
        sites = min(CALIBRATION_SITES, CALIBRATION_PAIRS // max(1, len(self.grid.offsets)))
        image, unary = _sample(_calibration_sides(self.shape, sites))
        energy = Energy.grid(unary, features=image, kernel=self.kernel, lam=1.0)
        begun = time.perf_counter()
        minimize(energy, blocks=1, executor=Serial())
        each = (time.perf_counter() - begun) / (energy.pairs.sites + energy.pairs.number)
        return each * (self.sites + self.pairs) / min(self.workers, max(1, self.blocks))


def _inner(length: int, pieces: int, reach: int) -> int:
    """How many places along an axis are so far inside their piece that no step leads out of it into another."""
    sizes = np.diff(np.arange(pieces + 1) * length // pieces)
    sizes[1:] -= reach
    sizes[:-1] -= reach
    return int(np.maximum(sizes, 0).sum())


def _calibration_sides(shape: tuple[int, ...], sites: int) -> tuple[int, ...]:
    """A box of about so many sites, and no more, its sides alike as far as the shape has them."""
    sides, left = [1] * len(shape), float(sites)
    for done, axis in enumerate(sorted(range(len(shape)), key=lambda a: shape[a])):
        sides[axis] = max(1, min(shape[axis], int(left ** (1 / (len(shape) - done)) + 1e-9)))
        left /= sides[axis]
    return tuple(sides)


def _sample(sides: tuple[int, ...], patch: int = 8) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    """Pixels and unaries of small patches, with noise."""
    rng = np.random.default_rng(0)
    smooth = _patches(rng, sides, patch)
    image = (200 * smooth + 40 * rng.random(sides)).astype(np.uint8)
    return image, (8 * (0.5 - smooth) + rng.normal(0, 2, sides)).astype(np.float32)


def _sure_sample(sides: tuple[int, ...]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    """As of a probability map of which most sites are certain; it takes about as long as a brain scan."""
    rng = np.random.default_rng(0)
    smooth = _patches(rng, sides, 16)
    image = (200 * smooth + 40 * rng.random(sides)).astype(np.uint8)
    unary = 20 * (0.9 - smooth) + rng.normal(0, 3, sides)
    return image, np.clip(unary, -SURE, SURE).astype(np.float32)


def _patches(rng: np.random.Generator, sides: tuple[int, ...], side: int) -> npt.NDArray[np.float64]:
    """Numbers from 0 to 1, alike within cubes."""
    smooth = rng.random(tuple(-(-n // side) for n in sides))
    for axis, n in enumerate(sides):
        smooth = smooth.repeat(side, axis=axis)[(slice(None),) * axis + (slice(0, n),)]
    return smooth


@dataclass(frozen=True)
class BlockTask:
    """What a block did in a round: sites of its box, those with their neighbours, seconds, and bytes of codes."""

    sites: int
    region: int
    read: float
    solve: float
    write: float
    sent: int
    received: int

    @property
    def seconds(self) -> float:
        return self.read + self.solve + self.write


@dataclass(frozen=True)
class Asked:
    """A round as the coordinator saw it: the kind of message, of how many blocks, from when to when, and the tasks."""

    kind: str
    blocks: int
    begun: float
    ended: float
    tasks: tuple[BlockTask, ...]


class Recorder:
    """An executor that notes what another one is asked by `Bracketing`."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.asked: list[Asked] = []

    @property
    def workers(self) -> int:
        return self._executor.workers

    @property
    def elsewhere(self) -> bool:
        return self._executor.elsewhere

    def gather(self, recipes: Sequence[Recipe]) -> Crew:
        return _RecordedCrew(self._executor.gather(recipes), recipes, self.asked)


class _RecordedCrew:
    def __init__(self, crew: Crew, recipes: Sequence[Any], asked: list[Asked]) -> None:
        self._crew, self._recipes, self._asked = crew, recipes, asked

    @property
    def statistics(self) -> object:
        return getattr(self._crew, "statistics", None)

    def ask(
        self,
        messages: Sequence[Any],
        *,
        begun: Callable[[int], object] | None = None,
        done: Callable[[int, Any], object] | None = None,
    ) -> list[Any]:
        since = time.perf_counter()
        replies = self._crew.ask(messages, begun=begun, done=done)
        ended = time.perf_counter()
        at_work = [k for k, message in enumerate(messages) if message is not None]
        tasks = tuple(_task(self._recipes[k], messages[k], replies[k]) for k in at_work)
        kind = type(messages[at_work[0]]).__name__ if at_work else ""
        self._asked.append(Asked(kind, len(messages), since, ended, tasks))
        return replies

    def __enter__(self) -> Self:
        self._crew.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._crew.__exit__(*error)


def _task(recipe: Any, message: Any, reply: Any) -> BlockTask:
    box = getattr(message, "mine", recipe.box)
    region = getattr(message, "region", None) or recipe.energy.pairs.around(box)
    work = reply.work
    solve = max(0.0, work.ended - work.begun - work.read - work.write)  # and whatever else it did
    sent, received = len(getattr(message, "codes", None) or b""), getattr(reply, "bytes", 0)
    return BlockTask(_size(box), _size(region), work.read, solve, work.write, sent, received)


def _size(box: Box) -> int:
    return math.prod(s.stop - s.start for s in box)


@dataclass(frozen=True)
class Round:
    """A round of `Bracketing`, by the site.

    Attributes
    ----------
    name : look, pass 1, pass 2, ..., rest, finish.
    blocks, sites : the shares of all blocks that are at work, and of all sites that are in their boxes.
    read, solve, write : seconds of a worker, per site of the boxes and their neighbours.
    sent, received : bytes of codes, per such site.
    """

    name: str
    blocks: float
    sites: float
    read: float
    solve: float
    write: float
    sent: float
    received: float

    @classmethod
    def of(cls, name: str, asked: Asked, sites: int) -> Round:
        region = sum(task.region for task in asked.tasks)
        each = (
            sum(getattr(task, what) for task in asked.tasks) / region
            for what in ("read", "solve", "write", "sent", "received")
        )
        return cls(name, len(asked.tasks) / asked.blocks, sum(t.sites for t in asked.tasks) / sites, *each)


@dataclass(frozen=True)
class Costs:
    """What the rounds of a small problem took here: enough to plan a large one, and small enough for a file.

    Attributes
    ----------
    dimensions, neighbors : of the problem, which must be those of the plan.
    seams : of its blocks: cuts for each place along an axis, all axes together.
    rounds : in their order.
    fetch, pack, store : seconds of the coordinator per site: to look codes up, to pack them for a message, and to put
        those of a reply where they belong.
    cell : seconds of the coordinator for a cell that it looks up, however small.
    task, task_bytes : what a block on its way to a worker takes from the coordinator: seconds, and bytes beside codes.
    spread : seconds per site of the blocks of pass 1, in units of their mean, in rising order.
    """

    dimensions: int
    neighbors: int
    seams: float
    rounds: tuple[Round, ...]
    fetch: float
    pack: float
    store: float
    cell: float
    task: float = TASK_SECONDS
    task_bytes: float = TASK_BYTES
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
        _measured_rounds(kernel, (8,) * dimensions)  # wakes everything up
        return _measured_rounds(kernel, (side,) * dimensions)

    @classmethod
    def of(cls, asked: Sequence[Asked], energy: LazyEnergy, partition: Partition, labels: Any) -> Costs:
        """By the rounds of a run, and the labels that it found."""
        first = next(one for one in asked if one.kind == "Prove")
        paces = np.sort([task.seconds / task.region for task in first.tasks])
        fetch, pack, store, cell = _coordinator_costs(np.asarray(labels))
        return cls(
            dimensions=len(energy.shape),
            neighbors=energy.pairs.degree,
            seams=_seams(energy.shape, partition.cuts or ()),
            rounds=tuple(_rounds(asked, math.prod(energy.shape))),
            fetch=fetch,
            pack=pack,
            store=store,
            cell=cell,
            spread=tuple((paces / paces.mean()).tolist()),
        )

    @classmethod
    def load(cls, path: str | Path) -> Costs:
        """From a file of `save`."""
        try:
            found = json.loads(read_regular(Path(path), "costs", most=1 << 20))
            rounds = tuple(Round(**one) for one in found["rounds"])
            costs = cls(**{**found, "rounds": rounds, "spread": tuple(found["spread"])})
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


def _check_sizes(**sizes: tuple[int, int]) -> None:
    """Refuse numbers below their least, or such as nothing has."""
    for name, (value, least) in sizes.items():
        if not least <= value <= MOST_SIZE:
            raise InputError(f"{name} is {value}; expected {least} to {MOST_SIZE:,}.")


def _numbers(thing: Costs | Round) -> list[float]:
    return [getattr(thing, one.name) for one in fields(thing) if one.name not in ("name", "rounds", "spread")]


def _measured_rounds(kernel: Kernel, sides: tuple[int, ...]) -> Costs:
    image, unary = _sure_sample(sides)
    lam = kernel_lam(kernel, len(sides), total=2 * SURE)
    energy = LazyEnergy.grid(unary, features=image, kernel=kernel, lam=lam)
    partition = Partition.grid(sides, (2,) * len(sides))
    labels = np.zeros(sides, dtype=np.bool_)
    return Costs.of(recorded(energy, partition, Serial(), labels), energy, partition, labels)


def recorded(energy: LazyEnergy, partition: Partition, executor: Executor, target: Any) -> list[Asked]:
    """The rounds of `Bracketing`, which writes labels to `target`."""
    recorder = Recorder(executor)
    problem = LazyProblem(energy, partition, automatic_flow_solver(energy.pairs), recorder, target)
    for _ in Bracketing().steps(problem):
        pass
    return recorder.asked


def _rounds(asked: Sequence[Asked], sites: int) -> Iterator[Round]:
    names = {"Look": "look", "Extract": "rest", "Settle": "rest", "Finish": "finish"}
    passes = 0
    for one in asked:
        passes += one.kind == "Prove"
        if one.tasks:
            yield Round.of(names.get(one.kind, f"pass {passes}"), one, sites)


def _seams(shape: Sequence[int], cuts: Sequence[Sequence[int]]) -> float:
    return sum(len(where) / n for n, where in zip(shape, cuts, strict=True))


def _coordinator_costs(labels: Mask) -> tuple[float, float, float, float]:
    """Seconds to fetch, pack and store a site, and to look up a cell, of blocks in the midst of others."""
    large, small = (max(2, round(n ** (1 / labels.ndim))) for n in (MANY_IN_A_CELL, FEW_IN_A_CELL))
    fetch, pack, store = np.median([_coordinator_seconds(labels, large) for _ in range(3)], axis=0).tolist()
    cell = float(np.median([_coordinator_seconds(labels, small)[0] for _ in range(3)])) * small**labels.ndim
    return max(0.0, fetch - cell / large**labels.ndim), pack, store, cell


def _coordinator_seconds(labels: Mask, cell: int) -> tuple[float, float, float]:
    """Seconds per site to fetch, pack and store, with cells of this side."""
    side, axes = 2 * cell, labels.ndim
    shape = (4 * side,) * axes
    tiled = np.pad(labels, [(0, max(0, n - m)) for n, m in zip(shape, labels.shape, strict=True)], mode="wrap")
    codes = tiled[tuple(slice(0, n) for n in shape)].astype(np.uint8)
    partition = Partition.grid(shape, (4,) * axes)
    known = Known(shape, [partition.cuts or (), partition.shifted().cuts or ()])
    boxes: list[Box] = [block.where for block in partition.blocks if isinstance(block.where, tuple)]
    replies = [packed(codes[box]) for box in boxes]
    begun = time.perf_counter()
    for box, reply in zip(boxes, replies, strict=True):
        known.write(box, unpacked(reply, (side,) * axes))
    store = (time.perf_counter() - begun) / codes.size
    middle = (slice(side - 1, 2 * side + 1),) * axes
    begun = time.perf_counter()
    found = known.read(middle)
    fetch = (time.perf_counter() - begun) / (2 * side) ** axes
    begun = time.perf_counter()
    packed(found)
    return fetch, (time.perf_counter() - begun) / found.size, store


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


@dataclass(frozen=True)
class LazyPlan:
    """What it takes to minimize an energy whose arrays stay in files, with `Bracketing` on workers of their own.

    `cuts` are where axes are cut into blocks; `unary_bytes` is what a site's unary, or its probability, takes on disk.
    """

    shape: tuple[int, ...]
    kernel: Kernel
    cuts: tuple[tuple[int, ...], ...]
    pixel_bytes: int = 1
    unary_bytes: int = 4
    workers: int = 1

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        *,
        memory: int,
        kernel: Kernel = 3,
        pixel_bytes: int = 1,
        unary_bytes: int = 4,
        blocks: int | Sequence[int] | None = None,
        workers: int = 1,
    ) -> LazyPlan:
        """With the blocks that `minimize` takes where each worker has so much memory, or with those given."""
        if not shape or any(n < 1 for n in shape):
            raise InputError(f"shape is {shape}; expected the number of sites along each axis, at least 1.")
        _check_sizes(pixel_bytes=(pixel_bytes, 0), unary_bytes=(unary_bytes, 1), workers=(workers, 1))
        plan = cls(shape, kernel, ((),) * len(shape), pixel_bytes, unary_bytes, workers)
        if blocks is None:
            return replace(plan, cuts=plan._fitting_cuts(memory))
        layout = layout_of(shape, blocks)
        cuts = tuple(tuple(i * n // k for i in range(1, k)) for n, k in zip(shape, layout, strict=True))
        plan = replace(plan, cuts=cuts)
        if plan.worker_bytes > memory:
            raise InputError(
                f"a block takes {as_text(plan.worker_bytes)}, and a worker has {as_text(memory)}; ask for more blocks."
            )
        return plan

    def _fitting_cuts(self, memory: int) -> tuple[tuple[int, ...], ...]:
        energy, room = self._energy, memory - LAZY_PROCESS_BYTES
        if room <= 0:
            raise InputError(f"a worker has {as_text(memory)}; expected more than {as_text(LAZY_PROCESS_BYTES)}.")
        total = self._memory(room)
        return fitting_cuts(energy, memory=total, workers=self.workers, bits=32, chunks=None)

    def _memory(self, room: int) -> int:
        """What `minimize` is to be told, where every worker has room for blocks; it counts one process."""
        return self.workers * room + LAZY_PROCESS_BYTES

    @cached_property
    def _energy(self) -> LazyEnergy:
        """Without numbers: only how many there are, and of how many bytes."""
        features = _AbsentPixels((*self.shape, self.pixel_bytes)) if self.pixel_bytes else None
        return LazyEnergy.grid(_Absent(self.shape, self.unary_bytes), features=features, kernel=self.kernel)

    @property
    def grid(self) -> GridPairs:
        """The pairs; what they weigh does not matter here."""
        return self._energy.pairs

    @property
    def sites(self) -> int:
        return math.prod(self.shape)

    @property
    def layout(self) -> tuple[int, ...]:
        """How many blocks along each axis."""
        return tuple(len(where) + 1 for where in self.cuts)

    @property
    def blocks(self) -> int:
        return math.prod(self.layout)

    @property
    def block_shape(self) -> tuple[int, ...]:
        """Of the largest block."""
        return tuple(max(high - low for low, high in self._pieces(axis)) for axis in range(len(self.shape)))

    def _pieces(self, axis: int) -> list[tuple[int, int]]:
        return list(pairwise([0, *self.cuts[axis], self.shape[axis]]))

    @property
    def block_bytes(self) -> int:
        """What the largest block takes while it is at work."""
        return block_bytes(self._energy, self.block_shape, 32)

    @property
    def worker_bytes(self) -> int:
        """What a worker takes."""
        return self.block_bytes + LAZY_PROCESS_BYTES

    @property
    def memory(self) -> int:
        """The `memory` to give to `minimize` for these blocks."""
        return self._memory(self.block_bytes)

    @property
    def halo(self) -> float:
        """Sites that blocks read, their neighbours included, per site that they have."""
        reach = self.grid.reach
        read = 1.0
        for axis, n in enumerate(self.shape):
            read *= sum(min(n, b + reach[axis]) - max(0, a - reach[axis]) for a, b in self._pieces(axis)) / n
        return read

    def rounds(self, costs: Costs, *, storage: float = math.inf) -> list[Forecast]:
        """The rounds of the small problem at this size; `storage` is what all workers together read in a second."""
        if (costs.dimensions, costs.neighbors) != (len(self.shape), self.grid.degree):
            raise InputError(
                f"the costs are of {costs.neighbors} neighbours in {costs.dimensions} dimensions; expected "
                f"{self.grid.degree} in {len(self.shape)}. Measure them with the same kernel and as many axes."
            )
        seams = _seams(self.shape, self.cuts)
        kept = [one for one in costs.rounds if seams or one.name in ("look", "pass 1", "finish")]
        forecasts = [self._forecast(costs, one, seams) for one in kept]
        return [replace(one, seconds=self._seconds(one, costs, storage)) for one in forecasts]

    def _forecast(self, costs: Costs, one: Round, seams: float) -> Forecast:
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
        blocks = math.prod(k + 1 if k > 1 and shifted else k for k in self.layout)
        tasks = max(1, round(at_work * blocks))
        own = sites * self.sites
        region = own * self.halo
        in_blocks = tasks * self.sites / blocks
        extent = (own / in_blocks) ** (1 / len(self.shape))
        packing = storing = 0.0
        if one.name not in ("look", "pass 1"):
            packing = costs.pack * region + self._fetched(costs, tasks, in_blocks, extent)
        if one.name not in ("look", "finish"):  # all cells that a box touches are written
            storing = costs.store * in_blocks * min(1.0, 0.5 + extent) ** len(self.shape)
        return Forecast(
            name=one.name,
            tasks=tasks,
            own=own,
            region=region,
            read_bytes=region * (self.pixel_bytes + self.unary_bytes),
            written_bytes=own if one.name == "finish" else 0.0,
            sent=one.sent * region + tasks * costs.task_bytes,
            received=received * region,
            work=region * (one.read + one.solve + one.write),
            packing=packing,
            storing=storing,
        )

    def _fetched(self, costs: Costs, tasks: int, in_blocks: float, extent: float) -> float:
        """Seconds to look up the codes of boxes and their neighbours, in whole cells, of which blocks have two by axis.

        `extent` is the side of a box in units of its block's.
        """
        lengths, cells = [], 1.0
        for k in self.layout:
            whole, most = ((2 * k - 1) / k, min(4, k + 1)) if k > 1 else (1.0, 1)
            lengths.append(whole if extent > 0.99 else min(whole, 0.5 + extent))
            cells *= min(most, 2 * lengths[-1])
        if cells <= CELLS_AT_HAND:  # those of the block before are still at hand
            lengths[-1] = min(1.0, lengths[-1])
        return tasks * cells * costs.cell + costs.fetch * math.prod(lengths) * in_blocks

    def _seconds(self, one: Forecast, costs: Costs, storage: float) -> float:
        waves = math.ceil(one.tasks / self.workers)
        handed_out = min(one.tasks, TASKS_PER_THREAD * self.workers) * costs.task
        stored = (one.read_bytes + one.written_bytes) / storage
        return one.packing + max(waves * one.work / one.tasks, handed_out + one.storing, stored)


@dataclass(frozen=True)
class _AbsentPixels:
    """An image of which only the shape is known; channels of a byte are the last axis."""

    shape: tuple[int, ...]
    dtype: type[np.uint8] = np.uint8


@dataclass(frozen=True)
class _Absent:
    """A unary of which only the size is known."""

    shape: tuple[int, ...]
    site_bytes: int
    chunks: None = None

    def at(self, box: Box) -> npt.NDArray[Any]:
        raise NotImplementedError(box)

    def excerpt(self, box: Box) -> Self:
        raise NotImplementedError(box)
