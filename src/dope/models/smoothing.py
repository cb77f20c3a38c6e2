"""How much smoothing: lam in units that do not depend on the kernel."""

from __future__ import annotations

import numpy as np

from dope.errors import InputError
from dope.pairs import Kernel, half_offsets


def kernel_lam(kernel: Kernel, dimensions: int = 2, *, total: float = 20.0) -> float:
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
        20 is what unaries clipped to +-10 are used with.

    Examples
    --------
    >>> kernel_lam([(0, 1), (1, 0)])
    5.0
    """
    offsets = half_offsets(kernel, dimensions)
    if not len(offsets):
        raise InputError(f"kernel {kernel} holds no neighbours; expected an odd size from 3 on")
    return float(total / (2 * (1 / np.linalg.norm(offsets, axis=1)).sum()))
