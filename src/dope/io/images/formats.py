"""The formats, in one table: what a file is called says how it is read and written.

A new format is one file with `load`, `describe` and `save`, and one row here.
"""

from __future__ import annotations

import operator
import os
import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dope import plug_ins
from dope.arrays import Labels, as_numbered_labels, label_type
from dope.bounded import check_path
from dope.durable import check_target
from dope.errors import DopeError, InputError
from dope.extras import require_extra
from dope.io import npy, npz
from dope.io.content import Description, Image, NewLabels, Shape, bytes_of
from dope.io.files import Name
from dope.io.images import nifti, ome_zarr, ome_zarr_labels, pictures, tiff, zarr_draft, zarr_nodes
from dope.io.label_target import Draft, LabelTarget, Save, converting
from dope.io.lazy import Lazy
from dope.io.places import Place, contains
from dope.memory import require_bytes


class Load(Protocol):
    """Reads an image, or opens it to be read as it is indexed; `budget` bounds the bytes it may take, if given."""

    def __call__(self, path: Path, *, budget: int | None) -> Image: ...


@dataclass(frozen=True)
class Format:
    """How files of one kind are read and written; `save` is None where labels would not come back as they were.

    `load_labels` is there where labels are read in another way than images, `unpack` for what `load` reads whole, and
    `draft` for what can be written box by box, where there is such a way. `chunks` are those that labels of a shape are
    written in, where there are such.
    `source` is the file or folder that is read of a name that means a part of one, `store` what that is a part of.
    """

    name: str
    load: Load
    describe: Callable[[Path], Description]
    save: Save | None
    extra: str | None = None
    check_target: Callable[[Path, bool], None] = check_target
    check_shape: Callable[[Path, Shape], None] | None = None
    load_labels: Load | None = None
    unpack: Callable[[Path, Path], Image] | None = None
    source: Callable[[Path], Path] | None = None
    store: Callable[[Path], Path] | None = None
    draft: Callable[[NewLabels], AbstractContextManager[Draft]] | None = None
    chunks: Callable[[Shape], Shape] | None = None


_JPEG = Format("JPEG", pictures.load, pictures.describe, None)
_TIFF = Format("TIFF", tiff.load, tiff.describe, tiff.save, "tiff", check_shape=tiff.check_shape, unpack=tiff.unpack)
_NIFTI = Format(
    "NIfTI",
    nifti.load,
    nifti.describe,
    nifti.save,
    "nifti",
    check_shape=nifti.check_shape,
    unpack=nifti.unpack,
    draft=nifti.drafting,
)

