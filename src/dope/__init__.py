"""Binary pairwise energies on images, volumes and graphs, minimized block by block.

import dope
result = dope.segment(image, scribbles=strokes)
result = dope.minimize(dope.Energy.grid(unary, lam=2.0, kernel=7, features=image))
result.labels, result.energy, result.lower_bound, result.exact
"""

from dope import starting as starting  # before all that takes time to load

# isort: split
from typing import TYPE_CHECKING

from dope.api import minimize, start
from dope.certificate import Certificate
from dope.energy import Energy
from dope.errors import DopeError, InputError, MissingExtraError
from dope.executors import Dask, Serial, Threads
from dope.methods import Admm, Bracketing, Exact
from dope.partition import Block, Partition
from dope.planning import Plan, plan
from dope.protocols import Answer, BlockSolver, Crossings, Executor, FlowMinimizer, Method, Minimizer, Problem
from dope.result import Result
from dope.run import BlockBegun, BlockDone, Finished, Run, Stepped
from dope.segmentation import Segmentation, segment
from dope.solvers import Anneal, Brute, Icm, LsaAux, LsaTr, MaxFlow, MeanField, Qpbo, Tabu, TrwS
from dope.steps import AdmmStep, BracketingStep, ExactStep, Step
from dope.verify import Verdict, verify

if TYPE_CHECKING:
    from dope.io import read_energy
else:

    def __getattr__(name: str) -> object:
        """`read_energy` when it is asked for: `import dope` does without dope.io and Pillow."""
        if name == "read_energy":
            from dope.io import read_energy

            return read_energy
        raise AttributeError(f"module 'dope' has no attribute {name!r}")


__version__ = "0.1.0"

from_dimod, to_dimod = Energy.from_dimod, Energy.to_dimod

__all__ = [
    "Admm",
    "AdmmStep",
    "Anneal",
    "Answer",
    "Block",
    "BlockBegun",
    "BlockDone",
    "BlockSolver",
    "Bracketing",
    "BracketingStep",
    "Brute",
    "Certificate",
    "Crossings",
    "Dask",
    "DopeError",
    "Energy",
    "Exact",
    "ExactStep",
    "Executor",
    "Finished",
    "FlowMinimizer",
    "Icm",
    "InputError",
    "LsaAux",
    "LsaTr",
    "MaxFlow",
    "MeanField",
    "Method",
    "Minimizer",
    "MissingExtraError",
    "Partition",
    "Plan",
    "Problem",
    "Qpbo",
    "Result",
    "Run",
    "Segmentation",
    "Serial",
    "Step",
    "Stepped",
    "Tabu",
    "Threads",
    "TrwS",
    "Verdict",
    "from_dimod",
    "minimize",
    "plan",
    "read_energy",
    "segment",
    "start",
    "to_dimod",
    "verify",
]
