"""The native core of dope. True = 1 = foreground; `unary` is the price of label 1 over label 0."""

import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

Reals: TypeAlias = NDArray[np.float32] | NDArray[np.float64]
Pixels: TypeAlias = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.int16] | Reals
LabelNumbers: TypeAlias = NDArray[np.uint8 | np.uint16]

@final
class GridWeights:
    """w(p, m), the weight of the pair (p, p + offsets[m]) on a grid, computed when asked for and never stored.

    w(p, m) = factors[m] * exp(-beta |x_p - x_q|^2) * fields[m][p] / (count(p) count(q)), q = p + offsets[m];
    exp with features, fields and counts only if given; count(p) is the product over axes of counts[a][p_a]. Where
    labels x move to a proposal, times (V(x_p, p_q) + V(p_p, x_q) - V(x_p, x_q) - V(p_p, p_q)) / 2, with V the costs;
    without a proposal times costs[x_p, x_q]. Where signs[m] is not 0, max(signs[m] w, 0). Pairs with an end that is not
    inside, where that is given, weigh 0.
    """

    def __init__(
        self,
        shape: Sequence[int],
        offsets: NDArray[np.int64],
        factors: NDArray[np.float64],
        features: Pixels | None = None,
        beta: float = 0.0,
        fields: Sequence[Reals] | None = None,
        counts: Sequence[NDArray[np.float64]] | None = None,
        inside: NDArray[np.bool_] | None = None,
        labels: LabelNumbers | None = None,
        proposal: LabelNumbers | None = None,
        costs: NDArray[np.float64] | None = None,
        signs: NDArray[np.int8] | None = None,
    ) -> None: ...
    def weights(self, m: int) -> NDArray[np.float64]:
        """w(p, m) for every site p, 0 where p + offsets[m] is outside."""

class Cancelled(Exception):  # noqa: N818 (no error: somebody asked for it)
    """Raised by work that was cancelled."""

@final
class Cancel:
    """Work of the core in `with cancel:` stops soon after `cancel.cancel()`."""

    def cancel(self) -> None:
        """Stop the work, from whichever thread."""
    @property
    def cancelled(self) -> bool: ...
    def __enter__(self) -> Cancel: ...
    def __exit__(self, *error: object) -> None: ...

@final
class GridFlow:
    """Minimum cuts on a grid, each going on from the last."""

    def __init__(self, weights: GridWeights, scale: float, bits: int) -> None: ...
    def minimize(self, unary: NDArray[np.float64]) -> None:
        """Minimize with this unary, going on from the flow of the last call."""
    def change(self, sites: NDArray[np.int64], unary: NDArray[np.float64]) -> None:
        """Minimize again where only the unary of these sites (flat positions) has changed, to these values."""
    def labels(self, largest: bool = False) -> NDArray[np.bool_]:
        """The minimizer with the fewest True, or with the most."""
    def value(self) -> float:
        """The minimum, rounded down to a float."""
    def minimum(self) -> int:
        """The minimum in units of 1 / scale."""
    def check(self) -> None:
        """Recompute slowly what must hold after minimize; RuntimeError where it does not."""
    @property
    def bytes(self) -> int:
        """Bytes held, without the lists of work at hand."""
    def refill(self, weights: GridWeights, scale: float) -> None:
        """As if new, for other weights on the same grid and kernel, in the memory it holds."""
    @staticmethod
    def bytes_needed(shape: Sequence[int], offsets: NDArray[np.int64], bits: int) -> int:
        """What `bytes` will be."""

@final
class GraphFlow:
    """Minimum cuts on a sparse graph, each going on from the last."""

    def __init__(
        self,
        sites: int,
        edges: NDArray[np.int64] | tuple[NDArray[np.int64], NDArray[np.int64]],
        weights: NDArray[np.float64],
        scale: float,
        bits: int,
    ) -> None: ...
    def minimize(self, unary: NDArray[np.float64]) -> None:
        """Minimize with this unary, going on from the flow of the last call."""
    def change(self, sites: NDArray[np.int64], unary: NDArray[np.float64]) -> None:
        """Minimize again where only the unary of these sites (flat positions) has changed, to these values."""
    def labels(self, largest: bool = False) -> NDArray[np.bool_]:
        """The minimizer with the fewest True, or with the most."""
    def value(self) -> float:
        """The minimum, rounded down to a float."""
    def minimum(self) -> int:
        """The minimum in units of 1 / scale."""
    def check(self) -> None:
        """Recompute slowly what must hold after minimize; RuntimeError where it does not."""
    @property
    def bytes(self) -> int:
        """Bytes held, without the lists of work at hand."""
    @staticmethod
    def bytes_needed(sites: int, edges: int, bits: int) -> int:
        """What `bytes` will be."""

