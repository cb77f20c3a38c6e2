"""Total variation of whole numbers, minimized exactly by nested cuts."""

from dope.total_variation.denoise import denoise_tv

__all__ = ["denoise_tv"]
