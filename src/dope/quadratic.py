"""Quadratic models of bits and spins, and the way between them and the normal form of an energy.

A QUBO is sum_ij Q_ij x_i x_j with bits x in {0, 1}; an Ising model sum_i h_i s_i + sum_ij J_ij s_i s_j with spins
s = 2x - 1. On bits

    x_i x_j = (x_i + x_j - |x_i - x_j|) / 2        x_i x_i = x_i        s_i s_j = 1 - 2 |x_i - x_j|

so either is a unary, weighted pairs that pay when their ends differ, and a constant; and

    w |x_i - x_j| = w x_i + w x_j - 2 w x_i x_j

leads back. dimod is imported here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import Mask, Sites, as_reals, check_finite
from dope.errors import InputError, MissingExtraError
from dope.memory import require_bytes

Floats = npt.NDArray[np.float64]

# Products of two positions stay within int64.
_MOST_SITES = 1 << 31
# Of a site, while terms and an energy are made of it, however few entries there are: five numbers at a time.
_SITE_BYTES = 40
# Of the largest entry: a matrix that differs from its transpose by less was meant to be symmetric.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Terms:
    """What `Energy.graph` takes, and a constant; edges may be parallel."""

    unary: Floats
    edges: Sites
    weights: Floats
    constant: float


@dataclass(frozen=True, eq=False)
class Entries:
    """A sparse square matrix: its entries count each for itself."""

    sites: int
    rows: Sites
    columns: Sites
    values: Floats


def qubo_terms(matrix: Any, constant: float) -> Terms:
    """Of x'Qx + constant."""
    entries = _entries("Q", matrix)
    if not isinstance(matrix, Mapping):
        _check_symmetric("Q", entries, "(Q + Q.T) / 2 if x'Qx is meant, np.triu(Q) if only the upper triangle counts")
    return bit_terms(entries, _finite_number("constant", constant))


def ising_terms(fields: Any, couplings: Any, constant: float) -> Terms:
    """Of sum_i h_i s_i + sum_(i, j) J_ij s_i s_j + constant, each pair of a matrix once."""
    entries = _entries("couplings", couplings, fewest=0)
    if isinstance(fields, Mapping):
        places, values = _from_mapping("fields", {(i,): value for i, value in fields.items()}, 1)
        sites = max(entries.sites, int(places.max(initial=-1)) + 1)
        _require_sites("fields", sites)
        h = np.zeros(sites)
        h[places[:, 0]] = values
    else:
        h = as_reals("fields", fields).astype(np.float64)
        if h.ndim != 1 or entries.sites > len(h) or (entries.sites < len(h) and not isinstance(couplings, Mapping)):
            raise InputError(
                f"fields have shape {h.shape} and the couplings are of {entries.sites} sites; expected one field per "
                "site. Pass zeros where there is none."
            )
        check_finite("fields", h)
    if not isinstance(couplings, Mapping):
        _check_symmetric("couplings", entries, "J + J.T if both count, np.triu(J) if only the upper triangle does")
        entries = _upper(entries)
    entries = _without_zeros(entries)
    loops = entries.rows == entries.columns
    if loops.any():
        at = int(entries.rows[np.argmax(loops)])
        raise InputError(
            f"couplings join site {at} with itself; as s s = 1 that is a constant. Leave such entries out, and add "
            "their sum to `constant` if it counts."
        )
    return spin_terms(h, entries, _finite_number("constant", constant))


def dimod_terms(model: Any) -> Terms:
    """Of a dimod.BinaryQuadraticModel of either vartype, its variables in their order."""
    if not hasattr(model, "to_numpy_vectors") or not hasattr(model, "vartype"):
        raise InputError(f"the model is a {type(model).__name__}; expected a dimod.BinaryQuadraticModel.")
    linear, (rows, columns, values), offset = model.to_numpy_vectors(variable_order=list(model.variables))
    h = as_reals("the model's linear biases", linear).astype(np.float64)
    quadratic = as_reals("the model's quadratic biases", values).astype(np.float64)
    if not len(h):
        raise InputError("the model has no variables; expected at least one.")
    check_finite("the model's linear biases", h)
    check_finite("the model's quadratic biases", quadratic)
    constant = _finite_number("the model's offset", float(offset))
    pairs = Entries(len(h), np.asarray(rows, np.int64), np.asarray(columns, np.int64), quadratic)
    if model.vartype.name == "SPIN":
        return spin_terms(h, pairs, constant)
    terms = bit_terms(pairs, constant)
    with np.errstate(over="ignore", invalid="ignore"):
        return Terms(terms.unary + h, terms.edges, terms.weights, constant)


def dimod_model(terms: Terms) -> Any:
    """The dimod.BinaryQuadraticModel, of binary variables 0, 1, ..., with the same energies."""
    try:
        import dimod
    except ImportError as error:
        raise MissingExtraError(
            "a dimod model needs the package dimod, which is not installed; run: pip install 'dope[dwave]'"
        ) from error
    first, second = terms.edges.T
    linear = terms.unary + _at_both_ends(len(terms.unary), first, second, terms.weights)
    quadratic = (first, second, -2.0 * terms.weights)
    return dimod.BinaryQuadraticModel.from_numpy_vectors(linear, quadratic, terms.constant, dimod.BINARY)


