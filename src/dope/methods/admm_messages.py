"""What ADMM's coordinator asks of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

Some = Literal["strength", "unary"]
"""Numbers of which somebody wants the median: coupling strengths of coupled sites, or |unary| of own sites."""

# The part of a post that a block leaves for itself.
OWN = "own"


@dataclass(frozen=True)
class SketchOf:
    """Asks for a sketch of some numbers."""

    kind: ClassVar[str] = "survey"
    some: Some


@dataclass(frozen=True)
class CountOf:
    """Asks how many of them lie in a range."""

    kind: ClassVar[str] = "survey"
    some: Some
    low: float
    high: float


@dataclass(frozen=True)
class Solve:
    """Asks a block for its labels, given the consensus nearby.

    Reads nothing in the first round, or labels to begin with; afterwards what it left when it was measured, and its
    labels of the round before.
    """

    kind: ClassVar[str] = "solve"
    mu: float
    freeze: bool
    first: bool


@dataclass(frozen=True)
class Measure:
    """Asks a block for the new consensus nearby, and for its part of all that is told of the round.

    Reads its own labels, what it left for itself, and what its neighbours left for it, in their order. `relaxed` says
    whether somebody wants to see y, and, after the `first` round, at which sites it is.
    """

    kind: ClassVar[str] = "measure"
    mu: float
    relaxed: bool
    first: bool


@dataclass(frozen=True)
class Repulsion:
    """Asks a block what the repulsive pairs that begin at its own sites weigh, less those of its share.

    Summed over blocks: how far the energy can be below the shares, by pairs that no block holds, or only in part.
    """

    kind: ClassVar[str] = "repulsion"


Message = SketchOf | CountOf | Solve | Measure | Repulsion
