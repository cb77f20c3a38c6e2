"""What a caller knows about an image: strokes, a probability, a unary, an outline."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, Mask, Reals, as_array, as_reals, check_finite, known_shape
from dope.errors import InputError
from dope.models.probability import probability_unary_at
from dope.models.seeds import Lasso, Rectangle, covers_all, holds_none
from dope.pairs import strips
from dope.scribbles import NAMES, lacking
from dope.segmentation.boxes import READ_SITES
from dope.segmentation.seed_map import SeedMap
from dope.stored import Stored


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the caller knows about the image."""

    scribbles: npt.ArrayLike | None
    probability: npt.ArrayLike | None
    unary: npt.ArrayLike | None
    rectangle: Any
    lasso: npt.ArrayLike | None

    def __post_init__(self) -> None:
        sources = {"probability": self.probability, "unary": self.unary, "rectangle": self.rectangle}
        given = [name for name, value in {**sources, "lasso": self.lasso}.items() if value is not None]
        if len(given) > 1:
            raise InputError(f"{' and '.join(given)} are given; expected one of them, with or without scribbles.")
        if not given and self.scribbles is None:
            raise InputError(
                "nothing is known about the image; pass scribbles, a probability, a unary, a rectangle or a lasso."
            )

    @property
    def outlined(self) -> bool:
        return self.rectangle is not None or self.lasso is not None

    @property
    def learnt(self) -> bool:
        """Whether unaries come from a model of the image's colours."""
        return self.probability is None and self.unary is None

    def unary_at(self, where: Box, inside: Mask | None) -> Reals:
        """Of a box, from what is not colours."""
        given: Any = self.unary if self.unary is not None else self.probability
        name = "unary" if self.unary is not None else "probability"
        part = as_array(name, (given if hasattr(given, "dtype") else as_array(name, given))[where])
        if self.unary is not None:
            check_finite(name, part, box=where, inside=inside)
            return as_reals(name, part)
        return probability_unary_at(where, part if inside is None else np.where(inside, part, part.dtype.type(0)))

    def sites(self, image: Any, channel_axis: int | None) -> tuple[int, ...]:
        """The shape of what is to be labelled."""
        for name in ("scribbles", "probability", "unary"):
            array = getattr(self, name)
            if array is not None:
                return known_shape(name, array)
        shape = known_shape("image", image)
        dimensions = 2 if self.lasso is not None else len(_pairs(self.rectangle))
        if len(shape) == dimensions:
            return shape
        axis = -1 if channel_axis is None else channel_axis
        return tuple(n for a, n in enumerate(shape) if a != axis % len(shape))

    def seed_map(self, shape: tuple[int, ...], where: Box, mask: Stored | None) -> SeedMap | None:
        """The labels that strokes and outlines fix in a box of an image of this shape, inside a mask of it."""
        if self.scribbles is None and not self.outlined:
            return None
        drawn = None if self.scribbles is None else Stored.of("scribbles", self.scribbles)
        if drawn is not None and drawn.shape != shape:
            raise InputError(f"scribbles are shaped {drawn.shape}; expected {shape}, as the rest is.")
        return SeedMap(where, drawn, self._outline(shape), mask)

    @staticmethod
    def region(mask: Stored | None) -> Stored | None:
        """Where sites take part, None for everywhere."""
        return mask

    def _outline(self, shape: tuple[int, ...]) -> Rectangle | Lasso | None:
        """Around the object, with sites on both sides of it."""
        if self.lasso is not None:
            lasso = Lasso.of(shape, self.lasso)
            inside, outside = False, False
            for strip in strips(shape, READ_SITES):
                part = lasso.inside_at(strip)
                inside, outside = inside or bool(part.any()), outside or not part.all()
                if inside and outside:
                    return lasso
            raise covers_all(lasso.name) if inside else holds_none(shape)
        if self.rectangle is None:
            return None
        rectangle = Rectangle.of(shape, _pairs(self.rectangle))
        if rectangle.sides == tuple((0, n) for n in shape):
            raise covers_all(rectangle.name)
        return rectangle

    def check_kinds(self, masked: bool, there: Callable[[int], bool]) -> None:
        """Refuse strokes of one kind only, where colours are learnt from them."""
        if self.scribbles is None or not self.learnt or self.outlined:
            return
        for label, name in NAMES.items():
            if not there(label) and masked:
                raise InputError(f"no {name} stroke lies inside the mask; expected at least one of each kind there.")
            if not there(label):
                raise lacking("scribbles", label)


def _pairs(rectangle: Sequence[slice] | Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    try:
        sides = [(side.start, side.stop) if isinstance(side, slice) else tuple(side) for side in rectangle]
        return [(operator.index(start), operator.index(stop)) for start, stop in sides]
    except (TypeError, ValueError):
        raise InputError(
            f"rectangle is {rectangle!r}; expected a start and a stop for each axis, such as ((10, 200), (30, 400))."
        ) from None
