"""The run of `dope segment`: read, minimize, write; or what all that would take."""

from __future__ import annotations

from contextlib import ExitStack, closing
from functools import cache
from typing import Any

import numpy as np

from dope.cli.certified import note_energy
from dope.cli.clock import Clock
from dope.cli.exits import CANCELLED, Cancel, exit_code
from dope.cli.mask_outputs import Outputs
from dope.cli.outcome import Outcome
from dope.cli.outputs import SideOutputs
from dope.cli.pictures import Seen, page_content
from dope.cli.progress import at_work
from dope.cli.record import write_record
from dope.cli.screen import complain, progress_console, say
from dope.cli.tables import print_rows
from dope.cli.trace import TraceFile
from dope.cli.watch import Watch
from dope.io import LabelTarget, save_labels, stored, write_image, write_text
from dope.report import page
from dope.segmentation import Segmentation


def print_plan(said: Segmentation, outputs: Outputs) -> None:
    """What the run would do, and take."""
    with ExitStack() as stack:
        _close_in_the_end(stack, said)
        described = said.files().described
        rows = described.plan(**outputs.planned(described.shape)).rows()
    if outputs.mask is not None:
        rows["labels"] = outputs.mask
    else:
        del rows["labels"]
    print_rows(rows)
    say()
    say("nothing was computed (--dry-run)")


def run(said: Segmentation, outputs: Outputs, seconds: float | None) -> int:
    """The exit code."""
    clock, console = Clock(), progress_console()
    with ExitStack() as stack:
        cancel = stack.enter_context(Cancel())
        _close_in_the_end(stack, said)
        with clock.counting("reading"), at_work(console, f"reading {said.image}"):
            files = said.files()
            shape = files.described.shape
            outputs.check_shape(shape)
            plan = files.described.plan(**outputs.planned(shape))
            opened = stack.enter_context(files.open(in_boxes=plan.in_boxes, scratch=outputs.folder))
        assert opened.image is not None
        target = None
        if plan.in_boxes:
            target = stack.enter_context(outputs.open_mask(opened.image, files.described.label_count))
        trace = stack.enter_context(TraceFile(outputs.trace, overwrite=outputs.overwrite))
        with at_work(console, "minimizing") as show:
            watch = Watch(cancel, show, None if seconds is None else clock.begun + seconds, [trace])
            result = opened.said.run(plan=plan, out=target, watch=watch, tell=watch.tell)
        clock.spent["minimizing"] = result.seconds
        outcome = Outcome(said, opened, result, clock, watch.late)
        if cancel.asked and not outputs.save_on_cancel:
            if target is not None:
                target.abandon()
            complain("cancelled, nothing was written; --save-on-cancel writes the best mask so far")
            return CANCELLED
        with clock.counting("writing"), at_work(console, "writing"):
            # The mask first: whatever becomes of the others, it is there.
            _write_mask(outcome, outputs)
            side = _write_others(outcome, outputs, trace)
        assert outputs.mask is not None
        print_rows(outcome.rows([outputs.mask, *side.written]))
    early = result.stopped == "undecided" or outcome.stopped_early
    return exit_code(cancelled=cancel.asked, incomplete=side.failed, early=early)


def _close_in_the_end(stack: ExitStack, said: Segmentation) -> None:
    """Ends a cluster that was started for this run."""
    executor: Any = said.executor
    if hasattr(executor, "close"):
        stack.enter_context(closing(executor))


def _write_mask(outcome: Outcome, outputs: Outputs) -> None:
    result = outcome.result
    assert outputs.mask is not None
    if isinstance(result.out, LabelTarget):  # where labels are already
        result.out.commit()
    else:
        number = None if result.classes is None else result.label_count
        labels, image = np.asarray(result.labels), outcome.opened.image
        save_labels(outputs.mask, labels, like=image, overwrite=outputs.overwrite, label_count=number)


def _write_others(outcome: Outcome, outputs: Outputs, trace: TraceFile) -> SideOutputs:
    """What is asked for beside the mask, which is in its file by now."""
    side, overwrite = SideOutputs(), outputs.overwrite
    if outputs.certificate is not None:
        with side.alone(outputs.certificate):
            note_energy(outputs.certificate, outcome.said, outcome.result)
    seen = cache(lambda: Seen.of(outcome, _written_labels(outcome, outputs)))
    if outputs.trace is not None:
        with side.alone(outputs.trace):
            trace.finish()
    if outputs.json is not None:
        with side.alone(outputs.json):
            write_record(outputs.json, outcome.record(), overwrite=overwrite)
    if outputs.overlay is not None:
        with side.alone(outputs.overlay):
            write_image(outputs.overlay, seen().picture(), overwrite=overwrite)
    if outputs.report is not None:
        with side.alone(outputs.report):
            write_text(outputs.report, page(page_content(outcome, seen())), overwrite=overwrite)
    return side


def _written_labels(outcome: Outcome, outputs: Outputs) -> Any:
    """Labels to draw; of those that were written box by box, what is in the file."""
    if outcome.opened.scratch is None:
        return outcome.result.labels
    assert outputs.mask is not None
    return stored(outputs.mask, outcome.opened.scratch).pixels
