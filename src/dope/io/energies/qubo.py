"""QUBO as text: `p qubo 0 sites diagonals pairs`, then lines `i j value`, sites from 0 on; `c` begins a comment.

Every line adds value x_i x_j, once: on the diagonal value x_i, and off it the whole coefficient of the pair, which is
Q_ij + Q_ji of a symmetric matrix. A pair may be listed in one direction only. Beasley's instances in this form are to
be maximized, so `read` takes energy = -value; `read_minimized` takes energy = value, as the solver qbsolv does.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dope.energy import Energy
from dope.io.energies.instance import Instance, Objective
from dope.io.energies.text import opened
from dope.quadratic import Entries, bit_terms

MAXIMIZED = Objective("value", "maximum value", -1.0)
MINIMIZED = Objective("value", "minimum value")
_HEADER = "p qubo 0 sites diagonals pairs"


def begins(words: list[str]) -> bool:
    """Whether a file with these first words is one."""
    return words[:2] == ["p", "qubo"]


def read(path: Path) -> Instance:
    """To be maximized."""
    return _read(path, MAXIMIZED)


def read_minimized(path: Path) -> Instance:
    """To be minimized."""
    return replace(_read(path, MINIMIZED), format="QUBO, minimized")


def _read(path: Path, objective: Objective) -> Instance:
    with opened(path, "QUBO") as text:
        header = text.words()
        if not begins(header) or len(header) != 6:
            raise text.error(f"begins with {' '.join(header)[:60]!r}; expected '{_HEADER}'")
        sites = text.number("the number of sites", header[3], 1)
        diagonals, pairs = (text.number("the number of entries", word) for word in header[4:])
        text.check_sites(sites)
        found = text.table(["i", "j", "value"])
        rows, columns = (text.places("entry", found[name], first=0, number=sites) for name in "ij")
        on_diagonal = rows == columns
        text.check_lines("entries on the diagonal", diagonals, int(on_diagonal.sum()))
        text.check_lines("entries off the diagonal", pairs, int((~on_diagonal).sum()))
        text.check_once("entry", rows, columns, 0)
        terms = bit_terms(Entries(sites, rows, columns, objective.sign * found["value"]))
        energy = Energy.graph(terms.unary, terms.edges, terms.weights)
    return Instance(energy, "QUBO, maximized", objective)
