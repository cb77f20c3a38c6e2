"""Reading files that may be anything; `durable` writes them."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dope.bounded import open_regular
from dope.cancellation import Cancelled, check_cancelled
from dope.durable import reason
from dope.errors import DopeError, InputError

Name = str | os.PathLike[str]
"""What a file is called."""

# Bytes that are unpacked in one go: enough for speed, little beside any volume.
_PIECE = 1 << 20


@contextmanager
def open_file(path: Path, kind: str) -> Iterator[BinaryIO]:
    """A regular file, open; whatever goes wrong while it is read is one line about it."""
    with reading(path), open_regular(path, kind) as stream:
        yield stream


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Whatever goes wrong in a decoder, as one line about the file.

    On bytes that are not what they should be, decoders raise all there is, failed assertions among it: hence
    `Exception`. What was raised stays attached as the cause.
    """
    try:
        yield
    except (DopeError, Cancelled):
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{path}: no such file") from error
    except OSError as error:
        if error.errno is None:  # a decoder's, about the content
            raise _damaged(path, error) from error
        raise InputError(f"{path}: cannot be read, {reason(error)}") from error
    except MemoryError as error:
        raise InputError(f"{path}: does not fit into memory; cut it up first") from error
    except Exception as error:
        raise _damaged(path, error) from error


@contextmanager
def about(path: Path) -> Iterator[None]:
    """The same, and errors name the file, whoever raises them."""
    with reading(path):
        try:
            yield
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(f"{path}: damaged or cut short ({in_one_line(error)}); get a whole copy")


def unseen(path: Path) -> InputError:
    """That a file, which was there when it was opened, is not there for who reads it."""
    return InputError(
        f"{path}: no such file on {platform.node()}, where its pixels are needed; "
        "put it on a file system that all workers see, and leave it there"
    )


def in_one_line(error: Exception) -> str:
    """What an error says, for the inside of another one."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 160 else f"{text[:157]}..."


def fill(array: NDArray[Any], stream: IO[bytes]) -> None:
    """Fill an array, which must be in one piece, with the next bytes of a stream, and never read more than these."""
    target = array.reshape(-1, order="A").view(np.uint8)
    done = 0
    while done < len(target):
        check_cancelled()
        piece = stream.read(min(_PIECE, len(target) - done))
        if not piece:
            raise EOFError(f"ends {len(target) - done:,} bytes early")
        target[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)


def copy(stream: IO[bytes], target: IO[bytes], length: int) -> None:
    """Copy the next bytes of a stream, and never read more than these."""
    while length:
        check_cancelled()
        piece = stream.read(min(_PIECE, length))
        if not piece:
            raise EOFError(f"ends {length:,} bytes early")
        target.write(piece)
        length -= len(piece)
