"""Graphical models: factors of at most two variables, all with the same states, become an energy.

    E(x) = constant + sum_i c_i(x_i) + sum_{factors (i, j)} f(x_i, x_j)

Functions f are tables, or rules base + weight min(|a - b|^p, limit). Of two states this is an `Energy`. Of more it is a
`LabelEnergy` whose pairs share a metric V where every f is base + weight V, to the bit; else each pair has a table of
its own. A graph that turns out to be all of a grid, its sites counted row by row, becomes that grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dope.arrays import Sites
from dope.energy import Energy
from dope.errors import InputError
from dope.label_costs import MOST_LABELS
from dope.label_energy import LabelEnergy
from dope.memory import require_bytes
from dope.metric import Metric
from dope.pairs import GraphPairs

Floats = npt.NDArray[np.float64]
Rule = Literal["linear", "quadratic"]

# What a file may have more of costs than of numbers: sites whose costs are all 0, or shared, are not listed one by one.
_SPARE_COSTS = 1 << 22
# Tables are held once more for every step on their way into an energy.
_COPIES = 4
# A grid of up to three axes with all neighbours of a site has 13 kinds of pairs.
_MOST_KINDS = 13
_GRID_AXES = 3


@dataclass(frozen=True, eq=False)
class Tables:
    """Functions of two variables: the costs of every two states, (functions, states, states)."""

    values: Floats

    def tables(self, which: Sites, label_count: int) -> Floats:
        assert self.values.shape[1:] == (label_count, label_count)
        return self.values[which]

    def scaled(self, label_count: int) -> Scaled | None:
        """As bases, weights and one metric that give every table to the bit; None where there are none such."""
        bases = self.values[:, 0, 0].copy()
        if not len(bases):
            return Scaled(Metric("potts"), bases, bases)
        alike = (np.diagonal(self.values, axis1=1, axis2=2) == bases[:, None]).all()
        if not alike or not (self.values == self.values.transpose(0, 2, 1)).all():
            return None
        shifted = self.values - bases[:, None, None]
        costly = shifted.any(axis=(1, 2))
        for metric in _metrics(shifted[int(np.argmax(costly))]):
            costs = metric.matrix(label_count)
            most = np.unravel_index(int(np.abs(costs).argmax()), costs.shape)
            place = (0, 1) if costs[0, 1] == 1.0 else most
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                weights = shifted[:, *place] / costs[place]
                if all(np.array_equal(w * costs, table) for w, table in zip(weights, shifted, strict=True)):
                    return Scaled(metric, weights, bases)
        return None


@dataclass(frozen=True, eq=False)
class Rules:
    """Functions of two variables, bases + weights min(|a - b|^p, limits): p is 1 for linear ones, 2 for quadratic."""

    kind: Rule
    weights: Floats
    limits: Floats
    bases: Floats

    @classmethod
    def of(cls, kind: Rule, weights: Floats, limits: Floats | float = math.inf, bases: Floats | float = 0.0) -> Rules:
        """A limit below 0 is what all states pay, equal ones as well."""
        most, least = np.broadcast_to(limits, weights.shape), np.broadcast_to(bases, weights.shape)
        below = most < 0.0
        return cls(
            kind,
            np.where(below, 0.0, weights),
            np.where(below, 0.0, most),
            np.where(below, least + np.where(below, most, 0.0) * weights, least),
        )

    def tables(self, which: Sites, label_count: int) -> Floats:
        labels = np.arange(label_count, dtype=np.float64)
        costs = np.abs(labels[:, None] - labels)
        costs = costs if self.kind == "linear" else costs * costs
        capped = np.minimum(costs, self.limits[which][:, None, None])
        return self.bases[which][:, None, None] + self.weights[which][:, None, None] * capped

    def scaled(self, label_count: int) -> Scaled | None:
        """The same as of tables."""
        farthest = float(label_count - 1) if self.kind == "linear" else float(label_count - 1) ** 2
        limits = np.where(self.limits >= farthest, math.inf, self.limits)
        weights, limits = (
            np.where(limits <= 1.0, self.weights * np.minimum(limits, 1.0), self.weights),
            (np.where(limits <= 1.0, 1.0, limits)),
        )
        used = np.unique(limits[weights != 0.0])
        if len(used) > 1:
            return None
        limit = float(used[0]) if len(used) else 1.0
        metric = Metric("potts") if limit == 1.0 or label_count == 2 else Metric(self.kind, limit)
        return Scaled(metric, weights, self.bases)


@dataclass(frozen=True, eq=False)
class Scaled:
    """Functions that are bases + weights V, with one metric V."""

    metric: Metric
    weights: Floats
    bases: Floats


@dataclass(frozen=True, eq=False)
class PairFactors:
    """Factors of two variables each: which ones, (factors, 2), and which of the functions they take."""

    edges: Sites
    which: Sites
    functions: Tables | Rules


def check_states(states: npt.NDArray[Any]) -> int:
    """How many states all variables of a file have."""
    number = int(states[0]) if 2 <= states[0] <= MOST_LABELS and states[0] == int(states[0]) else 0
    if not number:
        raise InputError(f"variable 0 has {states[0]:g} states; expected 2 to {MOST_LABELS}.")
    if (states != number).any():
        at = int(np.argmax(states != number))
        raise InputError(
            f"variable {at} has {states[at]:g} states and variable 0 has {number}; expected the same number for all. "
            "Give those with fewer some more, at a high cost."
        )
    return number


def check_size(variables: int, states: int, numbers: int) -> None:
    """Refuse what takes more costs than a file of so many numbers can be about, or than there is memory for."""
    if variables * states > _SPARE_COSTS + numbers:
        raise InputError(
            f"declares {variables:,} variables of {states} states and holds {numbers:,} numbers; expected at most "
            f"{_SPARE_COSTS:,} more states than numbers."
        )
    require_bytes(f"the costs of {variables:,} variables", _COPIES * 8 * states * variables)


def check_variables(factor: int, count: float) -> None:
    """Refuse factors of more than two variables."""
    if count not in (0.0, 1.0, 2.0):
        raise InputError(f"factor {factor} is of {count:g} variables; expected at most 2, as pairs are all there is.")


def model_energy(costs: Floats, pairs: Sequence[PairFactors], constant: float) -> Energy | LabelEnergy:
    """The energy of costs of every variable and state, (variables, states), and of pairs."""
    label_count = costs.shape[1]
    edges = np.concatenate([np.zeros((0, 2), np.int64), *(one.edges for one in pairs)])
    scaled = None if label_count == 2 else _of_one_metric([one.functions.scaled(label_count) for one in pairs])
    if scaled is not None:
        weights = [found.weights[one.which] for found, one in zip(scaled, pairs, strict=True)]
        bases = [found.bases[one.which] for found, one in zip(scaled, pairs, strict=True)]
        metric = next((found.metric for found in scaled if found.weights.any()), Metric("potts"))
        model = LabelEnergy.graph(costs, edges, np.concatenate([np.zeros(0), *weights]), metric)
        return _on_its_grid(replace(model, constant=math.fsum([constant, *np.concatenate([np.zeros(0), *bases])])))
    require_bytes(f"a table for each of {len(edges):,} pairs", _COPIES * 8 * len(edges) * label_count**2)
    listed = [one.functions.tables(one.which, label_count) for one in pairs]
    tables = np.concatenate([np.zeros((0, label_count, label_count)), *listed])
    make = Energy.from_tables if label_count == 2 else LabelEnergy.from_tables
    found = make(costs, edges, tables)
    return replace(found, constant=found.constant + constant)


def _metrics(table: Floats) -> Iterator[Metric]:
    """The rules that a table may follow, times a number; the last one is the table itself."""
    yield Metric("potts")
    farthest = len(table) - 1
    if table[0, 1]:
        limit = float(np.abs(table).max() / abs(table[0, 1]))
        for kind, most in (("linear", farthest), ("quadratic", farthest**2)):
            # What was rounded on the way into the table may have been a whole number.
            for found in dict.fromkeys((float(round(limit)), limit)):
                yield Metric(kind, math.inf if found >= most else found)  # type: ignore[arg-type]
    if table.any():
        yield Metric("table", table=table)


def _of_one_metric(found: Sequence[Scaled | None]) -> list[Scaled] | None:
    scaled = [one for one in found if one is not None]
    metrics = [one.metric for one in scaled if one.weights.any()]
    same = all(one.kind == metrics[0].kind and one.limit == metrics[0].limit for one in metrics)
    tables = [one.table for one in metrics if one.table is not None]
    same = same and all(np.array_equal(one, tables[0]) for one in tables)
    return scaled if same and len(scaled) == len(found) else None


def _on_its_grid(energy: LabelEnergy) -> LabelEnergy:
    """The same energy, on a grid where its pairs are all of a grid's, their sites in row-major order."""
    pairs = energy.pairs
    assert isinstance(pairs, GraphPairs)
    # Differences as a quick sieve: most graphs have more of them than any grid.
    steps = pairs.second - pairs.first
    kinds, of_kind, counts = np.unique(steps, return_inverse=True, return_counts=True)
    if not 0 < len(kinds) <= _MOST_KINDS or kinds[0] != 1:
        return energy
    for shape in _shapes(kinds.tolist(), pairs.sites):
        offsets = _offsets(kinds.tolist(), shape)
        room = np.array(shape) - np.abs(offsets)
        if (room <= 0).any() or (room.prod(axis=1) != counts).any():
            continue
        ends = [np.stack(np.unravel_index(end, shape), axis=1) for end in (pairs.first, pairs.second)]
        if (ends[1] - ends[0] == offsets[of_kind]).all():
            return _grid(energy, pairs, shape, offsets, of_kind)
    return energy


