"""Binary pairwise energies on images, volumes and graphs, minimized block by block.

import dope
result = dope.segment(image, scribbles=strokes)
result = dope.minimize(dope.Energy.grid(unary, lam=2.0, kernel=7, features=image))
result.labels, result.energy, result.lower_bound, result.exact
"""

from dope import starting as starting  # before all that takes time to load

# isort: split
import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# The modules, and what they give to the package. Each is imported when it is first asked for: `import dope` waits for
# none of them, and nor does `dope --version`.
_GIVEN = {
    "api": "minimize start",
    "certificate": "Certificate StoredCertificate open_certificate",
    "energy": "Energy",
    "errors": "DopeError InputError MissingExtraError",
    "executors": "Dask Futures Serial Threads",
    "io": "read_energy",
    "label_energy": "LabelEnergy",
    "methods": "Admm Bracketing Exact LabelAdmm Layers Messages Moves",
    "partition": "Block Partition",
    "planning": "Plan plan",
    "protocols": "Answer BlockSolver Executor FlowMinimizer Method Minimizer Problem",
    "result": "Result",
    "run": "BlockBegun BlockDone BlockState Finished Run Stepped",
    "segmentation": "Segmentation segment",
    "solvers": "Anneal Brute Icm LabelTrwS LsaAux LsaTr MaxFlow MeanField Portfolio Qpbo Tabu TrwS",
    "steps": "AdmmStep BracketingStep ExactStep LabelAdmmStep LabelStep Step",
    "total_variation": "denoise_tv",
    "verify": "Verdict verify",
}
_HOMES = {name: module for module, names in _GIVEN.items() for name in names.split()}

__all__ = [*_HOMES]  # noqa: PLE0604

if TYPE_CHECKING:
    from dope.api import minimize as minimize
    from dope.api import start as start
    from dope.certificate import Certificate as Certificate
    from dope.certificate import StoredCertificate as StoredCertificate
    from dope.certificate import open_certificate as open_certificate
    from dope.energy import Energy as Energy
    from dope.errors import DopeError as DopeError
    from dope.errors import InputError as InputError
    from dope.errors import MissingExtraError as MissingExtraError
    from dope.executors import Dask as Dask
    from dope.executors import Futures as Futures
    from dope.executors import Serial as Serial
    from dope.executors import Threads as Threads
    from dope.io import read_energy as read_energy
    from dope.label_energy import LabelEnergy as LabelEnergy
    from dope.methods import Admm as Admm
    from dope.methods import Bracketing as Bracketing
    from dope.methods import Exact as Exact
    from dope.methods import LabelAdmm as LabelAdmm
    from dope.methods import Layers as Layers
    from dope.methods import Messages as Messages
    from dope.methods import Moves as Moves
    from dope.partition import Block as Block
    from dope.partition import Partition as Partition
    from dope.planning import Plan as Plan
    from dope.planning import plan as plan
    from dope.protocols import Answer as Answer
    from dope.protocols import BlockSolver as BlockSolver
    from dope.protocols import Executor as Executor
    from dope.protocols import FlowMinimizer as FlowMinimizer
    from dope.protocols import Method as Method
    from dope.protocols import Minimizer as Minimizer
    from dope.protocols import Problem as Problem
    from dope.result import Result as Result
    from dope.run import BlockBegun as BlockBegun
    from dope.run import BlockDone as BlockDone
    from dope.run import BlockState as BlockState
    from dope.run import Finished as Finished
    from dope.run import Run as Run
    from dope.run import Stepped as Stepped
    from dope.segmentation import Segmentation as Segmentation
    from dope.segmentation import segment as segment
    from dope.solvers import Anneal as Anneal
    from dope.solvers import Brute as Brute
    from dope.solvers import Icm as Icm
    from dope.solvers import LabelTrwS as LabelTrwS
    from dope.solvers import LsaAux as LsaAux
    from dope.solvers import LsaTr as LsaTr
    from dope.solvers import MaxFlow as MaxFlow
    from dope.solvers import MeanField as MeanField
    from dope.solvers import Portfolio as Portfolio
    from dope.solvers import Qpbo as Qpbo
    from dope.solvers import Tabu as Tabu
    from dope.solvers import TrwS as TrwS
    from dope.steps import AdmmStep as AdmmStep
    from dope.steps import BracketingStep as BracketingStep
    from dope.steps import ExactStep as ExactStep
    from dope.steps import LabelAdmmStep as LabelAdmmStep
    from dope.steps import LabelStep as LabelStep
    from dope.steps import Step as Step
    from dope.total_variation import denoise_tv as denoise_tv
    from dope.verify import Verdict as Verdict
    from dope.verify import verify as verify
else:

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        value = _submodule(name) if home is None else getattr(importlib.import_module(f"dope.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


def _submodule(name: str) -> ModuleType:
    """What `import dope.name` would bring, for those who write `dope.name` without."""
    missing = AttributeError(f"module 'dope' has no attribute {name!r}")
    if name.startswith("__"):
        raise missing
    try:
        return importlib.import_module(f"dope.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"dope.{name}":
            raise
        raise missing from None


class _Package(ModuleType):
    """The package `dope`, in which `verify` is the function also when the module of that name has been imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