@final
class RoofFlow:
    """The roof dual of a graph, each going on from the last."""

    def __init__(
        self,
        sites: int,
        edges: NDArray[np.int64] | tuple[NDArray[np.int64], NDArray[np.int64]],
        weights: NDArray[np.float64],
        scale: float,
        bits: int,
    ) -> None: ...
    def minimize(self, unary: NDArray[np.float64]) -> None:
        """Minimize with this unary, going on from the flow of the last call."""
    def change(self, sites: NDArray[np.int64], unary: NDArray[np.float64]) -> None:
        """Minimize again where only the unary of these sites has changed, to these values."""
    def labels(self, of_some: bool = False) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """(which sites have a label, the labels there): those of all minima, or of one that has the most of them."""
    def minimum(self) -> int:
        """The minimum of the doubled energy in units of 1 / scale, an int."""
    def check(self) -> None:
        """Recompute slowly what must hold after minimize; RuntimeError where it does not."""
    @property
    def bytes(self) -> int:
        """Bytes held, without the lists of work at hand."""

class GridCoupling:
    """What a block of a grid feels of the others: A, its transpose, and where it is not zero."""

    def __init__(
        self,
        weights: GridWeights,
        start: Sequence[int],
        stop: Sequence[int],
        counts: Sequence[NDArray[np.float64]],
    ) -> None: ...
    def apply(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """A y, from the region to the block."""
    def transpose(self, labels: NDArray[np.bool_]) -> NDArray[np.float64]:
        """A' labels, from the block to the region."""
    def strength(self) -> NDArray[np.float64]:
        """The sum of the absolute weights of A at each site of the block."""
    def coupled(self) -> NDArray[np.bool_]:
        """The sites of the block that other blocks hold, or that neighbor such a site or one outside."""

def exact_label_cost(
    weights: GridWeights, labels: LabelNumbers, costs: NDArray[np.float64], low: Sequence[int], high: Sequence[int]
) -> int:
    """The sum of w V(x_p, x_q) over the pairs with p in the box, an int in units of 2^-EXACT_PLACES; V(a, a) = 0."""

def label_slopes(
    weights: GridWeights, labels: LabelNumbers, proposal: LabelNumbers, costs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """What the pairs add to the unary of a move from labels to a proposal, at every site."""

def joint_labels(
    labels: LabelNumbers, proposal: LabelNumbers, moving: NDArray[np.bool_], label_count: int
) -> NDArray[np.bool_]:
    """(L, L): which label is proposed instead of which at some of the sites that move."""

def contrast(
    features: Pixels,
    offsets: NDArray[np.int64],
    low: Sequence[int],
    high: Sequence[int],
    unit: float,
    inside: NDArray[np.bool_] | None = None,
) -> tuple[int, int]:
    """The exact sum of rint(|x_p - x_q|^2 / unit) over the pairs with p in the box, and their number.

    Of the pairs with both ends inside a mask, if there is one.
    """

def scan(values: Pixels, factor: float = 1.0, most: int = 20) -> tuple[float, float, float, int | None, int]:
    """(least, greatest, sum of |x|, binary places of factor x, where the first is that is not finite), in one pass.

    Binary places are None for more than `most`, the position counts in row-major order and is -1 if all are finite.
    """

def fingerprint(values: Pixels) -> bytes:
    """16 bytes that are the same for the same numbers and shape, whatever type and strides, and others otherwise."""

def whole_units(values: Reals, scale: float) -> NDArray[np.int16] | NDArray[np.int32] | None:
    """rint(values * scale) in the narrower type that holds them; None where neither does."""

def sort_edges(
    sites: int,
    first: NDArray[np.int32] | NDArray[np.int64],
    second: NDArray[np.int32] | NDArray[np.int64],
    weights: NDArray[np.int32] | NDArray[np.float32] | NDArray[np.float64],
) -> tuple[int, int, tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]] | None]:
    """(first edge that leaves the sites, first one with equal ends, pairs), -1 and None for what is not there.

    Pairs are (first, second, weights): each once, the lower site first, sorted; parallel ones added up.
    """

