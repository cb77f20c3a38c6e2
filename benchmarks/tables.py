"""What the lines say: tables, a figure, and the page that shows them.

Of each case the lines of the newest commit count, all of them. A ratio compares dope with PyMaxflow in the same run:
the same repetition, or PyMaxflow's last one where it solved fewer times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from cases import QUICK, RECIPES
from lines import PROJECT, Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAGE = PROJECT / "docs" / "speed.md"
FIGURE = PROJECT / "docs" / "images" / "speed.svg"

OURS, YARDSTICK = "dope", "PyMaxflow"
# How many times as fast as PyMaxflow, build and solve together, one thread. A1 is a smaller A2 and has no bar.
BARS = {
    "A2e": 2.5,
    "A2h": 2.0,
    "Be": 12.0,
    "Bh": 12.0,
    "C1e": 3.3,
    "C1h": 6.0,
    "C2e": 9.0,
    "C2h": 15.0,
    "M5": 10.0,
    "M7": 10.0,
}
# A fifth of PyMaxflow's memory; a fifth of a cold solve's time after a strip along one face has changed.
MEMORY_BAR = 5.0
WARM_BAR = 5.0
STOPPED = re.compile(r"stopped after (\S+) s$")
CHANGES = ("strip", "scattered", "seam", "shift")
# A run of its own has a load of 1, of 2 with two threads. More, and something else ran on the machine.
QUIET_LOAD = 2.5

# Okabe and Ito, told apart by colour-blind readers too.
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#8c8c8c"


def newest(records: Iterable[Record], cases: Iterable[str] = RECIPES) -> dict[str, list[Record]]:
    """The lines of each case's newest commit, in the order of the cases."""
    named = tuple(cases)
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record["case"], []).append(record)
    order = [*named, *(name + QUICK for name in named)]
    chosen = {}
    for case in sorted(groups, key=order.index):
        last = max(groups[case], key=lambda record: str(record["date"]))["commit"]
        chosen[case] = [record for record in groups[case] if record["commit"] == last]
    return chosen


def seconds(record: Record) -> float:
    """The whole of a solve: weights, building, solving, reading the labels."""
    return float(sum(record[f"{stage}_seconds"] or 0.0 for stage in ("build", "solve", "read")))


def ratios(records: list[Record]) -> list[float]:
    """How many times as fast as PyMaxflow dope was, for each of dope's solves."""
    found = []
    for ours in _runs(records, OURS):
        peers = [r for r in _runs(records, YARDSTICK) if r["date"] == ours["date"]]
        beside = [r for r in peers if r["repetition"] <= ours["repetition"]]
        if beside:
            found.append(seconds(max(beside, key=lambda r: int(r["repetition"]))) / seconds(ours))
    return found


def user_ratio(records: list[Record]) -> float | None:
    """The same by the least user time of each: no page faults, nothing that the machine did beside."""
    ours, theirs = (min((r["user_seconds"] for r in _runs(records, name)), default=None) for name in (OURS, YARDSTICK))
    return theirs / ours if ours and theirs else None


def _runs(records: list[Record], solver: str) -> list[Record]:
    return [r for r in records if r["solver"] == solver and not r["skipped"]]


def _bytes_per_site(records: list[Record], solver: str) -> float | None:
    known = [r["bytes_per_site"] for r in _runs(records, solver) if r["bytes_per_site"]]
    return max(known) if known else None


def _memory_ratio(records: list[Record]) -> float | None:
    ours, theirs = _bytes_per_site(records, OURS), _bytes_per_site(records, YARDSTICK)
    return theirs / ours if ours and theirs else None


def verdict(ratio: float | None, bar: float | None) -> str:
    """The bar, and whether it was met."""
    if bar is None:
        return "-"
    return f"{bar:g}" if ratio is None else f"{bar:g} {'met' if ratio >= bar else 'missed'}"


def number(value: float | None, form: str = ".0f") -> str:
    """A number for a cell, "-" where there is none."""
    return "-" if value is None else format(value, form)


def markdown(head: list[str], rows: list[list[str]], *, left: int = 1) -> str:
    """A table whose first `left` columns are words, the others numbers."""
    rule = "|---" * left + "|---:" * (len(head) - left) + "|"
    return "\n".join(["| " + " | ".join(head) + " |", rule, *("| " + " | ".join(row) + " |" for row in rows)])


