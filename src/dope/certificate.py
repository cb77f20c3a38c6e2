"""What proves a lower bound of a submodular energy, kept so that others can check it: see `verify`.

Blocks without overlap are coupled by the pairs that cross a seam alone, and w |y_i - y_j| is the largest f (y_i - y_j)
with |f| <= w. Hence for any flows f over the crossing pairs, each within its pair's weight,

    LB(f) = sum_k  min over block k of [ sum_i (u_i + sum_j f_ij) y_i + pairs inside k ]   <=   min E - constant

where a flow from i to j of f > 0 adds +f to the unary of i and -f to that of j: f_ji = -f_ij. A certificate is the
blocks, the flows and the minimum of every block, counted in integers so that no float sum comes between.

In memory it is a `Certificate`, which an .npz file holds. That of a run in boxes, a `StoredCertificate`, is a folder:

    DIR/certificate.json     the shape, cuts, scale and bounds; written last
    DIR/flows/000012.npz     first, second and flow of the pairs from block 12 to later blocks
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dope.arrays import Sites
from dope.bounded import open_regular, read_regular
from dope.durable import reason, replacing, try_writing, write_text, writing
from dope.errors import InputError
from dope.rounding import rounded_down

if TYPE_CHECKING:
    import zipfile

# What a file holds: a grid's blocks are told by the places of its cuts, axis after axis, a graph's by its members.
VERSION = 2
_ALWAYS = {
    "version": 0,
    "scale": 0,
    "rounding_error": 0,
    "first": 1,
    "second": 1,
    "flow": 1,
    "bounds": 1,
    "bounds_high": 1,
}
_OF_GRID = {**_ALWAYS, "cuts": 1, "cuts_per_axis": 1}
_OF_GRAPH = {**_ALWAYS, "members": 1}
_OF_SEAMS = {"first": 1, "second": 1, "flow": 1}
_REAL = ("scale", "rounding_error")

# Of a folder: what holds all but the flows, or all of a certificate that was in memory.
CERTIFICATE, FLOWS, WHOLE = "certificate.json", "flows", "certificate.npz"
STORED_VERSION = 1
# A bound of 40 digits for each of a million blocks.
MOST_BYTES = 64 << 20

# A bound is bounds_high x 2^LOW_BITS + bounds in a file: costs may stand for "certainly" and be as large as they like.
LOW_BITS = 62
MOST_BOUND = 1 << 124
"""Above what the bounds of a certificate can be."""

SeamFlows = tuple[Sites, Sites, npt.NDArray[np.int64]]
"""Sites, sites of other blocks, and what flows from the former to the latter in units of 1 / scale."""

# What zipfile, beside its BadZipFile, and NumPy's reader of headers raise for bytes that are no such file.
_MALFORMED = (
    ValueError,
    EOFError,
    KeyError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    TypeError,
    struct.error,
)


@dataclass(frozen=True, eq=False)
class Certificate:
    """Blocks, flows between them and the blocks' minima: together a lower bound that anyone can recompute.

    Attributes
    ----------
    scale : costs are counted in units of 1 / scale, a power of two: c becomes rint(c x scale).
    cuts : the places where a grid's axes are cut, as `Partition.cuts`, for blocks without overlap; None for a graph.
    members : the number of every site's block on a graph; None for a grid.
    first, second : the ends, as flat positions, of the pairs that cross a seam and carry a flow; each pair once.
    flow : what flows from first to second, below 0 where it flows back, in units.
    bounds : for every block the minimum of its own integer energy, the flows in its unary, in units: int64, or Python's
        integers (dtype object) where those do not hold them.
    rounding_error : how far counting in units can put the sum of `bounds` above the bound of the energy itself; 0
        where all costs are whole in them.
    """

    scale: float
    cuts: tuple[tuple[int, ...], ...] | None
    members: npt.NDArray[np.integer[Any]] | None
    first: Sites
    second: Sites
    flow: npt.NDArray[np.int64]
    bounds: npt.NDArray[np.int64] | npt.NDArray[np.object_]
    rounding_error: float = 0.0

    def __post_init__(self) -> None:
        _check_number("scale", self.scale, above=0.0)
        _check_number("rounding_error", self.rounding_error, above=-math.ulp(0.0))
        for name in ("first", "second", "flow"):
            _check_list(name, getattr(self, name))
        _check_bounds(self.bounds)
        if not len(self.first) == len(self.second) == len(self.flow):
            raise InputError(
                f"a certificate's first, second and flow list {len(self.first)}, {len(self.second)} and "
                f"{len(self.flow)} pairs; expected lists of one length."
            )
        if (self.cuts is None) == (self.members is None):
            raise InputError(
                "a certificate needs either cuts, for a grid, or members, for a graph; found both or none."
            )
        if self.cuts is not None:
            _check_cuts(self.cuts)
        if self.members is not None:
            _check_list("members", self.members, wide=False)

    @property
    def lower_bound(self) -> float:
        """The bound that is claimed, the energy's constant excluded."""
        return rounded_down(self.claim)

    @property
    def claim(self) -> Fraction:
        """The same, not rounded to a float."""
        return _claim(self)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write it as an .npz file, as a whole or not at all: readers see the old file or the new one."""
        _write_arrays(file, self._arrays())

    def save_in(self, folder: str | os.PathLike[str]) -> None:
        """Write it into a folder, as `open_certificate` finds it."""
        path = Path(folder)
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
        self.save(path / WHOLE)

    @classmethod
    def load(cls, file: str | os.PathLike[str]) -> Certificate:
        """Read what `save` wrote. Nothing in the file is run, and no more is read than the file is long."""
        path = Path(file)
        arrays = _read_arrays(path, _whole, "a file that Certificate.save wrote")
        return cls(
            scale=float(arrays["scale"]),
            cuts=_cuts_of(path, arrays) if "cuts" in arrays else None,
            members=arrays.get("members"),
            first=arrays["first"],
            second=arrays["second"],
            flow=arrays["flow"],
            bounds=_bounds_of(arrays),
            rounding_error=float(arrays["rounding_error"]),
        )

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        arrays: dict[str, npt.NDArray[Any]] = {
            "version": np.array(VERSION, dtype=np.int64),
            "scale": np.array(self.scale, dtype=np.float64),
            "rounding_error": np.array(self.rounding_error, dtype=np.float64),
            **{name: getattr(self, name) for name in ("first", "second", "flow")},
        }
        bounds = self.bounds.tolist()
        arrays["bounds"] = np.array([b & (1 << LOW_BITS) - 1 for b in bounds], dtype=np.int64)
        arrays["bounds_high"] = np.array([b >> LOW_BITS for b in bounds], dtype=np.int64)
        if self.cuts is not None:
            arrays["cuts"] = np.array([place for places in self.cuts for place in places], dtype=np.int64)
            arrays["cuts_per_axis"] = np.array([len(places) for places in self.cuts], dtype=np.int64)
        if self.members is not None:
            arrays["members"] = self.members.astype(np.int64)
        return arrays


@dataclass(frozen=True, eq=False)
class StoredCertificate:
    """A certificate in a folder, of which a block's flows are read when they are asked for; see `Certificate`.

    Attributes
    ----------
    folder : where it lies.
    scale, cuts, bounds, rounding_error : as in `Certificate`.
    """

    folder: Path
    scale: float
    cuts: tuple[tuple[int, ...], ...]
    bounds: npt.NDArray[np.int64] | npt.NDArray[np.object_]
    rounding_error: float = 0.0

    members = None

    def __post_init__(self) -> None:
        _check_number("scale", self.scale, above=0.0)
        _check_number("rounding_error", self.rounding_error, above=-math.ulp(0.0))
        _check_bounds(self.bounds)
        _check_cuts(self.cuts)

    @property
    def lower_bound(self) -> float:
        """The bound that is claimed, the energy's constant excluded."""
        return rounded_down(self.claim)

    @property
    def claim(self) -> Fraction:
        """The same, not rounded to a float."""
        return _claim(self)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> StoredCertificate:
        """What `finish` has written into a folder; of its flows nothing is read yet."""
        path = Path(folder) / CERTIFICATE
        try:
            said = json.loads(read_regular(path, "certificate", most=MOST_BYTES))
            scale, rounding_error = (float.fromhex(said[name]) for name in ("scale", "rounding_error"))
            cuts = tuple(tuple(axis) for axis in said["cuts"])
            bounds = integers([int(bound) for bound in said["bounds"]])
            version = said["version"]
        except OSError as error:
            raise InputError(f"cannot read {path}: {reason(error)}; no run with certificate= ended there.") from error
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as fault:
            if isinstance(fault, InputError):
                raise
            raise InputError(
                f"{path} is no certificate: {fault}; expected what a run with certificate= wrote"
            ) from fault
        if version != STORED_VERSION:
            raise InputError(f"{path} is a certificate of version {version!r:.20}; expected {STORED_VERSION}.")
        return cls(Path(folder), scale, cuts, bounds, rounding_error)

    def finish(self) -> None:
        """Write all but the flows, which are in place by now."""
        said = {
            "version": STORED_VERSION,
            "scale": self.scale.hex(),
            "rounding_error": self.rounding_error.hex(),
            "cuts": [list(axis) for axis in self.cuts],
            "bounds": [str(bound) for bound in self.bounds.tolist()],
        }
        write_text(self.folder / CERTIFICATE, json.dumps(said))

    def flows(self, k: int) -> SeamFlows:
        """Over the pairs from block k to later ones."""
        arrays = _read_arrays(self._file(k), _seams, "the flows of a block")
        return arrays["first"], arrays["second"], arrays["flow"]

    def save_flows(self, k: int, flows: SeamFlows) -> None:
        """Write those of block k."""
        path = self._file(k)
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        _write_arrays(path, dict(zip(_OF_SEAMS, flows, strict=True)))

    def _file(self, k: int) -> Path:
        return self.folder / FLOWS / f"{k:06}.npz"


