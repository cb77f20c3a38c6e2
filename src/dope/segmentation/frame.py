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
from dope.pairs import strips
from dope.planning.plans import checked_target
from dope.scribbles import UNLABELED
from dope.segmentation.boxes import READ_SITES, bounding_box, corner_of, moved, sides_of, whole_of
from dope.segmentation.seed_map import SeedMap
from dope.stored import Stored, lies_elsewhere


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
    """The box of an image that takes part; the mask, if there is one, is of all of the image."""

    pixels: Pixels
    shape: tuple[int, ...]
    where: Box
    mask: Stored | None = None

    @property
    def sides(self) -> tuple[int, ...]:
        return sides_of(self.where)

    @property
    def is_whole(self) -> bool:
        return self.sides == self.shape

    def of(self, stored: Stored) -> Stored:
        """What the frame shows of an array that lies on the image."""
        return stored if self.is_whole else stored.window(self.where)

    @property
    def stored_pixels(self) -> Stored:
        """Its pixels, wherever they lie."""
        return self.of(Stored.of("image", self.pixels.array, channels=self.pixels.channels))

    @property
    def stored_mask(self) -> Stored | None:
        """Which of its sites take part: those that are not 0."""
        return None if self.mask is None else self.of(self.mask)

    def features(self) -> npt.NDArray[Any]:
        """Its pixels in memory, channels last; a view where the image is in memory already."""
        index: list[slice] = list(self.where)
        if self.pixels.channels is not None:
            index.insert(self.pixels.channels, slice(None))
        array = as_numbers("image", self.pixels.array[tuple(index)])
        return array if self.pixels.channels is None else np.moveaxis(array, self.pixels.channels, -1)

    def inside(self) -> Mask | None:
        """Which of its sites take part, in memory; None where all do."""
        mask = self.stored_mask
        found = None if mask is None else mask.at(whole_of(self.sides)) != 0
        return None if found is None or found.all() else found

    def target(self, out: Any) -> Any:
        """Where labels of the frame go, of a place for those of the image."""
        return out if self.is_whole else FramedTarget(checked_target(out, self.shape), self.where)


@dataclass(frozen=True, eq=False)
class FramedTarget:
    """A place for labels, as whoever knows only a box of it sees it."""

    target: Any
    where: Box

    @property
    def shape(self) -> tuple[int, ...]:
        return sides_of(self.where)

    @property
    def anywhere(self) -> bool:
        return bool(getattr(self.target, "anywhere", False))

    def __setitem__(self, box: Box, labels: npt.NDArray[np.bool_]) -> None:
        self.target[moved(box, corner_of(self.where))] = labels

    def clear_around(self, shape: tuple[int, ...]) -> None:
        """Write background everywhere else: before and behind the box along each axis in turn."""
        rest = list(whole_of(shape))
        for axis, side in enumerate(self.where):
            for low, high in ((0, side.start), (side.stop, shape[axis])):
                beside = (*rest[:axis], slice(low, high), *rest[axis + 1 :])
                if low < high:
                    for part in strips(sides_of(beside), READ_SITES):
                        self.target[moved(part, corner_of(beside))] = np.zeros(sides_of(part), dtype=np.bool_)
            rest[axis] = side


def region_of(mask: Any, shape: tuple[int, ...]) -> Stored:
    """A mask that fits: one in memory as bool, any other as it is."""
    known_shape("mask", mask)
    stored = Stored.of("mask", mask if lies_elsewhere(mask) else as_mask(mask))
    if stored.shape != shape:
        raise InputError(f"mask is shaped {stored.shape}; expected {shape}, the image's without channels.")
    return stored


def box_of(shape: tuple[int, ...], mask: Stored | None, seeds: SeedMap | None, margin: object) -> Box:
    """The box outside which nothing takes part; `seeds` are of all of the image. What says so is read box by box."""
    where: Box | None = whole_of(shape)
    if mask is not None:
        where = bounding_box(mask, lambda values: values != 0)
    if where is None:
        raise InputError("mask has no site inside; expected True where sites take part.")
    if margin is None:
        return where
    if not isinstance(margin, (int, float, np.number)) or not 0 <= margin < math.inf:
        raise InputError(f"margin is {margin!r}; expected a fraction of 0 or more, such as 0.2.")
    around = None if seeds is None else bounding_box(seeds, lambda values: values != UNLABELED)
    if around is None:
        raise InputError("margin is given without strokes; expected scribbles whose bounding box it makes larger.")
    wider = [math.ceil(min(n, margin * (s.stop - s.start))) for n, s in zip(shape, around, strict=True)]
    near = tuple(
        slice(max(b.start, s.start - m), min(b.stop, s.stop + m)) for b, s, m in zip(where, around, wider, strict=True)
    )
    if any(s.start >= s.stop for s in near):
        raise InputError("the strokes' box, with its margin, and the mask lie apart; expected strokes inside the mask.")
    return near
