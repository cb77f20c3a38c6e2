"""Tables and charts that the sections on 2D and 3D have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dope.paper.ledger import Record
from dope.paper.reported import Claim
from dope.paper.study import EXACT, OURS, PAPER, SERIAL, Bench
from dope.paper.tables import Average, Measure, Runs, delta_after, dice_after, faster_after, mean, median
from dope.report.article import Table, Words
from dope.report.charts import PALETTE, Chart, Series

Cut = tuple[int, int]
"""Blocks, and by how many percent their sides grow."""
Style = Literal["-", "--", ":", "-."]
_INK, _NONE = "#262626", "-"
NOT_DRAWN = "A picture was not drawn"


@dataclass(frozen=True)
class Quantity:
    """What a figure of the paper shows by kernel. `of` measures runs after so many rounds, or at their end."""

    name: str
    title: str
    axis: str
    of: Callable[[int | None], Measure]
    average: Average
    scale: Literal["linear", "log"]


QUANTITIES = (
    Quantity("energy", "Delta E", "delta E (%)", delta_after, mean, "log"),
    # A median: one slow moment of the machine would rule a mean.
    Quantity(
        "time",
        "Relative time",
        "times faster than serial, by the clock",
        faster_after,
        median,
        "log",
    ),
    Quantity("dice", "Dice", "Dice with the exact minimum", dice_after, mean, "linear"),
)


@dataclass(frozen=True)
class Line:
    """How a method is drawn, and after how many rounds it is looked at; None is its end."""

    name: str
    method: str
    rounds: int | None
    style: Style


def what(bench: Bench, runs: Runs, noun: str) -> Words:
    """How much was run."""
    done = [record for record in runs.all if not record.get("skipped")]
    exact = [record for record in done if record["method"] == EXACT]
    sites = [record["sites"] / 1e6 for record in exact] or [0.0]
    small = " Small variants, for a first look: not the paper's sizes." if bench.study.quick else ""
    low, high = f"{min(sites):.1f}", f"{max(sites):.1f}"
    size = low if low == high else f"{low} to {high}"
    nouns = noun if len(runs.cases) == 1 else f"{noun}s"
    return Words(
        f"{len(runs.cases)} {nouns}, {size} million sites, {len(done)} runs on {_listed(runs.processors)}. Threads: "
        f"{_threads(done)}. Size_10 are blocks whose sides grew by 10 %, half of it at either end, so that neighbours "
        f"overlap.{small}"
    )


def _listed(processors: dict[str, int]) -> str:
    """What runs were made on.

    >>> _listed({"Xeon": 3}), _listed({"Xeon": 3, "EPYC": 2})
    ('Xeon', 'Xeon (3) and EPYC (2); times are compared on the same one only')
    """
    if len(processors) < 2:
        return "".join(processors)
    names = " and ".join(f"{name} ({number})" for name, number in processors.items())
    return f"{names}; times are compared on the same one only"


def _threads(done: Sequence[Record]) -> str:
    """How many threads each method had.

    >>> _threads([{"method": EXACT, "workers": 2}, {"method": PAPER, "workers": 1}, {"method": SERIAL}])
    '2 (exact), 1 (paper), 1 (serial)'
    """
    numbers: dict[str, set[int]] = {}
    for record in done:
        numbers.setdefault(record["method"], set()).add(record.get("workers", 1))
    return ", ".join(f"{'/'.join(map(str, sorted(found)))} ({method})" for method, found in numbers.items())


def size_name(cut: Cut) -> str:
    """A size as the paper names it.

    >>> size_name((64, 0))
    'Size_00'
    """
    return f"Size_{cut[1]:02}"


def blocks_name(cut: Cut) -> str:
    """A number of blocks, as a line's name."""
    return f"{cut[0]} blocks"