def bit_terms(entries: Entries, constant: float = 0.0) -> Terms:
    """Of sum value x_i x_j + constant over the entries, the diagonal among them."""
    own = entries.rows == entries.columns
    diagonal: Floats = np.bincount(entries.rows[own], entries.values[own], entries.sites).astype(np.float64)
    first, second, halves = entries.rows[~own], entries.columns[~own], entries.values[~own] / 2
    with np.errstate(over="ignore", invalid="ignore"):  # whoever makes an energy of it looks at the sums
        unary = diagonal + _at_both_ends(entries.sites, first, second, halves)
    return Terms(unary, np.stack([first, second], axis=1), -halves, constant)


def spin_terms(h: Floats, entries: Entries, constant: float) -> Terms:
    """Of sum h_i s_i + sum value s_i s_j + constant over the entries, none of them on the diagonal."""
    first, second, values = entries.rows, entries.columns, entries.values
    with np.errstate(over="ignore", invalid="ignore"):
        total = constant - float(h.sum()) + float(values.sum())
        return Terms(
            2.0 * h, np.stack([first, second], axis=1), -2.0 * values, _finite_number("the sum of all terms", total)
        )


def _at_both_ends(sites: int, first: Sites, second: Sites, values: Floats) -> Floats:
    return np.asarray(np.bincount(first, values, sites) + np.bincount(second, values, sites), dtype=np.float64)


def _entries(name: str, matrix: Any, fewest: int = 1) -> Entries:
    """From a square array, anything sparse with `tocoo`, or a mapping from (i, j)."""
    if isinstance(matrix, Mapping):
        places, values = _from_mapping(name, matrix, 2)
        sites = int(places.max(initial=-1)) + 1
        found = Entries(sites, places[:, 0], places[:, 1], values)
    elif hasattr(matrix, "tocoo"):
        sparse = matrix.tocoo()
        values = as_reals(name, sparse.data).astype(np.float64)
        _check_square(name, sparse.shape)
        rows, columns = np.asarray(sparse.row, np.int64), np.asarray(sparse.col, np.int64)
        found = Entries(int(sparse.shape[0]), rows, columns, values)
    else:
        array = as_reals(name, matrix)
        _check_square(name, array.shape)
        check_finite(name, array)
        rows, columns = (np.asarray(places, np.int64) for places in np.nonzero(array))
        found = Entries(len(array), rows, columns, array[rows, columns].astype(np.float64))
    if not fewest <= found.sites < _MOST_SITES:
        raise InputError(f"{name} is of {found.sites} sites; expected {fewest} to {_MOST_SITES - 1}.")
    _require_sites(name, found.sites)
    check_finite(name, found.values)
    return found


def _require_sites(name: str, sites: int) -> None:
    """Refuse more sites than fit into memory: there are as many as the largest index says, with an entry or without."""
    advice = "Number the sites from 0 on, without gaps."
    require_bytes(f"{name} with indices up to {sites - 1:,}", _SITE_BYTES * sites, advice=advice)


def _from_mapping(name: str, mapping: Mapping[Any, Any], length: int) -> tuple[Sites, Floats]:
    expected = "a pair of integers (i, j)" if length == 2 else "an integer"
    for key in mapping:
        if not isinstance(key, tuple) or len(key) != length or not all(_is_place(part) for part in key):
            shown = key if length == 2 else key[0]
            raise InputError(
                f"{name} has the key {shown!r}; expected {expected} from 0 on. A dimod model whose variables have "
                "names is read with from_dimod."
            )
    places = np.array(list(mapping), dtype=np.int64).reshape(-1, length)
    values = as_reals(name, list(mapping.values())).astype(np.float64)
    if values.ndim != 1:
        raise InputError(f"{name} holds values of shape {values.shape[1:]}; expected one number for each key.")
    check_finite(name, values)
    return places, values


def _is_place(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= int(value) < _MOST_SITES


def _check_square(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise InputError(f"{name} has shape {tuple(shape)}; expected a square matrix, a row and a column per site.")


def _check_symmetric(name: str, entries: Entries, remedy: str) -> None:
    """Refuse entries both above and below the diagonal that are not each other's mirror image."""
    above, below = entries.rows < entries.columns, entries.rows > entries.columns
    if not (entries.values[above].any() and entries.values[below].any()):
        return
    low, high = np.minimum(entries.rows, entries.columns), np.maximum(entries.rows, entries.columns)
    keys, place = np.unique(low * entries.sites + high, return_inverse=True)
    signed = np.where(above, entries.values, np.where(below, -entries.values, 0.0))
    difference = np.abs(np.bincount(place.ravel(), signed, len(keys)))
    worst = int(np.argmax(difference))
    if difference[worst] > _ROUNDING * float(np.abs(entries.values).max()):
        i, j = divmod(int(keys[worst]), entries.sites)
        raise InputError(
            f"{name} holds different numbers at ({i}, {j}) and ({j}, {i}), by {difference[worst]:.6g}; expected a "
            f"symmetric or a triangular matrix. Pass {remedy}."
        )


def _upper(entries: Entries) -> Entries:
    """Each pair of a symmetric or triangular matrix once."""
    above, below = entries.rows < entries.columns, entries.rows > entries.columns
    return _kept(entries, ~below if entries.values[above].any() else ~above)


def _without_zeros(entries: Entries) -> Entries:
    return _kept(entries, entries.values != 0.0)


def _kept(entries: Entries, kept: Mask) -> Entries:
    return Entries(entries.sites, entries.rows[kept], entries.columns[kept], entries.values[kept])


def _finite_number(name: str, value: float) -> float:
    number = np.asarray(value)
    if number.ndim or number.dtype.kind not in "fiu" or not np.isfinite(number):
        raise InputError(f"{name} is {value!r}; expected a finite number.")
    return float(number)
