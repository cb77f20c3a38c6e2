"""Good files with some bytes altered: they are read or refused, and neither takes long."""

import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from hostile.arrays import archive, nifti1, npy
from hostile.case import ENERGY, IMAGE, STROKES, Case
from hostile.energies import _GOOD as ENERGIES
from hostile.energies import model
from hostile.pictures import IDAT, IEND, ihdr, jpeg, png
from hostile.strokes import GOOD as STROKES_JSON
from hostile.tiffs import ome, tiff
from hostile.zarrs import _LITTLE, array, metadata_2, metadata_3

EACH = 24
_HARMLESS = "altered where it does not matter"


def _good() -> dict[str, tuple[str, bytes, tuple[tuple[str, ...], ...]]]:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (8, 8), }\n"
    numbers = np.linspace(0, 1, 64, dtype=np.float32).tobytes()
    stream = io.BytesIO()
    np.savez_compressed(stream, a=np.linspace(0, 1, 64).reshape(8, 8))
    return {
        "png": ("a.png", png(ihdr(), IDAT, IEND), IMAGE),
        "jpeg": ("a.jpg", jpeg(), IMAGE),
        "progressive": ("a.jpg", jpeg(progressive=True), IMAGE),
        "tiff": ("a.tif", tiff(), IMAGE),
        "bigtiff": ("a.tif", tiff(big=True, order=">"), IMAGE),
        "ome-tiff": ("a.ome.tif", ome(), IMAGE),
        "npy": ("a.npy", npy(header, numbers), IMAGE),
        "npz": ("a.npz", stream.getvalue(), IMAGE),
        "npz-stored": ("a.npz", archive({"a.npy": npy(header, numbers)}, zipfile.ZIP_STORED), IMAGE),
        "nifti": ("a.nii", nifti1() + numbers, IMAGE),
        "nifti-gz": ("a.nii.gz", gzip.compress(nifti1() + numbers, mtime=0), IMAGE),
        "strokes": ("a.json", json.dumps(STROKES_JSON).encode(), STROKES),
        "opengm": ("a.h5", model(), ENERGY),
        "opengm-gzip": ("a.h5", model(chunks=(2,), compression="gzip", shuffle=True), ENERGY),
        **{kind: ("a.txt", text.encode(), ENERGY) for kind, text in ENERGIES.items()},
    }


def altered(data: bytes, seed: int) -> bytes:
    """Cut, or with a bit, a byte, or some bytes changed, by a seed."""
    random = np.random.default_rng(seed)
    at = int(random.integers(len(data)))
    kind = seed % 4
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([data[at] ^ 1 << int(random.integers(8))]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + random.bytes(4) + data[at + 4 :]
    return data[:at] + b"\xff" * 4 + data[at + 4 :]


def _written(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def cases() -> Iterator[Case]:
    for kind, (file, data, commands) in _good().items():
        for seed in range(EACH):
            yield Case(f"altered-{kind}-{seed}", file, _written(altered(data, seed)), commands, _HARMLESS)
    packed = gzip.compress(bytes(256), mtime=0)
    new = metadata_3(codecs=[_LITTLE, {"name": "gzip", "configuration": {"level": 1}}])
    for seed in range(EACH):
        yield Case(f"altered-zarr-chunk-{seed}", "a.zarr", array(new, altered(packed, seed)), harmless=_HARMLESS)
        text = altered(json.dumps(metadata_2()).encode(), seed)
        yield Case(f"altered-zarr-metadata-{seed}", "a.zarr", array(text), harmless=_HARMLESS)
