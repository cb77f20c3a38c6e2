"""A post as bytes: a few numbers for the coordinator, and arrays for the neighbours.

    length of the head, 4 bytes   head, JSON: {"summary": ..., "arrays": [[name, type, shape], ...]}   arrays, deflated

What only one of the neighbours wants may follow as a *part*, which is read alone: a post within the post. The head then
also has "parts": [[name, bytes, sha256], ...]. Arrays of bool take a bit for each.

Nothing in it is ever executed, and a reader takes no more memory than it allows.
"""

from __future__ import annotations

import builtins
import hashlib
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.errors import DopeError

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

# What arrays in posts may hold.
TYPES = ("|b1", "|u1", "<i4", "<i8", "<f8")
# Of bytes that repeat themselves, a level that is slower saves little: codes of 128^3, 0.8 of the bytes in 3 x as long.
LEVEL = 1


@dataclass(frozen=True, eq=False)
class Post:
    """What a block leaves: `summary` is what JSON knows, and small; `parts` are arrays that are read by themselves."""

    summary: dict[str, Any]
    arrays: Arrays
    parts: Mapping[str, Arrays] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """What its arrays hold."""
        return sum(array.nbytes for arrays in (self.arrays, *self.parts.values()) for array in arrays.values())

    def packed(self) -> builtins.bytes:
        columns = {name: np.ascontiguousarray(array) for name, array in self.arrays.items()}
        listed = [[name, array.dtype.str, list(array.shape)] for name, array in columns.items()]
        if not all(kind in TYPES for _, kind, _ in listed):
            raise DopeError(f"arrays of a post are {listed}; expected types among {', '.join(TYPES)}.")
        parts = {name: Post({}, arrays).packed() for name, arrays in self.parts.items()}
        said: dict[str, Any] = {"summary": self.summary, "arrays": listed}
        if parts:
            said["parts"] = [[name, len(blob), hashlib.sha256(blob).hexdigest()] for name, blob in parts.items()]
        head = json.dumps(said, separators=(",", ":")).encode()
        packer = zlib.compressobj(LEVEL)
        payload = [packer.compress(_flat(array)) for array in columns.values()]
        return b"".join([len(head).to_bytes(4, "little"), head, *payload, packer.flush(), *parts.values()])

    @classmethod
    def unpacked(cls, content: builtins.bytes | Post, *, most: int) -> Post:
        """The post in these bytes, its parts left out; one that was never packed is given back as it is.

        DopeError where they are none, or hold more than so many bytes of arrays.
        """
        if isinstance(content, Post):
            return content
        head, begin = _head_of(content)
        total = sum(_size(kind, shape) for _, kind, shape in head["arrays"])
        if total > most:
            raise DopeError(f"a post holds {total} bytes of arrays; expected {most} at most.")
        flat = _inflated(memoryview(content)[begin:], total)
        arrays, at = {}, 0
        for name, kind, shape in head["arrays"]:
            arrays[name] = _array(flat, kind, shape, at)
            at += _size(kind, shape)
        return cls(head["summary"], arrays)


@dataclass(frozen=True)
class Span:
    """So many bytes of a post's content, from here on, and their sha256."""

    begin: int
    length: int
    digest: str


def summary_of(content: bytes) -> dict[str, Any]:
    """What a post tells in short; its arrays are not looked at."""
    summary: dict[str, Any] = _head_of(content)[0]["summary"]
    return summary


def outline_of(content: bytes) -> tuple[dict[str, Any], dict[str, Span]]:
    """The summary of a post, and where its parts lie in its content; under "", what comes before them."""
    head, begin = _head_of(content)
    listed = head.get("parts", [])
    at = len(content) - sum(length for _, length, _ in listed)
    if at < begin:
        raise DopeError("a post is damaged: it holds less than its head says.")
    spans = {"": Span(0, at, hashlib.sha256(memoryview(content)[:at]).hexdigest())}
    for name, length, digest in listed:
        spans[name] = Span(at, length, digest)
        at += length
    return head["summary"], spans


def _flat(array: Array) -> bytes:
    return (np.packbits(array) if array.dtype == np.bool_ else array).tobytes()


def _size(kind: str, shape: list[int]) -> int:
    """Bytes of an array before they are deflated."""
    sites = math.prod(shape)
    return -(-sites // 8) if kind == "|b1" else sites * np.dtype(kind).itemsize


def _array(flat: bytes, kind: str, shape: list[int], at: int) -> Array:
    if kind != "|b1":
        return np.frombuffer(flat, dtype=kind, count=math.prod(shape), offset=at).reshape(shape)
    packed = np.frombuffer(flat, dtype=np.uint8, count=_size(kind, shape), offset=at)
    return np.unpackbits(packed, count=math.prod(shape)).view(np.bool_).reshape(shape)


def _head_of(content: bytes) -> tuple[dict[str, Any], int]:
    begin, head = 4 + int.from_bytes(content[:4], "little"), {}
    try:
        head = json.loads(content[4:begin])
        fits = isinstance(head["summary"], dict) and all(_is_column(one) for one in head["arrays"])
        fits = fits and all(_is_part(one) for one in head.get("parts", []))
    except (ValueError, KeyError, TypeError, RecursionError):
        fits = False
    if not fits or len(content) < begin:
        raise DopeError("a post is damaged: its head says nothing of what it holds.")
    return head, begin


def _is_column(one: Any) -> bool:
    name, kind, shape = one
    whole = isinstance(shape, list) and all(type(side) is int and 0 <= side < 1 << 62 for side in shape)
    return isinstance(name, str) and kind in TYPES and whole


def _is_part(one: Any) -> bool:
    name, length, digest = one
    return isinstance(name, str) and type(length) is int and length >= 0 and isinstance(digest, str)


def _inflated(content: memoryview, total: int) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        flat = unpacker.decompress(content, total + 1)
    except zlib.error as error:
        raise DopeError(f"a post is damaged: {error}") from error
    if len(flat) != total:
        raise DopeError(f"a post is damaged: {len(flat)} bytes of arrays instead of {total}.")
    return flat
