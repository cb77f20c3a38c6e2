"""Patterns: which labels go together at which offset, stated or learned from examples.

A pattern is a probability of labels, log p(y) = -E(y) + constant, with

    E(y) = price sum_p y_p + sum over offsets o and sites p of w_o |y_p - y_{p+o}|

Given all the others, the label of site p then has the log-odds

    log p(y_p = 1 | rest) - log p(y_p = 0 | rest) = -price + sum_o w_o (s_{p+o} + s_{p-o}),       s = 2 y - 1, 0 outside

so that price and w are the coefficients of a logistic regression: they maximize the pseudo-likelihood (Besag 1975).
Newton's method finds them, with a Gaussian prior of unit variance on each w so that they stay finite where examples
leave no doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.arrays import BinaryLabels, Reals, Sites, as_labels, as_reals, check_finite
from dope.energy import Energy
from dope.errors import InputError
from dope.models.fields import Offset, Weight, weighted_pairs
from dope.models.intensity import squared_distance
from dope.models.settings import positive, whole
from dope.pairs import Kernel, ends, half_offsets

Matrix = NDArray[np.float64]

# Sites looked at, evenly spread over all examples. On 12 glyphs of 100 x 100 and 40 offsets weights are 0.28 on average
# and differ by 0.07 from those of all 120 000 sites, in a third of the time; with 20 000 by 0.12.
_FITTED_SITES = 50_000
_NEWTON_STEPS = 50
_LEAST_STEP = 1e-6
# Products of so few sites are done by BLAS in this thread: on a busy machine its others made it ten times slower.
_STRIP_SITES = 32


@dataclass(frozen=True, eq=False)
class Pattern:
    """What a pair of labels pays for being different, by offset; negative where they would rather be.

    Attributes
    ----------
    offsets : (h, 2) integers, one of each opposite pair.
    weights : (h,) numbers, in units of log-probability where they were learned.
    price : what label 1 costs over label 0 at every site.
    """

    offsets: Sites
    weights: Reals
    price: float = 0.0

    def __post_init__(self) -> None:
        offsets, weights = half_offsets(self.offsets, 2), as_reals("weights", self.weights)
        if weights.shape != (len(offsets),):
            raise InputError(f"weights have shape {weights.shape}; expected one per offset, ({len(offsets)},).")
        check_finite("weights", weights)
        check_finite("price", np.array([self.price], dtype=np.float64))
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "weights", weights.astype(np.float64))

    def __repr__(self) -> str:
        repelling = int((self.weights < 0).sum())
        return f"Pattern({len(self.weights)} offsets, {repelling} of them repelling, price {self.price:.3g})"


def denoising(image: ArrayLike, pattern: Pattern, *, noise: float = 0.4, unknown: ArrayLike | None = None) -> Energy:
    """The energy of labels that follow a pattern, seen through noise: denoising and inpainting.

        E(y) = sum over known pixels of (I_p - y_p)^2 / (2 noise^2)  +  price sum_p y_p  +  sum of w_o |y_p - y_{p+o}|

    which is -log p(y | I) up to a constant, for a learned pattern and Gaussian noise.

    Parameters
    ----------
    image : array
        A grey picture, 1 = foreground: floats around 0 to 1, bool, or unsigned integers, whose largest value then
        means 1.
    pattern : Pattern
        Learned by `learned_pattern` or stated: `Pattern([(0, 1), (1, 0)], [1.0, -1.0])`. Its energy is submodular only
        if no weight is negative.
    noise : float
        Standard deviation of the known pixels. Small where they are certain, as in inpainting: 0.1 puts 50 on them.
    unknown : bool array, optional
        Pixels to inpaint; the image may hold anything there, NaN included.

    Examples
    --------
    Stripes, with one pixel lost:

    >>> import numpy as np
    >>> pattern = Pattern([(0, 1), (1, 0)], [-1.0, 1.0])
    >>> image = [[1, 0, 1, 0], [1, 0, 0, 0], [1, 0, 1, 0]]
    >>> energy = denoising(image, pattern, unknown=np.arange(12).reshape(3, 4) == 6)
    >>> energy([[1, 0, 1, 0]] * 3) < energy(image)
    True
    """
    if not isinstance(pattern, Pattern):
        raise InputError(f"pattern is a {type(pattern).__name__}; expected a Pattern, stated or from learned_pattern.")
    deviation = positive("noise", noise, 0.4)
    certainty = 0.5 / deviation / deviation
    unary, constant = squared_distance(image, unknown)
    weights: dict[Offset, Weight] = {
        (int(r), int(c)): (float(w), None) for (r, c), w in zip(pattern.offsets, pattern.weights, strict=True)
    }
    with np.errstate(over="ignore", invalid="ignore"):
        prices = certainty * unary + pattern.price
    check_finite("noise and image add up to a unary that", prices)
    return Energy(prices, weighted_pairs(unary.shape, weights), certainty * constant)


def learned_pattern(examples: Sequence[ArrayLike] | ArrayLike, kernel: Kernel = 9, *, number: int = 24) -> Pattern:
    """The pattern of clean examples.

    It knows pairs and nothing larger: it fills gaps of a few pixels and repeats a texture, but a hole much wider than
    the kernel is mostly left blank. Of 4 Chinese characters under noise 0.6, learned from 12 others, 3.3 % of pixels
    are wrong; with 4 attracting neighbours 3.0 % at the best weight of 0.5 and 1.0, and 6.2 % at the other.

    Parameters
    ----------
    examples : list of 2D arrays, or one
        Labels, bool or 0/1, of any sizes. Some 50 000 sites, evenly spread, are looked at.
    kernel : int or list of offsets
        The offsets to choose from, as in `Energy.grid`.
    number : int
        How many half-offsets to keep: those that weigh most among all, which are then weighed again by themselves.

    Examples
    --------
    >>> import numpy as np
    >>> stripes = np.tile([True, False], (20, 10))
    >>> learned_pattern(stripes, 3, number=2).offsets.tolist()
    [[0, 1], [1, 0]]
    """
    most = whole("number", number, 24)
    pictures = _pictures(examples)
    offsets = half_offsets(kernel, 2)
    if not len(offsets):
        raise InputError(f"kernel {kernel} holds no neighbours; expected an odd size from 3 on.")
    signs, labels = _neighbors(pictures, offsets)
    price, weights = _regression(signs, labels)
    kept = np.sort(np.argsort(-np.abs(weights), kind="stable")[:most])
    if len(kept) < len(offsets):
        price, weights = _regression(signs[:, kept], labels)
    return Pattern(offsets[kept], weights, price)


def _pictures(examples: Any) -> list[BinaryLabels]:
    several = [examples] if isinstance(examples, np.ndarray) and examples.ndim == 2 else list(examples)
    found = [as_labels(one, np.shape(one), name=f"examples[{n}]") for n, one in enumerate(several)]
    for n, one in enumerate(found):
        if one.ndim != 2 or not one.size:
            raise InputError(
                f"examples[{n}] has shape {one.shape}; expected labels (rows, columns), or a list of such."
            )
    if not found:
        raise InputError("examples are an empty list; expected at least one array of labels.")
    return found


def _neighbors(pictures: list[BinaryLabels], offsets: Sites) -> tuple[Matrix, BinaryLabels]:
    """s_{p+o} + s_{p-o} for every offset o, and y_p, at sites p evenly spread over all pictures."""
    starts = np.cumsum([0, *(one.size for one in pictures)])
    every = max(1, -(-int(starts[-1]) // _FITTED_SITES))
    signs, labels = [], []
    for one, (start, _) in zip(pictures, pairwise(starts.tolist()), strict=True):
        chosen = slice(-start % every, None, every)
        s, sums = np.where(one, 1, -1).astype(np.int8), np.zeros((len(offsets), *one.shape), dtype=np.int8)
        for sums_of_one, offset in zip(sums, offsets.tolist(), strict=True):
            if all(abs(o) < n for o, n in zip(offset, one.shape, strict=True)):
                tail, head = ends(offset)
                sums_of_one[tail] += s[head]
                sums_of_one[head] += s[tail]
        signs.append(sums.reshape(len(offsets), -1)[:, chosen].T)
        labels.append(one.reshape(-1)[chosen])
    return np.concatenate(signs).astype(np.float64), np.concatenate(labels)


def _regression(signs: Matrix, labels: BinaryLabels) -> tuple[float, Matrix]:
    """price and w at which the pseudo-likelihood is largest: Newton's method, by halves where a step is too long."""
    columns = np.column_stack([np.full(len(signs), -1.0), signs])
    w = np.zeros(columns.shape[1])
    cost, slope, bend = _pseudo_likelihood(columns, labels, w)
    for _ in range(_NEWTON_STEPS):
        step = np.linalg.solve(bend, slope)
        after = _pseudo_likelihood(columns, labels, w - step)
        while after[0] > cost and np.abs(step).max() > _LEAST_STEP:
            step /= 2
            after = _pseudo_likelihood(columns, labels, w - step)
        if after[0] >= cost or np.abs(step).max() <= _LEAST_STEP:
            break
        w, (cost, slope, bend) = w - step, after
    return float(w[0]), w[1:]


def _pseudo_likelihood(columns: Matrix, labels: BinaryLabels, w: Matrix) -> tuple[float, Matrix, Matrix]:
    """-log of pseudo-likelihood and prior, their slope and their second derivatives."""
    cost, slope, bend = 0.5 * float((w * w).sum()), w.copy(), np.eye(len(w))
    for start in range(0, len(columns), _STRIP_SITES):
        x, y = columns[start : start + _STRIP_SITES], labels[start : start + _STRIP_SITES]
        odds = (x * w).sum(axis=1)
        p = 0.5 + 0.5 * np.tanh(0.5 * odds)
        cost += float(np.logaddexp(0.0, np.where(y, -odds, odds)).sum())
        slope += ((p - y)[:, None] * x).sum(axis=0)
        bend += (x.T * (p * (1.0 - p))) @ x
    return cost, slope, bend
