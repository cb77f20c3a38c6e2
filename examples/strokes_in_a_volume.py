"""Strokes in a volume whose slices lie far apart.

Slices of this scan are 4 mm apart, pixels 1 mm. `spacing` tells so: a pair of neighbours weighs 1 / its distance in
millimetres, so that neighbours in one slice hold together more than slices do. `connected` leaves out the vessel, which
is as bright as the ball but does not hang together with its stroke.
"""

import numpy as np

import dope
from dope import io, report

spacing = (4.0, 1.0, 1.0)
rng = np.random.default_rng(1)
z, y, x = np.meshgrid(*[np.arange(n) * s for n, s in zip((20, 80, 96), spacing, strict=True)], indexing="ij")
ball = (z - 38) ** 2 + (y - 40) ** 2 + (x - 36) ** 2 < 24**2
vessel = np.hypot(y - 30 - 0.2 * z, x - 74) < 6
scan = 60.0 * (ball | vessel) + rng.normal(100, 40, ball.shape)

strokes = np.zeros(scan.shape, dtype=np.uint8)
strokes[9, 38:42, 20:50] = 1
strokes[9, 4:8, 5:90] = 2

result = dope.segment(scan, scribbles=strokes, spacing=spacing, connected=True)
plain = dope.segment(scan, scribbles=strokes, connected=True)

print(f"wrong voxels: {np.mean(result.labels != ball):.2%}, without spacing {np.mean(plain.labels != ball):.2%}")
found, true = (labels.sum() * np.prod(spacing) / 1000 for labels in (result.labels, ball))
print(f"volume {found:.1f} ml, truly {true:.1f} ml")
io.write_image("strokes_in_a_volume.png", report.slices(scan, result.labels, strokes, spacing=spacing, longest=900))
