"""What was measured so far, as JSON lines: a run that was interrupted goes on from them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dope.arrays import Labels
from dope.errors import DopeError, InputError
from dope.io.files import reading, replacing

Record = dict[str, Any]


class Ledger:
    """The lines of one experiment, in one file; `key` names the entries that tell runs apart."""

    def __init__(self, file: Path, key: Iterable[str]) -> None:
        self._file, self._key = file, tuple(key)
        self.records: list[Record] = list(_read(file))
        self._done = {self._key_of(record) for record in self.records}

    def _key_of(self, record: Record) -> tuple[object, ...]:
        return tuple(record.get(name) for name in self._key)

    def holds(self, key: Record) -> bool:
        """Whether a run with these entries is there already."""
        return self._key_of(key) in self._done

    def find(self, **entries: object) -> Record | None:
        """The first line with these entries."""
        return next((r for r in self.records if all(r.get(name) == value for name, value in entries.items())), None)

    def add(self, record: Record) -> None:
        """Put a line at the end of the file, whole or not at all: what is cut short is not read again."""
        try:
            with self._file.open("ab") as stream:
                stream.write(json.dumps(record, allow_nan=False).encode() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise DopeError(f"cannot write {self._file}: {(error.strerror or str(error)).lower()}") from error
        self.records.append(record)
        self._done.add(self._key_of(record))


def _read(file: Path) -> Iterable[Record]:
    """The lines of a file, if there is one. A last line without its end was cut short, and is taken off the file."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"{file}: cannot be read, {(error.strerror or str(error)).lower()}") from error
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        with replacing(file) as temporary:
            temporary.write_bytes(whole)
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InputError(f"{file}, line {number}: no JSON; take it out, or name another folder") from error
        if not isinstance(record, dict):
            raise InputError(f"{file}, line {number}: {record!r}; expected an object with the figures of a run")
        yield record


def keep_labels(file: Path, labels: Labels) -> None:
    """Write labels, a bit each and packed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, bits=np.packbits(labels), shape=np.array(labels.shape))


def kept_labels(file: Path) -> Labels:
    """Labels that were kept."""
    with reading(file), file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
        shape = tuple(int(n) for n in stored["shape"])
        bits = np.unpackbits(stored["bits"], count=int(np.prod(shape)))
        return bits.reshape(shape).astype(np.bool_)
