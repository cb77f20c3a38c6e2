"""Files that mean harm, a few bytes to some kilobytes each: what dope must answer in a line, quickly, in little memory.

Every format has a module here whose `cases()` yields its files, always the same ones.
"""

from collections.abc import Iterator

from hostile import arrays, energies, mutations, pictures, places, strokes, tiffs, zarrs
from hostile.case import Case

GROUPS = (pictures, tiffs, arrays, zarrs, strokes, energies, places, mutations)


def all_cases() -> Iterator[Case]:
    for group in GROUPS:
        yield from group.cases()
