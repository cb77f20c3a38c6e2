"""How the numbers of a Zarr chunk become bytes, formats 2 and 3, and back.

A writer passes a chunk through its codecs in turn, so how long the bytes are after each of them is known before any is
undone: exactly up to the first that packs, and at most from there on. Reading goes back the same way, and nothing is
unpacked beyond these lengths.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dope.cancellation import check_cancelled
from dope.io.content import Shape, bytes_of
from dope.io.inflate import PACKERS, Bytes, Length, Settings, inflate
from dope.io.lazy import Parts, pieces
from dope.io.spans import Memory, Part, Span

Array = npt.NDArray[Any]

SHARDS = "sharding_indexed"
# Codecs that only turn bytes into bytes or numbers into numbers. Others are refused: `pickle`, of format 2, runs code.
FILTERS_2 = frozenset({"crc32", "delta", "fixedscaleoffset", "shuffle"})
CODECS_2 = PACKERS | FILTERS_2
CODECS_3 = frozenset({"blosc", "bytes", "crc32c", "gzip", SHARDS, "transpose", "zstd"})

_MOST_CODECS = 16
# What packing adds at most to bytes that do not pack: a part of them, and a header.
_PACKING, _HEADER = 8, 1 << 12
_CHECKSUM_BYTES = 4
_ALTERING = frozenset({"delta", "fixedscaleoffset"})  # numbers, in float64 on the way
_INDEX_CODECS = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
_NOWHERE = 2**64 - 1  # offset and length of a chunk that holds nothing but the fill value


@dataclass(frozen=True)
class Chunk:
    """What there is to store: an array of a shape, or of nothing but `fill`."""

    shape: Shape
    dtype: np.dtype[Any]
    fill: Any = field(compare=False)  # NaN is not itself

    @property
    def bytes(self) -> int:
        return bytes_of(self.shape, self.dtype)


class Numbers(Protocol):
    """How the numbers of a chunk lie in its bytes, when these are unpacked."""

    @property
    def length(self) -> Length: ...

    @property
    def held_bytes(self) -> int: ...

    @property
    def number(self) -> int:
        """Of the pieces that are unpacked one by one."""
        ...

    def read(self, span: Span, box: Parts) -> Array:
        """Those in a box of the chunk."""
        ...


@dataclass(frozen=True)
class Plain:
    """One number after another."""

    chunk: Chunk
    fortran_order: bool = False

    @property
    def length(self) -> Length:
        return Length(self.chunk.bytes, exact=True)

    @property
    def held_bytes(self) -> int:
        return self.chunk.bytes

    @property
    def number(self) -> int:
        return 1

    def read(self, span: Span, box: Parts) -> Array:
        self.length.check(span.bytes)
        found = np.frombuffer(span.read(0, span.bytes), self.chunk.dtype)
        return found.reshape(self.chunk.shape, order="F" if self.fortran_order else "C")[box]


@dataclass(frozen=True)
class Step:
    """A codec that turns bytes into bytes, and how many there are when it is undone."""

    codec: str
    settings: Settings
    length: Length

    @property
    def encoded(self) -> Length:
        """How many it makes of them."""
        size = self.length.bytes
        if self.codec in PACKERS:
            return Length(size + size // _PACKING + _HEADER, exact=False)
        if self.codec in ("crc32", "crc32c"):
            return Length(size + _CHECKSUM_BYTES, self.length.exact)
        if self.codec in _ALTERING:
            read, stored = _types(self.settings)
            return Length(size // read.itemsize * stored.itemsize, self.length.exact)
        return self.length

    @property
    def held_bytes(self) -> int:
        floats = 16 * (self.length.bytes // _types(self.settings)[0].itemsize) if self.codec in _ALTERING else 0
        return self.length.bytes + self.encoded.bytes + floats

    def undone(self, content: Bytes) -> Bytes:
        if self.codec in PACKERS:
            return inflate(self.codec, content, self.length, self.settings)
        found = _UNDO[self.codec](content, self.settings)
        self.length.check(memoryview(found).nbytes)
        return found


@dataclass(frozen=True)
class Coding:
    """All codecs of a chunk: its axes in another order, its numbers as bytes, and further steps of these."""

    orders: tuple[tuple[int, ...], ...]
    numbers: Numbers
    steps: tuple[Step, ...]

    @property
    def length(self) -> Length:
        """Of the bytes that a chunk becomes."""
        return self.steps[-1].encoded if self.steps else self.numbers.length

    @property
    def held_bytes(self) -> int:
        """What reading a chunk takes at most, beside what was asked for."""
        return max(self.numbers.held_bytes, *(step.held_bytes for step in self.steps), 0)

    def read(self, span: Span, box: Parts) -> Array:
        """The numbers in a box of the chunk."""
        for order in self.orders:
            box = tuple(box[axis] for axis in order)
        if self.steps:
            replace(self.length, exact=False).check(span.bytes)
            content = span.read(0, span.bytes)
            for step in reversed(self.steps):
                content = step.undone(content)
            span = Memory(memoryview(content).cast("B"))
        found = self.numbers.read(span, box)
        for order in reversed(self.orders):
            found = found.transpose(np.argsort(order))
        return found


@dataclass(frozen=True)
class Shards:
    """Smaller chunks, each packed on its own, and an index of where these lie."""

    chunk: Chunk
    inner_shape: Shape
    inner: Coding
    index: Coding
    index_first: bool

    @property
    def length(self) -> Length:
        return Length(self._inner_number * self.inner.length.bytes + self.index.length.bytes, exact=False)

    @property
    def held_bytes(self) -> int:
        return 2 * self.index.length.bytes + self.inner.held_bytes

    @property
    def number(self) -> int:
        return self._inner_number * self.inner.numbers.number

    @property
    def _inner_number(self) -> int:
        return math.prod(self.chunk.shape) // math.prod(self.inner_shape)

    def read(self, span: Span, box: Parts) -> Array:
        index = self._read_index(span)
        found = np.empty([len(range(part.start, part.stop, part.step)) for part in box], self.chunk.dtype)
        for place, within, target in pieces(box, self.inner_shape):
            check_cancelled()
            start, length = (int(number) for number in index[place])
            if start == length == _NOWHERE:
                found[target] = self.chunk.fill
            else:
                found[target] = self.inner.read(Part(span, start, length), within)
        return found

    def _read_index(self, span: Span) -> Array:
        size = self.index.length.bytes
        if span.bytes < size:
            raise EOFError("ends within the index of a shard")
        place = Part(span, 0 if self.index_first else span.bytes - size, size)
        return self.index.read(place, tuple(slice(None) for _ in (*self.chunk.shape, 2)))


def coding_2(metadata: Settings, chunk: Chunk) -> Coding:
    """Of format 2."""
    numbers = Plain(chunk, fortran_order=metadata.get("order") == "F")
    codecs = [*(metadata.get("filters") or []), metadata.get("compressor")]
    named = [(str(settings["id"]), settings) for settings in codecs if settings is not None]
    return Coding((), numbers, _steps(named, numbers.length))


def coding_3(codecs: list[Any], chunk: Chunk) -> Coding:
    """Of format 3: codecs that turn the axes, one that makes bytes of numbers, and others."""
    named = [(str(codec["name"]), codec.get("configuration") or {}) for codec in codecs]
    orders: list[tuple[int, ...]] = []
    while named and named[0][0] == "transpose":
        order = tuple(int(axis) for axis in named.pop(0)[1]["order"])
        if sorted(order) != list(range(len(chunk.shape))):
            raise ValueError(f"a transpose of the axes {str(order)[:60]}")
        chunk = replace(chunk, shape=tuple(chunk.shape[axis] for axis in order))
        orders.append(order)
    if not named or named[0][0] not in ("bytes", SHARDS) or len(orders) > _MOST_CODECS:
        raise ValueError(f"its codecs lack one that makes bytes of numbers: bytes or {SHARDS}")
    (name, settings), *further = named
    numbers = _shards(settings, chunk) if name == SHARDS else Plain(replace(chunk, dtype=_stored_type(settings, chunk)))
    return Coding(tuple(orders), numbers, _steps(further, numbers.length))


def _stored_type(settings: Settings, chunk: Chunk) -> np.dtype[Any]:
    return chunk.dtype.newbyteorder(">" if settings.get("endian") == "big" else "<")


def _shards(settings: Settings, chunk: Chunk) -> Shards:
    inner = tuple(int(length) for length in settings["chunk_shape"])
    if len(inner) != len(chunk.shape) or any(b < 1 or a % b for a, b in zip(chunk.shape, inner, strict=True)):
        raise ValueError(f"chunks shaped {str(inner)[:60]} in shards shaped {chunk.shape}")
    counts = (*(length // part for length, part in zip(chunk.shape, inner, strict=True)), 2)
    index = coding_3(settings.get("index_codecs") or _INDEX_CODECS, Chunk(counts, np.dtype(np.uint64), 0))
    if not index.length.exact:
        raise ValueError("an index of shards that is packed")
    coding = coding_3(settings["codecs"], replace(chunk, shape=inner))
    return Shards(chunk, inner, coding, index, settings.get("index_location") == "start")


def _steps(codecs: list[tuple[str, Settings]], length: Length) -> tuple[Step, ...]:
    if len(codecs) > _MOST_CODECS:
        raise ValueError(f"{len(codecs)} codecs after each other")
    steps: list[Step] = []
    for name, settings in codecs:
        if name not in PACKERS and name not in _UNDO:
            raise ValueError(f"the codec {name} where bytes become bytes")
        steps.append(Step(name, settings, steps[-1].encoded if steps else length))
    return tuple(steps)


def _types(settings: Settings) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Of numbers as they are read and as they are stored, by a filter that alters them."""
    types = np.dtype(settings["dtype"]), np.dtype(settings.get("astype") or settings["dtype"])
    for dtype in types:
        if dtype.kind not in "fiub" or dtype.itemsize > 8:
            raise ValueError(f"a filter of {str(dtype)[:40]}")
    return types


def _without_crc32c(content: Bytes, settings: Settings) -> Bytes:  # noqa: ARG001  it has none
    import google_crc32c

    view = memoryview(content).cast("B")
    body = view[:-_CHECKSUM_BYTES]
    if google_crc32c.value(np.frombuffer(body, np.uint8)) != int.from_bytes(view[len(body) :], "little"):
        raise ValueError("its checksum differs")
    return body


def _unfiltered(content: Bytes, settings: Settings) -> Bytes:
    from numcodecs.registry import get_codec

    with np.errstate(all="ignore"):  # what is not finite then is found by who computes with it
        found = get_codec(dict(settings)).decode(np.frombuffer(content, np.uint8))
    return np.ascontiguousarray(found).reshape(-1).view(np.uint8).data


_UNDO: dict[str, Callable[[Bytes, Settings], Bytes]] = {
    "crc32c": _without_crc32c,
    **dict.fromkeys(FILTERS_2, _unfiltered),
}
