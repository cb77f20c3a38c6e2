"""A photo with strokes and a drawing that come with the package; README.md beside them says where they are from."""

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


@contextmanager
def dancer() -> Iterator[Path]:
    """A dancer in brush and ink, black on white, 600 x 849 pixels; the file is there while the context is open."""
    with as_file(files("dope.samples") / "dancer-ink.png") as drawing:
        yield drawing