def by_kernel(
    title: str, runs: Runs, quantity: Quantity, cuts: Sequence[Cut], named: Callable[[Cut], str], lines: Sequence[Line]
) -> Chart:
    """A quantity by kernel: a colour for each cut, a style for each method; the exact minimum is a line of its own."""
    kernels, series = runs.kernels, []
    for color, cut in zip(PALETTE, cuts, strict=False):
        for line in lines:
            columns = [runs.over_cases(quantity.of(line.rounds), kernel, line.method, *cut) for kernel in kernels]
            if any(columns):
                values = [quantity.average(column) for column in columns]
                series.append(Series(f"{named(cut)}, {line.name}", values, color, line.style))
    exact = [quantity.average(runs.over_cases(quantity.of(None), kernel, EXACT, 1, 0)) for kernel in kernels]
    series.append(Series("dope, exact", exact, _INK, "-.", "*"))
    return Chart(f"{quantity.title}, {title}", "kernel", quantity.axis, kernels, series, quantity.scale)


@dataclass(frozen=True)
class Finding:
    """What was measured for a claim of the paper: by its own method, and by dope as it comes."""

    paper: str
    dope: str
    verdict: str


def claims_table(name: str, claims: Sequence[Claim], findings: Sequence[Finding]) -> Table:
    """What the paper says beside what is measured."""
    rows = [
        [claim.about, claim.reported, found.paper, found.dope, found.verdict]
        for claim, found in zip(claims, findings, strict=True)
    ]
    head = ["", "the paper reports", "its ADMM, here", "dope, exact", "does it hold here?"]
    return Table(name, "What the paper reports, and what is measured here.", head, rows, prose=True)


def columns(runs: Runs, of: Measure, average: Average = mean) -> dict[tuple[int, int, int], float]:
    """An average over the cases, of the paper's ADMM, for each kernel and cut that was run."""
    found = {
        (kernel, *cut): average(runs.over_cases(of, kernel, PAPER, *cut))
        for kernel in runs.kernels
        for cut in runs.cuts
    }
    return {place: value for place, value in found.items() if value is not None}


def faster(runs: Runs, rounds: int | None, mark: float, least_kernel: int = 0) -> Finding:
    """Relative times, of kernels from so wide on: of the paper's ADMM and of the exact minimum, beside a mark."""
    wide = [kernel for kernel in runs.kernels if kernel >= least_kernel]
    admm = [v for place, v in columns(runs, faster_after(rounds), median).items() if place[0] in wide]
    medians = {kernel: median(runs.over_cases(faster_after(None), kernel, EXACT, 1, 0)) for kernel in wide}
    exact = {kernel: ratio for kernel, ratio in medians.items() if ratio is not None}
    if not exact:
        return Finding(span(admm, "x"), _NONE, "no serial graph cut to compare with")
    met = [str(kernel) for kernel, ratio in exact.items() if ratio >= mark]
    verdict = f"{mark:g}x and more: its ADMM in {sum(v >= mark for v in admm)} of {len(admm)} settings, "
    verdict += f"the exact minimum at {len(met)} of {len(exact)} kernels ({', '.join(met) or 'none'})"
    return Finding(span(admm, "x"), span([*exact.values()], "x"), verdict)


def span(values: Sequence[float], unit: str = "") -> str:
    """From the least to the most.

    >>> span([0.25, 0.5], " %"), span([0.25], " %"), span([])
    ('0.25 to 0.5 %', '0.25 %', '-')
    """
    if not values:
        return _NONE
    low, high = short(min(values)), short(max(values))
    return f"{low if low == high else f'{low} to {high}'}{unit}"


def short(value: float | None) -> str:
    """Four digits, and no more than needed.

    >>> short(0.00123456), short(23.456), short(0.0), short(None)
    ('0.001235', '23.46', '0', '-')
    """
    return _NONE if value is None else f"{value:.4g}"


def holds(found: dict[tuple[int, int, int], float], good: Callable[[float], bool], limit: str) -> str:
    """In how many settings (a kernel, a number of blocks, a size) something holds, and where not."""
    if not found:
        return "not run"
    bad = [place for place, value in found.items() if not good(value)]
    if not bad:
        return f"yes: {limit} in all {len(found)} settings"
    where = "; ".join(f"kernel {kernel}, {blocks} blocks, {size_name((blocks, size))}" for kernel, blocks, size in bad)
    if len(bad) > 4:
        where = f"kernels {', '.join(sorted({str(kernel) for kernel, _, _ in bad}))}"
    return f"{limit} in {len(found) - len(bad)} of {len(found)} settings; not at {where}"


