"""Errors of the library name arguments; those of a command name its options. Here the first become the second."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_SAID = r"(?= (?:is|are|has|have|hold|holds|lists)\b)"
# Arguments whose options have other names.
_ARGUMENTS = {"class_names": "classes"}
# What Python takes in more ways than the command line.
_PHRASES = {
    "(overwrite=True, --overwrite)": "(--overwrite)",
    "(label_axis)": "(--label-axis)",
    "pass scribbles, a probability, a unary, a rectangle or a lasso": "pass --scribbles, --probability or --rectangle",
    "Exact: tolerance": "tolerance",
}


def flags_of(params: Iterable[Any]) -> dict[str, str]:
    """The long options of a command, by the names of the arguments that they stand for."""
    return {
        _ARGUMENTS.get(param.name, param.name.strip("_")): flag
        for param in params
        for flag in param.opts
        if flag.startswith("--") and param.name is not None
    }


def in_flags(text: str, flags: Mapping[str, str]) -> str:
    """An error with options in place of arguments, where it says what they are, what they may be, or to leave one out.

    >>> flags = {"kernel": "--kernel", "overlap": "--overlap", "checkpoint": "--checkpoint", "resume": "--resume"}
    >>> in_flags("kernel is 4; expected an odd size.", flags)
    '--kernel is 4; expected an odd size.'
    >>> in_flags("checkpoint and resume are both given. Leave overlap out.", flags)
    '--checkpoint and --resume are both given. Leave --overlap out.'
    >>> in_flags("the axes may be first or last; say kernel=3 or kernel=-1. overlap=2 would fit.", flags)
    'the axes may be first or last; say --kernel 3 or --kernel -1. --overlap 2 would fit.'
    """
    for phrase, ours in _PHRASES.items():
        text = text.replace(phrase, ours, 1)
    if not flags:
        return text
    name = rf"(?:{'|'.join(map(re.escape, sorted(flags, key=len, reverse=True)))})"
    listed = rf"{name}(?:(?:, | and ){name})*"

    def translated(found: re.Match[str]) -> str:
        return re.sub(rf"\b{name}\b", lambda one: flags[one[0]], found[0])

    text = re.sub(rf"^{listed}{_SAID}", translated, text)
    text = re.sub(rf"(?<= )({name})=(-?\d+)(?=\.? |\.$)", lambda found: f"{flags[found[1]]} {found[2]}", text)
    return re.sub(rf"\b[Ll]eave {listed} out\b", translated, text)
