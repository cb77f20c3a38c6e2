"""Energies as NumPy arrays.

NPY: a square matrix Q, the QUBO x'Qx to be minimized, as `Energy.from_qubo` takes it.

NPZ: the arrays of `Energy.graph`, `unary`, `edges` and `weights`; or those of `Energy.from_tables`, `cost0` and `cost1`
of each site, ends `i` and `j` of the edges, `tables[:, x_i, x_j]`. Either may have a `constant`, and a `shape` in which
the sites lie, in row-major order: the energy is that of a grid then. Whatever else is in the file is left alone, and
nothing is ever unpickled.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dope.energy import Energy
from dope.errors import InputError
from dope.io import npy, npz
from dope.io.energies.instance import Instance
from dope.io.files import about
from dope.memory import require_bytes

_GRAPH = ("unary", "edges", "weights")
_TABLES = ("cost0", "cost1", "i", "j", "tables")
_MOST_AXES = 16

# The matrix once more for every step of its reduction.
_COPIES = 8


def read_matrix(path: Path) -> Instance:
    """From an NPY file."""
    found = npy.load(path, budget=None).pixels
    require_bytes(f"{path}: a QUBO of {len(found):,} sites", _COPIES * 8 * found.size)
    with about(path):
        energy = Energy.from_qubo(np.asarray(found))
    return Instance(energy, "QUBO matrix, minimized")


def read_graph(path: Path) -> Instance:
    """From an NPZ file."""
    names = npz.names(path)
    kind = next((kind for kind in (_GRAPH, _TABLES) if set(kind) <= set(names)), None)
    if kind is None:
        raise InputError(
            f"{path}: holds the arrays {', '.join(names[:20]) or 'none'}; expected {', '.join(_GRAPH)}, or "
            f"{', '.join(_TABLES)}"
        )
    arrays = {name: npz.array(path, name) for name in (*kind, "constant", "shape") if name in names}
    with about(path):
        energy = _from_graph(arrays) if kind is _GRAPH else _from_tables(arrays)
        if "constant" in arrays:
            energy = replace(energy, constant=energy.constant + _constant(arrays["constant"]))
        if "shape" in arrays:
            energy = energy.on_grid(_shape(arrays["shape"], energy.unary.size))
    return Instance(energy, "NPZ graph")


def _from_graph(arrays: dict[str, NDArray[Any]]) -> Energy:
    return Energy.graph(*(arrays[name] for name in _GRAPH))


def _from_tables(arrays: dict[str, NDArray[Any]]) -> Energy:
    for one, other in (("cost0", "cost1"), ("i", "j")):
        if arrays[one].ndim != 1 or arrays[one].shape != arrays[other].shape:
            raise InputError(f"{one} and {other} have shapes {arrays[one].shape} and {arrays[other].shape}; expected "
                             "one number each per site, or per edge.")  # fmt: skip
    costs = np.stack([arrays["cost0"], arrays["cost1"]], axis=1)
    return Energy.from_tables(costs, np.stack([arrays["i"], arrays["j"]], axis=1), arrays["tables"])


def _constant(array: NDArray[Any]) -> float:
    if array.size != 1 or not math.isfinite(array.item()):
        raise InputError(f"constant is {array.tolist()!r:.60}; expected one finite number.")
    return float(array.item())


def _shape(array: NDArray[Any], sites: int) -> tuple[int, ...]:
    shape = tuple(array.tolist()) if array.ndim == 1 and array.dtype.kind in "iu" else ()
    if not 1 <= len(shape) <= _MOST_AXES or min(shape) < 1 or math.prod(shape) != sites:
        raise InputError(f"shape is {array.tolist()!r:.60}; expected the lengths of axes that hold {sites} sites.")
    return shape