def flow_table(records: Iterable[Record]) -> str:
    """dope beside PyMaxflow: a row for every case."""
    head = ["case", "sites", "neighbours", "bits", "dope s", "PyMaxflow s", "times as fast", "least to most"]
    head += ["bar", "in user time", "bytes/site", "PyMaxflow bytes/site", "times less", "bar"]
    return markdown(head, [_flow_row(case, found) for case, found in newest(records).items()])


def _flow_row(case: str, records: list[Record]) -> list[str]:
    ours, theirs = _runs(records, OURS), _runs(records, YARDSTICK)
    times = ratios(records)
    middle = median(times) if times else None
    memory = _memory_ratio(records)
    return [
        case,
        f"{records[0]['sites']:,}",
        str(records[0]["neighbours"]),
        str(ours[0]["bits"]) if ours else "-",
        number(min(map(seconds, ours), default=None), ".3f"),
        number(min(map(seconds, theirs), default=None), ".3f"),
        f"**{middle:.1f}**" if middle else "-",
        f"{min(times):.1f} to {max(times):.1f}" if times else "-",
        verdict(middle, BARS.get(case)),
        number(user_ratio(records), ".1f"),
        number(_bytes_per_site(records, OURS)),
        number(_bytes_per_site(records, YARDSTICK)),
        number(memory, ".1f"),
        verdict(memory, MEMORY_BAR),
    ]


def everyone_table(records: Iterable[Record]) -> str:
    """The best seconds of every solver, from ready-made arrays to labels; the fastest of each case in bold."""
    return _by_solver(newest(records), lambda runs: min(map(seconds, runs), default=None), lambda s: f"{s:.3g}")


def everyone_user_table(records: Iterable[Record]) -> str:
    """The same in user time: no page faults, nothing that the machine did beside."""
    return _by_solver(
        newest(records), lambda runs: min((r["user_seconds"] for r in runs), default=None), lambda s: f"{s:.3g}"
    )


def everyone_memory_table(records: Iterable[Record]) -> str:
    """Bytes per site of every solver; the least of each case in bold."""

    def most(runs: list[Record]) -> float | None:
        return max((r["bytes_per_site"] for r in runs if r["bytes_per_site"]), default=None)

    return _by_solver(newest(records), most, number, limited=False)


def _by_solver(
    chosen: dict[str, list[Record]],
    measure: Callable[[list[Record]], float | None],
    show: Callable[[float], str],
    *,
    limited: bool = True,
) -> str:
    """A row for every case. A solver that was stopped shows its limit, where that is of the same kind (`limited`)."""
    tried = {r["solver"] for found in chosen.values() for r in found if not r["skipped"] or STOPPED.match(r["skipped"])}
    names = sorted(tried - {OURS, YARDSTICK})
    rows = []
    for case, found in chosen.items():
        values = {name: measure(_runs(found, name)) for name in (OURS, YARDSTICK, *names)}
        least = min((value for value in values.values() if value is not None), default=None)
        shown = {
            name: f"**{show(value)}**" if value == least else show(value) for name, value in values.items() if value
        }
        cells = [shown.get(name) or (_stopped(found, name) if limited else "-") for name in values]
        rows.append([case, f"{found[0]['sites']:,}", str(found[0]["neighbours"]), *cells])
    return markdown(["case", "sites", "neighbours", OURS, YARDSTICK, *names], rows)


def _stopped(records: list[Record], solver: str) -> str:
    """For a cell without a number: the limit that was passed, if so."""
    found = [STOPPED.match(r["skipped"] or "") for r in records if r["solver"] == solver]
    limits = [match[1] for match in found if match]
    return f"> {limits[-1]}" if limits else "-"


def left_out(records: Iterable[Record]) -> list[str]:
    """Who did not solve what, and why, by solver and reason; who did so in another run counts as there."""
    reasons: dict[str, list[str]] = {}
    for case, found in newest(records).items():
        for r in found:
            if r["skipped"] and not _runs(found, r["solver"]):
                cases_of = reasons.setdefault(f"{r['solver']} ({_short(r['skipped'])})", [])
                cases_of += [case] * (case not in cases_of)
    return ["Left out: " + "; ".join(f"{who}: {', '.join(those)}" for who, those in sorted(reasons.items())) + "."] * (
        bool(reasons)
    )


