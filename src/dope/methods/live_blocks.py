"""Labels of a residual graph while threads are at work on it, for whoever wants to see them.

A block is read only while nobody works on its group. Of others the labels are those that were read before or, at first,
those that unaries alone would choose. Nothing is read, and next to nothing spent, while nobody asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Lock, RLock

import numpy as np

from dope.arrays import BinaryLabels, Box
from dope.energy import Energy
from dope.flows import BlockFlow
from dope.partition import Partition


class LiveBlocks:
    """Who works on which group, and labels in between."""

    def __init__(self, energy: Energy, partition: Partition, flow: BlockFlow) -> None:
        self._energy, self._partition, self._flow = energy, partition, flow
        self._labels: BinaryLabels | None = None
        self._busy: set[int] = set()
        # Entered as the lock itself: Ctrl-C inside `Condition.__enter__`, which is Python, would leave it locked.
        self._lock = RLock()
        self._free = Condition(self._lock)
        self._moving = False
        self._solved: set[int] = set()
        self._reader = Lock()
        self._opened = False

    def open(self) -> None:
        """From now on there are groups; before, the graph is only being filled, and nobody reads it."""
        self._opened = True

    @contextmanager
    def at_work(self, k: int) -> Iterator[None]:
        """A worker has the group of a block; should it fail, its labels are nobody's."""
        if not self._opened:
            yield
            return
        g = self._flow.group(k)
        with self._lock:
            self._free.wait_for(lambda: g not in self._busy)
            self._busy.add(g)
        members = self._flow.members(g)
        try:
            yield
        except BaseException:
            with self._lock:
                self._solved.difference_update(members)
            raise
        finally:
            with self._lock:
                self._leave(g)

    def solved(self, members: list[int]) -> None:
        """These blocks have labels now."""
        with self._lock:
            self._solved.update(members)

    @contextmanager
    def moving(self) -> Iterator[None]:
        """The coordinator moves flow between groups, or merges some."""
        with self._lock:
            self._free.wait_for(lambda: not self._busy)
            self._moving = True
        try:
            yield
        finally:
            with self._lock:
                self._moving = False

    def read(self, box: Box | None) -> BinaryLabels:
        """A copy of the labels of a box, or of everything."""
        with self._reader:
            if self._labels is None:
                self._labels = np.asarray(self._energy.unary < 0)
            for k, block in enumerate(self._partition.blocks):
                if box is None or _meet(block.where, box):
                    self._look(k, self._labels)
            return self._labels.copy() if box is None else self._labels[box].copy()

    def _look(self, k: int, whole: BinaryLabels) -> None:
        group = self._entered(k)
        if group is None:
            return
        try:
            where = self._partition.blocks[k].where
            whole[where] = self._flow.labels(k).reshape(whole[where].shape)
        finally:
            with self._lock:
                self._leave(group)

    def _entered(self, k: int) -> int | None:
        """The group of a block that has labels and that nobody works on, which nobody else may then."""
        with self._lock:
            if self._moving or k not in self._solved:
                return None
            group = self._flow.group(k)
            if group in self._busy:
                return None
            self._busy.add(group)
            return group

    def _leave(self, g: int) -> None:
        self._busy.discard(g)
        self._free.notify_all()


def _meet(where: object, box: Box) -> bool:
    if not isinstance(where, tuple):
        return True
    return all(a.start < b.stop and b.start < a.stop for a, b in zip(where, box, strict=False))
