"""Files of energies, in one table: the first words of a file say what it is.

A new format is one module that reads an `Instance` from a path, and one row here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from dope.energy import Energy
from dope.errors import InputError
from dope.extras import require_extra
from dope.io.energies import arrays, dimacs, gset, opengm, qubo, uai
from dope.io.energies.instance import Instance
from dope.io.energies.text import COMMENT
from dope.io.files import Name, open_file
from dope.label_energy import LabelEnergy

# Enough for the comments at the head of any file seen so far.
_HEAD = 1 << 16
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


@dataclass(frozen=True)
class EnergyFormat:
    """How files of one kind are read, with which extra; they begin with these bytes, or with words such as these."""

    name: str
    read: Callable[[Path], Instance]
    magic: bytes | None = None
    begins: Callable[[list[str]], bool] | None = None
    extra: str | None = None

    def open(self, path: Path) -> Instance:
        """What is in a file, if all is there that reads it."""
        if self.extra is not None:
            require_extra(self.extra, f"reading {path}")
        return self.read(path)


ENERGY_FORMATS: dict[str, EnergyFormat] = {
    "gset": EnergyFormat("G-set max-cut", gset.read, begins=gset.begins),
    "qubo": EnergyFormat("QUBO, maximized", qubo.read, begins=qubo.begins),
    "qubo-min": EnergyFormat("QUBO, minimized", qubo.read_minimized),
    "uai": EnergyFormat("UAI Markov network", uai.read, begins=uai.begins),
    "dimacs": EnergyFormat("DIMACS max-flow", dimacs.read, begins=dimacs.begins),
    "opengm": EnergyFormat("OpenGM model", opengm.read, magic=opengm.MAGIC, extra="opengm"),
    "npz": EnergyFormat("NPZ graph", arrays.read_graph, magic=b"PK"),
    "npy": EnergyFormat("QUBO matrix, minimized", arrays.read_matrix, magic=b"\x93NUMPY"),
}


def read_energy(path: Name, *, format: str | None = None) -> Energy | LabelEnergy:  # noqa: A002  the word that users look for
    r"""The energy in a file: what is best in the file's own terms has the least energy.

    Parameters
    ----------
    path : path
        G-set (energy = -cut), QUBO as text (energy = -value, as Beasley's are maximized), UAI Markov network (energy =
        -log of the product of factors), OpenGM in HDF5 (energy = sum of factors; needs `dope[opengm]`), DIMACS max-flow
        (energy = cut, label 1 = the source's side), NPZ with the arrays of `Energy.graph` or `Energy.from_tables`, or
        NPY with the matrix of `Energy.from_qubo`.
    format : str, optional
        One of `dope.io.ENERGY_FORMATS`; by default what the file's first words say. "qubo-min" takes energy = value.

    Returns
    -------
    Energy, or LabelEnergy where variables have more than two states

    Raises
    ------
    InputError
        No such file, none of these formats, damaged, cut short, or not of pairs of variables with as many states.

    Examples
    --------
    >>> import pathlib, tempfile, dope
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "triangle.txt"
    ...     _ = file.write_text("3 3\n1 2 1\n2 3 1\n1 3 1\n")
    ...     dope.read_energy(file)([True, False, False])
    -2.0
    """
    return read_instance(path, format=format).energy


def read_instance(path: Name, *, format: str | None = None) -> Instance:  # noqa: A002
    """The same, with what the file's readers call the value, and how its sites lie."""
    if not isinstance(path, (str, PathLike)):
        raise InputError(f"path is a {type(path).__name__}; expected the name of a file.")
    file = Path(path)
    if format is None:
        return _recognized(file).open(file)
    if format not in ENERGY_FORMATS:
        raise InputError(f"format is {format!r}; expected one of {', '.join(ENERGY_FORMATS)}")
    return ENERGY_FORMATS[format].open(file)


def is_energy(path: Name) -> bool:
    """Whether a file begins as one of these formats does."""
    file = Path(path)
    if not file.is_file():
        return False
    with open_file(file, "energy") as stream:
        return _format_of(stream.read(_HEAD)) is not None


def _format_of(head: bytes) -> EnergyFormat | None:
    words = _first_words(head)
    for format_ in ENERGY_FORMATS.values():
        if format_.magic and head.startswith(format_.magic):
            return format_
        if words and format_.begins and format_.begins(words):
            return format_
    return None


def _first_words(head: bytes) -> list[str]:
    lines = (line.split() for line in head.decode("ascii", "replace").splitlines())
    return next((words for words in lines if words and words[0] != COMMENT), [])


def _recognized(path: Path) -> EnergyFormat:
    with open_file(path, "QUBO, UAI or other energy") as stream:
        head = stream.read(_HEAD)
    for magic, name in _PACKED.items():
        if head.startswith(magic):
            raise InputError(f"{path}: packed with {name}; unpack it first")
    if (found_format := _format_of(head)) is not None:
        return found_format
    known = "; ".join(format_.name for format_ in ENERGY_FORMATS.values())
    found = repr(" ".join(_first_words(head))[:20])[:22]
    raise InputError(f"{path}: begins with {found}, as no format does; expected one of {known}")
