"""Reading files that may be anything, and writing files and folders as a whole or not at all."""

from __future__ import annotations

import os
import platform
import secrets
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dope.bounded import open_regular
from dope.errors import DopeError, InputError

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
    except DopeError:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{path}: no such file") from error
    except OSError as error:
        if error.errno is None:  # a decoder's, about the content
            raise _damaged(path, error) from error
        raise InputError(f"{path}: cannot be read, {_reason(error)}") from error
    except MemoryError as error:
        raise InputError(f"{path}: does not fit into memory; cut it up first") from error
    except Exception as error:
        raise _damaged(path, error) from error


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
        piece = stream.read(min(_PIECE, len(target) - done))
        if not piece:
            raise EOFError(f"ends {len(target) - done:,} bytes early")
        target[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)


def copy(stream: IO[bytes], target: IO[bytes], length: int) -> None:
    """Copy the next bytes of a stream, and never read more than these."""
    while length:
        piece = stream.read(min(_PIECE, length))
        if not piece:
            raise EOFError(f"ends {length:,} bytes early")
        target.write(piece)
        length -= len(piece)


def check_target(path: Path, overwrite: bool) -> None:
    """Refuse a file that could not be written: no such folder, not writable, or there already."""
    if path.is_dir():
        raise InputError(f"{path}: a folder; name a file to write")
    if path.exists() and not overwrite:
        raise InputError(
            f"{path}: there already; choose another name, or ask for it to be replaced (overwrite=True, --overwrite)"
        )
    check_folder(path)


def check_folder(path: Path) -> None:
    """Refuse a folder in which `path` cannot be made; found out by trying, as permissions do not say all."""
    probe = _sibling(path)
    try:
        probe.open("xb").close()
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        with suppress(OSError):
            probe.unlink()


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside `path` that takes its name when the block ends well, and vanishes when not.

    Readers see the old file or the new one, never a part of it; so does who looks after the power has failed.
    """
    path = Path(path)
    with hidden_file(path) as temporary:
        yield temporary
        _flush(temporary)
        temporary.replace(path)
        _flush_folder(path.parent)


@contextmanager
def hidden_file(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that vanishes when the block ends, unless it has been renamed."""
    temporary = _sibling(path)
    try:
        temporary.open("xb").close()
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        with writing(path):
            yield temporary
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the system says against writing, as one line about the file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {_reason(error)}") from error


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text as a whole or not at all; an existing file is replaced in one step."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """The same as `replacing` for a folder.

    Folders cannot be exchanged in one step everywhere: an old one is moved aside, the new one takes its place, and
    comes back if that fails. For a moment between the two there is none.
    """
    with hidden_folder(path) as temporary:
        yield temporary
        take_place(temporary, path)


@contextmanager
def hidden_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path` that vanishes when the block ends, unless it has been renamed."""
    temporary = _sibling(path)
    try:
        temporary.mkdir()
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        with writing(path):
            yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def take_place(folder: Path, path: Path) -> None:
    """Put a folder, and all that is in it, into the place of another one or of none."""
    _flush_tree(folder)
    if not path.exists():
        folder.rename(path)
    else:
        aside = _sibling(path)
        path.rename(aside)
        try:
            folder.rename(path)
        except OSError:
            aside.rename(path)
            raise
        shutil.rmtree(aside, ignore_errors=True)
    _flush_folder(path.parent)


def _flush(path: Path) -> None:
    """Wait until a file is on the disk."""
    with path.open("r+b") as stream:
        os.fsync(stream.fileno())


def _flush_folder(path: Path) -> None:
    """The same for the names in a folder, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems cannot
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush_tree(folder: Path) -> None:
    # Several at a time: a disk orders what waits for it.
    with ThreadPoolExecutor(8) as pool:
        for place, _, names in os.walk(folder):
            for _ in pool.map(_flush, [Path(place, name) for name in names]):
                pass
            _flush_folder(Path(place))


def _sibling(path: Path) -> Path:
    """A hidden name beside `path`. The suffix stays, because writers choose the format by it."""
    return path.with_name(f".{path.stem}-{secrets.token_hex(4)}{path.suffix}")


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot write {path}: {_reason(error)}; choose a folder that exists and is writable")


def _reason(error: OSError) -> str:
    # NumPy counts what could not be written, but does not say why.
    return error.strerror.lower() if error.strerror else f"{in_one_line(error)}; is the disk full?"
