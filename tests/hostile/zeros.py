"""Zeros, packed: as many as one likes, without packing them all. A megabyte is packed once and repeated."""

import struct
import zlib
from functools import cache

_PIECE = 1 << 20


@cache
def _block() -> bytes:
    """A megabyte, on its own: what stands before it does not matter."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(bytes(_PIECE)) + packer.flush(zlib.Z_FULL_FLUSH)


def deflated(size: int, head: bytes = b"") -> bytes:
    """A stream of deflate of some bytes and whole megabytes of zeros."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    return first + _block() * (size // _PIECE) + b"\x03\x00"


def crc32(size: int, head: bytes = b"") -> int:
    found = zlib.crc32(head)
    for _ in range(size // _PIECE):
        found = zlib.crc32(bytes(_PIECE), found)
    return found


def zlibbed(size: int) -> bytes:
    return b"\x78\xda" + deflated(size) + struct.pack(">HH", size // _PIECE * _PIECE % 65521, 1)


def gzipped(size: int, head: bytes = b"") -> bytes:
    length = len(head) + size // _PIECE * _PIECE
    start = b"\x1f\x8b\x08\0\0\0\0\0\x02\xff"
    return start + deflated(size, head) + struct.pack("<II", crc32(size, head), length % 2**32)


def zipped(name: str, size: int, head: bytes) -> bytes:
    """A zip archive of one member."""
    data, length = deflated(size, head), len(head) + size // _PIECE * _PIECE
    about = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, crc32(size, head), len(data), length, len(name), 0)
    local = b"PK\x03\x04" + about + name.encode() + data
    central = b"PK\x01\x02" + struct.pack("<H", 20) + about + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name.encode()
    return local + central + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)
