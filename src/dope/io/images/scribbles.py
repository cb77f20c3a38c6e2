"""Strokes on a picture or volume: what a user has marked as foreground and background.

Two forms. *Labels* are a picture or volume of the image's size, in any format that is read, which holds 0 (nothing),
1 (foreground) and 2 (background); of a PNG with a palette the numbers count, not the colours. *JSON strokes* are
polylines of (x, y) pixels, x to the right and y down, the first pixel's centre at (0, 0), drawn with a round brush:

    {"width": 640, "height": 480, "brush_radius": 5,
     "fg": [[[100, 120], [180, 200]], [[150, 90]]],
     "bg": [[[10, 10], [630, 10]]]}

`width` and `height` may be left out; other keys are ignored. A file may also hold several pictures, as an
object of such entries by file name. Strokes of several classes have names instead, and are numbered from 1 in the
order of the file:

    {"brush_radius": 5, "classes": {"liver": [[[100, 120], [180, 200]]], "spleen": [[[10, 10]]], "rest": [[[5, 90]]]}}

Labels of several classes are any whole numbers from 1; negative ones are sites that take no part.

Strokes are opened rather than read: those of JSON are drawn where a box is asked for, so that a picture may be larger
than memory.
"""

from __future__ import annotations

import itertools
import json
import math
import operator
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from dope.arrays import Mask
from dope.bounded import read_regular
from dope.cancellation import check_cancelled
from dope.errors import InputError
from dope.io import npy
from dope.io.content import bytes_of
from dope.io.files import in_one_line, reading
from dope.io.images.formats import describe, load, stored
from dope.io.images.pictures import load_numbers
from dope.io.lazy import box_of
from dope.memory import require_bytes
from dope.scribbles import BACKGROUND, DRAWN, FOREGROUND, NAMES, check_scribbles

Scribbles = NDArray[np.int8]
Stroke = list[tuple[float, float]]

_KINDS = {"fg": FOREGROUND, "bg": BACKGROUND}
_DEFAULT_RADIUS = 5.0
_MOST_NUMBER = 2**53
_MOST_CLASSES = 1024
_FLAT = (".json", ".png", ".jpg", ".jpeg")
_MOST_CHANNELS = 4  # a third axis that is longer is one of sites
# Python takes some twenty times as much for the lists in it.
_MOST_BYTES = 8 << 20
# Pixels that the brush may pass over, counted again and again where strokes cross: about a second.
_MOST_BRUSHED = 1 << 30
# Pixels that are drawn at a time: whole rows, of which the canvas takes a byte each.
_CANVAS_PIXELS = 1 << 22
_WIDEST = 1 << 26  # pixels of a row, the least that is drawn
_LONGEST = 40  # of what an error repeats


def read_scribbles(
    path: str | os.PathLike[str],
    shape: tuple[int, ...],
    *,
    photo: str | None = None,
    budget: int | None = None,
    both: bool = True,
) -> Scribbles:
    """Read strokes for a picture or volume of the given shape.

    Parameters
    ----------
    path : path
        A .json file of strokes, a label image, or a label volume in any format that `load` reads.
    shape : tuple of int
        Of what the strokes were drawn on: (height, width) for JSON, PNG and JPEG, where a third axis (channels) is
        ignored; any shape for other formats, where a last axis that the labels do not have is one of channels.
    photo : str, optional
        Which entry to take from a JSON file of several pictures. One of a single picture needs none.
    budget : int, optional
        Bytes that reading may take; by default what is available.
    both : bool
        Whether both kinds of stroke must be there, as for colours that are learnt from them.

    Returns
    -------
    int8 array of the shape, without channels
        0 none, 1 foreground, 2 background.

    Raises
    ------
    InputError
        A damaged file, another size, one kind of stroke where both are needed, points outside the picture, a pixel
        marked as both, or more than the budget.
    """
    opened = open_scribbles(path, shape, photo=photo, budget=budget, both=both)
    require_bytes(f"{path}: its labels", bytes_of(opened.shape, np.int8), budget)
    scribbles = np.asarray(opened)
    for label in NAMES if both else ():
        if not (scribbles == DRAWN[label]).any():
            raise _lacking(Path(path), label)
    return scribbles


