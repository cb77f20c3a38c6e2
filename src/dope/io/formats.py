"""The formats, in one table: what a file is called says how it is read and written.

A new format is one file with `load`, `describe` and `save`, and one row here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dope.arrays import Labels, as_labels
from dope.errors import InputError
from dope.extras import require_extra
from dope.io import images, nifti, npy, npz, ome_zarr, ome_zarr_labels, tiff, zarr_nodes
from dope.io.content import Description, Image
from dope.io.files import check_target

Name = str | os.PathLike[str]


class Load(Protocol):
    """Reads an image, or opens it to be read as it is indexed; `budget` bounds the bytes it may take, if given."""

    def __call__(self, path: Path, *, budget: int | None) -> Image: ...


@dataclass(frozen=True)
class Format:
    """How files of one kind are read and written; `save` is None where labels would not come back as they were."""

    name: str
    load: Load
    describe: Callable[[Path], Description]
    save: Callable[[Path, Labels, Image | None], None] | None
    extra: str | None = None
    axes: int | None = None  # that labels must have, where not any number will do
    check_target: Callable[[Path, bool], None] = check_target


_JPEG = Format("JPEG", images.load, images.describe, None)
_TIFF = Format("TIFF", tiff.load, tiff.describe, tiff.save, "tiff")
_NIFTI = Format("NIfTI", nifti.load, nifti.describe, nifti.save, "nifti")

FORMATS: dict[str, Format] = {
    ".png": Format("PNG", images.load, images.describe, images.save, axes=2),
    ".jpg": _JPEG,
    ".jpeg": _JPEG,
    ".tif": _TIFF,
    ".tiff": _TIFF,
    ".npy": Format("NPY", npy.load, npy.describe, npy.save),
    ".npz": Format("NPZ", npz.load, npz.describe, npz.save),
    ".nii": _NIFTI,
    ".nii.gz": _NIFTI,
    ".zarr": Format(
        "Zarr",
        ome_zarr.load,
        ome_zarr.describe,
        ome_zarr_labels.save,
        "zarr",
        check_target=ome_zarr_labels.check_target,
    ),
}

# Two letters at least: one is a drive of Windows.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def load(path: Name, *, budget: int | None = None) -> Image:
    """Read an image, or open it to be read as it is indexed.

    Parameters
    ----------
    path : path
        By its suffix PNG, JPEG, TIFF, NPY, NPZ, NIfTI (.nii, .nii.gz) or Zarr (.zarr, also a path inside one). One of
        several arrays of an NPZ file is named as `file.npz::name`.
    budget : int, optional
        Bytes that reading may take; by default what is available.

    Raises
    ------
    InputError
        No such file, not what its suffix says, damaged, no real numbers, or larger than the budget.
    MissingExtraError
        The package that reads it is not installed; the message has the command that helps.

    Examples
    --------
    >>> import tempfile, numpy as np, dope.io
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/volume.npy", np.zeros((4, 5, 6), np.int16))
    ...     image = dope.io.load(f"{folder}/volume.npy")
    ...     image.shape, image.channels
    ((4, 5, 6), False)
    """
    path, format_ = _format_of(path)
    if format_.extra:
        require_extra(format_.extra, f"reading {path}")
    return format_.load(path, budget=budget)


def describe(path: Name) -> Description:
    """What a file says about its pixels, which are not read."""
    path, format_ = _format_of(path)
    if format_.extra:
        require_extra(format_.extra, f"reading {path}")
    return format_.describe(path)


def save_labels(path: Name, labels: npt.ArrayLike, *, like: Image | None = None, overwrite: bool = False) -> None:
    """Write labels, whole or not at all, in the format that the suffix of `path` says.

    Parameters
    ----------
    path : path
        As for `load`, but for JPEG, which would alter labels. A path `image.ome.zarr/labels/NAME` adds them to an
        OME-Zarr image.
    labels : bool array
        True = foreground. Written as bool in NPY and NPZ, as 0 and 255 in PNG, as uint8 of 0 and 1 in the others.
    like : Image, optional
        What was labelled: where it lies (header, spacing, transforms) is written as well, where the format can.
    overwrite : bool
        Whether a file that is there may be replaced. The image itself never is.

    Raises
    ------
    InputError
        Nothing was written: see `check_writable`; or the labels do not fit the image, or the disk is full.
    """
    values = as_labels(labels, np.shape(labels))
    check_writable(path, overwrite=overwrite, shape=values.shape)
    target, format_ = _format_of(path)
    if not values.size or not values.ndim:
        raise InputError(f"{target}: there are no labels to write; they are shaped {values.shape}")
    if like is not None:
        _check_like(target, values, like)
    if format_.save is not None:  # as `check_writable` saw to
        format_.save(target, values, like)


def check_writable(
    path: Name, *, overwrite: bool = False, any_suffix: bool = False, shape: tuple[int, ...] | None = None
) -> None:
    """Refuse, before anything is computed, a path that labels, of this shape, could not be written to.

    With `any_suffix` the file is to hold something else, such as a report, and only its place is looked at.

    Raises
    ------
    InputError
        No known suffix, no such folder or none that can be written to, there already without `overwrite`, or a format
        that cannot hold labels of this shape.
    MissingExtraError
        The package that writes it is not installed.
    """
    if any_suffix:
        check_target(_local(path), overwrite)
        return
    target, format_ = _format_of(path)
    if format_.save is None:
        raise InputError(f"{target}: {format_.name} alters labels; end it in .png")
    if shape is not None and format_.axes is not None and len(shape) != format_.axes:
        raise InputError(
            f"{target}: cannot hold labels shaped {shape}; {format_.name} has {format_.axes} axes. "
            f"Write .tif or .nii.gz"
        )
    if npz.SEPARATOR in target.name:
        raise InputError(f"{target}: a file is written whole; leave out {npz.SEPARATOR} and what follows")
    if format_.extra:
        require_extra(format_.extra, f"writing {target}")
    format_.check_target(target, overwrite)


def _format_of(path: Name) -> tuple[Path, Format]:
    path = _local(path)
    name = path.name.partition(npz.SEPARATOR)[0].lower()
    # The longest suffix counts: .nii.gz before .gz.
    for suffix in sorted(FORMATS, key=len, reverse=True):
        if name.endswith(suffix) and name != suffix:
            return path, FORMATS[suffix]
    if any(part.lower().endswith(zarr_nodes.SUFFIX) for part in path.parts):
        return path, FORMATS[zarr_nodes.SUFFIX]
    raise InputError(f"{path}: not a format that is known by its suffix; expected one of {', '.join(FORMATS)}")


def _local(path: Name) -> Path:
    text = os.fspath(path)
    if _URL.match(text):
        raise InputError(f"{text}: an address; only files of this machine are read and written. Fetch it first")
    return Path(text)


def _check_like(target: Path, labels: Labels, like: Image) -> None:
    if labels.shape != like.shape:
        raise InputError(
            f"{target}: labels shaped {labels.shape} do not lie on {like.path}, which is shaped {like.shape}"
        )
    if like.path.resolve().is_relative_to(target.resolve()):
        raise InputError(f"{target}: the image itself; choose another name for its labels")
