"""Strokes on a picture: JSON, and label images."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hostile.case import STROKES, Case, content

GOOD = {"width": 8, "height": 8, "brush_radius": 1, "fg": [[[1, 1]]], "bg": [[[6, 6]]]}
_WIDE = ("segment", "{image}", "--scribbles", "{file}", "-o", "{out}", "--memory", "200MB", "--workers", "2")


def _jsons() -> Iterator[tuple[str, bytes]]:
    def altered(**changes: object) -> bytes:
        return json.dumps(GOOD | changes).encode()

    for width in (2**31, 2**63, 10**400, -8, 0, 8.5, "8", None, [8], {"a": 1}, True):
        yield f"width-{str(width)[:16]}", altered(width=width)
        yield f"height-{str(width)[:16]}", altered(height=width)
    for radius in (10**400, 1e308, -1, "5", None, [5], float("nan"), float("inf"), True, 9):
        yield f"radius-{str(radius)[:16]}", altered(brush_radius=radius)
    for name, lines in {
        "text": "no list",
        "number": 7,
        "points": [[1, 1]],
        "nothing": [],
        "empty": [[]],
        "beyond": [[[9, 9]]],
        "negative": [[[-1, 0]]],
        "huge": [[[10**400, 0]]],
        "nan": [[[float("nan"), 0]]],
        "three": [[[1, 1, 1]]],
        "words": [[["1", "1"]]],
        "nested": [[[[1, 1]]]],
        "both": [[[6, 6]]],
        "objects": [{}],
        "bools": [[[True, True]]],
    }.items():
        yield f"fg-{name}", altered(fg=lines)
    yield "million-points", json.dumps(GOOD | {"fg": [[[1, 1]] * 300_000], "bg": [[[1, 1]]]}).encode()
    for name, data in {
        "deep": b"[" * 200_000,
        "deep-object": b'{"fg":' * 100_000,
        "empty": b"",
        "list": b"[]",
        "text": b"strokes",
        "null": b"null",
        "not-utf8": b"\xff\xfe\x00\xd8",
        "nul": bytes(1000),
        "digits": b'{"width": ' + b"9" * 10**6 + b"}",
        "float": b'{"width": 1e999}',
        "lists": b"[" + b"[]," * 2_000_000 + b"[]]",
        "9MB": b" " * (9 << 20),
        "cut": json.dumps(GOOD).encode()[:-5],
        "empty-object": b"{}",
        "1000-pictures": json.dumps({"\x1b[31m" * 50 + str(k): GOOD for k in range(1000)}).encode(),
        "entries": json.dumps({"a": GOOD, "b": GOOD}).encode(),
    }.items():
        yield name, data


def _heavy_brush(path: Path) -> None:
    """On a picture of 3000 x 3000 pixels, thousands of points of a brush that covers it."""
    np.save(path.parent / "large.npy", np.zeros((3000, 3000), np.uint8))
    points = [[k % 3000, k % 2999] for k in range(20000)]
    path.write_text(json.dumps({"brush_radius": 2900, "fg": [points], "bg": [[[1, 1]]]}))


def _wide_picture(path: Path) -> None:
    """A sparse array that is 2^31 pixels wide, and strokes for it."""
    head = np.lib.format.header_data_from_array_1_0(np.zeros(1, np.uint8)) | {"shape": (2, 2**31)}
    with (path.parent / "large.npy").open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, head)
        stream.truncate(stream.tell() + 2**32)
    path.write_text(json.dumps({"width": 2**31, "height": 2, "fg": [[[1, 1]]], "bg": [[[6, 0]]]}))


def cases() -> Iterator[Case]:
    for name, data in _jsons():
        yield Case(f"strokes-{name}", "a.json", content(data), STROKES)
    large = (("segment", "{folder}/large.npy", *_WIDE[2:]),)
    yield Case("strokes-heavy-brush", "a.json", _heavy_brush, large)
    yield Case("strokes-wide-picture", "a.json", _wide_picture, large)
