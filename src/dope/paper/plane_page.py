"""The section on 2D: energy, time and Dice in the paper's two groupings, and photographs to look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dope.paper.cases import PACKAGED_PHOTO, MissingDataError
from dope.paper.parts import (
    NOT_DRAWN,
    QUANTITIES,
    Finding,
    Line,
    against_serial,
    blocks_name,
    by_kernel,
    cells_table,
    claims_table,
    columns,
    faster,
    finished,
    holds,
    padded,
    size_name,
    span,
    what,
)
from dope.paper.reported import DIFFERENT, PLANE
from dope.paper.study import EXACT, OURS, PAPER, SERIAL, Bench, Cell
from dope.paper.tables import Runs, delta_after, dice_after, median
from dope.report.article import Drawn, Section, Table, Words
from dope.report.charts import PALETTE, Chart, Image, Series, figure
from dope.report.pictures import difference, overlay

_LINES = (Line("1 round", PAPER, 1, "--"), Line("3 rounds", PAPER, 3, "-"), Line("our ADMM", OURS, None, ":"))
_WIDE = 7  # the kernel from which on the paper speaks of its speed
_EXAMPLES = 3


def plane_section(bench: Bench) -> Section:
    """What was found on photographs."""
    runs = Runs(bench.ledger.records)
    parts: list[Words | Table | Drawn] = [
        what(bench, runs, "photograph"),
        claims_table("2d-claims", PLANE, _findings(runs)),
        *against_serial("2d", runs),
        *_groupings(runs),
        cells_table("2d", runs, 3),
        *_examples(bench, runs),
        Words(DIFFERENT),
    ]
    return Section("2D: photographs from strokes", parts)


def _findings(runs: Runs) -> list[Finding]:
    first, third = columns(runs, delta_after(1)), columns(runs, delta_after(3))
    dices = columns(runs, dice_after(3))
    return [
        Finding(_with_medians(runs, 1), "0 %", holds(first, lambda v: v <= 0.15, "at most 0.15 %")),
        Finding(_with_medians(runs, 3), "0 %", holds(third, lambda v: v <= 0.015, "at most 0.015 %")),
        Finding(span([*dices.values()]), "1", holds(dices, lambda v: v > 0.99, "above 0.99")),
        faster(runs, 3, 5.0, _WIDE),
    ]


def _with_medians(runs: Runs, rounds: int) -> str:
    """Delta E over all columns. Few photographs make most of a mean, so the medians are beside it."""
    means, medians = columns(runs, delta_after(rounds)), columns(runs, delta_after(rounds), median)
    return f"{span([*means.values()], ' %')}; medians {span([*medians.values()], ' %')}"


def _groupings(runs: Runs) -> Iterator[Drawn]:
    """The paper's two: blocks fixed at 128, and the size fixed at Size_25."""
    fixed_blocks, fixed_size = [cut for cut in runs.cuts if cut[0] == 128], [cut for cut in runs.cuts if cut[1] == 25]
    for quantity in QUANTITIES:
        if quantity.name == "time" and not any(record["method"] == SERIAL for record in runs.all):
            continue  # there is nothing to relate times to
        charts = [
            by_kernel("128 blocks", runs, quantity, fixed_blocks, size_name, _LINES),
            by_kernel("Size_25", runs, quantity, fixed_size, blocks_name, _LINES),
        ]
        caption = (
            f"{quantity.title} by kernel: 128 blocks of three sizes (left), Size_25 in three numbers of blocks "
            "(right). Labels are the best of the rounds so far. Dashed: the paper's ADMM after one round; solid: after "
            "three; dotted: Admm() with our settings."
        )
        yield Drawn(f"2d-{quantity.name}", caption, figure(charts, columns=2))


def _examples(bench: Bench, runs: Runs) -> Iterator[Words | Drawn]:
    """Strokes and minimum, what the paper's ADMM found, where they differ, and the energy by round."""
    for cell in _example_cells(runs):
        try:
            shown = bench.study.picture(cell.case, bench.study.quick)
        except MissingDataError as error:
            yield Words(f"{NOT_DRAWN}: {error}.")
            continue
        exact, found = bench.labels(Cell(cell.case, cell.kernel, EXACT)), bench.labels(cell)
        record = runs.get(cell.case, cell.kernel, PAPER, cell.blocks, cell.size)
        assert record is not None
        parts: list[Chart | Image] = [
            Image("strokes and exact minimum", overlay(shown.image, exact, shown.scribbles, longest=900)),
            Image(f"the paper's ADMM, {cell.blocks} blocks", overlay(shown.image, found, longest=900)),
            Image(f"difference: Dice {record['dice']:.4f}", difference(shown.image, found, exact, longest=900)),
            _energy_by_round(runs, cell),
        ]
        name = Path(cell.case).stem
        caption = (
            f"{name}: kernel {cell.kernel}, {cell.blocks} blocks, {size_name((cell.blocks, cell.size))}; delta E "
            f"{record['delta_percent']:.4f} %, Dice {record['dice']:.4f}. Orange: only the paper's ADMM calls it the "
            "object; blue: only the minimum does."
        )
        yield Drawn(f"2d-example-{name}", caption, figure(parts, columns=2))


def _example_cells(runs: Runs) -> list[Cell]:
    """Runs of the paper's ADMM, near to far off the minimum: the widest kernel up to 7, most blocks, most overlap.

    The photograph that comes with dope is always among them.
    """
    records = [record for record in finished(runs, PAPER) if record["kernel"] <= _WIDE]
    if not records:
        return []
    place = max((r["kernel"], r["blocks"], r["size"]) for r in records)
    chosen = [r for r in records if (r["kernel"], r["blocks"], r["size"]) == place]
    chosen.sort(key=lambda r: float(r["delta_percent"]))
    picked = {round(float(k)) for k in np.linspace(0, len(chosen) - 1, min(_EXAMPLES, len(chosen)))}
    picked |= {k for k, record in enumerate(chosen) if record["case"] == PACKAGED_PHOTO}
    return [Cell(chosen[k]["case"], place[0], PAPER, *place[1:]) for k in sorted(picked)]


def _energy_by_round(runs: Runs, cell: Cell) -> Chart:
    names = {PAPER: "the paper's ADMM", OURS: "our ADMM"}
    found = {method: runs.get(cell.case, cell.kernel, method, cell.blocks, cell.size) for method in names}
    curves = {
        names[method]: [r.get("delta_percent") for r in record["rounds"]]
        for method, record in found.items()
        if record is not None
    }
    longest = max(map(len, curves.values()))
    series = [
        Series(name, padded(values, longest), color)
        for (name, values), color in zip(curves.items(), PALETTE, strict=False)
    ]
    return Chart("energy above the minimum", "round", "delta E (%)", range(1, longest + 1), series, "log")
