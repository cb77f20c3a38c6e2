"""Where a command reads and writes, and that no output destroys an input or another output.

Names do not say whether two files are one: dots, links, hard links and mounts lead to the same one by many of them, and
some name a part of a whole, an array in an NPZ file or a folder in a Zarr store. So places are compared by what the
system knows them by, and only here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Self

from dope.bounded import check_name
from dope.errors import InputError


@dataclass(frozen=True)
class Place:
    """A file or folder that is read or written, with all that is in it.

    Attributes
    ----------
    name : str
        As it was given.
    path : Path
        What is read, or replaced, without links.
    whole : Path
        What that is a part of: a Zarr store for a folder in it, else the same.
    """

    name: str
    path: Path
    whole: Path

    @classmethod
    def of(
        cls,
        name: str | os.PathLike[str],
        path: str | os.PathLike[str] | None = None,
        whole: str | os.PathLike[str] | None = None,
    ) -> Self:
        """By default a name stands for itself, which is no part of anything."""
        found = resolved(name if path is None else path)
        return cls(os.fspath(name), found, found if whole is None else resolved(whole))

    @property
    def is_part(self) -> bool:
        return self.path != self.whole

    @property
    def is_file(self) -> bool:
        with suppress(OSError):
            return stat.S_ISREG(self.path.stat().st_mode)
        return False


def check_apart(reads: Iterable[Place], writes: Mapping[str, Place]) -> None:
    """Refuse outputs, which are given with what they are called, that would destroy an input, or each other.

    An output may be none of the inputs, hold none, and lie in none, nor in a Zarr store of which one is a part. Only
    labels may be added to that, beside what is read. Two outputs lie apart, and not in the same store.

    Raises
    ------
    InputError
        With the two that get in each other's way.
    """
    for source in reads:
        for role, output in writes.items():
            _check_kept(role, output, source)
    for (role, one), (other, two) in combinations(writes.items(), 2):
        if _same(one.whole, two.whole) and not (one.is_part or two.is_part):
            raise InputError(f"the same file is named for two outputs: {role} {one.name} and {other} {two.name}")
        if contains(one.whole, two.whole) or contains(two.whole, one.whole):
            raise InputError(
                f"one output lies in another: {role} {one.name} and {other} {two.name}; expected places apart"
            )


def contains(outer: Path, inner: Path) -> bool:
    """Whether a file or folder is another one, or holds it, by whatever names."""
    found, place = _identity(resolved(outer)), resolved(inner)
    return any(_identity(one) == found for one in (place, *place.parents))


def _check_kept(role: str, output: Place, source: Place) -> None:
    """Refuse an output that would destroy what is read."""
    advice = "expected another name for what is written."
    if _same(output.path, source.path):
        raise InputError(f"{role}: {output.name} is read; {advice}")
    if contains(output.path, source.path):
        raise InputError(f"{role}: {output.name} holds {source.name}, which is read; {advice}")
    if contains(source.path if output.is_part else source.whole, output.path):
        raise InputError(f"{role}: {output.name} lies in {source.name}, or in the store of it, which is read; {advice}")


def _same(one: Path, other: Path) -> bool:
    return _identity(one) == _identity(other)


def _identity(path: Path) -> tuple[int, int] | Path:
    """By what the system knows a file; one that is not there yet has its name alone, which is resolved."""
    try:
        status = path.stat()
    except OSError:
        return path
    return status.st_dev, status.st_ino


def resolved(name: str | os.PathLike[str]) -> Path:
    """A path without links and dots, as far as there are such."""
    check_name(name)
    try:
        return Path(name).resolve()
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a NUL
        raise InputError(f"{os.fspath(name)!r}: no name of a file ({error}); choose another one") from error
