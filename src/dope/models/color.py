"""The paper's colour model: a mixture of Gaussians per label, learnt from strokes.

The colours x under the foreground strokes and those under the background strokes are each split into
clusters by k-means, and every cluster c becomes a Gaussian with its share of the colours as weight:

    p(x | label) = (1 - stray) sum_c weight_c N(x; mean_c, covariance_c) + stray N(x; all strokes, broad)

    u_i = log p(0 | x_i) - log p(1 | x_i),   both labels equally likely beforehand

so that u_i < 0 where a site looks like foreground. The last term is ours and the same for both labels: a
colour that lies far from all strokes says nothing (u near 0), where the bare ratio of two Gaussian tails would
be large and mean little. For the same reason u is clipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.arrays import BACKGROUND, FOREGROUND, Reals, as_reals
from dope.errors import InputError

# Enough for stable clusters, and k-means over so many colours takes a fraction of a second.
_FITTED_PIXELS = 50_000
# Sites evaluated at once: temporaries stay in the second-level cache, and the products are so small that BLAS
# does them in this thread. With 32768 sites it would wait for its other threads at each of hundreds of products, which
# on a machine with other work took 17 s instead of 2 for 8 megapixels.
_STRIP_SITES = 4096
# In units of the standard deviation of all strokes' colours. Chosen on the 25 odd images of the GrabCut set with
# scribbles, 3x3 kernel: mean error 8.1 %, against 9.4 % with 1e-3 added and no stray colours.
_REGULARIZATION = 3e-4  # added to every variance; about one grey level of a photo
_STRAY = 0.05
_STRAY_DEVIATION = 3.0
_FARTHEST = 1e6  # its square still fits float32
# Below this a cluster is a handful of spikes rather than a Gaussian.
_PIXELS_PER_CLUSTER = 20
_LLOYD_ROUNDS = 100


def color_unary(image: ArrayLike, seeds: ArrayLike, *, clusters: int = 5, clip: float = 10.0) -> NDArray[np.float32]:
    """Unaries of an image from the colours under its strokes.

    Parameters
    ----------
    image : array
        Shaped like `seeds` (grey), or with one more axis at the end (channels). Any number of dimensions.
    seeds : integer array
        0 where nothing is known, 1 under foreground strokes, 2 under background strokes.
    clusters : int
        Gaussians per label; fewer are used where the strokes hold fewer colours.
    clip : float
        Largest absolute unary.

    Returns
    -------
    float32 array shaped like `seeds`
        log p(background) - log p(foreground), between -clip and clip. Seeds are not treated
        specially: see `seed_unary`.

    Examples
    --------
    >>> image = np.array([[10, 12, 200], [11, 9, 205]], dtype=np.uint8)
    >>> seeds = np.array([[1, 0, 2], [0, 0, 0]])
    >>> color_unary(image, seeds) < 0
    array([[ True,  True, False],
           [ True,  True, False]])
    """
    seeds = checked_seeds(seeds)
    colors = _colors(image, seeds.shape)
    if clusters < 1:
        raise InputError(f"clusters is {clusters}; expected at least 1 Gaussian per label")
    if not clip > 0:
        raise InputError(f"clip is {clip}; expected a positive number, such as 10")
    model = _fit(colors, seeds.reshape(-1), clusters)
    unary = np.empty(seeds.size, dtype=np.float32)
    for strip in _strips(seeds.size):
        unary[strip] = model.log_odds(colors[strip])
    np.clip(unary, -clip, clip, out=unary)
    return unary.reshape(seeds.shape)


def seed_unary(unary: ArrayLike, seeds: ArrayLike, strength: float) -> Reals:
    """A copy of `unary` in which strokes decide: -strength under foreground, +strength under background.

    A seed is a hard constraint when `strength` exceeds the sum of the weights of the pairs of its site.

    Examples
    --------
    >>> seed_unary([0.5, 0.25, -2.0], [1, 0, 2], strength=100)
    array([-100.  ,    0.25,  100.  ])
    """
    out = as_reals("unary", unary).copy()
    seeds = checked_seeds(seeds, both=False)
    if seeds.shape != out.shape:
        raise InputError(f"seeds are shaped {seeds.shape} and the unary {out.shape}; expected the same shape")
    if not (np.isfinite(strength) and strength > 0):
        raise InputError(f"strength is {strength}; expected a positive finite number")
    out[seeds == FOREGROUND] = -strength
    out[seeds == BACKGROUND] = strength
    return out


def checked_seeds(seeds: ArrayLike, *, both: bool = True) -> NDArray[np.integer[Any]]:
    """Seeds as an integer array of labels 0, 1 and 2, with both kinds of stroke when `both`."""
    seeds = np.asarray(seeds)
    if not np.issubdtype(seeds.dtype, np.integer):
        raise InputError(f"seeds are of type {seeds.dtype}; expected integers: 0 none, 1 foreground, 2 background")
    if seeds.size == 0:
        raise InputError(f"seeds are empty, shaped {seeds.shape}; expected at least one site")
    low, high = seeds.min(), seeds.max()
    if low < 0 or high > BACKGROUND:
        raise InputError(
            f"seeds hold the label {high if high > BACKGROUND else low}; "
            "expected only 0 none, 1 foreground, 2 background"
        )
    if both:
        for label, name in ((FOREGROUND, "foreground"), (BACKGROUND, "background")):
            if not (seeds == label).any():
                raise InputError(f"seeds hold no {name} (label {label}); draw at least one stroke of each kind")
    return seeds


def _colors(image: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """The image as a row of channels per site; a view wherever the memory allows it."""
    image = np.asarray(image)
    if image.shape != shape and image.shape[:-1] != shape:
        raise InputError(
            f"the image is shaped {image.shape} and the seeds {shape}; expected seeds of the image's shape, "
            "without its channels"
        )
    if not (np.issubdtype(image.dtype, np.number) or image.dtype == bool) or np.iscomplexobj(image):
        raise InputError(f"the image is of type {image.dtype}; expected real numbers")
    channels = 1 if image.shape == shape else image.shape[-1]
    if channels == 0:
        raise InputError(f"the image is shaped {image.shape}, with no channels; expected at least one")
    return image.reshape(-1, channels)


def _strips(sites: int) -> Iterator[slice]:
    for start in range(0, sites, _STRIP_SITES):
        yield slice(start, min(start + _STRIP_SITES, sites))


@dataclass(frozen=True)
class _Mixture:
    """Gaussians in whitened form: (x - mean_c) of cluster c becomes whitening @ x - shift, a unit normal."""

    whitening: NDArray[np.float32]  # (clusters * channels, channels)
    shift: NDArray[np.float32]  # (clusters * channels, 1)
    log_scale: NDArray[np.float32]  # (clusters, 1): log of weight / sqrt(det covariance)

    def log_density(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """log p of each column of x, up to the constant of the unit normal, the same for every mixture."""
        normal = self.whitening @ x
        normal -= self.shift
        np.square(normal, out=normal)
        terms = normal.reshape(len(self.log_scale), len(x), -1).sum(axis=1)
        terms *= -0.5
        terms += self.log_scale
        top = terms.max(axis=0)
        terms -= top
        np.exp(terms, out=terms)
        density: NDArray[np.float32] = np.log(terms.sum(axis=0))
        density += top
        return density


@dataclass(frozen=True)
class _ColorModel:
    """A mixture per label over colours that are centred and scaled, the same for all channels."""

    center: NDArray[np.float64]
    scale: float
    foreground: _Mixture
    background: _Mixture

    def log_odds(self, colors: NDArray[Any]) -> NDArray[np.float32]:
        """log p(0|x) - log p(1|x) of each colour."""
        # Sites run along the last axis, so that sums over a few channels or clusters add whole rows.
        away = ((colors - self.center) / self.scale).T
        if not np.isfinite(away).all():
            raise InputError("the image holds NaN or infinite values; expected finite numbers")
        x = np.clip(away, -_FARTHEST, _FARTHEST).astype(np.float32, order="C")
        odds = self.background.log_density(x)
        odds -= self.foreground.log_density(x)
        return odds


def _fit(colors: NDArray[Any], seeds: NDArray[np.integer[Any]], clusters: int) -> _ColorModel:
    stroked = {label: _sample(colors, seeds == label) for label in (FOREGROUND, BACKGROUND)}
    both = np.concatenate(list(stroked.values()))
    if not np.isfinite(both).all():
        raise InputError("the image holds NaN or infinite values under the strokes; expected finite numbers")
    center = both.mean(axis=0)
    scale = float(np.sqrt(both.var(axis=0).mean())) or 1.0
    mixtures = {label: _mixture((x - center) / scale, clusters) for label, x in stroked.items()}
    return _ColorModel(center, scale, mixtures[FOREGROUND], mixtures[BACKGROUND])


def _sample(colors: NDArray[Any], chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Colours of the chosen sites, evenly thinned where there are more than a fit needs."""
    sites = np.flatnonzero(chosen)
    if sites.size > _FITTED_PIXELS:
        sites = sites[np.linspace(0, sites.size - 1, _FITTED_PIXELS).astype(np.intp)]
    return colors[sites].astype(np.float64)


