"""Files that are there whole, or not at all, also after a power failure."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from dope.errors import DopeError


def write_durably(path: Path, content: bytes) -> None:
    """Write a file so that its name stands for all of it, whatever happens in between."""
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DopeError(f"cannot write {path}: {reason}; what was written before is whole.") from error
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """A new name survives when its folder is on the disk, too; not every system lets one say so."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
