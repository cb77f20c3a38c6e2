"""Colour models: a mixture of Gaussians per label, learnt from strokes.

The colours x under the foreground strokes and those under the background strokes are each split into clusters by
k-means, and every cluster c becomes a Gaussian with its share of the colours as weight:

    p(x | label) = (1 - stray) sum_c weight_c N(x; mean_c, covariance_c) + stray N(x; all strokes, broad)

    u_i = log p(0 | x_i) - log p(1 | x_i),   both labels equally likely beforehand

so that u_i < 0 where a site looks like foreground. That is the paper's model, `ColorClusters`, but for the last term,
which is ours and the same for all labels: a colour that lies far from all strokes says nothing (u near 0), where the
bare ratio of two Gaussian tails would be large and mean little. For the same reason u is clipped. `ColorMixture` goes
on from the clusters by expectation maximization. Of several labels c_i(l) = max_k log p(x_i | k) - log p(x_i | l).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.errors import InputError
from dope.models.channels import ClassSample, Sample, costs_in_strips, in_strips
from dope.models.clusters import k_means
from dope.models.gaussians import Gaussian, Mixture, fitted
from dope.models.model import learnt_unary

# In units of the standard deviation of all strokes' colours. Chosen on the 25 odd images of the GrabCut set with
# scribbles, 3x3 kernel, total 20: mean error 8.1 %, against 9.4 % with 1e-3 added and no stray colours. Chosen
# before covariances were shrunk, with which it is 8.4 %: see gaussians.py.
_REGULARIZATION = 3e-4  # added to every variance; about one grey level of a photo
_STRAY = 0.05
_STRAY_DEVIATION = 3.0
_FARTHEST = 1e6  # its square still fits float32
# Below this a cluster is a handful of spikes rather than a Gaussian.
_SITES_PER_CLUSTER = 20
# A Gaussian that explains less than this many sites is dropped.
_FEWEST_SITES = 0.5

Fit = Callable[[NDArray[np.float64]], list[Gaussian]]


@dataclass(frozen=True)
class ColorClusters:
    """The paper's colour model: clusters by k-means, each a Gaussian.

    Parameters
    ----------
    clusters : int
        Gaussians per label; fewer are used where the strokes hold fewer colours.
    clip : float
        Largest absolute unary.

    Examples
    --------
    >>> image = np.array([[10, 12, 200], [11, 9, 205]], dtype=np.uint8)
    >>> seeds = np.array([[1, 0, 2], [0, 0, 0]])
    >>> ColorClusters().unary(image, seeds) < 0
    array([[ True,  True, False],
           [ True,  True, False]])
    """

    looks_around: ClassVar[bool] = False

    clusters: int = 5
    clip: float = 10.0

    def unary(self, image: ArrayLike, seeds: ArrayLike) -> NDArray[np.float32]:
        """log p(background) - log p(foreground) at every site. Seeds are not treated specially: see `seed_unary`.

        Parameters
        ----------
        image : array
            Shaped like `seeds` (grey), or with one more axis at the end (channels). Any number of dimensions.
        seeds : integer array
            0 where nothing is known, 1 under foreground strokes, 2 under background strokes.
        """
        return learnt_unary(self, image, seeds)

    def learn(self, sample: Sample) -> ColorOdds:
        """The mixtures of both labels."""
        return ColorOdds.learnt(sample, self.clip, self._fit)

    def learn_classes(self, sample: ClassSample) -> ColorClasses:
        """The mixtures of several labels."""
        return ColorClasses.learnt(sample, self.clip, self._fit)

    @property
    def _fit(self) -> Fit:
        _check_clusters(self.clusters)
        return lambda x: _clustered(x, self.clusters)


@dataclass(frozen=True)
class ColorMixture:
    """Gaussians fitted by expectation maximization, which starts from the clusters of `ColorClusters`.

    Soft shares describe overlapping colours better than clusters do, and with few sites they also fit chance.

    Parameters
    ----------
    clusters : int
        Gaussians per label; fewer are used where the strokes hold fewer colours.
    clip : float
        Largest absolute unary.
    rounds : int
        Of expectation maximization; 0 is `ColorClusters`.

    Examples
    --------
    >>> image = np.array([[10, 12, 200], [11, 9, 205]], dtype=np.uint8)
    >>> seeds = np.array([[1, 0, 2], [0, 0, 0]])
    >>> ColorMixture().unary(image, seeds) < 0
    array([[ True,  True, False],
           [ True,  True, False]])
    """

    looks_around: ClassVar[bool] = False

    clusters: int = 5
    clip: float = 10.0
    rounds: int = 10

    def unary(self, image: ArrayLike, seeds: ArrayLike) -> NDArray[np.float32]:
        """log p(background) - log p(foreground) at every site; as `ColorClusters.unary`."""
        return learnt_unary(self, image, seeds)

    def learn(self, sample: Sample) -> ColorOdds:
        """The mixtures of both labels."""
        return ColorOdds.learnt(sample, self.clip, self._fit)

    def learn_classes(self, sample: ClassSample) -> ColorClasses:
        """The mixtures of several labels."""
        return ColorClasses.learnt(sample, self.clip, self._fit)

    @property
    def _fit(self) -> Fit:
        _check_clusters(self.clusters)
        if self.rounds < 0:
            raise InputError(f"rounds is {self.rounds}; expected 0 or more")
        return lambda x: _maximized(x, self.clusters, self.rounds)


def color_unary(image: ArrayLike, seeds: ArrayLike, *, clusters: int = 5, clip: float = 10.0) -> NDArray[np.float32]:
    """Short for `ColorClusters(clusters, clip).unary(image, seeds)`."""
    return ColorClusters(clusters, clip).unary(image, seeds)


def _check_clusters(clusters: int) -> None:
    if clusters < 1:
        raise InputError(f"clusters is {clusters}; expected at least 1 Gaussian per label")


@dataclass(frozen=True, eq=False)
class ColorSpace:
    """Colours that are centred and scaled, the same for all channels."""

    unit: float  # a power of two near the largest colour: squares of what it divides neither overflow nor vanish
    center: NDArray[np.float64]
    scale: float

    @classmethod
    def of(cls, strokes: Sequence[NDArray[np.float64]]) -> ColorSpace:
        """In which all strokes together have mean 0 and variance 1."""
        together = np.concatenate(strokes)
        unit = _unit(together)
        together /= unit
        return cls(unit, together.mean(axis=0), float(np.sqrt(together.var(axis=0).mean())) or 1.0)

    def fitted(self, strokes: NDArray[np.float64], fit: Fit) -> Mixture:
        return Mixture.of(_with_stray(fit((strokes / self.unit - self.center) / self.scale)))

    def columns(self, colors: NDArray[Any]) -> NDArray[np.float32]:
        """Sites run along the last axis, so that sums over a few channels or clusters add whole rows."""
        with np.errstate(over="ignore"):  # what is too far to count is clipped
            away = ((colors / self.unit - self.center) / self.scale).T
        return np.clip(away, -_FARTHEST, _FARTHEST).astype(np.float32, order="C")


@dataclass(frozen=True, eq=False)
class ColorOdds:
    """A mixture per label."""

    space: ColorSpace
    foreground: Mixture
    background: Mixture
    clip: float

    @classmethod
    def learnt(cls, sample: Sample, clip: float, fit: Fit) -> ColorOdds:
        space = ColorSpace.of([sample.foreground, sample.background])
        return cls(space, space.fitted(sample.foreground, fit), space.fitted(sample.background, fit), clip)

    def unary(self, pixels: NDArray[Any]) -> NDArray[np.float32]:
        """log p(0|x) - log p(1|x) of each colour, clipped."""
        return in_strips(pixels, self.clip, self._log_odds)

    def _log_odds(self, colors: NDArray[Any]) -> NDArray[np.float32]:
        x = self.space.columns(colors)
        odds = self.background.log_density(x)
        odds -= self.foreground.log_density(x)
        return odds


@dataclass(frozen=True, eq=False)
class ColorClasses:
    """The same of several labels."""

    space: ColorSpace
    mixtures: tuple[Mixture, ...]
    clip: float

    @classmethod
    def learnt(cls, sample: ClassSample, clip: float, fit: Fit) -> ColorClasses:
        space = ColorSpace.of(sample.strokes)
        return cls(space, tuple(space.fitted(strokes, fit) for strokes in sample.strokes), clip)

    def costs(self, pixels: NDArray[Any]) -> NDArray[np.float32]:
        """max_k log p(x|k) - log p(x|l) of each colour and label l, clipped."""
        return costs_in_strips(pixels, self.clip, len(self.mixtures), self._log_densities)

    def _log_densities(self, colors: NDArray[Any]) -> NDArray[np.float32]:
        x = self.space.columns(colors)
        return np.stack([mixture.log_density(x) for mixture in self.mixtures])


def _unit(x: NDArray[np.float64]) -> float:
    exponent = int(np.frexp(np.abs(x).max())[1])
    return float(np.ldexp(1.0, min(exponent, 1023)))


def _with_stray(gaussians: list[Gaussian]) -> list[Gaussian]:
    """The Gaussians, and the broad one of stray colours around the middle of all strokes."""
    channels = len(gaussians[0].mean)
    stray = Gaussian(_STRAY, np.zeros(channels), _STRAY_DEVIATION**2 * np.eye(channels))
    return [stray, *(Gaussian((1 - _STRAY) * g.weight, g.mean, g.covariance) for g in gaussians)]


def _clustered(x: NDArray[np.float64], clusters: int) -> list[Gaussian]:
    cluster = k_means(x, min(clusters, max(1, len(x) // _SITES_PER_CLUSTER)))
    shares = (cluster == np.arange(cluster.max() + 1)[:, None]).astype(np.float64)
    return fitted(x, shares, least=_REGULARIZATION)


def _maximized(x: NDArray[np.float64], clusters: int, rounds: int) -> list[Gaussian]:
    gaussians = _clustered(x, clusters)
    columns = np.ascontiguousarray(x.T, dtype=np.float32)
    for _ in range(rounds):
        shares = Mixture.of(gaussians).shares(columns)[1].astype(np.float64)
        shares /= shares.sum(axis=0)
        gaussians = fitted(x, shares[shares.sum(axis=1) > _FEWEST_SITES], least=_REGULARIZATION)
    return gaussians
