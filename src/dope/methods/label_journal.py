"""Labels and open sites after every label that is proved and every sweep, on a board from which a run may go on.

What is written down are both of every box, and how many sites changed. A run that is resumed skips what is written,
and goes on from the last labels; those before are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dope.arrays import Box, Labels, Mask
from dope.boards import Board, Post
from dope.cancellation import check_cancelled
from dope.methods.journal import Journal
from dope.methods.rounds import Reference, content_of, leave
from dope.methods.tiling import size

# Of a site: its label, in up to four bytes, and whether it is open.
SITE_BYTES = 5


class LabelJournal:
    """Whoever plays a round here finds labels and open sites as after it, whether it was played now or before."""

    def __init__(self, board: Board, boxes: Sequence[Box], labels: Labels, open_sites: Mask) -> None:
        """`labels` and `open_sites` become those of the last round that is written down."""
        self._board, self._boxes, self._labels, self._open = board, boxes, labels, open_sites
        self._journal = Journal(board)
        self._entries = self._journal.read()
        if self._entries and not self._journal.has(self._entries[-1].posts["labels"]):
            self._entries = []
        self._posts: list[Reference] = list(self._entries[-1].posts["labels"]) if self._entries else []
        self._rounds = 0
        self._restore()

    def play(self, work: Callable[[], int]) -> int:
        """The next round: how many sites it changes."""
        self._rounds += 1
        if self._rounds <= len(self._entries):
            if self._rounds == len(self._entries):
                self._restore()
            return int(self._entries[self._rounds - 1].said["changed"])
        changed = work()
        self._keep(changed)
        return changed

    def _keep(self, changed: int) -> None:
        if not self._board.shared:  # nobody resumes it
            return
        self._board.require_owner()
        before, self._posts = self._posts, []
        for k, box in enumerate(self._boxes):
            check_cancelled()
            labels = self._labels[box]
            arrays = {"labels": labels if labels.itemsize == 1 else labels.astype(np.int32), "open": self._open[box]}
            self._posts.append(leave(self._board, f"labels-{self._rounds:05}/{k:06}", Post({}, arrays)))
        self._journal.write(self._rounds, {"changed": changed}, {"labels": self._posts})
        self._board.drop([one.name for one in before])

    def _restore(self) -> None:
        for box, post in zip(self._boxes, self._posts, strict=False):
            check_cancelled()
            found = Post.unpacked(content_of(self._board, post), most=SITE_BYTES * size(box)).arrays
            self._labels[box], self._open[box] = found["labels"], found["open"]
