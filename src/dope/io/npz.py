"""NPZ: NumPy arrays in a zip file. One of several is named as `file.npz::name`."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dope.arrays import Labels
from dope.durable import replacing
from dope.errors import InputError
from dope.io.content import Description, Image, NewLabels, bytes_of, declared, looks_colored, native
from dope.io.files import copy, fill, open_file
from dope.io.npy import Header, description, filling, opened, read_header
from dope.memory import require_bytes

SEPARATOR = "::"
# What NumPy writes. Of the others that zipfile knows, bz2 and LZMA are unpacked without a limit.
_PACKED = {zipfile.ZIP_STORED: "none", zipfile.ZIP_DEFLATED: "deflate"}
_MOST_NAMES, _LONGEST_NAME = 4, 20  # in an error


def load(path: Path, *, budget: int | None) -> Image:
    """Read the only array, or the one that is named."""
    with _opened(path) as (_, header, stream):
        pixels = _filled(path, header, stream, budget)
    return Image(pixels, looks_colored(header.shape, header.dtype), None, _split(path)[0])


def unpack(path: Path, target: Path) -> Image:
    """The same array, in an NPY file of its own that is read as it is indexed; memory holds a piece of it at a time."""
    with _opened(path) as (_, header, stream), filling(target, header) as numbers:
        copy(stream, numbers, bytes_of(header.shape, header.dtype))
        stream.read(1)  # at the end of a member its checksum is compared
    return Image(opened(target), looks_colored(header.shape, header.dtype), None, _split(path)[0])


def source(path: Path) -> Path:
    """The file that an array is read from."""
    return _split(path)[0]


def names(path: Path) -> list[str]:
    """Of the arrays in a file."""
    with _archive(path) as archive:
        return list(_members(archive))


def array(path: Path, name: str) -> NDArray[Any]:
    """One of them, of any shape."""
    with _opened(Path(f"{path}{SEPARATOR}{name}"), any_shape=True) as (_, header, stream):
        return _filled(path, header, stream, None)


def describe(path: Path) -> Description:
    """From the array's header, and the zip file's table of contents."""
    with _opened(path) as (member, header, _):
        details = {"array": _name(member), "compression": _PACKED[member.compress_type]}
    return description(_split(path)[0], "NPZ", header, details)


def save(new: NewLabels, labels: Labels) -> None:
    """Write labels as they are, two as bool, under the name `labels`."""
    with replacing(new.path, overwrite=new.overwrite) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, labels=labels)


def _filled(path: Path, header: Header, stream: IO[bytes], budget: int | None) -> NDArray[Any]:
    require_bytes(declared(path, header.shape, header.dtype), bytes_of(header.shape, header.dtype), budget)
    found = np.empty(header.shape, header.dtype, order="F" if header.fortran_order else "C")
    fill(found, stream)
    stream.read(1)  # at the end of a member its checksum is compared
    return native(found)


@contextmanager
def _archive(file: Path) -> Iterator[zipfile.ZipFile]:
    with open_file(file, "NPZ") as stream:
        if not zipfile.is_zipfile(stream):
            raise InputError(f"{file}: not an NPZ file; write it with numpy.savez")
        with zipfile.ZipFile(stream) as archive:
            yield archive


@contextmanager
def _opened(path: Path, *, any_shape: bool = False) -> Iterator[tuple[zipfile.ZipInfo, Header, IO[bytes]]]:
    """A member, its header, and the stream of its numbers."""
    file, key = _split(path)
    with _archive(file) as archive:
        member = _member(file, archive, key)
        if member.compress_type not in _PACKED:
            raise InputError(
                f"{file}: {_name(member)[:_LONGEST_NAME]} is packed in a way that is not supported; "
                "write it with numpy.savez_compressed"
            )
        with archive.open(member) as stream:
            header, _ = read_header(path, stream, any_shape=any_shape)
            # The zip file's own count is what bounds the unpacking, so a lie in either ends here.
            size = stream.tell() + bytes_of(header.shape, header.dtype)
            if size != member.file_size:
                raise InputError(
                    f"{path}: {_name(member)} declares {size:,} bytes, but {member.file_size:,} are there; "
                    "get a whole copy"
                )
            yield member, header, stream


def _member(file: Path, archive: zipfile.ZipFile, key: str) -> zipfile.ZipInfo:
    members = _members(archive)
    if not members:
        raise InputError(f"{file}: holds no arrays; write it with numpy.savez")
    names = ", ".join(name[:_LONGEST_NAME] for name in list(members)[:_MOST_NAMES])
    if key and key not in members:
        raise InputError(f"{file}: holds no array {key}, but {names}")
    if not key and len(members) > 1:
        first = next(iter(members))[:_LONGEST_NAME]
        raise InputError(f"{file}: holds the arrays {names}; say which one is meant, such as {file}{SEPARATOR}{first}")
    return members[key] if key else next(iter(members.values()))


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    return {_name(member): member for member in archive.infolist() if member.filename.endswith(".npy")}


def _split(path: Path) -> tuple[Path, str]:
    file, _, key = str(path).partition(SEPARATOR)
    return Path(file), key


def _name(member: zipfile.ZipInfo) -> str:
    return member.filename.removesuffix(".npy")
