"""TIFF, BigTIFF, OME-TIFF, and the dialects that tifffile knows."""

import bz2
import json
import lzma
import struct
from collections.abc import Iterator

from hostile.case import Case, content
from hostile.pictures import jpeg, many_scans, resized
from hostile.zeros import zlibbed

Tags = dict[int, tuple[int, int, bytes | int]]
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 7: 1, 12: 8, 13: 4, 16: 8}
_FORMS = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q"}
WIDTH, LENGTH, BITS, COMPRESSION, PHOTOMETRIC, DESCRIPTION, STRIPS = 256, 257, 258, 259, 262, 270, 273
SAMPLES, ROWS, COUNTS, PLANAR, PREDICTOR, TILE_WIDTH, TILE_LENGTH = 277, 278, 279, 284, 317, 322, 323
TILES, TILE_COUNTS, SUBIFDS, FORMAT = 324, 325, 330, 339


def page_tags(strip: int, length: int, **changes: int) -> Tags:
    """Of a page of 8 x 8 bytes in one strip."""
    plain = {WIDTH: 8, LENGTH: 8, BITS: 8, COMPRESSION: 1, PHOTOMETRIC: 1, STRIPS: strip, SAMPLES: 1, ROWS: 8}
    plain[COUNTS] = length
    plain |= {int(name[1:]): value for name, value in changes.items()}
    return {code: (4 if value >= 1 << 16 or code in (STRIPS, COUNTS) else 3, 1, value) for code, value in plain.items()}


def tiff(strip: bytes = bytes(64), extra: Tags | None = None, *, order: str = "<", big: bool = False, pages: int = 1,
         last: int = 0, **changes: int) -> bytes:  # fmt: skip
    """A file of some pages that share a strip; `changes` are values of tags, as t256=9, `last` where the last leads."""
    place, head = ("Q", 16) if big else ("I", 8)
    out = bytearray(b"II" if order == "<" else b"MM")
    out += struct.pack(f"{order}H", 43 if big else 42) + (struct.pack(f"{order}HH", 8, 0) if big else b"")
    out += struct.pack(f"{order}{place}", head + len(strip) + len(strip) % 2) + strip + bytes(len(strip) % 2)
    tags = page_tags(head, len(strip), **changes) | (extra or {})
    for number in range(pages):
        entries, later = b"", b""
        start = len(out) + (8 if big else 2) + len(tags) * (20 if big else 12) + (8 if big else 4)
        for code, (kind, count, value) in sorted(tags.items()):
            entries += struct.pack(f"{order}HH{place}", code, kind, count)
            width = 8 if big else 4
            if isinstance(value, bytes):
                if len(value) <= width:
                    entries += value.ljust(width, b"\0")
                else:
                    entries += struct.pack(f"{order}{place}", start + len(later))
                    later += value
            else:
                form = _FORMS.get(kind, "I") if count == 1 and _SIZES.get(kind, 4) <= width else place
                entries += struct.pack(f"{order}{form}", value).ljust(width, b"\0")
        end = start + len(later)
        out += struct.pack(f"{order}{'Q' if big else 'H'}", len(tags)) + entries
        out += struct.pack(f"{order}{place}", last if number == pages - 1 else end) + later
    return bytes(out)


def described(text: str, **settings: object) -> bytes:
    """With a description."""
    data = text.encode() + b"\0"
    return tiff(extra={DESCRIPTION: (2, len(data), data)}, **settings)


def ome(pixels: str = "", inside: str = "<TiffData/>", around: str = "", *, head: str = "", pages: int = 1) -> bytes:
    sizes = {"SizeX": "8", "SizeY": "8", "SizeZ": "1", "SizeC": "1", "SizeT": "1"}
    for change in pixels.split():
        name, _, value = change.partition("=")
        sizes[name] = value
    words = " ".join(f'{name}="{value}"' for name, value in sizes.items())
    xml = (
        f'<?xml version="1.0"?>{head}<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">{around}'
        f'<Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="uint8" {words}>{inside}</Pixels>'
        "</Image></OME>"
    )
    return described(xml, pages=pages)


