"""What stands where a file is expected: pipes, devices, folders, links that lead nowhere."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from hostile.case import CERTIFICATE, ENERGY, IMAGE, STROKES, Case

_REPORT = (("compare", "{image}", "{image}", "--run", "{file}"),)
_COSTS = (("plan", "64x64", "--costs", "{file}"),)


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


def _linked(target: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(target)


def _sparse(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(10**10)


PLACES: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "socket": _socket,
    "zero": _linked("/dev/zero"),
    "full": _linked("/dev/full"),
    "tty": _linked("/dev/tty"),
    "kmsg": _linked("/proc/kmsg"),
    "memory": _linked("/proc/self/mem"),
    "folder": lambda path: path.mkdir(),
    "circle": lambda path: path.symlink_to(path.name),
    "nowhere": _linked("/no/such/place"),
    "empty": lambda path: path.touch(),
    "10GB-of-nothing": _sparse,
}
_KINDS = {
    **{
        suffix: (f"a{suffix}", IMAGE) for suffix in (".png", ".jpg", ".tif", ".npy", ".npz", ".nii", ".nii.gz", ".zarr")
    },
    "strokes": ("a.json", STROKES),
    "strokes.png": ("a.png", STROKES),
    "energy": ("a.txt", ENERGY),
    "certificate": ("a.npz", CERTIFICATE),
    "report": ("a.json", _REPORT),
}


def cases() -> Iterator[Case]:
    for kind, (file, commands) in _KINDS.items():
        for place, make in PLACES.items():
            yield Case(f"place-{kind}-{place}", file, make, commands)
