"""Replies of blocks in files, so that a run can go on where it was broken off.

    DIR/manifest.json        what is being solved, and how, and a random name of this run; written first
    DIR/pass-01/00012        the reply of block 12 in pass 1, as soon as it came

Every file is whole or not there, and every reply begins with the hash of its manifest: one of another run, also of the
same problem, is none. A reply follows from the manifest and the passes before: a missing one is computed again, to the
same bit, and so is one that is damaged, or something else than a file. So any number of runs may resume one folder at
once: what they write is the same. Of several that begin in one new folder, the first to create the manifest has it.

The hashes find mistakes and damage, not forgery: who can write into the folder decides the labels.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dope.durable import write_durably
from dope.errors import DopeError, InputError

VERSION = 2
MANIFEST = "manifest.json"
# Larger than any manifest, and no burden on memory.
MOST_MANIFEST_BYTES = 16 << 20


@dataclass(frozen=True)
class Checkpoint:
    """A folder of replies; `identity` is the hash of its manifest, which each of them begins with."""

    folder: Path
    identity: str

    @classmethod
    def new(cls, folder: Path, manifest: dict[str, Any]) -> Checkpoint:
        """One in a new or empty folder, which no other run can take any more."""
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
        return cls(folder, _identity(whole))

    @classmethod
    def of(cls, folder: Path, manifest: dict[str, Any]) -> Checkpoint:
        """The one in a folder, if it is of this very problem."""
        found = read_manifest(folder)
        expected = {name: found[name] for name in ("version", "run")} | json.loads(json.dumps(manifest))
        different = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
        if "blocks" in different and "arrays" in different:
            different.remove("arrays")  # whose hash is one of the blocks
        if different:
            raise InputError(
                f"{folder} is a checkpoint of something else, its {' and '.join(different)} differ; expected the same "
                f"arrays and settings as then."
            )
        return cls(folder, _identity(found))

    def save(self, number: int, k: int, what: str, blob: bytes) -> None:
        """Keep the reply of block k in a pass; `what` says what it is about."""
        path = self._path(number, k)
        try:
            if os.path.lexists(path.parent) and not path.parent.is_dir():
                _set_aside(path.parent)
            path.parent.mkdir(exist_ok=True)
            if path.is_dir() and not path.is_symlink():  # anything else is replaced
                _set_aside(path)
        except OSError as error:
            raise DopeError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from error
        write_durably(path, self._head(number, k, what, blob) + blob)

    def load(self, number: int, k: int, what: str, *, most: int) -> bytes | None:
        """The reply about `what` of block k in a pass, of so many bytes at most, if it is there and whole."""
        room = len(self._head(number, k, what, b""))
        try:
            content = _content(self._path(number, k), most + room)
        except OSError:
            return None
        blob = content[room:]
        return blob if content == self._head(number, k, what, blob) + blob else None

    def _path(self, number: int, k: int) -> Path:
        return self.folder / f"pass-{number:02}" / f"{k:05}"

    def _head(self, number: int, k: int, what: str, blob: bytes) -> bytes:
        """The first line of a reply's file: whose it is, what it is, and the hash of the rest. As long for any blob."""
        return f"{self.identity} {number} {k} {what} {hashlib.sha256(blob).hexdigest()}\n".encode()


def require_new(folder: Path) -> None:
    """Refuse a folder for a new checkpoint that holds anything: a run's replies, or what is nobody's to replace."""
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
        why = (error.strerror or str(error)).lower()
        raise InputError(
            f"{folder} holds no checkpoint to resume: its {MANIFEST} cannot be read, {why}; name the folder that was "
            f"given as checkpoint."
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
    """What is in a file; OSError where there is none, or something else, or more than so many bytes."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError("not a file")  # opening a pipe would wait for its writer
    if status.st_size > most:
        raise OSError(f"{status.st_size} bytes, expected {most} at most")
    return path.read_bytes()


def _set_aside(path: Path) -> None:
    """Another name for what stands in the way: it may be somebody's."""
    with contextlib.suppress(FileNotFoundError):  # another run was faster
        path.rename(path.with_name(f"{path.name}-set-aside-{secrets.token_hex(4)}"))


def _occupied(folder: Path) -> InputError:
    if (folder / MANIFEST).exists():
        return InputError(
            f"{folder} holds the checkpoint of another run; resume that one (resume=, --resume), or name a new folder."
        )
    return InputError(f"{folder} is not empty; expected a new or an empty folder for a checkpoint. Name another one.")


def _not_writable(folder: Path, error: OSError | ValueError) -> InputError:
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(f"cannot write into {folder}: {reason.lower()}")
