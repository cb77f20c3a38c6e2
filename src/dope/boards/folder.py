"""A board in a folder that all workers see: it is the checkpoint of its run.

    DIR/manifest.json        what is being solved, and how, and a random name of this run; written first
    DIR/owner                who coordinates it now: of two that resume one folder, the first stops
    DIR/prove-01/000012      the post of block 12 in pass 1; DIR/flow-00003/000012 that in round 3 of flows; and so on

Every file is whole or not there, and begins with the hash of the manifest and of itself: one of another run, also of
the same problem, is none, nor is one that is damaged. A post that is missing is made again.

The hashes find mistakes and damage, not forgery: who can write into the folder decides the labels. Nothing in it is
executed, and no clock is looked at.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import socket
import stat
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO

from dope.cancellation import check_cancelled
from dope.durable import write_durably
from dope.errors import DopeError, InputError

VERSION = 3
MANIFEST, OWNER = "manifest.json", "owner"
# Larger than any manifest, and no burden on memory.
MOST_MANIFEST_BYTES = 16 << 20
# Network file systems tell of new files late: up to 60 s with the usual settings of NFS.
SECONDS_TO_SEE = 90.0
# Its folder is older than any worker that looks for it.
SECONDS_UNSEEN = 2.0
# More than the posts of any block that fits into memory.
MOST_POST_BYTES = 1 << 34


class FolderBoard:
    """Posts in the files of a folder."""

    shared = True

    def __init__(self, folder: str | os.PathLike[str], *, resume: bool = False) -> None:
        """`resume`: go on from what is in the folder; else it must be new or empty."""
        self.folder = Path(folder)
        self._resume = resume
        self._identity = ""
        self._token: str | None = None
        if resume:
            read_manifest(self.folder)
        else:
            require_new(self.folder)

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        return _elsewhere, (str(self.folder.absolute()), self._identity)

    def begin(self, manifest: dict[str, Any]) -> None:
        self._identity = _goes_on(self.folder, manifest) if self._resume else _begun(self.folder, manifest)
        self._token = secrets.token_hex(16)
        _make_way(self.folder / OWNER)
        write_durably(self.folder / OWNER, self._token.encode())

    def require_owner(self) -> None:
        """Refuse to go on where another process coordinates this board now."""
        if self._token is None:
            return
        try:
            found = _content(self.folder / OWNER, 1 << 10).decode("ascii", "replace")
        except OSError as error:
            raise DopeError(
                f"cannot read {self.folder / OWNER}: {_why(error)}; expected the folder of this run."
            ) from error
        if found != self._token:
            raise DopeError(
                f"another run has resumed {self.folder} and goes on there; this one stops. Let one run at a time use a "
                f"folder."
            )

    def post(self, name: str, content: bytes, *, replace: bool = False) -> bool:
        path = self.folder / name
        try:
            try:
                return self._place(path, name, content, replace)
            except OSError:  # such as a first post, which has no folder yet
                self._require_visible()
                _make_way(path)
                return self._place(path, name, content, replace)
        except OSError as error:
            raise DopeError(
                f"cannot write {path} on {socket.gethostname()}: {_why(error)}; what was written before is whole, and "
                f"the run can be resumed."
            ) from error

    def _place(self, path: Path, name: str, content: bytes, replace: bool) -> bool:
        """Write a post whole, and then give it its name; whether it got it."""
        temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
        try:
            with temporary.open("xb") as stream:
                stream.write(self._head(name, content))
                stream.write(content)
            if not replace:
                if _placed(temporary, path):
                    return True
                if self.find(name) is not None:
                    return False
            temporary.replace(path)
            return True
        finally:
            temporary.unlink(missing_ok=True)

    def read(self, name: str, digest: str, *, span: tuple[int, int] | None = None) -> bytes:
        begun = time.monotonic()
        while (found := self._seen(name, span)) is None or hashlib.sha256(found).hexdigest() != digest:
            waited = time.monotonic() - begun
            if waited > (SECONDS_TO_SEE if self._visible else SECONDS_UNSEEN):
                raise self._unseen(name)
            check_cancelled()
            time.sleep(min(0.5, 0.01 + waited / 4))
        return found

    def find(self, name: str) -> bytes | None:
        room = len(self._head(name, b""))
        try:
            with _opened(self.folder / name, MOST_POST_BYTES) as stream:
                head = stream.read(room)
                if not head.startswith(self._owned(name)):
                    return None  # of somebody else, and of any size
                blob = stream.read()
        except OSError:
            return None
        return blob if head == self._head(name, blob) else None

    def _seen(self, name: str, span: tuple[int, int] | None) -> bytes | None:
        """A post, or some bytes of it, whose own hash says whether they are whole."""
        if span is None:
            return self.find(name)
        head = self._head(name, b"")
        before = head.rindex(b" ")  # whose it is, and what; then comes the hash of all of it
        try:
            with (self.folder / name).open("rb") as file:
                if file.read(len(head))[:before] != head[:before]:
                    return None
                file.seek(len(head) + span[0])
                return file.read(span[1])
        except OSError:
            return None

    def drop(self, names: Collection[str]) -> None:
        for name in names:
            with contextlib.suppress(OSError):
                (self.folder / name).unlink()
        for folder in {(self.folder / name).parent for name in names}:
            with contextlib.suppress(OSError):  # where something is left in it
                folder.rmdir()

    @property
    def _visible(self) -> bool:
        return (self.folder / MANIFEST).exists()

    def _require_visible(self) -> None:
        """Refuse to make a folder where there is none: nobody else would see it."""
        begun = time.monotonic()
        while not self._visible:
            if time.monotonic() - begun > SECONDS_UNSEEN:
                raise self._not_seen()
            check_cancelled()
            time.sleep(0.1)

    def _not_seen(self) -> DopeError:
        return DopeError(
            f"a worker on {socket.gethostname()} does not see {self.folder}; expected a folder that all workers see "
            f"under this name, as they see the arrays."
        )

    def _unseen(self, name: str) -> DopeError:
        if not self._visible:
            return self._not_seen()
        host = socket.gethostname()
        damaged = (self.folder / name).exists()
        what = "is damaged, or another one than was left" if damaged else f"is not there after {SECONDS_TO_SEE:.0f} s"
        return DopeError(
            f"{self.folder / name} {what}, seen from {host}; expected what a block left there. Resume the run: what is "
            f"missing is made again."
        )

    def _head(self, name: str, blob: bytes) -> bytes:
        """The first line of a post's file: whose it is, what it is, and the hash of the rest. As long for any blob."""
        return self._owned(name) + f"{hashlib.sha256(blob).hexdigest()}\n".encode()

    def _owned(self, name: str) -> bytes:
        return f"{self._identity} {name} ".encode()


