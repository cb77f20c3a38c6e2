"""Zarr, formats 2 and 3, and OME-Zarr."""

import bz2
import gzip
import json
import lzma
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np

from hostile.case import Case
from hostile.tiffs import zstd_rle
from hostile.zeros import gzipped, zlibbed

_MEMBER = gzipped(1 << 24)
_GIB = 1 << 30
_LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}


def _blosc_header(size: int) -> bytes:
    data = bytearray(numcodecs.Blosc("lz4").encode(bytes(1 << 16)))
    struct.pack_into("<I", data, 4, size)
    return bytes(data)


def _bz2_members(number: int) -> bytes:
    return bz2.compress(bytes(1 << 22)) * (4 * number)


BOMBS: dict[str, bytes] = {
    "gzip": gzipped(1 << 26),
    "gzip-members": _MEMBER * 64,
    "gzip-empty-members": gzip.compress(b"", mtime=0) * 30000,
    "gzip-small-member-first": gzip.compress(bytes(256), mtime=0) + _MEMBER * 64,
    "gzip-nested": gzip.compress(_MEMBER * 32, mtime=0),
    "zlib": zlibbed(1 << 26),
    "bz2": _bz2_members(64),
    "lzma": lzma.compress(bytes(1 << 22)) * 256,
    "lzma-alone": lzma.compress(bytes(1 << 22), lzma.FORMAT_ALONE),
    "zstd-no-size": zstd_rle(_GIB),
    "zstd-frames": zstd_rle(1 << 20) * 1024,
    "zstd-declared": b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**40) + b"\x01\0\0",
    "zstd-skipped": b"\x50\x2a\x4d\x18" + struct.pack("<I", 2**31),
    "blosc": _blosc_header(2**31 - 1),
    "blosc-0": _blosc_header(0),
    "lz4": struct.pack("<i", 2**31 - 1) + bytes(100),
    "lz4-negative": struct.pack("<i", -5) + bytes(100),
    "garbage": bytes(range(256)),
    "one-byte": b"\0",
}


def metadata_2(**changes: Any) -> dict[str, Any]:
    return {
        "zarr_format": 2, "shape": [8, 8], "chunks": [8, 8], "dtype": "<f4", "compressor": None, "fill_value": 0,
        "order": "C", "filters": None,
    } | changes  # fmt: skip


def metadata_3(**changes: Any) -> dict[str, Any]:
    return {
        "zarr_format": 3, "node_type": "array", "shape": [8, 8], "data_type": "float32", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 8]}}, "attributes": {},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "codecs": [_LITTLE],
    } | changes  # fmt: skip


def grid(*lengths: int) -> dict[str, Any]:
    return {"name": "regular", "configuration": {"chunk_shape": list(lengths)}}


def sharded(inner: list[int], codecs: list[Any], **settings: Any) -> dict[str, Any]:
    return {"name": "sharding_indexed", "configuration": {"chunk_shape": inner, "codecs": codecs, **settings}}


def array(metadata: dict[str, Any] | str | bytes, chunk: bytes | None = bytes(256)) -> Callable[[Path], object]:
    """The writer of an array of one chunk."""

    def write(folder: Path) -> None:
        text = metadata if isinstance(metadata, (str, bytes)) else json.dumps(metadata)
        new = isinstance(metadata, dict) and metadata.get("zarr_format") == 3
        folder.mkdir(parents=True)
        (folder / ("zarr.json" if new else ".zarray")).write_bytes(text if isinstance(text, bytes) else text.encode())
        if chunk is not None:
            place = folder / ("c/0/0" if new else "0.0")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(chunk)

    return write


