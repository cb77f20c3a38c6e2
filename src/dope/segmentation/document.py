"""A segmentation as a document of JSON: a flat object of paths and settings, as `dope segment --json` writes it.

What a file says is checked by type before anything of it is used. Names that are not known are passed over, and those
that are missing mean what they mean where nobody says anything.
"""

from __future__ import annotations

import json
import os
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dope.bounded import read_regular
from dope.errors import InputError
from dope.executors import Dask, Threads
from dope.methods import Exact
from dope.names import EXECUTORS, METHODS, MODELS, SOLVERS, kind_in_words, name_of, of_kind, plug_in_of
from dope.partition import Partition
from dope.protocols import Executor, Method

if TYPE_CHECKING:
    from dope.segmentation.segmentation import Segmentation

_KIND = "report of dope segment --json"
_MOST_BYTES = 64 << 20

PLUG_INS: dict[str, Mapping[str, Any]] = {
    "model": MODELS, "method": METHODS, "solver": SOLVERS, "executor": EXECUTORS,
}  # fmt: skip
KINDS: dict[str, Any] = {
    "image": str,
    "scribbles": str | None,
    "probability": str | None,
    "unary": str | None,
    "mask": str | None,
    "rectangle": str | tuple[tuple[int, ...], ...] | None,
    "lasso": tuple[tuple[float, ...], ...] | None,
    "margin": float | None,
    "lam": float | None,
    "kernel": int | tuple[tuple[int, ...], ...],
    "beta": float | None,
    "spacing": tuple[float, ...] | None,
    "rounds": int | None,
    "connected": bool,
    "blocks": int | tuple[int, ...] | None,
    "overlap": int | float | None,
    "tolerance": float,
    "workers": int | None,
    "memory": str | int | None,
    "classes": int | tuple[str, ...] | None,
    "label_axis": int | None,
    "dask": str | None,
}
"""Types of what is no plug-in."""
_ARRAYS = ("image", "scribbles", "probability", "unary", "mask")
_RARE = ("unary", "lasso", "solver", "executor", "classes", "label_axis")
"""Left out where nobody said anything."""


def document_of(said: Segmentation) -> dict[str, Any]:
    """The segmentation in what JSON knows."""
    method, tolerance = _written_method(said.method)
    settings: dict[str, Any] = {
        **{name: _path(name, getattr(said, name)) for name in _ARRAYS},
        "rectangle": None if said.rectangle is None else box_in_words(said.rectangle),
        "lasso": None if said.lasso is None else np.asarray(said.lasso, dtype=np.float64).tolist(),
        "margin": _plain(said.margin),
        "lam": None if isinstance(said.lam, str) else _plain(said.lam),
        "kernel": _plain(said.kernel),
        "beta": _plain(said.beta),
        "spacing": _plain(said.spacing),
        "model": None if said.model is None else name_of("model", MODELS, said.model),
        "rounds": _plain(said.rounds),
        "connected": bool(said.connected),
        "blocks": _blocks(said.blocks),
        "overlap": _plain(said.overlap),
        "method": method,
        "tolerance": tolerance,
        "solver": None if said.solver is None else name_of("solver", SOLVERS, said.solver),
        "memory": _plain(said.memory),
        "classes": list(said.classes) if isinstance(said.classes, (list, tuple)) else _plain(said.classes),
        "label_axis": _plain(said.label_axis),
        **_written_executor(said.executor),
    }
    return {name: value for name, value in settings.items() if value is not None or name not in _RARE}


