"""Names of methods, models, solvers and executors: what files and the command line call them, one table for each.

A new one is one row; one of another package is an entry point (`plug_ins`). What it can be told there are the fields of
its dataclass.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from dope import plug_ins
from dope.errors import InputError
from dope.executors import Serial, Threads
from dope.methods import Admm, Bracketing, Exact, LabelAdmm, Layers, Messages, Moves
from dope.models import ColorClusters, ColorMixture, GreyHistogram, Model
from dope.protocols import BlockSolver, Executor, Method
from dope.solvers import Anneal, Brute, Icm, LsaAux, LsaTr, MaxFlow, MeanField, Portfolio, Qpbo, Tabu, TrwS

METHODS: dict[str, Callable[..., Method]] = {
    "exact": Exact,
    "admm": Admm,
    "paper": Admm.paper,
    "bracketing": Bracketing,
    "labeladmm": LabelAdmm,
    "layers": Layers,
    "moves": Moves,
    "messages": Messages,
}
MODELS: dict[str, Callable[..., Model]] = {
    "clusters": ColorClusters,
    "mixture": ColorMixture,
    "histogram": GreyHistogram,
}
SOLVERS: dict[str, Callable[..., BlockSolver]] = {
    "maxflow": MaxFlow,
    "icm": Icm,
    "portfolio": Portfolio,
    "lsatr": LsaTr,
    "lsaaux": LsaAux,
    "qpbo": Qpbo,
    "meanfield": MeanField,
    "trws": TrwS,
    "tabu": Tabu,
    "anneal": Anneal,
    "brute": Brute,
}
# `Dask` has an address, which says where rather than how: whoever writes it down has a field for that. `Futures` holds
# a live object, which no file can name.
EXECUTORS: dict[str, Callable[..., Executor]] = {"serial": Serial, "threads": Threads}

# Of a whole number in a file.
_MOST_NUMBER = 1 << 63
_GROUPS = {"solver": plug_ins.SOLVERS, "executor": plug_ins.EXECUTORS}


def known_names(what: str, table: Mapping[str, Callable[..., Any]]) -> list[str]:
    """Those of the table, and of installed plug-ins."""
    return [*table, *(name for name in plug_ins.installed(_GROUPS.get(what, "")) if name not in table)]


def maker_of(what: str, table: Mapping[str, Callable[..., Any]], name: str) -> Callable[..., Any]:
    """What makes the plug-in of this name.

    >>> maker_of("solver", SOLVERS, "icm")
    <class 'dope.solvers.icm.Icm'>
    """
    if name in table:
        return table[name]
    if name in plug_ins.installed(_GROUPS.get(what, "")):
        made: Callable[..., Any] = plug_ins.load_plug_in(_GROUPS[what], name)
        return made
    raise InputError(f"{what} is {name!r}; expected one of {', '.join(known_names(what, table))}.")


def name_of(what: str, table: Mapping[str, Callable[..., Any]], plug_in: object) -> str | dict[str, Any]:
    """The name of a plug-in; with settings of its own, these and the name.

    >>> name_of("method", METHODS, Exact()), name_of("method", METHODS, Exact(rounds=3))
    ('exact', {'name': 'exact', 'rounds': 3})
    """
    for name, make in table.items():
        if plug_in == make():
            return name
    for name, make in {**table, **_makers_of(what, type(plug_in))}.items():
        if type(plug_in) is make and not is_dataclass(plug_in):
            return name
        if type(plug_in) is make and is_dataclass(plug_in):
            found = {one.name: getattr(plug_in, one.name) for one in fields(plug_in) if one.init}
            usual = {one.name: _usual(one) for one in fields(plug_in) if one.init}
            return {"name": name, **{key: _plain(value) for key, value in found.items() if value != usual[key]}}
    raise InputError(f"{what} is {plug_in!r}, which has no name; expected one of {', '.join(table)}.")


def _makers_of(what: str, kind: type) -> dict[str, Callable[..., Any]]:
    """The names under which a class of another package is installed."""
    value = f"{kind.__module__}:{kind.__qualname__}"
    return {name: kind for name, point in plug_ins.installed(_GROUPS.get(what, "")).items() if point.value == value}


def plug_in_of(what: str, table: Mapping[str, Callable[..., Any]], said: object) -> Any:
    """The plug-in that `name_of` told of.

    >>> plug_in_of("method", METHODS, {"name": "exact", "rounds": 3})
    Exact(tolerance=0.0, rounds=3, merge=True, bracket=False)
    """
    name, settings = said, {}
    if isinstance(said, dict):
        settings = {key: value for key, value in said.items() if key != "name"}
        name = said.get("name")
    if not isinstance(name, str):
        raise InputError(f"{what} is {reprlib.repr(said)}; expected one of {', '.join(known_names(what, table))}.")
    make = maker_of(what, table, name)
    kinds = get_type_hints(make if isinstance(make, type) else getattr(make, "__func__", make))
    read = {}
    for key, value in settings.items():
        try:
            read[key] = of_kind(kinds[key], value)
        except (KeyError, ValueError, OverflowError):
            expected = kind_in_words(kinds[key]) if key in kinds else "no such setting"
            raise InputError(f"{what}: {name} has {key!r} of {reprlib.repr(value)}; expected {expected}.") from None
    try:
        return make(**read)
    except TypeError:
        raise InputError(f"{what} is {reprlib.repr(said)}; expected settings that {name} has.") from None


def of_kind(kind: Any, value: Any) -> Any:
    """A value of JSON as the type of a field; ValueError or OverflowError where it is none of it."""
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        return _of_one_of(get_args(kind), value)
    if kind in (None, NoneType) and value is None:
        return None
    if get_origin(kind) is Literal and isinstance(value, str) and value in get_args(kind):
        return value
    if get_origin(kind) is tuple and isinstance(value, list | tuple):
        return tuple(of_kind(get_args(kind)[0], part) for part in value)
    if kind is float and type(value) in (int, float):
        return float(value)
    if type(value) is kind and (kind is not int or abs(value) < _MOST_NUMBER):
        return value
    raise ValueError(value)


def _of_one_of(kinds: tuple[Any, ...], value: Any) -> Any:
    for kind in kinds:
        try:
            return of_kind(kind, value)
        except ValueError:
            continue
    raise ValueError(value)


def kind_in_words(kind: Any) -> str:
    """A type, for an error."""
    return getattr(kind, "__name__", str(kind)) if not get_args(kind) else str(kind)


def _usual(one: Any) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if isinstance(value, tuple) else value
