"""Scribbles: what a user draws, and the labels it stands for.

In files and in arrays a user draws 1 on foreground and 2 on background, and leaves 0 where nothing is known. Past the
door the same are *seeds*: the number of the label where a site is fixed, UNLABELED elsewhere. Only here does it say
which number drawn is which label.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.arrays import as_array
from dope.errors import InputError

Scribbles = NDArray[np.integer[Any]]
"""As drawn: 0 where nothing is, 1 on foreground, 2 on background."""
Seeds = NDArray[np.int8]
"""Label numbers where sites are fixed, UNLABELED elsewhere."""

UNLABELED = -1
BACKGROUND, FOREGROUND = 0, 1
NAMES = {FOREGROUND: "foreground", BACKGROUND: "background"}
DRAWN = {FOREGROUND: 1, BACKGROUND: 2}
"""What is drawn for a label."""

_MOST = max(DRAWN.values())
_EXPECTED = "expected 0 none, " + ", ".join(f"{drawn} {NAMES[label]}" for label, drawn in DRAWN.items())


def as_seeds(name: str, scribbles: ArrayLike, *, both: bool = False, corner: Sequence[int] | None = None) -> Seeds:
    """Scribbles as label numbers; `both` kinds must occur where a model learns from them.

    `corner` is the place of the first site, where they are only a part.

    Examples
    --------
    >>> as_seeds("scribbles", [0, 1, 2])
    array([-1,  1,  0], dtype=int8)
    """
    drawn = as_array(name, scribbles)
    if drawn.dtype.kind not in "iu":
        raise InputError(f"{name} are of type {drawn.dtype}; expected integers: {_EXPECTED.removeprefix('expected ')}")
    if drawn.size == 0:
        raise InputError(f"{name} are empty, shaped {drawn.shape}; expected at least one site")
    check_scribbles(name, drawn, str if corner is None else lambda at: str(tuple(map(operator.add, at, corner))))
    seeds = np.asarray(_MOST - drawn.astype(np.int8))
    seeds[seeds == _MOST] = UNLABELED
    if both:
        for label in NAMES:
            if not (seeds == label).any():
                raise lacking(name, label)
    return seeds


def as_class_seeds(
    name: str, scribbles: ArrayLike, numbers: Sequence[int], *, corner: Sequence[int] | None = None
) -> NDArray[np.int16]:
    """Scribbles of several classes as the places of their numbers, which ascend; negative sites are nobody's.

    >>> as_class_seeds("scribbles", [0, 5, 1, -1], [1, 5])
    array([-1,  1,  0, -1], dtype=int16)
    """
    drawn = as_array(name, scribbles)
    if drawn.dtype.kind not in "iu":
        raise InputError(f"{name} are of type {drawn.dtype}; expected integers: 0 none, and the number of a class")
    known = np.asarray(numbers)
    found = np.minimum(np.searchsorted(known, drawn), len(known) - 1)
    wrong = (known[found] != drawn) & (drawn > 0)
    if wrong.any():
        at = tuple(int(k) for k in np.unravel_index(int(np.argmax(wrong)), drawn.shape))
        place = at if corner is None else tuple(map(operator.add, at, corner))
        raise InputError(f"{name}: class {drawn[at]} at {place}; expected one of {len(known)} classes that were there")
    seeds = found.astype(np.int16)
    seeds[drawn <= 0] = UNLABELED
    return seeds


def lacking(name: str, label: int) -> InputError:
    """What to say of scribbles without a stroke of a label."""
    return InputError(f"{name} hold no {NAMES[label]} ({DRAWN[label]}); draw at least one stroke of each kind")


def as_scribbles(seeds: Seeds) -> NDArray[np.int8]:
    """Label numbers as they are drawn.

    Examples
    --------
    >>> as_scribbles(np.array([-1, 1, 0], dtype=np.int8))
    array([0, 1, 2], dtype=int8)
    """
    drawn = np.asarray(_MOST - seeds)
    drawn[seeds == UNLABELED] = 0
    return drawn


def check_scribbles(name: str, scribbles: NDArray[Any], place: Callable[[tuple[int, ...]], str] = str) -> None:
    """Refuse numbers that stand for no label, naming the first one and where it is."""
    # Of whole numbers the extremes say all; numbers with fractions, which files may hold, are looked at one by one.
    if scribbles.dtype.kind in "iub" and (scribbles.size == 0 or 0 <= scribbles.min() <= scribbles.max() <= _MOST):
        return
    wrong = scribbles != 0
    for drawn in DRAWN.values():
        wrong &= scribbles != drawn
    if wrong.any():
        at = tuple(int(k) for k in np.unravel_index(int(np.argmax(wrong)), scribbles.shape))
        more = " (two labels so far)" if scribbles[at] > _MOST else ""
        raise InputError(f"{name}: label {scribbles[at]} at {place(at)}; {_EXPECTED}{more}")
