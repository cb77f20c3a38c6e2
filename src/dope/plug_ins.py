"""Plug-ins of other packages, found by their entry points: `dope.solvers`, `dope.executors` and `dope.formats`.

A package names them in its pyproject.toml, and they are imported when somebody asks for that name:

    [project.entry-points."dope.solvers"]
    threshold = "my_package:Threshold"

A solver or executor is a class, or any function that makes one; a format is a `dope.io.Format`, and its name the suffix
of its files.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from dope.errors import InputError

SOLVERS, EXECUTORS, FORMATS = "dope.solvers", "dope.executors", "dope.formats"


@cache
def installed(group: str) -> dict[str, EntryPoint]:
    """What is there, by name; nothing of it is imported yet. Of two of one name, that of the first package counts."""
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=group), key=lambda one: (one.name, one.value)):
        found.setdefault(point.name, point)
    return found


def load_plug_in(group: str, name: str) -> Any:
    """The plug-in of this name.

    Raises
    ------
    InputError
        It cannot be imported: its package is broken.
    """
    point = installed(group)[name]
    try:
        return point.load()
    except Exception as error:  # whatever somebody's module raises while it is imported
        raise InputError(f"the plug-in {name} ({group}) cannot be imported from {point.value}: {error}") from error
