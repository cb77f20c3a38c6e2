"""{commands}: what `dope --help` and `dope NAME --help` say, a section and a table for every command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.models import ArgumentInfo, OptionInfo

from dope.cli import COMMANDS
from dope.cli.exits import function_of


class Commands(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        return [self._section(function_of(name)) for name in COMMANDS]

    def _section(self, function: Callable[..., Any]) -> nodes.section:
        name = function.__name__
        section = nodes.section(ids=[f"dope-{name}"], names=[f"dope {name}"], classes=["command"])
        section += nodes.title("", "", nodes.Text(f"dope {name}"))
        lines = [*_about(function), "", *_table(function)]
        self.state.nested_parse(StringList(lines, f"dope {name}"), self.content_offset, section)
        return section


def _about(function: Callable[..., Any]) -> Iterator[str]:
    arguments = " ".join(_metavar(name) for name, info, *_ in _settings(function) if isinstance(info, ArgumentInfo))
    yield from ("```text", f"dope {function.__name__} {arguments}".rstrip() + " [OPTIONS]", "```", "")
    for line in inspect.cleandoc(function.__doc__ or "").splitlines():
        example = line.removeprefix("Examples: ").removeprefix("Example: ")
        yield f"`{example}`" if example.startswith("dope ") else line


def _table(function: Callable[..., Any]) -> Iterator[str]:
    yield "| | | |"
    yield "|---|---|---|"
    for name, info, kind, default in _settings(function):
        what = f"`{_metavar(name)}`" if isinstance(info, ArgumentInfo) else _flags(name, info)
        text = (info.help or "").replace("|", "\\|")
        shown = default not in (None, False, inspect.Parameter.empty) and info.show_default
        yield f"| {what} | {_kind(kind)} | {text}{f' Default: `{_said(default)}`.' if shown else ''} |"


def _flags(name: str, info: OptionInfo) -> str:
    # In an annotation the first declaration stands where a default would.
    declared = [one for one in (info.default, *(info.param_decls or ())) if isinstance(one, str)]
    flags = declared or [f"--{name.replace('_', '-')}"]
    return ", ".join(f"`{flag}`" for flag in flags)


def _settings(function: Callable[..., Any]) -> Iterator[tuple[str, ArgumentInfo | OptionInfo, Any, Any]]:
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints[name]
        if hint is typer.Context:
            continue
        kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        info = next((note for note in notes if isinstance(note, (ArgumentInfo, OptionInfo))), OptionInfo())
        yield name, info, kind, parameter.default


def _metavar(name: str) -> str:
    return name.strip("_").upper()


def _kind(kind: Any) -> str:
    if get_origin(kind) in (UnionType, list):
        kind = next(one for one in get_args(kind) if one is not type(None))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ", ".join(f"`{one.value}`" for one in kind)
    return {bool: "", int: "whole number", float: "number"}.get(kind, "text")


def _said(default: Any) -> Any:
    return default.value if isinstance(default, Enum) else default


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
