"""A segmentation as files and settings: what a command line says, and what a report repeats."""

from __future__ import annotations

import json
import reprlib
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from dope.bounded import read_regular
from dope.cli.methods import METHODS, MODELS, MethodName, ModelName
from dope.errors import InputError
from dope.executors import Dask, Threads
from dope.io import Image, load, read_scribbles, same_space, stored
from dope.io.images.scribbles import Scribbles
from dope.methods import Exact
from dope.protocols import Executor, Method

_ALPHA = {2: 1, 4: 3}
"""Channels of pictures that have alpha, and how many they have without it."""
_PICTURES = (".png",)
_MOST_BYTES = 64 << 20
_MOST_NUMBER = 1 << 63


@dataclass(frozen=True)
class Job:
    """What to segment, and how. Paths are as the user gave them."""

    image: str
    scribbles: str | None = None
    probability: str | None = None
    mask: str | None = None
    rectangle: str | None = None
    margin: float | None = None
    lam: float | None = None
    kernel: int = 3
    beta: float | None = None
    spacing: tuple[float, ...] | None = None
    model: ModelName | None = None
    rounds: int | None = None
    connected: bool = False
    blocks: int | None = None
    overlap: float = 0.0
    method: MethodName | None = None
    tolerance: float = 0.0
    workers: int | None = None
    memory: str | None = None
    dask: str | None = None

    def __post_init__(self) -> None:
        if self.scribbles is None and self.probability is None and self.rectangle is None:
            raise InputError("nothing is known about the image; pass --scribbles, --probability or --rectangle.")
        if self.tolerance and self.method not in (None, MethodName.EXACT):
            raise InputError(f"--tolerance is for --method exact; {self.method} has none. Leave one of them out.")

    @property
    def files(self) -> list[str]:
        """What is read."""
        return [file for file in (self.image, self.scribbles, self.probability, self.mask) if file is not None]

    @property
    def reestimated(self) -> bool:
        """Whether colours are estimated again from labels, as they are after a rectangle."""
        return self.rectangle is not None if self.rounds is None else self.rounds > 0

    def executor(self) -> Executor:
        """Threads here, or the workers of a Dask cluster."""
        if self.dask is not None and self.workers is not None:
            raise InputError("--dask and --workers are both given; a cluster has the workers it has. Leave one out.")
        return Threads(self.workers) if self.dask is None else Dask(self.dask)

    def chosen_method(self) -> Method | None:
        if self.tolerance and self.method in (None, MethodName.EXACT):
            return Exact(tolerance=self.tolerance)
        return None if self.method is None else METHODS[self.method]()

    @property
    def model_settings(self) -> dict[str, Any]:
        """What `dope.segment` is told, apart from arrays and how to minimize."""
        return {
            "rectangle": None if self.rectangle is None else box_from(self.rectangle),
            "margin": self.margin,
            "lam": "auto" if self.lam is None else self.lam,
            "kernel": self.kernel,
            "beta": self.beta,
            "model": None if self.model is None else MODELS[self.model](),
            "rounds": self.rounds,
            "connected": self.connected,
            "memory": self.memory,
        }

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_report(cls, path: Path) -> Job:
        """The job that a report (`--json`) tells of."""
        found = _job_in(path)
        settings = {}
        for name, kind in get_type_hints(cls).items():
            if name in found:
                try:
                    settings[name] = _of_kind(kind, found[name])
                except (ValueError, OverflowError) as error:
                    shown, expected = reprlib.repr(found[name]), getattr(kind, "__name__", kind)
                    raise InputError(
                        f"{path}: {name} is {shown}; expected {expected}, as dope segment --json writes it"
                    ) from error
        if "image" not in settings:
            raise InputError(f"{path}: names no image; expected a report of dope segment --json")
        return cls(**settings)


def _job_in(path: Path) -> dict[str, Any]:
    """What a report says about its job, before anything of it is trusted."""
    try:
        found = json.loads(read_regular(path, "report of dope segment --json", most=_MOST_BYTES))["job"]
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot be read, {(error.strerror or str(error)).lower()}") from error
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: not a report of dope segment --json") from error
    if not isinstance(found, dict):
        raise InputError(f"{path}: not a report of dope segment --json")
    return found


