"""PNG and JPEG."""

import io
import struct
import zlib
from collections.abc import Iterator

import numpy as np
from PIL import Image

from hostile.case import Case, content
from hostile.zeros import zlibbed

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_BOMB = zlibbed(1 << 26)  # 64 MB in 65 kB


def chunk(name: bytes, data: bytes = b"", length: int | None = None, crc: int | None = None) -> bytes:
    size = len(data) if length is None else length
    return struct.pack(">I", size) + name + data + struct.pack(">I", zlib.crc32(name + data) if crc is None else crc)


def ihdr(width: int = 8, height: int = 8, depth: int = 8, color: int = 0, interlace: int = 0) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlace))


IDAT = chunk(b"IDAT", zlib.compress(bytes(9 * 8)))
IEND = chunk(b"IEND")


def png(*chunks: bytes) -> bytes:
    return _SIGNATURE + b"".join(chunks)


def _exif(entries: list[tuple[int, int, int, int]], following: int = 0) -> bytes:
    tags = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return b"II*\0\x08\0\0\0" + struct.pack("<H", len(entries)) + tags + struct.pack("<I", following)


def _pngs() -> Iterator[tuple[str, bytes, str]]:
    for width, height in ((2**31 - 1, 2**31 - 1), (1, 2**31 - 1), (2**31 - 1, 1), (0, 8), (8, 0), (2**32 - 1, 8)):
        yield f"dims-{width}x{height}", png(ihdr(width, height), IDAT, IEND), ""
    for depth, color in ((8, 0), (16, 0), (8, 2), (16, 2), (8, 3), (8, 4), (8, 6), (16, 6)):
        yield f"13000-depth{depth}-color{color}", png(ihdr(13000, 13000, depth, color), IDAT, IEND), ""
        yield f"9000-interlaced-{depth}-{color}", png(ihdr(9000, 9000, depth, color, 1), IDAT, IEND), ""
    bits = zlibbed(21 << 20)
    yield "13000-bits-to-the-end", png(ihdr(13000, 13000, 1), chunk(b"IDAT", bits), IEND), ""
    for depth, color in ((3, 0), (8, 1), (8, 5), (16, 3), (0, 0), (255, 255)):
        yield f"depth{depth}-color{color}", png(ihdr(8, 8, depth, color), IDAT, IEND), ""
    for name, data in {
        "zTXt-bomb": chunk(b"zTXt", b"a\0\0" + _BOMB),
        "iTXt-bomb": chunk(b"iTXt", b"a\0\x01\0\0\0" + _BOMB),
        "iCCP-bomb": chunk(b"iCCP", b"a\0\0" + _BOMB),
        "zTXt-300": b"".join(chunk(b"zTXt", b"k%d\0\0" % k + zlibbed(1 << 20)) for k in range(300)),
        "30000-chunks": chunk(b"abCd") * 30_000,
        "PLTE-of-4": chunk(b"PLTE", bytes(4)),
        "tRNS-long": chunk(b"tRNS", bytes(70000)),
        "eXIf-count": chunk(b"eXIf", _exif([(0x0112, 3, 2**32 - 1, 6)])),
        "eXIf-circle": chunk(b"eXIf", _exif([(0x8769, 4, 1, 8)], 8)),
        "acTL": chunk(b"acTL", struct.pack(">II", 2**31 - 1, 0)),
        "fcTL-outside": chunk(b"acTL", struct.pack(">II", 2, 0))
        + chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, 2**30, 2**30, 5, 5, 1, 1, 0, 0)),
        "gAMA-0": chunk(b"gAMA", bytes(4)),
        "pHYs-short": chunk(b"pHYs", b"\0"),
        "cHRM-short": chunk(b"cHRM", b"\0"),
    }.items():
        yield name, png(ihdr(), data, IDAT, IEND), "chunks about the picture"
    yield "eXIf-after", png(ihdr(), IDAT, chunk(b"eXIf", _exif([(0x0112, 3, 1, 6)])), IEND), "turned by a late tag"
    yield "text-after", png(ihdr(), IDAT, chunk(b"zTXt", b"a\0\0" + _BOMB), IEND), "chunks about the picture"
    yield "no-palette", png(ihdr(color=3), IDAT, IEND), "a palette of grey"
    for name, data in {
        "no-IDAT": png(ihdr(), IEND),
        "no-IHDR": png(IDAT, IEND),
        "short-IHDR": png(chunk(b"IHDR", bytes(5)), IDAT),
        "IHDR-crc": png(chunk(b"IHDR", bytes(13), crc=7), IDAT),
        "IDAT-2^31": png(ihdr(), chunk(b"IDAT", b"x", 2**31 - 1)),
        "IDAT-2^32": png(ihdr(), chunk(b"IDAT", b"x", 2**32 - 1)),
        "text-2^32": png(ihdr(), chunk(b"tEXt", b"x", 2**32 - 1)),
        "IDAT-garbage": png(ihdr(), chunk(b"IDAT", b"garbage" * 9), IEND),
        "signature": _SIGNATURE,
        "IHDR-alone": png(ihdr()),
        "text": b"not a picture",
        "gif": b"GIF89a" + bytes(40),
        "zip-in-front": b"PK\x03\x04" + png(ihdr(), IDAT),
    }.items():
        yield name, data, ""
    yield (
        "IDAT-short",
        png(ihdr(), chunk(b"IDAT", zlib.compress(bytes(9))), IEND),
        "rows that are missing read as zeros",
    )
    yield "IDAT-bomb", png(ihdr(), chunk(b"IDAT", _BOMB), IEND), "rows beyond the last are not unpacked"