def _elsewhere(folder: str, identity: str) -> FolderBoard:
    """The board as a worker sees it."""
    board = FolderBoard.__new__(FolderBoard)
    board.folder, board._resume, board._identity, board._token = Path(folder), True, identity, None
    return board


def _begun(folder: Path, manifest: dict[str, Any]) -> str:
    """The identity of a board in a new or empty folder, which no other run can take any more."""
    require_new(folder)
    whole = {"version": VERSION, "run": secrets.token_hex(16), **manifest}
    path = folder / MANIFEST
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.touch(exist_ok=False)  # of several that found the folder empty, one gets past this
    except OSError as error:
        if path.exists():
            raise _occupied(folder) from error
        raise _not_writable(folder, error) from error
    try:
        write_durably(path, json.dumps(whole).encode())
    except BaseException:
        with contextlib.suppress(OSError):  # what went wrong first is told
            path.unlink()
        raise
    return _identity(whole)


def _goes_on(folder: Path, manifest: dict[str, Any]) -> str:
    """The identity of the board in a folder, if it is of this very problem."""
    found = read_manifest(folder)
    expected = {name: found[name] for name in ("version", "run")} | json.loads(json.dumps(manifest))
    different = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
    if "blocks" in different and "arrays" in different:
        different.remove("arrays")  # whose hash is one of the blocks
    if different:
        verb = "differs" if len(different) == 1 else "differ"
        raise InputError(
            f"{folder} is a checkpoint of something else, its {' and '.join(different)} {verb}; expected the same "
            f"arrays and settings as then."
        )
    return _identity(found)


