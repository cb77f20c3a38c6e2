"""The energy of several labels: a cost for every site and label, and pairs that pay by what their two labels cost.

    E(x) = constant + sum_i c_i(x_i) + sum_{pairs} w_ij V(x_i, x_j),      x_i in {0 .. L-1},  V(a, a) = 0

lam is inside the weights, each unordered pair counts once, and V is the same both ways. It is minimized through
energies of two labels: `fusion` is the choice between two labellings, and `against` is Kovtun's of one label a and all
others (Potts): where its smallest minimizer is 1, x_i = a in some minimizer of E.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dope.arrays import (
    Box,
    Mask,
    Reals,
    as_array,
    as_numbered_labels,
    as_numbers,
    as_reals,
    check_finite,
    known_shape,
)
from dope.energy import READ_SITES, Energy, Facts, confined_pairs, read_pairs
from dope.errors import InputError
from dope.grid_terms import grid_pairs
from dope.label_costs import (
    LabelPrices,
    check_alike,
    check_costs,
    check_strength,
    checked_axes,
    cost_strips,
    graph_costs,
    label_prices,
    stored_costs,
)
from dope.metric import Metric
from dope.pairs import (
    GraphPairs,
    GridPairs,
    Kernel,
    TablePairs,
    graph_pairs,
    strips,
    table_pairs,
)
from dope.rounding import nearest
from dope.stored import (
    Absent,
    Stored,
    StoredCosts,
    StoredUnary,
    is_readable,
    lies_elsewhere,
    place_in_whole,
)
from dope.sums import exact_sum

LabelNumbers = npt.NDArray[np.uint8 | np.uint16]
"""Which label: uint8 for up to 256 of them, uint16 for more."""


@dataclass(frozen=True, eq=False)
class LabelEnergy:
    """A cost per site and label, and pairs that pay w V(a, b) for labels a and b at their ends.

    Make one with `LabelEnergy.grid`, `LabelEnergy.graph` or `LabelEnergy.from_tables`; call it on labels, 0 to L - 1,
    to get their energy. `costs` have an axis more than there are of sites, the labels; they are in memory, of any real
    type, or are read box by box (`in_memory` says so). `metric` is None where each pair has a table of its own.
    """

    costs: npt.NDArray[Any]
    pairs: GridPairs | GraphPairs | TablePairs
    metric: Metric | None
    constant: float = 0.0
    facts: Facts | None = None

    @classmethod
    def grid(
        cls,
        costs: Any,
        *,
        lam: float = 1.0,
        kernel: Kernel = 3,
        features: Any = None,
        beta: float | None = None,
        spacing: Sequence[float] | None = None,
        weights: Any = None,
        mask: Any = None,
        channel_axis: int | None = None,
        metric: Any = "potts",
        label_axis: int = -1,
    ) -> LabelEnergy:
        """The energy of an image or volume of any dimension; what is not said here is as in `Energy.grid`.

        Parameters
        ----------
        costs : array
            What each label costs at each site, of any real type, labels last: -log p(l|x) of a network's softmax p.
            It may lie anywhere, and is read box by box where it is not in memory.
        mask : bool array, optional
            The sites that take part. Those outside cost nothing, whatever their label.
        metric : str, tuple or array
            What neighbours with different labels pay, times the weight of their pair: "potts" 1, "linear" |a - b|,
            "quadratic" (a - b)^2, ("linear", T) and ("quadratic", T) no more than T; or a symmetric (L, L) table with
            zeros on its diagonal.
        label_axis : int
            Which axis of the costs is labels.

        Examples
        --------
        >>> import numpy as np
        >>> energy = LabelEnergy.grid(np.array([[0, 2, 3], [2, 0, 3], [3, 2, 0]]), lam=0.5, metric="linear")
        >>> energy([0, 1, 2])
        1.0
        """
        axis, sites, label_count = checked_axes(costs, label_axis)
        check_alike(known_shape("costs", costs), axis, mask, features, channel_axis)
        elsewhere = any(map(lies_elsewhere, (costs, features, mask)))
        pairs = grid_pairs(
            sites, elsewhere=elsewhere, lam=lam, kernel=kernel, features=features, beta=beta, spacing=spacing,
            weights=weights, mask=mask, channel_axis=channel_axis,
        )  # fmt: skip
        rule = Metric.of(metric, label_count)
        if elsewhere:
            source = costs if is_readable(costs) and not isinstance(costs, Stored) else stored_costs(costs, axis)
            check_strength(pairs, rule, label_count)
            return cls(cast("npt.NDArray[Any]", StoredCosts(source, label_count)), pairs, rule)
        held = np.moveaxis(as_numbers("costs", costs), axis, -1)
        check_costs(held, pairs.inside)
        check_strength(pairs, rule, label_count)
        return cls(held, pairs, rule)

    @classmethod
    def graph(
        cls, costs: npt.ArrayLike, edges: npt.ArrayLike, weights: npt.ArrayLike, metric: Any = "potts"
    ) -> LabelEnergy:
        """The energy of a graph: costs (n, L), edges (m, 2), weights (m,) of any sign; parallel edges add up.

        >>> LabelEnergy.graph([[0, 1, 5], [5, 1, 0]], [[0, 1]], [2.0], metric="linear")([0, 2])
        4.0
        """
        held = graph_costs(costs)
        pairs = graph_pairs(len(held), edges, weights)
        rule = Metric.of(metric, held.shape[1])
        check_strength(pairs, rule, held.shape[1])
        return cls(held, pairs, rule)

    @classmethod
    def from_tables(cls, costs: npt.ArrayLike, edges: npt.ArrayLike, tables: npt.ArrayLike) -> LabelEnergy:
        """The energy sum_i costs[i, x_i] + sum_e tables[e, x_i, x_j] over edges e = (i, j), with any (L, L) tables.

        >>> LabelEnergy.from_tables([[0, 1], [5, 2]], [[0, 1]], [[[7, 0], [0, 7]]])([1, 1])
        10.0
        """
        held = graph_costs(costs)
        listed = as_reals("tables", tables).astype(np.float64)
        number, label_count = len(as_array("edges", edges)), held.shape[1]
        if listed.size == 0:
            listed = np.zeros((0, label_count, label_count))
        if listed.shape != (number, label_count, label_count):
            raise InputError(
                f"tables have shape {listed.shape}; expected a table of all labels per edge, "
                f"({number}, {label_count}, {label_count})."
            )
        check_finite("tables", listed)
        return cls(held, table_pairs(len(held), edges, listed), None)

    def __repr__(self) -> str:
        pairs = self.pairs
        where = "in memory" if self.in_memory else "read box by box"
        if isinstance(pairs, GridPairs):
            kind = f"{' x '.join(map(str, self.shape))} sites, {pairs.degree} neighbours"
        else:
            kind = f"graph of {pairs.sites} sites, {pairs.number} pairs"
        rule = "a table per pair" if self.metric is None else self.metric
        return f"LabelEnergy({self.label_count} labels, {kind}, {rule}, {where})"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.pairs.shape

    @property
    def label_count(self) -> int:
        return int(self.costs.shape[-1])

    @property
    def in_memory(self) -> bool:
        """Whether all arrays are in memory; if not, they are read as they are indexed."""
        costs: Any = self.costs
        return isinstance(costs, np.ndarray) and (not isinstance(self.pairs, GridPairs) or self.pairs.in_memory)

    @property
    def submodular(self) -> bool:
        """Never: one minimum cut does not find the minimum of several labels."""
        return False

    @property
    def is_metric(self) -> bool:
        """Whether every expansion is submodular, so that a minimum cut is the best one."""
        if isinstance(self.pairs, TablePairs):
            return self.pairs.expandable
        return self._attractive and self._rule.broken_triple(self.label_count) is None

    @property
    def is_semimetric(self) -> bool:
        """Whether every swap of two labels is submodular."""
        if isinstance(self.pairs, TablePairs):
            return self.pairs.swappable
        return self._attractive and self._rule.is_semimetric

    @cached_property
    def is_convex(self) -> bool:
        """Whether costs are in memory and convex in the label, and V is in the difference of two labels."""
        if self.metric is None or not self.metric.is_convex(self.label_count) or not self._attractive:
            return False
        return self.in_memory and all(self._convex_at(strip) for strip in cost_strips(self.costs))

    def _convex_at(self, strip: Box) -> bool:
        """Whether no second difference is negative; unsigned costs are not to wrap, nor are float32 to be rounded."""
        here = self.costs[strip].astype(np.float64)
        bent: Mask = np.any(here[..., 2:] + here[..., :-2] < 2.0 * here[..., 1:-1], axis=-1)
        return not np.any(bent if self._inside is None else bent & self._inside[strip])

    @property
    def _attractive(self) -> bool:
        assert not isinstance(self.pairs, TablePairs)
        return self.pairs.lowest >= 0.0

    @property
    def _rule(self) -> Metric:
        assert self.metric is not None
        return self.metric

    @cached_property
    def _matrix(self) -> npt.NDArray[np.float64]:
        return self._rule.matrix(self.label_count)

    @property
    def label_type(self) -> np.dtype[Any]:
        """What labels are kept in."""
        return np.dtype(np.uint8 if self.label_count <= 256 else np.uint16)

    @property
    def site_bytes(self) -> int:
        """What a site's own numbers take when they are read."""
        sites = max(1, math.prod(self.shape))
        return sum(
            int(one.nbytes // sites if isinstance(one, np.ndarray) else one.site_bytes) for one in self.arrays.values()
        )

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """The sides of the pieces that arrays are stored in, where they are."""
        found = (getattr(array, "chunks", None) for array in reversed(self.arrays.values()))
        return next((sides for sides in found if sides), None)

    @property
    def arrays(self) -> dict[str, Any]:
        """What is read at each site, by the names that `grid` knows it by."""
        pairs = self.pairs
        if not isinstance(pairs, GridPairs):
            return {"costs": self.costs}
        weights = {f"weights[{m}]": field for m, field in enumerate(pairs.fields or ())}
        found = {"mask": pairs.inside, **weights, "costs": self.costs, "features": pairs.features}
        return {name: array for name, array in found.items() if array is not None}

    def as_labels(self, labels: npt.ArrayLike, *, name: str = "labels") -> LabelNumbers:
        """Labels as numbers of the type that holds them all, checked."""
        found = as_numbered_labels(labels, self.label_count, name=name)
        if found.shape != self.shape:
            raise InputError(
                f"the shape of {name} is {found.shape}; expected {self.shape}, the costs' without their labels."
            )
        return np.ascontiguousarray(found, dtype=self.label_type)

    def __call__(self, labels: npt.ArrayLike) -> float:
        """E(labels), the float nearest to it."""
        return nearest(self.exactly(labels))

    def exactly(self, labels: npt.ArrayLike) -> Fraction:
        """E(labels), from which nothing is lost but a rounding of each weight times its table's cost."""
        x = self.as_labels(labels)
        if not self.in_memory:
            assert isinstance(self.pairs, GridPairs)
            parts = (self.exactly_at(box, x[self.pairs.around(box)]) for box in strips(self.shape, READ_SITES))
            return Fraction(self.constant) + sum(parts, Fraction(0))
        return Fraction(self.constant) + exact_sum(self._paid(x)) + self._paid_by_pairs(x)

    def exactly_at(self, box: Box, labels: LabelNumbers) -> Fraction:
        """What the sites of a box pay, and the pairs that begin there; labels are of it and all its neighbours."""
        assert isinstance(self.pairs, GridPairs)
        region = self.pairs.around(box)
        mine = tuple(slice(s.start - r.start, s.stop - r.start) for s, r in zip(box, region, strict=True))
        part = self.at(region)
        assert isinstance(part.pairs, GridPairs)
        own = part.at(mine)._paid(np.ascontiguousarray(labels[mine]))
        return exact_sum(own) + part.pairs.exact_cost(labels, self._matrix, mine)

    def _paid_by_pairs(self, labels: LabelNumbers) -> Fraction:
        if isinstance(self.pairs, TablePairs):
            return self.pairs.exact_cost(labels)
        return self.pairs.exact_cost(labels, self._matrix)

    def _paid(self, labels: LabelNumbers) -> npt.NDArray[np.float64]:
        """c_i(x_i) of every site, 0 outside the mask."""
        paid = np.empty(self.shape)
        for strip in cost_strips(self.costs):
            # By flat places: take_along_axis takes three times as long.
            here, places = self.costs[strip].reshape(-1), labels[strip].reshape(-1).astype(np.intp)
            places += np.arange(0, here.size, self.label_count)
            paid[strip] = here.take(places).reshape(labels[strip].shape)
        if (inside := self._inside) is not None:
            paid[~inside] = 0.0
        return paid

    @property
    def _inside(self) -> Mask | None:
        return self.pairs.inside if isinstance(self.pairs, GridPairs) else None

    @property
    def whole(self) -> Box:
        return tuple(slice(0, n) for n in self.shape)

    def at(self, box: Box) -> LabelEnergy:
        """The energy of the sites of a box and the pairs between them, in memory; the constant is the whole's alone.

        >>> LabelEnergy.grid(np.zeros((4, 5, 3))).at((slice(0, 2), slice(1, 4))).shape
        (2, 3)
        """
        if not isinstance(self.pairs, GridPairs):
            raise InputError("the energy of a box of a graph is asked for; expected one of a grid, which has boxes.")
        pairs, costs = self.pairs.crop(box), self.costs[box]
        if not self.in_memory:
            check_costs(costs, pairs.inside, place_in_whole(self.costs, box))
            if pairs.features is not None:
                name, place = getattr(self.pairs.features, "name", "features"), place_in_whole(self.pairs.features, box)
                check_finite(name, pairs.features, box=place, inside=pairs.inside)
        return LabelEnergy(costs, pairs, self.metric)

    def read(self) -> LabelEnergy:
        """The same energy with all its arrays in memory."""
        if self.in_memory or not isinstance(self.pairs, GridPairs):
            return self
        pairs, costs = read_pairs(self.pairs), self.costs[self.whole]
        check_costs(costs, pairs.inside)
        return replace(self, costs=costs, pairs=pairs)

    def confined_to(self, box: Box) -> LabelEnergy:
        """The same energy, for someone who will only ask for boxes in this one: what of it is in memory is cut out."""
        assert isinstance(self.pairs, GridPairs)
        costs: Any = self.costs
        if isinstance(costs, np.ndarray):
            costs = StoredCosts(Stored("costs", costs, channels=costs.ndim - 1), self.label_count)
        return replace(self, costs=costs.excerpt(box), pairs=confined_pairs(self.pairs, box))

    def outline(self) -> LabelEnergy:
        """The same without its arrays, of which only their sizes are left: for plans."""
        pairs = self.pairs
        if not isinstance(pairs, GridPairs):
            return self
        bare = replace(pairs, features=None, fields=None, inside=None)
        costs = StoredCosts(Absent(self.shape, self.site_bytes), self.label_count)
        return replace(self, costs=cast("npt.NDArray[Any]", costs), pairs=bare)

    def fusion(self, labels: npt.ArrayLike, proposal: npt.ArrayLike, *, before: float | None = None) -> Energy:
        """The energy of a choice at every site: keep its label, y = 0, or take the one that is proposed, y = 1.

        Its energy of y is this one's of the chosen labels, within rounding. Sites at which both are the same have no
        choice: on a grid they are outside its mask, on a graph label 1 costs them something. An expansion to label a
        proposes a everywhere; a swap of a and b proposes b where a is, and a where b is.

        Parameters
        ----------
        labels : array
        proposal : array or int
            Labels, or one for all sites.
        before : float, optional
            This energy of `labels`, where it is known.

        Examples
        --------
        >>> energy = LabelEnergy.graph([[0, 1, 5], [5, 1, 0]], [[0, 1]], [2.0])
        >>> energy.fusion([0, 0], [2, 1])([0, 1]) == energy([0, 1])
        True
        """
        if not self.in_memory:
            raise InputError("a fusion of arrays that are not in memory is asked for; call at(box) or read() first.")
        x, offered = self.as_labels(labels), as_array("proposal", proposal)
        if offered.ndim == 0:
            offered = np.broadcast_to(offered, self.shape)
        p = self.as_labels(offered, name="proposal")
        if isinstance(self.pairs, TablePairs):
            pairs, slopes = self.pairs.moved(x, p)
        else:
            pairs, slopes = self.pairs.moved(x, p, self._matrix)  # type: ignore[assignment]
        unary = slopes + (self._paid(p) - self._paid(x))
        moving = x != p if self._inside is None else (x != p) & self._inside
        # As `Energy.grid` does outside a mask: any price above 0 keeps label 1 away, one like the others all scales.
        unary[~moving] = float(np.abs(unary).max(where=moving, initial=0.0)) or 1.0
        return Energy(unary, pairs, self(x) if before is None else before)

    def against(self, label: int) -> Energy:
        """Kovtun's energy of label 1 = `label` against label 0 = any other, the best of them at each site; Potts only.

        Where its smallest minimizer is 1, `label` is right in some minimizer of this energy.
        """
        if self.metric is None or self.metric.kind != "potts":
            raise InputError(f"the metric is {self.metric}; expected potts, for which a label can be proved by itself.")
        a = operator.index(label)
        if not 0 <= a < self.label_count:
            raise InputError(f"label is {a}; expected one of 0 to {self.label_count - 1}.")
        assert not isinstance(self.pairs, TablePairs)
        costs: Any = self.costs
        if not isinstance(costs, np.ndarray):
            return Energy(cast("Reals", StoredUnary(LabelPrices(costs, a))), self.pairs)
        unary = label_prices(costs, a)
        if self._inside is not None:
            inside = cast("Any", self._inside)[self.whole]
            unary[~inside] = float(np.abs(unary).max(where=inside, initial=0.0)) or 1.0
        return Energy(unary, self.pairs)
