"""Run: work under way, what happens in it, and a hold on it."""

from dope.run.events import BlockBegun, BlockDone, Event, Finished, Stepped, event_in_plain
from dope.run.run import BlockState, Conductor, Job, Listener, Outcome, Run

__all__ = [
    "BlockBegun",
    "BlockDone",
    "BlockState",
    "Conductor",
    "Event",
    "Finished",
    "Job",
    "Listener",
    "Outcome",
    "Run",
    "Stepped",
    "event_in_plain",
]