def _mixture(x: NDArray[np.float64], clusters: int) -> _Mixture:
    """Gaussians of the clusters of x, and the broad one of stray colours around 0."""
    channels = x.shape[1]
    cluster = _k_means(x, min(clusters, max(1, len(x) // _PIXELS_PER_CLUSTER)))
    gaussians = [(_STRAY, np.zeros(channels), _STRAY_DEVIATION**2 * np.eye(channels))]
    for c in range(cluster.max() + 1):
        members = x[cluster == c]
        mean = members.mean(axis=0)
        away = members - mean
        covariance = away.T @ away / len(members) + _REGULARIZATION * np.eye(channels)
        gaussians.append(((1 - _STRAY) * len(members) / len(x), mean, covariance))
    whitening, shift, log_scale = [], [], []
    for weight, mean, covariance in gaussians:
        factor = np.linalg.cholesky(covariance)
        white = np.linalg.inv(factor)
        whitening.append(white)
        shift.append(white @ mean)
        log_scale.append(np.log(weight) - np.log(np.diag(factor)).sum())
    return _Mixture(
        np.concatenate(whitening).astype(np.float32),
        np.concatenate(shift).astype(np.float32)[:, None],
        np.array(log_scale, dtype=np.float32)[:, None],
    )


def _k_means(x: NDArray[np.float64], clusters: int) -> NDArray[np.intp]:
    """The cluster of each row of x, 0 to m - 1 with m <= clusters, none empty; the same on every call."""
    centers = _spread_start(x, clusters)
    cluster = _nearest(x, centers)
    for _ in range(_LLOYD_ROUNDS):
        counts = np.bincount(cluster, minlength=len(centers))
        sums = [np.bincount(cluster, weights=column, minlength=len(centers)) for column in x.T]
        kept = counts > 0
        centers = np.stack(sums, axis=1)[kept] / counts[kept, None]
        moved = _nearest(x, centers)
        if np.array_equal(moved, cluster) and kept.all():
            break
        cluster = moved
    return np.unique(cluster, return_inverse=True)[1].reshape(-1)


def _spread_start(x: NDArray[np.float64], clusters: int) -> NDArray[np.float64]:
    """First centres, spread as in k-means++: far points are likely, the draw is the same on every call."""
    draw = np.random.default_rng(0)
    chosen = [x[draw.integers(len(x))]]
    distance = np.square(x - chosen[0]).sum(axis=1)
    while len(chosen) < clusters and distance.max() > 0:
        chosen.append(x[draw.choice(len(x), p=distance / distance.sum())])
        distance = np.minimum(distance, np.square(x - chosen[-1]).sum(axis=1))
    return np.array(chosen)


def _nearest(x: NDArray[np.float64], centers: NDArray[np.float64]) -> NDArray[np.intp]:
    products = np.einsum("nc,kc->kn", x, centers)
    nearest: NDArray[np.intp] = np.argmin(np.square(centers).sum(axis=1)[:, None] - 2 * products, axis=0)
    return nearest
