"""Energies as text: a header, then lines of numbers, which NumPy reads in bulk.

Nothing is allocated because a header says so. Numbers must be finite and below 2^53, up to where float64 knows every
whole one. A site needs no line of its own, so a file may have `SPARE_SITES` more of them than bytes, and no more.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import Sites
from dope.errors import InputError
from dope.io.files import in_one_line, open_file
from dope.memory import require_bytes

Floats = npt.NDArray[np.float64]

SPARE_SITES = 1 << 20
MOST = 2.0**53
COMMENT = "c"

# Held for each byte of a file while it is read: 17 on a complete graph of 999 sites, as short as lines get.
_BYTES_PER_BYTE = 24
_LONGEST_HEADER = 1 << 16


@dataclass(frozen=True, eq=False)
class Text:
    """A text file that is open, read from its beginning to its end."""

    path: Path
    stream: TextIOWrapper
    bytes: int

    def error(self, found: str) -> InputError:
        return InputError(f"{self.path}: {found}")

    def words(self) -> list[str]:
        """Of the next line that says something; none at the end."""
        while line := self.stream.readline(_LONGEST_HEADER):
            found = line.split()
            if found and found[0] != COMMENT:
                return found
        return []

    def table(self, columns: list[str], letter: str | None = None) -> dict[str, Floats]:
        """The numbers of all lines that are left, by column; every line begins with the letter, if there is one."""
        fields: list[tuple[str, Any]] = [(name, np.float64) for name in columns]
        if letter is not None:
            fields = [("letter", "S2"), *fields]
        expected = " ".join(([letter] if letter else []) + columns)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that there are no lines
                found = np.loadtxt(self.stream, dtype=fields, comments=COMMENT, ndmin=1)
        except UnicodeDecodeError:
            raise self.error("holds bytes that are no text; get a whole copy") from None
        except ValueError as error:
            reason = in_one_line(error).partition(";")[0].rstrip(".")
            raise self.error(f"{reason}, counted after the header; expected lines '{expected}'") from error
        if letter is not None and not (found["letter"] == letter.encode()).all():
            bad = found["letter"][np.argmax(found["letter"] != letter.encode())].decode("ascii", "replace")
            raise self.error(f"holds a line that begins with {bad!r}; expected lines '{expected}'")
        for name in columns:
            self._check_range(name, found[name])
        return {name: np.ascontiguousarray(found[name]) for name in columns}

    def number(self, what: str, word: str, fewest: int = 0) -> int:
        """A whole number of a header."""
        if not re.fullmatch(r"[0-9]{1,18}", word) or int(word) < fewest:
            raise self.error(f"{what} is {word[:40]!r}; expected a whole number from {fewest} on")
        return int(word)

    def check_sites(self, number: int) -> None:
        """Refuse more sites than a file of this length can be about."""
        if number > SPARE_SITES + self.bytes:
            raise self.error(
                f"declares {number:,} sites in {self.bytes:,} bytes; expected at most {SPARE_SITES:,} more than bytes. "
                "Is the header right?"
            )

    def check_lines(self, what: str, declared: int, found: int) -> None:
        if declared != found:
            trouble = "cut short" if found < declared else "more follows than was declared"
            raise self.error(
                f"declares {declared:,} {what}, but {found:,} are there: {trouble}. Correct the header, or get a "
                "whole copy"
            )

    def places(self, what: str, values: Floats, *, first: int, number: int) -> Sites:
        """Positions of sites, which the file counts from `first` on, as they are counted here: from 0 on."""
        places = values - first
        bad = (np.rint(places) != places) | (places < 0) | (places >= number)
        if bad.any():
            at = int(np.argmax(bad))
            raise self.error(f"{what} {at + 1} names site {values[at]:.15g}; expected {first} to {number - 1 + first}")
        return places.astype(np.int64)

    def check_apart(self, what: str, one: Sites, other: Sites, first: int) -> None:
        """Refuse an edge from a site to itself."""
        loops = one == other
        if loops.any():
            at = int(np.argmax(loops))
            raise self.error(f"{what} {at + 1} joins site {one[at] + first} with itself; leave such lines out")

    def check_once(self, what: str, one: Sites, other: Sites, first: int) -> None:
        """Refuse a pair that is listed twice, in either direction."""
        low, high = np.minimum(one, other), np.maximum(one, other)
        order = np.lexsort((high, low))
        again = (np.diff(low[order]) == 0) & (np.diff(high[order]) == 0)
        if again.any():
            at = int(order[1:][again].min())
            raise self.error(
                f"{what} {at + 1} joins sites {one[at] + first} and {other[at] + first} once more; expected each pair "
                "once. Add their weights up"
            )

    def _check_range(self, name: str, values: Floats) -> None:
        bad = ~(np.abs(values) < MOST)
        if bad.any():
            at = int(np.argmax(bad))
            raise self.error(
                f"{name} is {values[at]:.17g} in line {at + 1} after the header; expected a finite number below "
                "2^53, up to where float64 is exact. Replace it, or scale the numbers down"
            )


@contextmanager
def opened(path: Path, kind: str) -> Iterator[Text]:
    """The file, if there is memory for what may be in it."""
    with open_file(path, kind) as file:
        size = os.fstat(file.fileno()).st_size
        require_bytes(f"{path}: reading {size:,} bytes", _BYTES_PER_BYTE * size)
        with TextIOWrapper(file, encoding="ascii", newline=None) as stream:
            yield Text(path, stream, size)
