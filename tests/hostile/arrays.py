"""NPY, NPZ and NIfTI."""

import bz2
import gzip
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hostile.case import CERTIFICATE, ENERGY, Case, content
from hostile.zeros import gzipped, zipped


def npy(header: bytes, numbers: bytes = b"", version: int = 1, length: int | None = None) -> bytes:
    size = len(header) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", size) + header + numbers


def _fields(descr: str = "'<f4'", order: str = "False", shape: str = "(8, 8)") -> bytes:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()


PIXELS = bytes(256)


def _npys() -> Iterator[tuple[str, bytes]]:
    for length in (1_600_000_000, 2**32 - 1, 10**8, 20_000):
        yield f"v2-header-{length}", npy(_fields(), PIXELS, 2, length)
        yield f"v3-header-{length}", npy(_fields(), PIXELS, 3, length)
    yield "v1-header-65535", npy(_fields(), PIXELS, 1, 65535)
    for shape in (
        *("(10**9, 10**9)", "(1000000000, 1000000000)", f"({10**30},)", "(-8, 8)", "(8.0, 8)", "(True, 64)", "8, 8"),
        *("()", "(0, 8)", "(1,) * 64", f"({'1, ' * 40})", f"({'1, ' * 2000})", "[8, 8]", "None", "(8, (8,))", "'88'"),
        *(f"({'9' * 5000},)", "(8, 8, 1j)", "(2147483648, 2147483648)"),
    ):
        yield f"shape-{shape[:20]}-{len(shape)}", npy(_fields(shape=shape), PIXELS)
    for descr in (
        *("'O'", "'|O8'", "'<f16'", "'<c16'", "'<U8'", "'|V1000000000'", "'<M8[ns]'", "'<f3'", "''", "'a'", "8"),
        *("[('a', '<f4')]", "[('a', '<f4', (1000000, 1000000))]", "{'names': ['a']}", "'<f4,<f4'", "'float128'"),
        *("'<M8[99999999999999s]'", "[]", "None"),
    ):
        yield f"descr-{descr[:20]}", npy(_fields(descr=descr), PIXELS)
    for name, header in {
        "parentheses": b"(" * 9000,
        "minus": b"-" * 9000 + b"1",
        "plus": b"1" + b"+1" * 4000,
        "lists": b"[" * 4000 + b"]" * 4000,
        "dictionary": b"{0:" * 2000 + b"0" + b"}" * 2000,
        "call": b"__import__('os').system('true')",
        "digits": b"9" * 9000,
        "warning": b"{'descr': 1if 1else 2}",
        "not-text": bytes(range(128, 255)),
        "nul": b"\0" * 100,
        "empty": b"",
        "missing": b"{'descr': '<f4'}",
        "more": b"{'descr': '<f4', 'fortran_order': False, 'shape': (8, 8), 'x': 1}",
    }.items():
        yield name, npy(header, PIXELS)
    yield "cut", npy(_fields(), PIXELS[:-1])
    yield "version-9", npy(_fields(), PIXELS, 9)
    yield "magic", b"\x93NUMPY"


