"""Array types, and the door at which dtype and shape are settled; past it they are trusted."""

import hashlib
import operator
import reprlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.errors import InputError

REAL_TYPES = (np.float32, np.float64)
MOST_LABELS = 2**16

Reals = npt.NDArray[np.floating[Any]]
"""Real costs or relaxed labels, float32 or float64."""
Mask = npt.NDArray[np.bool_]
"""Which sites: a region, those that are proved, those under scribbles."""
Labels = npt.NDArray[np.bool_ | np.uint8 | np.uint16]
"""The label of every site: bool where there are two, True = 1 = foreground; their numbers where there are more."""
BinaryLabels = npt.NDArray[np.bool_]
"""Labels of which there are two, as block solvers and moves know them."""
Sites = npt.NDArray[np.int64]
"""Flat indices of sites."""
Box = tuple[slice, ...]
"""A part of a grid: a slice per axis."""
Index = Box | Sites
"""A place in an array: slices on a grid, an index array on a graph. NumPy reads both alike."""

CORE_TYPES = (np.uint8, np.uint16, np.int16, np.float32, np.float64)
"""What the core reads in place."""
# More binary places than this, and costs are taken to be no binary fractions.
MOST_PLACES = 20


def as_array(name: str, values: Any) -> npt.NDArray[Any]:
    """`values` as an array in memory, of whatever type they have."""
    # NumPy drops masks without a word, those of dask's chunks and of rows in a list too, and reads what is under them.
    values = values.compute() if hasattr(values, "compute") else values
    try:
        found = np.asanyarray(values)
    except ValueError:
        raise InputError(f"{name} has rows of different lengths; expected an array.") from None
    rows = values if isinstance(values, (list, tuple)) else [found]
    if any(isinstance(row, np.ma.MaskedArray) and np.ma.is_masked(row) for row in rows):
        raise InputError(
            f"{name} is a masked array with masked sites; pass its .data, and mask=~np.ma.getmaskarray(...) to leave "
            f"these sites out, or fill them first, e.g. {name}.filled(0)."
        )
    return np.asarray(found)


def known_shape(name: str, array: Any) -> tuple[int, ...]:
    """The shape of an array that may lie anywhere."""
    shape = tuple(np.shape(array))
    try:
        return tuple(operator.index(length) for length in shape)
    except TypeError:
        raise InputError(
            f"{name} has the shape {shape}, as its chunks have unknown sizes; call compute_chunk_sizes() first."
        ) from None


def checked_box(box: object, shape: tuple[int, ...]) -> Box:
    """A box that lies inside a shape; a slice that leaves an end open goes as far as there are sites.

    >>> checked_box((slice(1, 3), slice(None)), (4, 5))
    (slice(1, 3, None), slice(0, 5, None))
    """
    if isinstance(box, tuple) and len(box) == len(shape) and all(map(_lies_within, box, shape)):
        return tuple(slice(s.start or 0, n if s.stop is None else s.stop) for s, n in zip(box, shape, strict=True))
    whole = tuple(slice(0, n) for n in shape)
    raise InputError(
        f"box is {reprlib.repr(box)}; expected a tuple with a slice of step 1 per axis, inside the shape {shape}: "
        f"{whole} is all of it."
    )


def _lies_within(side: object, length: int) -> bool:
    if not isinstance(side, slice) or side.step not in (None, 1):
        return False
    start, stop = side.start or 0, length if side.stop is None else side.stop
    return all(isinstance(end, (int, np.integer)) for end in (start, stop)) and 0 <= start <= stop <= length


def as_reals(name: str, values: npt.ArrayLike) -> Reals:
    """`values` as float32 or float64, unchanged where it is one of them already."""
    array = as_numbers(name, values)
    if array.dtype in REAL_TYPES:
        return array
    exact = 2**53
    if array.dtype.kind in "iu" and array.size and (array.max() > exact or array.min() < -exact):
        raise InputError(f"{name} holds integers beyond 2^53, which float64 rounds; scale them down first.")
    return array.astype(np.float64)


def as_numbers(name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """`values` as an array of real numbers of whatever type they have."""
    array = as_array(name, values)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} has dtype {array.dtype}; expected real numbers. Convert it to float first.")
    return array


@dataclass(frozen=True)
class Span:
    """What there is to know about the numbers of an array before they become costs.

    Attributes
    ----------
    low, high : the least and the greatest; 0 where there are none.
    total : the sum of |x|, infinite beyond float64.
    places : the smallest k for which every x times 2^k is an integer; None where that was too many, or not asked for.
    beyond : where the first one is that is not finite, in row-major order; -1 if all are. The others mean nothing then.
    """

    low: float
    high: float
    total: float
    places: int | None
    beyond: int

    @property
    def largest(self) -> float:
        """The greatest |x|."""
        return max(-self.low, self.high)


