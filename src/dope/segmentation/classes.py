"""Classes: what a segmentation into more than foreground and background tells apart, and what is known of them.

Scribbles hold the number of a class where it was drawn, 0 where nothing is known, and negative numbers at sites that
take no part (as `skimage.segmentation.random_walker` has it). A probability map has an axis of classes more than there
are of sites; its classes are numbered from 0. Inside a run labels are places in `Classes.numbers`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dope.arrays import MOST_LABELS, Box, fitting_in_words, known_shape
from dope.errors import InputError
from dope.label_costs import MOST_LABELS as MOST_CLASSES
from dope.result import counted
from dope.scribbles import DRAWN
from dope.segmentation.boxes import corner_of, read_boxes, sides_of
from dope.segmentation.seed_map import SeedMap
from dope.stored import Stored

Names = int | Sequence[str]
"""How many classes there are, or what they are called."""


# Channels that an image may have whose last axis nobody has named.
MOST_COLORS = 4


@dataclass(frozen=True)
class Classes:
    """The number that labels have for each class, in ascending order, and what each is called."""

    numbers: tuple[int, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, numbers: Sequence[int], names: Sequence[str] | None = None) -> Classes:
        """Named by their numbers where nobody said more."""
        return cls(tuple(numbers), tuple(map(str, numbers)) if names is None else tuple(names))

    @property
    def count(self) -> int:
        return len(self.numbers)

    @property
    def label_count(self) -> int:
        """How many numbers labels may have: those of classes, and 0 of what is none."""
        return max(self.numbers) + 1

    @property
    def label_type(self) -> np.dtype[Any]:
        return np.dtype(np.uint8 if self.label_count <= 256 else np.uint16)

    @property
    def by_number(self) -> dict[int, str]:
        return dict(zip(self.numbers, self.names, strict=True))

    def numbered(self, places: npt.NDArray[Any]) -> npt.NDArray[np.uint8 | np.uint16]:
        """The numbers of classes that are told by their places."""
        found: npt.NDArray[np.uint8 | np.uint16] = np.array(self.numbers, dtype=self.label_type)[places]
        return found

    def places(self, labels: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
        """The opposite; of what is no number of a class, the first place.

        >>> Classes.of([1, 5]).places(np.array([5, 0, 1])).tolist()
        [1, 0, 0]
        """
        known = np.array(self.numbers)
        found = np.minimum(np.searchsorted(known, labels), len(known) - 1)
        return np.where(known[found] == labels, found, 0)


@dataclass(frozen=True, eq=False)
class ClassEvidence:
    """What the caller knows about an image of several classes; `Evidence` is its like for two labels.

    `label_axis` is the axis of classes of a probability map; `inactive` says that some scribbles are negative.
    """

    outlined: ClassVar[bool] = False

    classes: Classes
    scribbles: Any = None
    probability: Any = None
    label_axis: int | None = None
    inactive: bool = False

    @property
    def learnt(self) -> bool:
        """Whether costs come from a model of the image's colours."""
        return self.probability is None

    def sites(self, image: Any, channel_axis: int | None) -> tuple[int, ...]:
        """The shape of what is to be labelled."""
        del image, channel_axis
        if self.scribbles is not None:
            return known_shape("scribbles", self.scribbles)
        return self.stored_probability.shape

    @property
    def stored_probability(self) -> Stored:
        return Stored.of("probability", self.probability, channels=self.label_axis)

    def seed_map(self, shape: tuple[int, ...], where: Box, mask: Stored | None) -> SeedMap | None:
        """The classes that scribbles fix in a box of an image of this shape, inside a mask of it."""
        if self.scribbles is None:
            return None
        drawn = Stored.of("scribbles", self.scribbles)
        if drawn.shape != shape:
            raise InputError(f"scribbles are shaped {drawn.shape}; expected {shape}, as the rest is.")
        return SeedMap(where, drawn, None, mask, self.classes.numbers)

    def region(self, mask: Stored | None) -> Stored | None:
        """The mask, without sites under negative scribbles."""
        if not self.inactive:
            return mask
        drawn = Stored.of("scribbles", self.scribbles)
        region = ActiveSites(drawn, mask)
        if isinstance(drawn.array, np.ndarray) and (mask is None or isinstance(mask.array, np.ndarray)):
            return Stored("mask", region[tuple(slice(0, n) for n in drawn.shape)])
        return Stored("mask", region)


