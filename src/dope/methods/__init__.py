"""Coordination methods: how blocks come to agree. Each is its equations in one file."""

from dope.methods.admm import Admm
from dope.methods.bracketing import Bracketing
from dope.methods.exact import Exact, nested_cuts
from dope.methods.label_admm import LabelAdmm
from dope.methods.layers import Layers
from dope.methods.messages import Messages
from dope.methods.moves import Moves

__all__ = ["Admm", "Bracketing", "Exact", "LabelAdmm", "Layers", "Messages", "Moves", "nested_cuts"]
