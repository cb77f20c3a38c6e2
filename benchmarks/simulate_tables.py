"""What docs/scaling.md shows: tables of the lines, between their marks."""

from __future__ import annotations

import math
from itertools import pairwise

from lines import Record
from simulate_checks import EXECUTORS, compared
from simulate_costs import costs_from, newest
from simulate_curves import HOUR, KERNELS, SIZES, newest_points
from tables import markdown


def sections(found: list[Record]) -> dict[str, str]:
    """All tables, by the marks between which they stand."""
    return {
        "measured": _measured(found),
        "costs": _costs_table(found),
        "checked": _check_table(found),
        "coordinator": _coordinator_table(found),
        "sizes": _sizes_table(found),
        "failures": _failures_table(found),
    }


def _measured(found: list[Record]) -> str:
    real = [r for r in found if r["what"] != "simulated"]
    machines = sorted({f"{r['machine']['cpu']}, {r['machine']['cores']} cores" for r in real})
    days = sorted({r["date"][:10] for r in real})
    told = newest(found, "overhead")
    return (
        f"Measured on {'; '.join(machines)}, {' and '.join(days)}. Dask took {1000 * told['task_seconds']:.1f} ms and "
        f"{told['task_bytes']:,.0f} bytes for a task beside its work, {1000 * told['latency']:.0f} ms there and back; "
        f"a block told {told['summary_bytes']:,.0f} bytes in reply."
    )


def _costs_table(found: list[Record]) -> str:
    rows = []
    for kernel in KERNELS:
        costs = costs_from(newest(found, "costs", kernel=kernel)["costs"])
        by_name = {one.name: one for one in costs.rounds}
        each = [1e9 * (by_name[n].read + by_name[n].solve + by_name[n].write) for n in ("measure", "pass 1", "finish")]
        row = [f"{kernel}, {costs.neighbors}", *(f"{v:,.0f}" for v in each), f"{1000 * costs.count:.2f}"]
        rows.append([*row, f"{1000 * by_name['pass 1'].left:.1f}"])
    head = ["kernel, neighbours", "measure, ns per site", "pass 1", "finish", "coordinator, ms per task"]
    return markdown([*head, "bytes left per 1000 sites, pass 1"], rows)


def _check_table(found: list[Record]) -> str:
    """Each volume, by the costs of the next smaller one and by its own."""
    sides = sorted({r["side"] for r in found if r["what"] == "real"})
    if len(sides) < 2:
        return "Not measured yet with this coordinator."
    rows = [_check_row(compared(found, e, side, small)) for small, side in pairwise(sides) for e in EXECUTORS]
    head = ["volume", "executor", "measured s", "all runs", "simulated by the smaller", "error", "by its own", "error"]
    return markdown([*head, "bytes left", "simulated by the smaller", "error", "by its own", "error"], rows, left=2)


def _check_row(one: Record) -> list[str]:
    some = sorted(one["all"])
    row = [f"{one['side']}^3", f"`{one['executor']}`", f"{one['measured']:.2f}", f"{some[0]:.2f} to {some[-1]:.2f}"]
    for name in ("small", "own"):
        row += [f"{one[name]:.2f}", f"**{_error(one[name], one['measured'])}**"]
    row.append(f"{one['bytes']:,.0f}")
    for name in ("small_bytes", "own_bytes"):
        row += [f"{one[name]:,.0f}", _error(one[name], one["bytes"])]
    return row


def _error(told: float, real: float) -> str:
    return f"{100 * (told / real - 1):+.0f} %"


def _coordinator_table(found: list[Record]) -> str:
    rows = []
    for kernel in KERNELS:
        points = newest_points(found, "kernels", kernel=kernel)
        half = max((r["cluster"]["workers"] for r in points if r["efficiency"] >= 0.5), default=0)
        one, fastest = points[0], min(points, key=lambda r: float(r["seconds"]))
        row = [str(kernel), f"{one['work_seconds'] / HOUR:,.0f}", f"{one['blocks']:,}"]
        row += [f"{one['coordinator_seconds']:.1f}", f"**{half:,}**", f"{fastest['seconds'] / HOUR:.2g}"]
        rows.append([*row, f"{fastest['cluster']['workers']:,}"])
    head = ["kernel", "hours of one worker", "blocks", "seconds of the coordinator"]
    return markdown([*head, "most workers at work half of the time", "least hours", "with workers"], rows)


def _sizes_table(found: list[Record]) -> str:
    rows = []
    for sites in SIZES:
        points = {r["cluster"]["workers"]: r for r in newest_points(found, "workers", about=sites)}
        some = [points[w] for w in (1, 10, 100, 1000, 10_000, 100_000)]
        row = [f"10^{round(math.log10(sites))}", *(_time(r["seconds"]) for r in some)]
        rows.append([*row, f"{some[2]['sent'] + some[2]['received']:.1e}", f"{some[2]['left_bytes']:.1e}"])
    head = ["sites", "1 worker", *(f"{w:,} workers" for w in (10, 100, 1000, 10_000, 100_000))]
    return markdown([*head, "bytes of messages, 100 workers", "bytes of posts"], rows)


def _failures_table(found: list[Record]) -> str:
    rows = []
    for kernel in KERNELS:
        points = newest_points(found, "failures", kernel=kernel)
        points.sort(key=lambda r: r["cluster"]["mtbf"])
        best = points[-1]["seconds"]
        for r in points:
            lost = 100 * r["wasted_seconds"] / r["work_seconds"]
            ended = "gives up" if r["given_up"] else f"{r['seconds'] / best:.2f}"
            rows.append([str(kernel), f"{r['cluster']['mtbf'] / HOUR:g}", f"{r['lost']:,}", f"{lost:.2f}", ended])
    head = ["kernel", "hours between failures of a worker", "blocks lost", "work lost, %", "times as long"]
    return markdown(head, rows)


def _time(seconds: float) -> str:
    for size, unit in ((86400.0 * 365, "years"), (86400.0 * 2, "days"), (HOUR, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / (86400.0 if unit == 'days' else size):.2g} {unit}"
    return f"{seconds:.0f} s"
