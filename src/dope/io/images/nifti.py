"""NIfTI-1 and NIfTI-2 in one file, plain or packed with gzip.

Axes are as stored: (i, j, k), i fastest in the file. nibabel knows the fields of a header; the bytes are read and
written here, so that nothing is unpacked beyond what a header declares and labels inherit a header to the byte.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from dope.arrays import Labels
from dope.durable import replacing
from dope.errors import InputError
from dope.io import npy
from dope.io.content import (
    Description,
    Image,
    NewLabels,
    Shape,
    Spacing,
    as_spacing,
    bytes_of,
    check_numbers,
    declared,
    native,
)
from dope.io.file_array import FileArray, Stamp, create
from dope.io.files import fill, open_file, reading
from dope.io.label_target import FileDraft, converting
from dope.io.lazy import Lazy, Parts
from dope.memory import require_bytes

_GZIP = b"\x1f\x8b"
_HEADER_BYTES = {348: 1, 540: 2}  # by which the two versions are told apart
_MAGIC = {1: b"n+1\0", 2: b"n+2\0\r\n\x1a\n"}
_PAIR_MAGIC = (b"ni1\0", b"ni2\0")
_CODES = {np.dtype(np.uint8): 2, np.dtype(np.uint16): 512}  # of the types of labels
# Codes of intents that say what the components of a site mean; labels have none.
_COMPONENT_INTENTS = (1004, 1005, 1006, 1007, 1008, 1009, 1010, 2003, 2004)
_MOST_NIFTI1_SITES = 32_767  # along an axis: NIfTI-1 counts them in 16 bits
_MOST_EXTENSION_BYTES = 1 << 26
_PIECE = 1 << 18  # numbers that are scaled in one go
_SAME = 1e-3  # in the affine's unit, as a rule millimetres: far below a voxel, far above rounding to float32


@dataclass(frozen=True)
class NiftiHeader:
    """A header as it stands in the file, and the bytes between it and the pixels (extensions, as a rule)."""

    block: bytes
    between: bytes = bytes(4)

    @property
    def version(self) -> int:
        return _HEADER_BYTES[len(self.block)]

    @property
    def fields(self) -> Any:
        """A fresh nibabel header of these bytes."""
        import nibabel

        kind: Any = nibabel.Nifti1Header if self.version == 1 else nibabel.Nifti2Header
        return kind(self.block, endianness=self._endianness, check=False)

    @property
    def _endianness(self) -> str:
        return "<" if int.from_bytes(self.block[:4], "little") in _HEADER_BYTES else ">"

    @property
    def unit(self) -> str:
        """Of the size of a voxel; empty where the header does not say."""
        space = self.fields.get_xyzt_units()[0]
        return "" if space == "unknown" else str(space)

    def stored_type(self, new: NewLabels) -> np.dtype[Any]:
        """Of labels under this header, in its order of bytes."""
        return new.integer_type.newbyteorder(self._endianness)  # type: ignore[arg-type]

    def affine(self) -> NDArray[np.float64]:
        """From sites to the scanner or a standard space: sform, else qform, else what the spacing says."""
        return np.asarray(self.fields.get_best_affine(), dtype=np.float64)

    def differs_from(self, other: object) -> str | None:
        """In what another NIfTI image lies elsewhere."""
        if not isinstance(other, NiftiHeader):
            return None
        most = float(np.abs(self.affine() - other.affine()).max())
        return None if most <= _SAME else f"their NIfTI affines differ by up to {most:g}"


@dataclass(frozen=True)
class _Layout:
    """How the pixels lie in the file."""

    sites: Shape
    channels: int  # 0 where there is no axis for them
    stored: np.dtype[Any]
    offset: int
    slope: float
    inter: float
    spacing: Spacing | None

    @property
    def shape(self) -> Shape:
        return (*self.sites, self.channels) if self.channels else self.sites

    @property
    def scaled(self) -> bool:
        return (self.slope, self.inter) != (1.0, 0.0)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the pixels that are handed out."""
        return np.dtype(np.float32) if self.scaled else self.stored.newbyteorder("=")