FORMATS: dict[str, Format] = {
    ".png": Format(
        "PNG",
        pictures.load,
        pictures.describe,
        pictures.save,
        check_shape=pictures.check_shape,
        load_labels=pictures.load_labels,
    ),
    ".jpg": _JPEG,
    ".jpeg": _JPEG,
    ".tif": _TIFF,
    ".tiff": _TIFF,
    ".npy": Format("NPY", npy.load, npy.describe, npy.save, draft=npy.drafting),
    ".npz": Format("NPZ", npz.load, npz.describe, npz.save, unpack=npz.unpack, source=npz.source),
    ".nii": _NIFTI,
    ".nii.gz": _NIFTI,
    ".zarr": Format(
        "Zarr",
        ome_zarr.load,
        ome_zarr.describe,
        ome_zarr_labels.save,
        "zarr",
        check_target=ome_zarr_labels.check_target,
        source=ome_zarr.source,
        store=zarr_nodes.outermost_store,
        draft=ome_zarr_labels.drafting,
        chunks=zarr_draft.usual_chunks,
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
    return _loaded(format_.load, path, format_, budget)


def is_image(path: Name) -> bool:
    """Whether a file is called as images are."""
    return _known_format(Path(path)) is not None


def describe(path: Name) -> Description:
    """What a file says about its pixels, which are not read."""
    path, format_ = _format_of(path)
    if format_.extra:
        require_extra(format_.extra, f"reading {path}")
    return format_.describe(path)


def load_labels(path: Name, *, budget: int | None = None) -> Labels:
    """Read labels as `save_labels` writes them, in memory.

    Parameters
    ----------
    path, budget
        As for `load`. Of a picture with a palette the numbers count, not the colours; 0 and 255 are two labels.

    Returns
    -------
    bool array where no number is above 1, else uint8 or uint16

    Raises
    ------
    InputError
        See `load`; or it holds something else than whole numbers of 0 to 65535.
    """
    path, format_ = _format_of(path)
    if format_.extra:
        require_extra(format_.extra, f"reading {path}")
    if format_.save is None:
        raise InputError(f"{path}: {format_.name} alters labels; expected a format that keeps them, such as PNG")
    image = _loaded(format_.load_labels or format_.load, path, format_, budget)
    guessed = image.header is None and format_.load_labels is None  # of axes without names
    if image.channels and not guessed:
        raise InputError(f"{path}: a picture in colours; expected a number for each site")
    require_bytes(f"{path}: its labels", 2 * bytes_of(image.pixels.shape, image.pixels.dtype), budget)
    found = np.asarray(image.pixels)
    return as_numbered_labels(found, name=f"labels of {path}")


def save_labels(
    path: Name,
    labels: npt.ArrayLike,
    *,
    like: Image | None = None,
    overwrite: bool = False,
    label_count: int | None = None,
) -> None:
    """Write labels, whole or not at all, in the format that the suffix of `path` says.

    Parameters
    ----------
    path : path
        As for `load`, but for JPEG, which would alter labels. A path `image.ome.zarr/labels/NAME` adds them to an
        OME-Zarr image.
    labels : bool or integer array
        Two labels, bool or 0 and 1, True = foreground, are written as bool in NPY and NPZ, as 0 and 255 in PNG, as
        uint8 of 0 and 1 in the others. More labels are written as their numbers in uint8 or uint16; in PNG with a
        palette up to 256, as grey of 16 bits beyond. `load_labels` reads all of them.
    like : Image, optional
        What was labelled: where it lies (header, spacing, transforms) is written as well, where the format can.
    overwrite : bool
        Whether a file that is there may be replaced. The image itself never is.
    label_count : int, optional
        How many labels there are, where not all of them need occur; by default as many as the largest number says.

    Raises
    ------
    InputError
        Nothing was written: see `check_writable`; or the labels do not fit the image, or the disk is full.
    """
    values = as_numbered_labels(labels, label_count)
    target, format_ = _checked_target(path, values.shape, like, overwrite)
    if format_.save is not None:  # as `check_writable` saw to
        number = label_count or (2 if values.dtype == np.bool_ else int(values.max()) + 1)
        format_.save(NewLabels(target, values.shape, like, overwrite, label_count=number), values)
        if not target.exists():
            raise DopeError(
                f"{target}: the format {format_.name} was to write it, and has not; its `save` is at fault."
            )


def open_labels(
    path: Name,
    shape: Sequence[int],
    *,
    like: Image | None = None,
    chunks: Sequence[int] | None = None,
    overwrite: bool = False,
    label_count: int = 2,
) -> LabelTarget:
    """Begin a file of labels that are written box by box, also by several processes at once.

    What it becomes is what `save_labels` writes. Until then it lies under a hidden name beside `path`, which a process
    that is killed leaves behind.

    Parameters
    ----------
    path : path
        As for `save_labels`. NPY, NIfTI (.nii) and Zarr take labels in place. For the others (.nii.gz, .npz, .tif,
        .png) they are collected in an NPY file, a byte or two for each site, from which `commit` writes the file with
        up to that much memory.
    shape : tuple of int
        Of the sites.
    like, overwrite : optional
        As for `save_labels`.
    chunks : tuple of int, optional
        Of a Zarr array, instead of about 2 MB each. Other formats have none.
    label_count : int
        How many labels there are. Two are written and read as bool, more as uint8 or uint16.

    Returns
    -------
    LabelTarget
        `target[box] = labels`, from whatever process it is sent to, then `target.commit()` or `target.abandon()`.

    Raises
    ------
    InputError
        Nothing was created: see `save_labels`; or there is not enough space for the labels.

    Examples
    --------
    >>> import tempfile, numpy as np, dope.io
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with dope.io.open_labels(f"{folder}/labels.npy", (4, 6)) as target:
    ...         target[0:2, 0:3] = np.ones((2, 3), dtype=bool)
    ...     int(np.load(f"{folder}/labels.npy").sum())
    6
    """
    sites = tuple(operator.index(length) for length in shape)
    target, format_ = _checked_target(path, sites, like, overwrite)
    target = target.absolute()
    lengths = None if chunks is None else tuple(operator.index(length) for length in chunks)
    if lengths is not None and (len(lengths) != len(sites) or min(lengths) < 1):
        raise InputError(f"{target}: chunks {lengths} for labels shaped {sites}; expected a length for each axis")
    label_type(label_count)  # refuses a number of labels that there cannot be
    new = NewLabels(target, sites, like, overwrite, lengths, label_count)
    if format_.draft is not None:
        drafting = format_.draft(new)
    else:
        assert format_.save is not None  # as `check_writable` saw to
        drafting = converting(new, lambda hidden: npy.draft(hidden, new), format_.save)
    return LabelTarget.opened(new, drafting, lambda: check_writable(target, overwrite=overwrite))


def stored(image: Image | Name, scratch: Name) -> Image:
    """The same image, such that boxes of it can be read here and in other processes without the rest.

    Parameters
    ----------
    image : Image or path
        What can be read so already (NPY, plain NIfTI, Zarr, TIFF that is not packed) is given back. The pixels of
        others are put into an NPY file. By its path a file is unpacked a piece at a time (NIfTI), a page at a time
        (TIFF), or whole (PNG, JPEG); an `Image` of it is in memory already.
    scratch : path
        A folder for that file, which is the caller's to remove. Other machines must see it by the same path.

    Raises
    ------
    InputError
        See `load`; or the folder does not exist, is not writable or has not enough space.
    """
    folder = _local(scratch)
    if isinstance(image, Image):
        if isinstance(image.pixels, Lazy):
            return image
        return replace(image, pixels=npy.put(_new_file(folder, image.path), image.pixels))
    path, format_ = _format_of(image)
    if format_.extra:
        require_extra(format_.extra, f"reading {path}")
    if format_.unpack is None:
        return stored(format_.load(path, budget=None), folder)
    return format_.unpack(path, _new_file(folder, path))


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
    if shape is not None and format_.check_shape is not None:
        format_.check_shape(target, shape)
    if npz.SEPARATOR in target.name:
        raise InputError(f"{target}: a file is written whole; leave out {npz.SEPARATOR} and what follows")
    if format_.extra:
        require_extra(format_.extra, f"writing {target}")
    format_.check_target(target, overwrite)


def input_place(name: Name) -> Place:
    """Where what is called so is read from: of an array in an NPZ file, that file; in a Zarr store, its folder."""
    path = _local(name)
    format_, place = _known_format(path), Place.of(name)
    if format_ is None or place.is_file:  # strokes and energies too, whatever folder they are in
        return place
    source = path if format_.source is None else format_.source(path)
    return Place.of(name, source, None if format_.store is None else format_.store(source))


def labels_place(name: Name) -> Place:
    """Where labels are written that are to be called so."""
    path, format_ = _format_of(name)
    return Place.of(name, path, None if format_.store is None else format_.store(path))


def label_chunks(name: Name, shape: Shape) -> Shape | None:
    """The pieces in which labels that are called so are best written; None where any box is as good as another."""
    chunks = _format_of(name)[1].chunks
    return None if chunks is None else chunks(shape)


def _loaded(read: Load, path: Path, format_: Format, budget: int | None) -> Image:
    """What a format read, if it is an image at all: formats are others' code too."""
    image: object = read(path, budget=budget)
    if not isinstance(image, Image) or not hasattr(image.pixels, "shape") or not hasattr(image.pixels, "dtype"):
        raise DopeError(f"{path}: the format {format_.name} read it as {image!r:.60}; expected an Image of an array.")
    return image


def _format_of(path: Name) -> tuple[Path, Format]:
    path = _local(path)
    format_ = _known_format(path)
    if format_ is None:
        raise InputError(f"{path}: not a format that is known by its suffix; expected one of {', '.join(FORMATS)}")
    return path, format_


def _known_format(path: Path) -> Format | None:
    name = path.name.partition(npz.SEPARATOR)[0].lower()
    # The longest suffix counts: .nii.gz before .gz.
    for suffix in sorted([*FORMATS, *plug_ins.installed(plug_ins.FORMATS)], key=len, reverse=True):
        if name.endswith(suffix) and name != suffix:
            return FORMATS[suffix] if suffix in FORMATS else _plugged_in(suffix)
    if any(part.lower().endswith(zarr_nodes.SUFFIX) for part in path.parts):
        return FORMATS[zarr_nodes.SUFFIX]
    return None


def _plugged_in(suffix: str) -> Format:
    found = plug_ins.load_plug_in(plug_ins.FORMATS, suffix)
    if not isinstance(found, Format):
        raise InputError(f"the plug-in {suffix} ({plug_ins.FORMATS}) is {found!r}; expected a dope.io.Format.")
    return found


def _local(path: Name) -> Path:
    text = os.fspath(path)
    if _URL.match(text):
        raise InputError(f"{text}: an address; only files of this machine are read and written. Fetch it first")
    check_path(text)
    return Path(text)


def _checked_target(path: Name, shape: Shape, like: Image | None, overwrite: bool) -> tuple[Path, Format]:
    """Where labels of a shape are to be written, and how, when nothing speaks against it."""
    target, format_ = _format_of(path)
    check_writable(path, overwrite=overwrite, shape=shape)
    if min(shape, default=0) < 1:
        raise InputError(f"{target}: there are no labels to write; they are shaped {shape}")
    if like is not None:
        _check_like(target, shape, like)
    return target, format_


def _check_like(target: Path, shape: Shape, like: Image) -> None:
    if shape != like.shape:
        raise InputError(f"{target}: labels shaped {shape} do not lie on {like.path}, which is shaped {like.shape}")
    read = [like.path, *([like.pixels.source.path] if isinstance(like.pixels, Lazy) else [])]
    if any(contains(target, path) for path in read):
        raise InputError(f"{target}: the image itself; choose another name for its labels")


def _new_file(folder: Path, path: Path) -> Path:
    """A name in a folder for the pixels of a file; the same file may be there twice."""
    stem = path.name.partition(".")[0]
    return folder / f"{stem}-{secrets.token_hex(4)}.npy"