def archive(members: dict[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", packing) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return stream.getvalue()


def altered(data: bytes, mark: bytes, offset: int, values: bytes, *, last: bool = False) -> bytes:
    """The bytes with some others at an offset from a mark."""
    at = (data.rindex(mark) if last else data.index(mark)) + offset
    return data[:at] + values + data[at + len(values) :]


_LOCAL, _CENTRAL, _END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"


_NPZ_HARMLESS = {
    "packed-size-2147483648": "the stream ends by itself",
    "packed-size-4294967294": "the stream ends by itself",
    "65535-members": "members are counted as they are found",
}


def _npzs() -> Iterator[tuple[str, bytes]]:
    whole = npy(_fields(), PIXELS)
    good = archive({"a.npy": whole})
    large = npy(_fields(shape="(20000, 20000)"))
    yield "declares-1.6GB", archive({"a.npy": large + bytes(1000)})
    head = npy(_fields(shape="(8192, 8192)"))
    yield "unpacks-to-256MB", zipped("a.npy", 1 << 28, head)
    yield "bz2-bomb", archive({"a.npy": head + bytes(1 << 22)}, zipfile.ZIP_BZIP2)
    yield "lzma-bomb", archive({"a.npy": head + bytes(1 << 22)}, zipfile.ZIP_LZMA)
    yield "bz2", archive({"a.npy": whole}, zipfile.ZIP_BZIP2)
    yield "lzma", archive({"a.npy": whole}, zipfile.ZIP_LZMA)
    for code in (1, 6, 9, 10, 12, 14, 93, 97, 99):
        yield f"method-{code}", altered(altered(good, _LOCAL, 8, bytes([code, 0])), _CENTRAL, 10, bytes([code, 0]))
    for size in (1, 2**31, 2**32 - 2):
        yield f"declared-size-{size}", altered(good, _CENTRAL, 24, struct.pack("<I", size))
        yield f"packed-size-{size}", altered(good, _CENTRAL, 20, struct.pack("<I", size))
    yield "crc", altered(good, _CENTRAL, 16, bytes(4))
    yield "encrypted", altered(altered(good, _LOCAL, 6, b"\x01\0"), _CENTRAL, 8, b"\x01\0")
    yield "offset", altered(good, _CENTRAL, 42, struct.pack("<I", 2**31))
    yield "central-at-2^31", altered(good, _END, 16, struct.pack("<I", 2**31))
    yield "65535-members", altered(good, _END, 10, b"\xff\xff")
    yield "nested", archive({"a.npz": good, "b.npy": good})
    yield "no-arrays", archive({"a.txt": b"text"})
    yield "two-arrays", archive({"a.npy": whole, "b.npy": whole})
    yield "long-names", archive({f"{'n' * 60000}{k}.npy": whole for k in range(5)})
    yield "escapes", archive({"\x1b[31m\x07.npy": whole, "b\n.npy": whole})
    yield "3000-members", archive({f"{k}.npy": b"" for k in range(3000)}, zipfile.ZIP_STORED)
    yield "overlapping", _overlapping(whole)
    yield "pickle", archive({"a.npy": npy(_fields("'|O'"), b"cos\nsystem\n(S'true'\ntR.")})
    yield "v2-header", archive({"a.npy": npy(_fields(), PIXELS, 2, 1_600_000_000)})
    yield "text", b"PK, but no archive"


def _overlapping(whole: bytes) -> bytes:
    """Members that all begin where the first does."""
    data = archive({f"{k}.npy": whole for k in range(50)}, zipfile.ZIP_STORED)
    at = data.index(_CENTRAL)
    while (at := data.find(_CENTRAL, at)) >= 0:
        data = data[: at + 42] + bytes(4) + data[at + 46 :]
        at += 46
    return data


def nifti1(dim: tuple[int, ...] = (2, 8, 8), kind: int = 16, offset: float = 352, **fields: float) -> bytes:
    data = bytearray(352)
    struct.pack_into("<i", data, 0, 348)
    struct.pack_into("<8h", data, 40, *dim, *[1] * (8 - len(dim)))
    struct.pack_into("<hh", data, 70, kind, {2: 8, 4: 16, 16: 32, 64: 64}.get(kind, 32))
    struct.pack_into("<f", data, 108, offset)
    struct.pack_into("<ff", data, 112, fields.get("slope", 1.0), fields.get("inter", 0.0))
    data[344:348] = b"n+1\0"
    return bytes(data)


def nifti2(dim: tuple[int, ...] = (2, 8, 8), offset: int = 544) -> bytes:
    data = bytearray(544)
    struct.pack_into("<i8s", data, 0, 540, b"n+2\0\r\n\x1a\n")
    struct.pack_into("<hh", data, 12, 16, 32)
    struct.pack_into("<8q", data, 16, *dim, *[1] * (8 - len(dim)))
    struct.pack_into("<q", data, 168, offset)
    return bytes(data)


def _niftis() -> Iterator[tuple[str, bytes, str]]:
    yield "huge", nifti1((3, 32767, 32767, 32767)) + PIXELS, ""
    yield "300MB", nifti1((2, 8660, 8660)) + PIXELS, ""
    yield "huge-2", nifti2((3, 2**62, 2**62, 2**62)) + PIXELS, ""
    yield "negative", nifti1((2, -8, 8)) + PIXELS, ""
    yield "no-axes", nifti1((0, 8, 8)) + PIXELS, ""
    yield "99-axes", nifti1((99, 8, 8)) + PIXELS, ""
    yield "seven-axes", nifti1((7, 2, 2, 2, 2, 2, 2, 2)) + PIXELS, ""
    for kind in (0, 1, 32, 128, 256, 1536, 2048, 9999, -1):
        yield f"type-{kind}", nifti1(kind=kind) + PIXELS, "eight bits" if kind == 256 else ""
    for offset in (-1.0, 1.0, 1e9, 1e30, 2.0**26 + 352, 2.0**27, 2.0**28, float("inf"), float("nan")):
        yield f"offset-{offset:g}", nifti1(offset=offset) + PIXELS, ""
    yield "offset-2^62", nifti2(offset=2**62) + PIXELS, ""
    for slope, inter in ((float("nan"), 0), (float("inf"), 0), (1e38, 1e38), (0, float("inf"))):
        yield f"slope-{slope:g}-{inter:g}", nifti1(slope=slope, inter=inter) + PIXELS, "scaling that is left out"
    yield "cut", nifti1() + PIXELS[:-1], ""
    yield "header-cut", nifti1()[:100], ""
    yield "pair", nifti1()[:344] + b"ni1\0" + bytes(4) + PIXELS, ""
    yield "analyze", nifti1()[:344] + bytes(8) + PIXELS, ""
    yield "text", b"no header at all, but some text that is longer than four bytes", ""


def _zipped() -> Iterator[tuple[str, bytes, str]]:
    for name, data, harmless in _niftis():
        yield name, gzip.compress(data, mtime=0), harmless
    good = nifti1() + PIXELS
    yield "goes-on-for-256MB", gzipped(1 << 28, good), ""
    yield "goes-on-in-members", gzip.compress(good, mtime=0) + gzipped(1 << 26) * 16, ""
    yield "extension-64MB", gzipped(65 << 20, nifti1(offset=352 + (1 << 26))), ""
    yield "extension-256MB", gzipped(257 << 20, nifti1(offset=352 + (1 << 28))), ""
    yield "256MB-of-pixels", gzipped(1 << 28, nifti1((2, 8192, 8192))), ""
    yield "nested", gzip.compress(gzip.compress(good, mtime=0), mtime=0), ""
    yield "empty-members", gzip.compress(b"", mtime=0) * 20000 + gzip.compress(good, mtime=0), "members without content"
    yield "cut-packed", gzip.compress(good, mtime=0)[:-9], ""
    yield "crc", gzip.compress(good, mtime=0)[:-8] + bytes(8), ""
    yield "garbage-after", gzip.compress(good, mtime=0) + b"garbage", ""
    yield "name", b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * 500_000, ""
    yield "bz2", bz2.compress(good), ""
    yield "xz", lzma.compress(good), ""
    yield "zlib", zlib.compress(good), ""


def _certificates(npzs: list[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    one = io.BytesIO()
    np.lib.format.write_array(one, np.zeros(4, np.int64))
    names = ("version", "scale", "rounding_error", "first", "second", "flow", "bounds", "cuts", "cuts_per_axis")
    yield "other-arrays", archive({f"{name}.npy": one.getvalue() for name in names}, zipfile.ZIP_STORED)
    for code, name in ((zipfile.ZIP_DEFLATED, "deflate"), (zipfile.ZIP_BZIP2, "bz2"), (zipfile.ZIP_LZMA, "lzma")):
        yield f"{name}-bomb", archive({f"{array}.npy": one.getvalue() + bytes(1 << 18) for array in names}, code)
    lies = {f"{name}.npy": npy(_fields("'<i8'", shape="(1000000000000,)")) for name in names}
    yield "shapes", archive(lies, zipfile.ZIP_STORED)
    yield "headers", archive({f"{name}.npy": npy(b"", b"", 2, 1 << 30) for name in names}, zipfile.ZIP_STORED)
    yield "nothing", archive({})
    yield "text", b"no certificate"
    for name, data in npzs:
        if name.startswith(("declared", "packed", "offset", "central", "over", "escapes", "long")):
            yield name, data


def _long_header(path: Path) -> None:
    """A header of 1.6 GB that is there: zeros that take no place on the disk."""
    with path.open("wb") as stream:
        stream.write(npy(_fields(), b"", 2, 1_600_000_000))
        stream.truncate(1_600_001_000)


def cases() -> Iterator[Case]:
    yield Case("npy-v2-header-that-is-there", "a.npy", _long_header)
    for name, data in _npys():
        yield Case(f"npy-{name}", "a.npy", content(data))
        if name.startswith(("v2", "shape")):
            yield Case(f"energy-npy-{name}", "a.npy", content(data), ENERGY, "a matrix" if name == "shape-()-2" else "")
    npzs = list(_npzs())
    for name, data in npzs:
        yield Case(f"npz-{name}", "a.npz", content(data), harmless=_NPZ_HARMLESS.get(name, ""))
    for name, data, harmless in _niftis():
        yield Case(f"nifti-{name}", "a.nii", content(data), harmless=harmless)
    for name, data, harmless in _zipped():
        yield Case(f"nifti-gz-{name}", "a.nii.gz", content(data), harmless=harmless)
    for name, data in _certificates(npzs):
        yield Case(f"certificate-{name}", "a.npz", content(data), CERTIFICATE)
