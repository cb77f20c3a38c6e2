"""The roof dual: every site twice, so that pairs of any sign become pairs that pay when their ends differ.

With y' for 1 - y, as labels of their own,

    w|y_i - y_j|          is   w/2 ( |y_i - y_j| + |y'_i - y'_j| )              where w > 0, and
    w|y_i - y_j| - w      is |w|/2 ( |y_i - y'_j| + |y'_i - y_j| )              where w < 0,
    u_i y_i               is   1/2 ( u_i y_i - u_i y'_i + u_i ).

Twice the energy is thus F(y, y') + sum_i u_i - 2 R, R the sum of |w| over repulsive pairs; F is submodular, and no
fraction is needed where the costs have none. Its minimum over all y and y' is a lower bound, the roof dual (Hammer,
Hansen, Simeone 1984), and a minimizer with y'_i = 1 - y_i at some sites says what is best there: whatever the labels of
the others, these labels at these sites together never raise the energy (Boros, Hammer 2002; Kolmogorov, Rother 2007).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.energy import Energy
from dope.pairs import GridPairs, Pairs, ends, sorted_graph
from dope.rounding import rounded_down
from dope.sums import exact_sum


def double_energy(energy: Energy) -> Energy:
    """F with a constant such that F = 2 E where y' = 1 - y. Its sites are those of `double_pairs`."""
    pairs = double_pairs(energy.pairs)
    unary = energy.unary.astype(np.float64)
    constant = 2 * Fraction(energy.constant) + exact_sum(unary) - twice_repulsion(pairs)
    # F is for bounds: what its constant cannot hold is left to them.
    return Energy(np.stack([unary, -unary]).reshape(pairs.shape), pairs, rounded_down(constant))


def double_pairs(pairs: Pairs) -> Pairs:
    """The pairs of F. Of a grid they are a grid with an axis more, y and y' being its two layers."""
    attractive, repulsive = pairs.attractive, pairs.repulsive
    if isinstance(attractive, GridPairs) and isinstance(repulsive, GridPairs):
        return _double_grid(attractive, repulsive)
    assert not isinstance(attractive, GridPairs) and not isinstance(repulsive, GridPairs)
    n = pairs.sites
    layers = (0, n)
    first = [attractive.first + layer for layer in layers] + [repulsive.first + layer for layer in layers]
    second = [attractive.second + layer for layer in layers] + [repulsive.second + n - layer for layer in layers]
    weights = [attractive.weights] * 2 + [repulsive.weights] * 2
    return sorted_graph(2 * n, np.concatenate(first), np.concatenate(second), np.concatenate(weights))


def twice_repulsion(pairs: Pairs) -> Fraction:
    """2 R: what all pairs between y and y' weigh together."""
    layer = np.zeros(pairs.shape, dtype=np.bool_)
    layer.reshape(2, -1)[1] = True
    return pairs.exact_roughness(layer)


def _double_grid(attractive: GridPairs, repulsive: GridPairs) -> GridPairs:
    """Offsets (0, o) for pairs that attract; (1, o) and (1, -o) for those that repel, from y to y' both times."""
    shape = (2, *attractive.shape)

    def twice(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.broadcast_to(array, (2, *array.shape))  # both layers are the same memory

    fields = None
    if attractive.fields is not None and repulsive.fields is not None:
        back = [_seen_from_head(f, o) for f, o in zip(repulsive.fields, repulsive.offsets.tolist(), strict=True)]
        fields = tuple(twice(field) for field in (*attractive.fields, *repulsive.fields, *back))
    features, inside, counts = attractive.features, attractive.inside, attractive.counts
    signs = None
    if attractive.signs is not None and repulsive.signs is not None:
        signs = (attractive.signs, repulsive.signs, repulsive.signs)
    return replace(
        attractive,
        shape=shape,
        offsets=np.concatenate(
            [
                np.insert(attractive.offsets, 0, 0, axis=1),
                np.insert(repulsive.offsets, 0, 1, axis=1),
                np.insert(-repulsive.offsets, 0, 1, axis=1),
            ]
        ),
        factors=np.concatenate([attractive.factors, repulsive.factors, repulsive.factors]),
        bounds=np.concatenate([attractive.bounds, repulsive.bounds, repulsive.bounds]),
        fields=fields,
        features=None if features is None else twice(features),
        inside=None if inside is None else np.ascontiguousarray(twice(inside)),
        counts=counts and (np.ones(2), *counts),
        fused=attractive.fused and attractive.fused.twice(),
        signs=None if signs is None else np.concatenate(signs),
    )


def _seen_from_head(field: npt.NDArray[Any], offset: list[int]) -> npt.NDArray[Any]:
    """The field of the pairs (q, q - offset), where `field` is that of (p, p + offset)."""
    turned = np.zeros(field.shape, dtype=field.dtype)
    if all(abs(o) < n for o, n in zip(offset, field.shape, strict=True)):
        tail, head = ends(offset)
        turned[head] = field[tail]
    return turned
