"""How soon a run ends that is cancelled: processor time from `run.cancel()` to the result, at random moments.

    python benchmarks/cancel.py
    python benchmarks/cancel.py --cases "Exact, 16 blocks" --tries 50

Every run is begun anew and cancelled by another thread after a random share (seeded) of the time that it takes
when it is left alone. A line per case is added to benchmarks/results/cancel.jsonl.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lines
import numpy as np
from lines import Record

import dope

RESULTS = lines.RESULTS / "cancel.jsonl"
Begin = Callable[[], dope.Run]


def easy(shape: tuple[int, ...], seed: int = 0) -> Any:
    """Unaries that say much, as bracketing needs them."""
    return np.random.default_rng(seed).normal(0.0, 1.0, shape)


def hard(shape: tuple[int, ...], seed: int = 0) -> Any:
    """Unaries that say little, so that flow has far to go."""
    random_numbers = np.random.default_rng(seed)
    unary = random_numbers.normal(0.0, 0.2, shape)
    seeds = random_numbers.random(shape) < 0.0005
    unary[seeds] = random_numbers.choice([-40.0, 40.0], int(seeds.sum()))
    return unary


def cases(folder: Path) -> dict[str, Begin]:
    image, signed = dope.Energy.grid(hard((1000, 1000)), lam=1.0), _signed((256, 256))
    said = dope.Energy.grid(easy((1200, 1200)), lam=0.3)
    stored = _stored(folder / "volume.zarr", (192, 192, 192))

    def begin(energy: dope.Energy, **how: Any) -> Begin:
        return lambda: dope.start(energy, **how)

    return {
        "Exact, 1 block": begin(image, method=dope.Exact(), blocks=1),
        "Exact, 16 blocks": begin(image, method=dope.Exact(), blocks=16),
        "Admm": begin(image, method=dope.Admm(), blocks=16),
        "Bracketing": begin(said, method=dope.Bracketing(), blocks=16),
        "LsaTr": begin(signed, solver=dope.LsaTr(), blocks=1),
        "sweeps of Admm": begin(signed, method=dope.Admm(rounds=1, sweeps=20), solver=dope.LsaTr(), blocks=16),
        "reading Zarr": begin(dope.Energy.grid(stored, lam=0.1), method=dope.Bracketing(), blocks=64),
    }


def _signed(shape: tuple[int, ...]) -> dope.Energy:
    random_numbers = np.random.default_rng(1)
    weights = list(random_numbers.normal(0.2, 1.0, (4, *shape)))  # one for each half of the 8 neighbours
    return dope.Energy.grid(hard(shape), weights=weights, lam=1.0)


def _stored(path: Path, shape: tuple[int, ...]) -> Any:
    import zarr

    array = zarr.create_array(path, shape=shape, chunks=(64,) * len(shape), dtype="float32")
    for z in range(0, shape[0], 64):
        array[z : z + 64] = easy((min(64, shape[0] - z), *shape[1:]), z)
    return array


def measure(begin: Begin, tries: int, seed: int) -> Record:
    begun = time.perf_counter()
    begin().result()
    whole = time.perf_counter() - begun
    moments = random.Random(seed)
    processor, clock, stopped = [], [], []
    for _ in range(tries):
        run = begin()
        time.sleep(moments.random() * whole * 0.9)
        before, since = time.process_time(), time.perf_counter()
        run.cancel()
        result = run.result()
        processor.append(time.process_time() - before)
        clock.append(time.perf_counter() - since)
        stopped.append(result.stopped)
    return {
        "whole_seconds": whole,
        "tries": tries,
        "cancelled": sum(why == "cancelled" for why in stopped),
        "most_cpu_ms": 1000 * max(processor),
        "median_cpu_ms": 1000 * float(np.median(processor)),
        "most_ms": 1000 * max(clock),
        "median_ms": 1000 * float(np.median(clock)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", help="by default all of them")
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, begin in cases(Path(folder)).items():
            if arguments.cases and name not in arguments.cases:
                continue
            record = {"case": name, **measure(begin, arguments.tries, arguments.seed)}
            command = f'python benchmarks/cancel.py --cases "{name}" --tries {arguments.tries} --seed {arguments.seed}'
            about = {"date": lines.now(), "commit": lines.commit(), "command": command, "machine": lines.machine()}
            lines.append(arguments.results, [record | about])
            print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
