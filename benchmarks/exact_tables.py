"""What the lines of exact.py say: tables, figures, and the page that shows them.

Of each case and width the lines of the newest commit count, all of them. A ratio compares a solve of dope's with the
median of PyMaxflow's solves of the same integers. Of several solves, and of several cases, the median, the least and
the largest are shown, and a bar is met when every case meets it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from cases import QUICK
from exact_cases import CASES, GROUPS
from lines import PROJECT, Record
from tables import BLUE, GREY, ORANGE, between, markdown, number, verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAGE = PROJECT / "docs" / "exact_speed.md"
IMAGES = PROJECT / "docs" / "images"
OURS, YARDSTICK, THREADS = "dope", "PyMaxflow", 2


@dataclass(frozen=True)
class Bar:
    """What a group of cases is asked for: times as fast, times less memory, bytes."""

    title: str
    fast: float | None = None
    less: float | None = None
    most_bytes: float | None = None


BARS = {
    "photos-3": Bar("10 photos, 3x3", fast=5.0, less=4.0),
    "photos-7": Bar("10 photos, 7x7", fast=20.0, less=8.0),
    "brain-3": Bar("brain, 6 neighbours", fast=5.0, less=8.0),
    "brain-5": Bar("brain, 32 neighbours", fast=15.0, less=8.0),
    "brain-7": Bar("brain, 122 neighbours", fast=20.0, less=8.0),
    "brain-9": Bar("brain, 256 neighbours", most_bytes=4e9),
    "hard": Bar("hard, 2000x3000, 4 neighbours", fast=3.5),
}
THREADS_BAR = 1.7
METHODS = {"paper": ("Admm.paper()", ORANGE), "admm": ("Admm()", GREY), "exact": ("Exact()", BLUE)}
# Percent of the minimum; what is nearer to it is drawn on a linear scale.
NEAR = 1e-4

Key = tuple[str, int | None]


def newest(records: Iterable[Record]) -> dict[Key, list[Record]]:
    """The lines of the newest commit of each case and width, in the order of the cases."""
    groups: dict[Key, list[Record]] = {}
    for record in records:
        groups.setdefault((record["case"], record["width"]), []).append(record)
    order = [*CASES, *(name + QUICK for name in CASES)]
    chosen = {}
    for key in sorted(groups, key=lambda key: (order.index(key[0]), key[1] or 0)):
        last = max(groups[key], key=lambda record: str(record["date"]))["commit"]
        chosen[key] = [record for record in groups[key] if record["commit"] == last]
    return chosen


def _ours(records: list[Record], *, threads: int = THREADS, blocks: int | None = None) -> list[Record]:
    asked = (OURS, threads, blocks)
    return [r for r in records if (r["solver"], r["threads"], r["blocks_asked"]) == asked and not r["skipped"]]


def _theirs(records: list[Record]) -> list[Record]:
    return [r for r in records if r["solver"] == YARDSTICK and not r["skipped"]]


def ratios(records: list[Record]) -> list[float]:
    """How many times as fast as PyMaxflow dope was, for each of dope's solves."""
    theirs = [r["seconds"] for r in _theirs(records)]
    return [median(theirs) / r["seconds"] for r in _ours(records)] if theirs else []


def _peak(records: list[Record]) -> int | None:
    return max((r["peak_bytes"] for r in records if r["peak_bytes"]), default=None)


def memory_ratio(records: list[Record]) -> float | None:
    """How many times less memory dope's process held than PyMaxflow's."""
    ours, theirs = _peak(_ours(records)), _peak(_theirs(records))
    return theirs / ours if ours and theirs else None


def sections(records: Iterable[Record]) -> dict[str, str]:
    """All tables, by the marks between which they stand on the page."""
    chosen = newest(records)
    return {
        "bars": _bars(chosen),
        "cases": "\n\n".join([_cases(chosen), *_left_out(chosen)]),
        "threads": _threads(chosen),
        "blocks": _blocks(chosen),
        "time": _time(chosen),
    }


def _bars(chosen: dict[Key, list[Record]]) -> str:
    head = ["cases", "bits", "solved", "times as fast", "least to most", "bar", "times less memory"]
    head += ["least to most", "bar"]
    rows = []
    for group, bar in BARS.items():
        for width in sorted({width for _, width in chosen}, key=lambda width: width or 0):
            names = [*GROUPS[group], *(name + QUICK for name in GROUPS[group])]
            found = [chosen[name, width] for name in names if (name, width) in chosen]
            solved = [records for records in found if _ours(records)]
            if solved:
                rows.append([bar.title, str(_ours(solved[0])[0]["bits"]), str(len(solved)), *_bar_cells(bar, solved)])
    return markdown(head, rows)


