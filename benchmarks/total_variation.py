"""Exact total variation beside single cuts of the same image: `python -m benchmarks.total_variation [2d] [3d]`.

A single cut is made by `dope.minimize`, of either of two kinds:

- `cuts`: that of one threshold for all sites, with all pairs: of the middle of the grey values, the first of the nested
  ones, and of five percentiles. Such a cut is hard only where the image has about that grey value.
- `own`: the nested cuts as the method makes them, each solved by itself from nothing: every site at the threshold of
  its own interval, without pairs between intervals. From the third on they are hard everywhere.

Wall seconds are the best of some runs; the processor seconds of that run tell more where other work is going on.
Lines go to results/total_variation.jsonl.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from benchmarks.lines import RESULTS, append, commit, machine, now

import dope
from dope import io, samples
from dope.pairs import half_offsets
from dope.stored import Stored
from dope.total_variation.levels import stored_levels
from dope.total_variation.thresholds import Variation

LAM = {"l1": 2.0, "l2": 40.0}


def photo(side: int) -> npt.NDArray[np.uint8]:
    """The wren and its rock, mirrored to a square, under noise of 15 grey values."""
    with samples.canyon_wren() as sample:
        grey = io.read_image(sample.photo).mean(axis=-1)[:side, -side:]
    grey = np.pad(grey, [(0, side - grey.shape[0]), (0, side - grey.shape[1])], mode="reflect")
    return noisy(grey)


def volume(side: int) -> npt.NDArray[np.uint8]:
    """Waves and a ball, under noise of 15 grey values."""
    z, y, x = np.meshgrid(*[np.arange(side, dtype=np.float32)] * 3, indexing="ij")
    ball = sum((a - side / 2) ** 2 for a in (x, y, z)) < (side * 0.31) ** 2
    return noisy(128 + 60 * np.sin(z / 20) * np.cos(y / 17) * np.sin(x / 23) + 40 * ball)


def noisy(grey: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    noise = np.random.default_rng(0).normal(0, 15, grey.shape)
    return np.clip(grey + noise, 0, 255).astype(np.uint8)


class Taken(NamedTuple):
    """Seconds, on the clock and of processors."""

    wall: float
    work: float


def best_of(runs: int, work: Callable[[], object]) -> Taken:
    found = []
    for _ in range(runs):
        begun = Taken(time.perf_counter(), time.process_time())
        work()
        found.append(Taken(time.perf_counter() - begun.wall, time.process_time() - begun.work))
    return min(found)


def single_cut(image: npt.NDArray[np.uint8], norm: str, threshold: int, runs: int) -> Taken:
    unary = np.where(image >= threshold, -1.0, 1.0) if norm == "l1" else 2.0 * (threshold - image.astype(float)) - 1.0
    energy = dope.Energy.grid(unary, lam=LAM[norm], kernel=np.eye(image.ndim, dtype=int))
    return best_of(runs, lambda: dope.minimize(energy))


def own_cuts(image: npt.NDArray[np.uint8], norm: Any, answer: npt.NDArray[np.uint8], runs: int) -> list[Taken]:
    """The cuts that find the bits of the answer, the highest first."""
    low, high = int(image.min()), int(image.max())
    offsets = half_offsets(np.eye(image.ndim, dtype=np.int64), image.ndim)
    factors = np.full(len(offsets), LAM[norm])
    variation = Variation(Stored.of("image", image), None, offsets, factors, norm, low, (high - low).bit_length())
    found = []
    for left in range(variation.bits, 0, -1):
        known = None if left == variation.bits else stored_levels((answer - low) >> left)
        energy = variation.cut(known, left).read()
        assert (dope.minimize(energy).labels == ((answer - low) >> (left - 1) & 1)).all()
        found.append(best_of(runs, lambda energy=energy: dope.minimize(energy)))  # type: ignore[misc]
    return found


def measured(name: str, image: npt.NDArray[np.uint8], norm: Any, runs: int) -> dict[str, Any]:
    low, high = int(image.min()), int(image.max())
    middle = low + (1 << (high - low).bit_length() - 1)
    thresholds = {middle, *np.percentile(image, range(10, 100, 20)).astype(int).tolist()}
    cuts = {t: single_cut(image, norm, t, runs) for t in sorted(thresholds)}
    whole = best_of(runs, lambda: dope.denoise_tv(image, LAM[norm], norm=norm))
    own = own_cuts(image, norm, dope.denoise_tv(image, LAM[norm], norm=norm), runs)
    yardsticks = {
        "the_first": cuts[middle], "the_median": sorted(cuts.values())[len(cuts) // 2],
        "the_hardest": max(cuts.values()), "the_own_median": sorted(own)[len(own) // 2], "the_own_hardest": max(own),
    }  # fmt: skip
    return {
        "case": name, "norm": norm, "lam": LAM[norm], "shape": list(image.shape), "runs": runs,
        "seconds": round(whole.wall, 3), "work": round(whole.work, 3),
        "cuts": {str(t): round(cut.wall, 3) for t, cut in cuts.items()},
        "own": [round(cut.wall, 3) for cut in own],
        **{f"times_{which}": round(whole.wall / cut.wall, 2) for which, cut in yardsticks.items()},
        **{f"work_times_{which}": round(whole.work / cut.work, 2) for which, cut in yardsticks.items()},
        "command": f"python -m benchmarks.total_variation {name}", "when": now(), "commit": commit(),
        "machine": machine(),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=["2d", "3d"])
    parser.add_argument("--norms", nargs="*", default=["l1", "l2"])
    parser.add_argument("--side", type=int)
    parser.add_argument("--runs", type=int, default=2)
    asked = parser.parse_args()
    for name in asked.cases:
        image = photo(asked.side or 2048) if name == "2d" else volume(asked.side or 256)
        for norm in asked.norms:
            record = measured(name, image, norm, asked.runs)
            print(record)
            append(RESULTS / "total_variation.jsonl", [record])


if __name__ == "__main__":
    main()