def require_new(folder: Path) -> None:
    """Refuse a folder for a new checkpoint that holds anything: a run's posts, or what is nobody's to replace."""
    try:
        with os.scandir(folder) as entries:
            empty = next(entries, None) is None
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise _not_writable(folder, error) from error
    if not empty:
        raise _occupied(folder)


def cuts_of(folder: Path, shape: tuple[int, ...]) -> list[list[int]]:
    """Where the grid was cut in a run that is to go on."""
    cuts: Any = read_manifest(folder).get("blocks")
    whole = isinstance(cuts, list) and len(cuts) == len(shape) and all(isinstance(axis, list) for axis in cuts)
    if not whole or not all(type(c) is int for axis in cuts for c in axis):
        raise InputError(f"{folder} is a checkpoint of something else, its blocks do not fit a grid of {shape}.")
    return [list(axis) for axis in cuts]


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a checkpoint is of."""
    path = folder / MANIFEST
    try:
        found = json.loads(_content(path, MOST_MANIFEST_BYTES))
    except OSError as error:
        raise InputError(
            f"{folder} holds no checkpoint to resume: its {MANIFEST} cannot be read, {_why(error)}; name the folder "
            f"that was given as checkpoint."
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{folder} holds no checkpoint to resume: its {MANIFEST} is not JSON ({error})") from error
    if not isinstance(found, dict) or "version" not in found:
        raise InputError(f"{folder} holds no checkpoint to resume: its {MANIFEST} is not the manifest of one")
    if found["version"] != VERSION:
        raise InputError(
            f"{folder} is a checkpoint of version {str(found['version'])[:20]}; expected version {VERSION}. Finish it "
            f"with the dope that began it, or begin again in a new folder (checkpoint=, --checkpoint)."
        )
    if not isinstance(found.get("run"), str):
        raise InputError(f"{folder} holds no checkpoint to resume: its {MANIFEST} does not name its run")
    return found


def _identity(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _content(path: Path, most: int) -> bytes:
    """What is in a file; OSError as by `_opened`."""
    with _opened(path, most) as stream:
        return stream.read()


def _opened(path: Path, most: int) -> BinaryIO:
    """A file, to be read; OSError where there is none, or something else, or more than so many bytes."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError("not a file")  # opening a pipe would wait for its writer
    if status.st_size > most:
        raise OSError(f"{status.st_size} bytes, expected {most} at most")
    return path.open("rb")


def _make_way(path: Path) -> None:
    """A folder for a post; what stands in the way gets another name, for it may be somebody's."""
    if os.path.lexists(path.parent) and not path.parent.is_dir():
        _set_aside(path.parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        _set_aside(path)


def _placed(temporary: Path, path: Path) -> bool:
    """Give a post its name, unless something has that already; whether it was given.

    Without links (FAT, some network file systems) what is there is replaced. Who goes on from a board reads the posts
    themselves, so that this could matter only to a worker that read the first in the moment before.
    """
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:
        temporary.replace(path)
    return True


def _set_aside(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # another run was faster
        path.rename(path.with_name(f"{path.name}-set-aside-{secrets.token_hex(4)}"))


def _occupied(folder: Path) -> InputError:
    if (folder / MANIFEST).exists():
        return InputError(
            f"{folder} holds the checkpoint of another run; resume that one (resume=, --resume), or name a new folder."
        )
    return InputError(f"{folder} is not empty; expected a new or an empty folder for a checkpoint. Name another one.")


def _not_writable(folder: Path, error: OSError | ValueError) -> InputError:
    return InputError(f"cannot write into {folder}: {_why(error)}")


def _why(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
