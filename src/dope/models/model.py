"""What a model is: pixels and strokes in, unaries out."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.models.channels import ClassSample, Sample, as_channels
from dope.scribbles import as_seeds


@runtime_checkable
class Model(Protocol):
    """A small frozen dataclass of settings."""

    def unary(self, image: ArrayLike, seeds: ArrayLike) -> NDArray[np.float32]:
        """log p(background | x) - log p(foreground | x) at every site, clipped; shaped like `seeds`.

        Seeds are as drawn: 0 where nothing is known, 1 on foreground, 2 on background.
        """
        ...


class Colors(Protocol):
    """What a model has learnt: small, can be pickled, and applied to any part of the image."""

    def unary(self, pixels: NDArray[Any]) -> NDArray[np.float32]:
        """Of rows of channels a number each, which depends on that row alone, to the bit."""
        ...


@runtime_checkable
class LearningModel(Model, Protocol):
    """A model that learns from a sample, so that it works on an image that is read box by box.

    `unary` of an image is what `learn` gives, applied to all of it: `learnt_unary` says so for all of them.
    """

    @property
    def looks_around(self) -> bool:
        """Whether it wants a sample of all of the image, too."""
        ...

    def learn(self, sample: Sample) -> Colors: ...


class ClassColors(Protocol):
    """What a model has learnt of several labels."""

    def costs(self, pixels: NDArray[Any]) -> NDArray[np.float32]:
        """Of rows of channels a row of costs each, one per label, which depends on that row alone, to the bit."""
        ...


@runtime_checkable
class ClassModel(Protocol):
    """A model that learns several labels: in the order of the sample's strokes."""

    @property
    def looks_around(self) -> bool:
        """Whether it wants a sample of all of the image, too."""
        ...

    def learn_classes(self, sample: ClassSample) -> ClassColors: ...


def learnt_unary(model: LearningModel, image: ArrayLike, seeds: ArrayLike) -> NDArray[np.float32]:
    """The unary of an image in memory: learn from what lies under the seeds, and apply."""
    fixed = as_seeds("seeds", seeds, both=True)
    rows = as_channels(image, fixed.shape)
    colors = model.learn(Sample.of(rows, fixed, looks_around=model.looks_around))
    return colors.unary(rows).reshape(fixed.shape)
