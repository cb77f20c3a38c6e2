"""`dope plan`: how to cut up a problem for workers, what it takes, and about how long it runs."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from dope.cli.tables import duration, print_rows
from dope.errors import InputError
from dope.executors import Threads
from dope.forecast import (
    Costs,
    Forecast,
    forecast_rounds,
    memory_in_all,
    outline_energy,
    outline_labels,
    plan_for_workers,
)
from dope.forecast.workers import check_size
from dope.io import check_writable
from dope.memory import as_bytes, as_text
from dope.planning import Plan
from dope.planning import plan as planned
from dope.result import counted


def plan(
    shape: Annotated[str, typer.Option(help="Sites along each axis, such as 10000x10000x5000.")],
    kernel: Annotated[int, typer.Option(help="Side of the neighbourhood, odd: 3, 5, 7, 9, ...")] = 3,
    labels: Annotated[int, typer.Option(help="How many labels there are.")] = 2,
    workers: Annotated[int | None, typer.Option(help="How many work at once; by default one per core.")] = None,
    memory: Annotated[
        str | None,
        typer.Option(help="What each of them has, such as 16GB: blocks that fit are read, solved and forgotten."),
    ] = None,
    blocks: Annotated[int | None, typer.Option(help="Number of blocks, instead.")] = None,
    pixel_bytes: Annotated[int, typer.Option(help="Bytes of a pixel, all channels together.")] = 1,
    unary_bytes: Annotated[
        int,
        typer.Option(help="Bytes of a site's unary, or of its probability, in its file; of several labels for each."),
    ] = 4,
    storage: Annotated[
        str | None, typer.Option(help="Bytes per second that all workers together read, such as 10GB.")
    ] = None,
    costs: Annotated[
        str | None, typer.Option(help="File of costs, measured by --measure on a node of the cluster, say.")
    ] = None,
    measure: Annotated[str | None, typer.Option(help="Measure costs here, and write them to this file.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file of --measure that is there.")] = False,
) -> None:
    """Say how a problem of this size would be cut up, and what that takes."""
    sides = shape_from(shape)
    number = Threads().workers if workers is None else workers
    check_size("workers", number, 1)
    sizes = {"kernel": kernel, "pixel_bytes": pixel_bytes, "unary_bytes": unary_bytes}
    energy = outline_energy(sides, **sizes) if labels == 2 else outline_labels(sides, labels, **sizes)
    if labels != 2 and any(one is not None for one in (costs, measure, storage)):
        raise InputError("--costs, --measure and --storage are for two labels; leave --labels out.")
    if memory is None and (costs is not None or storage is not None):
        raise InputError("--costs and --storage are for blocks that are read from files; give --memory, too.")
    measured = _costs(kernel, len(sides), costs, measure, overwrite=overwrite)
    if memory is None:
        executor = None if workers is None else Threads(workers)
        print_rows(_rows(planned(energy, blocks=blocks, executor=executor), "labels"))
        return
    found = plan_for_workers(energy, workers=number, memory=as_bytes(memory), blocks=blocks)
    if labels != 2:
        print_rows({**_rows(found, "labels", "memory"), "memory of a worker": as_text(found.worker_bytes)})
        return
    rate = math.inf if storage is None else as_bytes(storage)
    rounds = forecast_rounds(found, measured or Costs.measured(kernel, len(sides)), storage=rate)
    forecast = forecast_rows(found, rounds)
    print_rows({**_rows(found, "labels", "memory", *forecast), **forecast})


def _rows(plan: Plan, *less: str) -> dict[str, str]:
    """What a plan says, but for some of it."""
    return {name: text for name, text in plan.rows().items() if name not in less}


def _costs(kernel: int, dimensions: int, file: str | None, measure: str | None, *, overwrite: bool) -> Costs | None:
    if file is not None and measure is not None:
        raise InputError("--costs and --measure are both given; expected one of them.")
    if file is not None:
        return Costs.load(file)
    if measure is None:
        return None
    check_writable(measure, overwrite=overwrite, any_suffix=True)
    measured = Costs.measured(kernel, dimensions)
    measured.save(measure, overwrite=overwrite)
    return measured


def forecast_rows(plan: Plan, rounds: list[Forecast]) -> dict[str, str]:
    """What workers take, and for how long."""
    total = sum(one.seconds for one in rounds)
    coordinator = sum(one.coordinator for one in rounds)
    busiest = max(rounds, key=lambda one: one.sent + one.received)
    held = max(one.received for one in rounds) + max(one.sent for one in rounds)
    read, left = (sum(values) for values in zip(*((one.read_bytes, one.left) for one in rounds), strict=True))
    workers = plan.executor.workers
    rows = {
        "memory of a worker": as_text(plan.worker_bytes),
        "memory of the coordinator": f"{as_text(held)} of tasks and replies",
        "read from storage": f"{as_text(read)} in {len(rounds)} rounds, {plan.halo - 1:.1%} of it twice, around blocks",
        "left in the folder": f"{as_text(left)} of posts; checkpoint= names the folder, which all workers see",
        "bytes per round": f"up to {as_text(busiest.sent)} out and {as_text(busiest.received)} back ({busiest.name})",
        "bytes in all rounds": as_text(sum(one.sent + one.received for one in rounds)),
    }
    for name in ("measure", "pass", "rest", "finish"):
        some = [one for one in rounds if one.name.startswith(name)]
        words = {"pass": f"{len(some)} passes", "rest": "what is left"}
        if some:
            rows[f"time, {words.get(name, name)}"] = duration(sum(one.seconds for one in some))
    rows["time"] = f"about {duration(total)} with {counted(workers, 'worker')}"
    rows["coordinator"] = f"at work {duration(coordinator)} of that{_most_workers(coordinator, rounds)}"
    rows["with these blocks"] = f"dope.minimize(..., memory={memory_in_all(workers, plan.block_bytes)})"
    return rows


def _most_workers(coordinator: float, rounds: list[Forecast]) -> str:
    """How many workers take as long as the coordinator."""
    number = round(sum(one.work for one in rounds) / coordinator) if coordinator else 0
    return f", as long as {counted(number, 'worker')}: more of them gain little" if number else ""


def shape_from(text: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(part) for part in text.lower().replace(",", "x").split("x"))
    except ValueError:
        raise InputError(f"--shape is {text!r}; expected numbers with x between them: 10000x10000x5000.") from None
    if any(not 1 <= n < 1 << 31 for n in shape):
        raise InputError(f"--shape is {text!r}; expected 1 to {(1 << 31) - 1} along each axis.")
    return shape