def read_document(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file says, before anything of it is trusted: the document itself, or the one in a report."""
    try:
        found = json.loads(read_regular(Path(path), _KIND, most=_MOST_BYTES))
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot be read, {(error.strerror or str(error)).lower()}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a {_KIND}") from error
    if isinstance(found, dict) and "image" not in found:
        found = found.get("job")
    if not isinstance(found, dict):
        raise InputError(f"{path}: not a {_KIND}")
    if "image" not in found:
        raise InputError(f"{path}: names no image; expected a {_KIND}")
    return found


def segmentation_of(document: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    """The fields of the segmentation that a document tells of; `place` says in errors where it was found."""
    found = {name: _read(name, kind, document[name], place) for name, kind in KINDS.items() if name in document}
    for name, table in PLUG_INS.items():
        if document.get(name) is not None:
            found[name] = plug_in_of(f"{place}{name}", table, document[name])
    if "image" not in found:
        raise InputError(f"{place}names no image; expected the path of one")
    found["method"] = _read_method(found.get("method"), found.pop("tolerance", 0.0))
    found["executor"] = _read_executor(found.get("executor"), found.pop("workers", None), found.pop("dask", None))
    found["lam"] = "auto" if found.get("lam") is None else found["lam"]
    if isinstance(found.get("rectangle"), str):
        found["rectangle"] = box_from(found["rectangle"])
    return found


def box_from(text: str) -> tuple[tuple[int, int], ...]:
    """A box in words, "10:200,30:400", as a pair of places for each axis."""
    try:
        sides = [part.split(":") for part in text.split(",")]
        return tuple((int(low), int(high)) for low, high in sides)
    except ValueError:
        raise InputError(f"rectangle is {text!r}; expected start:stop of each axis, such as 10:200,30:400.") from None


def box_in_words(rectangle: Any) -> str:
    """The opposite.

    >>> box_in_words([slice(10, 200), (30, 400)])
    '10:200,30:400'
    """
    sides = [(side.start, side.stop) if isinstance(side, slice) else tuple(side) for side in rectangle]
    return ",".join(f"{int(low)}:{int(high)}" for low, high in sides)


def _read(name: str, kind: Any, value: Any, place: str) -> Any:
    try:
        return of_kind(kind, value)
    except (ValueError, OverflowError) as error:
        written = ", as dope segment --json writes it" if place else ""
        raise InputError(f"{place}{name} is {reprlib.repr(value)}; expected {kind_in_words(kind)}{written}.") from error


def _path(name: str, value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    raise InputError(
        f"{name} is an array in memory ({type(value).__name__}), which JSON does not hold; save it to a file, and give "
        f"the path of that."
    )


def _blocks(blocks: Any) -> Any:
    if isinstance(blocks, Partition):
        raise InputError("blocks is a Partition, which JSON does not hold; expected a number, or one per axis.")
    return _plain(blocks)


def _plain(value: Any) -> Any:
    """Numbers and sequences of them, as JSON knows them."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return np.asarray(value).tolist()


def _written_method(method: Method | None) -> tuple[Any, float]:
    if isinstance(method, Exact) and method == Exact(tolerance=method.tolerance):
        return "exact", float(method.tolerance)
    return None if method is None else name_of("method", METHODS, method), 0.0


def _read_method(method: Method | None, tolerance: float) -> Method | None:
    if not tolerance:
        return method
    if method not in (None, Exact()):
        raise InputError(f"tolerance is for the method exact; {type(method).__name__} has none. Leave one of them out.")
    return Exact(tolerance=tolerance)


def _written_executor(executor: Executor | None) -> dict[str, Any]:
    if isinstance(executor, Dask):
        if not isinstance(executor.client_or_address, str) or executor.patience is not None:
            raise InputError(f"executor is {executor!r}; expected one with an address, and without patience.")
        return {"workers": None, "dask": executor.client_or_address}
    if executor is None or isinstance(executor, Threads):
        return {"workers": None if executor is None else executor.number, "dask": None}
    return {"workers": None, "dask": None, "executor": name_of("executor", EXECUTORS, executor)}


def _read_executor(executor: Executor | None, workers: int | None, dask: str | None) -> Executor | None:
    if sum(one is not None for one in (executor, workers, dask)) > 1:
        given = {"executor": executor, "workers": workers, "dask": dask}
        names = " and ".join(name for name, value in given.items() if value is not None)
        raise InputError(f"{names} are both given; a cluster has the workers it has. Leave one out.")
    if dask is not None:
        return Dask(dask)
    return executor if workers is None else Threads(workers)
