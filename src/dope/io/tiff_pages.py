"""A walk through the pages of a TIFF file before they are believed.

A page ends with the place of the next one. In a file of some hundred bytes these can form a circle, or a page can name
itself a million times as its own part, and a reader that follows runs out of memory. In a file that was written by a
program pages and their tags lie side by side, so together they are no longer than the file.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from dope.errors import InputError

_TYPE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_PARTS = 330  # SubIFDs: further pages that belong to one
_MOST_PARTS = 4096
# Programs may let pages share a tag's value; files as small as this can share all of them.
_SHARED, _SMALL = 2, 1 << 16


@dataclass(frozen=True)
class _Dialect:
    """How numbers are written in classic and in large files."""

    count: struct.Struct  # of tags
    tag: struct.Struct  # code, type, number of values
    tag_bytes: int  # with its value or the place of it
    place: struct.Struct


def count_pages(path: Path, stream: BinaryIO) -> int:
    """Of a file whose pages do not lead in a circle, or declare more about themselves than the file could hold."""
    size = os.fstat(stream.fileno()).st_size
    dialect = _dialect(path, stream)
    place = _read(stream, dialect.place)
    seen: set[int] = set()
    declared = parts = 0
    while place:
        if place in seen:
            raise InputError(f"{path}: its pages lead in a circle; get a whole copy")
        seen.add(place)
        stream.seek(place)
        page_bytes, page_parts = _tags(stream, dialect)
        declared, parts = declared + page_bytes, parts + page_parts
        if declared > _SHARED * size + _SMALL or parts > _MOST_PARTS:
            raise InputError(f"{path}: its pages declare more than a file of {size:,} bytes holds; get a whole copy")
        place = _read(stream, dialect.place)
    return len(seen)


def _dialect(path: Path, stream: IO[bytes]) -> _Dialect:
    order = {b"II": "<", b"MM": ">"}.get(stream.read(2))
    version = int.from_bytes(stream.read(2), "little" if order == "<" else "big")
    if order is None or version not in (42, 43):
        raise InputError(f"{path}: not a TIFF file; convert it to one")
    if version == 42:
        return _Dialect(struct.Struct(f"{order}H"), struct.Struct(f"{order}HHI"), 12, struct.Struct(f"{order}I"))
    stream.read(4)
    return _Dialect(struct.Struct(f"{order}Q"), struct.Struct(f"{order}HHQ"), 20, struct.Struct(f"{order}Q"))


def _tags(stream: IO[bytes], dialect: _Dialect) -> tuple[int, int]:
    """Bytes that a page's tags declare, and how many further pages they name; the stream is left behind the tags."""
    count = _read(stream, dialect.count)
    table = stream.read(min(count, 1 << 16) * dialect.tag_bytes)
    if len(table) < count * dialect.tag_bytes:
        raise EOFError("ends within the tags of a page")
    declared, parts = len(table), 0
    for start in range(0, len(table), dialect.tag_bytes):
        code, kind, number = dialect.tag.unpack_from(table, start)
        length = number * _TYPE_BYTES.get(kind, 1)
        declared += length if length > dialect.place.size else 0
        parts += number if code == _PARTS else 0
    return declared, parts


def _read(stream: IO[bytes], form: struct.Struct) -> int:
    return int(form.unpack(stream.read(form.size))[0])
