"""What the folders of a Zarr store say about themselves, formats 2 and 3, checked before any of it is believed.

Read from the JSON itself: metadata can ask for codecs that unpickle, chunks larger than any memory, and paths that lead
out of the store, and all of that must be refused before the library gets to see it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dope.errors import InputError
from dope.io.content import Shape, bytes_of, check_numbers
from dope.io.files import reading
from dope.io.places import resolved
from dope.memory import require_bytes

SUFFIX = ".zarr"
METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")
_MOST_JSON_BYTES = 64 << 20
_TYPES = (
    {"bool"}
    | {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
    | {"float16", "float32", "float64"}
)
_TYPE_2 = re.compile(r"[<>|]([biuf])([1248])")
# Codecs that only turn bytes into bytes or numbers into numbers. Others are refused: `pickle`, of format 2, runs code.
_CODECS_2 = {"blosc", "bz2", "crc32", "delta", "fixedscaleoffset", "gzip", "lz4", "lzma", "shuffle", "zlib", "zstd"}
_SHARDS = "sharding_indexed"
_CODECS_3 = {"blosc", "bytes", "crc32c", "gzip", _SHARDS, "transpose", "zstd"}
_PACKERS = {"blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd"}


@dataclass(frozen=True)
class Node:
    """A folder of a store: an array, or a group of others."""

    folder: Path
    zarr_format: Literal[2, 3]
    is_array: bool
    metadata: dict[str, Any]
    attributes: dict[str, Any]


@dataclass(frozen=True)
class ArrayLayout:
    """What an array declares, checked."""

    shape: Shape
    chunks: Shape
    dtype: np.dtype[Any]
    codecs: tuple[str, ...]

    @property
    def bytes(self) -> int:
        return bytes_of(self.shape, self.dtype)

    @property
    def chunk_bytes(self) -> int:
        return bytes_of(self.chunks, self.dtype)

    @property
    def packer(self) -> str:
        """The codec that compresses whole chunks; none where these are shards."""
        return "" if _SHARDS in self.codecs else next((codec for codec in self.codecs if codec in _PACKERS), "")


def store_of(path: Path) -> Path:
    """The store that a path lies in: up to the first part that ends in .zarr."""
    parts = path.parts
    for count, part in enumerate(parts, start=1):
        if part.lower().endswith(SUFFIX):
            return Path(*parts[:count])
    raise InputError(f"{path}: no part of it ends in {SUFFIX}")


def outermost_store(path: Path) -> Path:
    """All that a path is a part of, links resolved: up to the last folder that has metadata, if only by its name."""
    store = resolved(store_of(path))
    above = [folder for folder in resolved(path).parents if any((folder / name).is_file() for name in METADATA)]
    return min([store, *above], key=lambda folder: len(folder.parts))


def check_inside(path: Path, store: Path) -> None:
    """Refuse a path that leads out of its store, by dots or by links."""
    if ".." in path.relative_to(store).parts or not path.resolve().is_relative_to(store.resolve()):
        raise InputError(f"{path}: leads out of {store}; only what lies in a store is read")


def find_node(path: Path) -> Node | None:
    """The node at a folder of a store; None where there is none."""
    check_inside(path, store_of(path))
    if (path / "zarr.json").is_file():
        metadata = read_json(path / "zarr.json")
        kind, attributes = metadata.get("node_type"), metadata.get("attributes", {})
        if metadata.get("zarr_format") != 3 or kind not in ("array", "group") or not isinstance(attributes, dict):
            raise InputError(f"{path}: zarr.json describes neither an array nor a group of Zarr format 3")
        return Node(path, 3, kind == "array", metadata, attributes)
    for name, is_array in ((".zarray", True), (".zgroup", False)):
        if (path / name).is_file():
            metadata = read_json(path / name)
            if metadata.get("zarr_format") != 2:
                raise InputError(f"{path}: {name} does not describe Zarr format 2")
            attributes = read_json(path / ".zattrs") if (path / ".zattrs").is_file() else {}
            return Node(path, 2, is_array, metadata, attributes)
    return None


def read_node(path: Path) -> Node:
    """The node at a folder of a store."""
    node = find_node(path)
    if node is not None:
        return node
    if path.is_dir():
        raise InputError(f"{path}: a folder that is no Zarr array or group: it holds no zarr.json, .zarray or .zgroup")
    if path.exists():
        raise InputError(f"{path}: a file; expected the folder of a Zarr store")
    raise InputError(f"{path}: no such file")


def read_json(path: Path) -> dict[str, Any]:
    """An object of metadata."""
    with reading(path):
        if path.stat().st_size > _MOST_JSON_BYTES:
            raise InputError(f"{path}: larger than {_MOST_JSON_BYTES >> 20} MB; metadata are small files")
        content = json.loads(path.read_bytes())
    if not isinstance(content, dict):
        raise InputError(f"{path}: damaged; expected a JSON object")
    return content


def array_layout(node: Node, budget: int | None = None) -> ArrayLayout:
    """Of an array whose numbers, codecs and chunks are such that reading it is safe."""
    if not node.is_array:
        raise InputError(f"{node.folder}: a Zarr group; expected an array")
    with reading(node.folder):
        layout = _layout_3(node) if node.zarr_format == 3 else _layout_2(node)
    check_numbers(node.folder, layout.dtype, layout.shape)
    known = _CODECS_3 if node.zarr_format == 3 else _CODECS_2
    for codec in layout.codecs:
        if codec not in known:
            raise InputError(
                f"{node.folder}: packed with the codec {codec!r}; expected one of {', '.join(sorted(known))}"
            )
    if len(layout.chunks) != len(layout.shape) or not 1 <= min(layout.chunks) <= max(layout.chunks) < 2**63:
        raise InputError(f"{node.folder}: declares chunks {str(layout.chunks)[:80]} of an array shaped {layout.shape}")
    size = " x ".join(map(str, layout.chunks))
    require_bytes(f"{node.folder}: a chunk of {size} {layout.dtype.name}", layout.chunk_bytes, budget)
    return layout


def _layout_2(node: Node) -> ArrayLayout:
    metadata = node.metadata
    name = metadata["dtype"]
    if not (isinstance(name, str) and _TYPE_2.fullmatch(name)):
        raise InputError(f'{node.folder}: holds {json.dumps(name)[:80]}; expected integers or reals, such as "<u2"')
    codecs = [metadata.get("compressor"), *(metadata.get("filters") or [])]
    return ArrayLayout(
        shape=_lengths(metadata["shape"]),
        chunks=_lengths(metadata["chunks"]),
        dtype=np.dtype(name),
        codecs=tuple(str(codec["id"]) for codec in codecs if codec is not None),
    )


def _layout_3(node: Node) -> ArrayLayout:
    metadata = node.metadata
    name = metadata["data_type"]
    if not (isinstance(name, str) and name in _TYPES):
        raise InputError(f"{node.folder}: holds {json.dumps(name)[:80]}; expected integers or reals, such as uint16")
    return ArrayLayout(
        shape=_lengths(metadata["shape"]),
        chunks=_lengths(metadata["chunk_grid"]["configuration"]["chunk_shape"]),
        dtype=np.dtype(name),
        codecs=tuple(_names(metadata["codecs"])),
    )


def _names(codecs: list[Any]) -> list[str]:
    """Of codecs, and of those within shards."""
    names = []
    for codec in codecs:
        settings = codec.get("configuration") or {}
        names += [str(codec["name"]), *_names(settings.get("codecs", [])), *_names(settings.get("index_codecs", []))]
    return names


def _lengths(values: list[Any]) -> Shape:
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        raise ValueError(f"lengths {values}")
    return tuple(values)
