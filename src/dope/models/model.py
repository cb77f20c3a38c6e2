"""What a model is: pixels and strokes in, unaries out."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray


@runtime_checkable
class Model(Protocol):
    """A small frozen dataclass of settings; what it learns from an image lasts for one call."""

    def unary(self, image: ArrayLike, seeds: ArrayLike) -> NDArray[np.float32]:
        """log p(background | x) - log p(foreground | x) at every site, clipped; shaped like `seeds`.

        Seeds are as drawn: 0 where nothing is known, 1 on foreground, 2 on background.
        """
        ...