def _omes() -> Iterator[tuple[str, bytes, str]]:
    for axis in "ZCT":
        for size in ("100000000", "1000000000", "1000000000000000000", "9" * 400, "-5", "text", "0", "100000"):
            yield (
                f"Size{axis}-{size[:20]}",
                ome(f"Size{axis}={size}"),
                "a count that is not used" if size == "0" else "",
            )
    yield "all-sizes", ome("SizeZ=1000 SizeC=1000 SizeT=1000"), ""
    for size in ("1000000000", "-8", "0", "text"):
        yield f"SizeX-{size}", ome(f"SizeX={size}"), ""
    for attribute in ("PlaneCount", "NumPlanes", "FirstZ", "FirstC", "FirstT", "IFD"):
        for value in ("1000000000", "-1", "text"):
            yield f"{attribute}-{value}", ome(inside=f'<TiffData {attribute}="{value}"/>'), "an index that is not used"
    yield "100000-TiffData", ome(inside="<TiffData/>" * 100_000), ""
    yield "5000-TiffData-200-pages", ome("SizeZ=200", "<TiffData/>" * 5000, pages=200), ""
    yield "other-file", ome(inside='<TiffData><UUID FileName="/etc/passwd">urn:uuid:1</UUID></TiffData>'), ""
    yield "samples", ome("SizeC=3", '<Channel SamplesPerPixel="1000000000"/><TiffData/>'), ""
    yield "samples-0", ome("SizeC=3", '<Channel SamplesPerPixel="0"/><TiffData/>'), ""
    for start, end, step in (
        ("0", "1e10", "1"),
        ("0", "1", "1e-10"),
        ("0", "1", "0"),
        ("nan", "1", "1"),
        ("0", "inf", "1"),
    ):
        modulo = (
            '<StructuredAnnotations><XMLAnnotation ID="A" Namespace="openmicroscopy.org/omero/dimension/modulo"><Value>'
            f'<Modulo><ModuloAlongZ Type="angle" Start="{start}" End="{end}" Step="{step}"/></Modulo></Value>'
            "</XMLAnnotation></StructuredAnnotations>"
        )
        yield f"modulo-{start}-{end}-{step}", ome(around=modulo), ""
    entities = "".join(f'<!ENTITY a{k} "{f"&a{k - 1};" * 10}">' for k in range(1, 10))
    laughs = f'<!DOCTYPE OME [<!ENTITY a0 "ha">{entities}]>'
    yield "entities", ome(around="<x>&a9;</x>", head=laughs), ""
    yield "external", ome(around="<x>&a;</x>", head='<!DOCTYPE OME [<!ENTITY a SYSTEM "file:///etc/passwd">]>'), ""
    yield "deep", ome(around="<x>" * 20000 + "</x>" * 20000), "elements that are not looked at"
    yield "broken", ome(around="<x>"), ""
    yield "3000-images", described(
        "<OME>" + '<Image><Pixels DimensionOrder="XYZCT" SizeX="8" SizeY="8" SizeZ="99999"/></Image>'
        * 3000 + "</OME>"
    ), ""  # fmt: skip


