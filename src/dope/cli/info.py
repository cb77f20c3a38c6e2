"""`dope info`: what is in a file, without reading its pixels."""

from __future__ import annotations

from typing import Annotated

import typer

from dope.cli.tables import print_rows
from dope.io import describe
from dope.memory import as_text


def info(file: Annotated[str, typer.Argument(help="An image or volume of any format that dope reads.")]) -> None:
    """Say what is in a file: shape, type, spacing, size."""
    found = describe(file)
    rows = {
        "file": str(found.path),
        "format": found.format,
        "sites": " x ".join(map(str, found.shape)),
        "channels": str(found.channels),
        "type": found.dtype,
        "spacing": "not known" if found.spacing is None else " x ".join(f"{s:g}" for s in found.spacing),
        "size in memory": as_text(found.bytes),
    }
    print_rows({**rows, **found.details})
