"""Replies of blocks in files, so that a run can go on where it was broken off.

    DIR/manifest.json        what is being solved, and how; written first
    DIR/pass-01/00012        the reply of block 12 in pass 1, as soon as it came

Every file is whole or not there. A reply follows from the manifest and the passes before: a missing one is computed
again, to the same bit, and so is one that is damaged.
"""

from __future__ import annotations

import json
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dope.durable import write_durably
from dope.errors import DopeError, InputError

VERSION = 1
# Larger than any manifest, and no burden on memory.
MOST_MANIFEST_BYTES = 16 << 20


@dataclass(frozen=True)
class Checkpoint:
    """A folder of replies."""

    folder: Path

    @classmethod
    def new(cls, folder: Path, manifest: dict[str, Any]) -> Checkpoint:
        if (folder / "manifest.json").exists():
            raise InputError(
                f"{folder} holds the checkpoint of another run; resume that one (resume=, --resume), or name "
                f"a new folder."
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot write into {folder}: {(error.strerror or str(error)).lower()}") from error
        write_durably(folder / "manifest.json", json.dumps(_versioned(manifest), indent=1).encode())
        return cls(folder)

    @classmethod
    def of(cls, folder: Path, manifest: dict[str, Any]) -> Checkpoint:
        """The one in a folder, if it is of this very problem."""
        found = read_manifest(folder)
        expected = json.loads(json.dumps(_versioned(manifest)))
        different = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
        if "blocks" in different and "arrays" in different:
            different.remove("arrays")  # whose checksum is one of the blocks
        if different:
            raise InputError(
                f"{folder} is a checkpoint of something else, its {' and '.join(different)} differ; expected the same "
                f"arrays and settings as then."
            )
        return cls(folder)

    def save(self, number: int, k: int, what: str, blob: bytes) -> None:
        """Keep the reply of block k in a pass; `what` says what it is about."""
        folder = self.folder / f"pass-{number:02}"
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise DopeError(f"cannot write {folder}: {(error.strerror or str(error)).lower()}") from error
        write_durably(folder / f"{k:05}", _head(what, blob) + blob)

    def load(self, number: int, k: int, what: str, *, most: int) -> bytes | None:
        """The reply about `what` of block k in a pass, of so many bytes at most, if it is there and whole."""
        path = self.folder / f"pass-{number:02}" / f"{k:05}"
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode) or status.st_size > most + len(what) + 64:
                return None
            content = path.read_bytes()
        except OSError:
            return None
        blob = content.partition(b"\n")[2]
        return blob if content == _head(what, blob) + blob else None


def cuts_of(folder: Path, shape: tuple[int, ...]) -> list[list[int]]:
    """Where the grid was cut in a run that is to go on."""
    cuts: Any = read_manifest(folder).get("blocks")
    whole = isinstance(cuts, list) and len(cuts) == len(shape) and all(isinstance(axis, list) for axis in cuts)
    if not whole or not all(type(c) is int for axis in cuts for c in axis):
        raise InputError(f"{folder} is a checkpoint of something else, its blocks do not fit a grid of {shape}.")
    return [list(axis) for axis in cuts]


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a checkpoint is of."""
    path = folder / "manifest.json"
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_MANIFEST_BYTES:
            raise InputError(f"{path}: not the manifest of a checkpoint, which is a file of a few thousand bytes")
        found = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{folder} holds no checkpoint to resume: {path} cannot be read ({error})") from error
    if not isinstance(found, dict):
        raise InputError(f"{path}: not the manifest of a checkpoint")
    return found


def _versioned(manifest: dict[str, Any]) -> dict[str, Any]:
    return {"version": VERSION, **manifest}


def _head(what: str, blob: bytes) -> bytes:
    """The first line of a reply's file, by which the rest is known to be whole, and to be what it should be."""
    return f"{what} {len(blob)} {zlib.crc32(blob):08x}\n".encode()
