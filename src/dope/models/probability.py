"""From a network's soft map to unaries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.arrays import Box, as_numbers
from dope.errors import InputError

_STRIP_SITES = 1 << 16


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
    if soft.dtype.kind == "i":
        raise InputError(
            f"probability is of type {soft.dtype}, which does not say what 1 is; expected floats from 0 to 1 or "
            "unsigned integers. Divide by the largest value first."
        )
    if not 0 < clamp < 0.5:
        raise InputError(f"clamp is {clamp}; expected a number between 0 and 0.5, such as 1e-3")
    one = float(np.iinfo(soft.dtype).max) if soft.dtype.kind == "u" else 1.0
    if soft.dtype == np.uint8:  # there are no more prices than bytes
        table = _prices(np.arange(256) / one, clamp)
        return table.take(soft)
    rows = soft.reshape(-1)
    unary = np.empty(rows.size, dtype=np.float32)
    for start in range(0, rows.size, _STRIP_SITES):
        p = rows[start : start + _STRIP_SITES].astype(np.float64) / one
        wrong = ~((p >= 0) & (p <= 1))  # NaN is neither
        if wrong.any():
            raise _out_of_range(soft, start + int(np.argmax(wrong)), box)
        unary[start : start + p.size] = _prices(p, clamp)
    return unary.reshape(soft.shape)


def _prices(p: NDArray[np.float64], clamp: float) -> NDArray[np.float32]:
    most = np.log1p(-clamp) - np.log(clamp)
    with np.errstate(divide="ignore"):  # 0 and 1 give infinities, which are clipped
        odds: NDArray[np.float64] = np.log1p(-p) - np.log(p)
    return np.clip(odds, -most, most).astype(np.float32)


def _out_of_range(soft: NDArray[Any], number: int, box: Box) -> InputError:
    at = np.unravel_index(number, soft.shape)
    place = tuple(int(i) + side.start for i, side in zip(at, box, strict=True))
    return InputError(
        f"probability holds {soft[at]} at {place}; expected numbers from 0 to 1. Put the network's output through a "
        "sigmoid or softmax first, and replace NaN."
    )