def against_serial(name: str, runs: Runs) -> Iterator[Words | Table]:
    """Our default beside the serial graph cut, by kernel."""
    head = ["kernel", "cases with both", "serial s", "dope s", "times faster, clock"]
    head += ["times faster, processor time", "serial bytes/site"]
    caption = (
        "dope's default, the exact minimum, beside a serial graph cut (PyMaxflow, Boykov-Kolmogorov) on the same "
        "integers: medians (least to most) of the cases in which both ran, and reached the same energy."
    )
    yield Table(f"{name}-exact", caption, head, [_beside_serial(runs, kernel) for kernel in runs.kernels])
    left_out = runs.left_out(SERIAL)
    if left_out:
        listed = "; ".join(f"{Path(case).stem}, kernel {kernel} ({why})" for (case, kernel), why in left_out.items())
        yield Words(f"The serial graph cut did not run for {listed}.")
    elif not any(record["method"] == SERIAL for record in runs.all):
        yield Words("No serial graph cut was run: its columns are blank. --serial names a script that runs one.")


def _beside_serial(runs: Runs, kernel: int) -> list[str]:
    exact = [record for case in runs.cases if (record := runs.get(case, kernel, EXACT)) is not None]
    both = [(record, serial) for record in exact if (serial := runs.serial_beside(record)) is not None]
    return [
        str(kernel),
        f"{len(both)} of {len(exact)}",
        short(median([s["seconds"] for _, s in both])),
        short(median([e["seconds"] for e, _ in both])),
        _ratios([s["seconds"] / e["seconds"] for e, s in both]),
        _ratios([s["cpu_seconds"] / e["cpu_seconds"] for e, s in both]),
        short(median([s["peak_bytes"] / s["sites"] for _, s in both if s["peak_bytes"]])),
    ]


def _ratios(values: Sequence[float]) -> str:
    if len(values) < 2:
        return short(median(values))
    return f"{short(median(values))} ({min(values):.3g} to {max(values):.3g})"


def cells_table(name: str, runs: Runs, last: int | None) -> Table:
    """Every column of the figures in numbers: the paper's ADMM after a round and after its `last`, and ours."""
    end = "the end" if last is None else f"{last} rounds"
    head = ["kernel", "blocks", "size"]
    head += [
        f"{quantity}, {way}" for quantity in ("delta E %", "Dice", "times faster") for way in ("1 round", end, "ours")
    ]
    rows = [
        [str(kernel), str(cut[0]), size_name(cut), *_cells(runs, kernel, cut, last)]
        for kernel in runs.kernels
        for cut in runs.cuts
    ]
    caption = (
        f"The paper's ADMM after one round and after {end}, each with the best labels of its rounds so far, and ours: "
        "means over the cases, of times (by the clock) medians."
    )
    return Table(f"{name}-cells", caption, [*head, "cases", "of ours", "with serial"], rows)


def _cells(runs: Runs, kernel: int, cut: Cut, last: int | None) -> list[str]:
    ways: list[tuple[str, int | None]] = [(PAPER, 1), (PAPER, last), (OURS, None)]
    quantities: list[tuple[Callable[[int | None], Measure], Average]] = [
        (delta_after, mean),
        (dice_after, mean),
        (faster_after, median),
    ]
    numbers = [
        short(average(runs.over_cases(of(rounds), kernel, method, *cut)))
        for of, average in quantities
        for method, rounds in ways
    ]
    counts = [len(runs.over_cases(delta_after(None), kernel, method, *cut)) for method in (PAPER, OURS)]
    timed = len(runs.over_cases(faster_after(None), kernel, PAPER, *cut))
    return [*numbers, *map(str, counts), str(timed)]


def padded(values: Sequence[float | None], length: int) -> list[float | None]:
    """Values, and None for rounds that there were not."""
    return [*values, *[None] * (length - len(values))]


def finished(runs: Runs, method: str) -> list[Record]:
    """The runs of a method that were not left out."""
    return [record for record in runs.all if record["method"] == method and not record.get("skipped")]
