"""NPY: one NumPy array in a file, read as it is indexed.

The axes have no names. A uint8 array shaped (height, width, 3 or 4) is taken for a colour picture, every other one for
sites without channels; who knows better makes an `Image` of their own.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from dope.arrays import Labels
from dope.cancellation import check_cancelled
from dope.durable import replacing
from dope.errors import InputError
from dope.io.content import Description, Image, NewLabels, Shape, bytes_of, check_numbers, looks_colored
from dope.io.file_array import FileArray, Stamp, create
from dope.io.files import open_file
from dope.io.label_target import FileDraft
from dope.io.lazy import Lazy

_SLAB = 1 << 25  # bytes that are copied in one go
# By version: how a header is read, and how many bytes its length takes. One is parsed as Python, which takes memory and
# stack in proportion; NumPy's own limit.
_READ = {(1, 0): (np.lib.format.read_array_header_1_0, 2), (2, 0): (np.lib.format.read_array_header_2_0, 4)}
_MOST_HEADER_BYTES = 10_000


class Header(NamedTuple):
    """What an NPY file says before its numbers begin."""

    shape: Shape
    fortran_order: bool
    dtype: np.dtype[Any]


def load(path: Path, *, budget: int | None) -> Image:  # noqa: ARG001  nothing is read yet
    """Open the array; nothing but its header is read."""
    pixels = opened(path)
    return Image(pixels, looks_colored(pixels.shape, pixels.dtype), None, path)


def describe(path: Path) -> Description:
    """From the header alone."""
    header, version, _ = _checked(path)
    return description(path, f"NPY {version[0]}.{version[1]}", header, {})


def save(new: NewLabels, labels: Labels) -> None:
    """Write labels as they are: two as bool, more as uint8 or uint16."""
    with replacing(new.path, overwrite=new.overwrite) as temporary, temporary.open("wb") as stream:
        np.save(stream, labels, allow_pickle=False)


@contextmanager
def drafting(new: NewLabels) -> Iterator[FileDraft]:
    """The same file as `save` writes, box by box."""
    with replacing(new.path, overwrite=new.overwrite) as temporary:
        yield draft(temporary, new)


def draft(path: Path, new: NewLabels, *, fortran_order: bool = False) -> FileDraft:
    """A new file for labels, all of them 0."""
    dtype = new.label_type
    head = _head(Header(new.shape, fortran_order, dtype))
    create(path, head, bytes_of(new.shape, dtype))
    stored = new.shape[::-1] if fortran_order else new.shape
    return FileDraft(FileArray(path.absolute(), len(head), stored, dtype), dtype, fortran_order)


def put(path: Path, pixels: Any) -> Lazy:
    """Any array as a file, a slab at a time, opened to be read as it is indexed."""
    shape = tuple(int(length) for length in pixels.shape)
    dtype = np.dtype(pixels.dtype).newbyteorder("=")
    check_numbers(path, dtype, shape)
    rows = max(1, _SLAB // bytes_of(shape[1:], dtype))
    with filling(path, Header(shape, False, dtype)) as stream:
        for low in range(0, shape[0], rows):
            check_cancelled()
            slab = np.asarray(pixels[low : low + rows], dtype)
            stream.write(np.ascontiguousarray(slab).reshape(-1).view(np.uint8).data)
    return opened(path)


@contextmanager
def filling(path: Path, header: Header) -> Iterator[IO[bytes]]:
    """A new file for an array, whose numbers are to be written to the stream in the order that the header says."""
    head = _head(header)
    length = bytes_of(header.shape, header.dtype)
    with replacing(path) as temporary:
        create(temporary, head, length)
        with temporary.open("r+b") as stream:
            stream.seek(len(head))
            yield stream


def opened(path: Path) -> Lazy:
    """The array of a file, to be read as it is indexed."""
    stamp = Stamp.of(path)
    header, _, offset = _checked(path)
    axes = tuple(range(len(header.shape)))
    stored = header.shape[::-1] if header.fortran_order else header.shape
    source = FileArray(path.absolute(), offset, stored, header.dtype, stamp)
    return Lazy(source, axes[::-1] if header.fortran_order else axes)


def _head(header: Header) -> bytes:
    """What stands before the numbers, to the byte as numpy.save has it."""
    stream = BytesIO()
    fields = {
        "descr": np.lib.format.dtype_to_descr(header.dtype),
        "fortran_order": header.fortran_order,
        "shape": header.shape,
    }
    np.lib.format.write_array_header_1_0(stream, fields)
    return stream.getvalue()


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
    magic = stream.read(8)
    if magic[:6] != b"\x93NUMPY":
        raise InputError(f"{path}: not an NPY array; write it with numpy.save")
    version = (magic[6], magic[7])
    if version not in _READ:
        # Version 3 differs in one thing: names of fields, which are refused in any version.
        raise InputError(f"{path}: an NPY file of version {version[0]}.{version[1]}; expected 1.0 or 2.0")
    read, width = _READ[version]
    prefix = stream.read(width)
    length = int.from_bytes(prefix, "little")
    if length > _MOST_HEADER_BYTES:
        raise InputError(f"{path}: declares a header of {length:,} bytes; expected at most {_MOST_HEADER_BYTES:,}")
    with warnings.catch_warnings():
        # That it was written by Python 2, and whatever the compiler says about a header that is not as it should be.
        warnings.simplefilter("ignore")
        header = Header(*read(BytesIO(prefix + stream.read(length)), max_header_size=_MOST_HEADER_BYTES))
    check_numbers(path, header.dtype, header.shape, any_shape=any_shape)
    return header, version


def _checked(path: Path) -> tuple[Header, tuple[int, int], int]:
    """The header of a file that is as long as its header says, its version, and where the numbers begin."""
    with open_file(path, "NPY") as stream:
        header, version = read_header(path, stream)
        offset = stream.tell()
        missing = offset + bytes_of(header.shape, header.dtype) - os.fstat(stream.fileno()).st_size
    if missing > 0:
        raise InputError(f"{path}: cut short, {missing:,} bytes are missing; get a whole copy")
    return header, version, offset
