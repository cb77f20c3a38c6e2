"""Plug-ins: what a caller passes is checked, and those of other packages are found by their entry points.

The entry points are `dope.solvers`, `dope.executors` and `dope.formats`. A package names its plug-ins in its
pyproject.toml, and they are imported when somebody asks for that name:

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


def check_plug_in(name: str, plug_in: object, ability: str, *, such_as: str) -> None:
    """Refuse what cannot do what it is for; a class is no instance."""
    if plug_in is not None and (isinstance(plug_in, type) or not hasattr(plug_in, ability)):
        raise InputError(f"{name} is {plug_in!r:.80}; expected an object such as {such_as}, with {ability}, or None.")


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
