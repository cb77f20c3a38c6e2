"""OpenGM: a graphical model in HDF5, whose factors add up to the energy.

In the group `gm` (or the only one there is) are, as lists of whole numbers,

    header              major version 2, minor, variables, factors, kinds of functions; for each of these kinds its
                        number and how many functions are of it; and how values are stored
    numbers-of-states   of each variable
    factors             for each: which function, of which kind in the header's order, how many variables, and which

and for each kind a group `function-id-KIND` with `indices`, whole numbers, and `values`. Kinds are 16000, a table, with
the number of its axes and their lengths among the indices, the first of its variables changing first among the values;
and rules for two variables, with the states of both among the indices: 16002 weight |a - b|, 16003 weight min(|a - b|,
limit), 16004 weight (a - b)^2, 16005 weight min((a - b)^2, limit), and 16006, one value for equal and one for other
labels. That factors add up and not multiply, the file does not say.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from dope.arrays import Sites
from dope.energy import Energy
from dope.errors import InputError
from dope.io.energies.factors import (
    Floats,
    PairFactors,
    Rules,
    Tables,
    check_size,
    check_states,
    check_variables,
    model_energy,
)
from dope.io.energies.hdf5 import MAGIC, Group, opened
from dope.io.energies.instance import Instance
from dope.io.files import about
from dope.label_energy import LabelEnergy

__all__ = ["MAGIC", "read"]

_TABLE = 16000
# Values per function of the rules that are known.
_RULES = {16002: 1, 16003: 2, 16004: 1, 16005: 2, 16006: 2}
# As far as float64 counts exactly; and as far as sums of costs stay finite.
_MOST_WHOLE, _MOST_COST = 2**53, 1e100


@dataclass(frozen=True, eq=False)
class _Functions:
    """The functions of one kind: where the values of each begin, and of how many variables it is."""

    kind: int
    values: Floats
    starts: Sites
    sizes: Sites

    def __len__(self) -> int:
        return len(self.starts)

    def of_pairs(self, which: Sites, states: int) -> tuple[Sites, Tables | Rules]:
        """Those that these factors of two variables take, and which of them each takes."""
        used, places = np.unique(which, return_inverse=True)
        starts = self.starts[used]
        if self.kind == _TABLE:
            tables = self.values[starts[:, None] + np.arange(states * states)].reshape(-1, states, states)
            return places, Tables(np.ascontiguousarray(tables.transpose(0, 2, 1)))
        one, other = self.values[starts], self.values[starts + _RULES[self.kind] - 1]
        if self.kind == 16006:
            return places, Rules.of("linear", other - one, 1.0, one)
        rule: Literal["linear", "quadratic"] = "linear" if self.kind < 16004 else "quadratic"
        return places, Rules.of(rule, other, one if _RULES[self.kind] == 2 else np.inf)


@dataclass(frozen=True, eq=False)
class _Factors:
    """Which function of which kind each factor takes, and its variables, -1 for none."""

    which: Sites
    kinds: Sites
    sizes: Sites
    scopes: Sites


def read(path: Path) -> Instance:
    """The model, as the energy of its labels."""
    with opened(path, "OpenGM") as file:
        group = file.only("gm")
        variables, number, counts = _header(group)
        states = group.array("numbers-of-states")
        if len(states) != variables or not variables:
            raise group.error(f"declares {variables:,} variables and lists {len(states):,}; expected as many, and one")
        with about(path):
            label_count = check_states(states)
        functions = [_functions(group, kind, count, label_count) for kind, count in counts]
        listed = _whole(group, "factors") if number else np.zeros(0, np.int64)
        with about(path):
            check_size(variables, label_count, variables + len(listed) + sum(len(one.values) for one in functions))
            energy = _energy(_factors(listed, number, functions, variables), functions, variables, label_count)
    return Instance(energy, "OpenGM model")


def _header(group: Group) -> tuple[int, int, list[tuple[int, int]]]:
    """The number of variables and of factors, and of each kind of functions."""
    header = _whole(group, "header").tolist()
    kinds = header[4] if len(header) > 4 else -1
    if header[:1] != [2] or kinds < 0 or len(header) not in (5 + 2 * kinds, 6 + 2 * kinds):
        raise group.error(
            f"its header is {str(header[:8])[:60]}; expected version 2 of OpenGM's, 5 + 2 x kinds numbers"
        )
    return header[2], header[3], list(zip(header[5 : 5 + 2 * kinds : 2], header[6 : 6 + 2 * kinds : 2], strict=True))


def _whole(group: Group, name: str) -> Sites:
    """A dataset of whole numbers from 0 on."""
    found = group.array(name)
    if found.dtype.kind not in "iu" or (len(found) and (found.min() < 0 or found.max() > _MOST_WHOLE)):
        raise group.error(f"{name!r} is of {found.dtype} and not of whole numbers from 0 to 2^53")
    return found.astype(np.int64)


def _costs(group: Group) -> Floats:
    values = group.array("values")
    found = values.astype(np.float64)
    whole = values.dtype.kind in "iu" and values.dtype.itemsize == 8
    most = float(_MOST_WHOLE) if whole else _MOST_COST
    bad = ~(np.abs(found) <= most)
    if bad.any():
        at = int(np.argmax(bad))
        limit = "2^53, as far as float64 is exact" if whole else f"{most:g}. Put a large one in place of infinity"
        raise group.error(f"'values' holds {found[at]:g}; expected finite numbers up to {limit}")
    return found


def _functions(group: Group, kind: int, count: int, label_count: int) -> _Functions:
    if not count:
        return _Functions(kind, np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
    if kind != _TABLE and kind not in _RULES:
        known = ", ".join(map(str, _RULES))
        raise group.error(f"holds functions of kind {kind}; expected tables, {_TABLE}, or rules for pairs, {known}")
    inside = group.within(f"function-id-{kind}")
    indices, values = _whole(inside, "indices"), _costs(inside)
    sizes = _sizes_of_tables(group, indices, count, label_count) if kind == _TABLE else np.full(count, 2)
    if kind != _TABLE and (len(indices) != 2 * count or (indices != label_count).any()):
        raise group.error(f"functions of kind {kind} are not of two variables of {label_count} states each")
    lengths = label_count**sizes if kind == _TABLE else np.full(count, _RULES[kind])
    ends = np.cumsum(lengths)
    if ends[-1] != len(values):
        raise group.error(
            f"its {count:,} functions of kind {kind} take {ends[-1]:,} values, and {len(values):,} are there; get a "
            "whole copy"
        )
    return _Functions(kind, values, ends - lengths, sizes)


def _sizes_of_tables(group: Group, indices: Sites, count: int, label_count: int) -> Sites:
    """The number of axes of each table; all of their lengths are the number of states."""
    sizes, at, listed = [], 0, indices.tolist()
    for table in range(min(count, len(listed) + 1)):
        if at >= len(listed):
            raise group.error(f"declares {count:,} tables and lists {table:,}: cut short; get a whole copy")
        if listed[at] > 2:
            raise group.error(
                f"table {table} is of {listed[at]} variables; expected at most 2, as pairs are all there is"
            )
        lengths = listed[at + 1 : at + 1 + listed[at]]
        if lengths != [label_count] * listed[at]:
            shape = " x ".join(map(str, lengths))
            raise group.error(f"table {table} is {shape or 'cut short'}; expected {label_count} states along each axis")
        sizes.append(listed[at])
        at += 1 + len(lengths)
    if at != len(listed):
        raise group.error(f"lists {len(listed) - at:,} more numbers about its tables than {count:,} of them have")
    return np.array(sizes)


def _factors(listed: Sites, number: int, functions: list[_Functions], variables: int) -> _Factors:
    numbers, starts, at = listed.tolist(), [], 0
    for factor in range(number):
        if at + 3 > len(numbers):
            raise InputError(f"declares {number:,} factors and lists {factor:,}: cut short; get a whole copy.")
        check_variables(factor, numbers[at + 2])
        starts.append(at)
        at += 3 + numbers[at + 2]
    if at != len(numbers):
        raise InputError(
            f"its {number:,} factors take {at:,} numbers, and {len(numbers):,} are there; get a whole copy."
        )
    begin = np.array(starts, dtype=np.int64)
    which, kinds, sizes = (listed[begin + place] for place in range(3))
    scopes = np.full((number, 2), -1, dtype=np.int64)
    for place in (0, 1):
        scopes[sizes > place, place] = listed[begin[sizes > place] + 3 + place]
    found = _Factors(which, kinds, sizes, scopes)
    _check_factors(found, functions, variables)
    return found


def _check_factors(factors: _Factors, functions: list[_Functions], variables: int) -> None:
    bad = (factors.scopes >= variables).any(axis=1) | ((factors.sizes == 2) & (np.ptp(factors.scopes, axis=1) == 0))
    if bad.any():
        at = int(np.argmax(bad))
        names = factors.scopes[at, : factors.sizes[at]].tolist()
        raise InputError(f"factor {at} is of variables {names}; expected different ones from 0 to {variables - 1}.")
    fits = np.zeros(len(factors.which), dtype=np.bool_)
    for kind, one in enumerate(functions):
        here = np.flatnonzero((factors.kinds == kind) & (factors.which < len(one)))
        fits[here] = one.sizes[factors.which[here]] == factors.sizes[here]
    if not fits.all():
        at = int(np.argmin(fits))
        raise InputError(
            f"factor {at} is of {factors.sizes[at]} variables and takes function {factors.which[at]} of kind "
            f"{factors.kinds[at]}; expected one that is there, for as many variables."
        )


def _energy(factors: _Factors, functions: list[_Functions], variables: int, label_count: int) -> Energy | LabelEnergy:
    costs, constant = np.zeros((variables, label_count)), 0.0
    pairs = []
    for kind, one in enumerate(functions):
        none, alone, paired = ((factors.kinds == kind) & (factors.sizes == size) for size in range(3))
        constant += float(one.values[one.starts[factors.which[none]]].sum())
        for label in range(label_count if alone.any() else 0):
            prices = one.values[one.starts[factors.which[alone]] + label]
            costs[:, label] += np.bincount(factors.scopes[alone, 0], prices, variables)
        if paired.any():
            which, rules = one.of_pairs(factors.which[paired], label_count)
            pairs.append(PairFactors(factors.scopes[paired], which, rules))
    return model_energy(costs, pairs, constant)