def _packed() -> Iterator[tuple[str, bytes, str]]:
    photo = jpeg()
    for width, height in ((30000, 30000), (65535, 65535), (9, 8), (8, 9)):
        bomb = resized(photo, width, height)
        yield f"jpeg-strip-{width}x{height}", tiff(bomb, t259=7), ""
        tiles: Tags = {TILES: (4, 1, 8), TILE_COUNTS: (4, 1, len(bomb)), TILE_WIDTH: (3, 1, 8), TILE_LENGTH: (3, 1, 8)}
        yield f"jpeg-tile-{width}x{height}", tiff(bomb, tiles, t259=7), ""
    yield "jpeg-64-in-8", tiff(photo, t259=7), ""
    yield "jpeg-scans", tiff(many_scans(3000, 8), t259=7), "scans of 64 pixels"
    yield "jpeg-garbage", tiff(b"\xff\xd8" + bytes(100), t259=7), ""
    zeros = bytes(1 << 20)
    for name, code, data in (
        ("deflate", 8, zlibbed(1 << 28)),
        ("adobe", 32946, zlibbed(1 << 28)),
        ("lzma", 34925, lzma.compress(bytes(1 << 22))),
        ("packbits", 32773, b"\x81\0" * 100_000),
        ("lzw", 5, bytes.fromhex("8000") + b"\xff" * 10000),
        ("zstd", 50000, zstd_rle(1 << 30)),
        ("zstd-webp-code", 34926, zstd_rle(1 << 30)),
        ("bz2", 50002, bz2.compress(zeros)),
    ):
        yield f"{name}-bomb", tiff(data, t259=code), "cut at the size of the strip"
        yield f"{name}-garbage", tiff(b"garbage" * 9, t259=code), "read as zeros" if name in ("lzw", "packbits") else ""
    for code in (2, 3, 4, 6, 9, 10, 32766, 32809, 33003, 34661, 34712, 34887, 34892, 34933, 50001, 52546, 65000):
        yield f"compression-{code}", tiff(t259=code), ""


def zstd_rle(size: int) -> bytes:
    """A frame of zstd without a size, of blocks that are one byte repeated."""
    out = b"\x28\xb5\x2f\xfd\x00\x58"
    while size:
        length = min(size, 1 << 17)
        size -= length
        out += ((length << 3) | 2 | (size == 0)).to_bytes(3, "little") + b"\0"
    return out


_HARMLESS = {
    "planar": "bytes that follow are there",
    "predictor": "of pixels that are not packed",
    "rows-0": "one strip all the same",
    "samples-0": "taken as 1",
    "strip-empty": "one strip, whose length follows from its shape",
    "strip-long": "one strip, whose length follows from its shape",
    "void": "bytes",
}


def _pages() -> Iterator[tuple[str, bytes, str]]:
    for order, big in (("<", False), (">", False), ("<", True), (">", True)):
        kind = f"{'big' if big else 'classic'}-{'II' if order == '<' else 'MM'}"
        settings = {"order": order, "big": big}

        def made(extra: Tags | None = None, settings: dict = settings, **changes: int) -> bytes:
            return tiff(extra=extra, **settings, **changes)

        for name, changes in {
            "30000^2": {"t256": 30000, "t257": 30000},
            "2^31": {"t256": 2**31, "t257": 2**31},
            "no-rows": {"t257": 0},
            "rows-0": {"t278": 0},
            "bits-77": {"t258": 77},
            "bits-0": {"t258": 0},
            "bits-65535": {"t258": 65535},
            "samples-0": {"t277": 0},
            "samples-65535": {"t277": 65535},
            "strip-beyond": {"t273": 2**31},
            "strip-long": {"t279": 2**31},
            "strip-empty": {"t279": 0},
            "palette": {"t262": 3},
            "planar": {"t277": 3, "t284": 2},
            "predictor": {"t317": 9},
            "void": {"t339": 4},
            "complex": {"t339": 6},
        }.items():
            yield f"{kind}-{name}", made(**changes), _HARMLESS.get(name, "")
        for name, tags in {
            "tiles-2^31": {
                TILES: (4, 1, 8),
                TILE_COUNTS: (4, 1, 64),
                TILE_WIDTH: (4, 1, 2**31),
                TILE_LENGTH: (4, 1, 2**31),
            },
            "tiles-0": {TILES: (4, 1, 8), TILE_COUNTS: (4, 1, 64), TILE_WIDTH: (3, 1, 0), TILE_LENGTH: (3, 1, 0)},
            "count-2^32": {DESCRIPTION: (2, 2**32 - 1, 8)},
            "strips-2^32": {STRIPS: (4, 2**32 - 1, 8)},
            "subifds-2^31": {SUBIFDS: (13, 2**31, 8)},
            "subifds-4000": {SUBIFDS: (4, 4000, struct.pack(f"{order}I", 8) * 4000)},
            "type-99": {SAMPLES: (99, 1, 1)},
        }.items():
            yield f"{kind}-{name}", made(tags), "a tag that is not used" if name[0] == "s" or name == "type-99" else ""
        head = 16 if big else 8
        yield f"{kind}-circle", tiff(last=head + 64, **settings), ""
        yield f"{kind}-beyond", tiff(last=2**31, **settings), ""
        yield f"{kind}-head", tiff(**settings)[:head], ""
        yield f"{kind}-cut", tiff(**settings)[:-9], ""


