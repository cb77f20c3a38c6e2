"""The sample that a model learns from, of pixels that are read box by box: to the bit that of an image in memory.

Sites of a kind (foreground, background, any) are numbered in row-major order of the whole, and every n-th is taken. A
box counts those of each of its rows, along the last axis; from all counts follows the number that a row of a box begins
with, and with it the box finds which of its sites are meant. The coordinator holds a number per row of a box: as many
as the faces between boxes have sites.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, Mask, check_finite, digest
from dope.models.channels import ClassSample, Sample, fitted_every, ranged_every
from dope.partition import Partition
from dope.protocols import Executor
from dope.scribbles import BACKGROUND, FOREGROUND, UNLABELED
from dope.segmentation.boxes import sides_of
from dope.segmentation.seed_map import SeedMap
from dope.stored import Readable, Stored, place_in_whole

Counts = npt.NDArray[np.int64]
Kinds = npt.NDArray[np.int8 | np.int16]

# Sites whose numbers are at hand at once.
_SITES = 1 << 20

ANY = -2
"""The kind of all sites that take part, beside the numbers of labels."""


@dataclass(frozen=True, eq=False)
class Scene:
    """What colours are learnt from, read box by box.

    A site is of the kind that its seed says; without one, of that of its label, if there are `labels`. `filled` says
    that all other sites may be foreground, and count as that.
    """

    pixels: Stored
    seeds: SeedMap
    labels: Readable | None = None
    filled: bool = False

    def kinds_at(self, box: Box) -> tuple[Kinds, Mask | None]:
        """The kind of each site of a box, and which take part, None for all."""
        kinds = self.seeds.at(box)
        inside = self.seeds.inside_at(box)
        if self.labels is not None or self.filled:
            free = kinds == UNLABELED if inside is None else (kinds == UNLABELED) & inside
            kinds[free] = FOREGROUND if self.labels is None else self.labels.at(box)[free]
        return kinds, inside

    def rows_at(self, box: Box) -> npt.NDArray[Any]:
        """The pixels of a box, a row of channels each."""
        pixels = self.pixels.at(box)
        check_finite("image", pixels, box=place_in_whole(self.pixels, box), inside=self.seeds.inside_at(box))
        return pixels.reshape(math.prod(sides_of(box)), -1)

    def excerpt(self, box: Box) -> Scene:
        return replace(
            self,
            pixels=self.pixels.excerpt(box),
            seeds=self.seeds.excerpt(box),
            labels=None if self.labels is None else self.labels.excerpt(box),
        )


@dataclass(frozen=True)
class Count:
    """Asks how many sites of these kinds each row has."""

    doing: ClassVar[str] = "count"
    kinds: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Counted:
    """By kind, those of each row; a kind of which there are none is left out. `digest` is of the kinds of all sites."""

    rows: dict[int, Counts]
    digest: str


@dataclass(frozen=True, eq=False)
class Pick:
    """Asks for every n-th site of each kind, where the box's rows begin with these numbers: {kind: (n, numbers)}."""

    doing: ClassVar[str] = "pick"
    kinds: dict[int, tuple[int, Counts]]


@dataclass(frozen=True, eq=False)
class Picked:
    """By kind, the numbers of the sites in the sample, and their pixels."""

    kinds: dict[int, tuple[Counts, npt.NDArray[Any]]]


@dataclass(frozen=True, eq=False)
class SceneRecipe:
    """A block, told by its place; sent elsewhere it takes along arrays in memory as far as it needs them."""

    scene: Scene
    where: Box

    def open(self) -> SceneWorker:
        return SceneWorker(self.scene, self.where)

    def __reduce__(self) -> tuple[type[SceneRecipe], tuple[Scene, Box]]:
        return SceneRecipe, (self.scene.excerpt(self.where), self.where)


class SceneWorker:
    """Reads its box, and keeps nothing."""

    def __init__(self, scene: Scene, box: Box) -> None:
        self._scene, self._box = scene, box

    def __call__(self, ask: Count | Pick) -> Counted | Picked:
        kinds, inside = self._scene.kinds_at(self._box)
        rows = kinds.reshape(-1, kinds.shape[-1])
        part = None if inside is None else inside.reshape(rows.shape)
        if isinstance(ask, Count):
            found = {kind: np.count_nonzero(_of_kind(kind, rows, part), axis=1) for kind in ask.kinds}
            some = {kind: counts.astype(np.int64) for kind, counts in found.items() if counts.any()}
            return Counted(some, digest([kinds]))
        colors = self._scene.rows_at(self._box)
        return Picked(
            {kind: _picked(_of_kind(kind, rows, part), every, first, colors)
             for kind, (every, first) in ask.kinds.items()}
        )  # fmt: skip


def _of_kind(kind: int, rows: Kinds, inside: Mask | None) -> Mask:
    if kind != ANY:
        return np.asarray(rows == kind)
    return np.ones(rows.shape, dtype=np.bool_) if inside is None else inside