def _short(reason: str) -> str:
    """A reason without the numbers of a single case."""
    if "pairs; run up to" in reason:
        return "more than " + reason.rpartition(" ")[2] + " pairs"
    return "needs more memory than there was" if reason.startswith("needs ") else reason


def flow_summary(records: list[Record]) -> str:
    """A line of text about the run of one case."""
    parts = []
    for solver in dict.fromkeys(r["solver"] for r in records):
        runs = _runs(records, solver)
        if runs:
            best = min(runs, key=seconds)
            stages = " + ".join(number(best[f"{stage}_seconds"], ".3f") for stage in ("build", "solve", "read"))
            parts.append(f"{solver} {stages} s, {number(best['bytes_per_site'])} bytes/site")
    times = ratios(records)
    if times:
        user = number(user_ratio(records), ".2f")
        parts.append(f"{median(times):.2f} times as fast ({min(times):.2f} to {max(times):.2f}; {user} in user time)")
    return f"{records[0]['case']}: " + "; ".join(parts)


def warm_table(records: Iterable[Record]) -> str:
    """A row for every case and change."""
    head = ["case", "change", "sites changed", "again s", "cold solve s", "cold build + solve s", "times as fast"]
    head += ["least to most", "bar", "than build + solve", "PyMaxflow again s", "PyMaxflow cold s"]
    rows = []
    for case, found in newest(records).items():
        for change in CHANGES:
            runs = [r for r in _runs(found, OURS) if r["change"] == change]
            if runs:
                rows.append([case, change, *_warm_cells(change, runs, _runs(found, YARDSTICK))])
    return markdown(head, rows, left=2)


def _warm_cells(change: str, runs: list[Record], peers: list[Record]) -> list[str]:
    warm = {(r["date"], r["repetition"]): r for r in runs if r["start"] == "warm"}
    cold = {(r["date"], r["repetition"]): r for r in runs if r["start"] == "cold"}
    alone = [_solved(cold[key]) / _solved(warm[key]) for key in warm]
    whole = [seconds(cold[key]) / _solved(warm[key]) for key in warm]
    bar = WARM_BAR if change == "strip" else None
    again = [_solved(r) for r in peers if r["change"] == change]
    from_nothing = [seconds(r) for r in peers if r["start"] == "cold"]
    return [
        f"{runs[0]['changed_sites']:,}",
        f"{min(map(_solved, warm.values())):.4f}",
        f"{min(map(_solved, cold.values())):.3f}",
        f"{min(map(seconds, cold.values())):.3f}",
        f"**{median(alone):.1f}**",
        f"{min(alone):.1f} to {max(alone):.1f}",
        verdict(median(alone), bar),
        f"{median(whole):.1f}",
        number(min(again, default=None), ".4f"),
        number(min(from_nothing, default=None), ".3f"),
    ]


def _solved(record: Record) -> float:
    """A solve without building: the new unaries in, the labels out."""
    return float(record["solve_seconds"] + record["read_seconds"])


