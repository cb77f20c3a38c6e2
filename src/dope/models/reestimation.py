"""Re-estimation: a model learnt again from what it was used to find.

Strokes cover few colours; the labels of a first minimum cover nearly all. GrabCut therefore goes round: fit, minimize,
fit again to all sites as labelled, until labels stay as they are. One fit of this kind is here; the loop needs a
minimizer and belongs to who has one:

    unary = model.unary(image, seeds)
    for _ in range(rounds):
        labels = connected_to_seeds(minimum(unary), seeds)
        unary = reestimated(model, image, seeds=seeds, labels=labels)

On the 25 odd GrabCut images two rounds turn 4.3 % of wrong sites into 3.3 %, four into 3.2 %. With
`connected_to_seeds` at the end only, two rounds give 3.7 %. On the same images in grey rounds make histograms worse,
11.8 instead of 10.5 %, and clusters better, 11.7 instead of 12.6 %.

A rectangle or lasso gives no foreground to begin with: there the first labels are all that may be foreground,
`seeds != 2`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dope.models.model import Model
from dope.models.seeds import seeds_from_labels


def reestimated(model: Model, image: ArrayLike, *, seeds: ArrayLike, labels: ArrayLike) -> NDArray[np.float32]:
    """Unaries of the model fitted to all sites as labelled; seeds keep what the user said.

    Parameters
    ----------
    model : Model
    image : array
        Shaped like `seeds`, or with channels last.
    seeds : integer array
        0 none, 1 foreground, 2 background; need not hold both kinds.
    labels : bool array
        The last labels, True = foreground. Together with the seeds they must hold both labels.

    Examples
    --------
    >>> from dope.models import ColorClusters, seeds_from_rectangle
    >>> image = np.array([[10, 200, 190, 12, 210, 11]], dtype=np.uint8)
    >>> seeds = seeds_from_rectangle((1, 6), [(0, 1), (1, 5)])
    >>> (reestimated(ColorClusters(), image, seeds=seeds, labels=seeds != 2) < 0).tolist()
    [[False, True, True, False, True, False]]
    """
    return model.unary(image, seeds_from_labels(labels, seeds))