def _dialects() -> Iterator[tuple[str, bytes, str]]:
    for name, text in {
        "images": "ImageJ=1.54f\nimages=1000000000\nslices=1000000000\n",
        "hyperstack": "ImageJ=1.54f\nimages=1000000000000\nchannels=10000\nslices=10000\nframes=10000\n",
        "negative": "ImageJ=1.54f\nimages=-5\nslices=-5\n",
        "spacing": "ImageJ=1.54f\nunit=\x1b[31m\nspacing=1e999\n",
        "lines": "ImageJ=1.54f\n" + "a=1\n" * 100_000,
        "digits": f"ImageJ=1.54f\nimages={'9' * 5000}\n",
    }.items():
        yield f"imagej-{name}", described(text), "words that are not used"
    for shape in ([10**12, 8, 8], [-1, 8, 8], [0], [], [8.5, 8], ["8", 8], [[8]], [10**400], [1] * 1000, None):
        text = json.dumps({"shape": shape})
        harmless = "a shape that is not used"
        yield f"shaped-{str(shape)[:16]}", described(text), "" if shape == [10**12, 8, 8] else harmless
    yield "shaped-truncated", described(json.dumps({"shape": [10**6, 8, 8], "truncated": True})), ""
    yield "shaped-axes", described(json.dumps({"shape": [8, 8], "axes": "Q" * 10000})), "names that are not used"
    yield "shaped-deep", described('{"shape": ' + "[" * 5000 + "]" * 5000 + "}"), "words that are not used"
    for name, text in {
        "svs": "Aperio Image Library v1\r\n8x8|AppMag = 20",
        "philips": '<?xml version="1.0"?><DataObject ObjectType="DPUfsImport"></DataObject>',
        "qpi": '<?xml version="1.0"?><PerkinElmer-QPI-ImageDescription></PerkinElmer-QPI-ImageDescription>',
        "scn": "<scn></scn>",
        "avs": "MicroManager",
        "scanimage": "state.configPath=''\nscanimage.SI.hStackManager.framesPerSlice = 1000000000",
        "micromanager": '{"MicroManagerVersion": "2"}',
    }.items():
        yield f"{name}-words", described(text), "read as any other file"
    for name, code in {
        "lsm": 34412,
        "stk": 33628,
        "stk2": 33629,
        "fluoview": 34361,
        "mdgel": 33445,
        "sis": 33560,
        "ndpi": 65420,
        "micromanager": 51123,
        "ndtiff": 50838,
        "eer": 65001,
        "imagej-bytes": 50839,
        "nih": 43314,
        "geo": 34735,
    }.items():
        yield f"tag-{name}", tiff(extra={code: (1, 64, b"\xff" * 64)}), "read as any other file"
        yield f"tag-{name}-long", tiff(extra={code: (4, 2**31, 8)}), "a tag that is not used"


def cases() -> Iterator[Case]:
    yield Case("tiff-5000-pages", "a.tif", content(tiff(pages=5000)), (("info", "{file}"),), "pages that share pixels")
    for name, data, harmless in _omes():
        yield Case(f"ome-tiff-{name}", "a.ome.tif", content(data), harmless=harmless)
    for group in (_packed, _pages, _dialects):
        for name, data, harmless in group():
            yield Case(f"tiff-{name}", "a.tif", content(data), harmless=harmless)