@dataclass(frozen=True)
class _Scaled:
    """Stored numbers as the header wants them read."""

    stored: FileArray
    slope: float
    inter: float

    @property
    def path(self) -> Path:
        return self.stored.path

    @property
    def shape(self) -> Shape:
        return self.stored.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32)

    @property
    def chunks(self) -> Shape | None:
        return None

    def read(self, parts: Parts) -> NDArray[Any]:
        stored = self.stored.read(parts)
        found = np.empty(stored.size, self.dtype)
        for low in range(0, stored.size, _PIECE):
            piece = stored.reshape(-1)[low : low + _PIECE]
            found[low : low + _PIECE] = _scaled(piece, self.slope, self.inter)
        return found.reshape(stored.shape)


def load(path: Path, *, budget: int | None) -> Image:
    """Open the pixels of a plain file, scaled as the header says; those of a packed one are read."""
    stamp = Stamp.of(path)
    packed = _is_packed(path)
    with _opened(path, packed) as stream:
        header, layout = _read_whole_header(path, stream)
        if not packed:
            return _image(path, header, layout, _plain_pixels(path, layout, stamp))
        require_bytes(declared(path, layout.shape, layout.dtype), bytes_of(layout.shape, layout.dtype), budget)
        pixels = np.empty(math.prod(layout.shape), layout.dtype)
        done = 0
        for piece in _pieces(path, stream, layout):
            pixels[done : done + len(piece)] = piece
            done += len(piece)
    return _image(path, header, layout, pixels.reshape(layout.shape, order="F"))


def unpack(path: Path, target: Path) -> Image:
    """The same pixels, those of a packed file in an NPY file of their own; memory holds a piece of them at a time."""
    if not _is_packed(path):
        return load(path, budget=None)
    with _opened(path, packed=True) as stream:
        header, layout = _read_whole_header(path, stream)
        with npy.filling(target, npy.Header(layout.shape, True, layout.dtype)) as numbers:
            for piece in _pieces(path, stream, layout):
                numbers.write(piece.data)
    return _image(path, header, layout, npy.opened(target))


def describe(path: Path) -> Description:
    """From the header alone."""
    packed = _is_packed(path)
    with _opened(path, packed) as stream:
        header, layout = _read_header(path, stream)
        details = _details(header, layout)
    return Description(
        path=path,
        format=f"NIfTI-{header.version}{', gzip' if packed else ''}",
        shape=layout.sites,
        channels=max(1, layout.channels),
        dtype=layout.dtype.name,
        spacing=layout.spacing,
        bytes=bytes_of(layout.shape, layout.dtype),
        details=details,
    )


def save(new: NewLabels, labels: Labels) -> None:
    """Write labels as uint8 or uint16. Of a NIfTI image they inherit the header, whole but for what labels change."""
    header = _header_of_labels(new)
    dtype = header.stored_type(new)
    with (
        replacing(new.path, overwrite=new.overwrite) as temporary,
        _writing(temporary, packed=_to_be_packed(new.path)) as stream,
    ):
        stream.write(header.block)
        stream.write(header.between)
        # i is the fastest axis in the file: its transpose is in the order of the file.
        for slab in np.moveaxis(labels, -1, 0):
            stream.write(slab.astype(dtype).tobytes(order="F"))


@contextmanager
def drafting(new: NewLabels) -> Iterator[FileDraft]:
    """The same file, box by box."""
    if _to_be_packed(new.path):
        # In the order of the file, in which `save` reads it.
        with converting(new, lambda hidden: npy.draft(hidden, new, fortran_order=True), save) as draft:
            yield draft
        return
    header = _header_of_labels(new)
    head = header.block + header.between
    with replacing(new.path, overwrite=new.overwrite) as temporary:
        dtype = header.stored_type(new)
        create(temporary, head, bytes_of(new.shape, dtype))
        stored = FileArray(temporary.absolute(), len(head), new.shape[::-1], dtype)
        yield FileDraft(stored, new.label_type, fortran_order=True)


def check_shape(path: Path, shape: Shape) -> None:
    """Refuse labels of more axes than the format has."""
    if not 1 <= len(shape) <= 7:
        raise InputError(f"{path}: cannot hold labels of {len(shape)} axes; expected 1 to 7")


def _header_of_labels(new: NewLabels) -> NiftiHeader:
    image = new.like.header if new.like is not None else None
    spacing = new.like.spacing if new.like is not None else None
    return _inherited(image, new.integer_type) if isinstance(image, NiftiHeader) else _fresh(new, spacing)


