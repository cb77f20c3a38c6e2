"""What was measured so far, as JSON lines: a run that was interrupted goes on from them."""

from __future__ import annotations

import json
import math
import os
import platform
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from dope import __version__
from dope.arrays import Labels
from dope.durable import replacing
from dope.errors import DopeError, InputError
from dope.executors.threads import cores
from dope.io.files import reading

Record = dict[str, Any]
Say = Callable[[str], object]
"""Where a word about long work goes."""


def silent(text: str) -> None:
    """Say nothing."""


class Ledger:
    """The lines of one experiment, in one file; `key` names the entries that tell runs apart.

    Reading changes nothing. Before the first line is added, what a killed run left of a last line is cut off.
    """

    def __init__(self, file: Path, key: Iterable[str]) -> None:
        self._file, self._key = file, tuple(key)
        self._newest = {self._key_of(record): record for record in _read(file, self._key)}
        self._added = False

    def _key_of(self, record: Record) -> tuple[object, ...]:
        return tuple(record[name] for name in self._key)

    @property
    def records(self) -> list[Record]:
        """The newest line of every run."""
        return list(self._newest.values())

    def holds(self, key: Record) -> bool:
        """Whether a run with these entries is there; one that was left out may be tried again."""
        record = self._newest.get(self._key_of(key))
        return record is not None and not record.get("skipped")

    def find(self, **entries: object) -> Record | None:
        """The line with these entries of a run that was not left out."""
        for record in self._newest.values():
            if not record.get("skipped") and all(record.get(name) == value for name, value in entries.items()):
                return record
        return None

    def add(self, record: Record) -> None:
        """Put a line at the end of the file, with what it was made by."""
        made = {"version": __version__, "date": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine()}
        line = {**record, **made}
        try:
            if not self._added and self._file.exists():
                os.truncate(self._file, len(_whole(self._file)))
            with self._file.open("ab") as stream:
                stream.write(json.dumps(line, allow_nan=False).encode() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise DopeError(f"cannot write {self._file}: {(error.strerror or str(error)).lower()}") from error
        self._added = True
        self._newest[self._key_of(record)] = line

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While nobody else adds to the same file: two runs in one folder would do everything twice."""
        with self._file.open("ab") as stream:
            try:
                import fcntl

                fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"{self._file}: another run is at work in this folder; wait for it, or name another folder"
                ) from None
            except (ImportError, OSError):  # Windows; a file system without locks
                pass
            yield


def check_again(line: Record | None, again: Record, made: Iterable[Path]) -> None:
    """Refuse a run that was made once more, as its labels had not been kept, and came to something else.

    Its files, `made`, go again: nothing would find them wrong the next time.
    """
    if line is not None and again.get("skipped"):
        raise DopeError(f"{line['case']}: the labels of a run are not there, and it {again['skipped']}")
    if line is not None and not math.isclose(line["energy"], again["energy"], rel_tol=1e-9):
        for file in made:
            file.unlink(missing_ok=True)
        raise DopeError(
            f"{line['case']}: labels that were not kept were found once more, with an energy of {again['energy']!r}; "
            f"their line says {line['energy']!r}. Was it made by another version of dope? Take it out."
        )


def _whole(file: Path) -> bytes:
    """The lines of a file, without a last one that has no end: it was cut short."""
    content = file.read_bytes()
    return content[: content.rfind(b"\n") + 1]


def _read(file: Path, key: Iterable[str]) -> Iterator[Record]:
    """The lines of a file, if there is one. Names in them become names of files, so they may not lead elsewhere."""
    if not file.exists():
        return
    with reading(file):
        lines = _whole(file).splitlines()
    for number, line in enumerate(lines, start=1):
        place = f"{file}, line {number}"
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InputError(f"{place}: no JSON; take it out, or name another folder") from error
        if not isinstance(record, dict):
            raise InputError(f"{place}: {str(record)[:80]}; expected an object with the figures of a run")
        for name in key:
            value = record.get(name)
            if not isinstance(value, (str, int)):
                raise InputError(f"{place}: {name} is {value!r}; expected a name or a number. Take the line out.")
            if isinstance(value, str) and (value in ("", ".", "..") or set(value) & set("/\\:\0")):
                raise InputError(f"{place}: {name} is {value!r}; expected a plain name. Take the line out.")
        yield record


def machine() -> Record:
    """What times depend on, and nothing that tells one machine of a kind from another."""
    return {"cpu": _cpu(), "cores": cores(), "system": f"{platform.system()} {platform.machine()}"}


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def keep_labels(file: Path, labels: Labels) -> None:
    """Write labels, a bit each and packed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, bits=np.packbits(labels), shape=np.array(labels.shape))


def kept_labels(file: Path) -> Labels:
    """Labels that were kept."""
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            shape = tuple(int(n) for n in stored["shape"])
            bits = np.unpackbits(stored["bits"], count=int(np.prod(shape)))
            return bits.reshape(shape).astype(np.bool_)
    except (OSError, EOFError, LookupError, TypeError, ValueError, BadZipFile, zlib.error) as error:
        raise InputError(
            f"{file}: the labels of a run cannot be read ({error}); take its line out of "
            f"{file.parent.parent / 'runs.jsonl'}, and it is made anew"
        ) from error
