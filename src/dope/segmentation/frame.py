"""The part of an image that takes part: its pixels are read when they are asked for, wherever they lie."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, Mask, as_array, as_mask, as_numbers, fitting_in_words, known_shape
from dope.errors import InputError
from dope.scribbles import UNLABELED, Seeds


@dataclass(frozen=True, eq=False)
class Pixels:
    """An image that is still where it was: sites, and channels on some axis or none."""

    array: Any
    channels: int | None

    @classmethod
    def of(cls, image: Any, shape: tuple[int, ...], channel_axis: int | None) -> Pixels:
        array = image if hasattr(image, "shape") and hasattr(image, "dtype") else as_array("image", image)
        found = known_shape("image", array)
        if not found or isinstance(image, (str, bytes, os.PathLike)):
            raise InputError(
                f"image is a {type(image).__name__}; expected an array. dope.io.load(path).pixels reads one."
            )
        if channel_axis is None and found == shape:
            return cls(array, None)
        axis = -1 if channel_axis is None else channel_axis
        if not -len(found) <= axis < len(found):
            raise InputError(f"channel_axis is {channel_axis}; expected an axis of the image, shaped {found}.")
        axis %= len(found)
        if found[:axis] + found[axis + 1 :] != shape:
            advice = fitting_in_words(shape, found) or "Crop or resample one of them, or say which channel_axis."
            raise InputError(
                f"the image is shaped {found}, and what is known about it (a map, say) {shape}; expected the same "
                f"shape, but for a channel axis. {advice}"
            )
        return cls(array, axis)


@dataclass(frozen=True, eq=False)
class Frame:
    """The box of an image that takes part."""

    pixels: Pixels
    shape: tuple[int, ...]
    where: Box

    @property
    def sides(self) -> tuple[int, ...]:
        return tuple(s.stop - s.start for s in self.where)

    @property
    def pixel_bytes(self) -> int:
        """What a site's pixel takes."""
        axis = self.pixels.channels
        number = 1 if axis is None else int(self.pixels.array.shape[axis])
        return number * int(np.dtype(self.pixels.array.dtype).itemsize)

    def features(self) -> npt.NDArray[Any]:
        """Its pixels, channels last; a view where the image is in memory already."""
        index: list[slice] = list(self.where)
        if self.pixels.channels is not None:
            index.insert(self.pixels.channels, slice(None))
        array = as_numbers("image", self.pixels.array[tuple(index)])
        return array if self.pixels.channels is None else np.moveaxis(array, self.pixels.channels, -1)


def region_of(mask: npt.ArrayLike, shape: tuple[int, ...]) -> Mask:
    """A mask that fits, with something in it."""
    known_shape("mask", mask)
    inside = as_mask(mask)
    if inside.shape != shape:
        raise InputError(f"mask is shaped {inside.shape}; expected {shape}, the image's without channels.")
    if not inside.any():
        raise InputError("mask has no site inside; expected True where sites take part.")
    return inside


def box_of(shape: tuple[int, ...], inside: Mask | None, seeds: Seeds | None, margin: object) -> Box:
    """The box outside which nothing takes part."""
    where = tuple(slice(0, n) for n in shape) if inside is None else _bounding_box(inside)
    if margin is None:
        return where
    if not isinstance(margin, (int, float, np.number)) or not 0 <= margin < math.inf:
        raise InputError(f"margin is {margin!r}; expected a fraction of 0 or more, such as 0.2.")
    if seeds is None or not (seeds != UNLABELED).any():
        raise InputError("margin is given without strokes; expected scribbles whose bounding box it makes larger.")
    around = _bounding_box(seeds != UNLABELED)
    wider = [math.ceil(min(n, margin * (s.stop - s.start))) for n, s in zip(shape, around, strict=True)]
    near = tuple(
        slice(max(b.start, s.start - m), min(b.stop, s.stop + m)) for b, s, m in zip(where, around, wider, strict=True)
    )
    if any(s.start >= s.stop for s in near):
        raise InputError("the strokes' box, with its margin, and the mask lie apart; expected strokes inside the mask.")
    return near


def _bounding_box(inside: Mask) -> Box:
    box = []
    for axis in range(inside.ndim):
        places = np.flatnonzero(inside.any(axis=tuple(a for a in range(inside.ndim) if a != axis)))
        box.append(slice(int(places[0]), int(places[-1]) + 1))
    return tuple(box)
