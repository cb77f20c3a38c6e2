"""A binary picture, blurred and noisy, made sharp again.

Labels whose blurred picture is closest have pairs that repel, all those under one blur. Some labels can be proved all
the same: `Qpbo()` says which, and gives a lower bound.
"""

import matplotlib.pyplot as plt
import numpy as np

import dope
from dope.models import deconvolution

rng = np.random.default_rng(8)
rows, columns = np.mgrid[:62, :92]
truth = (np.hypot(rows - 30, columns - 26) < 16) ^ (np.hypot(rows - 30, columns - 30) < 9)
truth |= (columns > 52) & (columns < 82) & (np.abs(rows - 31) < 24) & ((rows // 4 + columns // 4) % 2 == 0)

windows = np.lib.stride_tricks.sliding_window_view(truth, (3, 3))
blurred = windows.mean(axis=(2, 3)) + rng.normal(0, 0.05, (60, 90))

energy = deconvolution(blurred, 3)
threshold = np.pad(blurred > 0.5, 1)
result = dope.minimize(energy)
bounded = dope.minimize(energy, solver=dope.Qpbo())

print(f"energy {result.energy:.2f}, of a threshold {energy(threshold):.2f}, of the truth {energy(truth):.2f}")
print(f"no labels have less than {bounded.lower_bound:.2f}; {bounded.proved:.0%} of the sites are proved")

shown = (blurred, "blurred"), (threshold, "threshold"), (result.labels, "labels of low energy")
figure, axes = plt.subplots(1, 3, figsize=(12, 3), layout="constrained")
for panel, (picture, name) in zip(axes, shown, strict=True):
    wrong = "" if picture is blurred else f": {np.mean(picture != truth):.1%} wrong"
    panel.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    panel.set(title=name + wrong, xticks=[], yticks=[])
figure.savefig("deconvolution.png", dpi=120)