def graph_strength(
    sites: int, first: NDArray[np.int64], second: NDArray[np.int64], weights: NDArray[np.float64]
) -> tuple[float, int]:
    """(greatest sum of |weight|, greatest number) of the pairs of one site."""

def grid_fields(
    shape: Sequence[int], first: NDArray[np.int64], second: NDArray[np.int64], weights: NDArray[np.float64], most: int
) -> tuple[list[list[int]], list[NDArray[np.float64]]]:
    """(offsets of all pairs, sorted, weights at every first site for each) on a grid, in row-major order.

    No weights where there are more than `most` offsets.
    """

EXACT_PLACES: int

def exact_sum(values: Reals, where: NDArray[np.bool_] | None = None) -> int:
    """The sum of an array, where a mask says so if there is one, in units of 2^-EXACT_PLACES."""

def exact_cut(
    first: NDArray[np.int64], second: NDArray[np.int64], weights: NDArray[np.float64], labels: NDArray[np.bool_]
) -> int:
    """The sum of the weights of the pairs whose labels differ, in units of 2^-EXACT_PLACES."""

def exact_roughness(weights: GridWeights, labels: NDArray[np.bool_], low: Sequence[int], high: Sequence[int]) -> int:
    """The sum of the weights of the pairs with p in the box whose labels differ, in units of 2^-EXACT_PLACES."""

def roughness(
    weights: GridWeights,
    y: NDArray[np.bool_] | NDArray[np.float64],
    low: Sequence[int],
    high: Sequence[int],
) -> float:
    """The sum of w (y_p - y_q)^2 over the pairs with p in the box."""

