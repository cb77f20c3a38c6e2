"""Models: from pixels and strokes to unaries, the price of label 1 over label 0 at every site, and to a lam.

Some give a whole energy, with pairs that attract and pairs that repel: `curvature`, `deconvolution`, `denoising` and
`repulsion`.
"""

from dope.models.automatic import automatic_model
from dope.models.channels import ClassSample, Sample
from dope.models.color import ColorClusters, ColorMixture, color_unary
from dope.models.connectivity import connected_to_seeds
from dope.models.curvature import curvature
from dope.models.deconvolution import deconvolution
from dope.models.grey import GreyHistogram
from dope.models.model import ClassColors, ClassModel, Colors, LearningModel, Model
from dope.models.pattern import Pattern, denoising, learned_pattern
from dope.models.probability import probability_costs, probability_unary
from dope.models.reestimation import reestimated
from dope.models.repulsion import repulsion
from dope.models.seeds import seed_unary, seeds_from_labels, seeds_from_lasso, seeds_from_rectangle
from dope.models.smoothing import automatic_lam, kernel_lam

__all__ = [
    "ClassColors",
    "ClassModel",
    "ClassSample",
    "ColorClusters",
    "ColorMixture",
    "Colors",
    "GreyHistogram",
    "LearningModel",
    "Model",
    "Pattern",
    "Sample",
    "automatic_lam",
    "automatic_model",
    "color_unary",
    "connected_to_seeds",
    "curvature",
    "deconvolution",
    "denoising",
    "kernel_lam",
    "learned_pattern",
    "probability_costs",
    "probability_unary",
    "reestimated",
    "repulsion",
    "seed_unary",
    "seeds_from_labels",
    "seeds_from_lasso",
    "seeds_from_rectangle",
]