@dataclass(frozen=True, eq=False)
class ActiveSites:
    """Sites that take part: inside a mask, and not under negative scribbles. Read as it is indexed by a box."""

    scribbles: Stored
    mask: Stored | None

    dtype: ClassVar[np.dtype[Any]] = np.dtype(np.bool_)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.scribbles.shape

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return self.scribbles.chunks

    def __getitem__(self, box: Box) -> npt.NDArray[np.bool_]:
        active = np.asarray(self.scribbles.at(box) >= 0)
        return active if self.mask is None else active & (self.mask.at(box) != 0)


@dataclass(frozen=True)
class Drawn:
    """The numbers of classes that scribbles hold, in ascending order, and whether some are negative."""

    numbers: tuple[int, ...]
    inactive: bool
    names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, scribbles: Any) -> Drawn:
        """Read them, box by box."""
        known = getattr(scribbles, "drawn", None)  # of a file that was read before
        if isinstance(known, Drawn):
            return known
        names = getattr(scribbles, "names", None)  # of strokes in a file
        drawn = Stored.of("scribbles", scribbles)
        if drawn.dtype.kind not in "iu":
            raise InputError(
                f"scribbles are of type {drawn.dtype}; expected integers: 0 none, 1 foreground, 2 background, or a "
                f"number for each of several classes."
            )
        found: set[int] = set()
        inactive = False
        for box, values in read_boxes(drawn):
            if not values.size:
                continue
            low, high = int(values.min()), int(values.max())
            inactive = inactive or low < 0
            if high >= MOST_LABELS:
                at = np.unravel_index(int(np.argmax(values)), sides_of(box))
                place = tuple(int(i) + c for i, c in zip(at, corner_of(box), strict=True))
                raise InputError(
                    f"scribbles: class {high} at {place}; expected numbers of at most {MOST_LABELS - 1:,}, which "
                    f"uint16 holds. Number the classes from 1."
                )
            if high > 0:
                found.update(np.flatnonzero(np.bincount(values[values > 0])).tolist())
        return cls(tuple(sorted(found)), inactive, names)

    @property
    def several(self) -> bool:
        """Whether they are more than foreground and background, and nothing else, can be."""
        return self.odd is not None

    @property
    def in_words(self) -> str:
        """Why they are of several classes."""
        if self.names is not None:
            return f"scribbles are of {len(self.names)} classes"
        odd = self.odd
        return f"scribbles hold class {odd}" if odd is None or odd > 0 else "scribbles hold negative numbers"

    @property
    def odd(self) -> int | None:
        """A number that foreground and background do not have; of negative ones -1."""
        more = (number for number in self.numbers if self.names is not None or number not in DRAWN.values())
        return next(more, -1 if self.inactive else None)


def checked_names(classes: Names | None) -> tuple[int, tuple[str, ...] | None] | None:
    """How many classes the caller says there are, and what they are called."""
    if classes is None:
        return None
    if isinstance(classes, (int, np.integer)) and not isinstance(classes, bool):
        number, names = int(classes), None
    elif isinstance(classes, (list, tuple)) and all(isinstance(name, str) and name.strip() for name in classes):
        number, names = len(classes), tuple(name.strip() for name in classes)
    else:
        raise InputError(f"classes is {classes!r}; expected how many there are, or a name of each.")
    if not 2 <= number <= MOST_CLASSES:
        found = f"is {number:,}" if names is None else f"has {counted(number, 'name')}"
        raise InputError(f"classes {found}; expected 2 to {MOST_CLASSES:,} classes.")
    if names is not None and len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"classes has {twice!r} twice; expected a name of its own for each.")
    return number, names


def drawn_classes(drawn: Drawn, said: tuple[int, tuple[str, ...] | None] | None) -> Classes:
    """The classes of scribbles: those that occur, or 1 to as many as the caller says, all of which must."""
    if said is None:
        if len(drawn.numbers) < 2:
            found = f"class {drawn.numbers[0]} alone" if drawn.numbers else "no class"
            raise InputError(f"scribbles hold {found}; expected strokes of at least two classes.")
        if len(drawn.numbers) > MOST_CLASSES:
            raise InputError(
                f"scribbles hold {len(drawn.numbers):,} classes; expected at most {MOST_CLASSES:,}. Are they labels "
                f"of something else?"
            )
        return Classes.of(drawn.numbers, drawn.names)
    number, names = said
    names = names or drawn.names
    classes = Classes.of(range(1, number + 1), names)
    for one in drawn.numbers:
        if one > number:
            raise InputError(f"scribbles hold class {one}, and there are {number} classes; expected 1 to {number}.")
    lacking = [classes.by_number[one] for one in classes.numbers if one not in drawn.numbers]
    if lacking:
        raise InputError(
            f"scribbles hold no stroke of {_listed(lacking)}; draw at least one of each of {number} classes, or leave "
            f"classes out."
        )
    return classes


