"""Pictures of a run: what was found, how it was cut up, how it converged. Arrays in, arrays out."""

from dope.report.curves import convergence
from dope.report.pictures import block_map, overlay

__all__ = ["block_map", "convergence", "overlay"]
