"""A noisy drawing with gaps, made whole by the price of bending.

Parts of the drawing are unknown. Where outlines pay for their length, the line breaks there. Where they pay for
curvature, a line goes on as it came. Curvature has pairs that repel, so that no cut finds the minimum; the search that
`minimize` then chooses, `Portfolio()`, comes close.
"""

import matplotlib.pyplot as plt
import numpy as np

import dope
from dope.models import curvature

rows, columns = np.mgrid[:120, :180]
ring = np.abs(np.hypot(rows - 60, columns - 60) - 38) < 3
wave = np.abs(rows - 60 - 22 * np.sin(columns / 18)) < 4
drawing = ring | (wave & (columns > 60))
noisy = drawing + np.random.default_rng(7).normal(0, 0.4, drawing.shape)
unknown = (rows + columns) % 36 < 6

# Both have (noisy - y)^2 at the known pixels.
length = dope.minimize(dope.Energy.grid(np.where(unknown, 0.0, 1 - 2 * noisy), lam=0.3, kernel=3))
bending = dope.minimize(curvature(noisy, lam=2.0, unknown=unknown), blocks=2)
print("length:   ", length)
print("curvature:", bending)

shown = (np.where(unknown, 0.5, noisy), "given"), (length.labels, "length"), (bending.labels, "curvature")
figure, axes = plt.subplots(1, 3, figsize=(12, 3), layout="constrained")
for panel, (picture, name) in zip(axes, shown, strict=True):
    wrong = "" if name == "given" else f": {np.mean(picture != drawing):.1%} of the pixels wrong"
    panel.imshow(picture, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    panel.set(title=name + wrong, xticks=[], yticks=[])
figure.savefig("curvature.png", dpi=120)
