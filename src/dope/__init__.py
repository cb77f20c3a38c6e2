"""Binary pairwise energies on images, volumes and graphs, minimized block by block.

import dope
result = dope.segment(image, scribbles=strokes)
result = dope.minimize(dope.Energy.grid(unary, lam=2.0, kernel=7, features=image))
result.labels, result.energy, result.lower_bound, result.exact
"""

from dope.api import Result, minimize
from dope.certificate import Certificate
from dope.energy import Energy
from dope.errors import DopeError, InputError, MissingExtraError
from dope.executors import Serial, Threads
from dope.methods import Admm, Exact
from dope.partition import Block, Partition
from dope.protocols import Answer, BlockSolver, Crossings, Executor, FlowMinimizer, Method, Minimizer, Problem, Step
from dope.segmentation import segment
from dope.solvers import Icm, MaxFlow
from dope.verify import Verdict, verify

__version__ = "0.1.0"

__all__ = [
    "Admm",
    "Answer",
    "Block",
    "BlockSolver",
    "Certificate",
    "Crossings",
    "DopeError",
    "Energy",
    "Exact",
    "Executor",
    "FlowMinimizer",
    "Icm",
    "InputError",
    "MaxFlow",
    "Method",
    "Minimizer",
    "MissingExtraError",
    "Partition",
    "Problem",
    "Result",
    "Serial",
    "Step",
    "Threads",
    "Verdict",
    "minimize",
    "segment",
    "verify",
]
