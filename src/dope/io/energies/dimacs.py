"""DIMACS max-flow: `p max nodes arcs`, `n id s`, `n id t`, then lines `a from to capacity`, nodes from 1 on.

Label 1 (True) is the source's side of the cut. With the source at 1 and the sink at 0 the energy is the cut's value,

    E(x) = sum over arcs  c x_u (1 - x_v) = sum  c/2 (x_u - x_v + |x_u - x_v|),

and its minimum the maximum flow. Both terminals keep their place among the sites, but their arcs become unaries of the
others; each of them pays the largest capacity for the wrong label, so no minimum has it. Parallel arcs add up.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dope.arrays import Sites
from dope.energy import Energy
from dope.io.energies.instance import Instance, Objective
from dope.io.energies.text import Floats, Text, opened

OBJECTIVE = Objective("cut", "maximum flow")


def begins(words: list[str]) -> bool:
    """Whether a file with these first words is one."""
    return words[:1] == ["p"] and words[1:2] != ["qubo"]


def read(path: Path) -> Instance:
    """The network, as the energy of its cuts."""
    with opened(path, "DIMACS") as text:
        header = text.words()
        if header[:2] != ["p", "max"] or len(header) != 4:
            raise text.error(f"begins with {' '.join(header)[:60]!r}; expected 'p max nodes arcs', a maximum flow")
        nodes, arcs = text.number("the number of nodes", header[2], 2), text.number("the number of arcs", header[3])
        text.check_sites(nodes)
        source, sink = _terminals(text, nodes)
        found = text.table(["from", "to", "capacity"], letter="a")
        text.check_lines("arcs", arcs, len(found["capacity"]))
        tail, head = (text.places("arc", found[name], first=1, number=nodes) for name in ("from", "to"))
        text.check_apart("arc", tail, head, 1)
        if (found["capacity"] < 0).any():
            at = int(np.argmax(found["capacity"] < 0))
            raise text.error(f"arc {at + 1} has the capacity {found['capacity'][at]:g}; expected 0 or more")
        energy = _energy(nodes, (source, sink), (tail, head), found["capacity"])
    return Instance(energy, "DIMACS max-flow", OBJECTIVE)


def _terminals(text: Text, nodes: int) -> tuple[int, int]:
    found: dict[str, int] = {}
    for _ in range(2):
        words = text.words()
        if len(words) != 3 or words[0] != "n" or words[2] not in ("s", "t") or words[2] in found:
            raise text.error(
                f"has {' '.join(words)[:60]!r} after its header; expected 'n id s' and 'n id t', before the arcs"
            )
        found[words[2]] = text.number("a terminal", words[1], 1) - 1
    if found["s"] == found["t"] or max(found.values()) >= nodes:
        raise text.error(
            f"its terminals are {found['s'] + 1} and {found['t'] + 1}; expected two different nodes from 1 to {nodes}"
        )
    return found["s"], found["t"]


def _energy(nodes: int, terminals: tuple[int, int], arcs: tuple[Sites, Sites], capacity: Floats) -> Energy:
    (source, sink), (tail, head) = terminals, arcs
    crosses = (head != source) & (tail != sink)  # the others never do
    tail, head, capacity = tail[crosses], head[crosses], capacity[crosses]
    leaves, enters = tail == source, head == sink
    between = ~leaves & ~enters
    halves = capacity[between] / 2
    unary = np.zeros(nodes)
    for places, values, sign in (
        (tail[between], halves, 1),
        (head[between], halves, -1),
        (tail[enters & ~leaves], capacity[enters & ~leaves], 1),
        (head[leaves & ~enters], capacity[leaves & ~enters], -1),
    ):
        unary += sign * np.bincount(places, values, nodes)
    wrong = float(capacity.max(initial=0.0)) or 1.0
    unary[source], unary[sink] = -wrong, wrong
    energy = Energy.graph(unary, np.stack([tail[between], head[between]], axis=1), halves)
    return replace(energy, constant=float(capacity[leaves].sum()) + wrong)
