"""NPY: one NumPy array in a file, memory-mapped.

The axes have no names. A uint8 array shaped (height, width, 3 or 4) is taken for a colour picture, every other one for
sites without channels; who knows better makes an `Image` of their own.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from dope.arrays import Labels
from dope.errors import InputError
from dope.io.content import (
    Description,
    Image,
    Shape,
    bytes_of,
    check_numbers,
    declared,
    looks_colored,
    native,
)
from dope.io.files import check_file, reading, replacing
from dope.memory import require_bytes


class Header(NamedTuple):
    """What an NPY file says before its numbers begin."""

    shape: Shape
    fortran_order: bool
    dtype: np.dtype[Any]


def load(path: Path, *, budget: int | None) -> Image:
    """Map the array; one in the other byte order is read."""
    header, _ = _checked(path)
    with reading(path):
        pixels = np.load(path, mmap_mode="r", allow_pickle=False)
    if not header.dtype.isnative:
        require_bytes(declared(path, header.shape, header.dtype), bytes_of(header.shape, header.dtype), budget)
        pixels = native(np.array(pixels))
    return Image(pixels, looks_colored(header.shape, header.dtype), None, path)


def describe(path: Path) -> Description:
    """From the header alone."""
    header, version = _checked(path)
    return description(path, f"NPY {version[0]}.{version[1]}", header, {})


def save(path: Path, labels: Labels, like: Image | None) -> None:  # noqa: ARG001  nothing of an image is kept
    """Write labels as bool."""
    with replacing(path) as temporary, temporary.open("wb") as stream:
        np.save(stream, labels, allow_pickle=False)


def description(path: Path, kind: str, header: Header, details: dict[str, str]) -> Description:
    """Of an array in NPY form, in whatever file."""
    colored = looks_colored(header.shape, header.dtype)
    order = "Fortran" if header.fortran_order else "C"
    return Description(
        path=path,
        format=kind,
        shape=header.shape[:-1] if colored else header.shape,
        channels=header.shape[-1] if colored else 1,
        dtype=header.dtype.name,
        spacing=None,
        bytes=bytes_of(header.shape, header.dtype),
        details={**details, "order": order},
    )


def read_header(path: Path, stream: IO[bytes], *, any_shape: bool = False) -> tuple[Header, tuple[int, int]]:
    """The header at the head of a stream, and its version. Nothing in it is executed."""
    if stream.read(6) != b"\x93NUMPY":
        raise InputError(f"{path}: not an NPY array; write it with numpy.save")
    stream.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it was written by Python 2
        version = np.lib.format.read_magic(stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
        if read is None:
            # Version 3 differs in one thing: names of fields, which are refused in any version.
            raise InputError(f"{path}: an NPY file of version {version[0]}.{version[1]}; expected 1.0 or 2.0")
        header = Header(*read(stream))
    check_numbers(path, header.dtype, header.shape, any_shape=any_shape)
    return header, version


def _checked(path: Path) -> tuple[Header, tuple[int, int]]:
    """The header of a file that is as long as its header says."""
    check_file(path, "NPY")
    with reading(path), path.open("rb") as stream:
        header, version = read_header(path, stream)
        missing = stream.tell() + bytes_of(header.shape, header.dtype) - path.stat().st_size
    if missing > 0:
        raise InputError(f"{path}: cut short, {missing:,} bytes are missing; get a whole copy")
    return header, version
