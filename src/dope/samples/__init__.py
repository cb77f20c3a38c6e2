"""A photo with strokes that comes with the package; README.md beside it says where it is from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path


@dataclass(frozen=True)
class Sample:
    """A photo and the strokes drawn on it, as files."""

    photo: Path
    scribbles: Path


@contextmanager
def canyon_wren() -> Iterator[Sample]:
    """A wren on a rock, 3840 x 2160 pixels: the object is wren and rocks, the background the sky.

    The files are there while the context is open, also when the package itself is kept in an archive.
    """
    folder = files("dope.samples")
    with (
        as_file(folder / "canyon-wren.jpg") as photo,
        as_file(folder / "canyon-wren.json") as scribbles,
    ):
        yield Sample(photo, scribbles)
