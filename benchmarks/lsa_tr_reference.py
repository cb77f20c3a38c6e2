"""LSA-TR in plain NumPy and PyMaxflow: what `dope.LsaTr` is measured against.

The same rules (Gorelick et al. 2014; the break point by Dinkelbach's cuts from the best single flip), the same start,
and the flow is kept from cut to cut; sparse products by SciPy, distances by `scipy.ndimage`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import maxflow
import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt

import dope

Values = NDArray[np.float64]
Labels = NDArray[np.bool_]


@dataclass
class Reference:
    """An energy as a graph of PyMaxflow and sparse matrices of its pairs."""

    energy: dope.Energy
    cuts: int = 0
    _linked: Values = field(init=False)

    def __post_init__(self) -> None:
        first, second, weights = self.energy.pairs.edges()
        size, attracts = self.energy.unary.size, weights > 0
        matrix = scipy.sparse.coo_matrix((weights, (first, second)), (size, size))
        self._all = (matrix + matrix.T).tocsr()
        self._attractive = self._all.multiply(self._all > 0).tocsr()
        self._repulsive = (self._all - self._attractive).tocsr()
        self._graph = maxflow.Graph[float](size, int(attracts.sum()))
        self._nodes = self._graph.add_nodes(size)
        w = weights[attracts]
        self._graph.add_edges(first[attracts], second[attracts], w, w)
        self._linked = np.zeros(size)

    def minimize(self) -> Labels:
        """From the sign of the unary until no trust region helps."""
        unary = self.energy.unary.ravel().astype(np.float64)
        labels, penalty = unary < 0, 0.1
        tolerance = 1e-9 * (1.0 + float(np.abs(unary).sum()))
        while True:
            away = self._distances(labels)
            tangent = unary + self._repulsive @ (1.0 - 2.0 * labels)
            found, actual, predicted, moved = self._step(labels, tangent, away, penalty)
            if predicted - penalty * moved <= tolerance:
                smallest = self._smallest_step(labels, unary, tangent, away, tolerance)
                if smallest is None or smallest[1] <= tolerance:
                    return labels.reshape(self.energy.shape)
                found, actual, predicted, penalty = smallest
            penalty = float(np.clip(penalty / 2 if actual > 0.25 * predicted else penalty * 2, 1e-9, 1e9))
            if actual > 0:
                labels = found

    def _distances(self, labels: Labels) -> Values:
        if not labels.any() or len(self.energy.shape) == 1:
            return np.ones(labels.size)
        image = labels.reshape(self.energy.shape)
        inner = distance_transform_edt(np.pad(image, 1))[(slice(1, -1),) * image.ndim]
        return np.asarray(np.where(image, inner, distance_transform_edt(~image)) - 0.5).ravel()

    def _cut(self, unary: Values) -> Labels:
        self.cuts += 1
        self._graph.add_grid_tedges(self._nodes, unary - self._linked, np.zeros(unary.size))
        self._linked = unary
        self._graph.maxflow()
        return np.asarray(self._graph.get_grid_segments(self._nodes))

    def _step(
        self, labels: Labels, tangent: Values, away: Values, penalty: float
    ) -> tuple[Labels, float, float, float]:
        found = self._cut(tangent + penalty * np.where(labels, -away, away))
        actual, predicted = self._falls(labels, found)
        return found, actual, predicted, float(away[found != labels].sum())

    def _falls(self, labels: Labels, to: Labels) -> tuple[float, float]:
        change = to.astype(np.float64) - labels
        price = self.energy.unary.ravel() + self._all @ (1.0 - 2.0 * labels)
        predicted = float(change @ (self._attractive @ change) - change @ price)
        return predicted + float(change @ (self._repulsive @ change)), predicted

    def _smallest_step(
        self, labels: Labels, unary: Values, tangent: Values, away: Values, tolerance: float
    ) -> tuple[Labels, float, float, float] | None:
        price = unary + self._all @ (1.0 - 2.0 * labels)
        ratios = np.where(labels, price, -price) / away
        best, found = int(ratios.argmax()), None
        penalty = max(float(ratios[best]), 1e-9)
        if ratios[best] > 1e-9:
            flipped = labels.copy()
            flipped[best] = not flipped[best]
            found = (flipped, *self._falls(labels, flipped), penalty)
        while True:
            to, actual, predicted, moved = self._step(labels, tangent, away, penalty)
            if predicted - penalty * moved <= tolerance:
                return found
            penalty = predicted / moved
            found = (to, actual, predicted, penalty)
