"""Energies as text, and models in HDF5."""

import io
import itertools
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import h5py
import numpy as np

from hostile.case import ENERGY, Case, content
from opengm_files import TABLE, opengm

_GOOD = {
    "gset": "3 3\n1 2 1\n2 3 1\n1 3 1\n",
    "qubo": "p qubo 0 3 1 2\n0 0 1\n0 1 -1\n1 2 1\n",
    "uai": "MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2 2 1\n",
    "dimacs": "p max 3 2\nn 1 s\nn 3 t\na 1 2 5\na 2 3 4\n",
}
_HEADERS = {
    "gset": "{sites} {pairs}\n",
    "qubo": "p qubo 0 {sites} {pairs} {pairs}\n",
    "uai": "MARKOV\n{sites}\n2 2\n{pairs}\n",
    "dimacs": "p max {sites} {pairs}\nn 1 s\nn 2 t\n",
}
_LINES = {"gset": "1 2 {}\n", "qubo": "0 1 {}\n", "uai": "1 0\n2\n1 {}\n", "dimacs": "a 1 2 {}\n"}


def _texts() -> Iterator[tuple[str, bytes, str]]:
    for kind, header in _HEADERS.items():
        for sites in (10**9, 2**31, 2**63, 10**17, 0, "9" * 400, "-3", "1e9", "x"):
            yield f"{kind}-sites-{str(sites)[:12]}", header.format(sites=sites, pairs=0).encode(), ""
        for pairs in (10**9, 2**63, "9" * 400, "-1", "1.5"):
            yield f"{kind}-pairs-{str(pairs)[:12]}", header.format(sites=3, pairs=pairs).encode(), ""
        head = header.format(sites=3, pairs=1)
        for value in ("nan", "inf", "1e999", "9" * 400, "x", "1_0", "0x1", "\u0661", "", "1 1 1 1"):
            yield f"{kind}-value-{value[:8]}", (head + _LINES[kind].format(value)).encode(), ""
        good = _GOOD[kind]
        yield f"{kind}-one-long-line", good.encode().replace(b"\n", b" ") * 20000, ""
        yield f"{kind}-long-number", head.encode() + b"1" * 2_000_000, ""
        yield f"{kind}-long-comment", b"c" + b" c" * 1_000_000 + b"\n" + good.encode(), "a comment"
        yield f"{kind}-long-word", b"x" * 1_000_000, ""
        yield f"{kind}-spaces", b" " * 1_000_000, ""
        yield f"{kind}-lines", b"\n" * 1_000_000, ""
        yield f"{kind}-nul", good.encode() + bytes(1000), ""
        yield f"{kind}-not-ascii", good.encode() + bytes(range(128, 256)), ""
        yield f"{kind}-escapes", b"\x1b[31m\x07" + good.encode(), ""
        yield f"{kind}-cut", good[:-6].encode(), ""
        yield f"{kind}-twice", (good * 2).encode(), ""
    states = "1024 " * 20_000
    yield "uai-states-1024", f"MARKOV\n20000\n{states}\n0\n".encode(), ""
    yield "uai-states-many", b"MARKOV\n2\n1e300 1e300\n0\n", ""
    many = 1 << 20
    yield "gset-a-million", f"{many} 0\n".encode(), "a million sites, which are promised"
    for magic in (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"):
        yield f"packed-{magic.hex()}", magic + bytes(100), ""


def model(**changes: Any) -> bytes:
    """A model of three labels, with what is said in place of its own."""
    good = {
        "states": [3] * 4,
        "factors": [(TABLE, 0, [0]), (16006, 0, [0, 1]), (16006, 0, [1, 2])],
        "functions": {TABLE: [[0.0, 1.0, 2.0]], 16006: [[0.0, 1.0]]},
    }
    return bytes(opengm(**{**good, **changes}))


def _with(name: str, make: Callable[[Any], object]) -> bytes:
    """The model with another dataset in place of one of its own."""
    stream = io.BytesIO(model())
    with h5py.File(stream, "a") as file:
        del file["gm"][name]
        make(file["gm"])
    return stream.getvalue()


def _bomb(length: int) -> Callable[[Any], object]:
    def make(group: Any) -> None:
        found = group.create_dataset("factors", (4,), np.uint64, chunks=(4,), compression="gzip")
        found.id.write_direct_chunk((0,), zlib.compress(bytes(length), 9))

    return make


def _models() -> Iterator[tuple[str, bytes, str]]:
    many = 10**9
    yield "states-1024", model(states=[1024] * 12_000, factors=[], functions={}), ""
    yield "states-many", model(states=[1024] * 200_000, factors=[], functions={}, compression="gzip"), ""
    yield "bomb", _with("factors", _bomb(1 << 28)), ""
    yield "bomb-of-a-byte", _with("factors", _bomb(33)), ""
    for place, value in itertools.product(range(7), (0, many, 2**63, 2**64 - 1)):
        head = [2, 0, 4, 3, 2, TABLE, 1, 16006, 1, 1]
        head[place] = value
        harmless = "the minor version" if place == 1 else ""
        yield f"header-{place}-{value}", model(header=np.array(head, np.uint64)), harmless
    for name in ("factors", "numbers-of-states", "header"):
        for length in (1 << 20, many, 1 << 60):
            empty = _with(name, lambda group, n=name, k=length: group.create_dataset(n, (k,), np.uint64))
            yield f"{name}-never-written-{length}", empty, ""
            chunks = _with(
                name, lambda group, n=name, k=length: group.create_dataset(n, (k,), np.uint8, chunks=(1 << 16,))
            )
            yield f"{name}-chunks-never-written-{length}", chunks, ""
        zeros = _with(name, lambda group, n=name: group.create_dataset(n, data=np.zeros(1 << 22), compression="gzip"))
        yield f"{name}-zeros", zeros, ""
        link = _with(name, lambda group, n=name: group.__setitem__(n, h5py.ExternalLink("/dev/zero", "/gm")))
        yield f"{name}-elsewhere", link, ""
        files = _with(
            name, lambda group, n=name: group.create_dataset(n, (8,), np.uint64, external=[("/dev/zero", 0, 64)])
        )
        yield f"{name}-of-a-device", files, ""
    wide = [(16003, k % 2, [k, k + 1]) for k in range(2000)]
    rules = {16003: [[1.5, 1.0], [2.5, 1.0]]}
    yield "tables-of-rules", model(states=[1024] * 2001, factors=wide, functions=rules), ""


def cases() -> Iterator[Case]:
    for name, data, harmless in _models():
        yield Case(f"energy-opengm-{name}", "a.h5", content(data), (*ENERGY, ("info", "{file}")), harmless)
    for name, data, harmless in _texts():
        yield Case(f"energy-{name}", "a.txt", content(data), ENERGY, harmless)
