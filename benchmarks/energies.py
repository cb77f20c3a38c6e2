"""An energy as a user states it, and the same energy in the integers that dope makes of it.

A user gives a picture, unaries and lam, and dope counts their costs in units of 1 / scale, a power of two that it
chooses (`dope.fixed_point`):

    unary = rint(scale u_p),    w(p, m) = rint(scale factor_m exp(-beta |x_p - x_q|^2)),    q = p + offset_m

These integers are what another solver is given, and what all labels are judged by. They are computed here with NumPy
alone and strip by strip, so that a picture of any size needs little memory beside itself.

Both travel between processes in a folder: the arrays as .npy files, the rest as JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import dope
    from dope.arrays import Box

Labels = npt.NDArray[np.bool_]

# Sites at a time: temporaries then stay in the second-level cache.
_STRIP_SITES = 1 << 15


@dataclass(frozen=True, eq=False)
class Model:
    """What `dope.Energy.grid` is given. `unit` is what one nat counts in these costs; features have channels last."""

    unary: npt.NDArray[np.float32]
    features: npt.NDArray[Any]
    lam: float
    kernel: int | list[list[int]]
    beta: float | None = None
    unit: float = 1.0

    def energy(self) -> dope.Energy:
        import dope  # not above: another solver's process reads the integers without it

        return dope.Energy.grid(self.unary, lam=self.lam, kernel=self.kernel, features=self.features, beta=self.beta)

    def save(self, folder: Path, width: int | None) -> None:
        """Write it, with how dope counts it in capacities of `width` bits, or of as many as it chooses."""
        import dope
        from dope.fixed_point import FixedPoint

        energy = self.energy()
        fixed, pairs = FixedPoint.of(energy, width), energy.pairs
        assert not isinstance(pairs, dope.pairs.GraphPairs)
        counted = {
            "kernel": self.kernel,
            "offsets": pairs.offsets.tolist(),
            "factors": pairs.factors.tolist(),
            "sharpness": pairs.beta,
            "pairs": pairs.number,
            "scale": fixed.scale,
            "bits": fixed.bits,
            "rounding_error": fixed.error,
            "flow_bytes": dope.MaxFlow(width).bytes_needed(energy),
        }
        stated = {"lam": self.lam, "kernel": self.kernel, "beta": self.beta, "unit": self.unit}
        np.save(folder / "unary.npy", self.unary)
        np.save(folder / "features.npy", self.features)
        (folder / "about.json").write_text(json.dumps({"stated": stated, "counted": counted}), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Model:
        """The model, its arrays in memory."""
        return cls(np.load(folder / "unary.npy"), np.load(folder / "features.npy"), **_about(folder)["stated"])


@dataclass(frozen=True, eq=False)
class Integers:
    """The energy in integers: unaries at each site, and for each offset the weight of every pair.

    `flow_bytes` is what a single flow of dope's would hold.
    """

    unary: npt.NDArray[np.float32]
    features: npt.NDArray[Any]
    kernel: int | list[list[int]]
    offsets: list[list[int]]
    factors: list[float]
    sharpness: float
    pairs: int
    scale: float
    bits: int
    rounding_error: float
    flow_bytes: int

    @classmethod
    def load(cls, folder: Path, *, mapped: bool = False) -> Integers:
        """Read them, or, `mapped`, only what is looked at."""
        mode: Literal["r"] | None = "r" if mapped else None
        arrays = (np.load(folder / f"{name}.npy", mmap_mode=mode) for name in ("unary", "features"))
        return cls(*arrays, **_about(folder)["counted"])

    @property
    def shape(self) -> tuple[int, ...]:
        return self.unary.shape

    @property
    def sites(self) -> int:
        return self.unary.size

    def prices(self) -> npt.NDArray[np.int64]:
        """The unaries."""
        out = np.empty(self.shape, dtype=np.int64)
        for box in self._strips():
            out[box] = self._prices(box)
        return out

    def weights(self, m: int) -> npt.NDArray[np.int64]:
        """At p the weight of the pair (p, p + offset m); 0 where that lies outside."""
        out = np.zeros(self.shape, dtype=np.int64)
        for tail, head in self._ends(m):
            out[tail] = self._weights(m, self.features[tail], self.features[head])
        return out

    def energy(self, labels: Labels) -> int:
        """What the labels cost: plain sums that share nothing with any solver."""
        if labels.dtype != np.bool_ or labels.shape != self.shape:
            raise ValueError(f"labels are {labels.dtype} of shape {labels.shape}; expected bool of {self.shape}.")
        total = sum(int(self._prices(box)[labels[box]].sum()) for box in self._strips())
        for m in range(len(self.offsets)):
            for tail, head in self._ends(m):
                apart = labels[tail] != labels[head]
                if apart.any():
                    cost = self._weights(m, self.features[tail][apart], self.features[head][apart])
                    total += int(cost.sum())
        return total

    def _prices(self, box: Box) -> npt.NDArray[np.int64]:
        return np.rint(self.unary[box] * np.float64(self.scale)).astype(np.int64)

    def _weights(self, m: int, p: npt.NDArray[Any], q: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        change = p.astype(np.float64) - q
        squares = (change * change).sum(axis=-1)
        return np.rint(falling(-self.sharpness * squares) * self.factors[m] * self.scale).astype(np.int64)

    def _strips(self) -> Iterator[Box]:
        rows = self._rows()
        return ((slice(low, low + rows),) for low in range(0, self.shape[0], rows))

    def _ends(self, m: int) -> Iterator[tuple[Box, Box]]:
        """Boxes of sites p that have a partner, and the boxes of these partners, strip by strip."""
        offset = self.offsets[m]
        first, *rest = [(max(0, -o), n - max(0, o)) for o, n in zip(offset, self.shape, strict=True)]
        for low in range(*first, self._rows()):
            limits = [(low, min(low + self._rows(), first[1])), *rest]
            yield (
                tuple(slice(a, b) for a, b in limits),
                tuple(slice(a + o, b + o) for (a, b), o in zip(limits, offset, strict=True)),
            )

    def _rows(self) -> int:
        return max(1, _STRIP_SITES // math.prod(self.shape[1:]))


def falling(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """exp(x) for x <= 0, to the bit what dope takes it for.

    dope adds up exp's series itself (`cpp/portable_exp.h`), for the same weights on every system. np.exp may differ in
    the last bit, and at a scale of 2^25 that would move one of some hundred million weights by a unit.
    """
    round_off, log2_e = float.fromhex("0x1.8p52"), float.fromhex("0x1.71547652b82fep+0")
    ln2_high, ln2_low = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")
    k = (x * log2_e + round_off) - round_off
    r = (x - k * ln2_high) - k * ln2_low
    series = np.full_like(r, 1.0 / math.factorial(13))
    for n in reversed(range(13)):
        series *= r
        series += 1.0 / math.factorial(n)
    vanishing = x < -708.0
    return np.where(vanishing, 0.0, np.ldexp(series, np.where(vanishing, 0.0, k).astype(np.int32)))


def _about(folder: Path) -> dict[str, Any]:
    about: dict[str, Any] = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    return about
