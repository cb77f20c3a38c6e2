"""A photo, cut out by a few strokes.

The colours under the strokes are learnt, and the labels of least energy found: outlines are short and lie where the
photo has edges. The photo comes with the package (canyon wren, CC0); it is shrunk here to be quick.
"""

import numpy as np

import dope
from dope import io, report, samples

with samples.canyon_wren() as sample:
    photo = io.read_image(sample.photo)
    strokes = io.read_scribbles(sample.scribbles, photo.shape)

# A fourth of the width and height: means of 4 x 4 pixels, and every fourth stroke pixel.
height, width = photo.shape[0] // 4, photo.shape[1] // 4
photo = photo.reshape(height, 4, width, 4, 3).mean(axis=(1, 3)).astype(np.uint8)
strokes = strokes[::4, ::4]

result = dope.segment(photo, scribbles=strokes, kernel=5)

print(result)
print(f"{result.labels.size:,} pixels, {result.problem.pairs.number:,} pairs of neighbours")
io.write_image("photo_from_strokes.png", report.overlay(photo, result.labels, strokes))