def _to_be_packed(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def _is_packed(path: Path) -> bool:
    """By what the file begins with: a wrong suffix does no harm."""
    with open_file(path, "NIfTI") as stream:
        return stream.read(2) == _GZIP


@contextmanager
def _opened(path: Path, packed: bool) -> Iterator[IO[bytes]]:
    with open_file(path, "NIfTI") as file:
        if packed:
            with gzip.GzipFile(fileobj=file) as stream:
                yield cast(IO[bytes], stream)
        else:
            yield file


@contextmanager
def _writing(path: Path, *, packed: bool) -> Iterator[IO[bytes]]:
    with path.open("wb") as file:
        if packed:
            # Without name and time, so that the same labels give the same file.
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as stream:
                yield cast(IO[bytes], stream)
        else:
            yield file


def _read_header(path: Path, stream: IO[bytes]) -> tuple[NiftiHeader, _Layout]:
    size = stream.read(4)
    lengths = [int.from_bytes(size, "little"), int.from_bytes(size, "big")]
    length = next((length for length in lengths if length in _HEADER_BYTES), None)
    if length is None:
        raise InputError(f"{path}: not a NIfTI file; expected .nii or .nii.gz of NIfTI-1 or NIfTI-2")
    header = NiftiHeader(size + stream.read(length - 4))
    if len(header.block) < length:
        raise InputError(f"{path}: cut short within its header; get a whole copy")
    _check_magic(path, header)
    return header, _layout(path, header)


def _read_whole_header(path: Path, stream: IO[bytes]) -> tuple[NiftiHeader, _Layout]:
    """With what lies between it and the pixels, at which the stream is left."""
    header, layout = _read_header(path, stream)
    return replace(header, between=_read_between(path, stream, layout.offset - len(header.block))), layout


def _check_magic(path: Path, header: NiftiHeader) -> None:
    place = 344 if header.version == 1 else 4
    magic = header.block[place : place + len(_MAGIC[header.version])]
    if magic[:4] in _PAIR_MAGIC:
        raise InputError(f"{path}: a header whose pixels lie in an .img file; convert the pair to .nii.gz")
    if magic != _MAGIC[header.version]:
        raise InputError(f"{path}: not a NIfTI file (Analyze 7.5, perhaps); convert it to .nii.gz")


def _layout(path: Path, header: NiftiHeader) -> _Layout:
    fields = header.fields
    sites, channels = _axes(path, [int(length) for length in fields["dim"]])
    stored = fields.get_data_dtype()
    check_numbers(path, stored, sites)
    slope, inter = fields.get_slope_inter()
    return _Layout(
        sites=sites,
        channels=channels,
        stored=stored,
        offset=_offset(path, header, float(fields["vox_offset"])),
        slope=1.0 if slope is None else slope,
        inter=0.0 if slope is None else inter,
        spacing=as_spacing([float(size) for size in fields["pixdim"][1 : 1 + len(sites)]]),
    )


def _axes(path: Path, dim: list[int]) -> tuple[Shape, int]:
    """Up to three axes of sites, and one of channels beyond: several volumes, or the components of vectors."""
    rank, *lengths = dim
    if not 1 <= rank <= 7 or min(lengths[:rank]) < 1:
        raise InputError(f"{path}: declares the dimensions {dim}; expected 1 to 7 of at least one voxel each")
    further = [length for length in lengths[3:rank] if length > 1]
    if len(further) > 1:
        raise InputError(f"{path}: has {rank} axes, {lengths[:rank]}; expected three of space and one of channels")
    return tuple(lengths[: min(rank, 3)]), further[0] if further else 0


def _offset(path: Path, header: NiftiHeader, offset: float) -> int:
    least = len(header.block) + 4
    if offset == 0:  # as some programs write; there is one place it can mean
        return least
    if not least <= offset < math.inf:
        raise InputError(f"{path}: declares pixels at byte {offset:g}; expected {least} or later")
    return int(offset)


def _read_between(path: Path, stream: IO[bytes], length: int) -> bytes:
    if length > _MOST_EXTENSION_BYTES:
        raise InputError(f"{path}: declares {length:,} bytes of extensions; expected {_MOST_EXTENSION_BYTES:,} at most")
    between = np.empty(length, np.uint8)
    fill(between, stream)
    return between.tobytes()


def _plain_pixels(path: Path, layout: _Layout, stamp: Stamp) -> Lazy:
    missing = layout.offset + bytes_of(layout.shape, layout.stored) - stamp.size
    if missing > 0:
        raise InputError(f"{path}: cut short, {missing:,} bytes are missing; get a whole copy")
    # i is the fastest axis in the file.
    stored = FileArray(path.absolute(), layout.offset, layout.shape[::-1], layout.stored, stamp)
    source = _Scaled(stored, layout.slope, layout.inter) if layout.scaled else stored
    return Lazy(source, tuple(reversed(range(len(layout.shape)))))


def _pieces(path: Path, stream: IO[bytes], layout: _Layout) -> Iterator[NDArray[Any]]:
    """The pixels in the order of the file, a piece at a time, and a look at whether the file ends with them."""
    count = math.prod(layout.shape)
    for low in range(0, count, _PIECE):
        piece = np.empty(min(_PIECE, count - low), layout.stored)
        with reading(path):  # also for who is writing when that fails
            fill(piece, stream)
        yield _scaled(piece, layout.slope, layout.inter) if layout.scaled else native(piece)
    with reading(path):
        if stream.read(1):
            raise InputError(f"{path}: goes on after the pixels that its header declares; get a whole copy")


def _scaled(stored: NDArray[Any], slope: float, inter: float) -> NDArray[np.float32]:
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite then is found by who computes with it
        return (stored * slope + inter).astype(np.float32)


def _image(path: Path, header: NiftiHeader, layout: _Layout, pixels: Any) -> Image:
    return Image(pixels, layout.channels > 0, layout.spacing, path, header)


def _details(header: NiftiHeader, layout: _Layout) -> dict[str, str]:
    fields = header.fields
    space, time = fields.get_xyzt_units()
    details = {
        "stored as": layout.stored.name,
        "units": space if time == "unknown" else f"{space}, {time}",
        "affine": "; ".join(" ".join(f"{value:g}" for value in row) for row in header.affine()[:3]),
        "sform, qform": f"{int(fields['sform_code'])}, {int(fields['qform_code'])}",
        "description": fields["descrip"].item().decode("latin-1").strip("\0 "),
    }
    if layout.scaled:
        details["scaling"] = f"{layout.slope:g} * stored + {layout.inter:g}"
    return {name: text for name, text in details.items() if text}


def _inherited(header: NiftiHeader, dtype: np.dtype[Any]) -> NiftiHeader:
    """An image's header for labels: what says how a voxel is stored is replaced, the rest stays to the byte."""
    fields = header.fields
    fields["datatype"], fields["bitpix"] = _CODES[dtype], 8 * dtype.itemsize
    fields["scl_slope"], fields["scl_inter"] = 1, 0
    if fields["vox_offset"] == 0:
        fields["vox_offset"] = len(header.block) + len(header.between)
    if fields["dim"][0] > 3:  # several volumes or components were channels, and labels have none
        fields["dim"][0] = 3
        fields["dim"][4:] = 1
        if int(fields["intent_code"]) in _COMPONENT_INTENTS:
            for name in ("intent_code", "intent_p1", "intent_p2", "intent_p3", "intent_name"):
                fields[name] = np.zeros((), fields[name].dtype)
    return replace(header, block=fields.binaryblock)


def _fresh(new: NewLabels, spacing: Spacing | None) -> NiftiHeader:
    """A header that says no more than is known: the shape and, perhaps, the size of a voxel."""
    import nibabel

    check_shape(new.path, new.shape)
    kind: Any = nibabel.Nifti1Header if max(new.shape) <= _MOST_NIFTI1_SITES else nibabel.Nifti2Header
    fields = kind()
    fields.set_data_dtype(new.integer_type)
    fields.set_data_shape(new.shape)
    if spacing is not None:
        fields.set_zooms(spacing)
    fields["scl_slope"], fields["scl_inter"] = 1, 0
    fields["vox_offset"] = len(fields.binaryblock) + 4
    return NiftiHeader(fields.binaryblock)
