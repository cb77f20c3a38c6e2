"""Random problems for the laws: 1D, 2D, 3D grids and graphs, any kernel, any overlap."""

import numpy as np
from hypothesis import strategies as st

from dope import Energy, Partition

KERNELS = {1: [3, 5], 2: [3, 5, 7, [(0, 1), (1, 0)], [(0, 1), (-1, 0), (1, -2)]], 3: [3, 5, [(0, 0, 1), (1, 1, -1)]]}


@st.composite
def shapes(draw, most=24):
    dimensions = draw(st.integers(1, 3))
    sides = {1: 24, 2: 6, 3: 3}[dimensions]
    shape = tuple(draw(st.integers(1, sides)) for _ in range(dimensions))
    while np.prod(shape) > most:
        shape = tuple(max(1, n - 1) for n in shape)
    return shape


def rng_of(draw):
    return np.random.default_rng(draw(st.integers(0, 2**32 - 1)))


@st.composite
def grids(draw, *, most=24, signed=False, integers=None):
    """An Energy.grid together with the arguments that made it."""
    shape = draw(shapes(most))
    rng = rng_of(draw)
    whole = draw(st.booleans()) if integers is None else integers
    unary = rng.integers(-6, 7, shape).astype(float) if whole else rng.normal(0, 2, shape)
    arguments = {"lam": draw(st.sampled_from([0.5, 1.0, 2.0])) if not whole else draw(st.sampled_from([1.0, 3.0]))}
    arguments["kernel"] = draw(st.sampled_from(KERNELS[len(shape)]))
    kind = draw(st.sampled_from(["potts", "numbers", "arrays"] + ([] if whole else ["features", "channels"])))
    energy = Energy.grid(unary, **arguments)
    low = -3 if signed else 0
    if kind in ("numbers", "arrays"):
        number = len(energy.pairs.offsets)
        size = (number,) if kind == "numbers" else (number, *shape)
        arguments["weights"] = rng.integers(low, 4, size).astype(float) if whole else rng.uniform(low, 3, size)
    if kind in ("features", "channels"):
        channels = (3,) if kind == "channels" else ()
        arguments["features"] = rng.integers(0, 255, (*shape, *channels)).astype(np.uint8)
        if draw(st.booleans()):
            arguments["spacing"] = rng.uniform(0.5, 3, len(shape))
    if draw(st.integers(0, 3)) == 0:
        arguments["mask"] = rng.random(shape) < 0.7
        arguments["mask"].flat[rng.integers(arguments["mask"].size)] = True
    return Energy.grid(unary, **arguments), unary, arguments


@st.composite
def graphs(draw, *, most=14, signed=False, integers=None):
    n = draw(st.integers(1, most))
    rng = rng_of(draw)
    whole = draw(st.booleans()) if integers is None else integers
    edges = rng.integers(0, n, (draw(st.integers(0, 3 * n)), 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    low = -3 if signed else 0
    if whole:
        return Energy.graph(rng.integers(-6, 7, n), edges, rng.integers(low, 4, len(edges)))
    return Energy.graph(rng.normal(0, 2, n), edges, rng.uniform(low, 3, len(edges)))


@st.composite
def energies(draw, *, most=14, signed=False, integers=None):
    if draw(st.booleans()):
        return draw(grids(most=most, signed=signed, integers=integers))[0]
    return draw(graphs(most=most, signed=signed, integers=integers))


@st.composite
def partitions(draw, energy, *, overlaps=True):
    overlap = draw(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9])) if overlaps else 0.0
    if len(energy.shape) == 1 and hasattr(energy.pairs, "first"):
        blocks = draw(st.integers(1, min(5, energy.unary.size)))
        return Partition.graph(energy.pairs, blocks, overlap=overlap)
    layout = tuple(draw(st.integers(1, min(3, n))) for n in energy.shape)
    return Partition.grid(energy.shape, layout, overlap=overlap)


def members(partition):
    """Each block's sites as flat indices in the order of its own arrays."""
    numbers = np.arange(int(np.prod(partition.shape))).reshape(partition.shape)
    return [numbers[block.where].ravel() for block in partition.blocks]