def open_scribbles(
    path: str | os.PathLike[str],
    shape: tuple[int, ...],
    *,
    photo: str | None = None,
    budget: int | None = None,
    both: bool = True,
    scratch: Path | None = None,
) -> Any:
    """Strokes that are read as they are indexed by a slice per axis: parameters are those of `read_scribbles`.

    Of a label volume only numbers that are read are checked, and whether both kinds are there is the caller's to see.
    With `scratch`, a folder, what has to be unpacked lies there, and boxes can be read in other processes.
    """
    path = Path(path)
    if len(shape) < 2:
        raise InputError(f"a picture shaped {tuple(shape)} has no strokes; expected (height, width)")
    height, width = int(shape[0]), int(shape[1])
    suffix = path.suffix.lower()
    if suffix in _FLAT and (len(shape) > 3 or (len(shape) == 3 and shape[2] > _MOST_CHANNELS)):
        raise InputError(f"{path}: strokes on a picture, but the volume is shaped {tuple(shape)}; use a label volume")
    if suffix == ".json":
        entry = _entry(path, photo)
        if "classes" in entry:
            raise InputError(f'{path}: strokes of several classes; expected "fg" and "bg"')
        drawn = _drawn(path, entry, height, width)
        for label, number in DRAWN.items() if both else ():
            if not drawn.strokes[number]:
                raise _lacking(path, label)
        return drawn
    if suffix not in _FLAT:
        return _volume(path, tuple(int(length) for length in shape), budget, scratch)
    labels = _labelled(path, height, width, budget)
    for label in NAMES if both else ():
        if not (labels == DRAWN[label]).any():
            raise _lacking(path, label)
    return labels if scratch is None else npy.put(scratch / "scribbles.npy", labels)


def open_class_scribbles(
    path: str | os.PathLike[str],
    shape: tuple[int, ...],
    *,
    names: Sequence[str] | None = None,
    photo: str | None = None,
    budget: int | None = None,
    scratch: Path | None = None,
) -> Any:
    """The same of any number of classes: the number of a class where it was drawn, of any whole number in a file.

    `names` say which number each class of JSON strokes has: the place in them, from 1. Those of two kinds are classes
    1 and 2, too. What is given has the `names` of its classes, where it knows some.
    """
    path = Path(path)
    if len(shape) < 2:
        raise InputError(f"a picture shaped {tuple(shape)} has no strokes; expected (height, width)")
    height, width = int(shape[0]), int(shape[1])
    suffix = path.suffix.lower()
    if suffix == ".json":
        entry = _entry(path, photo)
        if "classes" in entry:
            if any(kind in entry for kind in _KINDS):
                raise InputError(f'{path}: holds "classes" beside "fg" or "bg"; expected all strokes under "classes"')
            return _drawn(path, entry, height, width, _named_strokes(path, entry["classes"], names, height, width))
        return _drawn(path, entry, height, width)
    if suffix in _FLAT:
        labels = _numbered(path, height, width, budget)
        return labels if scratch is None else npy.put(scratch / "scribbles.npy", labels)
    return _ClassVolume(path, _volume(path, tuple(int(length) for length in shape), budget, scratch).pixels)


def _named_strokes(
    path: Path, classes: Any, names: Sequence[str] | None, height: int, width: int
) -> dict[str, list[Stroke]]:
    """By name, in the order of their numbers."""
    if not isinstance(classes, dict) or len(classes) < 2:
        raise InputError(f'{path}: "classes" is {_shown(classes)}; expected a name and a list of polylines for each')
    if len(classes) > _MOST_CLASSES:
        raise InputError(f'{path}: "classes" has {len(classes):,} names; expected at most {_MOST_CLASSES:,}')
    if names is not None and set(names) != set(classes):
        other = next(iter(sorted(set(names) ^ set(classes))))
        where = "the file" if other in classes else "the names of classes"
        raise InputError(f"{path}: class {_shown(other)} is in {where} alone; expected the same classes in both")
    found = {}
    for name in classes if names is None else names:
        found[name] = _strokes(path, name, classes[name], height, width)
        if not found[name]:
            raise InputError(f"{path}: no stroke of class {_shown(name)}; draw at least one of each")
    return found


def _lacking(path: Path, label: int) -> InputError:
    return InputError(f"{path}: no {NAMES[label]} strokes; mark at least one pixel of each kind")


