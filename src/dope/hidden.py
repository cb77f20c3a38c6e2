"""Hidden names for what is being written, and the end of those whose process has gone.

All that a process has under way in a folder is called `.dope-HOST-TOKEN-NUMBER`; beside it lies an empty file,
`.dope-HOST-TOKEN`, which the process keeps locked. A lock ends with its process, however that ends. So who comes later
and gets the lock knows that nobody works with these files any more, and removes them. Where another host made them, or
the file system has no locks, nothing is known, and they stay.
"""

from __future__ import annotations

import itertools
import os
import platform
import re
import secrets
import stat
import threading
import zlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"(\.dope-([0-9a-f]{8})-[0-9a-f]{8})(-.*)?")
_FLAGS = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_NUMBERS = itertools.count()


@dataclass
class _Owner:
    """The locked file of a process in a folder, and how many names depend on it."""

    path: Path
    descriptor: int
    names: int = 0


_OWNERS: dict[tuple[int, Path], _Owner] = {}  # by process, as a fork has a copy of these
_LOOKED_AT: set[Path] = set()
_TURN = threading.Lock()


@contextmanager
def hidden_name(folder: Path, suffix: str = "") -> Iterator[Path]:
    """A name that nobody else has, for something that is gone, or has another name, when the block ends.

    OSError where no file can be made in the folder. What others left behind there is removed at the first call.
    """
    folder = folder.absolute()
    with _TURN:
        if folder not in _LOOKED_AT:
            remove_abandoned(folder)
            _LOOKED_AT.add(folder)
        key = os.getpid(), folder
        owner = _OWNERS.get(key) or _own(folder)
        _OWNERS[key] = owner
        owner.names += 1
    try:
        yield folder / f"{owner.path.name}-{next(_NUMBERS)}{suffix}"
    finally:
        with _TURN:
            owner.names -= 1
            if not owner.names:
                del _OWNERS[key]
                _disown(owner)


def remove_abandoned(folder: Path) -> None:
    """Remove what processes of this host and user left in a folder that did not live to do so themselves."""
    import shutil  # here: `import dope` does not wait for it

    for owner, names in _found(folder).items():
        with suppress(OSError):
            descriptor = os.open(owner, _FLAGS)
            try:
                if stat.S_ISREG(os.fstat(descriptor).st_mode) and _lock(descriptor):
                    for name in names:
                        if name.is_dir():
                            shutil.rmtree(name, ignore_errors=True)
                        else:
                            name.unlink(missing_ok=True)
                    owner.unlink()
            finally:
                os.close(descriptor)


def _found(folder: Path) -> dict[Path, list[Path]]:
    """What lies there under names of this host, by the file of its owner. Links are nobody's."""
    found: dict[Path, list[Path]] = defaultdict(list)
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = _NAME.fullmatch(entry.name)
            if name is None or name[2] != _host() or entry.is_symlink() or not _is_ours(entry):
                continue
            names = found[Path(entry.path).with_name(name[1])]
            if name[3]:
                names.append(Path(entry.path))
    return found


def _is_ours(entry: os.DirEntry[str]) -> bool:
    return os.name != "posix" or entry.stat(follow_symlinks=False).st_uid == os.geteuid()


def _host() -> str:
    return f"{zlib.crc32(os.fsencode(platform.node())):08x}"


def _own(folder: Path) -> _Owner:
    """A new owner's file, locked where that can be done."""
    while True:
        path = folder / f".dope-{_host()}-{secrets.token_hex(4)}"
        descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        with suppress(OSError):
            if _lock(descriptor) and not os.path.samestat(os.fstat(descriptor), path.stat()):
                os.close(descriptor)  # removed before it was locked
                continue
        return _Owner(path, descriptor)


def _disown(owner: _Owner) -> None:
    if os.name != "posix":  # where nothing is removed that is open
        os.close(owner.descriptor)
    with suppress(OSError):
        owner.path.unlink()
    if os.name == "posix":
        os.close(owner.descriptor)


def _lock(descriptor: int) -> bool:
    """Whether nobody else has locked a file, and this process has, until it closes it. OSError without locks."""
    try:
        import fcntl
    except ImportError:
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