def _bombs() -> Iterator[tuple[str, Callable[[Path], object], str]]:
    settings = {
        "gzip": {"id": "gzip", "level": 5}, "zlib": {"id": "zlib", "level": 5}, "bz2": {"id": "bz2", "level": 5},
        "lzma": {"id": "lzma", "format": 1, "check": -1, "preset": None, "filters": None},
        "zstd": {"id": "zstd", "level": 0}, "lz4": {"id": "lz4", "acceleration": 1},
        "blosc": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    }  # fmt: skip
    for codec, one in settings.items():
        for name, bomb in BOMBS.items():
            if name.startswith((codec, "garbage", "one-byte")):
                used = one | ({"format": 2} if name == "lzma-alone" else {})
                yield f"2-{codec}-{name}", array(metadata_2(compressor=used), bomb), ""
                yield f"2-filter-{codec}-{name}", array(metadata_2(filters=[used]), bomb), ""
    twice = metadata_2(compressor=settings["gzip"], filters=[settings["gzip"]])
    yield "2-gzip-in-gzip", array(twice, BOMBS["gzip-nested"]), ""
    raw = {"id": "lzma", "format": 3, "filters": [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 31}]}
    yield "2-lzma-raw", array(metadata_2(compressor=raw), bytes(100)), ""
    for name, filter_ in {
        "delta-wide": {"id": "delta", "dtype": "<f8", "astype": "|i1"},
        "delta-void": {"id": "delta", "dtype": "|V1000000", "astype": "|i1"},
        "delta-object": {"id": "delta", "dtype": "|O"},
        "scale-wide": {"id": "fixedscaleoffset", "dtype": "<f8", "astype": "|u1", "scale": 1, "offset": 0},
        "scale-zero": {"id": "fixedscaleoffset", "dtype": "<f4", "astype": "<f4", "scale": 0, "offset": 0},
        "shuffle-0": {"id": "shuffle", "elementsize": 0},
        "crc32": {"id": "crc32"},
        "pickle": {"id": "pickle"},
        "json": {"id": "json2"},
        "vlen": {"id": "vlen-bytes"},
        "unknown": {"id": "\x1b[31m"},
        "no-id": {},
        "list": [],
    }.items():
        harmless = "taken as no shuffle" if name == "shuffle-0" else ""
        yield f"2-filter-{name}", array(metadata_2(filters=[filter_])), harmless
    for codec in ("gzip", "zstd", "blosc"):
        one = {"name": codec, "configuration": {"level": 1}} if codec != "blosc" else {"name": "blosc"}
        for name, bomb in BOMBS.items():
            if name.startswith((codec, "garbage")):
                yield f"3-{codec}-{name}", array(metadata_3(codecs=[_LITTLE, one]), bomb), ""
                shard = metadata_3(codecs=[sharded([4, 4], [_LITTLE, one])])
                yield f"3-shard-{codec}-{name}", array(shard, _shard(bomb)), ""
                yield (
                    f"3-around-shard-{codec}-{name}",
                    array(metadata_3(codecs=[sharded([4, 4], [_LITTLE]), one]), bomb),
                    "",
                )
    yield "3-gzip-20000", array(metadata_3(codecs=[_LITTLE, *[{"name": "gzip"}] * 20000])), ""


def _shard(content: bytes) -> bytes:
    """A shard of 2 x 2 chunks that all are the same bytes, with its index."""
    import google_crc32c

    index = struct.pack("<QQ", 0, len(content)) * 4
    return content + index + struct.pack("<I", google_crc32c.value(index))


def _nested(depth: int) -> list[Any]:
    codecs: list[Any] = [_LITTLE]
    for _ in range(depth):
        codecs = [sharded([8, 8], codecs)]
    return codecs


