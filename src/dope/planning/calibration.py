"""How fast this machine is: a small problem of the same kind, solved here and now on one core."""

from __future__ import annotations

import time
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dope.energy import Energy
from dope.fixed_point import FixedPoint
from dope.pairs import GridPairs, Pairs
from dope.planning.defaults import automatic_flow_solver

# Sites and pairs, at most, of the problem that is solved to see how fast this machine is.
CALIBRATION_SITES, CALIBRATION_PAIRS = 250_000, 4 << 20


def seconds_per_unit(pairs: Pairs) -> float:
    """What a site or pair takes, on one core."""
    if not isinstance(pairs, GridPairs):
        return _measure_seconds((512, 256), ((0, 1), (1, 0)))  # as of a grid with few neighbours
    sites = min(CALIBRATION_SITES, CALIBRATION_PAIRS // max(1, len(pairs.offsets)))
    return _measure_seconds(calibration_sides(pairs.shape, sites), tuple(map(tuple, pairs.offsets.tolist())))


@lru_cache(16)
def _measure_seconds(sides: tuple[int, ...], offsets: tuple[tuple[int, ...], ...]) -> float:
    image, unary = patchy_sample(sides)
    energy = Energy.grid(unary, features=image, kernel=np.array(offsets).reshape(-1, len(sides)), lam=1.0)
    solver = automatic_flow_solver(energy.pairs)
    begun = time.perf_counter()
    flow = solver.open_flow(energy.pairs, FixedPoint.of(energy, solver.bits))
    flow.minimize(energy.unary.astype(np.float64))
    flow.labels()
    return (time.perf_counter() - begun) / (energy.pairs.sites + energy.pairs.number)


def calibration_sides(shape: tuple[int, ...], sites: int) -> tuple[int, ...]:
    """A box of about so many sites, and no more, its sides alike as far as the shape has them."""
    sides, left = [1] * len(shape), float(sites)
    for done, axis in enumerate(sorted(range(len(shape)), key=lambda a: shape[a])):
        sides[axis] = max(1, min(shape[axis], int(left ** (1 / (len(shape) - done)) + 1e-9)))
        left /= sides[axis]
    return tuple(sides)


def patchy_sample(sides: tuple[int, ...], patch: int = 8) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    """Pixels and unaries of small patches, with noise."""
    rng = np.random.default_rng(0)
    smooth = patches(rng, sides, patch)
    image = (200 * smooth + 40 * rng.random(sides)).astype(np.uint8)
    return image, (8 * (0.5 - smooth) + rng.normal(0, 2, sides)).astype(np.float32)


def patches(rng: np.random.Generator, sides: tuple[int, ...], side: int) -> npt.NDArray[np.float64]:
    """Numbers from 0 to 1, alike within cubes."""
    smooth = rng.random(tuple(-(-n // side) for n in sides))
    for axis, n in enumerate(sides):
        smooth = smooth.repeat(side, axis=axis)[(slice(None),) * axis + (slice(0, n),)]
    return smooth
