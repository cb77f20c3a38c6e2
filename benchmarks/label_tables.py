"""The tables of docs/labels.md, from what labels.py, labels_large.py and total_variation.py have measured.

python benchmarks/label_tables.py
"""

from __future__ import annotations

from statistics import median
from typing import Any

from lines import PROJECT, RESULTS, Record, read
from tables import between, markdown

PAGE = PROJECT / "docs" / "labels.md"
NAMES = {
    "dope": "`Moves(bound=0)`",
    "dope, 1 cycle": "`Moves(bound=0, cycles=1)`",
    "dope, 2 cycles": "`Moves(bound=0, cycles=2)`",
    "dope, default": "`minimize(energy)`",
    "dope, slow": "`Moves(bound=500)`",
    "gco expansion": "gco-wrapper, expansion",
    "gco swap": "gco-wrapper, swap",
    "fastmin expansion": "PyMaxflow, expansion",
    "fastmin swap": "PyMaxflow, swap",
}


def main() -> None:
    tables = {
        "peers": peers(read(RESULTS / "labels.jsonl")),
        "large": large(read(RESULTS / "labels_large.jsonl")),
        "crop": crop(read(RESULTS / "labels_large.jsonl")),
        "tv": total_variation(read(RESULTS / "total_variation.jsonl")),
    }
    text = PAGE.read_text(encoding="utf-8")
    for mark, table in tables.items():
        text = between(text, mark, table)
    PAGE.write_text(text, encoding="utf-8")


def peers(records: list[Record]) -> str:
    """Of each case, and of each solver, the runs of its newest commit."""
    rows = []
    for case in dict.fromkeys(r["case"] for r in records):
        runs: dict[str, list[Record]] = {}
        for r in records:
            if r["case"] == case:
                runs.setdefault(r["solver"], []).append(r)
        newest = {name: [r for r in those if r["commit"] == those[-1]["commit"]] for name, those in runs.items()}
        solved = {name: [r for r in those if "energy" in r] for name, those in newest.items()}
        theirs = [median(r["seconds"] for r in those) for name, those in solved.items() if those and "gco" in name]
        for name, those in newest.items():
            rows.append([case, NAMES[name], *_cells(solved[name], those, min(theirs, default=None))])
    return markdown(["case", "by", "energy", "lower bound", "gap", "seconds", "times as fast as gco"], rows, left=2)


def _cells(solved: list[Record], runs: list[Record], yardstick: float | None) -> list[str]:
    if not solved:
        return [_reason(runs[-1]["failed"]), "", "", "", ""]
    last, seconds = solved[-1], median(r["seconds"] for r in solved)
    bound = last["bound"]
    gap = "" if bound is None else f"{100 * (last['energy'] - bound) / abs(last['energy']):.3g} %"
    times = "" if yardstick is None else f"{yardstick / seconds:.1f}"
    return [f"{last['energy']:,}", "" if bound is None else f"{bound:,.0f}", gap, f"{seconds:.2f}", times]


def _reason(failed: str) -> str:
    if "one table" in failed:
        return "weights differ: not offered"
    return "ends the interpreter" if "terminate" in failed else failed


def large(records: list[Record]) -> str:
    """Of each case the newest line."""
    keys = ("case", "solver", "neighbors", "by", "blocks", "memory", "side", "noise", "lam")
    newest = {tuple(r.get(k) for k in keys): r for r in records if r["case"] != "crop"}
    head = ["case", "neighbours", "blocks", "seconds", "peak memory", "proved", "open after cuts", "gap"]
    return markdown(head, [_large_row(r) for r in newest.values()])


def _large_row(r: Record) -> list[str]:
    names: dict[str, Any] = {
        "mni": "MNI152, 3 classes",
        "brain": f"head 256^3, 18 classes, `{r.get('by')}`",
        "tiled": f"head {r.get('side')}^3, 4 classes, Zarr",
        "opengm": f"OpenGM's triplepoint4-plain-ring, 4 labels, `{r.get('solver')}()`",
        "potts": f"2048^2, 8 labels, {r.get('noise')}",
    }
    allowed = f', `memory="{r["memory"]}"`' if r.get("memory") else ""
    gap = "exact" if r["exact"] else "unknown" if r["gap_percent"] is None else f"{r['gap_percent']:.2g} %"
    return [
        names[r["case"]] + allowed,
        r.get("neighbors") or "8",
        " x ".join(map(str, r["layout"])),
        f"{r['seconds']:.1f}",
        f"{r['peak_bytes'] / 1e9:.2f} GB",
        "" if r["proved"] is None else f"{100 * r['proved']:.3f} %",
        "" if r["open_after_cuts"] is None else f"{r['open_after_cuts']:,}",
        gap,
    ]


def crop(records: list[Record]) -> str:
    """dope and gco-wrapper on the box of the head: the newest line of each."""
    newest = {(r["neighbors"], r["solver"]): r for r in records if r["case"] == "crop"}
    rows = []
    for (neighbors, solver), r in newest.items():
        beside = newest.get((neighbors, "gco"))
        times = "" if beside is None else f"{beside['seconds'] / r['seconds']:.1f}"
        proved = f"{100 * r['proved']:.2f} %" if "proved" in r else ""
        memory = f"{r['peak_bytes'] / 1e9:.2f} GB"
        rows.append([neighbors, solver, f"{r['energy']:,}", proved, f"{r['seconds']:.1f}", times, memory])
    head = ["neighbours", "by", "energy", "proved", "seconds", "times as fast as gco", "peak memory"]
    return markdown(head, rows, left=2)


def total_variation(records: list[Record]) -> str:
    """Of each case and norm the newest line."""
    newest = {(r["case"], r["norm"]): r for r in records}
    rows = [
        [
            " x ".join(map(str, r["shape"])),
            f"`{r['norm']}`",
            f"{r['lam']:g}",
            f"{r['seconds']:.2f}",
            *(f"{r[f'times_the_{which}']:.1f}" for which in ("first", "median", "hardest")),
        ]
        for r in newest.values()
    ]
    return markdown(
        ["image", "norm", "lam", "seconds", "times the first cut", "the median", "the hardest"], rows, left=2
    )


if __name__ == "__main__":
    main()
