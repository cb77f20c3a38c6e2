"""Ordered labels as layers: one cut gives what trying all labellings gives."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dope
from dope.layers import Layers, bytes_needed
from dope.pairs import half_offsets

JUMPS = {
    "linear": lambda d: d,
    "quadratic": lambda d: d * d,
    "bent": lambda d: np.maximum(d, 3 * d - 4),
    "nothing near": lambda d: np.maximum(0, d - 1),
}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_cut_of_layers_is_the_best_of_all_labellings(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([(4,), (2, 2), (1, 3), (2, 1, 2)]))
    count = data.draw(st.integers(2, 5))
    jumps = JUMPS[data.draw(st.sampled_from(sorted(JUMPS)))](np.arange(count))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    costs = rng.integers(-9, 10, (*shape, count)).astype(float)
    offsets = half_offsets(3, len(shape))
    weights: list[Any] = [rng.integers(0, 4, shape) if rng.random() < 0.5 else 2.0 for _ in offsets]
    mask = rng.random(shape) < 0.8 if data.draw(st.booleans()) else None
    if mask is not None:
        mask.flat[0] = True
    inside = np.ones(shape, dtype=bool) if mask is None else mask

    layers = Layers.of(costs, offsets, weights, jumps, mask=mask)
    result = dope.minimize(layers.energy)
    labels = layers.labels(result.labels)

    def energy(x: Any) -> float:
        total = sum(costs[(*p, x[p])] for p in np.ndindex(shape) if inside[p])
        for offset, weight in zip(offsets, weights, strict=True):
            field = np.broadcast_to(weight, shape)
            for p in np.ndindex(shape):
                q = tuple(a + int(o) for a, o in zip(p, offset, strict=True))
                if all(0 <= b < n for b, n in zip(q, shape, strict=True)) and inside[p] and inside[q]:
                    total += field[p] * jumps[abs(int(x[p]) - int(x[q]))]
        return float(total)

    every = (np.array(x).reshape(shape) for x in itertools.product(range(count), repeat=costs[..., 0].size))
    assert (labels[~inside] == 0).all()
    assert result.exact
    assert energy(labels) == result.energy == min(energy(x) for x in every)


def test_what_is_refused() -> None:
    costs, offsets = np.zeros((3, 3, 4)), half_offsets(3, 2)
    with pytest.raises(dope.InputError, match="not convex: V\\(3\\) - V\\(2\\)"):
        Layers.of(costs, offsets, [1.0] * 4, [0, 1, 2, 2])
    with pytest.raises(dope.InputError, match="expected V\\(0\\) = 0"):
        Layers.of(costs, offsets, [1.0] * 4, [0, 1, 2])
    with pytest.raises(dope.InputError, match="weights of 0 or more"):
        Layers.of(costs, offsets, [-1.0] * 4, [0, 1, 2, 3])
    with pytest.raises(dope.InputError, match="4 labels as 3 layers"):
        Layers.of(costs, offsets, [1.0] * 4, [0, 1, 2, 3], memory=1000)
    assert bytes_needed((512, 512), 64, offsets, np.arange(64)) > 512 * 512 * 63 * 20
