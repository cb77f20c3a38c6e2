"""The energy, in the one form that is passed around.

    E(y) = constant + sum_i u_i y_i + sum_{pairs} w_ij |y_i - y_j|,      y_i in {0, 1}, True = 1 = foreground

`unary` u is the price of label 1 over label 0; lam is inside the weights; each unordered pair counts once. A partition
gives block k a share of it (Theorem 1 of the paper),

    u_k = S_k Q^-1 u,    W_k = S_k Q^-1 W Q^-1 S_k',    and the coupling A_k = C_k + R_k S_k,

such that sum_k u_k'y_k + y_k'A_k y + y_k'L_k y_k = E(y) whenever every y_k is the restriction S_k y.

The arrays of a grid's energy may lie anywhere (`stored`). `at(box)` reads and gives the energy of a box, `read()` that
of everything; what must be known about all of it without having it at hand is its `facts`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dope.arrays import (
    Box,
    Index,
    Mask,
    Reals,
    as_array,
    as_labels,
    as_reals,
    check_finite,
)
from dope.coupling import Coupling, GraphCoupling, GridCoupling
from dope.errors import InputError
from dope.grid_terms import checked_mask, checked_unary, grid_terms
from dope.pairs import (
    GridPairs,
    Kernel,
    Pairs,
    graph_pairs,
    mean_contrast_beta,
    strips,
)
from dope.partition import Block, Partition
from dope.quadratic import Terms, dimod_model, dimod_terms, ising_terms, qubo_terms
from dope.rounding import nearest
from dope.stored import Absent, Stored, StoredField, StoredMask, StoredPixels, StoredUnary, place_in_whole
from dope.sums import exact_sum

# Sites of a strip in which the energy of stored arrays is computed.
READ_SITES = 1 << 22


@dataclass(frozen=True)
class Facts:
    """What one look at all arrays of an energy found.

    Attributes
    ----------
    sites, inside : how many there are, and how many of them take part.
    largest, total : the largest |unary| of those that take part, and the sum.
    places : binary places that the unary needs; None where it needs many, or nobody asked.
    digest : of everything that was read.
    """

    sites: int
    inside: int
    largest: float
    total: float
    places: int | None
    digest: str


@dataclass(frozen=True, eq=False)
class Energy:
    """A unary per site, signed weighted pairs that pay when their ends differ, and a constant.

    Make one with `Energy.grid`, `Energy.graph` or one of the `Energy.from_...`; call it on labels to get their energy.
    `unary` and the arrays of the pairs are in memory if `in_memory` says so; else they are read as they are indexed,
    box by box, and `facts` are None until somebody has measured them.
    """

    unary: Reals
    pairs: Pairs
    constant: float = 0.0
    facts: Facts | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.pairs.strength):
            raise InputError("the weights of a site's pairs add up beyond float64; scale the costs down first.")

    @classmethod
    def grid(
        cls,
        unary: Any,
        *,
        lam: float = 1.0,
        kernel: Kernel = 3,
        features: Any = None,
        beta: float | None = None,
        spacing: Sequence[float] | None = None,
        weights: Any = None,
        mask: Any = None,
        channel_axis: int | None = None,
    ) -> Energy:
        """The energy of an image or volume of any dimension.

        Arrays may lie anywhere: in memory, in a mapped file, in Zarr, dask, xarray or HDF5, or in a file of
        `dope.io.load`. Those that are not in memory are read when the energy is minimized, box by box where not all of
        it fits into memory.

        Parameters
        ----------
        unary : array
            What label 1 costs over label 0 at each site: log p(0|x) - log p(1|x). Or anything with `at(box)`, see
            `dope.stored.Readable`.
        lam : float
            Factor on all pair weights.
        kernel : int or list of offsets
            An odd size (square in 2D, ball |offset| <= r from 3D on), or explicit half-offsets, shape (h, d).
        features : array, optional
            The image, shaped like the unary or with channels on the axis `channel_axis`, by default the last. Pairs
            then weigh exp(-beta |x_p - x_q|^2) / distance; without it every weight is 1.
        beta : float, optional
            Default 1 / (2 mean |x_p - x_q|^2) over the kernel's pairs, channels summed; 0 for a constant image.
        spacing : sequence of float, optional
            Size of a site along each axis; enters the distance only.
        weights : list of numbers or arrays, optional
            Instead of features: for each half-offset a number, or an array shaped like the unary whose entry at p is
            the weight of the pair (p, p + offset). Entries whose partner lies outside are ignored.
        mask : bool array, optional
            The sites that take part. Those outside have no neighbours and label 0, which costs nothing; unary and
            features may hold anything there, NaN included. One that is not in memory may have numbers, 0 outside.
        channel_axis : int, optional
            Which axis of the features is channels, where it is not the last.

        Examples
        --------
        >>> import numpy as np
        >>> energy = Energy.grid(np.array([[-2.0, 1.0], [1.0, 1.0]]), lam=0.5)
        >>> energy([[1, 0], [0, 0]])
        -0.5
        """
        return cls(
            *grid_terms(
                unary, lam=lam, kernel=kernel, features=features, beta=beta, spacing=spacing, weights=weights,
                mask=mask, channel_axis=channel_axis,
            )
        )  # fmt: skip

    @classmethod
    def graph(cls, unary: npt.ArrayLike, edges: npt.ArrayLike, weights: npt.ArrayLike) -> Energy:
        """The energy of a graph: unary (n,), edges (m, 2), weights (m,) of any sign; parallel edges add up.

        Where the sites are those of an image, row by row, `on_grid(shape)` makes an energy of a grid of it: solved in
        about half the time, and in blocks that are boxes. Neighbours at a few offsets are best given to `Energy.grid`.

        >>> Energy.graph([1.0, -3.0], [[0, 1]], [2.0])([0, 1])
        -1.0
        """
        prices = checked_unary(unary)
        if prices.ndim != 1:
            raise InputError(f"the unary of a graph has shape {prices.shape}; expected one number per site, (n,).")
        return cls(prices, graph_pairs(len(prices), edges, weights))

    @classmethod
    def from_tables(cls, costs: npt.ArrayLike, edges: npt.ArrayLike, tables: npt.ArrayLike) -> Energy:
        """The energy sum_i costs[i, y_i] + sum_e tables[e, y_i, y_j] over edges e = (i, j).

        Any table reduces to the normal form: with m = e00 - e01 - e10 + e11, the pair weighs -m/2, and what is left
        is linear and constant.

        >>> Energy.from_tables([[0, 1], [5, 2]], [[0, 1]], [[[7, 0], [0, 7]]])([1, 1])
        10.0
        """
        prices, tabled = as_reals("costs", costs), as_reals("tables", tables).astype(np.float64)
        if prices.ndim != 2 or prices.shape[1] != 2 or not len(prices):
            raise InputError(f"costs have shape {prices.shape}; expected (n, 2), the costs of label 0 and 1.")
        found = as_array("edges", edges)
        number = len(found) if found.size else 0
        if tabled.size == 0:
            tabled = np.zeros((0, 2, 2))
        if tabled.shape != (number, 2, 2):
            raise InputError(f"tables have shape {tabled.shape}; expected one 2x2 table per edge, ({number}, 2, 2).")
        check_finite("costs", prices)
        check_finite("tables", tabled)
        with np.errstate(over="ignore", invalid="ignore"):
            return cls._reduced(prices.astype(np.float64), found, tabled, number)

    @classmethod
    def _reduced(cls, prices: Reals, found: npt.NDArray[Any], tabled: Reals, number: int) -> Energy:
        curl = tabled[:, 0, 0] - tabled[:, 0, 1] - tabled[:, 1, 0] + tabled[:, 1, 1]
        check_finite("tables add up to a weight that", curl)
        pairs = graph_pairs(len(prices), found, -curl / 2)
        unary = prices[:, 1] - prices[:, 0]
        if number:
            unary += np.bincount(found[:, 0], tabled[:, 1, 0] - tabled[:, 0, 0] + curl / 2, minlength=len(prices))
            unary += np.bincount(found[:, 1], tabled[:, 0, 1] - tabled[:, 0, 0] + curl / 2, minlength=len(prices))
        constant = float(prices[:, 0].sum() + tabled[:, 0, 0].sum())
        check_finite("costs and tables add up to a unary that", unary)
        check_finite("costs and tables add up to a constant that", np.array([constant]))
        return cls(unary, pairs, constant)

    @classmethod
    def from_qubo(cls, Q: Any, *, constant: float = 0.0) -> Energy:
        """The energy x'Qx + constant = sum_ij Q_ij x_i x_j + constant of bits x, which is minimized.

        Parameters
        ----------
        Q : array, sparse matrix or dict
            A square matrix, symmetric (then Q_ij and Q_ji both count) or triangular; one with different numbers above
            and below the diagonal is refused. Or a dict {(i, j): value} with integers from 0 on, whose entries all
            count, as in dimod. To maximize x'Qx, pass -Q.
        constant : float
            Added to every energy.

        Examples
        --------
        >>> Energy.from_qubo([[1, 4], [4, -3]])([1, 1]), Energy.from_qubo({(0, 0): 1, (1, 1): -3, (0, 1): 8})([1, 1])
        (6.0, 6.0)
        """
        return cls._of_terms(qubo_terms(Q, constant))

    @classmethod
    def from_ising(cls, fields: Any, couplings: Any, *, constant: float = 0.0) -> Energy:
        """The energy sum_i h_i s_i + sum_(i, j) J_ij s_i s_j + constant of spins s = 2x - 1; label 1 is spin up.

        Each pair counts once, and the signs are those of dimod: J > 0 pays for equal spins, h > 0 for spin up. Physics
        often writes both with a minus; pass -h and -J then.

        Parameters
        ----------
        fields : array (n,) or dict {i: h_i}
        couplings : array, sparse matrix or dict
            A square matrix, symmetric or triangular, with nothing on its diagonal: J_ij is the coupling of the pair
            (i, j) in both, so a symmetric matrix says it twice and it counts once. Or a dict {(i, j): J_ij} whose
            entries all count, as in dimod.
        constant : float
            Added to every energy.

        Examples
        --------
        >>> energy = Energy.from_ising([0.5, 0.0], {(0, 1): -1.0})
        >>> energy([1, 1]), energy([0, 1])
        (-0.5, 0.5)
        """
        return cls._of_terms(ising_terms(fields, couplings, constant))

    @classmethod
    def from_dimod(cls, model: Any) -> Energy:
        """The energy of a dimod.BinaryQuadraticModel; sites are its variables, in its order.

        Label 1 is the value 1 of a binary variable, and +1 of a spin.
        """
        return cls._of_terms(dimod_terms(model))

    def to_dimod(self) -> Any:
        """The dimod.BinaryQuadraticModel, of binary variables 0, 1, ..., that has these energies, offset included.

        Variables are sites in row-major order. Needs dimod (`pip install 'dope[dwave]'`).
        """
        first, second, weights = self.pairs.edges()
        unary = self.unary.ravel().astype(np.float64)
        return dimod_model(Terms(unary, np.stack([first, second], axis=1), weights, self.constant))

    @classmethod
    def _of_terms(cls, terms: Terms) -> Energy:
        check_finite("terms add up to a unary that", terms.unary)
        return cls(terms.unary, graph_pairs(len(terms.unary), terms.edges, terms.weights), terms.constant)

    def on_grid(self, shape: Sequence[int]) -> Energy:
        """The energy of a graph whose sites are those of an image in row-major order, as one of a grid of this shape.

        Worth it where all sites have their neighbours at much the same offsets: blocks are boxes then, solvers know
        distances, and the core for grids is the faster one, twice as fast as the one for graphs.

        >>> Energy.graph([1.0, -3.0, 1.0, -3.0], [[0, 1], [2, 3]], [2.0, -2.0]).on_grid((2, 2))([[0, 1], [0, 1]])
        -6.0
        """
        if isinstance(self.pairs, GridPairs):
            raise InputError(f"the energy is one of a grid of shape {self.shape} already; expected one of a graph.")
        try:
            extents = tuple(operator.index(n) for n in shape)
        except TypeError:
            raise InputError(f"shape is {shape!r}; expected a whole number of sites per axis.") from None
        pairs = self.pairs.on_grid(extents)
        return Energy(self.unary.reshape(extents), pairs, self.constant)

    def __repr__(self) -> str:
        pairs = self.pairs
        if isinstance(pairs, GridPairs):
            rule = "contrast" if pairs.features is not None else "given" if pairs.fields is not None else "constant"
            region = "" if pairs.inside is None else ", masked"
            kind = f"{' x '.join(map(str, self.shape))} sites{region}, {pairs.degree} neighbours, {rule} weights"
        else:
            kind = f"graph of {pairs.sites} sites, {pairs.number} pairs"
        signed = "" if self.submodular else ", some negative"
        return f"Energy({kind}{signed}, {'in memory' if self.in_memory else 'read box by box'})"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.pairs.shape

    @property
    def in_memory(self) -> bool:
        """Whether all arrays are in memory; if not, they are read as they are indexed."""
        unary: Any = self.unary
        return isinstance(unary, np.ndarray) and (not isinstance(self.pairs, GridPairs) or self.pairs.in_memory)

    @property
    def site_bytes(self) -> int:
        """What a site's own numbers take when they are read."""
        return sum(_site_bytes(array, self.pairs.sites) for array in self.arrays.values())

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
            return {"unary": self.unary}
        weights = {f"weights[{m}]": field for m, field in enumerate(pairs.fields or ())}
        found = {"mask": pairs.inside, **weights, "unary": self.unary, "features": pairs.features}
        return {name: array for name, array in found.items() if array is not None}

    @property
    def submodular(self) -> bool:
        """Whether no weight is negative, so that a minimum cut is the exact minimum."""
        return self.pairs.lowest >= 0.0

    def __call__(self, labels: npt.ArrayLike) -> float:
        """E(labels), the float nearest to it."""
        return nearest(self.exactly(labels))

    def exactly(self, labels: npt.ArrayLike) -> Fraction:
        """E(labels), from which nothing is lost.

        >>> Energy.graph([-1e20, 1.0], [[0, 1]], [1.0]).exactly([1, 1]) + 10**20
        Fraction(1, 1)
        """
        y = as_labels(labels, self.shape)
        if not self.in_memory:
            assert isinstance(self.pairs, GridPairs)
            parts = (self.exactly_at(box, y[self.pairs.around(box)]) for box in strips(self.shape, READ_SITES))
            return Fraction(self.constant) + sum(parts, Fraction(0))
        return Fraction(self.constant) + exact_sum(self.unary, y) + self.pairs.exact_roughness(y)

    def exactly_at(self, box: Box, labels: Mask) -> Fraction:
        """What the sites of a box pay, and the pairs that begin there; labels are of it and all its neighbours."""
        assert isinstance(self.pairs, GridPairs)
        region = self.pairs.around(box)
        part, mine = (
            self.at(region),
            tuple(slice(s.start - r.start, s.stop - r.start) for s, r in zip(box, region, strict=True)),
        )
        assert isinstance(part.pairs, GridPairs)
        return exact_sum(part.unary[mine], labels[mine]) + part.pairs.exact_roughness(labels, mine)

    @property
    def whole(self) -> Box:
        return tuple(slice(0, n) for n in self.shape)

    def inside_at(self, box: Box) -> Mask | None:
        """Which sites of a box take part, None for all."""
        inside = self.pairs.inside if isinstance(self.pairs, GridPairs) else None
        return None if inside is None else inside[box]

    def features_at(self, box: Box, inside: Mask | None) -> npt.NDArray[Any]:
        """The pixels of a box, channels last."""
        assert isinstance(self.pairs, GridPairs)
        return _pixels_at(self.pairs, box, inside)

    def at(self, box: Box) -> Energy:
        """The energy of the sites of a box and the pairs between them, in memory; the constant is the whole's alone.

        >>> Energy.grid(np.zeros((4, 5))).at((slice(0, 2), slice(1, 4))).shape
        (2, 3)
        """
        if not isinstance(self.pairs, GridPairs):
            raise InputError("the energy of a box of a graph is asked for; expected one of a grid, which has boxes.")
        pairs, prices = self.pairs.crop(box), self.unary[box]
        if self.in_memory:
            return Energy(prices, pairs)
        if pairs.inside is not None:
            # Any price above 0 keeps label 1 away; where it is known, that of the same energy in memory.
            outside = 1.0 if self.facts is None else self.facts.largest or 1.0
            prices = np.where(pairs.inside, prices, prices.dtype.type(outside))
        check_finite("unary", prices, box=place_in_whole(self.unary, box))
        if pairs.features is not None:
            name, place = getattr(self.pairs.features, "name", "features"), place_in_whole(self.pairs.features, box)
            check_finite(name, pairs.features, box=place, inside=pairs.inside)
        return Energy(prices, pairs)

    def read(self) -> Energy:
        """The same energy with all its arrays in memory."""
        pairs = self.pairs
        if self.in_memory or not isinstance(pairs, GridPairs):
            return self
        pairs = read_pairs(pairs)
        return replace(self, unary=checked_unary(self.unary[self.whole], pairs.inside), pairs=pairs)

    def confined_to(self, box: Box) -> Energy:
        """The same energy, for someone who will only ask for boxes in this one: what of it is in memory is cut out."""
        assert isinstance(self.pairs, GridPairs)
        unary = _confined(self.unary, box, "unary", StoredUnary)
        return replace(self, unary=unary, pairs=confined_pairs(self.pairs, box))

    def outline(self) -> Energy:
        """The same without its arrays, of which only their sizes are left: for plans."""
        pairs = self.pairs
        if not isinstance(pairs, GridPairs):
            return self
        bare = replace(pairs, features=None, fields=None, inside=None)
        unary = StoredUnary(Absent(self.shape, self.site_bytes))
        return replace(self, unary=cast("Reals", unary), pairs=bare)

    def scaled(self, lam: float) -> Energy:
        """With all weights times lam."""
        pairs = self.pairs
        assert isinstance(pairs, GridPairs)
        return replace(self, pairs=replace(pairs, factors=pairs.factors * lam, bounds=pairs.bounds * lam))

    def share(self, partition: Partition, k: int) -> Share:
        """The share of block k, ready to be minimized where the block's data is."""
        where = partition.blocks[k].where
        multiplicity = partition.multiplicity(where)
        unary = self.unary[where] / multiplicity.astype(self.unary.dtype)
        counts = partition.counts_at(where)
        if isinstance(self.pairs, GridPairs):
            assert isinstance(where, tuple) and isinstance(counts, tuple)
            pairs: Pairs = self.pairs.crop(where).divided(counts)
            coupling: Coupling = GridCoupling(self.pairs, partition, where)
        else:
            assert not isinstance(where, tuple) and not isinstance(counts, tuple)
            pairs = self.pairs.crop(where).divided(counts)
            coupling = GraphCoupling.of(self.pairs, partition, where)
        return Share(Energy(unary, pairs), coupling, partition.blocks[k].owned)

    def excerpt(self, partition: Partition, k: int) -> Excerpt:
        """Block k and its neighbours alone: what its share depends on, and no more."""
        return self.unread_excerpt(partition, k).read()

    def unread_excerpt(self, partition: Partition, k: int, place: Index | None = None) -> UnreadExcerpt:
        """The same for those who read it later, or send it away; `place` is where it lies, if that is known."""
        block = partition.blocks[k]
        if place is None:
            place = self.pairs.around(block.where)  # type: ignore[arg-type]
        if isinstance(place, tuple):
            assert isinstance(block.where, tuple)
            sides = tuple(s.stop - s.start for s in place)
            where: Index = tuple(
                slice(s.start - p.start, s.stop - p.start) for s, p in zip(block.where, place, strict=True)
            )
        else:
            assert not isinstance(block.where, tuple)
            sides, where = (len(place),), np.searchsorted(place, block.where)
        only = Partition(sides, (Block(where, block.owned),), partition.counts_at(place))
        return UnreadExcerpt(self, only, place, self.shape)


