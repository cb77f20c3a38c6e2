"""Writing labels as Zarr: on their own, or among the labels of an OME-Zarr image.

`out.zarr` becomes an array of Zarr format 3, or, for labels on an OME-Zarr image, an image of its own with the levels
and transforms of that one. `image.ome.zarr/labels/NAME` is added to the image. Everything is written under a hidden
name and renamed when it is whole; only then is it listed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from dope.arrays import Labels
from dope.durable import check_folder, hidden_folder, replacing_folder, take_place, write_text
from dope.errors import InputError
from dope.io.content import NewLabels, Shape
from dope.io.images.ome_zarr import VERSIONS, OmeHeader, level_node, read_header
from dope.io.images.zarr_draft import ZarrDraft, create
from dope.io.images.zarr_nodes import Node, array_layout, check_inside, find_node, read_json, read_node, store_of
from dope.palette import label_colors

_LABELS = "labels"
_FOREGROUND_COLOR = (255, 0, 0)
_MOST_COLORS = 256  # that are listed; a viewer has its own for the rest


def check_target(path: Path, overwrite: bool) -> None:
    """Refuse a place where labels could not be written."""
    store = store_of(path)
    if path != store:
        check_inside(path, store)
        _image_of(path)
    if (path.exists() or path.is_symlink()) and not overwrite:
        raise InputError(f"{path}: there already; choose another name, or ask for it to be replaced (overwrite)")
    if path.exists() and (path.is_symlink() or not path.is_dir() or find_node(path) is None):
        raise InputError(f"{path}: there already, and no Zarr array or group; it is not replaced. Choose another name")
    # What is missing of a new label's place is one folder at most, `labels`.
    check_folder(path if path.parent.is_dir() or path == store else path.parent)


def save(new: NewLabels, labels: Labels) -> None:
    """Write labels as uint8 or uint16, two of them as 0 and 1."""
    with drafting(new) as draft:
        draft.write(tuple(slice(0, length, 1) for length in labels.shape), labels)


@contextmanager
def drafting(new: NewLabels) -> Iterator[ZarrDraft]:
    """The same, box by box; its chunks are those of the finest level."""
    if new.path != store_of(new.path):
        with _adding(new) as draft:
            yield draft
        return
    header = new.like.header if new.like is not None and isinstance(new.like.header, OmeHeader) else None
    with replacing_folder(new.path, overwrite=new.overwrite) as folder:
        if header is None:
            create(folder, new.shape, 3, None, new.chunks, new.integer_type)
            draft = ZarrDraft(folder.absolute(), 3, tuple(range(len(new.shape))), new.label_type)
            yield draft
            draft.finish()
        else:
            with _image(folder, new, header, name=new.path.stem) as draft:
                yield draft


def _image_of(path: Path) -> OmeHeader:
    """The image to whose labels a path belongs."""
    image, name = path.parent.parent, path.name
    inside = path.relative_to(store_of(path)).parts
    if len(inside) < 2 or inside[-2] != _LABELS or name.startswith((".", "__")) or name == "zarr.json":
        raise InputError(f"{path}: no place for labels; write to a new NAME.zarr or to IMAGE.ome.zarr/labels/NAME")
    header = read_header(read_node(image))
    if header is None:
        raise InputError(f"{image}: no OME-Zarr image; labels can be added to one only")
    group = find_node(path.parent)
    if path.parent.exists() and (group is None or group.is_array or group.zarr_format != header.zarr_format):
        raise InputError(f"{path.parent}: there already, and no Zarr group of labels; move it away first")
    return header


@contextmanager
def _adding(new: NewLabels) -> Iterator[ZarrDraft]:
    path = new.path
    header = _image_of(path)
    label = {"image-label": _image_label(header, new.label_count)}
    # Beside the group of labels: others may make that one in the meantime.
    with hidden_folder(path.parent.parent / path.name) as folder:
        with _image(folder, new, header, name=path.name, label=label) as draft:
            yield draft
        group = find_node(path.parent)
        if group is None:
            with replacing_folder(path.parent, overwrite=False) as labels:
                folder.rename(labels / path.name)
                _write_group(labels, header.zarr_format, {_LABELS: [path.name]})
        else:
            take_place(folder, path, overwrite=new.overwrite)
            _list(group, path.name)
    _consolidate(path)


def _image_label(header: OmeHeader, label_count: int) -> dict[str, Any]:
    several = label_colors(min(label_count, _MOST_COLORS))[1:].tolist()
    colors = several if label_count > 2 else [_FOREGROUND_COLOR]
    return {
        "version": VERSIONS[header.zarr_format],
        "colors": [{"label-value": label, "rgba": [*color, 255]} for label, color in enumerate(colors, start=1)],
        "source": {"image": "../../"},
    }


@contextmanager
def _image(
    folder: Path,
    new: NewLabels,
    header: OmeHeader,
    *,
    name: str,
    label: dict[str, Any] | None = None,
) -> Iterator[ZarrDraft]:
    """An image with the levels of another one, and its axes but for channels; `label` are its further entries.

    The finest level is written in the block, the others follow from it.
    """
    axes = [place for place, axis in enumerate(header.axes) if axis.role != "channel"]
    names = [header.axes[place].name for place in axes]
    finest, *coarser = [tuple(level[place] for place in axes) for level in _level_shapes(header)]
    sites = tuple(number for number, place in enumerate(axes) if place in header.places("space"))
    fitting = tuple(finest[number] for number in sites)
    if new.shape != fitting:
        raise InputError(f"labels shaped {new.shape} do not lie on {header.group}, which is shaped {fitting}")
    create(
        folder / "0", finest, header.zarr_format, names, _with_others(new.chunks, sites, len(axes)), new.integer_type
    )
    draft = ZarrDraft((folder / "0").absolute(), header.zarr_format, sites, new.label_type)
    yield draft
    draft.finish()
    for number, level in enumerate(coarser, start=1):
        draft.resampled(folder / str(number), names, level)
    # Last, because a folder becomes a group, and visible to a reader who looks into hidden ones, by this.
    _write_group(folder, header.zarr_format, {"multiscales": [_multiscale(header, axes, name)], **(label or {})})


def _with_others(chunks: Shape | None, sites: Shape, rank: int) -> Shape | None:
    """Chunks with a length of 1 along the axes that are not of sites."""
    if chunks is None:
        return None
    lengths = [1] * rank
    for axis, length in zip(sites, chunks, strict=True):
        lengths[axis] = length
    return tuple(lengths)


def _multiscale(header: OmeHeader, axes: list[int], name: str) -> dict[str, Any]:
    multiscale: dict[str, Any] = {
        "name": name,
        "axes": [header.axes[place].entry for place in axes],
        "datasets": [
            {"path": str(number), "coordinateTransformations": _of_axes(level.transforms, axes)}
            for number, level in enumerate(header.levels)
        ],
    }
    if header.transforms:
        multiscale["coordinateTransformations"] = _of_axes(header.transforms, axes)
    if header.zarr_format == 2:
        multiscale["version"] = VERSIONS[2]
    return multiscale


def _level_shapes(header: OmeHeader) -> list[Shape]:
    return [array_layout(level_node(header, level)).shape for level in header.levels]


def _of_axes(transforms: list[dict[str, Any]], axes: list[int]) -> list[dict[str, Any]]:
    """The transforms without the axes that are not kept."""
    return [
        {
            key: [value[place] for place in axes] if isinstance(value, list) else value
            for key, value in transform.items()
        }
        for transform in transforms
    ]


def _write_group(folder: Path, zarr_format: Literal[2, 3], entries: dict[str, Any]) -> None:
    if zarr_format == 2:
        _write_json(folder / ".zattrs", entries)
        _write_json(folder / ".zgroup", {"zarr_format": 2})
    else:
        attributes = {"ome": {"version": VERSIONS[3], **entries}}
        _write_json(folder / "zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": attributes})


def _write_json(path: Path, content: dict[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=2))


def _list(group: Node, name: str) -> None:
    """Add a name to what the group of labels says it holds; the rest of it stays."""
    if group.zarr_format == 2:
        attributes = {**group.attributes}
        attributes[_LABELS] = _with_name(attributes.get(_LABELS), name)
        _write_json(group.folder / ".zattrs", attributes)
        return
    ome = {"version": VERSIONS[3], **group.attributes.get("ome", {})}
    ome[_LABELS] = _with_name(ome.get(_LABELS), name)
    metadata = {**group.metadata, "attributes": {**group.attributes, "ome": ome}}
    _write_json(group.folder / "zarr.json", metadata)


def _with_name(names: Any, name: str) -> list[Any]:
    known = names if isinstance(names, list) else []
    return known if name in known else [*known, name]


def _consolidate(path: Path) -> None:
    """Take the label into the metadata that groups above it keep of all below them, where they do.

    Readers who find such a copy look nowhere else.
    """
    store = store_of(path)
    for folder in path.parents[1:]:
        if not folder.is_relative_to(store):
            return
        node = find_node(folder)
        if node is not None and node.zarr_format == 2 and (folder / ".zmetadata").is_file():
            content = read_json(folder / ".zmetadata")
            content["metadata"] = _refreshed(content.get("metadata"), folder, path, per_file=True)
            _write_json(folder / ".zmetadata", content)
        elif node is not None and isinstance(node.metadata.get("consolidated_metadata"), dict):
            copies = node.metadata["consolidated_metadata"]
            copies = {**copies, "metadata": _refreshed(copies.get("metadata"), folder, path, per_file=False)}
            _write_json(folder / "zarr.json", {**node.metadata, "consolidated_metadata": copies})


def _refreshed(copies: Any, folder: Path, path: Path, *, per_file: bool) -> dict[str, Any]:
    """The copies that a folder keeps, with those of a label as they are now."""
    label = path.relative_to(folder).as_posix()
    kept = {name: copy for name, copy in (copies or {}).items() if not f"{name}/".startswith(f"{label}/")}
    for file in (*_metadata_files(path.parent, deep=False), *_metadata_files(path, deep=True)):
        place = file.relative_to(folder)
        kept[(place if per_file else place.parent).as_posix()] = read_json(file)
    return kept


def _metadata_files(folder: Path, *, deep: bool) -> Iterator[Path]:
    for name in ("zarr.json", ".zgroup", ".zarray", ".zattrs"):
        yield from folder.glob(f"*/{name}" if deep else name)
        if deep and (folder / name).is_file():
            yield folder / name
