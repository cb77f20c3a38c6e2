"""How much smoothing: lam in units that do not depend on the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.arrays import as_reals, check_finite
from dope.errors import InputError
from dope.pairs import Kernel, half_offsets, offset_lengths, strips
from dope.rounding import nearest
from dope.sums import exact_sum

# In units of the mean |u|; `automatic_lam` says why.
SMOOTHING = 20.0


def kernel_lam(
    kernel: Kernel, dimensions: int = 2, *, total: float = 20.0, spacing: Sequence[float] | None = None
) -> float:
    """The lam at which a site that differs from all its neighbours pays `total` where the image is constant.

    A contrast-sensitive pair weighs lam / |offset| there, so lam = total / (sum over all offsets of 1 / |offset|), each
    direction counted. The same `total` then smooths about as much with any kernel.

    Parameters
    ----------
    kernel : int or list of half-offsets
        As in `Energy.grid`.
    dimensions : int
        Of the sites.
    total : float
        20 is what unaries clipped to +-10 are used with in the paper.
    spacing : sequence of float, optional
        Size of a site along each axis, as in `Energy.grid`: lengths of offsets are then in its units.

    Examples
    --------
    >>> kernel_lam([(0, 1), (1, 0)])
    5.0
    >>> kernel_lam([(0, 1), (1, 0)], spacing=(2.0, 2.0))
    10.0
    """
    offsets = half_offsets(kernel, dimensions)
    if not len(offsets):
        raise InputError(f"kernel {kernel} holds no neighbours; expected an odd size from 3 on")
    return float(total / (2 * (1 / offset_lengths(offsets, spacing)).sum()))


def automatic_lam(
    unary: ArrayLike,
    kernel: Kernel = 3,
    *,
    dimensions: int | None = None,
    spacing: Sequence[float] | None = None,
    smoothing: float = SMOOTHING,
) -> float:
    """A lam for contrast-sensitive pairs that fits these unaries, this kernel and this spacing.

    lam = kernel_lam(total = smoothing x mean |u|). Doubling all costs changes no minimum, so lam has to grow with the
    unaries; the mean hardly moves with a few extreme sites, and neither does it with the clip. Lengths of offsets are
    in units of `spacing`, as they are in the weights, so that millimetres or microns make no difference.

    A disc of radius r gains about pi r^2 mean |u| and pays about 2 pi r total / 3 (3x3 kernel) where the image is
    constant: by default one of less than some 13 sites survives only if the image has an edge where it ends. At edges
    pairs weigh next to nothing, which is what keeps thin things.

    beta is best left at the default of `Energy.grid`, 1 / (2 mean squared difference): with half or twice as much, mean
    errors on the odd GrabCut images move by 0.3 % at most, and neither is better with both 3x3 and 7x7 kernels.

    Parameters
    ----------
    unary : array
        As a model gives it, before seeds are put in: their strength is no measure of anything.
    kernel : int or list of half-offsets
        As in `Energy.grid`.
    dimensions : int, optional
        Of the sites, where the unary is a list of some of them.
    spacing : sequence of float, optional
        Size of a site along each axis, as in `Energy.grid`.
    smoothing : float
        What a site that differs from all its neighbours pays in a constant image, in units of mean |u|. In the
        middle of where it matters least: on the 25 odd GrabCut images (experiments/grabcut.py, two rounds) errors are
        5.4 % with 5, 3.7 % with 10, 3.3 % with 20 and 3.4 % with 30. Less suits maps of which most sites are certain.

    Returns
    -------
    float
        0 where all unaries are 0, as nothing is there to be weighed against.

    Examples
    --------
    >>> automatic_lam([[2.0, -2.0], [-2.0, 2.0]], [(0, 1), (1, 0)])
    10.0
    """
    prices = as_reals("unary", unary)
    if prices.ndim == 0 or prices.size == 0:
        raise InputError(f"unary has shape {prices.shape}; expected at least one site")
    if not (np.isfinite(smoothing) and smoothing >= 0):
        raise InputError(f"smoothing is {smoothing}; expected 0 or a positive number, such as 20")
    check_finite("unary", prices)
    total = nearest(sum((exact_sum(np.abs(prices[box])) for box in strips(prices.shape)), Fraction(0)))
    scale = mean_lam_total(total, prices.size, smoothing)
    return kernel_lam(kernel, dimensions or prices.ndim, total=scale, spacing=spacing)


def cost_margins(costs: NDArray[Any]) -> NDArray[Any]:
    """What the second best label costs over the best one at each site: of two labels, the size of their unary.

    >>> cost_margins(np.array([[3.0, 0.0, 1.0], [2.0, 2.0, 9.0]])).tolist()
    [1.0, 0.0]
    """
    least = np.partition(costs, 1, axis=-1)
    return np.asarray(least[..., 1] - least[..., 0])


def mean_lam_total(total: float, sites: int, smoothing: float = SMOOTHING) -> float:
    """What `kernel_lam` is told, of unaries whose sizes add up to `total`: the float nearest to their exact sum."""
    return smoothing * (total / sites)
