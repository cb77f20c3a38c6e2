"""Exact total variation beside single cuts of the same image: `python -m benchmarks.total_variation [2d] [3d]`.

A single cut is that of one threshold, with the same pairs, by `dope.minimize`: of the middle of the grey values, the
first of the nested ones, and of five percentiles; some are easy, some are hard. Each is the best of some runs.
Lines go to results/total_variation.jsonl.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from benchmarks.lines import RESULTS, append, commit, machine, now

import dope
from dope import io, samples

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


def best_of(runs: int, work: Callable[[], object]) -> float:
    times = []
    for _ in range(runs):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def single_cut(image: npt.NDArray[np.uint8], norm: str, threshold: int, runs: int) -> float:
    unary = np.where(image >= threshold, -1.0, 1.0) if norm == "l1" else 2.0 * (threshold - image.astype(float)) - 1.0
    energy = dope.Energy.grid(unary, lam=LAM[norm], kernel=np.eye(image.ndim, dtype=int))
    return best_of(runs, lambda: dope.minimize(energy))


def measured(name: str, image: npt.NDArray[np.uint8], norm: Any, runs: int) -> dict[str, Any]:
    low, high = int(image.min()), int(image.max())
    middle = low + (1 << (high - low).bit_length() - 1)
    thresholds = {middle, *np.percentile(image, range(10, 100, 20)).astype(int).tolist()}
    cuts = {t: single_cut(image, norm, t, runs) for t in sorted(thresholds)}
    whole = best_of(runs, lambda: dope.denoise_tv(image, LAM[norm], norm=norm))
    found = sorted(cuts.values())
    return {
        "case": name, "norm": norm, "lam": LAM[norm], "shape": list(image.shape), "runs": runs,
        "seconds": round(whole, 3),
        "cuts": {str(t): round(seconds, 3) for t, seconds in cuts.items()},
        "times_the_first": round(whole / cuts[middle], 2), "times_the_median": round(whole / found[len(found) // 2], 2),
        "times_the_hardest": round(whole / found[-1], 2),
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