def _bar_cells(bar: Bar, found: list[list[Record]]) -> list[str]:
    fast = [median(times) for records in found if (times := ratios(records))]
    less = [ratio for records in found if (ratio := memory_ratio(records))]
    cells = [*_spread(fast), group_verdict(fast, bar.fast) if bar.fast else "runs", *_spread(less)]
    if bar.most_bytes is None:
        return [*cells, group_verdict(less, bar.less)]
    peak = max(_peak(_ours(records)) or 0 for records in found)
    met = "met" if peak < bar.most_bytes else "missed"
    return [*cells, f"{peak / 1e9:.2f} GB, less than {bar.most_bytes / 1e9:g} {met}"]


def _spread(values: list[float]) -> list[str]:
    if not values:
        return ["-", "-"]
    return [f"**{median(values):.1f}**", f"{min(values):.1f} to {max(values):.1f}" if len(values) > 1 else "-"]


def group_verdict(values: list[float], bar: float | None) -> str:
    """A bar is met when every case meets it."""
    met = sum(value >= bar for value in values) if bar is not None else 0
    said = verdict(min(values, default=None), bar)
    return f"{said}, met by {met} of {len(values)}" if 0 < met < len(values) else said


def _cases(chosen: dict[Key, list[Record]]) -> str:
    head = ["case", "sites", "neighbours", "bits", "blocks", "rounds", "dope s", "PyMaxflow s", "times as fast"]
    head += ["least to most", "GB", "PyMaxflow GB", "times less", "bytes/site", "PyMaxflow bytes/site"]
    rows = []
    for (case, _), records in chosen.items():
        ours, theirs, times = _ours(records), _theirs(records), ratios(records)
        if not ours:
            continue
        peaks = [_peak(ours), _peak(theirs)]
        rows.append(
            [
                case,
                f"{ours[0]['sites']:,}",
                str(ours[0]["neighbours"]),
                str(ours[0]["bits"]),
                str(ours[0]["blocks"]),
                str(ours[0]["rounds"]),
                number(_seconds(ours), ".2f"),
                number(_seconds(theirs), ".1f"),
                f"**{median(times):.1f}**" if times else "-",
                f"{min(times):.1f} to {max(times):.1f}" if times else "-",
                *(number(peak and peak / 1e9, ".2f") for peak in peaks),
                number(memory_ratio(records), ".1f"),
                *(number(peak and peak / ours[0]["sites"]) for peak in peaks),
            ]
        )
    return markdown(head, rows)


def _seconds(records: list[Record]) -> float | None:
    return median(r["seconds"] for r in records) if records else None


def _left_out(chosen: dict[Key, list[Record]]) -> list[str]:
    reasons = {
        f"{r['case']}: {r['solver']} {r['skipped']}." for found in chosen.values() for r in found if r["skipped"]
    }
    return ["Left out: " + " ".join(sorted(reasons))] if reasons else []


def _threads(chosen: dict[Key, list[Record]]) -> str:
    """One thread and two, where both were measured."""
    rows = []
    for (case, _), records in chosen.items():
        one, two = _seconds(_ours(records, threads=1)), _seconds(_ours(records))
        if one and two:
            bits = str(_ours(records)[0]["bits"])
            rows.append(
                [case, bits, f"{one:.2f}", f"{two:.2f}", f"**{one / two:.2f}**", verdict(one / two, THREADS_BAR)]
            )
    return markdown(["case", "bits", "1 thread s", "2 threads s", "times as fast", "bar"], rows)


def _blocks(chosen: dict[Key, list[Record]]) -> str:
    """Seconds and rounds by the number of blocks, and whether the energy is the same."""
    cut = {key: [r for r in found if r["blocks_asked"] and not r["skipped"]] for key, found in chosen.items()}
    numbers = sorted({r["blocks_asked"] for found in cut.values() for r in found})
    rows = []
    for (case, _), found in cut.items():
        if found:
            by_number = {r["blocks_asked"]: f"{r['seconds']:.2f} ({r['rounds']})" for r in found}
            same = len({r["energy"] for r in found}) == 1
            shown = f"{found[0]['energy']:,}" if same else "not the same"
            rows.append([case, str(found[0]["bits"]), *(by_number.get(n, "-") for n in numbers), shown])
    return markdown(["case", "bits", *(f"{n} blocks: s (rounds)" for n in numbers), "energy of all, in integers"], rows)