AnyCertificate = Certificate | StoredCertificate


def _claim(certificate: AnyCertificate) -> Fraction:
    total = Fraction(sum(certificate.bounds.tolist()))
    return total / Fraction(certificate.scale) - Fraction(certificate.rounding_error)


def open_certificate(path: str | os.PathLike[str]) -> AnyCertificate:
    """The certificate in a file, or in the folder that a run was given for it."""
    place = Path(path)
    if not place.is_dir():
        return Certificate.load(place)
    whole = place / WHOLE
    return Certificate.load(whole) if whole.is_file() else StoredCertificate.open(place)


def require_free(folder: Path) -> None:
    """Refuse a folder for a certificate that cannot be written to, or that holds anything but flows.

    Flows are what a run leaves that was broken off. A certificate is written at the end of a run, which may be hours
    away; so it is found out by trying, in the nearest folder that is there.
    """
    other = None
    try:
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            other = next((entry.name for entry in entries if entry.name != FLOWS), None)
        if other is None:
            try_writing(next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place)))
    except NotADirectoryError as error:
        raise InputError(
            f"certificate is {folder}, which is a file or lies in one; expected a new or empty folder. Name another."
        ) from error
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise InputError(
            f"certificate is {folder}, which cannot be written: {why}; expected a new or empty folder. Name one where "
            f"you may write and there is room."
        ) from error
    if other is not None:
        raise InputError(
            f"certificate is {folder}, which holds {other!r:.60} already; expected a new or empty folder. Name "
            f"another, or remove what it holds."
        )


