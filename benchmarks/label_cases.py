"""Energies of several labels that others have measured on, in integers, made from their pictures.

The stereo pairs and the noisy pictures are those of the Middlebury MRF benchmark (Szeliski et al., A comparative study
of energy minimization methods for Markov random fields, 2008), with its costs:

    tsukuba    16 disparities d; Birchfield and Tomasi's difference of I(x) and I'(x - d), summed over colours;
               w = 20, doubled where the squared difference of neighbours is below 3 * 8^2;  V = min(|a - b|, 2)
    venus      20 disparities; the same, each squared, a sum of no more than 16^2;  w = 50;  V = min((a - b)^2, 7)
    teddy      60 disparities; Birchfield and Tomasi; w = 10, tripled below 3 * 10^2;  V = [a != b]
    house      256 grey values; (l - I)^2, nothing in the hole;  w = 5;  V = (a - b)^2
    penguin    256 grey values; the same;  w = 25;  V = min((a - b)^2, 200)

where disparities reach beyond the picture they cost the most that there is. Neighbours are those to the right and
below. What is known of these energies is in `MARKS`. Differences of pixels are Birchfield and Tomasi's (A pixel
dissimilarity measure that is insensitive to image sampling, 1998), with their halves rounded down, as in the
benchmark. The pictures are in DOPE_DATA: mrf/middlebury, for research only.

    python benchmarks/label_cases.py tsukuba --rounds 100

solves one by message passing and prints what comes of it.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from cases import MissingDataError
from PIL import Image

Ints = npt.NDArray[np.integer[Any]]

DATA = Path("mrf") / "middlebury"
MARKS = {
    "tsukuba": {"expansion (gco-wrapper)": 371_297, "TRW-S": 369_802, "TRW-S bound": 369_114, "minimum": 369_218},
    "teddy": {"expansion (gco-wrapper)": 1_342_814},
    # vision.middlebury.edu/MRF/results/denoise/houseM
    "house": {"expansion": 38_864_849, "swap": 37_916_309, "TRW-S": 37_580_724, "TRW-S bound": 37_580_519.6},
}


@dataclass(frozen=True, eq=False)
class LabelCase:
    """An energy of a picture: costs (rows, columns, labels), and the weights of the pairs that begin at each pixel.

    `down` are those of (y, x) and (y + 1, x), 0 in the last row; `right` those of (y, x) and (y, x + 1).
    `metric` is what `LabelEnergy.grid` takes.
    """

    name: str
    costs: npt.NDArray[np.int32]
    down: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    metric: str | tuple[str, int]

    @property
    def label_count(self) -> int:
        return int(self.costs.shape[-1])

    @property
    def table(self) -> npt.NDArray[np.int64]:
        """V(a, b), as other solvers take it."""
        labels = np.arange(self.label_count)
        apart = np.abs(labels[:, None] - labels)
        kind, limit = self.metric if isinstance(self.metric, tuple) else (self.metric, None)
        paid = {"potts": np.minimum(apart, 1), "linear": apart, "quadratic": apart * apart}[kind]
        return paid if limit is None else np.minimum(paid, limit)

    def energy(self, labels: Ints) -> int:
        """By plain sums of integers."""
        x = np.asarray(labels, dtype=np.int64)
        paid = int(np.take_along_axis(self.costs, x[..., None], -1).sum(dtype=np.int64))
        below = self.down[:-1] * self.table[x[:-1], x[1:]]
        beside = self.right[:, :-1] * self.table[x[:, :-1], x[:, 1:]]
        return paid + int(below.sum()) + int(beside.sum())


def picture(folder: str, name: str, mode: str) -> npt.NDArray[np.int32]:
    path = Path(os.environ.get("DOPE_DATA", "")) / DATA / folder / "data" / f"{name}.png"
    if not path.exists():
        raise MissingDataError(f"{path} is missing; expected DOPE_DATA to be the folder that holds {DATA}.")
    with Image.open(path) as image:
        return np.array(image.convert(mode), dtype=np.int32)


def _between(pixels: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The least and the greatest of a pixel and the middles between it and those left and right of it."""
    middle = (pixels[:, 1:] + pixels[:, :-1]) // 2
    left, right = pixels.copy(), pixels.copy()
    left[:, 1:], right[:, :-1] = middle, middle
    sides = np.stack([pixels, left, right])
    return sides.min(0), sides.max(0)


