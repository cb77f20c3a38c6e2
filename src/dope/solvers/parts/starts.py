"""Labels to begin with, for solvers that go downhill.

Where pairs repel strongly, the sign of the unary can be a bad place to begin: trust regions then end in labels that are
nearly empty. Of a dozen starts on the instances of `experiments/curvature.py` none was best everywhere; the better of
the two by default was within 0.2 % of the best of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from dope import _core
from dope.arrays import BinaryLabels
from dope.cancellation import check_cancelled
from dope.errors import InputError
from dope.protocols import Minimizer
from dope.solvers.mean_field import Cooling, MeanField

Values = npt.NDArray[np.float64]
StartName = Literal["cooled", "smooth", "attracted", "threshold"]
"""cooled: mean field (`MeanField`). smooth: the sign of the unary under a binomial filter with a standard deviation of
1.4 sites along every axis; a graph has no axes, and begins at the threshold. attracted: the minimum with the unary and
a fifth of every attractive pair, without the repulsive ones. threshold: the sign of the unary."""

DEFAULT: tuple[StartName, ...] = ("cooled", "smooth")
PASSES = 4
ATTRACTION = 0.2


def checked_starts(owner: str, starts: Sequence[StartName]) -> None:
    """InputError unless these are names of starts."""
    known = get_args(StartName)
    if isinstance(starts, str) or not len(starts) or any(name not in known for name in starts):
        raise InputError(f"{owner}: starts is {starts!r}; expected some of {', '.join(map(repr, known))} as a tuple.")


@dataclass(frozen=True, eq=False)
class Starts:
    """The starts of these names, for the pairs of one energy, whose attractive ones `flow` minimizes."""

    names: tuple[StartName, ...]
    flow: Minimizer
    around: _core.Neighbors
    axes: bool  # whether the sites lie on a grid

    def labels(self, unary: Values) -> Iterator[BinaryLabels]:
        """The labels of all names, each once."""
        seen: list[BinaryLabels] = []
        for name in self.names:
            check_cancelled()
            labels = self._labels(name, unary)
            if not any(np.array_equal(labels, earlier) for earlier in seen):
                seen.append(labels)
                yield labels

    def _labels(self, name: StartName, unary: Values) -> BinaryLabels:
        match name:
            case "cooled":
                return self._cooling.labels(unary)
            case "attracted":
                # Pairs of a fifth and the unary as it is, or pairs as they are and the unary fivefold: one minimum.
                return self.flow.minimize(unary / ATTRACTION).labels
            case "smooth" if self.axes:
                return _smoothed(unary) < 0
            case _:
                return unary < 0

    @cached_property
    def _cooling(self) -> Cooling:
        return Cooling(self.around, MeanField())


def _smoothed(values: Values) -> Values:
    """Some passes of the filter (1, 2, 1) / 4 along every axis; the border repeats itself."""
    for axis in range(values.ndim):
        for _ in range(PASSES):
            check_cancelled()
            wide = np.pad(values, [(1, 1) if a == axis else (0, 0) for a in range(values.ndim)], mode="edge")
            lower, middle, upper = (np.take(wide, np.arange(s, s + values.shape[axis]), axis) for s in range(3))
            values = (lower + 2.0 * middle + upper) / 4.0
    return values
