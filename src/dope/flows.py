"""What methods use of the flows that a solver opens: of one over some pairs, and of one that is stored by blocks."""

from __future__ import annotations

import builtins
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Sites


class Flow(Protocol):
    """A maximum flow over some pairs, in whole numbers of 1 / scale; each call goes on from the flow of the last.

    One thread at a time. ValueError (InputError is one) where a cost cannot be counted.
    """

    @property
    def bytes(self) -> int:
        """Bytes held."""
        ...

    def minimize(self, unary: npt.NDArray[np.float64], /) -> None:
        """Minimize with this unary, shaped like the pairs."""
        ...

    def change(self, sites: Sites, unary: npt.NDArray[np.float64], /) -> None:
        """Minimize again where only the unary of these sites (flat positions) has changed, to these values."""
        ...

    def labels(self, largest: bool = False) -> BinaryLabels:
        """The minimizer with the fewest True, or with the most."""
        ...

    def value(self) -> float:
        """The minimum, rounded down to a float."""
        ...

    def minimum(self) -> int:
        """The minimum in units of 1 / scale."""
        ...

    def check(self) -> None:
        """Recompute slowly what must hold after `minimize` and `change`; RuntimeError where it does not."""
        ...


SeamFlows = tuple[Sites, Sites, npt.NDArray[np.int64]]
"""Sites, sites of other blocks, and what flows from the former to the latter in units of 1 / scale."""


class BlockFlow(Protocol):
    """One residual graph that is stored, and searched, block by block.

    Blocks have numbers, those of the partition. Arcs between them are shut by walls: what flows over a wall is moved by
    `push`, `discharge` and `impose` alone. Blocks that were merged are a group, named by its first block; `k` is
    a block, `g` a group. Calls that name one may be made by several threads at once, for different groups; all others
    by one thread while no other is at work. Bounds, gaps and flows are in units of 1 / scale.
    """

    @property
    def blocks(self) -> int: ...

    @property
    def parts(self) -> int:
        """How many parts there are to fill, at least one per block."""
        ...

    @property
    def bytes(self) -> int:
        """Bytes held."""
        ...

    def group(self, k: int, /) -> int:
        """The group of a block."""
        ...

    def members(self, g: int, /) -> list[int]:
        """The blocks of a group."""
        ...

    def neighbors(self, k: int, /) -> list[int]:
        """The blocks that a block may have pairs with."""
        ...

    def fill(self, part: int, /) -> None:
        """Compute the capacities of a part."""
        ...

    def finish(self) -> None:
        """When all parts are filled."""
        ...

    def wall_in(self, k: int, /) -> None:
        """Shut the arcs that leave a block."""
        ...

    def price(self, k: int, unary: npt.NDArray[np.float64], before: npt.NDArray[np.float64] | None = None, /) -> None:
        """Give a block its unary (flat), instead of an earlier one or of none."""
        ...

    def impose(self, first: Sites, second: Sites, amount: npt.NDArray[np.int64], sites: int, /) -> None:
        """Let flow run over walls before anything is solved."""
        ...

    def balance(self, k: int, /, shifted: bool) -> None:
        """Let flow run inside a block of a grid that makes its excesses less, before it is solved: a start, no more.

        It does so in tiles; where they are `shifted`, over the borders of the others.
        """
        ...

    def solve(self, g: int, /) -> None:
        """Minimize a group with the flow over its walls as it is."""
        ...

    def bound(self, k: int, /) -> int:
        """The minimum of a block."""
        ...

    def labels(self, k: int, /, of_all: bool = False) -> BinaryLabels:
        """A block's part of its group's smallest minimizer or, once certified, of everyone's."""
        ...

    def bracket(self, g: int, /, outside: bool) -> BinaryLabels:
        """The smallest minimizer of a group with label 0 outside, or the largest with label 1, block after block."""
        ...

    def survey(self, k: int, /) -> tuple[int, int, int]:
        """What a block's labels cost at its walls beyond its bound, the arcs in conflict, and its sites that differ."""
        ...

    def certify(self) -> bool:
        """Whether no path is left, where no survey found a conflict."""
        ...

    def push(self) -> int:
        """Push flow over every conflict; how much."""
        ...

    def changed(self) -> list[int]:
        """The groups to solve again."""
        ...

    def disputes(self) -> list[tuple[int, int, float]]:
        """(group, group, what could flow over their conflicts) for all that disagree."""
        ...

    def merge(self, g: int, h: int, /) -> None:
        """Make two groups one."""
        ...

    def part(self, k: int, /) -> None:
        """Once certified: take a block's pairs between different labels out of the graph; what flows over them stays.

        Done for all blocks; then `regroup` and `wall_in` follow, and a new unary. Bounds mean nothing from then on.
        """
        ...

    def regroup(self) -> None:
        """Every block is a group by itself again."""
        ...

    def measure(self) -> None:
        """Find how many walls lie between every site and a sink; before discharges."""
        ...

    def discharge(self, g: int, /) -> None:
        """Send excess over the walls, towards the nearest sinks."""
        ...

    def deliver(self) -> None:
        """What was discharged arrives."""
        ...

    def flows(self, k: int, /) -> SeamFlows:
        """What flows over the walls of a block to sites that come later."""
        ...

    def pushed(self) -> SeamFlows:
        """The same for all blocks, while nothing was merged or discharged."""
        ...

    def check(self, g: int, /) -> None:
        """Recompute slowly what must hold after `solve`, `discharge` and `bracket`; RuntimeError where it does not."""
        ...


class SurroundedFlow(BlockFlow, Protocol):
    """One whose blocks, but one, live elsewhere: it holds that block and the sites around it, which are never solved.

    How far the sites around are from a sink (`surround`), what flows over the walls (`carry`) and which sites have a
    label for good (`hold`) is told. Sites are those of the region, in its own order.
    """

    def save(self, k: int, /) -> builtins.bytes:
        """What the solved block knows beside the stores; with those, all that its next call goes on from."""
        ...

    def load(self, k: int, saved: builtins.bytes, /) -> None:
        """What `save` gave, for one of the same shape, opened alike and finished, that was given those stores."""
        ...

    def stores(self) -> list[npt.NDArray[np.uint8]]:
        """Where excesses, residuals and forests lie: arrays of bytes, to be written elsewhere and read back."""
        ...

    def hold(self, k: int, held: npt.NDArray[np.uint8], /) -> None:
        """Have flow over walls do what sites with a label for good do (1: label 0, 2: label 1; else 0)."""
        ...

    def carry(self, k: int, first: Sites, second: Sites, amount: npt.NDArray[np.int64], /) -> None:
        """Let flow run from sites of the block (first) to sites around (second); ValueError where a pair holds less."""
        ...

    def wall_flows(self, k: int, /) -> SeamFlows:
        """All that flows over the walls of the block, seen from its sites."""
        ...

    def surround(self, sites: Sites, walls: npt.NDArray[np.int32], /) -> None:
        """How many walls lie between sites around and a sink; those that are not named reach none."""
        ...

    def measure_from(self, k: int, most: int, /) -> None:
        """Find how many walls lie between sites of the block and a sink; more than `most` is out of reach."""
        ...

    def border(self, k: int, /) -> tuple[Sites, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The block's sites with pairs over walls, their distances (-1: they reach no sink), and their sides.

        A side is 1 where sources inside the block reach the site, -1 where it reaches sinks inside, 0 otherwise.
        """
        ...

    def reach(self, k: int, sites: Sites, /) -> Sites:
        """Sources elsewhere reach these sites: labels `of_all` count them in. The sites around that they lead to."""
        ...
