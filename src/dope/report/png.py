"""PNG files as bytes and as addresses, and the small one that stands for labels."""

from __future__ import annotations

import base64
import io

import numpy as np
from numpy.typing import ArrayLike

from dope.errors import InputError
from dope.report.canvas import Picture, beside, picture
from dope.report.pictures import colors_of, tinted
from dope.report.scene import Scene, through_object

_DARK, _BRIGHT = 38, 236


def encoded(pixels: Picture) -> bytes:
    r"""A PNG file of a uint8 array (height, width) or (height, width, 3).

    >>> encoded(np.zeros((2, 3), np.uint8))[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    from PIL import Image  # here: `import dope` does without

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG")
    return stream.getvalue()


def data_uri(content: bytes, kind: str = "png") -> str:
    """An image file as an address that needs no network."""
    return f"data:image/{kind};base64," + base64.b64encode(content).decode("ascii")


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
