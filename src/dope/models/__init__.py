"""Models: from pixels and strokes to unaries, the price of label 1 over label 0 at every site, and to a lam."""

from dope.models.automatic import automatic_model
from dope.models.color import ColorClusters, ColorMixture, color_unary
from dope.models.connectivity import connected_to_seeds
from dope.models.grey import GreyHistogram
from dope.models.model import Model
from dope.models.probability import probability_unary
from dope.models.reestimation import reestimated
from dope.models.seeds import seed_unary, seeds_from_labels, seeds_from_lasso, seeds_from_rectangle
from dope.models.smoothing import automatic_lam, kernel_lam

__all__ = [
    "ColorClusters",
    "ColorMixture",
    "GreyHistogram",
    "Model",
    "automatic_lam",
    "automatic_model",
    "color_unary",
    "connected_to_seeds",
    "kernel_lam",
    "probability_unary",
    "reestimated",
    "seed_unary",
    "seeds_from_labels",
    "seeds_from_lasso",
    "seeds_from_rectangle",
]
