"""Models: from pixels and strokes to unaries, the price of label 1 over label 0 at every site."""

from dope.models.color import color_unary, seed_unary

__all__ = ["color_unary", "seed_unary"]