def figure(records: Iterable[Record], file: Path) -> None:
    """Draw speed and memory next to PyMaxflow, with the bars to clear."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    chosen = {case: found for case, found in newest(records).items() if ratios(found)}
    if not chosen:
        raise SystemExit("no case was solved by both dope and PyMaxflow; run benchmarks/flow.py first")
    # A figure of its own, never pyplot: no window system. Without date and random names the same lines draw the same.
    with mpl.rc_context({"svg.hashsalt": "dope", "svg.fonttype": "path"}):
        drawn = Figure(figsize=(10, 1.6 + 0.42 * len(chosen)), layout="constrained")
        left, right = drawn.subplots(1, 2, sharey=True)
        _draw_speed(left, chosen)
        _draw_memory(right, chosen)
        left.set_yticks(range(len(chosen)), list(chosen))
        left.invert_yaxis()
        for axes in (left, right):
            axes.grid(visible=True, axis="x", color="#e5e5e5", linewidth=0.8)
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(axis="y", length=0)
        named = dict(zip(*reversed(left.get_legend_handles_labels()), strict=True))
        labels = [label for label in ("median", "least to most", "bar to clear") if label in named]
        drawn.legend(
            [named[label] for label in labels], labels, loc="outside lower center", ncols=len(labels), frameon=False
        )
        file.parent.mkdir(parents=True, exist_ok=True)
        drawn.savefig(file, dpi=130, metadata={"Date": None} if file.suffix == ".svg" else None)


def _draw_speed(axes: Axes, chosen: dict[str, list[Record]]) -> None:
    for place, (case, found) in enumerate(chosen.items()):
        times = ratios(found)
        middle = median(times)
        axes.barh(place, middle, height=0.62, color=BLUE, label="" if place else "median")
        axes.hlines(place, min(times), max(times), color="black", label="" if place else "least to most")
        if case in BARS:
            seen = axes.get_legend_handles_labels()[1]
            _mark(axes, BARS[case], place, "" if "bar to clear" in seen else "bar to clear")
        _label(axes, f"{middle:.1f}", place)
    axes.margins(x=0.1)
    axes.set_title("times as fast as PyMaxflow, build and solve", fontsize=11)


def _draw_memory(axes: Axes, chosen: dict[str, list[Record]]) -> None:
    for place, found in enumerate(chosen.values()):
        memory = _memory_ratio(found)
        if memory is None:
            _label(axes, "not measured", place, color=GREY)
            continue
        axes.barh(place, memory, height=0.62, color=BLUE)
        _mark(axes, MEMORY_BAR, place)
        _label(axes, f"{memory:.1f}", place)
    axes.margins(x=0.1)
    axes.set_title("times less memory than PyMaxflow", fontsize=11)


def _label(axes: Axes, text: str, place: int, color: str = "white") -> None:
    """Text at the foot of a bar, where neither marks nor whiskers are."""
    axes.annotate(text, (0, place), (5, 0), textcoords="offset points", va="center", fontsize=9, color=color)


def _mark(axes: Axes, value: float, place: int, label: str = "") -> None:
    axes.vlines(value, place - 0.42, place + 0.42, color=ORANGE, linewidth=2.5, label=label)


def write_docs(flow: list[Record], warm: list[Record]) -> None:
    """Put tables and figure into the page."""
    if _full_size(flow):
        figure(_full_size(flow), FIGURE)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), flow, warm), encoding="utf-8")


def page(text: str, flow: list[Record], warm: list[Record]) -> str:
    """The page's text with the tables of these lines between its marks; small variants are left out."""
    flow, warm = _full_size(flow), _full_size(warm)
    if flow:
        picture = f"![How many times as fast and as small as PyMaxflow](images/{FIGURE.name})"
        text = between(text, "flow", "\n\n".join([measured(_used(flow)), flow_table(flow), picture]))
    if warm:
        text = between(text, "warm", "\n\n".join([measured(_used(warm)), warm_table(warm)]))
    return text


def _full_size(records: list[Record]) -> list[Record]:
    return [record for record in records if record["case"] in RECIPES]


def measured(records: Iterable[Record]) -> str:
    """On what, with what and when, and whether the machine was quiet."""
    used = list(records)
    machines = sorted({f"{r['machine']['cpu']}, {r['machine']['cores']} cores" for r in used})
    peers = {f"{r['solver']} {r['version']}" for r in used if r["solver"] != OURS and r.get("version")}
    commits, days = sorted({r["commit"] for r in used}), sorted({r["date"][:10] for r in used})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    parts = ["; ".join(machines), when, f"commit {', '.join(commits)}", *sorted(peers)]
    busiest = max((r["load"] for r in used if r.get("load") is not None), default=0.0)
    beside = f" Other programs ran beside some of it (load up to {busiest:.1f})." if busiest > QUIET_LOAD else ""
    return f"Measured on {', '.join(parts)}.{beside}"


def _used(records: list[Record]) -> list[Record]:
    """The newest lines of dope and PyMaxflow."""
    return [r for those in newest(records).values() for r in those if r["solver"] in (OURS, YARDSTICK)]


def between(text: str, mark: str, content: str) -> str:
    """The text with this content between two marks."""
    pattern = re.compile(f"(<!-- {mark} -->\n).*?(<!-- end of {mark} -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"the page has no marks <!-- {mark} --> and <!-- end of {mark} -->")
    return pattern.sub(lambda found: f"{found[1]}\n{content}\n\n{found[2]}", text)
