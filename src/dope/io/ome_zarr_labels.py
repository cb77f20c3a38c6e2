"""Writing labels as Zarr: on their own, or among the labels of an OME-Zarr image.

`out.zarr` becomes an array of Zarr format 3, or, for labels on an OME-Zarr image, an image of its own with the levels
and transforms of that one. `image.ome.zarr/labels/NAME` is added to the image. Everything is written under a hidden
name and renamed when it is whole; only then is it listed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dope.arrays import Labels
from dope.errors import InputError
from dope.io.content import Image, Shape
from dope.io.files import check_folder, replacing, replacing_folder
from dope.io.ome_zarr import VERSIONS, OmeHeader, level_node, read_header
from dope.io.zarr_nodes import Node, array_layout, check_inside, find_node, read_json, read_node, store_of

_LABELS = "labels"
# Bytes of a chunk, in any number of dimensions: 128 x 128 x 128 of uint8, which unpacks in some milliseconds.
_CHUNK_BYTES = 1 << 21
_FOREGROUND_COLOR = [255, 0, 0, 255]


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


def save(path: Path, labels: Labels, like: Image | None) -> None:
    """Write labels as uint8 of 0 and 1."""
    if path != store_of(path):
        _add(path, labels)
        return
    header = like.header if like is not None and isinstance(like.header, OmeHeader) else None
    with replacing_folder(path) as folder:
        if header is None:
            _write_array(folder, labels, 3, None)
        else:
            _write_image(folder, labels, header, name=path.stem)


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


def _add(path: Path, labels: Labels) -> None:
    header = _image_of(path)
    label = {"image-label": _image_label(header)}
    group = find_node(path.parent)
    if group is None:
        with replacing_folder(path.parent) as folder:
            (folder / path.name).mkdir()
            _write_image(folder / path.name, labels, header, name=path.name, label=label)
            _write_group(folder, header.zarr_format, {_LABELS: [path.name]})
    else:
        with replacing_folder(path) as folder:
            _write_image(folder, labels, header, name=path.name, label=label)
        _list(group, path.name)
    _consolidate(path)


def _image_label(header: OmeHeader) -> dict[str, Any]:
    return {
        "version": VERSIONS[header.zarr_format],
        "colors": [{"label-value": 1, "rgba": _FOREGROUND_COLOR}],
        "source": {"image": "../../"},
    }


def _write_image(
    folder: Path, labels: Labels, header: OmeHeader, *, name: str, label: dict[str, Any] | None = None
) -> None:
    """An image with the levels of another one, and its axes but for channels; `label` are its further entries."""
    axes = [place for place, axis in enumerate(header.axes) if axis.role != "channel"]
    names = [header.axes[place].name for place in axes]
    shapes = _level_shapes(header)
    sites = tuple(shapes[0][place] for place in header.places("space"))
    if labels.shape != sites:
        raise InputError(f"labels shaped {labels.shape} do not lie on {header.group}, which is shaped {sites}")
    datasets = []
    for number, (level, shape) in enumerate(zip(header.levels, shapes, strict=True)):
        values = _resampled(labels, tuple(shape[place] for place in header.places("space")))
        stored = values.reshape([shape[place] for place in axes])
        _write_array(folder / str(number), stored, header.zarr_format, names)
        datasets.append({"path": str(number), "coordinateTransformations": _of_axes(level.transforms, axes)})
    multiscale: dict[str, Any] = {
        "name": name,
        "axes": [header.axes[place].entry for place in axes],
        "datasets": datasets,
    }
    if header.transforms:
        multiscale["coordinateTransformations"] = _of_axes(header.transforms, axes)
    if header.zarr_format == 2:
        multiscale["version"] = VERSIONS[2]
    # Last, because a folder becomes a group, and visible to a reader who looks into hidden ones, by this.
    _write_group(folder, header.zarr_format, {"multiscales": [multiscale], **(label or {})})


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


def _resampled(labels: Labels, shape: Shape) -> Labels:
    """Of each site of a coarser grid the label at its centre: labels between two are none."""
    if labels.shape == shape:
        return labels
    picks = [
        ((np.arange(n) + 0.5) * (length / n)).astype(np.intp) for n, length in zip(shape, labels.shape, strict=True)
    ]
    for axis, pick in enumerate(picks):
        labels = labels.take(pick, axis=axis)
    return labels


def _write_array(folder: Path, labels: Labels, zarr_format: Literal[2, 3], names: list[str] | None) -> None:
    import zarr
    from zarr.storage import LocalStore

    side = round(_CHUNK_BYTES ** (1 / max(1, labels.ndim)))
    chunks = tuple(min(side, length) for length in labels.shape)
    array = zarr.create_array(
        LocalStore(folder),
        shape=labels.shape,
        chunks=chunks,
        dtype=np.uint8,
        fill_value=0,
        zarr_format=zarr_format,
        dimension_names=names if zarr_format == 3 else None,
        chunk_key_encoding={"name": "v2" if zarr_format == 2 else "default", "separator": "/"},
    )
    for low in range(0, len(labels), chunks[0]):
        array[low : low + chunks[0]] = labels[low : low + chunks[0]].view(np.uint8)


def _write_group(folder: Path, zarr_format: Literal[2, 3], entries: dict[str, Any]) -> None:
    if zarr_format == 2:
        _write_json(folder / ".zattrs", entries)
        _write_json(folder / ".zgroup", {"zarr_format": 2})
    else:
        attributes = {"ome": {"version": VERSIONS[3], **entries}}
        _write_json(folder / "zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": attributes})


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2))


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