def _write_arrays(file: str | os.PathLike[str], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    import zipfile  # here and below: `import dope` does not wait for it

    with replacing(file) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as part:
                np.lib.format.write_array(part, array, allow_pickle=False)


def _read_arrays(
    path: Path, read: Callable[[zipfile.ZipFile], dict[str, npt.NDArray[Any]]], expected: str
) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an .npz file; nothing in it is run, and no more is read than it is long."""
    import zipfile

    try:
        with open_regular(path, "certificate") as stream, zipfile.ZipFile(stream) as archive:
            return read(archive)
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}") from error
    except (zipfile.BadZipFile, *_MALFORMED) as error:
        raise InputError(f"{path} is no certificate: {error}; expected {expected}") from error


def integers(numbers: Sequence[int]) -> npt.NDArray[np.int64] | npt.NDArray[np.object_]:
    """Whole numbers of any size as an array: int64 if that holds them all."""
    if all(-(1 << 63) <= number < 1 << 63 for number in numbers):
        return np.array(numbers, dtype=np.int64)
    return np.array(numbers, dtype=np.object_)


def _bounds_of(arrays: dict[str, npt.NDArray[Any]]) -> npt.NDArray[np.int64] | npt.NDArray[np.object_]:
    low, high = arrays["bounds"].tolist(), arrays.get("bounds_high", np.zeros_like(arrays["bounds"])).tolist()
    return integers([(h << LOW_BITS) + b for h, b in zip(high, low, strict=True)])


def _check_bounds(bounds: object) -> None:
    if isinstance(bounds, np.ndarray) and bounds.dtype == np.object_ and bounds.ndim == 1:
        if not all(type(bound) is int and abs(bound) < MOST_BOUND for bound in bounds.tolist()):
            raise InputError("a certificate's bounds hold other things than whole numbers of less than 124 bits.")
        return
    _check_list("bounds", bounds)


def _check_number(name: str, value: object, *, above: float) -> None:
    if not isinstance(value, float) or not math.isfinite(value) or value <= above:
        least = "above 0" if above >= 0.0 else "of 0 or more"
        raise InputError(f"a certificate's {name} is {value!r}; expected a finite float {least}.")


def _check_list(name: str, array: object, *, wide: bool = True) -> None:
    if not isinstance(array, np.ndarray) or array.ndim != 1:
        found = f"has shape {array.shape}" if isinstance(array, np.ndarray) else f"is a {type(array).__name__}"
        raise InputError(f"a certificate's {name} {found}; expected an array of one dimension.")
    fits = array.dtype == np.int64 if wide else array.dtype.kind in "iu" and np.can_cast(array.dtype, np.int64)
    if not fits:
        raise InputError(f"a certificate's {name} has dtype {array.dtype}; expected {'int64' if wide else 'integers'}.")


def _check_cuts(cuts: object) -> None:
    axes = cuts if isinstance(cuts, tuple) else (cuts,)
    good = all(isinstance(axis, tuple) and all(type(c) is int and 0 <= c < 1 << 63 for c in axis) for axis in axes)
    if not (isinstance(cuts, tuple) and good):
        raise InputError(f"a certificate's cuts are {str(cuts)[:80]}; expected a tuple of positions for every axis.")


def _whole(archive: zipfile.ZipFile) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a file, if they are just those of a grid's or a graph's certificate."""
    names = {info.filename.removesuffix(".npy") for info in archive.infolist()}
    expected = _OF_GRAPH if "members" in names else _OF_GRID
    if "bounds_high" not in names:  # version 1
        expected = {name: dimensions for name, dimensions in expected.items() if name != "bounds_high"}
    arrays = _just(archive, expected)
    version = VERSION if "bounds_high" in arrays else 1
    if arrays["version"] != version:
        raise ValueError(f"its version is {arrays['version']}, not {version}")
    if "bounds_high" in arrays and len(arrays["bounds_high"]) != len(arrays["bounds"]):
        raise ValueError(f"it has {len(arrays['bounds'])} bounds, but {len(arrays['bounds_high'])} high parts of them")
    return arrays


def _seams(archive: zipfile.ZipFile) -> dict[str, npt.NDArray[Any]]:
    """The flows of a block."""
    arrays = _just(archive, _OF_SEAMS)
    if len({len(array) for array in arrays.values()}) != 1:
        raise ValueError("its lists are not of one length")
    return arrays


def _just(archive: zipfile.ZipFile, expected: Mapping[str, int]) -> dict[str, npt.NDArray[Any]]:
    """The arrays of these names and dimensions, if there are no others."""
    infos = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    if len(archive.infolist()) != len(expected) or set(infos) != set(expected):
        raise ValueError(f"it holds {', '.join(sorted(infos))[:60]!r}, not {', '.join(sorted(expected))}")
    # 0 is "stored", as _write_arrays writes them.
    if any(info.compress_type != 0 for info in infos.values()):
        raise ValueError("its parts are compressed, and so could be of any length")
    return {name: _array(name, archive.read(infos[name]), expected[name]) for name in expected}


def _array(name: str, content: bytes, dimensions: int) -> npt.NDArray[Any]:
    """An array from the bytes of an .npy file, whose header is believed only as far as there are bytes for it."""
    stream = BytesIO(content)
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise ValueError(f"{name} is of the .npy version {version}, not (1, 0)")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    expected = np.dtype(np.float64 if name in _REAL else np.int64)
    if dtype != expected or len(shape) != dimensions:
        raise ValueError(f"{name} has dtype {dtype} and shape {shape}, not {expected} in {dimensions} dimensions")
    start, needed = stream.tell(), math.prod(shape) * dtype.itemsize
    if len(content) - start != needed:
        raise ValueError(f"{name} has shape {shape} but {len(content) - start} bytes")
    return np.frombuffer(content, dtype, offset=start).reshape(shape).copy()


def _cuts_of(path: Path, arrays: dict[str, npt.NDArray[Any]]) -> tuple[tuple[int, ...], ...]:
    places, lengths = arrays["cuts"].tolist(), arrays["cuts_per_axis"].tolist()
    if min(lengths, default=0) < 0 or sum(lengths) != len(places):
        raise InputError(f"{path} is no certificate: it has {len(places)} cuts, but counts {sum(lengths)} on its axes")
    taken = iter(places)
    return tuple(tuple(next(taken) for _ in range(length)) for length in lengths)
