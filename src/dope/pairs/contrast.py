"""Features, and the contrast between neighbours that they show."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.arrays import CORE_TYPES, Mask, Sites, core_reads
from dope.errors import InputError
from dope.pairs.boxes import strips


def native_features(features: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Features as the core reads them fast: as they are, or in the narrowest type that it knows and that holds them.

    A row's pixels follow one another; rows may lie anywhere, so that a crop of an image is no copy.
    """
    channels, itemsize = features.shape[-1], features.dtype.itemsize
    step, channel = features.strides[-2:]
    if core_reads(features) and step == channels * itemsize and (channels == 1 or channel == itemsize):
        return features
    if features.dtype in CORE_TYPES:
        return np.ascontiguousarray(features)
    return np.ascontiguousarray(features, dtype=np.float32 if itemsize <= 2 else np.float64)


def mean_contrast_beta(features: npt.NDArray[Any], offsets: Sites, inside: Mask | None = None) -> float:
    """beta = 1 / (2 mean |x_p - x_q|^2) over the kernel's pairs, channels summed; 0 for a constant image.

    The squares are rounded to a unit of 2^-40 of their range and added up as integers, so that the sum does not
    depend on the order, and so not on how the image is cut into blocks. Of pairs `inside` a mask, if there is one.
    """
    spread = _channel_spread(features if inside is None else features[inside])
    widest = float((spread * spread).sum())
    if widest == 0.0 or not len(offsets):
        return 0.0
    if not math.isfinite(widest):
        raise InputError("features differ by more than a float64 can square; scale them down first.")
    unit = math.ldexp(1.0, math.frexp(widest)[1] - 40)
    if unit == 0.0:
        return 0.0  # differences that float64 cannot square are none
    shape = features.shape[:-1]
    total = pairs = 0
    for box in strips(shape):
        reach = int(np.abs(offsets[:, 0]).max())
        low, high = max(0, box[0].start - reach), min(shape[0], box[0].stop + reach)
        corner = [box[0].start - low, *([0] * (len(shape) - 1))]
        opposite = [box[0].stop - low, *shape[1:]]
        here = None if inside is None else inside[low:high]
        part, number = _core.contrast(native_features(features[low:high]), offsets, corner, opposite, unit, here)
        total, pairs = total + part, pairs + number
    return pairs / (2.0 * total * unit) if total else 0.0


def _channel_spread(features: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The largest minus the smallest value of each channel."""
    low = high = features
    # One axis at a time, the longest rows first: over several at once NumPy takes 30 ns per pixel of three channels.
    while low.ndim > 2:
        low, high = low.min(axis=0), high.max(axis=0)
    return np.array([float(high[:, c].max()) - float(low[:, c].min()) for c in range(features.shape[-1])])