def core_reads(array: npt.NDArray[Any], types: Sequence[Any] = CORE_TYPES) -> bool:
    """Whether the core reads this array where it lies: of a type it knows, whole elements apart."""
    whole = all(stride % array.dtype.itemsize == 0 for stride in array.strides)
    return array.dtype in types and array.flags.aligned and whole


def measure_span(array: npt.NDArray[Any], *, factor: float = 1.0, most: int = MOST_PLACES) -> Span:
    """Look through an array, once. `places` are those of factor x, up to `most`; -1 asks for none.

    >>> span = measure_span(np.array([3.0, -0.25]))
    >>> span.largest, span.places, measure_span(np.array([3.0, -0.25]), factor=4.0).places
    (3.0, 2, 0)
    """
    found = np.asarray(array)
    numbers = found if core_reads(found) else np.ascontiguousarray(found, dtype=np.float64)
    return Span(*_core.scan(numbers, factor, most))


def check_finite(
    name: str, array: npt.NDArray[Any], span: Span | None = None, *, box: Box | None = None, inside: Mask | None = None
) -> None:
    """Refuse NaN and infinity, naming the first one and where it is.

    `span` is the array's, if it is known. `box` says where its sites lie in the whole, further axes are channels;
    `inside` which sites count.
    """
    if array.dtype.kind != "f":
        return
    beyond = (measure_span(array, most=-1) if span is None else span).beyond
    if beyond >= 0 and inside is not None:
        wrong = ~np.isfinite(array)
        wrong[~inside] = False
        beyond = int(np.argmax(wrong)) if wrong.any() else -1
    if beyond >= 0:
        at = tuple(int(i) for i in np.unravel_index(beyond, array.shape))
        place = at if box is None else tuple(i + side.start for i, side in zip(at, box, strict=False))
        raise InputError(
            f"{name} holds {array[at]} at {place}; expected finite numbers. Clip or replace such values first."
        )


def as_labels(labels: npt.ArrayLike, shape: tuple[int, ...], *, name: str = "labels") -> BinaryLabels:
    """`labels` as bool of the given shape; 0/1 numbers are welcome, anything else is not."""
    array = as_array(name, labels)
    if array.shape != shape:
        raise InputError(f"{name} have shape {array.shape}; expected {shape}, the shape of the unary.")
    if array.dtype == np.bool_:
        return array
    if array.dtype.kind not in "fiu":
        raise InputError(f"the dtype of {name} is {array.dtype}; expected bool, or numbers that are 0 and 1.")
    answer = array.astype(np.bool_)
    other = array[answer != array]
    if other.size:
        raise InputError(
            f"there is {other[0]} in {name} (dtype {array.dtype}); expected bool, or numbers that are 0 and 1."
        )
    return answer


def as_mask(mask: npt.ArrayLike) -> Mask:
    """A mask as bool; 0/1 numbers are welcome, and bytes of 0 and 255, as pictures have them."""
    array = as_array("mask", mask)
    if array.dtype == np.uint8 and not ((array != 0) & (array != 255)).any():
        return array.astype(np.bool_)
    return as_labels(array, array.shape, name="mask")


def label_type(label_count: int) -> np.dtype[Any]:
    """In which so many labels are kept: bool for two, uint8 or uint16 for more.

    >>> label_type(2).name, label_type(256).name, label_type(257).name
    ('bool', 'uint8', 'uint16')
    """
    if not 2 <= label_count <= MOST_LABELS:
        raise InputError(f"{label_count:,} labels; expected 2 to {MOST_LABELS:,}, which uint16 holds.")
    return np.dtype(np.bool_ if label_count == 2 else np.uint8 if label_count <= 256 else np.uint16)


def as_numbered_labels(labels: npt.ArrayLike, label_count: int | None = None, *, name: str = "labels") -> Labels:
    """`labels` as bool, uint8 or uint16, as `label_count` says; if it says nothing, as their largest number does.

    Floats are welcome where they are whole numbers.

    >>> as_numbered_labels([0, 1]), as_numbered_labels([0, 2])
    (array([False,  True]), array([0, 2], dtype=uint8))
    """
    array = as_array(name, labels)
    if label_count == 2 or array.dtype == np.bool_ or not array.size:
        array, least, most = as_labels(array, array.shape, name=name), 0, 1
    else:
        _require_whole(name, array)
        least, most = int(array.min()), int(array.max())
    last = (MOST_LABELS if label_count is None else label_count) - 1
    if least < 0 or most > last:
        wrong = least if least < 0 else most
        raise InputError(f"there is {wrong} in {name}; expected the numbers of labels, 0 to {last}.")
    return array.astype(label_type(max(2, most + 1) if label_count is None else label_count), copy=False)


