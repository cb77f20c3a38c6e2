"""Energies as text."""

from collections.abc import Iterator

from hostile.case import ENERGY, Case, content

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
    many = 1 << 20
    yield "gset-a-million", f"{many} 0\n".encode(), "a million sites, which are promised"
    for magic in (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"):
        yield f"packed-{magic.hex()}", magic + bytes(100), ""


def cases() -> Iterator[Case]:
    for name, data, harmless in _texts():
        yield Case(f"energy-{name}", "a.txt", content(data), ENERGY, harmless)
