"""Seeds of a frame, read box by box: what scribbles and an outline fix, as far as it lies inside the mask."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, Mask
from dope.models.seeds import Lasso, Rectangle
from dope.scribbles import BACKGROUND, UNLABELED, as_class_seeds, as_seeds
from dope.segmentation.boxes import corner_of, moved, sides_of
from dope.stored import Stored


@dataclass(frozen=True, eq=False)
class SeedMap:
    """Label numbers where sites are fixed, UNLABELED elsewhere.

    `frame` is the box of the image that it shows; what it is made of lies on all of the image. Of several classes,
    labels are places in `numbers`.
    """

    frame: Box
    scribbles: Stored | None
    outline: Rectangle | Lasso | None
    mask: Stored | None
    numbers: tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return sides_of(self.frame)

    @property
    def site_bytes(self) -> int:
        return 1 + sum(part.site_bytes for part in (self.scribbles, self.mask) if part is not None)

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return None if self.scribbles is None else self.scribbles.chunks

    def at(self, box: Box) -> npt.NDArray[np.int8 | np.int16]:
        there = moved(box, corner_of(self.frame))
        seeds: npt.NDArray[Any]
        if self.scribbles is None:
            seeds = np.full(sides_of(box), UNLABELED, dtype=np.int8)
        elif self.numbers is not None:
            seeds = as_class_seeds("scribbles", self.scribbles.at(there), self.numbers, corner=corner_of(there))
        else:
            seeds = as_seeds("scribbles", self.scribbles.at(there), corner=corner_of(there))
        if self.outline is not None:
            seeds[(seeds == UNLABELED) & ~self.outline.inside_at(there)] = BACKGROUND
        inside = self.inside_at(box)
        if inside is not None:
            seeds[~inside] = UNLABELED  # strokes outside are nobody's
        return seeds

    def inside_at(self, box: Box) -> Mask | None:
        """Which sites of a box take part, None for all."""
        return None if self.mask is None else self.mask.at(moved(box, corner_of(self.frame))) != 0

    def excerpt(self, box: Box) -> SeedMap:
        there = moved(box, corner_of(self.frame))
        return replace(
            self,
            scribbles=self.scribbles and self.scribbles.excerpt(there),
            mask=self.mask and self.mask.excerpt(there),
        )