def _of_kind(kind: Any, value: Any) -> Any:
    """A value of JSON as the type of a field; ValueError or OverflowError where it is none of it."""
    first, *other = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    if value is None and NoneType in other:
        return None
    if get_origin(first) is tuple and isinstance(value, list):
        return tuple(_of_kind(float, part) for part in value)
    if isinstance(first, type) and issubclass(first, StrEnum) and isinstance(value, str):
        return first(value)
    if first is float and type(value) in (int, float):
        return float(value)
    if type(value) is first and (first is not int or abs(value) < _MOST_NUMBER):
        return value
    raise ValueError(value)


@dataclass(frozen=True, eq=False)
class Inputs:
    """The files of a job, opened and checked against each other."""

    image: Image
    pixels: Any
    seeds: Scribbles | None
    probability: Any
    mask: Any
    spacing: tuple[float, ...] | None

    @classmethod
    def of(cls, job: Job, budget: int | None = None, scratch: Path | None = None) -> Inputs:
        """With a folder for what has to be unpacked first, arrays stay in their files, to be read box by box."""
        image = load(job.image, budget=budget) if scratch is None else stored(job.image, scratch)
        pixels, shape = _without_alpha(image), image.shape
        seeds = None
        if job.scribbles is not None:
            learnt = job.probability is None and job.rectangle is None  # colours, from strokes alone
            seeds = read_scribbles(job.scribbles, shape, photo=Path(job.image).name, budget=budget, both=learnt)
        return cls(
            image=image,
            pixels=pixels,
            seeds=seeds,
            probability=None
            if job.probability is None
            else _map("probability", job.probability, image, budget, scratch),
            mask=None if job.mask is None else _mask(job.mask, image, budget, scratch),
            spacing=_spacing(job.spacing, image),
        )

    @property
    def arrays(self) -> dict[str, Any]:
        """What `dope.segment` is given beside the image."""
        return {
            "scribbles": self.seeds,
            "probability": self.probability,
            "mask": self.mask,
            "spacing": self.spacing,
            "channel_axis": -1 if len(self.pixels.shape) > len(self.image.shape) else None,
        }


def box_from(text: str) -> list[tuple[int, int]]:
    """A box in words, "10:200,30:400", as a pair of places for each axis."""
    try:
        sides = [part.split(":") for part in text.split(",")]
        return [(int(low), int(high)) for low, high in sides]
    except ValueError:
        raise InputError(f"--rectangle is {text!r}; expected start:stop of each axis, such as 10:200,30:400.") from None


def _without_alpha(image: Image) -> Any:
    """Pixels without transparency, which says nothing about colours."""
    number = image.pixels.shape[-1] if image.channels else 0
    if number in _ALPHA and image.path.suffix.lower() in _PICTURES:
        pixels = image.pixels[..., : _ALPHA[number]]
        return pixels[..., 0] if number == 2 else pixels
    return image.pixels


def _map(what: str, path: str, image: Image, budget: int | None, scratch: Path | None) -> Any:
    found = load(path, budget=budget) if scratch is None else stored(path, scratch)
    if found.channels and found.pixels.shape[-1] != 1 and found.shape == image.shape:
        number = found.pixels.shape[-1]
        raise InputError(f"{path}: {number} maps in one file; expected one, the {what} of foreground. Save it alone.")
    reason = same_space(image, found)
    if reason is not None:
        raise InputError(f"{path}: does not lie on {image.path}: {reason}")
    if scratch is not None and not found.channels:
        return found.pixels
    return np.asarray(found.pixels).reshape(image.shape)


def _mask(path: str, image: Image, budget: int | None, scratch: Path | None) -> Any:
    """Sites that are not 0: masks are written with 1 or 255 inside."""
    found = _map("mask", path, image, budget, scratch)
    return found if scratch is not None else np.asarray(found != 0)


def _spacing(asked: tuple[float, ...] | None, image: Image) -> tuple[float, ...] | None:
    if asked is None:
        return image.spacing
    if len(asked) != len(image.shape):
        raise InputError(f"--spacing has {len(asked)} numbers; expected {len(image.shape)}, one for each axis.")
    return asked
