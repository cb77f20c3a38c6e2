"""What docs/scaling.md shows: figures of the lines."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from lines import Record
from simulate_curves import HOUR, KERNELS, SIZES, newest_points
from tables import BLUE, GREY, ORANGE

# From light to dark, told apart in grey too.
SHADES = ("#a6cee3", "#56b4e9", "#0072b2", "#004c77", "#001f33")


def figures(found: list[Record], folder: Path) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # A figure of its own, never pyplot: no window system. Without date and random names the same lines draw the same.
    with mpl.rc_context({"svg.hashsalt": "dope", "svg.fonttype": "path", "font.size": 9}):
        for name, draw, columns in (
            ("scaling_workers", _draw_workers, 2),
            ("scaling_coordinator", _draw_kernels, 1),
            ("scaling_blocks", _draw_blocks, 1),
            ("scaling_failures", _draw_failures, 1),
        ):
            drawn = Figure(figsize=(5.0 * columns, 3.6), layout="constrained")
            draw(drawn.subplots(1, columns, squeeze=False)[0], found)
            folder.mkdir(parents=True, exist_ok=True)
            drawn.savefig(folder / f"{name}.svg", metadata={"Date": None})


def _draw_workers(panels: Any, found: list[Record]) -> None:
    for sites, color in zip(SIZES, SHADES, strict=True):
        points = newest_points(found, "workers", about=sites)
        workers = [r["cluster"]["workers"] for r in points]
        label = f"10^{round(math.log10(sites))} sites"
        panels[0].loglog(workers, [r["seconds"] / HOUR for r in points], color=color, label=label)
        panels[1].semilogx(workers, [100 * r["efficiency"] for r in points], color=color)
    panels[0].set_ylabel("hours")
    panels[1].set_ylabel("of the workers' time at work, %")
    panels[0].set_ylim(top=1e5)
    panels[0].legend(frameon=False, ncols=3, loc="upper center", fontsize=8)
    for axes in panels:
        axes.set_xlabel("workers, kernel 3")
        axes.grid(alpha=0.3)


def _draw_kernels(panels: Any, found: list[Record]) -> None:
    axes = panels[0]
    for kernel, color in zip(KERNELS, SHADES[1::2], strict=True):
        points = newest_points(found, "kernels", kernel=kernel)
        workers = [r["cluster"]["workers"] for r in points]
        axes.semilogx(workers, [100 * r["efficiency"] for r in points], "o-", ms=3, color=color, label=str(kernel))
    axes.axhline(50, color=GREY, lw=0.8)
    axes.set_xlabel("workers, 10^12 sites")
    axes.set_ylabel("of the workers' time at work, %")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, title="kernel")


def _draw_blocks(panels: Any, found: list[Record]) -> None:
    axes = panels[0]
    points = newest_points(found, "blocks")
    sides = [math.prod(r["block_shape"]) ** (1 / 3) for r in points]
    axes.semilogx(sides, [r["seconds"] / HOUR for r in points], "o-", ms=3, color=BLUE)
    for r, side in zip(points, sides, strict=True):
        place = (side, r["seconds"] / HOUR)
        axes.annotate(r["memory"], place, textcoords="offset points", xytext=(0, 5), fontsize=7, ha="center")
    axes.set_xlabel("side of a block, and memory of a worker; 100 workers")
    axes.set_xticks([200, 300, 400, 600, 800, 1100], ["200", "300", "400", "600", "800", "1100"])
    axes.minorticks_off()
    axes.set_ylabel("hours")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)


def _draw_failures(panels: Any, found: list[Record]) -> None:
    axes = panels[0]
    for kernel, color in zip(KERNELS, (BLUE, ORANGE), strict=True):
        points = sorted(newest_points(found, "failures", kernel=kernel), key=lambda r: r["cluster"]["mtbf"])
        hours = [r["cluster"]["mtbf"] / HOUR for r in points]
        axes.loglog(hours, [r["seconds"] / points[-1]["seconds"] for r in points], "o-", ms=3, color=color)
        given_up = [
            (h, r["seconds"] / points[-1]["seconds"]) for h, r in zip(hours, points, strict=True) if r["given_up"]
        ]
        axes.plot(*zip(*given_up, strict=True), "x", color="black") if given_up else None
        axes.plot([], [], color=color, label=f"kernel {kernel}")
    axes.set_xlabel("hours between failures of a worker; 1000 workers")
    axes.plot([], [], "x", color="black", label="a block is lost ten times")
    axes.set_ylabel("times as long as with one in 1000 hours")
    axes.grid(alpha=0.3, which="both")
    axes.legend(frameon=False)
