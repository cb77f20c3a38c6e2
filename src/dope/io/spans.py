"""Bytes that are read as they are asked for: of a file, of something unpacked, or a part of either."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from dope.io.inflate import Bytes


class Span(Protocol):
    """So many bytes, read from any place on; what reaches beyond them is an `EOFError`."""

    @property
    def bytes(self) -> int: ...

    def read(self, start: int, length: int) -> Bytes: ...


@dataclass(frozen=True)
class OpenFile:
    """A file that one thread reads."""

    stream: BinaryIO
    bytes: int

    @classmethod
    def of(cls, stream: BinaryIO) -> OpenFile:
        return cls(stream, os.fstat(stream.fileno()).st_size)

    def read(self, start: int, length: int) -> Bytes:
        _check_end(start + length, self.bytes)
        self.stream.seek(start)
        content = self.stream.read(length)
        _check_end(length, len(content))
        return content


@dataclass(frozen=True)
class Memory:
    """Bytes that are there already."""

    content: memoryview

    @property
    def bytes(self) -> int:
        return len(self.content)

    def read(self, start: int, length: int) -> Bytes:
        _check_end(start + length, self.bytes)
        return self.content[start : start + length]


@dataclass(frozen=True)
class Part:
    """A part of others."""

    whole: Span
    start: int
    bytes: int

    def read(self, start: int, length: int) -> Bytes:
        _check_end(start + length, self.bytes)
        return self.whole.read(self.start + start, length)


def _check_end(wanted: int, there: int) -> None:
    if wanted > there:
        raise EOFError(f"ends {wanted - there:,} bytes early")
