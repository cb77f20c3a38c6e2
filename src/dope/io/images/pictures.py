"""PNG and JPEG pictures, through Pillow."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from dope.arrays import Labels
from dope.durable import replacing
from dope.errors import InputError
from dope.io import content
from dope.io.files import open_file
from dope.io.images.picture_headers import count_scans, jpeg_frame, png_chunks
from dope.memory import require_bytes
from dope.palette import label_colors

Picture = NDArray[np.uint8] | NDArray[np.uint16]

_FORMATS = ("PNG", "JPEG")
_SUFFIXES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
_GREY_16 = ("I;16", "I;16L", "I;16B", "I;16N", "I")
_CHANNELS = {"L": 0, "1": 0, "LA": 2, "RGBA": 4} | dict.fromkeys(_GREY_16, 0)  # 3 in other modes
_ORIENTATION, _SIDEWAYS = 0x0112, (5, 6, 7, 8)  # the EXIF tag, and its values for pictures that lie on their side
# Twice the number at which Pillow warns of a decompression bomb, where it refuses by itself.
_MOST_PIXELS = 178_956_970
# Of a progressive JPEG: each costs as much time as decoding all pixels once. Programs write about ten.
_MOST_SCANS = 100
_MOST_EXIF_BYTES = 1 << 20
# Writes a photo in a third of the time of the default for a few per cent more bytes.
_PNG_SETTINGS = {"compress_level": 3}
# Bytes that Pillow takes for a pixel, 4 in other modes.
_PIXEL_BYTES = {"L": 1, "1": 1, "P": 1} | dict.fromkeys(_GREY_16[:-1], 2)


def read_image(path: str | os.PathLike[str]) -> Picture:
    """Read a PNG or JPEG file, upright.

    Returns
    -------
    uint8 or uint16 array
        (height, width) for grey pictures, (height, width, channels) otherwise: 3 for colour, 4 or 2 with alpha.
        Turned as its EXIF orientation says. PNG files with 16 bits per *colour* channel come as 8 bits.

    Raises
    ------
    InputError
        No such file, not a PNG or JPEG, damaged, of more than 179 million pixels, or too large for the memory there is.
    """
    return load(Path(path), budget=None).pixels  # type: ignore[no-any-return]


def write_image(path: str | os.PathLike[str], picture: NDArray[Any], *, overwrite: bool = True) -> None:
    """Write a picture as PNG or JPEG, by the suffix of `path`; an existing file is replaced in one step.

    Parameters
    ----------
    path : path
        Ending in .png, .jpg or .jpeg, in a folder that exists.
    picture : bool, uint8 or uint16 array
        (height, width), or (height, width, 3 or 4) of uint8. Bool is written as 0 and 255.
    overwrite : bool
        Whether a file that is there may be replaced.
    """
    path = Path(path)
    picture = np.asarray(picture)
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(f"{path}: cannot write {path.suffix or 'a file without suffix'}; end it in .png or .jpg")
    kind = _SUFFIXES[path.suffix.lower()]
    if picture.dtype == np.bool_:
        picture = picture.astype(np.uint8) * np.uint8(255)
    grey = picture.ndim == 2
    channels = 1 if grey else picture.shape[-1] if picture.ndim == 3 else 0
    most = 3 if kind == "JPEG" else 4
    depth = picture.dtype == np.uint8 or (picture.dtype == np.uint16 and grey and kind == "PNG")
    if not (depth and picture.size and (grey or 3 <= channels <= most)):
        raise InputError(
            f"{path}: cannot write {picture.dtype} shaped {picture.shape} as {kind}; "
            f"expected bool or uint8 shaped (height, width) or (height, width, {'3' if most == 3 else '3 or 4'})"
        )
    settings = _PNG_SETTINGS if kind == "PNG" else {"quality": 92}
    with replacing(path, overwrite=overwrite) as temporary:
        Image.fromarray(picture).save(temporary, format=kind, **settings)


def load(path: Path, *, budget: int | None) -> content.Image:
    """Read a picture with all its channels, alpha among them."""
    return _load(path, budget, _as_array)


def load_numbers(path: Path, *, budget: int | None) -> content.Image:
    """The same, but of a picture with a palette the numbers in it, not the colours they stand for."""
    return _load(path, budget, _as_numbers)


def load_labels(path: Path, *, budget: int | None) -> content.Image:
    """As `save` writes them: numbers, but for grey of 0 and 255, which is two labels."""
    return _load(path, budget, _as_labels)


def _load(path: Path, budget: int | None, as_array: Callable[[Image.Image], NDArray[Any]]) -> content.Image:
    found = describe(path)  # of a picture of its own: Pillow keeps the EXIF data that it has found so far
    with _opened(path) as (opened, stream):
        what = content.declared(path, (*found.shape, found.channels), found.dtype)
        require_bytes(what, found.bytes + _decoder_bytes(path, opened, stream), budget)
        ImageOps.exif_transpose(opened, in_place=True)
        pixels = as_array(opened)
    return content.Image(pixels, pixels.ndim == 3, None, path)


def describe(path: Path) -> content.Description:
    """From the header, upright as `read_image` gives it."""
    with _opened(path) as (opened, stream):
        return _described(path, opened, stream)


def save(new: content.NewLabels, labels: Labels) -> None:
    """Write two labels as 0 and 255; more as numbers with a palette, or, beyond 256, as grey of 16 bits."""
    if labels.dtype != np.uint8:
        write_image(new.path, labels, overwrite=new.overwrite)
        return
    indexed = Image.fromarray(labels)
    indexed.putpalette(label_colors(new.label_count).tobytes())
    with replacing(new.path, overwrite=new.overwrite) as temporary:
        indexed.save(temporary, format="PNG", **_PNG_SETTINGS)


def check_shape(path: Path, shape: content.Shape) -> None:
    """Refuse labels that are no picture."""
    if len(shape) != 2:
        others = ".tif or .nii.gz" if len(shape) == 3 else ".npy or .npz"
        raise InputError(f"{path}: cannot hold labels shaped {shape}; PNG has 2 axes. Write {others}")


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Image.Image, BinaryIO]]:
    """A picture whose header alone has been read, of a size that is taken, and the file."""
    with warnings.catch_warnings(), open_file(path, "PNG or JPEG") as stream:
        warnings.simplefilter("ignore")  # what Pillow takes in its stride; the errors here say the rest
        try:
            with Image.open(stream, formats=_FORMATS) as opened:
                width, height = opened.size
                if width * height > _MOST_PIXELS:
                    raise _too_large(path)
                yield opened, stream
        except UnidentifiedImageError as error:
            raise InputError(f"{path}: not a PNG or JPEG picture; convert it to one of these") from error
        except Image.DecompressionBombError as error:
            raise _too_large(path) from error


def _too_large(path: Path) -> InputError:
    return InputError(f"{path}: declares more than {_MOST_PIXELS:,} pixels; cut it up first")


def _decoder_bytes(path: Path, opened: Image.Image, stream: BinaryIO) -> int:
    """What decoding takes beside the pixels, with one copy of them in another mode or turned."""
    held = _PIXEL_BYTES.get(opened.mode, 4)
    held += 4 if opened.mode in ("P", "1") else held if opened.mode not in _CHANNELS and opened.mode != "RGB" else 0
    with _looking_at(stream):
        frame = jpeg_frame(stream) if opened.format != "PNG" else None
        if frame is not None and frame.progressive:
            held += 2 * frame.channels  # coefficients, until the last scan
            stream.seek(0)
            if count_scans(stream) > _MOST_SCANS:
                raise InputError(f"{path}: a JPEG of more than {_MOST_SCANS} scans; save it anew")
    return held * opened.size[0] * opened.size[1]


@contextmanager
def _looking_at(stream: BinaryIO) -> Iterator[None]:
    """From the beginning; who reads on finds the stream where it was."""
    place = stream.tell()
    stream.seek(0)
    yield
    stream.seek(place)


def _lies_sideways(opened: Image.Image, stream: BinaryIO) -> bool:
    """As EXIF says. Of PNG it may follow the pixels, which Pillow would decode to get there."""
    found = Image.Image.getexif(opened).get(_ORIENTATION)
    if found is None and opened.format == "PNG":
        with _looking_at(stream):
            for name, length in png_chunks(stream):
                if name == b"eXIf" and length <= _MOST_EXIF_BYTES:
                    exif = Image.Exif()
                    exif.load(stream.read(length))
                    found = exif.get(_ORIENTATION)
                    break
    return found in _SIDEWAYS


def _described(path: Path, opened: Image.Image, stream: BinaryIO) -> content.Description:
    width, height = opened.size
    if _lies_sideways(opened, stream):
        width, height = height, width
    channels = _CHANNELS.get(opened.mode, 4 if opened.mode == "P" and "transparency" in opened.info else 3)
    dtype = np.dtype(np.uint16 if opened.mode in _GREY_16 else np.uint8)
    return content.Description(
        path=path,
        format=str(opened.format),
        shape=(height, width),
        channels=max(1, channels),
        dtype=dtype.name,
        spacing=None,
        bytes=content.bytes_of((height, width, max(1, channels)), dtype),
        details={"mode": opened.mode},
    )


def _as_numbers(picture: Image.Image) -> Picture:
    return np.array(picture) if picture.mode == "P" else _as_array(picture)


def _as_labels(picture: Image.Image) -> NDArray[Any]:
    found = _as_numbers(picture)
    two = picture.mode != "P" and found.dtype == np.uint8 and not (found % 255).any()
    return found != 0 if two else found


def _as_array(picture: Image.Image) -> Picture:
    if picture.mode in _GREY_16:
        return np.array(picture).astype(np.uint16)
    if picture.mode == "P":
        picture = picture.convert("RGBA" if "transparency" in picture.info else "RGB")
    elif picture.mode == "1":
        picture = picture.convert("L")
    elif picture.mode not in ("L", "LA", "RGB", "RGBA"):
        picture = picture.convert("RGB")
    return np.array(picture)
