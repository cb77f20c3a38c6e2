"""Coordination methods: how blocks come to agree. Each is its equations in one file."""

from dope.methods.admm import Admm
from dope.methods.bracketing import Bracketing
from dope.methods.exact import Exact, nested_cuts

__all__ = ["Admm", "Bracketing", "Exact", "nested_cuts"]
