"""Packages that are installed only where they are wanted."""

from __future__ import annotations

import importlib

from dope.errors import MissingExtraError

_PACKAGES = {
    "dask": "distributed",
    "dwave": "dwave.samplers",
    "nifti": "nibabel",
    "opengm": "h5py",
    "tiff": "tifffile",
    "zarr": "zarr",
}


def require_extra(extra: str, purpose: str) -> None:
    """Refuse, with the command that helps, where the package of an extra cannot be imported."""
    package = _PACKAGES[extra]
    try:
        importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs the package {package}, which is not installed; run: pip install 'dope[{extra}]'"
        ) from error