@dataclass(frozen=True, eq=False)
class UnreadExcerpt:
    """A block with its neighbours, whose arrays are yet to be read; sent elsewhere, it takes its own data only."""

    energy: Energy
    partition: Partition
    place: Index
    shape: tuple[int, ...]

    def read(self) -> Excerpt:
        place = self.place
        if isinstance(place, tuple):
            part = self.energy.at(place)
        else:
            part = Energy(self.energy.unary[place], self.energy.pairs.crop(place))  # type: ignore[arg-type]
        return Excerpt(part, self.partition, place, self.shape)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        if self.energy.in_memory or not isinstance(self.place, tuple):
            return _as_it_is, (self.read(),)
        confined = self.energy.confined_to(self.place)
        return UnreadExcerpt, (confined, self.partition, self.place, self.shape)


def _as_it_is(excerpt: Excerpt) -> Excerpt:
    return excerpt


@dataclass(frozen=True, eq=False)
class Excerpt:
    """A block with its neighbours: an energy and a partition with that one block; their place in the whole's shape."""

    energy: Energy
    partition: Partition
    place: Index
    shape: tuple[int, ...]

    def read(self) -> Excerpt:
        return self

    def share(self) -> Share:
        return self.energy.share(self.partition, 0)


@dataclass(frozen=True, eq=False)
class Share:
    """Block k's share of an energy: its own energy, its coupling to the rest, and the sites it owns."""

    energy: Energy
    coupling: Coupling
    owned: Index


