"""Writing a file as a whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dope.errors import InputError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside `path` that takes its name when the block ends well, and vanishes when not.

    Readers see the old file or the new one, never a part of it.
    """
    path = Path(path)
    # The suffix stays, because writers choose the format by it.
    temporary = path.with_name(f".{path.stem}-{secrets.token_hex(4)}{path.suffix}")
    try:
        temporary.open("xb").close()
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {_reason(error)}; choose a folder that exists and is writable"
        ) from error
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {_reason(error)}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
