"""A walk through the pages of a TIFF file before they are believed.

A page ends with the place of the next one. In a file of some hundred bytes these can form a circle, or a page can name
itself a million times as its own part, and a reader that follows runs out of memory. In a file that was written by a
program pages and their tags lie side by side, so together they are no longer than the file.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, replace
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
    order: str


@dataclass(frozen=True)
class _Tags:
    """What the tags of a page declare: so many bytes, and further pages, by a list or, if short, by where that is."""

    length: int
    parts: int = 0
    parts_kind: int = 0
    parts_value: bytes = b""


def count_pages(path: Path, stream: BinaryIO) -> int:
    """Of a file whose pages do not lead in a circle, or declare more about themselves than the file could hold."""
    size = os.fstat(stream.fileno()).st_size
    dialect = _dialect(path, stream)
    place = _read(stream, dialect.place)
    seen: set[int] = set()
    pages = declared = parts = 0

    def tags_at(place: int) -> _Tags:
        nonlocal declared
        if place in seen:
            raise InputError(f"{path}: its pages lead in a circle; get a whole copy")
        seen.add(place)
        stream.seek(place)
        tags = _tags(stream, dialect)
        declared += tags.length
        if declared > _SHARED * size + _SMALL or parts + tags.parts > _MOST_PARTS:
            raise InputError(f"{path}: its pages declare more than a file of {size:,} bytes holds; get a whole copy")
        return tags

    while place:
        tags = tags_at(place)
        following = _read(stream, dialect.place)
        for part in _parts(stream, dialect, tags):
            tags_at(part)
        pages, parts, place = pages + 1, parts + tags.parts, following
    return pages


def _dialect(path: Path, stream: IO[bytes]) -> _Dialect:
    order = {b"II": "<", b"MM": ">"}.get(stream.read(2))
    version = int.from_bytes(stream.read(2), "little" if order == "<" else "big")
    if order is None or version not in (42, 43):
        raise InputError(f"{path}: not a TIFF file; convert it to one")
    if version == 42:
        return _Dialect(struct.Struct(f"{order}H"), struct.Struct(f"{order}HHI"), 12, struct.Struct(f"{order}I"), order)
    stream.read(4)
    return _Dialect(struct.Struct(f"{order}Q"), struct.Struct(f"{order}HHQ"), 20, struct.Struct(f"{order}Q"), order)


def _tags(stream: IO[bytes], dialect: _Dialect) -> _Tags:
    """Of a page; the stream is left behind them."""
    count = _read(stream, dialect.count)
    table = stream.read(min(count, 1 << 16) * dialect.tag_bytes)
    if len(table) < count * dialect.tag_bytes:
        raise EOFError("ends within the tags of a page")
    found = _Tags(len(table))
    for start in range(0, len(table), dialect.tag_bytes):
        code, kind, number = dialect.tag.unpack_from(table, start)
        length = number * _TYPE_BYTES.get(kind, 1)
        found = replace(found, length=found.length + (length if length > dialect.place.size else 0))
        if code == _PARTS:
            value = table[start + dialect.tag.size : start + dialect.tag_bytes]
            found = replace(found, parts=number, parts_kind=kind, parts_value=value)
    return found


def _parts(stream: IO[bytes], dialect: _Dialect, tags: _Tags) -> list[int]:
    """Where the further pages of one lie; 0 is nowhere."""
    form = {4: "I", 13: "I", 16: "Q", 18: "Q"}.get(tags.parts_kind)
    if not tags.parts or form is None:
        return []
    places = struct.Struct(f"{dialect.order}{tags.parts}{form}")
    content = tags.parts_value
    if places.size > dialect.place.size:
        stream.seek(int(dialect.place.unpack(content)[0]))
        content = stream.read(places.size)
    return [place for place in places.unpack(content[: places.size]) if place]


def _read(stream: IO[bytes], form: struct.Struct) -> int:
    return int(form.unpack(stream.read(form.size))[0])
