"""What a certificate is about, beside it in its folder: paths are told from there, so that both can move together."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dope.arrays import Box
from dope.bounded import read_regular
from dope.durable import write_text
from dope.energy import Energy
from dope.errors import DopeError, InputError
from dope.io import ENERGY_FORMATS, read_instance
from dope.result import Result
from dope.segmentation import Segmentation
from dope.segmentation.document import read_document

ENERGY = "energy.json"
_ARRAYS = ("image", "scribbles", "probability", "unary", "mask")
_SETTINGS = ("kernel", "lam", "beta", "spacing", "rectangle", "lasso", "margin", "model")
_CHOSEN = ("lam", "beta")  # by dope, where nobody said anything
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class Noted:
    """An energy that a certificate is about.

    Attributes
    ----------
    where : the box that it covers.
    shape : of all labels.
    told : the files and settings that it was made of, by name.
    """

    energy: Energy
    where: Box
    shape: tuple[int, ...]
    told: dict[str, str]


def note_energy(folder: str, said: Segmentation, result: Result) -> None:
    """Say that the certificate is about the energy of a segmentation."""
    _require(result)
    _write(folder, {"segmentation": _with_paths(said.to_json(), lambda path: os.path.relpath(path, folder))})


def note_file(folder: str, file: str, kind: str | None, result: Result) -> None:
    """Say that it is about the energy in a file."""
    _require(result)
    _write(folder, {"energy": os.path.relpath(file, folder), "format": kind})


def noted_energy(folder: str) -> Noted:
    """The energy that a certificate says that it is about."""
    path = Path(folder) / ENERGY
    if not path.is_file():
        raise InputError(f"{path} is not there; name the run with --from report.json, which dope segment --json wrote.")
    try:
        said = json.loads(read_regular(path, "certificate", most=_MOST_BYTES))
        document, file, kind = (said.get(name) for name in ("segmentation", "energy", "format"))
    except (ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path} says of no energy: {error}; expected what dope segment --certificate wrote."
        ) from error
    if isinstance(document, dict):
        return segmented_energy(_with_paths(document, lambda name: str(Path(folder) / name)), str(path))
    if not isinstance(file, str) or (kind is not None and kind not in ENERGY_FORMATS):
        raise InputError(f"{path} says of no energy; expected what dope segment or dope minimize --certificate wrote.")
    name = os.path.normpath(Path(folder) / file)
    instance = read_instance(name, format=kind)
    energy = instance.energy
    if not isinstance(energy, Energy):
        raise InputError(f"{name} is of {energy.label_count} labels; expected two, as certificates are of two.")
    return Noted(energy, energy.whole, energy.shape, {"file": f"{name} ({instance.format})"})


def segmented_energy(document: Any, source: str) -> Noted:
    """The same for a segmentation, of a report or a document."""
    # How it was minimized does not matter here: no cluster that a document names is talked to.
    said = replace(Segmentation.from_json(_here(document)), method=None, solver=None, blocks=None, overlap=None)
    try:
        energy, where = said.energy()
    except InputError as error:
        raise InputError(f"{source}: {error}") from error
    if not isinstance(energy, Energy):
        raise InputError(f"{source}: a segmentation of {energy.label_count} classes, of which there is no certificate")
    return Noted(energy, where, said.shape, _told(said.to_json()))


def _told(document: dict[str, Any]) -> dict[str, str]:
    files = {name: document[name] for name in _ARRAYS if document.get(name) is not None}
    given = {name: document.get(name) for name in _SETTINGS}
    said = {name: "auto" if value is None and name in _CHOSEN else value for name, value in given.items()}
    settings = ", ".join(f"{name} {value}" for name, value in said.items() if value is not None)
    return {**files, "settings": settings}


def _require(result: Result) -> None:
    if result.uncertified is not None:
        raise DopeError(f"{result.uncertified}. The labels are whole; make room or name another folder, and run again")
    if result.certificate is None:
        raise DopeError(f"the run ended without one ({result.stopped})")


def _here(document: Any) -> Any:
    found = document if isinstance(document, dict) else read_document(document)
    return {name: value for name, value in found.items() if name not in ("dask", "workers", "executor")}


def _write(folder: str, said: dict[str, Any]) -> None:
    write_text(Path(folder) / ENERGY, json.dumps(said, indent=1))


def _with_paths(document: dict[str, Any], told: Callable[[str], str]) -> dict[str, Any]:
    moved = {name: told(path) for name in _ARRAYS if isinstance(path := document.get(name), str)}
    return {**document, **{name: os.path.normpath(path) for name, path in moved.items()}}
