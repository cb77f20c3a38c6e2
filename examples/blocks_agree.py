"""Blocks that come to agree: ADMM, as in the paper, beside flows over the seams.

`Admm.paper()` brings blocks to agree by multipliers, and ends near the minimum. `Admm()` goes on with sweeps over
shifted blocks. `Exact()` pushes flow over the seams, and ends at the minimum itself. The curves stop at 0.0001 %.
"""

import matplotlib.pyplot as plt
import numpy as np

import dope
from dope import report

rng = np.random.default_rng(4)
rows, columns = np.mgrid[:180, :240]
truth = np.sin(rows / 17) + np.sin(columns / 23) + np.sin((rows + columns) / 31) > 0.4
image = truth + rng.normal(0, 0.9, truth.shape)
energy = dope.Energy.grid(np.clip(5 - 10 * image, -10, 10), lam=2.0, kernel=5)

least = dope.minimize(energy, blocks=16)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
places = [block.where for block in least.partition.blocks]
left.imshow(report.block_map(truth.shape, places, image=image, labels=least.labels, zoom=3))
left.set(title="16 blocks, and the outline found", xticks=[], yticks=[])

for name, method in (("Admm.paper()", dope.Admm.paper()), ("Admm()", dope.Admm()), ("Exact()", dope.Exact())):
    result = dope.minimize(energy, blocks=16, method=method)
    above = 100 * (result.energy - least.energy) / abs(least.energy)
    print(
        f"{name:13} {result.energy:.3f}, {above:.4f} % above the minimum, {len(result.trace)} rounds, {result.stopped}"
    )
    gaps = [100 * (step.energy - least.energy) / abs(least.energy) for step in result.trace]
    right.plot(range(1, len(gaps) + 1), np.maximum(gaps, 1e-4), "o-", label=name)

right.set(title="energy above the minimum, %", xlabel="round", yscale="log")
right.legend()
figure.savefig("blocks_agree.png", dpi=120)
