"""From a network's soft map to labels, in three dimensions.

A phantom stands in for a scan and for the map of probabilities that a network gave: right on the whole, noisy, and
blurred at the border. The labels follow the map where it is sure, and the edges of the scan where it is not.
"""

import numpy as np

import dope
from dope import io, report

rng = np.random.default_rng(0)
z, y, x = np.meshgrid(*[np.linspace(-1, 1, 64)] * 3, indexing="ij")
truth = (x**2 + 1.6 * y**2 + z**2 < 0.42 + 0.12 * np.sin(7 * x) * np.sin(6 * z)) & (np.hypot(x, z) > 0.18)

scan = 90.0 * truth + rng.normal(100, 14, truth.shape)
evidence = 1.2 * (2.0 * truth - 1) + rng.normal(0, 1.6, truth.shape)
probability = 1 / (1 + np.exp(-evidence))

result = dope.segment(scan, probability=probability, kernel=5)

print(result)
print(f"map above one half: {np.mean((probability > 0.5) != truth):.2%} of the voxels are wrong")
print(f"labels:             {np.mean(result.labels != truth):.2%}")
planes = report.slices(probability, result.labels, longest=800)
body = report.surface(result.labels, longest=planes.shape[0])
io.write_image(
    "probability_map.png", np.hstack([planes, np.pad(body, ((0, planes.shape[0] - len(body)), (8, 0), (0, 0)))])
)
