"""A solver of your own, in the blocks of dope.

A solver is an object with `prepare(energy)`, whose result has `minimize(unary, start=...)`. This one flips sites where
that lowers the energy, all of one colour of a checkerboard at a time. It knows nothing of blocks: `Admm()` brings its
answers together, as it does for any solver.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

import dope


@dataclass(frozen=True)
class Checkerboard:
    """For grids with four neighbours, whose pairs all have one weight."""

    weight: float
    sweeps: int = 20

    def prepare(self, energy):
        assert energy.pairs.degree == 4
        return self

    def minimize(self, unary, *, start=None):
        labels = unary < 0 if start is None else start.copy()
        color = np.indices(unary.shape).sum(axis=0) % 2
        for sweep in range(2 * self.sweeps):
            spins = np.pad(2.0 * labels - 1, 1)
            around = spins[2:, 1:-1] + spins[:-2, 1:-1] + spins[1:-1, 2:] + spins[1:-1, :-2]
            labels = np.where(color == sweep % 2, unary < self.weight * around, labels)
        return dope.Answer(labels)


rng = np.random.default_rng(9)
rows, columns = np.mgrid[:96, :144]
truth = np.hypot(rows - 48, columns - 60) < 34 + 6 * np.sin(np.arctan2(rows - 48, columns - 60) * 5)
energy = dope.Energy.grid(0.5 - truth + rng.normal(0, 0.7, truth.shape), lam=0.4, kernel=[(0, 1), (1, 0)])

own = dope.minimize(energy, blocks=6, solver=Checkerboard(0.4), method=dope.Admm())
least = dope.minimize(energy, blocks=6)
print("own solver:", own)
print("max-flow:  ", least)

figure, axes = plt.subplots(1, 3, figsize=(12, 2.9), layout="constrained")
shown = (energy.unary < 0, "unaries alone"), (own.labels, "own solver"), (least.labels, "the minimum")
for panel, (picture, name) in zip(axes, shown, strict=True):
    panel.imshow(picture, cmap="gray", interpolation="nearest")
    panel.set(title=f"{name}: energy {energy(picture):.1f}", xticks=[], yticks=[])
figure.savefig("own_solver.png", dpi=120)
