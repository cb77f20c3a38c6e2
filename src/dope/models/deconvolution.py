"""Binary deconvolution: the labels whose blurred picture is closest.

With B the blur and I the picture, |I - B y|^2 is a sum over pairs because y_i^2 = y_i. With G = B'B and y_i y_j written
as (y_i + y_j - |y_i - y_j|) / 2,

    E(y) = |I|^2 + ( B'(B 1 - 2 I) )' y - sum over pairs of G_ij |y_i - y_j|

so that all pairs under one blur repel.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.arrays import as_numbers, check_finite
from dope.energy import Energy
from dope.errors import InputError
from dope.models.fields import Offset, Weight, narrowed, weighted_pairs
from dope.models.intensity import as_intensity, checked_picture

Kernel2D = NDArray[np.float64]


def deconvolution(image: ArrayLike, kernel: ArrayLike = 3) -> Energy:
    """The energy of labels of which the image is a blurred picture.

        E(y) = sum over pixels p of ( I_p - sum_d K_d y_{p+d} )^2

    Parameters
    ----------
    image : array
        A grey picture, 1 = foreground: floats around 0 to 1, bool, or unsigned integers, whose largest value then
        means 1. Every pixel is the blur of labels that are all there ("valid"), so that labels have a larger shape
        than the image, by the kernel's minus 1.
    kernel : int or array
        An odd size, for a mean over a square of that size, or the blur itself, 2D, as in a convolution: y_{p+d} is
        weighed by the kernel turned by 180 degrees. A few pixels wide: a site has (2 rows - 1)(2 columns - 1) - 1
        neighbours.

    Returns
    -------
    Energy
        On the grid of the labels, with the constant. Not submodular.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.zeros((5, 6), dtype=bool)
    >>> labels[1:4, 1:4] = True
    >>> blurred = np.array([[4, 6, 4, 2], [6, 9, 6, 3], [4, 6, 4, 2]]) / 9
    >>> energy = deconvolution(blurred, 3)
    >>> energy.shape, abs(energy(labels)) < 1e-12
    ((5, 6), True)
    """
    checked_picture(image)
    intensity = as_intensity(image)
    blur = _checked_blur(kernel)
    with np.errstate(over="ignore", invalid="ignore"):
        unary = _spread(blur.sum() - 2.0 * intensity, blur)
        constant = np.array([(intensity * intensity).sum()])
    check_finite("image and kernel add up to a unary that", unary)
    check_finite("the sum of the image's squares", constant)
    return Energy(unary, weighted_pairs(unary.shape, _overlaps(intensity.shape, blur)), float(constant[0]))


def _checked_blur(kernel: ArrayLike) -> Kernel2D:
    """What y_{p+d} is weighed by, d from the first to the last of the window."""
    found = as_numbers("kernel", kernel)
    if found.ndim == 0 and found.dtype.kind in "iu" and found > 0 and found % 2 == 1:
        return np.full((int(found), int(found)), 1.0 / int(found) ** 2)
    if found.ndim != 2 or not found.size:
        raise InputError(
            f"kernel is {found} of shape {found.shape}; expected an odd size, such as 3, or a blur (rows, columns)."
            if found.ndim == 0
            else f"kernel has shape {found.shape}; expected an odd size, such as 3, or a blur (rows, columns)."
        )
    turned = found.astype(np.float64)[::-1, ::-1]
    check_finite("kernel", turned)
    if not turned.any():
        raise InputError("kernel holds nothing but 0; expected a blur. Leave it out for a mean over 3 x 3.")
    return turned


def _spread(values: NDArray[np.float64], blur: Kernel2D) -> NDArray[np.float64]:
    """B' values: every pixel of the image gives its value, weighed, to the labels under its window."""
    rows, columns = values.shape
    out = np.zeros((rows + blur.shape[0] - 1, columns + blur.shape[1] - 1))
    for (r, c), weight in np.ndenumerate(blur):
        out[r : r + rows, c : c + columns] += weight * values
    return out


def _overlaps(windows: tuple[int, ...], blur: Kernel2D) -> dict[Offset, Weight]:
    """-G_{q, q+o} for every offset o of two labels under one window."""
    largest = np.abs(blur).max()
    relative = blur / largest  # of a mean and of binomials float32 then holds every sum
    height, width = blur.shape
    weights: dict[Offset, Weight] = {}
    for o in product(range(height), range(1 - width, width)):
        if o > (0, 0):
            products = _products(relative, o)
            if products.any():
                weights[o] = (-float(largest * largest), narrowed(_window_sums(products, windows)))
    return weights


def _products(blur: Kernel2D, offset: Offset) -> Kernel2D:
    """K_d K_{d+o} for every d of the window; 0 where d + o is outside it."""
    (r, c), (height, width) = offset, blur.shape
    left, right = max(0, -c), min(width, width - c)
    products = np.zeros_like(blur)
    products[: height - r, left:right] = blur[: height - r, left:right] * blur[r:, left + c : right + c]
    return products


def _window_sums(products: Kernel2D, windows: tuple[int, ...]) -> NDArray[np.float64]:
    """For every label q the sum of products[q - p] over the pixels p of the image, from sums over all corners."""
    sums = np.pad(products, ((1, 0), (1, 0))).cumsum(axis=0).cumsum(axis=1)
    # q - p runs from max(0, q - windows + 1) to min(size - 1, q).
    (top, bottom), (left, right) = (
        (np.maximum(0, np.arange(n + size - 1) - n + 1), np.minimum(size, np.arange(n + size - 1) + 1))
        for n, size in zip(windows, products.shape, strict=True)
    )
    one, other = sums[np.ix_(bottom, right)] - sums[np.ix_(top, right)], sums[np.ix_(bottom, left)]
    return np.asarray(one - other + sums[np.ix_(top, left)])
