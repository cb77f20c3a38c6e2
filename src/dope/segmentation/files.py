"""The files of a segmentation: described first, so that it is known how to read them, and then opened.

paths → descriptions (headers alone) → plan → arrays in memory, or arrays that stay in their files
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dope.arrays import known_shape
from dope.durable import scratch_folder
from dope.errors import InputError
from dope.io import Description, Image, describe, load, open_class_scribbles, open_scribbles, same_space, stored
from dope.memory import budget_of
from dope.segmentation.classes import Drawn, SoftAxes, checked_names
from dope.stored import lies_elsewhere

if TYPE_CHECKING:
    from dope.segmentation.segmentation import Segmentation

_MAPS = {"probability": "the probability of foreground", "unary": "the unary", "mask": "the mask"}
_PICTURES = (".json", ".png", ".jpg", ".jpeg")
"""Formats of strokes that have two axes."""
_ALPHA = {2: 1, 4: 3}
"""Channels of pictures that have alpha, and how many they have without it."""
_WITH_ALPHA = (".png",)
# Of scribbles that are read before anything is planned.
_READ_WHOLE = 256 << 20


def is_path(value: object) -> bool:
    """Whether a field names a file."""
    return isinstance(value, (str, os.PathLike))


@dataclass(frozen=True, eq=False)
class Described:
    """An array in a file of which shape and type are known; it is opened when somebody asks for its numbers."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...] | None
    open: Callable[[], Any]
    drawn: Drawn | None = None
    """Of scribbles."""

    @cached_property
    def opened(self) -> Any:
        return self.open()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.opened, dtype) if copy else np.asarray(self.opened, dtype)

    def __getitem__(self, key: Any) -> Any:
        return self.opened[key]


@dataclass(frozen=True, eq=False)
class Opened:
    """A segmentation whose files are open: `said` has arrays in place of paths.

    `image` is the image's file, if it has one, and `scratch` the folder of what was unpacked, where boxes are read.
    """

    said: Segmentation
    image: Image | None
    scratch: Path | None = None


