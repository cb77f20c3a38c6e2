"""The core's flows: of pairs on a grid or a graph, whole or stored by blocks; and such that check themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dope import _core
from dope.arrays import BinaryLabels, Sites
from dope.errors import InputError
from dope.fixed_point import FixedPoint
from dope.flows import BlockFlow, Flow
from dope.pairs import GridPairs, Pairs
from dope.partition import Partition


@contextmanager
def input_errors() -> Iterator[None]:
    """What the core refuses is the caller's input, and its words say why."""
    try:
        yield
    except ValueError as error:
        raise InputError(str(error)) from error


def open_flow(pairs: Pairs, fixed: FixedPoint) -> _core.GridFlow | _core.GraphFlow:
    """One flow over these pairs."""
    with input_errors():
        if isinstance(pairs, GridPairs):
            return _core.GridFlow(pairs.native(), fixed.scale, fixed.bits)
        return _core.GraphFlow(pairs.sites, (pairs.first, pairs.second), pairs.weights, fixed.scale, fixed.bits)


def open_blocks(pairs: Pairs, partition: Partition, fixed: FixedPoint) -> _core.BlockFlow:
    """One residual graph of these pairs, stored by blocks."""
    with input_errors():
        if isinstance(pairs, GridPairs):
            assert partition.cuts is not None
            return _core.BlockFlow.grid(pairs.native(), fixed.scale, fixed.bits, partition.cuts)
        number, members = len(partition.blocks), partition.block_numbers()
        ends = (pairs.first, pairs.second)
        return _core.BlockFlow.graph(pairs.sites, ends, pairs.weights, fixed.scale, fixed.bits, members, number)


class CheckedFlow:
    """A flow that is checked after all that moves it. Every other call is the flow's own."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def __getattr__(self, name: str) -> Any:
        return getattr(self._flow, name)

    def minimize(self, unary: Any) -> None:
        self._flow.minimize(unary)
        self._flow.check()

    def change(self, sites: Sites, unary: Any) -> None:
        self._flow.change(sites, unary)
        self._flow.check()


class CheckedBlockFlow:
    """The same of a residual graph that is stored by blocks: a group is checked after all that searches it."""

    def __init__(self, flow: BlockFlow) -> None:
        self._flow = flow

    def __getattr__(self, name: str) -> Any:
        return getattr(self._flow, name)

    def solve(self, g: int) -> None:
        self._flow.solve(g)
        self._flow.check(g)

    def discharge(self, g: int) -> None:
        self._flow.discharge(g)
        self._flow.check(g)

    def bracket(self, g: int, outside: bool) -> BinaryLabels:
        labels = self._flow.bracket(g, outside)
        self._flow.check(g)
        return labels
