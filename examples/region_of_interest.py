"""A region of interest: what lies outside takes no part.

The image is a fan, as of an ultrasound probe, and holds NaN outside. With `mask` those sites are not part of the
problem: they have no pairs, cost nothing, and are background in the result.
"""

import numpy as np

import dope
from dope import io, report

rng = np.random.default_rng(2)
rows, columns = np.mgrid[:240, :360]
distance, angle = np.hypot(rows + 20, columns - 180), np.arctan2(columns - 180, rows + 20)
fan = (distance > 60) & (distance < 250) & (np.abs(angle) < 0.75)
truth = np.hypot((rows - 130) / 0.8, columns - 200) < 50 + 8 * np.sin(5 * angle)

image = np.where(truth, 0.35, 0.8) * rng.gamma(4.0, 0.25, truth.shape)  # speckle
image[~fan] = np.nan
scribbles = np.zeros(image.shape, dtype=np.uint8)
scribbles[128:133, 180:220] = 1
scribbles[60:64, 150:230] = scribbles[205:209, 150:230] = 2

result = dope.segment(image, scribbles=scribbles, mask=fan, kernel=5)

print(result)
print(f"{fan.mean():.0%} of the pixels take part, {np.mean((result.labels != truth)[fan]):.2%} of them are wrong")
io.write_image("region_of_interest.png", report.overlay(image, result.labels, scribbles, mask=fan, zoom=2))