def _birchfield_tomasi(
    mine: Ints, mine_between: tuple[Ints, Ints], other: Ints, other_between: tuple[Ints, Ints]
) -> Ints:
    """How far each pixel is from what the other picture may be around its pixel, whichever way is less."""
    there = np.maximum(mine - other_between[1], other_between[0] - mine)
    back = np.maximum(other - mine_between[1], mine_between[0] - other)
    return np.maximum(0, np.minimum(there, back))


def _matching_costs(left: Ints, right: Ints, disparities: int, *, squared_limit: int | None) -> npt.NDArray[np.int32]:
    rows, columns, colors = left.shape
    most = 255 * colors if squared_limit is None else squared_limit
    costs = np.full((rows, columns, disparities), most, dtype=np.int32)
    of_left, of_right = _between(left), _between(right)
    for d in range(disparities):
        here, there = (slice(None), slice(d, None)), (slice(None), slice(0, columns - d))
        apart = _birchfield_tomasi(
            left[here], (of_left[0][here], of_left[1][here]), right[there], (of_right[0][there], of_right[1][there])
        )
        costs[here[0], here[1], d] = np.minimum((apart if squared_limit is None else apart**2).sum(-1), most)
    return costs


def _smoothness(pixels: Ints, weight: int, *, below: int = 0, factor: int = 1) -> list[npt.NDArray[np.int32]]:
    """Weights down and right: `factor` as much where colours differ by less than `below`, root mean square."""
    weights = []
    for axis in (0, 1):
        differences = (np.diff(pixels, axis=axis) ** 2).sum(-1)
        field = np.zeros(pixels.shape[:2], dtype=np.int32)
        begins = tuple(slice(0, n) for n in differences.shape)
        field[begins] = np.where(differences < pixels.shape[-1] * below**2, factor * weight, weight)
        weights.append(field)
    return weights


def _stereo(name: str) -> LabelCase:
    left, right = (picture("mrfstereo", f"{name}-im{side}", "RGB") for side in "LR")
    if name == "tsukuba":
        costs = _matching_costs(left, right, 16, squared_limit=None)
        return LabelCase(name, costs, *_smoothness(left, 20, below=8, factor=2), ("linear", 2))
    if name == "venus":
        costs = _matching_costs(left, right, 20, squared_limit=16**2)
        return LabelCase(name, costs, *_smoothness(left, 50), ("quadratic", 7))
    costs = _matching_costs(left, right, 60, squared_limit=None)
    return LabelCase(name, costs, *_smoothness(left, 10, below=10, factor=3), "potts")


def _denoising(name: str) -> LabelCase:
    pixels, mask = (picture("denoise", f"{name}-{what}", "L") for what in ("input", "mask"))
    costs = (np.arange(256, dtype=np.int32) - pixels[..., None]) ** 2
    costs[mask == 0] = 0
    weight, metric = (5, "quadratic") if name == "house" else (25, ("quadratic", 200))
    return LabelCase(name, costs, *_smoothness(pixels[..., None], weight), metric)


MAKERS = {"tsukuba": _stereo, "venus": _stereo, "teddy": _stereo, "house": _denoising, "penguin": _denoising}


def label_case(name: str) -> LabelCase:
    """One of `MAKERS`."""
    return MAKERS[name](name)


def main() -> None:
    from dope import LabelEnergy, LabelTrwS

    parser = argparse.ArgumentParser(description="Solve one case by message passing.")
    parser.add_argument("name", choices=sorted(MAKERS))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    case = label_case(args.name)
    weights = [case.down.astype(float), case.right.astype(float)]
    energy = LabelEnergy.grid(case.costs, kernel=[[1, 0], [0, 1]], weights=weights, metric=case.metric)
    began, busy = time.perf_counter(), time.process_time()
    messages = LabelTrwS(rounds=args.rounds, tolerance=0.0).prepare(energy, threads=args.threads)
    for step in messages.steps():
        seconds, used = time.perf_counter() - began, time.process_time() - busy
        print(
            f"{step.rounds:5d} rounds  energy {step.energy:,.0f}  bound {step.bound:,.1f}  "
            f"{seconds:.2f} s, {used:.2f} s of processors"
        )
    answer = messages.answer()
    assert answer.energy == case.energy(answer.labels)
    gap = (answer.energy - answer.bound) / abs(answer.energy)
    print(
        f"{args.name}: energy {answer.energy:,.0f}, bound {answer.bound:,.0f}, gap {gap:.3%}; "
        f"known: {MARKS.get(args.name)}"
    )


if __name__ == "__main__":
    main()
