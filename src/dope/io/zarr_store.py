"""A Zarr store in a folder that does not look beyond it. Imports zarr, so it is imported where it is used."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Self

from zarr.storage import LocalStore

from dope.errors import InputError
from dope.io.zarr_nodes import METADATA
from dope.memory import as_text

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

# Filters may store a chunk wider than it is read, from 8 bits to 64.
_WIDER, _SMALL = 8, 1 << 20


class ConfinedStore(LocalStore):
    """A local store that follows no links to files elsewhere, reads no devices or pipes, and lets no chunk explode.

    `codec` is the one that chunks are packed with, `chunk_bytes` what they are said to unpack to.
    """

    def __init__(self, root: Path | str, *, read_only: bool = False, codec: str = "", chunk_bytes: int = 0) -> None:
        super().__init__(root, read_only=read_only)
        self.codec = codec
        self.chunk_bytes = chunk_bytes

    def with_read_only(self, read_only: bool = False) -> Self:
        return type(self)(self.root, read_only=read_only, codec=self.codec, chunk_bytes=self.chunk_bytes)

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        path = self.root / key
        resolved = path.resolve()
        if not resolved.is_relative_to(self.root.resolve()):
            raise InputError(f"{path}: a link that leads out of the store; only what lies in a store is read")
        if resolved.exists() and not (resolved.is_file() or resolved.is_dir()):
            raise InputError(f"{path}: a device or pipe; expected a chunk")
        content = await super().get(key, prototype, byte_range)
        # A range is a part of a shard; how it is packed is not looked at.
        if content is not None and byte_range is None and path.name not in METADATA:
            self._check_chunk(path, content)
        return content

    def _check_chunk(self, path: Path, content: Buffer) -> None:
        most = _WIDER * self.chunk_bytes + _SMALL
        found = _unpacked_bytes(self.codec, content, most)
        if found > most:
            raise InputError(
                f"{path}: unpacks to {as_text(found)} or more, but a chunk has {as_text(self.chunk_bytes)}; "
                "get a whole copy"
            )


def _unpacked_bytes(codec: str, content: Buffer, most: int) -> int:
    """What a chunk says it unpacks to, or, where it does not say so in front, whether that is more than `most`."""
    head = content[:16].to_bytes()
    if codec == "blosc":
        return int.from_bytes(head[4:8], "little")
    if codec == "lz4":
        return int.from_bytes(head[:4], "little")
    if codec == "zstd":
        return _zstd_bytes(head)
    if codec in ("gzip", "zlib"):
        try:
            return len(zlib.decompressobj(wbits=47).decompress(content.to_bytes(), most + 1))
        except zlib.error:
            return 0  # damaged, as the decoder is going to say
    return 0


def _zstd_bytes(head: bytes) -> int:
    """The size in the header of a frame (RFC 8878, section 3.1.1.1); 0 where it has none."""
    if len(head) < 5:
        return 0
    descriptor = head[4]
    single = descriptor >> 5 & 1
    width = {0: single, 1: 2, 2: 4, 3: 8}[descriptor >> 6]
    start = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3]
    return int.from_bytes(head[start : start + width], "little") + (256 if width == 2 else 0)
