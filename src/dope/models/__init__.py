"""Models: from pixels and strokes to unaries, the price of label 1 over label 0 at every site, and to a lam."""

from dope.models.color import color_unary, seed_unary
from dope.models.smoothing import kernel_lam

__all__ = ["color_unary", "kernel_lam", "seed_unary"]
