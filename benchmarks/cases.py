"""The instances that speed is measured on, each made from its name alone.

The pictures are piecewise constant under heavy noise: Gaussian-filtered noise, thresholded so that 35 % are foreground,
gives the truth; the picture x is .35 or .65 by the truth, plus normal noise of deviation .3. With the log-likelihood
ratio r = ((x - .35)^2 - (x - .65)^2) / (2 * .3^2), which is positive where the pixel looks like foreground,

    e ("easy")    unary = -rint(100 r): every pixel says something
    h ("hard")    unary = -rint(50 r) in 2D, -rint(100 r) in 3D, under weights about ten times as strong, and 40 seed
                  dots of radius 3 with -12000 or +12000, by the truth at their centre: the labels come from far away
    w(p, m)       = rint(factor_m exp(-2 |x_p - x_q|^2)),  factor_m = lam / |offset_m| / sum over n of 1 / |offset_n|

    A1 1000^2, A2 2000x3000: 4 neighbours    B 1000^2: 7x7    C1, C2 100^3: 6 and 26 neighbours

lam and the grain of the truth were tuned until the hard cases end with 30 to 40 % foreground.

    M5, M7        a T1 brain scan of 200x200x100 and a network's soft map p of its white matter, kernel 5 and 7
                  (balls of radius 2 and 3); unary = -rint(1000 log(p / (1 - p))), the log odds clipped to +-6, just
                  beyond the steps of 1/255 in which p is given; lam = 6000, beta as `Energy.grid` chooses it

A thousandth of a nat is a fine grain for odds that come in 256 steps, and the largest weight is then 543: like those of
the other cases, it fits capacities of 16 bits. M5 and M7 need DOPE_DATA, the folder that holds mri/.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import Box
from dope.pairs import half_offsets, mean_contrast_beta

Ints = npt.NDArray[np.integer[Any]]
Labels = npt.NDArray[np.bool_]

SCAN = Path("mri") / "brain_200x200x100.npz"
# A small variant is for seeing that everything works, not for timing.
QUICK = "-quick"


class MissingDataError(Exception):
    """A case needs a file that is not there."""


@dataclass(frozen=True, eq=False)
class Instance:
    """An energy in integers, and the picture its weights come from.

    `weights[m]` holds w(p, m) at p, 0 where p + offsets[m] lies outside. They are computed here, with NumPy alone: the
    integers that other solvers are given, and what labels are judged by.
    """

    name: str
    unary: npt.NDArray[np.int32]
    features: npt.NDArray[np.float32]
    offsets: npt.NDArray[np.int64]
    factors: npt.NDArray[np.float64]
    beta: float
    weights: Ints

    @property
    def shape(self) -> tuple[int, ...]:
        return self.unary.shape

    @property
    def sites(self) -> int:
        return self.unary.size

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return sum(math.prod(n - abs(o) for n, o in zip(self.shape, row, strict=True)) for row in self.offsets.tolist())

    @property
    def neighbours(self) -> int:
        return 2 * len(self.offsets)

    def edges(self) -> tuple[Ints, Ints, Ints]:
        """All pairs: first ends, second ends, weights."""
        numbers = np.arange(self.sites, dtype=np.int32).reshape(self.shape)
        tails, heads, weights = [], [], []
        for strengths, offset in zip(self.weights, self.offsets.tolist(), strict=True):
            tail, head = _ends(offset)
            tails.append(numbers[tail].ravel())
            heads.append(numbers[head].ravel())
            weights.append(strengths[tail].ravel())
        return np.concatenate(tails), np.concatenate(heads), np.concatenate(weights)

    def energy(self, labels: Labels, unary: Ints | None = None) -> int:
        """What the labels cost, with this unary or another one: plain sums that share nothing with any solver."""
        prices = self.unary if unary is None else unary
        total = int(prices[labels].sum(dtype=np.int64))
        for weights, offset in zip(self.weights, self.offsets.tolist(), strict=True):
            tail, head = _ends(offset)
            total += int(weights[tail][labels[tail] != labels[head]].sum(dtype=np.int64))
        return total

    def save(self, file: Path) -> None:
        """Write all of it, so that another process can start from ready-made arrays."""
        np.savez(
            file,
            name=self.name,
            unary=self.unary,
            features=self.features,
            offsets=self.offsets,
            factors=self.factors,
            beta=self.beta,
            weights=self.weights,
        )

    @classmethod
    def load(cls, file: Path) -> Instance:
        with np.load(file) as stored:
            arrays = dict(stored)
        return cls(**arrays | {"name": str(arrays["name"]), "beta": float(arrays["beta"])})


def _ends(offset: list[int]) -> tuple[Box, Box]:
    tail = tuple(slice(max(0, -s), -s if s > 0 else None) for s in offset)
    head = tuple(slice(max(0, s), s if s < 0 else None) for s in offset)
    return tail, head


def _instance(
    name: str, unary: npt.NDArray[Any], features: npt.NDArray[np.float32], *, offsets: Ints, lam: float, beta: float
) -> Instance:
    """Weights in integers, from the picture."""
    inverse = 1.0 / np.sqrt((offsets**2).sum(axis=1))
    factors = lam * inverse / inverse.sum()
    narrow = np.int16 if factors.max() <= np.iinfo(np.int16).max else np.int32
    weights: Ints = np.zeros((len(offsets), *unary.shape), dtype=narrow)
    for m, offset in enumerate(offsets.tolist()):
        tail, head = _ends(offset)
        change = features[tail].astype(np.float64) - features[head]
        weights[m][tail] = np.rint(factors[m] * np.exp(-beta * (change * change).sum(axis=-1)))
    prices = unary.astype(np.int32)
    return Instance(name, prices, features, np.ascontiguousarray(offsets, np.int64), factors, beta, weights)


@dataclass(frozen=True)
class Noisy:
    """A picture of blobs under noise; `grain` is the deviation of the Gaussian that shapes them."""

    shape: tuple[int, ...]
    quick_shape: tuple[int, ...]
    offsets: npt.NDArray[np.int64]
    lam: float
    grain: float
    hard: bool = False

    def make(self, name: str, *, quick: bool) -> Instance:
        from scipy.ndimage import gaussian_filter  # not above: a process that only solves does without

        shape = self.quick_shape if quick else self.shape
        draw = np.random.default_rng(0)
        level = gaussian_filter(draw.standard_normal(shape), self.grain / 10 if quick else self.grain)
        truth = level > np.quantile(level, 0.65)
        picture = np.where(truth, 0.65, 0.35) + 0.3 * draw.standard_normal(shape)
        ratio = ((picture - 0.35) ** 2 - (picture - 0.65) ** 2) / (2 * 0.3**2)
        if self.hard:
            unary = -np.rint((50 if len(shape) == 2 else 100) * ratio)
            _seed(unary, truth, dots=4 if quick else 40, draw=draw)
        else:
            unary = -np.rint(100 * ratio)
        features = picture.astype(np.float32)[..., None]
        return _instance(name, unary, features, offsets=self.offsets, lam=self.lam, beta=2.0)


def _seed(unary: npt.NDArray[np.float64], truth: Labels, *, dots: int, draw: np.random.Generator) -> None:
    """Set `unary` in balls of radius 3 at random sites to what the truth says at their centres."""
    around = np.indices((7,) * truth.ndim) - 3
    ball = (around**2).sum(axis=0) <= 9
    for _ in range(dots):
        centre = tuple(int(draw.integers(3, n - 3)) for n in truth.shape)
        box = tuple(slice(c - 3, c + 4) for c in centre)
        unary[box][ball] = -12000 if truth[centre] else 12000


@dataclass(frozen=True)
class Brain:
    """The white matter of a brain scan, from a soft map."""

    kernel: int

    def make(self, name: str, *, quick: bool) -> Instance:
        scan, odds = white_matter(quick=quick)
        features = (scan.astype(np.float32) / np.float32(255))[..., None]
        offsets = half_offsets(self.kernel, 3)
        beta = mean_contrast_beta(features, offsets)
        return _instance(name, -np.rint(1000 * odds), features, offsets=offsets, lam=6000.0, beta=beta)


def white_matter(*, quick: bool) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float64]]:
    """The T1 scan, and the log odds that a voxel is white matter, clipped to +-6."""
    with np.load(data_file(SCAN)) as scan:
        box = tuple(slice(n // 3, n // 3 + 16) for n in scan["t1"].shape) if quick else ...
        picture, probability = scan["t1"][box], scan["prob_wm_u8"][box] / 255.0
    with np.errstate(divide="ignore"):  # certain voxels have infinite odds, which the clip cuts off
        odds = np.log(probability) - np.log1p(-probability)
    return picture, np.clip(odds, -6, 6)


def data_file(path: Path) -> Path:
    """A file of the folder that DOPE_DATA names; MissingDataError where it is not there."""
    folder = os.environ.get("DOPE_DATA")
    if not folder:
        raise MissingDataError(f"DOPE_DATA is not set; it names the folder that holds {path.as_posix()}")
    if not (Path(folder) / path).exists():
        raise MissingDataError(f"DOPE_DATA holds no {path.as_posix()}")
    return Path(folder) / path


_CROSS = np.array([(0, 1), (1, 0)])
_CUBE = np.array([o for o in product((-1, 0, 1), repeat=3) if o > (0, 0, 0)])
_A1, _A2, _B, _C = (1000, 1000), (2000, 3000), (1000, 1000), (100, 100, 100)
_SMALL, _SMALL_3D = (40, 50), (14, 15, 16)

RECIPES: dict[str, Noisy | Brain] = {
    "A1e": Noisy(_A1, _SMALL, _CROSS, lam=300, grain=20),
    "A1h": Noisy(_A1, _SMALL, _CROSS, lam=3000, grain=60, hard=True),
    "A2e": Noisy(_A2, _SMALL, _CROSS, lam=300, grain=20),
    "A2h": Noisy(_A2, _SMALL, _CROSS, lam=3000, grain=60, hard=True),
    "Be": Noisy(_B, _SMALL, half_offsets(7, 2), lam=300, grain=20),
    "Bh": Noisy(_B, _SMALL, half_offsets(7, 2), lam=1400, grain=60, hard=True),
    "C1e": Noisy(_C, _SMALL_3D, half_offsets(3, 3), lam=300, grain=8),
    "C1h": Noisy(_C, _SMALL_3D, half_offsets(3, 3), lam=2000, grain=16, hard=True),
    "C2e": Noisy(_C, _SMALL_3D, _CUBE, lam=300, grain=8),
    "C2h": Noisy(_C, _SMALL_3D, _CUBE, lam=1600, grain=16, hard=True),
    "M5": Brain(5),
    "M7": Brain(7),
}


def make(name: str, *, quick: bool = False) -> Instance:
    """The instance of that name, or a small one of its kind; MissingDataError where its data is not there."""
    return RECIPES[name].make(name + QUICK if quick else name, quick=quick)


def changes(instance: Instance) -> dict[str, tuple[Labels, npt.NDArray[np.int32]]]:
    """Other unaries for a second solve, each with the sites where it may differ.

    strip       along one face, 5 % of the sites: normal noise whose mean size is 20 % of the mean |unary|
    scattered   the same at 1 % of the sites, drawn at random
    seam        the same on the outermost line or plane of sites, where blocks would meet
    shift       the strip again, with 20 % of the mean |unary| added everywhere: what moves labels most
    """
    draw = np.random.default_rng(1)
    size = 0.2 * float(np.abs(instance.unary).mean())
    rows = np.arange(instance.shape[0]).reshape(-1, *(1,) * (instance.unary.ndim - 1))
    strip = np.broadcast_to(rows < max(1, round(0.05 * instance.shape[0])), instance.shape)
    scattered = draw.random(instance.shape) < 0.01
    seam = np.broadcast_to(rows == 0, instance.shape)
    # The mean size of normal noise is sqrt(2 / pi) times its deviation.
    noise = draw.normal(0.0, size * math.sqrt(math.pi / 2), instance.shape)
    even = np.full(instance.shape, size)
    moves = {"strip": (strip, noise), "scattered": (scattered, noise), "seam": (seam, noise), "shift": (strip, even)}
    return {
        name: (there, np.where(there, instance.unary + np.rint(move).astype(np.int32), instance.unary))
        for name, (there, move) in moves.items()
    }
