"""Block solvers: each one file behind the seam `BlockSolver`."""

from dope.solvers.icm import Icm
from dope.solvers.max_flow import MaxFlow

__all__ = ["Icm", "MaxFlow"]
