"""A run in plain values: what went in, what came out, and all it takes to do it again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dope.arrays import Box, Labels
from dope.errors import InputError
from dope.label_counts import count_labels, several_labels
from dope.report.scene import checked_spacing
from dope.steps import Step
from dope.steps import plain as plain_step

_LONGEST_TEXT = 2000  # characters of a setting that is some object
_MOST_NUMBERS = 64  # of an array that is written out
_MOST_STEPS = 1000  # of a trace that is written out


@dataclass(frozen=True, eq=False)
class PageContent:
    """Everything that a page tells of a run.

    Attributes
    ----------
    title : of the page.
    image : array over the sites, channels last; None where there is none.
    channels : whether the image's last axis holds channels.
    labels : bool or integer array; pictures are drawn of two or three axes, of others there are tables and plots.
    seeds : integer array over the sites, 1 foreground and 2 background; None where there are none.
    mask : bool array over the sites, the region that was looked at; None for everything.
    blocks : the slices of each block, one per axis; empty for a graph.
    trace : the rounds.
    summary : what is known about the labels, by name: energy, lower_bound, gap, exact, rounding_error, proved, stopped,
        seconds, peak_bytes. Missing ones are left out, others are shown in a table.
    settings, versions : of the run and of the packages that did it, by name.
    command : the command or call that does it again.
    spacing : the length of a site along every axis.
    up : the axis that points up in the picture of a volume's surface.
    names : what labels are called, by number; those that are not there are called by it.
    counts : how many sites have label 0, 1, ..., where `labels` are but some of them; None: as the labels say.
    """

    title: str
    image: NDArray[Any] | None
    channels: bool
    labels: Labels
    seeds: NDArray[Any] | None = None
    mask: NDArray[Any] | None = None
    blocks: Sequence[Box] = ()
    trace: Sequence[Step] = ()
    summary: Mapping[str, object] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    command: str | None = None
    spacing: tuple[float, ...] | None = None
    up: int = 2
    counts: Sequence[int] | None = None
    names: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shape = self.labels.shape
        image = None if self.image is None else self.image.shape[: -1 if self.channels else None]
        for name, found in (("image", image), ("seeds", _shape(self.seeds)), ("mask", _shape(self.mask))):
            if found is not None and found != shape:
                raise InputError(
                    f"{name} over sites shaped {found} and labels over {shape}; expected the same. "
                    f"channels={self.channels} says whether the image's last axis holds channels."
                )
        if self.image is not None and not self.image.size and self.labels.size:
            raise InputError(f"an image shaped {self.image.shape}; expected one channel at least, or no image.")
        if any(len(where) != len(shape) for where in self.blocks):
            raise InputError(f"blocks with other axes than the labels' {len(shape)}; expected a slice per axis.")
        checked_spacing(self.spacing, len(shape))

    @cached_property
    def several(self) -> dict[int, int]:
        """How many sites have which label, 0 among them, where there are more than two; else nothing."""
        found = self.counts
        if found is None:
            found = count_labels(self.labels).tolist() if several_labels(self.labels) else []
        return {label: int(sites) for label, sites in enumerate(found) if sites} if len(found) > 2 else {}

    @property
    def foreground(self) -> float | None:
        """The share of sites whose label is not 0."""
        if not self.labels.size:
            return None
        several = self.several
        return 1 - several.get(0, 0) / sum(several.values()) if several else float(self.labels.mean())

    def as_plain(self) -> dict[str, object]:
        """The run without its arrays, in what JSON knows."""
        every = max(1, math.ceil(len(self.trace) / _MOST_STEPS))
        return {
            "title": self.title,
            "shape": list(self.labels.shape),
            "spacing": plain(self.spacing),
            "foreground": self.foreground,
            **({"counts": {str(label): sites for label, sites in self.several.items()}} if self.several else {}),
            "summary": plain(known(self.summary)),
            "settings": plain(self.settings),
            "versions": plain(self.versions),
            "command": self.command,
            "blocks": [[[along.start, along.stop] for along in where] for where in self.blocks],
            "trace_every": every,
            "trace": [_known_of(step) for step in thinned(self.trace, _MOST_STEPS)],
        }


def thinned(trace: Sequence[Step], most: int) -> list[Step]:
    """Every second step, or third, until there are no more than so many; the last one always."""
    every = max(1, math.ceil(len(trace) / most))
    kept = list(trace[::every])
    return kept if not trace or kept[-1] is trace[-1] else [*kept, trace[-1]]


def plain(value: object) -> object:
    """A value in what JSON knows: objects by their repr, large arrays by their shape, no NaN or infinity."""
    if isinstance(value, np.generic):
        return plain(value.item())
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, np.ndarray):
        small = value.size <= _MOST_NUMBERS
        return plain(value.tolist()) if small else f"array of {value.dtype} shaped {value.shape}"
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return _shortened(str(value) if hasattr(value, "__fspath__") else repr(value))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…"


def known(values: Mapping[str, object]) -> dict[str, object]:
    """The values, with None for those that are not a number: nobody computed them."""
    return {name: None if _is_nan(value) else value for name, value in values.items()}


def _known_of(step: Step) -> dict[str, object]:
    return {name: value for name, value in plain_step(step).items() if value is not None}


def _is_nan(value: object) -> bool:
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _shape(array: NDArray[Any] | None) -> tuple[int, ...] | None:
    return None if array is None else array.shape
