"""Rounds of flows between blocks that live apart: the coordinator's side, which only counts.

    solve     every block with open sites, by itself
    sweep     blocks that excess has come to, in classes such that no pair joins two blocks of a class, send it on
              towards the nearest sinks, class after class
    measure   after some sweeps, distances anew, from the sinks on: what has no way to a sink is left alone then.
              Between two such, distances grow only where excess is, by one seam a visit
    reach     when no excess has a way left: labels by reachability, over seams until nothing changes

The blocks to visit, and the distances that occur, are all that the coordinator looks at: its work is in proportion to
the number of blocks. A distance that does not occur, though greater ones do, cuts these off from all sinks (`ceiling`).
What blocks do is in `flow_block`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

from dope.arrays import Box
from dope.boards import Board
from dope.fixed_point import FixedPoint
from dope.methods.flow_block import FAR, Certify, Discharge, Measure, Message, Reach
from dope.methods.rounds import Left, Reference, Rounds, Task
from dope.methods.tiling import Tiling, common, moved
from dope.pairs import GridPairs
from dope.partition import Partition
from dope.protocols import FlowSolver

# Excess that has no way to a sink wanders about until distances say so. They are measured anew where a sweep sends over
# more than this share of the arcs of the one before, and blocks were visited about as often as that takes: measured on
# the hard cases of benchmarks/apart.py.
STAGNANT = 0.7


class FlowRounds:
    """What is known of the blocks, and what to ask of which one next."""

    def __init__(
        self,
        rounds: Rounds,
        board: Board,
        *,
        solver: FlowSolver,
        fixed: FixedPoint,
        partition: Partition,
        pairs: GridPairs,
        open_boxes: Mapping[int, Box],
        codes: Callable[[Box], tuple[Reference, ...]],
        done: Callable[[Any], Callable[[int, Left], None]],
    ) -> None:
        """`open_boxes` hold the open sites, by block; `codes` are the posts that tell of a box and its neighbours."""
        self._rounds, self._board, self._solver, self._fixed = rounds, board, solver, fixed
        self._mine = dict(open_boxes)
        self._regions = {k: pairs.around(box) for k, box in self._mine.items()}
        tiling = Tiling(partition.shape, partition.cuts or ())
        self._number = len(tiling)
        self._near = {k: _neighbors(k, box, tiling, pairs, self._mine) for k, box in self._mine.items()}
        self._codes = {k: codes(box) for k, box in self._mine.items()}
        self._classes = partition.apart(pairs)
        self._done = done
        self._plays = 0
        self.flows: dict[int, Left] = {}  # the last post of each block
        self._reaches: dict[int, Left] = {}
        self._walls: dict[int, Left] = {}  # newer than the post of flows
        self._counted: set[int] = set()  # blocks whose distances count that their posts of flows hold
        self._known: dict[int, Mapping[str, Any]] = {}  # what blocks said of flows
        self._distances: dict[int, Mapping[str, Any]] = {}  # and of distances, by whichever post is newer
        self.sent = 0  # over how many arcs, in the last sweep
        self.visits = 0

    def sweeps(self) -> Generator[set[int], None, None]:
        """Until no excess has a way to a sink; after each sweep, the blocks that are to be visited next."""
        self._play_flows(self._mine, send=False)
        waiting = self._active()
        visits = self.visits
        yield waiting
        while waiting:
            before, self.sent = self.sent, 0
            for one in self._classes:
                now = waiting.intersection(one)
                if now:
                    waiting = (waiting - now) | self._play_flows(now, send=True)
            if waiting and self.sent > STAGNANT * before > 0 and self.visits - visits >= len(self._mine):
                self.settle(waiting)
                self._measure()
                waiting, visits = self._active(), self.visits
            yield waiting

    def settle(self, waiting: Iterable[int]) -> None:
        """Have blocks that flow is on its way to take it in."""
        self._play_flows(set(waiting), send=False)

    def reach(self) -> None:
        """Labels of everyone's smallest minimizer, when no excess has a way to a sink."""
        self._spread(self._told("reached"), self._play_reach)

    def certify(self) -> dict[int, Left]:
        """By block, its minimum with the flows as they are, and those to later blocks: what proves the bound."""
        tasks: dict[int, Task] = {}
        for k in self._mine:
            seams = _for(k, self.flows, self._near[k])
            message = Certify(*self._place(k), tuple(seams))
            tasks[k] = self._task(message, list(seams.values()), k)
        return self._play(tasks)

    # How it is done.

    def _active(self) -> set[int]:
        """The blocks with excess that has a way to a sink elsewhere."""
        return {k for k, known in self._distances.items() if known["active"]}

    def _play_flows(self, blocks: Iterable[int], *, send: bool) -> set[int]:
        """Have some blocks solved, and their excess sent on; the blocks that it was sent to."""
        ceiling = self._ceiling()
        tasks: dict[int, Task] = {}
        for k in sorted(blocks):
            seams, walls = _for(k, self.flows, self._near[k]), _for(k, self._walls, self._near[k])
            counted = tuple((n, n in self._counted) for n in seams)
            message = Discharge(*self._place(k), counted, tuple(walls), ceiling, send)
            tasks[k] = self._task(message, [*seams.values(), *walls.values()], k)
        receivers: set[int] = set()
        for k, left in self._play(tasks).items():
            self._supersede(self.flows, k, left)
            self._supersede(self._walls, k, None)
            self._counted.add(k)
            self._known[k] = self._distances[k] = left.summary
            self.sent += left.summary["sent"]
            receivers.update(left.summary["receivers"])
        return receivers

    def _measure(self) -> None:
        """Distances anew. Nothing is on its way, so that all blocks' sides are those of one flow."""
        self._counted.clear()
        for k in list(self._walls):
            self._supersede(self._walls, k, None)
        self._distances = {k: {"active": False, "walls": []} for k in self._mine}
        self._spread(self._told("sinks"), self._play_walls)

    def _told(self, what: str) -> set[int]:
        """The blocks that others have said something of, when they were last asked about flows."""
        return {n for known in self._known.values() for n in known[what] if n in self._mine}

    def _spread(self, touched: set[int], ask: Callable[[set[int]], set[int]]) -> None:
        """Ask blocks, and those that are touched by what these say, until nobody is.

        Class after class: what one says is news to the next, and is taken in with all the rest.
        """
        while touched:
            for one in self._classes:
                now = touched.intersection(one)
                if now:
                    touched = (touched - now) | ask(now)

    def _play_walls(self, blocks: Iterable[int]) -> set[int]:
        """Have some blocks measure distances; the neighbours to whom theirs are news."""
        tasks: dict[int, Task] = {}
        for k in sorted(blocks):
            seams, walls = _for(k, self.flows, self._near[k]), _for(k, self._walls, self._near[k])
            message = Measure(*self._place(k), tuple((n, False) for n in seams), tuple(walls))
            tasks[k] = self._task(message, [*seams.values(), *walls.values()], k)
        touched: set[int] = set()
        for k, left in self._play(tasks).items():
            self._supersede(self._walls, k, left)
            self._distances[k] = left.summary
            touched.update(n for n in left.summary["moved"] if n in self._mine)
        return touched

    def _play_reach(self, blocks: Iterable[int]) -> set[int]:
        """Have some blocks find what sources elsewhere reach in them; the neighbours that are reached from there."""
        tasks: dict[int, Task] = {}
        for k in sorted(blocks):
            seams, reached = _for(k, self.flows, self._near[k]), _for(k, self._reaches, self._near[k])
            message = Reach(*self._place(k), tuple(seams), tuple(reached))
            tasks[k] = self._task(message, [*seams.values(), *reached.values()], k)
        touched: set[int] = set()
        for k, left in self._play(tasks).items():
            self._supersede(self._reaches, k, left)
            touched.update(n for n in left.summary["reached"] if n in self._mine)
        return touched

    def _ceiling(self) -> int:
        """One more than the first distance that no site has, or as good as none where nobody has measured yet."""
        if not self._distances:
            return FAR
        present = {walls for known in self._distances.values() for walls in known["walls"]}
        first = 1
        while first in present:
            first += 1
        return first + 1

    def labels_of(self, k: int) -> Reference:
        """The labels of a block, as it left them last."""
        return (self._reaches.get(k) or self.flows[k]).parts["labels"]

    def _supersede(self, posts: dict[int, Left], k: int, left: Left | None) -> None:
        """Another post in the place of a block's last, which nobody will read any more.

        A board that others see keeps it: a run that is resumed goes over all rounds again.
        """
        before = posts.get(k)
        if left is None:
            posts.pop(k, None)
        else:
            posts[k] = left  # at once, as other threads look
        if before is not None and not self._board.shared:
            self._board.drop([before.post.name])

    def _place(self, k: int) -> tuple[FlowSolver, FixedPoint, int, Box, Box, tuple[tuple[int, Box], ...]]:
        """What every message says first."""
        near = tuple((n, self._mine[n]) for n in self._near[k])
        return self._solver, self._fixed, k, self._mine[k], self._regions[k], near

    def _task(self, message: Message, reads: Sequence[Reference], k: int) -> Task:
        return Task(message, (*reads, *self._codes[k]), f"{message.kind}-{self._plays:05}/{k:06}")

    def _play(self, tasks: Mapping[int, Task]) -> dict[int, Left]:
        self._plays += 1
        self.visits += len(tasks)
        asked = [tasks.get(k) for k in range(self._number)]
        left = self._rounds.play(asked, done=self._done(asked))
        return {k: one for k, one in enumerate(left) if one is not None}


def _for(k: int, posts: Mapping[int, Left], near: Sequence[int]) -> dict[int, Reference]:
    """What a block reads: all of its own post, first, and of its neighbours' the part that is for it."""
    own = {k: posts[k].post} if k in posts else {}
    return own | {n: posts[n].parts[str(k)] for n in near if n in posts and str(k) in posts[n].parts}


def _neighbors(k: int, box: Box, tiling: Tiling, pairs: GridPairs, among: Mapping[int, Box]) -> list[int]:
    """The other blocks with open sites that pairs of a box may lead to."""
    whole = tuple(slice(0, n) for n in tiling.shape)
    found: set[int] = set()
    for offset in [sign * row for row in pairs.offsets for sign in (1, -1)]:
        beside = common(moved(box, offset.tolist()), whole)
        found.update(() if beside is None else tiling.within(beside))
    return sorted(n for n in found if n != k and n in among)
