"""The section on 3D: ADMM energy, segmentation energy, evolution of y, slices and surfaces."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dope.arrays import Mask
from dope.paper.cases import MissingDataError
from dope.paper.parts import (
    NOT_DRAWN,
    QUANTITIES,
    Cut,
    Finding,
    Line,
    against_serial,
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
from dope.paper.reported import DELTA_BY_KERNEL, DIFFERENT, SWINGS, VOLUME
from dope.paper.study import EXACT, OURS, PAPER, SERIAL, Bench, Cell, fullest
from dope.paper.tables import Runs, delta_after, dice_after
from dope.report.article import Drawn, Section, Table, Words
from dope.report.charts import PALETTE, Chart, Image, Series, figure
from dope.report.pictures import difference, overlay
from dope.report.surface import surface

_LINES = (Line("the paper's", PAPER, None, "-"), Line("our ADMM", OURS, None, ":"))
_PIXELS = 600


def volume_section(bench: Bench) -> Section:
    """What was found in the brain."""
    runs = Runs(bench.ledger.records)
    parts: list[Words | Table | Drawn] = [
        what(bench, runs, "structure"),
        claims_table("3d-claims", VOLUME, _findings(runs)),
        *against_serial("3d", runs),
        *_groupings(runs),
        *_by_round(runs, "3d-admm-energy", "Augmented Lagrangian", "lagrangian"),
        Words(SWINGS),
        *_by_round(runs, "3d-segmentation-energy", "Energy of the labels", "energy"),
        *_relaxed(bench, runs),
        *_examples(bench, runs),
        cells_table("3d", runs, None),
        Words(DIFFERENT),
    ]
    return Section("3D: structures of the brain from soft maps", parts)


def _findings(runs: Runs) -> list[Finding]:
    deltas, dices = columns(runs, delta_after(None)), columns(runs, dice_after(None))
    records = finished(runs, PAPER)
    numbers = [len(record["rounds"]) for record in records]
    agreed = sum(record["stopped"] == "agreed" for record in records)
    return [
        Finding(_by_kernel(deltas), "0 %", _as_reported(deltas)),
        Finding(span([*dices.values()]), "1", holds(dices, lambda v: v >= 0.95, "at least 0.95")),
        Finding(span(numbers), "exact, whatever its rounds", f"blocks agreed in {agreed} of {len(records)} runs"),
        faster(runs, None, 4.0),
    ]


def _by_kernel(deltas: dict[tuple[int, int, int], float]) -> str:
    """The span of each kernel's columns."""
    kernels = sorted({kernel for kernel, _, _ in deltas})
    spans = [f"kernel {k}: {span([v for place, v in deltas.items() if place[0] == k], ' %')}" for k in kernels]
    return "; ".join(spans) or "-"


def _as_reported(deltas: dict[tuple[int, int, int], float]) -> str:
    """Whether the two ends of what the paper reports are met."""
    verdicts = []
    for kernel, most in DELTA_BY_KERNEL.items():
        there = [value for place, value in deltas.items() if place[0] == kernel]
        if there:
            met = sum(value <= most for value in there)
            verdicts.append(f"kernel {kernel}: at most {most:g} % in {met} of {len(there)} settings")
        else:
            verdicts.append(f"kernel {kernel}: not run")
    return "; ".join(verdicts)


def _by_blocks(runs: Runs) -> list[tuple[int, list[Cut]]]:
    return [(blocks, [cut for cut in runs.cuts if cut[0] == blocks]) for blocks in sorted({b for b, _ in runs.cuts})]


def _groupings(runs: Runs) -> Iterator[Drawn]:
    for quantity in QUANTITIES:
        if quantity.name == "time" and not any(record["method"] == SERIAL for record in runs.all):
            continue  # there is nothing to relate times to
        charts = [
            by_kernel(f"{blocks} blocks", runs, quantity, cuts, size_name, _LINES) for blocks, cuts in _by_blocks(runs)
        ]
        if charts:
            caption = (
                f"{quantity.title} by kernel, over the structures, for each number of blocks and each size. Solid: the "
                "best labels of at most 10 rounds of the paper's ADMM; dotted: Admm() with our settings."
            )
            yield Drawn(f"3d-{quantity.name}", caption, figure(charts, columns=2))


def _by_round(runs: Runs, name: str, title: str, entry: str) -> Iterator[Drawn]:
    """What the paper's ADMM comes to round by round, for each structure and number of blocks."""
    charts = [
        chart
        for case in runs.cases
        for blocks, cuts in _by_blocks(runs)
        if (chart := _round_chart(runs, case, blocks, cuts, entry)) is not None
    ]
    if charts:
        caption = (
            f"{title} of the paper's ADMM by round, in percent above the exact minimum. Solid: the widest kernel, by "
            "size; dashed: the other kernels, by the middle size. Without overlap blocks agree in a round or two."
        )
        yield Drawn(name, caption, figure(charts, columns=2))


