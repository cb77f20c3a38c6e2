"""What the command line prints: whatever comes from a file or a name is shown, and never obeyed.

A name may hold sequences that retitle, recolour or rewrite a terminal, line breaks that forge a line, characters that
turn text round, bytes that are no text, and what Rich takes for markup. Everything is printed from here, so that it is
escaped in one place; and a stream that cannot be written to is dealt with here.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, cast

from dope.errors import DopeError

if TYPE_CHECKING:
    from rich.console import Console

LONGEST_LINE = 300


class NobodyReadsError(DopeError):
    """Who read the standard output has gone, as `head` does when it has seen enough."""


def printable(text: str) -> str:
    r"""The text with everything that is not simply a sign or a blank written as an escape.

    >>> print(printable("a\x1b[31m\n\u202eb"), printable("Gr\u00f6\u00dfe \u6771\u4eac"))
    a\x1b[31m\n\u202eb Größe 東京
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(sign: str) -> str:
    if sign.isprintable() or unicodedata.category(sign) == "Zs":
        return sign
    if "\udc80" <= sign <= "\udcff":  # how Python holds a byte of a name that is not UTF-8
        return f"\\x{ord(sign) - 0xDC00:02x}"
    return sign.encode("unicode_escape").decode("ascii")


def shortened(text: str, most: int = LONGEST_LINE) -> str:
    """The beginning and the end of a long text: what it is about, and what to do.

    >>> shortened("a long name: no such file; fetch it first", 30)
    'a long nam ... fetch it first'
    """
    if len(text) <= most:
        return text
    head = most // 3
    return f"{text[:head].rstrip()} ... {text[len(text) - (most - head - 5) :].lstrip()}"


def say(text: str = "") -> None:
    """A line on standard output."""
    with _standard_output():
        print(printable(text), flush=True)


def flush() -> None:
    """Write what others have printed on standard output, such as the help."""
    with _standard_output():
        sys.stdout.flush()


def complain(text: str) -> None:
    """One line about what went wrong on standard error, of at most 300 characters."""
    _write_error(shortened(f"dope: {printable(text.strip())}"))


def show_traceback(error: BaseException) -> None:
    for line in "".join(traceback.format_exception(error)).splitlines():
        _write_error(printable(line))


def progress_console() -> Console:
    """Standard error for what is told while work goes on: if nobody can see it, that is no reason to stop."""
    from rich.console import Console  # here: who asks for the version alone does not wait for it

    stream = cast(IO[str], _Tolerant(sys.stderr))
    return Console(file=stream, markup=False, emoji=False, highlight=False, soft_wrap=True)


def tell(console: Console, text: str) -> None:
    """A line among what is told while work goes on."""
    console.print(printable(text))


def prepare_streams() -> None:
    """For a process of our own: all three streams are there, and take any name whatever their encoding."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The next file that is opened would get the number, and then what is printed.
            os.open(os.devnull, os.O_RDWR)
    # Where a stream was closed, Python has None.
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class _Tolerant:
    """A stream of which nobody learns that it cannot be written to."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except (OSError, ValueError):
            _give_up(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except (OSError, ValueError):
            _give_up(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _write_error(line: str) -> None:
    stream = _Tolerant(sys.stderr)
    stream.write(f"{line}\n")
    stream.flush()


@contextmanager
def _standard_output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        _give_up(sys.stdout)
        raise NobodyReadsError("nobody reads the standard output") from error
    except OSError as error:
        _give_up(sys.stdout)
        reason = (error.strerror or str(error)).lower()
        raise DopeError(f"cannot write to standard output: {reason}; files that were asked for are whole.") from error


def _give_up(stream: IO[str]) -> None:
    """Let what is still in a stream's buffer go nowhere, or the interpreter fails at it once more when it ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