@dataclass(frozen=True)
class DrawnStrokes:
    """Strokes of JSON on a picture of this shape, drawn as they are indexed by slices of step 1."""

    path: str
    shape: tuple[int, int]
    radius: float
    strokes: dict[int, list[Stroke]]  # by the number that is drawn
    names: tuple[str, ...] | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int8 if self.names is None else np.int16)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError(f"{self.path}: strokes are drawn; they cannot be had without a copy")
        return np.asarray(self[...], dtype)

    def __getitem__(self, key: Any) -> Scribbles:
        rows, columns = box_of(key, self.shape)
        scribbles = np.zeros((rows.stop - rows.start, columns.stop - columns.start), dtype=self.dtype)
        for low, high in self._bands(rows):
            check_cancelled()
            here = scribbles[low - rows.start : high - rows.start]
            for number, strokes in self.strokes.items():
                marked = self._rasterized(strokes, low, high)[:, columns]
                both = marked & (here != 0)
                if both.any():
                    y, x = np.unravel_index(int(np.argmax(both)), both.shape)
                    kinds = "both kinds" if self.names is None else "two classes"
                    raise InputError(
                        f"{self.path}: pixel ({x + columns.start}, {y + low}) lies under strokes of {kinds}; draw "
                        f"them apart or with a thinner brush"
                    )
                here[marked] = number
        return scribbles

    def check(self) -> None:
        """Refuse strokes of both kinds on one pixel."""
        for low, high in self._bands(slice(0, self.shape[0])):
            self[low:high]

    def _bands(self, rows: slice) -> Iterator[tuple[int, int]]:
        """Rows of a few at a time, of which some lie under strokes."""
        reach = self.radius + 2
        ends = [y for strokes in self.strokes.values() for line in strokes for _, y in line]
        if not ends:
            return
        first, last = max(rows.start, int(min(ends) - reach)), min(rows.stop, math.ceil(max(ends) + reach) + 1)
        step = max(1, _CANVAS_PIXELS // self.shape[1])
        for low in range(first, last, step):
            yield low, min(low + step, last)

    def _rasterized(self, strokes: list[Stroke], low: int, high: int) -> Mask:
        """Pixels of these rows under a round brush: wide segments, and a disc at every point for round caps and joints.

        Pillow counts corners in whole pixels, cut towards 0. They are cut here, and only rows are moved: where a line
        crosses a row depends on the numbers of columns, by their rounding, but not on those of rows. So what is drawn
        does not depend on the rows that are asked for.
        """
        canvas = Image.new("1", (self.shape[1], high - low))
        draw = ImageDraw.Draw(canvas)
        radius, reach = self.radius, self.radius + 2
        for stroke in strokes:
            for (a, b), (x, y) in itertools.pairwise(stroke):
                if min(b, y) - reach < high and max(b, y) + reach >= low:
                    ends = [(int(a), int(b) - low), (int(x), int(y) - low)]
                    draw.line(ends, fill=1, width=max(1, round(2 * radius)))
            for x, y in stroke:
                if y - reach < high and y + reach >= low:
                    top, bottom = int(y - radius) - low, int(y + radius) - low
                    draw.ellipse((int(x - radius), top, int(x + radius), bottom), fill=1)
        return np.array(canvas, dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class _LabelVolume:
    """Labels in a file, checked as they are read."""

    path: Path
    pixels: Any
    dtype = np.dtype(np.int8)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.pixels.shape)

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return getattr(self.pixels, "chunks", None)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError(f"{self.path}: labels are checked as they are read; they cannot be had without a copy")
        return np.asarray(self[...], dtype)

    def __getitem__(self, key: Any) -> Scribbles:
        box = box_of(key, self.shape)
        labels, corner = np.asarray(self.pixels[box]), [side.start for side in box]
        check_scribbles(str(self.path), labels, lambda at: str(tuple(map(operator.add, at, corner))))
        return labels.astype(np.int8)


@dataclass(frozen=True, eq=False)
class _ClassVolume:
    """Labels of any whole numbers in a file, checked as they are read."""

    path: Path
    pixels: Any
    dtype = np.dtype(np.int64)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.pixels.shape)

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return getattr(self.pixels, "chunks", None)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError(f"{self.path}: labels are checked as they are read; they cannot be had without a copy")
        return np.asarray(self[...], dtype)

    def __getitem__(self, key: Any) -> NDArray[Any]:
        box = box_of(key, self.shape)
        labels = np.asarray(self.pixels[box])
        if labels.dtype.kind in "iu":
            return labels
        with np.errstate(invalid="ignore"):
            whole = labels.astype(np.int64)
        if (wrong := whole != labels).any():
            at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            place = tuple(int(k) + side.start for k, side in zip(at, box, strict=True))
            raise InputError(f"{self.path}: label {labels[at]} at {place}; expected whole numbers, one for each class")
        return whole


def _labelled(path: Path, height: int, width: int, budget: int | None) -> Scribbles:
    labels = _numbered(path, height, width, budget)
    check_scribbles(str(path), labels, lambda at: f"pixel ({at[1]}, {at[0]})")
    return labels.astype(np.int8)


def _numbered(path: Path, height: int, width: int, budget: int | None) -> NDArray[Any]:
    found = describe(path)
    _check_size(path, (found.shape[1], found.shape[0]), (width, height))
    labels: NDArray[Any] = load_numbers(path, budget=budget).pixels
    if labels.ndim == 3 and (labels[..., :1] == labels[..., :3]).all():
        labels = labels[..., 0]
    if labels.ndim != 2:
        raise InputError(f"{path}: a colour picture; expected a grey label image of 0, 1 and 2")
    return labels


