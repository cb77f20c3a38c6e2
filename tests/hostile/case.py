"""A hostile file, and the commands that meet it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SEGMENT = ("segment", "{file}", "--rectangle", "1:7,1:7", "-o", "{out}", "--memory", "200MB", "--workers", "2")
IMAGE = (("info", "{file}"), SEGMENT)
STROKES = (("segment", "{image}", "--scribbles", "{file}", "-o", "{out}", "--memory", "200MB", "--workers", "2"),)
ENERGY = (("minimize", "{file}", "-o", "{out}", "--workers", "2"),)
CERTIFICATE = (("certificate", "{file}"),)


@dataclass(frozen=True)
class Case:
    """What to write where, and what to call.

    `harmless` says why a file may as well be taken: what is hostile in it is never looked at, or is small enough.
    `info` may always do so, as it looks at headers alone.
    """

    name: str
    file: str
    write: Callable[[Path], object]
    commands: tuple[tuple[str, ...], ...] = IMAGE
    harmless: str = ""

    def may_be_taken(self, command: tuple[str, ...]) -> bool:
        return bool(self.harmless) or command[0] == "info"


def content(data: bytes | Callable[[], bytes]) -> Callable[[Path], object]:
    """A file of these bytes, or of those that are made when it is written."""
    return lambda path: path.write_bytes(data if isinstance(data, bytes) else data())