def _round_chart(runs: Runs, case: str, blocks: int, cuts: list[Cut], entry: str) -> Chart | None:
    kernels = sorted({record["kernel"] for record in finished(runs, PAPER) if record["case"] == case})
    if not kernels:
        return None
    middle = cuts[len(cuts) // 2]
    curves = {
        f"kernel {kernels[-1]}, {size_name(cut)}": _percent_by_round(runs, case, kernels[-1], cut, entry)
        for cut in cuts
    }
    dashed = {f"kernel {kernel}, {size_name(middle)}": (kernel, middle) for kernel in kernels[:-1]}
    curves |= {name: _percent_by_round(runs, case, kernel, cut, entry) for name, (kernel, cut) in dashed.items()}
    curves = {name: values for name, values in curves.items() if values}
    if not curves:
        return None
    longest = max(map(len, curves.values()))
    series = [
        Series(name, padded(values, longest), color, "--" if name in dashed else "-")
        for (name, values), color in zip(curves.items(), PALETTE, strict=False)
    ]
    return Chart(f"{case}, {blocks} blocks", "round", "% above the minimum", range(1, longest + 1), series, "log")


def _percent_by_round(runs: Runs, case: str, kernel: int, cut: Cut, entry: str) -> list[float | None]:
    record = runs.get(case, kernel, PAPER, *cut)
    if record is None:
        return []
    least = float(record["exact_energy"])
    values = [r.get(entry) for r in record["rounds"]]
    return [None if value is None else 100 * (value - least) / abs(least) for value in values]


def _relaxed(bench: Bench, runs: Runs) -> Iterator[Words | Drawn]:
    """The relaxed consensus after rounds 1 to 5 and the last, as heat maps."""
    for cell in _shown_cells(runs):
        try:
            planes = bench.relaxed(cell)
        except MissingDataError as error:
            yield Words(f"{NOT_DRAWN}: {error}.")
            continue
        window = _busiest(np.mod(next(iter(planes.values())), 1.0) != 0.0)
        images = [
            Image(f"round {number}", np.rot90(plane[window].astype(np.float32))) for number, plane in planes.items()
        ]
        caption = (
            f"Relaxed y of {cell.case}, kernel {cell.kernel}, {cell.blocks} blocks, "
            f"{size_name((cell.blocks, cell.size))}, in the part of a plane where blocks differ most: 0 is background, "
            "1 the object; in between blocks do not agree."
        )
        yield Drawn(f"3d-relaxed-{_file_name(cell)}", caption, figure(images, columns=3))


def _busiest(places: Mask, share: float = 0.4) -> tuple[slice, slice]:
    """The window, of this share of both sides, that holds most of the places."""
    sides = [max(1, round(n * share)) for n in places.shape]
    sums = np.pad(places.cumsum(axis=0, dtype=np.int64).cumsum(axis=1), ((1, 0), (1, 0)))
    a, b = sides
    held = sums[a:, b:] - sums[:-a, b:] - sums[a:, :-b] + sums[:-a, :-b]
    row, column = np.unravel_index(int(held.argmax()), held.shape)
    return slice(int(row), int(row) + a), slice(int(column), int(column) + b)


def _shown_cells(runs: Runs) -> Iterator[Cell]:
    """For each structure a run of the paper's ADMM: the widest kernel, the fewest blocks, Size_10."""
    for case in runs.cases:
        found = [record for record in finished(runs, PAPER) if record["case"] == case]
        if found:
            best = max(found, key=lambda r: (r["kernel"], -r["blocks"], r["size"] == 10))
            yield Cell(case, best["kernel"], PAPER, best["blocks"], best["size"])


def _examples(bench: Bench, runs: Runs) -> Iterator[Words | Drawn]:
    """Slices and surfaces: the paper's ADMM, the exact minimum, which a serial graph cut finds too, the difference."""
    for cell in _shown_cells(runs):
        try:
            shown = bench.study.picture(cell.case, bench.study.quick)
        except MissingDataError as error:
            yield Words(f"{NOT_DRAWN}: {error}.")
            continue
        minimum = "dope, exact" + " = serial" * (runs.get(cell.case, cell.kernel, SERIAL) is not None)
        exact, found = bench.labels(Cell(cell.case, cell.kernel, EXACT)), bench.labels(cell)
        at = fullest(exact)
        image, ours, theirs = (np.rot90(array[..., at]) for array in (shown.image, exact, found))
        record = runs.get(cell.case, cell.kernel, PAPER, cell.blocks, cell.size)
        assert record is not None
        apart = found != exact
        nothing = np.full((_PIXELS, _PIXELS, 3), 18, np.uint8)
        parts = [
            Image("the paper's ADMM", overlay(image, theirs, longest=_PIXELS, zoom=3)),
            Image(minimum, overlay(image, ours, longest=_PIXELS, zoom=3)),
            Image(f"difference: Dice {record['dice']:.4f}", difference(image, theirs, ours, longest=_PIXELS, zoom=3)),
            Image("the paper's ADMM", surface(found, longest=_PIXELS)),
            Image(minimum, surface(exact, longest=_PIXELS)),
            Image("what differs", surface(apart, longest=_PIXELS) if apart.any() else nothing),
        ]
        caption = (
            f"{cell.case}, kernel {cell.kernel}, {cell.blocks} blocks, {size_name((cell.blocks, cell.size))}: a slice "
            "and the surfaces. Orange: only the paper's ADMM; blue: only the minimum."
        )
        yield Drawn(f"3d-surfaces-{_file_name(cell)}", caption, figure(parts, columns=3))


def _file_name(cell: Cell) -> str:
    return cell.case.replace(" ", "-")