def _volume(path: Path, shape: tuple[int, ...], budget: int | None, scratch: Path | None) -> _LabelVolume:
    image = load(path, budget=budget) if scratch is None else stored(path, scratch)
    found = tuple(image.pixels.shape)
    if found not in (shape, shape[:-1]):
        raise InputError(f"{path}: labels shaped {found} for an image shaped {shape}; use labels drawn on it")
    return _LabelVolume(path, image.pixels)


def _drawn(
    path: Path, entry: dict[str, Any], height: int, width: int, named: dict[str, list[Stroke]] | None = None
) -> DrawnStrokes:
    if "width" in entry or "height" in entry:
        _check_size(path, (entry.get("width", width), entry.get("height", height)), (width, height))
    if width > _WIDEST:
        raise InputError(f"{path}: strokes on a picture {width:,} pixels wide; expected at most {_WIDEST:,}")
    radius = entry.get("brush_radius", _DEFAULT_RADIUS)
    if not _is_number(radius) or not 0 <= radius <= max(height, width):
        raise InputError(f"{path}: brush_radius is {_shown(radius)}; expected a number of pixels, such as 5")
    if named is None:
        strokes = {
            DRAWN[label]: _strokes(path, kind, entry.get(kind, []), height, width) for kind, label in _KINDS.items()
        }
    else:
        strokes = dict(enumerate(named.values(), 1))
    for lines in strokes.values():
        _check_brush(path, lines, float(radius), height, width)
    names = None if named is None else tuple(named)
    drawn = DrawnStrokes(str(path), (height, width), float(radius), strokes, names)
    drawn.check()
    return drawn


def _entry(path: Path, photo: str | None) -> dict[str, Any]:
    """The one entry that is meant, from a file of one or of several."""
    content = _json(path)
    if not isinstance(content, dict):
        raise InputError(f'{path}: expected a JSON object with "fg" and "bg" strokes')
    if any(name in content for name in (*_KINDS, "classes")):
        return content
    entries = {name: value for name, value in content.items() if isinstance(value, dict)}
    if not entries:
        raise InputError(f'{path}: holds no strokes; expected "fg" and "bg", each a list of polylines')
    if photo is None:
        if len(entries) > 1:
            raise InputError(f"{path}: holds strokes of {len(entries)} pictures; say which one is meant")
        return next(iter(entries.values()))
    name = Path(photo).name
    if name not in entries:
        others = ", ".join(entry[:_LONGEST] for entry in sorted(entries)[:3])
        raise InputError(f"{path}: holds no strokes for {name}, but for {others}")
    return entries[name]


def _json(path: Path) -> Any:
    with reading(path):
        content = read_regular(path, "JSON", most=_MOST_BYTES)
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: not valid JSON ({in_one_line(error)})") from error


def _strokes(path: Path, kind: str, value: Any, height: int, width: int) -> list[Stroke]:
    if not isinstance(value, list):
        raise InputError(f'{path}: "{kind}" is not a list; expected a list of polylines')
    strokes = []
    for number, line in enumerate(value):
        place = f'{path}: stroke {number} of "{kind}"'
        if not isinstance(line, list) or not line or not all(_is_point(point) for point in line):
            raise InputError(f"{place} is not a polyline; expected points [[x, y], [x, y], ...]")
        for x, y in line:
            if not (0 <= x < width and 0 <= y < height):
                raise InputError(f"{place} has the point ({x}, {y}) outside the picture of {width} x {height} pixels")
        strokes.append([(float(x), float(y)) for x, y in line])
    return strokes


def _is_point(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(_is_number(number) for number in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MOST_NUMBER


def _shown(value: Any) -> str:
    """What stands in a file, for an error; it may be of any length."""
    text = f"{value:.6g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _check_size(path: Path, found: tuple[Any, Any], expected: tuple[int, int]) -> None:
    if found != expected:
        raise InputError(
            f"{path}: strokes for a picture of {_shown(found[0])} x {_shown(found[1])} pixels, "
            f"but this one has {expected[0]} x {expected[1]}; use strokes drawn on it"
        )


def _check_brush(path: Path, strokes: list[Stroke], radius: float, height: int, width: int) -> None:
    """Refuse strokes that would be drawn for minutes: a file of some lines can fill a large picture many times."""
    across = 2 * radius + 1
    along = [math.hypot(x - a, y - b) for line in strokes for (a, b), (x, y) in itertools.pairwise(line)]
    points = sum(len(line) for line in strokes)
    brushed = points * min(across * across, height * width)
    brushed += sum(min(across * length, height * width) for length in along)
    if brushed > _MOST_BRUSHED:
        raise InputError(
            f"{path}: a brush of radius {radius:g} at {points:,} points passes over {brushed:,.0f} pixels; "
            f"expected at most {_MOST_BRUSHED:,}. Use a thinner brush or fewer points"
        )
