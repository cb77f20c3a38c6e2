"""Mixtures of Gaussians: fitted to shares of a sample, evaluated at many sites.

p(x) = sum_c weight_c N(x; mean_c, covariance_c)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Gaussian:
    """One of a mixture."""

    weight: float
    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]


@dataclass(frozen=True)
class Mixture:
    """Gaussians in whitened form: (x - mean_c) of cluster c becomes whitening @ x - shift, a unit normal."""

    whitening: NDArray[np.float32]  # (clusters * channels, channels)
    shift: NDArray[np.float32]  # (clusters * channels, 1)
    log_scale: NDArray[np.float32]  # (clusters, 1): log of weight / sqrt(det covariance)

    @classmethod
    def of(cls, gaussians: Sequence[Gaussian]) -> Mixture:
        whitening, shift, log_scale = [], [], []
        for gaussian in gaussians:
            factor = np.linalg.cholesky(gaussian.covariance)
            white = np.linalg.inv(factor)
            whitening.append(white)
            shift.append(white @ gaussian.mean)
            log_scale.append(np.log(gaussian.weight) - np.log(np.diag(factor)).sum())
        return cls(
            np.concatenate(whitening).astype(np.float32),
            np.concatenate(shift).astype(np.float32)[:, None],
            np.array(log_scale, dtype=np.float32)[:, None],
        )

    def log_density(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """log p of each column of x, up to the constant of the unit normal, the same for every mixture."""
        return self.shares(x)[0]

    def shares(self, x: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """log p of each column of x, and what each Gaussian contributes to p: (clusters, columns), not yet divided.

        Each column by itself, to the bit: whole rows are added in a fixed order, where a product of matrices would add
        in the order that suits their size. So it does not matter in which box of an image a site is looked at.
        """
        clusters, channels = len(self.log_scale), len(x)
        factors = self.whitening.reshape(clusters, channels, channels)  # lower triangles
        normal = np.empty((clusters, channels, x.shape[1]), dtype=np.float32)
        normal[...] = -self.shift.reshape(clusters, channels, 1)
        product = np.empty_like(normal)
        for k, row in enumerate(x):
            normal[:, k:] += np.multiply(factors[:, k:, k, None], row, out=product[:, k:])
        np.square(normal, out=normal)
        terms = _sum_of_rows(normal.swapaxes(0, 1))
        terms *= -0.5
        terms += self.log_scale
        top = terms.max(axis=0)
        terms -= top
        np.exp(terms, out=terms)
        density: NDArray[np.float32] = np.log(_sum_of_rows(terms))
        density += top
        return density, terms


def _sum_of_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """The sum over the first axis, one after another."""
    total: NDArray[np.float32] = rows[0].copy()
    for row in rows[1:]:
        total += row
    return total


def fitted(x: NDArray[np.float64], shares: NDArray[np.floating], *, least: float) -> list[Gaussian]:
    """The Gaussian of each row of `shares`, which says how much of each row of x belongs to it.

    `least` is added to every variance. The whole of x is expected to have variance 1.
    """
    number, channels = x.shape
    gaussians = []
    for share in shares:
        members = float(share.sum())
        mean = share @ x / members
        away = x - mean
        covariance = (away * share[:, None]).T @ away / members
        if members <= channels:  # known in some directions only: a ball, as large as they say, and x as a whole
            variance = (members * np.trace(covariance) / channels + 1.0) / (members + 1.0)
            covariance = variance * np.eye(channels)
        gaussians.append(Gaussian(members / number, mean, covariance + least * np.eye(channels)))
    return gaussians
