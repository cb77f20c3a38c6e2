"""What pictures of a segmentation are drawn of, the picture of `--overlay`, and what a page says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dope.cli.outcome import Outcome
from dope.cli.record import command, versions
from dope.report import PageContent, overlay, slices

# Sites of a volume that pictures are drawn of, where it is read box by box.
MOST_SEEN = 1 << 26


@dataclass(frozen=True, eq=False)
class Seen:
    """What pictures are drawn of: of a volume that does not fit, every n-th site along each axis."""

    pixels: Any
    labels: Any
    seeds: Any
    mask: Any
    spacing: tuple[float, ...] | None
    every: int

    @classmethod
    def of(cls, outcome: Outcome, labels: Any) -> Seen:
        said, axes = outcome.opened.said, len(labels.shape)
        every, several = 1, outcome.result.classes is not None
        if not isinstance(labels, np.ndarray):
            every = math.ceil((math.prod(labels.shape) / MOST_SEEN) ** (1 / axes))
        return cls(
            pixels=every_nth(said.image, every, axes),
            labels=every_nth(labels, every, axes) if several else every_nth(labels, every, axes) != 0,
            # Strokes of several classes have no colours of their own yet.
            seeds=None if said.scribbles is None or several else every_nth(said.scribbles, every, axes),
            mask=None if said.mask is None else np.asarray(every_nth(said.mask, every, axes)) != 0,
            spacing=None if said.spacing is None else tuple(said.spacing),
            every=every,
        )

    def picture(self) -> Any:
        """The labels on the image."""
        if self.labels.ndim == 3:
            channels = len(self.pixels.shape) > 3
            return slices(self.pixels, self.labels, self.seeds, spacing=self.spacing, channels=channels)
        return overlay(self.pixels, self.labels, self.seeds)


def every_nth(array: Any, every: int, dimensions: int) -> Any:
    """Every n-th site along each axis of sites, read plane by plane."""
    if every == 1:
        return np.asarray(array[...])
    rest = (slice(None, None, every),) * (dimensions - 1)
    planes = [np.asarray(array[z : z + 1])[(slice(None), *rest)] for z in range(0, array.shape[0], every)]
    return np.concatenate(planes)


def page_content(outcome: Outcome, seen: Seen) -> PageContent:
    result = outcome.result
    assert result.where is not None
    places = [block.where for block in result.partition.blocks if isinstance(block.where, tuple)]
    moved = [
        tuple(
            slice((s.start + w.start) // seen.every, -(-(s.stop + w.start) // seen.every))
            for s, w in zip(place, result.where, strict=True)
        )
        for place in places
    ]
    settings = outcome.settings
    return PageContent(
        title=Path(outcome.said.image).name,
        image=seen.pixels,
        channels=len(seen.pixels.shape) > seen.labels.ndim,
        labels=seen.labels,
        seeds=seen.seeds,
        mask=seen.mask,
        blocks=moved,
        trace=result.trace,
        summary=outcome.summary,
        settings=settings if seen.every == 1 else {**settings, "pictures show every n-th site": seen.every},
        versions=versions(),
        command=command(),
        spacing=seen.spacing,
        names=result.classes or {},
        counts=None if result.classes is None else result.counts,
    )