def _require_whole(name: str, array: npt.NDArray[Any]) -> None:
    """Refuse what is no number of a label."""
    if array.dtype.kind not in "iuf":
        raise InputError(f"the dtype of {name} is {array.dtype}; expected whole numbers, a label's for each site.")
    if array.dtype.kind == "f":
        with np.errstate(invalid="ignore"):  # of infinity
            other = array[np.mod(array, 1) != 0]
        if other.size:
            raise InputError(
                f"there is {other[0]} in {name} (dtype {array.dtype}); expected whole numbers, a label's for each site."
            )


def as_sites(name: str, values: npt.ArrayLike, number: int) -> Sites:
    """`values` as a list of flat positions among `number` sites."""
    array = as_array(name, values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InputError(
            f"{name} has shape {array.shape} and dtype {array.dtype}; expected a list of flat positions, as integers. "
            f"np.flatnonzero makes one from a mask."
        )
    outside = (array < 0) | (array >= number)
    if outside.any():
        first = int(np.argmax(outside))
        raise InputError(f"{name}[{first}] is {array[first]}; expected flat positions of 0 to {number - 1}.")
    return np.ascontiguousarray(array, dtype=np.int64)


def binary_places(arrays: Iterable[Reals], most: int = MOST_PLACES) -> int | None:
    """The smallest k for which every number times 2^k is an integer; None if that takes more than `most`.

    >>> binary_places([np.array([3.0, -0.25])]), binary_places([np.array([0.1])])
    (2, None)
    """
    return most_places(measure_span(array, most=most).places for array in arrays)


def most_places(places: Iterable[int | None]) -> int | None:
    """The binary places that all need who need these; None if one of them is."""
    most = 0
    for one in places:
        if one is None:
            return None
        most = max(most, one)
    return most


def digest(arrays: Iterable[npt.NDArray[Any] | None]) -> str:
    """A hash of arrays with their types and shapes; None stands for one that is not there.

    >>> digest([np.zeros(2), None]) == digest([None, np.zeros(2)])
    False
    """
    found = hashlib.sha256()
    for array in arrays:
        found.update(b"none\n" if array is None else f"{array.dtype.str} {array.shape}\n".encode())
        if array is not None:
            found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def fitting_in_words(shape: tuple[int, ...], image: tuple[int, ...]) -> str | None:
    """How a map of this shape, an axis of classes too many or in another order, would fit an image; None if not so.

    >>> fitting_in_words((18, 64, 96, 80), (80, 96, 64))
    'If axis 0 of the map counts classes, np.transpose(map[k], (2, 1, 0)) of class k would fit.'
    >>> fitting_in_words((40, 50, 2), (40, 50)), fitting_in_words((40, 50), (3, 40, 50))
    ('If axis 2 of the map counts classes, map[:, :, k] of class k would fit.', 'channel_axis=0 would fit.')
    """
    for channels in reversed(range(len(image))):
        if image[:channels] + image[channels + 1 :] == shape:
            return f"channel_axis={channels} would fit."
    ways = [(None, shape), *((axis, shape[:axis] + shape[axis + 1 :]) for axis in reversed(range(len(shape))))]
    colors = [image[:axis] + image[axis + 1 :] for axis in (len(image) - 1, 0) if len(image) > 2 and image[axis] <= 4]
    for sites in (image, *colors):
        # What fits as it lies comes first, then what has no axis of classes.
        for axis, left in sorted(ways, key=lambda way: (way[1] != sites, way[0] is not None)):
            if sorted(left) == sorted(sites):
                return _way_in_words(axis, left, sites)
    return None


def _way_in_words(axis: int | None, shape: tuple[int, ...], sites: tuple[int, ...]) -> str:
    part = "map" if axis is None else f"map[{', '.join([*[':'] * axis, 'k'])}]"
    if shape != sites:
        left = list(range(len(shape)))[::-1]  # where sides are as long, the order of z, y, x rather than y, x, z
        order = tuple(left.pop(next(k for k, a in enumerate(left) if shape[a] == side)) for side in sites)
        part = f"np.transpose({part}, {order})"
    if axis is None:
        return f"The axes of the map seem to be in another order: {part} would fit."
    return f"If axis {axis} of the map counts classes, {part} of class k would fit."
