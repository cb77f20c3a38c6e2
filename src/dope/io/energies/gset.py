"""G-set: max-cut. A line `n m`, then m lines `i j w`, sites from 1 on.

The energy is -cut = sum -w_ij |x_i - x_j|, so that a minimum is a maximum cut.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dope.energy import Energy
from dope.io.energies.instance import Instance, Objective
from dope.io.energies.text import opened

OBJECTIVE = Objective("cut", "maximum cut", -1.0)


def begins(words: list[str]) -> bool:
    """Whether a file with these first words is one."""
    return len(words) == 2 and all(word.isdecimal() for word in words)


def read(path: Path) -> Instance:
    """The graph, as the energy of its cuts."""
    with opened(path, "G-set") as text:
        header = text.words()
        if len(header) != 2:
            raise text.error(f"begins with {' '.join(header)[:60]!r}; expected 'sites edges', such as '800 19176'")
        sites, edges = text.number("the number of sites", header[0], 1), text.number("the number of edges", header[1])
        text.check_sites(sites)
        found = text.table(["i", "j", "w"])
        text.check_lines("edges", edges, len(found["w"]))
        first, second = (text.places("edge", found[name], first=1, number=sites) for name in "ij")
        text.check_apart("edge", first, second, 1)
        text.check_once("edge", first, second, 1)
        energy = Energy.graph(np.zeros(sites), np.stack([first, second], axis=1), -found["w"])
    return Instance(energy, "G-set max-cut", OBJECTIVE)
