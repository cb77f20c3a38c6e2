"""Ordered labels with a convex price of jumps, and any costs, as one cut on layers (Ishikawa 2003).

    E(x) = sum_i c_i(x_i) + sum_{pairs} w_ij V(x_i - x_j),     x_i in {0..L-1},   V convex, symmetric, V(0) = 0

Site i becomes a column of L - 1 sites y_it = [x_i >= t], t = 1..L-1, between a 1 below it (t = 0) and a 0 above it
(t = L).

- A column whose pairs weigh M + c_i(t) between t and t + 1 pays M + c_i(x_i) where it changes once. It changes an odd
  number of times, and never three times if 2 M is more than all that its pairs with other columns can pay.
- |[x_i >= t] - [x_j >= t + k]|, summed over t, is |x_i - x_j + k|. With a_k = (V(k+1) - 2 V(k) + V(k-1)) / 2 for
  |k| <= L - 2 the sum of a_k |d + k| is V(d) and a constant; for V(d) = |d| only a_0 = 1 is left. So columns are joined
  by pairs at offsets (offset, k), all of them symmetric and none negative: an energy of a grid with one more axis.

Where t + k leaves the column the label is known, and the pair is a unary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Mask, Reals, Sites, as_reals, check_finite, label_type
from dope.energy import Energy
from dope.errors import InputError
from dope.footprint import whole_bytes
from dope.memory import require_bytes
from dope.pairs import GridPairs, ends

# Of a layer's site while the energy is made: its unary, the weights of its column, and one array at work.
WORK_BYTES = 24


@dataclass(frozen=True, eq=False)
class Layers:
    """The binary energy on layers, the last axis, and what its labels say of the sites."""

    energy: Energy
    label_count: int

    @classmethod
    def of(
        cls,
        costs: Reals,
        offsets: Sites,
        weights: Sequence[float | Reals],
        jumps: npt.ArrayLike,
        *,
        mask: Mask | None = None,
        memory: int | None = None,
    ) -> Layers:
        """The layers of costs (*shape, L) in memory.

        `weights` has for each half-offset a number, or a number per site for its pair with site + offset. `jumps` is
        V(0), V(1) .. V(L - 1). `memory` bytes may be taken, by default what is available.
        """
        shape, count = costs.shape[:-1], costs.shape[-1]
        bends = _bends(jumps, count)
        needed = bytes_needed(shape, count, offsets, jumps)
        require_bytes(
            f"{count} labels as {count - 1} layers",
            needed,
            memory,
            advice="Use moves, which take the memory of one label",
        )
        check_finite("costs", costs)
        inside = np.ones(shape, dtype=bool) if mask is None else mask
        prices = np.where(inside[..., None], costs, 0).astype(np.float64)
        least = prices.min(axis=-1)
        prices -= least[..., None]
        layers = (*shape, count - 1)
        unary, strength = np.zeros(layers), np.zeros(layers)
        kernel, given, constant = [], [], float(least.sum())
        for offset, weight in zip(offsets.tolist(), weights, strict=True):
            field = _existing(weight, offset, shape, inside)
            constant -= float(field.sum()) * sum(a * abs(k) for k, a in bends)
            for k, a in bends:
                kernel.append((*offset, k))
                given.append(a * field)
                constant += _add_known(unary, strength, a * field, offset, k)
        # A column that changes three times has more to pay than it can save.
        column = np.floor((count - 1) * float(strength.max(initial=0.0)) / 2) + 1
        unary[..., 0] -= column + prices[..., 0]
        unary[..., -1] += column + prices[..., -1]
        constant += float(prices[..., 0][inside].sum())
        up = np.zeros(layers)
        up[..., :-1] = column + prices[..., 1:-1]
        energy = Energy.grid(
            unary,
            kernel=[*kernel, (*[0] * len(shape), 1)],
            weights=[*(np.broadcast_to(field[..., None], layers) for field in given), up],
            mask=None if mask is None else np.broadcast_to(mask[..., None], layers),
        )
        return cls(Energy(energy.unary, energy.pairs, constant), count)

    def labels(self, layers: BinaryLabels) -> npt.NDArray[Any]:
        """Of every site: how many of its layers have label 1."""
        return np.asarray(layers.sum(axis=-1), dtype=label_type(max(3, self.label_count)))


def bytes_needed(shape: tuple[int, ...], label_count: int, offsets: Sites, jumps: npt.ArrayLike) -> int:
    """What it takes to make the layers and to cut them, in 32 bits."""
    bends = _bends(jumps, label_count)
    kernel = [(*offset, k) for offset in offsets.tolist() for k, _ in bends] + [(*[0] * len(shape), 1)]
    layers = (*shape, label_count - 1)
    number = len(kernel)
    pairs = GridPairs(layers, np.array(kernel, dtype=np.int64), np.ones(number), np.ones((number, 2)))
    fields = 8 * len(kernel)  # which the core reads layer by layer
    return whole_bytes(pairs, pixel_bytes=WORK_BYTES + fields, bits=32)


def _bends(jumps: npt.ArrayLike, label_count: int) -> list[tuple[int, float]]:
    """k and a_k, where that is not 0."""
    values = as_reals("jumps", jumps).astype(np.float64)
    if label_count < 2 or values.shape != (label_count,) or values[0] != 0:
        raise InputError(f"jumps has shape {values.shape}; expected V(0) = 0 to V(L - 1) for {label_count} labels.")
    check_finite("jumps", values)
    around = np.concatenate([values[:0:-1], values])  # V(-(L-1)) .. V(L-1)
    bends = (around[2:] - 2 * around[1:-1] + around[:-2]) / 2
    if (bends < 0).any():
        k = abs(int(np.argmax(bends < 0)) - (label_count - 2))
        raise InputError(
            f"the price of jumps is not convex: V({k + 1}) - V({k}) is less than V({k}) - V({k - 1}). Layers need a "
            f"convex one, such as linear or quadratic without a limit; moves take any."
        )
    return [(int(k) - (label_count - 2), float(bends[k])) for k in np.flatnonzero(bends)]


def _existing(weight: float | Reals, offset: list[int], shape: tuple[int, ...], inside: Mask) -> Reals:
    """The weight of every site's pair at this offset, 0 where there is none."""
    field = np.zeros(shape)
    if all(abs(o) < n for o, n in zip(offset, shape, strict=True)):
        tail, head = ends(offset)
        both = inside[tail] & inside[head]
        field[tail] = np.broadcast_to(np.asarray(weight, dtype=np.float64), shape)[tail] * both
    if (field < 0).any():
        raise InputError(f"a weight is {field.min():g}; layers need weights of 0 or more. Use moves for others.")
    return field


def _add_known(unary: Reals, strength: Reals, field: Reals, offset: list[int], k: int) -> float:
    """Adds the pairs at (offset, k) to each site's strength, and where one end is known, to the unary.

    The constant that they have then.
    """
    count = unary.shape[-1]
    if not all(abs(o) < n for o, n in zip(offset, unary.shape, strict=False)):
        return 0.0
    tail, head = ends(offset)
    weights = field[tail][..., None]
    strength[tail] += weights
    strength[head] += weights
    # The tail's layer t meets t + k of the head, and the head's layer s meets s - k of the tail.
    for end, step in ((tail, k), (head, -k)):
        beyond = min(abs(step), count)
        known = slice(count - beyond, count) if step > 0 else slice(0, beyond)
        unary[(*end, known)] += weights if step > 0 else -weights
    return float(weights.sum()) * float(min(abs(k), count))
