"""Small random problems whose costs have any magnitude, and every way to minimize them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import dope
from dope.methods import Bracketing

SHAPES = [(1,), (7,), (1, 2), (2, 4), (3, 3), (2, 2, 2), (1, 5), (9,), (2, 5)]


@dataclass(frozen=True)
class Case:
    """An energy, how it is minimized, the round after which somebody stops it, and what was minimized before it."""

    energy: dope.Energy
    settings: dict[str, Any]
    rounds: int | None
    before: dope.Energy | None

    def run(self):
        seen = []

        def watch(step):
            seen.append(step)
            return self.rounds is not None and len(seen) >= self.rounds

        settings = {**self.settings, "executor": dope.Serial()}
        if self.before is not None:
            settings["start"] = dope.minimize(self.before, **settings)
        return dope.minimize(self.energy, watch=watch, **settings)


def costs(rng, number, *, least=-1.0):
    """Numbers from one of many worlds, or from several of them at once."""
    sign = rng.uniform(least, 1.0, number)
    match rng.integers(9):
        case 0:
            return np.rint(sign * 6)
        case 1:
            return np.rint(sign * 40) / 8
        case 2:
            return sign
        case 3:
            return sign * 10.0 ** rng.uniform(-6, 15, number)
        case 4:  # some stand for "certainly"
            return np.where(rng.random(number) < 0.2, np.sign(sign) * 10.0 ** rng.integers(6, 16), sign)
        case 5:
            return np.rint(np.where(rng.random(number) < 0.3, sign * 1e15, sign * 10))
        case 6:
            return sign * 10.0 ** rng.integers(-6, 16)
        case 7:
            return np.where(rng.random(number) < 0.5, 0.0, np.rint(sign * 3) * 0.1)
        case _:
            return np.sign(sign) * 2.0 ** rng.integers(-20, 50, number)


def random_energy(rng, *, signed):
    least = -1.0 if signed else 0.0
    shape = SHAPES[rng.integers(len(SHAPES))]
    number = math.prod(shape)
    unary = costs(rng, number).reshape(shape)
    if rng.random() < 0.15:
        unary = unary.astype(np.float32)
    constant = float(costs(rng, 1)[0]) if rng.random() < 0.3 else 0.0
    if rng.random() < 0.35:
        pairs = [(i, j) for j in range(number) for i in range(j) if rng.random() < 0.5]
        edges = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return replace(dope.Energy.graph(unary.ravel(), edges, costs(rng, len(edges), least=least)), constant=constant)
    kernel: Any = 3 if rng.random() < 0.7 or len(shape) > 2 else 5
    offsets = len(dope.pairs.half_offsets(kernel, len(shape)))
    lam = float(abs(costs(rng, 1)[0])) if rng.random() < 0.5 else 0.4
    match rng.integers(3):
        case 0:
            weights: Any = costs(rng, offsets, least=least).tolist()
        case 1:
            weights = [costs(rng, number, least=least).reshape(shape) for _ in range(offsets)]
        case _:
            weights = None
    features = rng.integers(0, 9, shape).astype(float) if weights is None and rng.random() < 0.3 else None
    mask = rng.random(shape) < 0.8 if rng.random() < 0.15 else None
    if mask is not None and not mask.any():
        mask = None
    energy = dope.Energy.grid(unary, lam=lam, kernel=kernel, weights=weights, features=features, mask=mask)
    return replace(energy, constant=constant)


def random_flows(rng):
    """A method that takes flow solvers only, and no overlap."""
    if rng.random() < 0.3:
        return Bracketing(passes=int(rng.integers(1, 4)), memory=[None, 1][rng.integers(2)])
    return dope.Exact(
        rounds=[None, 0, 1, 3][rng.integers(4)],
        merge=bool(rng.random() < 0.6),
        bracket=bool(rng.random() < 0.5),
        tolerance=[0.0, 0.0, 1e-9, 1e-3, 0.5][rng.integers(5)],
    )


def random_admm(rng):
    match rng.integers(4):
        case 0:
            return dope.Admm()
        case 1:
            return dope.Admm(rounds=int(rng.integers(1, 4)), sweeps=int(rng.integers(3)), bound=int(rng.integers(3)))
        case 2:
            return dope.Admm.paper(mu0=float(10.0 ** rng.integers(-2, 6)))
        case _:
            return None


FLOWS = [None, dope.MaxFlow(), dope.MaxFlow(bits=64), dope.MaxFlow(bits=16), dope.MaxFlow(bits=32)]
OTHERS = [
    None,
    dope.Brute(),
    dope.Qpbo(),
    dope.Qpbo(probe=True, improve=1),
    dope.TrwS(rounds=20),
    dope.LsaTr(),
    dope.LsaAux(),
    dope.Icm(),
    dope.MeanField(),
]


def random_case(seed):
    """Always the same for a seed."""
    rng = np.random.default_rng(seed)
    signed = bool(rng.random() < 0.4)
    energy = random_energy(rng, signed=signed)
    by_flows = not signed and rng.random() < 0.6
    others = signed or rng.random() < 0.3
    solvers = OTHERS if others and not by_flows else FLOWS
    settings: dict[str, Any] = {
        "method": random_flows(rng) if by_flows else random_admm(rng),
        "solver": solvers[rng.integers(len(solvers))],
        "blocks": min([1, 2, 2, 4, 8][rng.integers(5)], 1 << (max(energy.shape).bit_length() - 1)),
    }
    if isinstance(settings["method"], Bracketing) and energy.pairs.shape == (energy.unary.size,):
        settings["method"] = dope.Exact()  # it may be a graph
    if not by_flows:
        settings["overlap"] = [None, 0.3, 0.6, 1][rng.integers(4)] if settings["blocks"] > 1 else None
    rounds = [None, None, 1, 2, 3][rng.integers(5)]
    before = None
    if rng.random() < 0.25 and not isinstance(settings["method"], Bracketing):
        before = replace(energy, unary=rng.permuted(energy.unary, axis=-1))
    return Case(energy, settings, rounds, before)
