"""The unary and the pairs of a grid's energy, from the arrays and numbers that a caller gave."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dope.arrays import Mask, Reals, as_mask, as_numbers, as_reals, check_finite, measure_span
from dope.errors import InputError
from dope.pairs import GridPairs, Kernel, ends, half_offsets, mean_contrast_beta, offset_lengths
from dope.stored import Stored, StoredMask, StoredPixels, StoredUnary, is_readable, lies_elsewhere


def grid_terms(
    unary: Any,
    *,
    lam: float,
    kernel: Kernel,
    features: Any,
    beta: float | None,
    spacing: Sequence[float] | None,
    weights: Any,
    mask: Any,
    channel_axis: int | None,
) -> tuple[Reals, GridPairs]:
    """What `Energy.grid` is made of; its arguments."""
    elsewhere = any(map(lies_elsewhere, (unary, features, mask)))
    if elsewhere:
        prices = StoredUnary(unary if is_readable(unary) else stored("unary", unary))
        if not prices.shape or math.prod(prices.shape) == 0:
            raise InputError(f"unary has shape {prices.shape}; expected at least one site.")
        found = cast("Reals", prices)
    else:
        mask = None if mask is None else checked_mask(mask)
        found = checked_unary(unary, mask)
    return found, grid_pairs(
        found.shape, elsewhere=elsewhere, lam=lam, kernel=kernel, features=features, beta=beta, spacing=spacing,
        weights=weights, mask=mask, channel_axis=channel_axis,
    )  # fmt: skip


def grid_pairs(
    shape: tuple[int, ...],
    *,
    elsewhere: bool,
    lam: float,
    kernel: Kernel,
    features: Any,
    beta: float | None,
    spacing: Sequence[float] | None,
    weights: Any,
    mask: Any,
    channel_axis: int | None,
) -> GridPairs:
    """The pairs of the same on a grid of this shape; arrays that lie `elsewhere` are left there, and none is read."""
    if features is not None and weights is not None:
        raise InputError("both features and weights are given; expected one of them, as each sets the weights.")
    if features is None and beta is not None:
        raise InputError("beta is given without features; it only enters contrast-sensitive weights.")
    strength = _checked_number("lam", lam)
    offsets = half_offsets(kernel, len(shape))
    distances = offset_lengths(offsets, spacing)
    inside = None if mask is None else (_stored_mask(mask, shape) if elsewhere else checked_mask(mask))
    if features is None:
        return replace(_weighted_pairs(shape, offsets, strength, weights), inside=inside)
    factors = strength / distances
    if not elsewhere:
        pixels = _channels_last(as_numbers("features", features), shape, channel_axis)
        return _contrast_pairs(shape, offsets, factors, pixels, beta, inside)
    left = stored("features", features)
    if left.channels is None:
        left = replace(left, channels=_channel_axis(left.shape, shape, channel_axis))
    plain = GridPairs(shape, offsets, factors, np.zeros((0, 2)), beta=_checked_beta(beta), inside=inside)
    return _contrasted(plain, StoredPixels(left))


def _stored_mask(mask: Any, shape: tuple[int, ...]) -> Any:
    region = stored("mask", mask)
    if region.shape != shape:
        raise InputError(f"mask has shape {region.shape}; expected the unary's {shape}.")
    return StoredMask(region)


def checked_unary(unary: npt.ArrayLike, inside: Mask | None = None) -> Reals:
    """The unary as an array of at least one site, finite, with a price above 0 outside a mask."""
    prices = as_reals("unary", unary)
    if prices.ndim == 0 or prices.size == 0:
        raise InputError(f"unary has shape {prices.shape}; expected at least one site.")
    if inside is not None:
        if inside.shape != prices.shape:
            raise InputError(f"mask has shape {inside.shape}; expected the unary's {prices.shape}.")
        # Any price above 0 keeps label 1 away; one like the others leaves every scale as it is.
        with np.errstate(invalid="ignore"):
            outside = float(np.abs(prices).max(where=inside, initial=0.0)) or 1.0
        prices = np.where(inside, prices, prices.dtype.type(outside))
    check_finite("unary", prices)
    return prices


def checked_mask(mask: npt.ArrayLike) -> Mask:
    """The mask as an array of bool in which something is True."""
    inside = as_mask(mask)
    if not inside.any():
        raise InputError(f"mask of shape {inside.shape} has no site inside; expected True where sites take part.")
    return np.ascontiguousarray(inside)


def _checked_number(name: str, value: float) -> float:
    number = np.asarray(value)
    if number.ndim or number.dtype.kind not in "fiu" or not np.isfinite(number):
        raise InputError(f"{name} is {value!r}; expected a finite number.")
    return float(number)


def _channels_last(pixels: npt.NDArray[Any], shape: tuple[int, ...], channel_axis: int | None) -> npt.NDArray[Any]:
    axis = _channel_axis(pixels.shape, shape, channel_axis)
    return pixels[..., None] if axis is None else np.moveaxis(pixels, axis, -1)


def _channel_axis(found: tuple[int, ...], shape: tuple[int, ...], channel_axis: int | None) -> int | None:
    """The axis of features that the sites do not have, None where there is none."""
    if channel_axis is None and found == shape:
        return None
    axis = (-1 if channel_axis is None else channel_axis) % max(1, len(found))
    if len(found) != len(shape) + 1 or found[:axis] + found[axis + 1 :] != shape or not found[axis]:
        raise InputError(f"features have shape {found}; expected the unary's {shape}, or that with channels last.")
    return axis


def _contrast_pairs(
    shape: tuple[int, ...],
    offsets: npt.NDArray[np.int64],
    factors: npt.NDArray[np.float64],
    pixels: npt.NDArray[Any],
    beta: float | None,
    inside: Mask | None,
) -> GridPairs:
    check_finite("features", pixels, box=tuple(slice(0, n) for n in shape), inside=inside)
    sharpness = _checked_beta(beta)
    if sharpness is None:
        sharpness = mean_contrast_beta(pixels, offsets, inside)
    return _contrasted(GridPairs(shape, offsets, factors, np.zeros((0, 2)), beta=sharpness, inside=inside), pixels)


def _contrasted(pairs: GridPairs, pixels: Any) -> GridPairs:
    factors = pairs.factors
    bounds = np.stack([np.minimum(factors, 0), np.maximum(factors, 0)], axis=1)
    return replace(pairs, bounds=bounds, features=pixels)


def _checked_beta(beta: float | None) -> float | None:
    sharpness = None if beta is None else _checked_number("beta", beta)
    if sharpness is not None and sharpness < 0:
        raise InputError(f"beta is {sharpness}; expected 0 or more.")
    return sharpness


def stored(name: str, array: Any) -> Stored:
    """An array of real numbers, left where it is."""
    left = array if isinstance(array, Stored) else Stored.of(name, array)
    if left.dtype.kind not in "fiub":
        raise InputError(f"{left.name} has dtype {left.dtype}; expected real numbers. Convert it to float first.")
    return left


def _weighted_pairs(shape: tuple[int, ...], offsets: npt.NDArray[np.int64], lam: float, weights: Any) -> GridPairs:
    if weights is None:
        weights = 1.0
    if not hasattr(weights, "__len__") or getattr(weights, "ndim", 1) == 0:
        weights = [weights] * len(offsets)
    if len(weights) != len(offsets):
        raise InputError(f"weights has {len(weights)} entries; expected one per half-offset, {len(offsets)}.")
    values = [as_reals(f"weights[{m}]", w) for m, w in enumerate(weights)]
    if all(value.ndim == 0 for value in values):
        factors = lam * np.array([float(value) for value in values])
        if not np.isfinite(factors).all():
            raise InputError(f"lam x weights are {factors.tolist()}; expected finite numbers.")
        return GridPairs(shape, offsets, factors, np.stack([factors, factors], axis=1))
    fields, bounds, spans = [], [], []
    for m, (value, offset) in enumerate(zip(values, offsets.tolist(), strict=True)):
        field = np.broadcast_to(value, shape) if value.ndim == 0 else value
        if field.shape != shape:
            raise InputError(f"weights[{m}] has shape {field.shape}; expected a number or the unary's shape {shape}.")
        inside = field[ends(offset)[0]] if all(abs(o) < n for o, n in zip(offset, shape, strict=True)) else field[:0]
        span = measure_span(inside, factor=lam)
        check_finite(f"weights[{m}]", inside, span)
        fields.append(field)
        bounds.append(sorted((lam * min(0.0, span.low), lam * max(0.0, span.high))))
        spans.append(span)
    return GridPairs(
        shape, offsets, np.full(len(offsets), lam), np.array(bounds), fields=tuple(fields), spans=tuple(spans)
    )
