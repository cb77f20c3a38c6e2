"""Pixels as numbers whose 1 is foreground, and what it costs labels to differ from them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.arrays import Mask, as_labels, as_numbers, check_finite
from dope.errors import InputError


def as_intensity(image: ArrayLike, *, anything: Mask | None = None) -> NDArray[np.float64]:
    """The image with 0 as background and 1 as foreground: unsigned integers by their largest value, floats as they are.

    Other integers do not say what 1 is, unless they hold nothing but 0 and 1. Sites where `anything` is True may hold
    what they like; they become 0.
    """
    pixels = as_numbers("image", image)
    if not pixels.size:
        raise InputError(f"image has shape {pixels.shape}; expected at least one pixel.")
    if pixels.dtype.kind == "i" and (pixels.min() < 0 or pixels.max() > 1):
        raise InputError(
            f"image is of type {pixels.dtype} and holds {pixels.min()} to {pixels.max()}, which does not say what 1 "
            f"is; expected floats around 0 to 1, bool, or unsigned integers. Divide by the largest value first."
        )
    one = float(np.iinfo(pixels.dtype).max) if pixels.dtype.kind == "u" else 1.0
    scaled: NDArray[np.float64] = pixels.astype(np.float64) / one
    if anything is not None:
        scaled[anything] = 0.0
    check_finite("image", scaled)
    return scaled


def checked_picture(image: ArrayLike) -> tuple[int, int]:
    """The shape of a picture without channels."""
    shape = np.shape(image)
    if len(shape) != 2:
        raise InputError(f"image has shape {shape}; expected a grey picture (rows, columns). Convert colours first.")
    return shape[0], shape[1]


def squared_distance(image: ArrayLike, unknown: ArrayLike | None = None) -> tuple[NDArray[np.float64], float]:
    """The sum of (I_p - y_p)^2 over the pixels p of a picture that are known, as a unary and a constant.

    1 - 2 I_p for label 1, and the sum of I_p^2; where a pixel is unknown both are 0.
    """
    shape = checked_picture(image)
    hidden = None if unknown is None else as_labels(unknown, shape, name="unknown")
    intensity = as_intensity(image, anything=hidden)
    with np.errstate(over="ignore"):
        unary, constant = 1.0 - 2.0 * intensity, np.array([(intensity * intensity).sum()])
    check_finite("the sum of the image's squares", constant)
    return unary if hidden is None else np.where(hidden, 0.0, unary), float(constant[0])
