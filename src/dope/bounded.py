"""Files that may be anything: only regular ones are opened, and no more of them is read than was asked for.

A pipe keeps who opens it waiting, a device may have no end, and either can stand where a file is expected. Whether a
path is one is looked up before it is opened, because opening a device can have effects, and again afterwards, because
something else may have taken the name in between.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from dope.errors import InputError

# O_NONBLOCK: should a pipe have taken the name after all, opening it does not wait for who writes. For regular files it
# means nothing. Windows has other names for some, and no pipes among its files.
_FLAGS = os.O_RDONLY
for _name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"):
    _FLAGS |= getattr(os, _name, 0)

# What systems take for a path at most, or more; to follow a longer one step by step takes long.
_LONGEST_NAME = 4096


def check_name(path: str | os.PathLike[str]) -> None:
    """Refuse what no file can be called, before it ends in an error without a file's name."""
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        raise InputError(f"{os.fspath(path)!r}: no name of a file, as it holds half a character") from None
    if len(encoded) > _LONGEST_NAME:
        raise InputError(f"{os.fspath(path)[:40]!r}...: a name of {len(encoded)} bytes; no file has one so long")
    if b"\0" in encoded:
        raise InputError(f"{os.fspath(path)!r}: no name of a file, as it holds a zero byte")


def check_path(path: str | os.PathLike[str]) -> None:
    """The same, and refuse what leads to no file however long it is followed."""
    check_name(path)
    try:
        Path(path).stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(f"{path}: a link that leads back to itself; name a file") from error


def open_regular(path: Path, kind: str, *, buffering: int = -1) -> BinaryIO:
    """A file with something in it, open for reading; `kind` says in errors what was expected."""
    check_path(path)
    _check(path, path.stat(), kind)
    descriptor = os.open(path, _FLAGS)
    try:
        _check(path, os.fstat(descriptor), kind)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb", buffering)


def read_regular(path: Path, kind: str, *, most: int) -> bytes:
    """All of a file that is not longer than `most` bytes."""
    with open_regular(path, kind) as stream:
        content = stream.read(most + 1) if os.fstat(stream.fileno()).st_size <= most else None
    if content is None or len(content) > most:
        raise InputError(f"{path}: larger than {most >> 20} MB; expected a {kind} file, which is small")
    return content


def _check(path: Path, status: os.stat_result, kind: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise InputError(f"{path}: a folder; expected a {kind} file")
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path}: a device or pipe; expected a {kind} file")
    if status.st_size == 0:
        raise InputError(f"{path}: empty; expected a {kind} file")