def _picked(chosen: Mask, every: int, first: Counts, colors: npt.NDArray[Any]) -> tuple[Counts, npt.NDArray[Any]]:
    """A few rows at a time: re-estimation makes every site one of a kind."""
    width = chosen.shape[1]
    step = max(1, _SITES // width)
    found = [np.zeros(0, dtype=np.int64)]
    places = [np.zeros(0, dtype=np.int64)]
    for low in range(0, len(chosen), step):
        sites = np.flatnonzero(chosen[low : low + step])
        each = np.count_nonzero(chosen[low : low + step], axis=1)
        begin = first[low : low + step] - (np.cumsum(each) - each)
        numbers = np.arange(len(sites)) + begin[sites // width]
        taken = numbers % every == 0
        found.append(numbers[taken] // every)
        places.append(sites[taken] + low * width)
    return np.concatenate(found), colors[np.concatenate(places)]


@dataclass(frozen=True, eq=False)
class Census:
    """How many sites of each kind the rows of all boxes have."""

    partition: Partition
    counted: tuple[Counted, ...]

    @classmethod
    def taken(cls, scene: Scene, partition: Partition, executor: Executor, kinds: Sequence[int]) -> Census:
        recipes = [SceneRecipe(scene, _box(block.where)) for block in partition.blocks]
        with executor.gather(recipes) as crew:
            return cls(partition, tuple(crew.ask([Count(tuple(kinds))] * len(recipes))))

    def number(self, kind: int) -> int:
        """How many there are."""
        return sum(int(one.rows[kind].sum()) for one in self.counted if kind in one.rows)

    def holds(self, block: int, *kinds: int) -> bool:
        """Whether a block has sites of one of these kinds."""
        return any(kind in self.counted[block].rows for kind in kinds)

    @property
    def digest(self) -> str:
        """Of the kinds of all sites."""
        return hashlib.sha256("".join(one.digest for one in self.counted).encode()).hexdigest()

    def first_numbers(self, kind: int) -> list[Counts]:
        """For each block, the number of sites of a kind that come before those of each of its rows."""
        shape, cuts = self.partition.shape, self.partition.cuts
        assert cuts is not None
        across = np.zeros((*shape[:-1], len(cuts[-1]) + 1), dtype=np.int64)
        places = [self._place(k) for k in range(len(self.counted))]
        for place, one in zip(places, self.counted, strict=True):
            if kind in one.rows:
                across[place] = one.rows[kind].reshape(across[place].shape)
        flat = across.reshape(-1)
        before = (np.cumsum(flat) - flat).reshape(across.shape)
        return [before[place].reshape(-1) for place in places]

    def _place(self, block: int) -> tuple[Any, ...]:
        """A block's rows, and which it is along the last axis."""
        box = _box(self.partition.blocks[block].where)
        assert self.partition.cuts is not None
        return (*box[:-1], [0, *self.partition.cuts[-1]].index(box[-1].start))


def sample_in_boxes(scene: Scene, partition: Partition, executor: Executor, *, looks_around: bool) -> Sample:
    """As `Sample.of`, of pixels that are read where blocks run."""
    found = _rows_in_boxes(scene, partition, executor, (FOREGROUND, BACKGROUND), looks_around)
    return Sample(found[FOREGROUND], found[BACKGROUND], found[ANY])


def class_sample_in_boxes(
    scene: Scene, partition: Partition, executor: Executor, labels: Sequence[int], *, looks_around: bool
) -> ClassSample:
    """As `ClassSample.of`, of pixels that are read where blocks run."""
    found = _rows_in_boxes(scene, partition, executor, tuple(labels), looks_around)
    return ClassSample(tuple(found[label] for label in labels), found[ANY])


def _rows_in_boxes(
    scene: Scene, partition: Partition, executor: Executor, labels: tuple[int, ...], looks_around: bool
) -> dict[int, npt.NDArray[np.float64]]:
    """By kind, the pixels in the sample; none of any kind where nobody looks around."""
    wanted = (*labels, ANY) if looks_around else labels
    census = Census.taken(scene, partition, executor, wanted)
    thinned = {kind: ranged_every if kind == ANY else fitted_every for kind in wanted}
    every = {kind: thinned[kind](census.number(kind)) for kind in wanted}
    first = {kind: census.first_numbers(kind) for kind in wanted}
    messages = []
    for k in range(len(partition.blocks)):
        here = {kind: (every[kind], first[kind][k]) for kind in wanted if census.holds(k, kind)}
        messages.append(Pick(here) if here else None)
    recipes = [SceneRecipe(scene, _box(block.where)) for block in partition.blocks]
    with executor.gather(recipes) as crew:
        replies: list[Picked | None] = crew.ask(messages)
    picked = [reply for reply in replies if reply is not None]
    width = next((rows.shape[1] for one in picked for _, rows in one.kinds.values()), 1)
    found = {}
    for kind in (*labels, ANY):
        number = -(-census.number(kind) // every[kind]) if kind in wanted else 0
        found[kind] = np.empty((number, width))
        for one in picked:
            if kind in one.kinds:
                numbers, rows = one.kinds[kind]
                found[kind][numbers] = rows
    return found


def _box(where: Any) -> Box:
    assert isinstance(where, tuple)
    return where
