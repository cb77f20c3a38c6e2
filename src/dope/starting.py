"""Ctrl-C while the command `dope` loads its modules: one line and exit code 130, as at any later time.

This concerns the command alone; a program that imports dope decides for itself.
"""

import os
import signal
import sys
from types import FrameType

CANCELLED = 130


def leave(number: int, frame: FrameType | None) -> None:
    """End at once: nothing has been opened yet that would have to end well."""
    del number, frame
    os.write(2, b"dope: cancelled\n")
    os._exit(CANCELLED)


def end() -> None:
    """All is loaded: from here on Ctrl-C interrupts, as there may be things that have to end well."""
    if signal.getsignal(signal.SIGINT) is leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def is_command() -> bool:
    """Whether this process was started as `dope` or `python -m dope.cli`, and is none of its workers."""
    first, started = sys.argv[:1], sys.orig_argv
    if first == ["-m"]:  # as long as the module is looked for
        return "dope.cli" in started
    name = "".join(first).replace("\\", "/").rpartition("/")[2].lower()
    return name in ("dope", "dope.exe", "dope-script.py") and first[0] in started


if is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, leave)
