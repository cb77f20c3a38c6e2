"""What is connected to strokes, of labels that are looked at box by box: as `dope.models.connectivity`, to the bit.

A box finds the connected parts of its own sites. Those that reach its faces are numbered; where faces of two boxes
meet, parts that share a face of a site are joined. A part is kept if one that it is joined to holds a stroke. The
coordinator holds the numbers on the faces, never those of sites.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Box, Mask, Sites
from dope.models.connectivity import Parts, joined
from dope.partition import Partition
from dope.protocols import Executor
from dope.scribbles import BACKGROUND, FOREGROUND
from dope.segmentation.boxes import sides_of
from dope.segmentation.kept_labels import KeptLabels
from dope.segmentation.seed_map import SeedMap
from dope.stored import Readable

_LABELS = {FOREGROUND: True, BACKGROUND: False}


@dataclass(frozen=True)
class Join:
    """Asks for the parts of a label that reach the faces of a box."""

    doing: ClassVar[str] = "join"
    label: int


@dataclass(frozen=True, eq=False)
class Faces:
    """By axis and end, the parts on a face, compressed, -1 for none; `marked` says which of them hold a stroke."""

    ends: dict[tuple[int, bool], bytes]
    marked: Mask

    def parts(self, axis: int, *, last: bool) -> npt.NDArray[np.int32]:
        return np.frombuffer(zlib.decompress(self.ends[axis, last]), dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Keep:
    """Asks for labels without parts that are not to be kept; `kept` are those of its faces' parts that are."""

    doing: ClassVar[str] = "keep"
    label: int
    kept: Mask


@dataclass(frozen=True, eq=False)
class PartRecipe:
    """A block, told by its place; sent elsewhere it takes along its own labels and seeds."""

    labels: Readable
    seeds: SeedMap
    where: Box

    def open(self) -> PartWorker:
        return PartWorker(self.labels, self.seeds, self.where)

    def __reduce__(self) -> tuple[type[PartRecipe], tuple[Readable, SeedMap, Box]]:
        return PartRecipe, (self.labels.excerpt(self.where), self.seeds.excerpt(self.where), self.where)


class PartWorker:
    """Finds the parts of its box again for every message, and keeps nothing."""

    def __init__(self, labels: Readable, seeds: SeedMap, box: Box) -> None:
        self._labels, self._seeds, self._box = labels, seeds, box

    def __call__(self, ask: Join | Keep) -> Faces | bytes:
        mask = self._labels.at(self._box) == _LABELS[ask.label]
        parts = Parts.of(mask)
        held = parts.holding(mask & (self._seeds.at(self._box) == ask.label))
        ends = {(a, last): parts.face(a, mask, last=last) for a in range(mask.ndim) for last in (False, True)}
        reaching = np.unique(np.concatenate(list(ends.values())))
        reaching = reaching[reaching >= 0]
        if isinstance(ask, Join):
            return Faces({end: _numbered(found, reaching) for end, found in ends.items()}, held[reaching])
        held[reaching] = ask.kept
        labels, inside = parts.painted(held) == _LABELS[ask.label], self._seeds.inside_at(self._box)
        if inside is not None:
            labels &= inside  # what is shut in out there is no foreground
        return zlib.compress(np.packbits(labels).tobytes(), 1)


def _numbered(found: Sites, reaching: Sites) -> bytes:
    numbers = np.where(found < 0, -1, np.searchsorted(reaching, found)).astype(np.int32)
    return zlib.compress(numbers.tobytes(), 1)


def keep_connected_in_boxes(
    labels: KeptLabels, seeds: SeedMap, kinds: Sequence[int], partition: Partition, executor: Executor
) -> KeptLabels:
    """Labels whose parts hold a stroke of their own; `kinds` are the labels that have strokes."""
    for label in (FOREGROUND, BACKGROUND):
        if label in kinds:
            labels = _touching(labels, seeds, label, partition, executor)
    return labels


def _touching(labels: KeptLabels, seeds: SeedMap, label: int, partition: Partition, executor: Executor) -> KeptLabels:
    recipes = [PartRecipe(labels, seeds, _box(block.where)) for block in partition.blocks]
    assert partition.cuts is not None
    kept = KeptLabels(labels.shape, partition.cuts)

    def take(k: int, reply: bytes) -> None:
        sides = sides_of(recipes[k].where)
        bits = np.frombuffer(zlib.decompress(reply), dtype=np.uint8)
        found: BinaryLabels = np.unpackbits(bits, count=int(np.prod(sides))).view(np.bool_).reshape(sides)
        kept[recipes[k].where] = found

    with executor.gather(recipes) as crew:
        faces: list[Faces] = crew.ask([Join(label)] * len(recipes))
        crew.ask([Keep(label, which) for which in _kept_parts(faces, partition)], done=take)
    return kept


def _kept_parts(faces: Sequence[Faces], partition: Partition) -> list[Mask]:
    """For every block, which of its faces' parts are joined to one that is marked."""
    numbers = np.array([len(one.marked) for one in faces])
    first = np.cumsum(numbers) - numbers
    tails, heads = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for one, other, axis in _neighbors(partition):
        tail, head = faces[one].parts(axis, last=True), faces[other].parts(axis, last=False)
        both = (tail >= 0) & (head >= 0)
        pairs = np.unique(np.stack([first[one] + tail[both], first[other] + head[both]]), axis=1)
        tails.append(pairs[0])
        heads.append(pairs[1])
    roots = joined(int(numbers.sum()), np.concatenate(tails), np.concatenate(heads))
    held = np.zeros(len(roots), dtype=np.bool_)
    held[roots[np.concatenate([one.marked for one in faces])]] = True
    return np.split(held[roots], first[1:])


def _neighbors(partition: Partition) -> list[tuple[int, int, int]]:
    """Pairs of blocks that follow each other along an axis, which is the last number."""
    assert partition.cuts is not None
    layout = tuple(len(where) + 1 for where in partition.cuts)
    numbers = np.arange(len(partition.blocks)).reshape(layout)
    found = []
    for axis in range(len(layout)):
        low = np.take(numbers, range(layout[axis] - 1), axis).reshape(-1)
        high = np.take(numbers, range(1, layout[axis]), axis).reshape(-1)
        found += [(one, other, axis) for one, other in zip(low.tolist(), high.tolist(), strict=True)]
    return found


def _box(where: Any) -> Box:
    assert isinstance(where, tuple)
    return where
