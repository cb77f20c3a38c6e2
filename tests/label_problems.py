"""Tiny energies of several labels, of every kind, and what brute force says of them."""

import itertools

import numpy as np
from hypothesis import strategies as st

from dope import LabelEnergy

SHAPES = [(1,), (5,), (2, 3), (3, 2), (1, 6), (2, 2, 2)]
METRICS = ["potts", "linear", "quadratic", ("linear", 2), ("quadratic", 3), "table", "signed table"]


@st.composite
def metrics(draw, label_count, kinds=METRICS):
    """A metric as a caller gives it; tables may be anything."""
    kind = draw(st.sampled_from(kinds))
    if kind not in ("table", "signed table"):
        return kind
    low = 0 if kind == "table" else -3
    numbers = draw(st.lists(st.integers(low, 6), min_size=label_count**2, max_size=label_count**2))
    upper = np.triu(np.array(numbers, dtype=float).reshape(label_count, label_count), 1)
    return upper + upper.T


def _costs(draw, shape, whole):
    size = int(np.prod(shape))
    if whole:
        numbers = draw(st.lists(st.integers(-6, 6), min_size=size, max_size=size))
        return np.array(numbers, dtype=draw(st.sampled_from([np.int32, np.float32, np.float64]))).reshape(shape)
    seed = draw(st.integers(0, 1 << 16))
    return np.random.default_rng(seed).normal(0, 2, shape).astype(draw(st.sampled_from([np.float32, np.float64])))


@st.composite
def grids(draw, kinds=METRICS, shapes=SHAPES, most_labels=4):
    """An energy of a grid: 1D to 3D, any kernel, constant or contrast weights, perhaps a mask."""
    shape, label_count = draw(st.sampled_from(shapes)), draw(st.integers(2, most_labels))
    costs = _costs(draw, (*shape, label_count), draw(st.booleans()))
    features = np.random.default_rng(draw(st.integers(0, 99))).normal(size=shape) if draw(st.booleans()) else None
    mask = None
    if draw(st.booleans()):
        mask = np.random.default_rng(draw(st.integers(0, 99))).random(shape) < 0.7
        mask.flat[0] = True
    return LabelEnergy.grid(
        costs, lam=draw(st.sampled_from([0.5, 1.0, 3.0])), kernel=draw(st.sampled_from([3, 5])), features=features,
        mask=mask, metric=draw(metrics(label_count, kinds)),
    )  # fmt: skip


@st.composite
def graphs(draw, kinds=METRICS):
    number, label_count = draw(st.integers(1, 6)), draw(st.integers(2, 3))
    costs = _costs(draw, (number, label_count), draw(st.booleans()))
    pairs = list(itertools.combinations(range(number), 2))
    edges = draw(st.lists(st.sampled_from(pairs), max_size=10)) if pairs else []
    weights = draw(st.lists(st.integers(0, 4), min_size=len(edges), max_size=len(edges)))
    return LabelEnergy.graph(costs, edges, np.array(weights, dtype=float), draw(metrics(label_count, kinds)))


@st.composite
def tables(draw):
    number, label_count = draw(st.integers(2, 5)), draw(st.integers(2, 3))
    costs = _costs(draw, (number, label_count), True)
    edges = draw(st.lists(st.sampled_from(list(itertools.combinations(range(number), 2))), max_size=6, unique=True))
    seed = draw(st.integers(0, 1 << 16))
    listed = np.random.default_rng(seed).integers(-3, 7, (len(edges), label_count, label_count))
    return LabelEnergy.from_tables(costs, edges, listed.astype(float))


def sites_of(energy):
    """Sites that take part."""
    inside = getattr(energy.pairs, "inside", None)
    return np.ones(energy.shape, dtype=bool) if inside is None else np.asarray(inside)


def all_labels(energy):
    """Every labelling of the sites that take part, 0 elsewhere: (number, *shape)."""
    inside = sites_of(energy)
    number = int(inside.sum())
    choices = np.array(list(itertools.product(range(energy.label_count), repeat=number)), dtype=energy.label_type)
    found = np.zeros((len(choices), *energy.shape), dtype=energy.label_type)
    found[:, inside] = choices.reshape(len(choices), number)
    return found


def energies_of(energy, labellings):
    """The energies of many labellings by plain sums."""
    inside = sites_of(energy)
    flat = labellings.reshape(len(labellings), -1)
    costs = np.where(inside.reshape(-1, 1), np.asarray(energy.costs, float).reshape(flat.shape[1], -1), 0.0)
    total = energy.constant + costs[np.arange(flat.shape[1]), flat].sum(axis=1)
    if energy.metric is None:
        pairs = energy.pairs
        for i, j, table in zip(pairs.first, pairs.second, pairs.tables, strict=True):
            total = total + table[flat[:, i], flat[:, j]]
        return total
    matrix = energy.metric.matrix(energy.label_count)
    for i, j, weight in zip(*energy.pairs.edges(), strict=True):
        total = total + weight * matrix[flat[:, i], flat[:, j]]
    return total


def minimizers(energy):
    """The least energy, and all labellings that have it but for rounding."""
    labellings = all_labels(energy)
    values = energies_of(energy, labellings)
    least = float(values.min())
    return least, labellings[values <= least + 1e-7 * (1 + abs(least))]
