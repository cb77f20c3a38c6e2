"""Block solvers: each one file behind the seam `BlockSolver`."""

from dope.solvers.anneal import Anneal
from dope.solvers.brute import Brute
from dope.solvers.icm import Icm
from dope.solvers.label_trws import LabelTrwS
from dope.solvers.lsa_aux import LsaAux
from dope.solvers.lsa_tr import LsaTr
from dope.solvers.max_flow import MaxFlow
from dope.solvers.mean_field import MeanField
from dope.solvers.portfolio import Portfolio
from dope.solvers.qpbo import Qpbo
from dope.solvers.tabu import Tabu
from dope.solvers.trws import TrwS

__all__ = [
    "Anneal", "Brute", "Icm", "LabelTrwS", "LsaAux", "LsaTr",
    "MaxFlow", "MeanField", "Portfolio", "Qpbo", "Tabu", "TrwS",
]  # fmt: skip