def _grid(
    energy: LabelEnergy, pairs: GraphPairs, shape: tuple[int, ...], offsets: Sites, of_kind: Sites
) -> LabelEnergy:
    costs = energy.costs.reshape(*shape, energy.label_count)
    weights = np.array([pairs.weights[int(np.argmax(of_kind == kind))] for kind in range(len(offsets))])
    if (pairs.weights == weights[of_kind]).all():
        model = LabelEnergy.grid(costs, kernel=offsets, weights=weights, metric=energy.metric)
        return replace(model, constant=energy.constant)
    return replace(energy, costs=costs, pairs=pairs.on_grid(shape))


def _shapes(kinds: list[int], sites: int) -> Iterator[tuple[int, ...]]:
    """Grids of so many sites in which some of these steps lead along an axis."""
    strides = [step for step in kinds[1:] if sites % step == 0]
    for axes in range(_GRID_AXES):
        for chosen in combinations(strides, axes):
            whole = [1, *chosen, sites]
            if all(after % before == 0 for before, after in pairwise(whole)):
                yield tuple(after // before for before, after in pairwise(whole))[::-1]


def _offsets(kinds: list[int], shape: tuple[int, ...]) -> Sites:
    """The shortest offset along each axis, the last one first, that a step can be; (steps, axes)."""
    left, found = np.array(kinds), []
    for length in shape[:0:-1]:
        found.append((left + length // 2) % length - length // 2)
        left = (left - found[-1]) // length
    return np.stack([*found, left], axis=1)[:, ::-1]
