"""TIFF, BigTIFF, ImageJ's and OME's, through tifffile.

The pages of a file are a volume (pages, rows, columns), its samples or channels come last. Of a file of several images
the first is taken, of a pyramid the finest level.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
from numpy.typing import NDArray

from dope.arrays import Labels
from dope.cancellation import check_cancelled
from dope.durable import replacing
from dope.errors import InputError
from dope.io import npy
from dope.io.content import (
    Description,
    Image,
    NewLabels,
    Shape,
    Spacing,
    as_spacing,
    bytes_of,
    check_numbers,
    declared,
)
from dope.io.file_array import FileArray, Stamp
from dope.io.files import open_file, reading
from dope.io.images.picture_headers import jpeg_frame
from dope.io.images.tiff_ome import check_ome
from dope.io.images.tiff_pages import count_pages
from dope.io.lazy import Lazy
from dope.memory import require_bytes

# tifffile's letters: depth, and pages of which it knows no more than their number.
_STACK, _CHANNELS = "ZQID", "CS"
# None, LZW, JPEG, deflate (two codes), PackBits, LZMA and zstd (two codes): their decoders stop at the size of a strip,
# but for JPEG, which gives what the strip itself declares.
_COMPRESSIONS = (1, 5, 7, 8, 32946, 32773, 34925, 34926, 50000)
_JPEG = 7
# Dialects of slide scanners and of sets of files, for which tifffile follows places and counts of its own. Their pages
# are read as those of any other file.
_NOT_FOLLOWED = {"avs", "bif", "eer", "lsm", "mmstack", "ndpi", "ndtiff", "philips", "qpi", "scn", "stk", "svs"}
_PALETTE = 3
_X_RESOLUTION, _Y_RESOLUTION, _RESOLUTION_UNIT = 282, 283, 296
_MILLIMETRES = {2: 25.4, 3: 10.0}  # in an inch and a centimetre, by the code of the unit
# Classic TIFF counts bytes in 32 bits; some are left for what is not pixels.
_MOST_CLASSIC_BYTES = (1 << 32) - (1 << 26)
# With a handler of its own tifffile does not write to the terminal what the errors here say; who logs still gets it.
_QUIET = logging.NullHandler()


@dataclass(frozen=True)
class TiffHeader:
    """What labels on the image should say as well: the unit of its spacing."""

    unit: str


@dataclass(frozen=True)
class _Layout:
    sites: Shape
    channels: int  # 0 where there is no axis for them
    axes: tuple[int, ...]  # of the file's, in the order of sites and channels
    dtype: np.dtype[Any]
    spacing: Spacing | None
    unit: str

    @property
    def shape(self) -> Shape:
        return (*self.sites, self.channels) if self.channels else self.sites


def load(path: Path, *, budget: int | None) -> Image:
    """Open pixels that lie in one piece to be read as they are indexed, and read others."""
    stamp = Stamp.of(path)
    with _opened(path) as file:
        layout = _layout(path, file)
        _check_segments(path, file, budget)
        pixels: Any = _in_one_piece(path, file, layout, stamp)
        if pixels is None:
            pixels = _turned(_read(path, file, budget), layout.axes)
    return _image(path, layout, pixels)


def unpack(path: Path, target: Path) -> Image:
    """The same pixels, those that are packed in an NPY file of their own; memory holds a page of them at a time."""
    stamp = Stamp.of(path)
    with _opened(path) as file:
        layout = _layout(path, file)
        _check_segments(path, file, None)
        pixels = _in_one_piece(path, file, layout, stamp)
        if pixels is None:
            series = file.series[0]
            dtype = np.dtype(series.dtype).newbyteorder("=")
            with npy.filling(target, npy.Header(tuple(series.shape), False, dtype)) as numbers:
                for page in _pages(path, series):
                    check_cancelled()
                    numbers.write(np.ascontiguousarray(page, dtype).reshape(-1).view(np.uint8).data)
            pixels = replace(npy.opened(target), axes=layout.axes)
    return _image(path, layout, pixels)


def describe(path: Path) -> Description:
    """From the headers of the pages."""
    with _opened(path) as file:
        layout = _layout(path, file)
        return Description(
            path=path,
            format=_format(file),
            shape=layout.sites,
            channels=max(1, layout.channels),
            dtype=layout.dtype.name,
            spacing=layout.spacing,
            bytes=bytes_of(layout.shape, layout.dtype),
            details=_details(file, layout),
        )


def save(new: NewLabels, labels: Labels) -> None:
    """Write labels as uint8 or uint16, two as 0 and 1, packed with deflate, with the spacing where it is known."""
    import tifffile

    check_shape(new.path, labels.shape)
    big = labels.nbytes > _MOST_CLASSIC_BYTES
    with replacing(new.path, overwrite=new.overwrite) as temporary:
        tifffile.imwrite(
            temporary,
            labels.view(np.uint8) if labels.dtype == np.bool_ else labels,
            bigtiff=big,
            photometric="minisblack",
            compression="zlib",
            **_dialect(new.path, labels.ndim, new.like, big),
        )


def check_shape(path: Path, shape: Shape) -> None:
    """Refuse labels that are neither a picture nor a volume."""
    if not 2 <= len(shape) <= 3:
        raise InputError(f"{path}: cannot hold labels shaped {shape}; expected rows and columns, or a volume")


def _dialect(path: Path, rank: int, like: Image | None, big: bool) -> dict[str, Any]:
    """How spacing is written: OME's way where the name asks for it, else ImageJ's, which has no large files."""
    axes = "ZYX"[-rank:]
    spacing = like.spacing if like else None
    unit = like.header.unit if like and isinstance(like.header, TiffHeader) else ""
    unit = unit.replace("µ", "u").replace("μ", "u").encode("ascii", "ignore").decode()
    if path.name.lower().endswith((".ome.tif", ".ome.tiff")):
        sizes: dict[str, Any] = {f"PhysicalSize{axis}": size for axis, size in zip(axes, spacing or (), strict=False)}
        units = {f"{name}Unit": "µm" if unit == "um" else unit for name in sizes if unit}
        return {"ome": True, "metadata": {"axes": axes, **sizes, **units}}
    if spacing is None or big:
        return {"ome": False, "metadata": {"axes": axes}}
    depth = {"spacing": spacing[0]} if rank == 3 else {}
    metadata = {"axes": axes, **depth, "unit": unit or "pixel"}
    return {"imagej": True, "resolution": (1 / spacing[-1], 1 / spacing[-2]), "metadata": metadata}


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """An open file. What it says of pixels in other files is not followed."""
    import tifffile

    logging.getLogger("tifffile").addHandler(_QUIET)
    flags: dict[str, Any] = {f"is_{kind}": False for kind in _NOT_FOLLOWED & tifffile.TIFF.FILE_FLAGS}
    with open_file(path, "TIFF") as stream:
        pages = count_pages(path, stream)
        stream.seek(0)  # from where tifffile counts
        with tifffile.TiffFile(stream, name=path.name, _multifile=False, **flags) as file:
            if file.is_ome:
                check_ome(path, file.ome_metadata or "", pages, file.pages.first.size)
            if not file.series:
                raise InputError(f"{path}: holds no image")
            if file.is_ome and file.series[0].kind != "ome":
                raise InputError(f"{path}: its OME metadata speak of other files; save it as one file")
            yield file


def _layout(path: Path, file: Any) -> _Layout:
    series = file.series[0]
    page = series.keyframe
    if page.photometric == _PALETTE:
        raise InputError(f"{path}: holds colours by their number in a palette; convert it to grey or RGB")
    if series.dtype is None:
        raise InputError(f"{path}: holds numbers of {page.bitspersample} bits in a form that is not supported")
    dtype = np.dtype(series.dtype).newbyteorder("=")
    check_numbers(path, dtype, series.shape)
    stack, channel = _named_axes(path, series)
    rows, columns = series.axes.index("Y"), series.axes.index("X")
    sites = (*stack, rows, columns)
    spacing, unit = _spacing(file, len(sites))
    return _Layout(
        sites=tuple(int(series.shape[axis]) for axis in sites),
        channels=int(series.shape[channel[0]]) if channel else 0,
        axes=(*sites, *channel),
        dtype=dtype,
        spacing=spacing,
        unit=unit,
    )


def _named_axes(path: Path, series: Any) -> tuple[list[int], list[int]]:
    """The axis of pages and that of channels, where there are such, of a file whose other axes have one entry each."""
    long = [axis for axis, name in enumerate(series.axes) if series.shape[axis] > 1 and name not in "YX"]
    stack = [axis for axis in long if series.axes[axis] in _STACK]
    channel = [axis for axis in long if series.axes[axis] in _CHANNELS]
    if any(series.axes[axis] == "T" for axis in long):
        times = series.shape[series.axes.index("T")]
        raise InputError(f"{path}: a series of {times} moments; save the one that is meant on its own")
    known = len(stack) + len(channel) == len(long) and len(stack) <= 1 and len(channel) <= 1
    if not (known and series.axes.count("Y") == 1 and series.axes.count("X") == 1):
        raise InputError(
            f"{path}: has the axes {series.axes} shaped {series.shape}; "
            "expected rows and columns (YX), and at most one of pages and one of channels"
        )
    return stack, channel


def _check_segments(path: Path, file: Any, budget: int | None) -> None:
    """Refuse a file that does not hold the strips or tiles it declares; tifffile reads zeros in their place."""
    series = file.series[0]
    page = series.keyframe
    size = file.filehandle.size
    if page.compression not in _COMPRESSIONS:
        raise InputError(f"{path}: packed with {page.compression.name}, which is not supported; save it with deflate")
    require_bytes(
        declared(path, page.chunks, series.dtype) + " in a strip", bytes_of(page.chunks, series.dtype), budget
    )
    if series.dataoffset is not None:
        _check_within(path, series.dataoffset + bytes_of(series.shape, series.dtype), size)
        return
    if math.prod(series.shape) != len(series) * math.prod(page.shape):
        raise InputError(f"{path}: declares the shape {series.shape}, but its pages do not add up to it")
    for part in series.pages:
        if part is None:
            raise InputError(f"{path}: some of its pages lie in other files; save it as one file")
        if len(part.dataoffsets) < math.prod(page.chunked) or 0 in part.databytecounts:
            raise InputError(f"{path}: lacks a part of its pixels; get a whole copy")
        ends = map(sum, zip(part.dataoffsets, part.databytecounts, strict=True))
        _check_within(path, max(ends), size)
        if page.compression == _JPEG:
            _check_jpegs(path, file, part)


def _check_jpegs(path: Path, file: Any, page: Any) -> None:
    """Refuse a page with a JPEG that is larger than the strip or tile it stands for."""
    keyframe = page.keyframe
    width = keyframe.tilewidth if keyframe.is_tiled else keyframe.imagewidth
    height = keyframe.tilelength if keyframe.is_tiled else keyframe.rowsperstrip
    for start, length in zip(page.dataoffsets, page.databytecounts, strict=True):
        file.filehandle.seek(start)
        frame = jpeg_frame(file.filehandle, length)
        if frame is None:
            raise InputError(f"{path}: holds a strip that is no JPEG; get a whole copy")
        if frame.width > width or frame.height > height:
            raise InputError(
                f"{path}: a JPEG of {frame.width} x {frame.height} pixels in a strip of {width} x {height}"
            )


def _check_within(path: Path, end: int, size: int) -> None:
    if end > size:
        raise InputError(f"{path}: cut short, {end - size:,} bytes are missing; get a whole copy")


def _in_one_piece(path: Path, file: Any, layout: _Layout, stamp: Stamp) -> Lazy | None:
    series = file.series[0]
    if series.dataoffset is None or series.transform is not None:
        return None
    dtype = np.dtype(series.dtype).newbyteorder(file.byteorder)
    return Lazy(FileArray(path.absolute(), series.dataoffset, tuple(series.shape), dtype, stamp), layout.axes)


def _read(path: Path, file: Any, budget: int | None) -> NDArray[Any]:
    series = file.series[0]
    require_bytes(declared(path, series.shape, series.dtype), bytes_of(series.shape, series.dtype), budget)
    pixels: NDArray[Any] = series.asarray()
    if pixels.shape != series.shape:
        raise InputError(f"{path}: declares the shape {series.shape}, but holds {pixels.shape}; get a whole copy")
    return pixels


def _pages(path: Path, series: Any) -> Iterator[NDArray[Any]]:
    """One after another, as they lie in the series."""
    shape, dtype = series.keyframe.shape, series.dtype
    require_bytes(declared(path, shape, dtype) + " in a page", bytes_of(shape, dtype))
    for page in series.pages:
        with reading(path):  # also for who is writing when that fails
            pixels: NDArray[Any] = page.asarray()
            if series.transform is not None:
                pixels = series.transform(pixels)
        if pixels.shape != shape:
            raise InputError(f"{path}: declares pages shaped {shape}, but one is {pixels.shape}; get a whole copy")
        yield pixels


def _image(path: Path, layout: _Layout, pixels: Any) -> Image:
    return Image(pixels, layout.channels > 0, layout.spacing, path, TiffHeader(layout.unit))


def _turned(pixels: NDArray[Any], axes: tuple[int, ...]) -> NDArray[Any]:
    """A view with these axes in this order; the others have one entry."""
    others = [axis for axis in range(pixels.ndim) if axis not in axes]
    turned = pixels.transpose(*axes, *others)
    return turned.reshape(turned.shape[: len(axes)]) if others else turned


def _spacing(file: Any, rank: int) -> tuple[Spacing | None, str]:
    """Of a site, and its unit, by what OME or ImageJ wrote, or by the resolution of a picture."""
    if file.is_ome:
        return _ome_spacing(file.ome_metadata, rank)
    tags = file.series[0].keyframe.tags
    if file.is_imagej:
        metadata = file.imagej_metadata or {}
        unit = str(metadata.get("unit", ""))
        depth = metadata.get("spacing")
        flat = (_per_pixel(tags, _Y_RESOLUTION), _per_pixel(tags, _X_RESOLUTION)) if unit else (None, None)
        sizes = (depth if isinstance(depth, int | float) else None, *flat)
        return as_spacing(sizes[-rank:]), unit
    # A page's resolution says nothing about the distance between pages.
    millimetres = _MILLIMETRES.get(int(tags.valueof(_RESOLUTION_UNIT, default=1)))
    if rank > 2 or millimetres is None:
        return None, ""
    inches = (_per_pixel(tags, _Y_RESOLUTION), _per_pixel(tags, _X_RESOLUTION))
    return as_spacing([size and size * millimetres for size in inches]), "mm"


def _per_pixel(tags: Any, code: int) -> float | None:
    pixels, units = tags.valueof(code, default=(0, 0))
    return units / pixels if pixels else None


def _ome_spacing(xml: str | None, rank: int) -> tuple[Spacing | None, str]:
    pixels = next((node for node in ET.fromstring(xml or "<OME/>").iter() if node.tag.endswith("}Pixels")), None)
    if pixels is None:
        return None, ""
    axes = "ZYX"[-rank:]
    sizes = [pixels.get(f"PhysicalSize{axis}") for axis in axes]
    units = {pixels.get(f"PhysicalSize{axis}Unit", "µm") for axis in axes}
    if len(units) > 1:
        return None, ""
    return as_spacing([None if size is None else float(size) for size in sizes]), units.pop()


def _format(file: Any) -> str:
    kind = "OME-TIFF" if file.is_ome else "ImageJ TIFF" if file.is_imagej else "TIFF"
    return f"{kind}, BigTIFF" if file.is_bigtiff else kind


def _details(file: Any, layout: _Layout) -> dict[str, str]:
    series = file.series[0]
    details = {
        "axes": series.axes,
        "compression": series.keyframe.compression.name.lower(),
        "photometric": series.keyframe.photometric.name.lower(),
        "pages": str(len(file.pages)),
        "unit": layout.unit,
    }
    if len(file.series) > 1:
        details["images"] = f"{len(file.series)}; the first is taken"
    if len(series.levels) > 1:
        details["levels"] = ", ".join(" x ".join(map(str, level.shape)) for level in series.levels)
    return {name: text for name, text in details.items() if text}
