"""PNG files, written with zlib alone: pictures can be shown where no imaging package is installed."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.errors import InputError
from dope.report.canvas import Picture, beside, picture
from dope.report.pictures import colors_of, tinted
from dope.report.scene import Scene, through_object

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _TRUE_COLOR = 0, 2  # colour types of the PNG standard
_LEVEL = 7  # of zlib: a photo at 9 takes four times as long and is one percent smaller
_DARK, _BRIGHT = 38, 236


def encoded(pixels: Picture) -> bytes:
    r"""A PNG file of a uint8 array (height, width) or (height, width, 3).

    >>> encoded(np.zeros((2, 3), np.uint8))[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or pixels.shape[2:] not in ((), (3,)) or not pixels.size:
        raise InputError(
            f"a picture of {pixels.dtype} shaped {pixels.shape}; expected uint8, (height, width) or (height, width, 3)"
        )
    height, width = pixels.shape[:2]
    kind = _GREY if pixels.ndim == 2 else _TRUE_COLOR
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    rows = zlib.compress(_filtered(pixels.reshape(height, width, -1)).tobytes(), _LEVEL)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", rows) + _chunk(b"IEND", b"")


def data_uri(png: bytes) -> str:
    """A PNG file as an address that needs no network."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def thumbnail(labels: ArrayLike, longest: int = 256) -> bytes:
    r"""A small grey PNG of labels, the object bright, or of several labels one in their colours.

    Of a volume it shows three planes that meet in the object.

    >>> thumbnail(np.eye(8, dtype=bool))[:4]
    b'\x89PNG'
    """
    found = np.asarray(labels)
    if found.ndim not in (2, 3) or found.size == 0:
        raise InputError(f"labels shaped {found.shape}; expected those of an image (2 axes) or a volume (3), not empty")
    at = through_object(found) if found.ndim == 3 else None
    scene = Scene.of(found.shape, at=at, longest=longest, zoom=16)
    layers = scene.layers(found, lambda slab: slab != 0)
    colors = colors_of(found)
    if colors is not None:
        colored = [
            _DARK * (1 - inside[..., None]) + tinted(view, found, colors)
            for view, inside in zip(scene.views, layers, strict=True)
        ]
        return encoded(scene.joined(colored))
    canvases = [np.repeat((_DARK + (_BRIGHT - _DARK) * layer)[..., None], 3, axis=2) for layer in layers]
    return encoded(picture(beside(canvases, scene.gap))[..., 0])


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _filtered(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Every row as what is left of it after the best of PNG's predictions, its number in front."""
    here = pixels.astype(np.int16)
    left, above, corner = (np.zeros_like(here) for _ in range(3))
    left[:, 1:], above[1:], corner[1:, 1:] = here[:, :-1], here[:-1], here[:-1, :-1]
    # The numbers 0, 1, 2 and 4 of the standard; 3, the mean of left and above, is seldom best.
    predictions = {0: np.zeros_like(here), 1: left, 2: above, 4: _paeth(left, above, corner)}
    rests = {kind: (here - guess).astype(np.uint8).reshape(len(here), -1) for kind, guess in predictions.items()}
    kinds = np.array(list(rests), np.uint8)
    costs = [np.abs(rest.view(np.int8).astype(np.int16)).sum(axis=1, dtype=np.int64) for rest in rests.values()]
    best = np.argmin(costs, axis=0)
    answer = np.empty((len(here), 1 + here[0].size), dtype=np.uint8)
    answer[:, 0] = kinds[best]
    for k, rest in enumerate(rests.values()):
        answer[best == k, 1:] = rest[best == k]
    return answer


def _paeth(left: NDArray[np.int16], above: NDArray[np.int16], corner: NDArray[np.int16]) -> NDArray[np.int16]:
    """Whichever of the three is nearest to left + above - corner."""
    far_left, far_above = np.abs(above - corner), np.abs(left - corner)
    far_corner = np.abs(left + above - 2 * corner)
    either = np.where(far_above <= far_corner, above, corner)
    return np.where((far_left <= far_above) & (far_left <= far_corner), left, either)
