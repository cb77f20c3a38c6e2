"""What PNG and JPEG files say before their pixels, read without a decoder: nothing is unpacked."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

# Frames of JPEG (SOF), but for three markers of the same range that mean something else.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_PROGRESSIVE = frozenset({0xC2, 0xC6, 0xCA, 0xCE})
_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})  # markers without a length
_SCAN, _END = 0xDA, 0xD9
_PIECE = 1 << 20


@dataclass(frozen=True)
class JpegFrame:
    """The size that a JPEG stream declares, and whether its pixels come in several passes over all of them."""

    width: int
    height: int
    channels: int
    progressive: bool


def jpeg_frame(stream: BinaryIO, length: int | None = None) -> JpegFrame | None:
    """Of the JPEG stream that begins here and is so long; None where there is none before the pixels begin."""
    end = None if length is None else stream.tell() + length
    if stream.read(2) != b"\xff\xd8":
        return None
    while end is None or stream.tell() < end:
        code = _next_marker(stream)
        if code is None or code in (_SCAN, _END):
            return None
        if code in _ALONE:
            continue
        size = int.from_bytes(stream.read(2), "big")
        if code in _FRAMES:
            fields = stream.read(6)
            if len(fields) < 6:
                return None
            _, height, width, channels = struct.unpack(">BHHB", fields)
            return JpegFrame(width, height, channels, code in _PROGRESSIVE)
        stream.seek(max(0, size - 2), 1)
    return None


def count_scans(stream: BinaryIO) -> int:
    """How many passes over the pixels a JPEG file holds, at most: within them the marker's bytes do not occur."""
    number, last = 0, b""
    while piece := stream.read(_PIECE):
        number += (last + piece).count(b"\xff\xda")
        last = piece[-1:]
    return number


def png_chunks(stream: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """The name and length of each chunk of a PNG file, the stream at its content; whoever takes them may read that."""
    at = 8
    while True:
        stream.seek(at)
        head = stream.read(8)
        if len(head) < 8:
            return
        length = int.from_bytes(head[:4], "big")
        yield head[4:], length
        at += 12 + length


def _next_marker(stream: BinaryIO) -> int | None:
    if stream.read(1) != b"\xff":
        return None
    code = stream.read(1)
    while code == b"\xff":  # any number of them may stand before a marker
        code = stream.read(1)
    return code[0] if code else None
