"""What the folders of a Zarr store say about themselves, formats 2 and 3, checked before any of it is believed.

Read from the JSON itself: metadata can ask for codecs that unpickle, chunks larger than any memory, and paths that lead
out of the store, and all of that must be refused before the library gets to see it.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dope.bounded import read_regular
from dope.errors import InputError
from dope.io.content import Shape, bytes_of, check_numbers
from dope.io.files import reading
from dope.io.images.zarr_codecs import CODECS_2, CODECS_3, Chunk, Coding, Shards, coding_2, coding_3
from dope.io.places import resolved
from dope.memory import require_bytes

SUFFIX = ".zarr"
METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")
_MOST_JSON_BYTES = 16 << 20
_TYPES = (
    {"bool"}
    | {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
    | {"float16", "float32", "float64"}
)
_TYPE_2 = re.compile(r"[<>|]([biuf])([1248])")
# Each chunk takes some ten microseconds, whatever is in it: many chunks of few sites would be read for hours.
_FEW_SITES, _MANY_CHUNKS = 512, 1 << 16


@dataclass(frozen=True)
class Node:
    """A folder of a store: an array, or a group of others."""

    folder: Path
    zarr_format: Literal[2, 3]
    is_array: bool
    metadata: dict[str, Any]
    attributes: dict[str, Any]


@dataclass(frozen=True)
class ChunkKey:
    """What the file of a chunk is called, from the array's folder on."""

    prefix: str
    separator: str

    def of(self, place: tuple[int, ...]) -> str:
        return self.prefix + self.separator.join(map(str, place))


@dataclass(frozen=True)
class ArrayLayout:
    """What an array declares, checked."""

    shape: Shape
    chunks: Shape
    dtype: np.dtype[Any]
    codecs: tuple[str, ...]
    coding: Coding
    key: ChunkKey
    fill: Any = field(compare=False)  # NaN is not itself

    @property
    def inner_chunks(self) -> Shape:
        """Those within shards, where there are such."""
        whole = self.coding.orders or self.coding.steps
        return self.coding.numbers.inner_shape if isinstance(self.coding.numbers, Shards) and not whole else self.chunks

    @property
    def bytes(self) -> int:
        return bytes_of(self.shape, self.dtype)


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
    with reading(path):
        return _find_node(path)


def _find_node(path: Path) -> Node | None:
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
        content = json.loads(read_regular(path, "metadata", most=_MOST_JSON_BYTES))
    if not isinstance(content, dict):
        raise InputError(f"{path}: damaged; expected a JSON object")
    return content


def array_layout(node: Node, budget: int | None = None) -> ArrayLayout:
    """Of an array whose numbers, codecs and chunks are such that reading it is safe."""
    if not node.is_array:
        raise InputError(f"{node.folder}: a Zarr group; expected an array")
    with reading(node.folder):
        layout = _layout_3(node) if node.zarr_format == 3 else _layout_2(node)
        held = layout.coding.held_bytes
    number = math.prod(-(-length // chunk) for length, chunk in zip(layout.shape, layout.chunks, strict=True))
    sites = math.prod(layout.chunks) // layout.coding.numbers.number
    if number * layout.coding.numbers.number > _MANY_CHUNKS and sites < _FEW_SITES:
        raise InputError(
            f"{node.folder}: declares {number * layout.coding.numbers.number:,} chunks of {sites} sites; expected "
            f"{_FEW_SITES} or more in each. Write it with larger ones"
        )
    size = " x ".join(map(str, layout.inner_chunks))
    require_bytes(f"{node.folder}: a chunk of {size} {layout.dtype.name}", held, budget)
    return layout


def _layout_2(node: Node) -> ArrayLayout:
    metadata = node.metadata
    name = metadata["dtype"]
    if not (isinstance(name, str) and _TYPE_2.fullmatch(name)):
        raise InputError(f'{node.folder}: holds {json.dumps(name)[:80]}; expected integers or reals, such as "<u2"')
    codecs = [metadata.get("compressor"), *(metadata.get("filters") or [])]
    names = tuple(str(codec["id"]) for codec in codecs if codec is not None)
    shape, chunk = _checked(node, np.dtype(name), metadata["shape"], metadata["chunks"])
    _check_codecs(node, names, CODECS_2)
    coding, key = coding_2(metadata, chunk), ChunkKey("", _separator(metadata.get("dimension_separator", ".")))
    return ArrayLayout(shape, chunk.shape, chunk.dtype, names, coding, key, chunk.fill)


def _layout_3(node: Node) -> ArrayLayout:
    metadata = node.metadata
    name = metadata["data_type"]
    if not (isinstance(name, str) and name in _TYPES):
        raise InputError(f"{node.folder}: holds {json.dumps(name)[:80]}; expected integers or reals, such as uint16")
    if metadata["chunk_grid"]["name"] != "regular" or metadata.get("storage_transformers"):
        raise InputError(f"{node.folder}: its chunks are not all of one shape, or stored in a way of their own")
    names = tuple(_names(metadata["codecs"]))
    lengths = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    shape, chunk = _checked(node, np.dtype(name), metadata["shape"], lengths)
    _check_codecs(node, names, CODECS_3)
    coding, key = coding_3(metadata["codecs"], chunk), _key_3(metadata)
    return ArrayLayout(shape, chunk.shape, chunk.dtype, names, coding, key, chunk.fill)


def _key_3(metadata: dict[str, Any]) -> ChunkKey:
    encoding = metadata["chunk_key_encoding"]
    settings = encoding.get("configuration") or {}
    if encoding["name"] == "v2":
        return ChunkKey("", _separator(settings.get("separator", ".")))
    if encoding["name"] == "default":
        separator = _separator(settings.get("separator", "/"))
        return ChunkKey(f"c{separator}", separator)
    raise ValueError(f"names of chunks as in {str(encoding['name'])[:40]!r}")


def _separator(text: Any) -> str:
    if text not in (".", "/"):
        raise ValueError(f"the separator {str(text)[:40]!r}")
    return str(text)


def _checked(node: Node, dtype: np.dtype[Any], shape: list[Any], chunks: list[Any]) -> tuple[Shape, Chunk]:
    lengths, parts = _lengths(shape), _lengths(chunks)
    check_numbers(node.folder, dtype, lengths)
    if len(parts) != len(lengths) or not 1 <= min(parts) <= max(parts) < 2**63:
        raise InputError(f"{node.folder}: declares chunks {str(parts)[:80]} of an array shaped {lengths}")
    return lengths, Chunk(parts, dtype, _fill_value(node.metadata.get("fill_value"), dtype))


def _fill_value(value: Any, dtype: np.dtype[Any]) -> Any:
    """What a chunk that is not there is full of; reals may be written in words, or as their bits."""
    if value is None:
        return dtype.type(0)
    if dtype.kind != "f":
        return np.array(int(value)).astype(dtype)[()]
    if isinstance(value, str) and value.startswith("0x"):
        return np.frombuffer(int(value, 16).to_bytes(dtype.itemsize, "little"), dtype.newbyteorder("<"))[0]
    return dtype.type(float(value))


def _check_codecs(node: Node, names: tuple[str, ...], known: frozenset[str]) -> None:
    for name in names:
        if name not in known:
            raise InputError(
                f"{node.folder}: packed with the codec {name[:40]!r}; expected one of {', '.join(sorted(known))}"
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
