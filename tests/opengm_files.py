"""Models in HDF5 as OpenGM lays them out, written by its own description."""

import io

import numpy as np
import pytest

TABLE = 16000


def opengm(states, factors, functions, *, name="gm", header=None, **packing):
    """The bytes of a file. `functions[kind]` is a list of tables, or of the values of rules; `factors` are of
    (kind, function, variables)."""
    h5py = pytest.importorskip("h5py")
    kinds, stream = list(functions), io.BytesIO()
    counts = [number for kind in kinds for number in (kind, len(functions[kind]))]
    listed = [n for kind, which, scope in factors for n in (which, kinds.index(kind), len(scope), *scope)]
    with h5py.File(stream, "w") as file:
        model = file.create_group(name)
        head = [2, 0, len(states), len(factors), len(kinds), *counts, 1] if header is None else header
        arrays = {"header": head, "numbers-of-states": states, "factors": listed}
        for kind in kinds:
            tables = [np.asarray(table, float) for table in functions[kind]]
            if not tables:
                continue
            if kind == TABLE:
                indices = [n for table in tables for n in (table.ndim, *table.shape)]
                values = np.concatenate([table.ravel(order="F") for table in tables])
            else:
                indices, values = [states[0]] * 2 * len(tables), np.concatenate(tables)
            arrays |= {f"function-id-{kind}/indices": indices, f"function-id-{kind}/values": values}
        for key, numbers in arrays.items():
            dtype = float if key.endswith("values") else np.uint64
            model.create_dataset(key, data=np.asarray(numbers, dtype=dtype), **(packing if len(numbers) else {}))
    return stream.getvalue()
