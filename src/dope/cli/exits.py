"""How a command ends: exit codes, one line for what went wrong, and Ctrl-C."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import warnings
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

import typer
from typer.core import TyperCommand, TyperGroup

from dope import starting
from dope.cli import screen
from dope.cli.flags import flags_of, in_flags
from dope.errors import DopeError

DEFECT = 1
BAD_INPUT = 2
STOPPED_EARLY = 3
INCOMPLETE = 4
UNPROVED = 5
CANCELLED = starting.CANCELLED
UNREAD = 141
"""What a shell says of a program whose reader has gone: 128 + SIGPIPE."""

EXIT_CODES = (
    "Exit codes: 0 when all went well, 1 for a defect of dope, 2 for bad input or labels that cannot be written, 3 "
    "when a run stopped before it was done, 4 when the labels are there but another output (overlay, report, JSON, "
    "trace) is missing or incomplete, 5 when dope verify "
    "does not find the labels proved, 130 after Ctrl-C, 141 when nobody reads the output any more."
)


class Commands(TyperGroup):
    """The commands, all of which end here: in an exit code and, where something went wrong, in one line.

    `debug` shows what lies behind that line: where it was raised, warnings, and what libraries log.
    """

    debug = False

    def main(self, *args: Any, **extra: Any) -> Any:
        # Standing alone, typer would print errors of usage itself: in a frame of many lines, names as they are.
        raise SystemExit(self._ended(lambda: super(Commands, self).main(*args, **{**extra, "standalone_mode": False})))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])

    def invoke(self, ctx: Any) -> Any:
        raise typer.Exit(self._ended(lambda: super(Commands, self).invoke(ctx)))

    def get_params(self, ctx: Any) -> list[Any]:
        return without_values(super().get_params(ctx))

    def _ended(self, work: Callable[[], Any]) -> int:
        """The exit code of some work, after the line about what went wrong."""
        try:
            code = work()
            screen.flush()
        except typer.Exit as ended:
            return ended.exit_code
        except (KeyboardInterrupt, typer.Abort):
            screen.complain("cancelled")
            return CANCELLED
        except screen.NobodyReadsError:
            return UNREAD
        except Exception as error:
            if self.debug:
                screen.show_traceback(error)
            code, words = _judged(error)
            screen.complain(words)
        return code if isinstance(code, int) else 0


class Later(TyperCommand):
    """A command that is imported when it is run, or asked for its help: others do not wait for it."""

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        assert self.name is not None
        command = typer.Typer(add_completion=False)
        command.command(self.name, cls=Command, epilog=EXIT_CODES)(function_of(self.name))
        made = typer.main.get_command(command)
        starting.end()
        return made.make_context(info_name, args, parent=parent, **extra)


class Command(TyperCommand):
    """A command that was imported; its errors name its options in place of the library's arguments."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except DopeError as error:
            error.args = (in_flags(str(error), flags_of(self.params)), *error.args[1:])
            raise

    def get_params(self, ctx: Any) -> list[Any]:
        return without_values(super().get_params(ctx))


def function_of(command: str) -> Callable[..., Any]:
    """The function that a command runs."""
    function: Callable[..., Any] = getattr(importlib.import_module(f"dope.cli.{command}"), command)
    return function


def without_values(params: list[Any]) -> list[Any]:
    """The same parameters; flags say in their help that they take no value."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def _judged(error: Exception) -> tuple[int, str]:
    """The exit code of an error, and what is said about it."""
    if isinstance(error, DopeError):
        return BAD_INPUT, str(error)
    if hasattr(error, "format_message"):  # typer's, of a command line that it could not read
        return BAD_INPUT, _usage(error)
    if isinstance(error, MemoryError):
        return BAD_INPUT, "there is not enough memory for this; take a part of the image, more blocks or less --memory"
    if isinstance(error, OSError):
        name = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        return BAD_INPUT, f"{name}{(error.strerror or str(error) or type(error).__name__).lower()}"
    return DEFECT, (
        f"a defect of dope, {type(error).__name__}: {str(error).strip() or 'without a word'}; "
        "dope --debug shows where: please report that"
    )


def _usage(error: Any) -> str:
    context = getattr(error, "ctx", None)
    path = "dope" if context is None else context.command_path
    return f"{' '.join(error.format_message().split()).rstrip('.')}. See {path} --help"


def be_quiet() -> None:
    """For a process of our own: libraries keep to themselves what they warn of, and log."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)


def be_talkative() -> None:
    """The opposite, for who looks for the cause of something."""
    warnings.simplefilter("default")
    logging.disable(logging.NOTSET)


def warn(text: str) -> None:
    """One line on stderr about what went wrong, while the rest goes on."""
    screen.complain(f"warning: {text}")


def exit_code(*, cancelled: bool, incomplete: bool, early: bool) -> int:
    """Of a run that wrote its labels. That it stopped early stands in its table; that a file is missing, nowhere."""
    if cancelled:
        return CANCELLED
    if incomplete:
        return INCOMPLETE
    return STOPPED_EARLY if early else 0


class Cancel:
    """While it is entered, the first Ctrl-C only sets `asked`, so that work can end well; the next one interrupts.

    Before the first round there is nothing that could end well, and the first one interrupts.
    """

    def __init__(self) -> None:
        self.asked = False
        self.rounds = 0
        self._before: Any = None
        self._before_term: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._ask)
        # What a batch system sends when the time is up: ends at once, but leaves nothing half-written behind.
        self._before_term = signal.signal(signal.SIGTERM, signal.default_int_handler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)
        signal.signal(signal.SIGTERM, self._before_term)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if not self.rounds:
            raise KeyboardInterrupt
        # Straight to the descriptor: the signal may have come in the middle of a print.
        with suppress(OSError):
            os.write(2, b"\ndope: stopping after this round; Ctrl-C again to stop at once\n")
