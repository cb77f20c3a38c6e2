"""What a file holds: its pixels to compute with, or a description of them to look at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dope.arrays import fitting_in_words, label_type
from dope.errors import InputError

Shape = tuple[int, ...]
Spacing = tuple[float, ...]

# What NumPy can count; metadata in text could declare any number.
_MOST_AXES, _MOST_SITES = 16, 2**63 - 1


@dataclass(frozen=True, eq=False)
class Image:
    """Pixels of a file, and what it takes to write labels that lie on them.

    Attributes
    ----------
    pixels : array-like
        Sites first, channels last. A NumPy array, or a `Lazy` one that is read as it is indexed, and in other processes
        from the same file: both have `shape`, `dtype` and `[...]`, and `np.asarray` reads them whole.
    channels : bool
        Whether the last axis of `pixels` is channels.
    spacing : tuple of float, optional
        Size of a site along each axis of sites; None where the file does not say.
    path : Path
        Where it was read from.
    header : object, optional
        The format's own, for `save_labels` and `same_space`.
    """

    pixels: Any
    channels: bool
    spacing: Spacing | None
    path: Path
    header: object | None = None

    @property
    def shape(self) -> Shape:
        """Of the sites: without channels."""
        shape = tuple(int(length) for length in self.pixels.shape)
        return shape[:-1] if self.channels else shape


@dataclass(frozen=True, eq=False)
class NewLabels:
    """Labels that are to become a file: where, of what shape, on which image, and whether in the place of another.

    `chunks` are those of a Zarr array, where somebody chose them. `label_count` says how many labels there are, and so
    in what type they are handed over: bool for two, uint8 or uint16 for more.
    """

    path: Path
    shape: Shape
    like: Image | None
    overwrite: bool
    chunks: Shape | None = None
    label_count: int = 2

    @property
    def label_type(self) -> np.dtype[Any]:
        return label_type(self.label_count)

    @property
    def integer_type(self) -> np.dtype[Any]:
        """For files that hold no bool: two labels are 0 and 1."""
        return np.dtype(np.uint8) if self.label_type == np.bool_ else self.label_type


@dataclass(frozen=True)
class Description:
    """What a file says about its pixels.

    `channels` is 1 where there is no axis for them, `bytes` is uncompressed; `chunks` are the sides, along the axes of
    sites, of what is read in one piece, None where any box is as good as another.
    """

    path: Path
    format: str
    shape: Shape
    channels: int
    dtype: str
    spacing: Spacing | None
    bytes: int
    details: dict[str, str] = field(default_factory=dict)
    chunks: Shape | None = None


@runtime_checkable
class Placed(Protocol):
    """A header that says where its sites lie."""

    def differs_from(self, other: object) -> str | None:
        """In what `other` lies elsewhere; None if it does not, or does not say."""
        ...


def same_space(a: Image, b: Image) -> str | None:
    """Why two images do not lie on each other, in one line; None if they do.

    Their sites must have one shape. Two NIfTI files must have one affine, to a thousandth, and two OME-Zarr images one
    scale and translation; other formats do not say where they lie.
    """
    if a.shape != b.shape:
        advice = fitting_in_words(b.pixels.shape, a.shape)
        return f"their sites are shaped {a.shape} and {b.shape}{'' if advice is None else f'. {advice}'}"
    return a.header.differs_from(b.header) if isinstance(a.header, Placed) else None


def check_numbers(path: Path, dtype: np.dtype[Any], shape: Sequence[int], *, any_shape: bool = False) -> None:
    """Refuse what is no array of real numbers, or, but for `any_shape`, an empty one or a number alone."""
    if dtype.kind not in "fiub" or dtype.itemsize > 8:
        raise InputError(
            f"{path}: holds {_kind(dtype)}; expected integers or reals of at most 64 bits. Convert it to float32 first."
        )
    fewest = 0 if any_shape else 1
    if not fewest <= len(shape) <= _MOST_AXES or any(not fewest <= length <= _MOST_SITES for length in shape):
        words = str(tuple(shape)) if len(str(tuple(shape))) < 200 else "of a number of sites beyond all bounds"
        raise InputError(f"{path}: declares the shape {words}; expected at least one site along each axis.")


def _kind(dtype: np.dtype[Any]) -> str:
    if dtype.names:
        return f"records of {', '.join(dtype.names)}"
    words = {"c": "complex numbers", "O": "Python objects", "S": "text", "U": "text", "V": "numbers of an unknown kind"}
    return words.get(dtype.kind, str(dtype))


def bytes_of(shape: Sequence[int], dtype: npt.DTypeLike) -> int:
    """Of an array, in whole numbers of any size: what a file declares may overflow NumPy's."""
    return math.prod(int(length) for length in shape) * np.dtype(dtype).itemsize


def declared(path: Path, shape: Sequence[int], dtype: npt.DTypeLike) -> str:
    """An array in words, for an error about its size."""
    return f"{path}: {' x '.join(str(length) for length in shape)} {np.dtype(dtype).name}"


def looks_colored(shape: Sequence[int], dtype: npt.DTypeLike) -> bool:
    """Whether an array without named axes is a colour picture: (height, width, 3 or 4) of uint8, and nothing else."""
    return len(shape) == 3 and shape[2] in (3, 4) and np.dtype(dtype) == np.uint8


def native(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same numbers in this machine's byte order; swapped in place, so `array` must be the caller's own."""
    if array.dtype.isnative:
        return array
    return array.byteswap(inplace=True).view(array.dtype.newbyteorder("="))


def as_spacing(values: Sequence[float | None]) -> Spacing | None:
    """Sizes of a site, where all of them are known and could be sizes."""
    sizes = tuple(abs(float(value)) for value in values if value is not None)
    return sizes if len(sizes) == len(values) and all(0 < size < math.inf for size in sizes) else None


def spacing_text(spacing: Spacing) -> str:
    """Sizes for people.

    >>> spacing_text((0.5, 0.5, 2.0))
    '0.5 x 0.5 x 2'
    """
    return " x ".join(f"{size:g}" for size in spacing)