def soft_classes(count: int, said: tuple[int, tuple[str, ...] | None] | None, drawn: Drawn | None) -> Classes:
    """The classes of a probability map, numbered from 0; scribbles name them by the same numbers."""
    names = None if said is None else said[1]
    if said is not None and said[0] != count:
        raise InputError(f"probability has {count} classes, and classes says {said[0]}; expected as many.")
    if drawn is not None and drawn.numbers and drawn.numbers[-1] >= count:
        raise InputError(
            f"scribbles hold class {drawn.numbers[-1]}, and probability has {count} classes, 0 to {count - 1}; "
            f"expected their numbers. 0 means that nothing is drawn, so that the first class cannot be."
        )
    return Classes.of(range(count), names)


def _listed(names: Sequence[str]) -> str:
    kind = "class " if len(names) == 1 else "classes "
    return kind + ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


@dataclass(frozen=True)
class SoftAxes:
    """How a probability map lies on an image: which axis of it is classes."""

    label_axis: int
    count: int

    @classmethod
    def of(
        cls, probability: Any, image: Any, channel_axis: int | None, label_axis: int | None, *, several: bool
    ) -> SoftAxes | None:
        """None of a map without classes: one that is shaped like the image, or like the image without channels.

        `several` says that the caller expects classes.
        """
        found, pixels = known_shape("probability", probability), known_shape("image", image)
        fitting = _shapes_of_sites(pixels, channel_axis)
        if label_axis is None and not several and found in fitting:
            return None
        if label_axis is not None:
            axis = _axis(label_axis, found)
            fits = [axis] if found[:axis] + found[axis + 1 :] in fitting else []
        else:
            if channel_axis is None and pixels[-1] > MOST_COLORS and (not several or found == pixels):
                fitting = [pixels]  # else a map of foreground could pass for one of classes
            fits = [k for k in dict.fromkeys((0, len(found) - 1)) if found and found[:k] + found[k + 1 :] in fitting]
        if len(fits) > 1:
            raise InputError(
                f"probability is shaped {found} and the image {pixels}: classes may be first or last; say "
                f"label_axis=0 or label_axis=-1."
            )
        if not fits:
            if label_axis is None and not several and len(found) != len(fitting[0]) + 1:
                return None  # a map of foreground that does not fit
            raise _misfit(found, pixels, fitting, label_axis)
        count = found[fits[0]]
        if not 2 <= count <= MOST_CLASSES:
            raise InputError(
                f"probability is shaped {found}, with {count:,} classes on axis {fits[0]}; expected 2 to "
                f"{MOST_CLASSES:,}. Of two labels a map of foreground alone will do, of the image's shape."
            )
        return cls(fits[0], count)


def _shapes_of_sites(pixels: tuple[int, ...], channel_axis: int | None) -> list[tuple[int, ...]]:
    """Shapes that the sites of an image may have."""
    if channel_axis is not None:
        axis = _axis(channel_axis, pixels, "channel_axis", "the image")
        return [pixels[:axis] + pixels[axis + 1 :]]
    return [pixels, pixels[:-1]] if len(pixels) > 1 else [pixels]


def _axis(axis: int, shape: tuple[int, ...], name: str = "label_axis", of: str = "probability") -> int:
    try:
        number = operator.index(axis)
    except TypeError:
        raise InputError(f"{name} is {axis!r}; expected the number of an axis.") from None
    if not -len(shape) <= number < len(shape):
        raise InputError(f"{name} is {number}; expected an axis of {of}, shaped {shape}.")
    return number % len(shape)


def _misfit(
    found: tuple[int, ...], pixels: tuple[int, ...], fitting: list[tuple[int, ...]], label_axis: int | None
) -> InputError:
    likely = fitting[:1] if pixels[-1] > MOST_COLORS else fitting
    other = [k for k in range(len(found)) if found[:k] + found[k + 1 :] in likely]
    said = "" if label_axis is None else f" with classes on axis {label_axis}"
    if found in fitting:
        advice = "A map of foreground alone, as this may be, has none: leave classes and label_axis out."
    elif other:
        advice = " or ".join(f"label_axis={k}" for k in other) + " would fit."
    else:
        advice = fitting_in_words(found, pixels) or "Crop or resample one of them."
    return InputError(
        f"probability is shaped {found}{said}, and the image {pixels}; expected the image's sites, and an axis of "
        f"classes. {advice}"
    )
