"""What the lines of growth.py say: tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import tables
from cases import QUICK
from lines import PROJECT, Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

IMAGES = PROJECT / "docs" / "images"
TITLES = {
    "sites-3x3": "picture, 3x3 (8 neighbours)",
    "sites-7x7": "picture, 7x7 (48 neighbours)",
    "sites-6": "volume, 6 neighbours",
    "sites-32": "volume, 32 neighbours",
    "kernel-2d": "picture, 700x700",
    "kernel-3d": "volume, 64^3",
    "blocks-3x3": "2000x2000, 3x3",
    "blocks-7x7": "1000x1000, 7x7",
    "blocks-hard": "1000x1000, 4 neighbours, hard",
}
# Okabe and Ito; dope is the thick black one.
COLORS = {
    "dope": "#000000",
    "PyMaxflow": "#0072b2",
    "thinmaxflow": "#56b4e9",
    "scipy": "#e69f00",
    "OR-tools": "#009e73",
    "igraph": "#8c8c8c",
    "HPF": "#d55e00",
    "gco": "#cc79a7",
    "numpymaxflow": "#f0e442",
}
MARKERS = dict(zip(COLORS, "osv^Dxp*P", strict=True))

Curve = dict[float, list[Record]]


def seconds(record: Record) -> float | None:
    """The whole of a solve, None where there was none."""
    return None if record["skipped"] else round(tables.seconds(record), 6)


def newest(records: Iterable[Record]) -> dict[str, dict[float, list[Record]]]:
    """By curve and point: the lines of the newest commit that has any of this point."""
    groups: dict[tuple[str, float], list[Record]] = {}
    for record in records:
        groups.setdefault((record["curve"], record["x"]), []).append(record)
    found: dict[str, Curve] = {}
    for (curve, x), those in groups.items():
        last = max(those, key=lambda record: str(record["date"]))["commit"]
        found.setdefault(curve, {})[x] = [record for record in those if record["commit"] == last]
    return found


def full_size(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if not record["curve"].endswith(QUICK)]


def sections(records: Iterable[Record]) -> dict[str, str]:
    """A table for each curve."""
    found = {curve: dict(sorted(points.items())) for curve, points in newest(records).items()}
    out = {}
    for curve, points in found.items():
        if curve.startswith("threads"):
            out[curve] = _threads_table(points)
        elif curve.startswith("blocks"):
            out[curve] = _blocks_table(curve, points)
        else:
            out[curve] = _curve_table(curve, points)
    return out


def _curve_table(curve: str, points: Curve) -> str:
    """Best seconds of every solver, and below them bytes per site."""
    names = [
        name for name in COLORS if any(r["solver"] == name and not r["skipped"] for p in points.values() for r in p)
    ]
    x = "sites" if curve.startswith("sites") else "neighbours"
    rows = []
    for place, records in points.items():
        best = {name: least(records, name) for name in names}
        rows.append([f"{place:,.0f}", *(tables.number(best[name], ".3g") for name in names)])
    return f"{curve}, seconds\n\n" + tables.markdown([x, *names], rows)


def least(records: list[Record], solver: str) -> float | None:
    return min((r["seconds"] for r in records if r["solver"] == solver and not r["skipped"]), default=None)


def most_bytes(records: list[Record], solver: str) -> float | None:
    known = [r["peak_bytes"] for r in records if r["solver"] == solver and r.get("peak_bytes")]
    return max(known, default=None)


def _blocks_table(curve: str, points: Curve) -> str:
    row = [f"{min(r['seconds'] for r in records):.3g} ({records[0]['rounds']})" for records in points.values()]
    return tables.markdown([f"{curve}: blocks", *(f"{x:.0f}" for x in points)], [["s (rounds)", *row]])


def _threads_table(points: Curve) -> str:
    """A row for every case: the best of one thread, of two, and their ratio."""
    cases = list(dict.fromkeys(r["case"] for records in points.values() for r in records))
    rows = []
    for case in cases:
        best = [min((r["seconds"] for r in records if r["case"] == case), default=None) for records in points.values()]
        ratio = best[0] / best[-1] if best[0] and best[-1] else None
        shown = TITLES.get(case.replace("threads", "blocks"), case)
        rows.append([shown, *(tables.number(s, ".2f") for s in best), tables.number(ratio, ".2f")])
    return tables.markdown(["picture", *(f"{x:.0f} thread{'s' * (x > 1)}, s" for x in points), "times as fast"], rows)


def figures(records: Iterable[Record], folder: Path = IMAGES) -> list[Path]:
    """Draw the curves there are; the files that were written."""
    found = {curve: dict(sorted(points.items())) for curve, points in newest(records).items()}
    drawn = []
    for group, label in (("sites", "sites"), ("kernel", "neighbours"), ("blocks", "blocks")):
        curves = {curve: points for curve, points in found.items() if curve.startswith(group)}
        if curves:
            drawn.append(folder / f"growth_{group}.svg")
            _figure(curves, label, drawn[-1], memory=group != "blocks")
    return drawn


def _figure(curves: dict[str, Curve], label: str, file: Path, *, memory: bool) -> None:
    """A column for every curve: seconds above, memory below."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rows = 2 if memory else 1
    # A figure of its own, never pyplot: no window system. Without date and random names the same lines draw the same.
    with mpl.rc_context({"svg.hashsalt": "dope", "svg.fonttype": "path"}):
        drawn = Figure(figsize=(0.6 + 3.1 * len(curves), 0.7 + 2.7 * rows), layout="constrained")
        panels = drawn.subplots(rows, len(curves), squeeze=False)
        for column, (curve, points) in enumerate(curves.items()):
            _draw(panels[0, column], points, least)
            panels[0, column].set_title(TITLES.get(curve, curve), fontsize=10)
            if not memory:
                panels[0, column].set_yscale("linear")
                panels[0, column].set_ylim(bottom=0)
            if memory:
                _draw(panels[1, column], points, lambda records, name: _gigabytes(most_bytes(records, name)))
            panels[-1, column].set_xlabel(label, fontsize=9)
        panels[0, 0].set_ylabel("seconds", fontsize=9)
        if memory:
            panels[1, 0].set_ylabel("peak, GB", fontsize=9)
        named = {
            text: handle for axes in panels[0] for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        if len(named) > 1:
            drawn.legend(
                named.values(),
                named,
                loc="outside lower center",
                ncols=min(len(named), 1 + 2 * len(curves)),
                frameon=False,
                fontsize=9,
            )
        file.parent.mkdir(parents=True, exist_ok=True)
        drawn.savefig(file, dpi=130, metadata={"Date": None} if file.suffix == ".svg" else None)


def _brief(x: float) -> str:
    """250k, 1M, 48."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if x >= size:
            return f"{x / size:.3g}{letter}"
    return f"{x:.0f}"


def _gigabytes(count: float | None) -> float | None:
    return None if count is None else count / 1e9


def _draw(axes: Axes, points: Curve, measure: Callable[[list[Record], str], float | None]) -> None:
    for name, color in COLORS.items():
        values = {x: measure(records, name) for x, records in points.items()}
        known = {x: value for x, value in values.items() if value is not None}
        if known:
            thick = 2.4 if name == "dope" else 1.2
            axes.plot(
                list(known),
                list(known.values()),
                color=color,
                marker=MARKERS[name],
                markersize=4,
                linewidth=thick,
                label=name,
                zorder=3 if name == "dope" else 2,
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks([], minor=True)
    axes.set_xticks(list(points), [_brief(x) for x in points])
    axes.grid(visible=True, color="#e5e5e5", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