def jpeg(progressive: bool = False, size: int = 64) -> bytes:
    stream = io.BytesIO()
    values = np.random.default_rng(0).integers(0, 256, (size, size), np.uint8)
    Image.fromarray(values).save(stream, "JPEG", progressive=progressive, quality=50)
    return stream.getvalue()


def resized(data: bytes, width: int, height: int) -> bytes:
    """The same JPEG with another size in its frame."""
    marker = next(at for at in range(len(data)) if data[at : at + 2] in (b"\xff\xc0", b"\xff\xc2"))
    return data[: marker + 5] + struct.pack(">HH", height, width) + data[marker + 9 :]


def many_scans(number: int, size: int) -> bytes:
    """A progressive JPEG whose first scan is repeated."""
    data = resized(jpeg(progressive=True, size=16), size, size)
    start = data.index(b"\xff\xda")
    end = data.index(b"\xff", start + 12)
    return data[:end] + data[start:end] * number + b"\xff\xd9"


def _segment(code: int, data: bytes) -> bytes:
    return bytes([0xFF, code]) + struct.pack(">H", len(data) + 2) + data


def _jpegs() -> Iterator[tuple[str, bytes, str]]:
    for progressive in (False, True):
        whole, kind = jpeg(progressive), "progressive" if progressive else "baseline"
        frame = b"\xff\xc2" if progressive else b"\xff\xc0"
        for width, height in ((65535, 65535), (13000, 13000), (0, 64), (64, 0), (65535, 1), (1, 65535)):
            small = "a line" if 1 in (width, height) else ""
            yield f"{kind}-{width}x{height}", resized(whole, width, height), small
        at = whole.index(frame)
        for precision in (0, 7, 12, 16):
            yield f"{kind}-{precision}-bits", whole[: at + 4] + bytes([precision]) + whole[at + 5 :], ""
        for channels in (0, 2, 255):
            yield f"{kind}-{channels}-channels", whole[: at + 9] + bytes([channels]) + whole[at + 10 :], ""
        for code in (0xC1, 0xC3, 0xC5, 0xC9, 0xCA, 0xCD, 0xCF):
            yield f"{kind}-as-{code:x}", whole[: at + 1] + bytes([code]) + whole[at + 2 :], "another way to decode"
        yield f"{kind}-two-frames", whole[:at] + whole[at : at + 13] * 2 + whole[at + 13 :], ""
        yield f"{kind}-no-frame", whole[:at] + whole[at + 13 :], ""
        yield f"{kind}-cut", whole[: len(whole) // 2], ""
        yield f"{kind}-no-end", whole[:-2], "all pixels are there"
        tables = [place for place in range(len(whole)) if whole[place : place + 2] == b"\xff\xdb"]
        yield f"{kind}-no-tables", whole[: tables[0]] + whole[tables[0] + 69 :], ""
        for name, data in {
            "exif-count": _segment(0xE1, b"Exif\0\0" + _exif([(0x0112, 3, 2**32 - 1, 6)])),
            "exif-circle": _segment(0xE1, b"Exif\0\0" + _exif([(0x8769, 4, 1, 8)], 8)),
            "exif-garbage": _segment(0xE1, b"Exif\0\0" + bytes(range(200))),
            "mpo": _segment(0xE2, b"MPF\0" + _exif([(0xB001, 4, 1, 2**31 - 1), (0xB002, 7, 2**31 - 1, 0)])),
            "mpo-garbage": _segment(0xE2, b"MPF\0" + bytes(50)),
            "500-comments": _segment(0xFE, bytes(65000)) * 100,
            "filling": b"\xff" * 100_000,
            "icc": _segment(0xE2, b"ICC_PROFILE\0\xff\xff" + bytes(100)) * 50,
        }.items():
            yield f"{kind}-{name}", whole[:2] + data + whole[2:], "segments about the picture"
    for number, size in ((200, 64), (5000, 5000), (3000, 500)):
        yield f"{number}-scans-of-{size}", many_scans(number, size), ""
    yield "head", b"\xff\xd8\xff", ""
    yield "filling-without-end", b"\xff\xd8" + b"\xff" * 1_000_000, ""


def cases() -> Iterator[Case]:
    for name, data, harmless in _pngs():
        yield Case(f"png-{name}", "a.png", content(data), harmless=harmless)
    for name, data, harmless in _jpegs():
        yield Case(f"jpeg-{name}", "a.jpg", content(data), harmless=harmless)
