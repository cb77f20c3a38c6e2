"""Replies of blocks in files, so that a run can go on where it was broken off.

    DIR/manifest.json        what is being solved, and how; written first
    DIR/pass-01/00012        the reply of block 12 in pass 1, as soon as it came

Every file is whole or not there. A reply follows from the manifest and the passes before: a missing one is computed
again, to the same bit, and so is one that is damaged.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dope.durable import write_durably
from dope.errors import InputError

VERSION = 1
# Larger than any manifest, and no burden on memory.
MOST_MANIFEST_BYTES = 16 << 20
MOST_REPLY_BYTES = 1 << 31


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
        if different:
            raise InputError(
                f"{folder} is a checkpoint of something else, its {' and '.join(different)} differ; expected the same "
                f"arrays and settings as then."
            )
        return cls(folder)

    def save(self, number: int, k: int, header: dict[str, Any], blob: bytes) -> None:
        folder = self.folder / f"pass-{number:02}"
        folder.mkdir(exist_ok=True)
        first = json.dumps({**header, "crc": zlib.crc32(blob), "length": len(blob)}).encode() + b"\n"
        write_durably(folder / f"{k:05}", first + blob)

    def load(self, number: int, blocks: int) -> dict[int, tuple[dict[str, Any], bytes]]:
        """The replies of a pass that are there and whole."""
        found = {}
        for k in range(blocks):
            reply = _read(self.folder / f"pass-{number:02}" / f"{k:05}")
            if reply is not None:
                found[k] = reply
        return found


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a checkpoint is of."""
    path = folder / "manifest.json"
    try:
        if path.stat().st_size > MOST_MANIFEST_BYTES:
            raise InputError(f"{path}: more than {MOST_MANIFEST_BYTES:,} bytes; expected the manifest of a checkpoint")
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{folder} holds no checkpoint to resume: {path} cannot be read ({error})") from error
    if not isinstance(found, dict):
        raise InputError(f"{path}: not the manifest of a checkpoint")
    return found


def _versioned(manifest: dict[str, Any]) -> dict[str, Any]:
    return {"version": VERSION, **manifest}


def _read(path: Path) -> tuple[dict[str, Any], bytes] | None:
    try:
        if path.stat().st_size > MOST_REPLY_BYTES:
            return None
        first, _, blob = path.read_bytes().partition(b"\n")
        header = json.loads(first)
        whole = header["length"] == len(blob) and header["crc"] == zlib.crc32(blob)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (header, blob) if whole else None
