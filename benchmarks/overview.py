"""dope beside everyone, on one page: docs/benchmarks.md, from the lines of flow.py, growth.py and signed.py.

python benchmarks/overview.py            # tables and figures into the page
python benchmarks/overview.py --table    # print the tables
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import growth_tables
import lines
import signed
import signed_peers
import tables
from cases import RECIPES
from lines import Record
from tables import OURS, YARDSTICK, between, measured

PAGE = lines.PROJECT / "docs" / "benchmarks.md"
CAPTIONS = {
    "sites": "Seconds and peak memory against sites",
    "kernel": "Seconds and peak memory against neighbours",
    "blocks": "Seconds against blocks",
}
GROWTH_MARKS = ("growth", *(f"growth-{group}" for group in CAPTIONS), "growth-threads")
MARKS = ("everyone", "everyone-user", "everyone-memory", "left-out", *GROWTH_MARKS, "roof", "energies")
NOTHING = "Not measured yet."


@dataclass(frozen=True)
class Lines:
    """What was measured, small variants left out."""

    flow: list[Record]
    growth: list[Record]
    signed: list[Record]

    @classmethod
    def read(cls, folder: Path) -> Lines:
        flow, growth, signs = (lines.read(folder / f"{name}.jsonl") for name in ("flow", "growth", "signed"))
        beside_all = {r["case"] for r in flow if r["solver"] not in (OURS, YARDSTICK)} & set(RECIPES)
        return cls(
            [r for r in flow if r["case"] in beside_all],
            growth_tables.full_size(growth),
            [r for r in signs if r["group"] == "peers"],
        )

    @property
    def any(self) -> bool:
        return bool(self.flow or self.growth or self.signed)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--results", type=Path, default=lines.RESULTS, metavar="FOLDER", help="where the lines are")
    parser.add_argument("--table", action="store_true", help="print the tables, and write nothing")
    arguments = parser.parse_args()
    found = Lines.read(arguments.results)
    if arguments.table:
        print("\n\n".join(sections(found).values()))
        return
    growth_tables.figures(found.growth)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")


def page(text: str, found: Lines) -> str:
    """The page with what these lines say between its marks."""
    for mark, content in sections(found).items():
        text = between(text, mark, content)
    return text


def sections(found: Lines) -> dict[str, str]:
    """What is known, by mark."""
    out = dict.fromkeys(MARKS, NOTHING)
    if found.flow:
        chosen = tables.newest(found.flow)
        told = measured(r for those in chosen.values() for r in those)
        out["everyone"] = "\n\n".join([told, winners(found.flow), tables.everyone_table(found.flow)])
        out["everyone-user"] = tables.everyone_user_table(found.flow)
        out["everyone-memory"] = tables.everyone_memory_table(found.flow)
        out["left-out"] = "\n\n".join(tables.left_out(found.flow)) or "All of them solved all cases."
    if found.growth:
        out |= _growth(found.growth)
    by_case = signed.newest(found.signed, "peers")
    if by_case:
        told = measured(r for solvers in by_case.values() for those in solvers.values() for r in those)
        out["roof"] = "\n\n".join([told, signed_peers.roof_table(by_case)])
        out["energies"] = signed_peers.energies_table(by_case)
    return out


def _growth(records: list[Record]) -> dict[str, str]:
    """The figures, with the tables behind them folded away, and the table of threads."""
    chosen, written = growth_tables.newest(records), growth_tables.sections(records)
    out = {"growth": measured(r for points in chosen.values() for those in points.values() for r in those)}
    for group, caption in CAPTIONS.items():
        those = [table for curve, table in written.items() if curve.startswith(group)]
        if those:
            picture = f"![{caption}](images/growth_{group}.svg)"
            out[f"growth-{group}"] = "\n\n".join([picture, *those])
    if "threads" in written:
        out["growth-threads"] = written["threads"]
    return out


def winners(records: list[Record]) -> str:
    """Who was fastest where, in words."""
    fastest: dict[str, list[str]] = {}
    for case, found in tables.newest(records).items():
        runs = [r for r in found if not r["skipped"]]
        if runs:
            fastest.setdefault(min(runs, key=tables.seconds)["solver"], []).append(case)
    return "Fastest: " + "; ".join(f"{name} in {', '.join(those)}" for name, those in fastest.items()) + "."


if __name__ == "__main__":
    main()
