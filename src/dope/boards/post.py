"""A post as bytes: a few numbers for the coordinator, and arrays for the neighbours.

    length of the head, 4 bytes    head, JSON: {"summary": ..., "arrays": [[name, type, shape], ...]}    arrays, deflated

Nothing in it is ever executed, and a reader takes no more memory than it allows.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.errors import DopeError

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

# What arrays in posts may hold.
TYPES = ("|b1", "|u1", "<i4", "<i8", "<f8")
# Of bytes that repeat themselves, a level that is slower saves little: codes of 128^3, 0.8 of the bytes in 3 x the time.
LEVEL = 1


@dataclass(frozen=True, eq=False)
class Post:
    """What a block leaves: `summary` is what JSON knows, and small."""

    summary: dict[str, Any]
    arrays: Arrays

    def packed(self) -> bytes:
        columns = {name: np.ascontiguousarray(array) for name, array in self.arrays.items()}
        listed = [[name, array.dtype.str, list(array.shape)] for name, array in columns.items()]
        if not all(kind in TYPES for _, kind, _ in listed):
            raise DopeError(f"arrays of a post are {listed}; expected types among {', '.join(TYPES)}.")
        head = json.dumps({"summary": self.summary, "arrays": listed}, separators=(",", ":")).encode()
        packer = zlib.compressobj(LEVEL)
        parts = [packer.compress(array.tobytes()) for array in columns.values()]
        return b"".join([len(head).to_bytes(4, "little"), head, *parts, packer.flush()])

    @classmethod
    def unpacked(cls, content: bytes, *, most: int) -> Post:
        """The post in these bytes; DopeError where they are none, or hold more than so many bytes of arrays."""
        head, begin = _head_of(content)
        total = 0
        for _, kind, shape in head["arrays"]:
            total += math.prod(shape) * np.dtype(kind).itemsize
        if total > most:
            raise DopeError(f"a post holds {total} bytes of arrays; expected {most} at most.")
        flat = _inflated(memoryview(content)[begin:], total)
        arrays, at = {}, 0
        for name, kind, shape in head["arrays"]:
            size = math.prod(shape)
            arrays[name] = np.frombuffer(flat, dtype=kind, count=size, offset=at).reshape(shape)
            at += size * np.dtype(kind).itemsize
        return cls(head["summary"], arrays)


def summary_of(content: bytes) -> dict[str, Any]:
    """What a post tells in short; its arrays are not looked at."""
    summary: dict[str, Any] = _head_of(content)[0]["summary"]
    return summary


def _head_of(content: bytes) -> tuple[dict[str, Any], int]:
    begin = 4 + int.from_bytes(content[:4], "little")
    try:
        head = json.loads(content[4:begin])
        fits = isinstance(head["summary"], dict) and all(_is_column(one) for one in head["arrays"])
    except (ValueError, KeyError, TypeError, RecursionError):
        fits = False
    if not fits or len(content) < begin:
        raise DopeError("a post is damaged: its head says nothing of what it holds.")
    return head, begin


def _is_column(one: Any) -> bool:
    name, kind, shape = one
    whole = isinstance(shape, list) and all(type(side) is int and 0 <= side < 1 << 62 for side in shape)
    return isinstance(name, str) and kind in TYPES and whole


def _inflated(content: memoryview, total: int) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        flat = unpacker.decompress(content, total + 1)
    except zlib.error as error:
        raise DopeError(f"a post is damaged: {error}") from error
    if len(flat) != total:
        raise DopeError(f"a post is damaged: {len(flat)} bytes of arrays instead of {total}.")
    return flat
