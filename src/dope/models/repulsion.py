"""Segmentation with repulsion: like colours attract, unlike ones repel."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.arrays import as_array, as_reals, check_finite
from dope.energy import Energy
from dope.errors import InputError
from dope.models.fields import Offset, Weight, weighted_pairs
from dope.models.intensity import as_intensity
from dope.models.settings import number, positive
from dope.pairs import Kernel, ends, half_offsets


def repulsion(
    image: ArrayLike,
    unary: ArrayLike,
    *,
    lam: float = 100.0,
    alike: float = 0.06,
    kernel: Kernel = 15,
    channel_axis: int | None = None,
) -> Energy:
    """The energy of a segmentation in which pixels of unlike colours would rather be apart.

        E(y) = sum_p u_p y_p + lam sum over pairs of (alike - |x_p - x_q|) / |p - q|  |y_p - y_q|

    with |x_p - x_q| the Euclidean distance of two pixels' channels, in units in which white is 1. Pairs that differ by
    more than `alike` weigh less than 0: where there are any, the energy is not submodular.

    Parameters
    ----------
    image : array
        Grey or colours, of any number of dimensions: floats from 0 to 1, bool, or unsigned integers, whose largest
        value then means 1.
    unary : array
        What label 1 costs over label 0 at each site, as `color_unary` or a model's `unary` gives it.
    lam : float
        Factor on all pairs.
    alike : float
        The distance of colours at which a pair is indifferent.
    kernel : int or list of offsets
        As in `Energy.grid`. Every half-offset takes a number per pixel: 450 bytes with the default, or twice that for
        an image of float64, whose weights are then float64 too.
    channel_axis : int, optional
        Which axis of the image holds channels; None for grey.

    Examples
    --------
    >>> import numpy as np
    >>> energy = repulsion(np.array([[0.0, 0.0, 1.0]]), np.zeros((1, 3)), lam=50.0, alike=0.5, kernel=[(0, 1)])
    >>> energy([[0, 1, 1]]), energy([[0, 0, 1]])
    (25.0, -25.0)
    """
    factor, prices = positive("lam", lam, 100.0), as_reals("unary", unary)
    if prices.ndim == 0 or prices.size == 0:
        raise InputError(f"unary has shape {prices.shape}; expected at least one site.")
    check_finite("unary", prices)
    least = number("alike", alike, 0.06)
    pixels = _channels_last(as_array("image", image), channel_axis)
    if pixels.shape[:-1] != prices.shape:
        raise InputError(
            f"image has shape {np.shape(image)} and unary {prices.shape}; expected the same, but for the image's "
            f"channels, whose axis channel_axis names (found {channel_axis})."
        )
    precision = np.float64 if pixels.dtype == np.float64 else np.float32
    colors = as_intensity(pixels)
    weights: dict[Offset, Weight] = {}
    for offset in map(tuple, half_offsets(kernel, prices.ndim).tolist()):
        if all(abs(o) < n for o, n in zip(offset, prices.shape, strict=True)):
            field = np.zeros(prices.shape, dtype=precision)
            field[ends(offset)[0]] = least - _distance(colors, offset)
            weights[offset] = (factor / math.hypot(*offset), field)
    return Energy(prices, weighted_pairs(prices.shape, weights))


def _channels_last(image: NDArray[np.generic], axis: int | None) -> NDArray[np.generic]:
    if axis is None:
        return image[..., None]
    if not -image.ndim <= axis < image.ndim:
        raise InputError(f"channel_axis is {axis}; expected one of the {image.ndim} axes of an image {image.shape}.")
    return np.moveaxis(image, axis, -1)


def _distance(colors: NDArray[np.float64], offset: Offset) -> NDArray[np.float64]:
    """|x_p - x_{p + offset}| for every p that has such a neighbour."""
    tail, head = ends(offset)
    change = colors[tail] - colors[head]
    return np.asarray(np.sqrt((change * change).sum(axis=-1)))
