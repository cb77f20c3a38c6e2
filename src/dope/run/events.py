"""What happens in a run, as small values: whoever shows progress, draws a timeline or writes a trace reads these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dope.arrays import Box
from dope.result import Result
from dope.steps import Step, plain


@dataclass(frozen=True)
class BlockBegun:
    """Somebody began to work on a block. `where` is its box, None on a graph; `seconds` since the run began."""

    block: int
    where: Box | None
    doing: str
    seconds: float


@dataclass(frozen=True)
class BlockDone:
    """A block's reply is there: `done` of the `asked` blocks that were to do the same."""

    block: int
    where: Box | None
    doing: str
    done: int
    asked: int
    seconds: float


@dataclass(frozen=True)
class Stepped:
    """A round is over; the step without its arrays."""

    step: Step


@dataclass(frozen=True)
class Finished:
    """The run is over."""

    result: Result
    seconds: float


Event = BlockBegun | BlockDone | Stepped | Finished


def event_in_plain(event: Event) -> dict[str, Any]:
    """An event in what JSON knows."""
    match event:
        case Stepped(step):
            return {"event": "step", **plain(step)}
        case Finished(result, seconds):
            return {"event": "finished", **result.summary(), "seconds": seconds}
        case BlockBegun() | BlockDone():
            name = "block begun" if isinstance(event, BlockBegun) else "block done"
            where = None if event.where is None else [[s.start, s.stop] for s in event.where]
            told: dict[str, Any] = {"event": name, "block": event.block, "where": where, "doing": event.doing}
            if isinstance(event, BlockDone):
                told |= {"done": event.done, "asked": event.asked}
            return {**told, "seconds": event.seconds}
