"""A post as bytes: a few numbers for the coordinator, and arrays for the neighbours, in parts that are read alone.

    length of the head, 4 bytes
    head, JSON: {"summary": ..., "parts": [[name, bytes, [[array, type, shape], ...]], ...]}
    parts, one after the other, each deflated

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
# Bits of labels repeat themselves: a level that is slower saves little.
LEVEL = 1


@dataclass(frozen=True, eq=False)
class Post:
    """What a block leaves: `summary` is what JSON knows, and small; `parts` are arrays by name, by who needs them."""

    summary: Mapping[str, Any]
    parts: Mapping[str, Arrays]

    def packed(self) -> bytes:
        listed: list[tuple[str, int, list[Any]]] = []
        blobs = []
        for part, arrays in self.parts.items():
            columns = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
            packer = zlib.compressobj(LEVEL)
            blob = b"".join(
                [*(packer.compress(array.data) for array in columns.values() if array.size), packer.flush()]
            )
            listed.append((part, len(blob), [[name, one.dtype.str, list(one.shape)] for name, one in columns.items()]))
            blobs.append(blob)
        if not all(_is_column(column) for _, _, columns in listed for column in columns):
            raise DopeError(f"arrays of a post are {listed}; expected types among {', '.join(TYPES)}.")
        head = json.dumps({"summary": self.summary, "parts": listed}, separators=(",", ":")).encode()
        return b"".join([len(head).to_bytes(4, "little"), head, *blobs])


def summary_of(content: bytes) -> dict[str, Any]:
    """What a post tells in short; its arrays are not looked at."""
    summary: dict[str, Any] = _head_of(content)[0]["summary"]
    return summary


def part_of(content: bytes, name: str, *, most: int) -> Arrays | None:
    """The arrays of a part, None where there is none of that name; DopeError for more than so many bytes of them."""
    head, at = _head_of(content)
    try:
        for part, length, columns in head["parts"]:
            if part == name:
                if not all(map(_is_column, columns)):
                    break
                return _arrays(memoryview(content)[at : at + length], columns, most)
            at += length
        else:
            return None
    except (TypeError, ValueError):
        pass
    raise DopeError(f"a post is damaged: its head says nothing of part {name}.")


def _arrays(blob: memoryview, columns: list[Any], most: int) -> Arrays:
    total = sum(math.prod(shape) * np.dtype(kind).itemsize for _, kind, shape in columns)
    if total > most:
        raise DopeError(f"a post holds {total} bytes of arrays; expected {most} at most.")
    flat = _inflated(blob, total)
    arrays, at = {}, 0
    for name, kind, shape in columns:
        size = math.prod(shape)
        arrays[name] = np.frombuffer(flat, dtype=kind, count=size, offset=at).reshape(shape)
        at += size * np.dtype(kind).itemsize
    return arrays


def _head_of(content: bytes) -> tuple[dict[str, Any], int]:
    begin = 4 + int.from_bytes(content[:4], "little")
    head: dict[str, Any] = {}
    try:
        head = json.loads(content[4:begin])
        fits = isinstance(head["summary"], dict) and isinstance(head["parts"], list)
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
