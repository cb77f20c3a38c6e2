"""Unpacking bytes that may be anything: a limit is set before, and nothing beyond it is ever allocated.

Decoders that work in pieces (zlib, bz2, LZMA) are stopped at the limit. The others (zstd, Blosc, LZ4) allocate what the
packed bytes declare, so that is looked at first. What is unpacked in a bounded number of bytes is so in bounded time.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dope.memory import as_text

Bytes = bytes | memoryview
Settings = dict[str, Any]

# What decoding may hold beside what it gives; `xz -9`, the most that is common, needs 65 MB.
_MOST_LZMA_BYTES = 1 << 27
# Members after each other in one chunk. Writers make one; every further one costs a copy of what follows it.
_MOST_MEMBERS = 1024
_ZSTD_BLOCK = 1 << 17
_ZSTD_MAGIC, _ZSTD_SKIPPED = 0xFD2FB528, range(0x184D2A50, 0x184D2A60)


@dataclass(frozen=True)
class Length:
    """How many bytes something unpacks to: at most, or `exact`ly, so many."""

    bytes: int
    exact: bool

    def check(self, found: int) -> None:
        if found > self.bytes or (self.exact and found != self.bytes):
            raise ValueError(f"{found:,} bytes or more, expected {'' if self.exact else 'at most '}{self.bytes:,}")


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: Any, max_length: int) -> bytes: ...


def inflate(codec: str, content: Bytes, length: Length, settings: Settings) -> Bytes:
    """What bytes that are packed with a codec hold, which is as long as it must be; `settings` are the codec's."""
    found = _INFLATE[codec](memoryview(content).cast("B"), length, settings)
    length.check(memoryview(found).nbytes)
    return found


def _members(make: Callable[[Settings], _Decompressor], *, several: bool) -> Callable[..., Bytes]:
    """Of a format that can be unpacked in pieces: one member, or any number of them after each other."""

    def inflated(content: Bytes, length: Length, settings: Settings) -> Bytes:
        found: list[bytes] = []
        rest, left = content, length.bytes
        while len(rest):
            member = make(settings)
            # A byte more than may come, so that there being more shows. 0 would mean without a limit.
            found.append(member.decompress(rest, left + 1))
            left -= len(found[-1])
            if left < 0:
                break
            if not member.eof:
                raise EOFError("ends within a packed member")
            if len(found) > _MOST_MEMBERS:
                raise ValueError(f"more than {_MOST_MEMBERS} packed members")
            rest = member.unused_data.lstrip(b"\0") if several else b""
        return found[0] if len(found) == 1 else b"".join(found)

    return inflated


def _xz(settings: Settings) -> _Decompressor:
    kind = int(settings.get("format", lzma.FORMAT_XZ))
    if kind == lzma.FORMAT_RAW:
        filters = settings["filters"]
        if any(int(one.get("dict_size", 0)) > _MOST_LZMA_BYTES for one in filters):
            raise ValueError(f"an LZMA dictionary of more than {as_text(_MOST_LZMA_BYTES)}")
        return lzma.LZMADecompressor(kind, filters=filters)
    return lzma.LZMADecompressor(kind, memlimit=_MOST_LZMA_BYTES)


def _blosc(content: memoryview, length: Length, _: Settings) -> Bytes:
    from numcodecs.blosc import Blosc

    if len(content) < 16:
        raise EOFError("ends within the header of Blosc")
    length.check(int.from_bytes(content[4:8], "little"))
    if int.from_bytes(content[12:16], "little") > len(content):
        raise EOFError("ends before what Blosc declares")
    return _decoded(Blosc().decode(content))


def _lz4(content: memoryview, length: Length, _: Settings) -> Bytes:
    from numcodecs.lz4 import LZ4

    length.check(int.from_bytes(content[:4], "little"))
    return _decoded(LZ4().decode(content))


def _zstd(content: memoryview, length: Length, _: Settings) -> Bytes:
    from numcodecs.zstd import Zstd

    frames = list(_zstd_frames(content))
    declared = sum(most for most, _ in frames)
    if all(known for _, known in frames):
        length.check(declared)
        return _decoded(Zstd().decode(content))
    if length.exact:  # the decoder then gives so many bytes, or an error
        return _decoded(Zstd().decode(content, out=np.empty(length.bytes, np.uint8)))
    Length(length.bytes + _ZSTD_BLOCK, exact=False).check(declared)
    return _decoded(Zstd().decode(content))


def _zstd_frames(content: memoryview) -> Iterator[tuple[int, bool]]:
    """Of each frame the bytes it unpacks to, and whether it says so, or they are the most that its blocks can hold.

    RFC 8878, section 3.1.1. Blocks are walked along, not unpacked.
    """
    at = 0
    while at < len(content):
        magic = _number(content, at, 4)
        if magic in _ZSTD_SKIPPED:
            at += 8 + _number(content, at + 4, 4)
            continue
        if magic != _ZSTD_MAGIC:
            raise ValueError("no frame of zstd")
        descriptor = _number(content, at + 4, 1)
        single = descriptor >> 5 & 1
        width = {0: single, 1: 2, 2: 4, 3: 8}[descriptor >> 6]
        start = at + 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3]
        declared = _number(content, start, width) + (256 if width == 2 else 0)
        at, most = start + width, 0
        last = False
        while not last:
            header = _number(content, at, 3)
            last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
            most += _ZSTD_BLOCK if kind == 2 else size
            at += 3 + (1 if kind == 1 else size)
        at += 4 if descriptor >> 2 & 1 else 0  # a checksum
        yield (declared, True) if width else (most, False)


def _number(content: memoryview, at: int, width: int) -> int:
    if at + width > len(content):
        raise EOFError("ends within a frame of zstd")
    return int.from_bytes(content[at : at + width], "little")


def _decoded(found: Any) -> Bytes:
    return found if isinstance(found, bytes) else np.asarray(found).reshape(-1).view(np.uint8).data


_INFLATE: dict[str, Callable[..., Bytes]] = {
    "blosc": _blosc,
    "bz2": _members(lambda _: bz2.BZ2Decompressor(), several=True),
    "gzip": _members(lambda _: zlib.decompressobj(wbits=31), several=True),
    "lz4": _lz4,
    "lzma": _members(_xz, several=True),
    "zlib": _members(lambda _: zlib.decompressobj(wbits=15), several=False),
    "zstd": _zstd,
}
PACKERS = frozenset(_INFLATE)
