"""The native core of dope. True = 1 = foreground; `unary` is the price of label 1 over label 0."""

from collections.abc import Sequence
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

Reals: TypeAlias = NDArray[np.float32] | NDArray[np.float64]
Pixels: TypeAlias = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.int16] | Reals

@final
class GridWeights:
    """w(p, m), the weight of the pair (p, p + offsets[m]) on a grid, computed when asked for and never stored.

    w(p, m) = factors[m] * exp(-beta |x_p - x_q|^2) * fields[m][p] / (count(p) count(q)), q = p + offsets[m];
    exp with features, fields and counts only if given; count(p) is the product over axes of counts[a][p_a].
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
        """The minimum."""
    def check(self) -> None:
        """Recompute slowly what must hold after minimize; RuntimeError where it does not."""
    @property
    def bytes(self) -> int:
        """Bytes held, without the lists of work at hand."""
    def refill(self, weights: GridWeights, scale: float) -> None:
        """As if new, for other weights on the same grid and kernel, in the memory it holds."""
    def crossings(
        self, axis: int, at: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The pairs on both sides of a face: (sites below, sites above, residuals upward, downward)."""
    @staticmethod
    def bytes_needed(shape: Sequence[int], offsets: NDArray[np.int64], bits: int) -> int:
        """What `bytes` will be."""

@final
class GraphFlow:
    """Minimum cuts on a sparse graph, each going on from the last."""

    def __init__(
        self,
        sites: int,
        edges: NDArray[np.int64],
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
        """The minimum."""
    def check(self) -> None:
        """Recompute slowly what must hold after minimize; RuntimeError where it does not."""
    @property
    def bytes(self) -> int:
        """Bytes held, without the lists of work at hand."""
    @staticmethod
    def bytes_needed(sites: int, edges: int, bits: int) -> int:
        """What `bytes` will be."""

@final
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

def contrast(
    features: Pixels,
    offsets: NDArray[np.int64],
    low: Sequence[int],
    high: Sequence[int],
    unit: float,
) -> tuple[int, int]:
    """The exact sum of rint(|x_p - x_q|^2 / unit) over the pairs with p in the box, and their number."""

def roughness(
    weights: GridWeights,
    labels: NDArray[np.bool_],
    low: Sequence[int],
    high: Sequence[int],
) -> float:
    """The sum of the weights of the pairs with p in the box whose labels differ."""