def _site_bytes(array: Any, sites: int) -> int:
    return int(array.nbytes // max(1, sites) if isinstance(array, np.ndarray) else array.site_bytes)


def _pixels_at(pairs: GridPairs, box: Box, inside: Mask | None) -> npt.NDArray[Any]:
    features = pairs.features
    assert features is not None
    pixels = features[box]
    place = place_in_whole(features, box)
    check_finite(getattr(features, "name", "features"), pixels, box=place, inside=inside)
    return pixels


def read_pairs(pairs: GridPairs) -> GridPairs:
    """The same pairs with all their arrays in memory."""
    whole = tuple(slice(0, n) for n in pairs.shape)
    inside = None if pairs.inside is None else checked_mask(pairs.inside[whole])
    features, beta = None, pairs.beta
    if pairs.features is not None and beta != 0.0:
        features = _pixels_at(pairs, whole, inside)
        beta = mean_contrast_beta(features, pairs.offsets, inside) if beta is None else beta
    fields = pairs.fields and tuple(field[whole] for field in pairs.fields)
    return replace(pairs, inside=inside, features=features, fields=fields, beta=beta)


def confined_pairs(pairs: GridPairs, box: Box) -> GridPairs:
    """The pairs, for someone who will only ask for boxes in this one."""
    features = None
    if pairs.features is not None:
        pixels: Any = pairs.features
        if isinstance(pixels, np.ndarray):
            pixels = StoredPixels(Stored("features", pixels, channels=len(pairs.shape)))
        features = pixels.excerpt(box)
    fields = pairs.fields and tuple(_confined(field, box, "weights", StoredField) for field in pairs.fields)
    inside = None if pairs.inside is None else _confined(pairs.inside, box, "mask", StoredMask)
    return replace(pairs, features=features, fields=fields, inside=inside)


def _confined(array: Any, box: Box, name: str, kind: Any) -> Any:
    """What somebody needs of an array who reads nothing outside the box."""
    return (kind(Stored(name, array)) if isinstance(array, np.ndarray) else array).excerpt(box)
