"""From a network's soft map to unaries, and from one of several classes to costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.arrays import Box, Mask, as_numbers
from dope.errors import InputError

_STRIP_SITES = 1 << 16
# Of the sum of a softmax in floats, half precision and resampling included.
SUM_TOLERANCE = 0.02
# By which a resampled or rounded probability may pass 1.
_ABOVE_ONE = 1e-3


def probability_unary(probability: ArrayLike, *, clamp: float = 1e-3) -> NDArray[np.float32]:
    """u = log((1 - p) / p), the price of foreground at a site that is foreground with probability p.

    Parameters
    ----------
    probability : array
        Of foreground. Floats from 0 to 1, or unsigned integers, whose largest value then means 1 (255 for uint8).
    clamp : float
        p is taken to lie between clamp and 1 - clamp. The default, 1e-3, limits u to +-6.9. A map of bytes cannot tell
        probabilities below 1/510 from 0, networks err more often than the zeros they give out promise, and without a
        limit one such site outvotes any number of neighbours.

    Examples
    --------
    >>> probability_unary([0.5, 0.75, 1.0]).round(2).tolist()
    [0.0, -1.10..., -6.90...]
    >>> probability_unary(np.array([0, 255], dtype=np.uint8)).round(1).tolist()
    [6.90..., -6.90...]
    """
    soft = as_numbers("probability", probability)
    return probability_unary_at(tuple(slice(0, n) for n in soft.shape), soft, clamp=clamp)


def probability_unary_at(box: Box, probability: ArrayLike, *, clamp: float = 1e-3) -> NDArray[np.float32]:
    """The same of the probabilities of a box; what is wrong is named by its place in the whole."""
    soft = as_numbers("probability", probability)
    one = _one_of(soft.dtype, clamp)
    if soft.dtype == np.uint8:  # there are no more prices than bytes
        table = _prices(np.arange(256) / one, clamp)
        return table.take(soft)
    rows = soft.reshape(-1)
    unary = np.empty(rows.size, dtype=np.float32)
    for start in range(0, rows.size, _STRIP_SITES):
        p = rows[start : start + _STRIP_SITES].astype(np.float64) / one
        wrong = ~((p >= 0) & (p <= 1))  # NaN is neither
        if wrong.any():
            at = np.unravel_index(start + int(np.argmax(wrong)), soft.shape)
            raise _out_of_range(soft[at], _place(at, box))
        unary[start : start + p.size] = _prices(p, clamp)
    return unary.reshape(soft.shape)


def probability_costs(probability: ArrayLike, *, clamp: float = 1e-3) -> NDArray[np.float32]:
    """c(l) = -log p(l), what each class costs at each site, of a network's softmax.

    Parameters
    ----------
    probability : array
        Of each class, the last axis, which adds up to 1 within rounding. Floats from 0 to 1, or unsigned integers,
        whose largest value then means 1.
    clamp : float
        As in `probability_unary`: costs of two classes at a site differ by at most 6.9.

    Examples
    --------
    >>> (100 * probability_costs([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])).round().astype(int).tolist()
    [[69, 139, 139], [0, 691, 691]]
    """
    soft = as_numbers("probability", probability)
    if soft.ndim == 0:
        raise InputError("probability is a single number; expected one of each class at each site, classes last.")
    return probability_costs_at(tuple(slice(0, n) for n in soft.shape[:-1]), soft, clamp=clamp)


def probability_costs_at(
    box: Box, probability: ArrayLike, *, inside: Mask | None = None, clamp: float = 1e-3
) -> NDArray[np.float32]:
    """The same of a box of sites; outside a mask anything may be, which costs nothing."""
    soft = as_numbers("probability", probability)
    one = _one_of(soft.dtype, clamp)
    classes, number = soft.shape[-1], math.prod(soft.shape[:-1])
    rows = soft.reshape(number, classes)
    counted = None if inside is None else inside.reshape(-1)
    costs = np.empty(rows.shape, dtype=np.float32)
    # Of whole numbers each may be off by one, as they are cut rather than rounded.
    slack = SUM_TOLERANCE + (classes / one if soft.dtype.kind == "u" else 0.0)
    table = _surprise(np.arange(256) / one, clamp) if soft.dtype == np.uint8 else None
    for start in range(0, number, max(1, _STRIP_SITES // classes)):
        part = slice(start, min(number, start + max(1, _STRIP_SITES // classes)))
        if table is not None:  # bytes are between 0 and 1, and their sums are exact
            costs[part] = table[rows[part]]
            total = rows[part].astype(np.float32) @ np.ones(classes, dtype=np.float32) / one
        else:
            p = rows[part].astype(np.float64) / one
            if counted is not None:
                p[~counted[part]] = 1.0 / classes
            wrong = ~((p >= 0) & (p <= 1 + _ABOVE_ONE))  # NaN is neither
            if wrong.any():
                site, label = divmod(start * classes + int(np.argmax(wrong)), classes)
                at = (*np.unravel_index(site, soft.shape[:-1]), label)
                raise _out_of_range(soft[at], (*_place(at[:-1], box), label))
            costs[part] = _surprise(p, clamp)
            total = p @ np.ones(classes)  # far quicker than a sum along a short axis
        wrong = np.abs(total - 1.0) > slack
        if counted is not None:
            wrong &= counted[part]
        if wrong.any():
            site = int(np.argmax(wrong))
            place = _place(np.unravel_index(start + site, soft.shape[:-1]), box)
            raise InputError(
                f"probability of {classes} classes adds up to {total[site]:.6g} at {place}; expected 1. Put the "
                f"network's output through a softmax over its classes first, or say which axis they are (label_axis)."
            )
    if counted is not None:
        costs[~counted] = 0.0
    return costs.reshape(soft.shape)


def _surprise(p: NDArray[np.float64], clamp: float) -> NDArray[np.float32]:
    return (-np.log(np.clip(p, clamp, 1.0 - clamp))).astype(np.float32)


def _prices(p: NDArray[np.float64], clamp: float) -> NDArray[np.float32]:
    most = np.log1p(-clamp) - np.log(clamp)
    with np.errstate(divide="ignore"):  # 0 and 1 give infinities, which are clipped
        odds: NDArray[np.float64] = np.log1p(-p) - np.log(p)
    return np.clip(odds, -most, most).astype(np.float32)


def _one_of(dtype: np.dtype[Any], clamp: float) -> float:
    """Which number means 1."""
    if dtype.kind == "i":
        raise InputError(
            f"probability is of type {dtype}, which does not say what 1 is; expected floats from 0 to 1 or "
            "unsigned integers. Divide by the largest value first."
        )
    if not 0 < clamp < 0.5:
        raise InputError(f"clamp is {clamp}; expected a number between 0 and 0.5, such as 1e-3")
    return float(np.iinfo(dtype).max) if dtype.kind == "u" else 1.0


def _place(at: Sequence[Any], box: Box) -> tuple[int, ...]:
    return tuple(int(i) + side.start for i, side in zip(at, box, strict=True))


def _out_of_range(found: Any, place: tuple[int, ...]) -> InputError:
    return InputError(
        f"probability holds {found} at {place}; expected numbers from 0 to 1. Put the network's output through a "
        "sigmoid or softmax first, and replace NaN."
    )
