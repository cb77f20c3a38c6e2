"""Binary pairwise energies on images, volumes and graphs, minimized block by block.

import dope
result = dope.segment(image, scribbles=strokes)
result = dope.minimize(dope.Energy.grid(unary, lam=2.0, kernel=7, features=image))
result.labels, result.energy, result.lower_bound, result.exact
"""

from dope import starting as starting  # before all that takes time to load

# isort: split
from typing import TYPE_CHECKING

from dope.api import minimize
from dope.certificate import Certificate
from dope.energy import Energy
from dope.errors import DopeError, InputError, MissingExtraError
from dope.executors import Dask, Serial, Threads
from dope.lazy import LazyEnergy
from dope.methods import Admm, Bracketing, Exact
from dope.partition import Block, Partition
from dope.protocols import Answer, BlockSolver, Executor, FlowMinimizer, Method, Minimizer, Problem, Step
from dope.result import Result
from dope.segmentation import segment
from dope.solvers import Anneal, Brute, Icm, LsaAux, LsaTr, MaxFlow, MeanField, Qpbo, Tabu, TrwS
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

__all__ = [
    "Admm",
    "Anneal",
    "Answer",
    "Block",
    "BlockSolver",
    "Bracketing",
    "Brute",
    "Certificate",
    "Dask",
    "DopeError",
    "Energy",
    "Exact",
    "Executor",
    "FlowMinimizer",
    "Icm",
    "InputError",
    "LazyEnergy",
    "LsaAux",
    "LsaTr",
    "MaxFlow",
    "MeanField",
    "Method",
    "Minimizer",
    "MissingExtraError",
    "Partition",
    "Problem",
    "Qpbo",
    "Result",
    "Serial",
    "Step",
    "Tabu",
    "Threads",
    "TrwS",
    "Verdict",
    "minimize",
    "read_energy",
    "segment",
    "verify",
]