def _layouts() -> Iterator[tuple[str, Callable[[Path], object], str]]:
    for make, word, chunks in (
        (metadata_2, "2", lambda *lengths: {"chunks": list(lengths)}),
        (metadata_3, "3", lambda *lengths: {"chunk_grid": grid(*lengths)}),
    ):
        for shape in (
            [30000, 30000],
            [2**62, 2**62],
            [10**400, 8],
            [-8, 8],
            [0, 8],
            [8.0, 8],
            ["8", 8],
            [],
            8,
            None,
            [True, 8],
        ):
            yield f"{word}-shape-{str(shape)[:16]}", array(make(shape=shape)), ""
        yield f"{word}-17-axes", array(make(shape=[1] * 17, **chunks(*[1] * 17))), ""
        yield f"{word}-chunks-of-1", array(make(shape=[30000, 30000], **chunks(1, 1))), ""
        yield f"{word}-chunks-of-2", array(make(shape=[10**9], **chunks(2))), ""
        yield f"{word}-chunk-4GB", array(make(shape=[30000, 30000], **chunks(30000, 30000))), ""
        yield f"{word}-chunk-190MB", array(make(shape=[8, 8], **chunks(6900, 6900))), ""
        yield f"{word}-chunk-0", array(make(**chunks(0, 8))), ""
        yield f"{word}-no-chunks", array(make(), None), ""
        yield f"{word}-chunk-long", array(make(), bytes(1 << 20)), ""
        yield f"{word}-chunk-short", array(make(), bytes(255)), ""
        yield f"{word}-chunk-empty", array(make(), b""), ""
        for fill in ("NaN", "text", [1], {}, 10**400, "0x", "Infinity"):
            harmless = "" if fill in ("text", [1], {}, 10**400, "0x") else "a fill value that is not used"
            yield f"{word}-fill-{str(fill)[:16]}", array(make(fill_value=fill)), harmless
        yield f"{word}-attributes", array(make(attributes={"a": [[]] * 100_000})), "attributes"
    for dtype in ("|O", "<U9", "<M8[s]", [["a", "<f4"]], "<f16", "\x1b[31m", None):
        yield f"2-dtype-{str(dtype)[:8]}", array(metadata_2(dtype=dtype)), ""
    for kind in ("string", "complex64", "r8", {"name": "numpy.datetime64"}, None, "\x1b[31m"):
        yield f"3-dtype-{str(kind)[:8]}", array(metadata_3(data_type=kind)), ""
    for name, codecs in {
        "none": [],
        "text": "bytes",
        "twice": [_LITTLE, _LITTLE],
        "gzip-first": [{"name": "gzip"}, _LITTLE],
        "pickle": [_LITTLE, {"name": "numcodecs.pickle"}],
        "transpose-9": [{"name": "transpose", "configuration": {"order": [9, 0]}}, _LITTLE],
        "transposes": [{"name": "transpose", "configuration": {"order": [1, 0]}}] * 1000 + [_LITTLE],
        "crc32c": [_LITTLE, {"name": "crc32c"}],
        "shard-of-1": [sharded([1, 1], [_LITTLE])],
        "shard-0": [sharded([0, 8], [_LITTLE])],
        "shard-3": [sharded([3, 8], [_LITTLE])],
        "shard-index-gzip": [sharded([4, 4], [_LITTLE], index_codecs=[_LITTLE, {"name": "gzip"}])],
        "shards-50": _nested(50),
        "shards-150": _nested(150),
    }.items():
        yield f"3-codecs-{name}", array(metadata_3(codecs=codecs)), ""
    tiny = metadata_3(shape=[12000, 12000], chunk_grid=grid(12000, 12000), codecs=[sharded([1, 1], [_LITTLE])])
    yield "3-index-2GB", array(tiny), ""
    turned = [{"name": "transpose", "configuration": {"order": [1, 0]}}, sharded([1, 1], [_LITTLE])]
    yield "3-turned-shards-of-1", array(metadata_3(shape=[30000, 30000], chunk_grid=grid(100, 100), codecs=turned)), ""
    for name, index in {
        "beyond": struct.pack("<QQ", 2**60, 64) * 4,
        "long": struct.pack("<QQ", 0, 2**62) * 4,
        "max": struct.pack("<QQ", 2**64 - 1, 64) * 4,
        "overlap": struct.pack("<QQ", 0, 10**6) * 4,
    }.items():
        import google_crc32c

        chunk = bytes(10**6) + index + struct.pack("<I", google_crc32c.value(index))
        yield f"3-index-{name}", array(metadata_3(codecs=[sharded([4, 4], [_LITTLE])]), chunk), ""
    yield "3-index-crc", array(metadata_3(codecs=[sharded([4, 4], [_LITTLE])]), bytes(200)), ""
    for encoding in ({"name": "odd"}, {"name": "default", "configuration": {"separator": "/../"}}, "v2", None):
        yield f"3-keys-{str(encoding)[:30]}", array(metadata_3(chunk_key_encoding=encoding)), ""
    for name, text in {
        "deep": "[" * 100_000,
        "deep-object": '{"a":' * 50_000,
        "list": "[]",
        "empty": "",
        "digits": '{"zarr_format": ' + "9" * 10_000 + "}",
        "nan": "NaN",
        "cut": '{"zarr_format": 2',
        "lists": '{"zarr_format": 2, "a": [' + "[]," * 10**6 + "[]]}",
    }.items():
        yield f"json-{name}", array(text), ""
    yield "json-not-text", array(bytes(range(128, 256))), ""
    yield "json-20MB", array(b" " * (20 << 20)), ""