def _time(chosen: dict[Key, list[Record]]) -> str:
    """How the time of a case's middle solve splits, in seconds."""
    runs = {key: sorted(_ours(found), key=lambda r: float(r["seconds"])) for key, found in chosen.items()}
    middle = {key: those[len(those) // 2] for key, those in runs.items() if those}
    parts = list(dict.fromkeys(part for r in middle.values() for part in r["split"]))
    rows = [
        [
            case,
            str(r["bits"]),
            f"{r['seconds']:.2f}",
            *(number(r["split"].get(part), ".2f") for part in parts),
            str(r["rounds"]),
            r["stopped"],
        ]
        for (case, _), r in middle.items()
    ]
    return markdown(["case", "bits", "seconds", *parts, "rounds", "stopped"], rows)


def summary(records: list[Record]) -> str:
    """A line of text about the run of one case."""
    parts = []
    for name, found in ((OURS, _ours(records)), (YARDSTICK, _theirs(records))):
        if found:
            gigabytes = number((_peak(found) or 0) / 1e9, ".2f")
            parts.append(f"{name} {number(_seconds(found), '.3f')} s, {gigabytes} GB")
    if ratios(records):
        parts.append(f"{median(ratios(records)):.2f} times as fast, {memory_ratio(records) or 0:.2f} times less memory")
    one = _seconds(_ours(records, threads=1))
    if one:
        parts.append(f"one thread {one:.3f} s")
    return f"{records[0]['case']}: " + "; ".join(parts)


def curves_figure(records: Iterable[Record], file: Path) -> None:
    """Draw the best energy and bound so far against time: a panel for each case and width that was solved exactly."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    chosen = {key: found for key, found in newest(records).items() if any(r["exact"] for r in found)}
    columns = min(2, len(chosen))
    rows = -(-len(chosen) // columns)
    # A figure of its own, never pyplot: no window system. Without date and random names the same lines draw the same.
    with mpl.rc_context({"svg.hashsalt": "dope", "svg.fonttype": "path"}):
        drawn = Figure(figsize=(5.5 * columns, 0.6 + 2.9 * rows), layout="constrained")
        panels = drawn.subplots(rows, columns, squeeze=False).ravel()
        for axes in panels[len(chosen) :]:
            axes.remove()
        for axes, ((case, width), found) in zip(panels, chosen.items(), strict=False):
            _draw_curves(axes, found)
            axes.set_title(case if width is None else f"{case}, {width} bits", fontsize=10)
        named = {
            label: handle
            for axes in panels[: len(chosen)]
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        drawn.legend(named.values(), named, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
        file.parent.mkdir(parents=True, exist_ok=True)
        drawn.savefig(file, dpi=130, metadata={"Date": None} if file.suffix == ".svg" else None)


def _draw_curves(axes: Axes, found: list[Record]) -> None:
    least = min(r["stated_energy"] for r in found if r["exact"])
    style: dict[str, Any] = {"drawstyle": "steps-post", "marker": "."}
    for method, (name, color) in METHODS.items():
        for record in (r for r in found if r["method"] == method):
            seconds = [point["seconds"] for point in record["points"]]
            energy, bound = (_percent(record["points"], field, least) for field in ("energy", "lower_bound"))
            axes.plot(seconds, np.fmin.accumulate(energy), color=color, label=name, **style)
            if np.isfinite(bound).any():
                known = np.fmax.accumulate(bound)
                axes.plot(seconds, known, color=color, linestyle="--", label=f"{name}, bound", **style)
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=NEAR)
    axes.axhline(0.0, color="black", linewidth=0.6)
    axes.set_xlabel("seconds", fontsize=9)
    axes.set_ylabel("% off the minimum", fontsize=9)
    axes.grid(visible=True, color="#e5e5e5", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _percent(points: list[Record], field: str, least: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """How far off the minimum; NaN, which matplotlib leaves out, where a step has none."""
    values = [np.nan if point[field] is None else point[field] for point in points]
    off = 100.0 * (np.array(values, dtype=np.float64) - least) / abs(least or 1.0)
    return np.where(np.isfinite(off), off, np.nan)


def write_docs(records: list[Record], curves: list[Record]) -> None:
    """Put tables and figures into the page."""
    for group, found in _by_group(curves).items():
        curves_figure(found, IMAGES / f"exact_{group}.svg")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), records, curves), encoding="utf-8")


def page(text: str, records: list[Record], curves: list[Record]) -> str:
    """The page's text with what these lines say between its marks; small variants are left out."""
    full = [record for record in records if record["case"] in CASES]
    if full:
        text = between(text, "measured", _measured(full))
        for mark, table in sections(full).items():
            text = between(text, mark, table)
    pictures = [
        f"![Energy and bound against time: {BARS[group].title}](images/exact_{group}.svg)"
        for group in _by_group(curves)
    ]
    return between(text, "curves", "\n\n".join(pictures)) if pictures else text


def _by_group(curves: list[Record]) -> dict[str, list[Record]]:
    """The curves of each row of the table of bars that has some."""
    found = {group: [r for r in curves if r["case"] in GROUPS[group] and "points" in r] for group in BARS}
    return {group: those for group, those in found.items() if any(r["exact"] for r in those)}


def _measured(records: list[Record]) -> str:
    """On what, with what and when the newest lines were made."""
    used = [r for found in newest(records).values() for r in found]
    machines = sorted({f"{r['machine']['cpu']}, {r['machine']['cores']} cores" for r in used})
    peers = sorted({f"{YARDSTICK} {r['version']}" for r in used if r["solver"] == YARDSTICK and r["version"]})
    commits, days = sorted({r["commit"] for r in used}), sorted({r["date"][:10] for r in used})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"Measured on {', '.join(['; '.join(machines), when, 'commit ' + ', '.join(commits), *peers])}."
