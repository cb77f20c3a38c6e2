"""The costs of several labels, settled at the door: which axis is labels, and that they are finite numbers.

And what a label costs over the best other one, in memory or read box by box.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, Mask, as_numbers, as_reals, check_finite, known_shape, measure_span
from dope.errors import InputError
from dope.grid_terms import stored
from dope.metric import Metric
from dope.pairs import GraphPairs, GridPairs, strips
from dope.stored import Stored, StoredCosts, is_readable

# With more, tables of every two labels and messages of every label take more than the costs themselves are worth.
MOST_LABELS = 1024
# Costs looked at in one go, so that what is computed of them stays in the second-level cache.
_STRIP_COSTS = 1 << 17


@dataclass(frozen=True, eq=False)
class Prices:
    """What follows from the costs of a site alone, read box by box where they are."""

    costs: StoredCosts

    @property
    def name(self) -> str:
        return self.costs.name

    @property
    def corner(self) -> tuple[int, ...] | None:
        return self.costs.corner

    @property
    def shape(self) -> tuple[int, ...]:
        return self.costs.shape[:-1]

    @property
    def site_bytes(self) -> int:
        return self.costs.site_bytes

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return self.costs.chunks

    def excerpt(self, box: Box) -> Self:
        return replace(self, costs=self.costs.excerpt(box))


@dataclass(frozen=True, eq=False)
class LabelPrices(Prices):
    """What a label costs over the best other one."""

    label: int

    def at(self, box: Box) -> npt.NDArray[np.float64]:
        return label_prices(self.costs[box], self.label)


def label_prices(costs: npt.NDArray[Any], label: int) -> npt.NDArray[np.float64]:
    """c_i(a) - min_{b != a} c_i(b)."""
    prices = np.empty(costs.shape[:-1])
    others = [b for b in range(costs.shape[-1]) if b != label]
    with np.errstate(invalid="ignore"):  # outside a mask costs may be anything
        for strip in cost_strips(costs):
            here = costs[strip]
            least = here[..., others[0]].astype(np.float64)
            for b in others[1:]:
                np.minimum(least, here[..., b], out=least)
            prices[strip] = here[..., label] - least
    return prices


def cost_strips(costs: npt.NDArray[Any]) -> Iterator[Box]:
    """Boxes of sites, so few that their costs stay in a cache."""
    return strips(costs.shape[:-1], max(1, _STRIP_COSTS // costs.shape[-1]))


def checked_axes(costs: Any, label_axis: int) -> tuple[int, tuple[int, ...], int]:
    """Which axis of the costs is labels, the shape of the sites, and how many labels there are."""
    if is_readable(costs) and not isinstance(costs, Stored):
        sites, label_count = tuple(costs.shape), int(costs.label_count)
        check_label_count(label_count, "costs")
        return len(sites), sites, label_count
    shape = known_shape("costs", costs)
    if isinstance(costs, Stored) and costs.channels is not None:
        sites, axis = shape, costs.channels
        label_count = int(costs.array.shape[axis])
    else:
        try:
            axis = operator.index(label_axis)
        except TypeError:
            raise InputError(f"label_axis is {label_axis!r}; expected the number of an axis of the costs.") from None
        if len(shape) < 2:
            raise InputError(f"costs have shape {shape}; expected axes of sites and one of labels, the last.")
        if not -len(shape) <= axis < len(shape):
            raise InputError(f"label_axis is {axis}; expected an axis of the costs, whose shape is {shape}.")
        axis %= len(shape)
        sites, label_count = shape[:axis] + shape[axis + 1 :], shape[axis]
    if math.prod(sites) == 0:
        raise InputError(f"costs have shape {shape}; expected at least one site.")
    check_label_count(label_count, f"costs have shape {shape}, and axis {axis} of labels")
    return axis, sites, label_count


def check_label_count(label_count: int, what: str) -> None:
    """Refuse one label, and more than are offered."""
    if not 2 <= label_count <= MOST_LABELS:
        raise InputError(
            f"{what} has {label_count} of them; expected 2 to {MOST_LABELS}. label_axis says which axis is labels; of "
            f"two labels both have costs."
        )


def check_alike(shape: tuple[int, ...], axis: int, mask: Any, features: Any, channel_axis: int | None) -> None:
    """Refuse a mask or features of other sites than the costs', and say which label axis would fit them."""
    given = {"mask": mask, "features": features}
    shapes = {name: known_shape(name, array) for name, array in given.items() if array is not None}
    pixels = shapes.get("features", ())
    channel = (-1 if channel_axis is None else channel_axis) % max(1, len(pixels))

    def misfit(labels: int) -> str | None:
        sites = shape[:labels] + shape[labels + 1 :]
        if shapes.get("mask", sites) != sites:
            return "mask"
        colors = pixels[:channel] + pixels[channel + 1 :]
        return "features" if pixels and sites not in (pixels, colors) else None

    if axis < len(shape) and (name := misfit(axis)) is not None:
        fitting = [f"label_axis={k}" for k in range(len(shape)) if misfit(k) is None]
        advice = f"{' or '.join(fitting)} would fit" if fitting else "no label_axis would fit"
        sites = shape[:axis] + shape[axis + 1 :]
        raise InputError(
            f"{name} has shape {shapes[name]}, but costs of shape {shape} with labels on axis {axis} are of sites "
            f"{sites}; expected the same sites: {advice}."
        )


def stored_costs(costs: Any, axis: int) -> Stored:
    """Costs that are read box by box, labels on their last axis."""
    return replace(stored("costs", costs), channels=axis)


def graph_costs(costs: npt.ArrayLike) -> npt.NDArray[Any]:
    """A cost per site of a graph, and label."""
    held = as_numbers("costs", costs)
    if held.ndim != 2 or not len(held):
        raise InputError(f"costs of a graph have shape {held.shape}; expected (n, L), a cost per site and label.")
    check_label_count(held.shape[1], f"costs have shape {held.shape}, and axis 1 of labels")
    check_costs(held, None)
    return held


def check_strength(pairs: GridPairs | GraphPairs, metric: Metric, label_count: int) -> None:
    """Refuse pairs that cost more than float64 holds."""
    with np.errstate(over="ignore", invalid="ignore"):
        most = np.abs(metric.matrix(label_count)).max() * pairs.strength
    if not np.isfinite(most):
        raise InputError("what a site's pairs cost adds up beyond float64; scale weights and metric down first.")


def check_costs(costs: npt.NDArray[Any], inside: Mask | None, box: Box | None = None) -> None:
    """Refuse costs that are no finite numbers, or integers that float64 rounds."""
    if costs.dtype.kind in "iu" and costs.dtype.itemsize == 8:
        for strip in cost_strips(costs):
            as_reals("costs", costs[strip])
    if costs.dtype.kind != "f":
        return
    for strip in cost_strips(costs):
        here, sites = costs[strip], None if inside is None else inside[strip]
        if measure_span(here, most=-1).beyond < 0:
            continue
        place = strip
        if box is not None:
            place = tuple(slice(s.start + b.start, None) for s, b in zip(strip, box, strict=True))
        for label in range(costs.shape[-1]):
            check_finite(f"costs of label {label}", here[..., label], box=place, inside=sites)
