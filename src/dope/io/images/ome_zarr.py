"""Zarr arrays, formats 2 and 3, and OME-Zarr images, 0.4 and 0.5, in folders of this machine.

Of an OME-Zarr image the first multiscale is taken, and of that the finest level. Pixels are read chunk by chunk, as
they are indexed. An array without named axes is taken as an NPY file is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dope.errors import InputError
from dope.io.content import Description, Image, Spacing, looks_colored, spacing_text
from dope.io.files import reading
from dope.io.images.zarr_nodes import ArrayLayout, Node, array_layout, check_inside, find_node, read_node, store_of
from dope.io.images.zarr_source import ZarrSource
from dope.io.lazy import Lazy

VERSIONS = {2: "0.4", 3: "0.5"}  # of OME-Zarr, by the format of Zarr that it is written in
_SAME = 1e-3  # of a site: far below what a shift would show
_LONGEST = 60  # of what an error repeats
_LONGEST_PATH = 255  # of a level within its image
_MOST_LEVELS = 64  # each is half of the one before along an axis


@dataclass(frozen=True)
class Axis:
    """An axis as the file has it; its role is time, channel or space."""

    entry: dict[str, Any]
    role: str

    @property
    def name(self) -> str:
        return str(self.entry["name"])


@dataclass(frozen=True)
class Level:
    """A resolution: its array within the group, and the transforms of its sites."""

    path: str
    transforms: list[dict[str, Any]]


@dataclass(frozen=True)
class OmeHeader:
    """The first multiscale of an OME-Zarr image."""

    group: Path
    zarr_format: Literal[2, 3]
    axes: tuple[Axis, ...]
    levels: tuple[Level, ...]
    transforms: list[dict[str, Any]]  # of all levels, after their own

    def places(self, role: str) -> list[int]:
        """Of the axes of a role."""
        return [place for place, axis in enumerate(self.axes) if axis.role == role]

    def grid(self) -> tuple[Spacing, Spacing]:
        """Size of a site of the finest level, and where the first one lies, along the axes of space."""
        scale, shift = np.ones(len(self.axes)), np.zeros(len(self.axes))
        for transform in [*self.levels[0].transforms, *self.transforms]:
            if transform["type"] == "scale":
                scale, shift = scale * transform["scale"], shift * transform["scale"]
            elif transform["type"] == "translation":
                shift = shift + transform["translation"]
        space = self.places("space")
        return tuple(scale[space].tolist()), tuple(shift[space].tolist())

    def differs_from(self, other: object) -> str | None:
        """In what another OME-Zarr image lies elsewhere."""
        if not isinstance(other, OmeHeader):
            return None
        (scale, shift), (their_scale, their_shift) = self.grid(), other.grid()
        for word, mine, theirs in (("scales", scale, their_scale), ("translations", shift, their_shift)):
            if any(abs(a - b) > _SAME * size for a, b, size in zip(mine, theirs, scale, strict=True)):
                return f"their OME-Zarr {word} are {spacing_text(mine)} and {spacing_text(theirs)}"
        return None


def load(path: Path, *, budget: int | None) -> Image:
    """Open the array, or the finest level of the image; nothing but metadata is read."""
    node, header = _found(path)
    layout = array_layout(node, budget)
    axes = _order(node, layout, header)
    pixels = Lazy(ZarrSource.of(node, layout), axes)
    if header is None:
        return Image(pixels, looks_colored(layout.shape, layout.dtype), None, path)
    return Image(pixels, len(axes) > len(header.places("space")), header.grid()[0], path, header)


def source(path: Path) -> Path:
    """The folder of the array that is read."""
    return _found(path)[0].folder


def describe(path: Path) -> Description:
    """From the metadata alone."""
    node, header = _found(path)
    layout = array_layout(node)
    axes = _order(node, layout, header)
    shape = tuple(layout.shape[axis] for axis in axes)
    colored = looks_colored(shape, layout.dtype) if header is None else len(shape) > len(header.places("space"))
    kind = f"Zarr {node.zarr_format}"
    return Description(
        path=path,
        format=kind if header is None else f"OME-Zarr {VERSIONS[node.zarr_format]}, {kind}",
        shape=shape[:-1] if colored else shape,
        channels=shape[-1] if colored else 1,
        dtype=layout.dtype.name,
        spacing=None if header is None else header.grid()[0],
        bytes=layout.bytes,
        details=_details(layout, header),
        chunks=tuple(layout.inner_chunks[axis] for axis in axes)[: len(shape) - colored],
    )


def read_header(node: Node) -> OmeHeader | None:
    """The image that a group describes; None where it describes none."""
    with reading(node.folder):
        entries = node.attributes.get("ome", {}) if node.zarr_format == 3 else node.attributes
        if node.is_array or "multiscales" not in entries:
            return None
        multiscale = entries["multiscales"][0]
        if len(multiscale["datasets"]) > _MOST_LEVELS:
            raise InputError(
                f"{node.folder}: an image of {len(multiscale['datasets']):,} levels; expected at most {_MOST_LEVELS}"
            )
        version = str((entries if node.zarr_format == 3 else multiscale).get("version", VERSIONS[node.zarr_format]))
        if not version.startswith(VERSIONS[node.zarr_format]):
            raise InputError(
                f"{node.folder}: OME-Zarr {version} in Zarr {node.zarr_format}; expected 0.4 in Zarr 2 or 0.5 in Zarr 3"
            )
        header = OmeHeader(
            group=node.folder,
            zarr_format=node.zarr_format,
            axes=tuple(_axis(node, entry) for entry in multiscale["axes"]),
            levels=tuple(
                Level(str(entry["path"]), entry.get("coordinateTransformations", []))
                for entry in multiscale["datasets"]
            ),
            transforms=multiscale.get("coordinateTransformations", []),
        )
        _check_header(header)
        return header


def level_node(header: OmeHeader, level: Level) -> Node:
    """The array of a level, which lies within the group."""
    folder = header.group / level.path
    if Path(level.path).is_absolute() or ".." in Path(level.path).parts or len(level.path) > _LONGEST_PATH:
        raise InputError(
            f"{header.group}: its level {level.path[:_LONGEST]!r} leads out of it; only what lies in a store is read"
        )
    with reading(header.group):
        check_inside(folder, store_of(header.group))
    node = read_node(folder)
    if node.zarr_format != header.zarr_format:
        raise InputError(f"{folder}: in Zarr format {node.zarr_format}, but its image is in {header.zarr_format}")
    return node


def _found(path: Path) -> tuple[Node, OmeHeader | None]:
    """The array that a path means, and the image it is a level of."""
    node = read_node(path)
    if node.is_array:
        return node, _header_above(node)
    header = read_header(node)
    if header is None:
        names = sorted(entry.name for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
        inside = f"; name what is meant within it, such as {path / names[0]}" if names else ""
        raise InputError(f"{path}: a Zarr group that is no OME-Zarr image{inside}")
    return level_node(header, header.levels[0]), header


def _header_above(node: Node) -> OmeHeader | None:
    """The image that an array is a level of, as though it had only this one."""
    store = store_of(node.folder)
    if node.folder == store:
        return None
    group = find_node(node.folder.parent)
    header = read_header(group) if group is not None else None
    for level in header.levels if header is not None else ():
        if header is not None and level.path == node.folder.name:
            return OmeHeader(header.group, header.zarr_format, header.axes, (level,), header.transforms)
    return None


def _axis(node: Node, entry: Any) -> Axis:
    if not isinstance(entry, dict):
        raise InputError(f"{node.folder}: its axes have no types, as before OME-Zarr 0.4; convert it to 0.4 or 0.5")
    name = str(entry["name"])
    role = str(entry.get("type") or {"t": "time", "c": "channel"}.get(name, "space"))
    if role not in ("time", "channel", "space"):
        raise InputError(f"{node.folder}: its axis {name} is of type {role}; expected time, channel or space")
    return Axis(entry, role)


def _check_header(header: OmeHeader) -> None:
    roles = [axis.role for axis in header.axes]
    if roles.count("time") > 1 or roles.count("channel") > 1 or not 1 <= roles.count("space") <= 3:
        raise InputError(f"{header.group}: has the axes {_names(header.axes)}; expected at most t, c, z, y and x")
    if not header.levels:
        raise InputError(f"{header.group}: an OME-Zarr image without levels")
    for transform in [*header.transforms, *(one for level in header.levels for one in level.transforms)]:
        _check_transform(header, transform)
    if not all(0 < size < math.inf for size in header.grid()[0]):
        raise InputError(f"{header.group}: declares the scale {header.grid()[0]}; expected sizes above zero")


def _check_transform(header: OmeHeader, transform: dict[str, Any]) -> None:
    kind = transform["type"]
    if kind == "identity":
        return
    values = transform.get(kind) if kind in ("scale", "translation") else None
    if not (isinstance(values, list) and len(values) == len(header.axes) and all(map(_is_number, values))):
        shown = f"{str(kind)[:_LONGEST]!r} of {str(values)[:_LONGEST]}"
        raise InputError(f"{header.group}: has a transform {shown}; expected a scale or translation, a number per axis")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _order(node: Node, layout: ArrayLayout, header: OmeHeader | None) -> tuple[int, ...]:
    """The array's axes in the order of sites and channels."""
    if header is None:
        return tuple(range(len(layout.shape)))
    if len(header.axes) != len(layout.shape):
        raise InputError(f"{node.folder}: shaped {layout.shape}, but the axes of its image are {_names(header.axes)}")
    for place in header.places("time"):
        if layout.shape[place] > 1:
            raise InputError(
                f"{node.folder}: a series of {layout.shape[place]} moments; save the one that is meant alone"
            )
    channels = [place for place in header.places("channel") if layout.shape[place] > 1]
    return (*header.places("space"), *channels)


def _names(axes: Sequence[Axis]) -> str:
    return "".join(axis.name for axis in axes)[:_LONGEST]


def _details(layout: ArrayLayout, header: OmeHeader | None) -> dict[str, str]:
    details = {
        "chunks": " x ".join(map(str, layout.chunks)),
        "compression": ", ".join(codec for codec in layout.codecs if codec != "bytes") or "none",
    }
    if header is None:
        return details
    shapes = [array_layout(level_node(header, level)).shape for level in header.levels]
    details["axes"] = _names(header.axes)
    details["units"] = ", ".join(str(header.axes[place].entry.get("unit", "none")) for place in header.places("space"))
    details["levels"] = ", ".join(" x ".join(map(str, shape)) for shape in shapes)
    return details
