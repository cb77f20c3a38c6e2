"""Arrays of numbers in an HDF5 file that may be anything.

HDF5 itself unpacks a chunk to whatever it holds, and follows links to other files. So datasets are looked at first: one
axis, plain numbers, in this file, all of it there, no larger than the memory there is. Chunks are unpacked here, up to
their declared size (`inflate`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.cancellation import check_cancelled
from dope.errors import InputError
from dope.io.content import bytes_of, check_numbers, native
from dope.io.files import in_one_line, open_file
from dope.io.inflate import Length, inflate
from dope.memory import require_bytes

MAGIC = b"\x89HDF\r\n\x1a\n"

# A chunk of the smallest datasets may be larger than all of it; each chunk takes a look into the file's index.
_SPARE_BYTES = 1 << 20
_MOST_CHUNKS = 1 << 16
_SHUFFLE, _DEFLATE = 2, 1
_UNPACK = "expected gzip or none. Run: h5repack -f NONE in.h5 out.h5"
_DAMAGED = "damaged or cut short"


@dataclass(frozen=True, eq=False)
class Group:
    """A group of a file that is open."""

    path: Path
    bytes: int
    group: Any

    def error(self, found: str) -> InputError:
        return InputError(f"{self.path}: {found}")

    def within(self, name: str) -> Group:
        """The group of this name."""
        return Group(self.path, self.bytes, self._member(name, "a group"))

    def only(self, usual: str) -> Group:
        """The group of the usual name; where there is none such, the only one."""
        names = [usual] if usual in self.group else list(self.group) if len(self.group) == 1 else []
        if not names:
            raise self.error(f"holds no group {usual!r}, nor one group alone; expected the model in one")
        return self.within(names[0])

    def array(self, name: str) -> npt.NDArray[Any]:
        """A dataset of numbers along one axis."""
        found = self._member(name, "a dataset")
        what = f"{name!r} of {self.group.name!r}"
        if len(found.shape or ()) != 1:
            raise self.error(f"{what} is of shape {found.shape}; expected one axis")
        check_numbers(self.path, found.dtype, found.shape, any_shape=True)
        size = bytes_of(found.shape, found.dtype)
        require_bytes(f"{self.path}: {what}", 2 * size)
        return native(self._chunked(found, what) if found.chunks else self._whole(found, what, size))

    def _member(self, name: str, expected: str) -> Any:
        import h5py

        # Looked up before it is followed: a link may lead into another file.
        link = self.group.get(name, getlink=True)
        if link is None or not isinstance(link, h5py.HardLink):
            trouble = "holds no" if link is None else "links to another place for"
            raise self.error(f"{trouble} {name!r} in {self.group.name!r}; expected {expected}")
        found = self.group[name]
        if not isinstance(found, h5py.Group if expected == "a group" else h5py.Dataset):
            raise self.error(f"{name!r} of {self.group.name!r} is {type(found).__name__}; expected {expected}")
        return found

    def _whole(self, found: Any, what: str, size: int) -> npt.NDArray[Any]:
        """A dataset that lies in one piece."""
        import h5py

        plain = found.id.get_create_plist().get_layout() in (h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT)
        if not plain or found.external or found.is_virtual:
            raise self.error(f"{what} lies in other files or datasets; expected its numbers in this file")
        if size > self.bytes or found.id.get_storage_size() < size:
            raise self.error(f"{what} takes {size:,} bytes, which are not there: {_DAMAGED}; get a whole copy")
        return np.asarray(found[...])

    def _chunked(self, found: Any, what: str) -> npt.NDArray[Any]:
        """A dataset that lies in chunks, each of which may be packed."""
        (length,), (side,) = found.shape, found.chunks
        kept = side * found.dtype.itemsize
        if length > _MOST_CHUNKS * side or kept > _SPARE_BYTES + bytes_of(found.shape, found.dtype):
            raise self.error(
                f"{what} has {length:,} numbers in chunks of {side:,}; expected at most {_MOST_CHUNKS:,} chunks, none "
                "larger than all. Run: h5repack -l CONTI in.h5 out.h5"
            )
        filters = self._filters(found, what)
        array = np.empty(length, found.dtype)
        for start in range(0, length, side):
            check_cancelled()
            content = self._unpacked(found, what, start, filters, kept)
            array[start : start + side] = np.frombuffer(content, found.dtype)[: length - start]
        return array

    def _filters(self, found: Any, what: str) -> list[int]:
        settings = found.id.get_create_plist()
        filters = [settings.get_filter(k) for k in range(settings.get_nfilters())]
        for code, _, _, name in filters:
            if code not in (_SHUFFLE, _DEFLATE):
                raise self.error(
                    f"{what} is packed with {in_one_line(ValueError(name.decode('ascii', 'replace')))}; {_UNPACK}"
                )
        return [code for code, *_ in filters]

    def _unpacked(self, found: Any, what: str, start: int, filters: list[int], size: int) -> npt.NDArray[np.uint8]:
        stored = found.id.get_chunk_info_by_coord((start,))
        if stored.byte_offset is None or stored.size > self.bytes:
            raise self.error(f"{what} lacks numbers from {start:,} on: {_DAMAGED}; get a whole copy")
        skipped, content = found.id.read_direct_chunk((start,))
        for place in range(len(filters) - 1, -1, -1):
            if skipped >> place & 1:
                continue
            if filters[place] == _DEFLATE:
                content = inflate("zlib", content, Length(size, exact=False), {})
            else:
                content = _unshuffled(np.frombuffer(content, np.uint8), found.dtype.itemsize)
        Length(size, exact=True).check(memoryview(content).nbytes)
        return np.frombuffer(content, np.uint8)


@contextmanager
def opened(path: Path, kind: str) -> Iterator[Group]:
    """The root of a file, open; whatever goes wrong is one line about it."""
    import h5py

    with open_file(path, kind) as stream:
        size = stream.seek(0, 2)
        stream.seek(0)
        if stream.read(len(MAGIC)) != MAGIC:
            raise InputError(f"{path}: no HDF5 file; expected {kind}")
        with h5py.File(stream, "r") as file:
            yield Group(path, size, file)


def _unshuffled(content: npt.NDArray[np.uint8], width: int) -> npt.NDArray[np.uint8]:
    """First bytes of all numbers, then second bytes, back to numbers; what is left over follows as it is."""
    whole = len(content) // width * width
    return np.concatenate([content[:whole].reshape(width, -1).T.ravel(), content[whole:]])