@dataclass(frozen=True, eq=False)
class Files:
    """The files that a segmentation names; of them nothing but headers has been read."""

    said: Segmentation
    found: dict[str, Description]

    @classmethod
    def of(cls, said: Segmentation) -> Files:
        names = [name for name in ("image", *_MAPS) if is_path(getattr(said, name))]
        files = cls(said, {name: describe(getattr(said, name)) for name in names})
        if "image" in files.found:
            if said.channel_axis is not None:
                raise InputError(
                    f"channel_axis is {said.channel_axis}, and the image a file, which says itself which axis that is; "
                    f"leave channel_axis out."
                )
            for name in names[1:]:
                files._check_shape(name)
        return files

    @property
    def any(self) -> bool:
        return bool(self.found) or is_path(self.said.scribbles)

    @cached_property
    def described(self) -> Segmentation:
        """The segmentation with descriptions in place of paths: for plans. Scribbles and a mask can be read from it."""
        if not self.any:
            return self.said
        arrays: dict[str, Any] = {name: self._described_map(name) for name in self.found if name != "image"}
        more: dict[str, Any] = {}
        if "image" in self.found:
            arrays["image"] = self._described_image()
            colored = len(arrays["image"].shape) > len(self.found["image"].shape)
            more = {"channel_axis": -1 if colored else None, "spacing": self._spacing(self.found["image"].spacing)}
        if is_path(self.said.scribbles):
            arrays["scribbles"] = self._described_scribbles()
        return replace(self.said, **arrays, **more)

    @contextmanager
    def open(self, *, in_boxes: bool, scratch: str | os.PathLike[str] | None = None) -> Iterator[Opened]:
        """Read everything, or with `in_boxes` open it to be read box by box until the end of the block.

        What has to be unpacked for that lies in a folder within `scratch`, by default where the system has such.
        """
        if not self.any:
            yield Opened(self.said, None)
        elif in_boxes:
            with scratch_folder(Path(tempfile.gettempdir() if scratch is None else scratch)) as folder:
                yield self._opened(Path(folder).absolute())
        else:
            yield self._opened(None)

    def _opened(self, folder: Path | None) -> Opened:
        arrays: dict[str, Any] = {}
        image = None
        if "image" in self.found:
            image = self._load(self.said.image, folder)
            pixels = _without_alpha(image)
            arrays = {
                "image": pixels,
                "channel_axis": -1 if len(pixels.shape) > len(image.shape) else None,
                "spacing": self._spacing(image.spacing),
            }
        if is_path(self.said.scribbles):
            arrays["scribbles"] = self._open_scribbles(folder)
        for name in _MAPS:
            if name in self.found:
                arrays[name] = self._open_map(name, image, folder)
        return Opened(replace(self.said, **arrays), image, folder)

    def _open_map(self, name: str, image: Image | None, folder: Path | None) -> Any:
        found = self._load(getattr(self.said, name), folder)
        axes = self._soft_axes if name == "probability" else None
        reason = None if image is None else same_space(image, found if axes is None else _sites_alone(found, axes))
        if reason is not None:
            raise self._elsewhere(name, reason)
        if axes is not None:
            return found.pixels if folder is not None else np.asarray(found.pixels)
        if not found.channels and (folder is not None or (name == "mask" and lies_elsewhere(found.pixels))):
            return found.pixels
        numbers = np.asarray(found.pixels).reshape(found.shape)
        return numbers != 0 if name == "mask" else numbers

    def _load(self, path: str | os.PathLike[str], folder: Path | None) -> Image:
        return load(path, budget=self._budget) if folder is None else stored(path, folder)

    @property
    def _budget(self) -> int | None:
        return budget_of(self.said.memory)

    def _spacing(self, of_file: tuple[float, ...] | None) -> Any:
        return of_file if self.said.spacing is None else self.said.spacing

    @cached_property
    def _soft_axes(self) -> SoftAxes | None:
        """Of a probability map in a file: which axis of it is classes, None where it has none."""
        found, said = self.found["probability"], self.said
        if said.probability is not None and Path(said.probability).suffix.lower() in _PICTURES:
            return None  # colours are no classes
        image, axis = said.image, said.channel_axis
        if "image" in self.found:
            image = self._described_image()
            axis = -1 if len(image.shape) > len(self.found["image"].shape) else None
        whole = Described(_whole_shape(found), np.dtype(found.dtype), None, lambda: None)
        return SoftAxes.of(whole, image, axis, said.label_axis, several=said.classes is not None)

    @cached_property
    def _several_drawn(self) -> bool:
        """Whether scribbles in a file are of several classes."""
        if self.said.classes is not None or ("probability" in self.found and self._soft_axes is not None):
            return True
        probability = self.said.probability
        if probability is not None and not is_path(probability) and "image" not in self.found:
            said = self.said
            if SoftAxes.of(probability, said.image, said.channel_axis, said.label_axis, several=False) is not None:
                return True
        return self._drawn is not None and self._drawn.several

    @cached_property
    def _drawn(self) -> Drawn | None:
        """What scribbles in a file hold; a large file is unpacked for that, if it has to be, rather than read whole."""
        path = Path(self.said.scribbles)
        if len(self._drawn_on()) < 2:
            return Drawn((), False)  # no picture at all, which is for others to say
        if path.suffix.lower() == ".json":
            opened = self._open_class_scribbles(None)
            return Drawn(tuple(number for number, lines in opened.strokes.items() if lines), False, opened.names)
        if describe(path).bytes <= _READ_WHOLE:
            return Drawn.of(self._open_class_scribbles(None, small=True))
        with scratch_folder(Path(tempfile.gettempdir())) as folder:
            return Drawn.of(self._open_class_scribbles(Path(folder).absolute()))

    def _check_shape(self, name: str) -> None:
        image, found = self.found["image"], self.found[name]
        if name == "probability" and self._soft_axes is not None:
            return
        if found.channels != 1 and found.shape == image.shape:
            raise InputError(
                f"{getattr(self.said, name)}: {found.channels} maps in one file; expected one, {_MAPS[name]}. Save it "
                f"alone."
            )
        if found.shape != image.shape:
            raise self._elsewhere(name, f"their sites are shaped {image.shape} and {found.shape}")

    def _elsewhere(self, name: str, reason: str) -> InputError:
        return InputError(f"{getattr(self.said, name)}: does not lie on {self.said.image}: {reason}")

    def _described_image(self) -> Described:
        found = self.found["image"]
        path = Path(self.said.image)
        channels = _ALPHA.get(found.channels, found.channels) if path.suffix.lower() in _WITH_ALPHA else found.channels
        more = () if channels == 1 else (channels,)
        chunks = None if found.chunks is None else (*found.chunks, *more)
        return Described(
            (*found.shape, *more), np.dtype(found.dtype), chunks,
            lambda: _without_alpha(self._load(path, None)),
        )  # fmt: skip

    def _described_map(self, name: str) -> Described:
        found = self.found[name]
        shape, chunks = found.shape, found.chunks
        if name == "probability" and self._soft_axes is not None:
            shape = _whole_shape(found)
            chunks = None if chunks is None else (*chunks, *shape[len(chunks) :])
        return Described(
            shape, np.dtype(found.dtype), chunks,
            lambda: self._open_map(name, None, None),
        )  # fmt: skip

    def _described_scribbles(self) -> Described:
        path, drawn_on = Path(self.said.scribbles), self._drawn_on()
        shape = drawn_on if "image" in self.found else self._shape_of_scribbles(path, drawn_on)
        dtype = np.dtype(np.int64 if self._several_drawn else np.int8)
        return Described(shape, dtype, None, lambda: self._open_scribbles(None), self._drawn)

    def _open_class_scribbles(self, folder: Path | None, *, small: bool = False) -> Any:
        said = checked_names(self.said.classes)
        return open_class_scribbles(
            self.said.scribbles,
            self._drawn_on(),
            names=None if said is None else said[1],
            photo=Path(self.said.image).name if is_path(self.said.image) else None,
            budget=None if small else self._budget,
            scratch=folder,
        )

    def _open_scribbles(self, folder: Path | None) -> Any:
        if self._several_drawn:
            return self._open_class_scribbles(folder)
        evidence = self.said.evidence
        return open_scribbles(
            self.said.scribbles,
            self._drawn_on(),
            photo=Path(self.said.image).name if is_path(self.said.image) else None,
            budget=self._budget,
            both=evidence.learnt and not evidence.outlined,
            scratch=folder,
        )

    def _drawn_on(self) -> tuple[int, ...]:
        """The shape of what scribbles were drawn on; of an image in memory it may have channels."""
        if "image" in self.found:
            return self.found["image"].shape
        shape, axis = known_shape("image", self.said.image), self.said.channel_axis
        return shape if axis is None or not shape else tuple(np.delete(shape, axis % len(shape)).tolist())

    @staticmethod
    def _shape_of_scribbles(path: Path, drawn_on: tuple[int, ...]) -> tuple[int, ...]:
        return drawn_on[:2] if path.suffix.lower() in _PICTURES else describe(path).shape


def _whole_shape(found: Description) -> tuple[int, ...]:
    """With channels, where there are some."""
    return found.shape if found.channels == 1 else (*found.shape, found.channels)


def _sites_alone(found: Image, axes: SoftAxes) -> Image:
    """A map of classes as one of sites: classes may lie on an axis that nobody told from those of space."""
    if found.channels:
        return found
    shape = tuple(int(n) for n in np.delete(found.pixels.shape, axes.label_axis))
    return replace(found, pixels=np.broadcast_to(np.uint8(0), shape))


def _without_alpha(image: Image) -> Any:
    """Pixels without transparency, which says nothing about colours."""
    number = image.pixels.shape[-1] if image.channels else 0
    if number in _ALPHA and image.path.suffix.lower() in _WITH_ALPHA:
        pixels = image.pixels[..., : _ALPHA[number]]
        return pixels[..., 0] if number == 2 else pixels
    return image.pixels
