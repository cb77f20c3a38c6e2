"""Colours of labels: a label has one colour, in files, pictures and pages alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Okabe and Ito: told apart by people who see colours in different ways.
_FIRST = (
    (230, 159, 0),
    (86, 180, 233),
    (0, 158, 115),
    (204, 121, 167),
    (240, 228, 66),
    (0, 114, 178),
    (213, 94, 0),
)
# Further ones go round the circle of hues by the golden section, so that those next to each other in number are far
# apart in hue; lighter and darker in turns.
_GOLDEN = (5**0.5 - 1) / 2
_SHADES = ((0.62, 0.95), (0.9, 0.7), (0.42, 0.85), (0.95, 0.95))  # saturation and value


def label_colors(number: int) -> NDArray[np.uint8]:
    """(number, 3): red, green and blue of labels 0, 1, ... Label 0 is black, as what is nothing in particular.

    >>> label_colors(3).tolist()
    [[0, 0, 0], [230, 159, 0], [86, 180, 233]]
    """
    colors = np.zeros((max(number, 1 + len(_FIRST)), 3), dtype=np.uint8)
    colors[1 : 1 + len(_FIRST)] = _FIRST
    further = np.arange(len(colors) - 1 - len(_FIRST))
    saturation, value = np.array(_SHADES)[further % len(_SHADES)].T
    colors[1 + len(_FIRST) :] = np.rint(255 * _rgb((further * _GOLDEN % 1).astype(np.float64), saturation, value))
    return colors[:number]


def _rgb(hue: NDArray[np.float64], saturation: NDArray[np.float64], value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of HSV, all from 0 to 1: f(n) = v - v s max(0, min(k, 4 - k, 1)) with k = (n + 6 h) mod 6, for n = 5, 3, 1."""
    k = (np.array([5.0, 3.0, 1.0]) + 6 * hue[:, None]) % 6
    rgb: NDArray[np.float64] = value[:, None] * (1 - saturation[:, None] * np.clip(np.minimum(k, 4 - k), 0, 1))
    return rgb