def _image(changes: dict[str, Any], levels: int = 1, axes: str = "yx") -> Callable[[Path], object]:
    multiscale = {
        "axes": [{"name": name, "type": "space"} for name in axes],
        "datasets": [
            {"path": str(k), "coordinateTransformations": [{"type": "scale", "scale": [1.0] * len(axes)}]}
            for k in range(levels)
        ],
    } | changes

    def write(folder: Path) -> None:
        folder.mkdir(parents=True)
        attributes = {"ome": {"version": "0.5", "multiscales": [multiscale]}}
        group = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
        (folder / "zarr.json").write_text(json.dumps(group))
        array(metadata_3())(folder / "0")

    return write


def _linked_levels(folder: Path) -> None:
    """20,000 levels that all are the same folder."""
    _image({"datasets": [{"path": f"{'./' * (k % 50)}0"} for k in range(20000)]})(folder)


def _images() -> Iterator[tuple[str, Callable[[Path], object], str]]:
    yield "20000-levels", _image({}, levels=20000), ""
    yield "20000-times-one", _linked_levels, ""
    yield "65-levels", _image({}, levels=65), ""
    for path in ("../a", "/etc", "0/../../x", "\0", "n" * 10000, "", ".", 7, None, ["0"]):
        yield f"level-{str(path)[:10]}", _image({"datasets": [{"path": path}]}), ""
    for scale in ([0, 1], [-1, 1], [1], [1, "1"], [1e400, 1], [10**400, 1], None, "scale", [float("nan"), 1], [[1], 1]):
        transform = {"type": "scale", "scale": scale}
        yield f"scale-{str(scale)[:16]}", _image({"coordinateTransformations": [transform]}), ""
    yield "transforms-100000", _image({"coordinateTransformations": [{"type": "identity"}] * 100_000}), "transforms"
    for name, changes in {
        "rotation": {"coordinateTransformations": [{"type": "rotation"}]},
        "transform-text": {"coordinateTransformations": ["x"]},
        "transform-none": {"coordinateTransformations": [{}]},
        "no-levels": {"datasets": []},
        "levels-text": {"datasets": "0"},
        "axes-text": {"axes": "yx"},
        "axes-1000": {"axes": [{"name": "x" * 99, "type": "space"}] * 1000},
        "axes-none": {"axes": []},
        "axis-type": {"axes": [{"name": "y", "type": "\x1b[31m"}, {"name": "x"}]},
        "axis-nameless": {"axes": [{}, {}]},
        "axes-3": {"axes": [{"name": name, "type": "space"} for name in "zyx"]},
    }.items():
        yield name, _image(changes), ""


def _stores() -> Iterator[tuple[str, Callable[[Path], object], str]]:
    def replaced(make: Callable[[Path], object], name: str = "c/0/0") -> Callable[[Path], object]:
        def write(folder: Path) -> None:
            array(metadata_3())(folder)
            (folder / name).unlink()
            make(folder / name)

        return write

    for name in ("c/0/0", "zarr.json"):
        yield f"fifo-{name}", replaced(os.mkfifo, name), ""
        yield f"zero-{name}", replaced(lambda path: path.symlink_to("/dev/zero"), name), ""
        yield f"link-out-{name}", replaced(lambda path: path.symlink_to("/etc/passwd"), name), ""
        yield f"circle-{name}", replaced(lambda path: path.symlink_to(path.name), name), ""
        yield f"folder-{name}", replaced(lambda path: path.mkdir(), name), ""
    yield "sparse-chunk", replaced(lambda path: _sparse(path, 10**11)), ""
    yield "sparse-metadata", replaced(lambda path: _sparse(path, 10**11), "zarr.json"), ""


def _sparse(path: Path, size: int) -> None:
    with path.open("wb") as stream:
        stream.truncate(size)


def cases() -> Iterator[Case]:
    for group, word in ((_bombs, "zarr"), (_layouts, "zarr"), (_stores, "zarr"), (_images, "ome-zarr")):
        for name, write, harmless in group():
            yield Case(f"{word}-{name}", "a.zarr", write, harmless=harmless)
    good = np.zeros((8, 8), np.float32).tobytes()
    for level in ("zlib", "gzip"):
        packed = numcodecs.get_codec({"id": level}).encode(good)
        yield Case(
            f"zarr-2-{level}-longer", "a.zarr", array(metadata_2(compressor={"id": level}), packed + bytes(10**6))
        )