@final
class BlockFlow:
    """One residual graph, searched block by block: see cpp/blocks.h.

    Calls that name a block or a group may be made by several threads at once, for different blocks that are not in one
    group; all others by one thread while no other is at work.
    """

    @staticmethod
    def grid(weights: GridWeights, scale: float, bits: int, cuts: Sequence[Sequence[int]]) -> BlockFlow:
        """The blocks of a grid between cuts; to be filled."""
    @staticmethod
    def graph(
        sites: int,
        edges: NDArray[np.int64] | tuple[NDArray[np.int64], NDArray[np.int64]],
        weights: NDArray[np.float64],
        scale: float,
        bits: int,
        members: NDArray[np.int32],
        number: int,
    ) -> BlockFlow:
        """The blocks of a graph; members[i] is the block of site i."""
    @property
    def blocks(self) -> int: ...
    @property
    def parts(self) -> int:
        """How many parts there are to fill."""
    @property
    def bytes(self) -> int:
        """Bytes held, without the lists of work at hand."""
    def group(self, k: int) -> int:
        """The group of a block, named by its first block."""
    def members(self, g: int) -> list[int]: ...
    def neighbors(self, k: int) -> list[int]:
        """The blocks that a block may have pairs with."""
    def fill(self, part: int) -> None:
        """Compute the capacities of a part."""
    def finish(self) -> None:
        """When all parts are filled."""
    def wall_in(self, k: int) -> None:
        """Shut the arcs that leave a block."""
    def price(self, k: int, unary: NDArray[np.float64], before: NDArray[np.float64] | None = None) -> None:
        """Give a block its unary (flat), instead of an earlier one or of none."""
    def balance(self, k: int, shifted: bool) -> None:
        """Let flow run inside a block of a grid that makes its excesses less, before solve()."""
    def solve(self, g: int) -> None:
        """Minimize a group with the flow over its walls as it is."""
    def labels(self, k: int, of_all: bool = False) -> NDArray[np.bool_]:
        """A block's part of its group's smallest minimizer or, once certified, of everyone's."""
    def bracket(self, g: int, outside: bool) -> NDArray[np.bool_]:
        """The smallest minimizer of a group with label 0 outside, or the largest with label 1, block after block."""
    def bound(self, k: int) -> int:
        """The minimum of a block, in units of 1 / scale."""
    def survey(self, k: int) -> tuple[int, int, int]:
        """What a block's labels cost at its walls beyond its bound, the arcs in conflict, and its sites that differ."""
    def discharge(self, g: int) -> None:
        """Send excess over the walls, towards the nearest sinks."""
    def check(self, g: int) -> None:
        """Recompute slowly what must hold; RuntimeError where it does not."""
    def save(self, k: int) -> builtins.bytes:
        """What a solved block knows beside the stores; with those, all that its next call goes on from."""
    def load(self, k: int, saved: builtins.bytes) -> None:
        """What save() gave, for a network of the same shape, divided alike and finished, with those stores."""
    def stores(self) -> list[NDArray[np.uint8]]:
        """Where excesses, residuals and forests lie: arrays of bytes, to be written elsewhere and read back."""
    def hold(self, k: int, held: NDArray[np.uint8]) -> None:
        """Flow over walls at sites whose labels are fixed (1: label 0, 2: label 1, else 0)."""
    def carry(self, k: int, first: NDArray[np.int64], second: NDArray[np.int64], amount: NDArray[np.int64]) -> None:
        """Let flow run from sites of a block (first) to sites of others (second)."""
    def wall_flows(self, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """(sites of a block, sites of others, what flows to these)."""
    def surround(self, sites: NDArray[np.int64], walls: NDArray[np.int32]) -> None:
        """How many walls lie between sites of others and a sink; all else reaches none."""
    def measure_from(self, k: int, most: int) -> None:
        """Find how many walls lie between a block's sites and a sink, by what surrounds it."""
    def border(self, k: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """(sites of a block that have pairs over its walls, walls between each and a sink, or -1, its side)."""
    def reach(self, k: int, sites: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sources elsewhere reach these sites of a block; the sites of others that are reached from it then."""
    def certify(self) -> bool:
        """Whether no path is left, where no survey found a conflict."""
    def push(self) -> int:
        """Push flow over every conflict; how much."""
    def changed(self) -> list[int]:
        """The groups to solve again."""
    def disputes(self) -> list[tuple[int, int, float]]:
        """(group, group, what could flow over their conflicts) for all that disagree."""
    def merge(self, g: int, h: int) -> None:
        """Make two groups one, named by the lower."""
    def measure(self) -> None:
        """Find how many walls lie between every site and a sink; before discharges."""
    def part(self, k: int) -> None:
        """Take a block's pairs between different labels, once certified, out of the network."""
    def regroup(self) -> None:
        """After all blocks are parted: each is a group by itself again, to be walled in."""
    def deliver(self) -> None:
        """What was discharged arrives."""
    def flows(self, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """(sites of a block, later sites elsewhere, what flows from the former to the latter)."""
    def pushed(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The same for all blocks, while nothing was merged or discharged."""
    def impose(
        self, first: NDArray[np.int64], second: NDArray[np.int64], amount: NDArray[np.int64], sites: int
    ) -> None:
        """Let flow run over walls before anything is solved."""

@final
class Neighbors:
    """Every site's neighbors with the weights of their pairs, of any sign; shared by all that are made with it."""

    @staticmethod
    def grid(weights: GridWeights) -> Neighbors: ...
    @staticmethod
    def graph(sites: int, edges: NDArray[np.int64], weights: NDArray[np.float64]) -> Neighbors: ...

@final
class Standpoint:
    """An energy seen from labels y: what every flip costs, kept up to date while labels move. Arrays are flat.

    Weights may have any sign. Those below 0 are repulsive pairs; the others are attractive.
    """

    def __init__(self, neighbors: Neighbors) -> None: ...
    def stand(self, unary: NDArray[np.float64], labels: NDArray[np.bool_]) -> None:
        """Begin at these labels."""
    def falls(self, to: NDArray[np.bool_]) -> tuple[float, float]:
        """E(y) - E(to), exactly, and with the repulsive pairs taken to first order about y."""
    def move(self, to: NDArray[np.bool_]) -> None: ...
    def descend(self, most: int) -> int:
        """Flip the site that gains most, again and again, while one gains; at most so often. How often it was."""
    def repelled_before(self, rank: NDArray[np.int64]) -> NDArray[np.float64]:
        """Sum of 2 |w_ij| over the repulsive pairs of i whose other end j has a lower rank."""
    def labels(self) -> NDArray[np.bool_]: ...
    def prices(self) -> NDArray[np.float64]:
        """u_i + sum_j w_ij (1 - 2 y_j): label 1 over label 0 at site i, its neighbors as they are."""
    def tangents(self) -> NDArray[np.float64]:
        """The same, summed over repulsive pairs only."""
    def repulsion(self) -> NDArray[np.float64]:
        """The sum of |w_ij| over the repulsive pairs of i."""

@final
class Trws:
    """Sequential tree-reweighted message passing: see cpp/trws.h. Arrays are flat."""

    def __init__(self, neighbors: Neighbors) -> None: ...
    def run(
        self, unary: NDArray[np.float64], rounds: int, tolerance: float, unit: float
    ) -> tuple[NDArray[np.bool_], float, float, int]:
        """(labels, bound, how far rounding may have put the bound off, rounds), from messages of 0.

        All energies are multiples of `unit`, if it is not 0. Several threads may do this at once.
        """

@final
class LabelTrws:
    """Sequential tree-reweighted message passing of several labels: see cpp/label_trws.h. Arrays are flat."""

    def __init__(
        self,
        neighbors: Neighbors,
        costs: NDArray[Any],
        inside: NDArray[np.bool_] | None,
        metric: str,
        limit: float,
        table: NDArray[np.float64] | None,
        tables: NDArray[np.float64] | None,
        single: bool,
    ) -> None:
        """Costs (sites, labels) are read in place, and count as 0 where sites are not inside.

        metric: "potts", "linear" or "quadratic", up to a limit, or "table". `tables` instead, (pairs, labels, labels),
        are of the pairs of a graph, the lower site's label first. With `single` messages are float32.
        """
    def run(self, rounds: int, unit: float, threads: int) -> None:
        """So many more rounds, fewer where the gap closes: all energies are multiples of `unit`, if it is not 0."""
    def labels(self) -> NDArray[np.uint16]:
        """The best so far."""
    @property
    def energy(self) -> float:
        """That of the best labels."""
    @property
    def bound(self) -> float:
        """The best so far; it may be off by rounding_error."""
    @property
    def rounding_error(self) -> float: ...
    @property
    def rounds(self) -> int: ...

@final
class Search:
    """Search for labels of low energy: see cpp/search.h. Arrays are flat."""

    def __init__(self, neighbors: Neighbors) -> None: ...
    @property
    def sites(self) -> int: ...
    def run(
        self,
        unary: NDArray[np.float64],
        labels: NDArray[np.bool_],
        sweeps: int,
        seconds: float,
        seed: int,
        threads: int,
    ) -> tuple[NDArray[np.bool_], int, int, int, bool, bool]:
        """Labels no worse than those given, with costs in 32-bit whole numbers; and what was done for them.

        That is: rounds, epochs, work in visits, whether they are a minimum, and whether somebody cancelled. `sweeps`
        limits the work, unless `seconds` is finite. Several threads may run one search at once.
        """

@final
class MeanField:
    """Mean field that cools down: see cpp/mean_field.h. Arrays are flat."""

    def __init__(self, neighbors: Neighbors) -> None: ...
    @property
    def strength(self) -> float:
        """The greatest sum of |weight| over the pairs of a site."""
    @property
    def mean_strength(self) -> float:
        """The same on average."""
    def run(self, unary: NDArray[np.float64], hot: float, cold: float, factor: float) -> NDArray[np.float64]:
        """The probabilities of label 1 after a sweep at each temperature hot, factor hot, ... down to cold.

        Several threads may do this at once.
        """

def distances(labels: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The Euclidean distance of each site to the nearest one with the other label, less 1/2.

    For label 1 the outside counts as label 0. Without any site of label 1 the distance is 1 everywhere.
    """
