"""UAI: a Markov network, `MARKOV`, of variables with the same number of states and factors of at most two of them.

    p(x) ~ prod_f f(x_f),        energy = -sum_f log f(x_f)

so that a minimum is a most probable assignment. Two states give an `Energy`, more of them a `LabelEnergy`. In a table
the last variable changes first. Factors of the same variables multiply. A zero would be an infinite cost, so it is
refused: a small number in its place says "hardly ever". Evidence, which comes in a file of its own, is not read.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from dope.arrays import Sites
from dope.energy import Energy
from dope.io.energies.factors import PairFactors, Tables, check_size, check_states, check_variables, model_energy
from dope.io.energies.instance import Instance, Objective
from dope.io.energies.text import Floats, Text, opened
from dope.io.files import about
from dope.label_energy import LabelEnergy

OBJECTIVE = Objective("log product", "maximum log product", -1.0)
_PREAMBLE = "MARKOV"
# Characters of all the numbers there are: what Python's float takes beyond that is none in this format.
_ALIEN = re.compile(r"[^0-9eE.+\-\s]")
_PIECE = 1 << 22
_LONGEST_NUMBER = 1 << 10


def begins(words: list[str]) -> bool:
    """Whether a file with these first words is one."""
    return words[:1] in (["MARKOV"], ["BAYES"])


def read(path: Path) -> Instance:
    """The network, as the energy of its assignments."""
    with opened(path, "UAI") as text:
        words = text.words()
        if words[:1] != [_PREAMBLE]:
            raise text.error(f"begins with {' '.join(words)[:60]!r}; expected {_PREAMBLE}, a Markov network")
        numbers = _numbers(text, words[1:])
        sites, states, rest = _variables(text, numbers)
        scopes, sizes, rest = _scopes(text, sites, rest)
        entries, starts = _entries(text, states, sizes, rest)
        with about(path):
            energy = _energy((sites, states), scopes, sizes, -np.log(entries) + 0.0, starts)
    return Instance(energy, "UAI Markov network", OBJECTIVE)


def _numbers(text: Text, words: list[str]) -> Floats:
    """All that follow, in pieces that end where a number does; a line may be as long as the file."""
    found = []
    piece, rest = " ".join(words) + "\n", ""
    while piece or rest:
        alien = _ALIEN.search(piece)
        if alien:
            raise text.error(f"holds {alien[0]!r} among its numbers; expected digits, signs, points and exponents")
        tokens = piece.split()
        try:
            found.append(np.fromiter(map(float, tokens), np.float64, len(tokens)))
        except ValueError as error:
            raise text.error(f"{str(error).removeprefix('could not convert ')[:60]} is no number") from error
        piece = rest + text.stream.read(_PIECE)
        if len(piece) > len(rest):
            piece, rest = _cut(text, piece)
        else:
            rest = ""
    return np.concatenate(found)


def _cut(text: Text, piece: str) -> tuple[str, str]:
    """Up to the last space, and what follows: perhaps the first half of a number."""
    at = max(piece.rfind(space) for space in " \n\t") + 1
    if len(piece) - at > _LONGEST_NUMBER:
        raise text.error(f"holds {piece[at : at + 40]!r} among its numbers; expected spaces between them")
    return piece[:at], piece[at:]


def _variables(text: Text, numbers: Floats) -> tuple[int, int, Floats]:
    number, rest = _count(text, "variables", numbers)
    if number < 1:
        raise text.error("declares no variables; expected at least one")
    states = rest[:number]
    if len(states) < number:
        raise text.error(f"cut short: declares {number:,} variables and lists {len(states):,}; get a whole copy")
    with about(text.path):
        found = check_states(states)
        check_size(number, found, len(numbers))
    return number, found, rest[number:]


def _scopes(text: Text, sites: int, numbers: Floats) -> tuple[Sites, Sites, Floats]:
    """The variables of each factor, (factors, 2) with -1 for none, and how many they are."""
    number, rest = _count(text, "factors", numbers)
    listed = rest[: 3 * number].tolist()
    starts, at = [], 0
    for factor in range(number):
        if at >= len(listed):
            raise text.error(f"cut short: declares {number:,} factors and lists {factor:,}; get a whole copy")
        with about(text.path):
            check_variables(factor, listed[at])
        starts.append(at)
        at += 1 + int(listed[at])
    if at > len(rest):
        raise text.error("cut short: ends among the variables of its factors; get a whole copy")
    begin = np.array(starts, dtype=np.int64)
    sizes = rest[begin].astype(np.int64)
    scopes = np.full((number, 2), -1, dtype=np.int64)
    for place in (0, 1):
        has = sizes > place
        values = rest[begin[has] + 1 + place]
        bad = (np.rint(values) != values) | (values < 0) | (values >= sites)
        if bad.any():
            factor, value = int(np.flatnonzero(has)[np.argmax(bad)]), float(values[np.argmax(bad)])
            raise text.error(f"factor {factor} names variable {value:.15g}; expected 0 to {sites - 1}")
        scopes[has, place] = values.astype(np.int64)
    twice = (scopes[:, 0] == scopes[:, 1]) & (sizes == 2)
    if twice.any():
        raise text.error(f"factor {int(np.argmax(twice))} names one variable twice; expected two different ones")
    return scopes, sizes, rest[at:]


def _entries(text: Text, states: int, sizes: Sites, numbers: Floats) -> tuple[Floats, Sites]:
    """What all tables hold, the length of each before it, and where each begins."""
    lengths = states**sizes
    ends = np.cumsum(lengths + 1)
    needed = int(ends[-1]) if len(ends) else 0
    if len(numbers) != needed:
        trouble = "cut short" if len(numbers) < needed else "more follows than was declared"
        raise text.error(f"its tables take {needed:,} numbers, but {len(numbers):,} are there: {trouble}")
    starts = ends - lengths
    wrong = numbers[starts - 1] != lengths
    if wrong.any():
        at = int(np.argmax(wrong))
        raise text.error(f"the table of factor {at} declares {numbers[starts[at] - 1]:g} entries, not {lengths[at]}")
    bad = ~((numbers > 0) & np.isfinite(numbers))
    if bad.any():
        at = int(np.argmax(bad))
        factor = int(np.searchsorted(ends, at, side="right"))
        raise text.error(
            f"factor {factor} holds {numbers[at]:g}, whose cost -log is not finite; expected numbers above 0. Put a "
            "small one, such as 1e-30, in place of 0"
        )
    return numbers, starts


def _energy(size: tuple[int, int], scopes: Sites, sizes: Sites, costs: Floats, starts: Sites) -> Energy | LabelEnergy:
    sites, states = size
    alone, pairs = sizes == 1, sizes == 2
    unary = np.zeros((sites, states))
    for label in range(states):
        unary[:, label] = np.bincount(scopes[alone, 0], costs[starts[alone] + label], sites)
    tables = costs[starts[pairs][:, None] + np.arange(states * states)].reshape(-1, states, states)
    factors = PairFactors(scopes[pairs], np.arange(len(tables)), Tables(tables))
    return model_energy(unary, [factors], float(costs[starts[sizes == 0]].sum()))


def _count(text: Text, what: str, numbers: Floats) -> tuple[int, Floats]:
    if not len(numbers):
        raise text.error(f"cut short: ends before the number of {what}; get a whole copy")
    if not (0 <= numbers[0] <= len(numbers)) or numbers[0] != int(numbers[0]):
        raise text.error(f"declares {numbers[0]:.15g} {what}; expected a whole number that the file has room for")
    return int(numbers[0]), numbers[1:]
