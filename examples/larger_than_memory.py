"""A volume in a file, solved in little memory.

The scan and its map are Zarr arrays on disk, and so are the labels. Boxes are read, solved and forgotten. A pass proves
labels whatever lies outside a box; the next takes boxes in between. The labels are those of the global minimum.

In the shell: `dope segment scan.zarr --probability map.zarr -o labels.zarr --memory 300MB`
"""

import matplotlib.pyplot as plt
import numpy as np
import zarr

import dope
from dope import report

rng = np.random.default_rng(5)
z, y, x = np.meshgrid(*[np.linspace(-1, 1, 96)] * 3, indexing="ij")
truth = np.abs(np.hypot(np.hypot(x, y) - 0.55, z) - 0.05 * np.sin(12 * x)) < 0.28
chunks = (32, 32, 32)
bright = (80 * truth + rng.normal(90, 20, truth.shape)).astype(np.float32)
likely = (0.25 + 0.5 * truth + rng.uniform(-0.24, 0.24, truth.shape)).astype(np.float32)
scan = zarr.create_array("scan.zarr", data=bright, chunks=chunks, overwrite=True)
soft = zarr.create_array("map.zarr", data=likely, chunks=chunks, overwrite=True)
labels = zarr.create_array("labels.zarr", shape=truth.shape, dtype=bool, chunks=chunks, overwrite=True)

# This one would fit into memory: the method is named to have it in boxes all the same.
result = dope.segment(scan, probability=soft, memory="240MB", out=labels, method=dope.Bracketing())

print(f"{len(result.partition.blocks)} boxes, {result.stopped}, {result.proved:.0%} of {truth.size:,} voxels proved")
passes = [step.proved for step in result.trace]
for number, proved in enumerate(passes, start=1):
    print(f"after pass {number}: {(1 - proved) * truth.size:,.0f} voxels open")
print(f"{np.mean(labels[:] != truth):.3%} of the voxels are wrong")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3), width_ratios=(2.2, 1), layout="constrained")
places = [block.where for block in result.partition.blocks]
left.imshow(report.block_map(truth.shape, places, image=scan[:], labels=labels[:], zoom=4))
left.set(title="the boxes of pass 1", xticks=[], yticks=[])
right.imshow(report.surface(labels[:], longest=400, up=0))
right.set(title="what was found", xticks=[], yticks=[])
figure.savefig("larger_than_memory.png", dpi=120)
